//! Floors: the cost of the same messages in the kernel alone; and threads that only sleep until each tick, on the same
//! processors and with the same priority as calls: the best timing that a program can have on the machine.
//!
//! A server that reads only the first letter of a message and looks for the end of its first line: it answers a REGISTER or an
//! INVITE with its own headers, or relays a call between two phones. It runs as a separate process, like all measured servers,
//! receives and sends up to 32 datagrams in a system call, and prints `ready` with its address. The blocking kinds are for
//! ordinary rates: one message in each system call.

mod blocking;
mod peer;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::str::FromStr;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};

use crate::machine::{GENERATOR_CPU, SERVER_CPU, clock_ns, pin_to};
use crate::sys;
use crate::sys::{Inbound, Outbound, Wait, large_buffers};
pub use peer::Peer;
use peer::Relay;

/// Maximum number of datagrams in one system call.
const FLOOR_BATCH: usize = 32;

/// Treatment of messages by the floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Sends each REGISTER back as its 200 and each INVITE as its 404; an ACK gets no answer.
    Echo,
    /// Relays datagrams between the caller and the phone that registered, and answers an INVITE with a 100.
    Relay,
    /// The same without the 100.
    RelayStateless,
    /// Is the [`Peer`] of a load generator.
    Peer,
    /// Sends each REGISTER of a connection back as its 200.
    Stream,
    /// Sends each REGISTER back as its 200 with blocking recvfrom and sendto.
    BlockingEcho,
    /// The same with a 401 before, if the REGISTER has no credentials.
    BlockingChallenge,
    /// Relays datagrams between the caller and the phone that registered, with blocking recvfrom and sendto, and answers an
    /// INVITE with a 100.
    BlockingRelay,
    /// The same without the 100.
    BlockingRelayStateless,
    /// Sends each REGISTER back as its 200 with blocking read and write.
    BlockingStream,
    /// Relays the bytes of the caller's connection and the phone's with blocking read and write, and answers an INVITE with a
    /// 100.
    BlockingStreamRelay,
    /// Sends each datagram back, some after a request to another server.
    Asking,
}

impl Kind {
    /// All kinds with their names on a command line.
    const NAMES: [(Self, &'static str); 12] = [
        (Self::Echo, "echo"),
        (Self::Relay, "relay"),
        (Self::RelayStateless, "relay-stateless"),
        (Self::Peer, "peer"),
        (Self::Stream, "stream"),
        (Self::BlockingEcho, "blocking-echo"),
        (Self::BlockingChallenge, "blocking-challenge"),
        (Self::BlockingRelay, "blocking-relay"),
        (Self::BlockingRelayStateless, "blocking-relay-stateless"),
        (Self::BlockingStream, "blocking-stream"),
        (Self::BlockingStreamRelay, "blocking-stream-relay"),
        (Self::Asking, "asking"),
    ];

    /// Name on a command line.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(kind, _)| *kind).ok_or_else(|| anyhow!("unknown floor {text:?}"))
    }
}

/// Runs until the parent ends it.
///
/// # Errors
/// An error of the sockets.
pub fn serve(kind: Kind) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("ask to end with the parent")?;
    match kind {
        Kind::Echo => answer_datagrams(&bound_socket()?, answer),
        Kind::Relay | Kind::RelayStateless => {
            let mut relay = Relay::new(kind == Kind::Relay);
            answer_datagrams(&bound_socket()?, |bytes, sender, out| relay.receive(bytes, sender, out))
        }
        Kind::Peer => play_peer(&bound_socket()?),
        Kind::Stream => answer_streams(&bound_listener()?),
        Kind::BlockingEcho => blocking::answer(&bound_socket()?, blocking::ok),
        Kind::BlockingChallenge => blocking::answer(&bound_socket()?, blocking::ok_with_credentials),
        Kind::BlockingRelay => blocking::relay(&bound_socket()?, true),
        Kind::BlockingRelayStateless => blocking::relay(&bound_socket()?, false),
        Kind::BlockingStream => blocking::answer_streams(&bound_listener()?),
        Kind::BlockingStreamRelay => blocking::relay_streams(&bound_listener()?),
        Kind::Asking => peer::serve(&bound_socket()?),
    }
}

