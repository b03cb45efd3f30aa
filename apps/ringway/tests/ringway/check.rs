//! `ringway check` fails where `ringway serve` would not start, for the same reason, and changes nothing.

use crate::program::Running;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Starts of a server that fail: the lines of the configuration, and a part of the error.
const FAILING: [(&str, &str); 21] = [
    ("[tls]\ncertificate = \"none.pem\"\nprivate_key = \"key.pem\"", "[tls] certificate: cannot read"),
    ("[tls]\ncertificate = \"tls/cert.pem\"\nprivate_key = \"none.pem\"", "[tls] private_key: cannot read"),
    ("[tls]\ncertificate = \"text\"\nprivate_key = \"tls/key.pem\"", "[tls] certificate: "),
    ("[tls]\ncertificate = \"tls/cert.pem\"\nprivate_key = \"other-key.pem\"", "[tls] "),
    ("[tls]\npeer_ca = \"none.pem\"", "[tls] peer_ca: cannot read"),
    ("[tls]\ncertificate = \"ed25519.pem\"\nprivate_key = \"ed25519-key.pem\"", "DTLS cannot use the key"),
    (
        "[tls.acme]\naccept_terms = true\ndomains = [\"a.org\"]\nfolder = \"text/acme\"",
        "[tls.acme] folder text/acme: cannot write",
    ),
    (
        "[tls.acme]\naccept_terms = true\ndomains = [\"a.org\"]\nca = \"none.pem\"",
        "[tls.acme] ca: cannot read certificates from none.pem",
    ),
    ("[store]\nurl = \"sqlite://none/ringway.db\"", "none/ringway.db"),
    ("[store]\nurl = \"sqlite://text\"", "text: damaged, or not a Ringway database"),
    ("[store]\nurl = \"sqlite://tls\"", "tls: "),
    ("[store]\nurl = \"sqlite://other.db\"", "other.db: damaged, or not a Ringway database"),
    ("[store]\nurl = \"sqlite://newer.db\"", "newer.db: its schema version is 99"),
    ("[store]\nurl = \"sqlite://linked.db\"", "linked.db.bindings.1: cannot open"),
    ("[store]\nurl = \"postgres://ringway@127.0.0.1:1/ringway\"", "postgres://ringway@127.0.0.1:1/ringway: "),
    ("[records]\nfile = \"none/calls.jsonl\"", "[records] file: none/calls.jsonl: "),
    ("[records]\nfile = \"tls\"", "[records] file: tls: not a regular file"),
    ("[records]\nurl = \"sqlite://other.db\"", "[records] url: other.db: damaged"),
    (
        "[[trunk]]\nname = \"carrier\"\nuri = \"sip:192.0.2.9\"\nusername = \"acct\"\npassword_file = \"none\"",
        "[trunk] password_file: \"none\" cannot be read",
    ),
    (
        "[[trunk]]\nname = \"carrier\"\nuri = \"sip:192.0.2.9\"\nusername = \"acct\"\npassword_file = \"open\"",
        "[trunk] password_file: \"open\" is open to every user of this machine",
    ),
    (
        "[location]\nurl = \"redis://127.0.0.1:1\"\n[cluster]\nnode = \"a\"\nlisten = \"127.0.0.1:5070\"\nsecret = \"short\"",
        "is not a secret of nodes",
    ),
];

#[test]
fn a_check_fails_where_the_server_would_not_start() {
    let folder = folder();
    let run = |args: &[&str]| Running::start(folder.path(), args, "").done();
    for (lines, part) in FAILING {
        let dtls = if lines.contains("ed25519") { "\"dtls:127.0.0.1:0\"" } else { "\"tcp:127.0.0.1:0\"" };
        let config =
            format!("listen = [\"udp:127.0.0.1:0\", {dtls}]\n[admin]\nlisten = \"127.0.0.1:0\"\n{lines}\n");
        fs::write(folder.path().join("ringway.toml"), config).unwrap();
        let before = names(folder.path());
        let checked = run(&["check"]);
        assert!(
            checked.status == 1 && checked.out.is_empty() && checked.err.contains(part),
            "{lines}\n{checked:?}"
        );
        assert_eq!(names(folder.path()), before, "{lines}");
        let json = run(&["check", "--json"]).json();
        let [key, message] = ["key", "message"].map(|name| json["errors"][0][name].as_str().unwrap());
        assert!(json["ok"] == false && format!("{key}: {message}").contains(part), "{json}");
        let served = run(&["serve"]);
        assert!(
            served.status != 0 && served.out.is_empty() && served.err.contains(part),
            "{lines}\n{served:?}"
        );
    }
}

