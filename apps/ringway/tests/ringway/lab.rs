//! `ringway lab` in the built program: `load` against `ringway serve`, `report` of stored results.
//!
//! Tested: all scenarios with digest over UDP and TCP, IPv4 and IPv6, with each use of connections and with two threads;
//! media with RTP and SRTP, a scenario file that it wrote; conditions of `--fail-if`, interruption, the view on a terminal, a server that is not there or
//! dies, a rate beyond any machine, refused arguments; reports of whole, cut
//! and refused results. Not tested here: delays, which depend on the machine.

use crate::program::{Running, Signal};
use crate::terminal::Terminal;
use ringway_test_support::eventually::wait_until;
use ringway_test_support::programs::has;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const USERS: usize = 20;

/// Server with users `u0` to `u19`, and the file of these users for the generator.
pub(crate) fn serve() -> (TempDir, Running, String) {
    let (folder, server) = serve_at(&["udp:127.0.0.1:0"]);
    let address = server.address();
    (folder, server, address)
}

/// The same with these listeners.
fn serve_at(listeners: &[&str]) -> (TempDir, Running) {
    serve_with(listeners, "")
}

/// The same with more of a configuration.
fn serve_with(listeners: &[&str], more: &str) -> (TempDir, Running) {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "listen = {listeners:?}\n[admin]\nlisten = \"127.0.0.1:0\"\n[limits]\nper_source_rate = 0\n{more}"
    );
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    import_users(&folder);
    let server = Running::start(folder.path(), &["serve"], "");
    (folder, server)
}

/// Imports the users for the configuration of a folder, and writes the file of them.
pub(crate) fn import_users(folder: &TempDir) {
    let list = |head: &str| {
        let lines = (0..USERS).map(|number| format!("u{number},secret{number}\n"));
        format!("{head}{}", lines.collect::<String>())
    };
    fs::write(folder.path().join("import.csv"), list("username,password\n")).unwrap();
    fs::write(folder.path().join("users.csv"), list("")).unwrap();
    Running::start(folder.path(), &["user", "import", "import.csv"], "").done().ok();
}

/// Address of a listener: `tcp:[::1]`.
fn address_of(server: &Running, listener: &str) -> String {
    let (transport, _) = listener.split_once(':').unwrap();
    let line = server.ready();
    let word = line.split(' ').find(|word| word.starts_with(listener)).unwrap();
    word.strip_prefix(transport).unwrap().strip_prefix(':').unwrap().to_owned()
}

/// Records of a run, and its exit status.
pub(crate) fn load(folder: &TempDir, target: &str, more: &[&str]) -> (Vec<Value>, i32) {
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
        assert_eq!(status, status_of(result), "{scenario}: {result}");
        assert_eq!(result["type"], "result");
        // A REGISTER waits for the user's last one: on a slow machine a start may be dropped, and is counted.
        let dropped = result["generator"]["dropped"].as_u64().unwrap();
        assert_eq!(result["started"].as_u64().unwrap() + dropped, attempts, "{scenario}: {result}");
        assert_eq!(result["outcomes"]["success"], result["started"], "{scenario}: {result}");
        assert_eq!(result["open"], 0);
    }
}

/// Exit status of a load in which every attempt succeeded: on a busy machine its result may be invalid.
fn status_of(result: &Value) -> i32 {
    i32::from(result["valid"] == false)
}

/// Result of a load in which every attempt must succeed.
fn all_succeed(folder: &TempDir, target: &str, args: &[&str]) -> Value {
    let talk = ["--seconds", "1", "--talk", "10ms-50ms"];
    let (records, status) = load(folder, target, &[args, &talk].concat());
    let result = records.last().unwrap().clone();
    assert_eq!(status, status_of(&result), "{args:?}: {result}");
    assert_eq!(result["outcomes"]["success"], result["started"], "{args:?}: {result}");
    assert!(result["started"].as_u64().unwrap() > 0, "{args:?}: {result}");
    result
}

