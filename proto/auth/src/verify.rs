//! Verification of the credentials of a request.

use crate::{Algorithm, Ha1, Login, LoginResult, NonceAge, NonceId, NonceMaker, NonceUse};
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::{Flow, Instant};
use ringway_sip::digest::{Credentials, unescape};
use ringway_sip::{HeaderName, Message, Uri};
use siphasher::sip::SipHasher13;

/// Result of verifying the credentials of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
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
        /// True if the digest's `uri` is not the Request-URI (see [`Logins::is_other_name`]).
        is_other_name: bool,
    },
}

/// Data of a [`Verifier`]: passwords, used nonce counts, wrong passwords.
pub trait Logins {
    /// H(A1) of a user.
    fn credentials(&mut self, user: &[u8], domain: &[u8]) -> Option<Ha1>;

    /// Marks a nonce count as used (see [`ReplayWindows`](crate::ReplayWindows)).
    fn use_nonce(&mut self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse;

    /// False after too many wrong passwords (see [`GuessLimits`](crate::GuessLimits)): the password is then not checked.
    fn may_log_in(&mut self, now: Instant, login: &Login<'_>) -> bool;

    /// Records the result of a login.
    fn on_login(&mut self, now: Instant, login: &Login<'_>, result: LoginResult);

    /// True for a URI that clients write as the digest's `uri` instead of the Request-URI.
    fn is_other_name(&self, uri: &Uri<'_>) -> bool;
}

/// Context of a verification, without the request.
#[derive(Debug)]
pub struct Verifier<'v, L> {
    /// Current time.
    pub now: Instant,
    /// Realm of the challenges.
    pub realm: &'v [u8],
    /// Algorithms of the challenges.
    pub algorithms: &'v [Algorithm],
    /// Creator of the nonces.
    pub nonces: &'v NonceMaker,
    /// Domain of the users.
    pub domain: &'v [u8],
    /// Source address of the request.
    pub source: IpAddr,
    /// Passwords, used nonce counts, wrong passwords.
    pub logins: L,
}

impl<L: Logins> Verifier<'_, L> {
    /// Verifies the credentials for our realm in `header` (Authorization or Proxy-Authorization).
    ///
    /// `request_uri` is the received one. `request` returns a number that identifies the request and its source; it is
    /// called after a password is proven. A user that does not exist takes the same time and gets the same response as a
    /// wrong password.
    pub fn verify(
        &mut self,
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
            if unescape(given.realm).as_ref() != self.realm {
                continue;
            }
            let algorithm = match given.algorithm {
                None => Some(Algorithm::Md5),
                Some(name) => Algorithm::from_name(name),
            };
            let Some(algorithm) = algorithm.filter(|algorithm| self.algorithms.contains(algorithm)) else {
                continue;
            };
            let Some(count) = given.nonce_count().filter(|_| is_auth(&given)) else { continue };
            let Some(is_other_name) = self.is_other_name(request_uri, given.uri) else {
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
            outcome = match self.logins.use_nonce(self.now, id, count, request()) {
                NonceUse::First | NonceUse::Repeated => {
                    return Outcome::Proven { user: user.into_owned(), is_other_name };
                }
                NonceUse::Replayed | NonceUse::Forgotten => Outcome::Challenge { is_stale: true },
            };
        }
        outcome
    }

    /// Compares the digest's `uri`: false if it is the Request-URI, true for another name of the server, `None` if it is
    /// neither (RFC 7616 §3.4.6, RFC 3261 §22.4).
    fn is_other_name(&self, request_uri: &Uri<'_>, given: &[u8]) -> Option<bool> {
        if given == request_uri.as_bytes() {
            return Some(false);
        }
        let given = unescape(given);
        let given = Uri::parse(&given).ok()?;
        if given.equals(request_uri) {
            return Some(false);
        }
        self.logins.is_other_name(&given).then_some(true)
    }

    /// Checks one password, unless there were too many wrong ones, and reports the result.
    fn check(
        &mut self,
        message: &Message<'_>,
        algorithm: Algorithm,
        given: &Credentials<'_>,
        user: &[u8],
    ) -> LoginResult {
        let login = Login { user, domain: self.domain, source: self.source };
        let result = if self.logins.may_log_in(self.now, &login) {
            let ha1 = self.logins.credentials(user, self.domain);
            // The time must not reveal if the user exists.
            let proven = algorithm.proves(&ha1.unwrap_or(NOBODY), message.method().as_bytes(), given);
            if proven && ha1.is_some() { LoginResult::Proven } else { LoginResult::Wrong }
        } else {
            LoginResult::Slowed
        };
        self.logins.on_login(self.now, &login, result);
        result
    }
}

/// Keyed hash that identifies a request and its source, for [`Verifier::verify`]; on a stream also its time.
pub fn request_mark(key: &[u8; 16], now: Instant, message: &Message<'_>, flow: &Flow) -> u64 {
    let mut hash = SipHasher13::new_with_key(key);
    // All of it: a request that differs in anything is another one.
    hash.write(message.as_bytes());
    match flow.remote.ip() {
        IpAddr::V4(v4) => hash.write(&v4.octets()),
        IpAddr::V6(v6) => hash.write(&v6.octets()),
    }
    hash.write_u16(flow.remote.port());
    // A stream retransmits nothing: the same bytes again are a replay there, and their mark is another.
    if flow.transport.is_reliable() {
        hash.write_u64(now.as_nanos());
    }
    hash.finish()
}

fn is_auth(given: &Credentials<'_>) -> bool {
    given.qop.is_some_and(|qop| qop.eq_ignore_ascii_case(b"auth")) && given.cnonce.is_some()
}

/// Password hash for unknown users; no password has it.
const NOBODY: Ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };
