//! `ringway lab run` in the built program.
//!
//! Tested: records of a campaign over UDP and TCP with digest, a starved generator, idle connections, targets that do not answer, answer nonsense or
//! are killed, a stop by a signal, faults of an experiment file, results of another machine. Not tested here: Kamailio
//! (`cargo xtask interop lab/run-kamailio`), figures, which depend on the machine.

use crate::program::{Done, Running, Signal, send_signal};
use ringway_test_support::programs::has;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use tempfile::TempDir;

/// The campaigns measure on fixed processors; two at once would only wait for each other.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const SMALL: &str = "title = \"Small\"\nscenario = \"update\"\ntransports = [\"udp\", \"tcp\"]\ndigests = [\"SHA-256\"]\n\
                     rates = [40]\nusers = 20\nquick_seconds = 0.5\nfail_if = [\"success<1%\"]\n";

/// Folder with an experiment `own.toml`.
fn folder(experiment: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), experiment).unwrap();
    folder
}

fn start(folder: &TempDir, more: &[&str]) -> Running {
    let args = [&["lab", "run", "./own.toml", "--quick", "--out", "results"], more].concat();
    Running::start(folder.path(), &args, "")
}

fn records(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("results/results.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["record"] == kind).collect()
}

#[test]
fn a_campaign_measures_its_variants_and_writes_every_trial() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(SMALL);
    let done = start(&folder, &[]).done();
    let records = records(folder.path());
    assert_eq!(done.status, 0, "{done:?}");
    assert!(done.out.contains("own: Small") && done.out.contains("indicative"), "{}", done.out);
    assert_eq!(records[0]["record"], "campaign");
    assert_eq!((records[0]["quick"].as_bool(), records[0]["format"].as_u64()), (Some(true), Some(1)));
    assert_eq!(of_kind(&records, "baseline")[0]["successes"], 40);
    assert!(of_kind(&records, "target")[0]["settings"].as_str().unwrap().contains("SHA-256"));
    let experiment = of_kind(&records, "experiment")[0];
    assert_eq!(experiment["command"], "ringway lab run ./own.toml --target ringway --quick");
    let variants: Vec<&str> = of_kind(&records, "measurement")
        .iter()
        .map(|trial| {
            assert_eq!(trial["successes"], trial["started"], "{trial}");
            assert!(trial["server_cpu_us"].as_f64().unwrap() > 1.0, "{trial}");
            assert_eq!(trial["valid"].as_bool().unwrap(), trial["invalid_because"] == "", "{trial}");
            trial["variant"].as_str().unwrap()
        })
        .collect();
    assert!(
        variants.contains(&"udp, digest SHA-256") && variants.contains(&"tcp, digest SHA-256"),
        "{variants:?}"
    );
    let end = records.last().unwrap();
    assert_eq!((&end["record"], &end["interrupted"]), (&Value::from("end"), &Value::from(false)));
}

#[test]
fn a_generator_that_is_the_bottleneck_is_found_out() {
    let _alone = ONE_AT_A_TIME.lock();
    // No thread starts a million attempts a second.
    let folder = folder(&SMALL.replace("\"udp\", \"tcp\"", "\"udp\"").replace("[40]", "[1000000]"));
    let done = start(&folder, &["--seconds", "0.1"]).done();
    let records = records(folder.path());
    let trials = of_kind(&records, "measurement");
    assert_eq!(trials.len(), 2, "an invalid trial is repeated once: {done:?}");
    for trial in trials {
        assert_eq!(trial["valid"], false, "{trial}");
        assert!(!trial["invalid_because"].as_str().unwrap().is_empty(), "{trial}");
    }
    assert!(done.out.contains("INVALID, not counted"), "{}", done.out);
}

