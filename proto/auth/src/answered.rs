//! Challenges of servers, and the credentials that a client answers them with (RFC 7616 §3.4, RFC 8760, RFC 3261 §22).

use alloc::format;
use alloc::vec::Vec;
use ringway_sip::digest::{Algorithm, Credentials, Ha1, Qop, ReceivedChallenge, unescape};
use ringway_sip::grammar::is_token_str;
use ringway_sip::{HeaderName, Message, Method};

/// Challenge that gets credentials; its nonce is used for later requests too, with a rising count (RFC 7616 §3.3).
#[derive(Clone, Debug)]
pub struct AnsweredChallenge {
    field: HeaderName,
    /// As received, with escapes.
    realm: Vec<u8>,
    nonce: Vec<u8>,
    opaque: Option<Vec<u8>>,
    algorithm: Algorithm,
    names_algorithm: bool,
    /// `None`: the challenge has no qop.
    qop: Option<Qop>,
    /// Number of requests with this nonce.
    count: u32,
    ha1: Ha1,
}

/// Parts of a request that its digest covers.
#[derive(Clone, Copy, Debug)]
pub struct Covered<'r> {
    /// Method.
    pub method: Method<'r>,
    /// Request-URI.
    pub uri: &'r [u8],
    /// Body, which counts with `auth-int`.
    pub body: &'r [u8],
}

impl AnsweredChallenge {
    /// Stores a challenge; `field` is the header field of its credentials.
    pub fn new(field: HeaderName, challenge: &ReceivedChallenge<'_>, algorithm: Algorithm, ha1: Ha1) -> Self {
        Self {
            field,
            realm: unfolded(challenge.realm),
            nonce: unfolded(challenge.nonce),
            opaque: challenge.opaque.map(unfolded),
            algorithm,
            names_algorithm: challenge.algorithm.is_some(),
            qop: chosen_qop(challenge).flatten(),
            count: 0,
            ha1,
        }
    }

    /// Replaces the nonce (RFC 7616 §3.5).
    pub fn renew(&mut self, nonce: &[u8]) {
        (self.nonce, self.count) = (unfolded(nonce), 0);
    }

    /// Header field of the credentials.
    pub const fn field(&self) -> HeaderName {
        self.field
    }

    /// Realm as received, with escapes.
    pub fn realm(&self) -> &[u8] {
        &self.realm
    }

    /// Number of bytes of what the server chose.
    pub fn bytes_len(&self) -> usize {
        self.realm.len() + self.nonce.len() + self.opaque.as_ref().map_or(0, Vec::len)
    }

    /// Header field and value of the credentials of the next request. `username` is in quoted form (see [`quoted`]).
    pub fn next(&mut self, username: &[u8], covered: Covered<'_>, cnonce: [u8; 8]) -> (HeaderName, Vec<u8>) {
        self.count = self.count.saturating_add(1);
        let Covered { method, uri, body } = covered;
        let has_qop = self.qop.is_some();
        let nc = format!("{:08x}", self.count);
        let cnonce = ringway_sip::hex16(u64::from_be_bytes(cnonce));
        let mut given = Credentials {
            username,
            realm: &self.realm,
            nonce: &self.nonce,
            uri,
            response: b"",
            algorithm: self.names_algorithm.then(|| self.algorithm.name().as_bytes()),
            cnonce: has_qop.then_some(cnonce.as_slice()),
            qop: self.qop.map(|qop| qop.name().as_bytes()),
            nc: has_qop.then_some(nc.as_bytes()),
            opaque: self.opaque.as_deref(),
        };
        let mut digits = [0; 64];
        given.response = self.algorithm.response(&self.ha1, method.as_bytes(), body, &given, &mut digits);
        let mut value = Vec::new();
        given.write(&mut value);
        (self.field, value)
    }
}

