//! Overload control: refuses requests that waited too long in the sockets, those that are worth least first.
//!
//! While the sockets are empty now and then, a message waits for a few others. When they never are, the waiting time grows by what comes in
//! above what can be handled. A request is judged when its turn comes, by its own waiting time: the more it exceeds the target, the more classes
//! are refused. Refusing is cheap, so the waiting time stays where just enough is refused; nothing has to be estimated.

use super::admission::{
    UrgentRates, is_flow_of_many, is_for_emergency, is_in_admitted_call, is_of_many, is_of_ours,
};
use super::held::HeldIndex;
use super::peer_control::Demand;
use super::refusals::{Kind, Refusals, Unparsed};
use super::shedding::Shedder;
use crate::base::{Env, Request, Transactions};
use crate::location::LocationTable;
use crate::report::Report;
use crate::{Aor, Emergency, OverloadConfig};
use alloc::boxed::Box;
use core::hash::BuildHasher;
use core::net::IpAddr;
use core::time::Duration;
use ringway_auth::SeededHash;
use ringway_sansio::{Flow, Instant, Seed, TableSize, Waited, source_of};
use ringway_sip::{HeaderName, Method};

/// Worth of a request under overload, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WorkClass {
    /// Of nobody that is known.
    Rest,
    /// A registration of a user without bindings.
    NewRegistration,
    /// A request of a user, or of a server that the configuration names.
    OfUser,
    /// A registration of a user with bindings.
    Refresh,
    /// [`WorkClass::OfUser`] with credentials: the challenge was paid for already.
    OfUserAgain,
    /// [`WorkClass::Refresh`] with credentials.
    RefreshAgain,
    /// It may belong to a call that was admitted. Whether it does is examined before it is refused.
    InDialog,
}

impl WorkClass {
    /// Waiting time above which the first ones of the class are refused, in target delays; one target delay more, and all are.
    const fn begins_at(self) -> u32 {
        match self {
            Self::Rest => 1,
            Self::NewRegistration => 2,
            Self::OfUser => 3,
            Self::Refresh => 4,
            Self::OfUserAgain => 5,
            Self::RefreshAgain => 6,
            Self::InDialog => 7,
        }
    }
}

/// Treatment of a request that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Admit,
    /// It gets 503.
    Refuse,
    /// It gets no response: answering costs too much, too.
    Drop,
}

/// True for a message that waited longer than the target delay in a queue that is overloaded.
#[inline]
pub(super) fn is_late(now: Instant, waited: Waited<'_>, config: &OverloadConfig) -> bool {
    // The image does not measure how long messages wait.
    if !cfg!(feature = "operator") || !config.enabled {
        return false;
    }
    let stands = waited.queue.note(now, waited.time, config.target_delay);
    stands.is_some_and(|time| now < waited.queue.refuses_until() || time >= STANDING)
}

/// True while requests of the queue of a message are refused.
#[inline]
pub(super) fn refuses_others(now: Instant, waited: Waited<'_>) -> bool {
    cfg!(feature = "operator") && now < waited.queue.refuses_until()
}

/// Time for which the messages of a queue have to wait too long before one is refused: a pause of the machine is no overload.
const STANDING: Duration = Duration::from_millis(100);

/// Time without a refusal after which the overload of a queue is over.
const OVER_AFTER: Duration = Duration::from_secs(1);

/// Overload control of a shard; that of a queue is in [`Queue`](ringway_sansio::Queue).
#[derive(Debug)]
pub(super) struct Overload {
    hash: SeededHash,
    /// Requests of each source in this period; made at the first overload.
    shares: Option<Box<Shares>>,
    refusals: Refusals,
    /// New calls, and the part of them that the driver drops.
    pub(super) shedder: Shedder,
    /// Reduction of the requests of other servers.
    pub(super) demand: Demand,
}

impl Overload {
    /// Memory of the counts of sources.
    pub(super) const fn size() -> TableSize {
        Shares::size()
    }

    pub(super) fn new(seed: &Seed) -> Self {
        Self {
            hash: SeededHash::new(seed),
            shares: None,
            refusals: Refusals::default(),
            shedder: Shedder::new(seed),
            demand: Demand::default(),
        }
    }

    /// Counts a request that is handled while others of its queue are refused.
    pub(super) fn count_admitted(&mut self, now: Instant, method: Method<'_>) {
        // The ACK of a refusal is part of it.
        if method != Method::Ack {
            self.refusals.admitted(now);
        }
    }

    /// Requests of a source in this period, this one included.
    fn share_of(&mut self, now: Instant, source: IpAddr) -> u16 {
        let hash = self.hash.hash_one(source_of(source));
        self.shares.get_or_insert_with(Box::default).count(now, hash)
    }

    /// Counts a request, so that the counts are allocated.
    #[cfg(feature = "operator")]
    pub(super) fn fill(&mut self, now: Instant) {
        self.shares.get_or_insert_with(Box::default).count(now, 1);
    }

