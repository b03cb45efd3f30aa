//! Media of the calls of one thread: a socket for each side, and a thread that sends and receives their streams.
//!
//! The thread of the generator passes on the start and end of each call's media. Arrival times are those of the kernel, so
//! that neither the sleep of this thread nor its batches are in jitter and delay.

mod statistics;

pub use statistics::MediaStatistics;

use super::locals::may_send;
use super::plan::Plan;
use super::{Shared, exact_timers, now, seed};
use crate::machine;
use crate::sys::large_buffers;
use anyhow::{Context, Result};
use ringway_linux::sys::{SendBatch, StampedBatch, stamp_arrivals};
use ringway_load::{MediaEvent, MediaRefusal, MediaStreams};
use ringway_sansio::{Flow, Instant, ListenerId, Outbox};
use statistics::Delays;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

/// Side of a thread's media: where its generator reports the start and end of its calls' media.
#[derive(Debug)]
pub(crate) struct MediaSide {
    listener: ListenerId,
    events: Sender<(ListenerId, MediaEvent)>,
    /// Address in the SDP.
    pub(crate) address: SocketAddr,
}

impl MediaSide {
    /// Reports an event of a call.
    pub(crate) fn report(&self, event: MediaEvent) {
        // The thread ends before this side only if its sockets failed; its error is that of the run.
        let _ = self.events.send((self.listener, event));
    }
}

/// Streams of both sides of a thread.
pub(crate) struct MediaThread {
    streams: MediaStreams,
    sockets: [UdpSocket; 2],
    is_ipv4: bool,
    events: Receiver<(ListenerId, MediaEvent)>,
    allowed: Vec<IpAddr>,
    out: Outbox,
    delays: Delays,
    send_errors: u64,
}

impl MediaThread {
    /// Opens the sockets of both sides: that of the callers and that of the called users.
    pub(crate) fn open(plan: &Plan, mark: u64) -> Result<([MediaSide; 2], Self)> {
        let open = || -> Result<UdpSocket> {
            let local = plan.local;
            let socket = UdpSocket::bind((local, 0))
                .with_context(|| format!("cannot open a media socket on {local}"))?;
            socket.set_nonblocking(true).context("set a media socket")?;
            large_buffers(&socket);
            stamp_arrivals(socket.as_fd()).context("ask for arrival times")?;
            Ok(socket)
        };
        let sockets = [open()?, open()?];
        let (sender, events) = channel();
        let side = |listener: u8, socket: &UdpSocket| -> Result<MediaSide> {
            let address = socket.local_addr().context("read a media socket's address")?;
            Ok(MediaSide { listener: ListenerId(listener), events: sender.clone(), address })
        };
        let sides = [side(0, &sockets[0])?, side(1, &sockets[1])?];
        let thread = Self {
            streams: MediaStreams::new(&seed()?, mark, now()),
            sockets,
            is_ipv4: plan.local.is_ipv4(),
            events,
            allowed: plan.allowed_hosts.clone(),
            out: Outbox::new(),
            delays: Delays::new(),
            send_errors: 0,
        };
        Ok((sides, thread))
    }

    /// Starts the thread; it ends when both sides are dropped.
    pub(crate) fn start(mut self, index: u32, shared: &Arc<Shared>) -> Result<JoinHandle<Result<()>>> {
        let shared = Arc::clone(shared);
        let builder = thread::Builder::new().name(format!("media {index}"));
        Ok(builder.spawn(move || self.run(&shared))?)
    }

