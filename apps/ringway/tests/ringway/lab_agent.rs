//! `ringway lab agent` in the built program, on loopback.
//!
//! Tested: the key and its file; the commands of its page; a server that the agent starts with CPU time and memory in the results; one that it
//! watches; an agent that goes away in the middle of a campaign; a server with TLS; another key, programs that are not on its list, bad usage; several generators and the sum of their results. Not tested
//! here: two machines (`cargo xtask interop --only lab/agent`), Kamailio at an agent (there too).

use crate::documents::block;
use crate::lab_run::ONE_AT_A_TIME;
use crate::program::{Done, Running};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;
use tempfile::TempDir;

const SMALL: &str = "scenario = \"update\"\ntransports = [\"udp\", \"tcp\"]\ndigests = [\"MD5\"]\nrates = [40]\nusers = 20\n\
                     quick_seconds = 0.5\nfail_if = [\"success<1%\"]\n";

/// Folder with an experiment `own.toml` and a key `agent.key`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), SMALL).unwrap();
    ringway(&folder, &["lab", "agent", "init"]).ok();
    folder
}

fn ringway(folder: &TempDir, args: &[&str]) -> Done {
    Running::start(folder.path(), args, "").done()
}

/// A running agent, and its address.
fn agent(folder: &TempDir, more: &[&str]) -> (Running, String) {
    let args = [&["lab", "agent", "--key", "agent.key", "--listen", "127.0.0.1:0"], more].concat();
    let agent = Running::start(folder.path(), &args, "");
    let address = agent.listener("tcp");
    (agent, address)
}

fn campaign(folder: &TempDir, targets: &[&str], more: &[&str]) -> Running {
    let mut args =
        vec!["lab", "run", "./own.toml", "--quick", "--out", "results", "--agent-key", "agent.key"];
    args.extend(targets.iter().flat_map(|target| ["--target", *target]));
    args.extend(more);
    Running::start(folder.path(), &args, "")
}

fn records(folder: &TempDir, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.path().join("results/results.jsonl")).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.filter(|record| record["record"] == kind).collect()
}

/// Number of variants with trials: on a busy machine a trial is invalid, and repeated.
fn variants(trials: &[Value]) -> usize {
    trials.iter().map(|trial| trial["variant"].as_str().unwrap()).collect::<BTreeSet<_>>().len()
}

fn has_children(parent: u32) -> bool {
    let output = Command::new("ps").args(["-o", "pid=", "--ppid", &parent.to_string()]).output().unwrap();
    !output.stdout.trim_ascii().is_empty()
}

#[test]
fn a_server_at_an_agent_is_measured_with_its_cpu_time_and_memory() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder();
    let (agent, address) = agent(&folder, &["--allow", "ringway"]);
    let target = format!("ringway@{address}");
    let done = campaign(&folder, &[&target], &[]).done();
    assert_eq!(done.status, 0, "{done:?}");
    let trials = records(&folder, "measurement");
    assert_eq!(variants(&trials), 2, "{done:?}");
    for trial in &trials {
        assert_eq!(
            (&trial["target"], &trial["successes"]),
            (&Value::from(&*target), &trial["started"]),
            "{trial}"
        );
        assert!(trial["challenges"].as_u64().unwrap() > 0, "{trial}");
        assert!(trial["server_cpu_us"].as_f64().unwrap() > 1.0, "{trial}");
        assert!(trial["server_memory_kb"].as_u64().unwrap() > 1000, "{trial}");
    }
    let described = &records(&folder, "target")[0];
    assert!(described["machine"].as_str().unwrap().contains("Linux"), "{described}");
    assert!(described["version"].as_str().unwrap().starts_with("ringway "), "{described}");
    assert!(described["settings"].as_str().unwrap().contains("algorithms = [\"MD5\"]"), "{described}");
    let command = &records(&folder, "experiment")[0]["command"];
    assert!(command.as_str().unwrap().ends_with("--agent-key agent.key"), "{command}");
    // Its servers ended with the campaign.
    agent.says("started ringway on port");
    assert!(!has_children(agent.id()));
    agent.end();
    assert_eq!(agent.wait(), 0);
    assert!(!agent.said().contains("not served"), "{}", agent.said());
}

