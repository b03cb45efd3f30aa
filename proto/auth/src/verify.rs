//! Verification of the credentials of a request, and its settings.

use crate::{Algorithm, Ha1, Login, LoginResult, NonceAge, NonceId, NonceMaker, NonceUse};
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::{Defence, Flow, Instant};
use ringway_sip::digest::{AuthenticationInfo, Credentials, Qop, ServerProof, unescape};
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
    /// The digest has a fresh nonce and a form that is not accepted.
    Unusable {
        /// `username` of the digest, without escapes.
        user: Vec<u8>,
        /// The fault.
        why: Unusable,
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
        /// The digest's `uri`.
        uri: DigestUri,
        /// True if `username` of the digest is the user's name with its domain.
        has_domain: bool,
    },
}

/// `uri` of a digest that is accepted (RFC 7616 §3.4.6, RFC 3261 §22.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestUri {
    /// The Request-URI.
    Request,
    /// It differs from the Request-URI in a port or in parameters (see [`Uri::is_alike`]).
    Alike,
    /// A name of the server (see [`Logins::is_other_name`]).
    Server,
}

/// Reason for not verifying a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The algorithm is not offered.
    Algorithm,
    /// It has no qop.
    NoQop,
    /// The qop is not offered.
    OtherQop,
    /// With a qop, but without a cnonce or a readable nonce count.
    NoCount,
    /// `opaque` is not that of the challenge.
    OtherOpaque,
}

/// Body of the response that gets Authentication-Info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// None.
    Empty,
    /// Of another server: `rspauth` is left out if it covers the body.
    Unknown,
}

/// Data of a [`Verifier`]: passwords, used nonce counts, wrong passwords.
pub trait Logins {
    /// H(A1) of a user.
    fn credentials(&mut self, user: &[u8], domain: &[u8]) -> Option<Ha1>;

    /// H(A1) of the same password for the user name `user@domain`, if it is known.
    fn full_credentials(&mut self, _user: &[u8], _domain: &[u8]) -> Option<Ha1> {
        None
    }

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
    /// Forms of digest that are accepted.
    pub policy: DigestPolicy,
    /// `opaque` of the challenges.
    pub opaque: Option<&'v [u8]>,
    /// Creator of the nonces.
    pub nonces: &'v mut NonceMaker,
    /// Domain of the users.
    pub domain: &'v [u8],
    /// Source address of the request.
    pub source: IpAddr,
    /// Passwords, used nonce counts, wrong passwords.
    pub logins: L,
    /// Buffer for the value of Authentication-Info, which a proven password gets with [`NoncePolicy::Once`].
    pub info: &'v mut Vec<u8>,
    /// Body of the response with Authentication-Info.
    pub response_body: ResponseBody,
}

/// User of a digest.
#[derive(Clone, Copy, Debug)]
struct Named<'u> {
    name: &'u [u8],
    /// True if `username` is the name with its domain.
    has_domain: bool,
}

