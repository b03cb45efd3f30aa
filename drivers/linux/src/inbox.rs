//! How threads reach a worker: one inbox each, and an eventfd that ends its sleep.
//!
//! The eventfd is written only when the worker sleeps. Sleeping is announced before the last look into the inbox, and
//! a sender looks at the announcement after it has put its command there; so one of the two sees the other.

use crate::sys::EventFd;
use ringway_sansio::{ConnectionId, Event, Flow, Instant, Token};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The way to the workers for other threads.
#[derive(Clone)]
pub struct Inboxes {
    list: Arc<[Inbox]>,
}

impl Inboxes {
    pub(crate) fn new(workers: usize) -> io::Result<Self> {
        Ok(Self { list: (0..workers).map(|_| Inbox::new()).collect::<io::Result<_>>()? })
    }

    /// Hands an event, such as the answer to a look-up, to the node of `shard`. False: the worker's inbox is full, and
    /// the event is dropped.
    pub fn deliver(&self, shard: u16, event: Event) -> bool {
        self.list.get(self.owner_of(shard)).is_some_and(|inbox| inbox.push(Command::Event(shard, event), &[]))
    }

    /// Makes every worker look whether packets that were kept back may go.
    pub fn wake(&self) {
        for inbox in self.list.iter() {
            inbox.nudge();
        }
    }

    /// The worker that runs the timers of a shard and delivers what is meant for it.
    pub(crate) fn owner_of(&self, shard: u16) -> usize {
        usize::from(shard) % self.list.len().max(1)
    }

    pub(crate) fn of(&self, worker: usize) -> Option<&Inbox> {
        self.list.get(worker)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

/// What is asked of a worker by another thread.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send bytes of the inbox's arena over a stream that this worker owns or is to dial.
    Stream { flow: Flow, token: Token, bytes: Range<usize> },
    /// A connection of this worker is in use until then at least.
    Keep(ConnectionId, Instant),
    /// Tell a shard.
    Event(u16, Event),
}

/// The commands that came since the last look, and the bytes they carry, in one arena.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    pub(crate) list: Vec<Command>,
    pub(crate) bytes: Vec<u8>,
}

impl Commands {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
    }
}

#[repr(align(128))]
pub(crate) struct Inbox {
    commands: Mutex<Commands>,
    /// There is something to look at.
    pending: AtomicBool,
    /// Until when the worker sleeps, in nanoseconds; 0 while it is awake.
    sleeping_until: AtomicU64,
    event: EventFd,
}

impl Inbox {
    fn new() -> io::Result<Self> {
        Ok(Self {
            commands: Mutex::default(),
            pending: AtomicBool::new(false),
            sleeping_until: AtomicU64::new(0),
            event: EventFd::new()?,
        })
    }

    /// Bytes to a stream of this inbox's worker. False: it is full.
    pub(crate) fn push_stream(&self, flow: Flow, token: Token, bytes: &[u8]) -> bool {
        self.push(Command::Stream { flow, token, bytes: 0..0 }, bytes)
    }

    /// A connection of this inbox's worker is in use. If the inbox is full, it may be closed early.
    pub(crate) fn push_keep(&self, id: ConnectionId, until: Instant) {
        self.push(Command::Keep(id, until), &[]);
    }

    fn push(&self, mut command: Command, bytes: &[u8]) -> bool {
        {
            let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
            if commands.list.len() >= COMMANDS_MAX || commands.bytes.len() + bytes.len() > BYTES_MAX {
                return false;
            }
            let start = commands.bytes.len();
            commands.bytes.extend_from_slice(bytes);
            if let Command::Stream { bytes: place, .. } = &mut command {
                *place = start..start + bytes.len();
            }
            commands.list.push(command);
        }
        self.nudge();
        true
    }

    /// Makes the worker go round once.
    pub(crate) fn nudge(&self) {
        self.pending.store(true, Ordering::SeqCst);
        self.end_sleep();
    }

    /// Ends the worker's sleep if it would last beyond `deadline`.
    pub(crate) fn wake_before(&self, deadline: Instant) {
        if deadline.as_nanos() < self.sleeping_until.load(Ordering::SeqCst) {
            self.end_sleep();
        }
    }

    /// Announces a sleep.
    pub(crate) fn fall_asleep(&self, until: Instant) {
        self.sleeping_until.store(until.as_nanos().max(1), Ordering::SeqCst);
    }

    /// Ends the announcement.
    pub(crate) fn awake(&self) {
        self.sleeping_until.store(0, Ordering::SeqCst);
    }

    /// True when [`Inbox::take`] may find something, or somebody asked for a turn.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::SeqCst)
    }

    /// Exchanges `empty` for what has come. False: nobody has asked for a turn.
    pub(crate) fn take(&self, empty: &mut Commands) -> bool {
        let is_asked = self.pending.swap(false, Ordering::SeqCst);
        if is_asked {
            let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *commands, empty);
        }
        is_asked
    }

    pub(crate) fn event(&self) -> &EventFd {
        &self.event
    }

    /// True between [`Inbox::fall_asleep`] and whatever ends it.
    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.sleeping_until.load(Ordering::SeqCst) != 0
    }

    fn end_sleep(&self) {
        if self.sleeping_until.swap(0, Ordering::SeqCst) != 0 {
            self.event.signal();
        }
    }
}

/// The most commands in one inbox.
const COMMANDS_MAX: usize = 65_536;

/// The most bytes in one inbox.
const BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_out_in_order_with_their_bytes() {
        let inboxes = Inboxes::new(2).unwrap();
        let flow = Flow::dial(Default::default(), "127.0.0.1:1".parse().unwrap());
        let inbox = inboxes.of(1).unwrap();
        assert!(inbox.push_stream(flow, Token(5), b"one") && inbox.push_stream(flow, Token(6), b"three"));
        assert!(
            inboxes.deliver(3, Event::Unreachable(Token(7))),
            "shard 3 of two workers belongs to worker 1"
        );
        let mut taken = Commands::default();
        assert!(inbox.take(&mut taken));
        let seen: Vec<_> = taken
            .list
            .iter()
            .map(|command| match command {
                Command::Stream { token, bytes, .. } => (token.0, &taken.bytes[bytes.clone()]),
                Command::Event(shard, _) => (u64::from(*shard), &b"event"[..]),
                Command::Keep(id, _) => (id.0, &b"keep"[..]),
            })
            .collect();
        assert_eq!(seen, [(5, &b"one"[..]), (6, b"three"), (3, b"event")]);
        assert!(!inbox.is_pending());
    }

    #[test]
    fn a_full_inbox_refuses() {
        let inboxes = Inboxes::new(1).unwrap();
        let event = Event::Resolved { query: 1, address: None };
        assert!((0..COMMANDS_MAX).all(|_| inboxes.deliver(0, event)));
        assert!(!inboxes.deliver(0, event));
    }

    #[test]
    fn only_a_sleep_that_is_too_long_is_ended() {
        let inboxes = Inboxes::new(1).unwrap();
        let inbox = inboxes.of(0).unwrap();
        inbox.fall_asleep(Instant::from_secs(10));
        inbox.wake_before(Instant::from_secs(11));
        assert!(inbox.is_asleep());
        inbox.wake_before(Instant::from_secs(9));
        assert!(!inbox.is_asleep());
    }
}
