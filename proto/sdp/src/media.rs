//! Media sections (RFC 8866 §5.14): the profile of the `m=` line (§8.2.3), connection data (§5.7), attributes (§6);
//! codecs and directions of a stream.

use crate::text::{RawLine, fields, is_number, number, split_at_byte};
use crate::{Fault, Limits, Line, Malformed};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An `m=` line and the lines that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaDescription {
    pub(crate) medium: Vec<u8>,
    pub(crate) port: u16,
    /// Number of ports, not parsed.
    pub(crate) ports: Option<Vec<u8>>,
    pub(crate) protocol: Vec<u8>,
    pub(crate) formats: Vec<Vec<u8>>,
    pub(crate) connections: Vec<Connection>,
    /// Lines other than `c=` and `a=`.
    pub(crate) others: Vec<Line>,
    pub(crate) attributes: Vec<Attribute>,
}

impl MediaDescription {
    pub(crate) fn parse(
        first: &RawLine<'_>,
        rest: &[RawLine<'_>],
        limits: &Limits,
    ) -> Result<Self, Malformed> {
        let mut section = Self::parse_line(first.value).ok_or(first.malformed(Fault::Media))?;
        if section.formats.len() > limits.formats_max {
            return Err(first.malformed(Fault::TooManyFormats));
        }
        for line in rest {
            match line.letter {
                b'v' | b'o' => return Err(line.malformed(Fault::Start)),
                b's' | b'u' | b'e' | b'p' | b't' | b'r' | b'z' => {
                    return Err(line.malformed(Fault::Misplaced));
                }
                b'c' => {
                    let connection = Connection::parse(line.value);
                    section.connections.push(connection.ok_or(line.malformed(Fault::Connection))?);
                }
                b'a' if section.attributes.len() == limits.attributes_max => {
                    return Err(line.malformed(Fault::TooManyAttributes));
                }
                b'a' => section.attributes.push(Attribute::parse(line.value)),
                letter => section.others.push(Line { letter, value: line.value.to_vec() }),
            }
        }
        Ok(section)
    }

    /// A section that consists of its `m=` line.
    pub(crate) fn new(medium: &[u8], port: u16, protocol: &[u8], formats: Vec<Vec<u8>>) -> Self {
        Self {
            medium: medium.to_vec(),
            port,
            ports: None,
            protocol: protocol.to_vec(),
            formats,
            connections: Vec::new(),
            others: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// The same section, disabled: port 0, one format, no attributes (RFC 3264 §6, §8.2).
    pub(crate) fn disabled(&self) -> Self {
        let format = self.formats.first().cloned().unwrap_or_else(|| b"0".to_vec());
        Self::new(&self.medium, 0, &self.protocol, vec![format])
    }

    /// Media type: `audio`, `video`, …
    pub fn medium(&self) -> &[u8] {
        &self.medium
    }

    /// Port at which media is received; 0 if the stream is disabled (RFC 3264 §5.1).
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// True if the line has a number of ports, which is used by layered encodings and not supported.
    pub fn has_several_ports(&self) -> bool {
        self.ports.as_deref().is_some_and(|ports| number(ports) != Some(1_u8))
    }

    /// Protocol of the `m=` line, if it is a known RTP profile.
    pub fn profile(&self) -> Option<Profile> {
        Profile::from_name(&self.protocol)
    }

    /// Formats, in order of preference.
    pub fn formats(&self) -> impl Iterator<Item = &[u8]> {
        self.formats.iter().map(Vec::as_slice)
    }

    /// `c=` lines of the section; more than one only for multicast groups.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// Attributes of the section, in their order.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Lines of the section that are not parsed, in their order.
    pub fn other_lines(&self) -> &[Line] {
        &self.others
    }

    /// Parses the `m=` line. The list of formats may be empty, because some phones send none in a disabled
    /// section.
    fn parse_line(value: &[u8]) -> Option<Self> {
        let mut fields = fields(value);
        let (medium, port, protocol) = (fields.next()?, fields.next()?, fields.next()?);
        let (port, ports) = split_at_byte(port, b'/');
        if ports.is_some_and(|ports| !is_number(ports)) {
            return None;
        }
        let formats = fields.map(<[u8]>::to_vec).collect();
        let mut section = Self::new(medium, number(port)?, protocol, formats);
        section.ports = ports.map(<[u8]>::to_vec);
        Some(section)
    }
}

/// Meaning of a payload type (RFC 8866 §6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpMap<'a> {
    /// Encoding name; compared case-insensitively.
    pub encoding: &'a str,
    /// RTP clock rate in Hz.
    pub clock_rate_hz: u32,
    /// Number of channels; 1 if absent.
    pub channels: u8,
}

/// Port and address of RTCP, if not the port after RTP's (RFC 3605).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtcpAttribute {
    /// RTCP port.
    pub port: u16,
    /// RTCP address; `None` for the address of the stream.
    pub address: Option<IpAddr>,
}

impl MediaDescription {
    /// Values of all attributes called `name`.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.attributes.iter().filter(move |attribute| attribute.name == name.as_bytes());
        named.map(|attribute| attribute.value().unwrap_or_default())
    }

