//! Credentials for challenges (RFC 7616, RFC 8760, RFC 3261 §22), and the challenges that get none.
//!
//! Credentials are bound to three things: the account's realm, the account's server (the address that the request was
//! really sent to, by TLS if the server is reached by TLS), and the kind of request. A challenge in a direct call, from a
//! host that is not the server, of another realm, or (unless configured) inside a dialog gets no credentials: an attacker
//! could guess the password offline with them, or use them in our name.
//!
//! A called phone may challenge too (RFC 3261 §22.2). It gets an answer only if the account has credentials for its realm
//! ([`PeerCredentials`](crate::PeerCredentials)); they are for the one request that it challenged.
//!
//! The account's realm is the configured one. Without one it is learnt from the first challenge to a REGISTER, which no
//! callee can send, and kept as long as the agent lives; before that it is the account's domain or its server's host.
//! [Decision 0009](../../../../docs/decisions/0009-the-phones-realm-and-srtp.md).

use crate::context::AgentContext;
use crate::draft::{Scope, text};
use crate::request::Requests;
use crate::{Account, Config, InDialogChallenges, PeerCredentials, Secret};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
pub(super) use ringway_auth::Covered;
use ringway_auth::{AnsweredChallenge, NoChallenge, Unsupported, fields_of, quoted, strongest};
use ringway_sansio::{Entropy, Flow, LocatedServer};
use ringway_sip::digest::{Algorithm, AuthenticationInfo, Ha1, ReceivedChallenge, unescape};
use ringway_sip::{HeaderName, Message, Method, Uri};
use ringway_transaction::SlabKey;

/// Kind of a request for authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Area {
    /// REGISTER.
    Registrar,
    /// Any other method.
    Proxy,
}

impl Area {
    fn of(method: Method<'_>) -> Self {
        if method == Method::Register { Self::Registrar } else { Self::Proxy }
    }
}

/// Credentials of one account, and the server that may get them.
#[derive(Debug)]
pub(super) struct AccountCredentials {
    pub(super) wallet: Wallet,
    /// The account's server, after its lookup; credentials are sent to no other address.
    pub(super) server: Option<LocatedServer>,
    /// Realm of the first answered challenge to a REGISTER, without escapes.
    realm: Option<Vec<u8>>,
}

impl AccountCredentials {
    pub(super) const fn new() -> Self {
        Self { wallet: Wallet::new(), server: None, realm: None }
    }

    /// True for a flow to the account's server, with TLS if the server is reached by TLS: a callee can write another
    /// transport into its Record-Route.
    pub(super) fn are_for(&self, flow: Flow) -> bool {
        self.server.is_some_and(|server| {
            server.address == flow.remote && (flow.transport.is_secure() || !server.transport.is_secure())
        })
    }
}

/// Answered challenges whose nonces can be used again (RFC 7616 §3.3).
#[derive(Debug)]
pub(super) struct Wallet {
    known: Vec<Known>,
}

/// Challenge and the kind of requests that it is for.
#[derive(Debug)]
struct Known {
    area: Area,
    challenge: AnsweredChallenge,
}

/// Credentials for the challenge of a called phone.
#[derive(Debug)]
pub(super) struct PeerAnswer {
    /// Quoted form without the quotes.
    username: Vec<u8>,
    known: Known,
}

impl PeerAnswer {
    /// Header field of the credentials.
    pub(super) fn write(&mut self, covered: Covered<'_>, cnonces: &mut Entropy) -> (HeaderName, Vec<u8>) {
        self.known.next(&self.username, covered, cnonces)
    }
}

/// Challenge that gets credentials.
enum Judged {
    /// With the account's own password.
    Own(Known),
    /// With a password for the called phone.
    Peer(PeerAnswer),
}

/// Reason for not answering a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// It is not from the account's server, and looks like that of a called phone (401).
    NotOurServer,
    /// It is not from the account's server, and is a server's (407).
    OtherServer,
    /// None of its challenges is for the realm of the called phone.
    OtherPeerRealm {
        /// Realm of the first challenge.
        asked: String,
        /// Realm of the credentials for called phones.
        given: String,
    },
    /// It is inside a dialog.
    InDialog,
    /// None of its challenges is for the account's realm.
    OtherRealm {
        /// Realm of the first challenge.
        asked: String,
        /// Realm of the account; `None`: neither configured nor learnt.
        own: Option<String>,
    },
    /// It has no supported algorithm, `qop` or scheme; the reason.
    Unsupported(String),
    /// The account has no password.
    NoSecret,
    /// The credentials were refused.
    Refused,
}

