//! Row "parse": measured in this process by the thread's CPU clock, with a count of allocations.

use super::report::Row;
use anyhow::{Result, anyhow, bail};
use ringway_lab::machine;
use ringway_lab::operation::{Operation, first_requests};
use ringway_lab::statistics::median;
use ringway_sip::{Limits, Message};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Maximum time for parsing a message, in nanoseconds.
const NS_MAX: f64 = 500.0;

/// Number of different messages parsed in turn, so that the branch predictor cannot learn them.
const MESSAGES: u32 = 256;

/// Cost of parsing one kind of message.
struct Cost {
    ns: f64,
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
    let mut readings = Vec::new();
    let mut allocations = 0;
    for _ in 0..=repeats {
        let mut used = 0;
        let counted = allocation_counter::measure(|| {
            let before = machine::thread_cpu_ns();
            for _ in 0..ROUNDS {
                for message in &messages {
                    let _ = black_box(Message::parse(black_box(message), &limits));
                }
            }
            used = machine::thread_cpu_ns().saturating_sub(before);
        });
        allocations += counted.count_total;
        readings.push(used as f64 / f64::from(ROUNDS * MESSAGES));
    }
    // The first round warms the caches.
    let warm = readings.get(1..).ok_or_else(|| anyhow!("not measured"))?;
    Ok(Cost { ns: median(warm.iter().copied()), allocations })
}
