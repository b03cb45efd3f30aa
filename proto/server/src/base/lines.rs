//! Tokens of the contacts that trunks register (decision 0057).

use crate::config::{Trunk, Trunking};
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_sansio::PartHasher;
use ringway_sip::hex16;
use siphasher::sip::SipHasher13;

/// Token of a contact: 64 bits of a MAC over the account.
pub(crate) type LineToken = [u8; 16];

/// Tokens of all trunks that register. They are the same after a restart, and at all nodes of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    key: [u8; 16],
    /// Tokens that are accepted, sorted, with the indices of their trunks.
    tokens: Vec<(LineToken, usize)>,
}

impl Lines {
    /// Tokens by a key, and by another one that is accepted too.
    pub(super) fn of(trunking: &Trunking, key: [u8; 16], accepted: Option<[u8; 16]>) -> Self {
        let mut tokens = Vec::new();
        if cfg!(feature = "operator") {
            for (index, trunk) in trunking.registering() {
                tokens.push((token(&key, trunk), index));
                tokens.extend(accepted.map(|key| (token(&key, trunk), index)));
            }
            tokens.sort_unstable();
        }
        Self { key, tokens }
    }

    /// Token of the contact of a trunk.
    pub(crate) fn token_of(&self, trunk: &Trunk) -> LineToken {
        token(&self.key, trunk)
    }

    /// Index of the trunk whose contact has a token.
    pub(crate) fn trunk_of(&self, token: &[u8]) -> Option<usize> {
        let at = self.tokens.binary_search_by(|(known, _)| known.as_slice().cmp(token)).ok()?;
        self.tokens.get(at).map(|(_, trunk)| *trunk)
    }
}

fn token(key: &[u8; 16], trunk: &Trunk) -> LineToken {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    hash.part(trunk.name.as_bytes());
    hash.part(trunk.account().as_bytes());
    hash.part(trunk.account_domain());
    hex16(hash.hasher().finish())
}
