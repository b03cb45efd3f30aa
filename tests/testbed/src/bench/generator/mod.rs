//! `cargo xtask bench generator`: cost of the load generator, beside a bare loop of the same packets and SIPp.
//!
//! Does: plays the same load with each of them in turn against the same peer, on one processor, and compares their CPU time;
//! searches the generator's peak and reads its lag at half of it; counts its bytes for each user. Prints the table or writes it
//! into BENCHMARKS.md.
//!
//! Does not: measure servers.
//!
//! Start reading at [`run`]; the loads are in [`readings`].

mod bare;
mod peak;
mod readings;

use super::{Disturbance, environment, publish};
use crate::bench::report::Verdict;
use anyhow::{Context, Result, bail};
use readings::{Contestant, Field, Point};
use ringway_lab::load::Flow;
use ringway_lab::machine;
use ringway_lab::statistics::median;
use ringway_lab::sys::{REAL_TIME_PRIORITY, set_real_time};
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// Measures the CPU time of the load generator for a registration and a call, beside a bare loop and SIPp.
///
/// About three minutes, with `--quick` one. Fails when a measurement fails; a missed target is reported in the table.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Only this row; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<RowName>,
    /// Short run: one reading of a second in place of three of two
    #[arg(long)]
    quick: bool,
    /// Write the table into BENCHMARKS.md
    #[arg(long, conflicts_with_all = ["quick", "only"])]
    write: bool,
}

/// Row by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum RowName {
    /// Registrations at 3,000 and 20,000 a second
    Register,
    /// Calls, both sides, at 700 and 3,000 a second
    Call,
    /// Lag at half of the peak
    Lag,
    /// Bytes for each user and each open attempt
    Memory,
}

/// Kind of attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// REGISTER, 200.
    Register,
    /// INVITE, 100, 180, 200, ACK, BYE, 200, both sides.
    Call,
}

impl Kind {
    const fn flow(self) -> Flow {
        match self {
            Self::Register => Flow::Register,
            Self::Call => Flow::Call,
        }
    }
}

/// Result of one load.
#[derive(Clone, Copy, Debug)]
struct Reading {
    cpu_ns: f64,
    attempts: u64,
    /// Successful attempts.
    ended: u64,
    lag_p99: Duration,
}

/// Number and length of the readings.
#[derive(Clone, Copy, Debug)]
struct Amount {
    rounds: u32,
    seconds: u32,
}

/// Runs the command.
///
/// # Errors
/// A measurement failed; a missed target is not an error.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let (before, disturbance) = (machine::load_average(), Disturbance::start());
    eprintln!("{}; load average {before}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path());
    let amount = if args.quick { Amount { rounds: 1, seconds: 1 } } else { Amount { rounds: 3, seconds: 2 } };
    // The threads and processes that are started inherit it, so that other programs do not delay them.
    let is_real_time = set_real_time(REAL_TIME_PRIORITY).is_ok();
    let mut field = Field::start(&environment)?;
    let mut rows = Vec::new();
    for name in RowName::ALL {
        if args.only.is_empty() || args.only.contains(&name) {
            rows.extend(name.rows(&mut field, amount));
        }
    }
    let load = [before, machine::load_average()];
    let section = render(&rows, amount, is_real_time, &load, disturbance.percent());
    publish(workspace, HEADING, &section, args.write)?;
    match rows.iter().filter(|row| row.verdict == Verdict::Failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} rows could not be measured"),
    }
}

impl RowName {
    const ALL: [Self; 4] = [Self::Register, Self::Call, Self::Lag, Self::Memory];

    fn rows(self, field: &mut Field, amount: Amount) -> Vec<Row> {
        match self {
            Self::Register => [3000, 20_000].map(|rate| compared(field, Kind::Register, rate, amount)).into(),
            Self::Call => [700, 3000].map(|rate| compared(field, Kind::Call, rate, amount)).into(),
            Self::Lag => [Kind::Register, Kind::Call].map(|kind| peak::row(field, kind)).into(),
            Self::Memory => peak::of_memory(),
        }
    }
}

/// Plays the load with all contestants in turn.
fn compared(field: &mut Field, kind: Kind, rate: u32, amount: Amount) -> Row {
    let point = Point { kind, rate, attempts: rate * amount.seconds };
    eprintln!("{kind:?} at {rate}/s");
    let mut readings = [Contestant::Bare, Contestant::Generator, Contestant::Sipp].map(|_| Vec::new());
    for round in 1..=amount.rounds {
        for (contestant, taken) in
            [Contestant::Bare, Contestant::Generator, Contestant::Sipp].into_iter().zip(&mut readings)
        {
            match field.reading(contestant, point) {
                Ok(reading) => {
                    eprintln!(
                        "  round {round} of {}: {contestant:?} {:.2} µs, {} of {} successful, lag p99 {:?}",
                        amount.rounds,
                        reading.us(),
                        reading.ended,
                        reading.attempts,
                        reading.lag_p99
                    );
                    taken.push(reading);
                }
                Err(error) => return Row::failed(&format!("{kind:?} at {rate}/s"), &error),
            }
        }
    }
    compared_row(kind, rate, &readings)
}