    /// True if there is an attribute called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// Mapping of `payload_type` by `a=rtpmap`. `None` if it is missing, malformed, or given twice with
    /// different values.
    pub fn rtpmap(&self, payload_type: u8) -> Option<RtpMap<'_>> {
        let mut maps = self.of_payload_type("rtpmap", payload_type).map(rtpmap);
        let first = maps.next()?;
        if maps.all(|other| other == first) { first } else { None }
    }

    /// True if there is an `a=rtpmap` for `payload_type`, even a malformed one.
    pub(crate) fn has_rtpmap(&self, payload_type: u8) -> bool {
        self.of_payload_type("rtpmap", payload_type).next().is_some()
    }

    /// Preferred packet length in milliseconds, rounded down; `None` if absent or 0.
    pub fn ptime_ms(&self) -> Option<u16> {
        self.milliseconds("ptime")
    }

    /// Maximum packet length in milliseconds.
    pub fn maxptime_ms(&self) -> Option<u16> {
        self.milliseconds("maxptime")
    }

    /// Value of `a=rtcp`, if present and valid.
    pub fn rtcp(&self) -> Option<RtcpAttribute> {
        let mut fields = fields(self.values("rtcp").next()?);
        let port = number(fields.next()?).filter(|&port| port != 0)?;
        let address = match (fields.next(), fields.next(), fields.next()) {
            (None, _, _) => None,
            (Some(b"IN"), Some(kind), Some(address)) => {
                Some(Connection::Address(ip(kind, address)?).unicast()?)
            }
            _ => return None,
        };
        Some(RtcpAttribute { port, address })
    }

    /// True if RTP and RTCP may share a port (RFC 5761 §5.1.1).
    pub fn has_rtcp_mux(&self) -> bool {
        self.has("rtcp-mux")
    }

    /// Hash of the Hello of ZRTP 1.10 (RFC 6189 §8).
    pub fn zrtp_hash(&self) -> Option<[u8; 32]> {
        self.values("zrtp-hash").find_map(|value| {
            let mut fields = fields(value);
            match (fields.next(), fields.next()) {
                (Some(b"1.10"), Some(digits)) => hash(digits),
                _ => None,
            }
        })
    }

    fn milliseconds(&self, name: &str) -> Option<u16> {
        let value = self.values(name).next()?.trim_ascii();
        number(split_at_byte(value, b'.').0).filter(|&milliseconds| milliseconds != 0)
    }

    /// Values of the attributes called `name` for `payload_type`, without the payload type.
    fn of_payload_type<'a>(&'a self, name: &'a str, payload_type: u8) -> impl Iterator<Item = &'a [u8]> {
        self.values(name).filter_map(move |value| {
            let (of, rest) = split_at_byte(value, b' ');
            (number(of) == Some(payload_type)).then(|| rest.unwrap_or_default().trim_ascii())
        })
    }
}

fn rtpmap(value: &[u8]) -> Option<RtpMap<'_>> {
    let mut parts = value.split(|&byte| byte == b'/');
    let encoding = core::str::from_utf8(parts.next()?).ok().filter(|name| !name.is_empty())?;
    let clock_rate_hz = number(parts.next()?.trim_ascii_end())?;
    let channels = match parts.next() {
        Some(channels) => number(channels.trim_ascii_end())?,
        None => 1,
    };
    Some(RtpMap { encoding, clock_rate_hz, channels })
}

/// Parses 64 hexadecimal digits.
fn hash(digits: &[u8]) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    base16ct::mixed::decode(digits, &mut hash).ok().filter(|decoded| decoded.len() == 32)?;
    Some(hash)
}

