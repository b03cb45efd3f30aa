//! `ringway trace` of the built server: the ladder of a login, a call and a failure, word for word; its limits.

use crate::admin_api::get;
use crate::program::{Running, Signal, TIME_LIMIT};
use ringway_sip::digest::{Algorithm, Credentials, Ha1, ReceivedChallenge};
use ringway_test_support::eventually::holds;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

const CONFIGURATION: &str =
    "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n";

/// Server with the user bob, and the addresses of its SIP listener and of its admin API.
fn server(folder: &Path) -> (Running, String, String) {
    fs::write(folder.join("ringway.toml"), CONFIGURATION).unwrap();
    let add = Running::start(
        folder,
        &["user", "add", "bob", "--password-stdin", "--danger-weak"],
        "secret of bob\n",
    );
    assert_eq!(add.done().status, 0);
    let running = Running::start(folder, &["serve"], "");
    let sip = running.address();
    let admin = running.admin();
    (running, sip, admin)
}

/// Scripted phone.
struct Phone {
    socket: UdpSocket,
    server: String,
}

impl Phone {
    fn new(server: &str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        Self { socket, server: server.to_owned() }
    }

    fn own(&self) -> String {
        self.socket.local_addr().unwrap().to_string()
    }

    fn send(&self, text: &str) {
        self.socket.send_to(text.as_bytes(), &self.server).unwrap();
    }

