//! `ringway cert` of the built program: files and their permissions, certificates as OpenSSL reads and verifies them,
//! and what is never overwritten.

use crate::program::{Done, Running};
use ringway_test_support::programs::has;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs `ringway cert init` with more arguments.
fn init(folder: &TempDir, args: &[&str]) -> Done {
    Running::start(folder.path(), &[&["cert", "init"], args].concat(), "").done()
}

/// All files of a folder with their contents.
fn contents(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    files.map(read).collect()
}

/// Output of `openssl` with the arguments of a line, `None` where it is not installed. It must succeed.
fn openssl(folder: &Path, line: &str) -> Option<String> {
    let (is_good, text) = openssl_status(folder, line)?;
    assert!(is_good, "openssl {line}: {text}");
    Some(text)
}

fn openssl_status(folder: &Path, line: &str) -> Option<(bool, String)> {
    if !has("openssl", "openssl") {
        return None;
    }
    let output = Command::new("openssl").args(line.split(' ')).current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

#[test]
fn a_server_gets_an_authority_and_a_certificate() {
    let folder = folder();
    let args = ["--domain", "Example.org", "--address", "127.0.0.1", "--address", "::1", "--days", "30"];
    let out = init(&folder, &args).ok();
    let tls = folder.path().join("tls");
    let files = contents(&tls);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["ca-key.pem", "ca.pem", "cert.pem", "key.pem"]);
    for name in files.keys() {
        let mode = fs::metadata(tls.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode & 0o077 == 0, name.ends_with("key.pem"), "{name}: {mode:o}");
        assert!(out.contains(&format!("tls/{name} ")), "{out}");
    }
    let (_, rest) = out.split_once("In ringway.toml:\n").unwrap();
    let (lines, phones) = rest.split_once("\nFor phones: ").unwrap();
    let toml: toml_edit::DocumentMut = lines.parse().unwrap();
    assert_eq!(toml["tls"]["certificate"].as_str(), Some("tls/cert.pem"));
    assert_eq!(toml["tls"]["private_key"].as_str(), Some("tls/key.pem"));
    assert_eq!(toml["domains"][0].as_str(), Some("example.org"));
    assert!(toml["listen"].to_string().contains("tls:0.0.0.0:5061"), "{lines}");
    assert_eq!(phones, "--ca tls/ca.pem\n");
    fs::write(folder.path().join("ringway.toml"), lines).unwrap();
    Running::start(folder.path(), &["check", "ringway.toml"], "").done().ok();
    assert_eq!(files["cert.pem"].matches("BEGIN CERTIFICATE").count(), 2, "a chain");
    assert!(files["cert.pem"].ends_with(&files["ca.pem"]));

    let Some(text) = openssl(&tls, "x509 -in cert.pem -noout -text") else { return };
    for expected in [
        "DNS:example.org, URI:sip:example.org, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1",
        "TLS Web Server Authentication, TLS Web Client Authentication",
        "CN = example.org",
        "CN = Ringway CA of example.org",
        "NIST CURVE: P-256",
        "CA:FALSE",
        "Authority Key Identifier",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let text = openssl(&tls, "x509 -in ca.pem -noout -text").unwrap();
    for expected in ["CA:TRUE, pathlen:0", "Certificate Sign, CRL Sign", "X509v3 Basic Constraints: critical"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    for purpose in ["sslserver", "sslclient"] {
        openssl(&tls, &format!("verify -x509_strict -purpose {purpose} -CAfile ca.pem cert.pem"));
    }
    openssl(&tls, "verify -verify_hostname example.org -CAfile ca.pem cert.pem");
    openssl(&tls, "verify -verify_ip 127.0.0.1 -CAfile ca.pem cert.pem");
    let other = openssl_status(&tls, "verify -verify_hostname sub.example.org -CAfile ca.pem cert.pem");
    assert!(!other.unwrap().0);
    let public = openssl(&tls, "x509 -in cert.pem -noout -pubkey");
    assert_eq!(openssl(&tls, "pkey -in key.pem -pubout"), public);
    openssl(&tls, "x509 -in cert.pem -noout -checkend 2500000");
    assert!(!openssl_status(&tls, "x509 -in cert.pem -noout -checkend 2600000").unwrap().0, "30 days");
    openssl(&tls, "x509 -in ca.pem -noout -checkend 315000000");
}

#[test]
fn a_server_runs_with_the_certificate() {
    let folder = folder();
    init(&folder, &["--domain", "example.org", "--address", "127.0.0.1"]).ok();
    let config = "domains = [\"example.org\"]\nlisten = [\"tls:127.0.0.1:0\"]\n[store]\nurl = \"memory:\"\n\
                  [admin]\nlisten = \"127.0.0.1:0\"\n\
                  [tls]\ncertificate = \"tls/cert.pem\"\nprivate_key = \"tls/key.pem\"\n";
    fs::write(folder.path().join("ringway.toml"), config).unwrap();
    let server = Running::start(folder.path(), &["serve"], "");
    let address = server.listener("tls");
    if !has("openssl", "openssl") {
        return;
    }
    for name in ["-verify_hostname example.org", "-verify_ip 127.0.0.1"] {
        let line = format!("s_client -connect {address} -CAfile tls/ca.pem -verify_return_error {name}");
        let mut command = Command::new("openssl");
        command.args(line.split(' ')).current_dir(folder.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("Verify return code: 0 (ok)"), "{output:?}");
    }
    server.end();
}

#[test]
fn users_get_certificates_of_the_same_authority() {
    let folder = folder();
    init(&folder, &["--domain", "example.org", "--out", "a/b"]).ok();
    let tls = folder.path().join("a/b");
    let before = contents(&tls);
    let out =
        init(&folder, &["--domain", "example.org", "--out", "a/b", "--client", "alice", "--client", "bob"])
            .ok();
    assert!(!out.contains("ringway.toml") && out.contains("--ca a/b/ca.pem"), "{out}");
    assert!(out.contains("client_ca = \"a/b/ca.pem\"\nclient_users = true\n"), "{out}");
    let mut after = contents(&tls);
    for name in ["client-alice.pem", "client-alice-key.pem", "client-bob.pem", "client-bob-key.pem"] {
        let is_private = fs::metadata(tls.join(name)).unwrap().permissions().mode() & 0o077 == 0;
        assert_eq!(is_private, name.ends_with("key.pem"), "{name}");
        assert!(after.remove(name).is_some(), "{name}");
    }
    assert_eq!(after, before, "nothing else changed");

    let Some(text) = openssl(&tls, "x509 -in client-alice.pem -noout -text") else { return };
    assert!(text.contains("URI:sip:alice@example.org\n") && !text.contains("DNS:"), "{text}");
    openssl(&tls, "verify -x509_strict -purpose sslclient -CAfile ca.pem client-alice.pem");
    assert!(!openssl_status(&tls, "verify -purpose sslserver -CAfile ca.pem client-alice.pem").unwrap().0);
    let public = openssl(&tls, "x509 -in client-bob.pem -noout -pubkey");
    assert_eq!(openssl(&tls, "pkey -in client-bob-key.pem -pubout"), public);
}

#[test]
fn existing_files_are_replaced_by_force_only_and_the_authority_never() {
    let folder = folder();
    let tls = folder.path().join("tls");
    init(&folder, &["--domain", "example.org", "--client", "alice"]).ok();
    let first = contents(&tls);
    for args in [
        &["--domain", "example.org"][..],
        &["--domain", "example.org", "--client", "bob", "--client", "alice"],
    ] {
        let error = init(&folder, args).refused(1);
        assert!(error.contains("exists already") && error.contains("--force"), "{error}");
        assert_eq!(contents(&tls), first);
    }
    init(&folder, &["--domain", "example.org", "--force"]).ok();
    let second = contents(&tls);
    let changed = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
        assert_eq!(one.len(), other.len());
        one.keys().filter(|name| one[*name] != other[*name]).cloned().collect::<Vec<_>>()
    };
    assert_eq!(changed(&first, &second), ["cert.pem", "key.pem"]);
    init(&folder, &["--domain", "example.org", "--client", "alice", "--force"]).ok();
    assert_eq!(changed(&second, &contents(&tls)), ["client-alice-key.pem", "client-alice.pem"]);
    let mode = fs::metadata(tls.join("client-alice-key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0);
    let error =
        init(&folder, &["--domain", "example.org", "--client", "carol", "--address", "::1"]).refused(2);
    assert!(error.contains("--address") && error.contains("--force"), "{error}");
    openssl(&tls, "verify -CAfile ca.pem cert.pem client-alice.pem");
}

#[test]
fn a_link_is_not_followed() {
    let folder = folder();
    let tls = folder.path().join("tls");
    fs::create_dir(&tls).unwrap();
    fs::write(folder.path().join("victim"), "mine").unwrap();
    symlink("../victim", tls.join("key.pem")).unwrap();
    let error = init(&folder, &["--domain", "example.org"]).refused(1);
    assert!(error.contains("tls/key.pem"), "{error}");
    assert_eq!(fs::read_dir(&tls).unwrap().count(), 1, "nothing was written");
    init(&folder, &["--domain", "example.org", "--force"]).ok();
    assert_eq!(fs::read_to_string(folder.path().join("victim")).unwrap(), "mine");
    assert!(!tls.join("key.pem").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn json_has_the_files_and_the_settings() {
    let folder = folder();
    let value = init(&folder, &["--domain", "example.org", "--client", "alice", "--json"]).json();
    assert_eq!((&value["domain"], &value["ca"]), (&"example.org".into(), &"tls/ca.pem".into()));
    assert_eq!(value["tls"]["certificate"], "tls/cert.pem");
    assert_eq!(value["tls"]["private_key"], "tls/key.pem");
    let files = value["files"].as_array().unwrap();
    assert_eq!(files.len(), 6);
    for file in files {
        let name = file["file"].as_str().unwrap();
        assert!(folder.path().join(name).is_file());
        let until = file["valid_until"].as_str();
        assert_eq!(until.is_none(), name.ends_with("key.pem"), "{name}");
        assert!(until.is_none_or(|day| day.len() == 10), "{until:?}");
    }
    let more = init(&folder, &["--domain", "example.org", "--client", "bob", "--json"]).json();
    assert!(more["tls"].is_null());
}

#[test]
fn an_authority_that_cannot_be_used_is_reported() {
    let (folder, other) = (folder(), self::folder());
    let tls = folder.path().join("tls");
    init(&folder, &["--domain", "example.org"]).ok();
    init(&other, &["--domain", "example.org"]).ok();
    let good = contents(&tls);
    let foreign = contents(&other.path().join("tls"));
    for (file, text, expected) in [
        ("ca-key.pem", foreign["ca-key.pem"].as_str(), "does not belong"),
        ("ca-key.pem", "nonsense", "private key"),
        ("ca.pem", "nonsense", "certificate in PEM"),
        ("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate in PEM"),
        ("ca.pem", good["cert.pem"].as_str(), "authority"),
    ] {
        fs::write(tls.join(file), text).unwrap();
        let error = init(&folder, &["--domain", "example.org", "--client", "alice"]).refused(1);
        assert!(error.contains(&format!("tls/{file}")) && error.contains(expected), "{error}");
        assert!(!tls.join("client-alice.pem").exists());
        fs::write(tls.join(file), &good[file]).unwrap();
    }
    for (file, rest) in [("ca.pem", "ca-key.pem"), ("ca-key.pem", "ca.pem")] {
        fs::remove_file(tls.join(file)).unwrap();
        let error = init(&folder, &["--domain", "example.org", "--client", "alice"]).refused(1);
        assert!(
            error.contains(&format!("tls/{rest}: ")) && error.contains(&format!("tls/{file} does not")),
            "{error}"
        );
        fs::write(tls.join(file), &good[file]).unwrap();
    }
    init(&folder, &["--domain", "example.org", "--client", "alice"]).ok();
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = folder();
    let long = "a".repeat(64);
    for args in [
        &["--domain", ""][..],
        &["--domain", "*.example.org"],
        &["--domain", "example.org."],
        &["--domain", "-a.example"],
        &["--domain", "a..b"],
        &["--domain", "exämple.org"],
        &["--domain", "a b"],
        &["--domain", &long],
        &["--domain", "127.0.0.1"],
        &["--domain", "::1"],
        &["--domain", "a", "--client", ""],
        &["--domain", "a", "--client", "../x"],
        &["--domain", "a", "--client", ".x"],
        &["--domain", "a", "--client", "x@a"],
        &["--domain", "a", "--client", "x", "--client", "x"],
        &["--domain", "a", "--client", "x", "--client", "x-key"],
        &["--domain", "a", "--days", "0"],
        &["--domain", "a", "--days", "3651"],
        &["--domain", "a", "--address", "localhost"],
        &[],
    ] {
        let error = init(&folder, args).refused(2);
        assert!(error.starts_with("ringway: "), "{error}");
        assert!(!folder.path().join("tls").exists(), "{args:?}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_reported() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").unwrap();
    let error = init(&folder, &["--domain", "a", "--out", "file"]).refused(1);
    assert!(error.contains("file") && error.contains("--out"), "{error}");
}
