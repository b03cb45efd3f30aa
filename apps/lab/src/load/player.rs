//! One side of the load on its sockets, and the loop of a thread.

use super::media::MediaSide;
use super::plan::may_send;
use super::{Action, Generator, Shared, exact_timers, now};
use crate::machine;
use crate::sys::{Inbound, Outbound, Wait};
use crate::wire::large_buffers;
use anyhow::{Context as _, Result};
use ringway_load::Report;
use ringway_sansio::{Context, Flow, Instant, ListenerId, Node, Outbox, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A generator with its sockets.
pub(crate) struct Player {
    pub(crate) generator: Option<Generator>,
    /// Media of its calls.
    pub(crate) media: Option<MediaSide>,
    sockets: Vec<UdpSocket>,
    /// True for each socket that has a datagram.
    ready: Vec<bool>,
    queues: Vec<Outbound>,
}

impl Player {
    /// Opens the sockets of one side.
    pub(crate) fn open(plan: &super::Plan) -> Result<Self> {
        let mut sockets = Vec::new();
        for number in 0..u32::from(plan.sources) * u32::from(plan.sockets) {
            let local = Ipv4Addr::from_bits(plan.local.to_bits() + number % u32::from(plan.sources));
            let socket =
                UdpSocket::bind((local, 0)).with_context(|| format!("cannot open a socket on {local}"))?;
            large_buffers(&socket)?;
            sockets.push(socket);
        }
        let queues = sockets.iter().map(|_| Outbound::new()).collect();
        let ready = vec![true; sockets.len()];
        Ok(Self { generator: None, media: None, sockets, ready, queues })
    }

    /// Addresses of the sockets.
    pub(crate) fn locals(&self) -> Result<Vec<SocketAddr>> {
        self.sockets.iter().map(|socket| socket.local_addr().context("read a socket's address")).collect()
    }

    /// Moves the packets of `out` to the queues of their sockets. Returns the number of packets that must not be sent.
    fn queue(&mut self, out: &mut Outbox, allowed: &[IpAddr]) -> u64 {
        let mut refused = 0;
        for (packet, bytes) in out.packets() {
            let queue = self.queues.get_mut(usize::from(packet.flow.listener.0));
            match (queue, packet.flow.remote) {
                (Some(queue), SocketAddr::V4(to)) if may_send(to.ip().to_owned().into(), allowed) => {
                    queue.push(Some(to), bytes);
                }
                _ => refused += 1,
            }
        }
        out.clear();
        refused
    }

    fn flush(&mut self) -> Result<()> {
        for (queue, socket) in self.queues.iter_mut().zip(&self.sockets) {
            if !queue.is_empty() {
                queue.flush(socket.as_fd()).context("send")?;
            }
        }
        Ok(())
    }
}

/// State of a thread's loop.
struct Stage<'a> {
    shared: &'a Shared,
    allowed: &'a [IpAddr],
    inbound: Inbound,
    out: Outbox,
    actions: Vec<Action>,
    /// Reports of the callers since the last transfer to [`Shared`].
    reports: Vec<Report>,
    refused: u64,
}

/// Runs the players until the first one has no attempt left, or the run is stopped. The first one is the caller, whose
/// reports count.
pub(crate) fn play(players: &mut [Player], shared: &Shared, allowed: &[IpAddr]) -> Result<()> {
    exact_timers()?;
    let mut stage = Stage {
        shared,
        allowed,
        inbound: Inbound::new(),
        out: Outbox::new(),
        actions: Vec::new(),
        reports: Vec::new(),
        refused: 0,
    };
    let cpu_start = machine::thread_cpu_ns();
    let wall_start = now();
    let mut drained_at = None;
    loop {
        let now = now();
        let is_stopped = shared.is_stopped.load(Ordering::Relaxed);
        for (index, player) in players.iter_mut().enumerate() {
            stage.turn(player, index == 0, now, is_stopped)?;
        }
        let is_done =
            players.first().and_then(|player| player.generator.as_ref()).is_none_or(Generator::is_done);
        let cpu_ns = machine::thread_cpu_ns() - cpu_start;
        stage.transfer(players, cpu_ns, now.since(wall_start), is_done);
        if is_done {
            // Late responses get their ACK.
            let until = *drained_at.get_or_insert(now + DRAIN);
            if now >= until || players.len() == 1 {
                return Ok(());
            }
        }
        wait(players, now)?;
    }
}

