//! Block lists of the store in the running server.

use super::services::SharedServices;
use ringway_server::{BlockPattern, NotAPattern};
use ringway_store::{BlockKind, BlockLists, BlockRow, Store, StoreError};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Loads all lists.
pub(super) fn load(store: &Store, services: &SharedServices) -> Result<(), StoreError> {
    let mut lists: HashMap<Option<(String, String)>, Vec<BlockRow>> = HashMap::new();
    BlockLists::of(store)
        .list(0, usize::MAX >> 1, |row| lists.entry(row.user.clone()).or_default().push(row))?;
    if !lists.is_empty() {
        services.tables().change_blocks(|list| {
            for (user, rows) in lists {
                match user {
                    None => list.set_all(patterns(rows)),
                    Some((name, domain)) => {
                        list.set_of_user(format!("{name}@{domain}").as_bytes(), patterns(rows));
                    }
                }
            }
        });
    }
    Ok(())
}

/// Replaces the lists of users, given as user part, domain and entries; an empty user part is the list of all users.
pub(super) fn replace(services: &SharedServices, changed: Vec<(String, String, Vec<BlockRow>)>) {
    if changed.is_empty() {
        return;
    }
    services.tables().change_blocks(|list| {
        for (name, domain, rows) in changed {
            match name.as_str() {
                "" => list.set_all(patterns(rows)),
                name => list.set_of_user(format!("{name}@{domain}").as_bytes(), patterns(rows)),
            }
        }
    });
}

/// Parses a pattern.
pub(crate) fn pattern(kind: BlockKind, text: &str) -> Result<BlockPattern, NotAPattern> {
    match kind {
        BlockKind::Caller => BlockPattern::caller(text),
        BlockKind::Network => BlockPattern::network(text),
    }
}

/// Seconds since the epoch.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn patterns(rows: Vec<BlockRow>) -> Vec<BlockPattern> {
    let parse = |row: BlockRow| match pattern(row.kind, &row.pattern) {
        Ok(pattern) => Some(pattern),
        Err(why) => {
            tracing::warn!("entry {} of the block lists is ignored: {:?} {why}", row.id, row.pattern);
            None
        }
    };
    rows.into_iter().filter_map(parse).collect()
}
