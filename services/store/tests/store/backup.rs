//! Backups: what they have, that a restoration makes the same of any store, and what is refused.

use ringway_store::{
    Backups, BlockKind, BlockLists, ChangeKind, ForwardUri, Forwards, NewBlockRow, Restoration, Restored,
    Store, StoreUrl, UserName,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn open(file: &Path) -> Store {
    Store::open(&StoreUrl::Sqlite(file.to_owned())).unwrap()
}

fn user(name: &str) -> UserName {
    UserName::new(name, "example.org").unwrap()
}

fn block(store: &Store, pattern: &str) {
    let (user, kind, reason) = (None, BlockKind::Network, "");
    BlockLists::of(store).add(&NewBlockRow { user, kind, pattern, reason, expires_s: None }).unwrap();
}

/// Everything in a store, as text.
fn content(store: &Store) -> Vec<String> {
    let mut all = std::cell::RefCell::new(Vec::new());
    store
        .load(
            |row| {
                let full = row.hashes().full.map(|full| full.md5);
                all.borrow_mut()
                    .push(format!("{}@{} {} {:?} {full:?}", row.name, row.domain, row.realm, row.ha1_md5));
            },
            |name, domain, contact| all.borrow_mut().push(format!("{name}@{domain} {contact}")),
        )
        .unwrap();
    store
        .load_forwards(|name, domain, forwards| {
            all.borrow_mut().push(format!("{name}@{domain} {forwards:?}"))
        })
        .unwrap();
    BlockLists::of(store).list(0, 1000, |row| all.borrow_mut().push(row.pattern)).unwrap();
    all.get_mut().sort();
    all.into_inner()
}

#[test]
fn a_restored_store_has_the_data_of_the_backup_and_says_what_differed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, saved) = (folder.path().join("r.db"), folder.path().join("saved.db"));
    let store = open(&file);
    for name in ["alice", "bob", "carol"] {
        store.add(&user(name), "r", "one").unwrap();
    }
    store.bind(&user("bob"), "sip:bob@192.0.2.7").unwrap();
    let always =
        Forwards { always: Some(ForwardUri::new("sip:carol@example.org").unwrap()), ..Forwards::default() };
    store.set_forwards(&user("bob"), &always).unwrap();
    block(&store, "192.0.2.0/24");
    Backups::of(&store).write(&saved).unwrap();
    assert_eq!(fs::metadata(&saved).unwrap().permissions().mode() & 0o777, 0o600);
    let before = content(&store);
    assert_eq!(Backups::of(&store).restore(&saved, Restoration::Apply).unwrap(), Restored::default());

    store.passwd(&user("alice"), "r", "two").unwrap();
    store.remove(&user("bob")).unwrap();
    store.add(&user("dave"), "r", "four").unwrap();
    store.bind(&user("carol"), "sip:carol@192.0.2.8").unwrap();
    block(&store, "198.51.100.0/24");
    let (changed, seq) = (content(&store), store.load(|_| {}, |_, _, _| {}).unwrap().seq);
    let difference = Restored { added: 1, removed: 1, changed: 1, contacts: 2, forwards: 1, blocks: 1 };
    assert_eq!(Backups::of(&store).restore(&saved, Restoration::DryRun).unwrap(), difference);
    assert_eq!(content(&store), changed, "nothing was changed");
    assert!(store.changes_since(seq).unwrap().is_empty());
    assert_eq!(Backups::of(&store).restore(&saved, Restoration::Apply).unwrap(), difference);
    assert_eq!(content(&store), before);

    // A running server follows it.
    let seen = store.changes_since(seq).unwrap().into_iter().map(|change| {
        let what = match change.kind {
            ChangeKind::Subscriber(_) => "password",
            ChangeKind::Removed => "removed",
            ChangeKind::Contacts(_) => "contacts",
            ChangeKind::Forwards(_) => "forwards",
            ChangeKind::Blocks(_) => "blocks",
            ChangeKind::Unknown => "unknown",
        };
        format!("{} {what}", change.name)
    });
    let mut seen: Vec<String> = seen.collect();
    seen.sort();
    let expected = [
        " blocks",
        "alice password",
        "bob contacts",
        "bob forwards",
        "bob password",
        "carol contacts",
        "dave removed",
    ];
    assert_eq!(seen, expected);
    // Also into a new store.
    let other = open(&folder.path().join("other.db"));
    assert_eq!(Backups::of(&other).restore(&saved, Restoration::Apply).unwrap().added, 3);
    assert_eq!(content(&other), before);
}

