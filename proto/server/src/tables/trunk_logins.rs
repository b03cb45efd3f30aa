//! Credentials for the challenges of trunks.

use crate::config::{Trunk, TrunkLogin, Trunking};
use alloc::string::String;
use alloc::vec::Vec;
use ringway_auth::{AnsweredChallenge, Covered, fields_of, quoted, strongest};
use ringway_sansio::{Flow, Rng, Seed};
use ringway_sip::digest::{Ha1, unescape};
use ringway_sip::{HeaderName, Message, Scheme, Uri};

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

    /// No challenges. The seed is for the client nonces.
    pub fn new(seed: &Seed) -> Self {
        Self { known: Vec::new(), cnonces: Rng::new(seed) }
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
        (message, status): (&Message<'_>, u16),
    ) -> Option<Learnt> {
        let Trunk { uri, login: Some(login), .. } = trunking.trunks.get(trunk)? else { return None };
        let (asks, answers) = fields_of(status);
        let (challenge, algorithm) =
            strongest(message, asks, |realm| login.is_for(realm).then_some(())).ok()?;
        let ha1 = Ha1::new(login.username.as_bytes(), &unescape(challenge.realm), login.password.as_bytes());
        let answered = AnsweredChallenge::new(answers, (&challenge, algorithm), ha1);
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
        self.trunks.iter().position(|trunk| trunk.login.is_some() && trunk.is_at(flow))
    }

    /// True if a trunk has credentials.
    pub(crate) fn has_logins(&self) -> bool {
        self.trunks.iter().any(|trunk| trunk.login.is_some())
    }
}

impl Trunk {
    fn is_at(&self, flow: &Flow) -> bool {
        let Ok(uri) = Uri::parse(self.uri.as_bytes()) else { return false };
        let named = uri.params().value(b"transport");
        let transport = ringway_sansio::Transport::of_uri(uri.scheme() == Scheme::Sips, named);
        let is_secure_enough = flow.transport.is_secure() || transport.is_some_and(|own| !own.is_secure());
        let ip = flow.remote.ip();
        is_secure_enough && (uri.host().ip() == Some(ip) || self.has_network(ip))
    }
}
