//! Trunks that did not answer a short time ago, or asked for a pause, and the nonces of their challenges.

use crate::config::{Trunk, TrunkList, TrunkLogin, Trunking};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_auth::{AnsweredChallenge, Covered, fields_of, quoted, strongest};
use ringway_sansio::{Flow, Instant, Rng, Seed, TableSize};
use ringway_sip::digest::{Ha1, unescape};
use ringway_sip::{HeaderName, Message, Scheme, Uri};

/// Event at a trunk, for an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrunkEvent {
    /// An INVITE was sent to it.
    Called,
    /// It sent a response with this status.
    Answered(u16),
    /// It refused its credentials, or asked for some and has none.
    LoginRefused,
    /// It registered this server for so many seconds.
    Registered(u32),
    /// It did not register this server; the status, 0 without one.
    NotRegistered(u16),
    /// Another node registers at it.
    OfOtherNode,
}

/// Reason why a trunk is tried after the others of its routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrunkPause {
    /// It sent no response in time.
    Silent,
    /// It answered 503 with a Retry-After that has not passed (RFC 3261 §21.5.4).
    RetryAfter,
}

/// Trunks that are tried last. Shared by all shards in [`SharedTables`](crate::SharedTables), so that a silent trunk costs one call its
/// time and not each.
#[derive(Clone, Debug, Default)]
pub struct PausedTrunks {
    /// Ends of the times after a silence, by trunk, up to the last one that had one.
    silent: Vec<Instant>,
    /// Ends of the pauses that they asked for, likewise.
    paused: Vec<Instant>,
}

impl PausedTrunks {
    /// Time for which a silent trunk is tried last.
    pub const SILENT_TIME: Duration = Duration::from_secs(60);

    /// Notes that the trunk with this index is tried last until `until`.
    pub fn note(&mut self, trunk: usize, pause: TrunkPause, until: Instant) {
        let list = match pause {
            TrunkPause::Silent => &mut self.silent,
            TrunkPause::RetryAfter => &mut self.paused,
        };
        if list.len() <= trunk && trunk < TrunkList::LEN_MAX {
            list.resize(trunk + 1, Instant::default());
        }
        if let Some(end) = list.get_mut(trunk) {
            *end = until;
        }
    }

    /// Gives each trunk of a new list the times that it had: `earlier` has its index in the former list.
    pub(crate) fn move_to(&mut self, earlier: &[Option<u16>]) {
        for list in [&mut self.silent, &mut self.paused] {
            if !list.is_empty() {
                let of = |earlier: &Option<u16>| earlier.and_then(|at| list.get(usize::from(at)).copied());
                *list = earlier.iter().map(|earlier| of(earlier).unwrap_or_default()).collect();
            }
        }
    }

    /// Notes that it answered: it is not silent any more.
    pub fn clear(&mut self, trunk: usize) {
        if let Some(until) = self.silent.get_mut(trunk) {
            *until = Instant::default();
        }
    }

    /// Reason why the trunk is tried last at present.
    pub fn of(&self, now: Instant, trunk: usize) -> Option<TrunkPause> {
        let is_within = |list: &[Instant]| list.get(trunk).is_some_and(|until| *until > now);
        match (is_within(&self.silent), is_within(&self.paused)) {
            (true, _) => Some(TrunkPause::Silent),
            (false, true) => Some(TrunkPause::RetryAfter),
            (false, false) => None,
        }
    }
}

/// Route that a carrier gave with a registration (RFC 3608): values of Route, without brackets.
pub(crate) type ServiceRoute = Arc<[Box<[u8]>]>;

/// Service routes, by the names of the trunks, with their URIs. Shared by all shards in [`SharedTables`](crate::SharedTables); the registrations
/// of trunks that are configured have an entry at most.
#[derive(Debug, Default)]
pub(crate) struct ServiceRoutes(BTreeMap<String, (String, ServiceRoute)>);

impl ServiceRoutes {
    /// Replaces the route of a trunk; an empty one is none.
    pub(crate) fn set(&mut self, name: &str, uri: &str, route: &ServiceRoute) {
        match route.is_empty() {
            true => drop(self.0.remove(name)),
            false => drop(self.0.insert(name.into(), (uri.into(), Arc::clone(route)))),
        }
    }

    pub(crate) fn of(&self, trunk: &Trunk) -> Option<ServiceRoute> {
        let (_, route) = self.0.get(&trunk.name).filter(|(uri, _)| *uri == trunk.uri)?;
        Some(Arc::clone(route))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Answered challenges of the trunks: the last one of each. Shared by all shards in [`SharedTables`](crate::SharedTables), so that one
/// nonce of a trunk serves them all.
///
/// Credentials are for requests to the trunk only: the caller passes the trunk that a branch was sent to.
#[derive(Debug)]
pub struct TrunkLogins {
    /// By trunk.
    known: Vec<Option<Known>>,
    cnonces: Rng,
}

/// Bytes of the URI and the login of a trunk, and of its Service-Route with its names.
const TRUNK_TEXT_BYTES: usize = 2048;

/// Challenge of a trunk, with what it is for: while a configuration is replaced, another trunk may have the same index in a shard.
#[derive(Clone, Debug)]
struct Known {
    uri: String,
    login: TrunkLogin,
    challenge: AnsweredChallenge,
}

/// Challenge that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learnt {
    /// With a nonce that the trunk had not given before, as far as it says.
    New,
    /// The credentials were right, but for an old nonce.
    Stale,
}

impl TrunkLogins {
    /// Maximum number of bytes of realm, nonce and opaque together.
    const CHALLENGE_BYTES_MAX: usize = 1024;

    /// Memory of the challenges, pauses and service routes of so many trunks.
    pub(crate) const fn size(trunks: usize) -> TableSize {
        TableSize::of_list("challenges, pauses and routes of trunks", trunks, size_of::<Option<Known>>())
            .with_list(trunks, 2 * size_of::<Instant>())
            .with_each(Self::CHALLENGE_BYTES_MAX + TRUNK_TEXT_BYTES)
    }

    /// No challenges. The seed is for the client nonces.
    pub fn new(seed: &Seed) -> Self {
        Self { known: Vec::new(), cnonces: Rng::new(seed) }
    }

    /// Gives each trunk of a new list its challenge: `earlier` has its index in the former list.
    pub(crate) fn move_to(&mut self, earlier: &[Option<u16>]) {
        if !self.known.is_empty() {
            let known = &mut self.known;
            let mut of = |at: &Option<u16>| known.get_mut(usize::from((*at)?)).and_then(Option::take);
            *known = earlier.iter().map(&mut of).collect();
        }
    }

    /// Header field of the credentials of a request, if the trunk has challenged one before.
    pub(crate) fn credentials(
        &mut self,
        trunking: &Trunking,
        trunk: usize,
        covered: Covered<'_>,
    ) -> Option<(HeaderName, Vec<u8>)> {
        let Trunk { uri, login: Some(login), .. } = trunking.trunks.get(trunk)? else { return None };
        let known = self.known.get_mut(trunk)?.as_mut()?;
        if (&known.uri, &known.login) != (uri, login) {
            return None;
        }
        let cnonce = self.cnonces.next_u64().to_be_bytes();
        Some(known.challenge.next(&quoted(login.username.as_bytes()), covered, cnonce))
    }

    /// Stores the challenge of a 401 or 407 of a trunk. `None`: there are no credentials for it.
    pub(crate) fn learn(
        &mut self,
        trunking: &Trunking,
        trunk: usize,
        message: &Message<'_>,
        status: u16,
    ) -> Option<Learnt> {
        let Trunk { uri, login: Some(login), .. } = trunking.trunks.get(trunk)? else { return None };
        let (asks, answers) = fields_of(status);
        let (challenge, algorithm) =
            strongest(message, asks, |realm| login.is_for(realm).then_some(())).ok()?;
        let ha1 = Ha1::new(login.username.as_bytes(), &unescape(challenge.realm), login.password.as_bytes());
        let answered = AnsweredChallenge::new(answers, &challenge, algorithm, ha1);
        if answered.bytes_len() > Self::CHALLENGE_BYTES_MAX {
            return None;
        }
        if self.known.len() <= trunk {
            self.known.resize(trunking.trunks.len().max(trunk + 1), None);
        }
        let (uri, login) = (uri.clone(), login.clone());
        *self.known.get_mut(trunk)? = Some(Known { uri, login, challenge: answered });
        Some(if challenge.is_stale { Learnt::Stale } else { Learnt::New })
    }
}

impl TrunkLogin {
    fn is_for(&self, realm: &[u8]) -> bool {
        self.realm.as_ref().is_none_or(|own| own.as_bytes() == realm)
    }
}

impl Trunking {
    /// Trunk with credentials that a request inside a dialog was sent to: `flow` leads to its address or its networks, by a secure
    /// transport if its URI has one.
    pub(crate) fn login_at(&self, flow: &Flow) -> Option<usize> {
        if !self.has_logins() {
            return None;
        }
        self.find_at(flow.remote.ip(), |trunk| trunk.login.is_some() && trunk.is_secured_by(flow))
    }
}

impl Trunk {
    fn is_secured_by(&self, flow: &Flow) -> bool {
        let Ok(uri) = Uri::parse(self.uri.as_bytes()) else { return false };
        let named = uri.params().value(b"transport");
        let transport = ringway_sansio::Transport::of_uri(uri.scheme() == Scheme::Sips, named);
        flow.transport.is_secure() || transport.is_some_and(|own| !own.is_secure())
    }
}
