//! Registrations of `ringway serve` after a restart: with a damaged journal, after users were removed and added again,
//! at the limits of the store.

use crate::program::Running;
use ringway_test_support::eventually::wait_until;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// A folder with a configuration: strict durability, no authentication, `contacts` contacts per user.
fn folder(contacts: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "domains = [\"example.org\"]\nlisten = [\"tcp:127.0.0.1:0\"]\n[store]\nurl = \"sqlite://r.db\"\n\
         durability = \"strict\"\n[auth]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [registrar]\nmax_contacts = {contacts}\n[limits]\nper_source_rate = 0\n"
    );
    fs::write(folder.path().join("ringway.toml"), text).unwrap();
    folder
}

/// A server; dropping it kills it.
struct Server {
    program: Running,
    sip: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let program = Running::start(folder, &["serve"], "");
        let sip = program.listener("tcp");
        Self { program, sip }
    }

    /// Registers contacts of a user and returns the status of the response.
    fn register(&self, user: &str, contacts: &[String]) -> u16 {
        // Over TCP: a response lists all contacts, and many do not fit into a datagram.
        let mut socket = TcpStream::connect(&self.sip).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let port = socket.local_addr().unwrap().port();
        let listed: String = contacts.iter().map(|contact| format!("Contact: {contact}\r\n")).collect();
        let message = format!(
            "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1:{port};branch=z9hG4bK{port}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{user}@example.org>;tag=1\r\nTo: <sip:{user}@example.org>\r\n\
             Call-ID: {user}-{port}\r\nCSeq: 1 REGISTER\r\n{listed}Content-Length: 0\r\n\r\n"
        );
        socket.write_all(message.as_bytes()).unwrap();
        let (mut answer, mut block) = (Vec::new(), [0; 65_536]);
        while !answer.ends_with(b"\r\n\r\n") {
            let length = socket.read(&mut block).unwrap();
            assert!(length > 0, "the connection was closed");
            answer.extend_from_slice(&block[..length]);
        }
        String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Returns the output of `ringway show WHAT --json`.
    fn show(&self, what: &str) -> Value {
        self.program.show(what)
    }

    fn stat(&self, name: &str) -> u64 {
        self.program.stat(name)
    }

    /// Output of `ringway show registrations`: address-of-record and contact.
    fn registrations(&self) -> BTreeSet<(String, String)> {
        let listed = self.show("registrations");
        let text = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
        let items = listed["registrations"].as_array().or(listed.as_array()).unwrap();
        items.iter().map(|item| (text(item, "aor"), text(item, "contact"))).collect()
    }
}

fn contact(n: u32) -> String {
    format!("<sip:phone{n}@127.0.0.1:{}>;expires=3600", 20_000 + n)
}

#[test]
fn after_a_flipped_bit_it_starts_with_the_rest_and_logs_the_loss() {
    let folder = folder(10);
    let server = Server::start(folder.path());
    for n in 0..20 {
        assert_eq!(server.register(&format!("user{n:02}"), &[contact(n)]), 200);
    }
    let before = server.registrations();
    drop(server);
    let segment = folder.path().join("r.db.bindings.1");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(8).position(|window| window == b"phone13@").unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, &bytes).unwrap();

    let server = Server::start(folder.path());
    let said = server.program.says("damaged at byte");
    assert!(said.contains("1 record lost") && said.contains("r.db.bindings.1.damaged-1"), "{said}");
    assert!(server.program.says("last change lost").contains("\"user13@example.org\""));
    assert!(fs::read(folder.path().join("r.db.bindings.1.damaged-1")).unwrap() == bytes);
    let stats = server.show("stats");
    assert_eq!((&stats["store_records_lost"], &stats["store_files_damaged"]), (&json!(1), &json!(1)));
    let after = server.registrations();
    let lost: Vec<_> = before.difference(&after).map(|(aor, _)| aor.as_str()).collect();
    assert_eq!((lost, after.len()), (vec!["sip:user13@example.org"], 19));
    assert_eq!(server.register("user13", &[contact(13)]), 200);
    assert_eq!(server.registrations(), before);
}

#[test]
fn a_damaged_copy_of_a_header_is_a_warning_and_loses_nothing() {
    let folder = folder(10);
    let server = Server::start(folder.path());
    assert_eq!(server.register("bob", &[contact(1)]), 200);
    drop(server);
    let segment = folder.path().join("r.db.bindings.1");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[3] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let server = Server::start(folder.path());
    let said = server.program.says("header");
    assert!(
        said.contains("WARN") && said.contains("r.db.bindings.1") && said.contains("nothing is lost"),
        "{said}"
    );
    assert_eq!(server.registrations().len(), 1);
}

#[test]
fn every_confirmed_registration_of_a_user_survives_a_restart() {
    let folder = folder(1000);
    let server = Server::start(folder.path());
    let long = "x".repeat(1900);
    let mut statuses = Vec::new();
    for n in 0..20 {
        let contacts: Vec<_> =
            (0..30).map(|m| format!("<sip:{n}.{m}@127.0.0.1>;p={long};expires=3600")).collect();
        statuses.push(server.register("bob", &contacts));
    }
    let refused = statuses.iter().filter(|status| **status == 403).count();
    assert!(refused > 0 && statuses.iter().all(|status| matches!(status, 200 | 403)), "{statuses:?}");
    let before = server.registrations();
    assert_eq!(before.len(), (20 - refused) * 30);
    drop(server);
    let server = Server::start(folder.path());
    assert_eq!(server.registrations().len(), before.len());
}

