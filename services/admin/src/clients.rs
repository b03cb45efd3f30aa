//! The connections of the admin API: a limited number, of which old ones are closed for new ones; which of them need TLS,
//! their handshake, and the rate of handshakes, which leaves the processor to the threads that handle calls.

use ringway_sansio::source_of;
use rustls::ServerConfig;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::{self, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The open connections, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: Mutex<Open>,
    /// Connections closed to make room for newer ones.
    displaced: AtomicU64,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    by_age: BTreeMap<u64, Client>,
}

#[derive(Debug)]
struct Client {
    source: IpAddr,
    since: Instant,
    /// Dropping it ends the connection.
    _end: oneshot::Sender<()>,
}

/// The slot of one connection; dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct Slot {
    clients: Arc<Clients>,
    number: u64,
}

impl Clients {
    /// Takes a slot for a connection from `address`; the receiver ends when the slot is taken away again. With all slots
    /// taken, the oldest connection of the source with the most connections is closed.
    ///
    /// # Errors
    /// That connection is younger than [`SERVED_MIN`]: the time until it is not.
    pub(crate) fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        now: Instant,
    ) -> Result<(Slot, oneshot::Receiver<()>), Duration> {
        let mut open = self.lock();
        if open.by_age.len() >= CONNECTIONS_MAX {
            let (number, age) = open.oldest_of_the_largest(now).unwrap_or_default();
            if let Some(wait) = SERVED_MIN.checked_sub(age).filter(|wait| !wait.is_zero()) {
                return Err(wait);
            }
            open.by_age.remove(&number);
            self.displaced.fetch_add(1, Ordering::Relaxed);
        }
        let (end, ended) = oneshot::channel();
        let number = open.next;
        open.next += 1;
        open.by_age.insert(number, Client { source: source_of(address), since: now, _end: end });
        drop(open);
        Ok((Slot { clients: Arc::clone(self), number }, ended))
    }

    /// Connections closed to make room for newer ones, since the start.
    pub(crate) fn displaced(&self) -> u64 {
        self.displaced.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn oldest_of_the_largest(&self, now: Instant) -> Option<(u64, Duration)> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for client in self.by_age.values() {
            *counts.entry(client.source).or_default() += 1;
        }
        let most = counts.values().max()?;
        let (number, client) =
            self.by_age.iter().find(|(_, client)| counts.get(&client.source) == Some(most))?;
        Some((*number, now.duration_since(client.since)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.clients.lock().by_age.remove(&self.number);
    }
}

/// Connections served at once.
const CONNECTIONS_MAX: usize = 128;

/// Time for which a connection is not closed for another: enough for a client that sends its request at once.
const SERVED_MIN: Duration = Duration::from_millis(100);

/// Certificate and rules for TLS at the time of a connection; `None`: there is no certificate.
pub type TlsSource = Arc<dyn Fn() -> Option<Arc<ServerConfig>> + Send + Sync>;

/// A connection on which HTTP can begin.
pub(crate) enum Opened {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Finds out by its first byte if the client speaks TLS, and performs the handshake. `None`: it sent nothing in time, its
/// handshake failed, or it must speak TLS and does not.
pub(crate) async fn open(stream: TcpStream, tls: &TlsSource, pace: &HandshakePace) -> Option<Opened> {
    let mut first = [0];
    let peeked = tokio::time::timeout(TIME_MAX, stream.peek(&mut first)).await;
    if !matches!(peeked, Ok(Ok(1))) {
        return None;
    }
    let (peer, local) = (stream.peer_addr().ok()?.ip(), stream.local_addr().ok()?.ip());
    match (tls(), first[0]) {
        (Some(config), HANDSHAKE_RECORD) => {
            pace.turn().await;
            let handshake = TlsAcceptor::from(config).accept(stream);
            match tokio::time::timeout(TIME_MAX, handshake).await.ok()? {
                Ok(stream) => Some(Opened::Tls(Box::new(stream))),
                Err(error) => {
                    tracing::debug!("an admin client's TLS handshake failed: {error}");
                    None
                }
            }
        }
        (Some(_), _) if !is_same_machine(peer, local) => {
            // Closing a socket with unread bytes would discard the response.
            let _ = stream.try_read(&mut [0; 4096]);
            let _ = stream.try_write(USE_TLS);
            None
        }
        (_, _) => Some(Opened::Plain(stream)),
    }
}

/// True if nobody else can read the connection: it does not leave this machine.
fn is_same_machine(peer: IpAddr, local: IpAddr) -> bool {
    peer.to_canonical().is_loopback() || peer.to_canonical() == local.to_canonical()
}

/// Content type of a TLS record with a handshake message (RFC 8446 §5.1). No HTTP method begins with it.
const HANDSHAKE_RECORD: u8 = 22;
/// Maximum time until the first byte, and for a handshake.
const TIME_MAX: Duration = Duration::from_secs(10);
const USE_TLS: &[u8] = b"HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2, HTTP/1.1\r\nConnection: Upgrade, close\r\n\
    Content-Type: text/plain\r\nContent-Length: 62\r\n\r\nOther machines reach this listener by https only, not by http\n";

/// Gives handshakes their turn, in the order of their arrival.
#[derive(Debug)]
pub(crate) struct HandshakePace {
    /// Time from which on there is no unused turn.
    next: sync::Mutex<Instant>,
}

impl HandshakePace {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: sync::Mutex::new(now) }
    }

    /// Waits for a turn. A connection that is closed meanwhile leaves the queue and takes none.
    async fn turn(&self) {
        let mut next = self.next.lock().await;
        let wait = next.saturating_duration_since(Instant::now() + PERIOD * AT_ONCE);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        *next = (*next).max(Instant::now()) + PERIOD;
    }
}

