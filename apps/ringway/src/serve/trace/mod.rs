//! Traces: what happens to the requests of a user, for `ringway trace` (docs/decisions/0045-trace.md).
//!
//! Start reading at [`TraceHub::on_message`], which the workers call with every message.

mod user;

use ringway_admin::{TraceEntry, TracePage, TraceRefusal, Traces};
use ringway_linux::Direction;
use ringway_sansio::{Flow, TableSize};
use ringway_server::Decision;
use ringway_sip::{HeaderName, Message, Method, NameAddr};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use user::{CallFilter, CallIdFinder, Calls, Head, TracedUser, fingerprint, text};

/// The running traces.
pub(crate) struct TraceHub {
    is_active: AtomicBool,
    traces: RwLock<Vec<Arc<Trace>>>,
    call_ids: CallIdFinder,
    lost: AtomicU64,
}

/// Trace of one user.
struct Trace {
    user: TracedUser,
    filter: CallFilter,
    state: Mutex<State>,
}

struct State {
    ring: Ring,
    calls: Calls,
    polled: Instant,
    /// True until a reader asks for the entries after one that it has.
    has_begun_only: bool,
    /// True after the end of a reader, until another one polls.
    is_left: bool,
}

impl TraceHub {
    pub(super) fn new() -> Self {
        Self {
            is_active: AtomicBool::new(false),
            traces: RwLock::default(),
            call_ids: CallIdFinder::new(),
            lost: AtomicU64::new(0),
        }
    }

