//! Accepted connections and memory of each source.

use ringway_sansio::{MemoryBound, source_of};
use ringway_stream::CloseReason;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counters of the connections of all workers by source: an IPv4 address or an IPv6 /64 network. There is at most one
/// entry for each open connection.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Maximum number of accepted connections of one source. 0: no limit, neither of connections nor of memory per
    /// source.
    max: AtomicUsize,
    /// Limit of the bytes of all connections, accepted and dialled.
    memory: Option<Arc<MemoryBound>>,
    open: Mutex<HashMap<IpAddr, Source>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Source {
    accepted: usize,
    /// Bytes held by its connections, accepted and dialled.
    bytes: usize,
}

impl Sources {
    /// Allows `max` accepted connections per source; 0: no limit.
    pub(crate) fn new(max: usize, memory: Option<Arc<MemoryBound>>) -> Self {
        Self { max: AtomicUsize::new(max), memory, open: Mutex::default() }
    }

    /// Sets another limit. Open connections beyond it remain.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Counts a connection from `address`; false if its source has reached the limit.
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

    /// Counts an admitted connection as closed.
    pub(crate) fn closed(&self, address: IpAddr) {
        self.change(address, |source| source.accepted = source.accepted.saturating_sub(1));
    }

    /// Updates the memory of a connection with `address` from `before` to `now` bytes.
    ///
    /// # Errors
    /// The reason for which the connection must be closed: the limit of its source or of all connections is exceeded.
    /// Nothing is changed then.
    pub(crate) fn account(&self, address: IpAddr, before: usize, now: usize) -> Result<(), CloseReason> {
        let is_bounded = self.max.load(Ordering::Relaxed) != 0;
        self.change(address, |source| {
            let bytes = source.bytes - before + now;
            if now > before {
                if is_bounded && bytes > self.source_bytes_max() {
                    return Err(CloseReason::SourceMemory);
                }
                // Requests that end a call must find room.
                let take =
                    |memory: &MemoryBound| memory.take_and_leave(now - before, memory.max() / LEFT_SHARE);
                if self.memory.as_ref().is_some_and(|memory| !take(memory)) {
                    return Err(CloseReason::Memory);
                }
            } else if let Some(memory) = &self.memory {
                memory.give(before - now);
            }
            source.bytes = bytes;
            Ok(())
        })
    }

    /// Releases the `bytes` of a closed connection with `address`.
    pub(crate) fn release(&self, address: IpAddr, bytes: usize) {
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

    /// Changes the entry of a source, and removes it if it is empty.
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

/// Maximum number of bytes held by the connections of one source.
const SOURCE_BYTES_MAX: usize = 8 << 20;

/// Inverse of the maximum share of one source: a quarter of all bytes.
const SOURCE_SHARE: usize = 4;

/// Inverse of the share of all memory that connections leave to others.
const LEFT_SHARE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_are_limited_per_source_and_a_64_is_one_source() {
        let sources = Sources::new(2, None);
        assert!(sources.admit(ip("2001:db8::1")) && sources.admit(ip("2001:db8::2")));
        assert!(!sources.admit(ip("2001:db8::3")));
        assert!(sources.admit(ip("2001:db8:0:1::1")) && sources.admit(ip("192.0.2.1")));
        sources.closed(ip("2001:db8::2"));
        assert!(sources.admit(ip("2001:db8::4")));
        for closed in ["2001:db8::1", "2001:db8::4", "2001:db8:0:1::1", "192.0.2.1"] {
            sources.closed(ip(closed));
        }
        assert!(sources.lock().is_empty(), "nothing is stored of closed connections");
    }

    #[test]
    fn zero_is_no_limit_and_the_limit_can_be_changed() {
        let sources = Sources::new(0, None);
        assert!((0..1000).all(|_| sources.admit(ip("192.0.2.1"))));
        sources.set_max(1000);
        assert!(!sources.admit(ip("192.0.2.1")));
        sources.closed(ip("192.0.2.1"));
        assert!(sources.admit(ip("192.0.2.1")));
    }

    #[test]
    fn bytes_are_limited_per_source_and_in_total() {
        let memory = Arc::new(MemoryBound::new(48 << 20));
        let sources = Sources::new(100, Some(Arc::clone(&memory)));
        assert_eq!(sources.account(ip("192.0.2.1"), 0, 5 << 20), Ok(()));
        assert_eq!(sources.account(ip("192.0.2.1"), 0, 3 << 20), Ok(()), "another connection of it");
        assert_eq!(sources.account(ip("192.0.2.1"), 3 << 20, (3 << 20) + 1), Err(CloseReason::SourceMemory));
        for other in 2..=5 {
            assert_eq!(sources.account(IpAddr::from([192, 0, 2, other]), 0, 8 << 20), Ok(()));
        }
        assert_eq!(sources.account(ip("192.0.2.6"), 0, 5 << 20), Ok(()), "a sixteenth is left");
        assert_eq!(sources.account(ip("192.0.2.7"), 0, 1), Err(CloseReason::Memory));
        assert_eq!((memory.used(), sources.lock().len()), (45 << 20, 6), "a refusal takes nothing");
        sources.release(ip("192.0.2.6"), 5 << 20);
        sources.release(ip("192.0.2.1"), 5 << 20);
        sources.release(ip("192.0.2.1"), 3 << 20);
        for other in 2..=5 {
            sources.release(IpAddr::from([192, 0, 2, other]), 8 << 20);
        }
        assert_eq!((memory.used(), sources.lock().len()), (0, 0));
    }

    #[test]
    fn a_source_is_limited_to_a_quarter_unless_sources_have_no_limit() {
        let sources = Sources::new(1, Some(Arc::new(MemoryBound::new(4000))));
        assert_eq!(sources.account(ip("192.0.2.1"), 0, 1000), Ok(()));
        assert_eq!(sources.account(ip("192.0.2.1"), 1000, 1001), Err(CloseReason::SourceMemory));
        sources.set_max(0);
        assert_eq!(sources.account(ip("192.0.2.1"), 1000, 3750), Ok(()));
        assert_eq!(sources.account(ip("192.0.2.1"), 3750, 3751), Err(CloseReason::Memory));
        sources.release(ip("192.0.2.1"), 3750);
    }
}
