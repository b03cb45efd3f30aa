//! Data of the running server for the admin API.

use super::acme::CertificateOrders;
use super::clients::Clients;
use super::drain::DrainState;
use super::host::ServerHost;
use super::public_address::PublicAddress;
use super::settings::ShownConfig;
use super::sharing::SharedLocation;
use super::tls::{self, ServerTls};
use super::trunks::TrunkRow;
use super::{Node, provisioning, signers};
use ringway_admin::{
    Call, CallRecord, Cluster, Connection, Page, Registration, Relay, ServerInfo, Stat, Stats, StepTimes,
    Traces, Trunk, View, page_over_shards,
};
use ringway_dtls::DtlsTransport;
use ringway_linux::{Clock, Connections, CountersReader, OpenConnection, Runtime, Shards, TurnCounts};
use ringway_ng::RelayState;
use ringway_sansio::{ConnectionId, Instant};
use ringway_server::{NeighbourTable, RegistrationRef, TrunkPause, shard_of_user};
use ringway_sql::provisioning::{Provisioning, Status};
use ringway_store::{Store, UserName};
use ringway_tls::TlsLayers;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(super) struct ServerView {
    pub(super) shards: Shards<Node>,
    connections: Connections,
    counters: CountersReader,
    pub(super) host: Arc<ServerHost>,
    clients: Arc<Clients>,
    tls: Arc<TlsLayers>,
    dtls: Option<Arc<DtlsTransport>>,
    config: Arc<ShownConfig>,
    pub(super) clock: Clock,
    since: Instant,
    /// State of the database that users come from.
    database: OnceLock<Arc<Status>>,
    store: Arc<Store>,
    pub(super) drain: DrainState,
    public_address: Arc<PublicAddress>,
    pub(super) orders: Arc<CertificateOrders>,
}

impl ServerView {
    /// Sets the thread that follows a database, once.
    pub(super) fn set_provisioning(&self, provisioning: &Provisioning) {
        // It is set at the start only.
        let _ = self.database.set(Arc::clone(provisioning.status()));
    }

    pub(super) fn new(
        runtime: &Runtime<Node>,
        host: Arc<ServerHost>,
        clients: Arc<Clients>,
        tls: &ServerTls,
        config: Arc<ShownConfig>,
        (store, clock, public_address): (Arc<Store>, Clock, Arc<PublicAddress>),
    ) -> Self {
        Self {
            shards: runtime.shards(),
            connections: runtime.connections(),
            counters: runtime.counters(),
            host,
            clients,
            tls: tls.layers(),
            dtls: tls.dtls(),
            config,
            clock,
            since: clock.now(),
            database: OnceLock::new(),
            store,
            drain: DrainState::default(),
            public_address,
            orders: tls.orders(),
        }
    }

    /// Contacts of a user.
    pub(super) fn contacts_of(&self, user: &UserName) -> Vec<Registration> {
        let mut contacts = Vec::new();
        let aor = user.to_string();
        let collect = |node: &mut Node| {
            node.location().bindings_of(aor.as_bytes(), |found| contacts.push(self.registration(found)));
        };
        self.shards.with_shard(self.shard_of(user), collect);
        contacts
    }

    /// Number of messages that wait for a phone of a user.
    pub(super) fn messages_of(&self, user: &UserName) -> usize {
        let aor = user.to_string();
        self.shards.with_shard(self.shard_of(user), |node| node.messages_of(aor.as_bytes())).unwrap_or(0)
    }

    /// Ends the registrations of a user; returns their number.
    pub(super) fn end_registrations(&self, user: &UserName) -> usize {
        let (aor, now) = (user.to_string(), self.clock.now());
        let end = |node: &mut Node| node.end_registrations(now, aor.as_bytes());
        self.shards.with_shard(self.shard_of(user), end).unwrap_or(0)
    }

    /// Closes a connection. `None`: there is none with this number, or its worker is too busy.
    pub(super) fn close(&self, id: u64) -> Option<OpenConnection> {
        self.connections.close(ConnectionId(id))
    }

