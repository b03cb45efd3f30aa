//! URIs (RFC 3261 §19.1): SIP and SIPS in full, others as far as they can be told apart.

use crate::grammar::{HOST, URI, URI_USER, class_len, escapes_are_whole, number, unescape_into};
use crate::{Malformed, Params};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A URI as it stands in a message, of at most 65,535 bytes. Its parts are kept as places and not as slices, because a
/// message holds several and is moved about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    raw: &'a [u8],
    scheme: Scheme,
    user: Option<Part>,
    password: Option<Part>,
    host: Part,
    port: Option<u16>,
    /// Headers follow behind a `?`.
    params: Part,
}

/// Where a part of a URI stands in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    start: u16,
    end: u16,
}

impl Part {
    /// The part of `len` bytes from `start` on.
    fn new(start: usize, len: usize) -> Result<Self, Malformed> {
        let place = |at: usize| u16::try_from(at).map_err(|_| Malformed);
        Ok(Self { start: place(start)?, end: place(start + len)? })
    }

    fn of<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        raw.get(usize::from(self.start)..usize::from(self.end)).unwrap_or_default()
    }
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
        match Self::split(bytes)? {
            (host, []) => Ok(host),
            _ => Err(Malformed),
        }
    }

    /// The host at the start of `bytes`, and what follows it.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let len = match bytes.first() {
            Some(b'[') => memchr::memchr(b']', bytes).ok_or(Malformed)? + 1,
            _ => class_len(bytes, HOST),
        };
        let (host, after) = bytes.split_at_checked(len).ok_or(Malformed)?;
        let is_good = match host {
            [b'[', inner @ .., b']'] => ipv6(inner).is_some(),
            name => !name.is_empty(),
        };
        if is_good { Ok((Self(host), after)) } else { Err(Malformed) }
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
        let colon = raw.iter().position(|&byte| byte == b':').ok_or(Malformed)?;
        let (name, rest) = raw.split_at_checked(colon).ok_or(Malformed)?;
        let rest = rest.get(1..).ok_or(Malformed)?;
        let scheme = scheme_of(name)?;
        match scheme {
            Scheme::Sip | Scheme::Sips => Self::parse_sip(raw, scheme, rest),
            Scheme::Tel | Scheme::Other if rest.is_empty() || class_len(rest, URI) < rest.len() => {
                Err(Malformed)
            }
            Scheme::Tel | Scheme::Other => {
                let nothing = Part::new(raw.len(), 0)?;
                Ok(Self {
                    raw,
                    scheme,
                    user: None,
                    password: None,
                    host: nothing,
                    port: None,
                    params: nothing,
                })
            }
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
    pub fn user(&self) -> Option<&'a [u8]> {
        self.user.map(|part| part.of(self.raw))
    }

    /// The password, which nobody should use.
    pub fn password(&self) -> Option<&'a [u8]> {
        self.password.map(|part| part.of(self.raw))
    }

    /// The host; empty for other schemes.
    pub fn host(&self) -> Host<'a> {
        Host(self.host.of(self.raw))
    }

    /// The port, when given.
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// The URI's own parameters.
    pub fn params(&self) -> Params<'a> {
        Params::unchecked(self.params.of(self.raw))
    }

    /// What follows the `?`; empty when there is none.
    pub fn headers(&self) -> &'a [u8] {
        self.raw.get(usize::from(self.params.end) + 1..).unwrap_or_default()
    }

    /// True with an `lr` parameter: a loose router (RFC 3261 §19.1.1).
    pub fn is_loose_router(&self) -> bool {
        self.params().has(b"lr")
    }

    /// Appends the user part with escapes undone, as it is compared and looked up (RFC 3261 §10.3 step 5).
    pub fn unescaped_user_into(&self, out: &mut Vec<u8>) {
        unescape_into(self.user().unwrap_or_default(), out);
    }

    fn parse_sip(raw: &'a [u8], scheme: Scheme, rest: &'a [u8]) -> Result<Self, Malformed> {
        let (user, password, host_on) = split_userinfo(rest)?;
        let (host, port_on) = Host::split(host_on)?;
        let (port, after) = split_port(port_on)?;
        if class_len(after, URI) < after.len() {
            return Err(Malformed);
        }
        let params = match memchr::memchr(b'?', after) {
            Some(at) => after.get(..at).ok_or(Malformed)?,
            None => after,
        };
        Params::parse(params)?;
        // Each part reaches to where the next begins, so its place follows from what is left behind it.
        let user_start = raw.len() - rest.len();
        let host_start = raw.len() - host_on.len();
        let user = user.map(|user| Part::new(user_start, user.len())).transpose()?;
        let password = password.map(|it| Part::new(host_start - 1 - it.len(), it.len())).transpose()?;
        Ok(Self {
            raw,
            scheme,
            user,
            password,
            host: Part::new(host_start, host.as_bytes().len())?,
            port,
            params: Part::new(raw.len() - after.len(), params.len())?,
        })
    }
}

