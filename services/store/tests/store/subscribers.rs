//! Database of subscribers: changes by commands, and their visibility to a running server.
//!
//! Tested: adding, changing, removing, permanent contacts, import, changes seen by another process's store, damage.
//! Not tested: a disk that fails below SQLite.

use base16ct::lower::encode_string as hex;
use ringway_store::{
    ChangeKind, ForwardUri, Forwards, Ha1, Hashes, NoAnswer, Store, StoreError, StoreUrl, UserName,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn open(folder: &Path) -> Store {
    Store::open(&StoreUrl::Sqlite(folder.join("r.db"))).unwrap()
}

fn user(name: &str) -> UserName {
    UserName::new(name, "example.org").unwrap()
}

fn names(store: &Store) -> Vec<String> {
    let mut names = Vec::new();
    store.load(|row| names.push(format!("{}@{}", row.name, row.domain)), |_, _, _| {}).unwrap();
    names
}

#[test]
fn only_the_hashes_of_the_rfc_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    // The realm and the password of RFC 7616 §3.9.1.
    let mufasa = UserName::new("Mufasa", "example.org").unwrap();
    store.add(&mufasa, "http-auth@example.org", "Circle of Life").unwrap();
    let mut hashes = Vec::new();
    store.load(|row| hashes.push((*row.ha1_md5, *row.ha1_sha256)), |_, _, _| {}).unwrap();
    assert_eq!(hex(&hashes[0].0), "3d78807defe7de2157e2b0b6573a855f");
    assert_eq!(hex(&hashes[0].1), "7987c64c30e25f1b74be53f966b49b90f2808aa92faf9a00262392d7b4794232");
    for file in fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o077,
            0,
            "{path:?} is open to others"
        );
        let bytes = fs::read(path).unwrap();
        assert!(!bytes.windows(14).any(|window| window == b"Circle of Life"));
    }
}

/// Hashes of the only subscriber, as they are loaded and as a change.
fn hashes(store: &Store, seq: u64) -> Hashes {
    let mut loaded = Vec::new();
    store.load(|row| loaded.push(row.hashes()), |_, _, _| {}).unwrap();
    let changes = store.changes_since(seq).unwrap();
    assert_eq!(changes.last().map(|change| &change.kind), Some(&ChangeKind::Subscriber(loaded[0])));
    loaded[0]
}

#[test]
fn the_hash_of_the_full_name_is_stored_and_changes_with_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let of = |name: &str, password: &str| Ha1::new(name.as_bytes(), b"r", password.as_bytes());
    let both = |password| Hashes { ha1: of("bob", password), full: Some(of("bob@example.org", password)) };
    store.add(&user("bob"), "r", "one").unwrap();
    assert_eq!(hashes(&store, 0), both("one"));
    store.passwd(&user("bob"), "r", "two").unwrap();
    assert_eq!(hashes(&store, 0), both("two"));
    store.remove(&user("bob")).unwrap();
    let hashed = Hashes::from(of("bob", "three"));
    store.add_hashed(|add| add(&user("bob"), "r", &hashed)).unwrap();
    assert_eq!(hashes(&store, 0), hashed, "without the password there is no other hash");
    store.passwd(&user("bob"), "r", "four").unwrap();
    assert_eq!(hashes(&store, 0), both("four"));
}

#[test]
fn another_store_reads_each_change_once_with_its_current_state() {
    let folder = tempfile::tempdir().unwrap();
    let (command, server) = (open(folder.path()), open(folder.path()));
    command.add(&user("alice"), "r", "one").unwrap();
    let mut seq = server.load(|_| {}, |_, _, _| {}).unwrap().seq;
    assert!(server.changes_since(seq).unwrap().is_empty());
    command.add(&user("bob"), "r", "two").unwrap();
    command.passwd(&user("bob"), "r", "three").unwrap();
    command.bind(&user("bob"), "sip:bob@192.0.2.7").unwrap();
    command.bind(&user("bob"), "sip:bob@192.0.2.8").unwrap();
    command.remove(&user("alice")).unwrap();
    let changes = server.changes_since(seq).unwrap();
    let seen: Vec<_> = changes
        .iter()
        .map(|change| {
            let what = match &change.kind {
                ChangeKind::Subscriber(_) => "subscriber".to_owned(),
                ChangeKind::Removed => "removed".to_owned(),
                ChangeKind::Contacts(contacts) => contacts.join(" "),
                ChangeKind::Blocks(rows) => format!("{} blocks", rows.len()),
                ChangeKind::Forwards(_) => "forwards".to_owned(),
                ChangeKind::Unknown => "unknown".to_owned(),
            };
            format!("{} {what}", change.name)
        })
        .collect();
    assert_eq!(seen, ["bob subscriber", "bob sip:bob@192.0.2.7 sip:bob@192.0.2.8", "alice removed"]);
    seq = changes.last().unwrap().seq;
    assert!(server.changes_since(seq).unwrap().is_empty());
    command.unbind(&user("bob"), Some("sip:bob@192.0.2.7")).unwrap();
    let changes = server.changes_since(seq).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].kind, ChangeKind::Contacts(vec!["sip:bob@192.0.2.8".to_owned()]));
}

