//! The running server as the admin API shows it.

use super::Node;
use super::services::SharedServices;
use ringway_linux::admin::{Call, Connection, Page, Registration, Stat, Stats, View};
use ringway_linux::{Clock, Connections, Runtime, Shards, Tally};
use ringway_sansio::ConnectionId;
use ringway_server::RegistrationRef;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct ServerView {
    shards: Shards<Node>,
    connections: Connections,
    tally: Tally,
    services: Arc<SharedServices>,
    clock: Clock,
}

impl ServerView {
    pub(super) fn new(runtime: &Runtime<Node>, services: Arc<SharedServices>, clock: Clock) -> Self {
        Self {
            shards: runtime.shards(),
            connections: runtime.connections(),
            tally: runtime.tally(),
            services,
            clock,
        }
    }

    fn shard_count(&self) -> u16 {
        self.shards.len() as u16
    }

    /// Adds up what each shard has, which it need not count.
    fn sum(&self, of: impl Fn(&Node) -> usize) -> u64 {
        let one = |shard| self.shards.with_shard(shard, |node| of(node)).unwrap_or(0) as u64;
        (0..self.shard_count()).map(one).sum()
    }

    fn registration(&self, found: RegistrationRef<'_>) -> Registration {
        let owned = found.to_owned();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let left = owned.expires.since(self.clock.now());
        Registration {
            aor: format!("sip:{}", text(&owned.aor)),
            contact: text(&owned.contact),
            transport: owned.transport.to_string(),
            address: (!owned.is_permanent).then(|| owned.address.to_string()),
            expires_s: (!owned.is_permanent).then_some(left.as_secs()),
            q: f64::from(owned.q) / 1000.0,
            permanent: owned.is_permanent,
        }
    }
}

impl View for ServerView {
    fn registrations(&self, after: Option<&str>, limit: usize) -> Page<Registration> {
        let total = self.sum(|node| node.location().bindings_len());
        page_of(self.shard_count(), after, limit, total, |shard, place, count, items| {
            let walk = |node: &mut Node| {
                node.location().bindings_from(place, count, |found| items.push(self.registration(found)))
            };
            self.shards.with_shard(shard, walk).flatten()
        })
    }

    fn calls(&self, after: Option<&str>, limit: usize) -> Page<Call> {
        let now = self.clock.now();
        let total = self.sum(|node| node.ringing_calls_len());
        page_of(self.shard_count(), after, limit, total, |shard, place, count, items| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let walk = |node: &mut Node| {
                node.ringing_calls(place, count, |call| {
                    items.push(Call {
                        call_id: text(call.call_id),
                        from: text(call.from),
                        to: text(call.to),
                        state: if call.rings { "ringing" } else { "trying" }.to_owned(),
                        age_s: now.since(call.since).as_secs(),
                    });
                })
            };
            self.shards.with_shard(shard, walk).flatten()
        })
    }

    fn connections(&self, after: Option<&str>, limit: usize) -> Page<Connection> {
        let now = self.clock.now();
        let after = after.and_then(|text| text.parse().ok()).map(ConnectionId);
        let open = self.connections.page(after, limit);
        let next = if open.len() < limit { None } else { open.last().map(|last| last.id.0.to_string()) };
        let items = open
            .iter()
            .map(|connection| Connection {
                transport: connection.transport.to_string(),
                address: connection.remote.to_string(),
                local: connection.local.to_string(),
                age_s: now.since(connection.since).as_secs(),
            })
            .collect();
        Page { items, total: self.tally.counts().connections_open, next }
    }

    fn stats(&self) -> Stats {
        let mut stats = Vec::new();
        let mut sums: BTreeMap<&'static str, (&'static str, u64)> = BTreeMap::new();
        let (mut bindings, mut users, mut contexts) = (0, 0, 0);
        let (mut servers, mut clients) = (0, 0);
        let mut counters = ringway_transaction::Counters::default();
        for shard in 0..self.shard_count() {
            self.shards.with_shard(shard, |node| {
                node.counters()
                    .for_each(|name, help, value| sums.entry(name).or_insert((help, 0)).1 += value);
                bindings += node.location().bindings_len();
                users += node.location().users_len();
                contexts += node.contexts_len();
                let (of_servers, of_clients) = node.transactions_len();
                servers += of_servers;
                clients += of_clients;
                add(&mut counters, node.transaction_counters());
            });
        }
        let gauge = |name: &'static str, help, value: usize| Stat::gauge(name, help, value as f64);
        stats.push(gauge("bindings", "Contacts registered, permanent ones included.", bindings));
        stats.push(gauge("users_registered", "Users with a contact.", users));
        stats.push(gauge("subscribers", "Users with a password.", self.services.directory().len()));
        stats.push(gauge("requests_forwarding", "Requests being forwarded or just answered.", contexts));
        stats.push(gauge("server_transactions", "Server transactions.", servers));
        stats.push(gauge("client_transactions", "Client transactions.", clients));
        for (name, (help, value)) in sums {
            stats.push(Stat::counter(name, help, value));
        }
        stats.extend(transaction_stats(&counters));
        stats.extend(self.tally.counts().each().map(|(name, value)| {
            Stat::counter(name, "Counted by the packet driver; see the user guide.", value)
        }));
        stats.extend(self.store_stats());
        stats
    }
}

