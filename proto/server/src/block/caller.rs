//! The caller of a request, as block lists compare it.

use crate::{Aor, Config};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sip::{Host, Scheme, Uri};

/// Caller of a request that is to be forwarded.
///
/// Its names are made when a list asks for them: without a list nothing is done.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub(super) config: &'a Config,
    pub(super) from: &'a Uri<'a>,
    pub(super) callee: Option<&'a Uri<'a>>,
    pub(super) source: IpAddr,
}

/// Names of a caller.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// `user@domain`, as in a pattern; empty for a caller without a user.
    pub(super) user: Vec<u8>,
    /// Domain in lower case; empty for a `tel:` URI.
    pub(super) domain: Vec<u8>,
    /// Digits of a number, with its `+`; empty for other callers.
    pub(super) number: Vec<u8>,
}

impl<'a> Caller<'a> {
    /// The sender of a request from `source` with this From; `callee` is the target, if it is in a domain of the server.
    pub(crate) const fn new(
        config: &'a Config,
        from: &'a Uri<'a>,
        callee: Option<&'a Uri<'a>>,
        source: IpAddr,
    ) -> Self {
        Self { config, from, callee, source }
    }

    /// Address-of-record of the callee.
    pub(super) fn callee(&self) -> Option<Aor> {
        let mut aor = Aor::default();
        self.config.read_aor(self.callee?, &mut aor).then_some(aor)
    }

    pub(super) fn names(&self) -> Names {
        let mut names = Names::default();
        match self.from.scheme() {
            Scheme::Sip | Scheme::Sips => {}
            Scheme::Tel => {
                let number = self.from.as_bytes().get(b"tel:".len()..).unwrap_or_default();
                number_of(until_params(number), &mut names.number);
                return names;
            }
            Scheme::Other => return names,
        }
        let mut aor = Aor::default();
        if self.config.read_aor(self.from, &mut aor) {
            // Each spelling of a domain of ours is the same user.
            names.domain.extend_from_slice(aor.domain());
            names.user.extend_from_slice(aor.as_bytes());
        } else {
            host_into(&self.from.host(), &mut names.domain);
            if self.from.user().is_some() {
                self.from.unescaped_user_into(&mut names.user);
                names.user.push(b'@');
                names.user.extend_from_slice(&names.domain);
            }
        }
        let user = names.user.len().checked_sub(names.domain.len() + 1);
        let user = user.and_then(|len| names.user.get(..len)).unwrap_or_default();
        number_of(until_params(user), &mut names.number);
        names
    }
}

/// The part of a user or a number before its parameters (RFC 3261 §19.1.6).
fn until_params(user: &[u8]) -> &[u8] {
    user.split(|byte| *byte == b';').next().unwrap_or_default()
}

/// Appends a host in lower case, without a dot at its end.
pub(super) fn host_into(host: &Host<'_>, out: &mut Vec<u8>) {
    let host = host.as_bytes();
    let host = host.strip_suffix(b".").unwrap_or(host);
    out.extend(host.iter().map(u8::to_ascii_lowercase));
}

/// Appends the digits of a number without its visual separators (RFC 3966 §5.1.1). False, and nothing appended, if it is
/// none.
pub(super) fn number_of(text: &[u8], out: &mut Vec<u8>) -> bool {
    let (plus, rest) = match text.strip_prefix(b"+") {
        Some(rest) => (&b"+"[..], rest),
        None => (&b""[..], text),
    };
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let is_separator = |byte: &u8| matches!(byte, b'-' | b'.' | b'(' | b')');
    let digits = rest.iter().filter(|byte| is_digit(byte)).count();
    let is_number = (1..=NUMBER_DIGITS_MAX).contains(&digits)
        && rest.iter().all(|byte| is_digit(byte) || is_separator(byte));
    if is_number {
        out.extend_from_slice(plus);
        out.extend(rest.iter().filter(|byte| is_digit(byte)));
    }
    is_number
}

/// E.164 has 15 digits; dial strings have more.
const NUMBER_DIGITS_MAX: usize = 32;
