//! A station that runs a [`PacedNode`] at a pair of UDP ports beside its node.
//!
//! There are no interrupts: the program polls, and each poll first checks whether a tick is due. A packet is therefore
//! late by at most the duration of the previous poll: one frame, or one call of [`PacedStation::run`]. The packets of a
//! tick are prepared right after the previous tick.

use crate::station::{DatagramSink, Station, Worked};
use crate::wire::Wire;
use crate::{Card, StationCounters};
use alloc::boxed::Box;
use core::net::{SocketAddr, SocketAddrV4};
use core::time::Duration;
use ringway_sansio::{Flow, Instant, ListenerId, Node, Outbox, PacedNode, Token, tick_after};

/// A [`Station`] with an optional [`PacedNode`] at two of its ports.
pub struct PacedStation<C, N: Node, P> {
    station: Station<C, N>,
    paced: Option<Paced<P>>,
}

/// Counters of a paced node since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacedCounters {
    /// Ticks run.
    pub ticks: u64,
    /// Ticks of these that were more than 1 ms late.
    pub ticks_late: u64,
    /// Ticks skipped because the program polled too late.
    pub ticks_skipped: u64,
    /// Maximum delay of a tick.
    pub late_max: Duration,
    /// Datagrams received on the two ports.
    pub received: u64,
    /// Datagrams of these that were dropped because too many arrived in one tick.
    pub flooded: u64,
    /// Datagrams sent.
    pub sent: u64,
}

/// The paced node with its buffers and timers.
struct Paced<P> {
    machine: P,
    /// By [`ListenerId`].
    ports: [u16; 2],
    /// Packets of the next tick.
    next: Outbox,
    due: Instant,
    /// Packets that are sent at once.
    out: Outbox,
    /// Earliest time of the next timeout call; see [`DEADLINE_MIN`].
    timeout_from: Instant,
    /// Datagrams that are still accepted in this tick.
    left: usize,
    /// Buffer for a received datagram: the node changes it in place, and the ring's buffer is read-only.
    room: Box<[u8; DATAGRAM_BYTES_MAX]>,
    counters: PacedCounters,
}

impl<C: Card, N: Node, P: PacedNode> PacedStation<C, N, P> {
    /// Creates a station without a paced node.
    pub const fn new(station: Station<C, N>) -> Self {
        Self { station, paced: None }
    }

    /// Runs `machine` at `ports`. The index of a port is its [`ListenerId`]; for media the ports are RTP and RTCP.
    /// Replaces a running machine.
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
            left: DATAGRAMS_PER_TICK,
            room: Box::new([0; DATAGRAM_BYTES_MAX]),
            counters: PacedCounters::default(),
        });
    }

    /// Stops the machine and returns it. Final packets, such as an RTCP BYE, are requested by [`PacedStation::command`]
    /// before.
    pub fn stop(&mut self) -> Option<(P, PacedCounters)> {
        self.paced.take().map(|paced| (paced.machine, paced.counters))
    }

    /// Runs a due tick, then the task Receive like [`Station::receive`].
    pub fn receive(&mut self, now: Instant) -> Worked {
        let Self { station, paced } = self;
        let Some(paced) = paced else { return station.receive(now) };
        paced.run_due_tick(station.wire_mut(), now);
        let worked = station.receive_with(now, paced);
        paced.send(station.wire_mut(), now);
        worked
    }

    /// Runs due ticks and timers of the paced node, then the task Main like [`Station::run`].
    pub fn run(&mut self, now: Instant) {
        if let Some(paced) = &mut self.paced {
            paced.run_due_tick(self.station.wire_mut(), now);
            paced.run_timers(now);
            paced.send(self.station.wire_mut(), now);
        }
        self.station.run(now);
    }

    /// Notifies the card of written frames. A tick does so too.
    pub fn flush(&mut self) {
        self.station.flush();
    }

    /// Passes a command to the paced node. False: there is none.
    pub fn command(&mut self, now: Instant, command: P::Command) -> bool {
        let Some(paced) = &mut self.paced else { return false };
        paced.machine.on_command(now, command, &mut paced.out);
        paced.send(self.station.wire_mut(), now);
        true
    }

    /// Next report of the paced node.
    pub fn poll_report(&mut self, now: Instant) -> Option<P::Report> {
        self.paced.as_mut()?.machine.poll_report(now)
    }

    /// The paced node.
    pub fn machine(&self) -> Option<&P> {
        self.paced.as_ref().map(|paced| &paced.machine)
    }

    /// Time of the next tick.
    pub fn next_tick(&self) -> Option<Instant> {
        self.paced.as_ref().map(|paced| paced.due)
    }

    /// Counters of the paced node.
    pub fn paced_counters(&self) -> Option<PacedCounters> {
        self.paced.as_ref().map(|paced| paced.counters)
    }

    /// Counters of the station.
    pub fn counters(&self) -> StationCounters {
        self.station.counters()
    }

    /// The station.
    pub const fn station(&self) -> &Station<C, N> {
        &self.station
    }

    /// The station. [`PacedStation`] itself calls [`Station::receive`] and [`Station::run`].
    pub const fn station_mut(&mut self) -> &mut Station<C, N> {
        &mut self.station
    }
}