#[test]
fn idle_connections_cost_memory() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder("chart = \"idle\"\nconnections = 50\n");
    let done = start(&folder, &["--seconds", "0.2"]).done();
    assert_eq!(done.status, 0, "{done:?}");
    let records = records(folder.path());
    let idle = &of_kind(&records, "measurement")[0]["idle"];
    assert_eq!(idle["connections"], 50);
    assert!(idle["cpu_us_to_open"].as_f64().unwrap() > 1.0, "{idle}");
    assert!(done.out.contains("50 connections: "), "{}", done.out);
    // The command of the results makes the same ones.
    let args = ["lab", "run", "./own.toml", "--quick", "--seconds", "0.2", "--out", "again"];
    let more = ["--compare", "results", "--fail-if", "p99>1s", "--sources", "2", "--domain", "example.org"];
    let done = Running::start(folder.path(), &[&args[..], &more].concat(), "").done();
    let text = fs::read_to_string(folder.path().join("again/results.jsonl")).unwrap();
    let command = "ringway lab run ./own.toml --target ringway --quick --seconds 0.2 --sources 2 --domain example.org \
                   --fail-if 'p99>1s' --compare results";
    assert!(text.contains(&format!("\"command\":\"{command}\"")), "{done:?} {text}");
}

#[test]
fn targets_that_fail_have_a_line_and_the_others_go_on() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(&SMALL.replace("\"udp\", \"tcp\"", "\"udp\""));
    let (nobody, nonsense) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = |socket: &UdpSocket| socket.local_addr().unwrap().to_string();
    let (silent, foolish) = (address(&nobody), address(&nonsense));
    std::thread::spawn(move || {
        while let Ok((_, from)) = nonsense.recv_from(&mut [0; 4096]) {
            let _ = nonsense.send_to(b"hello", from);
        }
    });
    let done = start(&folder, &["--target", &silent, "--target", &foolish, "--target", "ringway"]).done();
    assert_eq!(done.status, 1, "{done:?}");
    let records = records(folder.path());
    let errors: Vec<&str> =
        of_kind(&records, "failed").iter().map(|failed| failed["error"].as_str().unwrap()).collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[0].contains("does not answer OPTIONS") && errors[0].contains(&silent), "{errors:?}");
    assert!(errors[1].contains("no SIP response") && errors[1].contains("hello"), "{errors:?}");
    assert!(of_kind(&records, "measurement").iter().all(|trial| trial["target"] == "ringway"));
    assert!(!of_kind(&records, "measurement").is_empty());
}

/// Children of the process, of which the server is the youngest.
fn children(parent: u32) -> Vec<u32> {
    let output = Command::new("ps").args(["-o", "pid=", "--ppid", &parent.to_string()]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(|id| id.parse().unwrap()).collect()
}

#[test]
fn a_server_that_is_killed_ends_its_experiment_and_keeps_the_results() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(&SMALL.replace("\"udp\", \"tcp\"", "\"udp\"").replace("[40]", "[20, 40]"));
    let running = start(&folder, &["--seconds", "2"]);
    running.says("ringway: 40/s");
    // The users are registered, and some attempts made.
    std::thread::sleep(std::time::Duration::from_millis(700));
    let servers = children(running.id());
    assert_eq!(servers.len(), 1, "{servers:?}");
    send_signal(servers[0], Signal::KILL).unwrap();
    let done = running.done();
    assert_eq!(done.status, 1, "{done:?}");
    let records = records(folder.path());
    let failed = of_kind(&records, "failed");
    assert!(failed[0]["error"].as_str().unwrap().contains("the server ended"), "{failed:?}");
    assert_eq!(of_kind(&records, "measurement")[0]["rate"], 20.0);
    assert_eq!(records.last().unwrap()["interrupted"], false);
}

