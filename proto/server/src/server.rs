//! Server: owns the components and dispatches each input to one of them.

mod access;
mod admission;
mod dispatch;
#[cfg(feature = "operator")]
mod filled;
mod held;
mod locating;
mod overload;
mod peer_control;
mod redirect;
mod refusals;
mod shard;
mod shedding;
mod sizes;
mod verifying;

use crate::base::{Environment, Grant, Owner, Request, Transactions, derive};
use crate::dialog::edge::write_link_path;
use crate::location::{BadRecord, Holding, LocationTable, RecordTime};
use crate::message_store::{self, Messages};
use crate::neighbour::{Neighbours, Registrations};
use crate::policy::Authenticator;
use crate::presence::{Events, Parts};
use crate::proxy::{Proxy, RingingCall};
use crate::registrar::Registrar;
use crate::{Action, Config, Counters, Forwards, Hold, Host, SharedTables, Step, StepClass, StepTable};
use admission::UrgentRates;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
#[cfg(feature = "operator")]
pub use filled::{FILLED_TABLES, FilledTable, filled_trunks};
use locating::Locating;
use overload::Overload;
use ringway_location::{BadEntry, Record};
use ringway_sansio::{Context, Deadline, Event, Flow, IcmpError, Instant, Node, Received, Seed, Transport};
use ringway_sip::{Message, Start};
use ringway_transaction::{BranchKey, Notice};
pub use shard::{shard_of_aor, shard_of_user};
pub use sizes::table_sizes;
use verifying::Verifying;

/// A registrar, proxy and redirect server for one shard of the users.
///
/// The shards of a server share the configuration, the secret in it, the [`Host`] and [`SharedTables`]; nothing else.
pub struct Server {
    environment: Environment,
    transactions: Transactions,
    authenticator: Authenticator,
    registrar: Registrar,
    proxy: Proxy,
    neighbours: Neighbours,
    registrations: Registrations,
    events: Events,
    messages: Messages,
    locating: Locating,
    urgent: UrgentRates,
    verifying: Verifying,
    overload: Overload,
    /// Buffer for the effects of the transactions.
    notices: Vec<Notice<Owner>>,
    /// Reason to refuse new requests, as the phrase of a 503.
    refuses: Option<&'static str>,
    /// Time at which pending requests are given up.
    gives_up_at: Option<Instant>,
    shard: u16,
}

impl Server {
    /// Creates shard `shard` of a server. `seed` is its only source of randomness; it is the same for all shards, which
    /// accept each other's nonces. Everything that must survive a restart is derived from [`Config::secret`].
    pub fn new(
        config: Arc<Config>,
        host: Arc<dyn Host>,
        tables: Arc<SharedTables>,
        shard: u16,
        seed: Seed,
        now: Instant,
    ) -> Self {
        let authenticator = Authenticator::new(&config, &seed, shard);
        let seed = seed.part(u64::from(shard));
        let mut match_key = [0; 16];
        match_key.copy_from_slice(seed.part(MATCH_KEY).bytes().split_at(16).0);
        let branch_key = BranchKey::new(derive(&config.secret, b"branch"));
        let transactions =
            Transactions::new(shard, config.timers, config.transaction_limits, match_key, branch_key, now);
        let neighbours = Neighbours::new(&config, &seed, shard);
        let registrations = Registrations::new(&config, &seed, shard);
        let (events, messages) = (Events::new(&config, &seed, now), Messages::new(&config, &seed, now));
        let mut registrar = Registrar::new(&seed, now);
        registrar.note_changes(events.is_on() || messages.is_active());
        Self {
            environment: Environment::new(config, host, tables, &seed, now),
            transactions,
            authenticator,
            registrar,
            proxy: Proxy::new(&seed, now),
            neighbours,
            registrations,
            events,
            messages,
            locating: Locating::new(&seed.part(LOCATING_KEY), now),
            urgent: UrgentRates::new(&seed.part(URGENT_KEY)),
            verifying: Verifying::new(&seed.part(VERIFYING_KEY), now),
            overload: Overload::new(&seed.part(OVERLOAD_KEY)),
            notices: Vec::new(),
            refuses: None,
            gives_up_at: None,
            shard,
        }
    }

