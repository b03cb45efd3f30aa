//! Readings: the same operation on several servers in turn, so that disturbances affect all of them.

use crate::machine::{self, Ticks};
use crate::operation::Operation;
use crate::saturation::{Ballast, RUNNABLE_MIN};
use crate::statistics::{interleaved, median};
use crate::subject::{Extent, Outcome, Subject};
use anyhow::{Result, anyhow};
use rustix::time::ClockId;
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

/// Largest share of retransmitted messages in a valid reading.
const RETRANSMITTED_MAX: f64 = 0.01;

/// Time of a run before each reading, which is not counted.
const RUN_UP: Duration = Duration::from_millis(300);

/// Result of one measurement.
#[derive(Clone, Debug)]
pub struct Reading {
    /// CPU time of the server per operation, in microseconds.
    pub us: f64,
    /// Operations per second of wall time.
    pub rate: f64,
    /// Share of the time in which the server's busiest thread ran or waited for its processor.
    pub runnable: f64,
    /// Share of its processor that the server used; the ballast used the rest.
    pub busy: f64,
    /// Share of its processor that the generator used.
    pub generator: f64,
    /// Share of a processor used by other programs.
    pub others: f64,
    /// Share of a processor that the hypervisor took.
    pub steal: f64,
    /// Retransmissions for each operation.
    pub retransmitted: f64,
    /// Reason for which the reading does not count.
    pub fault: Option<String>,
}

/// All readings of one server, of which at least one counts.
#[derive(Clone, Debug, Default)]
pub struct Readings(Vec<Reading>);

impl Readings {
    /// Median CPU time per operation in microseconds.
    pub fn us(&self) -> f64 {
        median(self.valid().map(|reading| reading.us))
    }

    /// Smallest and largest CPU time per operation.
    pub fn range(&self) -> (f64, f64) {
        self.valid().fold((f64::INFINITY, 0.0), |(low, high), reading| {
            (f64::min(low, reading.us), f64::max(high, reading.us))
        })
    }

    /// Proof that the server was saturated: the smallest share of a reading in which its busiest thread was runnable, the
    /// largest share of retransmissions, and the number of readings that do not count.
    pub fn proof(&self) -> String {
        let smallest = self.valid().fold(f64::INFINITY, |least, reading| f64::min(least, reading.runnable));
        let repeated = self.valid().fold(0.0, |most, reading| f64::max(most, reading.retransmitted));
        let mut text =
            format!("runnable {:.1} %, retransmissions {:.2} %", 100.0 * smallest, 100.0 * repeated);
        let invalid = self.0.len() - self.valid().count();
        if invalid > 0 {
            text.push_str(&format!(", {invalid} of {} readings not valid", self.0.len()));
        }
        text
    }

    fn valid(&self) -> impl Iterator<Item = &Reading> {
        self.0.iter().filter(|reading| reading.fault.is_none())
    }

    /// The readings.
    ///
    /// # Errors
    /// None of them counts.
    fn checked(self) -> Result<Self> {
        match self.0.iter().find_map(|reading| reading.fault.as_ref()) {
            Some(fault) if self.valid().count() == 0 => {
                Err(anyhow!("none of {} readings is valid: {fault}", self.0.len()))
            }
            Some(_) | None => Ok(self),
        }
    }

    /// Summary for the log of a run.
    pub fn describe(&self) -> String {
        let (low, high) = self.range();
        let middle = |value: fn(&Reading) -> f64| median(self.0.iter().map(value));
        let largest = |value: fn(&Reading) -> f64| self.0.iter().map(value).fold(0.0, f64::max);
        format!(
            "{:.2} µs ({low:.2}-{high:.2}), {:.0}/s, {}, server {:.0} %, generator {:.0} %, others {:.0} %, steal {:.1} %",
            self.us(),
            middle(|reading| reading.rate),
            self.proof(),
            100.0 * middle(|reading| reading.busy),
            100.0 * middle(|reading| reading.generator),
            100.0 * largest(|reading| reading.others),
            100.0 * largest(|reading| reading.steal),
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
            Ok(reading) => {
                if let Some(fault) = &reading.fault {
                    eprintln!(
                        "  {:<9} a reading of {:.2} µs does not count: {fault}",
                        contestant.name, reading.us
                    );
                }
                readings.0.push(reading);
            }
            Err(error) => *result = Err(error),
        }
    }
    let results: Vec<Result<Readings>> = results.into_iter().map(|result| result?.checked()).collect();
    for (contestant, result) in contestants.iter().zip(&results) {
        match result {
            Ok(readings) => eprintln!("  {:<9} {}", contestant.name, readings.describe()),
            Err(error) => eprintln!("  {:<9} failed: {error:#}", contestant.name),
        }
    }
    results
}

