//! Routes of the built server, edited by the admin API while it runs.
//!
//! Tested: an edit is in force at once and keeps the rest of the file; a file that changed meanwhile, an invalid text, a file that
//! cannot be written and a refused reload change nothing; links; secrets; requests at the same time.

use crate::admin_api::{ask, exchange};
use crate::program::Running;
use serde_json::{Value, json};
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server in a folder of its own.
struct Server {
    folder: TempDir,
    running: Running,
    admin: String,
}

impl Server {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("ringway.toml"), CONFIGURATION).unwrap();
        Self::start_in(folder, &["serve"])
    }

    fn start_in(folder: TempDir, args: &[&str]) -> Self {
        let running = Running::start(folder.path(), args, "");
        Self::of(folder, running)
    }

    fn of(folder: TempDir, running: Running) -> Self {
        running.ready();
        let admin = running.admin();
        Self { folder, running, admin }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self) -> String {
        fs::read_to_string(self.path("ringway.toml")).unwrap()
    }

    fn get(&self) -> Value {
        let (status, answer) = ask(&self.admin, "GET", "/api/routes", "", "");
        assert_eq!(status, 200, "{answer}");
        answer
    }

    fn version(&self) -> String {
        self.get()["version"].as_str().unwrap().to_owned()
    }

    /// Saves a text over the file as it is now.
    fn put(&self, text: &str) -> (u16, Value) {
        self.send("/api/routes", text, &self.version())
    }

    fn send(&self, path: &str, text: &str, version: &str) -> (u16, Value) {
        ask(&self.admin, "PUT", path, "", &json!({ "text": text, "version": version }).to_string())
    }

    /// Names of the files in the folder that no test made.
    fn left_over(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with('.')).collect()
    }
}

const CONFIGURATION: &str = "# Ours; each line of this file stays.\ndomains = [\"example.org\"]\n\nlisten = [\"udp:127.0.0.1:0\"]   # any\n\
                             workers=1\n\n# one route\n[[route]]\nprefix = \"9\"\nto_user = \"bob\"\n\n\n# About passwords.\n[auth]\nenabled = false\n\
                             # The API.\n[admin]\nlisten = \"127.0.0.1:0\"\n";

fn trunk(port: u16) -> String {
    format!("[[trunk]]\nname = \"gate\"\nuri = \"sip:127.0.0.1:{port}\"\nhealth_check_s = 0\n\n")
}

const ROUTE: &str = "[[route]]\nprefix = \"0\"\nto = [\"gate\"]\n";

fn call(socket: &UdpSocket, server: &str, number: &str, round: u32) {
    let own = socket.local_addr().unwrap();
    let text = format!(
        "INVITE sip:{number}@example.org SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{number}{round}\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=a\r\nTo: <sip:{number}@example.org>\r\nCall-ID: {number}{round}\r\nCSeq: 1 INVITE\r\n\
         Contact: <sip:alice@{own}>\r\nContent-Length: 0\r\n\r\n"
    );
    socket.send_to(text.as_bytes(), server).unwrap();
}

#[test]
fn an_edited_route_is_in_force_within_a_second_and_the_rest_of_the_file_stays() {
    let server = Server::start();
    let sip = server.running.address();
    let shown = server.get();
    assert_eq!(shown["text"], "# one route\n[[route]]\nprefix = \"9\"\nto_user = \"bob\"\n");
    assert_eq!(
        (&shown["read_only"], &shown["in_force"]["route.1.to_user"]),
        (&Value::Null, &json!("\"bob\""))
    );
    fs::set_permissions(server.path("ringway.toml"), fs::Permissions::from_mode(0o640)).unwrap();
    let gate = UdpSocket::bind("127.0.0.1:0").unwrap();
    gate.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();

    let text = format!("# new\n{}{ROUTE}", trunk(gate.local_addr().unwrap().port()));
    let version = server.version();
    let before = server.file();
    // A dry run tells the difference, and changes nothing.
    let (status, report) = server.send("/api/routes?dry_run=true", &text, &version);
    assert_eq!((status, &report["ok"], &report["applied"]), (200, &json!(true), &json!(false)), "{report}");
    let keys: Vec<&str> =
        report["changes"].as_array().unwrap().iter().map(|change| change["key"].as_str().unwrap()).collect();
    assert!(keys.contains(&"trunk.gate.uri") && keys.contains(&"route.1.to_user"), "{keys:?}");
    assert!((server.file(), server.version()) == (before.clone(), version.clone()));
    assert!(!server.path("ringway.toml.before").exists());

    let (status, report) = server.put(&text);
    assert_eq!((status, &report["applied"]), (200, &json!(true)), "{report}");
    let saved = Instant::now();
    let mut buffer = [0; 4096];
    let received = (0..100).find_map(|round| {
        call(&caller, &sip, "0301234", round);
        gate.recv(&mut buffer).ok()
    });
    let took = saved.elapsed();
    assert!(buffer.starts_with(b"INVITE sip:0301234@127.0.0.1") && received.is_some());
    assert!(took < Duration::from_secs(1), "in force after {took:?}");

    let old = "# one route\n[[route]]\nprefix = \"9\"\nto_user = \"bob\"\n";
    assert_eq!(server.file(), before.replace(old, &text));
    assert_eq!(fs::read_to_string(server.path("ringway.toml.before")).unwrap(), before);
    for name in ["ringway.toml", "ringway.toml.before"] {
        assert_eq!(fs::metadata(server.path(name)).unwrap().mode() & 0o7777, 0o640, "{name}");
    }
    let now = server.get();
    assert_eq!((&now["text"], &now["version"]), (&json!(text), &report["version"]));
    assert_eq!(now["in_force"]["trunk.gate.name"], "\"gate\"");
    assert!(server.left_over().is_empty(), "{:?}", server.left_over());
    // The program's own check finds no difference any more.
    let args = ["check", "ringway.toml", "--against-running", "--admin", &server.admin];
    let checked = Running::start(server.folder.path(), &args, "").done().ok();
    assert!(checked.contains("would change 0 keys"), "{checked}");
}