    /// Tables that the shards share.
    pub fn tables(&self) -> &SharedTables {
        self.environment.tables()
    }

    /// Replaces the configuration. The secret must not change, nor the numbers of listeners: new ones follow the others, and
    /// one that is taken out is in [`Config::removed_listeners`]. Existing transactions keep their timers.
    pub fn reconfigure(&mut self, config: Arc<Config>) {
        self.authenticator.reconfigure(&config);
        self.neighbours.reconfigure(&config);
        self.registrations.reconfigure(&config);
        self.events.reconfigure(&config, self.environment.tables(), &mut self.transactions);
        self.messages.reconfigure(&config);
        self.note_changes();
        let (before, trunks) = (&self.environment.config().trunking.trunks, &config.trunking.trunks);
        if before != trunks {
            if self.shard == 0 {
                self.environment.tables().move_trunks(&trunks.positions_in(before));
            }
            self.proxy.forget_trunks();
        }
        self.environment.reconfigure(config);
    }

    /// Dials the other nodes to which there is no link at once: one of them may have come back.
    pub fn retry_links(&mut self) {
        self.neighbours.retry_links(self.environment.config());
    }

    /// Refuses new requests with 503 from now on. At `until` pending INVITEs are cancelled and their callers get 503.
    pub fn stop_new_work(&mut self, until: Instant) {
        self.gives_up_at = Some(until);
        self.neighbours.stop();
        self.registrations.stop();
        self.messages.stop();
        self.refuse_new_work(Some("Stopping"));
    }

    /// Refuses new requests with 503 while there is a `reason`, which is the phrase of the response. Pending requests are
    /// not affected.
    pub const fn refuse_new_work(&mut self, reason: Option<&'static str>) {
        self.refuses = reason;
    }

    /// Sends phones to other servers, spread evenly over a time: until the time of a phone has come its REGISTER is handled as always;
    /// then REGISTER gets 503, and its connection is closed. Other new requests get 503 from now on, except those of other nodes.
    pub const fn drain(&mut self, now: Instant, over: Duration) {
        self.registrar.drain(now, over);
    }

    /// Ends a drain: new requests are handled again.
    pub const fn end_drain(&mut self) {
        self.registrar.end_drain();
    }

    /// Restores the bindings of a user, or a kept message, after a restart; `key` and `record` were passed to
    /// [`Host::store`]. No binding ends later than a new one could.
    pub fn restore(&mut self, key: &[u8], record: &[u8], now: Instant) -> Result<(), BadRecord> {
        if message_store::is_key(key) {
            let restored = self.messages.restore(self.environment.tables(), key, record, now);
            self.note_changes();
            return restored;
        }
        self.registrar.restore(self.environment.config(), key, record, now)
    }

    /// Joins a [`Record`](ringway_location::Record) of the store that nodes share into the bindings of `user@domain`, which belongs to
    /// this shard. `store_now_ms` is the time of the store's clock now, in milliseconds since the epoch.
    pub fn on_record(
        &mut self,
        now: Instant,
        aor: &[u8],
        record: &[u8],
        store_now_ms: u64,
    ) -> Result<(), BadEntry> {
        let record = Record::read(record)?;
        let time = RecordTime { now, store_now_ms, holding: Holding::Whole };
        if record.number != 0 {
            self.locating.forget_miss(aor);
        }
        // The record that answers a lookup has the number of an update of this node, if that was the last one of the user.
        let is_looked_up = record.number == 0 || self.locating.looks_up(aor);
        let (config, storage) = (self.environment.config(), self.environment.storage());
        let taken = self.registrar.on_record(config, &storage, aor, is_looked_up, &record, time);
        let counters = self.environment.counters_mut();
        counters.shared_entries_passed_over += taken.passed_over;
        counters.held_briefly += u64::from(taken.is_brief);
        Ok(())
    }