    /// True while a trace runs.
    pub(super) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Relaxed)
    }

    /// True if a received message is a traced user's; it is noted then.
    pub(super) fn follows(&self, message: &Message<'_>, flow: &Flow) -> bool {
        let mut is_traced = false;
        for trace in &*self.running() {
            if trace.may_have_parsed(message) {
                is_traced |= self.note(trace, Direction::Received, flow, message.as_bytes());
            }
        }
        is_traced
    }

    /// Notes a received message that is refused before it is parsed, if it is a traced user's.
    pub(super) fn on_received(&self, flow: &Flow, message: &[u8]) {
        self.judge(Direction::Received, flow, message);
    }

    /// Notes a sent message, if it is a traced user's. The server reports a received one.
    pub(super) fn on_message(&self, direction: Direction, flow: &Flow, message: &[u8]) {
        if self.is_active() && direction == Direction::Sent {
            self.judge(direction, flow, message);
        }
    }

    #[inline(never)]
    fn judge(&self, direction: Direction, flow: &Flow, message: &[u8]) {
        let mut print = None;
        for trace in &*self.running() {
            let mut print = || *print.get_or_insert_with(|| self.call_ids.probable(message).map(fingerprint));
            if trace.may_have(message, &mut print) {
                self.note(trace, direction, flow, message);
            }
        }
    }

    /// Notes a message that is probably a traced user's; true if it is.
    #[cold]
    fn note(&self, trace: &Trace, direction: Direction, flow: &Flow, message: &[u8]) -> bool {
        let is_traced = trace.has(self.call_ids.find(message), message);
        if is_traced {
            self.count_lost(trace.add(|n| message_entry(n, direction, flow, message)));
        }
        is_traced
    }

    /// Notes a decision about a request, if that is a traced user's.
    pub(super) fn on_decision(&self, message: &[u8], decision: &Decision<'_>) {
        let Some(call_id) = self.call_ids.find(message) else { return };
        for trace in &*self.running() {
            if trace.lock().calls.has(call_id) {
                self.count_lost(trace.add(|n| decision_entry(n, message, decision)));
            }
        }
    }

    /// Ends the traces that nobody reads any more.
    pub(super) fn expire(&self, now: Instant) {
        if !self.is_active() {
            return;
        }
        let mut traces = self.traces.write().unwrap_or_else(PoisonError::into_inner);
        traces.retain(|trace| trace.lock().is_read(now));
        self.is_active.store(!traces.is_empty(), Ordering::Relaxed);
    }

    /// Number of running traces, and of the entries that were lost since the start.
    pub(super) fn counts(&self) -> (usize, u64) {
        (self.running().len(), self.lost.load(Ordering::Relaxed))
    }

    fn running(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Trace>>> {
        self.traces.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_lost(&self, lost: u64) {
        if lost > 0 {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }

    /// The trace of a user, which is begun if it does not run.
    fn trace_of(&self, user: &str) -> Result<Arc<Trace>, TraceRefusal> {
        if let Some(trace) = self.running().iter().find(|trace| trace.user.is(user)) {
            return Ok(Arc::clone(trace));
        }
        let traced = TracedUser::parse(user).ok_or(TraceRefusal::BadName)?;
        let mut traces = self.traces.write().unwrap_or_else(PoisonError::into_inner);
        if traces.len() >= TRACES_MAX {
            let left = traces.iter().position(|trace| trace.lock().is_left);
            traces.remove(left.ok_or(TraceRefusal::TooMany)?);
        }
        let (ring, calls) = (Ring::default(), Calls::default());
        let state = State { ring, calls, polled: Instant::now(), has_begun_only: true, is_left: false };
        let (filter, state) = (CallFilter::new(), Mutex::new(state));
        let trace = Arc::new(Trace { user: traced, filter, state });
        traces.push(Arc::clone(&trace));
        self.is_active.store(true, Ordering::Relaxed);
        Ok(trace)
    }
}

impl Traces for TraceHub {
    fn read(&self, user: &str, after: Option<u64>, max: usize) -> Result<TracePage, TraceRefusal> {
        let trace = self.trace_of(user)?;
        let mut state = trace.lock();
        state.polled = Instant::now();
        state.is_left = false;
        state.has_begun_only = after.is_none();
        Ok(after.map_or_else(|| state.ring.end(), |after| state.ring.page(after, max)))
    }

    fn leave(&self, user: &str) {
        if let Some(trace) = self.running().iter().find(|trace| trace.user.is(user)) {
            trace.lock().is_left = true;
        }
    }
}

impl State {
    fn is_read(&self, now: Instant) -> bool {
        let unread_max = if self.is_left || self.has_begun_only { LEFT_MAX } else { UNREAD_MAX };
        now.saturating_duration_since(self.polled) < unread_max
    }
}

impl Trace {
    /// False for nearly all messages of other users. `print` finds the fingerprint of the Call-ID, if there is one.
    fn may_have(&self, message: &[u8], print: &mut impl FnMut() -> Option<u64>) -> bool {
        // A response has the Call-ID of its request, which was learned; a REGISTER names its user.
        let is_response = message.starts_with(b"SIP/");
        (!is_response && self.user.is_mentioned_in(message))
            || (self.filter.is_used()
                && !message.starts_with(b"REGISTER ")
                && print().is_some_and(|print| self.filter.may_have(print)))
    }

    /// The same for one that is parsed: the message is not searched.
    fn may_have_parsed(&self, message: &Message<'_>) -> bool {
        (!message.is_response() && self.user.may_be_in(message))
            || (self.filter.is_used()
                && (message.is_response() || message.method() != Method::Register)
                && self.filter.may_have(fingerprint(message.call_id())))
    }

    /// True for a message of the user, whose Call-ID is then learned, or one with a Call-ID that was.
    fn has(&self, call_id: Option<&[u8]>, message: &[u8]) -> bool {
        if self.user.has(message) {
            if let Some(call_id) = call_id {
                self.lock().calls.learn(call_id, &self.filter);
            }
            return true;
        }
        call_id.is_some_and(|call_id| self.lock().calls.has(call_id))
    }

    /// Adds an entry; returns the number of entries that were lost.
    fn add(&self, entry: impl FnOnce(u64) -> TraceEntry) -> u64 {
        let mut state = self.lock();
        match state.ring.admit(Instant::now()) {
            Some(number) => state.ring.push(entry(number)),
            None => 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn message_entry(n: u64, direction: Direction, flow: &Flow, message: &[u8]) -> TraceEntry {
    let head = Head::of(message);
    let kind = match direction {
        Direction::Received => "received",
        Direction::Sent => "sent",
    };
    let mut entry = TraceEntry {
        flow: format!("{}:{}", flow.transport, flow.remote),
        first_line: text(head.first_line, LINE_BYTES_MAX),
        ..entry_about(n, kind, &head)
    };
    if !head.first_line.starts_with(b"SIP/") {
        let uri =
            |value| NameAddr::parse(value).ok().map(|address| text(address.uri.as_bytes(), LINE_BYTES_MAX));
        for (name, value) in head.fields() {
            match HeaderName::from_bytes(name) {
                HeaderName::From => entry.from = uri(value),
                HeaderName::To => entry.to = uri(value),
                _ => {}
            }
        }
    }
    entry
}

fn decision_entry(n: u64, message: &[u8], decision: &Decision<'_>) -> TraceEntry {
    TraceEntry {
        text: Some(decision.to_string()),
        reason: Some(decision.reason.name().into()),
        ..entry_about(n, "decision", &Head::of(message))
    }
}

/// Entry with the present time and the Call-ID and CSeq of a message.
fn entry_about(n: u64, kind: &'static str, head: &Head<'_>) -> TraceEntry {
    let mut entry = TraceEntry { n, time: now(), kind: kind.into(), ..TraceEntry::default() };
    for (name, value) in head.fields() {
        match HeaderName::from_bytes(name) {
            HeaderName::CallId => entry.call_id = text(value, CALL_ID_BYTES_SHOWN),
            HeaderName::CSeq => entry.cseq = text(value, CSEQ_BYTES_MAX),
            _ => {}
        }
    }
    entry
}

/// The present time as RFC 3339 with milliseconds.
fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// The last entries of a trace. Each has a number; numbers without an entry were lost.
#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<TraceEntry>,
    bytes: usize,
    /// Number of the last entry.
    last: u64,
    second: Option<Instant>,
    in_second: u32,
}

impl Ring {
    /// Takes the number of the next entry; `None`: it is lost, because there were too many in this second.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        self.last += 1;
        if self.second.is_none_or(|second| now.saturating_duration_since(second).as_secs() > 0) {
            self.second = Some(now);
            self.in_second = 0;
        }
        self.in_second += 1;
        (self.in_second <= ENTRIES_PER_SECOND).then_some(self.last)
    }

    /// Adds an entry; returns the number of earlier ones that made room for it.
    fn push(&mut self, entry: TraceEntry) -> u64 {
        self.bytes += bytes_of(&entry);
        self.entries.push_back(entry);
        let mut removed = 0;
        while self.entries.len() > ENTRIES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= bytes_of(&oldest);
            removed += 1;
        }
        removed
    }

    /// No entries, and the number of the last one.
    fn end(&self) -> TracePage {
        TracePage { next: self.last, ..TracePage::default() }
    }

    /// Entries after number `after`. A number that the trace has not reached is one of an earlier trace: it counts as 0.
    fn page(&self, after: u64, max: usize) -> TracePage {
        let after = if after > self.last { 0 } else { after };
        let newer = self.entries.iter().filter(|entry| entry.n > after);
        let entries: Vec<_> = newer.take(max).cloned().collect();
        let is_whole = entries.len() < max;
        let next = if is_whole { self.last } else { entries.last().map_or(after, |last| last.n) };
        let lost = (next - after).saturating_sub(entries.len() as u64);
        TracePage { entries, next, lost }
    }
}

/// Bytes that an entry takes.
fn bytes_of(entry: &TraceEntry) -> usize {
    let TraceEntry { n: _, time, kind: _, flow, first_line, call_id, cseq, from, to, text, reason: _ } =
        entry;
    let texts = [time, flow, first_line, call_id, cseq].into_iter().chain(from).chain(to).chain(text);
    size_of::<TraceEntry>() + texts.map(String::capacity).sum::<usize>()
}

/// The most memory of traces.
pub(crate) const fn size() -> TableSize {
    TableSize::of_bytes("traces", TRACES_MAX, TRACES_MAX * (BYTES_MAX + TRACE_BYTES))
}

/// Full traces, as many as there can be.
#[cfg(test)]
pub(crate) fn filled() -> Box<dyn std::any::Any> {
    let hub = TraceHub::new();
    let flow = Flow::udp(ringway_sansio::ListenerId(0), std::net::SocketAddr::from(([192, 0, 2, 1], 5060)));
    for user in ["a", "b", "c", "d"] {
        let Ok(trace) = hub.trace_of(user) else { break };
        for number in 0..4 * ENTRIES_MAX {
            let call_id = format!("{number:0>512}");
            let text = format!(
                "INVITE sip:{user}@h SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:{user}@h>;tag=1\r\n\
                 To: <sip:{user}@h>\r\nCall-ID: {call_id}\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
            );
            let mut state = trace.lock();
            state.calls.learn(call_id.as_bytes(), &trace.filter);
            state.ring.push(message_entry(number as u64, Direction::Received, &flow, text.as_bytes()));
        }
    }
    Box::new(hub)
}

/// Maximum number of traces at once.
const TRACES_MAX: usize = 4;
/// Bytes of a trace besides its entries: 1,024 Call-IDs of 512 bytes, twice.
const TRACE_BYTES: usize = 1 << 20;
/// Time without a reader after which a trace ends.
const UNREAD_MAX: Duration = Duration::from_secs(60);
/// The same after its reader has ended, since a browser whose connection was closed polls again, and after its first poll.
const LEFT_MAX: Duration = Duration::from_secs(5);
/// Maximum length of a Call-ID in an entry.
const CALL_ID_BYTES_SHOWN: usize = 128;
/// Maximum length of a first line, and of a URI.
const LINE_BYTES_MAX: usize = 256;
/// Maximum length of a CSeq.
const CSEQ_BYTES_MAX: usize = 32;
/// Maximum number of entries.
const ENTRIES_MAX: usize = 2000;
/// Maximum number of their bytes.
const BYTES_MAX: usize = 1 << 20;
/// Maximum number of entries that are made in a second.
const ENTRIES_PER_SECOND: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::ListenerId;
    use ringway_server::{Detail, Reason};
    use ringway_sip::Limits;

    /// Kinds of the entries of a trace.
    fn kinds(hub: &TraceHub) -> Vec<String> {
        let page = hub.read("bob", Some(0), 100).unwrap();
        page.entries.iter().map(|entry| entry.kind.to_string()).collect()
    }

    #[test]
    fn a_received_message_is_judged_when_it_is_parsed_or_refused() {
        let (hub, flow) = (TraceHub::new(), Flow::udp(ListenerId(0), "192.0.2.1:5060".parse().unwrap()));
        hub.read("bob", None, 1).unwrap();
        let text = |user: &str| {
            format!(
                "REGISTER sip:h SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:{user}@h>;tag=1\r\n\
                 To: <sip:{user}@h>\r\nCall-ID: {user}\r\nCSeq: 1 REGISTER\r\nContent-Length: 0\r\n\r\n"
            )
        };
        let (other, own) = (text("alice"), text("bob"));
        for (text, is_traced) in [(&other, false), (&own, true)] {
            let message = Message::parse(text.as_bytes(), &Limits::default()).unwrap();
            assert_eq!(hub.follows(&message, &flow), is_traced);
        }
        assert_eq!(kinds(&hub), ["received"]);
        let malformed = b"INVITE sip:bob@h SIP/2.0\r\nCall-ID: x\r\n\r\n";
        hub.on_received(&flow, malformed);
        hub.on_decision(malformed, &Decision { reason: Reason::Malformed, detail: Detail::None });
        assert_eq!(kinds(&hub), ["received", "received", "decision"]);
    }

    fn fill(ring: &mut Ring, count: u64, bytes: usize, from: Instant) -> u64 {
        let mut removed = 0;
        for number in 0..count {
            let now = from + Duration::from_millis(2 * number);
            if let Some(n) = ring.admit(now) {
                removed +=
                    ring.push(TraceEntry { n, first_line: "x".repeat(bytes), ..TraceEntry::default() });
            }
        }
        removed
    }

    #[test]
    fn old_entries_make_room_and_the_reader_gets_their_number() {
        let (mut ring, now) = (Ring::default(), Instant::now());
        assert_eq!(fill(&mut ring, 2500, 10, now), 500);
        let page = ring.page(0, 5000);
        assert_eq!((page.entries.len(), page.next, page.lost), (2000, 2500, 500));
        let page = ring.page(600, 100);
        assert_eq!((page.entries.len(), page.next, page.lost), (100, 700, 0));
        assert_eq!(ring.page(2500, 100), TracePage { next: 2500, ..TracePage::default() });
        assert_eq!(ring.end(), ring.page(2500, 100));
        assert_eq!(ring.page(9999, 1).entries[0].n, 501, "a number of an earlier trace");
        fill(&mut ring, 2000, 4000, now + Duration::from_secs(60));
        assert!(ring.bytes <= BYTES_MAX && ring.entries.len() < 300);
    }

    #[test]
    fn a_flood_makes_no_more_entries_than_its_second_permits() {
        let (mut ring, now) = (Ring::default(), Instant::now());
        let made = (0..50_000).filter(|_| ring.admit(now).is_some()).count();
        assert_eq!(made, 1000);
        assert_eq!(ring.page(0, 500), TracePage { next: 50_000, lost: 50_000, ..TracePage::default() });
        assert!(ring.admit(now + Duration::from_secs(1)).is_some());
    }
}
