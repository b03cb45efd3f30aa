//! Loop of a media thread, with its counters and scheduling: at each tick it sends the prepared packets and prepares the next
//! ones; between ticks it receives.
//!
//! The ticks are at t0 + n · interval on the monotonic clock, independent of the work between them. A wait ends at the
//! tick, at the machine's own deadline, at a datagram or at a command; the tick is always checked first, and datagrams
//! are received in small batches, so that a tick waits for at most one of them. The loop does not lock, log or, once the
//! arenas have their size, allocate.

use super::ports::{MediaPorts, RTCP_PORT, RTP_PORT};
use crate::config::Clock;
use crate::counters::Counter;
use crate::sys::{Epoll, EventFd, Interest, ReadyList, StampedBatch, Timer, monotonic};
use ringway_sansio::{Flow, Instant, ListenerId, Outbox, PacedNode, tick_after};
use rtrb::{Consumer, Producer};
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::{Duration, SystemTime};

/// State that the thread and its handles share.
pub(super) struct Shared {
    pub(super) counters: Counters,
    pub(super) wake: EventFd,
    pub(super) ending: AtomicBool,
}

/// Resources of the loop, without the machine.
pub(super) struct TickLoop<C, R> {
    sockets: [(ListenerId, UdpSocket); 2],
    shared: Arc<Shared>,
    clock: Clock,
    commands: Consumer<C>,
    reports: Producer<R>,
    epoll: Epoll,
    timer: Timer,
}

impl<C, R> TickLoop<C, R> {
    pub(super) fn new(
        ports: MediaPorts,
        shared: Arc<Shared>,
        clock: Clock,
        commands: Consumer<C>,
        reports: Producer<R>,
    ) -> io::Result<Self> {
        let (epoll, timer) = (Epoll::new()?, Timer::new()?);
        let sockets = [(RTP_PORT, ports.rtp), (RTCP_PORT, ports.rtcp)];
        for (port, socket) in &sockets {
            epoll.add(socket.as_fd(), u64::from(port.0), Interest::Read)?;
        }
        epoll.add(timer.as_fd(), TIMER, Interest::Read)?;
        epoll.add(shared.wake.as_fd(), WAKE, Interest::Read)?;
        Ok(Self { sockets, shared, clock, commands, reports, epoll, timer })
    }

    /// Runs until it is stopped, or epoll returns an error.
    pub(super) fn run<M: PacedNode<Command = C, Report = R>>(&mut self, mut machine: M) -> M {
        // Both clocks run at the same rate, so their difference is constant.
        let offset = self.clock.now() - monotonic();
        let mut batch = StampedBatch::new(DATAGRAMS_PER_BATCH);
        let mut ready = ReadyList::new(READY_MAX);
        let (mut next, mut out) = (arena(), arena());
        let mut left = DATAGRAMS_PER_TICK;
        // Time to which the timer is set; after it is due it must be set again.
        let mut armed = Instant::default();
        let mut now = self.clock.now();
        let mut due = now + machine.packet_interval();
        machine.prepare(now, due, &mut next);
        loop {
            let wanted = machine.next_deadline().map_or(Instant::FAR, |deadline| deadline.at);
            let until = due.min(wanted.max(now + DEADLINE_MIN));
            if until != armed || armed <= now {
                self.timer.set(Duration::from_nanos(until.as_nanos().saturating_sub(offset.as_nanos())));
                armed = until;
            }
            if self.epoll.wait_long(&mut ready).is_err() {
                return machine;
            }
            now = self.clock.now();
            if now >= due {
                self.send(&mut next);
                due = self.after_tick(now, due, machine.packet_interval());
                self.reset_limit(&mut left);
                now = self.clock.now();
                machine.prepare(now, due, &mut next);
            }
            for index in 0..ready.len() {
                match ready.at(index).map(|ready| ready.token) {
                    Some(WAKE) => self.shared.wake.reset(),
                    Some(TIMER) | None => {}
                    Some(port) => left = self.receive(port, left, &mut batch, &mut machine, &mut out),
                }
            }
            let ending = self.shared.ending.load(Ordering::Acquire);
            while let Ok(command) = self.commands.pop() {
                machine.on_command(self.clock.now(), command, &mut out);
            }
            now = self.clock.now();
            if machine.next_deadline().is_some_and(|deadline| deadline.at <= now) {
                machine.on_timeout(now, &mut out);
            }
            self.send(&mut out);
            self.report(&mut machine, now);
            if ending {
                return machine;
            }
        }
    }