    /// Notes that the store that nodes share took the update with this number of `user@domain` as it is: no record answers it.
    pub fn on_taken(&mut self, aor: &[u8], number: u64) {
        self.registrar.on_taken(aor, number);
    }

    /// Passes the bindings of this node to [`Host::share`] again, for up to `count` users from slot `from`; returns the next slot,
    /// `None` at the end. What changed elsewhere meanwhile stays. Users that registered here after `since` are passed over: that
    /// update had all their bindings.
    ///
    /// Needed for all users whenever records are not read on from where reading ended, the first time included, before all users are
    /// looked up: the store may have lost updates, and a record that answers an update may be among those that are not read.
    pub fn share_from(&mut self, now: Instant, since: Instant, from: u32, count: u32) -> Option<u32> {
        self.registrar.share_from(now, since, &self.environment.storage(), from, count)
    }

    /// Notes that a read of all records of the store that nodes share begins; the numbers of such reads rise from 1.
    pub const fn begin_walk(&mut self, walk: u32) {
        self.registrar.begin_walk(walk);
    }

    /// Ends bindings of other nodes whose removal was missed, for up to `count` users from slot `from`; returns the next slot, `None` at
    /// the end. A user whose last record came in a read of all, or after it began, for which `is_confirmed` is true keeps all. Bindings of
    /// a node that is gone stay; at a node that holds the users that it serves not if they would be all that is left.
    pub fn sweep(
        &mut self,
        now: Instant,
        from: u32,
        count: u32,
        is_confirmed: impl Fn(&[u8], u32) -> bool,
    ) -> Option<u32> {
        let hold = self.environment.config().cluster.map_or(Hold::All, |cluster| cluster.hold);
        let slots = from..from.saturating_add(count);
        self.registrar.sweep(now, self.environment.host(), hold, slots, is_confirmed)
    }

    fn note_changes(&mut self) {
        self.registrar.note_changes(self.events.is_on() || self.messages.is_active());
    }

    /// Replaces the administrator's contacts of `user@domain`.
    pub fn set_permanent_contacts(&mut self, aor: &[u8], contacts: &[&[u8]]) {
        self.registrar.set_permanent_contacts(aor, contacts);
    }

    /// Replaces the forwards of `user@domain`, which belongs to this shard; empty ones remove them.
    pub fn set_forwards(&mut self, aor: &[u8], forwards: Forwards) {
        self.environment.forwards_mut().set(aor, forwards);
    }

    /// Removes all bindings and messages of a removed subscriber.
    pub fn remove_user(&mut self, aor: &[u8]) {
        self.registrar.remove_user(&self.environment.storage(), aor);
        self.messages.remove_user(self.environment.host(), self.environment.tables(), aor);
    }

    /// Ends the registrations of `user@domain`, as an administrator demands; permanent contacts stay. Returns their number.
    pub fn end_registrations(&mut self, now: Instant, aor: &[u8]) -> usize {
        self.registrar.end_registrations(now, &self.environment.storage(), aor)
    }

    /// Path by which the other nodes reach the phone of a flow, over their link to this one. Empty without [`Config::links`].
    pub fn link_path(&self, flow: &Flow, now: Instant) -> Vec<u8> {
        let (config, mut path) = (self.environment.config(), Vec::new());
        write_link_path(config, self.environment.keys(), flow, now, &mut path);
        path
    }

    /// Location table, for listings and snapshots.
    pub const fn location(&self) -> &LocationTable {
        self.registrar.table()
    }

    /// Counters since the start.
    pub const fn counters(&self) -> &Counters {
        self.environment.counters()
    }

    /// Measures the time of each step of handling a message from now on, by a clock that never goes back; `None` ends it. The sums of
    /// before stay while it is on.
    pub fn measure_steps(&mut self, clock: Option<fn() -> u64>) {
        self.environment.set_step_clock(clock);
    }

