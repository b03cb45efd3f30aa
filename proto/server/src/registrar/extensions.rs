//! Extensions of a REGISTER: outbound (RFC 5626 §6), Path (RFC 3327 §5.3), GRUU (RFC 5627 §5).

use crate::Config;
use crate::base::Request;
use crate::location::{Binding, FlowKey, Kind, PATH_END};
use alloc::vec::Vec;
use core::iter;
use core::net::IpAddr;
use ringway_sansio::Instant;
use ringway_sip::{HeaderName, Message, NameAddr, Params, Uri};

/// Path of a REGISTER.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// Values, each with [`PATH_END`].
    text: Vec<u8>,
    kind: Option<Kind>,
}

/// Reason why a Path does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathError {
    /// The phone does not say that it supports Path, and no trusted proxy sent it: 420.
    NotSupported,
    /// A value is not the URI of a loose router, or there are too many: 400.
    Malformed,
}

/// RFC 5626 §6: a proxy before the registrar does not keep the flow, and the phone depends on it: 439.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FirstHopLacksOutbound;

impl Path {
    /// Reads the Path of a REGISTER.
    pub(super) fn of(config: &Config, request: &Request<'_, '_>, now: Instant) -> Result<Self, PathError> {
        let message = request.message;
        if !message.has(HeaderName::Path) {
            return Ok(Self::default());
        }
        let source = request.flow.remote.ip();
        let is_trusted =
            config.trusts(&request.flow) || config.auth.certificates.is_trusted(request.peer, now);
        let is_front = config.is_of_front(&request.flow);
        if !is_trusted && !is_front && !supports(message, b"path") {
            return Err(PathError::NotSupported);
        }
        let mut path = Self::default();
        for (number, value) in message.values(HeaderName::Path).enumerate() {
            let uri = NameAddr::parse(value).map_err(|ringway_sip::Malformed| PathError::Malformed)?.uri;
            if number >= PATH_VALUES_MAX || !uri.is_sip() || !uri.is_loose_router() {
                return Err(PathError::Malformed);
            }
            let is_dialled = is_trusted || is_front && is_of_front(config, source, &uri);
            path.kind = path.kind.or_else(|| Some(kind_of(config, request, &uri, is_dialled)));
            crate::base::write_unfolded(value, &mut path.text);
            path.text.push(PATH_END);
        }
        if path.text.is_empty() { Err(PathError::Malformed) } else { Ok(path) }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// Way to the first hop; `None` without a Path.
    pub(super) const fn kind(&self) -> Option<Kind> {
        self.kind
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &[u8]> {
        crate::location::path_values(&self.text)
    }

    fn keeps_flows(&self) -> bool {
        let first = self.values().next().and_then(|value| NameAddr::parse(value).ok());
        first.is_some_and(|first| first.uri.params().has(b"ob"))
    }
}

/// Instance and reg-id of a contact, if outbound applies to it.
pub(super) fn flow_key<'a>(
    config: &Config,
    message: &Message<'_>,
    path: &Path,
    params: &Params<'a>,
) -> Result<Option<FlowKey<'a>>, FirstHopLacksOutbound> {
    let Some(key) = FlowKey::of(params) else { return Ok(None) };
    if !config.registrar.outbound || !supports(message, b"outbound") {
        return Ok(None);
    }
    match message.has_one_via() || path.keeps_flows() {
        true => Ok(Some(key)),
        false => Err(FirstHopLacksOutbound),
    }
}

/// True if a REGISTER gets GRUUs.
pub(super) fn wants_gruu(config: &Config, message: &Message<'_>) -> bool {
    config.registrar.gruu && supports(message, b"gruu")
}

/// True if this registrar supports an extension that a REGISTER requires.
pub(super) fn is_supported(config: &Config, tag: &[u8]) -> bool {
    let registrar = &config.registrar;
    let supported = iter::once(&b"path"[..])
        .chain(registrar.outbound.then_some(&b"outbound"[..]))
        .chain(registrar.gruu.then_some(&b"gruu"[..]));
    supported.into_iter().any(|one| one.eq_ignore_ascii_case(tag))
}

/// True for an extension in Supported or Require.
fn supports(message: &Message<'_>, tag: &[u8]) -> bool {
    [HeaderName::Supported, HeaderName::Require]
        .into_iter()
        .flat_map(|name| message.values(name))
        .any(|value| value.eq_ignore_ascii_case(tag))
}

/// True for a hop that is the front itself, or another one: it names no other host.
fn is_of_front(config: &Config, source: IpAddr, hop: &Uri<'_>) -> bool {
    hop.host().ip().is_some_and(|ip| ip == source || config.is_front(ip))
}

/// Decides if the first hop of a Path is dialled: by the rule for contacts. It is never this server: a request to it would
/// come back.
fn kind_of(config: &Config, request: &Request<'_, '_>, first: &Uri<'_>, is_trusted: bool) -> Kind {
    match (config.domain_of(first), is_trusted) {
        (Some(_), _) => Kind::FlowOnly,
        (None, true) => Kind::Dialable,
        (None, false) => Binding::kind_of(config, first, &request.flow),
    }
}

/// Maximum number of Path values.
const PATH_VALUES_MAX: usize = 8;
