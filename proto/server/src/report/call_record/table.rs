//! Table of the open calls of one partition.

use super::owners::{Owners, oldest};
use super::record::{CallEnd, CallRecord, CallTexts, OpenCall, PASSES_MAX, cut};
use crate::report::{CallName, NameHash, Pass};
use crate::{CallEvent, CallSender, CallStep};
use alloc::collections::VecDeque;
use core::hash::Hash;
use core::time::Duration;
use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};
use ringway_sansio::{Instant, PlantedFault, TableSize, TimerKey, Wheel};
use ringway_sip::{HeaderName, NameAddr, Start};
use ringway_transaction::{Slab, SlabKey};
use smallvec::smallvec;

/// Limits of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Maximum number of open calls.
    pub calls_max: usize,
    /// Maximum number of their bytes.
    pub bytes_max: usize,
    /// Time after the answer without a BYE at which a call counts as ended.
    pub dialog_lifetime: Duration,
}

impl CallLimits {
    /// Memory of a table with these limits.
    pub const fn size(&self) -> TableSize {
        let calls = self.calls_max;
        Slab::<OpenCall>::size("calls that are followed", calls)
            .with_bytes(self.bytes_max as u64)
            .with_map(calls * PASSES_MAX, size_of::<(u64, SlabKey)>())
            .with_map(calls, size_of::<((u64, u64, u32, u64), SlabKey)>())
            .with_map(calls, size_of::<((u64, u64, u64), SlabKey)>())
            .with_list(2 * calls, 2 * size_of::<SlabKey>())
            .with_bytes(Wheel::<SlabKey>::bytes_of(calls))
            .with_map(RECENT_MAX, RECENT_BYTES)
    }
}

ringway_sansio::counters! {
    /// Counters of a table of calls; values only increase.
    pub struct CallCounters {
        /// Calls begun, as recorded.
        records_begun,
        /// Calls ended, as recorded.
        records_ended,
        /// Calls that are not followed to their end, or not at all, because the table of calls was full.
        records_dropped,
        /// Those of them that one owner had above its share of the table.
        records_over_share,
        /// INVITEs with the Call-ID and the From tag of an open call that are not followed: too many.
        records_passes_ignored,
        /// Retransmitted INVITEs of calls that had ended.
        records_repeated,
    }
}

/// Open calls, each from its INVITE to its end. Every call that begins ends once.
///
/// A call is named by its Call-ID, the caller's tag, and the CSeq number and Request-URI of its INVITE. Several tables can share the calls; see [`CallName::partition`].
#[derive(Debug)]
pub struct CallTable {
    limits: CallLimits,
    calls: Slab<OpenCall>,
    /// By the Vias of its passes. The names are keyed hashes.
    by_via: KeysByVia,
    /// By Call-ID, From tag, CSeq number and Request-URI: the call that began last.
    by_name: KeysByName,
    /// Answered calls by Call-ID, From tag and To tag.
    by_dialog: HashMap<(u64, u64, u64), SlabKey, NameHash>,
    ends: Wheel<SlabKey>,
    /// Order in which the calls of strangers began, then that of all others; ended ones are removed later.
    strangers: VecDeque<SlabKey>,
    others: VecDeque<SlabKey>,
    owners: Owners,
    recent: RecentPasses,
    bytes: usize,
    counters: CallCounters,
}

type KeysByVia = HashMap<u64, SlabKey, NameHash>;
type KeysByName = HashMap<(u64, u64, u32, u64), SlabKey, NameHash>;

/// Open call in a listing.
#[derive(Clone, Copy, Debug)]
pub struct OngoingCall<'a> {
    /// Call-ID and URIs.
    pub texts: &'a CallTexts,
    /// Time of the INVITE.
    pub begun: Instant,
    /// Time of the first provisional response of a target.
    pub ringing: Option<Instant>,
    /// Time of the answer.
    pub answered: Option<Instant>,
}

