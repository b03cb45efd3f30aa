//! `ringway serve` with messages for absent users: kept over a `kill -9`, delivered at the next REGISTER, shown and removed.

use crate::program::{Running, Signal};
use md5::{Digest, Md5};
use ringway_test_support::eventually::wait_until;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A folder with users alice and bob, and a configuration with messages.
fn folder(durability: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\n[store]\nurl = \"sqlite://r.db\"\n\
         durability = \"{durability}\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[presence]\nmessages = true\n"
    );
    fs::write(folder.path().join("ringway.toml"), text).unwrap();
    for user in ["alice", "bob"] {
        add(folder.path(), user);
    }
    folder
}

fn add(folder: &Path, user: &str) {
    let input = format!("secret-{user}\n");
    Running::start(folder, &["user", "add", user, "--password-stdin", "--danger-weak"], &input).done().ok();
}

/// A server; dropping it kills it.
struct Server {
    program: Running,
    sip: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        Self::of(Running::start(folder, &["serve"], ""))
    }

    fn of(program: Running) -> Self {
        let sip = program.listener("udp");
        Self { program, sip }
    }

    /// A figure of `ringway show stats`.
    fn stat(&self, name: &str) -> u64 {
        self.program.stat(name)
    }
}

/// A phone of a user.
struct Phone {
    socket: UdpSocket,
    user: &'static str,
    server: String,
    cseq: u32,
}

impl Phone {
    fn new(server: &Server, user: &'static str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Self { socket, user, server: server.sip.clone(), cseq: 0 }
    }

