//! Commands of the built program: output and exit status.
//!
//! Tested: user, check, show, and their errors. Not tested here: serve, which has its own tests.

use crate::program::{Done, Running};
use ringway_admin::{
    Admin, AdminServer, Answer, BlockPage, Call, CallRecord, Change, Connection, Control, Page, Registration,
    ServerInfo, Stat, Stats, User, UserQuery, View,
};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

fn ringway_with_input(folder: &Path, args: &[&str], input: &str) -> Done {
    Running::start(folder, args, input).done()
}

fn ringway(folder: &Path, args: &[&str]) -> Done {
    ringway_with_input(folder, args, "")
}

/// JSON output of a command that succeeded.
fn ringway_json(folder: &Path, args: &[&str]) -> Value {
    let done = ringway(folder, args);
    assert_eq!(done.status, 0, "{done:?}");
    done.json()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// All users, from `user list --json`.
fn users(folder: &Path) -> Vec<String> {
    let list = ringway_json(folder, &["user", "list", "--json"]);
    let users = list["users"].as_array().unwrap();
    assert_eq!(list["total"], users.len());
    users.iter().map(|user| format!("{}@{}", user["name"], user["domain"]).replace('"', "")).collect()
}

#[test]
fn a_user_is_added_with_a_generated_password_shown_once() {
    let folder = folder();
    let out = ringway(folder.path(), &["user", "add", "alice"]).ok();
    let password = out.trim_end().rsplit(' ').next().unwrap();
    assert!(out.starts_with("alice@localhost added") && password.len() == 20, "{out}");
    let again = ringway_json(folder.path(), &["user", "passwd", "alice", "--json"]);
    assert_eq!(again["user"], "alice@localhost");
    assert_ne!(again["password"], password);
    assert_eq!(users(folder.path()), ["alice@localhost"]);
    let error = ringway(folder.path(), &["user", "add", "alice"]).refused(1);
    assert!(error.contains("alice@localhost exists already") && error.contains("passwd"), "{error}");
}

#[test]
fn a_password_of_a_script_that_is_easy_to_guess_has_a_warning_unless_it_is_wanted() {
    let folder = folder();
    let run = |args: &[&str], input: &str| Running::start(folder.path(), args, input).done();
    let add = ["user", "add", "alice", "--password-stdin"];
    let warned = run(&add, "secret\n");
    assert!(warned.err.contains("easy to guess") && warned.err.contains("--danger-weak"), "{warned:?}");
    let passwd = ["user", "passwd", "alice", "--password-stdin"];
    assert!(!run(&passwd, "t7#kQ9!vLx2mZpRw\n").err.contains("easy to guess"));
    assert!(run(&passwd, "alice2026\n").err.contains("easy to guess"));
    let wanted = run(&[&passwd[..], &["--danger-weak"]].concat(), "alice2026\n");
    assert!(!wanted.err.contains("easy to guess"), "{wanted:?}");
    run(&["user", "add", "bob", "--danger-weak"], "").refused(2);
    let list = "username,password\ncarol,carol1\ndave,t7#kQ9!vLx2mZpRw\n";
    fs::write(folder.path().join("users.csv"), list).unwrap();
    let imported = run(&["user", "import", "users.csv"], "");
    assert!(imported.err.contains("users.csv: 1 of 2 passwords are easy to guess"), "{imported:?}");
    assert_eq!(imported.ok(), "2 users imported\n");
}

#[test]
fn a_password_from_standard_input_is_not_shown() {
    let folder = folder();
    let add = ["user", "add", "bob@Example.org", "--password-stdin", "--danger-weak"];
    let out = ringway_with_input(folder.path(), &add, "s3cret\n");
    assert!(out.err.contains("example.org is not among the domains"), "{out:?}");
    assert_eq!(out.ok(), "bob@example.org added\n");
    assert_eq!(users(folder.path()), ["bob@example.org"]);
    let carol = ["user", "add", "carol", "--password-stdin", "--danger-weak"];
    let error = ringway_with_input(folder.path(), &carol, "\n").refused(2);
    assert!(error.contains("empty"), "{error}");
    let error = ringway_with_input(folder.path(), &carol, &"x".repeat(2000)).refused(2);
    assert!(error.contains("1024"), "{error}");
}

#[test]
fn names_come_with_or_without_their_domain_and_from_the_configuration() {
    let folder = folder();
    fs::write(folder.path().join("ringway.toml"), "domains = [\"example.org\", \"example.com\"]\n").unwrap();
    for (args, user) in [
        (&["user", "add", "a"][..], "a@example.org"),
        (&["user", "add", "b", "--domain", "example.com"], "b@example.com"),
        (&["user", "add", "sip:c@example.com"], "c@example.com"),
    ] {
        assert!(ringway(folder.path(), args).ok().starts_with(user), "{user}");
    }
    let error =
        ringway(folder.path(), &["user", "add", "d@example.com", "--domain", "example.org"]).refused(2);
    assert!(error.contains("once"), "{error}");
    for name in ["", "a b", "a:b"] {
        ringway(folder.path(), &["user", "add", name]).refused(2);
    }
}

#[test]
fn a_list_of_users_is_imported_completely_or_not_at_all() {
    let folder = folder();
    let csv = folder.path().join("users.csv");
    fs::write(&csv, "username,password\nalice,one\nbob\n").unwrap();
    let error = ringway(folder.path(), &["user", "import", "users.csv"]).refused(1);
    assert!(error.contains("users.csv:3: ") && error.contains("nothing was imported"), "{error}");
    assert!(users(folder.path()).is_empty());
    fs::write(&csv, "username,password\nalice,one\nbob,two\n").unwrap();
    assert_eq!(
        ringway_json(folder.path(), &["user", "import", "users.csv", "--json"]),
        json!({"imported": 2})
    );
    assert_eq!(users(folder.path()), ["alice@localhost", "bob@localhost"]);
    let error = ringway(folder.path(), &["user", "import", "none.csv"]).refused(1);
    assert!(error.contains("none.csv"), "{error}");
}

#[test]
fn permanent_contacts_are_added_removed_and_deleted_with_their_user() {
    let folder = folder();
    let path = folder.path();
    ringway(path, &["user", "add", "bob"]).ok();
    let contact = "sip:bob@127.0.0.1:5070";
    assert_eq!(
        ringway(path, &["user", "bind", "bob", contact]).ok(),
        "bob@localhost bound to sip:bob@127.0.0.1:5070\n"
    );
    ringway(path, &["user", "bind", "bob", "sip:bob@127.0.0.1:5071"]).ok();
    let list = ringway(path, &["user", "list"]).ok();
    assert!(list.contains("sip:bob@127.0.0.1:5070 sip:bob@127.0.0.1:5071"), "{list}");
    let error = ringway(path, &["user", "bind", "bob", "127.0.0.1"]).refused(2);
    assert!(error.contains("SIP URI"), "{error}");
    ringway(path, &["user", "unbind", "bob", contact]).ok();
    ringway(path, &["user", "unbind", "bob", contact]).refused(1);
    ringway(path, &["user", "unbind", "bob"]).ok();
    ringway(path, &["user", "unbind", "bob"]).refused(1);
    let note = ringway(path, &["user", "bind", "gateway", "sip:192.0.2.7"]);
    assert!(note.status == 0 && note.err.contains("no password"), "{note:?}");
    ringway(path, &["user", "remove", "bob"]).ok();
    let error = ringway(path, &["user", "remove", "bob"]).refused(1);
    assert!(error.contains("bob@localhost is not a user"), "{error}");
    assert_eq!(users(path), ["gateway@localhost"]);
}

#[test]
fn forwards_are_shown_changed_one_by_one_and_ended() {
    let folder = folder();
    let path = folder.path();
    ringway(path, &["user", "add", "bob"]).ok();
    let forward = |args: &[&str]| ringway(path, &[&["user", "forward", "bob"][..], args].concat());
    assert_eq!(forward(&[]).ok(), "bob@localhost forwards no call\n");
    let args = ["--busy", "sip:carol@localhost", "--no-answer", "20", "sip:dave@example.net"];
    let both = "busy: sip:carol@localhost\nno-answer after 20 s: sip:dave@example.net\n";
    assert_eq!(forward(&args).ok(), both);
    assert_eq!(forward(&[]).ok(), both);
    assert_eq!(forward(&["--busy", "off"]).ok(), "no-answer after 20 s: sip:dave@example.net\n");
    assert_eq!(
        ringway_json(path, &["user", "forward", "bob", "--unregistered", "sip:mail@localhost", "--json"]),
        json!({"user": "bob@localhost", "forwards": {
            "always": null, "busy": null, "unregistered": "sip:mail@localhost",
            "no_answer": {"after_s": 20, "to": "sip:dave@example.net"},
        }})
    );
    assert_eq!(forward(&["--off", "--always", "sip:carol@localhost"]).ok(), "always: sip:carol@localhost\n");
    for (bad, why) in [
        (&["--busy", "carol"][..], "SIP URI"),
        (&["--busy", "sip:bob@localhost"], "the user itself"),
        (&["--no-answer", "20"], "SECONDS and URI"),
        (&["--no-answer", "x", "sip:carol@localhost"], "not a number"),
        (&["--no-answer", "181", "sip:carol@localhost"], "1 to 180"),
    ] {
        let done = forward(bad);
        assert!(done.status > 0 && done.err.contains(why), "{bad:?}: {done:?}");
        assert_eq!(done.err.lines().count(), 1, "{done:?}");
    }
    assert_eq!(forward(&[]).ok(), "always: sip:carol@localhost\n", "nothing changed");
    assert_eq!(forward(&["--off"]).ok(), "bob@localhost forwards no call\n");
    let error = ringway(path, &["user", "forward", "nobody"]).refused(1);
    assert!(error.contains("nobody@localhost is not a user"), "{error}");
    ringway(path, &["user", "forward", "nobody", "--always", "sip:carol@localhost"]).refused(1);
}

#[test]
fn a_backup_is_restored_after_it_said_what_that_changes() {
    let folder = folder();
    let run = |args: &[&str]| ringway(folder.path(), args);
    assert!(run(&["backup", "saved.db"]).refused(1).contains("there is no database"));
    run(&["user", "add", "alice"]).ok();
    run(&["user", "add", "bob"]).ok();
    assert!(run(&["backup", "saved.db"]).ok().starts_with("saved.db: "));
    assert!(run(&["backup", "saved.db"]).refused(2).contains("the file exists"));
    run(&["user", "remove", "bob"]).ok();
    run(&["user", "add", "carol"]).ok();
    let said = run(&["restore", "saved.db", "--dry-run"]).ok();
    assert!(said.starts_with("it would change: users: 1 added, 1 removed, 0 with"), "{said}");
    assert_eq!(users(folder.path()), ["alice@localhost", "carol@localhost"]);
    let done = ringway_json(folder.path(), &["restore", "saved.db", "--json"]);
    assert_eq!((&done["users"]["added"], &done["applied"]), (&json!(1), &json!(true)));
    assert_eq!(users(folder.path()), ["alice@localhost", "bob@localhost"]);
    assert!(run(&["restore", "none.db"]).refused(1).contains("none.db"));

    fs::write(folder.path().join("list.csv"), "username,password\nalice,other\ndave,secret\n").unwrap();
    let said = run(&["user", "import", "list.csv", "--replace", "--dry-run"]).ok();
    assert!(said.starts_with("it would change: users: 1 added, 1 removed, 1 with another"), "{said}");
    run(&["user", "import", "list.csv", "--replace"]).ok();
    assert_eq!(users(folder.path()), ["alice@localhost", "dave@localhost"]);
    fs::write(folder.path().join("list.csv"), "username,password\n").unwrap();
    assert!(run(&["user", "import", "list.csv", "--replace"]).refused(1).contains("the list has no users"));
}

#[test]
fn a_list_that_is_only_shown_makes_no_database() {
    let folder = folder();
    let error = ringway(folder.path(), &["block", "list"]).refused(1);
    assert!(error.contains("ringway.db: there is no database"), "{error}");
    assert!(!folder.path().join("ringway.db").exists());
    let added = ringway(folder.path(), &["block", "add", "--network", "192.0.2.7"]);
    assert!(added.err.contains("this database is new"), "{}", added.err);
    assert!(ringway(folder.path(), &["block", "list"]).ok().contains("192.0.2.7"));
}

#[test]
fn users_of_a_memory_store_cannot_be_changed_from_outside() {
    let folder = folder();
    fs::write(folder.path().join("m.toml"), "[store]\nurl = \"memory:\"\n").unwrap();
    let error = ringway(folder.path(), &["user", "add", "alice", "--config", "m.toml"]).refused(2);
    assert!(error.contains("m.toml") && error.contains("memory:") && error.contains("sqlite://"), "{error}");
}

#[test]
fn a_damaged_database_is_refused_by_name() {
    let folder = folder();
    fs::write(folder.path().join("ringway.db"), "no database at all, not even nearly, ".repeat(100)).unwrap();
    let error = ringway(folder.path(), &["user", "list"]).refused(1);
    assert!(error.contains("ringway.db") && error.contains("restore a backup"), "{error}");
}

#[test]
fn a_configuration_is_checked_without_a_start() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("good.toml"), "domains = [\"example.org\"]\n").unwrap();
    fs::write(path.join("bad.toml"), "workers = 1000\n\n[registrar]\nmin_expires_s = 9000\n[tls]\nx = 1\n")
        .unwrap();
    assert_eq!(ringway(path, &["check", "good.toml"]).ok(), "good.toml: ok\n");
    assert_eq!(
        ringway_json(path, &["check", "good.toml", "--json"]),
        json!({"file": "good.toml", "ok": true, "errors": []})
    );
    let memory = ringway(path, &["check", "good.toml", "--memory"]).ok();
    let (sum, parts) = memory.split_once('\n').unwrap().1.split_once('\n').unwrap();
    assert!(sum.starts_with("memory: at most ") && parts.contains("  nonces in use (1048576, "), "{memory}");
    let memory = &ringway_json(path, &["check", "good.toml", "--memory", "--json"])["memory"];
    let parts = memory["parts"].as_array().unwrap().iter().map(|part| part["bytes"].as_u64().unwrap());
    assert_eq!(memory["bytes"].as_u64(), Some(parts.sum()));
    // Less memory for requests, a smaller sum.
    fs::write(path.join("small.toml"), "[limits]\nmemory_mb = 32\nmax_connections = 1000\n").unwrap();
    let small = &ringway_json(path, &["check", "small.toml", "--memory", "--json"])["memory"];
    assert!(small["bytes"].as_u64() < memory["bytes"].as_u64(), "{small} {memory}");
    let bad = ringway(path, &["check", "bad.toml"]);
    let lines: Vec<_> = bad.err.lines().collect();
    assert_eq!((bad.status, lines.len()), (1, 4), "{bad:?}");
    assert!(lines[0].contains("bad.toml:1: workers: "), "{}", lines[0]);
    assert!(lines[1].contains("bad.toml:4: [registrar] min_expires_s: "), "{}", lines[1]);
    assert!(lines[2].contains("bad.toml:6: [tls] x: "), "{}", lines[2]);
    let bad = ringway(path, &["check", "bad.toml", "--json"]);
    let value: Value = serde_json::from_str(&bad.out).unwrap();
    assert_eq!((bad.status, &value["ok"], &value["errors"][1]["line"]), (1, &json!(false), &json!(4)));
    let error = ringway(path, &["check", "none.toml"]).refused(2);
    assert!(error.contains("none.toml"), "{error}");
    let error = ringway(path, &["check"]).refused(2);
    assert!(error.contains("ringway.toml"), "{error}");
    fs::write(path.join("ringway.toml"), "domains = [\"example.org\"]\n").unwrap();
    assert_eq!(ringway(path, &["check"]).ok(), "ringway.toml: ok\n");
    // The same file where a good one is needed is bad configuration.
    let served = ringway(path, &["serve", "--config", "bad.toml"]);
    assert_eq!((served.status, served.err.lines().count()), (2, 3), "{served:?}");
    ringway(path, &["serve", "--config", "none.toml"]).refused(2);
}