#[test]
fn a_server_with_tls_at_an_agent_is_measured() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder();
    // Connections to the server, and from it to the called users; certificates of both sides.
    let experiment = "scenario = \"call\"\nrates = [10]\nusers = 20\nquick_seconds = 0.5\n\
                      fail_if = [\"success<1%\"]\n[[variant]]\ntransport = \"tls\"\ndigest = \"MD5\"\nmutual = true\ncalled = \"contact\"\n\
                      [[variant]]\ntransport = \"tls\"\nversion = \"1.0\"\n";
    fs::write(folder.path().join("own.toml"), experiment).unwrap();
    let (agent, address) = agent(&folder, &["--allow", "ringway"]);
    let target = format!("ringway@{address}");
    let done = campaign(&folder, &[&target], &[]).done();
    let trials = records(&folder, "measurement");
    let mutual: Vec<&Value> =
        trials.iter().filter(|trial| trial["variant"].as_str().unwrap().contains("mutual")).collect();
    assert!(!mutual.is_empty(), "{done:?}");
    for trial in mutual {
        assert_eq!(trial["successes"], trial["started"], "{trial} {done:?}");
        let tls = &trial["tls"];
        let count = |name: &str| tls[name].as_u64().unwrap_or_default();
        assert!(count("full") + count("resumed") > 0, "{trial}");
        assert!(count("accepted_full") + count("accepted_resumed") > 0 && count("failed") == 0, "{trial}");
        assert!(trial["server_cpu_us"].as_f64().unwrap() > 1.0, "{trial}");
    }
    // A version that neither this build nor the agent's has is a row that says so.
    if cfg!(not(feature = "legacy-tls")) {
        let failed = records(&folder, "failed");
        let error = failed[0]["error"].as_str().unwrap();
        assert!(error.starts_with("not available: TLS 1.0") && failed.len() == 1, "{failed:?}");
    }
    assert_eq!(done.status, 0, "{done:?}");
    agent.end();
    assert_eq!(agent.wait(), 0);
}

#[test]
fn an_agent_that_goes_away_ends_its_rows_and_not_the_campaign() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder();
    let (agent, address) = agent(&folder, &["--allow", "ringway"]);
    let target = format!("ringway@{address}");
    let running = campaign(&folder, &[&target, "ringway"], &["--seconds", "4"]);
    running.says(&format!("{target}: 40/s"));
    agent.end();
    assert_eq!(agent.wait(), 0);
    let done = running.done();
    assert_eq!(done.status, 1, "{done:?}");
    let failed = records(&folder, "failed");
    let errors: Vec<&str> = failed.iter().map(|failure| failure["error"].as_str().unwrap()).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed.iter().all(|failure| failure["target"] == *target), "{failed:?}");
    assert!(errors[0].starts_with(&format!("the agent at {address} went away")), "{errors:?}");
    // The next variant asks again.
    assert!(errors[1].starts_with(&format!("the agent at {address}: cannot connect")), "{errors:?}");
    let trials = records(&folder, "measurement");
    assert!(variants(&trials) == 2 && trials.iter().all(|trial| trial["target"] == "ringway"), "{trials:?}");
    assert_eq!(records(&folder, "end")[0]["interrupted"], false);
}

#[test]
fn a_running_server_is_watched_by_its_agent() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder();
    fs::write(folder.path().join("own.toml"), SMALL.replace("\"MD5\"", "\"none\"").replace(", \"tcp\"", ""))
        .unwrap();
    let configuration = "domains = [\"localhost\"]\nlisten = [\"udp:127.0.0.1:0\"]\n[store]\nurl = \"memory:\"\n[auth]\n\
                         enabled = false\n[limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(folder.path().join("ringway.toml"), configuration).unwrap();
    let server = Running::start(folder.path(), &["serve"], "");
    let port = server.address().rsplit(':').next().unwrap().to_owned();
    let watch = format!("mine={}:{port}", server.id());
    let (agent, address) = agent(&folder, &["--watch", &watch]);
    let done = campaign(&folder, &[&format!("mine@{address}"), &format!("other@{address}")], &[]).done();
    assert_eq!(done.status, 1, "{done:?}");
    let trial = &records(&folder, "measurement")[0];
    assert_eq!(trial["successes"], trial["started"], "{trial} {done:?}");
    assert!(trial["server_cpu_us"].as_f64().unwrap() > 1.0, "{trial}");
    assert!(trial["server_memory_kb"].as_u64().unwrap() > 1000, "{trial}");
    let failed = &records(&folder, "failed")[0];
    assert!(
        failed["error"].as_str().unwrap().contains("is not on the agent's list, which has mine"),
        "{failed}"
    );
    // It was not stopped.
    drop(agent);
    assert!(!server.show("stats").is_null());
}