    /// Judges a request for which [`is_late`] returned true. `share` are the requests of its source in this period;
    /// requests with the same `call_id` are refused from the same waiting time on.
    fn judge(
        &self,
        now: Instant,
        waited: Waited<'_>,
        config: &OverloadConfig,
        class: WorkClass,
        share: u16,
        call_id: &[u8],
    ) -> Verdict {
        let part = u32::from(self.hash.hash_one(call_id) as u8);
        // In 256ths of a target delay, for a source with few requests; with many it is a quarter.
        let limit = (class.begins_at() * 256 + part) / parts_of(share);
        if waited.time <= config.target_delay * limit / 256 {
            return Verdict::Admit;
        }
        waited.queue.refuse_until(now + OVER_AFTER);
        let is_silent = waited.time > config.max_delay && self.refusals.is_over();
        if is_silent { Verdict::Drop } else { Verdict::Refuse }
    }

    /// Seconds after which the sender of a refused request may try again: spread, so that not all do at once.
    fn retry_after_s(&self, call_id: &[u8]) -> u64 {
        1 + (self.hash.hash_one(call_id) >> 8) % RETRY_AFTER_MAX_S
    }
}

/// True for a source with so many requests in a period that it gives way to others.
const fn is_many(share: u16) -> bool {
    parts_of(share) == 4
}

/// Divisor of the limits of a source with so many requests in a period.
const fn parts_of(share: u16) -> u32 {
    match share {
        0..=4 => 1,
        5..=15 => 2,
        _ => 4,
    }
}

/// Maximum of Retry-After.
const RETRY_AFTER_MAX_S: u64 = 8;

/// Counts of requests by hash of their source, in two rows: a source has the smaller of its two counts, so that it shares both with a flooder
/// only rarely.
#[derive(Debug)]
struct Shares {
    rows: [[u16; Self::SLOTS]; 2],
    ends_at: Instant,
}

impl Default for Shares {
    fn default() -> Self {
        Self { rows: [[0; Self::SLOTS]; 2], ends_at: Instant::default() }
    }
}

impl Shares {
    const fn size() -> TableSize {
        TableSize::of_bytes("requests of sources in overload", 2 * Self::SLOTS, size_of::<Self>())
    }

    const SLOTS: usize = 2_048;
    const PERIOD: Duration = Duration::from_millis(250);

    fn count(&mut self, now: Instant, hash: u64) -> u16 {
        if now >= self.ends_at {
            self.rows = [[0; Self::SLOTS]; 2];
            self.ends_at = now + Self::PERIOD;
        }
        let mut least = u16::MAX;
        for (row, part) in self.rows.iter_mut().zip([hash, hash >> 32]) {
            if let Some(count) = row.get_mut(part as usize % Self::SLOTS) {
                *count = count.saturating_add(1);
                least = least.min(*count);
            }
        }
        least
    }
}

/// True for a late message that is dropped before it is parsed, because refusing takes too much already.
#[cold]
pub(super) fn drops_unparsed(
    env: &mut Env<'_>,
    overload: &mut Overload,
    flow: Flow,
    bytes: &[u8],
    waited: Waited<'_>,
) -> bool {
    let now = env.cx.now;
    if !overload.refusals.is_silent(now) {
        return false;
    }
    // A trunk at which this server is registered is known by the token in its Request-URI.
    let may_be_of_a_trunk = || {
        let line = memchr::memchr(b'\n', bytes).and_then(|end| bytes.get(..end)).unwrap_or_default();
        env.features.registers() && memchr::memmem::find(line, b"line=").is_some()
    };
    if is_of_ours(env.config, &flow)
        || is_flow_of_many(env, &flow)
        || may_be_of_a_trunk()
        || (env.features.emergency() && is_for_emergency(env.config, bytes))
    {
        return false;
    }
    let Some(request) = Unparsed::new_request(bytes) else { return false };
    let share = overload.share_of(now, flow.remote.ip());
    let hash = overload.hash.hash_one((request.call_id, now.as_secs() / SILENT_FOR_S)) as u8;
    if !overload.refusals.drops(Kind::of(request.is_register, is_many(share)), hash) {
        return false;
    }
    waited.queue.refuse_until(now + OVER_AFTER);
    env.received(bytes, &flow);
    env.report_about(bytes, Report::OverloadDropped);
    true
}

/// Seconds after which the requests that are dropped are others: a phone registers with one Call-ID all the time.
const SILENT_FOR_S: u64 = 8;

/// Parts of a shard by which a late request is judged.
pub(super) struct ShardState<'s> {
    pub(super) transactions: &'s Transactions,
    pub(super) table: &'s LocationTable,
    pub(super) urgent: &'s mut UrgentRates,
    /// Requests that wait for data and have no transaction yet.
    pub(super) held: [&'s HeldIndex; 2],
}