#[test]
fn a_file_that_is_not_utf_8_is_an_error() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("ringway.toml"), b"domains = [\"example.org\"]\n# \xff\xfe\n").unwrap();
    for args in [&["check", "ringway.toml"][..], &["serve"], &["user", "list"]] {
        let error = ringway(path, args).refused(2);
        assert!(error.contains("ringway.toml:2: not valid UTF-8 at byte 28"), "{args:?}: {error}");
    }
}

#[test]
fn a_network_with_every_address_is_warned_of() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("open.toml"), "[auth]\ntrusted = [\"192.0.2.0/24\", \"0.0.0.0/0\", \"::/0\"]\n")
        .unwrap();
    let checked = ringway(path, &["check", "open.toml"]);
    assert_eq!((checked.status, checked.out.as_str()), (0, "open.toml: ok\n"), "{checked:?}");
    let lines: Vec<_> = checked.err.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("0.0.0.0/0") && lines[1].contains("::/0"), "{lines:?}");
    assert!(
        lines.iter().all(|line| line.contains("warning") && line.contains("[auth] trusted")),
        "{lines:?}"
    );
    let value = ringway_json(path, &["check", "open.toml", "--json"]);
    assert!(value["warnings"].as_array().is_some_and(|warnings| warnings.len() == 2), "{value}");

    let more =
        "listen = [\"udp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n[auth]\ntrusted = [\"::/0\"]\n";
    fs::write(path.join("ringway.toml"), more).unwrap();
    let running = Running::start(path, &["serve"], "");
    let line = running.says("[auth] trusted");
    assert!(line.contains("WARN") && line.contains("::/0"), "{line}");
}

