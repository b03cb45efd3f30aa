//! Inboxes of the workers: a queue of commands and an eventfd for each, and the sockets of listeners and UDP clients that
//! commands add or close.
//!
//! The eventfd is written only while the worker sleeps. The worker announces its sleep before it checks the inbox for
//! the last time, and a sender checks the announcement after it has queued its command; so at least one of them sees
//! the other.

use crate::sys::EventFd;
use ringway_sansio::{ConnectionId, Dialler, Event, Flow, Instant, ListenerId, TableSize, Token, Transport};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

/// Handle to the inboxes of all workers.
#[derive(Clone)]
pub struct Inboxes {
    list: Arc<[Inbox]>,
}

impl Inboxes {
    pub(crate) fn new(workers: usize) -> io::Result<Self> {
        Ok(Self { list: (0..workers).map(|_| Inbox::new()).collect::<io::Result<_>>()? })
    }

    /// Inboxes of no worker.
    pub(crate) fn none() -> Self {
        Self { list: Arc::new([]) }
    }

    /// Queues an event, such as the result of a DNS lookup, for the node of `shard`. False: the worker's inbox is full,
    /// and the event is dropped.
    pub fn deliver(&self, shard: u16, event: Event) -> bool {
        self.list.get(self.owner_of(shard)).is_some_and(|inbox| inbox.push(Command::Event(shard, event), &[]))
    }

    /// Queues an event for the node of any shard at a worker, which need not be the shard's owner: the calling one handles it
    /// in the same turn. False: the inbox is full, and the event is dropped.
    pub fn deliver_at(&self, worker: usize, shard: u16, event: Event) -> bool {
        self.list.get(worker).is_some_and(|inbox| inbox.push(Command::Event(shard, event), &[]))
    }

    /// Makes every worker check its held packets.
    pub fn wake(&self) {
        for inbox in self.list.iter() {
            inbox.nudge();
        }
    }

    /// Worker that runs the timers of a shard and delivers its events.
    pub(crate) fn owner_of(&self, shard: u16) -> usize {
        usize::from(shard) % self.list.len().max(1)
    }

    pub(crate) fn of(&self, worker: usize) -> Option<&Inbox> {
        self.list.get(worker)
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.list.len()
    }
}

impl fmt::Debug for Inboxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inboxes").field("workers", &self.list.len()).finish()
    }
}

/// Command from another thread to a worker.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send bytes of the inbox's arena over a stream that this worker owns or dials.
    Stream { flow: Flow, token: Token, dialler: Dialler, bytes: Range<usize> },
    /// Keep a connection of this worker open until this time at least.
    Keep(ConnectionId, Instant),
    /// Close the connection of a flow, or the one that this worker dialled for it.
    Disconnect(Flow),
    /// Take back a packet that waits for the connection that this worker is dialling for a flow.
    GiveUpDial(Flow, Token),
    /// Continue a connection of this worker after work of its layer on another thread.
    Resume(ConnectionId),
    /// Deliver an event to a shard.
    Event(u16, Event),
}

/// Queued commands and their bytes, in one arena.
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
    /// Not limited: only the program itself changes sockets.
    sockets: Mutex<Vec<SocketChange>>,
    /// True if the worker must run once.
    pending: AtomicBool,
    /// End of the worker's sleep in nanoseconds; 0 while it is awake.
    sleeping_until: AtomicU64,
    event: EventFd,
}

impl Inbox {
    fn new() -> io::Result<Self> {
        Ok(Self {
            commands: Mutex::default(),
            sockets: Mutex::default(),
            pending: AtomicBool::new(false),
            sleeping_until: AtomicU64::new(0),
            event: EventFd::new()?,
        })
    }

    /// Queues bytes for a stream of this inbox's worker. False: the inbox is full.
    pub(crate) fn push_stream(&self, flow: Flow, (token, dialler): (Token, Dialler), bytes: &[u8]) -> bool {
        self.push(Command::Stream { flow, token, dialler, bytes: 0..0 }, bytes)
    }

    /// Queues a request to keep a connection open. If the inbox is full, the connection may be closed early.
    pub(crate) fn push_keep(&self, id: ConnectionId, until: Instant) {
        self.push(Command::Keep(id, until), &[]);
    }

    /// Queues a request to close a connection. False: the inbox is full, and it stays open until a limit closes it.
    pub(crate) fn push_disconnect(&self, flow: Flow) -> bool {
        self.push(Command::Disconnect(flow), &[])
    }

    /// Queues a request to take back a packet that waits for a connection. If the inbox is full, the connection's own time limit ends it.
    pub(crate) fn push_give_up_dial(&self, flow: Flow, token: Token) {
        self.push(Command::GiveUpDial(flow, token), &[]);
    }

    /// Queues the continuation of a connection.
    pub(crate) fn push_resume(&self, id: ConnectionId) {
        self.push(Command::Resume(id), &[]);
    }

    /// Queues a change of the worker's sockets.
    pub(crate) fn change_sockets(&self, change: SocketChange) {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        self.nudge();
    }

