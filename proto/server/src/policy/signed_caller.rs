//! Signed identity of a caller (RFC 8224 §6.2): its claims against the request, and its signature.

use crate::base::{Request, Sender, Verstat};
use crate::config::{CallerCheck, NumberForm};
use crate::{Config, Number, Trunk};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_auth::stir::{Attestation, BadPassport, Passport, PassportKind};
use ringway_sansio::{Instant, NoSigner, SignerCertificate};
use ringway_sip::{HeaderName, Message, Method, NameAddr, Uri};

/// Reason why the identity of a caller is not valid, or is not known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdentityFault {
    /// There is none.
    Missing,
    /// None has a form that is supported.
    Kind,
    /// It is malformed.
    Malformed,
    /// It is signed in another way than with ES256.
    Algorithm,
    /// It was signed too long ago, or later than now.
    Stale,
    /// It is of another caller.
    Caller,
    /// It is of a call to somebody else.
    Callee,
    /// Its certificate is at a URL that is not permitted.
    Url,
    /// Its certificate could not be fetched.
    Unreachable,
    /// Its certificate is not accepted.
    Certificate,
    /// Its certificate does not have the number of the caller.
    Number,
    /// Its signature is not that of its certificate.
    Signature,
    /// More calls of the trunk are verified in this second than may be, or there is no memory.
    TooMany,
}

impl IdentityFault {
    /// Status and phrase for a call that needs an identity (RFC 8224 §6.2.2).
    pub(crate) const fn answer(self) -> (u16, &'static str) {
        match self {
            Self::Missing => (428, "Use Identity Header"),
            Self::Kind => (428, "Use Supported PASSporT Format"),
            Self::Stale => (403, "Stale Date"),
            Self::Url | Self::Unreachable => (436, "Bad Identity Info"),
            Self::Algorithm | Self::Certificate | Self::Number => (437, "Unsupported Credential"),
            Self::Malformed => (438, "Invalid PASSporT"),
            Self::Caller | Self::Callee | Self::Signature => (438, "Invalid Identity Header"),
            Self::TooMany => (503, "Too Many Identities To Verify"),
        }
    }

    /// Result for the called phone.
    pub(crate) const fn verstat(self) -> Verstat {
        match self {
            Self::Missing | Self::Kind | Self::Url | Self::Unreachable | Self::TooMany => {
                Verstat::NotVerified
            }
            Self::Malformed
            | Self::Algorithm
            | Self::Stale
            | Self::Caller
            | Self::Callee
            | Self::Certificate
            | Self::Number
            | Self::Signature => Verstat::Failed,
        }
    }

    /// Text for a trace.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Missing => "there is no Identity",
            Self::Kind => "no Identity has a supported form",
            Self::Malformed => "the Identity is malformed",
            Self::Algorithm => "the algorithm is not ES256",
            Self::Stale => "the time of the signature is more than 60 s from now",
            Self::Caller => "it is signed for another caller",
            Self::Callee => "it is signed for a call to another number",
            Self::Url => "the URL of the certificate is not permitted",
            Self::Unreachable => "the certificate cannot be fetched",
            Self::Certificate => "the certificate is not accepted",
            Self::Number => "the certificate does not have the number of the caller",
            Self::Signature => "the signature is not that of the certificate",
            Self::TooMany => "too many calls are verified at present",
        }
    }
}

/// Trunk whose calls are verified that a request begins a call of. One that this server sent to itself was verified before.
pub(crate) fn verifying_trunk<'c>(config: &'c Config, request: &Request<'_, '_>) -> Option<&'c Trunk> {
    let grant = request.grant;
    let begins_call = request.method == Method::Invite && grant.dialog.is_none() && grant.returned.is_none();
    if !begins_call || grant.sender != Sender::Trusted {
        return None;
    }
    let trunk = calling_trunk(config, request)?;
    (trunk.stir.check != CallerCheck::Off).then_some(trunk)
}

