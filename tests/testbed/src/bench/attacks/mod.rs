//! `cargo xtask bench attacks`: attacks on a running server, by callers without a password and by accounts.
//!
//! Does: starts `ringway serve` with authentication and default limits, sends each attack from addresses of
//! 127.0.0.0/8, and compares the server's memory, traffic and answered requests with their bounds.
//!
//! Does not: send anything but loopback traffic. Malformed messages are tested by `cargo xtask fuzz`.
//!
//! Start reading at [`Attack::rows`]; one module for each attack.

mod accounts;
mod dead_dns;
mod memory;
mod reflection;
mod shards;

use super::report::{Row, Verdict, add_notes, add_rows, ensure_met};
use super::{environment, publish};
use anyhow::{Context, Result};
use ringway_lab::machine;
use ringway_lab::subject::Environment;
use std::path::Path;
use std::time::Duration;

/// Attacks a server on loopback and compares memory, traffic and answered requests with their bounds.
///
/// About eight minutes, with `--quick` four. Fails when a bound is missed.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Only these attacks
    #[arg(value_enum)]
    names: Vec<Attack>,
    /// Seconds of the flood of large INVITEs, and, up to 60, of the calls from one address
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Shorter floods
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Write the table into BENCHMARKS.md
    #[arg(long, conflicts_with_all = ["quick", "names"])]
    write: bool,
}

/// An attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Attack {
    /// Large INVITEs to a user with ten silent contacts
    Memory,
    /// Requests to a contact that answers with one Via only
    Leak,
    /// An INVITE to accounts registered at each other
    ForkBomb,
    /// Small INVITEs, many to users that do not exist
    Shards,
    /// Requests whose source address may be forged
    Reflection,
    /// Calls to names whose DNS server never answers
    DeadDns,
    /// More calls from one address than its rate permits, and what ends the calls that are admitted
    Ends,
}

/// Durations of a run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Flood of large INVITEs.
    memory: Duration,
    /// Flood of requests to the contact that answers with one Via.
    leak: Duration,
    /// Time from the INVITE to the count of datagrams.
    fork_bomb: Duration,
    /// Flood of small INVITEs.
    shards: Duration,
    /// Calls to names whose DNS server is silent.
    dead_dns: Duration,
    /// Calls from one address.
    ends: Duration,
}

/// Runs the command.
///
/// # Errors
/// A bound was missed, or a measurement failed.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let load = machine::load_average();
    eprintln!("{}; load average {load}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path());
    let plan = Plan::new(args);
    let chosen = if args.names.is_empty() { Attack::ALL.to_vec() } else { args.names.clone() };
    let mut rows = Vec::new();
    for attack in chosen {
        let measured = attack.rows(&environment, plan);
        let measured =
            measured.unwrap_or_else(|error| vec![Row::failed(attack.name(), "to be measured", &error)]);
        for row in &measured {
            eprintln!(
                "{}: {}: {} (must reach {})",
                row.verdict.word_in_capitals(),
                row.what,
                row.ringway,
                row.target
            );
            if !row.note.is_empty() {
                eprintln!("  {}", row.note);
            }
        }
        rows.extend(measured);
    }
    let section = render(&rows, [&load, &machine::load_average()]);
    publish(workspace, HEADING, &section, args.write)?;
    ensure_met(&rows)
}

impl Attack {
    const ALL: [Self; 7] =
        [Self::Memory, Self::Leak, Self::ForkBomb, Self::Shards, Self::Reflection, Self::DeadDns, Self::Ends];

    /// Runs the attack against its own server.
    fn rows(self, environment: &Environment, plan: Plan) -> Result<Vec<Row>> {
        match self {
            Self::Memory => memory::rows(environment, plan.memory),
            Self::Leak => memory::of_leak(environment, plan.leak),
            Self::ForkBomb => accounts::rows(environment, plan.fork_bomb),
            Self::Shards => shards::rows(environment, plan.shards),
            Self::Reflection => reflection::rows(environment),
            Self::DeadDns => dead_dns::rows(environment, plan.dead_dns),
            Self::Ends => accounts::of_ends(environment, plan.ends),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Leak => "leak",
            Self::ForkBomb => "fork-bomb",
            Self::Shards => "shards",
            Self::Reflection => "reflection",
            Self::DeadDns => "dead-dns",
            Self::Ends => "ends",
        }
    }
}

impl Plan {
    fn new(args: &Args) -> Self {
        let seconds = Duration::from_secs;
        if args.quick {
            return Self {
                memory: seconds(10),
                leak: seconds(3),
                fork_bomb: seconds(4),
                shards: seconds(8),
                dead_dns: seconds(10),
                ends: seconds(5),
            };
        }
        Self {
            memory: seconds(args.seconds),
            leak: seconds(5),
            fork_bomb: seconds(12),
            shards: seconds(20),
            dead_dns: seconds(30),
            ends: seconds(args.seconds.min(60)),
        }
    }
}

/// The section of BENCHMARKS.md.
fn render(rows: &[Row], load: [&str; 2]) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\n\
         Written by `cargo xtask {}`; every figure below was measured in that one run.\n\n\
         - `ringway serve` with authentication on, default limits, two workers and SQLite, alone on one processor; the \
         attackers and all phones on the other. Each attack has a server of its own.\n\
         - The attackers have no password, one address of 127.0.1.0/24 each, and stay below `limits.per_source_rate`, but for the calls from one address.\n\
         - machine: {}\n\
         - load average before: {}; after: {}\n\n\
         | what | must reach | ringway | |\n|---|---|---|---|\n",
        command.join(" "),
        machine::description(),
        load[0],
        load[1],
    );
    add_rows(&mut text, rows, Verdict::word_in_capitals);
    add_notes(&mut text, rows);
    text
}

/// Heading of the section.
const HEADING: &str = "## Under attack\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_has_a_line_for_each_row_and_its_notes() {
        let mut missed = Row::single("resident", "≤ 256 MB", "300 MB".to_owned(), false);
        missed.note = "resident: at 7 s".to_owned();
        let rows = [missed, Row::failed("leak", "0", &anyhow::anyhow!("no ready line"))];
        let text = render(&rows, ["0", "1"]);
        assert!(text.starts_with(HEADING));
        assert!(text.contains("| resident | ≤ 256 MB | 300 MB | **MISSED** |\n"), "{text}");
        assert!(text.contains("| leak | 0 | not measured | **FAILED** |\n"), "{text}");
        assert!(text.ends_with("\n- resident: at 7 s\n- leak: no ready line\n"), "{text}");
    }
}
