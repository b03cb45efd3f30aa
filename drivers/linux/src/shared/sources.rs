//! Accepted connections and memory of each source.

use ringway_sansio::{MemoryBound, WideNetwork, source_of};
use ringway_stream::CloseReason;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counters of the connections of all workers by source, an IPv4 address or an IPv6 /64 network, and by [`WideNetwork`], which has the limits
/// of several. There is at most one entry of each kind for each open connection.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Maximum number of accepted connections of one source. 0: no limit, neither of connections nor of memory per
    /// source.
    max: AtomicUsize,
    /// Limit of the bytes of all connections, accepted and dialled.
    memory: Option<Arc<MemoryBound>>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    sources: HashMap<IpAddr, Source>,
    networks: HashMap<WideNetwork, Source>,
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

    /// Counts a connection from `address`; false if its source, or a network around it, has reached the limit.
    pub(crate) fn admit(&self, address: IpAddr) -> bool {
        let max = self.max.load(Ordering::Relaxed);
        let (mut open, source) = (self.lock(), source_of(address));
        let accepted = open.sources.get(&source).map_or(0, |source| source.accepted);
        let is_full = |wide: WideNetwork| {
            open.networks.get(&wide).is_some_and(|of| of.accepted >= max * wide.sources() as usize)
        };
        if max != 0 && (accepted >= max || WideNetwork::around(address).any(is_full)) {
            return false;
        }
        open.each(address, |source| source.accepted += 1);
        true
    }

    /// Counts an admitted connection as closed.
    pub(crate) fn closed(&self, address: IpAddr) {
        self.lock().each(address, |source| source.accepted = source.accepted.saturating_sub(1));
    }

    /// Number of accepted connections for its limit of the source of an address, or of a network around it: the larger one. 0 if sources
    /// have no limit.
    pub(crate) fn fullness(&self, address: IpAddr) -> usize {
        if self.max.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        self.lock().fullness(address)
    }

    /// The same of several addresses.
    pub(crate) fn fullness_of(&self, addresses: impl Iterator<Item = IpAddr>) -> Vec<usize> {
        let has_limit = self.max.load(Ordering::Relaxed) != 0;
        let open = self.lock();
        addresses.map(|address| if has_limit { open.fullness(address) } else { 0 }).collect()
    }

    /// Updates the memory of a connection with `address` from `before` to `now` bytes.
    ///
    /// # Errors
    /// The reason for which the connection must be closed: the limit of its source, of a network around it, or of all connections is
    /// exceeded. Nothing is changed then.
    pub(crate) fn account(&self, address: IpAddr, before: usize, now: usize) -> Result<(), CloseReason> {
        let is_bounded = self.max.load(Ordering::Relaxed) != 0;
        let mut open = self.lock();
        if now > before {
            let grows_over = |of: Option<&Source>, sources: usize| {
                let bytes = of.map_or(0, |of| of.bytes) - before + now;
                is_bounded && bytes > self.bytes_max(sources)
            };
            let is_over = |wide: WideNetwork| grows_over(open.networks.get(&wide), wide.sources() as usize);
            if grows_over(open.sources.get(&source_of(address)), 1)
                || WideNetwork::around(address).any(is_over)
            {
                return Err(CloseReason::SourceMemory);
            }
            // Requests that end a call must find room.
            let take = |memory: &MemoryBound| memory.take_and_leave(now - before, memory.max() / LEFT_SHARE);
            if self.memory.as_ref().is_some_and(|memory| !take(memory)) {
                return Err(CloseReason::Memory);
            }
        } else if let Some(memory) = &self.memory {
            memory.give(before - now);
        }
        open.each(address, |source| source.bytes = source.bytes - before + now);
        Ok(())
    }

    /// Releases the `bytes` of a closed connection with `address`.
    pub(crate) fn release(&self, address: IpAddr, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if let Some(memory) = &self.memory {
            memory.give(bytes);
        }
        self.lock().each(address, |source| source.bytes -= bytes);
    }

    /// Maximum number of bytes of as many sources.
    fn bytes_max(&self, sources: usize) -> usize {
        let share = self.memory.as_ref().map_or(usize::MAX, |memory| memory.max() / SOURCE_SHARE);
        share.min(SOURCE_BYTES_MAX * sources)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// In connections for each limit, times [`SHARES`].
    fn fullness(&self, address: IpAddr) -> usize {
        let source = self.sources.get(&source_of(address)).map_or(0, |of| of.accepted * SHARES);
        let of_network = |wide: WideNetwork| {
            self.networks.get(&wide).map_or(0, |of| of.accepted * SHARES / wide.sources() as usize)
        };
        WideNetwork::around(address).map(of_network).fold(source, usize::max)
    }

    /// Changes the entries of a source and of the networks around it, and removes those that are empty.
    fn each(&mut self, address: IpAddr, mut change: impl FnMut(&mut Source)) {
        change_one(&mut self.sources, source_of(address), &mut change);
        WideNetwork::around(address).for_each(|wide| change_one(&mut self.networks, wide, &mut change));
    }
}