/// Trunk in whose networks the source of a request is: the one at whose contact it came in, if that is one of them.
pub(crate) fn calling_trunk<'c>(config: &'c Config, request: &Request<'_, '_>) -> Option<&'c Trunk> {
    let source = request.source();
    let of_line = request.line.and_then(|line| config.trunking.trunks.get(line));
    let is_from = |trunk: &&Trunk| trunk.networks.iter().any(|network| network.contains(source));
    of_line.filter(is_from).or_else(|| config.trunking.trunk_of(source))
}

/// The identity of a request whose claims fit it; its signature is not verified. None is fetched, and no signature verified, for one that
/// does not fit.
pub(crate) fn claimed<'m>(
    config: &Config,
    message: &'m Message<'m>,
    trunk: &Trunk,
) -> Result<Passport<'m>, IdentityFault> {
    let passport = read(message)?;
    let claims = &passport.claims;
    let form = &trunk.numbers_in;
    if caller_of(message, form).is_none_or(|caller| claims.origin.is_empty() || *caller != *claims.origin) {
        return Err(IdentityFault::Caller);
    }
    let called = [&message.to().uri, &request_uri(message)].map(|uri| signed_form(uri, form));
    let is_called = |number: &str| called.iter().flatten().any(|called| **called == *number);
    if !claims.destinations.iter().any(|number| is_called(number)) {
        return Err(IdentityFault::Callee);
    }
    if !config.stir.may_fetch(&passport.url) {
        return Err(IdentityFault::Url);
    }
    Ok(passport)
}

/// Checks that an identity was signed a short time ago.
pub(crate) fn check_time(passport: &Passport<'_>, now: Instant) -> Result<(), IdentityFault> {
    let age_s = now.as_secs().abs_diff(passport.claims.made_s);
    if age_s <= FRESH_S { Ok(()) } else { Err(IdentityFault::Stale) }
}

/// Verifies the signature of an identity; returns the result for the called phone.
pub(crate) fn verify(
    passport: &Passport<'_>,
    certificate: Result<&SignerCertificate, NoSigner>,
) -> Result<Verstat, IdentityFault> {
    let certificate = certificate.map_err(|why| match why {
        NoSigner::Unreachable => IdentityFault::Unreachable,
        NoSigner::Unsupported => IdentityFault::Certificate,
    })?;
    if !certificate.covers(&passport.claims.origin) {
        return Err(IdentityFault::Number);
    }
    if !passport.is_signed_by(&certificate.public_key) {
        return Err(IdentityFault::Signature);
    }
    Ok(match passport.claims.attestation {
        Some(Attestation::Full) | None => Verstat::Passed,
        Some(Attestation::Partial | Attestation::Gateway) => Verstat::NotVerified,
    })
}

/// The first identity of a caller: `div` says who diverted the call.
fn read<'m>(message: &'m Message<'m>) -> Result<Passport<'m>, IdentityFault> {
    let mut fault = IdentityFault::Missing;
    for value in message.lines_of(HeaderName::Identity).take(IDENTITIES_MAX) {
        match Passport::parse(value) {
            Ok(passport) if passport.kind != PassportKind::Div => return Ok(passport),
            Ok(_) => {}
            Err(why) => {
                let why = match why {
                    BadPassport::Malformed => IdentityFault::Malformed,
                    BadPassport::Algorithm => IdentityFault::Algorithm,
                    BadPassport::Kind => IdentityFault::Kind,
                };
                // An unsupported form is no fault of the others.
                if fault == IdentityFault::Missing || fault == IdentityFault::Kind {
                    fault = why;
                }
            }
        }
    }
    Err(fault)
}

fn request_uri<'m>(message: &Message<'m>) -> Uri<'m> {
    match *message.start() {
        ringway_sip::Start::Request { uri, .. } => uri,
        ringway_sip::Start::Response { .. } => message.to().uri,
    }
}