impl Unanswered {
    /// Reason as text for the user.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::NotOurServer => "asked for a password by something that is not our server; \
                 if it is the called phone, give its realm and password: --peer-realm, --peer-password-file"
                .into(),
            Self::OtherServer => "asked for a password by a server that is not our server; \
                 if it is, give --server, --from and --password-stdin"
                .into(),
            Self::OtherPeerRealm { asked, given } => {
                alloc::format!("asked for a password of realm \"{asked}\", but --peer-realm is \"{given}\"")
            }
            Self::InDialog => "asked for a password inside a call".into(),
            Self::OtherRealm { asked, own: None } => alloc::format!(
                "asked for a password of realm \"{asked}\", which is neither the account's domain nor its server; \
                 if it is the server's realm, give --realm \"{asked}\" (phone.toml: realm); if the called phone's, --peer-realm"
            ),
            Self::OtherRealm { asked, own: Some(own) } => alloc::format!(
                "asked for a password of realm \"{asked}\", but the account's realm is \"{own}\"; \
                 --realm (phone.toml: realm) sets another, --peer-realm is for that of a called phone"
            ),
            Self::Unsupported(reason) => reason.clone(),
            Self::NoSecret => "asked for a password, and none is known".into(),
            Self::Refused => "the user name or password is wrong".into(),
        }
    }
}

impl From<Unsupported<'_>> for Unanswered {
    fn from(what: Unsupported<'_>) -> Self {
        Self::Unsupported(match what {
            Unsupported::Algorithm(name) => alloc::format!(
                "asked for a password with the digest algorithm \"{}\"; MD5 and SHA-256 are supported",
                text(name)
            ),
            Unsupported::Qop(list) => alloc::format!(
                "asked for a password with the digest qop \"{}\"; auth and auth-int are supported",
                text(list)
            ),
            Unsupported::Scheme(name) => {
                alloc::format!("asked for a password by the scheme {}; only Digest is supported", text(name))
            }
            Unsupported::Challenge => "asked for a password without a challenge that can be read".into(),
        })
    }
}

impl Wallet {
    const fn new() -> Self {
        Self { known: Vec::new() }
    }

    /// Appends the credentials for a request to the account's server.
    pub(super) fn write(
        &mut self,
        account: &Account,
        covered: Covered<'_>,
        entropy: &mut Entropy,
        out: &mut Vec<(HeaderName, Vec<u8>)>,
    ) {
        let Some(username) = username_of(account) else { return };
        for known in self.known.iter_mut().filter(|known| known.area == Area::of(covered.method)) {
            out.push(known.next(&username, covered, entropy));
        }
    }

    /// Replaces the nonce of the credentials in `field`; false if there are none.
    fn renew(&mut self, area: Area, field: HeaderName, nonce: &[u8]) -> bool {
        let known =
            self.known.iter_mut().find(|known| known.area == area && known.challenge.field() == field);
        let Some(known) = known else { return false };
        known.challenge.renew(nonce);
        true
    }

    /// Stores a challenge; it replaces the last one of its header field.
    fn learn(&mut self, known: Known) {
        self.known.retain(|old| old.area != known.area || old.challenge.field() != known.challenge.field());
        self.known.push(known);
    }
}

impl Known {
    /// Header field of the next request with this nonce.
    fn next(
        &mut self,
        username: &[u8],
        covered: Covered<'_>,
        entropy: &mut Entropy,
    ) -> (HeaderName, Vec<u8>) {
        self.challenge.next(username, covered, entropy.bytes())
    }
}

