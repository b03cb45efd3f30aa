//! Rate limit of answers to keep-alives.

use ringway_sansio::Instant;

/// Token bucket of the answers (pongs) of one connection: each costs a write. Phones send a keep-alive every 15 seconds
/// or less often (RFC 5626 §4.4.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepAlives {
    left: u64,
    refilled_s: u64,
}

impl KeepAlives {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { left: AT_ONCE_MAX, refilled_s: now.as_secs() }
    }

    /// Takes up to `wanted` answers; fewer if the limit is reached.
    pub(crate) fn take(&mut self, wanted: usize, now: Instant) -> usize {
        let passed_s = now.as_secs().saturating_sub(self.refilled_s);
        self.refilled_s += passed_s;
        self.left = (self.left.saturating_add(passed_s)).min(AT_ONCE_MAX);
        let taken = self.left.min(wanted as u64);
        self.left -= taken;
        taken as usize
    }
}

/// Maximum number of answers at once; one more each second.
const AT_ONCE_MAX: u64 = 16;