    /// Sends a request, with its password if it is challenged, and returns the status of the answer.
    fn request(&mut self, method: &str, uri: &str, to: &str, (lines, body): (&str, &str)) -> u16 {
        let mut credentials = String::new();
        loop {
            self.cseq += 1;
            let (cseq, user, address) = (self.cseq, self.user, self.socket.local_addr().unwrap());
            let text = format!(
                "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {address};rport;branch=z9hG4bK{user}{cseq}\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:{user}@example.org>;tag={user}\r\nTo: <{to}>\r\n\
                 Call-ID: {address}-{method}\r\nCSeq: {cseq} {method}\r\n{lines}{credentials}\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            self.socket.send_to(text.as_bytes(), &self.server).unwrap();
            let answer = self.receive();
            let status: u16 = answer.split(' ').nth(1).unwrap().parse().unwrap();
            if !matches!(status, 401 | 407) || !credentials.is_empty() {
                return status;
            }
            let of =
                |name: &str| answer.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
            let (nonce, realm) = (of("nonce"), of("realm"));
            let hash = |text: String| format!("{:x}", HexOf(Md5::digest(text).as_slice()));
            let a1 = hash(format!("{user}:{realm}:secret-{user}"));
            let response = hash(format!("{a1}:{nonce}:00000001:c:auth:{}", hash(format!("{method}:{uri}"))));
            let name = if status == 401 { "Authorization" } else { "Proxy-Authorization" };
            credentials = format!(
                "{name}: Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
                 response=\"{response}\", algorithm=MD5, cnonce=\"c\", qop=auth, nc=00000001\r\n"
            );
        }
    }

    fn register(&mut self) {
        let contact = format!("Contact: <sip:{}@{}>\r\n", self.user, self.socket.local_addr().unwrap());
        let to = format!("sip:{}@example.org", self.user);
        assert_eq!(self.request("REGISTER", "sip:example.org", &to, (&contact, "")), 200);
    }

    fn say(&mut self, user: &str, text: &str) -> u16 {
        let uri = format!("sip:{user}@example.org");
        self.request("MESSAGE", &uri, &uri, ("Content-Type: text/plain\r\n", text))
    }

    fn receive(&self) -> String {
        let mut bytes = [0; 65_536];
        let length = self.socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Receives a message and answers it 200; returns its body.
    fn hear(&self) -> String {
        let message = self.receive();
        assert!(message.starts_with("MESSAGE "), "{message}");
        let (head, body) = message.split_once("\r\n\r\n").unwrap();
        let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
        let lines = head.lines().filter(|line| kept.iter().any(|name| line.starts_with(name)));
        let answer: String = lines.map(|line| format!("{line}\r\n")).collect();
        let answer = format!("SIP/2.0 200 OK\r\n{answer}Content-Length: 0\r\n\r\n");
        self.socket.send_to(answer.as_bytes(), &self.server).unwrap();
        body.to_owned()
    }

    fn hears_nothing(&self) {
        self.socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        assert!(self.socket.recv(&mut [0; 1000]).is_err());
    }
}

struct HexOf<'a>(&'a [u8]);

impl std::fmt::LowerHex for HexOf<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[test]
fn what_was_accepted_is_there_after_kill_9_and_is_delivered_once() {
    let folder = folder("strict");
    let server = Server::start(folder.path());
    let mut alice = Phone::new(&server, "alice");
    for number in 0..3 {
        assert_eq!(alice.say("bob", &format!("text {number}")), 202);
    }
    assert_eq!(alice.say("nobody", "text"), 404);
    assert_eq!(server.stat("messages_waiting"), 3);
    let log = server.program.said();
    assert!(!log.contains("text 0"), "no body is logged: {log}");
    drop(server);

    let server = Server::start(folder.path());
    assert_eq!(server.stat("messages_waiting"), 3);
    let mut bob = Phone::new(&server, "bob");
    bob.register();
    for number in 0..3 {
        assert_eq!(bob.hear(), format!("text {number}"));
    }
    wait_until("no message is left", || server.stat("messages_waiting") == 0);
    assert_eq!(server.stat("messages_delivered"), 3);
    // A second, so that the removal is on the disk.
    std::thread::sleep(Duration::from_secs(2));
    drop(server);

    let server = Server::start(folder.path());
    assert_eq!(server.stat("messages_waiting"), 0);
    let mut bob = Phone::new(&server, "bob");
    bob.register();
    bob.hears_nothing();
}

/// The size of a file is limited as a full disk limits it; the limit is removed while the server runs.
#[test]
fn no_message_is_accepted_while_the_disk_is_full() {
    let folder = folder("relaxed");
    let server = Server::of(Running::start_by_shell(folder.path(), "trap '' XFSZ; exec \"$0\" serve"));
    let id = server.program.id().to_string();
    let limit = |size: &str| {
        let limit = format!("--fsize={size}:unlimited");
        assert!(Command::new("prlimit").args(["--pid", &id, &limit]).status().unwrap().success());
    };
    let mut alice = Phone::new(&server, "alice");
    let mut wait_for = |status: u16, text: &str| {
        wait_until(&status.to_string(), || alice.say("bob", text) == status);
    };
    wait_for(202, "before");
    limit("0");
    // The first failure is noticed after its 202.
    wait_for(480, "no");
    limit("unlimited");
    wait_for(202, "after");
}

#[test]
fn an_orderly_stop_keeps_messages_and_a_removed_user_takes_them_along() {
    let folder = folder("relaxed");
    let server = Server::start(folder.path());
    assert_eq!(Phone::new(&server, "alice").say("bob", "first"), 202);
    server.program.end();
    server.program.done().ok();
    let server = Server::start(folder.path());
    assert_eq!(server.stat("messages_waiting"), 1);
    Running::start(folder.path(), &["user", "remove", "bob"], "").done().ok();
    wait_until("the message of a removed user is gone", || server.stat("messages_waiting") == 0);
    add(folder.path(), "bob");
    // The new bob is known to the server within a second.
    let mut alice = Phone::new(&server, "alice");
    wait_until("the new user is found", || alice.say("bob", "second") == 202);
    let mut bob = Phone::new(&server, "bob");
    bob.register();
    assert_eq!(bob.hear(), "second");
    drop(server);
    let server = Server::start(folder.path());
    assert!(server.stat("messages_waiting") <= 1);
}

#[test]
fn a_reload_switches_it_on() {
    let folder = folder("strict");
    let path = folder.path().join("ringway.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("messages = true", "messages = false")).unwrap();
    let server = Server::start(folder.path());
    assert_eq!(Phone::new(&server, "alice").say("bob", "text"), 480);
    fs::write(&path, text).unwrap();
    server.program.signal(Signal::HUP);
    let mut alice = Phone::new(&server, "alice");
    wait_until("the reload switches it on", || alice.say("bob", "text") == 202);
}
