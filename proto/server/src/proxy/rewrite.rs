//! Changes that a target makes to the forwarded request, besides its Request-URI.

use crate::config::Attestation;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sip::{Edit, HeaderName, NameAddr, Uri};

/// Header fields that a target adds to the request. Targets without any have no `Rewrite`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rewrite {
    /// Values of Route before those of the request; the first is the next hop.
    routes: Vec<Box<[u8]>>,
    /// Header fields of the request that are removed.
    removed: Vec<HeaderName>,
    /// Lines that are added before those of the request.
    first_lines: Vec<(HeaderName, Box<[u8]>)>,
    /// Lines that are added after those of the request.
    lines: Vec<(HeaderName, Box<[u8]>)>,
    /// URI in From.
    from: Option<Box<[u8]>>,
    /// Index of the target's next hop in the list of the configuration.
    configured_hop: Option<usize>,
    /// Signature of the caller's identity that the request gets.
    signature: Option<Signature>,
}

/// Signature of the caller's identity that a request gets when it is sent to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) attestation: Attestation,
    /// A user forwards the call.
    pub(super) is_forward: bool,
}

impl Rewrite {
    /// Changes of a request to the next hop with this index.
    pub(super) fn to_configured(hop: usize) -> Self {
        Self { configured_hop: Some(hop), ..Self::default() }
    }

    /// Adds a Route value before those of the request, after those added earlier.
    pub(super) fn push_route(&mut self, value: &[u8]) {
        self.routes.push(value.into());
    }

    /// Adds a header field line before those of its name.
    pub(super) fn push_first_line(&mut self, name: HeaderName, value: &[u8]) {
        self.first_lines.push((name, value.into()));
    }

    /// Adds a header field line.
    pub(super) fn push_line(&mut self, name: HeaderName, value: &[u8]) {
        self.lines.push((name, value.into()));
    }

    /// Removes the lines of a header field.
    pub(super) fn remove_lines(&mut self, name: HeaderName) {
        self.removed.push(name);
    }

    /// Adds a header field line instead of those of the request.
    pub(super) fn replace_line(&mut self, name: HeaderName, value: &[u8]) {
        self.removed.push(name);
        self.lines.push((name, value.into()));
    }

    /// Sets the URI in From.
    pub(super) fn set_from(&mut self, uri: &[u8]) {
        self.from = Some(uri.into());
    }

    /// Has the caller's identity signed.
    pub(super) const fn sign(&mut self, signature: Signature) {
        self.signature = Some(signature);
    }

    /// Signature that the request gets.
    pub(super) const fn signature(&self) -> Option<Signature> {
        self.signature
    }

    /// True if it removes the lines of a header field.
    pub(super) fn removes(&self, name: HeaderName) -> bool {
        self.removed.contains(&name)
    }

    /// Value of a line that it adds after those of the request.
    pub(super) fn line(&self, name: HeaderName) -> Option<&[u8]> {
        self.lines.iter().find(|(own, _)| *own == name).map(|(_, value)| &**value)
    }

    /// URI in From; `None`: that of the request.
    pub(super) fn from(&self) -> Option<&[u8]> {
        self.from.as_deref()
    }

    /// URI of the next hop; `None` if the request is sent to its target.
    pub(super) fn next_hop(&self) -> Option<Uri<'_>> {
        self.routes.first().and_then(|value| NameAddr::parse(value).ok()).map(|route| route.uri)
    }

    /// Index of the target's next hop in the list of the configuration.
    pub(super) const fn configured_hop(&self) -> Option<usize> {
        self.configured_hop
    }

    /// Writes the changes, after the own Route values were removed.
    pub(super) fn apply(&self, edit: &mut Edit<'_, '_>) {
        for value in self.routes.iter().rev() {
            edit.push_first(HeaderName::Route, |out| out.extend_from_slice(value));
        }
        for name in &self.removed {
            edit.remove_lines(*name, |_| true);
        }
        for (name, value) in &self.first_lines {
            match edit.first(*name).is_some() {
                true => edit.push_first(*name, |out| out.extend_from_slice(value)),
                false => edit.push_last(*name, |out| out.extend_from_slice(value)),
            }
        }
        for (name, value) in &self.lines {
            edit.push_last(*name, |out| out.extend_from_slice(value));
        }
    }

    /// Maximum number of bytes that it adds to a request.
    pub(super) fn bytes_len(&self) -> usize {
        let routes = self.routes.iter().map(|value| value.len());
        let lines = self.first_lines.iter().chain(&self.lines);
        let lines = lines.map(|(name, value)| name.as_bytes().len() + value.len());
        let credentials = self.configured_hop.map_or(0, |_| CREDENTIALS_BYTES_MAX);
        // In From, in our Record-Route, and in the responses.
        let from = self.from.as_ref().map_or(0, |from| 3 * from.len() + LINE_BYTES);
        let signature = self.signature.map_or(0, |_| SIGNATURE_BYTES_MAX);
        routes.chain(lines).map(|len| len + LINE_BYTES).sum::<usize>() + credentials + from + signature
    }
}

/// Bytes of a line besides its value: `Route: ` and its end.
const LINE_BYTES: usize = 16;
/// Maximum length of two Identity header fields and Date.
const SIGNATURE_BYTES_MAX: usize = 2560;
/// Maximum length of the credentials for a configured next hop.
const CREDENTIALS_BYTES_MAX: usize = 2048;
