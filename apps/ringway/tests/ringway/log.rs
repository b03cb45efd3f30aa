//! Log of `ringway serve` in the built program, at each level and in each format, and its behaviour under shortages: an
//! unread log, file descriptors, memory.
//!
//! Tested: refused logins, limits, registrations, calls, messages; hostile text; an unread log; few open files. Not
//! tested here: every reason for the end of a call.

use crate::admin_api::stats;
use crate::program::{Running, Signal, TIME_LIMIT, send_signal};
use ringway_test_support::eventually::{wait_for, wait_until};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server with its own folder.
struct Served {
    folder: TempDir,
    running: Running,
    udp: SocketAddr,
    tcp: SocketAddr,
}

const ALICE_PASSWORD: &str = "correct horse";

fn configuration(log: &str, more: &str) -> String {
    format!(
        "listen = [\"udp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[log]\n{log}\n{more}\n"
    )
}

fn serve(log: &str, more: &str) -> Served {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ringway.toml"), configuration(log, more)).unwrap();
    if !more.contains("memory:") {
        let add = ["user", "add", "alice", "--password-stdin", "--danger-weak"];
        Running::start(folder.path(), &add, &format!("{ALICE_PASSWORD}\n")).done().ok();
    }
    let running = Running::start(folder.path(), &["serve"], "");
    let address = |transport: &str| running.listener(transport).parse().unwrap();
    Served { udp: address("udp"), tcp: address("tcp"), running, folder }
}

impl Served {
    /// Stops the server and returns the lines of its log.
    fn log(self) -> Vec<String> {
        self.running.end();
        let done = self.running.done();
        assert_eq!(done.status, 0, "{done:?}");
        done.err.lines().map(str::to_owned).collect()
    }

    fn client(&self) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(self.udp).unwrap();
        socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        socket
    }
}

/// A request from `socket` with its own branch.
fn request(socket: &UdpSocket, method: &str, uri: &str, user: &str, call: &str, lines: &str) -> String {
    let me = socket.local_addr().unwrap();
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {me};rport;branch=z9hG4bK{method}{call}\r\nMax-Forwards: 70\r\n\
         From: <sip:{user}@localhost>;tag=f{call}\r\nTo: <sip:{user}@localhost>\r\nCall-ID: {call}\r\nCSeq: 1 {method}\r\n\
         {lines}Content-Length: 0\r\n\r\n"
    )
}

fn receive(socket: &UdpSocket) -> String {
    let mut room = [0; 4096];
    let count = socket.recv(&mut room).unwrap();
    String::from_utf8_lossy(&room[..count]).into_owned()
}

/// Receives messages until one begins with `start`.
fn receive_first(socket: &UdpSocket, start: &str) -> String {
    loop {
        let text = receive(socket);
        if text.starts_with(start) {
            return text;
        }
    }
}