impl<P: PacedNode> Paced<P> {
    /// Sends the prepared packets if the tick is due, and prepares the next ones.
    fn run_due_tick<C: Card>(&mut self, wire: &mut Wire<C>, now: Instant) {
        if now < self.due {
            return;
        }
        send(&mut self.next, self.ports, wire, &mut self.counters, now);
        wire.card.flush();
        let late = now.since(self.due);
        self.counters.ticks += 1;
        self.counters.ticks_late += u64::from(late > LATE);
        self.counters.late_max = self.counters.late_max.max(late);
        let (due, skipped) = tick_after(self.due, now, self.machine.packet_interval());
        self.due = due;
        self.counters.ticks_skipped += skipped;
        self.left = DATAGRAMS_PER_TICK;
        self.machine.prepare(now, due, &mut self.next);
    }

    fn run_timers(&mut self, now: Instant) {
        let is_due = self.machine.next_deadline().is_some_and(|deadline| deadline.at <= now);
        if is_due && now >= self.timeout_from {
            self.timeout_from = now + DEADLINE_MIN;
            self.machine.on_timeout(now, &mut self.out);
        }
    }

    /// Sends the packets that do not belong to a tick.
    fn send<C: Card>(&mut self, wire: &mut Wire<C>, now: Instant) {
        send(&mut self.out, self.ports, wire, &mut self.counters, now);
    }

    fn listener(&self, port: u16) -> Option<ListenerId> {
        let index = self.ports.iter().position(|own| *own == port)?;
        u8::try_from(index).ok().map(ListenerId)
    }
}

impl<P: PacedNode> DatagramSink for Paced<P> {
    fn takes(&self, port: u16) -> bool {
        self.listener(port).is_some()
    }

    fn take(&mut self, now: Instant, from: SocketAddrV4, port: u16, bytes: &[u8]) {
        let Some(listener) = self.listener(port) else { return };
        self.counters.received += 1;
        // Excess datagrams are dropped, so that a flood does not starve the other tasks.
        let Some(left) = self.left.checked_sub(1) else {
            self.counters.flooded += 1;
            return;
        };
        self.left = left;
        // A frame's payload always fits.
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

/// Maximum payload of a received datagram, with some reserve.
const DATAGRAM_BYTES_MAX: usize = crate::FRAME_BYTES_MAX;

/// Maximum number of datagrams in one tick: a call needs one or two, and a flood of 25,000/s is cut here.
const DATAGRAMS_PER_TICK: usize = 512;

const ARENA_PACKETS: usize = 16;
const ARENA_BYTES: usize = 16 << 10;

/// Minimum interval between timeouts, so that a machine with a deadline in the past cannot use up the CPU.
const DEADLINE_MIN: Duration = Duration::from_millis(1);

/// Delay above which a tick counts as late.
const LATE: Duration = Duration::from_millis(1);