/// With and without a server that runs meanwhile.
#[test]
fn a_user_removed_and_added_again_has_no_registrations() {
    let folder = folder(10);
    let user = |command: &str| {
        Running::start(
            folder.path(),
            &["user", command, "bob", "--password-stdin", "--danger-weak"],
            "secret\n",
        )
    };
    user("add").done().ok();
    let readd = || {
        Running::start(folder.path(), &["user", "remove", "bob"], "").done().ok();
        user("add").done().ok();
    };
    let server = Server::start(folder.path());
    assert_eq!(server.register("bob", &[contact(1)]), 200);
    assert_eq!(server.register("alice", &[contact(2)]), 200);
    readd();
    wait_until("the old registration is gone", || server.registrations().len() <= 1);
    assert_eq!(server.register("bob", &[contact(3)]), 200);
    drop(server);
    let server = Server::start(folder.path());
    assert_eq!(server.registrations().len(), 2, "a removal that was applied is not applied again");
    drop(server);
    readd();
    let server = Server::start(folder.path());
    assert_eq!(server.registrations().len(), 1);
}

/// sd_notify(3): a service is started when it listens.
#[test]
fn the_service_manager_is_notified_when_the_server_listens_and_when_it_stops() {
    let folder = folder(1);
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let reported = || {
        let mut message = [0; 1024];
        let length = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..length].to_vec()).unwrap()
    };
    let program = Running::start_with_variable(folder.path(), &["serve"], ("NOTIFY_SOCKET", &path));
    assert_eq!(reported(), "READY=1\n");
    program.ready();
    program.end();
    assert_eq!(reported(), "STOPPING=1\n");
    program.done().ok();
}

#[test]
fn files_of_the_version_before_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let old = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/version-2"));
    for file in ["ringway.toml", "ringway.db", "ringway.db.bindings.1"] {
        fs::copy(old.join(file), folder.path().join(file)).unwrap();
    }
    let password = folder.path().join("carrier.password");
    fs::write(&password, "secret\n").unwrap();
    for file in [&password, &folder.path().join("ringway.db")] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let server = Server::start(folder.path());
    let carol = ("sip:carol@example.org".to_owned(), "sip:carol@192.0.2.7:5060".to_owned());
    assert!(server.registrations().contains(&carol), "a permanent contact");
    let users = Running::start(folder.path(), &["user", "list"], "").done().ok();
    for user in ["alice@example.org", "bob@example.org", "carol@example.org"] {
        assert!(users.contains(user), "{users}");
    }
    let forward = Running::start(folder.path(), &["user", "forward", "bob"], "").done().ok();
    assert!(forward.contains("no-answer after 20 s: sip:alice@example.org"), "{forward}");
    let arguments =
        ["options", "sip:alice@example.org", "--from", "sip:alice@example.org", "--password-stdin"];
    let arguments: Vec<&str> =
        arguments.into_iter().chain(["--transport", "tcp", "--server", &server.sip]).collect();
    let asked = Running::start(folder.path(), &arguments, "secret-alice\n").done();
    assert!(format!("{asked:?}").contains("480"), "the password is hers, and she is not there: {asked:?}");
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let damaged: Vec<_> = names.filter(|name| name.to_string_lossy().contains("damaged")).collect();
    assert!(damaged.is_empty(), "{damaged:?}");
}

#[test]
fn rows_that_no_command_writes_stop_neither_the_start_nor_what_follows() {
    let folder = folder(10);
    let path = folder.path();
    let command = |args: &[&str]| Running::start(path, args, "secret\n").done().ok();
    command(&["user", "add", "alice", "--password-stdin", "--danger-weak"]);
    let database = rusqlite::Connection::open(path.join("r.db")).unwrap();
    let damage = |name: &str| {
        let rows = format!(
            "INSERT INTO contact VALUES ('example.org', '{name}', 'sip:x' || char(13, 10) || 'Evil: 1@127.0.0.1');
             INSERT INTO forward VALUES ('example.org', '{name}', 99, -5, 'sip:a@b');
             INSERT INTO block (domain, name, kind, pattern, reason) VALUES ('', '', 9, '{name}', '');
             INSERT INTO subscriber (domain, name, realm, ha1_md5, ha1_sha256)
                 VALUES ('example.org', x'ff00' || CAST('{name}' AS BLOB), 'r', x'00', x'00');
             INSERT INTO changed (domain, name, kind) VALUES ('example.org', '{name}', 2), ('example.org', '{name}', 4),
                 ('example.org', x'ff00' || CAST('{name}' AS BLOB), 1), ('', '', 5);"
        );
        database.execute_batch(&rows).unwrap();
    };
    damage("bob");
    let server = Server::start(path);
    let line = server.program.says("a row of the table contact (\"bob@example.org\") is passed over");
    assert!(line.contains("WARN") && !line.contains('\r'), "{line}");
    assert_eq!(server.stat("subscribers"), 1);
    let before = server.stat("store_rows_unreadable");
    assert!(before >= 4, "{before}");
    // The same while it runs: what comes later is followed.
    database.execute_batch("DELETE FROM changed WHERE name = ''").unwrap();
    damage("carol");
    command(&["user", "add", "dave", "--password-stdin", "--danger-weak"]);
    wait_until("changes are followed", || server.stat("subscribers") >= 2);
    assert!(server.stat("store_rows_unreadable") > before);
    let listed = command(&["user", "list"]);
    assert!(listed.contains("alice") && listed.contains("dave"), "{listed}");
    assert_eq!(command(&["block", "list", "--json"]).matches("\"id\"").count(), 0);
}
