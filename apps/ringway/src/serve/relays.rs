//! Control of rtpengine media relays: sockets for the ng client, which the workers serve. `ringway_ng` chooses the relay and reads its
//! answers; `ringway_server` decides which call is relayed.

use ringway_linux::{DatagramClient, sys};
use ringway_ng::{AnswerUse, Client, Counters, Datagram, Done, RelayChange, RelayState};
use ringway_sansio::{Instant, RelayRequest, RelayResult, Seed, TableSize};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Media relays of a server: a [`DatagramClient`] of its workers.
pub(super) struct Relays {
    state: Mutex<State>,
    /// Sockets of the workers.
    sockets: Vec<UdpSocket>,
    /// Socket for commands whose answers only end their retransmission: nothing waits for it.
    unwatched: UdpSocket,
    /// Buffer for its datagrams.
    buffer: Mutex<Vec<u8>>,
    is_ipv6: bool,
    /// Time of the next call of `on_timeout` in nanoseconds. Written under the lock of the state.
    due: AtomicU64,
    now: Box<dyn Fn() -> Instant + Send + Sync>,
    answer: Box<dyn Fn(usize, u16, u64, Option<RelayResult>) + Send + Sync>,
    changed: Box<dyn Fn(RelayChange) + Send + Sync>,
}

/// State of the relays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    /// Counters since the start.
    pub(super) counters: Counters,
    /// Number of relays that answer.
    pub(super) up: usize,
    /// Address of each relay, whether it answers, and the time of its last answer.
    pub(super) relays: Vec<(SocketAddr, RelayState, Instant)>,
}

/// Sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asker {
    shard: u16,
    query: u64,
}

/// The most memory of requests that wait.
pub(super) const fn size() -> TableSize {
    Client::<Asker>::size()
}

struct State {
    client: Client<Asker>,
    /// Commands sent by the socket that is not watched, since it was read.
    unread: usize,
}

impl Relays {
    /// Opens a socket for each worker. `answer` gets the number of the calling worker, shard, query and result; it is also
    /// called from within [`Relays::ask`], and must not block; nor may `changed`, which gets each relay that comes up or goes down.
    /// `now` is the clock of the workers.
    ///
    /// # Errors
    /// A socket cannot be created.
    pub(super) fn open(
        relays: &[SocketAddr],
        workers: usize,
        time_limit: Duration,
        seed: &Seed,
        now: impl Fn() -> Instant + Send + Sync + 'static,
        answer: impl Fn(usize, u16, u64, Option<RelayResult>) + Send + Sync + 'static,
        changed: impl Fn(RelayChange) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let is_ipv6 = !relays.iter().all(SocketAddr::is_ipv4);
        let is_local = relays.iter().all(|relay| relay.ip().is_loopback());
        let from = match (is_ipv6, is_local) {
            (false, true) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            (false, false) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            // Relays of both families may be on this machine.
            (true, true | false) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let sockets = (0..workers).map(|_| socket(from)).collect::<io::Result<_>>()?;
        let client = Client::new(relays, time_limit, seed, now());
        Ok(Self {
            due: AtomicU64::new(nanos(client.next_due())),
            state: Mutex::new(State { client, unread: 0 }),
            sockets,
            unwatched: socket(from)?,
            buffer: Mutex::new(vec![0; DATAGRAM_BYTES_MAX]),
            is_ipv6,
            now: Box::new(now),
            answer: Box::new(answer),
            changed: Box::new(changed),
        })
    }

    /// Sends a request by the socket of the calling worker. Its result, if it has one, comes within the time limit.
    pub(super) fn ask(&self, worker: usize, shard: u16, query: u64, request: RelayRequest) {
        self.with_client(worker, (self.now)(), |client, now| {
            client.request(now, Asker { shard, query }, request);
        });
    }

    /// State of the relays.
    pub(super) fn status(&self) -> Status {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let client = &state.client;
        Status { counters: client.counters().clone(), up: client.up_len(), relays: client.relays().collect() }
    }

    /// Changes the client, and sends and reports what follows after unlocking.
    fn with_client(&self, worker: usize, now: Instant, change: impl FnOnce(&mut Client<Asker>, Instant)) {
        // More than one of each is rare.
        let (first_send, first_done);
        let (mut sends, mut done, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { client, unread } = &mut *state;
            change(client, now);
            (first_send, first_done) = (client.poll_send(), client.poll_done());
            sends.extend(std::iter::from_fn(|| client.poll_send()));
            done.extend(std::iter::from_fn(|| client.poll_done()));
            changes.extend(std::iter::from_fn(|| client.poll_change()));
            let is_unread = |send: &&Datagram| send.answer == AnswerUse::EndsRetransmission;
            *unread += first_send.iter().chain(&sends).filter(is_unread).count();
            // Answers that nothing waits for are read before they fill the socket.
            let due = if *unread < UNREAD_MAX { nanos(client.next_due()) } else { now.as_nanos() };
            self.due.store(due, Ordering::Release);
        }
        for send in first_send.iter().chain(&sends) {
            self.send(worker, send);
        }
        for Done { of: Asker { shard, query }, result } in first_done.into_iter().chain(done) {
            (self.answer)(worker, shard, query, result);
        }
        changes.into_iter().for_each(&self.changed);
    }

    /// Sends a datagram; what is not sent is sent again, or times out.
    fn send(&self, worker: usize, datagram: &Datagram) {
        let Datagram { to, bytes, answer } = datagram;
        let to = match to.ip() {
            IpAddr::V4(v4) if self.is_ipv6 => SocketAddr::new(v4.to_ipv6_mapped().into(), to.port()),
            IpAddr::V4(_) | IpAddr::V6(_) => *to,
        };
        let socket = match answer {
            AnswerUse::Awaited => self.sockets.get(worker),
            AnswerUse::EndsRetransmission => Some(&self.unwatched),
        };
        if let Some(socket) = socket {
            let _ = socket.send_to(bytes, to);
        }
    }

    /// Reads the answers that nothing waits for.
    fn read_unwatched(&self, worker: usize, now: Instant) {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..READS_MAX {
            // An error is that nothing is left.
            let Ok((length, from)) = self.unwatched.recv_from(&mut buffer) else { break };
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            let bytes = buffer.get(..length).unwrap_or_default();
            self.with_client(worker, now, |client, now| client.on_datagram(now, from, bytes));
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).unread = 0;
    }
}

impl DatagramClient for Relays {
    fn socket(&self, worker: usize) -> Option<BorrowedFd<'_>> {
        self.sockets.get(worker).map(AsFd::as_fd)
    }

