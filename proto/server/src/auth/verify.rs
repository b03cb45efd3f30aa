//! Verification of the credentials of a request.

use super::{Algorithm, Login, LoginResult, NonceAge, NonceMaker, NonceUse};
use crate::{Config, Ha1, Services};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::Instant;
use ringway_sip::digest::{Credentials, unescape};
use ringway_sip::{HeaderName, Message, Uri};

/// Result of verifying the credentials of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There are none for our realm, or none in a form that this server offers.
    Challenge {
        /// A nonce is not ours, not for this source, too old, or its count was used before. Without a fresh nonce the
        /// password is not checked: the source address may be forged, and the response must not reveal if the password is
        /// right.
        is_stale: bool,
    },
    /// The header field is malformed.
    Malformed,
    /// The digest has another Request-URI.
    OtherUri,
    /// The password is wrong, or there is no such user.
    Wrong {
        /// `username` of the digest, without escapes.
        user: Vec<u8>,
    },
    /// The password was not checked, after too many wrong ones.
    Slowed {
        /// `username` of the digest, without escapes.
        user: Vec<u8>,
    },
    /// The password is right.
    Proven {
        /// `username` of the digest, without escapes.
        user: Vec<u8>,
        /// True if the digest's `uri` is the server instead of the Request-URI.
        names_server: bool,
    },
}

/// Context of a verification, without the request.
#[derive(Debug)]
pub(crate) struct Verifier<'v, S> {
    pub(crate) now: Instant,
    pub(crate) config: &'v Config,
    pub(crate) services: &'v S,
    pub(crate) nonces: &'v NonceMaker,
    /// Domain of the users.
    pub(crate) domain: &'v [u8],
    /// Source address of the request.
    pub(crate) source: IpAddr,
}

impl<S: Services> Verifier<'_, S> {
    /// Verifies the credentials for our realm in `header` (Authorization or Proxy-Authorization).
    ///
    /// `request_uri` is the received one. `request` returns a number that identifies the request and its source; it is
    /// called after a password is proven. A user that does not exist takes the same time and gets the same response as a
    /// wrong password.
    pub(crate) fn verify(
        &self,
        message: &Message<'_>,
        request_uri: &Uri<'_>,
        header: HeaderName,
        request: impl Fn() -> u64,
    ) -> Outcome {
        let mut outcome = Outcome::Challenge { is_stale: false };
        for value in message.lines_of(header) {
            let given = match Credentials::parse(value) {
                Ok(Some(given)) => given,
                Ok(None) => continue,
                Err(ringway_sip::Malformed) => return Outcome::Malformed,
            };
            if unescape(given.realm).as_ref() != self.config.auth.realm.as_bytes() {
                continue;
            }
            let algorithm = match given.algorithm {
                None => Some(Algorithm::Md5),
                Some(name) => Algorithm::from_name(name),
            };
            let algorithms = &self.config.auth.algorithms;
            let Some(algorithm) = algorithm.filter(|algorithm| algorithms.contains(algorithm)) else {
                continue;
            };
            let Some(count) = given.nonce_count().filter(|_| is_auth(&given)) else { continue };
            let Some(names_server) = self.names_server(request_uri, given.uri) else {
                return Outcome::OtherUri;
            };
            let NonceAge::Fresh(id) = self.nonces.check(self.now, self.source, given.nonce) else {
                // Another header field of the request must not hide a wrong password.
                if matches!(outcome, Outcome::Challenge { .. }) {
                    outcome = Outcome::Challenge { is_stale: true };
                }
                continue;
            };
            let user = unescape(given.username);
            match self.check(message, algorithm, &given, &user) {
                LoginResult::Proven => {}
                LoginResult::Wrong => {
                    outcome = Outcome::Wrong { user: user.into_owned() };
                    continue;
                }
                LoginResult::Slowed => return Outcome::Slowed { user: user.into_owned() },
            }
            outcome = match self.services.use_nonce(self.now, id, count, request()) {
                NonceUse::First | NonceUse::Repeated => {
                    return Outcome::Proven { user: user.into_owned(), names_server };
                }
                NonceUse::Replayed | NonceUse::Forgotten => Outcome::Challenge { is_stale: true },
            };
        }
        outcome
    }

    /// Compares the digest's `uri`: false if it is the Request-URI, true if it is the server, `None` if it is anything
    /// else (RFC 7616 §3.4.6, RFC 3261 §22.4). SIPp writes the address that it sends to, which a server behind a NAT does
    /// not have.
    fn names_server(&self, request_uri: &Uri<'_>, given: &[u8]) -> Option<bool> {
        if given == request_uri.as_bytes() {
            return Some(false);
        }
        let given = unescape(given);
        let given = Uri::parse(&given).ok()?;
        if given.equals(request_uri) {
            return Some(false);
        }
        let is_address = given.host().ip().is_some() && self.config.may_be_behind_translator();
        let names_server = is_address || self.config.domain_of(&given).is_some();
        (given.user().is_none() && names_server).then_some(true)
    }

    /// Checks one password, unless there were too many wrong ones, and reports the result.
    fn check(
        &self,
        message: &Message<'_>,
        algorithm: Algorithm,
        given: &Credentials<'_>,
        user: &[u8],
    ) -> LoginResult {
        let login = Login { user, domain: self.domain, source: self.source };
        let result = if self.services.may_log_in(self.now, &login) {
            let ha1 = self.services.credentials(user, self.domain);
            // The time must not reveal if the user exists.
            let proven = algorithm.proves(&ha1.unwrap_or(NOBODY), message.method().as_bytes(), given);
            if proven && ha1.is_some() { LoginResult::Proven } else { LoginResult::Wrong }
        } else {
            LoginResult::Slowed
        };
        self.services.on_login(self.now, &login, result);
        result
    }
}

fn is_auth(given: &Credentials<'_>) -> bool {
    given.qop.is_some_and(|qop| qop.eq_ignore_ascii_case(b"auth")) && given.cnonce.is_some()
}

/// Password hash for unknown users; no password has it.
const NOBODY: Ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };
