//! Authentication of callers by digest: user-to-user authentication (RFC 3261 §22.2).
//!
//! An INVITE without proof leaves no state: the 401 and its To tag are functions of the request and the time. Used nonce counts
//! are stored for proven passwords only; wrong passwords are counted for each user and each source, with a limit.

use crate::context::Shared;
use crate::core_context::CoreContext;
use crate::draft::text;
use crate::request::reply::{IncomingRequest, finish};
use crate::{AgentEvent, CallerAuth, Config};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_auth::{
    Algorithm, ChallengeLimits, DigestPolicy, GuessLimits, Ha1, Login, LoginResult, Logins, NonceId,
    NonceMaker, NonceUse, Outcome, Repeats, ReplayWindows, ResponseBody, Verifier, request_mark,
};
use ringway_sansio::{Instant, Seed};
use ringway_sip::digest::{Challenge, QopOffer};
use ringway_sip::{HeaderName, Message, MessageWriter, Uri};
use ringway_transaction::{Allowance, reply_flow, to_tag};

/// Challenges the INVITEs of callers, and checks their credentials.
pub(crate) struct CallerAuthenticator {
    nonces: NonceMaker,
    /// Key of the hashes that identify requests in a replay window.
    request_key: [u8; 16],
    tag_key: [u8; 16],
    used: ReplayWindows,
    guesses: GuessLimits,
    challenges: ChallengeLimits,
}

impl CallerAuthenticator {
    pub(crate) fn new(shared: &mut Shared, now: Instant) -> Self {
        let secrets = &mut shared.random.secrets;
        let mut seed = || Seed::from_bytes(secrets.bytes());
        let (nonce_seed, guess_seed, challenge_seed) = (seed(), seed(), seed());
        Self {
            nonces: NonceMaker::new(&secrets.bytes(), &nonce_seed, NONCE_LIFETIME, 0),
            request_key: secrets.bytes(),
            tag_key: secrets.bytes(),
            used: ReplayWindows::new(NONCES_MAX, NONCE_LIFETIME, now),
            guesses: GuessLimits::new(PROOFS_MAX, &guess_seed, now),
            challenges: ChallengeLimits::new(&challenge_seed),
        }
    }

    /// User whose password the INVITE proves; `None`: it was answered.
    pub(crate) fn authenticate(
        &mut self,
        cx: &mut CoreContext<'_>,
        auth: &CallerAuth,
        incoming: &IncomingRequest<'_, '_>,
    ) -> Option<String> {
        let (now, source) = (cx.now(), incoming.flow.remote.ip());
        let mut verifier = Verifier {
            now,
            realm: auth.realm.as_bytes(),
            algorithms: &ALGORITHMS,
            policy: DigestPolicy::default(),
            opaque: None,
            nonces: &mut self.nonces,
            domain: auth.realm.as_bytes(),
            source,
            logins: CallerLogins {
                config: cx.config,
                auth,
                used: &mut self.used,
                guesses: &mut self.guesses,
            },
            info: &mut Vec::new(),
            response_body: ResponseBody::Empty,
        };
        let mark =
            || request_mark(&self.request_key, now, incoming.message, &incoming.flow, Repeats::Absorbed);
        match verifier.verify(incoming.message, &incoming.uri, HeaderName::Authorization, mark) {
            Outcome::Proven { user, .. } => {
                cx.counters.callers_proven += 1;
                return Some(text(&user));
            }
            Outcome::Challenge { is_stale } => self.challenge(cx, auth, incoming, is_stale),
            Outcome::Unusable { user, .. } => {
                let login = Login { user: &user, domain: auth.realm.as_bytes(), source };
                match self.challenges.may_challenge(now, &login) {
                    true => self.challenge(cx, auth, incoming, false),
                    false => {
                        cx.counters.caller_digests_refused += 1;
                        self.reply(cx, incoming, 403, "Digest Cannot Be Verified", |_| {});
                    }
                }
            }
            Outcome::Malformed | Outcome::OtherUri => self.challenge(cx, auth, incoming, false),
            Outcome::Wrong { user } => {
                cx.counters.caller_passwords_wrong += 1;
                cx.emit(AgentEvent::CallerRefused {
                    from: text(incoming.message.from().uri.as_bytes()),
                    user: text(&user),
                    source: incoming.flow.remote,
                });
                self.challenge(cx, auth, incoming, false);
            }
            Outcome::Slowed { .. } => {
                cx.counters.callers_slowed += 1;
                self.reply(cx, incoming, 503, "Too Many Wrong Passwords", |response| {
                    response.header_number(HeaderName::RetryAfter, SLOWED_RETRY_S);
                });
            }
        }
        None
    }