#[test]
fn without_a_database_no_user_is_listed_or_changed() {
    let folder = folder();
    let path = folder.path();
    for args in [
        &["user", "list"][..],
        &["user", "list", "--json"],
        &["user", "passwd", "alice"],
        &["user", "remove", "alice"],
        &["user", "unbind", "alice"],
    ] {
        let error = ringway(path, args).refused(1);
        assert!(error.contains("ringway.db") && error.contains("user add"), "{args:?}: {error}");
    }
    assert!(fs::read_dir(path).unwrap().next().is_none(), "a file was made");
    let first = ringway(path, &["user", "add", "alice"]);
    let database = path.canonicalize().unwrap().join("ringway.db");
    assert!(first.err.contains("this database is new") && first.err.contains(database.to_str().unwrap()));
    first.ok();
    assert_eq!(ringway(path, &["user", "add", "bob"]).err, "", "it exists now");
    assert_eq!(users(path), ["alice@localhost", "bob@localhost"]);
}

#[test]
fn a_file_that_is_not_utf_8_has_its_own_error() {
    let folder = folder();
    let add = ["user", "add", "alice", "--password-stdin", "--danger-weak"];
    let (phone, mut input) = Running::start_and_keep_input(folder.path(), &add, "");
    std::io::Write::write_all(&mut input, b"wonder\xff\n").unwrap();
    let error = phone.done().refused(2);
    assert!(error.contains("UTF-8"), "{error}");
    let callers = folder.path().join("callers.csv");
    fs::write(&callers, b"username,password\nalice,wonder\xff\n").unwrap();
    fs::set_permissions(&callers, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let answer = ["answer", "--as", "sip:bob@127.0.0.1", "--challenge", "callers.csv"];
    let error = ringway(folder.path(), &answer).refused(2);
    assert!(error.contains("callers.csv: ") && error.contains("UTF-8"), "{error}");
    fs::write(folder.path().join("one.csv"), "username,password\ncarol,wonderland\n").unwrap();
    assert!(ringway(folder.path(), &["user", "import", "one.csv"]).ok().starts_with("1 user imported"));
}

#[test]
fn bad_usage_is_one_line_and_status_2() {
    let folder = folder();
    for args in [
        &["frobnicate"][..],
        &["user", "add"],
        &["user", "add", "alice", "--colour"],
        &["check", "a.toml", "b.toml"],
        &["show", "nothing"],
        &["serve", "--config"],
        &["call"],
        &["answer", "--count", "1"],
    ] {
        let error = ringway(folder.path(), args).refused(2);
        assert!(error.contains("--help"), "{args:?}: {error}");
    }
    assert_eq!(ringway(folder.path(), &[]).status, 2);
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "bad usage left a file behind");
}

