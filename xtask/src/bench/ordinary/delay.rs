//! Delay of the answer to a REGISTER at several rates, measured by a generator that never sleeps.

use super::Plan;
use crate::bench::report::{Row, Verdict};
use anyhow::{Context, Result};
use ringway_lab::floor::Kind;
use ringway_lab::open_loop::Pace;
use ringway_lab::register::Expect;
use ringway_lab::statistics::median;
use ringway_lab::subject::{Environment, Routing, Settings, Store, Subject, Under};
use ringway_lab::template::Carrier;

/// Requests a second.
const RATES: [u32; 4] = [100, 1000, 3000, 20_000];

/// Maximum difference to the delay of the bare echo in the 99th percentile, in microseconds.
const ADDED_US_MAX: f64 = 200.0;

/// Maximum share of requests without an answer.
const LOST_MAX: f64 = 0.01;

/// Number of users, all registered before.
const USERS: u32 = 10_000;

/// Fewest requests in a reading, so that its 99th percentile is more than one request.
const REQUESTS_MIN: u32 = 300;

/// A server and what it answers.
struct Side {
    name: &'static str,
    subject: Result<Subject>,
    expect: Expect,
}

/// Median and 99th percentile of the delay, in microseconds; medians of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quantiles {
    p50: f64,
    p99: f64,
}

pub(super) fn rows(environment: &Environment, plan: Plan) -> Vec<Row> {
    let mut sides = [
        Side { name: "echo", subject: environment.floor(Kind::BlockingEcho, USERS), expect: Expect::Echo },
        Side { name: "kamailio", subject: kamailio(environment), expect: Expect::Ok },
        Side { name: "ringway", subject: ringway(environment), expect: Expect::Ok },
    ];
    RATES.iter().map(|&rate| row(&mut sides, rate, plan)).collect()
}

fn kamailio(environment: &Environment) -> Result<Subject> {
    let program = environment.kamailio.as_ref().context("kamailio is not installed")?;
    let settings = Settings::open(USERS, Routing::Stateful);
    registered(environment.kamailio(program, &settings, Carrier::Udp)?)
}

fn ringway(environment: &Environment) -> Result<Subject> {
    let store = Store::Sqlite(environment.folder.join("delay.db"));
    let settings = Settings { store, ..Settings::open(USERS, Routing::Stateful) };
    registered(environment.ringway(&settings, Under::Itself)?)
}

fn registered(mut subject: Subject) -> Result<Subject> {
    subject.register_all(Expect::Ok)?;
    Ok(subject)
}

/// Measures all sides at one rate in turn.
fn row(sides: &mut [Side; 3], rate: u32, plan: Plan) -> Row {
    let what = format!("delay of the answer to a REGISTER at {rate}/s, p50 / p99");
    let target = format!("p99 ≤ echo + {ADDED_US_MAX} µs");
    eprintln!("{what}");
    // One second, or as long as the 99th percentile needs.
    let pace = Pace { rate, operations: rate.max(REQUESTS_MIN) };
    let mut taken: [Result<Vec<Quantiles>>; 3] = [Ok(Vec::new()), Ok(Vec::new()), Ok(Vec::new())];
    for round in 1..=plan.rounds {
        for (side, taken) in sides.iter_mut().zip(&mut taken) {
            let Ok(readings) = taken else { continue };
            match reading(side, pace) {
                Ok(quantiles) => {
                    let shown = words(quantiles);
                    eprintln!("  round {round} of {}: {} {shown}", plan.rounds, side.name);
                    readings.push(quantiles);
                }
                Err(error) => *taken = Err(error.context(side.name)),
            }
        }
    }
    let [echo, kamailio, ringway] = taken.map(|readings| readings.map(|readings| medians(&readings)));
    match (echo, ringway) {
        (Ok(echo), Ok(ringway)) => {
            let added = ringway.p99 - echo.p99;
            Row {
                what,
                target,
                floor: words(echo),
                kamailio: kamailio.map_or_else(|_| "failed".to_owned(), words),
                ringway: format!("{}, {added:+.0} µs", words(ringway)),
                verdict: if added <= ADDED_US_MAX { Verdict::Met } else { Verdict::Missed },
                note: String::new(),
            }
        }
        (Err(error), _) | (_, Err(error)) => Row::failed(&what, &target, &error),
    }
}

fn reading(side: &mut Side, pace: Pace) -> Result<Quantiles> {
    let subject = side.subject.as_mut().map_err(|error| anyhow::anyhow!("{error:#}"))?;
    let delays = subject.delays(side.expect, pace)?;
    if f64::from(delays.lost) > LOST_MAX * f64::from(pace.operations) {
        anyhow::bail!("{} of {} requests had no answer", delays.lost, pace.operations);
    }
    Ok(Quantiles { p50: delays.quantile_us(0.5), p99: delays.quantile_us(0.99) })
}

fn medians(readings: &[Quantiles]) -> Quantiles {
    let of = |value: fn(&Quantiles) -> f64| median(readings.iter().map(value));
    Quantiles { p50: of(|reading| reading.p50), p99: of(|reading| reading.p99) }
}

fn words(quantiles: Quantiles) -> String {
    format!("{:.0} / {:.0} µs", quantiles.p50, quantiles.p99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quantile_has_its_own_median() {
        let reading = |p50, p99| Quantiles { p50, p99 };
        let taken = [reading(20.0, 90.0), reading(30.0, 40.0), reading(25.0, 50.0)];
        assert_eq!(medians(&taken), reading(25.0, 50.0));
    }
}
