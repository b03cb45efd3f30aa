//! Digest authentication of requests: challenges, and the user that a request proves.

use crate::base::{Env, InputState, Request, Step, Steps, derive};
use crate::report::Report;
use crate::tables::SharedTables;
use crate::token::UserHash;
use crate::{Aor, AuthConfig, Authenticated, Config, Detail, Host, LogEvent, LoginRefusal, NameForm, Reason};
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_auth::{
    DigestUri, Login, LoginResult, Logins, NonceId, NonceMaker, NonceUse, Outcome, Repeats, ResponseBody,
    Unusable, Verifier, request_mark,
};
use ringway_sansio::{Defence, Instant, Seed};
use ringway_sip::digest::{Algorithm, Challenge, Credentials, Ha1, QopOffer};
use ringway_sip::{HeaderName, MessageWriter, Scheme, Uri, hex16};
use siphasher::sip::SipHasher13;

/// Authenticates the senders of requests.
///
/// Nonces are made by each shard; used nonce counts and counts of wrong passwords are common to all shards, in
/// [`SharedTables`].
pub(crate) struct Authenticator {
    nonces: NonceMaker,
    /// Key of the hashes that identify requests in a replay window.
    request_key: [u8; 16],
    /// Key of `opaque`.
    opaque_key: [u8; 16],
    /// Buffer for the nonce of a challenge.
    nonce: Vec<u8>,
}

impl Authenticator {
    /// All shards have the same `seed`, because they accept each other's nonces.
    pub(crate) fn new(config: &Config, seed: &Seed, shard: u16) -> Self {
        let mut authenticator = Self {
            nonces: NonceMaker::new(&config.own_secret(), seed, config.auth.nonce_lifetime, shard),
            request_key: derive(&config.secret, b"request"),
            opaque_key: [0; 16],
            nonce: Vec::new(),
        };
        authenticator.reconfigure(config);
        authenticator
    }

    /// Applies a configuration: the lifetime of nonces, and the keys that all nodes have.
    pub(crate) fn reconfigure(&mut self, config: &Config) {
        self.nonces.set_lifetime(config.auth.nonce_lifetime);
        self.nonces.share(config.links.as_ref().map(|links| links.keys(b"nonce")));
        self.opaque_key = match &config.links {
            None => derive(&config.secret, b"opaque"),
            // Equal on all nodes, also while they change their secret: it proves nothing.
            Some(_) => [0; 16],
        };
    }

    /// Challenges the user in From with 407 (RFC 3261 §22.3), as a redirect server too: the caller's request must not
    /// depend on the mode of the server. False if the request was answered.
    pub(crate) fn authenticate_caller(&mut self, env: &mut Env<'_>, request: &Request<'_, '_>) -> bool {
        let mut from = Aor::default();
        if !env.config.read_aor(&request.message.from().uri, &mut from) {
            env.refuse_plainly(request, 403, "Caller Has No Name");
            return false;
        }
        if is_certified(env, request, |user| *user == from) {
            return true;
        }
        let user = self.authenticate(env, request, HeaderName::ProxyAuthorization, from.domain());
        user.is_some_and(|user| is_address_of(env, request, &user, &from))
    }

    /// Challenges the user of ours that is the side of a dialog which sends the request. False if the request was answered.
    pub(crate) fn authenticate_side(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        side: UserHash,
    ) -> bool {
        let key = env.keys.route;
        let mut from = Aor::default();
        if !env.config.read_aor(&request.message.from().uri, &mut from) {
            env.refuse_plainly(request, 403, "Caller Has No Name");
            return false;
        }
        if is_certified(env, request, |user| UserHash::of(&key, user.user(), user.domain()) == side) {
            return true;
        }
        let user = self.authenticate(env, request, HeaderName::ProxyAuthorization, from.domain());
        let Some(user) = user else { return false };
        if UserHash::of(&key, &user, from.domain()) == side {
            return true;
        }
        refuse_other_user(env, request, &user);
        false
    }