#[test]
fn another_key_and_what_is_not_on_the_list_are_refused() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder();
    let (agent, address) = agent(&folder, &["--allow", "ringway"]);
    let done = campaign(&folder, &[&format!("kamailio@{address}")], &[]).done();
    assert_eq!((done.status, records(&folder, "measurement").len()), (1, 0), "{done:?}");
    let failed = &records(&folder, "failed")[0];
    assert!(
        failed["error"].as_str().unwrap().contains("is not on the agent's list, which has ringway"),
        "{failed}"
    );
    fs::rename(folder.path().join("results"), folder.path().join("earlier")).unwrap();
    fs::rename(folder.path().join("agent.key"), folder.path().join("old.key")).unwrap();
    ringway(&folder, &["lab", "agent", "init"]).ok();
    let done = campaign(&folder, &[&format!("ringway@{address}")], &[]).done();
    assert_eq!((done.status, records(&folder, "measurement").len()), (1, 0), "{done:?}");
    let failed = &records(&folder, "failed")[0];
    assert!(failed["error"].as_str().unwrap().contains("its key is another one"), "{failed}");
    agent.end();
    assert_eq!(agent.wait(), 0);
    assert!(agent.said().contains("connections that were not served: 2 without the key"), "{}", agent.said());
}

#[test]
fn a_key_is_private_and_bad_usage_is_refused() {
    let folder = folder();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("agent.key"), 0o600);
    let refused = |args: &[&str], status: i32| {
        Running::start(folder.path(), &[&["lab"], args].concat(), "").done().refused(status)
    };
    assert!(refused(&["agent", "init"], 1).contains("a key is not overwritten"));
    let said = ringway(&folder, &["lab", "agent", "init", "--out", "other.key"]).ok();
    assert!(
        said.contains("ringway lab agent --key other.key --listen") && mode("other.key") == 0o600,
        "{said}"
    );
    assert!(refused(&["agent"], 2).contains("--key"));
    assert!(refused(&["agent", "--key", "agent.key"], 2).contains("list is empty"));
    assert!(refused(&["agent", "--key", "own.toml", "--allow", "ringway"], 2).contains("own.toml"));
    assert!(refused(&["agent", "--key", "agent.key", "--allow", "sh"], 2).contains("give one of ringway"));
    assert!(refused(&["agent", "--key", "agent.key", "--watch", "pbx"], 2).contains("NAME=PROCESS:PORT"));
    let run = |more: &[&str]| refused(&[&["run", "./own.toml", "--target"], more].concat(), 2);
    assert!(run(&["ringway@127.0.0.1:8061"]).contains("--agent-key FILE"));
    assert!(run(&["ringway@10.9.8.7:8061", "--agent-key", "agent.key"]).contains("--allow-remote 10.9.8.7"));
    fs::set_permissions(folder.path().join("agent.key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(run(&["ringway@127.0.0.1:8061", "--agent-key", "agent.key"]).contains("chmod 600"));
    assert!(!folder.path().join("results").exists());
}

const PAGE: &str = include_str!("../../../../docs/reference/lab-agent.md");

#[test]
fn generators_of_the_page_start_together_and_their_results_are_added() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = tempfile::tempdir().unwrap();
    let users =
        ["a", "b"].map(|of| (0..100).map(|number| format!("{of}{number:07},secret\n")).collect::<String>());
    fs::write(folder.path().join("users.csv"), format!("username,password\n{}", users.concat())).unwrap();
    fs::write(folder.path().join("lab.password"), "secret").unwrap();
    let configuration =
        "listen = [\"udp:127.0.0.1:0\"]\n[limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    fs::write(folder.path().join("ringway.toml"), configuration).unwrap();
    ringway(&folder, &["user", "import", "users.csv"]).ok();
    let server = Running::start(folder.path(), &["serve"], "");
    symlink(env!("CARGO_BIN_EXE_ringway"), folder.path().join("ringway")).unwrap();
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 5;
    let generator = |name: &str| {
        let mut blocks =
            PAGE.split("\n```\n").filter(|block| block.trim_end().ends_with(&format!("> {name}.json")));
        let block = blocks
            .next()
            .unwrap()
            .trim_end()
            .replace("$ ", "")
            .replace("2026-01-31T12:00:00Z", &at.to_string());
        // Of fewer than 100 attempts the lag is not judged: this machine may be busy.
        block.replace("127.0.0.1:5060", &server.address()).replace("--rate 50", "--rate 40")
    };
    let sum = block(PAGE, "$ ringway lab sum").replace("$ ", "");
    let script = format!("PATH=$PWD:$PATH; {} &\n{}\nwait\n{sum}", generator("a"), generator("b"));
    let mut command = Command::new("bash");
    command.args(["-c", &script]);
    let done = Running::run(command, folder.path(), &[], "").0.done();
    assert_eq!(done.status, 0, "{done:?}");
    assert!(
        done.out.contains("2 generators, started within") && done.out.contains("160 attempts started"),
        "{done:?}"
    );
    assert!(done.out.contains("160 (100.00 %), none failed"), "{done:?}");
    let sum = ringway(&folder, &["lab", "sum", "a.json", "b.json", "--json"]).json();
    assert_eq!(
        (&sum["outcomes"]["success"], &sum["generators"]),
        (&Value::from(160), &Value::from(2)),
        "{sum}"
    );
    assert!(sum["starts_apart_s"].as_f64().unwrap() < 1.0 && sum["faults"] == serde_json::json!([]), "{sum}");
    let [low, high] = [0, 1].map(|end| sum["delays_between"]["response_ms"]["p99"][end].as_f64().unwrap());
    assert!(0.0 < low && low <= high, "{sum}");

    let late =
        ringway(&folder, &["lab", "load", &server.address(), "--prefix", "a", "--start-at", "1000000000"]);
    assert!(late.status == 1 && late.err.contains("--start-at: the time was"), "{late:?}");
    let no_result = ringway(&folder, &["lab", "sum", "a.json", "users.csv"]).refused(2);
    assert!(no_result.contains("users.csv: it has no result"), "{no_result}");
}