    /// Counts a tick; returns the time of the next one.
    fn after_tick(&self, now: Instant, due: Instant, interval: Duration) -> Instant {
        let Counters { ticks, ticks_skipped, ticks_late, late_ns_max, .. } = &self.shared.counters;
        let late = now.since(due);
        let late_ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        ticks.increment();
        late_ns_max.set(late_ns_max.read().max(late_ns));
        if late > LATE {
            ticks_late.increment();
        }
        let (next, skipped) = tick_after(due, now, interval);
        ticks_skipped.add(skipped);
        next
    }

    /// Resets the limit of received datagrams for the next tick.
    fn reset_limit(&self, left: &mut usize) {
        if *left == 0 {
            self.set_interest(Interest::Read);
        }
        *left = DATAGRAMS_PER_TICK;
    }

    fn set_interest(&self, interest: Interest) {
        for (port, socket) in &self.sockets {
            // It fails only for unwatched descriptors.
            let _ = self.epoll.modify(socket.as_fd(), u64::from(port.0), interest);
        }
    }

    /// Receives a batch from a port; returns how many more datagrams may be received before the next tick. Further ones
    /// remain in the socket's buffer, where they are dropped when it is full: otherwise a flood could use up the processor
    /// through this real-time thread.
    fn receive<M: PacedNode<Command = C, Report = R>>(
        &self,
        port: u64,
        left: usize,
        batch: &mut StampedBatch,
        machine: &mut M,
        out: &mut Outbox,
    ) -> usize {
        let counters = &self.shared.counters;
        let Some((listener, socket)) = self.sockets.iter().find(|(id, _)| u64::from(id.0) == port) else {
            return left;
        };
        let count = match batch.receive(socket.as_fd()) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(_) => {
                counters.receive_errors.increment();
                0
            }
        };
        let (now, wall) = (self.clock.now(), SystemTime::now());
        counters.received.add(count as u64);
        for index in 0..count {
            let Some(datagram) = batch.datagram(index) else { continue };
            if !datagram.is_whole {
                counters.too_long.increment();
                continue;
            }
            let age = match datagram.arrived {
                Some(stamp) => wall.duration_since(stamp).unwrap_or_default(),
                None => {
                    counters.unstamped.increment();
                    Duration::ZERO
                }
            };
            // If the wall clock was set meanwhile, the age is invalid.
            let arrived = if age < AGE_MAX { now - age } else { now };
            let flow = Flow::udp(*listener, Flow::canonical(datagram.from));
            machine.on_datagram(now, arrived, flow, datagram.bytes, out);
        }
        let left_after = left.saturating_sub(count);
        if left > 0 && left_after == 0 {
            counters.floods.increment();
            self.set_interest(Interest::Nothing);
        }
        left_after
    }

    /// Sends without waiting for buffer space, because late packets are useless.
    fn send(&self, out: &mut Outbox) {
        let counters = &self.shared.counters;
        for (packet, bytes) in out.packets() {
            let socket = self.sockets.iter().find(|(id, _)| *id == packet.flow.listener);
            let sent = socket.is_some_and(|(_, socket)| socket.send_to(bytes, packet.flow.remote).is_ok());
            if sent { counters.sent.increment() } else { counters.send_errors.increment() }
        }
        out.clear();
    }

    fn report<M: PacedNode<Command = C, Report = R>>(&mut self, machine: &mut M, now: Instant) {
        for _ in 0..REPORTS_PER_TURN {
            let Some(report) = machine.poll_report(now) else { return };
            if self.reports.push(report).is_err() {
                self.shared.counters.reports_dropped.increment();
            }
        }
    }
}

fn arena() -> Outbox {
    Outbox::with_capacity(ARENA_PACKETS, ARENA_BYTES)
}

const TIMER: u64 = 1 << 32;
const WAKE: u64 = TIMER + 1;

/// Maximum number of events: two sockets, the timer, the wake-up.
const READY_MAX: usize = 4;