fn read(subject: &mut Subject, operation: Operation, plan: Plan) -> Result<Reading> {
    let ballast = Ballast::start()?;
    subject.run(operation, Extent::Time(RUN_UP))?;
    let before = (Instant::now(), Ticks::now(), subject.process.cpu_ns()?, own_ns());
    let outcome = subject.run(operation, Extent::Time(plan.measured))?;
    drop(ballast);
    let charged_ns = match plan.counting {
        Counting::Saturated => outcome.server_ns,
        Counting::UntilIdle => until_idle(subject)?.saturating_sub(before.2),
    };
    let wall_ns = before.0.elapsed().as_nanos() as f64;
    let ticks = Ticks::now();
    let known_ns = subject.process.cpu_ns()?.saturating_sub(before.2) + own_ns().saturating_sub(before.3);
    let busy_ns = (ticks.busy.saturating_sub(before.1.busy) * Ticks::ns()) as f64;
    let steal_ns = (ticks.steal.saturating_sub(before.1.steal) * Ticks::ns()) as f64;
    let measured_ns = plan.measured.as_nanos().max(1) as f64;
    let operations = outcome.operations.max(1) as f64;
    let saturation = outcome.saturation;
    Ok(Reading {
        us: charged_ns as f64 / 1000.0 / operations,
        rate: outcome.operations as f64 / measured_ns * 1e9,
        runnable: saturation.map_or(0.0, |saturation| saturation.runnable),
        busy: saturation.map_or(0.0, |saturation| saturation.cpu),
        generator: outcome.generator,
        others: ((busy_ns - known_ns as f64) / wall_ns).max(0.0),
        steal: steal_ns / wall_ns,
        retransmitted: outcome.retransmissions as f64 / operations,
        fault: fault(&outcome),
    })
}

/// CPU time of this process: generator and ballast.
fn own_ns() -> u64 {
    machine::clock_ns(ClockId::ProcessCPUTime)
}

/// Reason for which a reading does not count.
fn fault(outcome: &Outcome) -> Option<String> {
    let Some(saturation) = outcome.saturation else {
        return Some("it was too short to show that the server was saturated".to_owned());
    };
    if saturation.runnable < RUNNABLE_MIN {
        return Some(format!(
            "the server slept for {:.0} % of the time: it was not saturated",
            100.0 * (1.0 - saturation.runnable)
        ));
    }
    let share = outcome.retransmissions as f64 / outcome.operations.max(1) as f64;
    (share > RETRANSMITTED_MAX)
        .then(|| format!("{:.1} % of the operations had a retransmission", 100.0 * share))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saturation::Saturation;

    fn outcome(runnable: f64, retransmissions: u64) -> Outcome {
        Outcome {
            operations: 1000,
            server_ns: 5_000_000,
            generator: 0.7,
            retransmissions,
            saturation: Some(Saturation { runnable, cpu: 0.25 }),
        }
    }

    fn reading(us: f64, fault: Option<String>) -> Reading {
        Reading {
            us,
            rate: 0.0,
            runnable: 0.99,
            busy: 0.25,
            generator: 1.0,
            others: 0.0,
            steal: 0.0,
            retransmitted: 0.0,
            fault,
        }
    }

    #[test]
    fn a_reading_counts_if_the_server_did_not_sleep_and_nothing_was_lost() {
        assert_eq!(fault(&outcome(0.96, 10)), None);
        assert!(fault(&outcome(0.94, 0)).is_some_and(|fault| fault.contains("slept for 6 %")));
        assert!(fault(&outcome(0.96, 11)).is_some_and(|fault| fault.contains("1.1 %")));
        assert!(fault(&Outcome { saturation: None, ..outcome(1.0, 0) }).is_some());
    }

    #[test]
    fn readings_that_do_not_count_are_named_and_left_out() {
        let bad = || reading(9.0, Some("it slept".to_owned()));
        let readings = Readings(vec![reading(4.0, None), bad(), reading(6.0, None)]).checked().unwrap();
        assert_eq!((readings.us(), readings.range()), (5.0, (4.0, 6.0)));
        assert_eq!(readings.proof(), "runnable 99.0 %, retransmissions 0.00 %, 1 of 3 readings not valid");
        let none = Readings(vec![bad(), bad()]).checked().unwrap_err().to_string();
        assert_eq!(none, "none of 2 readings is valid: it slept");
    }
}
