//! Readings: the same operation on several servers in turn, so that disturbances affect all of them.

use crate::closed_loop::Extent;
use crate::machine::{self, Ticks};
use crate::statistics::{interleaved, median};
use crate::subject::{Operation, Subject};
use anyhow::{Result, anyhow};
use std::time::{Duration, Instant};

/// Number and length of the readings.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Readings of each server.
    pub repeats: u32,
    /// Length of the measured part of a reading.
    pub measured: Duration,
    /// CPU time that is counted.
    pub counting: Counting,
}

/// CPU time that is counted for the operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// That of the server while it was saturated.
    Saturated,
    /// Also the time until the server is idle again, for a server that writes later.
    UntilIdle,
}

/// Result of one measurement.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// CPU time of the server per operation, in microseconds.
    pub us: f64,
    /// Operations per second of wall time.
    pub rate: f64,
    /// Share of its processor that the server used.
    pub busy: f64,
    /// Share of its processor that the generator used.
    pub generator: f64,
    /// Share of a processor used by neither server nor generator.
    pub others: f64,
    /// Share of a processor that the hypervisor took.
    pub steal: f64,
    /// Number of retransmissions.
    pub repeated: u64,
}

/// All readings of one server.
#[derive(Clone, Debug, Default)]
pub struct Readings(Vec<Reading>);

impl Readings {
    /// Median CPU time per operation in microseconds.
    pub fn us(&self) -> f64 {
        median(self.0.iter().map(|reading| reading.us))
    }

    /// Smallest and largest CPU time per operation.
    pub fn range(&self) -> (f64, f64) {
        self.0.iter().fold((f64::INFINITY, 0.0), |(low, high), reading| {
            (f64::min(low, reading.us), f64::max(high, reading.us))
        })
    }

    /// Summary for the log of a run.
    pub fn describe(&self) -> String {
        let (low, high) = self.range();
        format!(
            "{:.2} µs ({low:.2}-{high:.2}), {:.0}/s, server busy {:.0} %, generator {:.0} %, others {:.0} %, steal {:.1} %, {} sent again",
            self.us(),
            median(self.0.iter().map(|reading| reading.rate)),
            100.0 * median(self.0.iter().map(|reading| reading.busy)),
            100.0 * median(self.0.iter().map(|reading| reading.generator)),
            100.0 * self.0.iter().fold(0.0, |most, reading| f64::max(most, reading.others)),
            100.0 * self.0.iter().fold(0.0, |most, reading| f64::max(most, reading.steal)),
            self.0.iter().map(|reading| reading.repeated).sum::<u64>(),
        )
    }
}

/// A server and its operation.
pub struct Contestant<'a> {
    /// Its name in the log of a run.
    pub name: &'static str,
    /// The server, or the error of starting it.
    pub subject: &'a mut Result<Subject>,
    /// Operation to measure.
    pub operation: Operation,
}

/// Measures all contestants in turn, forwards and backwards (A B, B A, …). Returns their readings in the same
/// order.
///
/// A contestant that fails is skipped from then on and has its error instead.
pub fn measure(contestants: &mut [Contestant<'_>], plan: Plan) -> Vec<Result<Readings>> {
    let mut results: Vec<Result<Readings>> = contestants.iter().map(|_| Ok(Readings::default())).collect();
    for index in interleaved(contestants.len(), plan.repeats) {
        let (Some(contestant), Some(result)) = (contestants.get_mut(index), results.get_mut(index)) else {
            continue;
        };
        let Ok(readings) = result else { continue };
        let reading = match contestant.subject {
            Ok(subject) => read(subject, contestant.operation, plan),
            Err(error) => Err(anyhow!("{error:#}")),
        };
        match reading {
            Ok(reading) => readings.0.push(reading),
            Err(error) => *result = Err(error),
        }
    }
    for (contestant, result) in contestants.iter().zip(&results) {
        match result {
            Ok(readings) => eprintln!("  {:<9} {}", contestant.name, readings.describe()),
            Err(error) => eprintln!("  {:<9} failed: {error:#}", contestant.name),
        }
    }
    results
}

fn read(subject: &mut Subject, operation: Operation, plan: Plan) -> Result<Reading> {
    let extent = Extent::Time { run_up: Duration::from_millis(300), measured: plan.measured };
    let before = (Instant::now(), Ticks::now(), subject.process.cpu_ns()?, machine::thread_cpu_ns());
    let outcome = subject.run(operation, extent)?;
    let (charged_ns, operations) = match plan.counting {
        Counting::Saturated => (outcome.server_ns, outcome.operations),
        Counting::UntilIdle => (until_idle(subject)?.saturating_sub(before.2), outcome.completed),
    };
    let wall_ns = before.0.elapsed().as_nanos() as f64;
    let ticks = Ticks::now();
    let known_ns = (subject.process.cpu_ns()?.saturating_sub(before.2))
        + machine::thread_cpu_ns().saturating_sub(before.3);
    let busy_ns = (ticks.busy.saturating_sub(before.1.busy) * Ticks::ns()) as f64;
    let steal_ns = (ticks.steal.saturating_sub(before.1.steal) * Ticks::ns()) as f64;
    let measured_ns = outcome.wall.as_nanos().max(1) as f64;
    Ok(Reading {
        us: charged_ns as f64 / 1000.0 / operations.max(1) as f64,
        rate: outcome.operations as f64 / measured_ns * 1e9,
        busy: outcome.server_ns as f64 / measured_ns,
        generator: outcome.generator_ns as f64 / measured_ns,
        others: ((busy_ns - known_ns as f64) / wall_ns).max(0.0),
        steal: steal_ns / wall_ns,
        repeated: outcome.repeated,
    })
}

/// Waits until the server has been idle for longer than the second within which it writes; returns its CPU
/// counter.
fn until_idle(subject: &Subject) -> Result<u64> {
    const STEP: Duration = Duration::from_millis(250);
    const IDLE_STEPS: u32 = 6;
    let mut last = subject.process.cpu_ns()?;
    let mut idle = 0;
    // A backlog that is not written after this time shows in the figure.
    for _ in 0..80 {
        std::thread::sleep(STEP);
        let now = subject.process.cpu_ns()?;
        idle = if u128::from(now - last) * 50 < STEP.as_nanos() { idle + 1 } else { 0 };
        last = now;
        if idle == IDLE_STEPS {
            break;
        }
    }
    Ok(last)
}
