//! Drain of the registrar: REGISTER and connections of phones.
//!
//! Each user has a time within it, by a keyed hash of the address-of-record: until then REGISTER is handled as always; from then on it
//! gets 503, also from a new connection. The hash, not the registration, decides: the answer does not say who is registered.

use super::Registrar;
use crate::base::{Env, Request};
use crate::registrar::drain_time::Drain;
use crate::report::Report;
use core::time::Duration;
use ringway_sansio::Instant;
use ringway_sip::HeaderName;

impl Registrar {
    /// Begins a drain; one that runs begins anew.
    pub(crate) const fn drain(&mut self, now: Instant, over: Duration) {
        self.drain = Some(Drain::new(now, over));
    }

    /// Ends a drain: phones may register again.
    pub(crate) const fn end_drain(&mut self) {
        self.drain = None;
    }

    /// Time of the next necessary call of [`Registrar::close_drained`].
    pub(crate) fn next_close(&self) -> Option<Instant> {
        self.drain.and_then(|drain| drain.closes_at)
    }

    /// Closes the connections of users whose time has come. Those with a Path are a proxy's, which has other users too.
    pub(crate) fn close_drained(&mut self, env: &mut Env<'_>) {
        let Self { drain: Some(drain), table, .. } = self else { return };
        let now = env.cx.now;
        if drain.closes_at.is_none_or(|at| at > now) {
            return;
        }
        drain.closes_at = drain.next_close(now);
        table.connected(|aor, binding| {
            if binding.text().path.is_empty() && drain.has_come(table.hash(aor).0, now) {
                env.cx.out.disconnect(binding.flow);
            }
        });
    }

    /// True if a REGISTER was refused because the time of its user has come.
    pub(super) fn is_refused_by_drain(
        &self,
        env: &mut Env<'_>,
        request: &Request<'_, '_>,
        aor: &[u8],
    ) -> bool {
        // Usually nothing drains, and nothing is hashed.
        let Some(drain) = self.drain else { return false };
        let hash = self.table.hash(aor).0;
        if !drain.has_come(hash, env.cx.now) {
            return false;
        }
        env.report(request, Report::Drained { phrase: DRAINING });
        env.reply(request, 503, DRAINING, |response| {
            response.header_number(HeaderName::RetryAfter, 1 + hash % RETRY_AFTER_S_MAX);
        });
        true
    }
}

/// Phrase of the 503 of a server that drains.
pub(crate) const DRAINING: &str = "Draining";

/// Maximum of Retry-After in seconds: phones of one moment do not come again in one moment.
const RETRY_AFTER_S_MAX: u64 = 5;
