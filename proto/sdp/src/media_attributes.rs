//! The attributes of a media section (RFC 8866 §6).

use crate::connection::ip;
use crate::text::{fields, number, split_at_byte};
use crate::{Connection, MediaDescription};
use core::net::IpAddr;

/// What a payload type stands for (RFC 8866 §6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpMap<'a> {
    /// The encoding's name; compared without regard to case.
    pub encoding: &'a str,
    /// Ticks of the time stamp in a second.
    pub clock_rate_hz: u32,
    /// Channels of sound; 1 when nothing is said.
    pub channels: u8,
}

/// Where RTCP is received, when that is not the next port (RFC 3605).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtcpAttribute {
    /// The port.
    pub port: u16,
    /// The address; `None`: the stream's.
    pub address: Option<IpAddr>,
}

impl MediaDescription {
    /// The values of all attributes called `name`.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.attributes.iter().filter(move |attribute| attribute.name == name.as_bytes());
        named.map(|attribute| attribute.value().unwrap_or_default())
    }

    /// True when there is an attribute called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.values(name).next().is_some()
    }

    /// What `payload_type` stands for by `a=rtpmap`. `None` when nothing is said, when it cannot be read, and when two
    /// lines say different things.
    pub fn rtpmap(&self, payload_type: u8) -> Option<RtpMap<'_>> {
        let mut maps = self.of_payload_type("rtpmap", payload_type).map(rtpmap);
        let first = maps.next()?;
        if maps.all(|other| other == first) { first } else { None }
    }

    /// True when any `a=rtpmap` speaks of `payload_type`.
    pub(crate) fn has_rtpmap(&self, payload_type: u8) -> bool {
        self.of_payload_type("rtpmap", payload_type).next().is_some()
    }

    /// The parameters of `payload_type` (`a=fmtp`), as written.
    pub fn fmtp(&self, payload_type: u8) -> Option<&[u8]> {
        self.of_payload_type("fmtp", payload_type).next()
    }

    /// Milliseconds of sound wanted in a packet; parts of a millisecond are cut off, and 0 says nothing.
    pub fn ptime_ms(&self) -> Option<u16> {
        self.milliseconds("ptime")
    }

    /// Milliseconds of sound in a packet at the most.
    pub fn maxptime_ms(&self) -> Option<u16> {
        self.milliseconds("maxptime")
    }

    /// Where RTCP is received, if it says so in a way that can be followed.
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

    /// True when RTP and RTCP may share the port (RFC 5761 §5.1.1).
    pub fn has_rtcp_mux(&self) -> bool {
        self.has("rtcp-mux")
    }

    /// The hash of the Hello of ZRTP 1.10 (RFC 6189 §8).
    pub fn zrtp_hash(&self) -> Option<[u8; 32]> {
        self.values("zrtp-hash").find_map(|value| {
            let mut fields = fields(value);
            match (fields.next(), fields.next()) {
                (Some(b"1.10"), Some(digits)) => hash(digits),
                _ => None,
            }
        })
    }

    /// The source that the section announces first (RFC 5576 §4.1).
    pub fn ssrc(&self) -> Option<u32> {
        self.values("ssrc").find_map(|value| number(fields(value).next()?))
    }

    fn milliseconds(&self, name: &str) -> Option<u16> {
        let value = self.values(name).next()?.trim_ascii();
        number(split_at_byte(value, b'.').0).filter(|&milliseconds| milliseconds != 0)
    }

    /// What the attributes called `name` say of `payload_type`.
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

/// 64 hexadecimal digits.
fn hash(digits: &[u8]) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    base16ct::mixed::decode(digits, &mut hash).ok().filter(|decoded| decoded.len() == 32)?;
    Some(hash)
}
