//! `ringway migrate`: users of another server's database.

use crate::program::{Done, Running};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

fn ringway(folder: &Path, args: &[&str]) -> Done {
    Running::start(folder, args, "").done()
}

/// A database with the tables that Kamailio and OpenSIPS have in common.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ringway.toml"), "domains = [\"example.org\"]\n").unwrap();
    let database = rusqlite::Connection::open(folder.path().join("k.sqlite")).unwrap();
    let md5 = "0a".repeat(16);
    database
        .execute_batch(&format!(
            "CREATE TABLE subscriber (id INTEGER PRIMARY KEY, username, domain, password, ha1, ha1_sha256);
             INSERT INTO subscriber (username, domain, password, ha1) VALUES
                 ('alice', 'Example.org', 'wonderland', ''), ('bob', 'example.org', '', '{md5}'),
                 ('carol', 'other.example', '', '{md5}'), ('dave', '', 'secret', NULL),
                 ('e vil', 'example.org', 'x', ''), ('none', 'example.org', '', 'short'),
                 ('long', 'example.org', '{long}', '');
             CREATE TABLE domain (domain);
             INSERT INTO domain VALUES ('example.org'), ('third.example'), ('bad\ndomain');
             CREATE TABLE address (grp INTEGER, ip_addr, mask INTEGER, tag);
             INSERT INTO address VALUES (1, '192.0.2.0', 24, 'carrier\n[admin]'), (2, 'any', 0, '');
             CREATE TABLE uacreg (r_domain, auth_username);
             INSERT INTO uacreg VALUES ('carrier.example\nlisten = []', 'acct');
             CREATE TABLE dispatcher (id);
             INSERT INTO dispatcher VALUES (1), (2);",
            long = "x".repeat(2000)
        ))
        .unwrap();
    folder
}

fn users(folder: &Path) -> Vec<String> {
    let listed: Value = serde_json::from_str(&ringway(folder, &["user", "list", "--json"]).ok()).unwrap();
    let users = listed["users"].as_array().unwrap().iter();
    users
        .map(|user| format!("{}@{} {}", user["name"], user["domain"], user["realm"]).replace('"', ""))
        .collect()
}

#[test]
fn users_are_taken_over_after_it_said_which_and_again_without_a_change() {
    let folder = folder();
    let migrate = ["migrate", "kamailio", "sqlite://k.sqlite"];
    let said = ringway(folder.path(), &[&migrate[..], &["--dry-run"]].concat()).ok();
    assert!(
        said.starts_with("7 subscribers in sqlite://k.sqlite\nit would change: users: 4 added"),
        "{said}"
    );
    assert!(said.contains("left out: 3\n") && said.contains("neither a password nor its MD5 hash"), "{said}");
    assert!(said.contains("not read: table dispatcher, rows: 2; "), "{said}");
    assert_eq!(users(folder.path()), Vec::<String>::new());

    let said: Value =
        serde_json::from_str(&ringway(folder.path(), &[&migrate[..], &["--json"]].concat()).ok()).unwrap();
    let counts = json!({"found": 7, "added": 4, "changed": 0, "left_out": 3, "md5_only": 2, "weak": 2});
    assert_eq!((&said["users"], &said["applied"]), (&counts, &json!(true)));
    assert_eq!(said["foreign_realms"], json!({"other.example": "other.example"}));
    assert_eq!(said["missing_domains"], json!(["other.example", "third.example"]));
    assert_eq!(
        users(folder.path()),
        [
            "alice@example.org example.org",
            "bob@example.org example.org",
            "dave@example.org example.org",
            "carol@other.example other.example"
        ]
    );
    ringway(folder.path(), &["user", "add", "zoe"]).ok();
    let again = ringway(folder.path(), &migrate).ok();
    assert!(again.contains("taken over: users: 0 added, 0 removed, 0 with another password"), "{again}");
    assert_eq!(users(folder.path()).len(), 5);
}

