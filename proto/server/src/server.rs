//! The server: one shard of the users and everything under way for them.

use crate::auth::{Grant, NonceMaker};
use crate::date::DateText;
use crate::location::{BadRecord, Binding, Location};
use crate::proxy::{BranchId, Lookup, Pending, ResponseContext, Targets};
use crate::reply::RefusedInDialog;
use crate::{Aor, BindingChange, BindingEnd, Config, Counters, LogEvent, Services};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_sansio::{Context, Deadline, Event, Flow, Instant, Node, Received, Seed, Token, Wheel};
use ringway_sip::{EditSpace, Message, Method, Start, Uri};
use ringway_transaction::{BranchKey, MatchKey, Notice, Slab, SlabKey, Transactions};
use siphasher::sip::SipHasher13;

/// A registrar, proxy and redirect server for one shard of the users.
///
/// The shards of a server share the configuration, the secret in it, and [`Services`]; nothing else.
pub struct Server<S> {
    pub(crate) config: Arc<Config>,
    pub(crate) services: S,
    pub(crate) shard: u16,
    pub(crate) keys: Keys,
    pub(crate) nonces: NonceMaker,
    pub(crate) transactions: Transactions<SlabKey, BranchId>,
    pub(crate) location: Location,
    pub(crate) contexts: Slab<ResponseContext>,
    /// Contexts of INVITEs that nobody has answered yet.
    pub(crate) unanswered: usize,
    /// Timer C of the branches of INVITEs (RFC 3261 §16.8).
    pub(crate) wheel: Wheel<BranchId>,
    /// Look-ups under way: ours, never a peer's number.
    pub(crate) queries: HashMap<u64, Lookup, crate::rate::SeededHash>,
    pub(crate) next_query: u64,
    /// When each look-up is given up: the answer may have been lost on its way.
    pub(crate) lookups: Wheel<u64>,
    /// How many of them requests wait for that are forwarded without state.
    pub(crate) waiting: usize,
    /// The bytes of those requests.
    pub(crate) waiting_bytes: usize,
    pub(crate) counters: Counters,
    /// Why nothing new is begun, in the words of the answer.
    pub(crate) refuses: Option<&'static str>,
    /// When what is still under way then is given up.
    gives_up_at: Option<Instant>,
    pub(crate) date: DateText,
    pub(crate) space: EditSpace,
    pub(crate) targets: Targets,
    pub(crate) pending: Pending,
    pub(crate) refused_in_dialog: RefusedInDialog,
    /// When this server started, in seconds since the epoch.
    pub(crate) started_s: u64,
    pub(crate) record: Vec<u8>,
    /// Room for the address-of-record of the REGISTER being worked on.
    pub(crate) aor: Aor,
    notices: Vec<Notice<BranchId>>,
}

/// A call that nobody has answered yet.
#[derive(Clone, Copy, Debug)]
pub struct RingingCall<'a> {
    /// Its Call-ID.
    pub call_id: &'a [u8],
    /// The caller's URI.
    pub from: &'a [u8],
    /// The URI that was called.
    pub to: &'a [u8],
    /// True when a target said that it rings.
    pub rings: bool,
    /// When the INVITE came.
    pub since: Instant,
}

/// What a server wishes done that is neither a packet nor a question to [`Services`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look a host name up and answer with [`Event::Resolved`].
    Resolve {
        /// The number to answer with.
        query: u64,
        /// The host name.
        host: Box<str>,
    },
}

/// Keys of the server's own marks, each for one purpose, all from the one secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// To tags of responses that are sent without a transaction.
    pub(crate) tag: [u8; 16],
    /// Record-Route tokens.
    pub(crate) route: [u8; 16],
    /// Loop marks in branches.
    pub(crate) looped: [u8; 16],
    /// What stands for a request in a replay window.
    pub(crate) request: [u8; 16],
}

