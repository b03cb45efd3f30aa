//! A station with media beside its node: one [`PacedNode`] at a pair of UDP ports.
//!
//! Nothing interrupts and nothing sleeps here: the program polls, and each turn begins with a look at the beat. So a packet
//! leaves at its instant, late by no more than what the turn before took: one frame, or one call of [`PacedStation::run`].
//! What the beat sends was prepared right after the one before had left.

use crate::station::{Beside, Station, Worked};
use crate::wire::Wire;
use crate::{Card, StationCounters};
use alloc::boxed::Box;
use core::net::{SocketAddr, SocketAddrV4};
use core::time::Duration;
use ringway_sansio::{Flow, Instant, ListenerId, Node, Outbox, PacedNode, Token, tick_after};

/// A [`Station`] and, while there is one, a [`PacedNode`] at two of its ports.
pub struct PacedStation<C, N: Node, P> {
    station: Station<C, N>,
    paced: Option<Paced<P>>,
}

/// What was counted of a paced machine since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacedCounters {
    /// Beats kept.
    pub beats: u64,
    /// Of them those that were more than 1 ms late.
    pub beats_late: u64,
    /// Beats left out because the program came back too late.
    pub beats_skipped: u64,
    /// How late the latest beat was.
    pub late_max: Duration,
    /// Datagrams that came to the two ports.
    pub received: u64,
    /// Of them those that were not looked at, because too many came in one beat.
    pub flooded: u64,
    /// Datagrams sent.
    pub sent: u64,
}

/// A machine with all it needs.
struct Paced<P> {
    machine: P,
    /// By [`ListenerId`].
    ports: [u16; 2],
    /// What leaves at the next beat.
    next: Outbox,
    due: Instant,
    /// What leaves at once.
    out: Outbox,
    /// The machine's own deadline is not looked at before.
    timeout_from: Instant,
    /// Datagrams that may still be taken in this beat.
    left: usize,
    /// Where a datagram is changed in place: the ring's room is the card's.
    room: Box<[u8; DATAGRAM_BYTES_MAX]>,
    counters: PacedCounters,
}

impl<C: Card, N: Node, P: PacedNode> PacedStation<C, N, P> {
    /// A station that has no media yet.
    pub const fn new(station: Station<C, N>) -> Self {
        Self { station, paced: None }
    }

    /// Runs `machine` at `ports` from now on; a port's place is its [`ListenerId`], for media RTP and RTCP. One that was
    /// there before ends.
    pub fn start(&mut self, mut machine: P, ports: [u16; 2], now: Instant) {
        let due = now + machine.packet_interval();
        let mut next = Outbox::with_capacity(ARENA_PACKETS, ARENA_BYTES);
        machine.prepare(now, due, &mut next);
        self.paced = Some(Paced {
            machine,
            ports,
            next,
            due,
            out: Outbox::with_capacity(ARENA_PACKETS, ARENA_BYTES),
            timeout_from: now,
            left: DATAGRAMS_PER_BEAT,
            room: Box::new([0; DATAGRAM_BYTES_MAX]),
            counters: PacedCounters::default(),
        });
    }

    /// Ends the machine, and gives it back. What it wants to say last it is asked for by [`PacedStation::command`] before.
    pub fn stop(&mut self) -> Option<(P, PacedCounters)> {
        self.paced.take().map(|paced| (paced.machine, paced.counters))
    }

    /// The task Receive, as [`Station::receive`]; it keeps the beat first.
    pub fn receive(&mut self, now: Instant) -> Worked {
        let Self { station, paced } = self;
        let Some(paced) = paced else { return station.receive(now) };
        paced.keep_beat(station.wire_mut(), now);
        let worked = station.receive_beside(now, paced);
        paced.send(station.wire_mut(), now);
        worked
    }

    /// The task Main, as [`Station::run`], and what is due for the machine beside.
    pub fn run(&mut self, now: Instant) {
        if let Some(paced) = &mut self.paced {
            paced.keep_beat(self.station.wire_mut(), now);
            paced.run_timers(now);
            paced.send(self.station.wire_mut(), now);
        }
        self.station.run(now);
    }

    /// Rings the card's bell, so that what was written goes out. A beat rings it by itself.
    pub fn flush(&mut self) {
        self.station.flush();
    }

    /// Asks something of the machine. False: there is none.
    pub fn command(&mut self, now: Instant, command: P::Command) -> bool {
        let Some(paced) = &mut self.paced else { return false };
        paced.machine.on_command(now, command, &mut paced.out);
        paced.send(self.station.wire_mut(), now);
        true
    }