/// Connection address of a `c=` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// A unicast address. Nothing may be sent to 0.0.0.0 and `::` (RFC 3264 §8.4). An IPv4-mapped IPv6
    /// address is converted to IPv4.
    Address(IpAddr),
    /// A host name, a multicast group with its TTL, an IPv6 address with a zone, or another network type, not parsed. Media
    /// is never sent there.
    Other(Vec<u8>),
}

impl Connection {
    /// Parses the value of the line.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let mut fields = fields(value);
        let (network, kind, address) = (fields.next()?, fields.next()?, fields.next()?);
        if fields.next().is_some() {
            return None;
        }
        if network != b"IN" {
            return Some(Self::Other([network, kind, address].join(&b' ')));
        }
        match ip(kind, address) {
            Some(ip) => Some(Self::Address(ip)),
            None if is_name(address) || is_group(kind, address) || has_zone(kind, address) => {
                Some(Self::Other([network, kind, address].join(&b' ')))
            }
            None => None,
        }
    }

    /// The address, if it is a unicast address; an unspecified address means hold.
    pub fn unicast(&self) -> Option<IpAddr> {
        match self {
            Self::Address(IpAddr::V4(v4)) if v4.is_broadcast() || v4.is_multicast() => None,
            Self::Address(IpAddr::V6(v6)) if v6.is_multicast() => None,
            Self::Address(ip) => Some(*ip),
            Self::Other(_) => None,
        }
    }
}

/// Parses an address of the type `IP4` or `IP6`.
pub(crate) fn ip(kind: &[u8], address: &[u8]) -> Option<IpAddr> {
    let text = core::str::from_utf8(address).ok()?;
    match kind {
        b"IP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        b"IP6" => text.parse::<Ipv6Addr>().ok().map(|v6| IpAddr::V6(v6).to_canonical()),
        _ => None,
    }
}

/// True for a host name: letters, digits, `-` and `.`, with at least one letter, so that a malformed address
/// is not accepted.
fn is_name(text: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    text.iter().all(is_allowed) && text.iter().any(u8::is_ascii_alphabetic)
}

/// True for an IPv6 address with a zone, which only its own machine can use (RFC 4007 §11).
fn has_zone(kind: &[u8], text: &[u8]) -> bool {
    let (address, zone) = split_at_byte(text, b'%');
    zone.is_some_and(|zone| !zone.is_empty()) && ip(kind, address).is_some_and(|ip| ip.is_ipv6())
}

/// True for a multicast address with a TTL or a number of addresses.
fn is_group(kind: &[u8], text: &[u8]) -> bool {
    let mut parts = text.split(|&byte| byte == b'/');
    let is_address = parts.next().is_some_and(|address| ip(kind, address).is_some());
    is_address && parts.all(crate::text::is_number)
}

/// An `a=` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

impl Attribute {
    /// Parses the part after `a=`. Blanks around name and value, which some senders append, are no part of them.
    pub(crate) fn parse(line: &[u8]) -> Self {
        let (name, value) = split_at_byte(line, b':');
        let trimmed = |text: &[u8]| text.trim_ascii().to_vec();
        Self { name: trimmed(name), value: value.map(trimmed) }
    }

    /// A property attribute, which has no value.
    pub(crate) fn flag(name: &str) -> Self {
        Self { name: name.into(), value: None }
    }

    /// A value attribute; the value must not contain a line break.
    pub(crate) fn with(name: &str, value: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), value: Some(value.into()) }
    }

    /// Name of the attribute.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Part after the colon, if there is one.
    pub fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }
}

/// Direction by these attributes. Of contradicting ones, the intersection.
pub(crate) fn direction(attributes: &[Attribute]) -> Option<Direction> {
    let named = attributes.iter().filter(|attribute| attribute.value.is_none());
    let directions = named.filter_map(|attribute| {
        DIRECTIONS.into_iter().find(|direction| direction.name().as_bytes() == attribute.name)
    });
    directions.reduce(Direction::and)
}

const DIRECTIONS: [Direction; 4] =
    [Direction::SendRecv, Direction::SendOnly, Direction::RecvOnly, Direction::Inactive];