/// A request while it is worked on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'m, 'a> {
    pub(crate) message: &'m Message<'a>,
    pub(crate) method: Method<'a>,
    /// The Request-URI as it came.
    pub(crate) uri: Uri<'a>,
    pub(crate) flow: Flow,
    /// Of its transaction; `None` where it was not needed yet.
    pub(crate) key: Option<MatchKey>,
    /// What its sender may have done with it; nothing more than a stranger's before the access rules were applied.
    pub(crate) grant: Grant,
}

impl Request<'_, '_> {
    /// True when its source is known to receive what is sent to it.
    pub(crate) const fn is_verified(&self) -> bool {
        self.flow.transport.is_reliable() || self.grant.is_verified
    }
}

/// Where a response came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'f> {
    pub(crate) flow: &'f Flow,
    /// Where its request was sent; `None` without a transaction.
    pub(crate) sent_to: Option<&'f Flow>,
}

impl<S: Services> Server<S> {
    /// Shard `shard` of a server. `seed` is its only source of chance, and the same for all shards, which take each other's
    /// nonces; everything that must survive a restart is made from [`Config::secret`].
    pub fn new(config: Arc<Config>, services: S, shard: u16, seed: Seed, now: Instant) -> Self {
        let nonces = NonceMaker::new(&config.secret, &seed, config.auth.nonce_lifetime, shard);
        let seed = seed.part(u64::from(shard));
        let mut match_key = [0; 16];
        match_key.copy_from_slice(seed.part(MATCH_KEY).bytes().split_at(16).0);
        let branch_key = BranchKey::new(derive(&config.secret, b"branch"));
        let transactions =
            Transactions::new(shard, config.timers, config.transaction_limits, match_key, branch_key, now);
        let keys = Keys {
            tag: derive(&config.secret, b"tag"),
            route: derive(&config.secret, b"route"),
            looped: derive(&config.secret, b"loop"),
            request: derive(&config.secret, b"request"),
        };
        Self {
            nonces,
            services,
            shard,
            keys,
            transactions,
            location: Location::new(&seed, now),
            contexts: Slab::default(),
            unanswered: 0,
            wheel: Wheel::new(now),
            queries: HashMap::with_hasher(crate::rate::SeededHash::new(&seed)),
            next_query: 1,
            lookups: Wheel::new(now),
            waiting: 0,
            waiting_bytes: 0,
            counters: Counters::default(),
            refuses: None,
            gives_up_at: None,
            date: DateText::default(),
            space: EditSpace::default(),
            targets: Targets::default(),
            pending: Pending::new(&seed.part(PENDING_KEY)),
            refused_in_dialog: RefusedInDialog::default(),
            started_s: now.as_secs(),
            record: Vec::new(),
            aor: Aor::default(),
            notices: Vec::new(),
            config,
        }
    }

    /// Takes another configuration. Listeners and the secret must be the same; transactions under way go on with the
    /// timers they have.
    pub fn reconfigure(&mut self, config: Arc<Config>) {
        self.nonces.set_lifetime(config.auth.nonce_lifetime);
        self.config = config;
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
        let latest = now + Duration::from_secs(u64::from(self.config.registrar.max_expires_s));
        self.location.restore(aor, record, now, latest, self.config.listeners.len())
    }

    /// Puts an administrator's contacts for `user@domain` in place of those there were.
    pub fn set_permanent_contacts(&mut self, aor: &[u8], contacts: &[&[u8]]) {
        self.location.set_permanent(aor, contacts);
    }

    /// Drops every binding of a subscriber who was removed.
    pub fn remove_user(&mut self, aor: &[u8]) {
        if self.location.forget(aor) {
            self.services.on_change(aor, BindingChange::Removed, None);
            self.services.store(aor, b"");
        }
    }

    /// The location table, for listings and snapshots.
    pub const fn location(&self) -> &Location {
        &self.location
    }

