//! URIs (RFC 3261 §19.1): SIP and SIPS in full, of others only the scheme; their comparison (§19.1.4).

use crate::grammar::{HOST, URI_USER, class_len, escapes_are_whole, unescape_into, unescaped_octet, uri_len};
use crate::{Malformed, Params};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A URI of a message, of at most 65,535 bytes. Its parts are ranges and not slices, because a message holds several
/// URIs and is moved between functions.
///
/// ```
/// use ringway_sip::{Scheme, Uri};
///
/// let uri = Uri::parse(b"sip:bob@example.org:5070;transport=tcp")?;
/// assert_eq!(uri.scheme(), Scheme::Sip);
/// assert_eq!(uri.user(), Some(&b"bob"[..]));
/// assert_eq!(uri.port(), Some(5070));
/// assert_eq!(uri.params().value(b"transport"), Some(&b"tcp"[..]));
/// # Ok::<(), ringway_sip::Malformed>(())
/// ```
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

/// Range of a part of a URI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    start: u16,
    end: u16,
}

impl Part {
    /// The range between two positions in a URI, which is at most 65,535 bytes long.
    const fn between(start: usize, end: usize) -> Self {
        Self { start: start as u16, end: end as u16 }
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

    /// The host at the start of `bytes`, and the rest. Called several times for every message, where a call costs as
    /// much as the work.
    #[inline(always)]
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

    /// The host without a dot at its end, which is the root of all names (RFC 1034 §3.1).
    #[inline]
    pub fn without_root_dot(self) -> Self {
        match self.0 {
            [name @ .., b'.'] if !name.is_empty() => Self(name),
            _ => self,
        }
    }

    /// The address, when the host is one and no name.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.0 {
            [b'[', inner @ .., b']'] => ipv6(inner).map(IpAddr::V6),
            [first, ..] if first.is_ascii_digit() => Some(IpAddr::V4(ipv4(self.0)?)),
            _ => None,
        }
    }

    /// Equal without regard to case; two spellings of one IPv6 address are equal. One of IPv4 has no other spelling.
    pub fn equals(&self, other: &[u8]) -> bool {
        if self.0 == other || self.0.eq_ignore_ascii_case(other) {
            return true;
        }
        match (self.0, other) {
            ([b'[', ..], [b'[', ..]) => self.ip().is_some_and(|ip| Some(ip) == Host(other).ip()),
            _ => false,
        }
    }
}

impl<'a> Uri<'a> {
    /// Parses a URI without brackets around it. Of a scheme other than SIP and SIPS only the scheme and the absence of
    /// white space are checked.
    pub fn parse(raw: &'a [u8]) -> Result<Self, Malformed> {
        match Self::split(raw)? {
            (uri, []) => Ok(uri),
            _ => Err(Malformed),
        }
    }

