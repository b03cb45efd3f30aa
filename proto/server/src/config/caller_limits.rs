//! Limits of the calls that users and domains begin.

use crate::config::trunk::TrunkLimits;
use alloc::string::String;
use alloc::vec::Vec;

/// Limits of the calls of each user, and of the users of each domain, counted where they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerLimits {
    /// Those of a user.
    pub of_user: TrunkLimits,
    /// Those of a domain.
    pub of_domain: TrunkLimits,
    /// Users with another number of calls under way, as `user@domain`; `None`: without a limit. Sorted.
    pub users: Vec<(String, Option<u32>)>,
    /// The same of domains.
    pub domains: Vec<(String, Option<u32>)>,
}

impl CallerLimits {
    /// True if there are any.
    pub fn is_on(&self) -> bool {
        *self != Self::default()
    }

    /// True if calls under way are limited, whose ends this server must see.
    pub fn needs_ends(&self) -> bool {
        let of_all = self.of_user.under_way.is_some() || self.of_domain.under_way.is_some();
        of_all || !self.users.is_empty() || !self.domains.is_empty()
    }

    /// Limits of the user `user@domain`.
    pub(crate) fn of_user(&self, aor: &[u8]) -> TrunkLimits {
        of(&self.users, aor, self.of_user)
    }

    /// Limits of a domain.
    pub(crate) fn of_domain(&self, domain: &[u8]) -> TrunkLimits {
        of(&self.domains, domain, self.of_domain)
    }
}

fn of(others: &[(String, Option<u32>)], name: &[u8], of_all: TrunkLimits) -> TrunkLimits {
    match others.binary_search_by(|(other, _)| other.as_bytes().cmp(name)) {
        Ok(at) => TrunkLimits { under_way: others.get(at).and_then(|(_, most)| *most), ..of_all },
        Err(_) => of_all,
    }
}