    /// What was counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
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
        self.contexts.len()
    }

    /// How many calls nobody has answered yet.
    pub const fn ringing_calls_len(&self) -> usize {
        self.unanswered
    }

    /// Calls that nobody has answered yet, in up to `count` places from place `from` on; returns the place to go on from,
    /// `None` at the end.
    pub fn ringing_calls(&self, from: u32, count: u32, mut each: impl FnMut(RingingCall<'_>)) -> Option<u32> {
        for place in from..from.saturating_add(count) {
            let Some((request, rings, since)) =
                self.contexts.at(place)?.and_then(ResponseContext::unanswered)
            else {
                continue;
            };
            if let Ok(message) = Message::parse(request, &self.config.message_limits) {
                each(RingingCall {
                    call_id: message.call_id(),
                    from: message.from().uri.as_bytes(),
                    to: message.to().uri.as_bytes(),
                    rings,
                    since,
                });
            }
        }
        Some(from.saturating_add(count))
    }

    /// True when nothing waits for an answer: stopping now fails nobody.
    pub fn is_idle(&self) -> bool {
        self.transactions.is_idle()
    }

    fn on_response(&mut self, cx: &mut Context<'_, Action>, flow: Flow, message: &Message<'_>, status: u16) {
        self.counters.responses += 1;
        let config = &self.config;
        let mut sent_to = flow;
        let is_peer = |target: &Flow| {
            sent_to = *target;
            is_peer(config, target, &flow, message)
        };
        match self.transactions.receive_response(cx, message, status, is_peer) {
            ringway_transaction::Answer::Pass { owner, .. } => {
                let source = Source { flow: &flow, sent_to: Some(&sent_to) };
                self.on_branch_response(cx, owner, &source, message, status);
            }
            ringway_transaction::Answer::Absorbed => {}
            ringway_transaction::Answer::Stateless { connection, target } => {
                self.forward_stateless_response(cx, message, &flow, (connection, target));
            }
            ringway_transaction::Answer::Elsewhere => self.counters.responses_from_elsewhere += 1,
            ringway_transaction::Answer::Stray => self.counters.stray += 1,
        }
    }

    /// Works off what the transactions have to say.
    fn settle(&mut self, cx: &mut Context<'_, Action>) {
        let mut notices = core::mem::take(&mut self.notices);
        for notice in notices.drain(..) {
            match notice {
                Notice::ClientTimedOut { owner, .. } => self.on_branch_failure(cx, owner, 408),
                Notice::ClientUnreachable { owner, .. } => self.on_branch_unreachable(cx, owner),
            }
        }
        self.notices = notices;
        while let Some(context) = self.transactions.take_gone() {
            self.drop_context(context);
        }
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
        if !bytes.starts_with(b"SIP/") {
            self.counters.requests += 1;
            // What this server sends to itself was admitted before.
            if !self.services.admit(cx.now, flow.remote.ip()) && !self.config.is_own_address(flow.remote) {
                self.counters.over_rate += 1;
                // A datagram is dropped: the client sends it again, later. A stream's client does not.
                if !flow.transport.is_reliable() {
                    return;
                }
                if let Ok(message) = Message::parse(bytes, &self.config.message_limits) {
                    self.slow_down(cx, &message, flow);
                }
                return;
            }
        }
        // Looked at where it is: a message is a kilobyte.
        match &Message::parse(bytes, &self.config.message_limits) {
            Ok(message) => match *message.start() {
                Start::Request { method, uri } => {
                    self.on_request(cx, message, method, uri, flow);
                }
                Start::Response { status, .. } => self.on_response(cx, flow, message, status),
            },
            Err(rejected) => self.on_rejected(cx, rejected, flow),
        }
        self.settle(cx);
    }

    fn on_event(&mut self, cx: &mut Context<'_, Action>, event: Event) {
        match event {
            Event::Closed(connection) => {
                let (services, record) = (&self.services, &mut self.record);
                let ended = ended(services, cx.now, BindingEnd::ConnectionClosed);
                self.location.on_closed(connection, ended, |location, aor| {
                    record.clear();
                    location.write_record(aor, record);
                    services.store(aor, record);
                    services.on_change(aor, BindingChange::Ended, None);
                });
            }
            Event::Unreachable(token) => self.on_unreachable(cx, token),
            Event::Resolved { query, address } => self.on_resolved(cx, query, address),
        }
        self.settle(cx);
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, Action>) {
        self.transactions.on_timeout(cx, &mut self.notices);
        let (services, record) = (&self.services, &mut self.record);
        self.location.expire(cx.now, ended(services, cx.now, BindingEnd::Expired), |location, aor| {
            record.clear();
            location.write_record(aor, record);
            services.store(aor, record);
            services.on_change(aor, BindingChange::Ended, None);
        });
        while let Some(due) = self.wheel.expire(cx.now) {
            self.on_timer_c(cx, due);
        }
        if self.gives_up_at.is_some_and(|at| at <= cx.now) {
            self.gives_up_at = None;
            self.give_up_contexts(cx);
        }
        while let Some(query) = self.lookups.expire(cx.now) {
            self.on_resolved(cx, query, None);
        }
        self.settle(cx);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let mut next = self.transactions.next_deadline();
        for (at, reason) in [
            (self.location.next_due(), "a binding ends"),
            (self.wheel.next_due(), "timer C: nobody answers"),
            (self.lookups.next_due(), "a DNS lookup was not answered"),
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

impl<S: Services> Server<S> {
    fn on_unreachable(&mut self, cx: &mut Context<'_, Action>, token: Token) {
        self.transactions.unreachable(cx, token, &mut self.notices);
    }
}

impl<S> core::fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server").field("shard", &self.shard).finish_non_exhaustive()
    }
}

/// True when a response came from where its request went: the same connection, or by UDP the same address, and the same port
/// where the peer fills in `rport` (RFC 3581 §4: then it answers from the port that received). Proxies in `[auth] trusted` answer
/// for each other.
fn is_peer(config: &Config, target: &Flow, source: &Flow, message: &Message<'_>) -> bool {
    if target.transport == source.transport {
        let is_same = match (target.transport.is_stream(), target.connection) {
            (false, _) => {
                let fills_rport = message.via().rport().is_some();
                config.is_same_place(target.remote.ip(), source.remote.ip())
                    && (!fills_rport || target.remote.port() == source.remote.port())
            }
            (true, Some(connection)) => source.connection == Some(connection),
            (true, None) => target.remote == source.remote,
        };
        if is_same {
            return true;
        }
    }
    config.is_trusted(target.remote.ip()) && config.is_trusted(source.remote.ip())
}

/// The part of a shard's seed that keys the matching of transactions.
const MATCH_KEY: u64 = 0;

/// The part of a shard's seed that keys the users of pending requests.
const PENDING_KEY: u64 = 1;

/// Reports bindings that end.
fn ended<S: Services>(services: &S, now: Instant, reason: BindingEnd) -> impl Fn(&[u8], &Binding) {
    move |aor, binding| {
        let (contact, flow) = (binding.uri(), binding.flow);
        services.observe(now, &LogEvent::BindingEnded { aor, contact, flow, reason });
    }
}

/// A key for one purpose.
fn derive(secret: &[u8; 32], purpose: &[u8]) -> [u8; 16] {
    use hmac::{Hmac, KeyInit, Mac};
    let key = secret.as_slice();
    let mac = Hmac::<sha2::Sha256>::new_from_slice(key);
    let mut mac = mac.unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(purpose);
    let mut derived = [0; 16];
    for (to, from) in derived.iter_mut().zip(mac.finalize().into_bytes()) {
        *to = from;
    }
    derived
}

/// Stands for a request and where it came from; on a stream also for when.
pub(crate) fn request_mark(key: &[u8; 16], now: Instant, message: &Message<'_>, flow: &Flow) -> u64 {
    let mut hash = SipHasher13::new_with_key(key);
    // All of it: a request that differs in anything is another one.
    hash.write(message.as_bytes());
    match flow.remote.ip() {
        core::net::IpAddr::V4(v4) => hash.write(&v4.octets()),
        core::net::IpAddr::V6(v6) => hash.write(&v6.octets()),
    }
    hash.write_u16(flow.remote.port());
    // A stream repeats nothing: there the same bytes again are a replay, and their mark is another.
    if flow.transport.is_reliable() {
        hash.write_u64(now.as_nanos());
    }
    hash.finish()
}