    fn on_datagram(&self, worker: usize, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.with_client(worker, now, |client, now| client.on_datagram(now, from, bytes));
    }

    fn on_timeout(&self, worker: usize, now: Instant) {
        // A command that was answered is not sent again.
        self.read_unwatched(worker, now);
        self.with_client(worker, now, Client::on_timeout);
    }

    fn next_due(&self) -> Instant {
        Instant::from_nanos(self.due.load(Ordering::Acquire))
    }
}

impl std::fmt::Debug for Relays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relays").finish_non_exhaustive()
    }
}

fn socket(from: IpAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((from, 0))?;
    // A full send buffer loses the datagram, which is sent again.
    socket.set_nonblocking(true)?;
    sys::set_buffers(socket.as_fd(), BUFFER_BYTES);
    Ok(socket)
}

fn nanos(due: Option<Instant>) -> u64 {
    due.unwrap_or(Instant::FAR).as_nanos()
}

/// Size of a socket's kernel buffer: hundreds of answers.
const BUFFER_BYTES: usize = 1 << 20;
/// Commands by the socket that is not watched, after which it is read.
const UNREAD_MAX: usize = 32;
/// Datagrams that are read from it at once: the answers, and some of strangers.
const READS_MAX: usize = 256;
const DATAGRAM_BYTES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{RelayCall, RelayHolder, RelayId, RelayKind, RelayMedia, RelaySide};
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    /// Relays of two workers, of which worker 1 is tested, on a clock of the test.
    struct Table {
        relays: Relays,
        results: Receiver<(usize, u16, u64, Option<RelayResult>)>,
        now_ms: Arc<AtomicU64>,
    }

    impl Table {
        fn new(relay: SocketAddr) -> Self {
            let now_ms = Arc::new(AtomicU64::new(1_000_000));
            let (sender, results) = channel();
            let clock = Arc::clone(&now_ms);
            let relays = Relays::open(
                &[relay],
                2,
                Duration::from_secs(2),
                &Seed::from_number(1),
                move || Instant::from_nanos(clock.load(Ordering::Relaxed) * 1_000_000),
                move |worker, shard, query, result| {
                    let _ = sender.send((worker, shard, query, result));
                },
                |_| {},
            );
            Self { relays: relays.unwrap(), results, now_ms }
        }

        /// A turn of worker 1, `ms` after the last one.
        fn turn(&self, ms: u64) {
            self.now_ms.fetch_add(ms, Ordering::Relaxed);
            let now = (self.relays.now)();
            let mut buffer = [0; 2000];
            while let Ok((length, from)) = self.relays.sockets[1].recv_from(&mut buffer) {
                self.relays.on_datagram(1, now, from, &buffer[..length]);
            }
            if self.relays.next_due() <= now {
                self.relays.on_timeout(1, now);
            }
        }

        fn pending(&self) -> usize {
            self.relays.state.lock().unwrap().client.pending_len()
        }
    }

    fn offer() -> RelayRequest {
        RelayRequest {
            kind: RelayKind::Offer,
            call: RelayCall(1),
            relay: None,
            offerer: RelaySide::Caller,
            sdp: b"v=0"[..].into(),
            to: RelayMedia::Same,
            holder: RelayHolder::Trusted,
            source: None,
            interfaces: None,
        }
    }

    /// A relay on loopback.
    fn relay() -> UdpSocket {
        let relay = UdpSocket::bind("127.0.0.1:0").unwrap();
        relay.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        relay
    }

    /// Next command to a relay, without its cookie, and the answer that it gets.
    fn answer_next(relay: &UdpSocket) -> (String, Vec<u8>, SocketAddr) {
        let mut buffer = [0; 2000];
        let (length, from) = relay.recv_from(&mut buffer).unwrap();
        let command = String::from_utf8_lossy(&buffer[17..length]).into_owned();
        let sdp = if command.contains("7:command5:offer") { "3:sdp5:v=0\r\n" } else { "" };
        let answer = [&buffer[..17], b"d", sdp.as_bytes(), b"6:result2:oke"].concat();
        relay.send_to(&answer, from).unwrap();
        (command, answer, from)
    }

    #[test]
    fn the_worker_that_asked_gets_the_answer() {
        let relay = relay();
        let table = Table::new(relay.local_addr().unwrap());
        table.relays.ask(1, 3, 7, offer());
        let (command, answer, from) = answer_next(&relay);
        assert!(command.contains("7:command5:offer"), "{command}");
        assert_eq!(Some(from), table.relays.sockets[1].local_addr().ok());
        // Another address, and garbage, are ignored.
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&answer, from).unwrap();
        relay.send_to(b"garbage", from).unwrap();
        table.turn(1);
        let (worker, shard, query, result) = table.results.try_recv().unwrap();
        assert_eq!((worker, shard, query, &*result.unwrap().sdp), (1, 3, 7, &b"v=0\r\n"[..]));
        let Status { counters, up, relays } = table.relays.status();
        assert_eq!(relays.iter().filter(|(_, state, _)| *state == RelayState::Up).count(), up);
        assert_eq!((counters.relay_rejected, up), (2, 1));
    }

    #[test]
    fn the_answers_to_deletions_are_read_together() {
        let relay = relay();
        let table = Table::new(relay.local_addr().unwrap());
        // The pings of the start.
        table.turn(20);
        assert!(answer_next(&relay).0.contains("ping"));
        table.turn(0);
        let delete = |count: usize| {
            for number in 0..count {
                assert!(table.relays.next_due() > (table.relays.now)(), "{number} may wait");
                // The only relay has every call.
                let (kind, call) = (RelayKind::Delete, RelayCall(number as u64));
                table.relays.ask(1, 3, 0, RelayRequest { kind, call, relay: Some(RelayId(0)), ..offer() });
            }
        };
        let answer = |count: usize| {
            for _ in 0..count {
                let (command, _, from) = answer_next(&relay);
                assert!(command.contains("7:command6:delete"), "{command}");
                assert_eq!(Some(from), table.relays.unwatched.local_addr().ok());
            }
            assert_eq!(table.pending(), count);
        };
        delete(UNREAD_MAX);
        answer(UNREAD_MAX);
        table.turn(0);
        assert_eq!(table.pending(), 0);
        // Fewer are sent after a while, and their answers are read before they would be sent again.
        delete(2);
        table.turn(40);
        answer(2);
        table.turn(600);
        assert_eq!((table.pending(), table.relays.status().counters.relay_timeouts), (0, 0));
        relay.set_nonblocking(true).unwrap();
        assert!(relay.recv_from(&mut [0; 2000]).is_err(), "nothing was sent again");
    }

    #[test]
    fn a_relay_that_is_not_there_is_reported_in_time() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let table = Table::new(nobody);
        table.relays.ask(1, 3, 7, offer());
        (0..21).for_each(|_| table.turn(100));
        assert_eq!(table.results.try_recv(), Ok((1, 3, 7, None)));
        assert_eq!(table.relays.status().up, 0);
    }
}