    /// The URI at the start of `bytes`, and the rest, which begins with a byte that is not allowed in a URI.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let (scheme, rest) = split_scheme(bytes)?;
        match scheme {
            Scheme::Sip | Scheme::Sips => Self::split_sip(bytes, scheme, rest),
            Scheme::Tel | Scheme::Other => {
                let len = uri_len(rest);
                let (raw, after) = bytes.split_at_checked(bytes.len() - rest.len() + len).ok_or(Malformed)?;
                if len == 0 || raw.len() > Self::BYTES_MAX {
                    return Err(Malformed);
                }
                let nothing = Part::between(raw.len(), raw.len());
                let (host, params) = (nothing, nothing);
                Ok((Self { raw, scheme, user: None, password: None, host, port: None, params }, after))
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

    /// The password; deprecated (RFC 3261 §19.1.1).
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

    /// The URI headers after the `?`; empty without a `?`.
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

    /// The part of [`Uri::split`] after the scheme.
    #[inline]
    fn split_sip(bytes: &'a [u8], scheme: Scheme, rest: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        // Each part reaches to the start of the next one, so its position follows from the length of the rest.
        let place = |rest: &[u8]| bytes.len() - rest.len();
        let info = split_userinfo(rest)?;
        let (host, port_on) = Host::split(info.host_on)?;
        let (port, params_on) = match port_on {
            [b':', port_on @ ..] => split_port(port_on).map(|(port, after)| (Some(port), after))?,
            _ => (None, port_on),
        };
        let (params_len, after) = match params_on.first() {
            Some(b';' | b'?') => split_params(params_on)?,
            _ => (0, params_on),
        };
        let raw = bytes.get(..place(after)).ok_or(Malformed)?;
        if raw.len() > Self::BYTES_MAX {
            return Err(Malformed);
        }
        let (user_start, host_start, params_start) = (place(rest), place(info.host_on), place(params_on));
        let user_end = user_start + info.user_len.unwrap_or(0);
        let uri = Self {
            raw,
            scheme,
            user: info.user_len.map(|_| Part::between(user_start, user_end)),
            password: info.has_password.then(|| Part::between(user_end + 1, host_start - 1)),
            host: Part::between(host_start, host_start + host.as_bytes().len()),
            port,
            params: Part::between(params_start, params_start + params_len),
        };
        Ok((uri, after))
    }

    /// Positions are 16 bits wide.
    const BYTES_MAX: usize = u16::MAX as usize;
}

/// The scheme, and the rest after its colon.
#[inline]
fn split_scheme(bytes: &[u8]) -> Result<(Scheme, &[u8]), Malformed> {
    match bytes {
        [b's', b'i', b'p', b':', rest @ ..] => Ok((Scheme::Sip, rest)),
        [b's' | b'S', b'i' | b'I', b'p' | b'P', b':', rest @ ..] => Ok((Scheme::Sip, rest)),
        [b's' | b'S', b'i' | b'I', b'p' | b'P', b's' | b'S', b':', rest @ ..] => Ok((Scheme::Sips, rest)),
        [b't' | b'T', b'e' | b'E', b'l' | b'L', b':', rest @ ..] => Ok((Scheme::Tel, rest)),
        [first, more @ ..] if first.is_ascii_alphabetic() => {
            let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
            let name_len = more.iter().position(|byte| !is_of_name(byte)).ok_or(Malformed)?;
            let rest = more.get(name_len..).and_then(|rest| rest.strip_prefix(b":")).ok_or(Malformed)?;
            Ok((Scheme::Other, rest))
        }
        _ => Err(Malformed),
    }
}

/// The part before the host.
struct Userinfo<'a> {
    /// The bytes of the user; `None` without an `@`.
    user_len: Option<usize>,
    /// True if there is a password between user and host.
    has_password: bool,
    host_on: &'a [u8],
}

#[inline]
fn split_userinfo(rest: &[u8]) -> Result<Userinfo<'_>, Malformed> {
    let mut at = class_len(rest, URI_USER);
    let (mut colon, mut has_escapes) = (None, false);
    loop {
        match rest.get(at) {
            Some(b'@') => break,
            Some(b':') => colon = colon.or(Some(at)),
            Some(b'%') => has_escapes = true,
            _ => return Ok(Userinfo { user_len: None, has_password: false, host_on: rest }),
        }
        at += 1;
        at += class_len(rest.get(at..).unwrap_or_default(), URI_USER);
    }
    let (info, host_on) = rest.split_at_checked(at).ok_or(Malformed)?;
    let user_len = colon.unwrap_or(at);
    if user_len == 0 || (has_escapes && !escapes_are_whole(info)) {
        return Err(Malformed);
    }
    let host_on = host_on.get(1..).ok_or(Malformed)?;
    Ok(Userinfo { user_len: Some(user_len), has_password: colon.is_some(), host_on })
}

/// The length of the parameters at the start of `bytes`, and the rest after the headers that follow them.
fn split_params(bytes: &[u8]) -> Result<(usize, &[u8]), Malformed> {
    let (params_and_headers, after) = bytes.split_at_checked(uri_len(bytes)).ok_or(Malformed)?;
    let len = memchr::memchr(b'?', params_and_headers).unwrap_or(params_and_headers.len());
    Params::parse(params_and_headers.get(..len).ok_or(Malformed)?)?;
    Ok((len, after))
}

/// The port at the start of `bytes`, and the rest.
#[inline]
pub(crate) fn split_port(bytes: &[u8]) -> Result<(u16, &[u8]), Malformed> {
    let (mut port, mut after) = (0_u32, bytes);
    while let [digit @ b'0'..=b'9', rest @ ..] = after {
        // Leading zeros are allowed, and a number that is too large stays so.
        port = (port * 10 + u32::from(digit - b'0')).min(PORT_TOO_LARGE);
        after = rest;
    }
    match u16::try_from(port) {
        Ok(port) if (1..=PORT_DIGITS_MAX).contains(&(bytes.len() - after.len())) => Ok((port, after)),
        Ok(_) | Err(_) => Err(Malformed),
    }
}

/// Any number that is no port.
const PORT_TOO_LARGE: u32 = 1 << 16;
/// Maximum number of digits of a port, with its leading zeros.
const PORT_DIGITS_MAX: usize = 20;

/// Four numbers up to 255 without leading zeros, which some parsers take for octal.
fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    let (a, [b'.', rest @ ..]) = split_octet(bytes)? else { return None };
    let (b, [b'.', rest @ ..]) = split_octet(rest)? else { return None };
    let (c, [b'.', rest @ ..]) = split_octet(rest)? else { return None };
    let (d, []) = split_octet(rest)? else { return None };
    Some(Ipv4Addr::new(a, b, c, d))
}