/// RTP profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// `RTP/AVP` (RFC 3551).
    Avp,
    /// `RTP/AVPF`: with early feedback (RFC 4585).
    Avpf,
    /// `RTP/SAVP`: SRTP (RFC 3711).
    Savp,
    /// `RTP/SAVPF` (RFC 5124).
    Savpf,
    /// `UDP/TLS/RTP/SAVP`: SRTP with keys from DTLS (RFC 5764).
    DtlsSavp,
    /// `UDP/TLS/RTP/SAVPF`.
    DtlsSavpf,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 6] =
        [Self::Avp, Self::Avpf, Self::Savp, Self::Savpf, Self::DtlsSavp, Self::DtlsSavpf];

    /// Name in an `m=` line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avp => "RTP/AVP",
            Self::Avpf => "RTP/AVPF",
            Self::Savp => "RTP/SAVP",
            Self::Savpf => "RTP/SAVPF",
            Self::DtlsSavp => "UDP/TLS/RTP/SAVP",
            Self::DtlsSavpf => "UDP/TLS/RTP/SAVPF",
        }
    }

    /// Parses a name case-insensitively.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// True if every packet is SRTP.
    pub const fn is_secure(self) -> bool {
        match self {
            Self::Avp | Self::Avpf => false,
            Self::Savp | Self::Savpf | Self::DtlsSavp | Self::DtlsSavpf => true,
        }
    }

    /// True if the keys come from DTLS.
    pub const fn is_dtls(self) -> bool {
        match self {
            Self::Avp | Self::Avpf | Self::Savp | Self::Savpf => false,
            Self::DtlsSavp | Self::DtlsSavpf => true,
        }
    }
}

/// Audio codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// G.711 µ-law, 8,000 Hz, 8 bits a sample; static payload type 0 (RFC 3551 §4.5.14).
    Pcmu,
    /// G.711 A-law, 8,000 Hz, 8 bits a sample; static payload type 8 (RFC 3551 §4.5.14).
    Pcma,
}

impl Codec {
    /// Encoding name in `a=rtpmap` (RFC 3551 §6); compared case-insensitively.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pcmu => "PCMU",
            Self::Pcma => "PCMA",
        }
    }

    /// Payload type that is valid without `a=rtpmap`.
    pub const fn static_payload_type(self) -> u8 {
        match self {
            Self::Pcmu => 0,
            Self::Pcma => 8,
        }
    }

    /// RTP clock rate and sample rate, in Hz.
    pub const fn clock_rate_hz(self) -> u32 {
        match self {
            Self::Pcmu | Self::Pcma => 8000,
        }
    }

    /// The supported codec with this encoding name and clock rate.
    pub fn from_name(name: &str, clock_rate_hz: u32) -> Option<Self> {
        [Self::Pcmu, Self::Pcma]
            .into_iter()
            .find(|codec| codec.name().eq_ignore_ascii_case(name) && codec.clock_rate_hz() == clock_rate_hz)
    }
}

/// Direction of a stream, as seen from the side that sends the SDP (RFC 3264 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Sends and receives.
    #[default]
    SendRecv,
    /// Sends only.
    SendOnly,
    /// Receives only.
    RecvOnly,
    /// Neither sends nor receives.
    Inactive,
}

impl Direction {
    /// True if this side sends.
    pub const fn sends(self) -> bool {
        matches!(self, Self::SendRecv | Self::SendOnly)
    }

    /// True if this side receives.
    pub const fn receives(self) -> bool {
        matches!(self, Self::SendRecv | Self::RecvOnly)
    }

    /// The same direction as seen from the other side.
    pub const fn reversed(self) -> Self {
        Self::from_parts(self.receives(), self.sends())
    }

    /// Intersection: sends if both send, receives if both receive.
    pub const fn and(self, other: Self) -> Self {
        Self::from_parts(self.sends() && other.sends(), self.receives() && other.receives())
    }

    /// Combines sending and receiving.
    pub const fn from_parts(sends: bool, receives: bool) -> Self {
        match (sends, receives) {
            (true, true) => Self::SendRecv,
            (true, false) => Self::SendOnly,
            (false, true) => Self::RecvOnly,
            (false, false) => Self::Inactive,
        }
    }

    /// Name of the SDP attribute (RFC 8866 §6.7).
    pub const fn name(self) -> &'static str {
        match self {
            Self::SendRecv => "sendrecv",
            Self::SendOnly => "sendonly",
            Self::RecvOnly => "recvonly",
            Self::Inactive => "inactive",
        }
    }
}
