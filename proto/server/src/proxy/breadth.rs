//! Bounds on forking: Max-Breadth (RFC 5393 §5), and a bound on how often one request comes back to this server.
//!
//! Max-Breadth bounds the branches that run at once and must not bound the depth (RFC 5393 §5.3.3). Contacts that lead back to
//! this server build a tree whose depth is bounded by Max-Forwards alone, so our Via carries how many further requests a branch
//! may cause here. Each fork takes its branches off and divides the rest: one request causes at most `SPIRALS_MAX` others.

use crate::Config;
use crate::route::own_vias;
use ringway_sip::grammar::number_u32;
use ringway_sip::{HeaderName, Malformed, Message};

/// What each branch of a fork may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Its Max-Breadth.
    pub(super) breadth: u32,
    /// Requests that it may cause at this server.
    pub(super) spirals: u32,
}

/// Why a request is not forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooBroad {
    /// Max-Breadth is not a number.
    Malformed,
    /// Its Max-Breadth is less than its number of targets.
    Breadth,
    /// It came back to this server too often.
    Spirals,
}

impl Share {
    /// The share of each of `branches` branches of a request.
    pub(super) fn of(config: &Config, message: &Message<'_>, branches: usize) -> Result<Self, TooBroad> {
        let branches = u32::try_from(branches.max(1)).unwrap_or(u32::MAX);
        let breadth = match incoming_breadth(message) {
            Ok(given) => given.unwrap_or(u32::MAX).min(breadth_max(config)),
            Err(Malformed) => return Err(TooBroad::Malformed),
        };
        if breadth < branches {
            return Err(TooBroad::Breadth);
        }
        let left = match spirals_left(config, message) {
            Some(left) if left < branches => return Err(TooBroad::Spirals),
            Some(left) => left,
            None => SPIRALS_MAX,
        };
        Ok(Self { breadth: breadth / branches, spirals: left.saturating_sub(branches) / branches })
    }
}

impl Default for Share {
    /// The least.
    fn default() -> Self {
        Self { breadth: 1, spirals: 0 }
    }
}

/// The largest Max-Breadth that is taken, and that of a request without one. A user's own contacts can always be called.
fn breadth_max(config: &Config) -> u32 {
    u32::try_from(config.registrar.max_contacts).unwrap_or(u32::MAX).max(BREADTH_MAX)
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

/// What our Via says; `None` for a request that was not here before.
fn spirals_left(config: &Config, message: &Message<'_>) -> Option<u32> {
    if message.has_one_via() {
        return None;
    }
    let via = own_vias(config, message).next()?;
    let left = via.params.value(b"spirals").and_then(number_u32).unwrap_or(0);
    Some(left.min(SPIRALS_MAX))
}

/// RFC 5393 §5.3.3 recommends it.
const BREADTH_MAX: u32 = 60;

/// Requests that one request can cause at this server by contacts that lead back to it.
const SPIRALS_MAX: u32 = 60;
