//! `ringway answer --challenge`, `--peer-realm` and `ringway options` through the built program, on loopback.

use crate::program::{Done, Running};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn start(args: &[&str]) -> Running {
    Running::start(Path::new("."), args, "")
}

fn ringway(args: &[&str]) -> Done {
    start(args).done()
}

/// A file that only its owner may read.
fn private(folder: &TempDir, name: &str, text: &str) -> String {
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Bob on a free port of loopback, and where he is called.
fn bob(args: &[&str]) -> (Running, String) {
    let mut all = vec!["answer", "--as", "sip:bob@127.0.0.1", "--bind", "127.0.0.1:0", "--json"];
    all.extend(args);
    let bob = start(&all);
    let uri = format!("sip:bob@{}", bob.address());
    (bob, uri)
}

#[test]
fn a_called_phone_that_challenges_is_reached_with_its_password_alone() {
    let folder = tempfile::tempdir().unwrap();
    let callers = private(&folder, "callers.csv", "username,password\nalice,open sesame\n");
    let (bob, uri) = bob(&["--challenge", &callers, "--count", "1"]);
    let call = ["call", &uri, "--from", "sip:alice@127.0.0.1", "--duration", "1", "--json"];
    let asked = ringway(&call);
    assert_eq!((asked.status, &asked.json()["status"]), (1, &401.into()), "{asked:?}");
    assert!(asked.json()["reason"].as_str().unwrap().contains("--peer-realm"), "{asked:?}");
    let with = |name: &str, password: &str, realm: &str| {
        let file = private(&folder, name, &format!("{password}\n"));
        ringway(&[&call[..], &["--peer-realm", realm, "--peer-password-file", &file]].concat())
    };
    let other = with("other", "open sesame", "carol@127.0.0.1");
    assert_eq!((other.status, &other.json()["status"]), (1, &401.into()), "{other:?}");
    let reason = other.json()["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("\"bob@127.0.0.1\"") && reason.contains("\"carol@127.0.0.1\""), "{reason}");
    let wrong = with("wrong", "open barley", "bob@127.0.0.1");
    assert!(wrong.status == 1 && wrong.json()["reason"].as_str().unwrap().contains("is wrong"), "{wrong:?}");
    let right = with("right", "open sesame", "bob@127.0.0.1");
    assert_eq!((right.status, &right.json()["result"]), (0, &"answered".into()), "{right:?}");
    let bob = bob.done();
    assert_eq!(bob.status, 0, "{bob:?}");
    assert!(bob.err.contains("gave a wrong password of alice") && bob.err.contains("has proved"), "{bob:?}");
    assert_eq!(bob.out.lines().count(), 1, "refused callers are no calls: {bob:?}");
}

#[test]
fn files_with_passwords_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let answer = |file: &str| {
        let args = ["answer", "--as", "sip:bob@127.0.0.1", "--bind", "127.0.0.1:0", "--challenge", file];
        ringway(&args).refused(2)
    };
    let open = private(&folder, "open.csv", "username,password\nalice,x\n");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o644)).unwrap();
    assert!(answer(&open).contains("chmod 600"));
    assert!(answer(&private(&folder, "empty.csv", "username,password\n")).contains("nobody is in it"));
    let row = answer(&private(&folder, "row.csv", "username,password\nalice,\n"));
    assert!(row.contains("row.csv:2: ") && row.contains("password"), "{row}");
    assert!(answer("/nowhere/at/all").contains("no such file"));
    let call = ["call", "sip:bob@127.0.0.1:9", "--peer-realm", "r", "--peer-password-file"];
    let empty = private(&folder, "empty", "\n");
    assert!(ringway(&[&call[..], &[&empty]].concat()).refused(2).contains("first line is empty"));
    let alone = ringway(&["call", "sip:bob@127.0.0.1:9", "--peer-realm", "r"]);
    assert!(alone.status == 2 && alone.err.contains("--peer-password-file"), "{alone:?}");
}