/// A command of a later version may record a change that this one does not know.
#[test]
fn an_unknown_change_is_passed_over_and_the_next_ones_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.add(&user("alice"), "r", "one").unwrap();
    let later = rusqlite::Connection::open(folder.path().join("r.db")).unwrap();
    later
        .execute("INSERT INTO changed (domain, name, kind) VALUES ('example.org', 'alice', 99)", [])
        .unwrap();
    store.bind(&user("alice"), "sip:alice@192.0.2.7").unwrap();
    let kinds: Vec<_> = store.changes_since(0).unwrap().into_iter().map(|change| change.kind).collect();
    let [ChangeKind::Subscriber(_), ChangeKind::Unknown, ChangeKind::Contacts(_)] = &kinds[..] else {
        panic!("{kinds:?}")
    };
}

/// A server that reads both changes must not take the new user for the old one.
#[test]
fn a_user_removed_and_added_again_has_both_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (command, server) = (open(folder.path()), open(folder.path()));
    command.add(&user("alice"), "r", "one").unwrap();
    let seq = server.load(|_| {}, |_, _, _| {}).unwrap().seq;
    for _ in 0..2 {
        command.remove(&user("alice")).unwrap();
        command.add(&user("alice"), "r", "one").unwrap();
    }
    let changes = server.changes_since(seq).unwrap();
    let [removed, added] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!(removed.kind, ChangeKind::Removed);
    assert!(matches!(added.kind, ChangeKind::Subscriber(_)) && added.seq > removed.seq);
    // The next server reads it too, unless one has stored that it applied it.
    assert_eq!(server.load(|_| {}, |_, _, _| {}).unwrap().applied, added.seq, "there was no server before");
    server.note_applied(seq).unwrap();
    let loaded = server.load(|_| {}, |_, _, _| {}).unwrap();
    assert_eq!((loaded.applied, loaded.seq), (seq, added.seq));
}

#[test]
fn the_secret_is_persistent_and_different_in_each_store() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let secret = open(one.path()).secret().unwrap();
    assert_eq!(open(one.path()).secret().unwrap(), secret);
    assert_ne!(open(two.path()).secret().unwrap(), secret);
    assert_ne!(secret, [0; 32]);
}

#[test]
fn existing_and_missing_users_are_distinguished() {
    let store = Store::open(&StoreUrl::Memory).unwrap();
    store.add(&user("alice"), "r", "x").unwrap();
    assert!(matches!(store.add(&user("alice"), "r", "y"), Err(StoreError::Exists(_))));
    assert!(matches!(store.passwd(&user("bob"), "r", "y"), Err(StoreError::NoSuchUser(_))));
    assert!(matches!(store.remove(&user("bob")), Err(StoreError::NoSuchUser(_))));
    assert!(matches!(store.unbind(&user("alice"), None), Err(StoreError::NoSuchContact { .. })));
    assert!(store.bind(&user("gateway"), "sip:192.0.2.9").unwrap());
    assert!(!store.bind(&user("gateway"), "sip:192.0.2.9").unwrap());
    assert!(!store.is_subscriber(&user("gateway")).unwrap());
    let mut listed = Vec::new();
    store
        .list(|name, _, realm, contacts| {
            listed.push((name.to_owned(), realm.is_some(), contacts.map(str::to_owned)));
            true
        })
        .unwrap();
    let gateway = ("gateway".to_owned(), false, Some("sip:192.0.2.9".to_owned()));
    assert_eq!(listed, [("alice".to_owned(), true, None), gateway]);
    store.remove(&user("gateway")).unwrap();
    assert_eq!(store.subscribers_of_other_realms(|_| "r").unwrap(), []);
    let others = store.subscribers_of_other_realms(|_| "other").unwrap();
    let [other] = &others[..] else { panic!("{others:?}") };
    assert_eq!((other.realm.as_str(), other.users), ("r", 1));
}

