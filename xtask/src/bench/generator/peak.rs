//! Peak of the generator, and its lag at half of it.

use super::Kind;
use super::readings::Field;
use super::table::Row;
use anyhow::Result;
use ringway_lab::load::{Delay, Statistics};
use std::time::Duration;

/// Searches the peak of one thread and measures the lag at half of it.
pub(super) fn row(field: &Field, kind: Kind) -> Row {
    let what = format!("lag p99 at half of the peak of one thread, {}", kind.words());
    measured(field, kind, &what).unwrap_or_else(|error| Row::failed(&what, &error))
}

fn measured(field: &Field, kind: Kind, what: &str) -> Result<Row> {
    let peak = search(field, kind)?;
    let half = peak / 2.0;
    let statistics = field.generated(kind, half, (half * 2.0) as u32)?;
    let lag = |percentile| statistics.percentile(Delay::Lag, percentile).unwrap_or_default();
    let p99 = lag(99.0);
    let cell = format!(
        "{:.3} ms (p99.9 {:.3} ms) at {half:.0}/s; peak {peak:.0}/s",
        p99.as_secs_f64() * 1e3,
        lag(99.9).as_secs_f64() * 1e3
    );
    Ok(Row::single(what, "< 1 ms", cell, is_reached(&statistics, half) && p99 < Duration::from_millis(1)))
}

/// Highest rate, within 5 %, that is reached for half a second.
fn search(field: &Field, kind: Kind) -> Result<f64> {
    let (mut good, mut bad) = (
        match kind {
            Kind::Register => 5000.0,
            Kind::Call => 1000.0,
        },
        None,
    );
    while bad.is_none_or(|bad| bad > 1.05 * good) {
        let rate = bad.map_or(2.0 * good, |bad: f64| (good + bad) / 2.0);
        let statistics = field.generated(kind, rate, (rate / 2.0) as u32)?;
        let is_good = is_reached(&statistics, rate);
        eprintln!("  {kind:?} at {rate:.0}/s: {}", if is_good { "reached" } else { "not reached" });
        if is_good {
            good = rate;
        } else {
            bad = Some(rate);
        }
        if rate > RATE_MAX {
            break;
        }
    }
    Ok(good)
}

/// True if the starts kept up with the plan (the last one is less than 1 % of the run late) and 99 % were successful.
fn is_reached(statistics: &Statistics, rate: f64) -> bool {
    let started = statistics.counters().started;
    let lag_max = statistics.percentile(Delay::Lag, 100.0).unwrap_or_default();
    let run = started as f64 / rate;
    started > 0
        && statistics.successes() * 100 >= started * 99
        && statistics.counters().dropped == 0
        && statistics.counters().retransmissions * 100 <= started
        && (lag_max.as_secs_f64() < 0.01 * run || statistics.percentile(Delay::Lag, 90.0) < Some(LAG_MAX))
}

/// Largest lag of nine in ten starts at the peak.
const LAG_MAX: Duration = Duration::from_millis(1);
const RATE_MAX: f64 = 1e6;