impl Requests {
    /// Handles the challenge of a 401 or 407. `Ok`: the request must be sent again, with credentials.
    pub(super) fn answer_challenge(
        &mut self,
        cx: &mut AgentContext<'_>,
        key: SlabKey,
        message: &Message<'_>,
        source: SocketAddr,
        status: u16,
    ) -> Result<(), Unanswered> {
        match self.judge_challenge(cx.config, key, message, source, status) {
            Ok(Judged::Peer(answer)) => {
                let Some(request) = self.active.get_mut(key) else { return Err(Unanswered::NotOurServer) };
                request.rounds += 1;
                request.answered.push(answer.known.challenge.field());
                request.peer_credentials = Some(answer);
                cx.counters.peer_challenges_answered += 1;
                Ok(())
            }
            Ok(Judged::Own(known)) => {
                let Some(request) = self.active.get_mut(key) else { return Err(Unanswered::NotOurServer) };
                request.rounds += 1;
                request.answered.push(known.challenge.field());
                if let Some(credentials) = self.credentials.get_mut(request.draft.account.0) {
                    if known.area == Area::Registrar {
                        credentials
                            .realm
                            .get_or_insert_with(|| unescape(known.challenge.realm()).into_owned());
                    }
                    credentials.wallet.learn(known);
                }
                cx.counters.challenges_answered += 1;
                Ok(())
            }
            Err(unanswered) => {
                cx.counters.challenges_ignored += 1;
                Err(unanswered)
            }
        }
    }

    /// Takes the nonce for the next request from a response of the account's server (RFC 7616 §3.5).
    pub(super) fn take_next_nonce(
        &mut self,
        cx: &mut AgentContext<'_>,
        key: SlabKey,
        message: &Message<'_>,
        source: SocketAddr,
    ) {
        let Some(request) = self.active.get(key) else { return };
        let Some(flow) = request.flow.filter(|flow| flow.remote == source) else { return };
        let Some(credentials) = self.credentials.get_mut(request.draft.account.0) else { return };
        if !credentials.are_for(flow) {
            return;
        }
        for (name, field) in [
            (HeaderName::AuthenticationInfo, HeaderName::Authorization),
            (HeaderName::ProxyAuthenticationInfo, HeaderName::ProxyAuthorization),
        ] {
            let info = message.first(name).and_then(|value| AuthenticationInfo::parse(value).ok());
            let Some(nonce) = info.and_then(|info| info.nextnonce).filter(|nonce| !nonce.is_empty()) else {
                continue;
            };
            let is_known = credentials.wallet.renew(Area::of(request.draft.method), field, nonce);
            cx.counters.next_nonces += u64::from(is_known);
        }
    }

    fn judge_challenge(
        &self,
        config: &Config,
        key: SlabKey,
        message: &Message<'_>,
        source: SocketAddr,
        status: u16,
    ) -> Result<Judged, Unanswered> {
        let request = self.active.get(key).ok_or(Unanswered::NotOurServer)?;
        let account = config.account(request.draft.account).ok_or(Unanswered::NotOurServer)?;
        let credentials = self.credentials.get(request.draft.account.0).ok_or(Unanswered::NotOurServer)?;
        // A callee has the branch of an INVITE and could respond without the server (RFC 3581 §4: responses come from the
        // destination of the request).
        let Some(flow) = request.flow.filter(|flow| flow.remote == source) else {
            return Err(Unanswered::NotOurServer);
        };
        if request.draft.scope == Scope::InDialog
            && (account.in_dialog == InDialogChallenges::Ignored || status != 407 || request.rounds > 0)
        {
            return Err(Unanswered::InDialog);
        }
        let (asks, answers) = fields_of(status);
        let area = Area::of(request.draft.method);
        let realms = Realms { account, learnt: credentials.realm.as_deref(), area };
        let own = match credentials.are_for(flow) {
            true => realms.choose(message, asks),
            false if status == 407 => Err(Unanswered::OtherServer),
            false => Err(Unanswered::NotOurServer),
        };
        let peers = account.peer_credentials.as_slice();
        let peer = peers.iter().filter(|_| own.is_err() && area == Area::Proxy).find_map(|peer| {
            let chosen =
                strongest(message, asks, |realm| (realm == peer.realm.as_bytes()).then_some(Fit::Own));
            chosen.ok().map(|chosen| (peer, chosen))
        });
        let (peer, (challenge, algorithm)) = match peer {
            Some((peer, chosen)) => (Some(peer), chosen),
            None => (None, own.map_err(|why| not_the_peers(why, peers, message, asks))?),
        };
        // The nonce was new to this request, and it is not stale: the password is wrong.
        let was_answered = request.answered.contains(&answers);
        if (was_answered && !challenge.is_stale) || request.rounds >= config.limits.challenge_rounds_max {
            return Err(Unanswered::Refused);
        }
        let ha1 = match peer {
            Some(peer) => Ha1::new(peer.username.as_bytes(), peer.realm.as_bytes(), peer.password.as_bytes()),
            None => ha1_for(account, &challenge).ok_or(Unanswered::NoSecret)?,
        };
        let challenge = AnsweredChallenge::new(answers, &challenge, algorithm, ha1);
        let known = Known { area, challenge };
        Ok(match peer {
            Some(peer) => Judged::Peer(PeerAnswer { username: quoted(peer.username.as_bytes()), known }),
            None => Judged::Own(known),
        })
    }
}