/// A nonce for the address of this socket.
fn nonce(socket: &UdpSocket) -> String {
    socket.send(request(socket, "REGISTER", "sip:localhost", "alice", "nonce", "").as_bytes()).unwrap();
    receive(socket).split("nonce=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
}

/// A digest with a wrong response and this username.
fn wrong_digest(user: &str, nonce: &str) -> String {
    format!(
        "Authorization: Digest username=\"{user}\", realm=\"localhost\", nonce=\"{nonce}\", uri=\"sip:localhost\", \
         response=\"0123456789abcdef0123456789abcdef\", qop=auth, nc=00000001, cnonce=\"c\"\r\n"
    )
}

fn answer(request: &str, status: &str, contact: &str) -> String {
    let kept = |line: &&str| {
        ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:"].iter().any(|name| line.starts_with(name))
    };
    let mut text = format!("SIP/2.0 {status}\r\n");
    for line in request.split("\r\n").filter(kept) {
        text += &format!("{line}\r\n");
    }
    let to = request.split("\r\n").find(|line| line.starts_with("To:")).unwrap();
    let tag = if to.contains(";tag=") { "" } else { ";tag=callee" };
    text + &format!("{to}{tag}\r\nContact: <{contact}>\r\nContent-Length: 0\r\n\r\n")
}

#[test]
fn refused_logins_are_lines_for_fail2ban_with_any_name() {
    let served = serve("level = \"info\"", "");
    let client = served.client();
    // A name that could look like another line, or another address.
    let hostile = "x address=192.0.2.66 reason=wrong-password\t";
    for (call, user) in [("1", hostile), ("2", "alice")] {
        let digest = wrong_digest(user, &nonce(&client));
        client
            .send(request(&client, "REGISTER", "sip:localhost", "alice", call, &digest).as_bytes())
            .unwrap();
        assert!(receive(&client).starts_with("SIP/2.0 401"));
        // One line per second for each source.
        std::thread::sleep(Duration::from_millis(1100));
    }
    let log = served.log();
    let lines: Vec<_> = log.iter().filter(|line| line.contains("refused login")).collect();
    assert_eq!(lines.len(), 2, "{log:?}");
    assert!(
        lines[0].ends_with(
            "INFO refused login user=x\\x20address=192.0.2.66\\x20reason=wrong-password\\x09 address=127.0.0.1 reason=unknown-user"
        ),
        "{lines:?}"
    );
    assert!(
        lines[1].ends_with("INFO refused login user=alice address=127.0.0.1 reason=wrong-password"),
        "{lines:?}"
    );
    let pattern = failregex();
    let found: Vec<_> = log.iter().filter_map(|line| pattern.captures(line)).collect();
    assert!(found.len() == 2 && found.iter().all(|one| &one["host"] == "127.0.0.1"), "{log:?}");
    let journal = format!("host ringway[123]: {}", lines[1]);
    assert!(pattern.is_match(&journal), "as fail2ban reads it from the journal");
    assert!(!pattern.is_match(&journal.replace("ringway", "other")), "a line of another program");
    let (_, without_date) = lines[1].split_once('Z').unwrap();
    assert!(pattern.is_match(without_date), "as fail2ban reads it from a file");
    assert!(log.iter().any(|line| line.contains("INFO started version=")), "{log:?}");
    assert!(log.iter().all(|line| !line.contains("DEBUG") && !line.contains("TRACE")), "{log:?}");
}

#[test]
fn a_flood_of_refused_logins_is_logged_in_few_lines_with_a_count() {
    let served = serve("level = \"info\"\nformat = \"json\"", "[limits]\nper_source_rate = 0");
    let client = served.client();
    let end = Instant::now() + TIME_LIMIT;
    let mut sent = 0_u64;
    // The second line comes after a second and has the number of suppressed lines.
    let nonce = nonce(&client);
    while !served.running.has_said("suppressed") {
        assert!(Instant::now() < end, "no second line after {sent} logins");
        sent += 1;
        let call = sent.to_string();
        client
            .send(
                request(&client, "REGISTER", "sip:localhost", "alice", &call, &wrong_digest("alice", &nonce))
                    .as_bytes(),
            )
            .unwrap();
        receive(&client);
    }
    let lines: Vec<Value> = served.log().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let refused: Vec<_> = lines.iter().filter(|line| line["message"] == "refused login").collect();
    assert_eq!((&refused[0]["user"], &refused[0]["address"]), (&"alice".into(), &"127.0.0.1".into()));
    assert_eq!((&refused[0]["reason"], &refused[0]["level"]), (&"wrong-password".into(), &"INFO".into()));
    assert_eq!(refused[1]["reason"], "slowed", "more than twenty in a second are not checked");
    let suppressed: u64 = refused.iter().filter_map(|line| line["suppressed"].as_u64()).sum();
    assert!(suppressed > 0 && suppressed + refused.len() as u64 <= sent, "{sent} {refused:?}");
}

#[test]
fn a_reached_limit_is_logged() {
    let served = serve("level = \"info\"", "[store]\nurl = \"memory:\"\n[limits]\nper_source_rate = 1");
    let client = served.client();
    for call in 0..50 {
        let options = request(&client, "OPTIONS", "sip:localhost", "alice", &call.to_string(), "");
        client.send(options.as_bytes()).unwrap();
    }
    let line = served.running.says("limit reached");
    assert!(line.contains("INFO limit reached limit=over_rate count="), "{line}");
}

#[test]
fn a_call_refused_at_once_has_no_end_in_the_log() {
    let served = serve("level = \"debug\"", "[store]\nurl = \"memory:\"");
    let client = served.client();
    let at = client.local_addr().unwrap();
    let call = request(&client, "INVITE", "sip:x@203.0.113.1", "alice", "relay", "")
        .replace("alice@localhost", "eve@example.net");
    client.send(call.as_bytes()).unwrap();
    receive_first(&client, "SIP/2.0 403");
    let log = served.log();
    let refused = format!(
        "DEBUG call refused call_id=relay from=sip:eve@example.net to=sip:eve@example.net flow=udp:{at} status=403"
    );
    let lines: Vec<_> = log.iter().filter(|line| line.contains("call_id=relay")).collect();
    assert!(lines.len() == 1 && lines[0].ends_with(&refused), "{log:#?}");
}

#[test]
fn registrations_and_calls_are_logged_at_debug() {
    let served = serve("level = \"debug\"", "[store]\nurl = \"memory:\"\n[auth]\nenabled = false");
    let (alice, bob) = (served.client(), served.client());
    let contact = format!("sip:bob@{}", bob.local_addr().unwrap());
    let register = |call: &str, expires: u32| {
        let lines = format!("Contact: <{contact}>\r\nExpires: {expires}\r\n");
        bob.send(request(&bob, "REGISTER", "sip:localhost", "bob", call, &lines).as_bytes()).unwrap();
        receive_first(&bob, "SIP/2.0 200");
    };
    register("r1", 600);
    register("r2", 600);

    let me = format!("Contact: <sip:alice@{}>\r\n", alice.local_addr().unwrap());
    alice.send(request(&alice, "INVITE", "sip:bob@localhost", "alice", "answered", &me).as_bytes()).unwrap();
    let invite = receive_first(&bob, "INVITE");
    bob.send(answer(&invite, "200 OK", &contact).as_bytes()).unwrap();
    let ok = receive_first(&alice, "SIP/2.0 200");
    let route = ok.split("\r\n").find(|line| line.starts_with("Record-Route:")).unwrap();
    let lines = format!("{}\r\n", route.replace("Record-Route", "Route"));
    let bye = request(&alice, "BYE", &contact, "alice", "answered", &lines)
        .replace("To: <sip:alice@localhost>", "To: <sip:alice@localhost>;tag=callee")
        .replace("CSeq: 1", "CSeq: 2");
    alice.send(bye.as_bytes()).unwrap();
    let bye = receive_first(&bob, "BYE");
    bob.send(answer(&bye, "200 OK", &contact).as_bytes()).unwrap();
    receive_first(&alice, "SIP/2.0 200");

    alice.send(request(&alice, "INVITE", "sip:bob@localhost", "alice", "busy", &me).as_bytes()).unwrap();
    let invite = receive_first(&bob, "INVITE");
    bob.send(answer(&invite, "486 Busy Here", &contact).as_bytes()).unwrap();
    receive_first(&alice, "SIP/2.0 486");
    register("r3", 0);

    let mut carol = TcpStream::connect(served.tcp).unwrap();
    let at = carol.local_addr().unwrap();
    let lines = format!("Contact: <sip:carol@{at};transport=tcp>\r\n");
    let tcp = request(&bob, "REGISTER", "sip:localhost", "carol", "r4", &lines).replace("/UDP", "/TCP");
    carol.write_all(tcp.as_bytes()).unwrap();
    assert_ne!(carol.read(&mut [0; 1000]).unwrap(), 0);
    drop(carol);
    served.running.says("connection-closed");

    let (alice, bob) = (alice.local_addr().unwrap(), bob.local_addr().unwrap());
    let log = served.log();
    for expected in [
        format!("INFO registration added user=bob@localhost contact=<sip:bob@{bob}> flow=udp:{bob}"),
        format!("DEBUG registration refreshed user=bob@localhost contact=<sip:bob@{bob}> flow=udp:{bob}"),
        format!("DEBUG registration removed user=bob@localhost contact=<sip:bob@{bob}> flow=udp:{bob}"),
        format!(
            "DEBUG registration ended user=carol@localhost contact=sip:carol@{at};transport=tcp flow=tcp:{at} reason=connection-closed"
        ),
        format!(
            "DEBUG call begun call_id=answered from=sip:alice@localhost to=sip:alice@localhost flow=udp:{alice}"
        ),
        format!("DEBUG call forwarded call_id=answered flow=udp:{bob}"),
        "DEBUG call answered call_id=answered from=sip:alice@localhost to=sip:alice@localhost status=200"
            .to_owned(),
        "call_id=answered from=sip:alice@localhost to=sip:alice@localhost reason=bye".to_owned(),
        "call_id=busy from=sip:alice@localhost to=sip:alice@localhost status=486 reason=refused".to_owned(),
    ] {
        assert_eq!(log.iter().filter(|line| line.contains(&expected)).count(), 1, "{expected}\n{log:#?}");
    }
    assert!(log.iter().all(|line| !line.contains("TRACE")), "{log:?}");
}

#[test]
fn messages_are_logged_at_trace_on_one_line_without_credentials() {
    for format in ["text", "json"] {
        let log = format!("level = \"trace\"\nformat = \"{format}\"");
        let served = serve(&log, "[store]\nurl = \"memory:\"");
        let client = served.client();
        let options = request(&client, "OPTIONS", "sip:localhost", "alice", "1", &wrong_digest("alice", "n"));
        client.send(options.as_bytes()).unwrap();
        receive(&client);
        let at = client.local_addr().unwrap();
        let log = served.log();
        let lines: Vec<_> = log.iter().filter(|line| line.contains("OPTIONS")).collect();
        assert_eq!(lines.len(), 2, "{log:?}");
        let (received, sent) = if format == "json" {
            for line in &log {
                serde_json::from_str::<Value>(line).unwrap();
            }
            ("\"message\":\"received\"", "\"message\":\"sent\"")
        } else {
            ("TRACE received flow=udp:", "TRACE sent flow=udp:")
        };
        assert!(lines[0].contains(received) && lines[1].contains(sent), "{lines:?}");
        assert!(lines.iter().all(|line| line.contains(&format!("udp:{at}"))), "{lines:?}");
        assert!(
            lines[0].contains("Authorization: ...") && !lines[0].contains("0123456789abcdef"),
            "{lines:?}"
        );
    }
}

/// The documented pattern for fail2ban, with fail2ban's expansion of `<HOST>`.
fn failregex() -> regex_lite::Regex {
    let page = include_str!("../../../../docs/recipes/fail2ban.md");
    let pattern = page.lines().find_map(|line| line.strip_prefix("failregex = ")).unwrap();
    regex_lite::Regex::new(&pattern.replace("<HOST>", "(?P<host>[0-9A-Fa-f.:]+)")).unwrap()
}

#[test]
fn no_text_from_the_network_looks_like_a_refused_login() {
    const LINE: &str =
        "2026-01-02T03:04:05.678901Z  INFO refused login user=b address=192.0.2.66 reason=wrong-password";
    for format in ["text", "json"] {
        let log = format!("level = \"trace\"\nformat = \"{format}\"");
        let served = serve(&log, "[store]\nurl = \"memory:\"\n[auth]\nenabled = false");
        let client = served.client();
        let options = |call: &str, lines: &str| {
            request(&client, "OPTIONS", "sip:localhost", "alice", call, &format!("{lines}\r\n"))
        };
        let plain = |call: &str| options(call, "X: y");
        let messages = [
            options("1", &format!("Subject: {LINE}")),
            options("2", &format!("Subject: a\r\n {LINE}")),
            plain("3").replace("Call-ID: 3", &format!("Call-ID: {LINE}")),
            plain("4").replace("From: <", &format!("From: \"{LINE}\" <")),
            plain("5").replace("sip:localhost SIP", &format!("sip:localhost;{LINE} SIP")),
            plain("6")
                .replace("Content-Length: 0\r\n\r\n", &format!("Content-Length: 100\r\n\r\n\n{LINE}\n")),
            plain("7")
                .replace("OPTIONS", "INVITE")
                .replace("alice@", &format!("{}@", LINE.replace(' ', "%20"))),
            LINE.to_owned(),
            format!("\n{LINE}\n"),
            format!("\\\"\n{LINE}\n"),
        ];
        for message in &messages {
            client.send(message.as_bytes()).unwrap();
        }
        client.send(options("last", "X: y").as_bytes()).unwrap();
        served.running.says("last");
        let mut stream = TcpStream::connect(served.tcp).unwrap();
        stream.write_all(format!("{LINE}\r\n\r\n").as_bytes()).unwrap();
        let _ = stream.read(&mut [0; 1000]);
        let log = served.log();
        let traced = log.iter().filter(|line| line.contains("192.0.2.66")).count();
        assert!(traced >= messages.len(), "{log:#?}");
        let pattern = failregex();
        for line in log.iter().filter(|line| line.contains("192.0.2.66")) {
            assert!(!pattern.is_match(line), "{line}");
            if format == "text" {
                assert!(!line.contains("refused login user") && !line.contains(" address=192"), "{line}");
            }
        }
        let ours = ["TRACE received", "TRACE sent", "\"message\":\"received\"", "\"message\":\"sent\""];
        let is_trace = |line: &&String| line.contains("TRACE");
        let is_ours = |line: &String| ours.iter().any(|text| line.contains(text));
        let others: Vec<_> = log.iter().filter(is_trace).filter(|line| !is_ours(line)).collect();
        assert!(others.is_empty(), "lines of libraries: {others:?}");
    }
}

#[test]
fn a_reload_that_needs_a_restart_is_refused_and_one_of_limits_is_logged() {
    let served = serve("level = \"info\"", "[limits]\nmemory_mb = 64");
    let file = served.folder.path().join("ringway.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("workers = 3\n{text}")).unwrap();
    served.running.signal(Signal::HUP);
    let line = served.running.says("configuration not reloaded");
    assert!(line.contains("workers") && line.contains("restart"), "{line}");
    fs::write(&file, text.replace("memory_mb = 64", "memory_mb = 16")).unwrap();
    served.running.signal(Signal::HUP);
    served.running.says("limits.memory_mb: 64 → 16");
    served.running.says("configuration reloaded");
}

#[test]
fn nothing_is_logged_when_the_log_is_off() {
    let served = serve("level = \"off\"", "");
    let client = served.client();
    client
        .send(
            request(
                &client,
                "REGISTER",
                "sip:localhost",
                "alice",
                "1",
                &wrong_digest("alice", &nonce(&client)),
            )
            .as_bytes(),
        )
        .unwrap();
    receive(&client);
    assert_eq!(served.log(), [] as [&str; 0]);
}

/// More is logged than a pipe holds, and it is not read.
#[test]
fn an_unread_log_does_not_block_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let more = "[store]\nurl = \"memory:\"\n[limits]\nper_source_rate = 0";
    fs::write(folder.path().join("ringway.toml"), configuration("level = \"trace\"", more)).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_ringway"))
        .arg("serve")
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 200];
    let count = server.stdout.as_mut().unwrap().read(&mut ready).unwrap();
    let ready = String::from_utf8_lossy(&ready[..count]).into_owned();
    let udp = ready.split_whitespace().find_map(|word| word.strip_prefix("udp:")).unwrap().to_owned();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(udp).unwrap();
    client.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let padding = format!("X-Padding: {}\r\n", "x".repeat(7000));
    for call in 0..3000 {
        let options = request(&client, "OPTIONS", "sip:localhost", "alice", &call.to_string(), &padding);
        client.send(options.as_bytes()).unwrap();
        assert!(receive(&client).starts_with("SIP/2.0 200"));
    }
    send_signal(server.id(), Signal::TERM).unwrap();
    let status = wait_for("its end", || server.try_wait().unwrap());
    assert!(status.success());
}

