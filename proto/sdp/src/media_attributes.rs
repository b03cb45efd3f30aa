//! Attributes of a media section (RFC 8866 §6).

use crate::connection::ip;
use crate::text::{fields, number, split_at_byte};
use crate::{Connection, MediaDescription};
use core::net::IpAddr;

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
