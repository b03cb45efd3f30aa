//! A row of the table of attacks.

use crate::harness::World;
use ringway_sansio::Defence;

/// Attack, and the defence that it is tried against.
pub(crate) struct Row {
    /// The attack, in a phrase.
    pub(crate) name: &'static str,
    pub(crate) door: Door,
    pub(crate) thesis: Thesis,
    pub(crate) defence: Defence,
    /// Runs it against a new server.
    pub(crate) attack: fn() -> Seen,
}

/// Result of an attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The attacker has what it wanted.
    pub(crate) succeeded: bool,
    /// Bytes that the server received and sent, of all parties.
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
}

impl Seen {
    /// Result in a world without sockets.
    pub(crate) fn new(world: &World, succeeded: bool) -> Self {
        let traffic = world.traffic;
        Self { succeeded, received_bytes: traffic.received_bytes, sent_bytes: traffic.sent_bytes }
    }
}

/// Input of the server through which an attack comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    Udp,
    Tcp,
    WebSocket,
    Trunk,
    Edge,
    Presence,
    MediaRelay,
    Srtp,
    Stun,
    Dns,
    Dtls,
    Link,
    Neighbour,
    Admin,
    KeptMessages,
}

/// Row of tables 11 and 12 of the thesis on signalling security, by the names of their summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thesis {
    RegistrationHijacking,
    CallHijacking,
    IpSpoofing,
    Replay,
    Malformed,
    UdpFlood,
    TcpFlood,
    BufferOverflow,
    TollFraud,
    RtpTampering,
    RtpInsertion,
    Impersonation,
    /// It is in neither table.
    Other,
}

impl Door {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP, TLS",
            Self::WebSocket => "WebSocket",
            Self::Trunk => "trunk",
            Self::Edge => "edge, front",
            Self::Presence => "presence",
            Self::MediaRelay => "media relay (ng)",
            Self::Srtp => "SRTP",
            Self::Stun => "STUN",
            Self::Dns => "DNS",
            Self::Dtls => "DTLS",
            Self::Link => "cluster link",
            Self::Neighbour => "neighbour",
            Self::Admin => "admin API",
            Self::KeptMessages => "kept messages",
        }
    }
}

impl Thesis {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RegistrationHijacking => "registration hijacking",
            Self::CallHijacking => "call hijacking and redirection",
            Self::IpSpoofing => "IP spoofing",
            Self::Replay => "TCP/UDP replay",
            Self::Malformed => "malformed packets",
            Self::UdpFlood => "UDP flood",
            Self::TcpFlood => "TCP flood",
            Self::BufferOverflow => "buffer overflow",
            Self::RtpTampering => "RTP tampering",
            Self::RtpInsertion => "RTP insertion",
            Self::TollFraud => "toll fraud",
            Self::Impersonation => "impersonation",
            Self::Other => "–",
        }
    }
}