#[test]
fn a_signal_ends_a_campaign_with_its_results() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(&SMALL.replace("[40]", "[20, 40]"));
    let running = start(&folder, &["--seconds", "2"]);
    running.says("ringway: 40/s");
    running.signal(Signal::INT);
    let done: Done = running.done();
    assert_eq!(done.status, 1, "{done:?}");
    assert!(done.err.contains("interrupted; the results so far are kept"), "{}", done.err);
    assert!(done.out.contains("own: Small"), "{}", done.out);
    let records = records(folder.path());
    assert_eq!(of_kind(&records, "measurement")[0]["rate"], 20.0);
    assert_eq!(records.last().unwrap()["interrupted"], true);
    // The results are a report, which says that they are not complete.
    Running::start(folder.path(), &["lab", "report", "results"], "").done().ok();
    let report = fs::read_to_string(folder.path().join("results/report.html")).unwrap();
    assert!(
        report.contains("Interrupted: the campaign was stopped") && report.trim_end().ends_with("</html>"),
        "{report}"
    );
}

#[test]
fn a_server_that_talks_nonsense_in_the_middle_ends_its_experiment() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(&SMALL.replace("\"udp\", \"tcp\"", "\"udp\"").replace("\"SHA-256\"", "\"none\""));
    let (target, _) = peer(|request| match request.starts_with("OPTIONS") {
        true => Some(answer(request, "")),
        false => Some("hello".to_owned()),
    });
    let done = start(&folder, &["--target", &target, "--target", "opensips", "--target", "ringway"]).done();
    assert_eq!(done.status, 1, "{done:?}");
    let records = records(folder.path());
    let failed = of_kind(&records, "failed");
    assert_eq!((failed.len(), &failed[0]["target"]), (1, &Value::from(target)), "{failed:?}");
    assert!(!failed[0]["error"].as_str().unwrap().is_empty(), "{failed:?}");
    assert!(of_kind(&records, "measurement").iter().all(|trial| trial["target"] == "ringway"));
    assert!(!of_kind(&records, "measurement").is_empty());
    if !Path::new("/usr/sbin/opensips").exists() {
        assert!(done.err.contains("opensips is not installed"), "{done:?}");
    }
}

#[test]
fn a_signal_while_users_are_registered_is_no_failure_of_the_server() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(&SMALL.replace("\"udp\", \"tcp\"", "\"udp\""));
    let (target, _) = peer(|request| request.starts_with("OPTIONS").then(|| answer(request, "")));
    let running = start(&folder, &["--target", &target]);
    running.says(": 40/s");
    std::thread::sleep(std::time::Duration::from_millis(300));
    running.signal(Signal::INT);
    let done = running.done();
    assert_eq!(done.status, 1, "{done:?}");
    let records = records(folder.path());
    assert_eq!(of_kind(&records, "failed").len(), 0, "{done:?}");
    assert_eq!(records.last().unwrap()["interrupted"], true);
}

/// Peer on a socket, and its received requests.
fn peer(
    respond: impl Fn(&str) -> Option<String> + Send + 'static,
) -> (String, std::sync::Arc<Mutex<Vec<String>>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let received = std::sync::Arc::new(Mutex::new(Vec::new()));
    let list = std::sync::Arc::clone(&received);
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
            if let Some(response) = respond(&request) {
                let _ = socket.send_to(response.as_bytes(), from);
            }
            list.lock().unwrap().push(request);
        }
    });
    (address, received)
}

/// 200 to a request, with header lines.
fn answer(request: &str, more: &str) -> String {
    let kept =
        |line: &&str| ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name));
    let lines: Vec<&str> = request.lines().filter(kept).collect();
    format!("SIP/2.0 200 OK\r\n{}\r\n{more}Content-Length: 0\r\n\r\n", lines.join("\r\n"))
}

#[test]
fn a_running_server_that_does_not_challenge_is_not_measured_as_one_with_digest() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(&SMALL.replace("\"udp\", \"tcp\"", "\"udp\"").replace("update", "register"));
    let (target, _) = peer(|request| Some(answer(request, "")));
    let done = start(&folder, &["--target", &target, "--digest", "SHA-256"]).done();
    assert_eq!(done.status, 1, "{done:?}");
    let records = records(folder.path());
    let error = of_kind(&records, "failed")[0]["error"].as_str().unwrap();
    assert!(error.contains("challenged no request") && error.contains("--digest none"), "{error}");
    assert_eq!(of_kind(&records, "measurement").len(), 0);
}