    /// Times of the steps, in units of the clock of [`Server::measure_steps`]; `None`: they are not measured.
    pub fn steps(&self) -> Option<&StepTable> {
        self.environment.step_table()
    }

    /// Number of server and of client transactions.
    pub fn transactions_len(&self) -> (usize, usize) {
        self.transactions.len()
    }

    /// Counters of the transactions.
    pub const fn transaction_counters(&self) -> &ringway_transaction::Counters {
        self.transactions.counters()
    }

    /// Number of requests that are being forwarded.
    pub fn contexts_len(&self) -> usize {
        self.proxy.contexts_len()
    }

    /// Number of calls without a final response.
    pub const fn ringing_calls_len(&self) -> usize {
        self.proxy.ringing_calls_len()
    }

    /// Calls without a final response, in up to `count` slots from slot `from`; returns the next slot, `None` at the end.
    pub fn ringing_calls(&self, from: u32, count: u32, each: impl FnMut(RingingCall<'_>)) -> Option<u32> {
        self.proxy.ringing_calls(from, count, each)
    }

    /// Number of subscriptions of this shard's users.
    pub fn subscriptions_len(&self) -> usize {
        self.events.subscriptions_len()
    }

    /// Number of publications of this shard's users.
    pub const fn publications_len(&self) -> usize {
        self.events.publications_len()
    }

    /// Number of messages that are kept for this shard's users.
    pub fn messages_len(&self) -> usize {
        self.messages.len()
    }

    /// Number of messages that are kept for `user@domain`.
    pub fn messages_of(&self, aor: &[u8]) -> usize {
        self.messages.len_of(aor)
    }

    /// Records of the messages in up to `count` slots from slot `from`, for snapshots; returns the next slot, `None` at the
    /// end. Messages that are kept or removed between two calls are stored by that change.
    pub fn message_records_from(&self, from: u32, count: u32, each: impl FnMut(&[u8], &[u8])) -> Option<u32> {
        self.messages.records_from(from, count, each)
    }

    /// True if no request waits for a response, so that no request fails if the server stops now.
    pub fn is_idle(&self) -> bool {
        self.transactions.is_idle() && self.locating.is_empty() && self.verifying.is_empty()
    }

    /// Applies the effects of the transactions.
    fn apply_notices(&mut self, cx: &mut Context<'_, Action>) {
        if self.registrar.has_changes() {
            self.apply_changes(cx);
        }
        if self.proxy.has_released() {
            self.keep_released(cx);
        }
        // There are none after most messages.
        if self.notices.is_empty() && !self.transactions.has_gone() {
            return;
        }
        let env = &mut self.environment.env(cx);
        self.neighbours.take_notices(env, &mut self.notices);
        self.registrations.take_notices(env, &mut self.notices);
        if self.events.is_on() {
            self.events.take_notices(env, &mut self.transactions, &mut self.notices);
        }
        if self.messages.is_active() {
            self.messages.take_notices(env, &mut self.notices);
        }
        self.proxy.apply(env, &mut self.transactions, &mut self.notices);
        if self.proxy.has_released() {
            self.keep_released(cx);
        }
    }
}

impl Node for Server {
    type Action = Action;
    type Framer = crate::SipFramer;

    fn shard_of(key: &ringway_sansio::ShardKey, bytes: &[u8], shards: u16) -> u16 {
        crate::server::shard::shard_of_message(key, bytes, shards)
    }