/// Maximum number of datagrams of one batch: about 20 µs of work.
const DATAGRAMS_PER_BATCH: usize = 16;

/// Maximum number of datagrams in one tick: a call needs one or two, and a flood of 25,000/s is cut here.
const DATAGRAMS_PER_TICK: usize = 512;

/// Maximum number of reports in one turn, so that a machine that always has one does not delay the ticks.
const REPORTS_PER_TURN: usize = 16;

const ARENA_PACKETS: usize = 64;
const ARENA_BYTES: usize = 64 << 10;

/// Minimum interval between calls, so that a machine with a deadline in the past cannot use up the processor.
const DEADLINE_MIN: Duration = Duration::from_millis(1);

/// Delay above which a tick counts as late.
const LATE: Duration = Duration::from_millis(1);

/// Maximum age of a datagram; a larger one means that the wall clock was set.
const AGE_MAX: Duration = Duration::from_secs(5);

/// Scheduling of a media thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Real-time (`SCHED_FIFO`) with this priority, 1 to 99.
    RealTime(u8),
    /// Larger share of the processor with this nice value, -20 to -1.
    Nice(i8),
    /// Normal scheduling. On a busy machine packets are sent late.
    #[default]
    Normal,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RealTime(priority) => write!(f, "real-time {priority}"),
            Self::Nice(nice) => write!(f, "nice {nice}"),
            Self::Normal => f.write_str("normal"),
        }
    }
}

/// Counters since the start of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaCounts {
    /// Ticks run, each of which sends the prepared packets.
    pub ticks: u64,
    /// Ticks skipped because the thread was not scheduled for too long.
    pub ticks_skipped: u64,
    /// Ticks that were more than a millisecond late.
    pub ticks_late: u64,
    /// Maximum delay of a tick in nanoseconds.
    pub late_ns_max: u64,
    /// Datagrams handed to the kernel.
    pub sent: u64,
    /// Datagrams refused by the kernel.
    pub send_errors: u64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams dropped because they were longer than the receive buffer.
    pub too_long: u64,
    /// Datagrams without the kernel's time stamp.
    pub unstamped: u64,
    /// Failed calls that receive.
    pub receive_errors: u64,
    /// Ticks in which the limit of received datagrams was reached; the rest remained in the sockets' buffers.
    pub floods: u64,
    /// Reports dropped because earlier ones were not read.
    pub reports_dropped: u64,
}

/// Counters while the thread runs: one thread writes, any thread reads.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) ticks: Counter,
    pub(super) ticks_skipped: Counter,
    ticks_late: Counter,
    pub(super) late_ns_max: Counter,
    pub(super) sent: Counter,
    pub(super) send_errors: Counter,
    pub(super) received: Counter,
    pub(super) too_long: Counter,
    pub(super) unstamped: Counter,
    pub(super) receive_errors: Counter,
    pub(super) floods: Counter,
    reports_dropped: Counter,
    /// Kind and value in one byte each.
    priority: AtomicU16,
}

impl Counters {
    pub(super) fn set_priority(&self, priority: Priority) {
        let [kind, value] = match priority {
            Priority::Normal => [0, 0],
            Priority::Nice(nice) => [1, nice.cast_unsigned()],
            Priority::RealTime(priority) => [2, priority],
        };
        self.priority.store(u16::from_be_bytes([kind, value]), Ordering::Release);
    }

    pub(super) fn priority(&self) -> Priority {
        match self.priority.load(Ordering::Acquire).to_be_bytes() {
            [1, nice] => Priority::Nice(nice.cast_signed()),
            [2, priority] => Priority::RealTime(priority),
            _ => Priority::Normal,
        }
    }

    pub(super) fn counts(&self) -> MediaCounts {
        MediaCounts {
            ticks: self.ticks.read(),
            ticks_skipped: self.ticks_skipped.read(),
            ticks_late: self.ticks_late.read(),
            late_ns_max: self.late_ns_max.read(),
            sent: self.sent.read(),
            send_errors: self.send_errors.read(),
            received: self.received.read(),
            too_long: self.too_long.read(),
            unstamped: self.unstamped.read(),
            receive_errors: self.receive_errors.read(),
            floods: self.floods.read(),
            reports_dropped: self.reports_dropped.read(),
        }
    }
}
