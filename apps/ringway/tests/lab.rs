//! `ringway lab load` in the built program against `ringway serve`.
//!
//! Tested: registrations and calls with digest, a scenario file that it wrote, conditions of `--fail-if`, interruption, the view on a
//! terminal, a server that is not there, a rate beyond any machine, refused arguments. Not tested here: delays, which depend on the
//! machine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod program;
mod terminal;

use program::{POLL_INTERVAL, Running, TIME_LIMIT};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::time::Instant;
use tempfile::TempDir;
use terminal::Terminal;

const USERS: usize = 20;

/// Server with users `u0` to `u19`, and the file of these users for the generator.
fn serve() -> (TempDir, Running, String) {
    let folder = tempfile::tempdir().unwrap();
    let config =
        "listen = [\"udp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[limits]\nper_source_rate = 0\n";
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    let list = |head: &str| {
        let lines = (0..USERS).map(|number| format!("u{number},secret{number}\n"));
        format!("{head}{}", lines.collect::<String>())
    };
    fs::write(folder.path().join("import.csv"), list("username,password\n")).unwrap();
    fs::write(folder.path().join("users.csv"), list("")).unwrap();
    Running::start(folder.path(), &["user", "import", "import.csv"], "").done().ok();
    let server = Running::start(folder.path(), &["serve"], "");
    let address = server.address();
    (folder, server, address)
}

/// Records of a run, and its exit status.
fn load(folder: &TempDir, target: &str, more: &[&str]) -> (Vec<Value>, i32) {
    let mut args = vec!["lab", "load", target, "--users-file", "users.csv", "--json"];
    args.extend(more);
    let done = Running::start(folder.path(), &args, "").done();
    let records = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (records, done.status)
}

#[test]
fn registrations_and_calls_succeed_with_passwords() {
    let (folder, _server, address) = serve();
    for (scenario, attempts) in [("register", 20), ("call", 40), ("message", 40), ("options", 40)] {
        let rate = attempts.to_string();
        let args = ["--scenario", scenario, "--rate", &rate, "--seconds", "1", "--talk", "10ms-50ms"];
        let (records, status) = load(&folder, &address, &args);
        let result = records.last().unwrap();
        assert_eq!(status, 0, "{scenario}: {result}");
        assert_eq!(result["type"], "result");
        // A REGISTER waits for the user's last one: on a slow machine a start may be dropped, and is counted.
        let dropped = result["generator"]["dropped"].as_u64().unwrap();
        assert_eq!(result["started"].as_u64().unwrap() + dropped, attempts, "{scenario}: {result}");
        assert_eq!(result["outcomes"]["success"], result["started"], "{scenario}: {result}");
        assert_eq!(result["open"], 0);
    }
}

#[test]
fn a_condition_decides_the_exit_status() {
    let (folder, _server, address) = serve();
    let args = ["--scenario", "call-not-found", "--rate", "10", "--seconds", "1"];
    let (records, status) = load(&folder, &address, &[&args[..], &["--fail-if", "success<100%"]].concat());
    assert_eq!(status, 0, "{:?}", records.last());
    let (records, status) = load(&folder, &address, &[&args[..], &["--fail-if", "p50>1us"]].concat());
    assert_eq!(status, 1);
    assert_eq!(records.last().unwrap()["failed_conditions"][0], "p50>1us");
}

#[test]
fn a_signal_ends_a_run_with_its_results() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody answers there.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let args = ["lab", "load", &target, "--rate", "50", "--seconds", "60", "--json"];
    let running = Running::start(folder.path(), &args, "");
    running.says("\"second\":1");
    running.end();
    let done = running.done();
    let result: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
    assert_eq!((done.status, &result["interrupted"]), (130, &Value::Bool(true)), "{result}");
    assert_eq!(
        (&result["outcomes"]["stopped"], &result["cut_off"]),
        (&result["started"], &result["started"])
    );
    assert!(result["seconds"].as_f64().unwrap() < 60.0 && result["planned_seconds"] == 60.0, "{result}");
    // Attempts that were cut off did not fail.
    assert_eq!((&result["success_share"], &result["failed_conditions"][0]), (&0.0.into(), &Value::Null));
}

#[test]
fn a_signal_while_the_called_users_are_registered_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let running = Running::start(folder.path(), &["lab", "load", &target, "--scenario", "call"], "");
    running.says("registering 100 called users");
    running.signal("-INT");
    let done = running.done();
    assert_eq!(done.status, 130, "{done:?}");
    assert!(done.out.contains("INTERRUPTED"), "{done:?}");
}