#[test]
fn a_file_that_changed_meanwhile_is_not_overwritten() {
    let server = Server::start();
    let version = server.version();
    let (head, _) = exchange(&server.admin, "GET", "/api/routes", "", "");
    assert!(head.to_ascii_lowercase().contains(&format!("etag: \"{version}\"")), "{head}");
    let changed = server.file() + "# by hand\n";
    fs::write(server.path("ringway.toml"), &changed).unwrap();
    let (status, answer) = server.send("/api/routes", "", &version);
    assert!(status == 412 && answer["error"].as_str().unwrap().contains("load the routes again"), "{answer}");
    assert_eq!(answer["version"], server.version());
    let body = json!({ "text": "" }).to_string();
    let put = |headers: &str| ask(&server.admin, "PUT", "/api/routes", headers, &body).0;
    assert_eq!(put(&format!("If-Match: \"{version}\"\r\n")), 412);
    assert_eq!((put(""), put("If-Match: *\r\n")), (428, 400));
    assert_eq!(server.file(), changed);
    assert_eq!(put(&format!("If-Match: \"{}\"\r\n", server.version())), 200);
    assert!(!server.file().contains("[[route]]") && server.file().ends_with("# by hand\n"));
}

#[test]
fn invalid_text_is_refused_with_file_and_line() {
    let server = Server::start();
    let before = server.file();
    for (text, line, in_text, part) in [
        ("[[route]]\nprefix = \"0\"\nto = [\"nobody\"]", 9, Some(3), "nobody"),
        ("[[route]]\nprefix = \"0\"\nto = ", 9, Some(3), "not TOML"),
        ("[[trunk]]\nname = \"<img src=x>\"\nuri = \"sip:a\"", 8, Some(2), "name"),
        ("[admin]\ntoken = \"x\"", 7, Some(1), "[admin]"),
        ("workers = 4", 7, Some(1), "workers"),
    ] {
        for path in ["/api/routes", "/api/routes?dry_run=true"] {
            let (status, answer) = server.send(path, text, &server.version());
            let first = answer["error"].as_str().unwrap_or_default();
            assert_eq!(status, 422, "{text}: {answer}");
            assert!(first.starts_with(&format!("ringway.toml:{line}: ")) && first.contains(part), "{answer}");
            assert_eq!(answer["lines"][0].as_u64(), in_text, "{answer}");
        }
    }
    for (body, status) in
        [("{", 400), ("{\"text\": 7}", 400), ("{\"text\": \"\", \"file\": \"/etc/passwd\"}", 400)]
    {
        assert_eq!(ask(&server.admin, "PUT", "/api/routes", "", body).0, status, "{body}");
    }
    // The answer to a text that is all errors is short, and comes soon.
    let (status, answer) = server.put(&"[[route]]\n".repeat(20_000));
    assert!(status == 422 && answer["errors"].as_array().unwrap().len() == 101, "{status}");
    let (status, answer) = server.put(&"# much\n".repeat(400_000));
    assert!(status == 413 && answer["error"].as_str().unwrap().contains("2097152"), "{answer}");
    assert!(server.file() == before && !server.path("ringway.toml.before").exists());
    assert!(server.left_over().is_empty());
}

#[test]
fn a_refused_reload_puts_the_old_file_back() {
    let server = Server::start();
    assert_eq!(server.put("[[route]]\nprefix = \"8\"\nto_user = \"bob\"\n").0, 200);
    let kept = fs::read(server.path("ringway.toml.before")).unwrap();
    // Somebody wrote a key by hand that needs a restart: the reload is refused.
    fs::write(server.path("ringway.toml"), server.file().replace("workers=1", "workers=2")).unwrap();
    let before = server.file();
    let (status, answer) = server.put("[[route]]\nprefix = \"7\"\nto_user = \"bob\"\n");
    let errors = answer["errors"].to_string();
    assert!(
        status == 422 && errors.contains("workers") && errors.contains("the old file is back"),
        "{answer}"
    );
    assert_eq!(server.file(), before);
    assert_eq!(fs::read(server.path("ringway.toml.before")).unwrap(), kept, "not the failed text");
    assert_eq!(server.get()["in_force"]["route.1.prefix"], "\"8\"");
    assert!(server.left_over().is_empty());
}