#[test]
fn every_help_text_has_examples() {
    let folder = folder();
    let commands = [
        "",
        "serve",
        "check",
        "show",
        "user",
        "user add",
        "user import",
        "user list",
        "user passwd",
        "user remove",
        "user bind",
        "user unbind",
        "audio",
    ];
    for command in commands {
        let mut args: Vec<_> = command.split_whitespace().collect();
        args.push("--help");
        let help = ringway(folder.path(), &args).ok();
        assert!(
            help.contains("Example") && help.contains(&format!("ringway {command}")),
            "{command}: {help}"
        );
    }
}

/// A server with more registrations than one response contains.
struct Many(u64);

impl View for Many {
    fn registrations(&self, after: Option<&str>, limit: usize, _: Option<&str>) -> Page<Registration> {
        let first: u64 = after.map_or(0, |after| after.strip_prefix("é&#").unwrap().parse().unwrap());
        let end = (first + limit as u64).min(self.0);
        let items = (first..end).map(registration).collect();
        Page { items, total: self.0, next: (end < self.0).then(|| format!("é&#{end}")) }
    }

    fn calls(&self, _: Option<&str>, _: usize) -> Page<Call> {
        Page::default()
    }

    fn records(&self, _: Option<&str>, _: usize) -> Page<CallRecord> {
        Page::default()
    }

