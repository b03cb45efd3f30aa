//! The server: holds the components, and gives each input to the one that it is for.

mod dispatch;

use crate::auth::Authenticator;
use crate::env::{Env, Environment, derive};
use crate::location::{BadRecord, LocationTable};
use crate::method::Registrar;
use crate::proxy::{BranchId, Proxy, RingingCall, Transactions};
use crate::{Action, Config, Counters, Services};
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::{Context, Deadline, Event, Flow, Instant, Node, Received, Seed};
use ringway_sip::{Message, Start};
use ringway_transaction::{BranchKey, Notice};

/// A registrar, proxy and redirect server for one shard of the users.
///
/// The shards of a server share the configuration, the secret in it, and [`Services`]; nothing else.
pub struct Server<S> {
    environment: Environment<S>,
    transactions: Transactions,
    authenticator: Authenticator,
    registrar: Registrar,
    proxy: Proxy,
    /// Buffer for the effects of the transactions.
    notices: Vec<Notice<BranchId>>,
    /// The reason why nothing new is begun, as the phrase of a 503.
    refuses: Option<&'static str>,
    /// When what is still under way then is given up.
    gives_up_at: Option<Instant>,
    shard: u16,
}

impl<S: Services> Server<S> {
    /// Shard `shard` of a server. `seed` is its only source of chance, and the same for all shards, which take each other's
    /// nonces; everything that must survive a restart is made from [`Config::secret`].
    pub fn new(config: Arc<Config>, services: S, shard: u16, seed: Seed, now: Instant) -> Self {
        let authenticator = Authenticator::new(&config, &seed, shard);
        let seed = seed.part(u64::from(shard));
        let mut match_key = [0; 16];
        match_key.copy_from_slice(seed.part(MATCH_KEY).bytes().split_at(16).0);
        let branch_key = BranchKey::new(derive(&config.secret, b"branch"));
        let transactions =
            Transactions::new(shard, config.timers, config.transaction_limits, match_key, branch_key, now);
        Self {
            environment: Environment::new(config, services, now),
            transactions,
            authenticator,
            registrar: Registrar::new(&seed, now),
            proxy: Proxy::new(&seed, now),
            notices: Vec::new(),
            refuses: None,
            gives_up_at: None,
            shard,
        }
    }

    /// Takes another configuration. Listeners and the secret must be the same; transactions under way go on with the
    /// timers they have.
    pub fn reconfigure(&mut self, config: Arc<Config>) {
        self.authenticator.set_nonce_lifetime(config.auth.nonce_lifetime);
        self.environment.reconfigure(config);
    }

    /// From now on nothing new is begun: it is answered 503. What is under way goes on, and is given up at `until`: who rings
    /// is cancelled, who waits is told.
    pub fn stop_new_work(&mut self, until: Instant) {
        self.gives_up_at = Some(until);
        self.refuse_new_work(Some("Stopping"));
    }

    /// While there is a reason, nothing new is begun: it is answered 503 with the reason as its phrase and a Retry-After.
    /// What is under way goes on.
    pub const fn refuse_new_work(&mut self, reason: Option<&'static str>) {
        self.refuses = reason;
    }

    /// Brings a user's bindings back after a restart; `record` is what [`Services::store`] was given. A binding that ends
    /// later than one made now could ends then.
    pub fn restore(&mut self, aor: &[u8], record: &[u8], now: Instant) -> Result<(), BadRecord> {
        self.registrar.restore(self.environment.config(), aor, record, now)
    }

    /// Puts an administrator's contacts for `user@domain` in place of those there were.
    pub fn set_permanent_contacts(&mut self, aor: &[u8], contacts: &[&[u8]]) {
        self.registrar.set_permanent_contacts(aor, contacts);
    }

    /// Drops every binding of a subscriber who was removed.
    pub fn remove_user(&mut self, aor: &[u8]) {
        self.registrar.remove_user(self.environment.services(), aor);
    }

    /// The location table, for listings and snapshots.
    pub const fn location(&self) -> &LocationTable {
        self.registrar.table()
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        self.environment.counters()
    }

    /// Number of server and of client transactions.
    pub fn transactions_len(&self) -> (usize, usize) {
        self.transactions.len()
    }

    /// Counters of the transactions.
    pub const fn transaction_counters(&self) -> &ringway_transaction::Counters {
        self.transactions.counters()
    }

    /// Calls and other requests that are being forwarded.
    pub fn contexts_len(&self) -> usize {
        self.proxy.contexts_len()
    }