/// Error of a response without a suitable challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoChallenge<'m> {
    /// Realm of the first challenge.
    OtherRealm(&'m [u8]),
    /// None has an algorithm and a `qop` that are supported: the first property that is not.
    Unsupported(Unsupported<'m>),
}

/// Property of a challenge that is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported<'m> {
    /// The digest algorithm.
    Algorithm(&'m [u8]),
    /// All values of `qop`.
    Qop(&'m [u8]),
    /// The authentication scheme.
    Scheme(&'m [u8]),
    /// There is no challenge that can be read.
    Challenge,
}

/// Challenge with the best realm by `fit_of`, less is better; of several SHA-256 before MD5, in any order. `asks` is the header
/// field of the challenges.
///
/// # Errors
/// There is none of a realm that `fit_of` accepts, or none is supported.
pub fn strongest<'m, F: Ord + Copy>(
    message: &Message<'m>,
    asks: HeaderName,
    fit_of: impl Fn(&[u8]) -> Option<F>,
) -> Result<(ReceivedChallenge<'m>, Algorithm), NoChallenge<'m>> {
    let mut best: Option<(F, ReceivedChallenge<'m>, Algorithm)> = None;
    let (mut first_realm, mut unsupported) = (None, None);
    for challenge in message.lines_of(asks).flat_map(ReceivedChallenge::all).take(CHALLENGES_MAX) {
        first_realm = first_realm.or(Some(challenge.realm));
        let Some(fit) = fit_of(&unescape(challenge.realm)) else { continue };
        let name = challenge.algorithm.unwrap_or(b"MD5");
        let Some(algorithm) = Algorithm::from_name(name) else {
            unsupported = unsupported.or(Some(Unsupported::Algorithm(name)));
            continue;
        };
        if chosen_qop(&challenge).is_none() {
            unsupported = unsupported.or(challenge.qop.map(Unsupported::Qop));
            continue;
        }
        let is_better = best.is_none_or(|(known_fit, known, known_algorithm)| {
            let is_stronger = known_algorithm == Algorithm::Md5 && algorithm == Algorithm::Sha256;
            fit < known_fit || (fit == known_fit && known.realm == challenge.realm && is_stronger)
        });
        if is_better {
            best = Some((fit, challenge, algorithm));
        }
    }
    match (best, first_realm) {
        (Some((_, challenge, algorithm)), _) => Ok((challenge, algorithm)),
        (None, Some(realm)) => {
            Err(unsupported.map_or(NoChallenge::OtherRealm(realm), NoChallenge::Unsupported))
        }
        (None, None) => Err(NoChallenge::Unsupported(scheme_of(message, asks))),
    }
}

/// Scheme of the first challenge of a response without one for digest.
fn scheme_of<'m>(message: &Message<'m>, asks: HeaderName) -> Unsupported<'m> {
    let first = message.first(asks).unwrap_or_default();
    let scheme = first.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
    let is_other = is_token_str(scheme) && !scheme.eq_ignore_ascii_case(b"Digest");
    if is_other { Unsupported::Scheme(scheme) } else { Unsupported::Challenge }
}

/// Qop for a challenge: `auth` before `auth-int`; `Some(None)` if the challenge has none, `None` if it has only others.
fn chosen_qop(challenge: &ReceivedChallenge<'_>) -> Option<Option<Qop>> {
    if challenge.qop.is_none() {
        return Some(None);
    }
    let offered = |qop: &Qop| challenge.offers(*qop) == Some(true);
    [Qop::Auth, Qop::AuthInt].into_iter().find(offered).map(Some)
}

/// Header fields of the challenges and of the credentials of a 401 or 407.
pub const fn fields_of(status: u16) -> (HeaderName, HeaderName) {
    match status {
        401 => (HeaderName::WwwAuthenticate, HeaderName::Authorization),
        _ => (HeaderName::ProxyAuthenticate, HeaderName::ProxyAuthorization),
    }
}

/// Escapes a text for a quoted string, without the quotes.
pub fn quoted(plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(plain.len());
    for &byte in plain {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

/// A value without its folds, so that it can stand on one line.
fn unfolded(value: &[u8]) -> Vec<u8> {
    value.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)).collect()
}

/// Maximum number of challenges of one response that are parsed.
const CHALLENGES_MAX: usize = 16;