    fn connections(&self, _: Option<&str>, _: usize, _: Option<&str>) -> Page<Connection> {
        Page::default()
    }

    fn stats(&self) -> Stats {
        vec![Stat::gauge("registrations", "Contacts held.", self.0 as f64)]
    }

    fn server(&self) -> ServerInfo {
        ServerInfo::default()
    }
}

/// A server that refuses every change.
struct Unchanged;

impl Control for Unchanged {
    fn apply(&self, _: Change) -> Answer {
        Answer::refused(503, "not here")
    }

    fn blocks(&self, _: u64, _: usize) -> Result<BlockPage, String> {
        Ok(BlockPage::default())
    }

    fn forwards(&self, _: &str) -> Answer {
        Answer::refused(503, "not here")
    }

    fn users(&self, _: &UserQuery) -> Result<Page<User>, String> {
        Ok(Page::default())
    }

    fn user(&self, _: &str) -> Answer {
        Answer::refused(503, "not here")
    }

    fn configuration(&self) -> Answer {
        Answer::refused(503, "not here")
    }

    fn routes(&self) -> Answer {
        Answer::refused(503, "not here")
    }
}

fn registration(n: u64) -> Registration {
    let is_permanent = n == 1;
    Registration {
        aor: format!("sip:user{n}@example.org"),
        contact: format!("sip:user{n}@192.0.2.1:5060"),
        transport: "udp".to_owned(),
        address: (!is_permanent).then(|| "192.0.2.1:5060".to_owned()),
        expires_s: (!is_permanent).then_some(3552),
        q: 1.0,
        permanent: is_permanent,
        instance: None,
        reg_id: None,
        node: None,
        path: Vec::new(),
    }
}