#[test]
fn the_commands_of_the_page_measure_a_server() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_ringway"), folder.path().join("ringway")).unwrap();
    let shell = |script: &str| {
        let script = script.replace("$ ", "").replace("192.0.2.1", "127.0.0.1");
        let mut command = Command::new("bash");
        command.args(["-c", &format!("PATH=$PWD:$PATH; {script}")]);
        Running::run(command, folder.path(), &[], "").0
    };
    shell(block(PAGE, "$ ringway lab agent init")).done().ok();
    let serve = block(PAGE, "$ ringway lab agent --key").replace("$ ", "exec ").replace(":8061", ":0");
    let agent = shell(&serve);
    let address = agent.listener("tcp");
    let run = block(PAGE, "$ ringway lab run");
    // Shorter than on the page.
    let run = run
        .trim_end()
        .replace("lab run call", "lab run call --transport udp --digest none --quick --seconds 0.3");
    let run = run.replace("192.0.2.1:8061", &address);
    let done = shell(&run).done();
    assert_eq!(done.status, 0, "{done:?}");
    let results = fs::read_dir(folder.path().join("results")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(results.join("results.jsonl")).unwrap();
    assert!(
        text.contains(&format!("\"target\":\"ringway@{address}\"")) && text.contains("server_cpu_us"),
        "{text}"
    );
    assert!(Path::new(&folder.path().join("agent.key")).is_file());
    agent.end();
    assert_eq!(agent.wait(), 0);
}