    /// What the machine has to tell, one at a time.
    pub fn poll_report(&mut self, now: Instant) -> Option<P::Report> {
        self.paced.as_mut()?.machine.poll_report(now)
    }

    /// The machine.
    pub fn machine(&self) -> Option<&P> {
        self.paced.as_ref().map(|paced| &paced.machine)
    }

    /// When the next beat is.
    pub fn next_beat(&self) -> Option<Instant> {
        self.paced.as_ref().map(|paced| paced.due)
    }

    /// What was counted of the machine.
    pub fn paced_counters(&self) -> Option<PacedCounters> {
        self.paced.as_ref().map(|paced| paced.counters)
    }

    /// What was counted of the station.
    pub fn counters(&self) -> StationCounters {
        self.station.counters()
    }

    /// The station.
    pub const fn station(&self) -> &Station<C, N> {
        &self.station
    }

    /// The station, for all but its two tasks, which are ours.
    pub const fn station_mut(&mut self) -> &mut Station<C, N> {
        &mut self.station
    }
}

impl<P: PacedNode> Paced<P> {
    /// Sends what is due, and prepares what comes after it.
    fn keep_beat<C: Card>(&mut self, wire: &mut Wire<C>, now: Instant) {
        if now < self.due {
            return;
        }
        send(&mut self.next, self.ports, wire, &mut self.counters, now);
        wire.card.flush();
        let late = now.since(self.due);
        self.counters.beats += 1;
        self.counters.beats_late += u64::from(late > LATE);
        self.counters.late_max = self.counters.late_max.max(late);
        let (due, skipped) = tick_after(self.due, now, self.machine.packet_interval());
        self.due = due;
        self.counters.beats_skipped += skipped;
        self.left = DATAGRAMS_PER_BEAT;
        self.machine.prepare(now, due, &mut self.next);
    }

    fn run_timers(&mut self, now: Instant) {
        let is_due = self.machine.next_deadline().is_some_and(|deadline| deadline.at <= now);
        if is_due && now >= self.timeout_from {
            self.timeout_from = now + DEADLINE_MIN;
            self.machine.on_timeout(now, &mut self.out);
        }
    }

    /// Sends what is not for a beat.
    fn send<C: Card>(&mut self, wire: &mut Wire<C>, now: Instant) {
        send(&mut self.out, self.ports, wire, &mut self.counters, now);
    }

    fn listener(&self, port: u16) -> Option<ListenerId> {
        let place = self.ports.iter().position(|own| *own == port)?;
        u8::try_from(place).ok().map(ListenerId)
    }
}

impl<P: PacedNode> Beside for Paced<P> {
    fn takes(&self, port: u16) -> bool {
        self.listener(port).is_some()
    }

    fn take(&mut self, now: Instant, from: SocketAddrV4, port: u16, bytes: &[u8]) {
        let Some(listener) = self.listener(port) else { return };
        self.counters.received += 1;
        // What comes beyond that is dropped: a flood must not take the processor from everybody.
        let Some(left) = self.left.checked_sub(1) else {
            self.counters.flooded += 1;
            return;
        };
        self.left = left;
        // One frame holds no more.
        let Some(room) = self.room.get_mut(..bytes.len()) else { return };
        room.copy_from_slice(bytes);
        let flow = Flow::udp(listener, SocketAddr::V4(from));
        self.machine.on_datagram(now, now, flow, room, &mut self.out);
    }
}

fn send<C: Card>(
    out: &mut Outbox,
    ports: [u16; 2],
    wire: &mut Wire<C>,
    counters: &mut PacedCounters,
    now: Instant,
) {
    for (packet, bytes) in out.packets() {
        let Flow { transport, listener, remote, .. } = packet.flow;
        let port = ports.get(usize::from(listener.0));
        if let (false, Some(port), SocketAddr::V4(remote)) = (transport.is_stream(), port, remote) {
            wire.send(now, *port, remote, Token::NONE, bytes);
            counters.sent += 1;
        }
    }
    out.clear();
}

/// The payload of a datagram of one frame, and more.
const DATAGRAM_BYTES_MAX: usize = crate::FRAME_BYTES_MAX;

/// Datagrams taken in one beat: a call has one or two, a flood of 25,000 a second is cut here.
const DATAGRAMS_PER_BEAT: usize = 512;

const ARENA_PACKETS: usize = 16;
const ARENA_BYTES: usize = 16 << 10;

/// How soon a machine whose time was up is called again, so that one that is never content does not take the processor.
const DEADLINE_MIN: Duration = Duration::from_millis(1);

/// How late a beat may be without being counted.
const LATE: Duration = Duration::from_millis(1);