impl Stage<'_> {
    /// Receives, runs and sends for one player.
    fn turn(&mut self, player: &mut Player, is_caller: bool, now: Instant, is_stopped: bool) -> Result<()> {
        let Some(mut generator) = player.generator.take() else { return Ok(()) };
        for (index, socket) in player.sockets.iter().enumerate() {
            if !player.ready.get(index).is_some_and(|is_ready| *is_ready) {
                continue;
            }
            let count = match self.inbound.receive(socket.as_fd(), crate::sys::BATCH, Wait::Never) {
                Ok(count) => count,
                // An ICMP error of an earlier packet.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => 0,
                Err(error) => return Err(error).context("receive"),
            };
            for number in 0..count {
                let from = SocketAddr::V4(self.inbound.sender(number));
                let flow = Flow::udp(ListenerId(index as u8), from);
                let received = Received { flow, bytes: self.inbound.bytes(number) };
                generator.on_message(&mut Context::new(now, &mut self.out, &mut self.actions), received);
            }
        }
        let mut cx = Context::new(now, &mut self.out, &mut self.actions);
        if is_stopped && is_caller {
            generator.abort(&mut cx);
        }
        if generator.next_deadline().is_some_and(|deadline| deadline.at <= now) {
            generator.on_timeout(&mut cx);
        }
        player.generator = Some(generator);
        self.refused += player.queue(&mut self.out, self.allowed);
        player.flush()?;
        for action in self.actions.drain(..) {
            match action {
                Action::Ended(report) if is_caller => self.reports.push(report),
                Action::Ended(_) => {}
                Action::Media(event) => {
                    if let Some(media) = &player.media {
                        media.report(event);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds reports and counters to the shared statistics.
    fn transfer(&mut self, players: &[Player], cpu_ns: u64, wall: Duration, is_done: bool) {
        if self.reports.len() < REPORTS_MIN && !is_done && wall.subsec_millis() % 100 > 5 {
            return;
        }
        let mut statistics = self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        self.reports.drain(..).for_each(|report| statistics.add(&report));
        let counters = players.iter().filter_map(|player| player.generator.as_ref()).map(Generator::counters);
        let open = players.first().and_then(|player| player.generator.as_ref()).map_or(0, Generator::open);
        statistics.set_thread(std::thread::current().id(), counters, open, cpu_ns, wall, self.refused);
    }
}

/// Waits for a datagram or the next deadline, and notes the sockets with a datagram.
fn wait(players: &mut [Player], now: Instant) -> Result<()> {
    let deadlines = players.iter().filter_map(|player| player.generator.as_ref()?.next_deadline());
    let next = deadlines.map(|deadline| deadline.at).min();
    let left = next.map_or(WAIT_MAX, |at| at.since(now)).min(WAIT_MAX);
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
    let (mut entries, mut ready) = (Vec::new(), Vec::new());
    for player in players {
        entries.extend(player.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
        ready.extend(player.ready.iter_mut());
    }
    match poll(&mut entries, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error).context("wait for datagrams"),
    }
    for (ready, entry) in ready.into_iter().zip(&entries) {
        *ready = !entry.revents().is_empty();
    }
    Ok(())
}

/// Longest sleep, so that a stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Time for late responses after the last attempt.
const DRAIN: Duration = Duration::from_millis(200);
/// Number of reports that are transferred at once.
const REPORTS_MIN: usize = 256;