/// Many peers connect, and the process may open 256 files.
#[test]
fn connections_leave_file_descriptors_to_the_admin_api() {
    let folder = tempfile::tempdir().unwrap();
    let more = "[store]\nurl = \"memory:\"\n[limits]\nmax_connections_per_source = 0";
    fs::write(folder.path().join("ringway.toml"), configuration("level = \"info\"", more)).unwrap();
    let running = Running::start_with_files(folder.path(), &["serve"], 256);
    let tcp = running.listener("tcp");
    let admin = running.admin();
    running.says("the limit of open files allows");
    let peers: Vec<_> = (0..400).map(|_| TcpStream::connect(&tcp).unwrap()).collect();
    for _ in 0..20 {
        stats(&admin);
    }
    running.says("limit reached limit=connections_refused");
    drop(peers);
    running.end();
    assert_eq!(running.done().status, 0);
}

/// A source sends many incomplete long messages; its connections may hold a quarter of 16 MiB together.
#[test]
fn connections_respect_the_memory_limit() {
    let folder = tempfile::tempdir().unwrap();
    let more = "[store]\nurl = \"memory:\"\n[limits]\nmemory_mb = 16";
    fs::write(folder.path().join("ringway.toml"), configuration("level = \"info\"", more)).unwrap();
    let running = Running::start(folder.path(), &["serve"], "");
    let (tcp, admin) = (running.listener("tcp"), running.admin());
    assert_eq!(reserved_bytes(&admin), 0);
    let begin_message = || {
        let mut peer = TcpStream::connect(&tcp).unwrap();
        // An error means that the connection was closed because of its size.
        let _ = peer.write_all(&[b"OPTIONS sip:a SIP/2.0\r\nX: ", &[b'x'; 60_000][..]].concat());
        peer
    };
    let peers: Vec<_> = (0..90).map(|_| begin_message()).collect();
    running.says("limit reached limit=stream_source_closes");
    let until = |what: &str, holds: &dyn Fn(u64) -> bool| wait_until(what, || holds(reserved_bytes(&admin)));
    assert!(reserved_bytes(&admin) <= 4 << 20);
    drop(peers);
    until("everything is given back", &|bytes| bytes == 0);
    let peer = begin_message();
    until("a begun message is accounted", &|bytes| bytes >= 60_000);
    drop(peer);
    until("it is given back", &|bytes| bytes == 0);
    running.end();
    assert_eq!(running.done().status, 0);
}

