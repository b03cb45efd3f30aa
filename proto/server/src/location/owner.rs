//! Nodes that bindings belong to, and the time of their REGISTER.

use alloc::vec::Vec;
use core::time::Duration;
use ringway_location::NodeName;
use ringway_sansio::Instant;

/// Node that a binding was registered at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u8);

/// Names of the other nodes that bindings belong to.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    names: Vec<NodeName>,
}

/// Time of a REGISTER in milliseconds, modulo 2^32: ages up to 49 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisteredAt(u32);

impl Owner {
    /// This process.
    pub(crate) const HERE: Self = Self(0);
    /// An earlier process of this node.
    pub(crate) const EARLIER: Self = Self(1);

    /// True for a binding of another node.
    pub(crate) const fn is_other(self) -> bool {
        self.0 >= FIRST_OTHER
    }

    /// True for a binding of another node whose first Path value is the link to that node.
    pub(crate) const fn is_over_link(self) -> bool {
        self.0 & OVER_LINK != 0
    }

    /// The same, with the link to the node as the first Path value.
    pub(super) const fn over_link(self) -> Self {
        Self(self.0 | OVER_LINK)
    }

    const fn index(self) -> Option<usize> {
        ((self.0 & !OVER_LINK) as usize).checked_sub(FIRST_OTHER as usize)
    }
}

impl Nodes {
    /// Maximum number of other nodes.
    pub(crate) const MAX: usize = 64;

    /// Name of the node that a binding belongs to; `None` for this one.
    pub(crate) fn name_of(&self, owner: Owner) -> Option<&NodeName> {
        self.names.get(owner.index()?)
    }

    /// Owner of bindings of another node; `None` if there are too many nodes.
    pub(super) fn owner_of(&mut self, name: &NodeName) -> Option<Owner> {
        let known = self.names.iter().position(|known| known == name);
        let index = match known {
            Some(index) => index,
            None if self.names.len() < Self::MAX => {
                self.names.push(*name);
                self.names.len() - 1
            }
            None => return None,
        };
        u8::try_from(index).ok().map(|index| Owner(index + FIRST_OTHER))
    }
}

impl RegisteredAt {
    pub(crate) const fn new(at: Instant) -> Self {
        Self((at.as_nanos() / NANOS_PER_MS) as u32)
    }

    /// Milliseconds since then. Threads read the clock one after another: 0 for a time a little after `now`.
    pub(crate) const fn age_ms(self, now: Instant) -> u32 {
        let age_ms = Self::new(now).0.wrapping_sub(self.0);
        if age_ms > u32::MAX - AFTER_NOW_MS_MAX { 0 } else { age_ms }
    }

    /// Time that is `age` before `now`.
    pub(super) fn before(now: Instant, age: Duration) -> Self {
        let age_ms = u32::try_from(age.as_millis()).unwrap_or(u32::MAX);
        Self(Self::new(now).0.wrapping_sub(age_ms))
    }
}

const OVER_LINK: u8 = 0x80;
const FIRST_OTHER: u8 = 2;
const NANOS_PER_MS: u64 = 1_000_000;
/// Maximum difference between two readings of the clock, the later one used first.
const AFTER_NOW_MS_MAX: u32 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_nodes_have_names_and_no_more() {
        let mut nodes = Nodes::default();
        let name = |number: usize| NodeName::read(alloc::format!("n{number}").as_bytes()).unwrap();
        let owners: Vec<_> = (0..Nodes::MAX).map(|number| nodes.owner_of(&name(number)).unwrap()).collect();
        assert_eq!(nodes.owner_of(&name(Nodes::MAX)), None);
        for (number, owner) in owners.into_iter().enumerate() {
            assert_eq!(nodes.owner_of(&name(number)), Some(owner));
            assert!(owner.is_other() && !owner.is_over_link() && owner.over_link().is_over_link());
            assert_eq!(nodes.name_of(owner.over_link()), Some(&name(number)));
        }
        for own in [Owner::HERE, Owner::EARLIER] {
            assert!(!own.is_other() && nodes.name_of(own).is_none());
        }
    }

    #[test]
    fn an_age_is_that_of_the_register() {
        let now = Instant::from_secs(1_700_000_000);
        let (hour, at) = (Duration::from_secs(3600), RegisteredAt::new(now));
        assert_eq!((at.age_ms(now), at.age_ms(now + hour)), (0, 3_600_000));
        assert_eq!(RegisteredAt::before(now, hour).age_ms(now), 3_600_000);
        assert_eq!(RegisteredAt::new(now + Duration::from_millis(1)).age_ms(now), 0);
    }
}
