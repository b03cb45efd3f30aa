//! Peak of the generator, and its lag at half of it; its bytes for each user, and for each open attempt.

use super::readings::Field;
use super::{Kind, Row};
use anyhow::{Result, bail};
use ringway_lab::load::in_memory::Stage;
use ringway_lab::load::{Delay, Flow, Statistics};
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

/// Measures both.
pub(super) fn of_memory() -> Vec<Row> {
    let user = "generator: bytes for each of 1 M registered users, nothing open";
    let open = "generator: bytes for each open REGISTER (100 k), and for each open call of both sides (10 k)";
    vec![
        bytes_of_users().map_or_else(
            |error| Row::failed(user, &error),
            |bytes| Row::single(user, "< 300 bytes", format!("{bytes:.0} bytes"), bytes < 300.0),
        ),
        bytes_open(Kind::Register, 100_000)
            .and_then(|register| Ok([register, bytes_open(Kind::Call, 10_000)?]))
            .map_or_else(
                |error| Row::failed(open, &error),
                |[register, call]| {
                    Row::single(open, "recorded", format!("{register:.0} bytes, {call:.0} bytes"), true)
                },
            ),
    ]
}

/// Registers all users once, and lets all transactions end.
fn bytes_of_users() -> Result<f64> {
    let mut kept = None;
    let counted = allocation_counter::measure(|| {
        let run = || -> Result<Stage> {
            let mut stage = Stage::new(Flow::Register, USERS.into(), USERS_RATE, USERS)?;
            stage.settle()?;
            Ok(stage)
        };
        kept = Some(run());
    });
    match kept {
        Some(Ok(stage)) if stage.successes == u64::from(USERS) => {
            Ok(counted.bytes_current as f64 / f64::from(USERS))
        }
        Some(Ok(stage)) => bail!("{} of {USERS} users were registered", stage.successes),
        Some(Err(error)) => Err(error),
        None => bail!("nothing was measured"),
    }
}

/// Opens attempts that end later.
fn bytes_open(kind: Kind, count: u32) -> Result<f64> {
    let mut stage = Stage::new(kind.flow(), count.into(), f64::from(count) * 100.0, count)?;
    stage.is_mute = kind == Kind::Register;
    let mut result = Ok(());
    let counted = allocation_counter::measure(|| {
        while stage.open() < count as usize && result.is_ok() {
            result = stage.turn();
        }
        stage.release_spare();
    });
    result?;
    Ok(counted.bytes_current as f64 / f64::from(count))
}

/// Time between two runs: a thread with real-time priority that uses a whole processor for 0.95 s is stopped for 50 ms.
const REST: Duration = Duration::from_millis(1000);
/// Number of runs at half of the peak, and their length: near its peak the thread never sleeps, so a longer run would be stopped.
const RUNS: usize = 5;
const RUN: Duration = Duration::from_millis(500);
/// Largest lag as a share of the run: one that falls further behind cannot keep the rate.
const LAG_SHARE_MAX: f64 = 0.05;
const RATE_MAX: f64 = 1e6;
const USERS: u32 = 1_000_000;
const USERS_RATE: f64 = 20_000.0;
