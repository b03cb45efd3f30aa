//! Changes of bindings that no REGISTER at this node makes: their end by time, connection or administrator, and records of other
//! nodes.

use super::register::{Registrar, change_of};
use super::sharing;
use crate::base::{Storage, observe};
use crate::config::domain;
use crate::location::{Binding, Holding, RecordTime, Removed};
use crate::presence::ContactEnd;
use crate::{BindingChange, BindingEnd, Config, Hold, Host, LogEvent, NodeNameStatus};
use core::ops::Range;
use ringway_location::{Record, Registered};
use ringway_sansio::{ConnectionId, Instant};

impl Registrar {
    pub(crate) fn remove_user(&mut self, storage: &Storage<'_>, aor: &[u8]) {
        let Self { table, record, .. } = self;
        if table.forget(aor) {
            storage.host.on_change(aor, BindingChange::Removed, None);
            let removed = Removed { all: true, ..Removed::default() };
            sharing::store(storage, table, aor, None, &removed, Instant::default(), record);
        }
        self.changes.note(aor, ContactEnd::UserRemoved);
    }

    /// Ends the bindings of REGISTER requests of a user; returns their number.
    pub(crate) fn end_registrations(&mut self, now: Instant, storage: &Storage<'_>, aor: &[u8]) -> usize {
        let Self { table, record, .. } = self;
        let before = table.bindings_len();
        let ended = ended(storage.host, now, BindingEnd::Administrator);
        let removed = Removed { all: true, ..Removed::default() };
        table.end_registrations(aor, ended, |table, aor| {
            sharing::store_fewer(storage, table, aor, &removed, now, record);
        });
        before - table.bindings_len()
    }

    /// Ends the bindings that only a closed connection reached.
    pub(crate) fn on_closed(&mut self, now: Instant, storage: &Storage<'_>, connection: ConnectionId) {
        let Self { table, record, changes, .. } = self;
        let ended = ended(storage.host, now, BindingEnd::ConnectionClosed);
        table.on_closed(connection, ended, |table, aor, has_fewer| {
            if !has_fewer {
                // Other nodes dial it too from now on.
                if storage.cluster.is_some() {
                    let key = table.key_of(aor);
                    sharing::store(storage, table, aor, key, &Removed::default(), now, record);
                }
                return;
            }
            sharing::store_fewer(storage, table, aor, &Removed::default(), now, record);
            changes.note(aor, ContactEnd::ConnectionClosed);
        });
    }

    /// Ends the expired bindings.
    pub(crate) fn on_timeout(&mut self, now: Instant, storage: &Storage<'_>) {
        let Self { table, record, changes, .. } = self;
        let ended = ended(storage.host, now, BindingEnd::Expired);
        table.expire(now, ended, |table, aor| {
            match storage.cluster {
                // The store that nodes share ends them by its own clock.
                Some(_) => storage.host.on_change(aor, BindingChange::Ended, None),
                None => {
                    sharing::store_fewer(storage, table, aor, &Removed::default(), now, record);
                }
            }
            changes.note(aor, ContactEnd::Expired);
        });
    }

    /// Writes the bindings of this node again, for up to `count` users from slot `from`; returns the next slot, `None` at the end. Users
    /// that registered here after `since` are passed over.
    pub(crate) fn share_from(
        &mut self,
        now: Instant,
        since: Instant,
        storage: &Storage<'_>,
        from: u32,
        count: u32,
    ) -> Option<u32> {
        let Self { table, record, .. } = self;
        let age_ms = u32::try_from(now.since(since).as_millis()).unwrap_or(u32::MAX);
        let (users, next) = table.own_users_from(now, age_ms, from, count);
        for aor in users {
            let key = table.key_of(&aor);
            sharing::store(storage, table, &aor, key, &Removed::default(), now, record);
        }
        next
    }

    /// Notes that the store that nodes share took an update of this node as it is.
    pub(crate) fn on_taken(&mut self, aor: &[u8], number: u64) {
        self.table.on_taken(aor, number);
    }

    /// Notes that a read of all records of the store that nodes share begins.
    pub(crate) const fn begin_walk(&mut self, walk: u32) {
        self.table.begin_walk(walk);
    }

    /// Ends bindings of other nodes that a read of all did not confirm, of the users in some slots; returns the next slot, `None` at the
    /// end.
    pub(crate) fn sweep(
        &mut self,
        now: Instant,
        host: &dyn Host,
        hold: Hold,
        slots: Range<u32>,
        is_confirmed: impl Fn(&[u8], u32) -> bool,
    ) -> Option<u32> {
        let Self { table, changes, .. } = self;
        let ended = ended(host, now, BindingEnd::OtherNode);
        table.sweep(slots, hold, host, is_confirmed, ended, |aor| {
            host.on_change(aor, BindingChange::Ended, None);
            changes.note(aor, ContactEnd::Unregistered);
        })
    }

    /// Joins a record of the store that nodes share; nothing of it is written there again. Returns what was special about
    /// it.
    pub(crate) fn on_record(
        &mut self,
        config: &Config,
        storage: &Storage<'_>,
        aor: &[u8],
        is_looked_up: bool,
        record: &Record<'_>,
        time: RecordTime,
    ) -> Taken {
        let Some(cluster) = &config.cluster else { return Taken::default() };
        let domain = domain::split(aor).map(|(_, domain)| domain);
        if !config.domains.iter().any(|own| Some(own.as_bytes()) == domain) {
            return Taken { passed_over: record.entries().count() as u64, ..Taken::default() };
        }
        let holding = self.table.holding(cluster.hold, aor, is_looked_up);
        if holding == Holding::No {
            return Taken::default();
        }
        let time = RecordTime { holding, ..time };
        let host = storage.host;
        let before = self.table.bindings_len();
        let ended = ended(host, time.now, BindingEnd::OtherNode);
        let joined = self.table.join(aor, record, time, cluster, config, ended);
        if joined.is_changed {
            host.on_change(aor, change_of(before, self.table.bindings_len()), None);
            self.changes.note_register(aor, ContactEnd::Unregistered, &joined.call_id);
        }
        // The other nodes would offer and count them until they expire.
        for dead in joined.dead.iter().filter(|_| host.store_status().name == NodeNameStatus::Own) {
            let Registered { age_ms, call, cseq } = dead.registered;
            let removed = Removed { all: false, ids: [dead.id].into_iter().collect(), age_ms, call, cseq };
            let key = self.table.key_of(aor);
            sharing::store(storage, &mut self.table, aor, key, &removed, time.now, &mut self.record);
        }
        Taken { passed_over: joined.passed_over, is_brief: holding == Holding::Briefly && joined.is_changed }
    }
}

/// Result of a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// Entries that were passed over.
    pub(crate) passed_over: u64,
    /// True if its bindings are held for a short time only.
    pub(crate) is_brief: bool,
}

/// Reports the end of bindings.
fn ended(host: &dyn Host, now: Instant, reason: BindingEnd) -> impl Fn(&[u8], &Binding) {
    move |aor, binding| {
        let (contact, flow) = (binding.uri(), binding.flow);
        observe(host, now, &LogEvent::BindingEnded { aor, contact, flow, reason });
    }
}
