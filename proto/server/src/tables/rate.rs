//! Rate limits by source address: of requests, and of lookups of users in the shared store.

use crate::Hold;
use core::hash::Hash;
use core::net::IpAddr;
use core::time::Duration;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{Instant, Seed, TableSize, WideNetwork, source_of};

/// Kind of what a source sends. Each has a rate of its own: what is forged of one kind leaves the others as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Requests.
    Requests,
    /// Requests beyond that rate of an address that the configuration names: [`TrafficRates::NAMED_TIMES`] as many.
    Named,
    /// STUN requests.
    Stun,
}

/// Rates of sources for each kind of traffic.
#[derive(Debug)]
pub struct TrafficRates {
    requests: SourceRates,
    named: SourceRates,
    stun: SourceRates,
}

impl TrafficRates {
    /// Rate of [`Traffic::Named`] in rates of a source.
    pub const NAMED_TIMES: u32 = 20;

    /// Creates it without tracked sources, one of `parts` that share the sources. `per_second` = 0: no limit.
    pub fn new(per_second: u32, parts: usize, seed: &Seed) -> Self {
        let rates = |per_second| SourceRates::of(per_second, Self::sources_max(parts), seed);
        let named = rates(per_second.saturating_mul(Self::NAMED_TIMES));
        Self { requests: rates(per_second), named, stun: rates(per_second) }
    }

    /// Memory of all parts.
    pub const fn size(parts: usize) -> TableSize {
        let of_part = SourceRates::size("sources with a rate of requests", Self::sources_max(parts));
        of_part.times(3 * parts)
    }

    /// Twice the share of a part, since sources are not spread evenly.
    pub(crate) const fn sources_max(parts: usize) -> usize {
        let share = 2 * SourceRates::SOURCES_MAX / parts;
        if share < SourceRates::SOURCES_MAX { share } else { SourceRates::SOURCES_MAX }
    }

    /// Takes a token of `source` for this kind of traffic; false if it has none.
    pub fn admit(&mut self, now: Instant, source: IpAddr, traffic: Traffic) -> bool {
        let rates = match traffic {
            Traffic::Requests => &mut self.requests,
            Traffic::Named => &mut self.named,
            Traffic::Stun => &mut self.stun,
        };
        rates.admit(now, source)
    }

    /// Gives back a token of [`Traffic::Requests`] that `source` took.
    pub fn give_back(&mut self, now: Instant, source: IpAddr) {
        self.requests.give_back(now, source);
    }
}

/// Token buckets by source: `rate` requests a second, and at most the requests of one second at once; and by [`WideNetwork`],
/// with the rates of several sources. Full buckets are removed; sources above their maximum number share one bucket, and so do networks.
#[derive(Debug)]
pub struct SourceRates {
    /// Time between two requests; zero: no limit.
    interval: Duration,
    sources: Buckets<IpAddr>,
    networks: Buckets<WideNetwork>,
}

/// Token buckets of one kind of sources.
#[derive(Debug)]
struct Buckets<K> {
    /// Time at which each is full again. Peers choose the keys: a seeded hash.
    full_at: HashMap<K, Instant, SeededHash>,
    /// The same of the one that is shared.
    crowded_full_at: Instant,
    count_max: usize,
    /// Time of the last search for full ones.
    swept: Instant,
}

impl SourceRates {
    /// Default maximum number of tracked sources.
    pub const SOURCES_MAX: usize = 65_536;

    /// Creates it without tracked sources. `per_second` = 0: no limit.
    pub fn new(per_second: u32, seed: &Seed) -> Self {
        Self::of(per_second, Self::SOURCES_MAX, seed)
    }

    /// The same with another maximum number of tracked sources.
    pub(crate) fn of(per_second: u32, sources_max: usize, seed: &Seed) -> Self {
        let interval = match per_second {
            0 => Duration::ZERO,
            rate => Duration::from_secs(1) / rate,
        };
        let hash = SeededHash::new(seed);
        let (sources, networks) = (Buckets::new(sources_max, hash), Buckets::new(sources_max, hash));
        Self { interval, sources, networks }
    }

    /// Memory of the buckets of sources and networks.
    pub(crate) const fn size(name: &'static str, sources_max: usize) -> TableSize {
        TableSize::of_map(name, sources_max, size_of::<(IpAddr, Instant)>())
            .with_map(sources_max, size_of::<(WideNetwork, Instant)>())
    }

    /// Takes a token of `source`; false if it has none.
    pub fn admit(&mut self, now: Instant, source: IpAddr) -> bool {
        if self.interval.is_zero() {
            return true;
        }
        if !self.sources.take(source_of(source), now, self.interval) {
            return false;
        }
        // A source over its rate takes nothing from its neighbours.
        WideNetwork::around(source).all(|wide| self.networks.take(wide, now, self.interval / wide.sources()))
    }

    fn give_back(&mut self, now: Instant, source: IpAddr) {
        self.sources.give_back(source_of(source), now, self.interval);
        for wide in WideNetwork::around(source) {
            self.networks.give_back(wide, now, self.interval / wide.sources());
        }
    }
}

impl<K: Eq + Hash> Buckets<K> {
    fn new(count_max: usize, hash: SeededHash) -> Self {
        let full_at = HashMap::with_hasher(hash);
        Self { full_at, crowded_full_at: Instant::default(), count_max, swept: Instant::default() }
    }

    /// Takes a token of the bucket with this key.
    fn take(&mut self, key: K, now: Instant, interval: Duration) -> bool {
        if self.full_at.len() >= self.count_max && !self.full_at.contains_key(&key) {
            // A scan for each request would cost more than the request.
            if now.since(self.swept) >= interval {
                self.swept = now;
                self.full_at.retain(|_, full_at| *full_at > now);
            }
            if self.full_at.len() >= self.count_max {
                return take(&mut self.crowded_full_at, now, interval);
            }
        }
        take(self.full_at.entry(key).or_default(), now, interval)
    }

    fn give_back(&mut self, key: K, now: Instant, interval: Duration) {
        if let Some(full_at) = self.full_at.get_mut(&key) {
            // One that is full has nothing to get.
            *full_at = now + full_at.since(now).saturating_sub(interval);
        }
    }
}

/// Token bucket of all sources together: a rate, and at most the requests of one second at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonRate {
    interval: Duration,
    full_at: Instant,
}

impl CommonRate {
    /// Creates it with a full bucket. `per_second` is not 0.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { interval: Duration::from_secs(1) / per_second.max(1), full_at: Instant::default() }
    }

    /// Takes a token; false if there is none.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        take(&mut self.full_at, now, self.interval)
    }
}

fn take(full_at: &mut Instant, now: Instant, interval: Duration) -> bool {
    let from = (*full_at).max(now);
    if from.since(now) + interval > Duration::from_secs(1) + interval / 2 {
        return false;
    }
    *full_at = from + interval;
    true
}

/// Reason for not reading a user's bindings from the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocateRefusal {
    /// This source caused too many.
    TooOften,
    /// Too many are under way.
    TooMany,
}

/// Read-throughs of a node: a rate for each source, and a number under way.
#[derive(Debug)]
pub struct LocateLimits {
    rates: SourceRates,
    proven_rates: SourceRates,
    under_way: usize,
    under_way_max: usize,
}

impl LocateLimits {
    /// Maximum number of read-throughs under way in a node that holds all users.
    pub const UNDER_WAY_MAX: usize = 256;
    /// The same in a node that holds those that it serves.
    pub const UNDER_WAY_MAX_SERVED: usize = 4_096;
    /// Read-throughs a second for a source.
    pub const PER_SECOND: u32 = 20;
    /// Read-throughs a second for the requests of a source with a proof: a trusted address, or a proven password.
    pub const PER_SECOND_PROVEN: u32 = 2_000;

    /// Creates it without read-throughs.
    pub fn new(hold: Hold, seed: &Seed) -> Self {
        let under_way_max = match hold {
            Hold::All => Self::UNDER_WAY_MAX,
            Hold::Served => Self::UNDER_WAY_MAX_SERVED,
        };
        let rates = SourceRates::new(Self::PER_SECOND, seed);
        let proven_rates = SourceRates::new(Self::PER_SECOND_PROVEN, seed);
        Self { rates, proven_rates, under_way: 0, under_way_max }
    }

