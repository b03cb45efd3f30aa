//! Histograms of times.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Histogram of microseconds up to an hour, with three significant digits.
pub(super) fn histogram() -> Histogram<u64> {
    let bounded = Histogram::new_with_bounds(1, 3_600_000_000, 3);
    // The bounds are valid; the other constructor takes any value and needs more memory.
    bounded
        .unwrap_or_else(|_| Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are permitted")))
}

/// Whole microseconds; `Duration::as_micros` divides 128-bit numbers.
pub(super) fn micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into())
}
