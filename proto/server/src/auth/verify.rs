//! From a request to who sent it.

use super::{Algorithm, Login, LoginResult, NonceAge, NonceMaker, NonceUse};
use crate::{Config, Ha1, Services};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::Instant;
use ringway_sip::digest::{Credentials, unescape};
use ringway_sip::{HeaderName, Message, Uri};

/// What the credentials of a request are worth.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// None for our realm, or none that could be right.
    Challenge {
        /// A nonce is not ours, not for this source, too old, or its count was used before. Without a fresh nonce the password is
        /// not checked: the source address may be forged, and the check must not tell whether the password is right.
        is_stale: bool,
    },
    /// The header cannot be read.
    Malformed,
    /// They are for another Request-URI.
    OtherUri,
    /// The password is wrong, or there is no such user.
    Wrong {
        /// The digest's `username`, escapes undone.
        user: Vec<u8>,
    },
    /// The password was not checked: too many were wrong.
    Slowed {
        /// The digest's `username`, escapes undone.
        user: Vec<u8>,
    },
    /// The password was proven.
    Proven {
        /// The digest's `username`, escapes undone.
        user: Vec<u8>,
        /// The digest's `uri` is the server and not the Request-URI.
        names_server: bool,
    },
}

/// Everything that the worth of credentials depends on, but the request.
#[derive(Debug)]
pub(crate) struct Verifier<'v, S> {
    pub(crate) now: Instant,
    pub(crate) config: &'v Config,
    pub(crate) services: &'v S,
    pub(crate) nonces: &'v NonceMaker,
    /// The domain whose users are looked up.
    pub(crate) domain: &'v [u8],
    /// The address that the request came from.
    pub(crate) source: IpAddr,
}

impl<S: Services> Verifier<'_, S> {
    /// Checks the credentials for our realm in `header` (Authorization or Proxy-Authorization).
    ///
    /// `request_uri` is the one that came. `request` makes what stands for the request and its source; it is asked once a
    /// password is proven. A user that does not exist takes the same work and gets the same answer as a wrong password.
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
                // A wrong password stays the outcome: another header of the request does not hide it.
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

    /// Whether the digest's `uri` names the server instead of the Request-URI; `None` when it names anything else (RFC 7616
    /// §3.4.6, RFC 3261 §22.4). SIPp writes the address that it sends to, which a server behind a translator does not have.
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

    /// Checks one password, if it may be checked, and has the result noted.
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
            // Nobody learns from the time taken whether the user exists.
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

/// What an unknown user's password is compared with; nobody has it.
const NOBODY: Ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };
