//! Reload of the built server while phones use it.
//!
//! Tested: listeners that come and go under a call, a taken port and a bad certificate change nothing, no request is lost by
//! twenty reloads, what needs a restart is named, token and log change, the admin API, block lists of the running server.

use crate::program;
use crate::program::{Running, Signal, TIME_LIMIT};
use ringway_test_support::eventually::wait_until;
use ringway_test_support::port::free_port;
use serde_json::Value;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server in a folder of its own, whose configuration changes.
struct Server {
    folder: TempDir,
    running: Running,
    admin: String,
}

impl Server {
    fn start(rest: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ringway.toml"), configuration(&["udp:127.0.0.1:0"], rest)).unwrap();
        let running = Running::start(folder.path(), &["serve"], "");
        running.ready();
        let admin = running.admin();
        Self { folder, running, admin }
    }

    fn write(&self, listen: &[&str], rest: &str) {
        fs::write(self.folder.path().join("ringway.toml"), configuration(listen, rest)).unwrap();
    }

    fn command(&self, args: &[&str]) -> program::Done {
        Running::start(self.folder.path(), args, "").done()
    }

    fn reload(&self) -> program::Done {
        self.command(&["reload", "--json", "--admin", &self.admin])
    }

    /// Reloads a configuration that is accepted.
    fn change(&self, listen: &[&str], rest: &str) -> Value {
        self.write(listen, rest);
        let done = self.reload();
        assert_eq!(done.status, 0, "{done:?}");
        done.json()
    }

    fn stat(&self, name: &str) -> u64 {
        self.running.stat(name)
    }
}

fn configuration(listen: &[&str], rest: &str) -> String {
    let mut listen: Vec<String> = listen.iter().map(|listen| format!("\"{listen}\"")).collect();
    if listen.is_empty() {
        listen.push("\"udp:127.0.0.1:0\"".to_owned());
    }
    format!(
        "domains = [\"example.org\"]\nlisten = [{}]\nworkers = 2\n{rest}\n[admin]\nlisten = \"127.0.0.1:0\"\n",
        listen.join(", ")
    )
}

const OPEN: &str = "[auth]\nenabled = false\n[limits]\nper_source_rate = 0";

/// A phone on UDP.
struct Phone {
    socket: UdpSocket,
    name: String,
    sent: u32,
}

impl Phone {
    fn new(name: &str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { socket, name: name.to_owned(), sent: 0 }
    }

    fn address(&self) -> String {
        self.socket.local_addr().unwrap().to_string()
    }

    /// Sends a request to `to`, with these further lines.
    fn send(&mut self, to: &str, method: &str, uri: &str, call: &str, lines: &str) {
        self.sent += 1;
        let (name, own, number) = (&self.name, self.address(), self.sent);
        let domain = if name == "spam" { "example.com" } else { "example.org" };
        let to_line = match lines.contains("To: ") {
            true => String::new(),
            false if method == "REGISTER" => format!("To: <sip:{name}@example.org>\r\n"),
            false => format!("To: <{uri}>\r\n"),
        };
        let text = format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{name}{number}\r\nMax-Forwards: 70\r\n\
             From: <sip:{name}@{domain}>;tag={name}\r\n{to_line}Call-ID: {call}\r\nCSeq: {number} {method}\r\n\
             Contact: <sip:{name}@{own}>\r\n{lines}Content-Length: 0\r\n\r\n"
        );
        self.socket.send_to(text.as_bytes(), to).unwrap();
    }

    /// The next message whose first line contains the text, with its sender.
    fn receive(&self, what: &str) -> (String, String) {
        let mut room = [0; 4096];
        loop {
            let (length, from) =
                self.socket.recv_from(&mut room).unwrap_or_else(|error| panic!("no {what}: {error}"));
            let text = String::from_utf8_lossy(&room[..length]).into_owned();
            if text.lines().next().unwrap_or_default().contains(what) {
                return (text, from.to_string());
            }
        }
    }

    /// Answers a request that was received from `to`.
    fn answer(&self, request: &str, to: &str, status: &str) {
        let mut text = format!("SIP/2.0 {status}\r\n");
        for line in request.lines().skip(1).take_while(|line| !line.is_empty()) {
            let name = line.split(':').next().unwrap();
            if ["Via", "From", "Call-ID", "CSeq", "Record-Route"].contains(&name) {
                text += &format!("{line}\r\n");
            } else if name == "To" {
                let tag = if line.contains(";tag=") { "" } else { ";tag=callee" };
                text += &format!("{line}{tag}\r\n");
            }
        }
        let contact = format!("Contact: <sip:{}@{}>\r\n", self.name, self.address());
        self.socket.send_to(format!("{text}{contact}Content-Length: 0\r\n\r\n").as_bytes(), to).unwrap();
    }

    fn register(&mut self, to: &str) {
        let call = format!("register-{}", self.name);
        self.send(to, "REGISTER", "sip:example.org", &call, "Expires: 600\r\n");
        self.receive("200");
    }
}

fn line<'a>(message: &'a str, name: &str) -> &'a str {
    message.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {message}"))
}

#[test]
fn listeners_come_and_go_under_a_call() {
    let server = Server::start(OPEN);
    let old = server.running.address();
    let new = format!("127.0.0.1:{}", free_port().unwrap());
    let (mut alice, mut bob) = (Phone::new("alice"), Phone::new("bob"));
    bob.register(&old);
    alice.send(&old, "INVITE", "sip:bob@example.org", "call", "");
    let (invite, from) = bob.receive("INVITE");
    assert_eq!(from, old);
    bob.answer(&invite, &from, "180 Ringing");
    alice.receive("180");

    let report = server.change(&[&format!("udp:{new}")], OPEN);
    assert_eq!(
        (report["applied"].as_bool(), report["changes"][0]["key"].as_str()),
        (Some(true), Some("listen"))
    );
    // The call is answered and ended over the listener that it began by.
    bob.answer(&invite, &from, "200 OK");
    let (answer, from) = alice.receive("200");
    assert_eq!(from, old);
    let route = line(&answer, "Record-Route: ").replace("Record-Route", "Route");
    let lines = format!("{}\r\n{route}\r\n", line(&answer, "To: "));
    let uri = format!("sip:bob@{}", bob.address());
    alice.send(&old, "ACK", &uri, "call", &lines);
    bob.receive("ACK");
    alice.send(&old, "BYE", &uri, "call", &lines);
    let (bye, from) = bob.receive("BYE");
    bob.answer(&bye, &from, "200 OK");
    alice.receive("200");
    // New work is done over the new one.
    bob.register(&new);
    alice.send(&new, "INVITE", "sip:bob@example.org", "second", "");
    let (invite, from) = bob.receive("INVITE");
    assert_eq!(from, new);
    bob.answer(&invite, &from, "486 Busy Here");
    alice.receive("486");
    // The old one comes back with its socket, and a stream listener closes at once.
    server.change(&[&format!("udp:{new}"), "udp:127.0.0.1:0", &format!("tcp:{new}")], OPEN);
    alice.send(&old, "OPTIONS", "sip:example.org", "options", "");
    assert_eq!(alice.receive("200").1, old);
    assert!(std::net::TcpStream::connect(&new).is_ok());
    server.change(&[&format!("udp:{new}")], OPEN);
    assert!(std::net::TcpStream::connect(&new).is_err());
}

#[test]
fn a_taken_port_changes_nothing_and_is_named() {
    let server = Server::start(OPEN);
    let address = server.running.address();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (taken, free) = (format!("tcp:{}", taken.local_addr().unwrap()), free_port().unwrap());
    server.write(
        &["udp:127.0.0.1:0", &format!("udp:127.0.0.1:{free}"), &taken],
        "[auth]\nenabled = true\n[limits]\nper_source_rate = 0",
    );
    let done = server.reload();
    assert_eq!(done.status, 1);
    let report = done.json();
    assert_eq!((report["ok"].as_bool(), report["applied"].as_bool()), (Some(false), Some(false)));
    assert!(done.err.contains(&taken) && done.err.contains("another program"), "{done:?}");
    // SIGHUP says the same in the log.
    server.running.signal(Signal::HUP);
    assert!(server.running.says("configuration not reloaded").contains(&taken));
    UdpSocket::bind(("127.0.0.1", free)).expect("the free port was given back");
    // Passwords are still off.
    Phone::new("alice").register(&address);
    // A port that the server itself uses for another transport is explained.
    let port = address.rsplit(':').next().unwrap();
    server.write(&[&format!("udp:0.0.0.0:{port}")], OPEN);
    let done = server.reload();
    assert!(done.err.contains(&format!("udp:{address} of this server uses the port")), "{done:?}");
}

#[test]
fn a_bad_certificate_changes_nothing() {
    let server = Server::start(OPEN);
    let address = server.running.address();
    let at = |name: &str| server.folder.path().join(name);
    fs::write(at("bad.pem"), "no certificate").unwrap();
    let tls = format!("tls:127.0.0.1:{}", free_port().unwrap());
    let with = |certificate: &str, key: &str| {
        format!(
            "{OPEN}\n[routing]\nmode = \"redirect\"\n[tls]\ncertificate = \"{certificate}\"\nprivate_key = \"{key}\""
        )
    };
    server.write(&["udp:127.0.0.1:0", &tls], &with("bad.pem", "bad.pem"));
    let done = server.reload();
    assert!(done.status == 1 && done.err.contains("bad.pem"), "{done:?}");
    let (mut alice, mut bob) = (Phone::new("alice"), Phone::new("bob"));
    bob.register(&address);
    alice.send(&address, "OPTIONS", "sip:bob@example.org", "options", "");
    let (options, from) = bob.receive("OPTIONS");
    bob.answer(&options, &from, "200 OK");
    alice.receive("200");
    // With a good one everything changes.
    server.command(&["cert", "init", "--domain", "example.org"]).ok();
    server.change(&["udp:127.0.0.1:0", &tls], &with("tls/cert.pem", "tls/key.pem"));
    alice.send(&address, "OPTIONS", "sip:bob@example.org", "redirected", "");
    alice.receive("302");
    assert!(std::net::TcpStream::connect(tls.strip_prefix("tls:").unwrap()).is_ok());
}

#[test]
fn orders_of_certificates_begin_and_end_with_a_reload() {
    let server = Server::start(OPEN);
    let renew = || server.command(&["cert", "renew", "--admin", &server.admin]);
    let refused = renew();
    assert!(refused.status == 1 && refused.err.contains("there is no section [tls.acme]"), "{refused:?}");
    let tls = format!("tls:127.0.0.1:{}", free_port().unwrap());
    // No program listens at port 1.
    let acme = "[tls.acme]\naccept_terms = true\ndirectory = \"https://127.0.0.1:1/\"\n";
    fs::write(server.folder.path().join("bad.pem"), "no certificate").unwrap();
    server.write(&["udp:127.0.0.1:0", &tls], &format!("{OPEN}\n{acme}ca = \"bad.pem\"\n"));
    let done = server.reload();
    assert!(done.status == 1 && done.err.contains("[tls.acme] ca"), "{done:?}");
    assert!(!server.folder.path().join("acme").exists(), "a refused reload made a folder");
    // An authority that is valid, whatever this machine has.
    server.command(&["cert", "init", "--domain", "example.org"]).ok();
    server.change(&["udp:127.0.0.1:0", &tls], &format!("{OPEN}\n{acme}ca = \"tls/ca.pem\"\n"));
    assert!(std::net::TcpStream::connect(tls.strip_prefix("tls:").unwrap()).is_ok());
    let failed = |count| wait_until("an order fails", || server.stat("acme_failed") >= count);
    failed(1);
    renew().ok();
    failed(2);
    assert_eq!(server.stat("acme_issued"), 0);
    server.change(&["udp:127.0.0.1:0"], OPEN);
    assert_eq!(renew().status, 1);
}