    fn on_message(&mut self, cx: &mut Context<'_, Action>, received: Received<'_>) {
        let Received { flow, bytes, peer, waited } = received;
        // No SIP message begins so.
        if matches!(bytes, [0 | 1, ..]) && flow.transport == Transport::Udp {
            return admission::on_stun(&mut self.environment.env(cx), flow, bytes);
        }
        self.environment.begin_message_input();
        if !bytes.starts_with(b"SIP/") {
            let env = &mut self.environment.env(cx);
            if !admission::is_admitted(env, &self.transactions, &mut self.urgent, flow, bytes) {
                return;
            }
        }
        let config = &self.environment.config().overload;
        let late = waited.filter(|waited| overload::is_late(cx.now, *waited, config));
        if late.is_some_and(|waited| self.drops_unparsed(cx, flow, bytes, waited)) {
            return;
        }
        let first = cx.out.len();
        self.environment.steps_mut().mark(Step::Rest);
        // Borrowed from the parser's result: a message is a kilobyte.
        let parsed = &Message::parse(bytes, &self.environment.config().limits_of(&flow, bytes.len()));
        self.environment.steps_mut().mark_parsed(|| StepClass::of(parsed));
        match parsed {
            Ok(message) => {
                self.environment.begin_message(message, &flow);
                match *message.start() {
                    Start::Request { method, .. } => {
                        self.environment.counters_mut().count_method(method);
                        if let Some(request) = Request::of(message, flow, Grant::UNKNOWN) {
                            let request = Request { peer, ..request };
                            if !self.is_refused(cx, &request, waited, late) {
                                self.on_request(cx, request);
                            }
                        }
                    }
                    Start::Response { status, .. } => self.on_response(cx, message, status, flow, peer),
                }
            }
            Err(rejected) => admission::on_rejected(&mut self.environment.env(cx), bytes, rejected, flow),
        }
        self.apply_notices(cx);
        self.end_input(cx, first);
        self.environment.steps_mut().end();
    }

    fn on_event(&mut self, cx: &mut Context<'_, Action>, event: Event) {
        self.environment.begin_input();
        let first = cx.out.len();
        match event {
            Event::Closed(connection) => {
                self.registrar.on_closed(cx.now, &self.environment.storage(), connection);
                let env = &mut self.environment.env(cx);
                self.neighbours.on_closed(env, connection);
                self.registrations.on_closed(env.cx.now, connection);
                if self.events.is_on() {
                    self.events.on_closed(env, &mut self.transactions, connection);
                }
            }
            // Without the feature nothing asks for it.
            Event::Located { query } if cfg!(feature = "cluster") => self.on_located(cx, query),
            Event::Located { .. } => {}
            Event::StateChanged { name } => {
                if self.events.is_on() {
                    let parts =
                        &mut Parts { transactions: &mut self.transactions, table: self.registrar.table() };
                    self.events.on_calls_changed(&mut self.environment.env(cx), parts, &name);
                }
            }
            Event::Unreachable(token) => self.transactions.unreachable(cx, token, &mut self.notices),
            Event::Relayed { query, result } if cfg!(feature = "operator") => {
                self.proxy.on_relayed(&mut self.environment.env(cx), &mut self.transactions, query, result);
            }
            Event::NumberResolved { query, uris } if cfg!(feature = "operator") => {
                let env = &mut self.environment.env(cx);
                self.proxy.on_number_resolved(env, &mut self.transactions, query, &uris);
            }
            Event::SignerFound { query, result } if cfg!(feature = "operator") => {
                self.on_signer(cx, query, &result);
            }
            Event::Relayed { .. } | Event::NumberResolved { .. } | Event::SignerFound { .. } => {}
            Event::Resolved { query, servers } => {
                let env = &mut self.environment.env(cx);
                let is_taken = self.registrations.on_resolved(env, &mut self.transactions, query, &servers)
                    || self.neighbours.on_resolved(env, &mut self.transactions, query, servers);
                if !is_taken {
                    self.proxy.on_resolved(env, &mut self.transactions, query, servers);
                }
            }
        }
        self.apply_notices(cx);
        self.end_input(cx, first);
    }

    fn shard_of_quoted(quoted: &[u8], shards: u16) -> Option<u16> {
        ringway_transaction::shard_of_quoted(quoted).map(|shard| shard % shards.max(1))
    }