/// Time between two handshakes: with an RSA key of 2,048 bits one takes 1 ms, so that a flood takes 5 % of a core.
const PERIOD: Duration = Duration::from_millis(20);
/// Handshakes at once after a pause.
const AT_ONCE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn the_oldest_of_the_largest_source_makes_room_once_it_had_its_time() {
        let clients = Arc::new(Clients::default());
        let start = Instant::now();
        let (_other, mut other_ended) = clients.enter(ip(9), start).unwrap();
        let mut crowd: Vec<_> = (1..CONNECTIONS_MAX).map(|_| clients.enter(ip(1), start).unwrap()).collect();
        assert_eq!(clients.enter(ip(2), start).unwrap_err(), SERVED_MIN);
        let (slot, _new) = clients.enter(ip(2), start + SERVED_MIN).unwrap();
        assert_eq!(crowd[0].1.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(other_ended.try_recv(), Err(oneshot::error::TryRecvError::Empty), "it has but one");
        assert_eq!((clients.displaced(), clients.lock().by_age.len()), (1, CONNECTIONS_MAX));
        drop((slot, crowd));
        assert_eq!(clients.lock().by_age.len(), 1);
    }

    #[test]
    fn plain_http_is_for_this_machine_only() {
        let is_same =
            |peer: &str, local: &str| is_same_machine(peer.parse().unwrap(), local.parse().unwrap());
        assert!(is_same("127.0.0.1", "127.0.0.1"));
        assert!(is_same("::1", "::1"));
        assert!(is_same("::ffff:127.0.0.1", "::ffff:127.0.0.1"), "a listener on :: has mapped addresses");
        assert!(is_same("192.0.2.7", "192.0.2.7"), "the machine's own address");
        assert!(is_same("::ffff:192.0.2.7", "192.0.2.7"));
        assert!(!is_same("192.0.2.8", "192.0.2.7"));
        assert!(!is_same("::ffff:192.0.2.8", "::ffff:192.0.2.7"));
        assert!(!is_same("2001:db8::1", "2001:db8::2"));
    }

    #[test]
    fn the_refusal_has_the_length_it_states() {
        let text = std::str::from_utf8(USE_TLS).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }

    #[test]
    fn a_flood_waits_for_its_turns() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let begun = Instant::now();
            let pace = HandshakePace::new(begun);
            for _ in 0..1 + AT_ONCE + 5 {
                pace.turn().await;
            }
            assert!(begun.elapsed() >= PERIOD * 5, "{:?}", begun.elapsed());
        });
    }
}
