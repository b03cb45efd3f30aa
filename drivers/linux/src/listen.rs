//! Listeners: how they are written, and how they are bound for several workers.

use crate::inbox::Inboxes;
use crate::sys;
use ringway_sansio::{TRANSPORTS_NOT_SUPPORTED, Transport};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::time::Duration;

/// A transport and an address to listen on, as configuration writes it: `udp:0.0.0.0:5060`, `tcp:[::]:5060`.
///
/// `[::]` takes IPv6 only; IPv4 has its own listener, so that every address has one spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Listen {
    /// The transport.
    pub transport: Transport,
    /// The address; port 0 asks for any free one.
    pub address: SocketAddr,
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let (name, address) = text.split_once(':').ok_or_else(|| ListenError::Form(text.to_owned()))?;
        let transport =
            Transport::from_name(name).ok_or_else(|| match TRANSPORTS_NOT_SUPPORTED.contains(&name) {
                true => ListenError::NotYet(name.to_owned()),
                false => ListenError::Transport(name.to_owned()),
            })?;
        let address = address.parse().map_err(|_| ListenError::Address(address.to_owned()))?;
        Ok(Self { transport, address })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.address)
    }
}

/// Why a listener's text is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// There is no colon in it.
    #[error("`{0}` is no listener: write TRANSPORT:ADDRESS:PORT, like udp:0.0.0.0:5060")]
    Form(String),
    /// No such transport.
    #[error("`{0}` is no transport: write udp or tcp")]
    Transport(String),
    /// A transport of the interface that this version does not have.
    #[error("transport `{0}` is not supported yet: use udp or tcp")]
    NotYet(String),
    /// The rest is not an IP address and a port.
    #[error("`{0}` is no address: write an IP address and a port, like 0.0.0.0:5060 or [::]:5060")]
    Address(String),
}

/// Listeners that are bound, once for each worker, and take in what comes; nobody reads it yet.
pub struct Bound {
    pub(crate) listeners: Vec<Listen>,
    /// For each worker its sockets, one for each listener.
    pub(crate) sockets: Vec<Vec<ListenSocket>>,
    pub(crate) inboxes: Inboxes,
}

/// One worker's socket of one listener.
pub(crate) enum ListenSocket {
    Udp(UdpSocket),
    Tcp(TcpListener),
}

impl Bound {
    /// Binds `listeners` for `workers` threads (0: one for each core). The kernel spreads flows over the workers'
    /// sockets (`SO_REUSEPORT`), each flow always to the same.
    ///
    /// An address that another program listens on is refused, even if that is a second one of us.
    pub fn bind(listeners: &[Listen], workers: usize) -> Result<Self, BindError> {
        let workers = match workers {
            0 => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            asked => asked,
        }
        .min(WORKERS_MAX);
        if listeners.len() > LISTENERS_MAX {
            return Err(BindError::TooMany);
        }
        let mut bound = Vec::with_capacity(listeners.len());
        let mut sockets: Vec<Vec<ListenSocket>> = (0..workers).map(|_| Vec::new()).collect();
        for listen in listeners {
            let failed = |why: io::Error| BindError::Listener { listener: *listen, why };
            let (actual, copies) = bind_copies(*listen, workers).map_err(failed)?;
            bound.push(actual);
            for (worker, socket) in sockets.iter_mut().zip(copies) {
                worker.push(socket);
            }
        }
        let inboxes = Inboxes::new(workers).map_err(BindError::Machine)?;
        Ok(Self { listeners: bound, sockets, inboxes })
    }

    /// The listeners in the order they were given, with the ports they got.
    pub fn addresses(&self) -> &[Listen] {
        &self.listeners
    }

    /// How many workers will run.
    pub fn workers(&self) -> usize {
        self.sockets.len()
    }

    /// The way to the workers for other threads; it can be handed out before the runtime starts.
    pub fn inboxes(&self) -> Inboxes {
        self.inboxes.clone()
    }
}

/// Why listening is not possible.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// One listener could not be bound.
    #[error("cannot listen on {listener}: {}", in_words(.why))]
    Listener {
        /// Which.
        listener: Listen,
        /// What the system said.
        why: io::Error,
    },
    /// More than a `ListenerId` can count.
    #[error("too many listeners: at most {LISTENERS_MAX} are possible")]
    TooMany,
    /// The system has no more descriptors to give.
    #[error("cannot set up the workers: {0}; raise the limit of open files (ulimit -n)")]
    Machine(io::Error),
}

/// The most worker threads: a connection's number has eight bits for its worker, one value of which is kept for other
/// descriptors.
pub(crate) const WORKERS_MAX: usize = 255;

const LISTENERS_MAX: usize = 255;

/// How many connections the kernel holds for us between two looks, per worker; it may allow fewer.
const BACKLOG: i32 = 1024;

/// The kernel buffer of a datagram socket: a tenth of a second of 100 000 messages a second.
const DATAGRAM_BUFFER_BYTES: usize = 8 << 20;

/// After so long without an answer to what was sent a peer is gone; it keeps dead connections from looking alive.
const UNANSWERED: Duration = Duration::from_secs(30);

/// How long a quiet connection goes unprobed.
const PROBE_AFTER: Duration = Duration::from_secs(120);

fn in_words(why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::AddrInUse => {
            "another program listens there; stop it or choose another port".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        io::ErrorKind::PermissionDenied => "not permitted; ports below 1024 need a privilege".to_owned(),
        _ => why.to_string(),
    }
}

/// The first socket is bound without `SO_REUSEPORT`, which fails if anybody has the address, and shares it only from
/// then on: two servers cannot both pass.
fn bind_copies(listen: Listen, workers: usize) -> io::Result<(Listen, Vec<ListenSocket>)> {
    let first = unbound(listen)?;
    bind_and_listen(&first, listen)?;
    first.set_reuse_port(true)?;
    let address = first.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let actual = Listen { transport: listen.transport, address };
    let mut sockets = vec![first];
    for _ in 1..workers {
        let socket = unbound(listen)?;
        socket.set_reuse_port(true)?;
        bind_and_listen(&socket, actual)?;
        sockets.push(socket);
    }
    let typed = sockets.into_iter().map(|socket| match listen.transport.is_stream() {
        false => ListenSocket::Udp(socket.into()),
        true => ListenSocket::Tcp(socket.into()),
    });
    Ok((actual, typed.collect()))
}

fn unbound(listen: Listen) -> io::Result<Socket> {
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
    if is_stream {
        // Connections of the last run that are winding down do not keep the port.
        socket.set_reuse_address(true)?;
        set_stream_options(&socket)?;
    } else {
        sys::set_buffers(socket.as_fd(), DATAGRAM_BUFFER_BYTES);
    }
    Ok(socket)
}

fn bind_and_listen(socket: &Socket, listen: Listen) -> io::Result<()> {
    socket.bind(&listen.address.into())?;
    if listen.transport.is_stream() { socket.listen(BACKLOG) } else { Ok(()) }
}

/// The options of every stream. Accepted connections inherit them from the listening socket.
pub(crate) fn set_stream_options(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(UNANSWERED / 2))?;
    socket.set_tcp_user_timeout(Some(UNANSWERED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_read_and_written_alike() {
        for text in ["udp:0.0.0.0:5060", "tcp:127.0.0.1:0", "tcp:[::]:5060"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_listener_is_told_what_is_wrong() {
        let wrong = |text: &str| text.parse::<Listen>().unwrap_err();
        assert_eq!(wrong("5060"), ListenError::Form("5060".into()));
        assert_eq!(wrong("sctp:0.0.0.0:5060"), ListenError::Transport("sctp".into()));
        assert_eq!(wrong("tls:0.0.0.0:5061"), ListenError::NotYet("tls".into()));
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
}
