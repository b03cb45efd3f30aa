//! The thread that reads records and nodes, and its state beyond a connection.
//!
//! It has two connections to each master: one waits in XREAD for news, one reads pages, lookups and nodes. One thread delivers
//! both, so that a page is never older than what was delivered from the stream before; [`crate::stream::Position`] holds back what
//! the stream still has from before the page.

mod session;
mod stream;

use crate::connection::Backoff;
use crate::shared::{Part, Seldom, Shared};
use crate::walk::{Fetches, Sweep, Walk};
use crate::{Event, nodes};
use ringway_location::NodeName;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use session::ReadSession;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stream::Streams;

pub(crate) struct Reader {
    state: ReaderState,
    backoff: Backoff,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let seed = shared.settings.seed.rotate_left(32) ^ 0x9E37_79B9_7F4A_7C15;
        let state = ReaderState::new(shared);
        Self { state, backoff: Backoff::new(seed) }
    }

    /// Runs until the store is stopped.
    pub(crate) fn run(&mut self) {
        let shared = Arc::clone(&self.state.shared);
        while !shared.stopped() {
            self.backoff.begin(Instant::now());
            let ended = ReadSession::open(&mut self.state).and_then(|mut session| session.run());
            shared.close_lookups();
            let Err(error) = ended else { return };
            shared.fails(Part::Reader, &error.to_string());
            let until = Instant::now() + self.backoff.pause(Instant::now());
            while !shared.stopped() && Instant::now() < until {
                wait(&shared, &[], until.saturating_duration_since(Instant::now()));
            }
        }
    }
}

/// State of the reader beyond a connection.
struct ReaderState {
    pub(crate) shared: Arc<Shared>,
    pub(crate) streams: Streams,
    has_positions: bool,
    pub(crate) walk: Walk,
    fetches: Fetches,
    sweep: Sweep,
    pub(crate) nodes: nodes::Nodes,
    /// Maximum number of entries of each stream in a reply.
    pub(crate) count: usize,
    /// Number of losses of the store whose records were read again.
    pub(crate) losses: u64,
    clock: (Instant, u64),
    damaged: Seldom,
}

impl ReaderState {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        let walk = if shared.settings.holds_all { Walk::new(now) } else { Walk::none(now) };
        Self {
            shared,
            streams: Streams::new(),
            has_positions: false,
            walk,
            fetches: Fetches::default(),
            sweep: Sweep::new(),
            nodes: nodes::Nodes::default(),
            count: COUNT_MAX,
            losses: 0,
            clock: (now, 0),
            damaged: Seldom::default(),
        }
    }

    fn set_clock(&mut self, store_now_ms: u64) {
        self.clock = (Instant::now(), store_now_ms);
    }

    /// Time of the store, in milliseconds since the epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.1.saturating_add(self.clock.0.elapsed().as_millis() as u64)
    }

    /// This node and its incarnation.
    pub(crate) fn own(&self) -> (NodeName, u64) {
        (self.shared.settings.node, self.shared.settings.incarnation)
    }

    /// Reports reads of all that are complete; `checks` is the number of checks for a loss before the last look for one.
    fn report_walked(&mut self, checks: u64) {
        if let Some((walks, is_loss)) = self.sweep.due(self.walk.next_at().is_some(), checks) {
            self.shared.sink.on_event(Event::Walked { walks: Box::new(walks), is_loss });
        }
    }

    /// Counts what was passed over.
    fn note_damaged(&mut self, count: u64, reason: &str) {
        if count > 0 {
            self.shared.counters.damaged.fetch_add(count, Ordering::Relaxed);
            if self.damaged.is_due() {
                self.shared.sink.on_event(Event::Damaged { reason: reason.to_owned() });
            }
        }
    }

    /// Reads the records of these tags again, if all are held. `is_loss`: the store may have lost some.
    fn walk_again(&mut self, tags: &[usize], is_loss: bool) {
        let walk = self.sweep.begin(tags, is_loss || !self.shared.settings.holds_all);
        self.shared.sink.on_walk(walk);
        let holds_all = self.shared.settings.holds_all;
        let is_behind = self.shared.is_warm.swap(!holds_all, Ordering::AcqRel);
        if holds_all {
            self.walk.add(tags.iter().copied(), Instant::now());
        }
        if is_behind {
            self.shared.sink.on_event(Event::Behind { tags: tags.len() });
        }
    }
}

/// Waits until one of the connections can be read, or the thread is woken; returns the indices of the former.
pub(crate) fn wait(shared: &Shared, connections: &[BorrowedFd<'_>], time: Duration) -> Vec<usize> {
    let mut all = vec![PollFd::new(&shared.reader_wake, PollFlags::IN)];
    all.extend(connections.iter().map(|connection| PollFd::from_borrowed_fd(*connection, PollFlags::IN)));
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    // An interrupted wait is one that found nothing.
    if poll(&mut all, Some(&time)).is_err() {
        return Vec::new();
    }
    let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    if all.first().is_some_and(is_ready) {
        let _ = rustix::io::read(&shared.reader_wake, &mut [0; 8]);
    }
    all.iter().skip(1).enumerate().filter(|(_, fd)| is_ready(fd)).map(|(index, _)| index).collect()
}

/// Maximum number of entries of each stream in a reply.
const COUNT_MAX: usize = 256;
