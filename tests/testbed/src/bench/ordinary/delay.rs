//! Delay of the answer to a REGISTER at several rates, measured by the generator with busy waiting.

use super::{Plan, sipp};
use crate::bench::report::{Row, Verdict};
use anyhow::{Context, Result, bail};
use ringway_lab::floor::Kind;
use ringway_lab::load::{Delay, Flow, Session, Spacing};
use ringway_lab::server::Carrier;
use ringway_lab::statistics::median;
use ringway_lab::subject::{Environment, Routing, Settings, Store, Subject, Under};
use std::time::Duration;

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

/// A server, and the generator with its users.
struct Side {
    name: &'static str,
    server: Result<Server>,
}

struct Server {
    /// Ends with the value.
    _subject: Subject,
    session: Option<Session>,
}

/// Median and 99th percentile of the delay, in microseconds; medians of the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quantiles {
    p50: f64,
    p99: f64,
}

pub(super) fn rows(environment: &Environment, plan: Plan) -> Vec<Row> {
    let side = |name, subject: Result<Subject>| Side { name, server: subject.and_then(Server::start) };
    let mut sides = [
        side("echo", environment.floor(Kind::BlockingEcho, USERS)),
        side("kamailio", kamailio(environment)),
        side("ringway", ringway(environment)),
    ];
    RATES.iter().map(|&rate| row(&mut sides, rate, plan)).collect()
}

fn kamailio(environment: &Environment) -> Result<Subject> {
    let program = environment.kamailio.as_ref().context("kamailio is not installed")?;
    environment.kamailio(program, &Settings::open(USERS, Routing::Stateful), Carrier::Udp)
}

fn ringway(environment: &Environment) -> Result<Subject> {
    let store = Store::Sqlite(environment.folder.join("delay.db"));
    let settings = Settings { store, ..Settings::open(USERS, Routing::Stateful) };
    environment.ringway(&settings, Under::Itself)
}

impl Server {
    /// Registers all users.
    fn start(subject: Subject) -> Result<Self> {
        // Exponential intervals have no fixed phase to a clock of the server.
        let plan = ringway_lab::load::Plan {
            spacing: Spacing::Poisson,
            ..sipp::plan(Flow::Update, USERS, subject.port())?
        };
        Ok(Self { session: Some(Session::open(&plan)?.spinning()), _subject: subject })
    }

    fn reading(&mut self, rate: u32) -> Result<Quantiles> {
        let session = self.session.take().context("an earlier reading failed")?;
        // One second, or as long as the 99th percentile needs.
        let length = Duration::from_secs(1).max(Duration::from_secs(REQUESTS_MIN.into()) / rate);
        let (statistics, session) = session.start(rate.into(), length)?.finish_session()?;
        self.session = Some(session);
        let offered = statistics.offered() * length.as_secs_f64();
        let lost = offered - statistics.successes() as f64;
        if lost > LOST_MAX * offered {
            bail!("{lost:.0} of {offered:.0} requests had no answer");
        }
        let quantile = |percent| {
            let delay = statistics.percentile(Delay::Response, percent);
            delay.map(|delay| delay.as_secs_f64() * 1e6).context("no request was answered")
        };
        Ok(Quantiles { p50: quantile(50.0)?, p99: quantile(99.0)? })
    }
}

/// Measures all sides at one rate in turn.
fn row(sides: &mut [Side; 3], rate: u32, plan: Plan) -> Row {
    let what = format!("delay of the answer to a REGISTER at {rate}/s, p50 / p99");
    let target = format!("p99 ≤ echo + {ADDED_US_MAX} µs");
    eprintln!("{what}");
    let mut taken: [Result<Vec<Quantiles>>; 3] = [Ok(Vec::new()), Ok(Vec::new()), Ok(Vec::new())];
    for round in 1..=plan.rounds {
        for (side, taken) in sides.iter_mut().zip(&mut taken) {
            let Ok(readings) = taken else { continue };
            let server = side.server.as_mut().map_err(|error| anyhow::anyhow!("{error:#}"));
            match server.and_then(|server| server.reading(rate)) {
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