#[test]
fn subscribers_of_a_list_replace_the_others_and_keep_what_belongs_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let (store, list) = (open(&folder.path().join("r.db")), open(&folder.path().join("list.db")));
    for name in ["alice", "bob", "carol"] {
        store.add(&user(name), "r", "one").unwrap();
        store.bind(&user(name), &format!("sip:{name}@192.0.2.7")).unwrap();
    }
    store.bind(&user("phone"), "sip:phone@192.0.2.9").unwrap();
    block(&store, "192.0.2.0/24");
    for (name, password) in [("alice", "one"), ("bob", "two"), ("dave", "one")] {
        list.add(&user(name), "r", password).unwrap();
    }
    let difference = Restored { added: 1, removed: 1, changed: 1, contacts: 1, forwards: 0, blocks: 0 };
    let replace = |restoration| Backups::of(&store).replace_subscribers(&list, restoration).unwrap();
    assert_eq!(replace(Restoration::DryRun), difference);
    assert_eq!(content(&store).len(), 3 + 4 + 1);
    assert_eq!(replace(Restoration::Apply), difference);
    let left = content(&store);
    assert!(left.iter().all(|line| !line.contains("carol")), "{left:?}");
    assert_eq!(left.len(), 3 + 3 + 1, "the contact of a user without a password stays: {left:?}");
    assert_eq!(replace(Restoration::Apply), Restored::default());
}

#[test]
fn what_is_no_backup_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let store = open(&at("r.db"));
    store.add(&user("alice"), "r", "one").unwrap();
    Backups::of(&store).write(&at("saved.db")).unwrap();
    let before = content(&store);
    assert!(Backups::of(&store).write(&at("saved.db")).unwrap_err().to_string().contains("the file exists"));
    assert!(Backups::of(&store).write(&at("none/saved.db")).is_err());
    fs::write(at("empty.db"), "").unwrap();
    fs::write(at("text.db"), "no database at all, not even nearly, ".repeat(100)).unwrap();
    let mut cut = fs::read(at("saved.db")).unwrap();
    cut.truncate(6000);
    fs::write(at("cut.db"), cut).unwrap();
    let others = rusqlite::Connection::open(at("others.db")).unwrap();
    others.execute_batch("CREATE TABLE subscriber (name TEXT)").unwrap();
    for name in ["none.db", "empty.db", "text.db", "cut.db", "others.db"] {
        let error = Backups::of(&store).restore(&at(name), Restoration::Apply).unwrap_err().to_string();
        assert!(error.contains(name) || name == "cut.db", "{error}");
        assert_eq!(content(&store), before, "{name}: {error}");
        assert!(!at("none.db").exists());
    }
    // The next one works.
    assert_eq!(
        Backups::of(&store).restore(&at("saved.db"), Restoration::Apply).unwrap(),
        Restored::default()
    );
}

#[test]
fn a_backup_of_the_version_before_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let backup = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/version-2/ringway.db");
    let (store, same) = (open(&folder.path().join("r.db")), folder.path().join("same.db"));
    fs::copy(backup, &same).unwrap();
    let restored = Backups::of(&store).restore(backup.as_ref(), Restoration::Apply).unwrap();
    assert!(restored.added > 0 && restored.forwards > 0, "{restored:?}");
    let hashes = |store: &Store| {
        let mut all = Vec::new();
        store.load(|row| all.push((row.name.to_owned(), row.hashes())), |_, _, _| {}).unwrap();
        all
    };
    let users = hashes(&store);
    assert!(users.iter().all(|(_, hashes)| hashes.full.is_none()), "only new passwords have it");
    let opened = open(&same);
    assert_eq!((hashes(&opened), content(&opened)), (users.clone(), content(&store)));
    // A new password has both hashes, and is restored with them.
    let name = &users[0].0;
    opened.passwd(&user(name), "example.org", "new").unwrap();
    let saved = folder.path().join("saved.db");
    Backups::of(&opened).write(&saved).unwrap();
    assert_eq!(Backups::of(&store).restore(&saved, Restoration::Apply).unwrap().changed, 1);
    let full: Vec<_> = hashes(&store).into_iter().filter(|(_, hashes)| hashes.full.is_some()).collect();
    assert!(matches!(&full[..], [(only, _)] if only == name), "{full:?}");
}

/// Tables without constraints, as only another program makes them, with two users.
const LOOSE: &str = "
    PRAGMA application_id = 0x524e4757; PRAGMA user_version = 4;
    CREATE TABLE subscriber (domain, name, realm, ha1_md5, ha1_sha256, full_ha1_md5, full_ha1_sha256);
    CREATE TABLE contact (domain, name, contact);
    CREATE TABLE forward (domain, name, condition, after_s, uri);
    CREATE TABLE block (id INTEGER PRIMARY KEY, domain, name, kind, pattern, reason, expires_s);
    INSERT INTO subscriber VALUES ('example.org', 'alice', 'r', zeroblob(16), zeroblob(32), zeroblob(16), zeroblob(32)),
                                  ('example.org', 'bob', 'r', zeroblob(16), zeroblob(32), NULL, NULL);
    INSERT INTO contact VALUES ('example.org', 'alice', 'sip:alice@192.0.2.7');
    INSERT INTO forward VALUES ('example.org', 'alice', 3, 20, 'sip:bob@example.org');
    INSERT INTO block VALUES (1, '', '', 2, '192.0.2.0/24', '', NULL);
";

/// Rows that no command writes: table, statement, user and fault in the error.
const BAD_ROWS: [(&str, &str, &str, &str); 23] = [
    (
        "contact",
        "UPDATE contact SET contact = 'sip:x' || char(13, 10) || 'Evil: 1'",
        "alice@example.org",
        "control",
    ),
    (
        "contact",
        "UPDATE contact SET contact = 'sip:x' || char(0) || '@192.0.2.7'",
        "alice@example.org",
        "control",
    ),
    (
        "contact",
        "UPDATE contact SET contact = 'sip:' || hex(zeroblob(1000))",
        "alice@example.org",
        "1024 bytes",
    ),
    ("contact", "UPDATE contact SET contact = NULL", "alice@example.org", "contact is not text"),
    (
        "contact",
        "INSERT INTO contact VALUES ('example.org', 'alice', 'sip:alice@192.0.2.7')",
        "alice",
        "same key",
    ),
    (
        "forward",
        "UPDATE forward SET uri = 'sip:x' || char(13, 10) || 'Evil: 1@h'",
        "alice@example.org",
        "SIP URI",
    ),
    ("forward", "UPDATE forward SET condition = 99", "alice@example.org", "condition 99"),
    ("forward", "UPDATE forward SET after_s = -5", "alice@example.org", "180 seconds"),
    ("forward", "UPDATE forward SET after_s = NULL", "alice@example.org", "after_s is not a number"),
    ("block", "UPDATE block SET kind = 9", "@", "kind 9"),
    ("block", "UPDATE block SET expires_s = -1", "@", "end is negative"),
    ("block", "UPDATE block SET reason = char(10)", "@", "reason"),
    ("block", "UPDATE block SET pattern = x'ff'", "@", "pattern is not text"),
    (
        "subscriber",
        "UPDATE subscriber SET realm = 7 WHERE name = 'bob'",
        "bob@example.org",
        "realm is not text",
    ),
    (
        "subscriber",
        "UPDATE subscriber SET ha1_md5 = x'00' WHERE name = 'bob'",
        "bob@example.org",
        "hash of 16 bytes",
    ),
    (
        "subscriber",
        "UPDATE subscriber SET ha1_sha256 = 'a' WHERE name = 'bob'",
        "bob@example.org",
        "hash of 32 bytes",
    ),
    (
        "subscriber",
        "UPDATE subscriber SET full_ha1_md5 = x'00', full_ha1_sha256 = zeroblob(32) WHERE name = 'bob'",
        "bob@example.org",
        "full_ha1_md5 is not a hash of 16 bytes",
    ),
    (
        "subscriber",
        "UPDATE subscriber SET full_ha1_md5 = zeroblob(16) WHERE name = 'bob'",
        "bob@example.org",
        "full_ha1_sha256 is not a hash of 32 bytes",
    ),
    (
        "subscriber",
        "UPDATE subscriber SET full_ha1_sha256 = zeroblob(32) WHERE name = 'bob'",
        "bob@example.org",
        "full_ha1_md5 is not a hash of 16 bytes",
    ),
    (
        "subscriber",
        "UPDATE subscriber SET name = x'ff00' WHERE name = 'bob'",
        "?@example.org",
        "name is not text",
    ),
    ("subscriber", "UPDATE subscriber SET name = 'b' || char(10) || 'ob' WHERE name = 'bob'", "b", "control"),
    (
        "subscriber",
        "UPDATE subscriber SET domain = 'EXAMPLE.org' WHERE name = 'bob'",
        "bob@EXAMPLE",
        "lower case",
    ),
    (
        "subscriber",
        "UPDATE subscriber SET name = hex(zeroblob(200000)) WHERE name = 'bob'",
        "0000",
        "255 bytes",
    ),
];

fn loose(file: &Path, statement: &str) {
    let _ = fs::remove_file(file);
    let connection = rusqlite::Connection::open(file).unwrap();
    connection.execute_batch(LOOSE).unwrap();
    connection.execute_batch(statement).unwrap();
}

#[test]
fn a_backup_with_a_row_that_no_command_writes_is_refused_with_the_row() {
    let folder = tempfile::tempdir().unwrap();
    let (file, backup) = (folder.path().join("r.db"), folder.path().join("b.db"));
    let store = open(&file);
    store.add(&user("carol"), "r", "one").unwrap();
    let before = content(&store);
    for (table, statement, user, fault) in BAD_ROWS {
        loose(&backup, statement);
        for restoration in [Restoration::DryRun, Restoration::Apply] {
            let error = Backups::of(&store).restore(&backup, restoration).unwrap_err().to_string();
            let number = if statement.contains("bob") || statement.contains("INSERT") { 2 } else { 1 };
            let place = format!("b.db: row {number} of the table {table}, of \"{user}");
            assert!(error.contains(&place) && error.contains(fault), "{statement}: {error}");
            assert!(error.len() < 600 && !error.contains('\n'), "{error}");
            assert_eq!(content(&store), before, "{statement}");
        }
    }
    loose(&backup, "");
    assert_eq!(Backups::of(&store).restore(&backup, Restoration::Apply).unwrap().added, 2);
    assert_eq!(content(&store).len(), 5);
}