    /// True for the ACK of a response of this authenticator.
    pub(crate) fn is_acknowledged_by(&self, ack: &Message<'_>) -> bool {
        ack.to().tag().is_some_and(|tag| tag == to_tag(&self.tag_key, ack))
    }

    fn challenge(
        &mut self,
        cx: &mut CoreContext<'_>,
        auth: &CallerAuth,
        incoming: &IncomingRequest<'_, '_>,
        is_stale: bool,
    ) {
        cx.counters.callers_challenged += 1;
        let mut nonce = Vec::new();
        self.nonces.write(cx.now(), incoming.flow.remote.ip(), &mut nonce);
        self.reply(cx, incoming, 401, "Unauthorized", |response| {
            for algorithm in ALGORITHMS {
                let (realm, nonce) = (auth.realm.as_bytes(), nonce.as_slice());
                let (algorithm, qop) = (algorithm.name(), QopOffer::Auth);
                let challenge = Challenge { realm, nonce, algorithm, opaque: None, qop, is_stale };
                response.header_with(HeaderName::WwwAuthenticate, |out| challenge.write(out));
            }
        });
    }

    /// Responds without a transaction (RFC 3261 §8.2.7). The address may be forged: a response over the allowance of an unverified
    /// address is not sent.
    fn reply(
        &self,
        cx: &mut CoreContext<'_>,
        incoming: &IncomingRequest<'_, '_>,
        status: u16,
        phrase: &str,
        add: impl FnOnce(&mut MessageWriter<'_>),
    ) {
        let (message, flow) = (incoming.message, incoming.flow);
        let tag = to_tag(&self.tag_key, message);
        let config = cx.config;
        let bytes_max = Allowance::generated_max(message.as_bytes().len());
        cx.send_at_most(bytes_max, reply_flow(message.via(), flow), |arena| {
            let response = MessageWriter::answer(arena, message, status, phrase, flow.remote, Some(&tag));
            finish(response, config, |response, _| {
                add(response);
                None
            });
        });
    }
}

/// Users of a [`CallerAuth`], and the state of their logins.
struct CallerLogins<'a> {
    config: &'a Config,
    auth: &'a CallerAuth,
    used: &'a mut ReplayWindows,
    guesses: &'a mut GuessLimits,
}

impl Logins for CallerLogins<'_> {
    fn credentials(&mut self, user: &[u8], _domain: &[u8]) -> Option<Ha1> {
        self.auth.users.iter().find(|(name, _)| name.as_bytes() == user).map(|(_, ha1)| *ha1)
    }

    fn use_nonce(&mut self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        self.used.use_count(now, nonce, count, request)
    }

    fn may_log_in(&mut self, now: Instant, login: &Login<'_>) -> bool {
        self.guesses.may_log_in(now, login)
    }

    fn on_login(&mut self, now: Instant, login: &Login<'_>, result: LoginResult) {
        self.guesses.on_login(now, login, result);
    }

    /// True for the address-of-record of an account: a proxy replaces it by our contact (RFC 3261 §16.6).
    fn is_other_name(&self, uri: &Uri<'_>) -> bool {
        self.config.account_for(uri).is_some()
    }
}

/// Only MD5, which all phones support: docs/decisions/0003-digest-order.md.
const ALGORITHMS: [Algorithm; 1] = [Algorithm::Md5];

/// Lifetime of a nonce: longer than a user needs to type a password.
const NONCE_LIFETIME: Duration = Duration::from_secs(300);

/// Maximum number of stored nonces.
const NONCES_MAX: usize = 1024;

/// Maximum number of stored pairs of a user and a source with a proven password.
const PROOFS_MAX: usize = 1024;

/// Retry-After in seconds of a 503 after too many wrong passwords.
const SLOWED_RETRY_S: u64 = 10;