    /// Number of users with a password.
    pub(super) fn subscribers(&self) -> usize {
        self.host.directory().len()
    }

    fn shard_of(&self, user: &UserName) -> u16 {
        shard_of_user(&self.host.shard_key(), user.name().as_bytes(), self.shard_count())
    }

    fn shard_count(&self) -> u16 {
        self.shards.len() as u16
    }

    /// Sum over all shards of a value that each shard can return in constant time.
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
            instance: owned.instance.as_deref().map(text),
            reg_id: owned.reg_id,
            node: owned.node.map(|node| node.to_string()),
            path: owned.path.iter().map(|value| text(value)).collect(),
        }
    }
}

impl View for ServerView {
    fn registrations(&self, after: Option<&str>, limit: usize, text: Option<&str>) -> Page<Registration> {
        let total = self.sum(|node| node.location().bindings_len());
        let text = text.map(str::to_ascii_lowercase);
        let slots_max = if text.is_some() { SEARCHED_SLOTS_MAX } else { u32::MAX };
        page_over_shards(
            self.shard_count(),
            after,
            (limit, slots_max),
            total,
            |shard, first, count, items| {
                let walk = |node: &mut Node| {
                    node.location().bindings_from(first, count, |found| {
                        if text.as_deref().is_none_or(|text| has_text(&found, text)) {
                            items.push(self.registration(found));
                        }
                    })
                };
                self.shards.with_shard(shard, walk).flatten()
            },
        )
    }

