//! This server's own domains and addresses, and addresses-of-record in them.

use crate::config::is_private;
use crate::{Config, Number};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::Transport;
use ringway_sip::{Host, Scheme, Uri};

impl Config {
    /// Domain of `domains` that `uri` is in; `None` for any other URI.
    ///
    /// A domain name counts without a port or with a port of a listener, and with a dot at its end; an address counts if it is an address
    /// of a listener. The contact of a phone on the same machine is therefore not taken for the server.
    pub(crate) fn domain_of(&self, uri: &Uri<'_>) -> Option<&str> {
        self.domain_or_address(uri, || uri.host().ip())
    }

    /// The same; `ip` is the address of the host of `uri`, for callers that need it too.
    pub(crate) fn domain_or_address(
        &self,
        uri: &Uri<'_>,
        ip: impl FnOnce() -> Option<IpAddr>,
    ) -> Option<&str> {
        if !uri.is_sip() {
            return None;
        }
        let host = uri.host();
        // Neither a name nor an address counts with another port: most contacts have one.
        if let Some(port) = uri.port()
            && !self.is_own_port(port)
        {
            return None;
        }
        let named = |host: Host<'_>| self.domains.iter().find(|domain| host.equals(domain.as_bytes()));
        if let Some(domain) = named(host) {
            return Some(domain);
        }
        if host.as_bytes().ends_with(b".")
            && let Some(domain) = named(host.without_root_dot())
        {
            return Some(domain);
        }
        let transport = || Transport::of_uri(uri.scheme() == Scheme::Sips, uri.params().value(b"transport"));
        let is_own = self.is_own_host(host, ip(), uri.port(), transport);
        if is_own { self.domains.first().map(|domain| domain.as_str()) } else { None }
    }

    /// Domain of `domains` that a request for `uri` is for: that of a SIP URI, and the first one for a `tel:` URI if there are
    /// routes.
    pub(crate) fn target_domain(&self, uri: &Uri<'_>) -> Option<&str> {
        match uri.scheme() {
            Scheme::Tel if self.trunking.reads_tel() => self.domains.first().map(|domain| domain.as_str()),
            Scheme::Sip | Scheme::Sips | Scheme::Tel | Scheme::Other => self.domain_of(uri),
        }
    }

    /// True if a From with `uri` shows a domain of `domains` to its reader: a different port or a dot at the end looks
    /// the same. Without a port it is the same.
    pub(crate) fn is_claimed_by(&self, uri: &Uri<'_>) -> bool {
        self.domain_of(uri).is_some() || (uri.port().is_some() && self.is_name_of_domain(uri))
    }

    fn is_name_of_domain(&self, uri: &Uri<'_>) -> bool {
        let host = uri.host().without_root_dot();
        uri.is_sip()
            && self.domains.iter().any(|domain| host.equals(domain.as_bytes()))
            && uri.host().ip().is_none()
    }

    /// True if a NAT may forward a public address to a listener: one has a private address that is not loopback.
    pub(crate) fn may_be_behind_translator(&self) -> bool {
        let mut addresses = self.listeners_in_use().map(|(_, listener)| listener.advertised.ip());
        addresses.any(|ip| is_private(ip) && !ip.is_loopback() && !ip.is_unspecified())
    }

    /// True if the sender at `source` is reachable at `contact`: the addresses are equal, or both are of this machine.
    pub(crate) fn is_same_host(&self, contact: IpAddr, source: IpAddr) -> bool {
        let contact = contact.to_canonical();
        contact == source
            || (self.machine_addresses.contains(&contact)
                && (source.is_loopback() || self.machine_addresses.contains(&source)))
    }

    /// Fills `aor` with the address-of-record of `uri`; false if that is not in `domains`.
    pub(crate) fn read_aor(&self, uri: &Uri<'_>, aor: &mut Aor) -> bool {
        let (Some(domain), Some(_)) = (self.domain_of(uri), uri.user()) else { return false };
        aor.set(|out| uri.unescaped_user_into(out), domain.as_bytes());
        true
    }

    /// The same for the target of a request, which may be a `tel:` URI.
    pub(crate) fn read_target(&self, uri: &Uri<'_>, aor: &mut Aor) -> bool {
        if uri.scheme() != Scheme::Tel {
            return self.read_aor(uri, aor);
        }
        let (Some(domain), Some((number, _))) = (self.target_domain(uri), Number::of_uri(uri)) else {
            return false;
        };
        aor.set(|out| out.extend_from_slice(number.as_bytes()), domain.as_bytes());
        true
    }
}

/// Address-of-record in one of `domains`, in canonical form: user part without escapes, domain in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Aor {
    /// `user@domain`.
    bytes: Vec<u8>,
    user_len: usize,
}

impl Aor {
    /// Creates it from a user part without escapes and a domain of `domains`.
    pub fn new(user: &[u8], domain: &[u8]) -> Self {
        let mut aor = Self::default();
        aor.set(|out| out.extend_from_slice(user), domain);
        aor
    }

    /// Replaces the address in the allocated memory.
    pub(crate) fn set(&mut self, write_user: impl FnOnce(&mut Vec<u8>), domain: &[u8]) {
        self.bytes.clear();
        self.bytes.reserve(USER_BYTES + domain.len());
        write_user(&mut self.bytes);
        self.user_len = self.bytes.len();
        self.bytes.push(b'@');
        self.bytes.extend_from_slice(domain);
        if let Some(domain) = self.bytes.get_mut(self.user_len + 1..) {
            domain.make_ascii_lowercase();
        }
    }

    /// `user@domain`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// User part, without escapes.
    pub fn user(&self) -> &[u8] {
        self.bytes.get(..self.user_len).unwrap_or_default()
    }

    /// Domain.
    pub fn domain(&self) -> &[u8] {
        self.bytes.get(self.user_len + 1..).unwrap_or_default()
    }
}

/// User part and domain of `user@domain`.
pub(crate) fn split(aor: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = aor.iter().rposition(|&byte| byte == b'@')?;
    Some((aor.get(..at)?, aor.get(at + 1..)?))
}

/// Length of a usual user part, with the `@`: longer ones take a second allocation.
const USER_BYTES: usize = 32;

/// Proof that the sender of a request may act for `T`. Created only by the digest verifier, from the certificate
/// of the request's connection, or if authentication is off. A
/// REGISTER changes bindings only with it.
#[derive(Clone, Copy, Debug)]
pub struct Authenticated<T>(T);

impl<T> Authenticated<T> {
    /// Subject of the proof.
    pub const fn subject(&self) -> &T {
        &self.0
    }

    pub(crate) const fn proven_by_digest(subject: T) -> Self {
        Self(subject)
    }

    pub(crate) const fn proven_by_certificate(subject: T) -> Self {
        Self(subject)
    }

    pub(crate) const fn danger_without_authentication(subject: T) -> Self {
        Self(subject)
    }
}