impl Reading {
    /// CPU time for one attempt in microseconds.
    fn us(&self) -> f64 {
        self.cpu_ns / 1000.0 / self.attempts as f64
    }

    /// True if nearly all attempts were successful.
    fn counts(&self) -> bool {
        self.ended * 100 >= self.attempts * 99
    }
}

/// Heading of the section.
const HEADING: &str = "## The load generator\n";

/// Maximum multiple of the bare loop's CPU time.
const BARES_MAX: f64 = 1.5;

/// A row of the table.
struct Row {
    what: String,
    target: String,
    bare: String,
    sipp: String,
    generator: String,
    verdict: Verdict,
}

impl Row {
    /// A row whose measurement failed.
    fn failed(what: &str, error: &anyhow::Error) -> Self {
        let row = Self::single(what, "", format!("{error:#}"), false);
        Self { verdict: Verdict::Failed, ..row }
    }

    /// A row without comparison.
    fn single(what: &str, target: &str, generator: String, met: bool) -> Self {
        Self {
            what: what.to_owned(),
            target: target.to_owned(),
            bare: String::new(),
            sipp: String::new(),
            generator,
            verdict: if met { Verdict::Met } else { Verdict::Missed },
        }
    }
}

impl Kind {
    /// Name in the table.
    const fn words(self) -> &'static str {
        match self {
            Self::Register => "REGISTER",
            Self::Call => "call, both sides",
        }
    }
}

/// Row of the CPU times of bare loop, generator and SIPp.
fn compared_row(kind: Kind, rate: u32, readings: &[Vec<Reading>; 3]) -> Row {
    let [bare, generator, sipp] = readings;
    let us = |readings: &[Reading]| median(readings.iter().filter(|one| one.counts()).map(Reading::us));
    let (bare_us, generator_us, sipp_us) = (us(bare), us(generator), us(sipp));
    let bares = generator_us / bare_us;
    let row = Row::single(
        &format!("CPU for a {} at {rate}/s", kind.words()),
        &format!("≤ {BARES_MAX} × bare"),
        format!("{}, {bares:.2} × bare", cell(generator)),
        bares <= BARES_MAX,
    );
    Row {
        bare: cell(bare),
        sipp: format!("{}, {:.1} × generator", cell(sipp), sipp_us / generator_us),
        ..row
    }
}

fn cell(readings: &[Reading]) -> String {
    let valid = || readings.iter().filter(|one| one.counts()).map(Reading::us);
    let (low, high) =
        valid().fold((f64::INFINITY, 0.0), |(low, high), us| (f64::min(low, us), f64::max(high, us)));
    format!("{:.2} µs ({low:.2}-{high:.2})", median(valid()))
}

/// Renders the section.
fn render(
    rows: &[Row],
    amount: Amount,
    is_real_time: bool,
    load: &[String; 2],
    [others, steal]: [f64; 2],
) -> String {
    let priority = if is_real_time { "real-time priority" } else { "ordinary priority" };
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\n\
         Written by `cargo xtask {}`; every figure below was measured in that one run.\n\n\
         - CPU time of the load's own thread (SIPp: of its processes, without start and end) for one attempt, all kernel work of its \
         system calls included. Medians of {} readings of {} s (smallest and largest in brackets), all three in turn. A reading \
         with more than 1 % of failures does not count.\n\
         - Peer: a process on the other processor that answers or relays without looking up anything. Equal intervals between \
         starts; calls ring for 50 ms and last 50 ms. Everything runs with {priority}.\n\
         - Bare loop and generator wait alike: each packet and each start wakes them, unless they are awake; at 3,000/s nearly all do. \
         SIPp wakes up once a millisecond, and starts up to a millisecond late.\n\
         - **bare**: a loop that sends copies of the generator's own packets at the same times with the same system calls, and \
         recognises a response by a letter and its length: no SIP, no state, no retransmission.\n\
         - machine: {}\n\
         - load average before: {}; after: {}; other programs used {others:.0} % of a processor, the hypervisor took \
         {steal:.2} %\n\n\
         | what | must reach | bare | SIPp | generator | |\n|---|---|---|---|---|---|\n",
        command.join(" "),
        amount.rounds,
        amount.seconds,
        machine::description(),
        load[0],
        load[1],
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.what, row.target, row.bare, row.sipp, row.generator, row.verdict
        );
    }
    text
}

/// Host of all sockets.
const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_multiple_of_the_bare_loop_decides() {
        let reading =
            |us: f64, ended| Reading { cpu_ns: us * 1e5, attempts: 100, ended, lag_p99: Duration::ZERO };
        let of = |generator| {
            compared_row(Kind::Call, 700, &[vec![reading(10.0, 100)], generator, vec![reading(300.0, 100)]])
        };
        assert_eq!(of(vec![reading(15.0, 100), reading(90.0, 98), reading(15.0, 99)]).verdict, Verdict::Met);
        assert_eq!(of(vec![reading(15.1, 100)]).verdict, Verdict::Missed);
        assert_eq!(of(vec![reading(10.0, 98)]).verdict, Verdict::Missed);
        assert!(of(vec![reading(15.0, 100)]).sipp.ends_with("20.0 × generator"));
    }
}
