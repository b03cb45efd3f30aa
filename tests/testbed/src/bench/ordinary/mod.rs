//! `cargo xtask bench ordinary`: CPU time of the whole server at ordinary rates, where every message wakes a thread.
//!
//! Does: loads a bare blocking echo, Kamailio and Ringway in turn with the load generator at the same rate, Ringway also with
//! SIPp as a cross-check; measures the delay of answers at several rates, and prints the table or writes it into BENCHMARKS.md.
//!
//! Does not: saturate a server; those rows are `cargo xtask bench` without a name.
//!
//! Start reading at [`RowName::rows`]; the load is in [`load`].

mod delay;
mod generator;
mod load;
mod point;
mod sipp;
mod table;

use super::report::{Row, Verdict};
use super::{Disturbance, environment, publish};
use anyhow::{Context, Result, bail};
use load::Side;
use point::{Point, Traffic};
use ringway_lab::machine;
use ringway_lab::server::Carrier;
use ringway_lab::subject::{Environment, Routing};
use std::path::Path;

/// Measures the CPU time of the whole server at ordinary rates, beside Kamailio and a bare echo, and with SIPp as load.
///
/// About six minutes, with `--quick` three. Fails when a measurement fails; a missed target is reported in the
/// table.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Only this row; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<RowName>,
    /// Readings of each server; the table has their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Readings of one second instead of two
    #[arg(long)]
    quick: bool,
    /// Write the table into BENCHMARKS.md
    #[arg(long, conflicts_with_all = ["quick", "only"])]
    write: bool,
}

/// Row by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum RowName {
    /// REGISTER over UDP, also with `memory:` instead of SQLite
    Register,
    /// REGISTER over an established TCP connection
    RegisterTcp,
    /// REGISTER with digest: 401 and retry
    RegisterDigest,
    /// Call through the stateless proxy
    CallStateless,
    /// Call through the stateful proxy
    CallStateful,
    /// The same over TCP
    CallTcp,
    /// Delay of answers at four rates
    Delay,
}

/// Number and length of the readings.
#[derive(Clone, Copy, Debug)]
struct Plan {
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
    let plan = Plan { rounds: args.rounds, seconds: if args.quick { 1 } else { 2 } };
    let chosen = if args.only.is_empty() { RowName::ALL.to_vec() } else { args.only.clone() };
    let rows: Vec<Row> = chosen.iter().flat_map(|name| name.rows(&environment, plan)).collect();
    let section = table::render(&rows, plan, [&before, &machine::load_average()], disturbance.percent());
    publish(workspace, table::HEADING, &section, args.write)?;
    match rows.iter().filter(|row| row.verdict == Verdict::Failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} rows could not be measured; the list below the table says why"),
    }
}

impl RowName {
    const ALL: [Self; 7] = [
        Self::Register,
        Self::RegisterTcp,
        Self::RegisterDigest,
        Self::CallStateless,
        Self::CallStateful,
        Self::CallTcp,
        Self::Delay,
    ];

    /// Measures the row and that of the cross-check with SIPp; `register` has another one for the store.
    fn rows(self, environment: &Environment, plan: Plan) -> Vec<Row> {
        match self.point() {
            None => delay::rows(environment, plan),
            Some(point) => {
                let mut sides = vec![
                    Side::Echo,
                    Side::Kamailio,
                    Side::Ringway,
                    Side::RingwayInTicks,
                    Side::RingwayBySipp,
                ];
                sides.extend((self == Self::Register).then_some(Side::RingwayInMemory));
                table::rows(&point, &load::measure(environment, &point, &sides, plan))
            }
        }
    }

    /// The offered load; `None` for the delay.
    fn point(self) -> Option<Point> {
        let (what, traffic, rate) = match self {
            Self::Register => ("REGISTER refresh over UDP", Traffic::Register, 3000),
            Self::RegisterTcp => ("REGISTER refresh over one TCP connection", Traffic::Register, 2500),
            Self::RegisterDigest => {
                ("REGISTER refresh with digest MD5 (401 and retry)", Traffic::RegisterPair, 1500)
            }
            Self::CallStateless => ("stateless call over UDP", Traffic::Call, 700),
            Self::CallStateful => ("stateful call over UDP", Traffic::Call, 700),
            Self::CallTcp => ("stateful call over TCP", Traffic::Call, 600),
            Self::Delay => return None,
        };
        let carrier = match self {
            Self::RegisterTcp | Self::CallTcp => Carrier::Tcp,
            _ => Carrier::Udp,
        };
        let routing = if self == Self::CallStateless { Routing::Stateless } else { Routing::Stateful };
        Some(Point { what, traffic, rate, carrier, routing })
    }
}
