//! UDP packets in frames.

use anyhow::{Result, bail};

/// A UDP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram<'f> {
    /// Destination.
    pub(super) port: u16,
    pub(super) payload: &'f [u8],
}

/// Reason why a packet is not played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unplayed {
    /// Not UDP over IP, or not valid.
    Other,
    /// A part of an IP packet.
    Fragment,
    /// Not recorded to its end.
    Cut,
    /// The payload is empty or too long.
    Length,
    /// Without a time.
    Untimed,
    /// The file ends in it.
    Rest,
}

impl Unplayed {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Other => "not UDP",
            Self::Fragment => "fragments",
            Self::Cut => "not recorded whole",
            Self::Length => "empty or above 1,500 bytes",
            Self::Untimed => "without a time",
            Self::Rest => "cut off by the end of the file",
        }
    }
}

/// The UDP packet of a frame, or the reason why it is not one.
///
/// # Errors
/// The link type is not known.
pub(super) fn datagram(link: u16, frame: &[u8], is_cut: bool) -> Result<Result<Datagram<'_>, Unplayed>> {
    let packet = match link {
        ETHERNET => ethernet(frame),
        // The family of addresses, whose numbers differ between systems, is in the IP header too.
        NULL | LOOP => frame.get(4..),
        RAW | RAW_OF_OPENBSD | RAW_OF_BSD | IPV4 | IPV6 => Some(frame),
        LINUX_COOKED => frame.get(14..16).and_then(|kind| of_type(kind, frame.get(16..)?)),
        LINUX_COOKED_2 => frame.get(..2).and_then(|kind| of_type(kind, frame.get(20..)?)),
        link => bail!(
            "link type {link} is not supported; known are Ethernet, IP, loopback and Linux cooked capture"
        ),
    };
    Ok(match packet.and_then(|packet| Some((packet.first()? >> 4, packet))) {
        Some((4, packet)) => ipv4(packet, is_cut),
        Some((6, packet)) => ipv6(packet, is_cut),
        Some(_) | None => Err(Unplayed::Other),
    })
}

/// IP packet behind addresses, types and tags of VLANs.
fn ethernet(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    for _ in 0..TAGS_MAX {
        match frame.get(at..at + 2)? {
            [0x81 | 0x91, 0x00] | [0x88, 0xa8] => at += 4,
            kind => return of_type(kind, frame.get(at + 2..)?),
        }
    }
    None
}

/// The packet, if its type is IP.
const fn of_type<'f>(kind: &[u8], packet: &'f [u8]) -> Option<&'f [u8]> {
    match kind {
        [0x08, 0x00] | [0x86, 0xdd] => Some(packet),
        _ => None,
    }
}

fn ipv4(packet: &[u8], is_cut: bool) -> Result<Datagram<'_>, Unplayed> {
    let read = || {
        let header_bytes = usize::from(*packet.first()? & 0x0f) * 4;
        let fragment = u16_at(packet, 6)?;
        let protocol = *packet.get(9)?;
        // Segments of a network card have no length.
        let total = usize::from(u16_at(packet, 2)?);
        let packet = if total == 0 { packet } else { packet.get(..total).unwrap_or(packet) };
        Some((header_bytes >= 20, protocol, fragment, packet.get(header_bytes..)?))
    };
    match read() {
        Some((true, UDP, fragment, _)) if fragment & FRAGMENT != 0 => Err(Unplayed::Fragment),
        Some((true, UDP, _, datagram)) => udp(datagram, is_cut),
        _ => Err(Unplayed::Other),
    }
}

fn ipv6(packet: &[u8], is_cut: bool) -> Result<Datagram<'_>, Unplayed> {
    let read = || {
        let length = usize::from(u16_at(packet, 4)?);
        let body = packet.get(40..)?;
        let body = if length == 0 { body } else { body.get(..length).unwrap_or(body) };
        Some((*packet.get(6)?, body))
    };
    let Some((mut next, mut body)) = read() else { return Err(Unplayed::Other) };
    for _ in 0..EXTENSIONS_MAX {
        // RFC 8200 §4: hop-by-hop options, routing, destination options.
        let units = match next {
            UDP => return udp(body, is_cut),
            44 => return Err(Unplayed::Fragment),
            0 | 43 | 60 => body.get(1),
            _ => return Err(Unplayed::Other),
        };
        let after = units.and_then(|units| body.get((usize::from(*units) + 1) * 8..));
        let (Some(&kind), Some(rest)) = (body.first(), after) else { return Err(Unplayed::Other) };
        (next, body) = (kind, rest);
    }
    Err(Unplayed::Other)
}

fn udp(datagram: &[u8], is_cut: bool) -> Result<Datagram<'_>, Unplayed> {
    let missing = if is_cut { Unplayed::Cut } else { Unplayed::Other };
    let read = || Some((u16_at(datagram, 2)?, usize::from(u16_at(datagram, 4)?)));
    let Some((port, length)) = read() else { return Err(missing) };
    match datagram.get(8..length) {
        Some(payload) => Ok(Datagram { port, payload }),
        None => Err(missing),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes)
}

/// Link types (LINKTYPE_ of tcpdump.org).
const NULL: u16 = 0;
const ETHERNET: u16 = 1;
const RAW_OF_BSD: u16 = 12;
const RAW_OF_OPENBSD: u16 = 14;
const RAW: u16 = 101;
const LOOP: u16 = 108;
const LINUX_COOKED: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const LINUX_COOKED_2: u16 = 276;
/// Protocol number.
const UDP: u8 = 17;
/// Bits of an IPv4 header: more fragments, and offset.
const FRAGMENT: u16 = 0x3fff;
/// Most tags of VLANs, and then the type.
const TAGS_MAX: usize = 4;
/// Most extension headers of an IPv6 packet, and then UDP.
const EXTENSIONS_MAX: usize = 9;