#[test]
fn a_running_server_keeps_no_binding_of_a_load() {
    let _alone = ONE_AT_A_TIME.lock();
    let experiment = SMALL.replace("\"udp\", \"tcp\"", "\"udp\"").replace("\"SHA-256\"", "\"none\"");
    let folder = folder(&experiment);
    let (target, received) = peer(|request| Some(answer(request, "")));
    let done = start(&folder, &["--target", &target]).done();
    assert_eq!(done.status, 0, "{done:?}");
    // 20 users before the load, 20 attempts, once more for a trial that was invalid.
    let mut requests = received.lock().unwrap().clone();
    // Retransmissions.
    requests.sort_unstable();
    requests.dedup();
    let of = |expires: &str| requests.iter().filter(|request| request.contains(expires)).count();
    let trials = of_kind(&records(folder.path()), "measurement").len();
    assert_eq!((of("Expires: 3600\r"), of("Expires: 0\r")), (40 * trials, 20 * trials));
}

#[test]
fn a_search_measures_its_targets_in_turn() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(
        "chart = \"peak\"\nscenario = \"register\"\nusers = 20\nquick_seconds = 0.2\nfail_if = [\"success<1%\"]\n\
         [search]\nlowest = 20\nhighest = 40\n",
    );
    let (a, _) = peer(|request| Some(answer(request, "")));
    let (b, _) = peer(|request| Some(answer(request, "")));
    let done = start(&folder, &["--target", &a, "--target", &b]).done();
    let records = records(folder.path());
    let order: String = of_kind(&records, "measurement")
        .iter()
        .map(|trial| if trial["target"] == a.as_str() { 'A' } else { 'B' })
        .collect();
    assert!(order.starts_with("ABBAAB"), "{order}: {done:?}");
    assert_eq!(of_kind(&records, "peak").len(), 2);
}

#[test]
fn media_and_connections_are_keys_of_an_experiment() {
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(
        "scenario = \"call\"\ntransports = [\"tcp\"]\nconnection_use = \"user\"\nmedia = \"srtp\"\nrates = [10]\n\
         users = 10\nquick_seconds = 0.5\ntalk = \"100ms\"\nfail_if = [\"success<1%\"]\n",
    );
    let done = start(&folder, &[]).done();
    assert_eq!(done.status, 0, "{done:?}");
    let records = records(folder.path());
    let trial = of_kind(&records, "measurement")[0];
    assert_eq!(trial["variant"], "tcp, connections user, srtp", "{trial}");
    assert_eq!((&trial["media"]["streams"], &trial["successes"]), (&10.into(), &5.into()), "{trial}");
}

#[test]
fn an_experiment_over_tls_makes_its_certificates_and_counts_the_handshakes_of_both_directions() {
    if !has("openssl", "openssl") {
        return;
    }
    let _alone = ONE_AT_A_TIME.lock();
    let folder = folder(
        "scenario = \"call\"\nusers = 10\ntalk = \"10ms\"\nrates = [40]\nquick_seconds = 0.5\nwarm_up = 0.2\nfail_if = [\"success<1%\"]\n\
         not_available = [\"IPsec\"]\n[[variant]]\n[[variant]]\ntransport = \"tls\"\nconnection_use = \"call\"\ncalled = \"contact\"\n\
         mutual = true\nresumption = false\n[[variant]]\ntransport = \"wss\"\n[[variant]]\ntransport = \"tls\"\nkey = \"RSA-1024\"\n",
    );
    let done = start(&folder, &["--patience", "1s"]).done();
    let records = records(folder.path());
    assert_eq!(done.status, 0, "{done:?}");
    let trial = |start: &str| {
        let trials = of_kind(&records, "measurement");
        let found = trials.into_iter().find(|trial| trial["variant"].as_str().unwrap().starts_with(start));
        found.unwrap_or_else(|| panic!("{start}: {done:?}"))
    };
    let tls = trial("tls, P-256, mutual, no resumption, connections call, called contact");
    assert_eq!(
        (tls["successes"].as_u64(), tls["warm_up"].as_f64()),
        (tls["started"].as_u64(), Some(0.2)),
        "{tls}"
    );
    let count = |name: &str| tls["tls"][name].as_u64().unwrap();
    assert!(count("full") >= 15 && count("resumed") == 0 && count("failed") == 0, "{tls}");
    assert!(trial("wss, P-256")["successes"].as_u64() > Some(0), "{done:?}");
    assert!(trial("udp")["server_cpu_share"].as_f64() > Some(0.0), "{done:?}");
    let missing = |variant: &str| {
        let failed = of_kind(&records, "failed");
        failed.into_iter().any(|one| {
            let is_said = one["error"].as_str().unwrap().starts_with("not available: ");
            one["variant"].as_str().unwrap().starts_with(variant) && is_said
        })
    };
    assert!(missing("IPsec"), "{done:?}");
    assert_eq!(missing("tls, RSA-1024"), !cfg!(feature = "legacy-tls"), "{done:?}");
    assert!(done.out.contains("trials are") && done.out.contains("full handshakes"), "{}", done.out);
}

