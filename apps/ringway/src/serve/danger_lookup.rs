//! Passwords that are read from the database while a request waits.

use ringway_admin::Stat;
use ringway_server::Ha1;
use ringway_sql::provisioning::DangerLookup;
use std::cell::RefCell;

/// Lookups of passwords by the threads that handle requests: each reads one, and uses it for the same request.
pub(super) struct WaitingLookup {
    lookup: DangerLookup,
}

/// A user with its domain, and what the database has for it.
type Found = (Vec<u8>, Vec<u8>, Option<Ha1>);

thread_local! {
    /// The last user that this thread looked up.
    static FOUND: RefCell<Option<Found>> = const { RefCell::new(None) };
}

impl WaitingLookup {
    pub(super) const fn new(lookup: DangerLookup) -> Self {
        Self { lookup }
    }

    /// Reads the password of a user, for the requests that follow in this thread. False: the database failed.
    pub(super) fn look_up(&self, user: &[u8], domain: &[u8]) -> bool {
        let found = match (std::str::from_utf8(user), std::str::from_utf8(domain)) {
            (Ok(name), Ok(domain)) => self.lookup.find(name, domain),
            _ => Ok(None),
        };
        let Ok(ha1) = found else { return false };
        FOUND.set(Some((user.to_vec(), domain.to_vec(), ha1)));
        true
    }

    /// Hashes that [`WaitingLookup::look_up`] read for this user in this thread.
    pub(super) fn found(&self, user: &[u8], domain: &[u8]) -> Option<Ha1> {
        FOUND.with_borrow(|found| {
            let (of_user, of_domain, ha1) = found.as_ref()?;
            (of_user == user && of_domain == domain).then_some(*ha1)?
        })
    }

    pub(super) fn stats(&self) -> [Stat; 2] {
        let (lookups, failures) = self.lookup.counts();
        [
            Stat::counter(
                "danger_lookups",
                "Passwords read from the database while a request waited.",
                lookups,
            ),
            Stat::counter("danger_lookup_failures", "Such reads that failed or took too long.", failures),
        ]
    }
}