    fn calls(&self, after: Option<&str>, limit: usize) -> Page<Call> {
        let now = self.clock.now();
        if self.host.records().is_on() {
            return self.recorded_calls(after, limit);
        }
        let total = self.sum(|node| node.ringing_calls_len());
        page_over_shards(self.shard_count(), after, (limit, u32::MAX), total, |shard, first, count, items| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let walk = |node: &mut Node| {
                node.ringing_calls(first, count, |call| {
                    items.push(Call {
                        call_id: text(call.call_id),
                        from: text(call.from),
                        to: text(call.to),
                        state: if call.rings { "ringing" } else { "trying" }.to_owned(),
                        age_s: now.since(call.since).as_secs(),
                        answered_s: None,
                    });
                })
            };
            self.shards.with_shard(shard, walk).flatten()
        })
    }

    fn records(&self, after: Option<&str>, limit: usize) -> Page<CallRecord> {
        let after = after.and_then(|after| after.parse().ok()).unwrap_or(0);
        self.host.records().records(after, limit)
    }

    fn connections(&self, after: Option<&str>, limit: usize, text: Option<&str>) -> Page<Connection> {
        let now = self.clock.now();
        let text = text.map(str::to_ascii_lowercase);
        let scan = if text.is_some() { SEARCHED_CONNECTIONS_MAX } else { limit };
        let after = after.and_then(|text| text.parse().ok()).map(ConnectionId);
        let open = self.connections.page(after, scan);
        let mut next = if open.len() < scan { None } else { open.last().map(|last| last.id.0.to_string()) };
        let mut items = Vec::new();
        for connection in &open {
            let shown = Connection {
                id: connection.id.0.to_string(),
                transport: connection.transport.to_string(),
                address: connection.remote.to_string(),
                local: connection.local.to_string(),
                neighbour: self.host.tables().read_neighbours(None, |table| {
                    table.name_of(connection.id, connection.dialled).map(str::to_owned)
                }),
                age_s: now.since(connection.since).as_secs(),
            };
            let has_text = |text: &str| {
                [Some(&shown.address), Some(&shown.local), Some(&shown.transport), shown.neighbour.as_ref()]
                    .into_iter()
                    .flatten()
                    .any(|field| field.to_ascii_lowercase().contains(text))
            };
            if !text.as_deref().is_none_or(has_text) {
                continue;
            }
            items.push(shown);
            if items.len() >= limit {
                next = Some(connection.id.0.to_string());
                break;
            }
        }
        let counts = self.counters.counts();
        Page { items, total: counts.connections_open + counts.associations_open, next }
    }

    fn trunks(&self, after: Option<&str>, limit: usize, text: Option<&str>) -> Page<Trunk> {
        let rows = self.host.trunks().rows();
        let first =
            after.and_then(|after| after.parse::<usize>().ok()).map_or(0, |last| last.saturating_add(1));
        let text = text.map(str::to_ascii_lowercase);
        let has_text = |(_, trunk): &(usize, Trunk)| {
            let has = |of: &String| text.as_ref().is_none_or(|text| of.to_ascii_lowercase().contains(text));
            has(&trunk.name) || has(&trunk.uri) || has(&trunk.state)
        };
        let from = rows.iter().enumerate().skip(first);
        let mut fitting = from.map(|(index, row)| (index, self.trunk(index, row))).filter(has_text);
        let items: Vec<(usize, Trunk)> = fitting.by_ref().take(limit).collect();
        let last = items.last().map(|(index, _)| index.to_string());
        let next = fitting.next().and(last);
        let items = items.into_iter().map(|(_, trunk)| trunk).collect();
        Page { items, total: rows.len() as u64, next }
    }

    fn relays(&self) -> Vec<Relay> {
        let now = self.clock.now();
        let relay = |(address, state, answered): (SocketAddr, RelayState, Instant)| Relay {
            address: address.to_string(),
            state: match state {
                RelayState::Up => "up".to_owned(),
                RelayState::Down => "down".to_owned(),
            },
            last_answer_s: now.since(answered).as_secs(),
        };
        self.clients.relays().into_iter().map(relay).collect()
    }

    fn cluster(&self) -> Option<Cluster> {
        let location = self.host.location()?;
        Some(location.cluster(|link| self.host.is_linked(link)))
    }

    fn steps(&self) -> Option<StepTimes> {
        self.step_times()
    }

    fn traces(&self) -> Option<&dyn Traces> {
        Some(self.host.traces())
    }

    fn server(&self) -> ServerInfo {
        ServerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.clock.now().since(self.since).as_secs(),
            workers: self.counters.workers(),
            ..self.config.info()
        }
    }

    fn stats(&self) -> Stats {
        let mut stats = self.counted();
        stats.extend(process_stats(self.clock.now().since(self.since)));
        stats.extend(turn_stats(&self.counters.turns()));
        stats.extend(self.stats_of_peers());
        stats
    }
}