fn serve(count: u64, token: &str) -> AdminServer {
    Admin::bind("127.0.0.1:0".parse().unwrap())
        .unwrap()
        .serve(Arc::new(Many(count)), Arc::new(Unchanged), token, Arc::new(|| None))
        .unwrap()
}

#[test]
fn registrations_are_shown_as_a_table_and_as_json_over_pages() {
    let folder = folder();
    let server = serve(12_000, "");
    let admin = server.address().to_string();
    let table = ringway(folder.path(), &["show", "registrations", "--admin", &admin]).ok();
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 12_002);
    let words = |line: &str| {
        line.split("  ").map(str::trim).filter(|w| !w.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words(lines[0]), ["AOR", "CONTACT", "TRANSPORT", "ADDRESS", "TIME LEFT"]);
    assert_eq!(
        words(lines[1]),
        ["sip:user0@example.org", "sip:user0@192.0.2.1:5060", "udp", "192.0.2.1:5060", "59m 12s"]
    );
    assert_eq!(words(lines[2]).last().unwrap(), "permanent");
    assert_eq!(lines[12_001], "12000 registrations");
    let value = ringway_json(folder.path(), &["show", "registrations", "--json", "--admin", &admin]);
    assert_eq!((&value["total"], value["registrations"].as_array().unwrap().len()), (&json!(12_000), 12_000));
    assert_eq!(value["registrations"][11_999]["aor"], "sip:user11999@example.org");
    assert_eq!(value["registrations"][1]["permanent"], true);
    for what in ["calls", "connections"] {
        let value = ringway_json(folder.path(), &["show", what, "--json", "--admin", &admin]);
        assert_eq!(value, json!({what: [], "total": 0}));
    }
    let stats = ringway_json(folder.path(), &["show", "stats", "--json", "--admin", &admin]);
    let limits = ["admin_clients_displaced", "admin_tokens_refused", "admin_tokens_slowed"];
    assert_eq!(stats, json!({limits[0]: 0, limits[1]: 0, limits[2]: 0, "registrations": 12_000}));
    let shown = ringway(folder.path(), &["show", "stats", "--admin", &admin]).ok();
    let rows: Vec<Vec<_>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [[limits[0], "0"], [limits[1], "0"], [limits[2], "0"], ["registrations", "12000"]]);
}