#[test]
fn an_experiment_that_needs_a_database_is_skipped_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        Running::start(folder.path(), &[&["lab", "run", "authentication"], args].concat(), "").done()
    };
    let done = run(&[]);
    assert_eq!(done.status, 1, "{done:?}");
    assert!(done.err.contains("authentication is skipped") && done.err.contains("--database "), "{done:?}");
    assert!(done.err.contains("no experiment is left"), "{done:?}");
    // The URL would be in the results.
    let line = run(&["--database", "postgres://u:s3cret@127.0.0.1/d"]).refused(2);
    assert!(line.contains("--database-password-file") && !line.contains("s3cret"), "{line}");
    assert!(run(&["--database", "redis://127.0.0.1/d"]).refused(2).contains("--database: "));
    let done = run(&["--database", "mysql://u@127.0.0.1:1/d"]);
    assert_eq!(done.status, 1, "{done:?}");
    assert!(
        done.err.contains("mysql://u@127.0.0.1:1/d: ") && done.err.contains("is the database running"),
        "{done:?}"
    );
    assert!(!folder.path().join("results").exists());
}

#[test]
fn bad_files_names_and_results_are_refused_before_anything_starts() {
    let folder = folder("rates = [1]\nsenario = \"call\"\n");
    let refused = |args: &[&str]| {
        let args = [&["lab", "run"], args].concat();
        Running::start(folder.path(), &args, "").done().refused(2)
    };
    let line = refused(&["./own.toml"]);
    assert!(line.contains("./own.toml:2: senario: unknown key; did you mean `scenario`?"), "{line}");
    assert!(refused(&["registr"]).contains("did you mean `register`?"));
    assert!(refused(&["register", "--target", "kamalio"]).contains("did you mean `kamailio`?"));
    assert!(refused(&["register", "--target", "10.9.8.7:5060"]).contains("--allow-remote 10.9.8.7"));
    assert!(refused(&["register", "--seconds", "0"]).contains("--seconds"));
    let line = refused(&["idle", "--transport", "udp"]);
    assert!(line.contains("--transport") && line.contains("no trial is left"), "{line}");
    let other = "{\"record\":\"campaign\",\"format\":1,\"machine\":{\"id\":\"0\",\"cpu\":\"Z80\",\"processors\":1}}\n";
    fs::create_dir(folder.path().join("old")).unwrap();
    fs::write(folder.path().join("old/results.jsonl"), other).unwrap();
    assert!(refused(&["register", "--compare", "old"]).contains("another machine (1 × Z80"));
    assert!(refused(&["register", "--out", "old"]).contains("give another folder"));
    assert!(!folder.path().join("results").exists());
    let list = Running::start(folder.path(), &["lab", "list", "--json"], "").done().ok();
    let names: Vec<Value> = list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        names.len() >= 10
            && names.iter().all(|line| line["title"].as_str().is_some_and(|title| !title.is_empty()))
    );
}