#[test]
fn options_says_what_is_there_and_how_far_away() {
    let (bob, uri) = bob(&[]);
    let there = ringway(&["options", &uri, "--json"]);
    let value = there.json();
    assert_eq!((there.status, &value["result"], &value["status"]), (0, &"answered".into(), &200.into()));
    assert!(value["allow"].as_str().unwrap().contains("INVITE"), "{value:#}");
    assert!(value["accept"].as_str().unwrap().contains("application/sdp"), "{value:#}");
    assert!(value["supported"].is_null(), "`answer` takes no call that replaces another: {value:#}");
    assert!(value["user_agent"].as_str().unwrap().starts_with("Ringway/"), "{value:#}");
    assert!((0.0..10_000.0).contains(&value["round_trip_ms"].as_f64().unwrap()), "{value:#}");
    let lines = ringway(&["options", &uri, "--transport", "tcp"]).ok();
    assert!(lines.starts_with("200 OK\nAllow: ") && lines.contains("\nround-trip time: "), "{lines}");
    let nobody = ringway(&["options", &uri.replace("bob", "nobody"), "--json"]);
    assert_eq!((nobody.status, &nobody.json()["result"]), (1, &"rejected".into()), "{nobody:?}");
    assert_eq!(nobody.json()["status"], 404);
    bob.end();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let gone = ringway(&["options", &format!("sip:bob@{closed};transport=tcp"), "--json"]);
    assert_eq!((gone.status, &gone.json()["result"]), (1, &"failed".into()), "{gone:?}");
    assert!(gone.json()["round_trip_ms"].is_null(), "{gone:?}");
    assert!(ringway(&["options", "bob"]).refused(2).contains("sip:bob@example.org"));
}

#[test]
fn numbers_out_of_their_range_are_refused_with_the_range() {
    for (option, bad, range) in
        [("--port-row", ["65", "-1"], "0 to 64"), ("--replay-window", ["63", "32769"], "64 to 32768")]
    {
        for bad in bad {
            let refused = ringway(&["call", "sip:bob@127.0.0.1:9", &format!("{option}={bad}")]);
            assert!(refused.status == 2 && refused.err.contains(range), "{refused:?}");
        }
    }
    let (bob, uri) = bob(&["--count", "1", "--replay-window", "32768", "--port-row", "64"]);
    let call =
        ["call", &uri, "--srtp", "sdes", "--duration", "1", "--replay-window", "256", "--port-row", "8"];
    assert_eq!(ringway(&call).status, 0);
    assert_eq!(bob.done().status, 0);
}

#[test]
fn a_server_answers_options_without_an_account_and_a_challenge_says_what_to_give() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        "domains = [\"127.0.0.1\"]\nlisten = [\"udp:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n";
    std::fs::write(folder.path().join("ringway.toml"), settings).unwrap();
    let server = Running::start(folder.path(), &["serve"], "");
    let uri = format!("sip:bob@{}", server.address());
    let nobody = ringway(&["options", &uri, "--json"]);
    assert_eq!((nobody.status, &nobody.json()["status"]), (1, &404.into()), "there is no bob: {nobody:?}");
    // A user of the server has to prove it.
    let asked = ringway(&["options", &uri, "--from", "sip:ringway@127.0.0.1", "--json"]);
    assert_eq!((asked.status, &asked.json()["status"]), (1, &407.into()), "{asked:?}");
    let reason = asked.json()["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("--server, --from and --password-stdin"), "{reason}");
}

#[test]
fn a_refused_offer_is_reported_once_and_the_caller_gets_the_reason() {
    let (bob, uri) = bob(&["--srtp", "none", "--count", "1"]);
    let call = ringway(&["call", &uri, "--srtp", "sdes", "--json"]);
    let reason = call.json()["reason"].as_str().unwrap().to_owned();
    assert_eq!((call.status, &call.json()["status"]), (1, &488.into()), "{call:?}");
    assert!(reason.starts_with("Not Acceptable Here: "), "{reason}");
    let bob = bob.done();
    let refused = bob.json()["reason"].as_str().unwrap().to_owned();
    assert!(reason.ends_with(&refused), "{reason}: {refused}");
    assert!(!bob.err.contains(&refused), "the outcome has it: {bob:?}");
}
