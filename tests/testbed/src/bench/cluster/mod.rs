//! `cargo xtask bench cluster`: servers that share their registrations in Redis.
//!
//! Does: starts Debian's redis-server and nodes of Ringway, each in a network namespace; measures the CPU time of a REGISTER beside a
//! server alone, the time until another node sees it, a start with many registrations, an outage of the store under load, the loss of
//! a node, and the cost of a REGISTER in three nodes beside one.
//!
//! Does not: measure a store on another machine, whose network would add to each time.
//!
//! Start reading at [`run`]; its machines are a [`Site`].

mod cost;
mod faults;
mod node;
mod seen;

use super::machines::Site;
use super::report::{Row, Verdict, add_rows, add_spaced_notes, ensure_met};
use super::{environment, publish};
use anyhow::{Context, Result};
use ringway_lab::machine;
use std::path::Path;
use std::time::Duration;

/// Measures servers that share their registrations in Redis.
///
/// About thirteen minutes. Needs root, for network namespaces.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Registrations in the store when a node starts
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=9_000_000))]
    bindings: u32,
    /// Seconds without the store under load
    #[arg(long, default_value_t = 60)]
    outage_s: u64,
    /// Readings of each CPU time; the table has their median
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only measurements whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Write the table into BENCHMARKS.md
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

/// Measurement on machines of its own.
type Measure<'m> = dyn Fn(&Site<'_>) -> Result<Vec<Row>> + Sync + 'm;

/// Runs the command.
///
/// # Errors
/// A target was missed, or a measurement failed.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let load = machine::load_average();
    eprintln!("{}; load average {load}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path());
    let mut rows = Vec::new();
    let mut add = |what: &str, measure: &Measure<'_>| -> Result<()> {
        if args.only.as_ref().is_some_and(|only| !what.contains(only.as_str())) {
            return Ok(());
        }
        let site = Site::make(&environment)?;
        let measured = site.machines.at_phones(|| measure(&site));
        let measured = measured.unwrap_or_else(|error| vec![Row::failed(what, "", &error)]);
        for row in &measured {
            eprintln!("{}: {} (must reach {}) {}", row.what, row.ringway, row.target, row.note);
        }
        rows.extend(measured);
        Ok(())
    };
    for rate in RATES {
        add("CPU of a REGISTER", &|site| cost::of_registers(site, args.rounds, rate))?;
    }
    add("REGISTER at A seen at B", &seen::at_another)?;
    for rate in CALL_RATES {
        add("call over a link", &|site| cost::of_calls_over_link(site, args.rounds, rate))?;
    }
    add("store away", &|site| faults::of_store(site, Duration::from_secs(args.outage_s)))?;
    add("node lost", &faults::of_node)?;
    add("start", &|site| seen::of_node(site, args.bindings))?;
    let text = render(&rows, args.rounds, [&load, &machine::load_average()]);
    publish(workspace, HEADING, &text, args.write)?;
    ensure_met(&rows)
}

fn render(rows: &[Row], rounds: u32, load: [&str; 2]) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\
         Written by `cargo xtask {}`: redis-server (append-only file, flushed each second), each node and the phones in network \
         namespaces of their own on this machine, joined by a bridge; servers alone too; one worker for each node, no digest.\n\n\
         - CPU times: medians of {rounds} rounds, whose order is reversed each time; of threads, from schedstat. All nodes on one \
         processor, Redis and the phones on the other.\n\
         - machine: {}\n\
         - load average before: {}; after: {}\n\n\
         | what | must reach | ringway | |\n|---|---|---|---|\n",
        command.join(" "),
        machine::description(),
        load[0],
        load[1],
    );
    add_rows(&mut text, rows, Verdict::word);
    add_spaced_notes(&mut text, rows);
    text
}

const HEADING: &str = "## Several servers\n";
/// Users of a load.
const USERS: u32 = 1000;
/// REGISTERs a second at each node.
const RATES: [f64; 2] = [1_000.0, 4_000.0];
/// Calls a second through a node: at the lower rate nearly each message wakes a thread.
const CALL_RATES: [f64; 2] = [200.0, 1_000.0];
