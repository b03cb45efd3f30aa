//! Limits of lookups: the number of each source, the number of each source that found nothing, host names whose lookup took
//! too long.

use ringway_sansio::{limit_of_source, source_of};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Open queries, by the source of the request that they are for: one that looks up names whose DNS servers are silent
/// must not delay those of others.
#[derive(Default)]
pub(crate) struct Shares {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    count: usize,
    /// An entry for each source with open queries. `None`: queries that no peer caused.
    sources: HashMap<Option<IpAddr>, Source>,
}

struct Source {
    open: usize,
    turns: Arc<Semaphore>,
}

/// Open query, until it is dropped.
pub(crate) struct Share {
    shares: Arc<Shares>,
    source: Option<IpAddr>,
    turns: Arc<Semaphore>,
}

impl Shares {
    /// Begins a query; `None` above the limit of all queries or of its source.
    pub(crate) fn begin(self: &Arc<Self>, source: Option<IpAddr>) -> Option<Share> {
        let source = source.map(source_of);
        let open = &mut *self.lock();
        let of_source = open.sources.get(&source).map_or(0, |source| source.open);
        let of_own = open.sources.get(&None).map_or(0, |source| source.open);
        let of_sources = open.count - of_own;
        let (of_source_max, is_over) = match source {
            Some(_) => {
                let max = limit_of_source(QUERIES_OF_SOURCE_MAX, of_sources, QUERIES_OF_SOURCES_MAX);
                (max, of_sources >= QUERIES_OF_SOURCES_MAX)
            }
            None => (QUERIES_OF_SOURCE_MAX, false),
        };
        if is_over || open.count >= QUERIES_MAX || of_source >= of_source_max {
            return None;
        }
        open.count += 1;
        let turns = if source.is_some() { LOOKUPS_OF_SOURCE_MAX } else { LOOKUPS_OWN_MAX };
        let entry = open
            .sources
            .entry(source)
            .or_insert_with(|| Source { open: 0, turns: Arc::new(Semaphore::new(turns)) });
        entry.open += 1;
        Some(Share { shares: Arc::clone(self), source, turns: Arc::clone(&entry.turns) })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Limits the lookups that run at a time.
    pub(crate) fn turns(&self) -> &Semaphore {
        &self.turns
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let open = &mut *self.shares.lock();
        open.count -= 1;
        if let Some(source) = open.sources.get_mut(&self.source) {
            source.open -= 1;
            if source.open == 0 {
                open.sources.remove(&self.source);
            }
        }
    }
}

/// Maximum number of open queries.
pub(crate) const QUERIES_MAX: usize = 1024;

/// Maximum number of open queries of all sources: a quarter is left to those of trunks and neighbours.
const QUERIES_OF_SOURCES_MAX: usize = QUERIES_MAX / 4 * 3;

/// Maximum number of open queries of a source, while fewer than half of those of all sources are open (see [`limit_of_source`]).
pub(crate) const QUERIES_OF_SOURCE_MAX: usize = 256;

/// Maximum number of lookups that no peer caused, and that run at a time.
const LOOKUPS_OWN_MAX: usize = 64;

/// Maximum number of lookups of a source that run at a time; others wait for their turn.
const LOOKUPS_OF_SOURCE_MAX: usize = 32;

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

/// Names that get no lookup for some seconds, because the last one was not answered: a call to them fails at once, and
/// takes nothing from others.
#[derive(Default)]
pub(crate) struct SilentNames {
    until: Mutex<HashMap<Box<str>, Instant>>,
}

impl SilentNames {
    /// Notes that the lookup of `host` was not answered in time.
    pub(crate) fn note(&self, host: &str, now: Instant) {
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if until.len() >= NAMES_MAX {
            until.retain(|_, end| *end > now);
        }
        if until.len() < NAMES_MAX {
            until.insert(host.to_ascii_lowercase().into(), now + SILENT_TIME);
        }
    }

    /// True if a lookup of `host` is not worth a try yet.
    pub(crate) fn has(&self, host: &str, now: Instant) -> bool {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        !until.is_empty() && until.get(&*host.to_ascii_lowercase()).is_some_and(|end| *end > now)
    }
}

/// Maximum number of names.
const NAMES_MAX: usize = 1024;

/// Time without another lookup.
const SILENT_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_limited_in_all_and_by_source() {
        let shares = Arc::new(Shares::default());
        let source = |number: u8| Some(IpAddr::from([192, 0, 2, number]));
        let mut open: Vec<Share> =
            (0..2 * QUERIES_OF_SOURCE_MAX).filter_map(|_| shares.begin(source(1))).collect();
        assert_eq!(open.len(), QUERIES_OF_SOURCE_MAX);
        open.extend(
            (0..u8::MAX)
                .flat_map(|number| (0..16).map(move |_| number))
                .filter_map(|number| shares.begin(source(number))),
        );
        assert_eq!(open.len(), QUERIES_OF_SOURCES_MAX);
        open.extend((0..1000).filter_map(|_| shares.begin(None)));
        assert_eq!(open.len(), QUERIES_MAX, "the rest is for queries that no peer caused");
        assert!(shares.begin(None).is_none());
        open.clear();
        assert!(shares.lock().sources.is_empty());
        assert!(shares.begin(source(1)).is_some());
    }

    /// Many sources with slow lookups are needed to keep others out.
    #[test]
    fn sources_at_their_limits_leave_room_for_others() {
        let shares = Arc::new(Shares::default());
        let mut open = Vec::new();
        let mut begin_all = |number: u8| {
            let before = open.len();
            let source = Some(IpAddr::from([192, 0, 2, number]));
            open.extend(std::iter::from_fn(|| shares.begin(source)));
            open.len() - before
        };
        assert_eq!([1, 2].map(&mut begin_all), [256, 128]);
        assert!((3..99).all(|source| begin_all(source) == 4), "96 sources more");
        assert_eq!(begin_all(99), 0);
        assert!(shares.begin(None).is_some(), "lookups for trunks and neighbours");
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let shares = Arc::new(Shares::default());
        let source = |number: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number]));
        let open: Vec<Share> = (0..1000).filter_map(|number| shares.begin(source(number))).collect();
        assert_eq!(open.len(), QUERIES_OF_SOURCE_MAX);
    }

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

    #[test]
    fn names_are_forgotten_in_time_and_limited_in_number() {
        let (names, now) = (SilentNames::default(), Instant::now());
        for number in 0..2 * NAMES_MAX {
            names.note(&format!("{number}.Example"), now);
        }
        assert_eq!(names.until.lock().unwrap().len(), NAMES_MAX);
        assert!(names.has("7.EXAMPLE", now) && !names.has("7.EXAMPLE", now + SILENT_TIME));
        names.note("new.example", now + SILENT_TIME);
        assert!(names.has("new.example", now + SILENT_TIME));
    }
}
