//! Binding of an address-of-record.

use crate::Config;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::{Flow, Instant, Transport};
use ringway_sip::{Scheme, Uri};
use smallvec::SmallVec;

/// Contact with its preference, expiry and flow.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    /// Contact URI, further contact parameters (from their first `;`) and Call-ID, concatenated.
    text: Box<[u8]>,
    uri_len: u16,
    params_len: u16,
    /// q-value in thousandths.
    pub(crate) q: u16,
    pub(crate) kind: Kind,
    pub(crate) cseq: u32,
    pub(crate) expires: Instant,
    /// Flow of its REGISTER.
    pub(crate) flow: Flow,
}

/// Bindings of a user. Nearly every user has one: it needs no allocation of its own.
pub(crate) type Bindings = SmallVec<[Binding; 1]>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reached at the address of its contact URI, or over its connection while that is open.
    Dialable,
    /// Reached over its flow only: its address is not the source of its REGISTER, or has the port of a connection.
    FlowOnly,
    /// Added by an administrator; a REGISTER does not change it.
    Permanent,
}

/// Texts of a binding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    pub(crate) uri: &'a [u8],
    pub(crate) params: &'a [u8],
    pub(crate) call_id: &'a [u8],
}

impl Binding {
    /// Creates a binding; `None` if the texts exceed [`Binding::TEXT_BYTES_MAX`].
    pub(crate) fn new(
        text: Text<'_>,
        q: u16,
        kind: Kind,
        cseq: u32,
        expires: Instant,
        flow: Flow,
    ) -> Option<Self> {
        let (uri_len, params_len) = lengths(&text)?;
        let mut bytes = Vec::with_capacity(text.uri.len() + text.params.len() + text.call_id.len());
        for part in [text.uri, text.params, text.call_id] {
            bytes.extend_from_slice(part);
        }
        Some(Self { text: bytes.into_boxed_slice(), uri_len, params_len, q, kind, cseq, expires, flow })
    }

    /// Replaces the texts; in place if they have the same length, as in a refresh.
    pub(crate) fn set_text(&mut self, text: Text<'_>) -> bool {
        let Some((uri_len, params_len)) = lengths(&text) else { return false };
        let total = text.uri.len() + text.params.len() + text.call_id.len();
        if total != self.text.len() {
            let fresh = Self::new(text, self.q, self.kind, self.cseq, self.expires, self.flow);
            if let Some(fresh) = fresh {
                *self = fresh;
            }
            return true;
        }
        let mut at = 0;
        for part in [text.uri, text.params, text.call_id] {
            if let Some(old) = self.text.get_mut(at..at + part.len()) {
                old.copy_from_slice(part);
            }
            at += part.len();
        }
        (self.uri_len, self.params_len) = (uri_len, params_len);
        true
    }

    pub(crate) fn text(&self) -> Text<'_> {
        let (uri, rest) = self.text.split_at_checked(usize::from(self.uri_len)).unwrap_or_default();
        let (params, call_id) = rest.split_at_checked(usize::from(self.params_len)).unwrap_or_default();
        Text { uri, params, call_id }
    }

    pub(crate) fn uri(&self) -> &[u8] {
        self.text().uri
    }

    pub(crate) fn is_permanent(&self) -> bool {
        self.kind == Kind::Permanent
    }

    /// Seconds until it ends, rounded up, so that a phone never gets less time than it has; `None` for a permanent one.
    pub(crate) fn seconds_left(&self, now: Instant) -> Option<u64> {
        let left = self.expires.since(now);
        (!self.is_permanent()).then(|| left.as_secs() + u64::from(left.subsec_nanos() > 0))
    }

    /// True if requests can still be sent to it.
    pub(crate) fn is_reachable(&self) -> bool {
        match self.kind {
            Kind::FlowOnly => !self.flow.transport.has_connections() || self.flow.connection.is_some(),
            Kind::Dialable | Kind::Permanent => true,
        }
    }

    /// Decides if a contact is reached at its address: if this is the source of the REGISTER or an address of this
    /// server, or if the REGISTER came from a trusted proxy. Any other contact is not verified and is reached over the
    /// flow of the REGISTER only.
    ///
    /// A contact of a connection that has the connection's own port is dialled only if the port is below the ephemeral
    /// ones. An ephemeral port may belong to another program after the end of the connection.
    pub(crate) fn kind_of(config: &Config, contact: &Uri<'_>, source: &Flow) -> Kind {
        let ip = source.remote.ip();
        let over_connection = source.transport.has_connections() && has_transport(contact, source.transport);
        let own_port = source.remote.port();
        let has_connections_port =
            over_connection && own_port >= EPHEMERAL_PORTS_MIN && contact.port() == Some(own_port);
        let is_there = contact.host().ip().is_some_and(|named| config.is_same_host(named, ip));
        let is_dialable = (is_there && !has_connections_port)
            || config.is_trusted(ip)
            || config.domain_of(contact).is_some();
        match is_dialable {
            true => Kind::Dialable,
            false => Kind::FlowOnly,
        }
    }

    /// Maximum length in bytes of URI, parameters and Call-ID together.
    pub(crate) const TEXT_BYTES_MAX: usize = 2048;
}

/// False for a contact with another `transport` parameter than `transport`.
pub(crate) fn has_transport(contact: &Uri<'_>, transport: Transport) -> bool {
    let is_sips = contact.scheme() == Scheme::Sips;
    contact.params().value(b"transport").is_none_or(|name| transport.is_named(is_sips, name))
}

/// First ephemeral port of Linux (ip(7), `ip_local_port_range`); those of RFC 6335 §6 begin later.
const EPHEMERAL_PORTS_MIN: u16 = 32_768;

fn lengths(text: &Text<'_>) -> Option<(u16, u16)> {
    if text.uri.len() + text.params.len() + text.call_id.len() > Binding::TEXT_BYTES_MAX {
        return None;
    }
    Some((u16::try_from(text.uri.len()).ok()?, u16::try_from(text.params.len()).ok()?))
}