fn bound_socket() -> Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind the floor's socket")?;
    large_buffers(&socket);
    ready("udp", socket.local_addr().context("read the floor's port")?);
    Ok(socket)
}

fn bound_listener() -> Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("bind the floor's socket")?;
    ready("tcp", listener.local_addr().context("read the floor's port")?);
    Ok(listener)
}

fn ready(transport: &str, address: SocketAddr) {
    println!("ready {transport}:{address}");
}

fn answer_datagrams(
    socket: &UdpSocket,
    mut receive: impl FnMut(&[u8], SocketAddrV4, &mut Outbound),
) -> Result<()> {
    let mut inbound = Inbound::new();
    let mut outbound = Outbound::new();
    loop {
        let count = inbound
            .receive(socket.as_fd(), FLOOR_BATCH, Wait::ForOne)
            .context("receive on the floor's socket")?;
        for index in 0..count {
            receive(inbound.bytes(index), inbound.sender(index), &mut outbound);
        }
        outbound.flush(socket.as_fd()).context("send from the floor's socket")?;
    }
}

/// Answers a datagram by its first letter.
fn answer(bytes: &[u8], sender: SocketAddrV4, out: &mut Outbound) {
    match bytes.first() {
        Some(b'R') => out.push_with(Some(sender), |arena| write_answer(bytes, b"SIP/2.0 200 OK", arena)),
        Some(b'I') => {
            out.push_with(Some(sender), |arena| write_answer(bytes, b"SIP/2.0 404 Not Found", arena))
        }
        _ => {}
    }
}

/// Appends a message with `line` in place of its first line.
fn write_answer(bytes: &[u8], line: &[u8], out: &mut Vec<u8>) {
    let end = memchr::memchr(b'\r', bytes).unwrap_or(bytes.len());
    out.extend_from_slice(line);
    out.extend_from_slice(bytes.get(end..).unwrap_or_default());
}

fn play_peer(socket: &UdpSocket) -> Result<()> {
    let SocketAddr::V4(own) = socket.local_addr().context("read the peer's port")? else {
        bail!("the peer's address is not IPv4");
    };
    let mut peer = Peer::new(own);
    let (mut inbound, mut outbound) = (Inbound::new(), Outbound::new());
    loop {
        let count = inbound.receive(socket.as_fd(), FLOOR_BATCH, Wait::ForOne).context("receive")?;
        for index in 0..count {
            peer.receive(inbound.bytes(index), inbound.sender(index), |to, bytes| {
                outbound.push(Some(to), bytes);
            });
        }
        // A phone may have closed its port.
        let _ = outbound.flush(socket.as_fd());
    }
}

/// Replaces `events` by those that an epoll has next; none after a signal.
fn wait(poll: &OwnedFd, events: &mut Vec<epoll::Event>) -> Result<()> {
    events.clear();
    match epoll::wait(poll, spare_capacity(events), None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("wait on the floor's sockets"),
    }
}

fn answer_streams(listener: &TcpListener) -> Result<()> {
    const LISTENER: u64 = u64::MAX;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).context("create an epoll")?;
    epoll::add(&poll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)
        .context("watch the listener")?;
    let mut streams: HashMap<u64, TcpStream> = HashMap::new();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
    let mut room = vec![0; 65_536];
    let mut answers = Vec::new();
    let mut accepted = 0;
    loop {
        wait(&poll, &mut events)?;
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                let (stream, _) = listener.accept().context("accept on the floor's socket")?;
                stream.set_nodelay(true).context("set a connection")?;
                epoll::add(&poll, &stream, epoll::EventData::new_u64(accepted), epoll::EventFlags::IN)
                    .context("watch a connection")?;
                streams.insert(accepted, stream);
                accepted += 1;
                continue;
            }
            let Some(stream) = streams.get_mut(&number) else { continue };
            // The generator closes the connection when it is done.
            let count = stream.read(&mut room).unwrap_or_default();
            blocking::write_answers(room.get(..count).unwrap_or_default(), blocking::OK, &mut answers);
            if count == 0 || stream.write_all(&answers).is_err() {
                streams.remove(&number);
            }
        }
    }
}