#[test]
fn secrets_are_masked_and_kept() {
    let server = Server::start();
    let secret = server.path("carrier.pw");
    fs::write(&secret, "hunter2\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let secret = secret.display().to_string();
    let text = format!(
        "[[trunk]]\nname = \"gate\"\nuri = \"sip:127.0.0.1:9\"\nusername = \"u\"\npassword_file = \"{secret}\" # password = \"old-one\"\n"
    );
    let (status, answer) = server.put(&text);
    assert!(status == 200 && !answer.to_string().contains("carrier.pw"), "{answer}");
    let shown = server.get();
    for hidden in ["carrier.pw", "hunter2", "old-one"] {
        assert!(!shown.to_string().contains(hidden), "{shown}");
    }
    let masked = shown["text"].as_str().unwrap();
    assert!(masked.contains("password_file = \"(secret 1)\" # password = \"(secret 2)\""), "{masked}");
    assert_eq!(server.put(&masked.replace("\"u\"", "\"other\"")).0, 200);
    assert!(server.file().contains(&text.replace("\"u\"", "\"other\"")), "{}", server.file());
    // An error does not quote a secret, and a mask in another key is no way to read one.
    let (status, answer) = server.put(&format!("{masked}password_file = \"/nowhere/s3cret\"\n"));
    assert!(status == 422 && !answer.to_string().contains("s3cret"), "{answer}");
    let (status, answer) = server.put(&masked.replace("\"(secret 1)\"", "\"/nowhere/s3cret\""));
    assert!(status == 422 && answer.to_string().contains("password_file"), "{answer}");
    assert!(!answer.to_string().contains("s3cret"), "{answer}");
    assert_eq!(server.put(&masked.replace("\"u\"", "\"(secret 1)\"")).0, 200);
    assert!(server.file().contains("username = \"(secret 1)\""));
    assert!(!server.running.has_said("carrier.pw") && !server.running.has_said("hunter2"));
}

#[test]
fn a_link_stays_and_its_target_is_replaced() {
    let folder = TempDir::new().unwrap();
    let (real, link) = (folder.path().join("real.toml"), folder.path().join("ringway.toml"));
    fs::write(&real, CONFIGURATION).unwrap();
    symlink("real.toml", &link).unwrap();
    let server = Server::start_in(folder, &["serve"]);
    assert_eq!(server.put("[[route]]\nprefix = \"1\"\nto_user = \"bob\"\n").0, 200);
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("real.toml"));
    assert!(fs::read_to_string(&real).unwrap().contains("prefix = \"1\""));
    assert_eq!(fs::read_to_string(server.path("real.toml.before")).unwrap(), CONFIGURATION);
}

#[test]
fn what_cannot_be_written_is_named_and_changes_nothing() {
    for (what, file_mode, folder_mode) in [("file", 0o444, 0o755), ("folder", 0o644, 0o555)] {
        let folder = TempDir::new().unwrap();
        let inner = folder.path().join("etc");
        fs::create_dir(&inner).unwrap();
        let file = inner.join("ringway.toml");
        fs::write(&file, CONFIGURATION).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(file_mode)).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(folder_mode)).unwrap();
        // Root may write everything, unless it gives that up.
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        let prefix =
            if is_root { "exec setpriv --bounding-set=-dac_override,-dac_read_search " } else { "exec " };
        let script = format!("{prefix}\"$0\" serve --config etc/ringway.toml");
        let running = Running::start_by_shell(folder.path(), &script);
        let server = Server::of(folder, running);
        assert!(server.get()["read_only"].is_string(), "{what}: {}", server.get());
        let text = "[[route]]\nprefix = \"1\"\nto_user = \"bob\"\n";
        assert_eq!(server.send("/api/routes?dry_run=true", text, &server.version()).0, 200);
        let (status, answer) = server.put(text);
        let why = answer["error"].as_str().unwrap_or_default();
        assert!(status == 403 && why.contains("etc") && why.contains("by hand"), "{what}: {answer}");
        assert_eq!(fs::read_to_string(&file).unwrap(), CONFIGURATION);
        assert_eq!(server.get()["in_force"]["route.1.prefix"], "\"9\"");
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn changes_at_the_same_time_are_made_one_after_the_other() {
    let server = Server::start();
    let version = server.version();
    let admin = &server.admin;
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let put = |number: u32| {
            let text = format!("[[route]]\nprefix = \"{number}\"\nto_user = \"bob\"\n");
            let body = json!({ "text": text, "version": version }).to_string();
            move || ask(admin, "PUT", "/api/routes", "", &body).0
        };
        let threads: Vec<_> = (1..=6).map(|number| scope.spawn(put(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let made = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!((made, statuses.iter().filter(|status| **status == 412).count()), (1, 5), "{statuses:?}");
    assert_eq!(fs::read_to_string(server.path("ringway.toml.before")).unwrap(), CONFIGURATION);
    assert_eq!(server.file().matches("[[route]]").count(), 1);
}