    /// How many calls nobody has answered yet.
    pub const fn ringing_calls_len(&self) -> usize {
        self.proxy.ringing_calls_len()
    }

    /// Calls that nobody has answered yet, in up to `count` places from place `from` on; returns the place to go on from,
    /// `None` at the end.
    pub fn ringing_calls(&self, from: u32, count: u32, each: impl FnMut(RingingCall<'_>)) -> Option<u32> {
        self.proxy.ringing_calls(&self.environment.config().message_limits, from, count, each)
    }

    /// True when nothing waits for an answer: stopping now fails nobody.
    pub fn is_idle(&self) -> bool {
        self.transactions.is_idle()
    }

    /// Applies the effects of the transactions.
    fn apply_notices(&mut self, cx: &mut Context<'_, Action>) {
        let env = &mut self.environment.env(cx);
        self.proxy.apply(env, &mut self.transactions, &mut self.notices);
    }
}

impl<S: Services> Node for Server<S> {
    type Action = Action;
    type Framer = crate::SipFramer;

    fn shard_of(key: &ringway_sansio::ShardKey, bytes: &[u8], shards: u16) -> u16 {
        crate::shard::shard_of_message(key, bytes, shards)
    }

    fn on_message(&mut self, cx: &mut Context<'_, Action>, received: Received<'_>) {
        let Received { flow, bytes } = received;
        if !bytes.starts_with(b"SIP/") && !is_admitted(&mut self.environment.env(cx), flow, bytes) {
            return;
        }
        // Looked at where it is: a message is a kilobyte.
        match &Message::parse(bytes, &self.environment.config().message_limits) {
            Ok(message) => match *message.start() {
                Start::Request { method, uri } => {
                    self.on_request(cx, message, method, uri, flow);
                }
                Start::Response { status, .. } => self.on_response(cx, message, status, flow),
            },
            Err(rejected) => self.environment.env(cx).on_rejected(rejected, flow),
        }
        self.apply_notices(cx);
    }

    fn on_event(&mut self, cx: &mut Context<'_, Action>, event: Event) {
        match event {
            Event::Closed(connection) => {
                self.registrar.on_closed(cx.now, self.environment.services(), connection);
            }
            Event::Unreachable(token) => self.transactions.unreachable(cx, token, &mut self.notices),
            Event::Resolved { query, address } => {
                let env = &mut self.environment.env(cx);
                self.proxy.on_resolved(env, &mut self.transactions, query, address);
            }
        }
        self.apply_notices(cx);
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, Action>) {
        self.transactions.on_timeout(cx, &mut self.notices);
        let env = &mut self.environment.env(cx);
        self.registrar.on_timeout(env.cx.now, env.services);
        self.proxy.expire_timer_c(env, &mut self.transactions);
        if self.gives_up_at.is_some_and(|at| at <= env.cx.now) {
            self.gives_up_at = None;
            self.proxy.give_up(env, &mut self.transactions);
        }
        self.proxy.expire_lookups(env, &mut self.transactions);
        self.apply_notices(cx);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let mut next = self.transactions.next_deadline();
        let [timer_c, lookups] = self.proxy.next_due();
        for (at, reason) in [
            (self.registrar.next_due(), "a binding ends"),
            timer_c,
            lookups,
            (self.gives_up_at, "pending requests are given up"),
        ] {
            if let Some(at) = at
                && next.is_none_or(|next| at < next.at)
            {
                next = Some(Deadline { at, reason });
            }
        }
        next
    }
}

impl<S> core::fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server").field("shard", &self.shard).finish_non_exhaustive()
    }
}

/// Counts a request, and checks the rate of its source. False when it was dropped or answered.
fn is_admitted(env: &mut Env<'_, impl Services>, flow: Flow, bytes: &[u8]) -> bool {
    env.counters.requests += 1;
    // What this server sends to itself was admitted before.
    if env.services.admit(env.cx.now, flow.remote.ip()) || env.config.is_own_address(flow.remote) {
        return true;
    }
    env.counters.over_rate += 1;
    // A datagram is dropped: the client retransmits it. A stream's client does not.
    if flow.transport.is_reliable()
        && let Ok(message) = Message::parse(bytes, &env.config.message_limits)
    {
        env.slow_down(&message, flow);
    }
    false
}

/// The part of a shard's seed that keys the matching of transactions.
const MATCH_KEY: u64 = 0;