    fn run(&mut self, shared: &Shared) -> Result<()> {
        exact_timers()?;
        let (mut inbound, mut outbound) = (StampedBatch::new(RECEIVE_BATCH), SendBatch::new(SEND_BATCH));
        let (cpu_start, wall_start) = (machine::thread_cpu_ns(), now());
        let mut is_open = true;
        let mut transferred = wall_start;
        loop {
            // Events first: a packet of a new call finds its stream.
            if is_open && !self.take_events() {
                is_open = false;
                self.streams.end_all(now());
            }
            self.receive(&mut inbound)?;
            let mut time = now();
            for _ in 0..SEND_BATCHES {
                let has_more = self.streams.send_due(time, SEND_BATCH, &mut self.out);
                self.send(&mut outbound);
                time = now();
                if !has_more {
                    break;
                }
            }
            self.streams.on_timeout(time);
            let is_done = !is_open && self.streams.is_empty();
            if is_done || time.since(transferred) > TRANSFER_EVERY {
                transferred = time;
                self.transfer(shared, machine::thread_cpu_ns() - cpu_start, time.since(wall_start));
            }
            if is_done {
                return Ok(());
            }
            self.wait(is_open, time);
        }
    }

    /// Handles the events so far. False: the generator has ended.
    fn take_events(&mut self) -> bool {
        loop {
            match self.events.try_recv() {
                Ok((listener, event)) => self.on_event(listener, &event),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn on_event(&mut self, listener: ListenerId, event: &MediaEvent) {
        let remote = match event {
            MediaEvent::Started(start) => Some(start.remote),
            MediaEvent::Play(play) => Some(play.remote),
            MediaEvent::Confirmed(_) | MediaEvent::Ended(_) | MediaEvent::Refused(_) => None,
        };
        let is_permitted =
            |remote: SocketAddr| remote.is_ipv4() == self.is_ipv4 && may_send(remote.ip(), &self.allowed);
        if remote.is_some_and(|remote| !is_permitted(remote)) {
            return self.streams.refuse(MediaRefusal::Address);
        }
        self.streams.on_event(now(), listener, event);
    }

    fn receive(&mut self, inbound: &mut StampedBatch) -> Result<()> {
        for (listener, socket) in (0..).map(ListenerId).zip(&self.sockets) {
            for _ in 0..RECEIVE_BATCHES {
                let count = match inbound.receive(socket.as_fd()) {
                    Ok(count) => count,
                    Err(error)
                        if matches!(
                            error.kind(),
                            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                        ) =>
                    {
                        0
                    }
                    Err(error) => return Err(error).context("receive media"),
                };
                let (now, wall) = (now(), SystemTime::now());
                for index in 0..count {
                    let Some(datagram) = inbound.datagram(index) else { continue };
                    let age = datagram.arrived.and_then(|at| wall.duration_since(at).ok());
                    // If the wall clock was set meanwhile, the age is invalid.
                    let age = age.filter(|&age| age < AGE_MAX).unwrap_or_default();
                    let flow = Flow::udp(listener, Flow::canonical(datagram.from));
                    if let Some(delay) = self.streams.on_datagram(now - age, flow, datagram.bytes) {
                        self.delays.add_delay(delay);
                    }
                }
                if count < RECEIVE_BATCH {
                    break;
                }
            }
        }
        while let Some(report) = self.streams.take_ended() {
            self.delays.add_report(&report);
        }
        Ok(())
    }

    /// Sends the packets of `out`; what the socket does not take is lost, as in a full buffer of a network card.
    fn send(&mut self, outbound: &mut SendBatch) {
        for (listener, socket) in (0..).map(ListenerId).zip(&self.sockets) {
            let mut batch = outbound.begin();
            let packets = self.out.packets().filter(|(packet, _)| packet.flow.listener == listener);
            for (packet, bytes) in packets {
                batch.push(packet.flow.remote, bytes, 0);
            }
            while batch.left() > 0 {
                match batch.send(socket.as_fd()) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(_) => {
                        self.send_errors += 1;
                        batch.skip();
                    }
                }
            }
        }
        self.out.clear();
    }

    fn transfer(&mut self, shared: &Shared, cpu_ns: u64, wall: Duration) {
        while let Some(report) = self.streams.take_ended() {
            self.delays.add_report(&report);
        }
        let mut statistics = shared.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = thread::current().id();
        let share = cpu_ns as f64 / (wall.as_nanos() as f64).max(1.0);
        statistics.set_thread(thread, std::iter::empty(), 0, cpu_ns, share);
        let media = statistics.media.get_or_insert_default();
        media.add(thread, self.streams.counters(), self.send_errors, cpu_ns, &mut self.delays);
    }

    /// Sleeps until the next packet, or, without streams, until an event.
    fn wait(&mut self, is_open: bool, now: Instant) {
        let next = self.streams.next_deadline().map(|deadline| deadline.at);
        match next {
            None if is_open => match self.events.recv_timeout(IDLE_MAX) {
                Ok((listener, event)) => self.on_event(listener, &event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            },
            Some(_) | None => {
                let left = next.map_or(SLEEP_MAX, |at| at.since(now)).min(SLEEP_MAX);
                thread::sleep(left);
            }
        }
    }
}

/// Maximum number of packets that are sent with one system call. They have one time stamp, so that a large batch would be
/// delay.
const SEND_BATCH: usize = 16;
/// Maximum number of batches that are sent before packets are received.
const SEND_BATCHES: usize = 64;
/// Maximum number of packets that are received with one system call.
const RECEIVE_BATCH: usize = 64;
/// Maximum number of batches that are received from a socket before packets are sent.
const RECEIVE_BATCHES: usize = 16;
/// Maximum age of a datagram; a larger one means that the wall clock was set.
const AGE_MAX: Duration = Duration::from_secs(5);
/// Interval of transfers to the shared statistics.
const TRANSFER_EVERY: Duration = Duration::from_millis(200);
/// Longest sleep with streams, for which an event waits.
const SLEEP_MAX: Duration = Duration::from_millis(5);
/// Longest sleep without streams.
const IDLE_MAX: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Flow as Kind, MediaUse, Users};
    use ringway_load::{MediaPlay, MediaStart, Protection, Recording};

    fn plan() -> Plan {
        let users = Users::by_rule("u", 1, 0, 1, "").unwrap();
        let target = "127.0.0.1:5060".parse().unwrap();
        Plan { media: MediaUse::Rtp, ..Plan::new(target, Kind::Call, users.clone(), users) }
    }

    fn started(remote: SocketAddr) -> MediaEvent {
        MediaEvent::Started(Box::new(MediaStart {
            call: 1,
            ssrc: 1,
            is_confirmed: true,
            remote,
            remote_ssrc: None,
            payload_type: 0,
            protection: Protection::None,
        }))
    }

    fn played(remote: SocketAddr) -> MediaEvent {
        let mut recording = Recording::default();
        recording.push(Duration::ZERO, 0, b"recorded").unwrap();
        MediaEvent::Play(Box::new(MediaPlay { call: 2, remote, recording: Arc::new(recording) }))
    }

    #[test]
    fn packets_go_to_permitted_addresses_only() {
        let shared = Arc::new(Shared::new(now(), Duration::from_secs(1)));
        let (sides, thread) = MediaThread::open(&plan(), 1).unwrap();
        let thread = thread.start(0, &shared).unwrap();
        let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
        sides[0].report(started(phone.local_addr().unwrap()));
        sides[1].report(started("192.0.2.1:4000".parse().unwrap()));
        let mut packet = [0; 400];
        let (len, from) = phone.recv_from(&mut packet).unwrap();
        assert_eq!((len, packet[0], from), (172, 0x80, sides[0].address));
        sides[1].report(played("192.0.2.1:4000".parse().unwrap()));
        sides[1].report(played(phone.local_addr().unwrap()));
        let recorded = std::iter::repeat_with(|| phone.recv_from(&mut packet).unwrap())
            .find(|(_, from)| *from == sides[1].address);
        assert_eq!(recorded, Some((8, sides[1].address)));
        drop(sides);
        thread.join().unwrap().unwrap();
        let statistics = shared.statistics.lock().unwrap();
        let media = statistics.media().unwrap();
        assert_eq!((media.streams(), media.silent_streams(), media.played()), (1, 1, 1));
        assert_eq!(media.refused().into_iter().collect::<Vec<_>>(), [("refused_address", 2)]);
        assert!(media.sent() >= 1);
    }
}