/// Accepted form of a digest.
struct Usage {
    algorithm: Algorithm,
    /// Count of the nonce that it uses.
    count: u32,
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
            let Usage { algorithm, count } = match self.usage(&given) {
                Ok(usage) => usage,
                Err(why) => {
                    let is_fresh = || self.nonces.check(self.now, self.source, given.nonce).is_fresh();
                    if outcome == (Outcome::Challenge { is_stale: false }) && is_fresh() {
                        outcome = Outcome::Unusable { user: unescape(given.username).into_owned(), why };
                    }
                    continue;
                }
            };
            let Some(uri) = self.digest_uri(request_uri, given.uri) else {
                return Outcome::OtherUri;
            };
            let Some(id) = self.usable_nonce(given.nonce, count) else {
                // Another header field of the request must not hide a wrong password.
                if !matches!(outcome, Outcome::Wrong { .. }) {
                    outcome = Outcome::Challenge { is_stale: true };
                }
                continue;
            };
            let username = unescape(given.username);
            let user = self.named_by(&username);
            let ha1 = match self.check(message, algorithm, &given, user) {
                Ok(ha1) => ha1,
                Err(LoginResult::Slowed) => return Outcome::Slowed { user: user.name.to_vec() },
                Err(LoginResult::Wrong | LoginResult::Proven) => {
                    outcome = Outcome::Wrong { user: user.name.to_vec() };
                    continue;
                }
            };
            outcome = match self.logins.use_nonce(self.now, id, count, request()) {
                NonceUse::First | NonceUse::Repeated => {
                    if self.policy.nonces == NoncePolicy::Once {
                        self.write_info(algorithm, &given, &ha1);
                    }
                    let Named { name, has_domain } = user;
                    return Outcome::Proven { user: name.to_vec(), uri, has_domain };
                }
                NonceUse::Replayed | NonceUse::Forgotten => Outcome::Challenge { is_stale: true },
            };
        }
        outcome
    }

    /// Identity of a nonce whose count may be used. Counts of another node's nonce are there: only its first is accepted here,
    /// and none if a nonce is for one request.
    fn usable_nonce(&self, nonce: &[u8], count: u32) -> Option<NonceId> {
        match self.nonces.check(self.now, self.source, nonce) {
            NonceAge::Fresh(id) => Some(id),
            NonceAge::FreshElsewhere(id) if count == FIRST => Some(id),
            NonceAge::FreshElsewhere(_) | NonceAge::Old | NonceAge::Foreign => None,
        }
    }

    /// Form of a digest, if it is accepted.
    fn usage(&self, given: &Credentials<'_>) -> Result<Usage, Unusable> {
        let algorithm = match given.algorithm {
            None => Some(Algorithm::Md5),
            Some(name) => Algorithm::from_name(name),
        };
        let algorithm = algorithm.filter(|algorithm| self.algorithms.contains(algorithm));
        let algorithm = algorithm.ok_or(Unusable::Algorithm)?;
        let count = match given.qop.map(Qop::from_name) {
            None if self.policy.danger_rfc2069 => USED_UP,
            None => return Err(Unusable::NoQop),
            Some(Some(qop)) if qop == Qop::Auth || self.policy.auth_int => {
                let count = given.nonce_count().filter(|_| given.cnonce.is_some());
                let count = count.ok_or(Unusable::NoCount)?;
                if self.policy.nonces == NoncePolicy::Once { USED_UP } else { count }
            }
            Some(_) => return Err(Unusable::OtherQop),
        };
        // RFC 2069 has no rule for clients that leave it out.
        if self.opaque.is_some_and(|own| given.opaque.is_some_and(|given| given != own)) {
            return Err(Unusable::OtherOpaque);
        }
        Ok(Usage { algorithm, count })
    }

    /// Appends the value of Authentication-Info (RFC 7616 §3.5).
    fn write_info(&mut self, algorithm: Algorithm, given: &Credentials<'_>, ha1: &Ha1) {
        let mut nonce = Vec::new();
        self.nonces.write(self.now, self.source, &mut nonce);
        let mut hex = [0; 64];
        let qop = given.qop.and_then(Qop::from_name);
        let is_known = qop == Some(Qop::Auth) || self.response_body == ResponseBody::Empty;
        let proof = match (qop.filter(|_| is_known), given.cnonce.filter(is_returned), given.nc) {
            (Some(qop), Some(cnonce), Some(nc)) => {
                let rspauth = algorithm.response(ha1, b"", b"", given, &mut hex);
                Some(ServerProof { qop, rspauth, cnonce, nc })
            }
            _ => None,
        };
        self.info.clear();
        AuthenticationInfo { nextnonce: Some(&nonce), proof }.write(self.info);
    }

    /// Compares the digest's `uri` with the Request-URI; `None` if it is of another resource.
    fn digest_uri(&self, request_uri: &Uri<'_>, given: &[u8]) -> Option<DigestUri> {
        if given == request_uri.as_bytes() {
            return Some(DigestUri::Request);
        }
        let given = unescape(given);
        let given = Uri::parse(&given).ok()?;
        if given.equals(request_uri) {
            return Some(DigestUri::Request);
        }
        if given.is_alike(request_uri) {
            return Some(DigestUri::Alike);
        }
        let is_accepted = self.logins.is_other_name(&given) || !Defence::DigestUri.is_on();
        is_accepted.then_some(DigestUri::Server)
    }

    /// User of a `username`. Phones that want an address for the account write `user@domain` there; a user of that very name is meant
    /// first.
    fn named_by<'u>(&mut self, username: &'u [u8]) -> Named<'u> {
        let whole = Named { name: username, has_domain: false };
        let Some(at) = username.iter().rposition(|&byte| byte == b'@') else { return whole };
        let (Some(name), Some(domain)) = (username.get(..at), username.get(at + 1..)) else { return whole };
        let domain = domain.strip_suffix(b".").unwrap_or(domain);
        let is_ours = !name.is_empty()
            && (domain.eq_ignore_ascii_case(self.domain) || domain.eq_ignore_ascii_case(self.realm));
        match is_ours && self.logins.credentials(username, self.domain).is_none() {
            true => Named { name, has_domain: true },
            false => whole,
        }
    }

    /// Checks one password, unless there were too many wrong ones, and reports the result; returns the hash that it has. Phones whose
    /// user name is `user@domain` hash that, as RFC 7616 has it, or the user alone.
    fn check(
        &mut self,
        message: &Message<'_>,
        algorithm: Algorithm,
        given: &Credentials<'_>,
        user: Named<'_>,
    ) -> Result<Ha1, LoginResult> {
        let Named { name, has_domain } = user;
        let login = Login { user: name, domain: self.domain, source: self.source };
        let result = if self.logins.may_log_in(self.now, &login) {
            let (method, body) = (message.method().as_bytes(), message.body());
            // The time must not reveal if the user exists.
            let proven = |ha1: Option<Ha1>| {
                let is_proven = algorithm.proves(&ha1.unwrap_or(NOBODY), method, body, given);
                ha1.filter(|_| is_proven)
            };
            let mut found = proven(self.logins.credentials(name, self.domain));
            if has_domain {
                let full = proven(self.logins.full_credentials(name, self.domain));
                found = found.or(full);
            }
            found.ok_or(LoginResult::Wrong)
        } else {
            Err(LoginResult::Slowed)
        };
        self.logins.on_login(self.now, &login, result.err().unwrap_or(LoginResult::Proven));
        result
    }
}