fn change_one<K: Eq + Hash>(of: &mut HashMap<K, Source>, key: K, change: &mut impl FnMut(&mut Source)) {
    match of.entry(key) {
        Entry::Occupied(mut entry) => {
            let source = entry.get_mut();
            change(source);
            if source.accepted == 0 && source.bytes == 0 {
                entry.remove();
            }
        }
        Entry::Vacant(entry) => {
            let mut source = Source::default();
            change(&mut source);
            if source.accepted != 0 || source.bytes != 0 {
                entry.insert(source);
            }
        }
    }
}

/// Maximum number of bytes held by the connections of one source.
const SOURCE_BYTES_MAX: usize = 8 << 20;

/// Inverse of the maximum share of one source: a quarter of all bytes.
const SOURCE_SHARE: usize = 4;

/// Common multiple of the numbers of sources in a network.
const SHARES: usize = 16;

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
        let open = sources.lock();
        assert!(
            open.sources.is_empty() && open.networks.is_empty(),
            "nothing is stored of closed connections"
        );
    }

    #[test]
    fn a_home_has_the_limits_of_four_sources_and_a_site_of_sixteen() {
        let sources = Sources::new(2, Some(Arc::new(MemoryBound::new(1 << 30))));
        let of = |network: u16, host: u16| IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host]);
        let hosts =
            |step| (0..u16::MAX).step_by(step).flat_map(|network| (1..9).map(move |host| (network, host)));
        let home: Vec<_> =
            hosts(1).take(8 * 256).filter(|&(network, host)| sources.admit(of(network, host))).collect();
        assert_eq!((home.len(), sources.lock().sources.len()), (8, 4));
        assert_eq!(hosts(256).filter(|&(network, host)| sources.admit(of(network, host))).count(), 32 - 8);
        assert_eq!(sources.fullness(of(99, 1)), 2 * SHARES, "as full as a source of two");
        let bytes = (0..20).filter(|&network| sources.account(of(network, 9), 0, 8 << 20).is_ok()).count();
        assert_eq!(bytes, 4, "memory of a home");
    }

    #[test]
    fn fullness_is_the_number_of_connections_for_a_limit() {
        let sources = Sources::new(10, None);
        for last in [1, 2, 2, 3] {
            assert!(sources.admit(IpAddr::from([192, 0, 2, last])));
        }
        for network in 0..12 {
            assert!(sources.admit(IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, 1])));
        }
        let addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.9", "2001:db8::1", "2001:db8:0:ff::"].map(ip);
        let fullness = sources.fullness_of(addresses.into_iter());
        assert_eq!(
            fullness,
            [1, 2, 0, 3, 3].map(|of| of * SHARES),
            "a home has three for each of four sources"
        );
        assert_eq!(fullness, addresses.map(|address| sources.fullness(address)));
        sources.set_max(0);
        assert_eq!(sources.fullness(addresses[1]), 0);
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
        assert_eq!((memory.used(), sources.lock().sources.len()), (45 << 20, 6), "a refusal takes nothing");
        sources.release(ip("192.0.2.6"), 5 << 20);
        sources.release(ip("192.0.2.1"), 5 << 20);
        sources.release(ip("192.0.2.1"), 3 << 20);
        for other in 2..=5 {
            sources.release(IpAddr::from([192, 0, 2, other]), 8 << 20);
        }
        assert_eq!((memory.used(), sources.lock().sources.len()), (0, 0));
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
