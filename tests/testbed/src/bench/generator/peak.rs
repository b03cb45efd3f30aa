//! Peak of the generator, and its lag at half of it.

use super::Kind;
use super::readings::Field;
use super::table::Row;
use anyhow::Result;
use ringway_lab::load::{Delay, Statistics};
use std::thread;
use std::time::Duration;

/// Searches the peak of one thread and measures the lag at half of it: the median of several short runs.
pub(super) fn row(field: &Field, kind: Kind) -> Row {
    let what = format!("lag p99 at half of the peak of one thread, {}", kind.words());
    measured(field, kind, &what).unwrap_or_else(|error| Row::failed(&what, &error))
}

fn measured(field: &Field, kind: Kind, what: &str) -> Result<Row> {
    let peak = search(field, kind)?;
    let half = peak / 2.0;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        thread::sleep(REST);
        let statistics = field.generated(kind, half, (half * RUN.as_secs_f64()) as u32)?;
        let lag = |percentile| statistics.percentile(Delay::Lag, percentile).unwrap_or_default();
        runs.push((lag(99.0), lag(99.9), is_reached(&statistics, half)));
    }
    runs.sort_unstable();
    let (p99, p999, _) = runs[RUNS / 2];
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let cell = format!(
        "{:.3} ms ({:.3}-{:.3}; p99.9 {:.3} ms) at {half:.0}/s; peak {peak:.0}/s",
        ms(p99),
        ms(runs[0].0),
        ms(runs[RUNS - 1].0),
        ms(p999)
    );
    let is_met = runs.iter().all(|&(.., is_reached)| is_reached) && p99 < Duration::from_millis(1);
    Ok(Row::single(what, "< 1 ms", cell, is_met))
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
        thread::sleep(REST);
        let statistics = field.generated(kind, rate, (rate / 2.0) as u32)?;
        let is_good = is_reached(&statistics, rate);
        let lag = |percentile| statistics.percentile(Delay::Lag, percentile).unwrap_or_default();
        eprintln!(
            "  {kind:?} at {rate:.0}/s: {}; {} of {} successful, lag p90 {:?}, max {:?}",
            if is_good { "reached" } else { "not reached" },
            statistics.successes(),
            statistics.counters().started,
            lag(90.0),
            lag(100.0)
        );
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

/// True if the starts kept up with the plan, 99 % were successful, and less than 1 % of the requests were sent again.
fn is_reached(statistics: &Statistics, rate: f64) -> bool {
    let started = statistics.counters().started;
    let lag_max = statistics.percentile(Delay::Lag, 100.0).unwrap_or_default();
    started > 0
        && statistics.successes() * 100 >= started * 99
        && statistics.counters().dropped == 0
        && statistics.counters().retransmissions * 100 <= statistics.counters().requests
        && lag_max.as_secs_f64() <= LAG_SHARE_MAX * started as f64 / rate
}

/// Time between two runs: a thread with real-time priority that uses a whole processor for 0.95 s is stopped for 50 ms.
const REST: Duration = Duration::from_millis(1000);
/// Number of runs at half of the peak, and their length: near its peak the thread never sleeps, so a longer run would be stopped.
const RUNS: usize = 5;
const RUN: Duration = Duration::from_millis(500);
/// Largest lag as a share of the run: one that falls further behind cannot keep the rate.
const LAG_SHARE_MAX: f64 = 0.05;
const RATE_MAX: f64 = 1e6;
