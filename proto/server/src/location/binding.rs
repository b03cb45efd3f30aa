//! Binding of an address-of-record.

use super::owner::{Owner, RegisteredAt};
use crate::Config;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_location::EntryId;
use ringway_sansio::{Defence, Flow, Instant, Transport};
use ringway_sip::{Params, Scheme, Uri};
use smallvec::SmallVec;

/// Contact with its preference, expiry and flow.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    /// Contact URI, further contact parameters (from their first `;`), Path and Call-ID, concatenated.
    text: Box<[u8]>,
    uri_len: u16,
    params_len: u16,
    path_len: u16,
    /// q-value in thousandths.
    pub(crate) q: u16,
    pub(crate) kind: Kind,
    pub(crate) key: BindingKey,
    pub(crate) cseq: u32,
    pub(crate) expires: Instant,
    pub(crate) owner: Owner,
    pub(crate) registered: RegisteredAt,
    /// Flow of its REGISTER.
    pub(crate) flow: Flow,
}

/// Bindings of a user. Nearly every user has one: it needs no allocation of its own.
pub(crate) type Bindings = SmallVec<[Binding; 1]>;

/// Identity of a binding among those of its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BindingKey {
    /// Its contact URI.
    #[default]
    Contact,
    /// Its instance and reg-id (RFC 5626 §6).
    Flow,
}

/// Instance and reg-id of a Contact (RFC 5626 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowKey<'a> {
    /// Value of `+sip.instance`, without quotes.
    pub(crate) instance: &'a [u8],
    pub(crate) reg_id: u32,
}

/// Way to a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reached at the address of its contact URI or first Path hop, or over its connection while that is open.
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
    /// Path values, each with [`PATH_END`].
    pub(crate) path: &'a [u8],
    pub(crate) call_id: &'a [u8],
}

/// State of a binding that each REGISTER sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// q-value in thousandths.
    pub(crate) q: u16,
    pub(crate) kind: Kind,
    pub(crate) key: BindingKey,
    pub(crate) cseq: u32,
    pub(crate) expires: Instant,
    pub(crate) owner: Owner,
    pub(crate) registered: RegisteredAt,
    /// Flow of the REGISTER.
    pub(crate) flow: Flow,
}

impl<'a> FlowKey<'a> {
    /// Reads the contact parameters; `None` without instance or reg-id, or if one of them is not valid.
    pub(crate) fn of(params: &Params<'a>) -> Option<Self> {
        if params.as_bytes().is_empty() {
            return None;
        }
        let reg_id = ringway_sip::grammar::delta_seconds(params.value(b"reg-id")?)?;
        let instance = instance_of(params)?;
        (reg_id != 0).then_some(Self { instance, reg_id })
    }
}

/// Identity in the store that nodes share.
pub(super) fn entry_id(uri: &[u8], key: Option<FlowKey<'_>>) -> EntryId {
    match key {
        Some(key) => EntryId::of_flow(key.instance, key.reg_id),
        None => EntryId::of_contact(uri),
    }
}

/// Values of a stored Path.
pub(crate) fn path_values(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == PATH_END).filter(|value| !value.is_empty())
}

/// Value of `+sip.instance` without quotes; `None` if it has no usable length.
pub(crate) fn instance_of<'a>(params: &Params<'a>) -> Option<&'a [u8]> {
    let instance = params.value(b"+sip.instance")?;
    (1..=INSTANCE_BYTES_MAX).contains(&instance.len()).then_some(instance)
}

/// Numbers of bytes of a binding's texts.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    /// Bytes of all texts, with those of the Path.
    pub(crate) texts: usize,
    pub(crate) path: usize,
}

impl Text<'_> {
    pub(crate) const fn bytes_len(&self) -> usize {
        self.uri.len() + self.params.len() + self.path.len() + self.call_id.len()
    }

    /// Length in bytes of all texts, and that of the Path.
    pub(crate) const fn lengths(&self) -> Lengths {
        Lengths { texts: self.bytes_len(), path: self.path.len() }
    }
}

impl Binding {
    /// Creates a binding; `None` if the texts exceed [`Binding::TEXT_BYTES_MAX`] and the link to another node.
    pub(crate) fn new(text: Text<'_>, terms: Terms) -> Option<Self> {
        let [uri_len, params_len, path_len] = lengths(&text)?;
        let mut bytes = Vec::with_capacity(text.bytes_len());
        for part in [text.uri, text.params, text.path, text.call_id] {
            bytes.extend_from_slice(part);
        }
        let Terms { q, kind, key, cseq, expires, owner, registered, flow } = terms;
        let text = bytes.into_boxed_slice();
        Some(Self {
            text,
            uri_len,
            params_len,
            path_len,
            q,
            kind,
            key,
            cseq,
            expires,
            owner,
            registered,
            flow,
        })
    }

    /// Replaces everything; the texts in place if they have the same length, as in a refresh.
    pub(crate) fn replace(&mut self, text: Text<'_>, terms: Terms) {
        let Some([uri_len, params_len, path_len]) = lengths(&text) else { return };
        if text.bytes_len() != self.text.len() {
            if let Some(fresh) = Self::new(text, terms) {
                *self = fresh;
            }
            return;
        }
        let Terms { q, kind, key, cseq, expires, owner, registered, flow } = terms;
        (self.q, self.kind, self.key) = (q, kind, key);
        (self.cseq, self.expires, self.flow) = (cseq, expires, flow);
        (self.owner, self.registered) = (owner, registered);
        let mut at = 0;
        for part in [text.uri, text.params, text.path, text.call_id] {
            if let Some(old) = self.text.get_mut(at..at + part.len()) {
                old.copy_from_slice(part);
            }
            at += part.len();
        }
        (self.uri_len, self.params_len, self.path_len) = (uri_len, params_len, path_len);
    }

    pub(crate) fn text(&self) -> Text<'_> {
        let (uri, rest) = self.text.split_at_checked(usize::from(self.uri_len)).unwrap_or_default();
        let (params, rest) = rest.split_at_checked(usize::from(self.params_len)).unwrap_or_default();
        let (path, call_id) = rest.split_at_checked(usize::from(self.path_len)).unwrap_or_default();
        Text { uri, params, path, call_id }
    }

    /// Instance and reg-id, if they identify the binding.
    pub(crate) fn flow_key(&self) -> Option<FlowKey<'_>> {
        match self.key {
            BindingKey::Contact => None,
            BindingKey::Flow => FlowKey::of(&Params::unchecked(self.text().params)),
        }
    }

    /// Instance of the phone, if the contact names one.
    pub(crate) fn instance(&self) -> Option<&[u8]> {
        instance_of(&Params::unchecked(self.text().params))
    }

    /// Identity in the store that nodes share.
    pub(crate) fn entry_id(&self) -> EntryId {
        entry_id(self.uri(), self.flow_key())
    }

    pub(crate) fn uri(&self) -> &[u8] {
        self.text.get(..usize::from(self.uri_len)).unwrap_or_default()
    }

    pub(crate) fn call_id(&self) -> &[u8] {
        let start = usize::from(self.uri_len) + usize::from(self.params_len) + usize::from(self.path_len);
        self.text.get(start..).unwrap_or_default()
    }

    /// Length in bytes of all texts, and that of the Path.
    pub(crate) fn lengths(&self) -> Lengths {
        Lengths { texts: self.text.len(), path: usize::from(self.path_len) }
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
            Kind::FlowOnly if self.owner.is_other() => true,
            Kind::FlowOnly => !self.flow.transport.has_connections() || self.flow.connection.is_some(),
            Kind::Dialable | Kind::Permanent => true,
        }
    }

    /// True if the requests in its phone's dialogs go over its flow, and that is one of this server.
    pub(super) fn is_over_flow(&self) -> bool {
        !self.owner.is_other() && (self.kind == Kind::FlowOnly || self.flow.connection.is_some())
    }

    /// Decides if a contact is reached at its address: if this is the source of the REGISTER or an address of this
    /// server, or if the REGISTER came from a trusted proxy. Any other contact is not verified and is reached over the
    /// flow of the REGISTER only.
    ///
    /// A contact of a connection that has the connection's own port is dialled only if the port is below the ephemeral
    /// ones. An ephemeral port may belong to another program after the end of the connection.
    ///
    /// At the address of a trunk a contact with another port than the sender's may be the trunk, which is reached by its
    /// routes only.
    pub(crate) fn kind_of(config: &Config, contact: &Uri<'_>, source: &Flow) -> Kind {
        let ip = source.remote.ip();
        let over_connection = source.transport.has_connections() && has_transport(contact, source.transport);
        let own_port = source.remote.port();
        let has_connections_port =
            over_connection && own_port >= EPHEMERAL_PORTS_MIN && contact.port() == Some(own_port);
        let is_there = contact.host().ip().is_some_and(|named| config.is_same_host(named, ip));
        let port = contact.port().unwrap_or(source.transport.default_port());
        let may_be_trunk = port != own_port && config.trunking.has_address(ip);
        let is_dialable = (is_there && !has_connections_port && !may_be_trunk)
            || config.is_trusted(ip)
            || config.domain_of(contact).is_some()
            || !Defence::ContactSource.is_on();
        match is_dialable {
            true => Kind::Dialable,
            false => Kind::FlowOnly,
        }
    }

    /// True if other nodes reach it over this one: over its flow, or over its connection while that is open. A connection of a proxy
    /// with a Path is not the phone's, and any node can open another one.
    pub(super) fn needs_link(&self) -> bool {
        self.kind == Kind::FlowOnly || (self.flow.connection.is_some() && self.path_len == 0)
    }

    /// Maximum length in bytes of URI, parameters, Path and Call-ID of a REGISTER together.
    pub(crate) const TEXT_BYTES_MAX: usize = 2048;
}

/// False for a contact with another `transport` parameter than `transport`.
pub(crate) fn has_transport(contact: &Uri<'_>, transport: Transport) -> bool {
    let is_sips = contact.scheme() == Scheme::Sips;
    contact.params().value(b"transport").is_none_or(|name| transport.is_named(is_sips, name))
}

/// First ephemeral port of Linux (ip(7), `ip_local_port_range`); those of RFC 6335 §6 begin later.
const EPHEMERAL_PORTS_MIN: u16 = 32_768;

fn lengths(text: &Text<'_>) -> Option<[u16; 3]> {
    if text.bytes_len() > Binding::TEXT_BYTES_MAX + LINK_BYTES_MAX {
        return None;
    }
    let len = |part: &[u8]| u16::try_from(part.len()).ok();
    Some([len(text.uri)?, len(text.params)?, len(text.path)?])
}

/// End of a value in a stored Path; no value contains it.
pub(crate) const PATH_END: u8 = b'\n';

/// Maximum length in bytes of the link to another node in front of a Path.
const LINK_BYTES_MAX: usize = 256;

/// Maximum length of an instance in bytes; a URN of a UUID has 47.
const INSTANCE_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::Binding;

    /// A published figure depends on it.
    #[test]
    fn a_binding_has_its_published_size() {
        assert_eq!(size_of::<Binding>(), BINDING_BYTES);
    }

    const BINDING_BYTES: usize = 104;
}
