//! From a request to who sent it.

use super::{Algorithm, NonceAge, NonceMaker, NonceUse};
use crate::{Config, Ha1, Services};
use ringway_sansio::Instant;
use ringway_sip::digest::{Credentials, unescape};
use ringway_sip::{HeaderName, Message};

/// What the credentials of a request are worth.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// None for our realm, or they prove nothing.
    Challenge {
        /// The password was right, only the nonce was not.
        is_stale: bool,
    },
    /// The header cannot be read.
    Malformed,
    /// The password of this user was proven; the bytes are the digest's `username`, escapes undone.
    Proven(alloc::vec::Vec<u8>),
}

/// Checks the credentials for our realm in `header` (Authorization or Proxy-Authorization).
///
/// `request` makes what stands for the request and its source; it is asked once a password is proven. A user that does not
/// exist takes the same work and gets the same answer as a wrong password.
#[expect(clippy::too_many_arguments, reason = "each is a different part of the server")]
pub(crate) fn verify<S: Services>(
    now: Instant,
    config: &Config,
    services: &S,
    nonces: &NonceMaker,
    message: &Message<'_>,
    header: HeaderName,
    domain: &[u8],
    request: impl Fn() -> u64,
) -> Outcome {
    let mut is_stale = false;
    for value in message.lines_of(header) {
        let given = match Credentials::parse(value) {
            Ok(Some(given)) => given,
            Ok(None) => continue,
            Err(ringway_sip::Malformed) => return Outcome::Malformed,
        };
        if unescape(given.realm).as_ref() != config.auth.realm.as_bytes() {
            continue;
        }
        let algorithm = match given.algorithm {
            None => Some(Algorithm::Md5),
            Some(name) => Algorithm::from_name(name),
        };
        let Some(algorithm) = algorithm.filter(|algorithm| config.auth.algorithms.contains(algorithm)) else {
            continue;
        };
        let Some(count) = given.nonce_count().filter(|_| is_auth(&given)) else { continue };
        let user = unescape(given.username);
        let ha1 = services.credentials(&user, domain);
        // Nobody learns from the time taken whether the user exists.
        let proven = algorithm.proves(&ha1.unwrap_or(NOBODY), message.method().as_bytes(), &given);
        if !proven || ha1.is_none() {
            continue;
        }
        match nonces.check(now, given.nonce) {
            NonceAge::Fresh(id) => match services.use_nonce(now, id, count, request()) {
                NonceUse::First | NonceUse::Repeated => return Outcome::Proven(user.into_owned()),
                NonceUse::Replayed | NonceUse::Forgotten => is_stale = true,
            },
            NonceAge::Old | NonceAge::Foreign => is_stale = true,
        }
    }
    Outcome::Challenge { is_stale }
}

fn is_auth(given: &Credentials<'_>) -> bool {
    given.qop.is_some_and(|qop| qop.eq_ignore_ascii_case(b"auth")) && given.cnonce.is_some()
}

/// What an unknown user's password is compared with; nobody has it.
const NOBODY: Ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };
