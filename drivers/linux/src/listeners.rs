//! Listeners: parsing, binding for several workers, adding and closing while the runtime runs; UDP clients that are attached
//! likewise.
//!
//! A new listener is bound and given to every worker before anything reads from it, so that a failure changes nothing.
//! Each worker confirms what it did: after a listener was closed, its address can be bound again.

use crate::dscp::Dscp;
use crate::inbox::{DatagramClient, Inboxes, ListenSocket, SocketChange};
use crate::sys;
use ringway_sansio::{ListenerId, Transport};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use std::{fmt, io};

/// Transport and address of a listener, written as in the configuration: `udp:0.0.0.0:5060`, `tcp:[::]:5060`.
///
/// `[::]` listens on IPv6 only; IPv4 needs its own listener, so that every address has one notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listen {
    /// The transport.
    pub transport: Transport,
    /// Address; port 0 selects a free port.
    pub address: SocketAddr,
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let (name, address) = text.split_once(':').ok_or_else(|| ListenError::Form(text.to_owned()))?;
        let transport = Transport::from_name(name).ok_or_else(|| ListenError::Transport(name.to_owned()))?;
        let address = address.parse().map_err(|_| ListenError::Address(address.to_owned()))?;
        Ok(Self { transport, address })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.address)
    }
}

/// Error of parsing a [`Listen`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// The colon is missing.
    #[error("`{0}` is not a listener: write TRANSPORT:ADDRESS:PORT, like udp:0.0.0.0:5060")]
    Form(String),
    /// Unknown transport.
    #[error("`{0}` is not a transport: write udp, tcp, tls, ws, wss or dtls")]
    Transport(String),
    /// Invalid address or port.
    #[error("`{0}` is not an address: write an IP address and a port, like 0.0.0.0:5060 or [::]:5060")]
    Address(String),
}

/// Bound listeners with a socket for each worker; nothing is read from them yet.
pub struct Bound {
    pub(crate) listeners: Vec<Listen>,
    /// Sockets of each worker, one for each listener.
    pub(crate) sockets: Vec<Vec<ListenSocket>>,
    pub(crate) inboxes: Inboxes,
    pub(crate) dscp: Dscp,
}

impl Bound {
    /// Binds `listeners` for `workers` threads (0: one for each core). The kernel distributes flows over the workers'
    /// sockets (`SO_REUSEPORT`), each flow always to the same socket.
    ///
    /// # Errors
    /// An address is in use, also by another instance of this program; too many listeners; no file descriptors are
    /// left.
    pub fn bind(listeners: &[Listen], workers: usize) -> Result<Self, BindError> {
        Self::bind_marked(listeners, workers, Dscp::NONE)
    }

    /// The same with a mark of all packets that the runtime sends: over these listeners, later ones, and the connections that
    /// it accepts and dials.
    ///
    /// # Errors
    /// As [`Bound::bind`].
    pub fn bind_marked(listeners: &[Listen], workers: usize, dscp: Dscp) -> Result<Self, BindError> {
        let workers = self::workers(workers);
        if listeners.len() > LISTENERS_MAX {
            return Err(BindError::TooMany);
        }
        let mut bound = Vec::with_capacity(listeners.len());
        let mut sockets: Vec<Vec<ListenSocket>> = (0..workers).map(|_| Vec::new()).collect();
        for listen in listeners {
            let (actual, copies) = bind_copies(*listen, workers, dscp)?;
            bound.push(actual);
            for (worker, socket) in sockets.iter_mut().zip(copies) {
                worker.push(socket);
            }
        }
        let inboxes = Inboxes::new(workers).map_err(BindError::Machine)?;
        Ok(Self { listeners: bound, sockets, inboxes, dscp })
    }

    /// Listeners in the given order, with their actual ports.
    pub fn addresses(&self) -> &[Listen] {
        &self.listeners
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.sockets.len()
    }

    /// Inboxes of the workers; usable before the runtime starts.
    pub fn inboxes(&self) -> Inboxes {
        self.inboxes.clone()
    }
}

/// Number of workers that `asked` means; 0: one for each core.
pub(crate) fn workers(asked: usize) -> usize {
    let workers = match asked {
        0 => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        asked => asked,
    };
    workers.min(WORKERS_MAX)
}

/// Error of [`Bound::bind`] and [`Runtime::attach`](crate::Runtime::attach).
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A listener could not be bound.
    #[error("cannot listen on {listener}: {}", describe(.why))]
    Listener {
        /// The listener.
        listener: Listen,
        /// Error of the system.
        why: io::Error,
    },
    /// More listeners than [`ListenerId`] can number.
    #[error("too many listeners: at most {LISTENERS_MAX} are possible")]
    TooMany,
    /// No file descriptors are left.
    #[error("cannot set up the workers: {0}; raise the limit of open files (ulimit -n)")]
    Machine(io::Error),
}

/// Maximum number of workers: the number of a connection has eight bits for its worker, and one value is reserved for
/// other descriptors.
pub(crate) const WORKERS_MAX: usize = 255;

/// Maximum number of listeners of a runtime, those that were closed included: their numbers are 8 bits wide.
pub const LISTENERS_MAX: usize = 255;

/// Maximum number of connections that the kernel queues for each worker; the system's limit may be lower.
const BACKLOG: i32 = 1024;

/// Size of a datagram socket's kernel buffer: a tenth of a second at 100,000 messages/s.
const DATAGRAM_BUFFER_BYTES: usize = 8 << 20;

/// Time without an acknowledgement after which a connection is closed.
const UNANSWERED: Duration = Duration::from_secs(30);

/// Idle time before the first TCP keep-alive.
const PROBE_AFTER: Duration = Duration::from_secs(120);

fn describe(why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there; stop it or choose another port".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => "not permitted; ports below 1024 need a privilege".to_owned(),
        _ => why.to_string(),
    }
}

/// Binds the first socket without `SO_REUSEPORT`, which fails if the address is in use, and sets the option afterwards:
/// a second server cannot bind the address.
fn bind_copies(listen: Listen, workers: usize, dscp: Dscp) -> Result<(Listen, Vec<ListenSocket>), BindError> {
    try_bind_copies(listen, workers, dscp).map_err(|why| BindError::Listener { listener: listen, why })
}

fn try_bind_copies(listen: Listen, workers: usize, dscp: Dscp) -> io::Result<(Listen, Vec<ListenSocket>)> {
    let first = unbound(listen, dscp)?;
    bind_and_listen(&first, listen)?;
    first.set_reuse_port(true)?;
    let address = first.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let actual = Listen { transport: listen.transport, address };
    let mut sockets = vec![first];
    for _ in 1..workers {
        let socket = unbound(listen, dscp)?;
        socket.set_reuse_port(true)?;
        bind_and_listen(&socket, actual)?;
        sockets.push(socket);
    }
    let typed = sockets.into_iter().map(|socket| match listen.transport.is_stream() {
        false => ListenSocket::Datagram(socket.into(), listen.transport),
        true => ListenSocket::Stream(socket.into(), listen.transport),
    });
    Ok((actual, typed.collect()))
}

fn unbound(listen: Listen, dscp: Dscp) -> io::Result<Socket> {
    let domain = Domain::for_address(listen.address);
    let is_stream = listen.transport.is_stream();
    let socket = match is_stream {
        false => Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?,
        true => Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?,
    };
    socket.set_nonblocking(true)?;
    if listen.address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Accepted connections inherit the mark.
    dscp.mark(&socket, listen.address.is_ipv6())?;
    if is_stream {
        // Connections of the last run in TIME-WAIT do not block the port.
        socket.set_reuse_address(true)?;
        set_stream_options(&socket)?;
    } else {
        sys::set_buffers(socket.as_fd(), DATAGRAM_BUFFER_BYTES);
        sys::stamp_arrivals(socket.as_fd())?;
    }
    Ok(socket)
}

fn bind_and_listen(socket: &Socket, listen: Listen) -> io::Result<()> {
    socket.bind(&listen.address.into())?;
    if listen.transport.is_stream() { socket.listen(BACKLOG) } else { Ok(()) }
}

/// Sets the options of a stream. Accepted connections inherit them from the listening socket.
pub(crate) fn set_stream_options(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    sys::stamp_arrivals(socket.as_fd())?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(UNANSWERED / 2))?;
    socket.set_tcp_user_timeout(Some(UNANSWERED))
}

/// New listeners with a socket at each worker, which nothing is read from yet. Dropping it closes them.
#[must_use]
pub struct Attached {
    inboxes: Inboxes,
    listeners: Vec<(ListenerId, Listen)>,
}

impl Attached {
    /// Binds the listeners and gives them to the workers.
    pub(crate) fn bind(
        wanted: &[(ListenerId, Listen)],
        inboxes: Inboxes,
        dscp: Dscp,
    ) -> Result<Self, BindError> {
        let mut attached = Self { inboxes, listeners: Vec::new() };
        for &(id, listen) in wanted {
            if usize::from(id.0) >= LISTENERS_MAX {
                return Err(BindError::TooMany);
            }
            let (actual, sockets) = bind_copies(listen, attached.inboxes.workers(), dscp)?;
            // From now on it is closed if a worker refuses.
            attached.listeners.push((id, actual));
            for (worker, socket) in sockets.into_iter().enumerate() {
                confirmed(&attached.inboxes, worker, |done| SocketChange::Add(id, socket, done))
                    .map_err(|why| BindError::Listener { listener: listen, why })?;
            }
        }
        Ok(attached)
    }

    /// Numbers and actual addresses of the listeners, in the order in which they were given.
    pub fn listeners(&self) -> &[(ListenerId, Listen)] {
        &self.listeners
    }

    /// Makes every worker read from them.
    pub(crate) fn open(mut self) {
        for (id, _) in self.listeners.drain(..) {
            for worker in 0..self.inboxes.workers() {
                if let Some(inbox) = self.inboxes.of(worker) {
                    inbox.change_sockets(SocketChange::Read(id));
                }
            }
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        for (id, _) in self.listeners.drain(..) {
            change(&self.inboxes, id, SocketChange::Discard);
        }
    }
}

/// Makes every worker close a listener, and waits for it.
pub(crate) fn close(inboxes: &Inboxes, id: ListenerId) {
    change(inboxes, id, SocketChange::Close);
}

fn change(
    inboxes: &Inboxes,
    id: ListenerId,
    of: impl Fn(ListenerId, SyncSender<io::Result<()>>) -> SocketChange,
) {
    for worker in 0..inboxes.workers() {
        // A worker that does not confirm has ended, and its sockets with it.
        let _ = confirmed(inboxes, worker, |done| of(id, done));
    }
}

/// Requests a change from a worker and waits for its result.
fn confirmed(
    inboxes: &Inboxes,
    worker: usize,
    change: impl FnOnce(SyncSender<io::Result<()>>) -> SocketChange,
) -> io::Result<()> {
    let (done, confirmed) = sync_channel(1);
    let inbox = inboxes.of(worker).ok_or(io::ErrorKind::NotFound)?;
    inbox.change_sockets(change(done));
    match confirmed.recv_timeout(CONFIRMATION_MAX) {
        Ok(result) => result,
        Err(_) => Err(io::Error::other("a worker thread does not answer; restart the server")),
    }
}

/// Time limit for the confirmation of a worker.
const CONFIRMATION_MAX: Duration = Duration::from_secs(5);

/// A client that the workers serve until this value is dropped.
#[must_use]
#[derive(Debug)]
pub struct Watched {
    inboxes: Inboxes,
    client: Arc<dyn DatagramClient>,
}

impl Watched {
    /// Makes every worker serve a client.
    pub(crate) fn begin(client: Arc<dyn DatagramClient>, inboxes: Inboxes) -> io::Result<Self> {
        // The workers forget it if one of them fails.
        let watched = Self { inboxes, client };
        for worker in 0..watched.inboxes.workers() {
            let client = Arc::clone(&watched.client);
            confirmed(&watched.inboxes, worker, |done| SocketChange::Watch(client, done))?;
        }
        Ok(watched)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        for worker in 0..self.inboxes.workers() {
            if let Some(inbox) = self.inboxes.of(worker) {
                inbox.change_sockets(SocketChange::Forget(Arc::clone(&self.client)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::SockRef;
    use std::net::{TcpStream, UdpSocket};
    use std::time::Instant;

    #[test]
    fn listeners_are_parsed_and_displayed_alike() {
        for text in [
            "udp:0.0.0.0:5060",
            "tcp:127.0.0.1:0",
            "tls:[::]:5061",
            "ws:0.0.0.0:80",
            "wss:[::1]:443",
            "dtls:[::]:5061",
        ] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_listener_has_a_specific_error() {
        let wrong = |text: &str| text.parse::<Listen>().unwrap_err();
        assert_eq!(wrong("5060"), ListenError::Form("5060".into()));
        assert_eq!(wrong("sctp:0.0.0.0:5060"), ListenError::Transport("sctp".into()));
        assert_eq!(wrong("udp:localhost:5060"), ListenError::Address("localhost:5060".into()));
        assert_eq!(wrong("udp:0.0.0.0"), ListenError::Address("0.0.0.0".into()));
        assert_eq!(wrong("udp:0.0.0.0:70000"), ListenError::Address("0.0.0.0:70000".into()));
    }

    #[test]
    fn an_address_is_bound_by_one_server_only() {
        for text in ["udp:127.0.0.1:0", "tcp:127.0.0.1:0"] {
            let first = Bound::bind(&[text.parse().unwrap()], 2).unwrap();
            let again = Bound::bind(first.addresses(), 2).err().unwrap();
            assert!(
                matches!(&again, BindError::Listener { why, .. } if why.kind() == io::ErrorKind::AddrInUse),
                "{again}"
            );
            assert!(again.to_string().contains("another program"), "{again}");
            let addresses = first.addresses().to_vec();
            drop(first);
            Bound::bind(&addresses, 2).unwrap();
        }
    }

    #[test]
    fn the_same_listener_twice_is_an_error() {
        let bound = Bound::bind(&["udp:127.0.0.1:0".parse().unwrap()], 1).unwrap();
        let free = bound.addresses()[0];
        drop(bound);
        assert!(Bound::bind(&[free, free], 1).is_err());
    }

    /// Fields TOS, or traffic classes, of the sockets of `listen` with a mark: of the listening socket; of a received datagram, or
    /// of an accepted connection.
    fn fields_of(listen: &str, dscp: Dscp) -> (u32, u32) {
        let bound = Bound::bind_marked(&[listen.parse().unwrap()], 2, dscp).unwrap();
        let at = bound.addresses()[0].address;
        let field = |socket: SockRef<'_>| match at.is_ipv6() {
            true => socket.tclass_v6().unwrap(),
            false => socket.tos_v4().unwrap(),
        };
        // The other socket of two is marked as well.
        match &bound.sockets[1][0] {
            ListenSocket::Datagram(socket, _) => {
                let receiver = UdpSocket::bind(SocketAddr::new(at.ip(), 0)).unwrap();
                receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                match at.is_ipv6() {
                    true => SockRef::from(&receiver).set_recv_tclass_v6(true).unwrap(),
                    false => SockRef::from(&receiver).set_recv_tos_v4(true).unwrap(),
                }
                socket.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
                (field(socket.into()), sys::tests::received_tos(receiver.as_fd()).unwrap().into())
            }
            ListenSocket::Stream(..) => {
                let listening = bound.sockets.iter().map(|sockets| match &sockets[0] {
                    ListenSocket::Stream(socket, _) => socket,
                    ListenSocket::Datagram(..) => panic!("no stream"),
                });
                let _client = TcpStream::connect(at).unwrap();
                let end = Instant::now() + Duration::from_secs(10);
                loop {
                    for socket in listening.clone() {
                        if let Ok((accepted, _)) = sys::accept(socket.as_fd()) {
                            return (field(socket.into()), field((&TcpStream::from(accepted)).into()));
                        }
                    }
                    assert!(Instant::now() < end, "no connection");
                    std::thread::yield_now();
                }
            }
        }
    }

    #[test]
    fn a_mark_is_that_of_datagrams_and_of_accepted_connections() {
        for listen in ["udp:127.0.0.1:0", "udp:[::1]:0", "tcp:127.0.0.1:0", "tcp:[::1]:0", "tls:127.0.0.1:0"]
        {
            assert_eq!(fields_of(listen, Dscp::new(24).unwrap()), (24 << 2, 24 << 2), "{listen}");
            assert_eq!(fields_of(listen, Dscp::NONE), (0, 0), "{listen}");
        }
    }
}