/// Retransmissions of a request that reach the verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// The same datagram from the same source: it gets the same answer again, as nothing is kept of the request.
    Retransmitted,
    /// None: a server transaction absorbs them while it lasts, and the same request afterwards is a replay.
    Absorbed,
}

/// Keyed hash that identifies a request and its source, for [`Verifier::verify`]; where nothing is retransmitted also its time.
pub fn request_mark(
    key: &[u8; 16],
    now: Instant,
    message: &Message<'_>,
    flow: &Flow,
    repeats: Repeats,
) -> u64 {
    let mut hash = SipHasher13::new_with_key(key);
    // All of it: a request that differs in anything is another one.
    hash.write(message.as_bytes());
    match flow.remote.ip() {
        IpAddr::V4(v4) => hash.write(&v4.octets()),
        IpAddr::V6(v6) => hash.write(&v6.octets()),
    }
    hash.write_u16(flow.remote.port());
    // A stream retransmits nothing: the same bytes again are a replay there, and their mark is another.
    if repeats == Repeats::Absorbed || flow.transport.is_reliable() {
        hash.write_u64(now.as_nanos());
    }
    hash.finish()
}

/// True for a cnonce that a response may contain: it is short and needs no quoting.
fn is_returned(cnonce: &&[u8]) -> bool {
    let is_plain = |&byte: &u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    cnonce.len() <= CNONCE_BYTES_MAX && cnonce.iter().all(is_plain)
}

/// Count that uses a nonce up: no count of it is accepted afterwards.
const USED_UP: u32 = u32::MAX;

/// Count of the first request with a nonce (RFC 7616 §3.4).
const FIRST: u32 = 1;

/// Maximum length of a cnonce that is returned to its client.
const CNONCE_BYTES_MAX: usize = 128;

/// Password hash for unknown users; no password has it.
const NOBODY: Ha1 = Ha1 { md5: [0; 16], sha256: [0; 32] };

/// Uses of one nonce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoncePolicy {
    /// Any number, with another nonce count each.
    #[default]
    Count,
    /// One; the client gets the next nonce in Authentication-Info (RFC 7616 §3.5).
    Once,
}

/// Forms of digest that are offered and accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestPolicy {
    /// Uses of one nonce.
    pub nonces: NoncePolicy,
    /// True: `auth-int` is offered too, and accepted.
    pub auth_int: bool,
    /// True: a digest without qop is accepted (RFC 2069). It uses its nonce up, because it has no count.
    pub danger_rfc2069: bool,
}
