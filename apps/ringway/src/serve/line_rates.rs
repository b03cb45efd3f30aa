//! Limit on log lines that peers can cause.

use ringway_sansio::{Instant, Seed, source_of};
use ringway_server::SourceRates;
use std::collections::HashMap;
use std::net::IpAddr;

/// Limits of the lines of each source and of all.
pub(super) struct LineRates {
    by_source: SourceRates,
    of_all: SourceRates,
    /// Suppressed lines of each source since its last line.
    suppressed: HashMap<IpAddr, u64>,
}

impl LineRates {
    /// Permits `per_source` lines of a source and `all` of all sources in a second.
    pub(super) fn new((per_source, all): (u32, u32), seed: &Seed) -> Self {
        let by_source = SourceRates::new(per_source, seed);
        Self { by_source, of_all: SourceRates::new(all, seed), suppressed: HashMap::new() }
    }

    /// Admits a line for `address`; returns the number of suppressed lines of its source, or `None` if this line is
    /// suppressed.
    pub(super) fn admit(&mut self, now: Instant, address: IpAddr) -> Option<u64> {
        let source = source_of(address);
        let everybody = IpAddr::from([0, 0, 0, 0]);
        if self.by_source.admit(now, address) && self.of_all.admit(now, everybody) {
            return Some(self.suppressed.remove(&source).unwrap_or_default());
        }
        if self.suppressed.len() >= SUPPRESSED_SOURCES_MAX && !self.suppressed.contains_key(&source) {
            self.suppressed.clear();
        }
        *self.suppressed.entry(source).or_default() += 1;
        None
    }
}

/// Maximum number of sources with counts of suppressed lines; above it the counts are cleared.
const SUPPRESSED_SOURCES_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppressed_lines_are_counted_for_each_source() {
        let mut rates = LineRates::new((1, 50), &Seed::from_number(1));
        let now = Instant::from_secs(100);
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert_eq!([one, one, one, other].map(|ip| rates.admit(now, ip)), [Some(0), None, None, Some(0)]);
        let later = now + std::time::Duration::from_secs(2);
        assert_eq!([other, one, one].map(|ip| rates.admit(later, ip)), [Some(0), Some(2), None]);
        for number in 0..SUPPRESSED_SOURCES_MAX as u32 * 2 {
            rates.admit(later, IpAddr::from(number.to_be_bytes()));
        }
        assert!(rates.suppressed.len() <= SUPPRESSED_SOURCES_MAX);
    }
}