impl ServerView {
    /// Figures that are counted anyway, with those of the limits: reading them opens no file.
    pub(super) fn counted(&self) -> Stats {
        let mut stats = Vec::new();
        let mut sums: BTreeMap<&'static str, (&'static str, u64)> = BTreeMap::new();
        let (mut bindings, mut users, mut contexts) = (0, 0, 0);
        let (mut servers, mut clients) = (0, 0);
        let mut of_events = [0; 3];
        for shard in 0..self.shard_count() {
            self.shards.with_shard(shard, |node| {
                let mut add = |name, help, value| sums.entry(name).or_insert((help, 0)).1 += value;
                node.counters().for_each(&mut add);
                node.transaction_counters().for_each(add);
                bindings += node.location().bindings_len();
                users += node.location().users_len();
                contexts += node.contexts_len();
                let of_node = [node.subscriptions_len(), node.publications_len(), node.messages_len()];
                of_events.iter_mut().zip(of_node).for_each(|(sum, count)| *sum += count);
                let (of_servers, of_clients) = node.transactions_len();
                servers += of_servers;
                clients += of_clients;
            });
        }
        let gauge = |name: &'static str, help, value: usize| Stat::gauge(name, help, value as f64);
        let up = self.clients.relays_up(|name, help, value| {
            sums.insert(name, (help, value));
        });
        if let Some(up) = up {
            stats.push(gauge("relays_up", "Media relays that answer.", up));
        }
        stats.push(gauge("bindings", "Registered and permanent contacts.", bindings));
        stats.push(gauge("users_registered", "Users with a contact.", users));
        stats.push(gauge("subscribers", "Users with a password.", self.host.directory().len()));
        let (mut up, mut down) = (0, 0);
        self.host.each_neighbour(|_, _, _, is_up| *if is_up { &mut up } else { &mut down } += 1);
        stats.push(gauge("neighbours_up", "Neighbours with a connection that works.", up));
        stats.push(gauge("neighbours_down", "Neighbours without one.", down));
        let calls = self.host.tables().read_neighbours(0, NeighbourTable::calls_len);
        stats.push(gauge("neighbour_calls", "Calls to neighbours with a connection of their own.", calls));
        stats.push(gauge("requests_forwarding", "Requests being forwarded or answered recently.", contexts));
        stats.push(gauge("server_transactions", "Server transactions.", servers));
        stats.push(gauge("client_transactions", "Client transactions.", clients));
        stats.extend(OF_EVENTS.iter().zip(of_events).map(|((name, help), value)| gauge(name, help, value)));
        for (name, (help, value)) in sums {
            stats.push(Stat::counter(name, help, value));
        }
        stats.extend(self.counters.counts().each().map(|(name, value)| {
            Stat::counter(name, "Counted by the packet driver; see docs/reference/limits.md.", value)
        }));
        stats.push(Stat::counter(
            "lookups_refused",
            "Lookups of host names above the limits, in all or of a source.",
            self.clients.lookups_refused(),
        ));
        stats.push(Stat::counter(
            "lookups_without_result",
            "Lookups refused because too many others of their source found nothing.",
            self.clients.lookups_without_result(),
        ));
        stats.extend(signers::stats(self.clients.signer_stats()));
        let of_address = self.public_address.counts();
        stats.extend(of_address.into_iter().map(|(name, help, value)| Stat::counter(name, help, value)));
        stats.extend(tls::stats(&self.tls, self.dtls.as_deref()));
        stats.extend(self.orders.stats());
        stats.extend(self.drain.stats(self.clock.now()));
        stats.extend(self.store_stats());
        stats.extend(self.host.location().into_iter().flat_map(SharedLocation::stats));
        stats.extend(self.record_stats());
        stats
    }

    /// A trunk as it is shown.
    pub(super) fn trunk(&self, index: usize, row: &TrunkRow) -> Trunk {
        let now = self.clock.now();
        let last = row.last_answer();
        let under_way = row.is_counted.then(|| self.host.tables().trunk_calls(&row.name));
        Trunk {
            name: row.name.clone(),
            uri: row.uri.clone(),
            state: self.state_of(index, row, now).to_owned(),
            calls: row.calls(),
            last_answer_s: last.map(|(time, _)| now.since(time).as_secs()),
            last_status: last.map(|(_, status)| status),
            logins_refused: row.logins_refused(),
            registered: row.is_registered(),
            of_other_node: row.is_of_other_node(),
            under_way: under_way.map(|(to, _)| to),
            under_way_in: under_way.map(|(_, from)| from),
        }
    }

    /// State of a trunk in one word.
    pub(super) fn state_of(&self, index: usize, row: &TrunkRow, now: Instant) -> &'static str {
        let pause = self.host.tables().trunk_pause(now, index);
        match row.neighbour {
            _ if pause == Some(TrunkPause::Silent) => "silent",
            Some(neighbour) if !self.host.tables().is_neighbour_up(neighbour) => "down",
            _ if pause == Some(TrunkPause::RetryAfter) => "busy",
            Some(_) => "up",
            None if row.last_answer().is_some() => "up",
            None => "unknown",
        }
    }

    /// Calls of the tables of calls.
    fn recorded_calls(&self, after: Option<&str>, limit: usize) -> Page<Call> {
        let (now, records) = (self.clock.now(), self.host.records());
        let (total, _) = records.open();
        page_over_shards(
            records.partitions(),
            after,
            (limit, u32::MAX),
            total as u64,
            |part, first, count, items| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                records.calls(part, first, count, |call| {
                    let state = match (call.answered, call.ringing) {
                        (Some(_), _) => "answered",
                        (None, Some(_)) => "ringing",
                        (None, None) => "trying",
                    };
                    items.push(Call {
                        call_id: text(call.texts.call_id()),
                        from: text(call.texts.from()),
                        to: text(call.texts.to()),
                        state: state.to_owned(),
                        age_s: now.since(call.begun).as_secs(),
                        answered_s: call.answered.map(|answered| now.since(answered).as_secs()),
                    });
                })
            },
        )
    }

    /// Figures of call records and the capture.
    fn record_stats(&self) -> Stats {
        let (mut stats, mut sums) = (Vec::new(), BTreeMap::new());
        let records = self.host.records();
        let (calls, bytes) = records.open();
        records.counters(|name, help, value| sums.entry(name).or_insert((help, 0)).1 += value);
        stats.extend(sums.into_iter().map(|(name, (help, value))| Stat::counter(name, help, value)));
        let writer = records.writer_stats();
        stats.push(Stat::gauge(
            "calls_open",
            "Calls that have not ended, while calls are recorded.",
            calls as f64,
        ));
        stats.push(Stat::gauge("calls_open_bytes", "Bytes of these calls.", bytes as f64));
        let lost = "Call records that were not written or not kept, because too many waited.";
        stats.push(Stat::counter("records_lost", lost, writer.lost));
        let left_out =
            "Records of unanswered calls without a password that were left out, above the limits a second.";
        stats.push(Stat::counter("records_left_out", left_out, records.left_out()));
        let files = "Older files of call records that were replaced, because of [records] max_mb.";
        stats.push(Stat::counter("records_files_removed", files, writer.files_removed));
        let rows = "Call records that were removed from the database, because of [records] max_mb.";
        stats.push(Stat::counter("records_rows_removed", rows, writer.rows_removed));
        let waiting = "Call records that wait to be written.";
        stats.push(Stat::gauge("records_waiting", waiting, writer.waiting as f64));
        let failed = f64::from(u8::from(writer.is_failing));
        stats.push(Stat::gauge("records_failed", "1 while call records cannot be written.", failed));
        if let Some(capture) = self.host.capture().stats() {
            stats.push(Stat::counter(
                "hep_sent",
                "Captured messages that were sent to the collector.",
                capture.sent,
            ));
            let lost = "Captured messages that were lost while the collector was connected.";
            stats.push(Stat::counter("hep_lost", lost, capture.lost));
            let connected = f64::from(u8::from(capture.is_connected));
            stats.push(Stat::gauge("hep_connected", "1 while the collector is connected.", connected));
        }
        stats
    }

    fn store_stats(&self) -> Stats {
        let store = self.host.writer_stats();
        let (nonces, evicted) = self.host.tables().nonces();
        let failed = f64::from(u8::from(self.host.store_has_failed()));
        let (traces, lost) = self.host.traces().counts();
        let mut stats = vec![
            Stat::gauge("traces", "Users whose requests are traced.", traces as f64),
            Stat::counter(
                "trace_entries_lost",
                "Entries of traces that were not made or made room for others.",
                lost,
            ),
            Stat::counter(
                "log_lines_dropped",
                "Log lines dropped because the reader was too slow.",
                crate::log::lines_dropped(),
            ),
            Stat::gauge("nonces_remembered", "Nonces with a stored count.", nonces as f64),
            Stat::gauge(
                "reserved_bytes",
                "Bytes held by pending requests and TCP connections.",
                self.host.tables().memory().used() as f64,
            ),
            Stat::counter(
                "logins_proven",
                "Requests whose password was right.",
                self.host.tables().logins()[0],
            ),
            Stat::counter("nonces_evicted", "Nonces evicted early because there were too many.", evicted),
            Stat::gauge("store_failed", "1 while bindings cannot be written to the disk.", failed),
            Stat::counter("store_records", "Records appended to the journal.", store.appended),
            Stat::counter(
                "store_records_dropped",
                "Records dropped because the journal was too slow.",
                store.dropped,
            ),
            Stat::counter("store_writes", "Batches written to the disk.", store.writes),
            Stat::counter("store_failures", "Writes, syncs and snapshots that failed.", store.failures),
            Stat::counter("store_snapshots", "Snapshots written.", store.snapshots),
            Stat::counter(
                "store_records_lost",
                "Records lost in a damaged journal at the start (lower bound).",
                store.lost_records,
            ),
            Stat::counter(
                "store_files_damaged",
                "Files of the journal that were damaged or missing at the start.",
                store.damaged_files,
            ),
            Stat::counter(
                "store_rows_unreadable",
                "Rows of the database that were passed over, because no command writes such rows.",
                self.store.rows_unreadable(),
            ),
            Stat::gauge("store_disk_bytes", "Bytes of the binding journal.", store.disk_bytes as f64),
            Stat::gauge(
                "store_waiting_bytes",
                "Bytes not written to the disk yet.",
                store.waiting_bytes as f64,
            ),
        ];
        stats.extend(self.database.get().into_iter().flat_map(|status| provisioning::stats(status.counts())));
        stats.extend(self.host.database_stats());
        stats
    }
}

