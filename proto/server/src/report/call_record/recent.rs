//! Passes of calls that ended without an answer.

use crate::report::{NameHash, Pass};
use alloc::collections::VecDeque;
use core::time::Duration;
use hashbrown::HashSet;
use ringway_sansio::Instant;

/// Transactions of INVITEs that ended a short time ago. A refusal without a transaction is repeated for a retransmitted
/// INVITE, which is not a new call.
#[derive(Debug, Default)]
pub(super) struct RecentPasses {
    order: VecDeque<(Instant, Pass)>,
    passes: HashSet<Pass, NameHash>,
}

impl RecentPasses {
    pub(super) fn note(&mut self, now: Instant, pass: Pass) {
        self.forget_old(now);
        if self.order.len() >= PASSES_MAX
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.passes.remove(&oldest);
        }
        if self.passes.insert(pass) {
            self.order.push_back((now, pass));
        }
    }

    pub(super) fn contains(&mut self, now: Instant, pass: Pass) -> bool {
        self.forget_old(now);
        self.passes.contains(&pass)
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(&(since, pass)) = self.order.front()
            && now.since(since) >= REPEATED_FOR
        {
            self.order.pop_front();
            self.passes.remove(&pass);
        }
    }
}

/// 64·T1, the time for which an INVITE is retransmitted.
const REPEATED_FOR: Duration = Duration::from_secs(32);
/// Maximum number of remembered transactions.
const PASSES_MAX: usize = 4096;
