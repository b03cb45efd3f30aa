//! Bare loop: sends and receives the packets of a load at the same times, in the same system calls, without SIP.
//!
//! It renders and parses nothing: a packet is a copy of a recorded one, a response is recognised by a letter and its length.
//! No attempt has a state, and no packet is sent twice.

use super::{Kind, Reading};
use anyhow::{Context, Result};
use ringway_lab::load::in_memory::PAUSE;
use ringway_lab::machine;
use ringway_lab::sys::large_buffers;
use ringway_linux::sys::{BATCH_MAX, Epoll, Interest, ReadyList, ReceiveBatch, SendBatch, Wait};
use rustix::thread::set_current_timer_slack;
use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::num::NonZero;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

/// One side: a socket, the messages that it is going to send, and the ends of its pauses.
struct Side {
    socket: UdpSocket,
    queue: Vec<usize>,
    later: VecDeque<Duration>,
    is_ready: bool,
}

/// State of a run; times count from its start.
struct Bare<'a> {
    kind: Kind,
    messages: &'a [Vec<u8>],
    peer: SocketAddrV4,
    caller: Side,
    phone: Side,
    epoll: Epoll,
    ready: ReadyList,
    ended: u64,
}

/// Runs `attempts` at `rate` a second against `peer`, in a thread of its own; `messages` are those of one attempt.
pub(super) fn play(
    kind: Kind,
    rate: f64,
    attempts: u64,
    peer: SocketAddrV4,
    messages: &[Vec<u8>],
) -> Result<Reading> {
    let epoll = Epoll::new().context("create an epoll")?;
    let (caller, phone) = (Side::open(&epoll, 0)?, Side::open(&epoll, 1)?);
    let ready = ReadyList::new(2);
    let mut bare = Bare { kind, messages, peer, caller, phone, epoll, ready, ended: 0 };
    if kind == Kind::Call {
        bare.phone.socket.send_to(b"REGISTER\r\n", peer).context("register")?;
        bare.phone.socket.recv_from(&mut [0; 64]).context("register")?;
    }
    let run = move || {
        set_current_timer_slack(NonZero::new(1)).context("ask for exact timers")?;
        let cpu = machine::thread_cpu_ns();
        let lag = bare.run(rate, attempts)?;
        let cpu_ns = machine::thread_cpu_ns() - cpu;
        Ok(Reading { cpu_ns: cpu_ns as f64, attempts, ended: bare.ended, lag_p99: percentile_99(lag) })
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| anyhow::bail!("the bare loop panicked"))
}

impl Side {
    fn open(epoll: &Epoll, token: u64) -> Result<Self> {
        let socket = UdpSocket::bind((super::HOST, 0)).context("bind a socket")?;
        large_buffers(&socket);
        epoll.add(socket.as_fd(), token, Interest::Read).context("watch a socket")?;
        Ok(Self { socket, queue: Vec::new(), later: VecDeque::new(), is_ready: false })
    }

    /// Takes a pause that has ended.
    fn take_due(&mut self, now: Duration) -> bool {
        let is_due = self.later.front().is_some_and(|&at| at <= now);
        is_due && self.later.pop_front().is_some()
    }

    fn flush(&mut self, batch: &mut SendBatch, messages: &[Vec<u8>], to: SocketAddr) -> Result<()> {
        for queued in self.queue.chunks(BATCH_MAX) {
            let mut sending = batch.begin();
            for bytes in queued.iter().filter_map(|&message| messages.get(message)) {
                sending.push(to, bytes, 0);
            }
            while sending.left() > 0 {
                sending.send(self.socket.as_fd()).context("send")?;
            }
            sending.clear();
        }
        self.queue.clear();
        Ok(())
    }
}