/// A number up to 255 at the start of `bytes`, and what follows it: a digit where that makes it no such number.
#[inline]
fn split_octet(bytes: &[u8]) -> Option<(u8, &[u8])> {
    match bytes {
        [hundreds @ b'1'..=b'2', tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] => {
            let octet = ((hundreds - b'0') * 100).checked_add((tens - b'0') * 10 + (ones - b'0'))?;
            Some((octet, rest))
        }
        [tens @ b'1'..=b'9', ones @ b'0'..=b'9', rest @ ..] => {
            Some(((tens - b'0') * 10 + (ones - b'0'), rest))
        }
        [ones @ b'0'..=b'9', rest @ ..] => Some((ones - b'0', rest)),
        _ => None,
    }
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

impl Uri<'_> {
    /// True when both name the same resource by the rules of RFC 3261 §19.1.4: users compare with case and with escapes
    /// undone, hosts without case, ports and `user`, `ttl`, `method`, `maddr`, `transport` parameters must be on both
    /// sides or on neither, other parameters only matter when both have them, headers always matter. URIs of other
    /// schemes are equal when their bytes are.
    pub fn equals(&self, other: &Uri<'_>) -> bool {
        if self.as_bytes() == other.as_bytes() {
            return true;
        }
        if !self.is_sip() || self.scheme() != other.scheme() {
            return false;
        }
        same_part(self.user(), other.user())
            && same_part(self.password(), other.password())
            && self.host().equals(other.host().as_bytes())
            && self.port() == other.port()
            && params_agree(self.params(), other.params())
            && params_agree(other.params(), self.params())
            && same_headers(self.headers(), other.headers())
    }

    /// True when both name the same user, as clients write a URI of a digest: scheme, user, host and `maddr` are equal, a port is
    /// equal or missing on one side, and a host may end in a dot. Other parameters, such as `user`, do not matter.
    pub fn is_alike(&self, other: &Uri<'_>) -> bool {
        let ports = (self.port(), other.port());
        let (host, other_host) = (self.host().without_root_dot(), other.host().without_root_dot());
        self.is_sip()
            && self.scheme() == other.scheme()
            && same_part(self.user(), other.user())
            && host.equals(other_host.as_bytes())
            && (ports.0 == ports.1 || ports.0.is_none() || ports.1.is_none())
            && same_part(self.params().value(b"maddr"), other.params().value(b"maddr"))
    }
}

fn same_part(one: Option<&[u8]>, two: Option<&[u8]>) -> bool {
    match (one, two) {
        (None, None) => true,
        (Some(one), Some(two)) => same_unescaped(one, two, false),
        _ => false,
    }
}

fn same_unescaped(mut one: &[u8], mut two: &[u8], ignore_case: bool) -> bool {
    loop {
        match (unescaped_octet(one), unescaped_octet(two)) {
            (None, None) => return true,
            (Some((a, a_len)), Some((b, b_len))) if a == b || (ignore_case && a.eq_ignore_ascii_case(&b)) => {
                one = one.get(a_len..).unwrap_or_default();
                two = two.get(b_len..).unwrap_or_default();
            }
            _ => return false,
        }
    }
}

/// True if every parameter of `one` that must match has an equal in `two`. Duplicated parameters are not allowed
/// (RFC 3261 §19.1.1); if there are some, each is compared, so that a URI equals itself in every spelling.
fn params_agree(one: Params<'_>, two: Params<'_>) -> bool {
    one.iter().all(|param| {
        let mut others = two.iter().filter(|other| other.name.eq_ignore_ascii_case(param.name)).peekable();
        if others.peek().is_none() {
            return !MUST_BE_ON_BOTH.iter().any(|name| name.eq_ignore_ascii_case(param.name));
        }
        others.any(|other| match (param.value, other.value) {
            (None, None) => true,
            (Some(a), Some(b)) => same_unescaped(a, b, true),
            _ => false,
        })
    })
}

const MUST_BE_ON_BOTH: [&[u8]; 5] = [b"user", b"ttl", b"method", b"maddr", b"transport"];

fn same_headers(one: &[u8], two: &[u8]) -> bool {
    headers_agree(one, two) && headers_agree(two, one)
}

fn headers_agree(one: &[u8], two: &[u8]) -> bool {
    one.split(|&byte| byte == b'&').filter(|field| !field.is_empty()).all(|field| {
        two.split(|&byte| byte == b'&').any(|other| {
            let (name, value) = split_field(field);
            let (other_name, other_value) = split_field(other);
            same_unescaped(name, other_name, true) && same_unescaped(value, other_value, false)
        })
    })
}

fn split_field(field: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'=', field) {
        Some(at) => (field.get(..at).unwrap_or_default(), field.get(at + 1..).unwrap_or_default()),
        None => (field, &[]),
    }
}

#[cfg(test)]
#[path = "uri_tests.rs"]
mod tests;