/// Sleeping threads, one on each processor that the calls use.
pub struct SleepFloor(Vec<JoinHandle<Result<Lateness>>>);

/// Lateness of the ticks; each value is that of the worst thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Maximum time from one tick to the next in milliseconds.
    pub delta_max: f64,
    /// 99.9th percentile of that time.
    pub delta_p999: f64,
    /// Maximum delay of a tick in milliseconds.
    pub late_ms: f64,
}

impl SleepFloor {
    /// Starts the threads for `seconds`.
    pub fn start(seconds: f64) -> Self {
        let count = (seconds * 1000.0 / TICK_MS) as u64;
        let thread = |cpu| {
            std::thread::spawn(move || {
                pin_to(cpu)?;
                // Without the permission a phone has no real-time priority either, and prints that.
                let _ = sys::set_real_time(sys::REAL_TIME_PRIORITY);
                sleep_to_ticks(count)
            })
        };
        Self([SERVER_CPU, GENERATOR_CPU].into_iter().map(thread).collect())
    }

    /// Waits for the end of the threads.
    pub fn end(self) -> Result<Lateness> {
        let mut all = Lateness::default();
        for thread in self.0 {
            let one = thread.join().map_err(|_| anyhow!("a thread that sleeps to each tick panicked"))??;
            all = all.worse(one);
        }
        Ok(all)
    }
}

impl Lateness {
    fn worse(self, other: Self) -> Self {
        Self {
            delta_max: self.delta_max.max(other.delta_max),
            delta_p999: self.delta_p999.max(other.delta_p999),
            late_ms: self.late_ms.max(other.late_ms),
        }
    }

    /// Lateness of ticks at these times, in nanoseconds from the first tick.
    fn of(came_ns: &[u64]) -> Self {
        let late = |(number, came): (u64, &u64)| came.saturating_sub(number * TICK_NS);
        let late_max = (0..).zip(came_ns).map(late).max().unwrap_or_default();
        let mut deltas: Vec<u64> = came_ns.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        deltas.sort_unstable();
        let at = |environment: usize| deltas.get(environment).map_or(0.0, |&ns| ms(ns));
        let last = deltas.len().saturating_sub(1);
        Self { delta_max: at(last), delta_p999: at(last - last / 1000), late_ms: ms(late_max) }
    }
}

fn sleep_to_ticks(count: u64) -> Result<Lateness> {
    let mut came = Vec::with_capacity(usize::try_from(count)?);
    let first = clock_ns(ClockId::Monotonic) + TICK_NS;
    for number in 0..count {
        let at = first + number * TICK_NS;
        let time = Timespec { tv_sec: (at / SECOND_NS) as i64, tv_nsec: (at % SECOND_NS) as _ };
        clock_nanosleep_absolute(ClockId::Monotonic, &time).context("sleep to a tick")?;
        came.push(clock_ns(ClockId::Monotonic).saturating_sub(first));
    }
    Ok(Lateness::of(&came))
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Time between two packets of a call.
pub const TICK_MS: f64 = 20.0;
const SECOND_NS: u64 = 1_000_000_000;
const TICK_NS: u64 = (TICK_MS * 1e6) as u64;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod sleep_tests {
    use super::*;

    #[test]
    fn a_late_tick_affects_every_figure() {
        let mut came: Vec<u64> = (0..2001).map(|number| number * TICK_NS).collect();
        assert_eq!(Lateness::of(&came), Lateness { delta_max: 20.0, delta_p999: 20.0, late_ms: 0.0 });
        came[700] += 3_000_000;
        let late = Lateness::of(&came);
        assert_eq!((late.delta_max, late.delta_p999, late.late_ms), (23.0, 20.0, 3.0));
        assert_eq!(late.worse(Lateness::default()), late);
    }

    #[test]
    fn a_thread_sleeps_until_each_tick() {
        let lateness = SleepFloor::start(0.2).end().unwrap();
        assert!(lateness.delta_max > 10.0 && lateness.delta_max < 10_000.0, "{lateness:?}");
    }
}