impl Bare<'_> {
    /// Runs to the end; returns the lag of each start.
    fn run(&mut self, rate: f64, attempts: u64) -> Result<Vec<Duration>> {
        let start = Instant::now();
        let planned = |number: u64| START + Duration::from_secs_f64(number as f64 / rate);
        let mut inbound = ReceiveBatch::new(BATCH_MAX);
        let mut outbound = SendBatch::new(BATCH_MAX);
        let mut lags = Vec::with_capacity(attempts as usize);
        let give_up = planned(attempts) + 2 * PAUSE + LATE_MAX;
        loop {
            let now = start.elapsed();
            self.receive(&mut inbound, now)?;
            for _ in 0..BATCH_MAX {
                let next = planned(lags.len() as u64);
                if next > now || lags.len() as u64 == attempts {
                    break;
                }
                lags.push(now.saturating_sub(next));
                self.send(true, 0);
            }
            while self.caller.take_due(now) {
                self.send(true, BYE);
            }
            while self.phone.take_due(now) {
                self.send(false, OK_TO_INVITE);
            }
            self.caller.flush(&mut outbound, self.messages, self.peer.into())?;
            self.phone.flush(&mut outbound, self.messages, self.peer.into())?;
            if self.ended == attempts || now > give_up {
                return Ok(lags);
            }
            let next = (lags.len() as u64 != attempts).then(|| planned(lags.len() as u64));
            self.wait(next, start)?;
        }
    }

    fn receive(&mut self, inbound: &mut ReceiveBatch, now: Duration) -> Result<()> {
        for is_caller in [true, false] {
            let side = if is_caller { &mut self.caller } else { &mut self.phone };
            if !side.is_ready {
                continue;
            }
            let count = inbound.receive(side.socket.as_fd(), Wait::Never).unwrap_or_default();
            for (_, bytes) in (0..count).filter_map(|index| inbound.datagram(index)) {
                self.on_packet(is_caller, bytes, now);
            }
        }
        Ok(())
    }

    fn on_packet(&mut self, is_caller: bool, bytes: &[u8], now: Duration) {
        match (self.kind, is_caller, bytes.first(), bytes.get(8)) {
            (Kind::Register, true, _, _) => self.ended += 1,
            (Kind::Call, true, _, Some(b'2')) if bytes.ends_with(b"0\r\n\r\n") => self.ended += 1,
            (Kind::Call, true, _, Some(b'2')) => {
                self.send(true, ACK);
                self.caller.later.push_back(rounded_up(now + PAUSE));
            }
            (Kind::Call, false, Some(b'I'), _) => {
                self.send(false, RINGING);
                self.phone.later.push_back(rounded_up(now + PAUSE));
            }
            (Kind::Call, false, Some(b'B'), _) => self.send(false, OK_TO_BYE),
            _ => {}
        }
    }

    fn send(&mut self, is_caller: bool, message: usize) {
        let side = if is_caller { &mut self.caller } else { &mut self.phone };
        side.queue.push(message);
    }

    /// Waits for a packet, the next start, or the end of a pause.
    fn wait(&mut self, next: Option<Duration>, start: Instant) -> Result<()> {
        let first = [next, self.caller.later.front().copied(), self.phone.later.front().copied()];
        let next = first.into_iter().flatten().min();
        let left = next.map_or(WAIT_MAX, |at| at.saturating_sub(start.elapsed())).min(WAIT_MAX);
        self.epoll.wait_exact(&mut self.ready, left).context("wait for packets")?;
        let ready = |token| {
            (0..self.ready.len()).filter_map(|index| self.ready.at(index)).any(|one| one.token == token)
        };
        let (caller, phone) = (ready(0), ready(1));
        (self.caller.is_ready, self.phone.is_ready) = (caller, phone);
        Ok(())
    }
}

/// The timers of the generator have ticks of a millisecond.
const fn rounded_up(at: Duration) -> Duration {
    Duration::from_millis(at.as_nanos().div_ceil(1_000_000) as u64)
}

fn percentile_99(mut lags: Vec<Duration>) -> Duration {
    lags.sort_unstable();
    lags.get(lags.len() * 99 / 100).copied().unwrap_or_default()
}

/// Indexes of the messages of a call, which are in the order in which they are sent.
const RINGING: usize = 1;
const OK_TO_INVITE: usize = 2;
const ACK: usize = 3;
const BYE: usize = 4;
const OK_TO_BYE: usize = 5;
/// Time to the first start.
const START: Duration = Duration::from_millis(20);
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Time for late packets.
const LATE_MAX: Duration = Duration::from_millis(200);
