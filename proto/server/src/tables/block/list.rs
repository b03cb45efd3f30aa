//! The block lists of a server.

use crate::tables::block::caller::{Caller, Names};
use crate::tables::block::networks::Networks;
use crate::tables::block::pattern::{BlockPattern, CallerPattern, is_exempt};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

/// Callers and networks that may not call: entries for all users, and those of each user.
#[derive(Clone, Debug, Default)]
pub struct BlockList {
    all: Entries,
    /// By `user@domain`.
    users: BTreeMap<Box<[u8]>, Entries>,
}

#[derive(Clone, Debug, Default)]
struct Entries {
    networks: Networks,
    users: BTreeSet<Box<[u8]>>,
    domains: BTreeSet<Box<[u8]>>,
    numbers: BTreeSet<Box<[u8]>>,
    prefixes: BTreeSet<Box<[u8]>>,
}

impl BlockList {
    /// Replaces the entries for all users.
    pub fn set_all(&mut self, patterns: impl IntoIterator<Item = BlockPattern>) {
        self.all = Entries::of(patterns);
    }

    /// Replaces the entries of `user@domain`.
    pub fn set_of_user(&mut self, aor: &[u8], patterns: impl IntoIterator<Item = BlockPattern>) {
        let entries = Entries::of(patterns);
        match entries.is_empty() {
            true => self.users.remove(aor),
            false => self.users.insert(aor.into(), entries),
        };
    }

    /// True if there is a network for all users.
    pub fn has_networks(&self) -> bool {
        !self.all.networks.is_empty()
    }

    /// True if there is a caller for all users, or any entry of a user.
    pub fn has_callers(&self) -> bool {
        self.all.has_callers() || !self.users.is_empty()
    }

    /// True if a network for all users has this address. Loopback is never blocked.
    pub fn blocks_source(&self, source: IpAddr) -> bool {
        self.all.networks.contain(source) && !is_exempt(source)
    }

    /// True if this caller is blocked for all users or for its callee.
    pub fn blocks_caller(&self, caller: &Caller<'_>) -> bool {
        let callee = if self.users.is_empty() { None } else { caller.callee() };
        let of_callee = callee.and_then(|aor| self.users.get(aor.as_slice()));
        if of_callee.is_none() && !self.all.has_callers() {
            return false;
        }
        let names = caller.names();
        self.all.block(&names)
            || of_callee.is_some_and(|entries| {
                entries.block(&names) || entries.networks.contain(caller.source) && !is_exempt(caller.source)
            })
    }
}

impl Entries {
    fn of(patterns: impl IntoIterator<Item = BlockPattern>) -> Self {
        let mut entries = Self::default();
        let mut networks = Vec::new();
        for pattern in patterns {
            match pattern {
                BlockPattern::Network(network) => networks.push(network),
                BlockPattern::Caller(CallerPattern::User(user)) => {
                    entries.users.insert(user);
                }
                BlockPattern::Caller(CallerPattern::Domain(domain)) => {
                    entries.domains.insert(domain);
                }
                BlockPattern::Caller(CallerPattern::Number(number)) => {
                    entries.numbers.insert(number);
                }
                BlockPattern::Caller(CallerPattern::Prefix(number)) => {
                    entries.prefixes.insert(number);
                }
            }
        }
        entries.networks = Networks::of(networks.into_iter());
        entries
    }

    fn has_callers(&self) -> bool {
        let sets = [&self.users, &self.domains, &self.numbers, &self.prefixes];
        sets.iter().any(|set| !set.is_empty())
    }

    fn is_empty(&self) -> bool {
        !self.has_callers() && self.networks.is_empty()
    }

    fn block(&self, names: &Names) -> bool {
        let begins = |number: &[u8]| {
            !self.prefixes.is_empty()
                && (1..=number.len())
                    .any(|len| number.get(..len).is_some_and(|prefix| self.prefixes.contains(prefix)))
        };
        self.users.contains(names.user())
            || self.domains.contains(names.domain())
            || names.numbers().any(|number| self.numbers.contains(number) || begins(number))
    }
}
