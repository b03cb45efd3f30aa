//! The life of a media thread: wait for the next beat, send what is prepared, prepare the next; between beats take what
//! arrives.
//!
//! The beats are at t0 + n · beat on the monotonic clock and are never moved by what happens between them. A wait ends
//! at the beat, at the machine's own deadline, at a datagram or at a command; the beat is always looked at first, and a
//! flood of datagrams is taken in small batches, so that no beat waits for more than one of them. Nothing here locks,
//! logs or, once the arenas have their size, allocates.

use super::counts::Counters;
use super::ports::{MediaPorts, RTCP_PORT, RTP_PORT};
use crate::clock::Clock;
use crate::sys::{Epoll, EventFd, Interest, ReadyList, StampedBatch, Timer, monotonic};
use ringway_sansio::{Flow, Instant, ListenerId, Outbox, PacedNode, beat_after};
use rtrb::{Consumer, Producer};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// State that the thread and its handles share.
pub(super) struct Shared {
    pub(super) counters: Counters,
    pub(super) wake: EventFd,
    pub(super) ending: AtomicBool,
}

/// All but the machine.
pub(super) struct Beat<C, R> {
    sockets: [(ListenerId, UdpSocket); 2],
    shared: Arc<Shared>,
    clock: Clock,
    commands: Consumer<C>,
    reports: Producer<R>,
    epoll: Epoll,
    timer: Timer,
}

impl<C, R> Beat<C, R> {
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

    /// Runs until it is to end, or until the system takes epoll away.
    pub(super) fn run<M: PacedNode<Command = C, Report = R>>(&mut self, mut machine: M) -> M {
        // Both clocks run at the same rate, so that their distance is looked at once.
        let offset = self.clock.now() - monotonic();
        let mut batch = StampedBatch::new(DATAGRAMS_AT_ONCE);
        let mut ready = ReadyList::new(READY_MAX);
        let (mut next, mut out) = (arena(), arena());
        let mut left = DATAGRAMS_PER_BEAT;
        // What the timer is set to; once it is due it has to be set anew.
        let mut armed = Instant::default();
        let mut now = self.clock.now();
        let mut due = now + machine.beat();
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
                due = self.after_beat(now, due, machine.beat());
                self.watch_ports(&mut left);
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
            self.tell(&mut machine, now);
            if ending {
                return machine;
            }
        }
    }

    /// Counts a beat that was kept, and says when the next is.
    fn after_beat(&self, now: Instant, due: Instant, beat: Duration) -> Instant {
        let Counters { beats, beats_skipped, beats_late, late_ns_max, .. } = &self.shared.counters;
        let late = now.since(due);
        let late_ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        beats.one();
        late_ns_max.set(late_ns_max.read().max(late_ns));
        if late > LATE {
            beats_late.one();
        }
        let (next, skipped) = beat_after(due, now, beat);
        beats_skipped.add(skipped);
        next
    }

    /// Begins a beat's count of datagrams.
    fn watch_ports(&self, left: &mut usize) {
        if *left == 0 {
            self.set_interest(Interest::Read);
        }
        *left = DATAGRAMS_PER_BEAT;
    }

    fn set_interest(&self, interest: Interest) {
        for (port, socket) in &self.sockets {
            // It fails only for descriptors that are not watched.
            let _ = self.epoll.modify(socket.as_fd(), u64::from(port.0), interest);
        }
    }

    /// Takes a batch from a port, and says how many more datagrams may be taken until the next beat. What comes beyond
    /// that waits in the socket, which drops what it has no room for: a flood must not take the processor from everybody
    /// by way of a thread that runs before all others.
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
                counters.receive_errors.one();
                0
            }
        };
        let (now, wall) = (self.clock.now(), SystemTime::now());
        counters.received.add(count as u64);
        for index in 0..count {
            let Some(datagram) = batch.datagram(index) else { continue };
            if !datagram.is_whole {
                counters.too_long.one();
                continue;
            }
            let age = match datagram.arrived {
                Some(stamp) => wall.duration_since(stamp).unwrap_or_default(),
                None => {
                    counters.unstamped.one();
                    Duration::ZERO
                }
            };
            // Somebody who sets the wall clock meanwhile does not make packets old.
            let arrived = if age < AGE_MAX { now - age } else { now };
            let flow = Flow::udp(*listener, Flow::canonical(datagram.from));
            machine.on_datagram(now, arrived, flow, datagram.bytes, out);
        }
        let left_after = left.saturating_sub(count);
        if left > 0 && left_after == 0 {
            counters.floods.one();
            self.set_interest(Interest::Nothing);
        }
        left_after
    }

    /// Sends at once, without waiting for room: what is late is of no use.
    fn send(&self, out: &mut Outbox) {
        let counters = &self.shared.counters;
        for (packet, bytes) in out.packets() {
            let socket = self.sockets.iter().find(|(id, _)| *id == packet.flow.listener);
            let sent = socket.is_some_and(|(_, socket)| socket.send_to(bytes, packet.flow.remote).is_ok());
            if sent { counters.sent.one() } else { counters.send_errors.one() }
        }
        out.clear();
    }

    fn tell<M: PacedNode<Command = C, Report = R>>(&mut self, machine: &mut M, now: Instant) {
        for _ in 0..REPORTS_PER_TURN {
            let Some(report) = machine.poll_report(now) else { return };
            if self.reports.push(report).is_err() {
                self.shared.counters.reports_dropped.one();
            }
        }
    }
}

fn arena() -> Outbox {
    Outbox::with_capacity(ARENA_PACKETS, ARENA_BYTES)
}

const TIMER: u64 = 1 << 32;
const WAKE: u64 = TIMER + 1;

/// Descriptors that can be ready: two sockets, the timer, the wake.
const READY_MAX: usize = 4;

/// Datagrams taken from a port between two looks at the clock: some 20 µs of work.
const DATAGRAMS_AT_ONCE: usize = 16;

/// Datagrams taken in one beat: a call has one or two, a flood of 25,000 a second is cut here.
const DATAGRAMS_PER_BEAT: usize = 512;

/// Reports fetched in one turn, so that a machine that always has one cannot stop the beat.
const REPORTS_PER_TURN: usize = 16;

const ARENA_PACKETS: usize = 64;
const ARENA_BYTES: usize = 64 << 10;

/// How soon a machine that has just been called is called again, so that one that is never content does not take the
/// processor.
const DEADLINE_MIN: Duration = Duration::from_millis(1);

/// How late a beat may be without being counted.
const LATE: Duration = Duration::from_millis(1);

/// A datagram that seems to have waited longer has only seen the wall clock be set.
const AGE_MAX: Duration = Duration::from_secs(5);