/// True for a request that is refused or dropped, because it and others wait too long. [`is_late`] returned true for it.
#[cold]
pub(super) fn refuses_late(
    env: &mut Env<'_>,
    overload: &mut Overload,
    state: ShardState<'_>,
    request: &Request<'_, '_>,
    waited: Waited<'_>,
) -> bool {
    let ShardState { transactions, table, urgent, held } = state;
    // Requests of other nodes were admitted there. A front admits what it can handle itself, which may be more.
    let is_admitted = is_of_ours(env.config, &request.flow) && !env.config.is_of_front(&request.flow);
    if is_admitted || is_emergency(env, urgent, request) {
        return false;
    }
    let is_of_many = is_of_many(env, request);
    if is_of_many && is_health_check(request) {
        return false;
    }
    let class = class_of(env, table, request, is_of_many);
    let now = env.cx.now;
    let share = if is_of_many { 1 } else { overload.share_of(now, request.flow.remote.ip()) };
    if is_many(share) {
        overload.shedder.note_many(now, request.flow.remote.ip());
    }
    let call_id = request.message.call_id();
    let verdict = overload.judge(now, waited, &env.config.overload, class, share, call_id);
    if verdict == Verdict::Admit {
        overload.count_admitted(now, request.method);
        overload.shedder.count_new(env, waited, request, false);
        return false;
    }
    // A request that is under way is answered from its transaction, or waits, and what belongs to an admitted call passes.
    if transactions.is_served(request.message)
        || is_held(transactions, held, request)
        || is_in_admitted_call(env, transactions, request)
    {
        return false;
    }
    // A server that gets no answers takes this one for dead.
    if !is_of_many && class != WorkClass::InDialog {
        overload.refusals.refused(now, Kind::of(request.method == Method::Register, is_many(share)));
    }
    overload.shedder.count_new(env, waited, request, true);
    let is_answered = request.method != Method::Ack
        && (verdict == Verdict::Refuse || is_of_many || request.flow.transport.has_connections());
    env.report(request, if is_answered { Report::OverloadRefused } else { Report::OverloadDropped });
    if is_answered {
        env.reply(request, 503, "Overload", |response| {
            // RFC 7339 §5.10.2: without it for a server, which would send nothing at all for so long.
            if !is_of_many {
                response.header_number(HeaderName::RetryAfter, overload.retry_after_s(call_id));
            }
        });
    }
    true
}

/// True for an OPTIONS that asks for no user: by it a server finds out if another one works.
fn is_health_check(request: &Request<'_, '_>) -> bool {
    request.method == Method::Options && request.uri.user().is_none()
}

/// True for a retransmission of a request that waits for data, and for the CANCEL of one.
fn is_held(transactions: &Transactions, held: [&HeldIndex; 2], request: &Request<'_, '_>) -> bool {
    if held.iter().all(|index| index.is_empty()) {
        return false;
    }
    let key = match request.method {
        Method::Cancel => transactions.key_of_cancelled(request.message),
        _ => transactions.key_of(request.message),
    };
    held.iter().any(|index| index.has(key))
}

/// True for the INVITE of an emergency call, within the rates of its source and of all for them. What follows in its dialog has a live mark.
fn is_emergency(env: &mut Env<'_>, urgent: &mut UrgentRates, request: &Request<'_, '_>) -> bool {
    env.features.emergency()
        && request.method == Method::Invite
        && Emergency::number_of(env.config, &request.uri).is_some()
        && urgent.admit_request(env.counters, env.cx.now, &request.flow)
}

fn class_of(env: &Env<'_>, table: &LocationTable, request: &Request<'_, '_>, is_of_many: bool) -> WorkClass {
    let message = request.message;
    if message.to().tag().is_some() || matches!(request.method, Method::Ack | Method::Cancel) {
        return WorkClass::InDialog;
    }
    let mut aor = Aor::default();
    if request.method == Method::Register {
        let is_read = env.config.read_aor(&message.to().uri, &mut aor);
        return match is_read && table.lookup(aor.as_bytes(), env.cx.now).next().is_some() {
            true if has_credentials(request) => WorkClass::RefreshAgain,
            true => WorkClass::Refresh,
            false => WorkClass::NewRegistration,
        };
    }
    let is_known = is_of_many
        || (env.config.read_aor(&message.from().uri, &mut aor)
            && env.host.is_known(aor.user(), aor.domain()));
    match is_known {
        true if has_credentials(request) => WorkClass::OfUserAgain,
        true => WorkClass::OfUser,
        false => WorkClass::Rest,
    }
}

fn has_credentials(request: &Request<'_, '_>) -> bool {
    [HeaderName::Authorization, HeaderName::ProxyAuthorization]
        .into_iter()
        .any(|name| request.message.has(name))
}