impl CallTable {
    /// Creates an empty table.
    pub fn new(limits: CallLimits, now: Instant) -> Self {
        Self {
            limits,
            calls: Slab::default(),
            by_via: HashMap::default(),
            by_name: HashMap::default(),
            by_dialog: HashMap::default(),
            ends: Wheel::new(now),
            strangers: VecDeque::new(),
            others: VecDeque::new(),
            owners: Owners::new(limits.calls_max),
            recent: RecentPasses::default(),
            bytes: 0,
            counters: CallCounters::default(),
        }
    }

    /// Changes the lifetime of the calls that are answered from now on.
    pub const fn set_dialog_lifetime(&mut self, lifetime: Duration) {
        self.limits.dialog_lifetime = lifetime;
    }

    /// Handles a step of the call `name`; passes the records of calls that end to `each`.
    pub fn on_step(
        &mut self,
        now: Instant,
        name: &CallName,
        event: &CallEvent<'_>,
        mut each: impl FnMut(CallRecord),
    ) {
        match event.step {
            CallStep::Begun => self.begin(now, name, event, &mut each),
            CallStep::Bye => {
                if let Some(key) = self.call_of_bye(name, event.sender) {
                    self.end(now, key, CallEnd::Bye, &mut each);
                }
            }
            CallStep::ByeRefused(_) => {
                let key = self.call_of_bye(name, event.sender);
                if let Some(call) = key.and_then(|key| self.calls.get_mut(key)) {
                    call.bye_refused = Some(now);
                }
            }
            CallStep::Failed(status) => self.on_failure(now, name, status, &mut each),
            CallStep::Over => self.on_failure(now, name, 0, &mut each),
            CallStep::Answered(status) => self.on_answer(now, name, status, event),
            CallStep::Ringing(_) | CallStep::Diverted(_) | CallStep::Cancelled | CallStep::TimedOut => {
                self.note(now, name, event.step);
            }
            CallStep::Refused(_) | CallStep::Forwarded => {}
        }
    }

    /// Ends the calls whose time has passed.
    pub fn expire(&mut self, now: Instant, mut each: impl FnMut(CallRecord)) {
        while let Some(key) = self.ends.expire(now) {
            if let Some(call) = self.calls.get_mut(key) {
                call.timer = TimerKey::NONE;
                match call.bye_refused {
                    Some(at) => self.end(at, key, CallEnd::ByeRefused, &mut each),
                    None => self.end(now, key, CallEnd::Unknown, &mut each),
                }
            }
        }
    }

    /// Ends up to `max` calls, because the server stops; returns the number of those that are left.
    pub fn stop(&mut self, now: Instant, max: usize, mut each: impl FnMut(CallRecord)) -> usize {
        let left = self.calls.len().saturating_sub(max);
        while self.calls.len() > left
            && let Some(key) = self.others.pop_front().or_else(|| self.strangers.pop_front())
        {
            self.end(now, key, CallEnd::Stopped, &mut each);
        }
        left
    }

    /// Number of open calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// True without open calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Bytes of the open calls.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counters.
    pub const fn counters(&self) -> &CallCounters {
        &self.counters
    }