fn scheme_of(name: &[u8]) -> Result<Scheme, Malformed> {
    if name.eq_ignore_ascii_case(b"sip") {
        return Ok(Scheme::Sip);
    }
    if name.eq_ignore_ascii_case(b"sips") {
        return Ok(Scheme::Sips);
    }
    if name.eq_ignore_ascii_case(b"tel") {
        return Ok(Scheme::Tel);
    }
    let [first, rest @ ..] = name else { return Err(Malformed) };
    let is_scheme = first.is_ascii_alphabetic()
        && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if is_scheme { Ok(Scheme::Other) } else { Err(Malformed) }
}

/// User, password, and what follows the `@`; without `@` there is neither.
type Userinfo<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [u8]);

fn split_userinfo(rest: &[u8]) -> Result<Userinfo<'_>, Malformed> {
    let user_len = class_len(rest, URI_USER);
    let at = match rest.get(user_len) {
        Some(b'@') => user_len,
        Some(b':') => match memchr::memchr(b'@', rest) {
            Some(at) => at,
            None => return Ok((None, None, rest)),
        },
        _ => return Ok((None, None, rest)),
    };
    let info = rest.get(..at).ok_or(Malformed)?;
    let user = info.get(..user_len).ok_or(Malformed)?;
    let password = info.get(user_len + 1..);
    let is_good = !user.is_empty()
        && escapes_are_whole(info)
        && password.is_none_or(|password| class_len(password, URI) == password.len());
    if !is_good {
        return Err(Malformed);
    }
    Ok((Some(user), password, rest.get(at + 1..).ok_or(Malformed)?))
}

/// `[ ":" port ]`, and what follows.
fn split_port(bytes: &[u8]) -> Result<(Option<u16>, &[u8]), Malformed> {
    let Some(on) = bytes.strip_prefix(b":") else { return Ok((None, bytes)) };
    let len = on.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(on.len());
    let (digits, after) = on.split_at_checked(len).ok_or(Malformed)?;
    let port = number(digits).and_then(|port| u16::try_from(port).ok()).ok_or(Malformed)?;
    Ok((Some(port), after))
}

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    core::str::from_utf8(bytes).ok()?.parse().ok()
}

fn ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    core::str::from_utf8(bytes).ok()?.parse().ok().or_else(|| ipv6_with_third_colon(bytes))
}

/// RFC 5118 §4.10: `2001:db8:::192.0.2.1`, which RFC 3261's grammar allows, means `2001:db8::192.0.2.1`.
fn ipv6_with_third_colon(bytes: &[u8]) -> Option<Ipv6Addr> {
    let at = memchr::memmem::find(bytes, b":::")?;
    let (head, tail) = (bytes.get(..at + 2)?, bytes.get(at + 3..)?);
    ipv4(tail)?;
    let mut text = [0; 46];
    text.get_mut(..head.len())?.copy_from_slice(head);
    text.get_mut(head.len()..head.len() + tail.len())?.copy_from_slice(tail);
    core::str::from_utf8(text.get(..head.len() + tail.len())?).ok()?.parse().ok()
}

#[cfg(test)]
#[path = "uri_tests.rs"]
mod tests;