#[test]
fn nothing_in_a_backup_is_run() {
    let endless = "WITH RECURSIVE x (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x)";
    let folder = tempfile::tempdir().unwrap();
    let (file, backup) = (folder.path().join("r.db"), folder.path().join("b.db"));
    let store = open(&file);
    let table = "DROP TABLE contact; CREATE";
    for (statement, name) in [
        (
            format!(
                "{table} VIEW contact AS {endless} SELECT 'a.org' AS domain, 'u' || n AS name, 'sip:h' AS contact FROM x"
            ),
            "contact",
        ),
        (format!("{table} TABLE contact (domain, name, contact AS (hex(zeroblob(1000000000))))"), "contact"),
        (format!("{table} VIRTUAL TABLE contact USING fts5(domain, name)"), "contact"),
        ("DROP TABLE subscriber".to_owned(), "subscriber"),
        ("DROP TABLE block; CREATE TABLE other (x); PRAGMA user_version = 4".to_owned(), "block"),
    ] {
        loose(&backup, &statement);
        let error = Backups::of(&store).restore(&backup, Restoration::Apply).unwrap_err().to_string();
        assert!(
            error.contains("b.db") && error.contains(&format!("no plain table {name}")),
            "{statement}: {error}"
        );
    }
    // Others beside the tables of users are not looked at.
    let others = format!(
        "CREATE VIEW endless AS {endless} SELECT n FROM x;
         CREATE TRIGGER t INSERT ON contact BEGIN INSERT INTO forward {endless} SELECT n, n, n, n, n FROM x; END;"
    );
    loose(&backup, &others);
    assert_eq!(Backups::of(&store).restore(&backup, Restoration::Apply).unwrap().added, 2);
    // Before schema 4 a subscriber had fewer columns; a newer one has all of them.
    let fewer = "ALTER TABLE subscriber DROP COLUMN full_ha1_md5; ALTER TABLE subscriber DROP COLUMN full_ha1_sha256;";
    loose(&backup, &format!("{fewer} PRAGMA user_version = 3"));
    let restored = Backups::of(&store).restore(&backup, Restoration::Apply).unwrap();
    assert_eq!((restored.added, restored.changed), (0, 1), "alice had both hashes");
    let (hash, content) = ([0u8; 16], content(&store));
    for user in ["alice", "bob"] {
        assert!(content.contains(&format!("{user}@example.org r {hash:?} None")), "{content:?}");
    }
    loose(&backup, fewer);
    let error = Backups::of(&store).restore(&backup, Restoration::Apply).unwrap_err().to_string();
    assert!(error.contains("b.db"), "{error}");
    // A backup of an earlier version has fewer tables.
    loose(&backup, "DROP TABLE block; DROP TABLE forward; PRAGMA user_version = 1");
    let restored = Backups::of(&store).restore(&backup, Restoration::Apply).unwrap();
    assert_eq!((restored.added, restored.forwards, restored.blocks), (0, 1, 1));
    loose(&backup, "PRAGMA user_version = 99");
    let error = Backups::of(&store).restore(&backup, Restoration::Apply).unwrap_err().to_string();
    assert!(error.contains("version is 99"), "{error}");
}

#[test]
fn rows_that_no_command_writes_are_passed_over_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.db");
    for (table, statement, _, _) in
        BAD_ROWS.into_iter().filter(|(_, statement, _, _)| !statement.starts_with("INSERT"))
    {
        let _ = fs::remove_file(&file);
        let store = open(&file);
        let seq = store.load(|_| {}, |_, _, _| {}).unwrap().seq;
        let connection = rusqlite::Connection::open(&file).unwrap();
        // The tables have no constraints that a hostile file could not lack.
        let tables = LOOSE.split(';').filter(|part| part.contains("CREATE TABLE"));
        let names = tables.clone().map(|part| part.trim().split(' ').nth(2).unwrap());
        let drop: String = names.map(|name| format!("DROP TABLE {name};")).collect();
        connection.execute_batch(&drop).unwrap();
        connection.execute_batch(LOOSE).unwrap();
        connection.execute_batch(statement).unwrap();
        connection.execute_batch("INSERT INTO changed (domain, name, kind) SELECT domain, name, 1 FROM subscriber UNION SELECT domain, name, 2 FROM contact UNION SELECT domain, name, 4 FROM forward UNION SELECT domain, name, 5 FROM block").unwrap();
        let left = content(&store);
        assert_eq!((left.len(), store.rows_unreadable()), (4, 1), "{statement}: {left:?}");
        assert!(left.iter().any(|line| line.starts_with("alice@example.org r ")), "{left:?}");
        let changes = store.changes_since(seq).unwrap();
        assert_eq!(changes.len(), 5, "{statement}: {changes:?}");
        assert!(store.rows_unreadable() >= 2 && store.changes_since(changes[4].seq).unwrap().is_empty());
        let mut users = 0;
        store
            .list(|_, _, _, _| {
                users += 1;
                true
            })
            .unwrap();
        let pages = ringway_store::UserPages::of(&store);
        pages.page(None, ringway_store::UserFilter::All, 10, 100).unwrap();
        assert!(users > 0 && !table.is_empty());
    }
}
