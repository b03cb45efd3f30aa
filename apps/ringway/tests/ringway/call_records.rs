//! Call records and capture of the built server, with scripted phones.
//!
//! Tested: file, database, API and commands have each call once; rotation, a full disk, a folder that vanishes; any bytes of a peer
//! make valid JSON; messages reach a HEP collector that comes and goes, and one that cannot be found delays nothing.

use crate::documents::{FAIL2BAN, block};
use crate::program;
use crate::program::{Running, Signal, TIME_LIMIT};
use ringway_test_support::eventually::wait_until;
use ringway_test_support::programs::has;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

struct Server {
    folder: TempDir,
    running: Running,
    admin: String,
    address: String,
    alice: UdpSocket,
    bob: UdpSocket,
    calls: u32,
}

fn configuration(rest: &str) -> String {
    format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\nworkers = 2\n[store]\nurl = \"memory:\"\n\
         [auth]\nenabled = false\n[limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:0\"\n{rest}"
    )
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    socket
}

impl Server {
    fn start(rest: &str) -> Self {
        Self::start_by(rest, |folder| Running::start(folder, &["serve"], ""))
    }

    fn start_by(rest: &str, start: impl FnOnce(&Path) -> Running) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ringway.toml"), configuration(rest)).unwrap();
        let running = start(folder.path());
        let address = running.address();
        let admin = running.admin();
        let server = Self { folder, running, admin, address, alice: socket(), bob: socket(), calls: 0 };
        let own = server.bob.local_addr().unwrap();
        server.send(
            &server.bob,
            &format!(
                "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKr\r\nMax-Forwards: 70\r\n\
                 From: <sip:bob@example.org>;tag=b\r\nTo: <sip:bob@example.org>\r\nCall-ID: r\r\nCSeq: 1 REGISTER\r\n\
                 Contact: <sip:bob@{own}>\r\nContent-Length: 0\r\n\r\n"
            )
            .into_bytes(),
        );
        server.receive(&server.bob, "SIP/2.0 200");
        server
    }

    fn send(&self, from: &UdpSocket, message: &[u8]) {
        from.send_to(message, &self.address).unwrap();
    }

    fn receive(&self, at: &UdpSocket, start: &str) -> String {
        let mut room = [0; 8192];
        loop {
            let length = at.recv(&mut room).unwrap_or_else(|error| panic!("no {start}: {error}"));
            let text = String::from_utf8_lossy(&room[..length]).into_owned();
            if text.starts_with(start) {
                return text;
            }
        }
    }

    fn invite(&mut self, to: &str, call_id: &[u8]) {
        self.calls += 1;
        let (own, number) = (self.alice.local_addr().unwrap(), self.calls);
        let head = format!(
            "INVITE sip:{to}@example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKi{number}\r\nMax-Forwards: 70\r\n\
             From: \"\\\"<b>\" <sip:alice@example.org>;tag=a{number}\r\nTo: <sip:{to}@example.org>\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:alice@{own}>\r\nContent-Length: 0\r\nCall-ID: "
        );
        self.send(&self.alice, &[head.as_bytes(), call_id, b"\r\n\r\n"].concat());
    }

    /// Bob answers the INVITE that he gets, with this status; what alice gets.
    fn answer(&self, invite: &str, status: u16) -> String {
        let copied = |name: &str| -> String {
            invite.lines().filter(|line| line.starts_with(name)).map(|line| format!("{line}\r\n")).collect()
        };
        let mut to = copied("To: ").trim_end().to_owned();
        if !to.contains(";tag=") {
            to.push_str(";tag=bob");
        }
        let rest = ["Via: ", "From: ", "Call-ID: ", "CSeq: ", "Record-Route: "].map(copied).concat();
        let own = self.bob.local_addr().unwrap();
        let text = format!(
            "SIP/2.0 {status} Said\r\n{rest}{to}\r\nContact: <sip:bob@{own}>\r\nContent-Length: 0\r\n\r\n"
        );
        self.send(&self.bob, text.as_bytes());
        self.receive(&self.alice, &format!("SIP/2.0 {status}"))
    }

    /// A call that is answered and ended by alice.
    fn call(&mut self) {
        let call_id = format!("call-{}", self.calls);
        self.invite("bob", call_id.as_bytes());
        let invite = self.receive(&self.bob, "INVITE ");
        self.answer(&invite, 180);
        let answer = self.answer(&invite, 200);
        let (own, number) = (self.alice.local_addr().unwrap(), self.calls);
        let route = answer.lines().find_map(|line| line.strip_prefix("Record-Route: ")).unwrap();
        let bob = self.bob.local_addr().unwrap();
        let bye = format!(
            "BYE sip:bob@{bob} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bKb{number}\r\nMax-Forwards: 70\r\n\
             Route: {route}\r\nFrom: <sip:alice@example.org>;tag=a{number}\r\nTo: <sip:bob@example.org>;tag=bob\r\n\
             Call-ID: {call_id}\r\nCSeq: 2 BYE\r\nContent-Length: 0\r\n\r\n"
        );
        self.send(&self.alice, bye.as_bytes());
        let bye = self.receive(&self.bob, "BYE ");
        self.answer(&bye, 200);
    }

    fn command(&self, args: &[&str]) -> program::Done {
        Running::start(self.folder.path(), &[args, &["--admin", &self.admin]].concat(), "").done()
    }

    fn show(&self, what: &str) -> Value {
        self.running.show(what)
    }

    fn stat(&self, name: &str) -> u64 {
        self.running.stat(name)
    }

    /// Lines of a file, once there are `count`.
    fn lines(&self, name: &str, count: usize) -> Vec<Value> {
        let path = self.folder.path().join(name);
        let read = || fs::read_to_string(&path).unwrap_or_default();
        wait_until(&format!("{count} lines in {name}"), || read().lines().count() >= count);
        read().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn a_call_is_listed_while_it_lasts_and_recorded_when_it_ends() {
    let mut server =
        Server::start("[records]\nfile = \"calls.jsonl\"\nurl = \"sqlite://calls.db\"\nkeep_days = 7\n");
    server.invite("bob", b"first");
    let invite = server.receive(&server.bob, "INVITE ");
    server.answer(&invite, 180);
    let shown = server.show("calls");
    assert_eq!((&shown["calls"][0]["state"], &shown["total"]), (&"ringing".into(), &1.into()), "{shown}");
    server.answer(&invite, 200);
    let shown = server.show("calls");
    assert_eq!(shown["calls"][0]["state"], "answered", "{shown}");
    assert!(shown["calls"][0]["answered_s"].is_u64() && server.stat("calls_open") == 1);
    server.invite("nobody", b"absent");
    server.receive(&server.alice, "SIP/2.0 404");
    server.call();
    let lines = server.lines("calls.jsonl", 2);
    assert_eq!((&lines[0]["call_id"], &lines[0]["status"]), (&"absent".into(), &404.into()));
    let call = &lines[1];
    assert_eq!((&call["n"], &call["reason"], &call["status"]), (&2.into(), &"bye".into(), &200.into()));
    assert_eq!(
        (&call["from"], &call["to"]),
        (&"sip:alice@example.org".into(), &"sip:bob@example.org".into())
    );
    assert_eq!(call["source"], server.alice.local_addr().unwrap().to_string());
    assert_eq!(call["target"], format!("sip:bob@{}", server.bob.local_addr().unwrap()));
    for time in ["begun", "ringing", "answered", "ended"] {
        let time = call[time].as_str().unwrap();
        assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
    }
    assert!(call["duration_s"].is_f64() && call.get("caller").is_none() && call.get("diverted").is_none());
    let shown = server.show("records");
    assert_eq!((&shown["records"][1], &shown["total"]), (call, &2.into()));
    let table = server.command(&["show", "records"]).ok();
    assert!(table.contains("sip:bob@example.org") && table.ends_with("2 records\n"), "{table}");
    let folder = server.folder.path().to_owned();
    server.running.end();
    assert_eq!(server.running.done().status, 0);
    let last = fs::read_to_string(folder.join("calls.jsonl")).unwrap();
    let last: Value = serde_json::from_str(last.lines().nth(2).unwrap()).unwrap();
    assert_eq!((&last["call_id"], &last["reason"]), (&"first".into(), &"stopped".into()));
    let database = fs::metadata(folder.join("calls.db")).unwrap();
    assert!(database.len() > 4096 || fs::metadata(folder.join("calls.db-wal")).is_ok());
}

#[test]
fn any_bytes_of_a_peer_make_valid_json() {
    let mut server = Server::start("[records]\nfile = \"calls.jsonl\"\n");
    let ids: [&[u8]; 4] = [b"a\"b\\c/</script>{}", b"caf\xc3\xa9", b"8-bit-\xff\xfe", b"[\x01\x1b\x7f]"];
    for id in ids {
        server.invite("nobody", id);
    }
    server.invite("nobody", b"last");
    server.receive(&server.alice, "SIP/2.0 404");
    wait_until("the last", || {
        let text = fs::read_to_string(server.folder.path().join("calls.jsonl")).unwrap_or_default();
        text.contains("\"last\"")
    });
    let lines = server.lines("calls.jsonl", 2);
    let ids: Vec<_> = lines.iter().map(|line| line["call_id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"a\"b\\c/</script>{}"), "{ids:?}");
    let shown = server.show("records");
    assert_eq!(shown["records"].as_array().unwrap().len(), lines.len());
}

#[test]
fn a_rotated_file_and_a_vanished_folder() {
    let mut server = Server::start_by("[records]\nfile = \"log/calls.jsonl\"\n", |folder| {
        fs::create_dir(folder.join("log")).unwrap();
        Running::start(folder, &["serve"], "")
    });
    let path = server.folder.path().join("log");
    server.call();
    server.lines("log/calls.jsonl", 1);
    fs::rename(path.join("calls.jsonl"), path.join("calls.jsonl.1")).unwrap();
    server.running.signal(Signal::HUP);
    server.running.says("configuration reloaded");
    server.call();
    assert_eq!(server.lines("log/calls.jsonl", 1)[0]["n"], 2);
    fs::remove_dir_all(&path).unwrap();
    for _ in 0..3 {
        server.call();
    }
    server.running.says("call records cannot be written");
    wait_until("records wait", || server.stat("records_failed") == 1 && server.stat("records_waiting") == 3);
    fs::create_dir(&path).unwrap();
    server.running.says("call records are written again");
    let lines = server.lines("log/calls.jsonl", 3);
    assert_eq!(lines.iter().map(|line| line["n"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!((server.stat("records_failed"), server.stat("records_lost")), (0, 0));
}

#[test]
fn logrotate_rotates_the_file_as_the_guide_says() {
    if !has("logrotate", "logrotate") {
        return;
    }
    let mut server = Server::start("[records]\nfile = \"calls.jsonl\"\n");
    server.call();
    server.lines("calls.jsonl", 1);
    let folder = server.folder.path().to_owned();
    // Only the superuser can become another user.
    let rotation = block(FAIL2BAN, "# /etc/logrotate.d/ringway");
    let rotation =
        rotation.replace("/var/log/ringway", folder.to_str().unwrap()).replace("su ringway ringway", "");
    fs::write(folder.join("logrotate.conf"), rotation).unwrap();
    let mut command = Command::new("logrotate");
    command.args(["--force", "--state", "logrotate.state", "logrotate.conf"]).current_dir(&folder);
    let done = command.output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    server.call();
    assert_eq!(server.lines("calls.jsonl", 1)[0]["n"], 2);
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let rotated = names.filter(|name| name.starts_with("calls.jsonl-20")).count();
    assert_eq!(rotated, 1);
}

/// The size of a file is limited as a full disk limits it; the limit is removed while the server runs.
#[test]
fn a_full_disk_stops_no_call_and_leaves_no_half_line() {
    let mut server = Server::start_by("[records]\nfile = \"calls.jsonl\"\n", |folder| {
        Running::start_by_shell(folder, "trap '' XFSZ; exec prlimit --fsize=1000:unlimited \"$0\" serve")
    });
    for _ in 0..6 {
        server.call();
    }
    server.running.says("call records cannot be written");
    server.call();
    wait_until("all wait", || server.stat("records_waiting") >= 5);
    let written = fs::read_to_string(server.folder.path().join("calls.jsonl")).unwrap();
    assert!(written.is_empty() || written.ends_with('\n'), "{written}");
    let id = server.running.id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &id, "--fsize=unlimited"]).status().unwrap();
    assert!(raised.success());
    server.running.says("call records are written again");
    let numbers: Vec<_> =
        server.lines("calls.jsonl", 7).iter().map(|line| line["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    let said = server.running.said();
    assert_eq!(said.matches("call records cannot be written").count(), 1, "{said}");
}

#[test]
fn records_begin_and_end_with_a_reload() {
    let mut server = Server::start("");
    server.call();
    assert_eq!(server.show("records")["total"], 0);
    let file = server.folder.path().join("ringway.toml");
    fs::write(&file, configuration("[records]\nenabled = true\n")).unwrap();
    server.command(&["reload"]).ok();
    server.call();
    wait_until("a record", || server.show("records")["total"] == 1);
    fs::write(&file, configuration("[records]\nfile = \"nowhere/calls.jsonl\"\n")).unwrap();
    let refused = server.command(&["reload"]);
    assert!(refused.status != 0 && format!("{refused:?}").contains("[records] file: nowhere/calls.jsonl"));
    server.invite("bob", b"open");
    let invite = server.receive(&server.bob, "INVITE ");
    server.answer(&invite, 200);
    fs::write(&file, configuration("")).unwrap();
    server.command(&["reload"]).ok();
    wait_until("the end", || server.show("records")["records"][1]["reason"] == "stopped");
    assert_eq!(server.stat("calls_open"), 0);
}

/// 1 MiB for all: files of users have at most 384 KiB each.
#[test]
fn full_files_are_rotated_and_the_database_removes_its_oldest_records() {
    let mut server =
        Server::start("[records]\nfile = \"calls.jsonl\"\nurl = \"sqlite://calls.db\"\nmax_mb = 1\n");
    let folder = server.folder.path().to_owned();
    let rest = "x".repeat(230);
    let len = |name: &str| fs::metadata(folder.join(name)).map_or(0, |found| found.len());
    let mut sent = 0;
    while server.stat("records_files_removed") == 0 || server.stat("records_rows_removed") == 0 {
        assert!(sent < 10_000, "nothing is removed");
        for _ in 0..100 {
            server.invite("nobody", format!("{sent:05}{rest}").as_bytes());
            server.receive(&server.alice, "SIP/2.0 404");
            sent += 1;
        }
    }
    wait_until("all are written", || {
        // There is none for a moment while they are rotated.
        let newest = fs::read_to_string(folder.join("calls.jsonl")).unwrap_or_default();
        newest.contains(&format!("\"call_id\":\"{:05}", sent - 1))
    });
    assert!(len("calls.jsonl") <= 384 << 10 && len("calls.jsonl.1") <= 384 << 10 && len("calls.jsonl.1") > 0);
    assert!(!folder.join("calls.jsonl.2").exists() && !folder.join("calls.jsonl.strangers").exists());
    // With room for a batch before its records are removed.
    assert!(len("calls.db") <= 3 << 20, "{}", len("calls.db"));
    assert_eq!(server.stat("records_lost"), 0);
}

/// Payloads of complete HEP3 packets.
fn payloads(mut bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    while bytes.len() >= 6 && bytes.starts_with(b"HEP3") {
        let len = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        let Some(packet) = bytes.get(..len) else { break };
        let mut chunks = &packet[6..];
        while chunks.len() >= 6 {
            let size = usize::from(u16::from_be_bytes([chunks[4], chunks[5]]));
            if chunks[..4] == [0, 0, 0, 15] {
                found.push(String::from_utf8_lossy(&chunks[6..size]).into_owned());
            }
            chunks = &chunks[size..];
        }
        bytes = &bytes[len..];
    }
    found
}

#[test]
fn messages_reach_a_collector_that_comes_and_goes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut server = Server::start(&format!(
        "[hep]\ncollector = \"tcp:{address}\"\ncapture_id = 7\npassword = \"s3cret\"\n"
    ));
    let (mut stream, _) = listener.accept().unwrap();
    server.running.says("HEP collector is connected");
    wait_until("connected", || server.stat("hep_connected") == 1);
    server.call();
    let (mut bytes, mut room) = (Vec::new(), [0; 65_536]);
    let end = Instant::now() + TIME_LIMIT;
    // INVITE, 100, 180, 200, BYE, 200: received and sent, but for the 100.
    while payloads(&bytes).len() < 11 {
        assert!(Instant::now() < end, "{:?}", payloads(&bytes));
        let count = stream.read(&mut room).unwrap();
        bytes.extend_from_slice(&room[..count]);
    }
    let got = payloads(&bytes);
    let count = |start: &str| got.iter().filter(|payload| payload.starts_with(start)).count();
    assert_eq!((count("INVITE "), count("SIP/2.0 100"), count("BYE ")), (2, 1, 2));
    assert!(bytes.windows(6).any(|window| window == b"s3cret"));
    // The collector goes away: calls go on, nothing is kept.
    drop((stream, listener));
    server.running.says("HEP collector cannot be reached");
    for _ in 0..3 {
        server.call();
    }
    let lost = server.stat("hep_lost");
    server.call();
    assert_eq!((server.stat("hep_lost"), server.stat("hep_connected")), (lost, 0));
    let listener = TcpListener::bind(address).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    wait_until("connected again", || server.stat("hep_connected") == 1);
    server.call();
    let count = stream.read(&mut room).unwrap();
    assert!(room[..count].starts_with(b"HEP3"), "a new stream begins with a packet");
    assert!(!server.running.said().contains("s3cret"));
}

/// Kamailio's issue 2081: a host that cannot be found stopped SIP.
#[test]
fn a_collector_that_cannot_be_found_delays_nothing() {
    let mut server = Server::start("[hep]\ncollector = \"udp:collector.invalid:9060\"\n");
    let began = Instant::now();
    for _ in 0..5 {
        server.call();
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    server.running.says("HEP collector cannot be reached");
    assert_eq!(server.stat("hep_sent"), 0);
    fs::write(server.folder.path().join("ringway.toml"), configuration("")).unwrap();
    server.command(&["reload"]).ok();
    server.call();
}
