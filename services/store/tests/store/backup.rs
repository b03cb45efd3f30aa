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
                all.borrow_mut().push(format!("{}@{} {} {:?}", row.name, row.domain, row.realm, row.ha1_md5))
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