#[test]
fn twenty_reloads_under_load_lose_no_request() {
    let server = Server::start(OPEN);
    let address = server.running.address();
    let stop = Arc::new(AtomicBool::new(false));
    let (of_registrations, of_calls) = (Arc::clone(&stop), Arc::clone(&stop));
    // The callee ends after the last call.
    let end = Arc::new(AtomicBool::new(false));
    let of_callee = Arc::clone(&end);
    let mut bob = Phone::new("bob");
    bob.register(&address);
    let callee = std::thread::spawn(move || {
        let mut room = [0; 4096];
        bob.socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        while !of_callee.load(Ordering::Relaxed) {
            let Ok((length, from)) = bob.socket.recv_from(&mut room) else { continue };
            let text = String::from_utf8_lossy(&room[..length]).into_owned();
            if text.starts_with("INVITE") {
                bob.answer(&text, &from.to_string(), "486 Busy Here");
            }
        }
    });
    let to = address.clone();
    let registrations = std::thread::spawn(move || {
        let mut alice = Phone::new("alice");
        let mut answered = 0;
        while !of_registrations.load(Ordering::Relaxed) {
            // Each waits for its answer; a lost one fails the test, because nothing is sent twice.
            alice.register(&to);
            answered += 1;
        }
        answered
    });
    let calls = std::thread::spawn(move || {
        let mut carol = Phone::new("carol");
        let mut answered = 0;
        while !of_calls.load(Ordering::Relaxed) {
            let call = format!("call-{answered}");
            carol.send(&address, "INVITE", "sip:bob@example.org", &call, "");
            let (busy, _) = carol.receive("486");
            assert_eq!(line(&busy, "Call-ID: "), format!("Call-ID: {call}"));
            carol.sent -= 1;
            let to = format!("{}\r\n", line(&busy, "To: "));
            carol.send(&address, "ACK", "sip:bob@example.org", &call, &to);
            answered += 1;
        }
        answered
    });
    let began = Instant::now();
    for round in 0..20 {
        let extra = format!("{OPEN}\n[registrar]\nmax_contacts = {}", 5 + round);
        // Another program may take a port between its choice and its use.
        let is_applied = (0..3).any(|_| {
            let (udp, tcp) = (
                format!("udp:127.0.0.1:{}", free_port().unwrap()),
                format!("tcp:127.0.0.1:{}", free_port().unwrap()),
            );
            server.write(&["udp:127.0.0.1:0", &udp, &tcp], &extra);
            let done = server.reload();
            assert!(done.status == 0 || done.err.contains("another program listens"), "{done:?}");
            done.status == 0
        });
        assert!(is_applied, "no port is free");
    }
    stop.store(true, Ordering::Relaxed);
    let (registered, called) = (registrations.join().unwrap(), calls.join().unwrap());
    end.store(true, Ordering::Relaxed);
    callee.join().unwrap();
    assert!(
        registered > 20 && called > 20,
        "{registered} registrations, {called} calls in {:?}",
        began.elapsed()
    );
    assert_eq!(server.stat("registered"), registered + 1);
}

