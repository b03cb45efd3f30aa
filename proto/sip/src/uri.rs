//! URIs (RFC 3261 §19.1): SIP and SIPS in full, others as far as they can be told apart.

use crate::grammar::{escapes_are_whole, is_host, is_uri, number, unescape_into};
use crate::{Malformed, Params};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A URI as it stands in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    raw: &'a [u8],
    scheme: Scheme,
    user: Option<&'a [u8]>,
    password: Option<&'a [u8]>,
    host: Host<'a>,
    port: Option<u16>,
    params: Params<'a>,
    headers: &'a [u8],
}

/// The kinds of URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `sip:`
    Sip,
    /// `sips:`
    Sips,
    /// `tel:` (RFC 3966); only its scheme is read.
    Tel,
    /// Any other; only its scheme is read.
    Other,
}

/// A host: a name, an IPv4 address, or an IPv6 reference with its brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host<'a>(&'a [u8]);

impl<'a> Host<'a> {
    /// Parses a host.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let good = match bytes {
            [b'[', inner @ .., b']'] => ipv6(inner).is_some(),
            [] => false,
            name => name.iter().all(|&byte| is_host(byte)),
        };
        if good { Ok(Self(bytes)) } else { Err(Malformed) }
    }

    /// The host as written, an IPv6 reference with its brackets.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The address, when the host is one and no name.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.0 {
            [b'[', inner @ .., b']'] => ipv6(inner).map(IpAddr::V6),
            [first, ..] if first.is_ascii_digit() => Some(IpAddr::V4(ipv4(self.0)?)),
            _ => None,
        }
    }

    /// Equal without regard to case; two spellings of one address are equal.
    pub fn equals(&self, other: &[u8]) -> bool {
        if self.0.eq_ignore_ascii_case(other) {
            return true;
        }
        match (self.ip(), Host(other).ip()) {
            (Some(one), Some(two)) => one == two,
            _ => false,
        }
    }
}

impl<'a> Uri<'a> {
    /// Parses a URI without brackets around it. Of a scheme other than SIP and SIPS only the scheme and the absence of
    /// white space are checked.
    pub fn parse(raw: &'a [u8]) -> Result<Self, Malformed> {
        let colon = memchr::memchr(b':', raw).ok_or(Malformed)?;
        let (name, rest) = raw.split_at_checked(colon).ok_or(Malformed)?;
        let rest = rest.get(1..).ok_or(Malformed)?;
        let scheme = scheme_of(name)?;
        if rest.is_empty()
            || !rest.iter().all(|&byte| is_uri(byte) || matches!(byte, b'^' | b'`' | b'{' | b'|' | b'}'))
        {
            return Err(Malformed);
        }
        match scheme {
            Scheme::Sip | Scheme::Sips => Self::parse_sip(raw, scheme, rest),
            Scheme::Tel | Scheme::Other => Ok(Self {
                raw,
                scheme,
                user: None,
                password: None,
                host: Host(b""),
                port: None,
                params: Params::default(),
                headers: b"",
            }),
        }
    }

    /// The URI as written.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.raw
    }

    /// Its scheme.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// True for SIP and SIPS URIs, the ones with a host.
    pub const fn is_sip(&self) -> bool {
        matches!(self.scheme, Scheme::Sip | Scheme::Sips)
    }

    /// The user part as written, escapes in place.
    pub const fn user(&self) -> Option<&'a [u8]> {
        self.user
    }

    /// The password, which nobody should use.
    pub const fn password(&self) -> Option<&'a [u8]> {
        self.password
    }

    /// The host; empty for other schemes.
    pub const fn host(&self) -> Host<'a> {
        self.host
    }

    /// The port, when given.
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// The URI's own parameters.
    pub const fn params(&self) -> Params<'a> {
        self.params
    }

    /// What follows the `?`; empty when there is none.
    pub const fn headers(&self) -> &'a [u8] {
        self.headers
    }

    /// True with an `lr` parameter: a loose router (RFC 3261 §19.1.1).
    pub fn is_loose_router(&self) -> bool {
        self.params.has(b"lr")
    }

    /// Appends the user part with escapes undone, as it is compared and looked up (RFC 3261 §10.3 step 5).
    pub fn unescaped_user_into(&self, out: &mut Vec<u8>) {
        unescape_into(self.user.unwrap_or_default(), out);
    }

    fn parse_sip(raw: &'a [u8], scheme: Scheme, rest: &'a [u8]) -> Result<Self, Malformed> {
        let (userinfo, host_on) = match memchr::memchr(b'@', rest) {
            Some(at) => (Some(rest.get(..at).ok_or(Malformed)?), rest.get(at + 1..).ok_or(Malformed)?),
            None => (None, rest),
        };
        let (user, password) = match userinfo {
            None => (None, None),
            Some(info) => {
                let (user, password) = match memchr::memchr(b':', info) {
                    Some(at) => (info.get(..at).ok_or(Malformed)?, info.get(at + 1..)),
                    None => (info, None),
                };
                if user.is_empty() || !escapes_are_whole(info) {
                    return Err(Malformed);
                }
                (Some(user), password)
            }
        };
        let (before_headers, headers) = match memchr::memchr(b'?', host_on) {
            Some(at) => (host_on.get(..at).ok_or(Malformed)?, host_on.get(at + 1..).ok_or(Malformed)?),
            None => (host_on, &[][..]),
        };
        let (host_port, params) = match memchr::memchr(b';', before_headers) {
            Some(at) => before_headers.split_at_checked(at).ok_or(Malformed)?,
            None => (before_headers, &[][..]),
        };
        let (host, port) = split_host_port(host_port)?;
        Ok(Self { raw, scheme, user, password, host, port, params: Params::parse(params)?, headers })
    }
}

fn scheme_of(name: &[u8]) -> Result<Scheme, Malformed> {
    let [first, rest @ ..] = name else { return Err(Malformed) };
    let good = first.is_ascii_alphabetic()
        && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    match name {
        _ if !good => Err(Malformed),
        _ if name.eq_ignore_ascii_case(b"sip") => Ok(Scheme::Sip),
        _ if name.eq_ignore_ascii_case(b"sips") => Ok(Scheme::Sips),
        _ if name.eq_ignore_ascii_case(b"tel") => Ok(Scheme::Tel),
        _ => Ok(Scheme::Other),
    }
}

fn split_host_port(bytes: &[u8]) -> Result<(Host<'_>, Option<u16>), Malformed> {
    let host_end = match bytes.first() {
        Some(b'[') => memchr::memchr(b']', bytes).ok_or(Malformed)? + 1,
        _ => memchr::memchr(b':', bytes).unwrap_or(bytes.len()),
    };
    let (host, rest) = bytes.split_at_checked(host_end).ok_or(Malformed)?;
    let host = Host::parse(host)?;
    match rest {
        [] => Ok((host, None)),
        [b':', digits @ ..] => {
            let port = number(digits).and_then(|port| u16::try_from(port).ok()).ok_or(Malformed)?;
            Ok((host, Some(port)))
        }
        _ => Err(Malformed),
    }
}

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    core::str::from_utf8(bytes).ok()?.parse().ok()
}

fn ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    core::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
#[path = "uri_tests.rs"]
mod tests;
