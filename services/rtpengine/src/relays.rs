//! The client, its socket and its thread.

use ringway_ng::{Client, Counters, Datagram, Done};
use ringway_sansio::{Instant, RelayRequest, RelayResult, Seed};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Media relays of a server. Their thread ends when the value is dropped.
pub struct Relays {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// State of the relays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Counters since the start.
    pub counters: Counters,
    /// Number of relays that answer.
    pub up: usize,
}

/// Sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asker {
    shard: u16,
    query: u64,
}

struct Shared {
    client: Mutex<Client<Asker>>,
    socket: UdpSocket,
    now: Box<dyn Fn() -> Instant + Send + Sync>,
    answer: Box<dyn Fn(u16, u64, Option<RelayResult>) + Send + Sync>,
    stops: AtomicBool,
}

impl Relays {
    /// Starts the thread. `answer` gets shard, query and result; it is called on any thread, also from within
    /// [`Relays::ask`], and must not block. `now` is the clock of the shards.
    ///
    /// # Errors
    /// The socket or the thread cannot be created.
    pub fn start(
        relays: &[SocketAddr],
        time_limit: Duration,
        seed: &Seed,
        now: impl Fn() -> Instant + Send + Sync + 'static,
        answer: impl Fn(u16, u64, Option<RelayResult>) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let is_ipv4 = relays.iter().all(SocketAddr::is_ipv4);
        let any = if is_ipv4 { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_read_timeout(Some(TICK))?;
        // A full send buffer loses the datagram, which is sent again.
        socket.set_write_timeout(Some(Duration::from_millis(1)))?;
        let client = Mutex::new(Client::new(relays, time_limit, seed, now()));
        let (now, answer) = (Box::new(now), Box::new(answer));
        let shared = Arc::new(Shared { client, socket, now, answer, stops: AtomicBool::new(false) });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("relays".to_owned()).spawn(move || of_thread.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Sends a request. Its result, if it has one, comes within the time limit.
    pub fn ask(&self, shard: u16, query: u64, request: RelayRequest) {
        self.shared.with_client(|client, now| client.request(now, Asker { shard, query }, request));
    }

    /// State of the relays.
    pub fn status(&self) -> Status {
        let client = self.shared.client.lock().unwrap_or_else(PoisonError::into_inner);
        Status { counters: client.counters().clone(), up: client.up_len() }
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        self.shared.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Relays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relays").finish_non_exhaustive()
    }
}

impl Shared {
    fn run(&self) {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        while !self.stops.load(Ordering::Relaxed) {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                    let bytes = buffer.get(..length).unwrap_or_default();
                    self.with_client(|client, now| client.on_datagram(now, from, bytes));
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                // An ICMP error of a relay that is down: its requests time out.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            self.with_client(|client, now| {
                if client.next_due().is_some_and(|due| due <= now) {
                    client.on_timeout(now);
                }
            });
        }
    }

    /// Changes the client, and sends and reports what follows after unlocking.
    fn with_client(&self, change: impl FnOnce(&mut Client<Asker>, Instant)) {
        let (mut sends, mut done) = (Vec::new(), Vec::new());
        {
            let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut client, (self.now)());
            sends.extend(std::iter::from_fn(|| client.poll_send()));
            done.extend(std::iter::from_fn(|| client.poll_done()));
        }
        for Datagram { to, bytes } in sends {
            let is_ipv6 = self.socket.local_addr().is_ok_and(|address| address.is_ipv6());
            let to = match to.ip() {
                IpAddr::V4(v4) if is_ipv6 => SocketAddr::new(v4.to_ipv6_mapped().into(), to.port()),
                IpAddr::V4(_) | IpAddr::V6(_) => to,
            };
            // What is not sent is sent again, or times out.
            let _ = self.socket.send_to(&bytes, to);
        }
        for Done { of: Asker { shard, query }, result } in done {
            (self.answer)(shard, query, result);
        }
    }
}

/// Maximum time between two checks of the timers.
const TICK: Duration = Duration::from_millis(50);
const DATAGRAM_BYTES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{RelayCall, RelayHolder, RelayKind, RelayMedia, RelaySide};
    use std::sync::mpsc::{Receiver, channel};

    fn start(relays: &[SocketAddr]) -> (Relays, Receiver<(u16, u64, Option<RelayResult>)>) {
        let begin = std::time::Instant::now();
        let (sender, receiver) = channel();
        let relays = Relays::start(
            relays,
            Duration::from_secs(2),
            &Seed::from_number(1),
            move || Instant::from_secs(1000) + begin.elapsed(),
            move |shard, query, result| {
                let _ = sender.send((shard, query, result));
            },
        );
        (relays.unwrap(), receiver)
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
        }
    }

    #[test]
    fn an_offer_reaches_the_relay_and_its_answer_the_shard() {
        let relay = UdpSocket::bind("127.0.0.1:0").unwrap();
        relay.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let (relays, results) = start(&[relay.local_addr().unwrap()]);
        relays.ask(3, 7, offer());
        let mut buffer = [0; 2000];
        loop {
            let (length, from) = relay.recv_from(&mut buffer).unwrap();
            let pairs = if buffer[..length].ends_with(b"pinge") { "" } else { "3:sdp5:v=0\r\n" };
            let answer = [&buffer[..17], b"d", pairs.as_bytes(), b"6:result2:oke"].concat();
            // Another address, and garbage, are ignored.
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&answer, from).unwrap();
            relay.send_to(b"garbage", from).unwrap();
            relay.send_to(&answer, from).unwrap();
            if !pairs.is_empty() {
                break;
            }
        }
        let (shard, query, result) = results.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!((shard, query, &*result.unwrap().sdp), (3, 7, &b"v=0\r\n"[..]));
        assert_eq!(relays.status().up, 1);
    }

    #[test]
    fn a_relay_that_is_not_there_is_reported_in_time() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (relays, results) = start(&[nobody]);
        relays.ask(3, 7, offer());
        assert_eq!(results.recv_timeout(Duration::from_secs(10)).unwrap(), (3, 7, None));
        assert_eq!(relays.status().up, 0);
    }
}
