//! Storing of changed bindings: in the journal of this server, or in the store that nodes share.

use crate::BindingChange;
use crate::base::Storage;
use crate::dialog::edge;
use crate::location::{LocationTable, Removed};
use alloc::vec::Vec;
use ringway_location::UpdateWriter;
use ringway_sansio::{Instant, PlantedFault};
use ringway_transaction::SlabKey;

/// Stores the bindings of a user; `key` is that of the user, if it has bindings. Returns the number of the change in the store that
/// nodes share; 0: it has none.
pub(super) fn store(
    storage: &Storage<'_>,
    table: &mut LocationTable,
    aor: &[u8],
    key: Option<SlabKey>,
    removed: &Removed,
    now: Instant,
    record: &mut Vec<u8>,
) -> u64 {
    record.clear();
    let Some(cluster) = storage.cluster else {
        if storage.keeps_bindings && !PlantedFault::BindingNotStored.is_planted() {
            table.write_record(key, record);
            storage.host.store(aor, record);
        }
        return 0;
    };
    let writer = UpdateWriter::new(record, &cluster.node, cluster.incarnation, removed.all.then_some(0));
    // Connections are numbered from the start: an earlier token names none.
    let made_s = now.as_secs().max(storage.started_s);
    table.write_update(key, writer, removed, now, |flow, out| {
        edge::write_link(cluster, storage.link_key, storage.source_key, flow, made_s, out);
    });
    let number = storage.host.share(aor, record);
    table.set_pending(key, number);
    number
}

/// Stores the remaining bindings of a user, some of which ended.
pub(super) fn store_fewer(
    storage: &Storage<'_>,
    table: &mut LocationTable,
    aor: &[u8],
    removed: &Removed,
    now: Instant,
    record: &mut Vec<u8>,
) {
    let key = table.key_of(aor);
    store(storage, table, aor, key, removed, now, record);
    storage.host.on_change(aor, BindingChange::Ended, None);
}
