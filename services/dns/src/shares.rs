//! Number of lookups of each source.

use ringway_sansio::{limit_of_source, source_of};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
                let max = limit_of_source(QUERIES_OF_SOURCE_MAX, (of_sources, QUERIES_OF_SOURCES_MAX));
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
pub(crate) const LOOKUPS_OF_SOURCE_MAX: usize = 32;

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
}