#[test]
fn every_scenario_succeeds_over_tcp_with_each_use_of_connections() {
    let (folder, server) = serve_at(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]);
    let target = address_of(&server, "tcp:127.0.0.1");
    // Callers and called users are ten each, register once, and start 20 calls.
    for (scenario, rate, callers) in [
        ("register", "20", 20),
        ("update", "20", 20),
        ("logout", "20", 20),
        ("call", "20", 10),
        ("call-not-found", "20", 20),
    ] {
        for connections in ["shared", "user", "call"] {
            let args =
                ["--transport", "tcp", "--connections", connections, "--scenario", scenario, "--rate", rate];
            let result = all_succeed(&folder, &target, &args);
            let used = &result["connections"];
            let started = result["started"].as_u64().unwrap();
            let opened = used["opened"].as_u64().unwrap();
            // Those of registrations before the load are not counted again.
            let wanted = match (connections, scenario) {
                ("shared" | "user", "update" | "logout") => 0,
                ("shared", _) => 1,
                ("user", _) => started.min(callers),
                _ => started,
            };
            assert_eq!(opened, wanted, "{scenario}, {connections}: {result}");
            assert_eq!(used["not_opened"], 0, "{result}");
            assert_eq!(result["retransmissions"], 0, "{result}");
        }
    }
}

#[test]
fn loads_go_over_ipv6_and_to_names_of_this_machine() {
    let listeners = ["udp:[::1]:0", "tcp:[::1]:0", "udp:127.0.0.1:0"];
    let (folder, server) = serve_at(&listeners);
    for transport in ["udp", "tcp"] {
        let target = address_of(&server, &format!("{transport}:[::1]"));
        for scenario in ["update", "call"] {
            all_succeed(
                &folder,
                &target,
                &["--transport", transport, "--scenario", scenario, "--rate", "20"],
            );
        }
    }
    let v4 = address_of(&server, "udp:127.0.0.1");
    let port = v4.rsplit(':').next().unwrap();
    all_succeed(&folder, &format!("localhost:{port}"), &["--rate", "10"]);
}

#[test]
fn threads_share_users_and_rate() {
    let (folder, server) = serve_at(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]);
    for (transport, target) in [("udp", "udp:127.0.0.1"), ("tcp", "tcp:127.0.0.1")] {
        let target = address_of(&server, target);
        for scenario in ["update", "call"] {
            let args = [
                "--transport",
                transport,
                "--threads",
                "2",
                "--sources",
                "2",
                "--scenario",
                scenario,
                "--rate",
                "20",
            ];
            let result = all_succeed(&folder, &target, &args);
            assert_eq!(result["started"], 20, "{scenario}: {result}");
        }
    }
}

#[test]
fn a_target_that_never_answers_ends_the_run_after_seconds_and_one_that_refuses_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let lost = |target: &str, transport: &str, scenario: &str| {
        let args = ["lab", "load", target, "--transport", transport, "--scenario", scenario, "--json"];
        let start = Instant::now();
        let done = Running::start(folder.path(), &[&args[..], &["--seconds", "60"]].concat(), "").done();
        assert_eq!(done.status, 1, "{done:?}");
        (done, start.elapsed())
    };
    let text = |out: &str| -> String {
        let result: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        result["target_loss"].as_str().unwrap().to_owned()
    };
    // Closed ports, and sockets that nobody reads.
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    for (transport, target) in [("udp", udp.local_addr().unwrap()), ("tcp", tcp.local_addr().unwrap())] {
        let (done, time) = lost(&target.to_string(), transport, "register");
        assert!(text(&done.out).starts_with(&format!("{target} does not answer: nothing")), "{done:?}");
        assert!((Duration::from_secs(3)..Duration::from_secs(20)).contains(&time), "{time:?}");
    }
    let closed = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    drop((udp, tcp));
    for (transport, target) in [("udp", closed.0), ("tcp", closed.1)] {
        let (done, _) = lost(&target.to_string(), transport, "options");
        assert!(done.err.contains(&format!("{target} does not answer: it refuses")), "{done:?}");
        let (done, _) = lost(&target.to_string(), transport, "register");
        assert!(text(&done.out).starts_with(&format!("{target} does not answer: it refuses")), "{done:?}");
    }
}

