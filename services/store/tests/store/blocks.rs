//! Block lists in the database. Tested: listing, replacing, removing, ends, limits, changes for a running server.

use ringway_store::{
    BlockKind, BlockLists, BlockRow, ChangeKind, NewBlockRow, Store, StoreUrl, USER_BLOCKS_MAX, UserName,
};

fn user(name: &str) -> UserName {
    UserName::new(name, "example.org").unwrap()
}

fn new<'a>(user: Option<&'a UserName>, pattern: &'a str, expires_s: Option<u64>) -> NewBlockRow<'a> {
    NewBlockRow { user, kind: BlockKind::Caller, pattern, reason: "spam", expires_s }
}

fn listed(store: &Store) -> Vec<BlockRow> {
    let mut rows = Vec::new();
    let total = BlockLists::of(store).list(0, 10_000, |row| rows.push(row)).unwrap();
    assert_eq!(total, rows.len() as u64);
    rows
}

/// Lists that changed after number `seq`: their user and number of entries.
fn changes(store: &Store, seq: &mut u64) -> Vec<(String, usize)> {
    let changes = store.changes_since(*seq).unwrap();
    *seq = changes.last().map_or(*seq, |change| change.seq);
    changes
        .into_iter()
        .filter_map(|change| match change.kind {
            ChangeKind::Blocks(rows) => Some((change.name, rows.len())),
            _ => None,
        })
        .collect()
}

#[test]
fn entries_are_listed_replaced_and_removed_and_a_server_sees_it() {
    let store = Store::open(&StoreUrl::Memory).unwrap();
    let (bob, mut seq) = (user("bob"), 0);
    let one = BlockLists::of(&store).add(&new(None, "spam@example.com", None)).unwrap();
    let two = BlockLists::of(&store).add(&new(Some(&bob), "spam@example.com", Some(500))).unwrap();
    assert!(two > one);
    assert_eq!(changes(&store, &mut seq), [(String::new(), 1), ("bob".into(), 1)]);
    // The same again keeps its number.
    assert_eq!(BlockLists::of(&store).add(&new(None, "spam@example.com", Some(900))).unwrap(), one);
    let rows = listed(&store);
    assert_eq!(rows[0].expires_s, Some(900));
    assert_eq!(rows[1].user, Some(("bob".into(), "example.org".into())));
    assert_eq!(changes(&store, &mut seq), [(String::new(), 1)]);
    // A page.
    let mut page = Vec::new();
    assert_eq!(BlockLists::of(&store).list(one, 1, |row| page.push(row.id)).unwrap(), 2);
    assert_eq!(page, [two]);
    // Ends.
    assert_eq!(BlockLists::of(&store).remove_ended(499).unwrap(), 0);
    assert!(changes(&store, &mut seq).is_empty());
    assert_eq!(BlockLists::of(&store).remove_ended(500).unwrap(), 1);
    assert_eq!(changes(&store, &mut seq), [("bob".into(), 0)]);
    assert!(
        BlockLists::of(&store).remove(one).unwrap()
            && !BlockLists::of(&store).remove(one).unwrap()
            && !BlockLists::of(&store).remove(u64::MAX).unwrap()
    );
    assert_eq!(changes(&store, &mut seq), [(String::new(), 0)]);
    assert!(!BlockLists::of(&store).remove_pattern(None, BlockKind::Caller, "spam@example.com").unwrap());
}

#[test]
fn lists_are_limited_and_reasons_checked() {
    let store = Store::open(&StoreUrl::Memory).unwrap();
    let (bob, carol) = (user("bob"), user("carol"));
    for number in 0..USER_BLOCKS_MAX {
        BlockLists::of(&store).add(&new(Some(&bob), &format!("u{number}@example.com"), None)).unwrap();
    }
    let error =
        BlockLists::of(&store).add(&new(Some(&bob), "one@more.example", None)).unwrap_err().to_string();
    assert!(error.contains("full"), "{error}");
    BlockLists::of(&store)
        .add(&new(Some(&bob), "u7@example.com", Some(1)))
        .expect("an entry that is there can change");
    BlockLists::of(&store).add(&new(Some(&carol), "one@more.example", None)).unwrap();
    for reason in ["a\nb", &"x".repeat(201)] {
        let block = NewBlockRow { reason, ..new(None, "a@b.example", None) };
        assert!(BlockLists::of(&store).add(&block).unwrap_err().to_string().contains("reason"), "{reason:?}");
    }
}

#[test]
fn the_list_of_a_removed_user_is_removed() {
    let store = Store::open(&StoreUrl::Memory).unwrap();
    let bob = user("bob");
    store.add(&bob, "example.org", "a password of bob").unwrap();
    BlockLists::of(&store).add(&new(Some(&bob), "spam@example.com", None)).unwrap();
    BlockLists::of(&store).add(&new(None, "spam@example.com", None)).unwrap();
    let mut seq = 0;
    changes(&store, &mut seq);
    store.remove(&bob).unwrap();
    assert_eq!(changes(&store, &mut seq), [("bob".into(), 0)]);
    assert_eq!(listed(&store).len(), 1);
}
