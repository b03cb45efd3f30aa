//! Number of lookups of each source that found nothing.

use ringway_sansio::source_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lookups without a result, by the source of the request that they were for: one that asks for name after name that does not
/// exist gets no more lookups for some seconds. Cached answers do not count.
#[derive(Default)]
pub(crate) struct EmptyLookups {
    sources: Mutex<HashMap<IpAddr, Window>>,
}

struct Window {
    ends: Instant,
    count: usize,
}

impl EmptyLookups {
    /// Counts a lookup that found nothing. Those that no peer caused do not count.
    pub(crate) fn note(&self, source: Option<IpAddr>, now: Instant) {
        let Some(source) = source.map(source_of) else { return };
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= SOURCES_MAX && !sources.contains_key(&source) {
            sources.retain(|_, window| window.ends > now);
            if sources.len() >= SOURCES_MAX
                && let Some(any) = sources.keys().next().copied()
            {
                sources.remove(&any);
            }
        }
        let window = sources.entry(source).or_insert(Window { ends: now, count: 0 });
        if window.ends <= now {
            *window = Window { ends: now + WINDOW, count: 0 };
        }
        window.count += 1;
    }

    /// True if too many lookups of this source found nothing.
    pub(crate) fn are_too_many(&self, source: Option<IpAddr>, now: Instant) -> bool {
        let Some(source) = source.map(source_of) else { return false };
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.get(&source).is_some_and(|window| window.ends > now && window.count >= EMPTY_MAX)
    }
}

/// Maximum number of lookups of a source without a result in [`WINDOW`].
pub(crate) const EMPTY_MAX: usize = 256;

/// Time over which they are counted.
const WINDOW: Duration = Duration::from_secs(if cfg!(test) { SLOW_TEST_S } else { 10 });

/// Time for the test that asks a DNS server, on a busy machine.
const SLOW_TEST_S: u64 = 600;

/// Maximum number of sources that are counted; above it any other gives way.
const SOURCES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_over_for_some_seconds_and_others_are_not() {
        let (empty, now) = (EmptyLookups::default(), Instant::now());
        let source = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        for _ in 0..EMPTY_MAX {
            assert!(!empty.are_too_many(source(1), now));
            empty.note(source(1), now);
            empty.note(None, now);
        }
        assert!(empty.are_too_many(source(1), now));
        assert!(!empty.are_too_many(source(2), now) && !empty.are_too_many(None, now));
        assert!(!empty.are_too_many(source(1), now + WINDOW));
        empty.note(source(1), now + WINDOW);
        assert!(!empty.are_too_many(source(1), now + WINDOW));
    }

    #[test]
    fn sources_are_limited_in_number() {
        let (empty, now) = (EmptyLookups::default(), Instant::now());
        for number in 0..4 * SOURCES_MAX {
            let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
            empty.note(Some(IpAddr::from([10, 0, high, low])), now);
        }
        assert_eq!(empty.sources.lock().unwrap().len(), SOURCES_MAX);
        empty.note(Some(IpAddr::from([192, 0, 2, 1])), now + WINDOW);
        assert_eq!(empty.sources.lock().unwrap().len(), 1, "windows that ended are removed");
    }
}