    /// Proof that the sender of a REGISTER may change the bindings of `aor`; `None` if the request was answered.
    pub(crate) fn prove_owner<'p>(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        aor: &'p Aor,
    ) -> Option<Authenticated<&'p Aor>> {
        if !(env.config.auth.enabled && Defence::RegisterPassword.is_on()) {
            return Some(Authenticated::danger_without_authentication(aor));
        }
        if is_certified(env, request, |user| user == aor) {
            return Some(Authenticated::proven_by_certificate(aor));
        }
        let user = self.authenticate(env, request, HeaderName::Authorization, aor.domain())?;
        is_address_of(env, request, &user, aor).then(|| Authenticated::proven_by_digest(aor))
    }

    /// User whose password the request proves; `None` if the request was answered.
    pub(crate) fn authenticate(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        header: HeaderName,
        domain: &[u8],
    ) -> Option<Vec<u8>> {
        env.mark(Step::Rest);
        let (now, auth, realm) = (env.cx.now, &env.config.auth, env.config.auth.realms.of(domain));
        let opaque = opaque(auth, &self.opaque_key, realm);
        // The transaction of an INVITE may end before the time of retransmissions: it must not ring again. Those of other methods
        // last longer.
        let is_over = request.key.is_some_and(|key| env.ended_invites.contains(key));
        env.counters.invites_replayed += u64::from(is_over);
        let repeats = if is_over { Repeats::Absorbed } else { Repeats::Retransmitted };
        let mark = || request_mark(&self.request_key, now, request.message, &request.flow, repeats);
        let InputState { answer_info, steps } = &mut *env.input;
        let mut verifier = Verifier {
            now,
            realm: realm.as_bytes(),
            algorithms: &auth.algorithms,
            policy: auth.digest,
            opaque: opaque.as_ref().map(|digits| digits.as_slice()),
            logins: ServerLogins { config: env.config, host: env.host, tables: env.tables, steps },
            nonces: &mut self.nonces,
            domain,
            source: request.client(env.config),
            info: answer_info,
            response_body: match header {
                HeaderName::ProxyAuthorization => ResponseBody::Unknown,
                _ => ResponseBody::Empty,
            },
        };
        let outcome = verifier.verify(request.message, &request.uri, header, mark);
        env.mark(Step::Authenticate);
        match outcome {
            Outcome::Proven { user, uri, has_domain } => {
                env.counters.authenticated += 1;
                env.counters.full_usernames += u64::from(has_domain);
                match uri {
                    DigestUri::Request => {}
                    DigestUri::Alike => env.counters.digest_uri_alike += 1,
                    DigestUri::Server => env.counters.digest_uri_server += 1,
                }
                note_login(env, request, header);
                return Some(user);
            }
            Outcome::Challenge { is_stale } => {
                let reason = if is_stale { Reason::StaleNonce } else { Reason::NoCredentials };
                env.decided(request, reason, Detail::Both(b"realm", realm.as_bytes()));
                self.challenge(env, request, header, realm, is_stale);
            }
            Outcome::Unusable { user, why } => {
                self.refuse_unusable(env, request, header, &user, domain, why);
            }
            Outcome::Wrong { user } => {
                env.counters.wrong_passwords += 1;
                let reason = match env.host.is_known(&user, domain) {
                    true => LoginRefusal::WrongPassword,
                    false => LoginRefusal::UnknownUser,
                };
                observe_login(env, request, &user, reason);
                self.challenge(env, request, header, realm, false);
            }
            Outcome::Slowed { user } => {
                env.counters.slowed_logins += 1;
                observe_login(env, request, &user, LoginRefusal::Slowed);
                let retry = |response: &mut MessageWriter<'_>| {
                    response.header_number(HeaderName::RetryAfter, SLOWED_RETRY_S);
                };
                env.refuse(request, 503, "Too Many Wrong Passwords", retry);
            }
            Outcome::Malformed => env.refuse_plainly(request, 400, "Bad Credentials Header"),
            Outcome::OtherUri => {
                env.counters.digest_uri_other += 1;
                env.refuse_plainly(request, 400, "Digest URI Is Not The Request-URI");
            }
        }
        None
    }

    /// Challenges a digest that cannot be verified once more; refuses it after too many of the same user from its source.
    /// Its nonce is fresh, so the source address is not forged.
    fn refuse_unusable(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        header: HeaderName,
        user: &[u8],
        domain: &[u8],
        why: Unusable,
    ) {
        env.counters.unusable_digests += 1;
        let reason = match env.host.is_known(user, domain) {
            true => LoginRefusal::Unusable,
            false => LoginRefusal::UnknownUser,
        };
        observe_login(env, request, user, reason);
        let source = request.client(env.config);
        let login = Login { user, domain, source };
        let phrase = match why {
            Unusable::Algorithm => "Digest Algorithm Is Not Offered",
            Unusable::NoQop => "Digest Has No qop",
            Unusable::OtherQop => "Digest qop Is Not Offered",
            Unusable::NoCount => "Digest Has No Valid nc And cnonce",
            Unusable::OtherOpaque => "Digest Has Another opaque",
        };
        if env.tables.may_challenge(env.cx.now, &login) {
            let realm = env.config.auth.realms.of(domain);
            env.decided(request, Reason::UnusableDigest, Detail::Text(phrase.as_bytes()));
            // The password may be right: its user need not be asked again.
            return self.challenge(env, request, header, realm, why == Unusable::OtherOpaque);
        }
        env.counters.unusable_refused += 1;
        env.refuse_plainly(request, 403, phrase);
    }

    /// Sends 401 or 407 with one challenge for each algorithm, in the configured order (RFC 8760 §2.4). No state is kept,
    /// except for an in-dialog INVITE.
    fn challenge(
        &mut self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        header: HeaderName,
        realm: &str,
        is_stale: bool,
    ) {
        env.counters.challenged += 1;
        let (status, phrase, name) = match header {
            HeaderName::ProxyAuthorization => {
                (407, "Proxy Authentication Required", HeaderName::ProxyAuthenticate)
            }
            _ => (401, "Unauthorized", HeaderName::WwwAuthenticate),
        };
        self.nonce.clear();
        let client = request.client(env.config);
        self.nonces.write(env.cx.now, client, &mut self.nonce);
        env.input.steps.mark(Step::Authenticate);
        let (auth, nonce) = (&env.config.auth, &self.nonce);
        let opaque = opaque(auth, &self.opaque_key, realm);
        let mut challenge = Challenge {
            realm: realm.as_bytes(),
            nonce,
            algorithm: "",
            opaque: opaque.as_ref().map(|digits| digits.as_slice()),
            qop: if auth.digest.auth_int { QopOffer::AuthOrAuthInt } else { QopOffer::Auth },
            is_stale,
        };
        env.refuse(request, status, phrase, |response| {
            for algorithm in &auth.algorithms {
                challenge.algorithm = algorithm.name();
                response.header_with(name, |out| challenge.write(out));
            }
        });
    }
}