/// Number of the caller: that of P-Asserted-Identity, or of From (RFC 8224 §8.3).
fn caller_of(message: &Message<'_>, form: &NumberForm) -> Option<Box<str>> {
    let mut asserted = message.values(HeaderName::PAssertedIdentity).take(ASSERTED_MAX).peekable();
    if asserted.peek().is_none() {
        return signed_form(&message.from().uri, form);
    }
    asserted
        .filter_map(|value| NameAddr::parse(value).ok())
        .find_map(|identity| signed_form(&identity.uri, form))
}

/// Number of a URI as a PASSporT has it: without `+`.
pub(crate) fn signed_form(uri: &Uri<'_>, form: &NumberForm) -> Option<Box<str>> {
    let text = without_verstat(uri.as_bytes());
    let (number, _) = Number::of_uri(&Uri::parse(&text).ok()?)?;
    let number = form.read(&number);
    let digits = number.as_bytes().strip_prefix(b"+").unwrap_or(number.as_bytes());
    core::str::from_utf8(digits).ok().filter(|digits| digits.len() <= NUMBER_BYTES_MAX).map(Into::into)
}

/// True for a URI or a value with the result of a verification.
pub(crate) fn has_verstat(text: &[u8]) -> bool {
    position_of(text).is_some()
}

/// Position of the first parameter `verstat`.
fn position_of(text: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b';', text).find(|&at| {
        let rest = text.get(at..).unwrap_or_default();
        rest.split_at_checked(VERSTAT.len()).is_some_and(|(name, behind)| {
            let ends = matches!(behind.first(), None | Some(b'=' | b';' | b'@' | b'>' | b'?' | b':' | b' '));
            ends && name.eq_ignore_ascii_case(VERSTAT)
        })
    })
}

/// The parameter with the result of a verification in a user part; empty: there is none.
pub(crate) fn result_in(user: &[u8]) -> &[u8] {
    let param = position_of(user).and_then(|at| user.get(at..)).unwrap_or_default();
    let len = param.iter().skip(1).position(|byte| *byte == b';').map_or(param.len(), |len| len + 1);
    param.get(..len).unwrap_or_default()
}

/// A URI without the result of a verification.
pub(crate) fn without_verstat(uri: &[u8]) -> Vec<u8> {
    let (mut kept, mut rest) = (Vec::with_capacity(uri.len()), uri);
    // The rest behind a removed parameter begins with another delimiter, so that no further one arises.
    while let Some(at) = position_of(rest) {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, b""));
        kept.extend_from_slice(before);
        let behind = from.get(1..).unwrap_or_default();
        let len = behind.iter().position(|byte| b";@>?: ".contains(byte)).unwrap_or(behind.len());
        rest = behind.get(len..).unwrap_or_default();
    }
    kept.extend_from_slice(rest);
    kept
}

/// From without a result of a verification that its sender has written; `None`: it has none, or its sender is trusted.
pub(crate) fn without_result(config: &Config, request: &Request<'_, '_>, from: &[u8]) -> Option<Vec<u8>> {
    let is_trusted = request.grant.sender == Sender::Trusted && calling_trunk(config, request).is_none();
    (!is_trusted && has_verstat(from)).then(|| without_verstat(from))
}

/// Parameter of a number with the result of its verification (3GPP TS 24.229 §7.2A.20).
pub(crate) const VERSTAT: &[u8] = b";verstat";
/// Seconds that the clock of a signer may be off, or its signature old.
const FRESH_S: u64 = 60;
/// Maximum number of Identity header fields that are read.
const IDENTITIES_MAX: usize = 8;
/// Maximum number of asserted identities that are read (RFC 3325 §9.1).
pub(crate) const ASSERTED_MAX: usize = 2;
/// Maximum number of digits (RFC 8226 §9).
const NUMBER_BYTES_MAX: usize = 15;
