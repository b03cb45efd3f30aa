//! `ringway lab load` in the built program against `ringway serve`.
//!
//! Tested: registrations and calls with digest, media with RTP and SRTP, conditions of `--fail-if`, a stop by a signal, a server that is not there,
//! refused arguments. Not tested here: delays, which depend on the machine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod program;

use program::Running;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use tempfile::TempDir;

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
fn calls_have_media_that_arrive_in_both_directions() {
    let (folder, _server, address) = serve();
    for (media, profile) in [("rtp", "rtp"), ("srtp", "AES_CM_128_HMAC_SHA1_80")] {
        let args = ["--scenario", "call", "--rate", "5", "--seconds", "1", "--talk", "2s", "--media", media];
        let (records, status) = load(&folder, &address, &args);
        let result = records.last().unwrap();
        assert_eq!((status, &result["outcomes"]["success"]), (0, &Value::from(5)), "{result}");
        let media = &result["media"];
        let count = |name: &str| media[name].as_u64().unwrap();
        assert_eq!((count("streams"), count("silent_streams"), &media["profile"]), (10, 0, &profile.into()));
        // Two seconds of 50 packets a second for each of ten streams, less what a busy machine did not send in time.
        assert!((500..=1_100).contains(&count("packets_sent")), "{media}");
        assert_eq!(count("packets_received") + count("stray"), count("packets_sent"), "{media}");
        assert_eq!((count("packets_lost"), count("authentication_failed")), (0, 0), "{media}");
        assert!(media["delay_ms"]["p50"].is_number() && media["jitter_ms"]["p99"].is_number(), "{media}");
        assert_eq!(media["refused_streams"], serde_json::json!({}));
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
    assert_eq!((done.status, &result["stopped"]), (0, &Value::Bool(true)), "{result}");
    assert_eq!(result["outcomes"]["stopped"], result["started"]);
}

#[test]
fn callees_that_cannot_register_and_bad_arguments_are_refused() {
    let (folder, _server, address) = serve();
    let refused = |args: &[&str], status: i32| {
        let args = [&["lab", "load"], args].concat();
        Running::start(folder.path(), &args, "").done().refused(status)
    };
    assert!(refused(&["10.9.8.7:5060"], 1).contains("--allow-remote 10.9.8.7"));
    assert!(refused(&["nonsense"], 2).contains("HOST:PORT"));
    assert!(refused(&[&address, "--fail-if", "p99>5"], 2).contains("p99>50ms"));
    assert!(refused(&[&address, "--talk", "5"], 2).contains("500ms"));
    assert!(refused(&[&address, "--media", "rtp"], 1).contains("only calls have media"));
    assert!(refused(&[&address, "--suite", "none"], 2).contains("AES_CM_128_HMAC_SHA1_80"));
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
