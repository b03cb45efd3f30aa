//! Traces: what happens to the requests of a user, for `ringway trace` (docs/decisions/0045-trace.md).
//!
//! Start reading at [`TraceHub::on_message`], which the workers call with every message.

mod head;
mod ring;
mod user;

use head::{CallIdFinder, Head, text};
use ring::Ring;
use ringway_admin::{TraceEntry, TracePage, TraceRefusal, Traces};
use ringway_linux::Direction;
use ringway_sansio::Flow;
use ringway_server::Decision;
use ringway_sip::{HeaderName, NameAddr};
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};
use user::TracedUser;

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
    state: Mutex<State>,
}

struct State {
    ring: Ring,
    calls: Calls,
    polled: Instant,
}

/// The last Call-IDs of a user's messages.
#[derive(Default)]
struct Calls {
    known: HashSet<Arc<[u8]>>,
    by_age: VecDeque<Arc<[u8]>>,
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

    /// True if a request, which was received before, is a traced user's.
    pub(super) fn follows(&self, message: &[u8]) -> bool {
        let call_id = self.call_ids.find(message);
        call_id.is_some_and(|call_id| self.running().iter().any(|trace| trace.lock().calls.has(call_id)))
    }

    /// Notes a message, if it is a traced user's.
    pub(super) fn on_message(&self, direction: Direction, flow: &Flow, message: &[u8]) {
        if !self.is_active() {
            return;
        }
        let call_id = self.call_ids.find(message);
        for trace in &*self.running() {
            if trace.has(call_id, message) {
                let entry = |n| message_entry(n, direction, flow, message);
                self.count_lost(trace.add(entry));
            }
        }
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

    /// Ends the traces that nobody has read for a minute.
    pub(super) fn expire(&self, now: Instant) {
        if !self.is_active() {
            return;
        }
        let mut traces = self.traces.write().unwrap_or_else(PoisonError::into_inner);
        traces.retain(|trace| now.saturating_duration_since(trace.lock().polled) < UNREAD_MAX);
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
            return Err(TraceRefusal::TooMany);
        }
        let state = State { ring: Ring::default(), calls: Calls::default(), polled: Instant::now() };
        let trace = Arc::new(Trace { user: traced, state: Mutex::new(state) });
        traces.push(Arc::clone(&trace));
        self.is_active.store(true, Ordering::Relaxed);
        Ok(trace)
    }
}

impl Traces for TraceHub {
    fn read(&self, user: &str, after: u64, max: usize) -> Result<TracePage, TraceRefusal> {
        let trace = self.trace_of(user)?;
        let mut state = trace.lock();
        state.polled = Instant::now();
        Ok(state.ring.page(after, max))
    }
}

impl Trace {
    /// True for a message of the user, whose Call-ID is then learned, or one with a Call-ID that was.
    fn has(&self, call_id: Option<&[u8]>, message: &[u8]) -> bool {
        if self.user.has(message) {
            if let Some(call_id) = call_id {
                self.lock().calls.learn(call_id);
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

impl Calls {
    fn has(&self, call_id: &[u8]) -> bool {
        !self.known.is_empty() && self.known.contains(call_id)
    }

    /// Learns a Call-ID; the oldest is forgotten for it. One that is too long is not learned.
    fn learn(&mut self, call_id: &[u8]) {
        if call_id.len() > CALL_ID_BYTES_MAX || self.has(call_id) {
            return;
        }
        if self.by_age.len() >= CALLS_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.known.remove(&oldest);
        }
        let call_id: Arc<[u8]> = call_id.into();
        self.by_age.push_back(Arc::clone(&call_id));
        self.known.insert(call_id);
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

/// Maximum number of traces at once.
const TRACES_MAX: usize = 4;
/// Time without a reader after which a trace ends.
const UNREAD_MAX: Duration = Duration::from_secs(60);
/// Maximum number of Call-IDs of a trace.
const CALLS_MAX: usize = 1024;
/// Maximum length of a Call-ID that is learned.
const CALL_ID_BYTES_MAX: usize = 512;
/// Maximum length of a Call-ID in an entry.
const CALL_ID_BYTES_SHOWN: usize = 128;
/// Maximum length of a first line, and of a URI.
const LINE_BYTES_MAX: usize = 256;
/// Maximum length of a CSeq.
const CSEQ_BYTES_MAX: usize = 32;