    /// Takes the queued changes of sockets.
    pub(crate) fn take_socket_changes(&self) -> Vec<SocketChange> {
        std::mem::take(&mut *self.sockets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Memory of an inbox, and of the commands that its worker has taken from it.
    pub(crate) const fn size() -> TableSize {
        TableSize::of_list("commands to workers", COMMANDS_MAX, size_of::<Command>())
            .with_list(BYTES_MAX, 1)
            .times(2)
    }

    fn push(&self, mut command: Command, bytes: &[u8]) -> bool {
        {
            let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
            if commands.list.len() >= COMMANDS_MAX || commands.bytes.len() + bytes.len() > BYTES_MAX {
                return false;
            }
            let start = commands.bytes.len();
            commands.bytes.extend_from_slice(bytes);
            if let Command::Stream { bytes: range, .. } = &mut command {
                *range = start..start + bytes.len();
            }
            commands.list.push(command);
        }
        self.nudge();
        true
    }

    /// Makes the worker run once.
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

    /// Ends the announcement of a sleep.
    pub(crate) fn awake(&self) {
        self.sleeping_until.store(0, Ordering::SeqCst);
    }

    /// True if [`Inbox::take`] may return commands, or the worker must run.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::SeqCst)
    }

    /// Exchanges `empty` for the queued commands. False: the worker was not requested to run.
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

    /// True between [`Inbox::fall_asleep`] and the end of the sleep.
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

/// Maximum number of commands in one inbox.
const COMMANDS_MAX: usize = 65_536;

/// Maximum number of bytes in one inbox.
const BYTES_MAX: usize = 32 << 20;

/// UDP client of a service, such as the control of media relays, with a socket for each worker.
///
/// The workers call it without a lock on a node. It must not block. Its results go to shards by
/// [`Inboxes::deliver_at`](crate::Inboxes::deliver_at), in the same turn of the calling worker.
pub trait DatagramClient: fmt::Debug + Send + Sync {
    /// Socket that a worker reads. `None`: it has none.
    fn socket(&self, worker: usize) -> Option<BorrowedFd<'_>>;

    /// Handles a datagram of the worker's socket.
    fn on_datagram(&self, worker: usize, now: Instant, from: SocketAddr, bytes: &[u8]);

    /// Performs what is due. An early call has no effect.
    fn on_timeout(&self, worker: usize, now: Instant);

    /// Time of the next necessary call of [`DatagramClient::on_timeout`], by any worker; [`Instant::FAR`] if there is none.
    /// It may become earlier only in calls by a worker, and before the workers begin to read the sockets.
    fn next_due(&self) -> Instant;
}

/// Socket of one worker for one listener.
#[derive(Debug)]
pub(crate) enum ListenSocket {
    Datagram(UdpSocket, Transport),
    Stream(TcpListener, Transport),
}

/// Change of a worker's listeners, or of the clients that it serves.
#[derive(Debug)]
pub(crate) enum SocketChange {
    /// Take the socket of a new listener, and do not read from it yet. The result is sent back.
    Add(ListenerId, ListenSocket, SyncSender<io::Result<()>>),
    /// Begin to read from it.
    Read(ListenerId),
    /// Close one that is not read from: nothing that has arrived is handled.
    Discard(ListenerId, SyncSender<io::Result<()>>),
    /// Handle what has arrived, and close it.
    Close(ListenerId, SyncSender<io::Result<()>>),
    /// Serve a client. The result is sent back.
    Watch(Arc<dyn DatagramClient>, SyncSender<io::Result<()>>),
    /// Serve a client no longer.
    Forget(Arc<dyn DatagramClient>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_in_order_with_their_bytes() {
        let inboxes = Inboxes::new(2).unwrap();
        let flow = Flow::dial(Default::default(), "127.0.0.1:1".parse().unwrap());
        let inbox = inboxes.of(1).unwrap();
        let (first, second) = ((Token(5), Dialler::OWN), (Token(6), Dialler(1)));
        assert!(inbox.push_stream(flow, first, b"one") && inbox.push_stream(flow, second, b"three"));
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
                Command::Keep(id, _) | Command::Resume(id) => (id.0, &b"keep"[..]),
                Command::Disconnect(_) | Command::GiveUpDial(..) => (0, &b"disconnect"[..]),
            })
            .collect();
        assert_eq!(seen, [(5, &b"one"[..]), (6, b"three"), (3, b"event")]);
        assert!(!inbox.is_pending());
    }

    #[test]
    fn a_full_inbox_refuses_commands() {
        let inboxes = Inboxes::new(1).unwrap();
        let event = Event::Resolved { query: 1, servers: Default::default() };
        assert!((0..COMMANDS_MAX).all(|_| inboxes.deliver(0, event.clone())));
        assert!(!inboxes.deliver(0, event));
    }

    #[test]
    fn only_a_too_long_sleep_is_ended() {
        let inboxes = Inboxes::new(1).unwrap();
        let inbox = inboxes.of(0).unwrap();
        inbox.fall_asleep(Instant::from_secs(10));
        inbox.wake_before(Instant::from_secs(11));
        assert!(inbox.is_asleep());
        inbox.wake_before(Instant::from_secs(9));
        assert!(!inbox.is_asleep());
    }
}