/// Adapter from [`Host`] and [`SharedTables`] to a verifier.
struct ServerLogins<'s> {
    config: &'s Config,
    host: &'s dyn Host,
    tables: &'s SharedTables,
    steps: &'s mut Steps,
}

impl ServerLogins<'_> {
    fn find(&mut self, user: &[u8], domain: &[u8], form: NameForm) -> Option<Ha1> {
        self.steps.mark(Step::Authenticate);
        let found = self.host.credentials(user, domain, form);
        self.steps.mark(Step::FindUser);
        found
    }
}

impl Logins for ServerLogins<'_> {
    fn credentials(&mut self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        self.find(user, domain, NameForm::User)
    }

    fn full_credentials(&mut self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        self.find(user, domain, NameForm::WithDomain)
    }

    fn use_nonce(&mut self, now: Instant, nonce: NonceId, count: u32, request: u64) -> NonceUse {
        match self.tables.use_nonce(now, nonce, count, request) {
            NonceUse::Replayed if !Defence::NonceCount.is_on() => NonceUse::First,
            NonceUse::Forgotten if !Defence::NonceLifetime.is_on() => NonceUse::First,
            result => result,
        }
    }

    fn may_log_in(&mut self, now: Instant, login: &Login<'_>) -> bool {
        (self.tables.may_log_in(now, login) || !Defence::Guessing.is_on())
            && self.host.has_read(login.user, login.domain)
    }

    fn on_login(&mut self, now: Instant, login: &Login<'_>, result: LoginResult) {
        self.tables.on_login(now, login, result);
    }

    /// True for the server itself. SIPp writes the address that it sends to, which a server behind a NAT does not have.
    fn is_other_name(&self, uri: &Uri<'_>) -> bool {
        let is_address = uri.host().ip().is_some() && self.config.may_be_behind_translator();
        uri.user().is_none() && (is_address || self.config.domain_of(uri).is_some())
    }
}