#[test]
fn invalid_names_contacts_and_passwords_are_refused() {
    for name in ["", "a b", "a@b", "a:b", "a\r\nb", "a\"b", &"x".repeat(256)] {
        assert!(UserName::new(name, "example.org").is_err(), "{name:?}");
    }
    for domain in ["", "exa mple", "example.org\r\n", "ex@mple"] {
        assert!(UserName::new("alice", domain).is_err(), "{domain:?}");
    }
    let store = Store::open(&StoreUrl::Memory).unwrap();
    for password in ["", "a\nb", "\u{7f}"] {
        assert!(store.add(&user("alice"), "r", password).is_err(), "{password:?}");
    }
    for contact in ["", "sip:", "bob@192.0.2.1", "sip:bob@h\r\nVia: x", "sip:b ob@h", "http://h", "<sip:b@h>"]
    {
        assert!(store.bind(&user("alice"), contact).is_err(), "{contact:?}");
    }
    // Text that looks like SQL is a valid name.
    let hostile = user("a');DROP/**/TABLE/**/subscriber;--");
    store.add(&hostile, "r", "'; --").unwrap();
    assert_eq!(names(&store).len(), 1);
}

#[test]
fn an_import_takes_all_rows_or_none_and_names_the_invalid_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.add(&user("alice"), "r", "x").unwrap();
    let csv = folder.path().join("users.csv");
    let import = |text: &[u8]| {
        fs::write(&csv, text).unwrap();
        store.import(&csv, "example.org", |_| "r", |_| {})
    };
    for (text, line, word) in [
        (&b"username,password\nbob,1\ncarol\n"[..], 3, "fields"),
        (b"username,password\r\nbob,1\r\ncarol\r\n", 3, "fields"),
        (b"username,password\n\nbob,1\n\ncarol\n", 5, "fields"),
        (b"username,password\nbob,1\n,2\n", 3, "user name"),
        (b"username,password\nbob,1\nbob,2\n", 3, "already"),
        (b"username,password\nbob,1\nalice,2\n", 3, "already"),
        (b"username,password\nbob,\n", 2, "empty"),
        (b"username,password,domain\nbob,1,\ncarol,2,exa mple\n", 3, "domain"),
        (b"username,password\nbob,1\ncarol,\xff\n", 3, "UTF-8"),
        (b"name,password\nbob,1\n", 1, "unknown column"),
        (b"username\nbob\n", 1, "missing"),
        (b"", 1, "missing"),
        (b"username,password,username\nbob,1,x\n", 1, "twice"),
    ] {
        let error = import(text).unwrap_err().to_string();
        let place = format!("users.csv:{line}: ");
        assert!(error.contains(&place) && error.contains(word), "{error}");
        assert!(error.contains("nothing was imported"), "{error}");
        assert_eq!(names(&store), ["alice@example.org"], "{error}");
    }
    let good = b"\xef\xbb\xbfpassword,domain,username\r\n\"a,b\",Other.example,bob\r\nx,,carol\r\n";
    let imported = import(good).unwrap();
    assert_eq!(imported.users, 2);
    assert_eq!(imported.domains.into_iter().collect::<Vec<_>>(), ["example.org", "other.example"]);
    assert_eq!(names(&store), ["alice@example.org", "carol@example.org", "bob@other.example"]);
}