    /// Memory of the rates.
    pub const fn size() -> TableSize {
        SourceRates::size("sources with a rate of read-throughs", SourceRates::SOURCES_MAX).times(2)
    }

    /// Counts the begin of one for a request from `source`, whose sender is proven or not.
    ///
    /// # Errors
    /// A limit is reached; nothing is counted.
    pub fn begin(&mut self, now: Instant, source: IpAddr, is_proven: bool) -> Result<(), LocateRefusal> {
        if self.under_way >= self.under_way_max {
            return Err(LocateRefusal::TooMany);
        }
        let rates = if is_proven { &mut self.proven_rates } else { &mut self.rates };
        if !rates.admit(now, source) {
            return Err(LocateRefusal::TooOften);
        }
        self.under_way += 1;
        Ok(())
    }

    /// Counts the end of one.
    pub const fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_at_once_then_the_rate() {
        let mut rates = SourceRates::new(10, &Seed::from_number(1));
        let source = "192.0.2.1".parse().unwrap();
        let start = Instant::from_secs(100);
        assert_eq!((0..50).filter(|_| rates.admit(start, source)).count(), 10);
        let later = start + Duration::from_millis(500);
        assert_eq!((0..50).filter(|_| rates.admit(later, source)).count(), 5);
        assert!(rates.admit(start, "192.0.2.2".parse().unwrap()));
    }

    #[test]
    fn a_home_has_the_rates_of_four_sources_and_a_site_of_sixteen() {
        let start = Instant::from_secs(100);
        let admitted = |networks: &mut dyn Iterator<Item = u16>| {
            let mut rates = SourceRates::new(10, &Seed::from_number(1));
            let requests = networks.flat_map(|network| (0..50).map(move |host| (network, host)));
            let of = |(network, host)| IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host]);
            requests.filter(|request| rates.admit(start, of(*request))).count()
        };
        assert_eq!(admitted(&mut (0..1)), 10);
        assert_eq!(admitted(&mut (0..256)), 40, "one network of 56 bits");
        assert_eq!(admitted(&mut (0..u16::MAX).step_by(16)), 160, "one of 48 bits");
        let mut rates = SourceRates::new(10, &Seed::from_number(1));
        let flood = "2001:db8::1".parse().unwrap();
        assert_eq!((0..1000).filter(|_| rates.admit(start, flood)).count(), 10);
        assert!(rates.admit(start, "2001:db8:0:1::1".parse().unwrap()), "of its neighbour");
    }

    #[test]
    fn zero_is_no_limit_and_a_crowd_is_bounded() {
        let mut rates = SourceRates::new(0, &Seed::from_number(1));
        assert!((0..10_000).all(|_| rates.admit(Instant::from_secs(1), "192.0.2.1".parse().unwrap())));
        let mut rates = SourceRates::new(1, &Seed::from_number(1));
        for number in 0..(SourceRates::SOURCES_MAX as u32 + 1000) {
            rates.admit(Instant::from_secs(1), IpAddr::from(number.to_be_bytes()));
        }
        assert_eq!(rates.sources.full_at.len(), SourceRates::SOURCES_MAX);
    }

    #[test]
    fn the_memory_of_a_full_table_is_the_published_one_at_most() {
        let mut rates = SourceRates::of(1, 1000, &Seed::from_number(1));
        let taken = allocation_counter::measure(|| {
            for number in 0..20_000_u64 {
                let source = IpAddr::from((u128::from(number << 8) << 64).to_be_bytes());
                rates.admit(Instant::from_secs(1 + number / 2000), source);
            }
        });
        assert_eq!((rates.sources.full_at.len(), rates.networks.full_at.len()), (1000, 1000));
        let (taken, size) = (taken.bytes_current as u64, SourceRates::size("", 1000).bytes);
        assert!((size / 4..=size).contains(&taken), "{taken} of {size}");
    }
}