#[test]
fn a_long_difference_is_cut_and_the_number_of_the_others_is_said() {
    let server = Server::start("[log]\nlevel = \"info\"");
    let route = |number: u32| format!("[[route]]\nprefix = \"{number}\"\nto = [\"t\"]\n");
    let routes: String = (1..1000).map(route).collect();
    server.write(&[], &format!("[[trunk]]\nname = \"t\"\nuri = \"sip:t.example.net\"\n{routes}"));
    let args = ["check", "ringway.toml", "--against-running", "--admin", &server.admin];
    let done = server.command(&args);
    let (listed, left_out) =
        (done.out.matches(" → ").count(), done.out.lines().rev().nth(1).unwrap().to_owned());
    assert!(listed == 1000 && left_out.starts_with("and ") && left_out.ends_with(" more"), "{left_out}");
    let report = server.command(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(report["changes"].as_array().unwrap().len(), 1000);
    assert_eq!(left_out, format!("and {} more", report["changes_left_out"]));
}

#[test]
fn what_needs_a_restart_is_named_and_secrets_are_not_shown() {
    let server = Server::start("[log]\nlevel = \"info\"");
    let address = server.running.address();
    server.write(&[], "[store]\nurl = \"sqlite://other.db\"\ndurability = \"strict\"");
    let done =
        server.command(&["check", "ringway.toml", "--against-running", "--json", "--admin", &server.admin]);
    let report = done.json();
    assert_eq!(done.status, 1, "{done:?}");
    assert_eq!(report["restart"], serde_json::json!(["store.url", "store.durability"]));
    assert_eq!(report["changes"][0]["key"], "store.durability");
    // Token and log level change at once.
    server.write(&[], "[log]\nlevel = \"debug\"");
    let file = server.folder.path().join("ringway.toml");
    let text = fs::read_to_string(&file).unwrap() + "token = \"s3cret\"\n";
    fs::write(&file, text).unwrap();
    let done = server.reload();
    assert!(done.status == 0 && !done.out.contains("s3cret") && done.out.contains("admin.token"), "{done:?}");
    assert!(!server.running.has_said("s3cret"));
    let refused = server.command(&["show", "stats", "--admin", &server.admin, "--config", "/dev/null"]);
    assert!(refused.status == 1 && refused.err.contains("token"), "{refused:?}");
    server.stat("requests");
    let mut alice = Phone::new("alice");
    server.command(&["user", "bind", "bob", "sip:bob@127.0.0.1:9"]).ok();
    std::thread::sleep(Duration::from_millis(1200));
    alice.name = "spam".to_owned();
    alice.send(&address, "INVITE", "sip:bob@example.org", "logged", "");
    assert!(server.running.says("call begun").contains("call_id=logged"));
    // A file that is not a configuration changes nothing.
    fs::write(&file, "domains = 3").unwrap();
    server.running.signal(Signal::HUP);
    server.running.says("configuration not reloaded");
}

#[test]
fn a_change_of_the_realm_warns_before_it_locks_users_out() {
    let server = Server::start("");
    server.command(&["user", "add", "alice"]).ok();
    let other = "[auth]\nrealm = \"other.example\"";
    server.write(&["udp:127.0.0.1:0"], other);
    for args in [&["reload", "--dry-run", "--admin"][..], &["reload", "--admin"]] {
        let done = server.command(&[args, &[&server.admin]].concat());
        let said = done.ok();
        assert!(
            said.contains("warning: 1 user of example.org, \"alice\" one of them, has a password"),
            "{said}"
        );
    }
    server.running.says("cannot log in");
    let report = server.change(&["udp:127.0.0.1:0"], "");
    assert_eq!(report["warnings"], serde_json::json!([]));
}

#[test]
fn block_lists_are_followed_while_the_server_runs() {
    let server = Server::start("[limits]\nper_source_rate = 0");
    let address = server.running.address();
    let bob = Phone::new("bob");
    for user in ["bob", "carol"] {
        server.command(&["user", "bind", user, &format!("sip:{user}@{}", bob.address())]).ok();
    }
    let mut spam = Phone::new("spam");
    let mut call = |user: &str, expected: &str| {
        let end = Instant::now() + TIME_LIMIT;
        loop {
            let number = spam.sent;
            spam.send(&address, "INVITE", &format!("sip:{user}@example.org"), &format!("c{number}"), "");
            let mut room = [0; 4096];
            let status = loop {
                let length = spam.socket.recv(&mut room).unwrap();
                let status = String::from_utf8_lossy(&room[8..11.min(length)]).into_owned();
                if status != "100" {
                    break status;
                }
                let (invite, from) = bob.receive("INVITE");
                bob.answer(&invite, &from, "486 Busy Here");
            };
            if status == expected {
                return;
            }
            // A change is seen within a second.
            assert!(Instant::now() < end, "{status} instead of {expected}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    call("bob", "486");
    server.command(&["block", "add", "--caller", "sip:spam@example.com", "--user", "bob"]).ok();
    call("bob", "403");
    call("carol", "486");
    server
        .command(&["block", "add", "--caller", "*@example.com", "--reason", "all of them", "--for", "2"])
        .ok();
    call("carol", "403");
    assert!(server.running.says("blocked caller").contains("caller=sip:spam@example.com"));
    let listed = server.command(&["block", "list", "--json"]).json();
    assert_eq!(listed["total"], 2);
    assert_eq!(listed["blocks"][0]["user"], "bob@example.org");
    assert!(listed["blocks"][1]["expires_s"].as_u64().unwrap() > 7000);
    server.command(&["block", "remove", "--caller", "*@EXAMPLE.com"]).ok();
    call("carol", "486");
    // A restart keeps the lists.
    assert!(server.stat("blocked_callers") >= 2);
    let Server { folder, running, .. } = server;
    running.end();
    running.done().ok();
    let running = Running::start(folder.path(), &["serve"], "");
    let address = running.address();
    spam.send(&address, "INVITE", "sip:bob@example.org", "after", "");
    spam.receive("403");
}
