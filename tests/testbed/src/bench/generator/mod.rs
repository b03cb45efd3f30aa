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
mod memory;
mod peak;
mod readings;
mod table;

use super::{Disturbance, environment, publish};
use crate::bench::report::Verdict;
use anyhow::{Context, Result, bail};
use readings::{Contestant, Field, Point};
use ringway_lab::load::Flow;
use ringway_lab::machine;
use ringway_lab::sys::{REAL_TIME_PRIORITY, set_real_time};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use table::Row;

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
    let environment = environment(folder.path())?;
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
    let section = table::render(&rows, amount, is_real_time, &load, disturbance.percent());
    publish(workspace, table::HEADING, &section, args.write)?;
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
            Self::Memory => memory::rows(),
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
    table::compared(kind, rate, &readings)
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

/// Host of all sockets.
const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
