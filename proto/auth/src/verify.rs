//! Checking of the credentials in a request.

use crate::{Algorithm, Ha1, Login, LoginResult, NonceAge, NonceId, NonceMaker, NonceUse};
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::{Flow, Instant};
use ringway_sip::digest::{Credentials, unescape};
use ringway_sip::{HeaderName, Message, Uri};
use siphasher::sip::SipHasher13;

/// What the credentials of a request are worth.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
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
        /// The digest's `uri` is not the Request-URI (see [`Logins::is_other_name`]).
        is_other_name: bool,
    },
}

/// The surroundings of a [`Verifier`]: passwords, used nonce counts, wrong passwords.
pub trait Logins {
    /// H(A1) of a user.
    fn credentials(&mut self, user: &[u8], domain: &[u8]) -> Option<Ha1>;

    /// Marks a nonce count as used (see [`ReplayWindows`](crate::ReplayWindows)).
    fn use_nonce(&mut self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse;

    /// False when too many passwords were guessed (see [`GuessLimits`](crate::GuessLimits)): then the password is not checked.
    fn may_log_in(&mut self, now: Instant, login: &Login<'_>) -> bool;

    /// Records how an attempt to log in ended.
    fn on_login(&mut self, now: Instant, login: &Login<'_>, result: LoginResult);

    /// True for a URI that clients write as the digest's `uri` in place of the Request-URI that came.
    fn is_other_name(&self, uri: &Uri<'_>) -> bool;
}

/// Everything that the worth of credentials depends on, but the request.
#[derive(Debug)]
pub struct Verifier<'v, L> {
    /// The current time.
    pub now: Instant,
    /// The realm of the challenges.
    pub realm: &'v [u8],
    /// The algorithms of the challenges.
    pub algorithms: &'v [Algorithm],
    /// The maker of the nonces.
    pub nonces: &'v NonceMaker,
    /// The domain whose users are looked up.
    pub domain: &'v [u8],
    /// The address that the request came from.
    pub source: IpAddr,
    /// Passwords, used nonce counts, wrong passwords.
    pub logins: L,
}

impl<L: Logins> Verifier<'_, L> {
    /// Checks the credentials for our realm in `header` (Authorization or Proxy-Authorization).
    ///
    /// `request_uri` is the one that came. `request` makes what stands for the request and its source; it is asked once a
    /// password is proven. A user that does not exist takes the same work and gets the same answer as a wrong password.
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
            outcome = match self.logins.use_nonce(self.now, id, count, request()) {
                NonceUse::First | NonceUse::Repeated => {
                    return Outcome::Proven { user: user.into_owned(), is_other_name };
                }
                NonceUse::Replayed | NonceUse::Forgotten => Outcome::Challenge { is_stale: true },
            };
        }
        outcome
    }

    /// False for a digest's `uri` that is the Request-URI, true for another name of ours; `None`: it is neither (RFC 7616
    /// §3.4.6, RFC 3261 §22.4).
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

    /// Checks one password, if it may be checked, and has the result noted.
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
            // Nobody learns from the time taken whether the user exists.
            let proven = algorithm.proves(&ha1.unwrap_or(NOBODY), message.method().as_bytes(), given);
            if proven && ha1.is_some() { LoginResult::Proven } else { LoginResult::Wrong }
        } else {
            LoginResult::Slowed
        };
        self.logins.on_login(self.now, &login, result);
        result
    }
}

/// A number that stands for a request and its source, for [`Verifier::verify`]; on a stream also for its time.
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

/// What an unknown user's password is compared with; nobody has it.
const NOBODY: Ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };
