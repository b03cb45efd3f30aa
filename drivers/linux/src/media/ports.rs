//! Pair of UDP ports: RTP on an even port, RTCP on the next one (RFC 3550 §11).

use crate::dscp::Dscp;
use crate::sys;
use ringway_sansio::ListenerId;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::str::FromStr;

/// Listener ID of the RTP port.
pub const RTP_PORT: ListenerId = ListenerId(0);

/// Listener ID of the RTCP port.
pub const RTCP_PORT: ListenerId = ListenerId(1);

/// Range of usable ports, written `A-B` or as one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Range from `first` to `last` inclusive. `None`: it contains no even port together with the next one.
    pub fn new(first: u16, last: u16) -> Option<Self> {
        let range = Self { first, last };
        (first > 0 && range.pairs() > 0).then_some(range)
    }

    /// Even port of a pair.
    fn pair(self, index: u16) -> u16 {
        (self.first + self.first % 2).saturating_add(index.saturating_mul(2))
    }

    fn pairs(self) -> u16 {
        let even = u32::from(self.first) + u32::from(self.first % 2);
        u16::try_from((u32::from(self.last) + 1).saturating_sub(even) / 2).unwrap_or(u16::MAX)
    }
}

/// Default: above registered ports, and below the system's ephemeral ports.
impl Default for PortRange {
    fn default() -> Self {
        Self { first: 16_384, last: 32_767 }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for PortRange {
    type Err = PortsError;

    fn from_str(text: &str) -> Result<Self, PortsError> {
        let wrong = || PortsError::Range(text.to_owned());
        let port = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (port(first)?, port(last)?),
            None => (port(text)?, port(text)?.saturating_add(1)),
        };
        Self::new(first, last).ok_or_else(wrong)
    }
}

/// Two bound sockets that are not read yet.
#[derive(Debug)]
pub struct MediaPorts {
    pub(super) rtp: UdpSocket,
    pub(super) rtcp: UdpSocket,
    rtp_address: SocketAddr,
}

impl MediaPorts {
    /// Binds a pair of `range` at `ip`, beginning at a random one, so that the ports of a call are not predictable.
    /// Sent packets are marked "expedited forwarding" (RFC 3246); received ones get the kernel's time stamp.
    pub fn bind(ip: IpAddr, range: PortRange) -> Result<Self, PortsError> {
        let pairs = range.pairs();
        let start = RandomState::new().hash_one(ip) % u64::from(pairs.max(1));
        let start = u16::try_from(start).unwrap_or(0);
        let mut taken = None;
        for step in 0..pairs {
            let index = (u32::from(start) + u32::from(step)) % u32::from(pairs);
            let port = range.pair(u16::try_from(index).unwrap_or(0));
            match Self::bind_pair(ip, port) {
                Ok(ports) => return Ok(ports),
                Err(why) if why.kind() == io::ErrorKind::AddrInUse => taken = Some(why),
                Err(why) => return Err(PortsError::Bind { ip, range, why }),
            }
        }
        let why = taken.unwrap_or_else(|| io::ErrorKind::AddrInUse.into());
        Err(PortsError::Bind { ip, range, why })
    }

    /// Address at which RTP is received, for the SDP offer.
    pub fn rtp_address(&self) -> SocketAddr {
        self.rtp_address
    }

    fn bind_pair(ip: IpAddr, port: u16) -> io::Result<Self> {
        let rtp_address = SocketAddr::new(ip, port);
        let rtp = bind(rtp_address)?;
        let rtcp = bind(SocketAddr::new(ip, port.saturating_add(1)))?;
        Ok(Self { rtp, rtcp, rtp_address })
    }
}

/// Error of media ports.
#[derive(Debug, thiserror::Error)]
pub enum PortsError {
    /// The text is not a valid range.
    #[error(
        "`{0}` is not a range of ports for a call: write A-B with an even port and the next one in it, like 16384-16483"
    )]
    Range(String),
    /// No pair could be bound.
    #[error(
        "no pair of media ports at {ip} in {range} can be bound: {why}; free some or give another address or range"
    )]
    Bind {
        /// IP address.
        ip: IpAddr,
        /// Range that was tried.
        range: PortRange,
        /// Error of the last attempt.
        why: io::Error,
    },
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A socket without this mark works too.
    let _ = Dscp::EF.mark(&socket, address.is_ipv6());
    sys::stamp_arrivals(socket.as_fd())?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}