/// Names the realms where the challenge of a called phone is for another realm than the credentials for it, and the algorithm
/// where that is not supported.
fn not_the_peers(
    why: Unanswered,
    peers: &[PeerCredentials],
    message: &Message<'_>,
    asks: HeaderName,
) -> Unanswered {
    let [peer, ..] = peers else { return why };
    if why != Unanswered::NotOurServer {
        return why;
    }
    let is_the_peers = |realm: &[u8]| (realm == peer.realm.as_bytes()).then_some(Fit::Own);
    match strongest(message, asks, is_the_peers) {
        Ok(_) => why,
        Err(NoChallenge::OtherRealm(asked)) => {
            Unanswered::OtherPeerRealm { asked: text(asked), given: peer.realm.clone() }
        }
        Err(NoChallenge::Unsupported(what)) => what.into(),
    }
}

/// Realms whose challenges get credentials.
struct Realms<'a> {
    account: &'a Account,
    /// Realm of the first answered challenge to a REGISTER.
    learnt: Option<&'a [u8]>,
    area: Area,
}

/// Rank of a realm; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Own,
    /// Only the registrar can have it.
    AtRegistrar,
}

impl Realms<'_> {
    /// Challenge of the best realm.
    fn choose<'m>(
        &self,
        message: &Message<'m>,
        asks: HeaderName,
    ) -> Result<(ReceivedChallenge<'m>, Algorithm), Unanswered> {
        strongest(message, asks, |realm| self.fit(realm)).map_err(|none| match none {
            NoChallenge::OtherRealm(realm) => {
                Unanswered::OtherRealm { asked: text(realm), own: self.one().map(text) }
            }
            NoChallenge::Unsupported(what) => what.into(),
        })
    }

    /// `None`: a challenge of this realm is not answered.
    fn fit(&self, realm: &[u8]) -> Option<Fit> {
        let at_registrar = (self.area == Area::Registrar).then_some(Fit::AtRegistrar);
        match (&self.account.realm, self.learnt, &self.account.secret) {
            (Some(own), _, _) => (own.as_bytes() == realm).then_some(Fit::Own),
            (None, Some(learnt), _) if learnt == realm => Some(Fit::Own),
            // An outbound proxy and the registrar after it may have different realms.
            (None, Some(_), _) => at_registrar.filter(|_| self.is_server(realm)),
            (None, None, _) if self.is_server(realm) => Some(Fit::Own),
            (None, None, Secret::Password(_)) => at_registrar,
            (None, None, Secret::None) => None,
        }
    }

    /// Only realm of the account, if it is configured or learnt.
    fn one(&self) -> Option<&[u8]> {
        self.account.realm.as_deref().map(str::as_bytes).or(self.learnt)
    }

    /// True for the domain of the address-of-record, and for the configured host of the server.
    fn is_server(&self, realm: &[u8]) -> bool {
        let domain = self.account.uri().is_some_and(|uri: Uri<'_>| uri.host().equals(realm));
        let server = self.account.server.as_ref();
        domain || server.is_some_and(|server| server.host.as_bytes().eq_ignore_ascii_case(realm))
    }
}

fn ha1_for(account: &Account, challenge: &ReceivedChallenge<'_>) -> Option<Ha1> {
    let Secret::Password(password) = &account.secret else { return None };
    let username = plain_username_of(account)?;
    Some(Ha1::new(&username, &unescape(challenge.realm), password.as_bytes()))
}

/// User name in the digest.
fn plain_username_of(account: &Account) -> Option<Vec<u8>> {
    match &account.username {
        Some(name) => Some(name.as_bytes().to_vec()),
        None => {
            let mut name = Vec::new();
            account.uri()?.unescaped_user_into(&mut name);
            Some(name)
        }
    }
}

/// User name in quoted form without the quotes.
fn username_of(account: &Account) -> Option<Vec<u8>> {
    plain_username_of(account).map(|plain| quoted(&plain))
}