#[test]
fn a_check_disturbs_no_server_and_makes_no_file() {
    let folder = folder();
    let config = "listen = [\"udp:127.0.0.1:0\", \"tls:127.0.0.1:0\", \"dtls:127.0.0.1:0\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n\
                  [tls]\ncertificate = \"tls/cert.pem\"\nprivate_key = \"tls/key.pem\"\n\
                  [records]\nfile = \"calls.jsonl\"\nurl = \"sqlite://calls.db\"\n";
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    let check = || {
        let before = names(folder.path());
        assert_eq!(Running::start(folder.path(), &["check"], "").done().ok(), "ringway.toml: ok\n");
        assert_eq!(names(folder.path()), before);
    };
    check();
    // An empty file is no database yet.
    fs::write(folder.path().join("ringway.db"), "").unwrap();
    check();
    let server = Running::start(folder.path(), &["serve"], "");
    server.ready();
    check();
    server.end();
    server.done().ok();
    check();
}

#[test]
fn the_file_is_the_given_one_then_that_of_the_variable_then_that_of_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["ringway.toml", "named.toml", "given.toml"] {
        fs::write(folder.path().join(name), "[store]\nurl = \"memory:\"\n").unwrap();
    }
    let variable = ("RINGWAY_CONFIG", Path::new("named.toml"));
    let run = |args: &[&str]| Running::start_with_variable(folder.path(), args, variable).done().ok();
    assert_eq!(run(&["check", "given.toml"]), "given.toml: ok\n");
    assert_eq!(run(&["check"]), "named.toml: ok\n");
    let unset = Running::start(folder.path(), &["check"], "").done().ok();
    assert_eq!(unset, "ringway.toml: ok\n");
    // One that it names and that does not exist is an error, as one after --config.
    let missing = ("RINGWAY_CONFIG", Path::new("missing.toml"));
    let refused = Running::start_with_variable(folder.path(), &["serve"], missing).done().refused(2);
    assert!(refused.contains("missing.toml: cannot read it"), "{refused}");
}

#[test]
fn the_example_of_a_configuration_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let example = Running::start(folder.path(), &["config", "example"], "").done().ok();
    fs::write(folder.path().join("ringway.toml"), &example).unwrap();
    assert_eq!(Running::start(folder.path(), &["check"], "").done().ok(), "ringway.toml: ok\n");
    assert!(example.contains("\n#nonce_lifetime_s = 300\n"), "{example}");
}

/// Folder with files that a server can use, and with some that it cannot.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Running::start(folder.path(), &["cert", "init", "--domain", "example.org"], "").done().ok();
    let text = "This is a text of some lines, which is neither a certificate nor a database.\n".repeat(20);
    for (name, text, mode) in [("text", &*text, 0o644), ("open", "secret", 0o644), ("short", "00ff", 0o600)] {
        fs::write(path(name), text).unwrap();
        fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
    }
    for (name, algorithm) in [("ed25519", &rcgen::PKCS_ED25519), ("other", &rcgen::PKCS_ECDSA_P256_SHA256)] {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["example.org".to_owned()]).unwrap();
        fs::write(path(&format!("{name}.pem")), parameters.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(path(&format!("{name}-key.pem")), key.serialize_pem()).unwrap();
        fs::set_permissions(path(&format!("{name}-key.pem")), Permissions::from_mode(0o600)).unwrap();
    }
    let other = rusqlite::Connection::open(path("other.db")).unwrap();
    other.execute_batch("CREATE TABLE other (id INTEGER)").unwrap();
    fs::write(path("empty.toml"), "[store]\nurl = \"sqlite://newer.db\"\n").unwrap();
    let list = ["user", "add", "alice", "--config", "empty.toml", "--password-stdin", "--danger-weak"];
    Running::start(folder.path(), &list, "secret\n").done().ok();
    let newer = rusqlite::Connection::open(path("newer.db")).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    symlink(path("text"), path("linked.db.bindings.1")).unwrap();
    folder
}

/// Names of the files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