/// `opaque` of a realm, if this server has several: another one shows that a client has mixed up two challenges. It does not
/// depend on the nonce, because a `nextnonce` comes without one.
fn opaque(auth: &AuthConfig, key: &[u8; 16], realm: &str) -> Option<[u8; 8]> {
    if !auth.realms.are_several() {
        return None;
    }
    let mut hash = SipHasher13::new_with_key(key);
    hash.write(realm.as_bytes());
    hex16(hash.finish()).first_chunk().copied()
}

/// True if `user` is the user of `address`; otherwise the request is refused.
fn is_address_of(env: &mut Env<'_>, request: &Request<'_, '_>, user: &[u8], address: &Aor) -> bool {
    if user == address.user() || !Defence::OwnAddress.is_on() {
        return true;
    }
    refuse_other_user(env, request, user);
    false
}

/// Refuses a request with the password of a user whose address it does not have.
fn refuse_other_user(env: &mut Env<'_>, request: &Request<'_, '_>, user: &[u8]) {
    observe_login(env, request, user, LoginRefusal::NotItsAddress);
    env.refuse_decided(request, 403, "Not Your Address");
}

fn observe_login(env: &Env<'_>, request: &Request<'_, '_>, user: &[u8], reason: LoginRefusal) {
    let mut address = request.flow.remote;
    // A program that blocks addresses must not block the front.
    address.set_ip(request.client(env.config));
    env.observe(&LogEvent::LoginRefused { user, address, reason });
    let reason = match reason {
        LoginRefusal::WrongPassword => Reason::WrongPassword,
        LoginRefusal::UnknownUser => Reason::UnknownUser,
        LoginRefusal::NotItsAddress => Reason::NotItsAddress,
        LoginRefusal::Slowed => Reason::LoginSlowed,
        // It is reported with what cannot be verified.
        LoginRefusal::Unusable => return,
    };
    env.decided(request, reason, Detail::Text(user));
}

/// Reports an accepted login with its algorithm, if that is wanted.
fn note_login(env: &Env<'_>, request: &Request<'_, '_>, header: HeaderName) {
    if !env.is_tracing() {
        return;
    }
    let given = request.message.lines_of(header).find_map(|value| Credentials::parse(value).ok()?);
    let algorithm = given.and_then(|given| given.algorithm).unwrap_or_default();
    let algorithm = Algorithm::from_name(algorithm).unwrap_or(Algorithm::Md5);
    env.decided(request, Reason::LoginAccepted, Detail::Text(algorithm.name().as_bytes()));
}

/// Retry-After in seconds of a 503 after too many wrong passwords.
const SLOWED_RETRY_S: u64 = 10;

/// True if the certificate of the request's connection is one of a user that `is_wanted` accepts. The user must be a
/// subscriber, as with a password. A neighbour's certificate names no users.
pub(crate) fn is_certified(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    is_wanted: impl Fn(&Aor) -> bool,
) -> bool {
    let (rules, now) = (&env.config.auth.certificates, env.cx.now);
    let Some(peer) = request.peer.filter(|peer| rules.users && !rules.is_trusted(Some(peer), now)) else {
        return false;
    };
    let mut aor = Aor::default();
    let is_proven = peer.users(now).any(|text| {
        read_user(env.config, text, &mut aor)
            && is_wanted(&aor)
            && env.host.is_known(aor.user(), aor.domain())
    });
    if is_proven {
        env.report(request, Report::Certified);
    }
    is_proven
}

/// Fills `aor` from a `sip:` URI of a user and a domain of `domains`, with nothing else; false for any other URI.
fn read_user(config: &Config, text: &str, aor: &mut Aor) -> bool {
    let Ok(uri) = Uri::parse(text.as_bytes()) else { return false };
    let is_plain = uri.scheme() == Scheme::Sip
        && uri.password().is_none()
        && uri.port().is_none()
        && uri.params().as_bytes().is_empty()
        && uri.headers().is_empty();
    is_plain && uri.host().ip().is_none() && config.read_aor(&uri, aor) && !aor.user().is_empty()
}
