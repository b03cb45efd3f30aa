//! Limits of forking: Max-Breadth (RFC 5393 §5), and the number of times that one request may return to this server.
//!
//! Max-Breadth limits the branches that run at once and must not limit the depth (RFC 5393 §5.3.3). Contacts that lead
//! back to this server form a tree whose depth only Max-Forwards limits, so our Via has the number of further requests
//! that a branch may cause here. Each fork subtracts its branches and divides the rest: one request causes at most
//! `SPIRALS_MAX` others. A branch whose 3xx may be recursed keeps half of its number back for that; so does a request for
//! the branch of a forward.

use crate::Config;
use crate::route::own_vias;
use ringway_sip::grammar::number_u32;
use ringway_sip::{HeaderName, Malformed, Message};

/// Limits of each branch of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Its Max-Breadth.
    pub(super) breadth: u32,
    /// Maximum number of requests that it may cause at this server.
    pub(super) spirals: u32,
    /// The same for the contacts of its 3xx.
    kept: u32,
}

/// Reason for not forking a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooBroad {
    /// Max-Breadth is not a number.
    Malformed,
    /// Its Max-Breadth is less than its number of targets.
    Breadth,
    /// It returned to this server too often.
    Spirals,
}

impl Share {
    /// Limits of each of `branches` branches of a request.
    pub(super) fn of(config: &Config, message: &Message<'_>, branches: usize) -> Result<Self, TooBroad> {
        let branches = count_of(branches);
        let breadth = breadth_of(config, message)?;
        if breadth < branches {
            return Err(TooBroad::Breadth);
        }
        let left = spirals_of(config, message, branches)?;
        Ok(Self::new(config, breadth / branches, left.saturating_sub(branches) / branches))
    }

    /// Number of `branches` trunks, called one after another, that Max-Breadth permits.
    pub(super) fn breadth_for(config: &Config, message: &Message<'_>, branches: usize) -> usize {
        branches.min(breadth_of(config, message).map_or(branches, |breadth| breadth as usize))
    }

    /// Limits of each of `branches` branches that may be followed by a forward, and the spirals of the forward's branch.
    /// `None`: there is not enough for both.
    pub(super) fn with_forward(
        config: &Config,
        message: &Message<'_>,
        branches: usize,
    ) -> Option<(Self, u32)> {
        let branches = count_of(branches);
        let all = branches.saturating_add(1);
        let breadth = breadth_of(config, message).ok().filter(|breadth| *breadth >= all)?;
        let left = spirals_of(config, message, all).ok()?.saturating_sub(all);
        let each = (breadth / 2 / branches).max(1);
        Some((Self::new(config, each, left / 2 / branches), left / 2))
    }

    /// Limits of the branch of a forward, while other branches use `running` of Max-Breadth (RFC 5393 §5.3.3.1); `None`: they
    /// use all of it.
    pub(super) fn of_forward(
        config: &Config,
        message: &Message<'_>,
        spirals: u32,
        running: u32,
    ) -> Option<Self> {
        let breadth = breadth_of(config, message).ok()?.saturating_sub(running);
        (breadth > 0).then(|| Self::new(config, breadth, spirals))
    }

    /// Maximum number of contacts of a 3xx of this branch.
    pub(super) fn recursed_max(self) -> usize {
        self.breadth.min(self.kept) as usize
    }

    /// Limits of each of `count` contacts of a 3xx of this branch.
    pub(super) fn recursed(self, config: &Config, count: usize) -> Self {
        let count = count_of(count);
        let left = self.kept.saturating_sub(count) / count;
        Self::new(config, (self.breadth / count).max(1), left)
    }

    /// The limits divided by the number of targets that one forward has.
    pub(super) fn divided(self, count: usize) -> Self {
        let count = count_of(count);
        let Self { breadth, spirals, kept } = self;
        Self { breadth: (breadth / count).max(1), spirals: spirals / count, kept: kept / count }
    }

    fn new(config: &Config, breadth: u32, left: u32) -> Self {
        let kept = if config.recurse { left / 2 } else { 0 };
        Self { breadth, spirals: left - kept, kept }
    }
}

impl Default for Share {
    /// Returns the minimum.
    fn default() -> Self {
        Self { breadth: 1, spirals: 0, kept: 0 }
    }
}

/// Maximum of Max-Breadth, and the value of a request without one. At least the maximum number of a user's contacts.
fn breadth_max(config: &Config) -> u32 {
    u32::try_from(config.registrar.max_contacts).unwrap_or(u32::MAX).max(BREADTH_MAX)
}

fn count_of(branches: usize) -> u32 {
    u32::try_from(branches.max(1)).unwrap_or(u32::MAX)
}

/// Max-Breadth of a request.
fn breadth_of(config: &Config, message: &Message<'_>) -> Result<u32, TooBroad> {
    match incoming_breadth(message) {
        Ok(given) => Ok(given.unwrap_or(u32::MAX).min(breadth_max(config))),
        Err(Malformed) => Err(TooBroad::Malformed),
    }
}

/// Number of further requests that a request may cause here, which must be enough for `branches` branches.
fn spirals_of(config: &Config, message: &Message<'_>, branches: u32) -> Result<u32, TooBroad> {
    match spirals_left(config, message) {
        Some(left) if left < branches => Err(TooBroad::Spirals),
        Some(left) => Ok(left),
        None => Ok(SPIRALS_MAX),
    }
}

fn incoming_breadth(message: &Message<'_>) -> Result<Option<u32>, Malformed> {
    if !message.has(HeaderName::MaxBreadth) {
        return Ok(None);
    }
    let mut values = message.lines_of(HeaderName::MaxBreadth);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => number_u32(value).map(Some).ok_or(Malformed),
        (Some(_), Some(_)) => Err(Malformed),
    }
}

/// Remaining spirals in our Via; `None` for a request that was not here before.
fn spirals_left(config: &Config, message: &Message<'_>) -> Option<u32> {
    if message.has_one_via() {
        return None;
    }
    let via = own_vias(config, message).next()?;
    let left = via.params.value(b"spirals").and_then(number_u32).unwrap_or(0);
    Some(left.min(SPIRALS_MAX))
}

/// Recommended by RFC 5393 §5.3.3.
const BREADTH_MAX: u32 = 60;

/// Maximum number of requests that one request can cause at this server through contacts that lead back to it.
const SPIRALS_MAX: u32 = 60;