    fn on_icmp_error(&mut self, cx: &mut Context<'_, Action>, error: IcmpError<'_>) {
        self.environment.begin_input();
        let first = cx.out.len();
        self.transactions.icmp_error(cx, error, &mut self.notices);
        self.apply_notices(cx);
        self.end_input(cx, first);
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, Action>) {
        self.environment.begin_input();
        let first = cx.out.len();
        self.transactions.on_timeout(cx, &mut self.notices);
        let env = &mut self.environment.env(cx);
        self.registrar.on_timeout(env.cx.now, &env.storage());
        self.proxy.expire_branches(env, &mut self.transactions);
        if self.registrar.is_draining() {
            self.registrar.close_drained(env);
        }
        let had = self.environment.had_features();
        let env = &mut self.environment.env(cx);
        if had.neighbours() {
            self.neighbours.on_timeout(env, &mut self.transactions);
        }
        if had.registers() {
            self.registrations.on_timeout(env, &mut self.transactions);
        }
        env.check_calls();
        if self.gives_up_at.is_some_and(|at| at <= env.cx.now) {
            self.gives_up_at = None;
            self.proxy.give_up(env, &mut self.transactions);
        }
        self.proxy.expire_lookups(env, &mut self.transactions);
        if had.presence() && self.events.next_due().is_some() {
            let parts = &mut Parts { transactions: &mut self.transactions, table: self.registrar.table() };
            self.events.on_timeout(env, parts);
        }
        if self.messages.next_due().is_some() {
            self.messages.on_timeout(env, &mut self.transactions, self.registrar.table());
        }
        if cfg!(feature = "cluster") && had.cluster() {
            self.expire_locates(cx);
        }
        if cfg!(feature = "operator") && had.stir() {
            self.expire_verifications(cx);
        }
        self.apply_notices(cx);
        self.end_input(cx, first);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let mut next = self.transactions.next_deadline();
        // Called after each message: not a list, which would be filled first.
        let mut consider = |(at, reason): (Option<Instant>, &'static str)| {
            if let Some(at) = at
                && next.is_none_or(|next| at < next.at)
            {
                next = Some(Deadline { at, reason });
            }
        };
        consider((self.registrar.next_due(), "a binding ends"));
        if self.registrar.is_draining() {
            consider((self.registrar.next_close(), "connections of phones are closed"));
        }
        self.proxy.next_due().into_iter().for_each(&mut consider);
        let had = self.environment.had_features();
        if had.presence() {
            consider((self.events.next_due(), "a subscription or publication ends, or a NOTIFY is due"));
        }
        consider((self.messages.next_due(), "a kept message is delivered or expires"));
        let has_changes = self.registrar.has_changes();
        consider((has_changes.then(Instant::default), "subscribers are notified of changed contacts"));
        if had.cluster() {
            consider((self.locating.next_due(), "the store that nodes share did not answer"));
        }
        if had.stir() {
            consider((self.verifying.next_due(), "the certificate of a signer was not fetched"));
        }
        consider((self.gives_up_at, "pending requests are given up"));
        if had.neighbours() {
            consider((self.neighbours.next_due(), "a neighbour is probed or dialled"));
        }
        if had.registers() {
            consider((self.registrations.next_due(), "a trunk is registered at"));
        }
        consider((self.environment.calls_checked_at(), "the connections of calls are checked"));
        next
    }
}

impl core::fmt::Debug for Server {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server").field("shard", &self.shard).finish_non_exhaustive()
    }
}

/// Part of a shard's seed that is the key of transaction matching.
const MATCH_KEY: u64 = 0;

/// Part of a shard's seed that is the key of [`Locating`].
const LOCATING_KEY: u64 = 3;

/// Part of a shard's seed that is the key of [`UrgentRates`].
const URGENT_KEY: u64 = 4;

/// Part of a shard's seed that is the key of [`Verifying`].
const VERIFYING_KEY: u64 = 12;

/// Part of a shard's seed that is the key of [`Overload`].
const OVERLOAD_KEY: u64 = 5;