/// True if the address-of-record, the contact or the source address has `text`, which is in lower case.
fn has_text(found: &RegistrationRef<'_>, text: &str) -> bool {
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()));
    has(found.aor()) || has(found.contact()) || found.address().to_string().contains(text)
}

/// Figures of the process.
fn process_stats(uptime: Duration) -> Stats {
    let gauge = |name: &'static str, help, value| Stat::gauge(name, help, value);
    let mut stats = vec![gauge("uptime_s", "Seconds since the start.", uptime.as_secs_f64().floor())];
    if let Some(cpu) = ringway_linux::process::cpu_time() {
        let help = "Processor time of all threads, in seconds.";
        stats.push(Stat { value: cpu.as_secs_f64(), ..Stat::counter("cpu_seconds", help, 0) });
    }
    if let Some(bytes) = ringway_linux::process::resident_bytes() {
        stats.push(gauge("resident_bytes", "Memory of the process that is in use.", bytes as f64));
    }
    stats
}

/// Histogram of the workers' turns, in the form that Prometheus has for one.
fn turn_stats(turns: &TurnCounts) -> Stats {
    let help = "Turns of the workers with packets, from the wake-up until everything they caused was sent, by duration.";
    let mut sum = 0;
    let mut stats: Stats = Vec::new();
    for (index, count) in turns.buckets.iter().enumerate() {
        sum += count;
        let bound =
            TurnCounts::bound(index).map_or("+Inf".to_owned(), |bound| bound.as_secs_f64().to_string());
        stats.push(Stat::counter("turn_seconds_bucket", help, sum).labelled("le", bound));
    }
    let seconds = turns.nanos as f64 / 1e9;
    let help = "Duration of all turns together, in seconds.";
    stats.push(Stat { value: seconds, ..Stat::counter("turn_seconds_sum", help, 0) });
    stats.push(Stat::counter("turn_seconds_count", "Number of turns.", sum));
    stats
}

/// Slots of users that a search looks at for one answer: some 5 ms in all, under short locks.
const SEARCHED_SLOTS_MAX: u32 = 16_384;

/// Connections that a search looks at for one answer.
const SEARCHED_CONNECTIONS_MAX: usize = 10_000;

/// Figures of subscriptions, publications and messages.
const OF_EVENTS: [(&str, &str); 3] = [
    ("subscriptions_active", "Subscriptions to the state of users."),
    ("publications_active", "Documents that users and voicemail systems published."),
    ("messages_waiting", "Messages kept for users without a phone."),
];