fn reserved_bytes(admin: &str) -> u64 {
    stats(admin)["reserved_bytes"].as_u64().unwrap()
}

#[test]
fn at_level_info_each_registration_call_and_refusal_has_a_line() {
    let served = serve("", "[auth]\nenabled = false\n[store]\nurl = \"memory:\"");
    let phone = served.client();
    let contact = format!("Contact: <sip:bob@{}>\r\n", phone.local_addr().unwrap());
    phone.send(request(&phone, "REGISTER", "sip:localhost", "bob", "reg", &contact).as_bytes()).unwrap();
    receive(&phone);
    phone.send(request(&phone, "REGISTER", "sip:localhost", "bob", "again", &contact).as_bytes()).unwrap();
    receive(&phone);
    // A user that does not exist, twice within the second.
    for call in ["one", "two"] {
        let unknown = request(&phone, "OPTIONS", "sip:nobody@localhost", "bob", call, "");
        phone.send(unknown.as_bytes()).unwrap();
        assert!(receive(&phone).starts_with("SIP/2.0 404 "));
    }
    // A call that its caller gives up is one line.
    let invite = request(&phone, "INVITE", "sip:bob@localhost", "bob", "call", "");
    phone.send(invite.as_bytes()).unwrap();
    receive_first(&phone, "INVITE ");
    phone
        .send(invite.replace("INVITE", "CANCEL").replace("z9hG4bKCANCEL", "z9hG4bKINVITE").as_bytes())
        .unwrap();
    receive_first(&phone, "SIP/2.0 487 ");
    let log = served.log();
    let count = |text: &str| log.iter().filter(|line| line.contains(text)).count();
    assert_eq!(count("INFO registration added user=bob@localhost"), 1, "{log:#?}");
    assert_eq!(count("registration refreshed"), 0, "{log:#?}");
    assert_eq!(count("INFO refused request method=OPTIONS target=sip:nobody@localhost"), 1, "{log:#?}");
    assert!(log.iter().any(|line| line.contains("status=404 reason=Not Found")), "{log:#?}");
    assert_eq!(count("INFO call ended"), 1, "{log:#?}");
    assert_eq!(count("reason=cancelled"), 1, "{log:#?}");
}
