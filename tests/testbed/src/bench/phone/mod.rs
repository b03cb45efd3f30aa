//! `cargo xtask bench phone`: CPU time and packet timing of the phone.
//!
//! Does: measures each row in turn, and prints the phone's table or writes it into BENCHMARKS.md after the
//! server's.
//!
//! Does not: measure the server; those rows are `cargo xtask bench` without a name.
//!
//! Start reading at [`rows`]; a new measurement is a module here and a line there.

mod call;
mod handset;
mod setup;
mod srtp;
mod table;

use super::report::Verdict;
use super::{environment, publish};
use anyhow::{Context, Result, bail};
use ringway_lab::machine;
use ringway_lab::subject::Environment;
use std::path::Path;
use table::PhoneRow;

/// Measures the phone.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Short run: a tenth of the packets
    #[arg(long)]
    quick: bool,
    /// Write the phone's table into BENCHMARKS.md
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

/// Runs the command.
///
/// # Errors
/// A measurement failed; a missed target is not an error.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let load = machine::load_average();
    eprintln!("{}; load average {load}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path())?;
    let rows = rows(args, &environment);
    let circumstances = table::Circumstances {
        command: format!("cargo xtask {}", std::env::args().skip(1).collect::<Vec<_>>().join(" ")),
        load: [load, machine::load_average()],
    };
    let section = table::render(&rows, &circumstances);
    publish(workspace, table::HEADING, &section, args.write)?;
    for row in rows.iter().filter(|row| row.verdict == Verdict::Missed) {
        eprintln!("missed: {} ({}, must reach {})", row.what, row.ringway, row.target);
    }
    match rows.iter().filter(|row| row.verdict == Verdict::Failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} rows could not be measured; the list below the table says why"),
    }
}

/// All rows, in the order of the table.
fn rows(args: &Args, environment: &Environment) -> Vec<PhoneRow> {
    let (batches, packets, calls) = if args.quick { (200, 1000, 5) } else { (2000, 10_000, 30) };
    let mut rows = srtp::rows(batches);
    rows.extend(call::rows(&environment.ringway, packets));
    rows.push(setup::row(&environment.ringway, &environment.folder, calls));
    rows
}
