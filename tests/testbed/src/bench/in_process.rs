//! Rows that are measured in this process by the thread's CPU clock, with a count of allocations: "parse", and "route",
//! a lookup in a table of routes.

use super::report::Row;
use anyhow::{Result, anyhow, bail};
use ringway_lab::machine;
use ringway_lab::operation::{Operation, first_requests};
use ringway_lab::statistics::median;
use ringway_server::{Number, Route, RouteMatch, RouteTable, RouteTo};
use ringway_sip::{Limits, Message};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Maximum time for parsing a message, in nanoseconds.
const NS_MAX: f64 = 500.0;

/// Number of different messages parsed in turn, so that the branch predictor cannot learn them.
const MESSAGES: u32 = 256;

/// Maximum time of a lookup, in nanoseconds.
const LOOKUP_NS_MAX: f64 = 1000.0;

/// Number of routes, and of different numbers that are looked up in turn.
const ROUTES: u32 = 10_000;
const NUMBERS: u32 = 4096;

/// Cost of an operation.
struct Cost {
    ns: f64,
    /// Allocations of all operations.
    allocations: u64,
}

pub(super) fn row(repeats: u32) -> Row {
    let what = "parse REGISTER 551 B / INVITE 788 B with mandatory checks";
    let target = "≤ 0.5 µs, 0 allocations";
    eprintln!("{what}");
    let costs = || -> Result<(Cost, Cost)> {
        Ok((cost(Operation::Refresh, repeats)?, cost(Operation::Call, repeats)?))
    };
    match costs() {
        Ok((register, invite)) => {
            let allocations = register.allocations + invite.allocations;
            let figure =
                format!("{:.3} µs / {:.3} µs, {allocations} allocations", register.ns / 1e3, invite.ns / 1e3);
            eprintln!("  {figure}");
            let met = register.ns <= NS_MAX && invite.ns <= NS_MAX && allocations == 0;
            Row::single(what, target, figure, met)
        }
        Err(error) => Row::failed(what, target, &error),
    }
}

/// Parses repeatedly, for a profiler.
pub(super) fn repeat_for(duration: Duration) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < duration {
        cost(Operation::Refresh, 1)?;
        cost(Operation::Call, 1)?;
    }
    Ok(())
}

/// Parses the first requests of operations.
fn cost(operation: Operation, repeats: u32) -> Result<Cost> {
    const ROUNDS: u32 = 1000;
    let limits = Limits::default();
    let messages = first_requests(operation, MESSAGES)?;
    for message in &messages {
        if let Err(rejected) = Message::parse(message, &limits) {
            bail!("the parser rejects a message of the benchmark: {:?}", rejected.reason);
        }
    }
    cost_of(repeats, ROUNDS * MESSAGES, || {
        for _ in 0..ROUNDS {
            for message in &messages {
                let _ = black_box(Message::parse(black_box(message), &limits));
            }
        }
    })
}

pub(super) fn lookup_row(repeats: u32) -> Row {
    let what = "route of a number, 10,000 prefixes of 3 to 9 characters / 10,000 prefixes and patterns";
    let target = "≤ 1 µs, 0 allocations";
    eprintln!("{what}");
    let costs = || -> Result<[Cost; 2]> { Ok([lookup_cost(repeats, false)?, lookup_cost(repeats, true)?]) };
    match costs() {
        Ok([prefixes, patterns]) => {
            let allocations = prefixes.allocations + patterns.allocations;
            let figure = format!(
                "{:.3} µs / {:.3} µs, {allocations} allocations",
                prefixes.ns / 1e3,
                patterns.ns / 1e3
            );
            eprintln!("  {figure}");
            let met = prefixes.ns <= LOOKUP_NS_MAX && patterns.ns <= LOOKUP_NS_MAX && allocations == 0;
            Row::single(what, target, figure, met)
        }
        Err(error) => Row::failed(what, target, &error),
    }
}

/// Looks up numbers.
fn lookup_cost(repeats: u32, has_patterns: bool) -> Result<Cost> {
    const ROUNDS: u32 = 100;
    let routes = (0..ROUTES).map(|number| route(number, has_patterns)).collect();
    let table = RouteTable::new(routes).map_err(|bad| anyhow!("a route of the benchmark is bad: {bad:?}"))?;
    let numbers: Vec<_> =
        (0..NUMBERS).filter_map(|number| Number::parse(dialled(number).as_bytes())).collect();
    let found = numbers.iter().filter(|number| table.of_number(number).is_some()).count();
    if numbers.len() != NUMBERS as usize || found < numbers.len() / 2 {
        bail!("{found} of {} numbers have a route", numbers.len());
    }
    cost_of(repeats, ROUNDS * NUMBERS, || {
        for _ in 0..ROUNDS {
            for number in &numbers {
                let _ = black_box(table.of_number(black_box(number)));
            }
        }
    })
}

/// Cost of one of `count` operations, all of which a call of `operations` runs.
fn cost_of(repeats: u32, count: u32, mut operations: impl FnMut()) -> Result<Cost> {
    let mut readings = Vec::new();
    let mut allocations = 0;
    for _ in 0..=repeats {
        let mut used = 0;
        let counted = allocation_counter::measure(|| {
            let before = machine::thread_cpu_ns();
            operations();
            used = machine::thread_cpu_ns().saturating_sub(before);
        });
        allocations += counted.count_total;
        readings.push(used as f64 / f64::from(count));
    }
    // The first round warms the caches.
    let warm = readings.get(1..).ok_or_else(|| anyhow!("not measured"))?;
    Ok(Cost { ns: median(warm.iter().copied()), allocations })
}

/// A route with a prefix of 3 to 9 characters; with patterns, every second one has a set and an open end.
fn route(number: u32, has_patterns: bool) -> Route {
    let digits = format!("+{:08}", spread(number));
    let prefix = digits.get(..3 + (number % 7) as usize).unwrap_or(&digits);
    let matches = match has_patterns && number % 2 == 1 {
        true => RouteMatch::Pattern(format!("{prefix}[1-5]X*")),
        false => RouteMatch::Prefix(prefix.to_owned()),
    };
    Route { matches, to: RouteTo::User("user".to_owned()) }
}

/// A number of 13 characters whose first ones are those of a route.
fn dialled(number: u32) -> String {
    format!("+{:08}{:04}", spread(number * 2), number % 10_000)
}

/// Eight digits that are spread over all numbers.
const fn spread(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_761) % 100_000_000
}
