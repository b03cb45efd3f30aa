//! `cargo xtask bench phone`: CPU time and packet timing of the phone.
//!
//! Does: measures each row in turn, and prints the phone's table or writes it into BENCHMARKS.md after the
//! server's.
//!
//! Does not: measure the server; those rows are `cargo xtask bench` without a name.
//!
//! Start reading at [`rows`]; a new measurement is a module here and a line there.

mod call;
mod setup;
mod srtp;

use super::report::Verdict;
use super::{environment, publish};
use anyhow::{Context, Result, bail};
use ringway_lab::machine;
use ringway_lab::subject::Environment;
use std::fmt::Write as _;
use std::path::Path;

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
    let environment = environment(folder.path());
    let rows = rows(args, &environment);
    let circumstances = Circumstances {
        command: format!("cargo xtask {}", std::env::args().skip(1).collect::<Vec<_>>().join(" ")),
        load: [load, machine::load_average()],
    };
    let section = render(&rows, &circumstances);
    publish(workspace, HEADING, &section, args.write)?;
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

/// Heading of the section.
const HEADING: &str = "## The phone\n";

/// One line of the table.
#[derive(Clone, Debug)]
struct PhoneRow {
    what: String,
    /// Target, as text.
    target: String,
    /// Result of another implementation in the same run; empty if there is none.
    beside: String,
    ringway: String,
    verdict: Verdict,
    /// Notes below the table.
    notes: Vec<String>,
}

impl PhoneRow {
    /// A row whose measurement failed.
    fn failed(what: &str, target: &str, error: &anyhow::Error) -> Self {
        Self {
            what: what.to_owned(),
            target: target.to_owned(),
            beside: String::new(),
            ringway: "not measured".to_owned(),
            verdict: Verdict::Failed,
            notes: vec![format!("{what}: {error:#}")],
        }
    }
}

/// Circumstances of the run.
struct Circumstances {
    /// The command line.
    command: String,
    /// Load averages before and after.
    load: [String; 2],
}

/// Renders the section.
fn render(rows: &[PhoneRow], circumstances: &Circumstances) -> String {
    let mut text = format!(
        "{HEADING}\n\
         Written by `{}`; every figure below was measured in that one run.\n\n\
         - CPU time of the thread that does it (`CLOCK_THREAD_CPUTIME_ID`); medians, and in brackets the range of the \
         middle half of the readings; allocations as its allocator counts them.\n\
         - libsrtp2: the one that is installed, and whose ciphers it was built with; `LD_LIBRARY_PATH` names another \
         build.\n\
         - machine: {}\n\
         - load average before: {}; after: {}\n\n\
         | what | must reach | beside it | ringway | |\n|---|---|---|---|---|\n",
        circumstances.command,
        machine::description(),
        circumstances.load[0],
        circumstances.load[1],
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            row.what, row.target, row.beside, row.ringway, row.verdict
        );
    }
    let mut notes = rows.iter().flat_map(|row| &row.notes).peekable();
    if notes.peek().is_some() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_row_has_its_error() {
        let circumstances =
            Circumstances { command: "cargo xtask bench phone".into(), load: ["0".into(), "1".into()] };
        let rows = [PhoneRow::failed("protect", "≤ 330 ns", &anyhow::anyhow!("no key"))];
        let text = render(&rows, &circumstances);
        assert!(text.contains("| protect | ≤ 330 ns |  | not measured | **failed** |"), "{text}");
        assert!(text.ends_with("- protect: no key\n"), "{text}");
    }
}