    /// Waits until the server has handled everything that was sent: it answers in the order of arrival.
    fn await_answer_to_all(&self) {
        let last = ("sip:x@example.org", "sip:example.org");
        let last = self.request("OPTIONS sip:example.org", last, "last", 1, "");
        self.socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let (until, mut buffer) = (std::time::Instant::now() + TIME_LIMIT, [0; 8192]);
        loop {
            self.send(&last);
            while let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
                if String::from_utf8_lossy(&buffer[..length]).contains("\r\nCall-ID: last\r\n") {
                    return;
                }
            }
            assert!(std::time::Instant::now() < until, "the server does not answer");
        }
    }

    fn receive(&self) -> String {
        let mut buffer = [0; 8192];
        let (length, _) = self.socket.recv_from(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    fn request(
        &self,
        start: &str,
        (from, to): (&str, &str),
        call_id: &str,
        cseq: u32,
        lines: &str,
    ) -> String {
        let (own, method) = (self.own(), start.split(' ').next().unwrap());
        let branch = if method == "ACK" { "INVITE" } else { method };
        format!(
            "{start} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{call_id}{cseq}{branch}\r\nMax-Forwards: 70\r\n\
             From: <{from}>;tag=f\r\nTo: <{to}>\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n\
             Contact: <sip:x@{own}>\r\n{lines}Content-Length: 0\r\n\r\n"
        )
    }
}

/// Header field with the right credentials of bob for a challenge.
fn authorization(challenge: &str) -> String {
    let line = challenge.lines().find_map(|line| line.strip_prefix("WWW-Authenticate: ")).unwrap();
    let challenge = ReceivedChallenge::all(line.as_bytes()).next().unwrap();
    let mut given = Credentials {
        username: b"bob",
        realm: challenge.realm,
        nonce: challenge.nonce,
        uri: b"sip:example.org",
        algorithm: Some(b"MD5"),
        cnonce: Some(b"c"),
        qop: Some(b"auth"),
        nc: Some(b"00000001"),
        ..Credentials::default()
    };
    let (ha1, mut hex) = (Ha1::new(b"bob", challenge.realm, b"secret of bob"), [0; 64]);
    given.response = Algorithm::Md5.response(&ha1, b"REGISTER", b"", &given, &mut hex);
    let mut text = Vec::new();
    given.write(&mut text);
    format!("Authorization: {}\r\n", String::from_utf8(text).unwrap())
}

fn answer(request: &str, status: &str) -> String {
    let copied = ["Via:", "From:", "To:", "Call-ID:", "CSeq:", "Record-Route:"];
    let mut text = format!("SIP/2.0 {status}\r\n");
    for line in request.lines().filter(|line| copied.iter().any(|name| line.starts_with(name))) {
        let tag = if line.starts_with("To:") { ";tag=t" } else { "" };
        text.push_str(&format!("{line}{tag}\r\n"));
    }
    text + "Content-Length: 0\r\n\r\n"
}

/// Output with times, ports and the filling of arrows normalised.
fn normalised(text: &str, names: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (address, name) in names {
        text = text.replace(address, name);
    }
    let time = regex_lite::Regex::new(r"^ +\d+\.\d{3}  ").unwrap();
    let day = regex_lite::Regex::new(r" == \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$").unwrap();
    let dashes = regex_lite::Regex::new(r"-{2,}").unwrap();
    let spaces = regex_lite::Regex::new(r" {2,}").unwrap();
    let line = |line: &str| {
        let line = time.replace(line, "");
        let line = day.replace(&line, " == TIME");
        spaces.replace_all(&dashes.replace_all(line.trim(), "--"), " ").trim().to_owned()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_ladder_says_why_a_login_and_a_call_went_as_they_did() {
    let folder = tempfile::TempDir::new().unwrap();
    let (_running, sip, admin) = server(folder.path());
    let (bob, caller) = (Phone::new(&sip), Phone::new(&sip));
    let trace = Running::start(folder.path(), &["trace", "bob", "--admin", &admin, "--seconds", "4"], "");
    trace.says("tracing bob from now on");

    let own = ("sip:bob@example.org", "sip:bob@example.org");
    bob.send(&bob.request("REGISTER sip:example.org", own, "reg", 1, ""));
    let challenge = bob.receive();
    bob.send(&bob.request("REGISTER sip:example.org", own, "reg", 2, &authorization(&challenge)));
    assert!(bob.receive().starts_with("SIP/2.0 200 "));
    let parties = ("sip:ann@elsewhere.example", "sip:bob@example.org");
    caller.send(&caller.request("INVITE sip:bob@example.org", parties, "call", 1, ""));
    let invite = bob.receive();
    bob.send(&answer(&invite, "486 Busy Here"));
    assert!(bob.receive().starts_with("ACK "));
    assert!(caller.receive().starts_with("SIP/2.0 100 "));
    let busy = caller.receive();
    let to = busy.lines().find_map(|line| line.strip_prefix("To: <")).unwrap();
    let to = to.strip_suffix(">;tag=t").unwrap();
    let ack = caller.request("ACK sip:bob@example.org", ("sip:ann@elsewhere.example", to), "call", 1, "");
    caller.send(&ack.replace(&format!("<{to}>"), &format!("<{to}>;tag=t")));
    // Another user's requests are no part of it.
    let others = ("sip:ann@elsewhere.example", "sip:carol@example.org");
    caller.send(&caller.request("INVITE sip:carol@example.org", others, "other", 1, ""));
    caller.receive();

    let said = trace.done().ok();
    let names = [(bob.own(), "BOB"), (caller.own(), "CALLER"), (sip, "SERVER")];
    let names: Vec<_> = names.iter().map(|(address, name)| (address.as_str(), *name)).collect();
    let expected = "SECONDS PHONE SERVER NEXT HOP
== REGISTER of sip:bob@example.org, Call-ID reg == TIME
udp:BOB -- REGISTER --> |
| challenged: no credentials (realm: example.org)
udp:BOB <-- 401 Unauthorized -- |
udp:BOB -- REGISTER --> |
| login accepted (MD5)
| binding added (sip:x@BOB, expires in 3600 s)
udp:BOB <-- 200 OK -- |
== INVITE from sip:ann@elsewhere.example to sip:bob@example.org, Call-ID call == TIME
udp:CALLER -- INVITE --> |
| admitted: [auth] strangers lets anyone call users of this server
| calls the phones of the user (1)
| sent to a next hop (udp:BOB)
udp:CALLER <-- 100 Trying -- |
| -- INVITE sip:x@BOB --> udp:BOB
| <-- 486 Busy Here -- udp:BOB
| answered with the best response of all targets (486)
| -- ACK sip:x@BOB --> udp:BOB
udp:CALLER <-- 486 Busy Here -- |
udp:CALLER -- ACK --> |";
    assert_eq!(normalised(&said, &names), expected, "{said}");
}

#[test]
fn a_second_trace_begins_at_the_newest_entry_and_ended_ones_free_their_users() {
    let folder = tempfile::TempDir::new().unwrap();
    let (_running, sip, admin) = server(folder.path());
    let begin = |user: &str, more: &[&str]| {
        let args = [&["trace", user, "--admin", &admin], more].concat();
        let trace = Running::start(folder.path(), &args, "");
        trace.says(&format!("tracing {user} from now on"));
        trace
    };
    let bob = Phone::new(&sip);
    let register = |call_id| {
        let own = ("sip:bob@example.org", "sip:bob@example.org");
        bob.send(&bob.request("REGISTER sip:example.org", own, call_id, 1, ""));
        bob.receive();
    };
    let first = begin("bob", &[]);
    register("earlier");
    first.says("Call-ID earlier");
    let second = begin("bob", &[]);
    register("later");
    second.says("Call-ID later");
    assert!(!second.has_said("earlier"));

    // Both go on: who ends while the other one is between two polls would free bob's.
    let others = ["b", "c", "d"].map(|user| begin(user, &[]));
    let full = Running::start(folder.path(), &["trace", "e", "--admin", &admin], "").done();
    assert_eq!(full.status, 1);
    assert!(full.err.contains("end one of these traces") && !full.err.contains("http://"), "{}", full.err);
    // A background job of a shell ignores SIGINT, and so does what it starts.
    others.iter().for_each(|other| other.signal(Signal::TERM));
    // A trace whose reader ended between two polls ends a minute after the last one.
    let is_free = || get(&admin, "/api/trace?user=e&wait=0").0 == 200;
    assert!(holds(2 * TIME_LIMIT, is_free), "the user of the ended trace is not freed");
}

#[test]
fn entries_have_stable_fields_and_no_credentials() {
    let folder = tempfile::TempDir::new().unwrap();
    let (_running, sip, admin) = server(folder.path());
    let bob = Phone::new(&sip);
    assert_eq!(get(&admin, "/api/trace?user=bob@example.org&wait=0").1["next"], 0);
    let own = ("sip:bob@example.org", "sip:bob@example.org");
    let secret = "Authorization: Digest username=\"bob\", realm=\"example.org\", nonce=\"secret\", uri=\"sip:example.org\", \
                  response=\"secret\"\r\n";
    bob.send(&bob.request("REGISTER sip:example.org", own, "reg", 1, secret));
    bob.receive();
    let (status, page) = get(&admin, "/api/trace?user=bob@example.org&after=0");
    assert_eq!((status, page["lost"].as_u64()), (200, Some(0)));
    let entries = page["entries"].as_array().unwrap();
    assert!(!page.to_string().contains("secret"), "{page}");
    let fields: Vec<&String> = entries[0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["call_id", "cseq", "first_line", "flow", "from", "kind", "n", "time", "to"]);
    let decision = entries.iter().find(|entry| entry["kind"] == "decision").unwrap();
    assert!(decision["text"].is_string() && decision["reason"].is_string(), "{decision}");
    let next = page["next"].as_u64().unwrap();
    let (_, page) = get(&admin, &format!("/api/trace?user=bob@example.org&after={next}&wait=1"));
    assert_eq!((page["entries"].as_array().unwrap().len(), page["next"].as_u64()), (0, Some(next)));
}

#[test]
fn traces_are_few_and_a_flood_in_a_users_name_is_counted() {
    let folder = tempfile::TempDir::new().unwrap();
    let (_running, sip, admin) = server(folder.path());
    for user in ["bob", "b", "c", "d"] {
        assert_eq!(get(&admin, &format!("/api/trace?user={user}&after=0&wait=0")).0, 200);
    }
    assert_eq!(get(&admin, "/api/trace?user=e&wait=0").0, 503);
    for bad in
        ["", "?user=", "?user=a%20b", "?user=b&after=-1", "?user=b&after=x", "?user=b&wait=x", "?user=b&x=1"]
    {
        assert_eq!(get(&admin, &format!("/api/trace{bad}")).0, 400, "{bad}");
    }
    let stranger = Phone::new(&sip);
    for number in 0..3000 {
        let from = ("sip:bob@example.org", "sip:bob@example.org");
        stranger.send(&stranger.request("MESSAGE sip:bob@example.org", from, &format!("f{number}"), 1, ""));
        if number % 100 == 99 {
            // The server keeps up with the socket's buffer.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    // Entries that are read before the end of the flood make room for more without being lost to this reader.
    stranger.await_answer_to_all();
    let (mut after, mut lost, mut got) = (0, 0, 0);
    let until = std::time::Instant::now() + TIME_LIMIT;
    let stats = loop {
        let (_, page) = get(&admin, &format!("/api/trace?user=bob&after={after}&wait=0"));
        let entries = page["entries"].as_array().unwrap().len() as u64;
        (after, lost, got) =
            (page["next"].as_u64().unwrap(), lost + page["lost"].as_u64().unwrap(), got + entries);
        let (_, stats) = get(&admin, "/api/stats");
        if entries == 0 && stats["trace_entries_lost"].as_u64() == Some(lost) {
            break stats;
        }
        assert!(std::time::Instant::now() < until, "{lost} lost, {stats}");
    };
    assert_eq!(after, lost + got);
    assert!(got <= 2000 && lost > 0, "{got} entries, {lost} lost");
    assert_eq!(stats["traces"].as_u64(), Some(4));
}

#[test]
fn trunks_and_relays_are_listed_with_their_state() {
    let folder = tempfile::TempDir::new().unwrap();
    let gateway = UdpSocket::bind("127.0.0.1:0").unwrap();
    gateway.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let (at, silent) = (gateway.local_addr().unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let relay = silent.local_addr().unwrap();
    let password = folder.path().join("gate.password");
    fs::write(&password, "first\n").unwrap();
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
    let file = password.display();
    let configuration = format!(
        "{CONFIGURATION}[auth]\nenabled = false\n[media]\nrelay = \"nat\"\nrtpengine = [\"{relay}\"]\n\
         [[trunk]]\nname = \"gate\"\nuri = \"sip:{at}\"\nhealth_check_s = 0\nusername = \"u\"\n\
         password_file = \"{file}\"\n[[trunk]]\nname = \"spare\"\nuri = \"sip:127.0.0.1:9\"\nhealth_check_s = 0\n\
         [[route]]\nprefix = \"+\"\nto = [\"gate\"]\n"
    );
    fs::write(folder.path().join("ringway.toml"), configuration).unwrap();
    let running = Running::start(folder.path(), &["serve"], "");
    let sip = running.address();
    let admin = running.admin();
    let states = || -> Vec<String> {
        let (_, page) = get(&admin, "/api/trunks");
        let words = |trunk: &Value| {
            format!("{} {} {}", trunk["name"], trunk["state"], trunk["last_status"]).replace('"', "")
        };
        page["trunks"].as_array().unwrap().iter().map(words).collect()
    };
    assert_eq!(states(), ["gate unknown null", "spare unknown null"]);
    let caller = Phone::new(&sip);
    let parties = ("sip:ann@example.org", "sip:+44123@example.org");
    caller.send(&caller.request("INVITE sip:+44123@example.org", parties, "call", 1, ""));
    let mut buffer = [0; 8192];
    let (length, _) = gateway.recv_from(&mut buffer).unwrap();
    let invite = String::from_utf8_lossy(&buffer[..length]).into_owned();
    gateway.send_to(answer(&invite, "404 Not Found").as_bytes(), &sip).unwrap();
    assert!(caller.receive().starts_with("SIP/2.0 100 "));
    assert!(caller.receive().starts_with("SIP/2.0 404 "));
    assert_eq!(states(), ["gate up 404", "spare unknown null"]);
    let show = Running::start(folder.path(), &["show", "trunks", "--admin", &admin], "").done().ok();
    assert!(
        show.contains("TRUNK  STATE    CALLS  LAST RESPONSE")
            && show.contains("gate   up       1      404, "),
        "{show}"
    );
    let show = Running::start(folder.path(), &["show", "relays", "--admin", &admin], "").done().ok();
    assert!(show.contains("RELAY") && show.contains(&relay.to_string()), "{show}");
    let (_, stats) = get(&admin, "/api/stats");
    assert_eq!((stats["trunk_up.gate"].as_u64(), stats["trunk_calls.gate"].as_u64()), (Some(1), Some(1)));
    assert!(stats[format!("relay_up.{relay}")].is_number(), "{stats}");
    let changes = || get_changes(folder.path(), &admin);
    assert_eq!(changes(), Vec::<String>::new());
    fs::write(&password, "second\n").unwrap();
    assert_eq!(changes(), ["trunk.gate.password_file: changed"]);
}

/// Keys that a reload would change.
fn get_changes(folder: &Path, admin: &str) -> Vec<String> {
    let report =
        Running::start(folder, &["reload", "--dry-run", "--json", "--admin", admin], "").done().json();
    let text = |change: &Value| change["text"].as_str().unwrap().to_owned();
    report["changes"].as_array().unwrap().iter().map(text).collect()
}
