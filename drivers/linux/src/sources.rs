//! Accepted connections of each source, and the bytes that its connections hold.

use ringway_sansio::{MemoryBound, source_of};
use ringway_stream::CloseReason;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of all workers, counted by source: an IPv4 address, or an IPv6 /64 network. It has at most one
/// entry for each open connection.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Accepted connections of one source. 0: no limit, neither on them nor on a source's bytes.
    max: AtomicUsize,
    /// Bound on the bytes of all connections, accepted and dialled.
    memory: Option<Arc<MemoryBound>>,
    open: Mutex<HashMap<IpAddr, Source>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Source {
    accepted: usize,
    /// Held by its connections, accepted and dialled.
    bytes: usize,
}

impl Sources {
    /// At most `max` accepted connections for one source; 0: no limit.
    pub(crate) fn new(max: usize, memory: Option<Arc<MemoryBound>>) -> Self {
        Self { max: AtomicUsize::new(max), memory, open: Mutex::default() }
    }

    /// Sets another limit. Connections beyond it stay.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Counts a connection from `address`; false when its source has as many as it may have.
    pub(crate) fn admit(&self, address: IpAddr) -> bool {
        let max = self.max.load(Ordering::Relaxed);
        let mut open = self.lock();
        let source = open.entry(source_of(address)).or_default();
        if max != 0 && source.accepted >= max {
            return false;
        }
        source.accepted += 1;
        true
    }

    /// A connection that was admitted is closed.
    pub(crate) fn closed(&self, address: IpAddr) {
        self.change(address, |source| source.accepted = source.accepted.saturating_sub(1));
    }

    /// Accounts that a connection with `address` holds `now` bytes, after `before`.
    ///
    /// # Errors
    /// Why the connection must be closed: more bytes than its source or all together may hold. Then nothing has changed.
    pub(crate) fn hold(&self, address: IpAddr, before: usize, now: usize) -> Result<(), CloseReason> {
        let is_bounded = self.max.load(Ordering::Relaxed) != 0;
        self.change(address, |source| {
            let bytes = source.bytes - before + now;
            if now > before {
                if is_bounded && bytes > self.source_bytes_max() {
                    return Err(CloseReason::SourceMemory);
                }
                if self.memory.as_ref().is_some_and(|memory| !memory.take(now - before)) {
                    return Err(CloseReason::Memory);
                }
            } else if let Some(memory) = &self.memory {
                memory.give(before - now);
            }
            source.bytes = bytes;
            Ok(())
        })
    }

    /// A connection with `address` that held `bytes` is gone.
    pub(crate) fn let_go(&self, address: IpAddr, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if let Some(memory) = &self.memory {
            memory.give(bytes);
        }
        self.change(address, |source| source.bytes -= bytes);
    }

    fn source_bytes_max(&self) -> usize {
        let share = self.memory.as_ref().map_or(usize::MAX, |memory| memory.max() / SOURCE_SHARE);
        share.min(SOURCE_BYTES_MAX)
    }

    /// Changes the entry of a source, and forgets it if nothing is left in it.
    fn change<T>(&self, address: IpAddr, change: impl FnOnce(&mut Source) -> T) -> T {
        let (mut open, address) = (self.lock(), source_of(address));
        let source = open.entry(address).or_default();
        let result = change(source);
        if source.accepted == 0 && source.bytes == 0 {
            open.remove(&address);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Source>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that the connections of one source hold together.
const SOURCE_BYTES_MAX: usize = 8 << 20;

/// One source has at most this part of all bytes.
const SOURCE_SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_source_has_so_many_and_no_more_and_a_network_is_one_source() {
        let sources = Sources::new(2, None);
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
        let sources = Sources::new(0, None);
        assert!((0..1000).all(|_| sources.admit(ip("192.0.2.1"))));
        sources.set_max(1000);
        assert!(!sources.admit(ip("192.0.2.1")));
        sources.closed(ip("192.0.2.1"));
        assert!(sources.admit(ip("192.0.2.1")));
    }

    #[test]
    fn bytes_are_bounded_by_source_and_in_all() {
        let memory = Arc::new(MemoryBound::new(40 << 20));
        let sources = Sources::new(100, Some(Arc::clone(&memory)));
        assert_eq!(sources.hold(ip("192.0.2.1"), 0, 5 << 20), Ok(()));
        assert_eq!(sources.hold(ip("192.0.2.1"), 0, 3 << 20), Ok(()), "another connection of it");
        assert_eq!(sources.hold(ip("192.0.2.1"), 3 << 20, (3 << 20) + 1), Err(CloseReason::SourceMemory));
        for other in 2..=5 {
            assert_eq!(sources.hold(IpAddr::from([192, 0, 2, other]), 0, 8 << 20), Ok(()));
        }
        assert_eq!(sources.hold(ip("192.0.2.6"), 0, 1), Err(CloseReason::Memory));
        assert_eq!((memory.used(), sources.lock().len()), (40 << 20, 5), "a refusal takes nothing");
        sources.let_go(ip("192.0.2.1"), 5 << 20);
        sources.let_go(ip("192.0.2.1"), 3 << 20);
        for other in 2..=5 {
            sources.let_go(IpAddr::from([192, 0, 2, other]), 8 << 20);
        }
        assert_eq!((memory.used(), sources.lock().len()), (0, 0));
    }

    #[test]
    fn a_source_has_a_quarter_of_a_small_bound_and_all_of_it_without_a_limit_on_sources() {
        let sources = Sources::new(1, Some(Arc::new(MemoryBound::new(4000))));
        assert_eq!(sources.hold(ip("192.0.2.1"), 0, 1000), Ok(()));
        assert_eq!(sources.hold(ip("192.0.2.1"), 1000, 1001), Err(CloseReason::SourceMemory));
        sources.set_max(0);
        assert_eq!(sources.hold(ip("192.0.2.1"), 1000, 4000), Ok(()));
        assert_eq!(sources.hold(ip("192.0.2.1"), 4000, 4001), Err(CloseReason::Memory));
        sources.let_go(ip("192.0.2.1"), 4000);
    }
}