#[test]
fn the_view_on_a_terminal_is_redrawn_and_gives_way_to_the_result() {
    let (folder, _server, address) = serve();
    let args = format!(
        "lab load {address} --scenario call-not-found --users-file users.csv --rate 50 --seconds 600"
    );
    let mut terminal = Terminal::open(folder.path(), &args);
    let shown = terminal.shows(&["s left; Ctrl-C ends it", "response time  p50", "successful", "100.00 %"]);
    for title in ["offered", "failed", "retransmitted", "first response p50", "generator      lag p99", "CPU"]
    {
        assert_eq!(shown.matches(title).count(), 1, "{title}:\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() < 80), "{shown}");
    let time = |shown: &str| shown.lines().find(|line| line.starts_with('[')).unwrap().to_owned();
    let end = Instant::now() + TIME_LIMIT;
    loop {
        let next = terminal.shows(&["of 600 s"]);
        assert_eq!(next.matches("of 600 s").count(), 1, "{next}");
        if time(&next) != time(&shown) {
            break;
        }
        assert!(Instant::now() < end, "it is not redrawn:\n{next}");
        std::thread::sleep(POLL_INTERVAL);
    }
    terminal.press("\x03");
    let result = terminal.shows(&["INTERRUPTED before 600.0 s"]);
    assert_eq!(terminal.ends(), 130);
    assert!(!result.contains("s left") && !result.contains("retransmitted"), "{result}");
}

#[test]
fn a_generator_that_cannot_keep_up_is_found_out() {
    let (folder, _server, address) = serve();
    // No processor makes a call in 0.2 µs: the last of 20,000 attempts is planned 4 ms after the first.
    let args = ["--scenario", "call-not-found", "--rate", "5000000", "--seconds", "0.004", "--t1", "50ms"];
    let (records, status) = load(&folder, &address, &args);
    let result = records.last().unwrap();
    assert_eq!((status, &result["valid"]), (0, &Value::Bool(false)), "{result}");
    let reason = result["invalid_because"].as_str().unwrap();
    assert!(reason.contains("late") && reason.contains("99th percentile"), "{reason}");
    assert!(result["generator"]["late"].as_u64().unwrap() > 10_000, "{result}");
}

#[test]
fn a_scenario_that_was_written_for_sipp_is_played() {
    let (folder, _server, address) = serve();
    let write = |name: &str, args: &[&str]| {
        let args = [&["lab", "scenario"], args].concat();
        let text = Running::start(folder.path(), &args, "").done().ok();
        fs::write(folder.path().join(name), text).unwrap();
    };
    write("call.xml", &["call", "--digest", "--talk", "10ms-50ms"]);
    write("answer.xml", &["call", "--callee", "--ring", "~10ms"]);
    let line = |number: usize| {
        format!("u{number};[authentication username=u{number} password=secret{number}];u{}\n", 19 - number)
    };
    let list = format!("SEQUENTIAL\n{}", (0..USERS).map(line).collect::<String>());
    fs::write(folder.path().join("users.csv"), list).unwrap();
    let files = ["--scenario-file", "call.xml", "--callee-file", "answer.xml"];
    let (records, status) =
        load(&folder, &address, &[&files[..], &["--rate", "20", "--seconds", "1"]].concat());
    let result = records.last().unwrap();
    assert_eq!((status, &result["outcomes"]["success"]), (0, &Value::from(20)), "{result}");
    assert_eq!(result["scenario"], "call.xml");
}

#[test]
fn callees_that_cannot_register_and_bad_arguments_are_refused() {
    let (folder, _server, address) = serve();
    let refused = |args: &[&str], status: i32| {
        let args = [&["lab", "load"], args].concat();
        Running::start(folder.path(), &args, "").done().refused(status)
    };
    assert!(refused(&["10.9.8.7:5060"], 2).contains("--allow-remote 10.9.8.7"));
    assert!(refused(&[&address, "--rate", "0"], 2).contains("above 0"));
    assert!(refused(&[&address, "--sources", "0"], 2).contains("1 to 256"));
    assert!(refused(&[&address, "--seconds", "inf"], 2).contains("--seconds"));
    assert!(refused(&[&address, "--rat", "1"], 2).contains("'--rate'"));
    assert!(refused(&[&address, "--fail-if", "success>99%"], 2).contains("write it with <"));
    assert!(refused(&[&address, "--callee-file", "x.xml"], 2).contains("--scenario-file"));
    assert!(refused(&[&address, "--scenario-file", "x.xml"], 2).contains("x.xml"));
    fs::write(folder.path().join("jump.xml"), "<scenario>\n<label id='1'/></scenario>").unwrap();
    assert!(refused(&[&address, "--scenario-file", "jump.xml"], 2).contains("jump.xml:2: jumps"));
    fs::write(folder.path().join("callee.xml"), "<scenario><recv request='BYE'/></scenario>").unwrap();
    assert!(refused(&[&address, "--scenario-file", "callee.xml"], 2).contains("--callee-file of the called"));
    assert!(refused(&["nonsense"], 2).contains("HOST:PORT"));
    assert!(refused(&[&address, "--fail-if", "p99>5"], 2).contains("p99>50ms"));
    assert!(refused(&[&address, "--talk", "5"], 2).contains("500ms"));
    assert!(refused(&[&address, "--users-file", "missing.csv"], 2).contains("missing.csv"));
    assert!(refused(&[&address, "--pid", "4000000000"], 2).contains("--pid"));
    let done = Running::start(
        folder.path(),
        &["lab", "load", &address, "--scenario", "call", "--prefix", "nobody", "--users", "2", "--rate", "1"],
        "",
    )
    .done();
    assert_eq!(done.status, 1);
    assert!(done.err.contains("could not register"), "{done:?}");
}
