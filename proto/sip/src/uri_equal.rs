//! Comparison of URIs (RFC 3261 §19.1.4).

use crate::grammar::unescaped_octet;
use crate::{Params, Uri};

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