    /// Open calls in up to `count` slots from slot `from`; returns the next slot, `None` at the end.
    pub fn calls(&self, from: u32, count: u32, mut each: impl FnMut(OngoingCall<'_>)) -> Option<u32> {
        for slot in from..from.saturating_add(count) {
            if let Some(call) = self.calls.at(slot)? {
                let OpenCall { texts, begun, ringing, answered, .. } = call;
                each(OngoingCall { texts, begun: *begun, ringing: *ringing, answered: *answered });
            }
        }
        Some(from.saturating_add(count))
    }

    fn begin(
        &mut self,
        now: Instant,
        name: &CallName,
        event: &CallEvent<'_>,
        each: &mut impl FnMut(CallRecord),
    ) {
        let (Some(invite), Some(flow)) = (event.parsed, event.flow) else { return };
        let Start::Request { uri, .. } = *invite.start() else { return };
        if name.to != 0 {
            return;
        }
        if self.recent.contains(now, name.pass()) {
            self.counters.records_repeated += 1;
            return;
        }
        if self.is_pass_of_open(name) {
            return;
        }
        let call = OpenCall {
            name: *name,
            passes: smallvec![name.pass()],
            shares_via: false,
            texts: CallTexts::of(invite, uri.as_bytes(), event.user.unwrap_or_default()),
            sender: event.sender,
            source: flow.remote,
            begun: now,
            ringing: None,
            answered: None,
            bye_refused: None,
            status: 0,
            is_cancelled: false,
            is_timed_out: false,
            diverted: None,
            target: None,
            timer: TimerKey::NONE,
        };
        if !self.make_room(now, &call, each) {
            self.counters.records_dropped += 1;
            return;
        }
        self.counters.records_begun += 1;
        self.bytes += call.size();
        let sender = call.sender;
        let key = self.calls.insert(call);
        let timer = self.ends.arm(now + UNANSWERED_MAX, key);
        if let Some(call) = self.calls.get_mut(key) {
            call.timer = timer;
        }
        self.add_via(name, key);
        self.by_name.insert((name.call, name.from, name.cseq, name.uri), key);
        self.order_of(sender).push_back(key);
        self.owners.add(name.owner, key);
    }

    /// True for a further transaction of the INVITE of an open call, which is noted: one that this server sent to itself, or a copy with the same
    /// Request-URI. With another one it is a call of its own, and so is what this call could hide: a copy after its answer, or above the limit.
    fn is_pass_of_open(&mut self, name: &CallName) -> bool {
        let is_spiral = name.before != 0;
        let before = self.by_via.get(&name.before).filter(|_| is_spiral).copied();
        let before = before.filter(|key| self.calls.get(*key).is_some_and(|call| !call.shares_via));
        let same = || self.by_name.get(&(name.call, name.from, name.cseq, name.uri)).copied();
        let Some(key) = before.or_else(same) else { return false };
        let Some(call) = self.calls.get_mut(key).filter(|call| call.answered.is_none()) else { return false };
        if call.has_pass(name.pass()) {
            return true;
        }
        if call.passes.len() < PASSES_MAX {
            call.passes.push(name.pass());
            self.add_via(name, key);
            return true;
        }
        // The pass before a spiral has the end of the call.
        self.counters.records_passes_ignored += u64::from(is_spiral);
        is_spiral
    }

    /// Notes the Via of a pass. An answered call that has it needs it no more.
    fn add_via(&mut self, name: &CallName, key: SlabKey) {
        match self.by_via.entry(name.via) {
            Entry::Vacant(entry) => drop(entry.insert(key)),
            Entry::Occupied(mut entry) => match self.calls.get_mut(*entry.get()) {
                Some(other) if other.answered.is_none() => other.shares_via = true,
                other => {
                    other.into_iter().for_each(|other| other.passes.retain(|pass| pass.via != name.via));
                    entry.insert(key);
                }
            },
        }
    }

    /// Displaces calls for a new one. False: there is no room.
    fn make_room(&mut self, now: Instant, new: &OpenCall, each: &mut impl FnMut(CallRecord)) -> bool {
        self.forget_ended();
        while self.calls.len() >= self.limits.calls_max
            || self.bytes + new.size() + TARGET_BYTES_MAX > self.limits.bytes_max
        {
            let Some(displaced) = self.displaced_by(new) else { return false };
            self.counters.records_dropped += 1;
            self.end(now, displaced, CallEnd::Dropped, each);
        }
        true
    }

    /// Call that a new one displaces: the oldest of its own owner, if that has its share of the table; otherwise of a stranger; of
    /// the owner that is most above its share; of all. That of a stranger displaces strangers' only.
    fn displaced_by(&mut self, new: &OpenCall) -> Option<SlabKey> {
        let calls = &self.calls;
        let is_open = |key: SlabKey| calls.get(key).is_some();
        if self.owners.has_share(new.name.owner) {
            self.counters.records_over_share += 1;
            return self.owners.oldest(new.name.owner, is_open);
        }
        if let Some(oldest) = oldest(&mut self.strangers, is_open) {
            return Some(oldest);
        }
        match new.sender {
            CallSender::Stranger => None,
            CallSender::Proven | CallSender::Believed => {
                let of_largest = self.owners.largest().and_then(|owner| self.owners.oldest(owner, is_open));
                self.counters.records_over_share += u64::from(of_largest.is_some());
                of_largest.or_else(|| oldest(&mut self.others, is_open))
            }
        }
    }

    fn note(&mut self, now: Instant, name: &CallName, step: CallStep) {
        let Some((_, call)) = call_of_pass(&self.by_via, &self.by_name, &mut self.calls, name) else {
            return;
        };
        match step {
            CallStep::Ringing(_) if call.answered.is_none() => call.ringing = call.ringing.or(Some(now)),
            CallStep::Diverted(reason) => call.diverted = Some(reason),
            CallStep::Cancelled => call.is_cancelled = true,
            CallStep::TimedOut => call.is_timed_out = true,
            CallStep::Ringing(_)
            | CallStep::Begun
            | CallStep::Refused(_)
            | CallStep::Forwarded
            | CallStep::Answered(_)
            | CallStep::Failed(_)
            | CallStep::Over
            | CallStep::Bye
            | CallStep::ByeRefused(_) => {}
        }
    }

    fn on_answer(&mut self, now: Instant, name: &CallName, status: u16, event: &CallEvent<'_>) {
        let lifetime = self.limits.dialog_lifetime;
        let Some((key, call)) = call_of_pass(&self.by_via, &self.by_name, &mut self.calls, name) else {
            return;
        };
        if call.answered.is_some() {
            return;
        }
        (call.answered, call.status, call.name.to) = (Some(now), status, name.to);
        // A later call with the names of this one does not take its BYE.
        self.by_dialog.entry((name.call, name.from, name.to)).or_insert(key);
        let contact = event.response.and_then(|response| response.values(HeaderName::Contact).next());
        let contact = contact.and_then(|contact| NameAddr::parse(contact).ok());
        if let Some(contact) = contact {
            let uri = cut(contact.uri.as_bytes());
            self.bytes += uri.len();
            call.target = Some(uri.into());
        }
        self.ends.cancel(call.timer);
        call.timer = self.ends.arm(now + lifetime, key);
    }

    /// Ends a transaction of a call; the call ends with the last one.
    fn on_failure(&mut self, now: Instant, name: &CallName, status: u16, each: &mut impl FnMut(CallRecord)) {
        let Some((key, call)) = call_of_pass(&self.by_via, &self.by_name, &mut self.calls, name) else {
            return;
        };
        call.passes.retain(|pass| *pass != name.pass());
        remove_if(&mut self.by_via, &name.via, key);
        // A caller that cancelled gets 487 without a step of its own.
        let status = if status == 0 && call.is_cancelled { 487 } else { status };
        if call.answered.is_none() {
            call.status = status;
        }
        let end = call.failure(status);
        let is_kept = call.is_cancelled && PlantedFault::RecordKept.is_planted();
        let is_over = call.passes.is_empty() && call.answered.is_none() && !is_kept;
        self.recent.note(now, name.pass());
        if is_over {
            self.end(now, key, end, each);
        }
    }

    /// Answered call that a BYE is between the two sides of. A stranger's is of none.
    fn call_of_bye(&self, name: &CallName, sender: CallSender) -> Option<SlabKey> {
        match sender {
            CallSender::Stranger => return None,
            CallSender::Proven | CallSender::Believed => {}
        }
        let is_it =
            |key: &SlabKey| self.calls.get(*key).is_some_and(|call| call.is_between((name.from, name.to)));
        let sides = [(name.from, name.to), (name.to, name.from)];
        sides
            .into_iter()
            .find_map(|(from, to)| self.by_dialog.get(&(name.call, from, to)).copied().filter(is_it))
    }

    fn end(&mut self, now: Instant, key: SlabKey, end: CallEnd, each: &mut impl FnMut(CallRecord)) {
        let Some(call) = self.calls.remove(key) else { return };
        self.bytes = self.bytes.saturating_sub(call.size());
        self.ends.cancel(call.timer);
        let CallName { call: id, from, to, cseq, uri, owner, .. } = call.name;
        let calls = &self.calls;
        self.owners.remove(owner, |key| calls.get(key).is_some());
        call.passes.iter().for_each(|pass| remove_if(&mut self.by_via, &pass.via, key));
        remove_if(&mut self.by_name, &(id, from, cseq, uri), key);
        remove_if(&mut self.by_dialog, &(id, from, to), key);
        self.counters.records_ended += 1;
        each(call.into_record(now, end));
    }

    const fn order_of(&mut self, sender: CallSender) -> &mut VecDeque<SlabKey> {
        match sender {
            CallSender::Stranger => &mut self.strangers,
            CallSender::Proven | CallSender::Believed => &mut self.others,
        }
    }

    /// Removes ended calls from the orders, once they are most of them.
    fn forget_ended(&mut self) {
        if self.strangers.len() + self.others.len() > 2 * self.calls.len() + ENDED_MIN {
            let calls = &self.calls;
            self.strangers.retain(|key| calls.get(*key).is_some());
            self.others.retain(|key| calls.get(*key).is_some());
        }
    }
}

/// Removes a name, unless it is that of another call by now.
fn remove_if<N: Copy + Eq + Hash>(keys: &mut HashMap<N, SlabKey, NameHash>, name: &N, key: SlabKey) {
    if let Entry::Occupied(entry) = keys.entry(*name)
        && *entry.get() == key
    {
        entry.remove();
    }
}

/// Open call that a transaction is part of. It borrows three fields only, as its callers change the others.
fn call_of_pass<'c>(
    by_via: &KeysByVia,
    by_name: &KeysByName,
    calls: &'c mut Slab<OpenCall>,
    name: &CallName,
) -> Option<(SlabKey, &'c mut OpenCall)> {
    let has_pass = |key: &SlabKey| calls.get(*key).is_some_and(|call| call.has_pass(name.pass()));
    let by_via = by_via.get(&name.via).copied().filter(has_pass);
    // Another call had its Via first.
    let by_name = || by_name.get(&(name.call, name.from, name.cseq, name.uri)).copied().filter(has_pass);
    let key = by_via.or_else(by_name)?;
    Some((key, calls.get_mut(key)?))
}

