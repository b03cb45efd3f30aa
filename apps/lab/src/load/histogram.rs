//! Histograms of times.

use hdrhistogram::Histogram;

/// Histogram of microseconds up to an hour, with three significant digits.
pub(super) fn histogram() -> Histogram<u64> {
    let bounded = Histogram::new_with_bounds(1, 3_600_000_000, 3);
    // The bounds are valid; the other constructor takes any value and needs more memory.
    bounded
        .unwrap_or_else(|_| Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are permitted")))
}