#[test]
fn a_hash_logs_in_with_md5_and_no_password_with_sha_256() {
    let folder = folder();
    ringway(folder.path(), &["migrate", "kamailio", "sqlite://k.sqlite"]).ok();
    let database = rusqlite::Connection::open(folder.path().join("ringway.db")).unwrap();
    let hashes = |name: &str| -> (Vec<u8>, Vec<u8>) {
        let query = "SELECT ha1_md5, ha1_sha256 FROM subscriber WHERE name = ?1";
        database.query_row(query, [name], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
    };
    let (bob, carol) = (hashes("bob"), hashes("carol"));
    assert_eq!((&bob.0, &carol.0), (&vec![0x0a; 16], &vec![0x0a; 16]));
    // The substitute is neither empty nor the same for two users.
    assert!(bob.1 != carol.1 && bob.1.iter().any(|byte| *byte != 0));
}

#[test]
fn settings_are_proposed_as_a_configuration_that_texts_cannot_change() {
    let folder = folder();
    let args = ["migrate", "kamailio", "sqlite://k.sqlite", "--dry-run", "--settings", "proposed.toml"];
    ringway(folder.path(), &args).ok();
    let proposed = std::fs::read_to_string(folder.path().join("proposed.toml")).unwrap();
    let settings: Vec<&str> =
        proposed.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert_eq!(
        settings,
        [
            "domains = [\"example.org\", \"other.example\", \"third.example\"]",
            "[auth]",
            "algorithms = [\"MD5\"]",
            "[[auth.domain]]",
            "name = \"other.example\"",
            "realm = \"other.example\"",
        ]
    );
    assert!(proposed.contains("# trusted = [\"192.0.2.0/24\"]  # group 1, carrier"), "{proposed}");
    assert!(
        proposed.contains("# username = \"acct\"\n# password_file = \"…\"\n# register = true"),
        "{proposed}"
    );
    ringway(folder.path(), &["check", "proposed.toml"]).ok();
    let error = ringway(folder.path(), &args).refused(1);
    assert!(error.contains("proposed.toml: it cannot be written"), "{error}");
}

#[test]
fn the_domain_with_most_users_is_proposed_as_the_first_where_none_is_configured() {
    let proposed = |args: &[&str]| {
        let folder = folder();
        std::fs::remove_file(folder.path().join("ringway.toml")).unwrap();
        let migrate = ["migrate", "kamailio", "sqlite://k.sqlite", "--settings", "proposed.toml"];
        ringway(folder.path(), &[&migrate[..], args].concat()).ok();
        ringway(folder.path(), &["check", "proposed.toml"]).ok();
        std::fs::read_to_string(folder.path().join("proposed.toml")).unwrap()
    };
    let text = proposed(&["--dry-run", "--domain", "example.org"]);
    assert!(text.contains("domains = [\"example.org\", \"other.example\", \"third.example\"]\n"), "{text}");
    assert!(!text.contains("\nrealm = \"localhost\""), "{text}");
    // A user without a domain is one of the default; passwords that were taken over have its realm.
    let text = proposed(&[]);
    assert!(text.contains("domains = [\"example.org\", \"other.example\", \"localhost\", "), "{text}");
    assert!(text.contains("\n[auth]\nrealm = \"localhost\""), "{text}");
}

#[test]
fn a_database_that_is_none_is_an_error_with_its_remedy() {
    let folder = folder();
    let error = |url: &str, status| ringway(folder.path(), &["migrate", "opensips", url]).refused(status);
    assert!(error("none.sqlite", 2).contains("write sqlite:///etc/kamailio/kamailio.sqlite"));
    assert!(error("mysql://user:secret@/", 2).contains("is no database"));
    assert!(!error("http://user:secret@host/name", 2).contains("secret"));
    assert!(error("sqlite://none.sqlite", 1).contains("No such file"));
    assert!(error("sqlite://ringway.toml", 1).contains("not a database"));
    let refused = error("postgres://user:secret@127.0.0.1:1/name", 1);
    assert!(
        refused.contains("postgres://user@127.0.0.1:1/name: it cannot be opened")
            && !refused.contains("secret")
    );
    assert!(!folder.path().join("ringway.db").exists());
}
