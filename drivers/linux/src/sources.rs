//! How many accepted connections each source has.

use ringway_sansio::source_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The accepted connections of all workers, counted by source: an IPv4 address, or an IPv6 /64 network. It has at most one
/// entry for each open connection.
#[derive(Debug)]
pub(crate) struct Sources {
    /// 0: no limit.
    max: AtomicUsize,
    open: Mutex<HashMap<IpAddr, usize>>,
}

impl Sources {
    /// At most `max` connections for one source; 0: no limit.
    pub(crate) fn new(max: usize) -> Self {
        Self { max: AtomicUsize::new(max), open: Mutex::default() }
    }

    /// Sets another limit. Connections beyond it stay.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Counts a connection from `address`; false when its source has as many as it may have.
    pub(crate) fn admit(&self, address: IpAddr) -> bool {
        let max = self.max.load(Ordering::Relaxed);
        let mut open = self.lock();
        let count = open.entry(source_of(address)).or_default();
        if max != 0 && *count >= max {
            return false;
        }
        *count += 1;
        true
    }

    /// A connection that was admitted is closed.
    pub(crate) fn closed(&self, address: IpAddr) {
        let (mut open, source) = (self.lock(), source_of(address));
        if let Some(count) = open.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                open.remove(&source);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_source_has_so_many_and_no_more_and_a_network_is_one_source() {
        let sources = Sources::new(2);
        assert!(sources.admit(ip("2001:db8::1")) && sources.admit(ip("2001:db8::2")));
        assert!(!sources.admit(ip("2001:db8::3")));
        assert!(sources.admit(ip("2001:db8:0:1::1")) && sources.admit(ip("192.0.2.1")));
        sources.closed(ip("2001:db8::2"));
        assert!(sources.admit(ip("2001:db8::4")));
        for closed in ["2001:db8::1", "2001:db8::4", "2001:db8:0:1::1", "192.0.2.1"] {
            sources.closed(ip(closed));
        }
        assert!(sources.lock().is_empty(), "nothing is kept of who is gone");
    }

    #[test]
    fn zero_is_no_limit_and_the_limit_can_change() {
        let sources = Sources::new(0);
        assert!((0..1000).all(|_| sources.admit(ip("192.0.2.1"))));
        sources.set_max(1000);
        assert!(!sources.admit(ip("192.0.2.1")));
        sources.closed(ip("192.0.2.1"));
        assert!(sources.admit(ip("192.0.2.1")));
    }
}
