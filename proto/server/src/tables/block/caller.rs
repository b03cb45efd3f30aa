//! The caller of a request, as block lists compare it.

use crate::{Aor, Config};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use ringway_sip::grammar::unescaped;
use ringway_sip::{Host, Scheme, Uri};

/// Caller of a request that is to be forwarded.
///
/// Its names are made when a list asks for them: without a list nothing is done.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub(super) config: &'a Config,
    pub(super) from: &'a Uri<'a>,
    callee: Callee<'a>,
    pub(super) source: IpAddr,
}

/// User of this server that a request is for.
#[derive(Clone, Copy, Debug)]
enum Callee<'a> {
    Other,
    Uri(&'a Uri<'a>),
    /// `user@domain`.
    User(&'a [u8]),
}

/// Names of a caller.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// `user@domain`, as in a pattern, or for a caller without a user its domain.
    text: Vec<u8>,
    /// Start of the domain.
    domain_at: usize,
    /// Digits of a number, with its `+`; empty for other callers.
    number: Vec<u8>,
    /// The same behind the digits of its `phone-context` (RFC 3966 §5.1.5); empty without them.
    global: Vec<u8>,
}

impl Names {
    /// `user@domain`; empty for a caller without a user.
    pub(super) fn user(&self) -> &[u8] {
        if self.domain_at == 0 { &[] } else { &self.text }
    }

    /// Domain in lower case; of a `tel:` URI that of its `phone-context`.
    pub(super) fn domain(&self) -> &[u8] {
        self.text.get(self.domain_at..).unwrap_or_default()
    }

    /// The readings of a number.
    pub(super) fn numbers(&self) -> impl Iterator<Item = &[u8]> {
        [self.number.as_slice(), &self.global].into_iter().filter(|number| !number.is_empty())
    }

    /// Sets the readings of the number in a user part without escapes, which may have parameters (RFC 3261 §19.1.6). Returns the
    /// domain that is its context, if there is one.
    fn set_number<'u>(&mut self, user: &'u [u8]) -> Option<&'u [u8]> {
        let mut parts = user.split(|byte| *byte == b';');
        number_of(parts.next().unwrap_or_default(), &mut self.number);
        let context = parts.find_map(|part| {
            let (name, value) = part.split_at_checked(PHONE_CONTEXT.len())?;
            name.eq_ignore_ascii_case(PHONE_CONTEXT).then_some(value)
        })?;
        if !context.starts_with(b"+") {
            return Some(context);
        }
        if !self.number.is_empty() && !self.number.starts_with(b"+") && number_of(context, &mut self.global) {
            self.global.extend_from_slice(&self.number);
        }
        None
    }
}

impl<'a> Caller<'a> {
    /// The sender of a request from `source` with this From; `callee` is the target, if it is in a domain of the server.
    pub(crate) const fn new(
        config: &'a Config,
        from: &'a Uri<'a>,
        callee: Option<&'a Uri<'a>>,
        source: IpAddr,
    ) -> Self {
        let callee = match callee {
            Some(uri) => Callee::Uri(uri),
            None => Callee::Other,
        };
        Self { config, from, callee, source }
    }

    /// The sender of a message that is kept for the user `recipient`; the address that it was sent from is not kept.
    pub(crate) const fn of_kept(config: &'a Config, from: &'a Uri<'a>, recipient: &'a [u8]) -> Self {
        let source = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { config, from, callee: Callee::User(recipient), source }
    }

    /// `user@domain` of the callee.
    pub(super) fn callee(&self) -> Option<Vec<u8>> {
        let uri = match self.callee {
            Callee::Other => return None,
            Callee::Uri(uri) => uri,
            Callee::User(aor) => return Some(aor.to_vec()),
        };
        let mut aor = Aor::default();
        self.config.read_aor(uri, &mut aor).then(|| aor.into_bytes())
    }

    pub(super) fn names(&self) -> Names {
        let mut names = Names::default();
        match self.from.scheme() {
            Scheme::Sip | Scheme::Sips => {}
            Scheme::Tel => {
                let number = unescaped(self.from.as_bytes().get(b"tel:".len()..).unwrap_or_default());
                if let Some(Ok(host)) = names.set_number(&number).map(Host::parse) {
                    host_into(&host, &mut names.text);
                }
                return names;
            }
            Scheme::Other => return names,
        }
        let mut aor = Aor::default();
        if self.config.read_aor(self.from, &mut aor) {
            // Each spelling of a domain of ours is the same user.
            names.domain_at = aor.user().len() + 1;
            names.text = aor.into_bytes();
        } else {
            if self.from.user().is_some() {
                self.from.unescaped_user_into(&mut names.text);
                names.text.push(b'@');
            }
            names.domain_at = names.text.len();
            host_into(&self.from.host(), &mut names.text);
        }
        let user = names.text.get(..names.domain_at.saturating_sub(1)).unwrap_or_default().to_vec();
        names.set_number(&user);
        names
    }
}

/// Appends a host in lower case, without a dot at its end.
pub(super) fn host_into(host: &Host<'_>, out: &mut Vec<u8>) {
    out.extend(host.without_root_dot().as_bytes().iter().map(u8::to_ascii_lowercase));
}

/// Appends the digits of a number without its visual separators (RFC 3966 §5.1.1) and what else people write between digits. False, and
/// nothing appended, if it is none.
pub(super) fn number_of(text: &[u8], out: &mut Vec<u8>) -> bool {
    let text = text.trim_ascii();
    let (plus, rest) = match text.strip_prefix(b"+") {
        Some(rest) => (&b"+"[..], rest),
        None => (&b""[..], text),
    };
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let is_separator = |byte: &u8| matches!(byte, b'-' | b'.' | b'(' | b')' | b' ' | b'/');
    let digits = rest.iter().filter(|byte| is_digit(byte)).count();
    let is_number = (1..=NUMBER_DIGITS_MAX).contains(&digits)
        && rest.iter().all(|byte| is_digit(byte) || is_separator(byte));
    if is_number {
        out.extend_from_slice(plus);
        out.extend(rest.iter().filter(|byte| is_digit(byte)));
    }
    is_number
}

const PHONE_CONTEXT: &[u8] = b"phone-context=";

/// E.164 has 15 digits; dial strings have more.
const NUMBER_DIGITS_MAX: usize = 32;