#[test]
fn show_takes_address_and_token_from_the_servers_configuration() {
    let folder = folder();
    let server = serve(2, "t0ken");
    let config = |token: &str| {
        let text = format!("[admin]\nlisten = \"{}\"\ntoken = \"{token}\"\n", server.address());
        fs::write(folder.path().join("ringway.toml"), text).unwrap();
        ringway(folder.path(), &["show", "registrations"])
    };
    assert!(config("t0ken").ok().ends_with("2 registrations\n"));
    let error = config("wrong").refused(1);
    assert!(error.contains("token"), "{error}");
}

#[test]
fn a_program_that_does_not_have_the_token_does_not_get_it() {
    let folder = folder();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = listener.local_addr().unwrap();
    let text = format!("[admin]\nlisten = \"{admin}\"\ntoken = \"a-token-that-nobody-guesses\"\n");
    fs::write(folder.path().join("ringway.toml"), text).unwrap();
    let answers = [
        ("404 Not Found", "{}"),
        ("200 OK", "{}"),
        ("200 OK", "{\"token\":true,\"proof\":null}"),
        ("200 OK", "{\"token\":true,\"proof\":\"\"}"),
        (
            "200 OK",
            "{\"token\":true,\"proof\":\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"}",
        ),
    ];
    for (status, body) in answers {
        let commands: [&[&str]; 4] =
            [&["show", "calls"], &["drain"], &["reload", "--dry-run"], &["check", "--against-running"]];
        for command in commands {
            let asked = std::thread::scope(|scope| {
                let running = scope.spawn(|| ringway(folder.path(), command));
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = vec![0; 4096];
                let length = stream.read(&mut asked).unwrap();
                let length_of_body = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Length: {length_of_body}\r\nConnection: close\r\n\r\n"
                );
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
                let done = running.join().unwrap();
                assert_eq!(done.status, 1, "{done:?}");
                assert!(done.err.contains("did not prove that it has the token"), "{done:?}");
                String::from_utf8(asked[..length].to_vec()).unwrap()
            });
            assert!(asked.starts_with("GET /api/proof ") && !asked.contains("nobody-guesses"), "{asked}");
        }
    }
    // One that says that it needs none gets none.
    let server = serve(2, "");
    let args = ["show", "registrations", "--admin", &server.address().to_string()];
    assert!(ringway(folder.path(), &args).ok().ends_with("2 registrations\n"));
}

#[test]
fn without_a_server_show_reports_the_address_and_the_remedy() {
    let folder = folder();
    let mut server = serve(1, "");
    let admin = server.address().to_string();
    server.stop();
    let error = ringway(folder.path(), &["show", "stats", "--admin", &admin]).refused(1);
    assert!(error.contains(&admin) && error.contains("ringway serve"), "{error}");
    fs::write(folder.path().join("ringway.toml"), "[admin]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let error = ringway(folder.path(), &["show", "stats"]).refused(2);
    assert!(error.contains("--admin"), "{error}");
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let folder = folder();
    let server = serve(12_000, "");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ringway"))
        .args(["show", "registrations", "--admin", &server.address().to_string()])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
}
