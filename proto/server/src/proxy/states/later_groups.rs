//! Targets that are called one group after another (RFC 3261 §16.5, §16.6).
//!
//! Targets of the same q-value are a group, and run at once. The next group begins when all targets of the running one
//! have failed, or its time has passed: then they are cancelled. A final 2xx or 6xx, and a CANCEL, end them all.

use crate::proxy::targets::{StoredTarget, Target, Targets};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Instant, TimerKey};

/// Groups of a request that wait for their turn.
#[derive(Debug)]
pub(in crate::proxy) struct LaterGroups {
    /// Targets by falling q-value.
    targets: VecDeque<StoredTarget>,
    /// Timer of the running group.
    pub(in crate::proxy) timer: TimerKey,
}

impl LaterGroups {
    /// Groups after the first one of these targets, which are sorted by falling q-value; `None` if there is only one.
    pub(in crate::proxy) fn of(targets: &Targets) -> Option<Box<Self>> {
        let (list, first) = (targets.list(), Self::first_len(targets.list()));
        let later = list.get(first..).filter(|later| !later.is_empty())?;
        let later = later.iter().map(|target| targets.stored(target)).collect();
        Some(Box::new(Self { targets: later, timer: TimerKey::NONE }))
    }

    /// No groups.
    pub(in crate::proxy) const fn none() -> Self {
        Self { targets: VecDeque::new(), timer: TimerKey::NONE }
    }

    /// Puts targets before the others; those with the q-value of the first other ones join their group.
    pub(in crate::proxy) fn insert(&mut self, targets: Vec<StoredTarget>) {
        for target in targets.into_iter().rev() {
            self.targets.push_front(target);
        }
    }

    /// Removes the targets at trunks.
    pub(in crate::proxy) fn forget_trunks(&mut self) {
        self.targets.retain(|target| target.configured_hop().is_none());
    }

    /// Number of targets in the first group.
    fn first_len(list: &[Target]) -> usize {
        let Some(first) = list.first() else { return 0 };
        list.iter().take_while(|target| target.q == first.q).count()
    }

    /// Number of targets.
    pub(in crate::proxy) fn len(&self) -> usize {
        self.targets.len()
    }

    /// Takes the next group; none if there are no more.
    pub(in crate::proxy) fn take_next(&mut self) -> impl Iterator<Item = StoredTarget> {
        let q = self.targets.front().map(|target| target.q);
        let count = self.targets.iter().take_while(|target| Some(target.q) == q).count();
        self.targets.drain(..count)
    }

    /// Number of groups.
    fn groups(&self) -> u32 {
        let (mut groups, mut last) = (0, None);
        for target in &self.targets {
            groups += u32::from(last != Some(target.q));
            last = Some(target.q);
        }
        groups
    }

    /// End of the running group. A request other than INVITE ends at `until` (RFC 4320 §4.2), so its groups share the time
    /// that is left.
    pub(in crate::proxy) fn ends_at(
        &self,
        now: Instant,
        group_max: Duration,
        until: Option<Instant>,
    ) -> Instant {
        let share = until.map(|until| until.since(now) / (self.groups() + 1));
        now + share.map_or(group_max, |share| share.min(group_max))
    }
}