/// Longest time without a final response: an hour of ringing, and the time for the targets that follow.
const UNANSWERED_MAX: Duration = Duration::from_secs(4200);
/// Room that every call needs for the Contact of its answer.
const TARGET_BYTES_MAX: usize = CallTexts::BYTES_MAX;
/// Ended calls that may always be in the orders.
const ENDED_MIN: usize = 256;

/// Transactions of INVITEs that ended a short time ago. A refusal without a transaction is repeated for a retransmitted
/// INVITE, which is not a new call.
#[derive(Debug, Default)]
pub(super) struct RecentPasses {
    order: VecDeque<(Instant, Pass)>,
    passes: HashSet<Pass, NameHash>,
}

impl RecentPasses {
    pub(super) fn note(&mut self, now: Instant, pass: Pass) {
        self.forget_old(now);
        if self.order.len() >= RECENT_MAX
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.passes.remove(&oldest);
        }
        if self.passes.insert(pass) {
            self.order.push_back((now, pass));
        }
    }

    pub(super) fn contains(&mut self, now: Instant, pass: Pass) -> bool {
        self.forget_old(now);
        self.passes.contains(&pass)
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(&(since, pass)) = self.order.front()
            && now.since(since) >= REPEATED_FOR
        {
            self.order.pop_front();
            self.passes.remove(&pass);
        }
    }
}

/// 64·T1, the time for which an INVITE is retransmitted.
const REPEATED_FOR: Duration = Duration::from_secs(32);
/// Maximum number of remembered transactions.
const RECENT_MAX: usize = 4096;
/// Bytes of a pass in the table of recent ones, and in their order.
const RECENT_BYTES: usize = 64;