#[test]
fn a_target_that_dies_ends_the_run_with_the_results_so_far() {
    for transport in ["udp", "tcp"] {
        let (folder, server) = serve_at(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]);
        let target = address_of(&server, &format!("{transport}:127.0.0.1"));
        let args = ["lab", "load", &target, "--users-file", "users.csv", "--json", "--seconds", "60"];
        let more = ["--transport", transport, "--connections", "user", "--rate", "20"];
        let running = Running::start(folder.path(), &[&args[..], &more].concat(), "");
        running.says("\"second\":1");
        server.signal(Signal::KILL);
        let done = running.done();
        assert_eq!(done.status, 1, "{done:?}");
        let result: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
        let loss = result["target_loss"].as_str().unwrap();
        assert!(loss.starts_with(&format!("{target} stopped answering")), "{result}");
        assert!(result["outcomes"]["success"].as_u64().unwrap() > 5, "{result}");
        let ended: u64 =
            result["outcomes"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(result["started"], ended, "{result}");
    }
}

#[test]
fn calls_have_media_that_arrive_in_both_directions() {
    let (folder, _server, address) = serve();
    for (media, profile) in [("rtp", "rtp"), ("srtp", "AES_CM_128_HMAC_SHA1_80")] {
        let args = ["--scenario", "call", "--rate", "5", "--seconds", "1", "--talk", "2s", "--media", media];
        let (records, status) = load(&folder, &address, &args);
        let result = records.last().unwrap();
        let expected = (status_of(result), &Value::from(5));
        assert_eq!((status, &result["outcomes"]["success"]), expected, "{result}");
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
fn the_result_says_if_the_server_challenges() {
    let (folder, _server, address) = serve();
    let args = ["--scenario", "update", "--rate", "20", "--seconds", "1"];
    let (records, _) = load(&folder, &address, &args);
    let result = records.last().unwrap();
    assert_eq!((&result["challenges"], &result["remarks"]), (&Value::from(20), &serde_json::json!([])));
    drop(_server);

    let (folder, server) = serve_with(&["udp:127.0.0.1:0"], "[auth]\nenabled = false\n");
    let (records, status) = load(&folder, &server.address(), &args);
    let result = records.last().unwrap();
    let expected = (status_of(result), &Value::from(0));
    assert_eq!((status, &result["challenges"]), expected, "{result}");
    let remark = result["remarks"][0].as_str().unwrap();
    assert!(remark.contains("no request was challenged"), "{remark}");
    let args = ["lab", "load", &server.address(), "--rate", "20", "--seconds", "0.5"];
    let out = Running::start(folder.path(), &args, "").done().ok();
    assert!(out.contains("challenges  0") && !out.contains("no request was challenged"), "{out}");
}

#[test]
fn ring_and_talk_times_that_vary_take_nothing_from_the_achieved_rate() {
    let (folder, _server, address) = serve();
    let args = ["--scenario", "call", "--rate", "20", "--ring", "100ms-400ms", "--seconds", "1"];
    let (records, _) = load(&folder, &address, &[&args[..], &["--talk", "0s-3s"]].concat());
    let result = records.last().unwrap();
    assert_eq!(result["outcomes"]["success"], 20, "{result}");
    assert!(result["achieved_per_s"].as_f64().unwrap() >= 18.0, "{result}");
}

#[test]
fn called_users_lose_their_bindings_when_the_load_is_over_or_interrupted() {
    let (folder, server) = serve_with(&["udp:127.0.0.1:0"], "[registrar]\nmax_contacts = 1\n");
    let address = server.address();
    // A second contact of the called users would be refused with 403.
    for _ in 0..2 {
        all_succeed(&folder, &address, &["--scenario", "call", "--rate", "20"]);
    }
    let args =
        ["lab", "load", &address, "--users-file", "users.csv", "--scenario", "call", "--seconds", "60"];
    let running = Running::start(folder.path(), &[&args[..], &["--json"]].concat(), "");
    running.says("\"second\":1");
    running.signal(Signal::INT);
    assert_eq!(running.done().status, 130);
    all_succeed(&folder, &address, &["--scenario", "update", "--rate", "20"]);
    all_succeed(&folder, &address, &["--scenario", "message", "--rate", "20"]);
}

#[test]
fn a_target_that_answers_with_something_else_than_sip_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let targets = [("udp", udp.local_addr().unwrap()), ("tcp", tcp.local_addr().unwrap())];
    std::thread::spawn(move || {
        while let Ok((_, from)) = udp.recv_from(&mut [0; 4096]) {
            let _ = udp.send_to(b"hello", from);
        }
    });
    std::thread::spawn(move || {
        while let Ok((mut peer, _)) = tcp.accept() {
            let _ = peer.read(&mut [0; 4096]);
            let _ = peer.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for (transport, target) in targets {
        let target = target.to_string();
        let args = ["lab", "load", &target, "--transport", transport, "--seconds", "60", "--json"];
        let start = Instant::now();
        let done = Running::start(folder.path(), &args, "").done();
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        let result: Value = serde_json::from_str(done.out.lines().last().unwrap()).unwrap();
        let loss = result["target_loss"].as_str().unwrap();
        assert!(loss.starts_with(&format!("{target} does not answer in SIP")), "{loss}");
        assert_eq!(done.status, 1);
    }
}

#[test]
fn a_condition_decides_the_exit_status() {
    let (folder, _server, address) = serve();
    let args = ["--scenario", "call-not-found", "--rate", "10", "--seconds", "1"];
    let (records, status) = load(&folder, &address, &[&args[..], &["--fail-if", "success<100%"]].concat());
    assert_eq!(status, status_of(records.last().unwrap()), "{:?}", records.last());
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
    running.says("registering 100 users before the load");
    running.signal(Signal::INT);
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
    let shown =
        terminal.shows(&["s left; Ctrl-C ends it", "response time  median", "successful", "100.00 %"]);
    for title in ["offered", "failed", "retransmitted", "first response median", "99th percentile), ", "CPU"]
    {
        assert_eq!(shown.matches(title).count(), 1, "{title}:\n{shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() < 80), "{shown}");
    let time = |shown: &str| shown.lines().find(|line| line.starts_with('[')).unwrap().to_owned();
    wait_until("it is redrawn", || {
        let next = terminal.shows(&["of 600 s"]);
        assert_eq!(next.matches("of 600 s").count(), 1, "{next}");
        time(&next) != time(&shown)
    });
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
    assert_eq!((status, &result["valid"]), (1, &Value::Bool(false)), "{result}");
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
    let expected = (status_of(result), &Value::from(20));
    assert_eq!((status, &result["outcomes"]["success"]), expected, "{result}");
    assert_eq!(result["scenario"], "call.xml");
}

/// Scenario with searches, variables, a loop and fields of two lists.
const ACTIONS: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<!-- Played by SIPp and by us. -->
<scenario name="actions">
  <nop><action><assign assign_to="count" value="0"/><assignstr assign_to="word" value="none"/></action></nop>
  <label id="again"/>
  <send retrans="500"><![CDATA[

    OPTIONS sip:x@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:[field0]@x>;tag=[call_number]
    To: <sip:x@x>
    Call-ID: [call_id]
    CSeq: 1 OPTIONS
    X-Result: [field0] [field3] [field1 file="more.csv"] [$count] [$word]
    Content-Length: 0

  ]]></send>
  <recv response="200" next="again" test="more">
    <action>
      <ereg regexp="([0-9]+) of ([[:digit:]]+)" search_in="hdr" header="Subject:" check_it="true" assign_to="all,first,second"/>
      <ereg regexp="[^ ]*" search_in="hdr" header="x-CASE: " case_indep="true" start_line="true" assign_to="case"/>
      <ereg regexp="not there" search_in="msg" check_it_inverse="true" assign_to="none"/>
      <todouble assign_to="number" variable="second"/>
      <add assign_to="count" variable="number"/>
      <multiply assign_to="count" value="1.5"/>
      <assignstr assign_to="word" value="[$first]/[$all]/[$case]/[$more]"/>
      <test assign_to="more" variable="count" compare="less_than" value="40"/>
      <log message="[field0] has [$count]"/>
    </action>
  </recv>
  <Reference variables="none"/>
</scenario>
"#;

#[test]
fn a_file_with_actions_sends_the_same_as_from_sipp() {
    if !has("sipp", "sip-tester") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("actions.xml", ACTIONS);
    write("users.csv", "SEQUENTIAL\na;1;;first\nb;2;;second\n# no line\nc;3;;third\nd;4;;fourth\n");
    write("more.csv", "SEQUENTIAL,PRINTF=4,PRINTFOFFSET=7,PRINTFMULTIPLE=3\nx;line%03d\n");
    let results = |run: &dyn Fn(&str) -> (bool, String)| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        socket.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let answering = scope.spawn(|| {
                let (mut bytes, mut found, mut number) = ([0; 4096], std::collections::BTreeSet::new(), 0);
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
                    let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
                    let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
                    let lines: Vec<&str> = request
                        .lines()
                        .filter(|line| kept.iter().any(|name| line.starts_with(name)))
                        .collect();
                    // SIPp takes an equal response for a retransmission.
                    number += 1;
                    let head = format!("{}\r\nNumber: {number}", lines.join("\r\n"));
                    let more =
                        "Subject: 3 of 7 of 9\r\nA: X-Case: no\r\nX-Case: yes here\r\nContent-Length: 0";
                    let _ = socket
                        .send_to(format!("SIP/2.0 200 OK\r\n{head}\r\n{more}\r\n\r\n").as_bytes(), from);
                    found.extend(
                        request.lines().find(|line| line.starts_with("X-Result:")).map(str::to_owned),
                    );
                }
                found
            });
            let (is_good, said) = run(&address);
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            let found = answering.join().unwrap();
            assert!(is_good, "{said}");
            found
        })
    };
    let of_sipp = results(&|address| {
        let mut sipp = std::process::Command::new("sipp");
        sipp.args([
            address,
            "-sf",
            "actions.xml",
            "-inf",
            "users.csv",
            "-inf",
            "more.csv",
            "-m",
            "4",
            "-r",
            "20",
        ]);
        sipp.args(["-i", "127.0.0.1", "-nostdin", "-timeout", "20"]).current_dir(folder.path());
        let done = sipp.output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    });
    let of_ours = results(&|address| {
        let args = [
            "lab",
            "load",
            address,
            "--scenario-file",
            "actions.xml",
            "--inf",
            "users.csv",
            "--inf",
            "more.csv",
        ];
        let more = ["--rate", "4", "--seconds", "1", "--log-file", "log.txt", "--json"];
        let done = Running::start(folder.path(), &[&args[..], &more].concat(), "").done();
        let result: Value =
            done.out.lines().last().map_or(Value::Null, |line| serde_json::from_str(line).unwrap());
        (result["outcomes"]["success"] == 4 && done.status == status_of(&result), format!("{done:?}"))
    });
    assert_eq!(of_ours, of_sipp);
    // 0, 10.5, 26.25 and 49.875, which ends the loop.
    assert_eq!(of_ours.len(), 4 * 3, "{of_ours:?}");
    let one = "X-Result: b second line010 26.250000 3/3 of 7/yes/true";
    assert!(of_ours.contains(one), "{of_ours:?}");
    let log = fs::read_to_string(folder.path().join("log.txt")).unwrap();
    assert!(log.lines().count() == 12 && log.contains(": d has 49.875000"), "{log}");
}

#[test]
fn presence_is_subscribed_to_and_published() {
    let (folder, server) = serve_with(&["udp:127.0.0.1:0"], "[presence]\nenabled = true\n");
    let target = address_of(&server, "udp:127.0.0.1");
    for scenario in ["subscribe", "publish"] {
        let result = all_succeed(&folder, &target, &["--scenario", scenario, "--rate", "20"]);
        assert_eq!(result["challenges"], result["started"], "{result}");
    }
}

#[test]
fn a_call_that_a_file_cancels_ends_with_487() {
    let (folder, _server, address) = serve();
    let scenario = |args: &[&str]| {
        let args = [&["lab", "scenario", "call"], args].concat();
        Running::start(folder.path(), &args, "").done().ok()
    };
    fs::write(folder.path().join("answer.xml"), scenario(&["--callee", "--ring", "60s"])).unwrap();
    let call = scenario(&["--digest"]);
    let call = call.replace("  <recv response=\"180\" optional=\"true\"/>\n", "");
    // Up to the second INVITE, then a CANCEL with a branch, a URI and a CSeq of its own, as SIPp's users write it.
    let (invites, _) = call.split_once("<recv response=\"200\"").unwrap();
    let cancel = "<recv response=\"180\"/>\n<send><![CDATA[\n\
                  CANCEL sip:[service]@[domain] SIP/2.0\n\
                  Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch-2]\n\
                  From: <sip:[user]@[domain]>;tag=c[call_number]\n\
                  To: <sip:[peer]@[domain]>\n\
                  Call-ID: [call_id]\nCSeq: [cseq] CANCEL\nContent-Length: 0\n]]></send>\n\
                  <recv response=\"200\"/>\n<recv response=\"487\"/>\n";
    fs::write(folder.path().join("cancel.xml"), format!("{invites}{cancel}</scenario>")).unwrap();
    let files = ["--scenario-file", "cancel.xml", "--callee-file", "answer.xml", "--rate", "10"];
    let (records, status) = load(&folder, &address, &[&files[..], &["--seconds", "1"]].concat());
    let result = records.last().unwrap();
    let expected = (status_of(result), &Value::from(10));
    assert_eq!((status, &result["outcomes"]["success"]), expected, "{result}");
}

#[test]
fn callees_that_cannot_register_and_bad_arguments_are_refused() {
    let (folder, _server, address) = serve();
    let refused = |args: &[&str], status: i32| {
        let args = [&["lab", "load"], args].concat();
        Running::start(folder.path(), &args, "").done().refused(status)
    };
    assert!(refused(&["10.9.8.7:5060"], 2).contains("--allow-remote 10.9.8.7"));
    assert!(refused(&["[2001:db8::1]:5060"], 2).contains("--allow-remote 2001:db8::1"));
    assert!(refused(&[&address, "--local", "::1"], 2).contains("--local"));
    assert!(refused(&[&address, "--threads", "2", "--users", "1"], 2).contains("2 threads"));
    assert!(refused(&[&address, "--scenario", "logout", "--users", "5"], 2).contains("--users"));
    assert!(refused(&[&address, "--rate", "0"], 2).contains("above 0"));
    assert!(refused(&[&address, "--sources", "0"], 2).contains("1 to 256"));
    assert!(refused(&[&address, "--seconds", "inf"], 2).contains("--seconds"));
    assert!(refused(&[&address, "--rat", "1"], 2).contains("'--rate'"));
    assert!(refused(&[&address, "--fail-if", "success>99%"], 2).contains("write it with <"));
    assert!(refused(&[&address, "--callee-file", "x.xml"], 2).contains("--scenario-file"));
    assert!(refused(&[&address, "--scenario-file", "x.xml"], 2).contains("x.xml"));
    fs::write(folder.path().join("jump.xml"), "<scenario>\n<nop next='1'/></scenario>").unwrap();
    assert!(refused(&[&address, "--scenario-file", "jump.xml"], 2).contains("jump.xml:2: the jump leads"));
    fs::write(folder.path().join("callee.xml"), "<scenario><recv request='BYE'/></scenario>").unwrap();
    assert!(refused(&[&address, "--scenario-file", "callee.xml"], 2).contains("--callee-file of the called"));
    assert!(refused(&["nonsense"], 2).contains("HOST:PORT"));
    assert!(refused(&[&address, "--fail-if", "p99>5"], 2).contains("p99>50ms"));
    assert!(refused(&[&address, "--talk", "5"], 2).contains("500ms"));
    assert!(refused(&[&address, "--media", "rtp"], 2).contains("only calls have media"));
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

#[test]
fn a_list_of_users_can_be_the_one_that_the_server_imports() {
    let (folder, _server, address) = serve();
    let write = |text: &str| fs::write(folder.path().join("users.csv"), text).unwrap();
    let rows = |domain: &str| (0..USERS).map(|n| format!("secret{n},{domain},u{n}\n")).collect::<String>();
    write(&format!("password,domain,username\n{}", rows("localhost")));
    let result = all_succeed(&folder, &address, &["--scenario", "update", "--rate", "20"]);
    assert_eq!(result["users"], 20);
    write(&format!("password,domain,username\n{}", rows("example.org")));
    let args = ["lab", "load", &address, "--users-file", "users.csv"];
    let line = Running::start(folder.path(), &args, "").done().refused(2);
    assert!(line.contains("users.csv:2: ") && line.contains("--domain example.org"), "{line}");
}

#[test]
fn files_without_an_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let target = "127.0.0.1:5060";
    for args in [
        &["load", target, "--users-file", "/dev/zero"][..],
        &["load", target, "--password-file", "/dev/zero"],
        &["load", target, "--scenario-file", "/dev/zero"],
        &["run", "/dev/zero"],
        &["report", "/dev/zero"],
        &["run", "register", "--compare", "/dev/zero"],
    ] {
        let args = [&["lab"], args].concat();
        let line = Running::start_with_memory(folder.path(), &args, 1 << 30).done().refused(2);
        assert!(line.contains("/dev/zero") && line.contains("not a text file"), "{line}");
    }
    let long = folder.path().join("long.csv");
    fs::File::create(&long).unwrap().set_len(0).unwrap();
    fs::write(&long, "u,secret\n".repeat(5_000_000)).unwrap();
    let line = Running::start(folder.path(), &["lab", "load", target, "--users-file", "long.csv"], "").done();
    assert!(line.refused(2).contains("more than 32 MB"), "{line:?}");
}

#[test]
fn help_fits_into_80_columns() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["load", "run", "list", "report", "scenario"] {
        let out = Running::start(folder.path(), &["lab", command, "--help"], "").done().ok();
        let (_, behind) = out.split_once("  -h, --help").unwrap();
        for line in behind.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
        assert!(behind.contains("Examples:\n  ringway lab "), "{behind}");
    }
}

const RESULTS: &str = include_str!("../../../../testdata/lab/results.jsonl");

#[test]
fn results_become_one_file_also_if_they_were_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("results")).unwrap();
    let results = folder.path().join("results/results.jsonl");
    fs::write(&results, RESULTS).unwrap();
    let report = |args: &[&str]| {
        let args = [&["lab", "report"], args].concat();
        Running::start(folder.path(), &args, "").done()
    };
    let done = report(&["results"]);
    assert_eq!((done.status, done.out.contains("results/report.html: 65 records")), (0, true), "{done:?}");
    let page = fs::read_to_string(folder.path().join("results/report.html")).unwrap();
    assert!(page.contains("<h1>SIP load results of 2026-11-22") && !page.contains("Incomplete"));

    // The same campaign again, whole or cut off, counts once.
    let cut = RESULTS.get(..RESULTS.len() - 20).unwrap();
    fs::write(folder.path().join("copy.jsonl"), cut).unwrap();
    let done = report(&["copy.jsonl", "results", "results", "--out", "twice.html"]);
    assert!(done.out.contains("twice.html: 65 records"), "{done:?}");
    assert!(done.err.contains("given 3 times") && done.err.contains("used once"), "{done:?}");
    assert_eq!(fs::read_to_string(folder.path().join("twice.html")).unwrap(), page);

    fs::write(&results, cut).unwrap();
    assert_eq!(report(&["results/results.jsonl", "--out", "cut.html"]).status, 0);
    assert!(fs::read_to_string(folder.path().join("cut.html")).unwrap().contains("Incomplete"));
}

#[test]
fn results_that_cannot_be_reported_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let other = RESULTS.replace("0123456789abcdef", "fedcba9876543210");
    let wrong = RESULTS.replacen("\"achieved\":", "\"achieved\":NaN,\"x\":", 1);
    for (name, text) in [("a.jsonl", RESULTS), ("b.jsonl", &other), ("c.jsonl", &wrong)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let refused = |args: &[&str]| {
        let args = [&["lab", "report"], args].concat();
        Running::start(folder.path(), &args, "").done().refused(2)
    };
    let line = 1 + wrong.lines().position(|line| line.contains("NaN")).unwrap();
    assert!(refused(&["c.jsonl"]).contains(&format!("c.jsonl:{line}: ")));
    assert!(refused(&["a.jsonl", "b.jsonl"]).contains("different machines"));
    assert!(refused(&["missing"]).contains("no results of `ringway lab run`"));
    assert!(refused(&["a.jsonl", "--out", "a.jsonl"]).contains("these are the results"));
    assert!(!folder.path().join("report.html").exists());
}