#[test]
fn a_damaged_or_foreign_or_newer_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.db");
    let refused = || match Store::open(&StoreUrl::Sqlite(file.clone())) {
        Ok(store) => store.load(|_| {}, |_, _, _| {}).unwrap_err(),
        Err(error) => error,
    };
    fs::write(&file, "this is no database, and long enough to be sure of it".repeat(50)).unwrap();
    let error = refused().to_string();
    assert!(error.contains("r.db") && error.contains("restore a backup"), "{error}");

    fs::remove_file(&file).unwrap();
    let store = open(folder.path());
    for n in 0..2000 {
        store.bind(&user(&format!("user{n}")), "sip:h").unwrap();
        if n % 100 == 0 {
            store.add(&user(&format!("user{n}")), "r", "x").unwrap();
        }
    }
    drop(store);
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[4096..].fill(0x5a);
    fs::write(&file, &bad).unwrap();
    assert!(matches!(refused(), StoreError::Corrupt { .. }));
    fs::write(&file, &good[..good.len() / 3]).unwrap();
    assert!(matches!(refused(), StoreError::Corrupt { .. }));

    let mut newer = good.clone();
    newer[60..64].copy_from_slice(&99u32.to_be_bytes());
    fs::write(&file, &newer).unwrap();
    let error = refused().to_string();
    assert!(error.contains("version is 99") && error.contains("r.db"), "{error}");

    let mut foreign = good;
    foreign[68..72].fill(0);
    fs::write(&file, &foreign).unwrap();
    let error = refused().to_string();
    assert!(error.contains("another program"), "{error}");
}

#[test]
fn an_error_of_opening_contains_the_path() {
    let url = StoreUrl::Sqlite("/nowhere/at/all/r.db".into());
    let error = Store::open(&url).err().unwrap().to_string();
    assert!(error.contains("/nowhere/at/all/r.db"), "{error}");
}

fn target(uri: &str) -> ForwardUri {
    ForwardUri::new(uri).unwrap()
}

#[test]
fn forwards_are_replaced_seen_by_another_store_and_removed_with_their_user() {
    let folder = tempfile::tempdir().unwrap();
    let (command, server) = (open(folder.path()), open(folder.path()));
    let bob = user("bob");
    let busy = Forwards { busy: Some(target("sip:carol@example.org")), ..Forwards::default() };
    assert!(matches!(command.set_forwards(&bob, &busy), Err(StoreError::NoSuchUser(_))));
    command.add(&bob, "r", "one").unwrap();
    let seq = server.load(|_| {}, |_, _, _| {}).unwrap().seq;
    let own = Forwards { always: Some(target("sip:bob@example.org")), ..Forwards::default() };
    assert!(matches!(command.set_forwards(&bob, &own), Err(StoreError::Unusable { .. })));
    assert_eq!(command.forwards(&bob).unwrap(), Forwards::default(), "nothing changed");

    command.set_forwards(&bob, &busy).unwrap();
    let all = Forwards {
        no_answer: Some(NoAnswer::new(20, target("sip:dave@example.net")).unwrap()),
        always: Some(target("sip:desk@example.org")),
        unregistered: Some(target("sips:mail@example.org")),
        ..busy
    };
    command.set_forwards(&bob, &all).unwrap();
    assert_eq!(command.forwards(&bob).unwrap(), all);
    let changes = server.changes_since(seq).unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].kind, ChangeKind::Forwards(all.clone()));
    command.add(&user("carol"), "r", "two").unwrap();
    command.set_forwards(&user("carol"), &own).unwrap();
    let mut loaded = Vec::new();
    server
        .load_forwards(|name, domain, forwards| loaded.push(format!("{name}@{domain} {forwards:?}")))
        .unwrap();
    assert_eq!(loaded, [format!("bob@example.org {all:?}"), format!("carol@example.org {own:?}")]);

    let seq = server.changes_since(seq).unwrap().last().unwrap().seq;
    command.remove(&bob).unwrap();
    let kinds: Vec<_> = server.changes_since(seq).unwrap().into_iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Forwards(Forwards::default()), ChangeKind::Removed]);
}

#[test]
fn the_last_contact_of_a_user_without_a_password_takes_the_forwards_with_it() {
    let store = Store::open(&StoreUrl::Memory).unwrap();
    let gate = user("gate");
    let forwards =
        Forwards { always: Some(ForwardUri::new("sip:x@192.0.2.9").unwrap()), ..Forwards::default() };
    store.bind(&gate, "sip:gate@192.0.2.7").unwrap();
    store.set_forwards(&gate, &forwards).unwrap();
    let seq = store.changes_since(0).unwrap().last().unwrap().seq;
    store.unbind(&gate, None).unwrap();
    let kinds: Vec<_> = store.changes_since(seq).unwrap().into_iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [ChangeKind::Forwards(Forwards::default()), ChangeKind::Contacts(Vec::new())]);
    store.add(&gate, "r", "one").unwrap();
    assert_eq!(store.forwards(&gate).unwrap(), Forwards::default(), "the next user of this name has none");
}