impl ServerView {
    fn store_stats(&self) -> Stats {
        let store = self.services.writer_stats();
        let (nonces, evicted) = self.services.nonces();
        let failed = f64::from(u8::from(self.services.store_has_failed()));
        vec![
            Stat::counter(
                "log_lines_dropped",
                "Log lines nobody read fast enough.",
                crate::log::lines_dropped(),
            ),
            Stat::gauge("nonces_remembered", "Nonces whose counts are remembered.", nonces as f64),
            Stat::gauge(
                "reserved_bytes",
                "Bytes that requests under way and TCP connections hold.",
                self.services.memory().used() as f64,
            ),
            Stat::counter("nonces_evicted", "Nonces forgotten early because there were too many.", evicted),
            Stat::gauge("store_failed", "1 while bindings cannot be brought to the disk.", failed),
            Stat::counter("store_records", "Records given to the store.", store.appended),
            Stat::counter("store_records_dropped", "Records the store had no room for.", store.dropped),
            Stat::counter("store_writes", "Batches written to the disk.", store.writes),
            Stat::counter("store_failures", "Writes, syncs and snapshots that failed.", store.failures),
            Stat::counter("store_snapshots", "Snapshots written.", store.snapshots),
            Stat::counter(
                "store_records_lost",
                "Records that a damaged journal had lost at the start, or at least so many.",
                store.lost_records,
            ),
            Stat::counter(
                "store_files_damaged",
                "Files of the journal that were damaged or missing at the start.",
                store.damaged_files,
            ),
            Stat::gauge("store_disk_bytes", "Bytes of the binding journal.", store.disk_bytes as f64),
            Stat::gauge("store_waiting_bytes", "Bytes that wait for the disk.", store.waiting_bytes as f64),
        ]
    }
}

fn transaction_stats(counters: &ringway_transaction::Counters) -> Stats {
    vec![
        Stat::counter("requests_retransmitted", "Requests sent again.", counters.requests_retransmitted),
        Stat::counter("responses_retransmitted", "Responses sent again.", counters.responses_retransmitted),
        Stat::counter("requests_absorbed", "Requests recognised as repetitions.", counters.requests_absorbed),
        Stat::counter("client_timeouts", "Requests nobody answered in time.", counters.client_timeouts),
        Stat::counter(
            "responses_limited",
            "Responses not sent because an unverified address had got its allowance.",
            counters.unverified_limited,
        ),
        Stat::counter("acks_missed", "Failed INVITEs whose ACK never came.", counters.acks_missed),
        Stat::counter("stray_responses", "Responses to nothing this server sent.", counters.stray_responses),
        Stat::counter(
            "transactions_refused",
            "Requests without room for a transaction.",
            counters.refused_full,
        ),
    ]
}

fn add(sum: &mut ringway_transaction::Counters, one: &ringway_transaction::Counters) {
    sum.requests_retransmitted += one.requests_retransmitted;
    sum.responses_retransmitted += one.responses_retransmitted;
    sum.requests_absorbed += one.requests_absorbed;
    sum.client_timeouts += one.client_timeouts;
    sum.acks_missed += one.acks_missed;
    sum.stray_responses += one.stray_responses;
    sum.refused_full += one.refused_full;
    sum.unverified_limited += one.unverified_limited;
}

/// One page of a listing that goes through all shards, in order of their places. The cursor is a shard and a place in it.
///
/// `walk(shard, place, count, items)` locks the shard, adds what is in `count` places from `place` on and returns the place
/// to go on from. `count` is at most [`PLACES_AT_ONCE`], so that messages wait for no more than these.
fn page_of<T>(
    shards: u16,
    after: Option<&str>,
    limit: usize,
    total: u64,
    mut walk: impl FnMut(u16, u32, u32, &mut Vec<T>) -> Option<u32>,
) -> Page<T> {
    let (mut shard, mut place) = after.and_then(read_cursor).unwrap_or((0, 0));
    let mut page = Page { items: Vec::new(), total, next: None };
    while shard < shards {
        if page.items.len() >= limit {
            page.next = Some(format!("{shard}.{place}"));
            break;
        }
        let count = u32::try_from(limit - page.items.len()).unwrap_or(u32::MAX).min(PLACES_AT_ONCE);
        match walk(shard, place, count, &mut page.items) {
            Some(next) => place = next,
            None => (shard, place) = (shard + 1, 0),
        }
    }
    page
}

fn read_cursor(text: &str) -> Option<(u16, u32)> {
    let (shard, place) = text.split_once('.')?;
    Some((shard.parse().ok()?, place.parse().ok()?))
}

/// Places of a shard looked at under one lock: some 100 µs, even when each is a call whose INVITE must be parsed.
const PLACES_AT_ONCE: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Shards of 1,000, 0 and 300 places of which every third is taken.
    #[test]
    fn pages_follow_each_other_and_no_lock_is_held_over_more_than_64_places() {
        const PLACES: [u32; 3] = [1000, 0, 300];
        let mut longest = 0;
        let mut walk = |shard: u16, place: u32, count: u32, items: &mut Vec<(u16, u32)>| {
            longest = longest.max(count);
            let end = PLACES[usize::from(shard)];
            let taken = (place..end.min(place + count)).filter(|place| place % 3 == 0);
            items.extend(taken.map(|place| (shard, place)));
            (place + count < end).then_some(place + count)
        };
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = page_of(3, after.as_deref(), 90, 434, &mut walk);
            assert!(page.items.len() <= 90 && page.total == 434);
            listed.extend(page.items);
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        let all = (0..3).flat_map(|shard| (0..PLACES[usize::from(shard)]).map(move |place| (shard, place)));
        assert!(listed.into_iter().eq(all.filter(|(_, place)| place % 3 == 0)));
        assert_eq!(longest, PLACES_AT_ONCE);
    }
}
