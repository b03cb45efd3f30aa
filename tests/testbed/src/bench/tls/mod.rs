//! `cargo xtask bench tls`: CPU time of Ringway's operations over TLS, beside TCP, UDP and Kamailio over TLS.
//!
//! Does: plays the same load over each transport in turn, on one server after another, at a fixed rate (`load.rs`) and on a
//! saturated server (`saturated.rs`); measures handshakes in memory, idle connections, and a flood of handshakes. Prints the table or writes it into BENCHMARKS.md.
//!
//! Does not: measure OpenSSL's suites (`tls_engines.rs`).
//!
//! Start reading at [`run`].

mod flood;
mod idle;
mod load;
mod rows;
mod saturated;
mod servers;

use super::report::{Row, Verdict};
use super::{Disturbance, publish};
use anyhow::{Context, Result, bail};
use load::SECONDS;
use ringway_lab::machine;
use servers::Servers;
use std::path::Path;

/// Measures operations over TLS at fixed rates and on a saturated server, beside TCP, UDP and Kamailio.
///
/// About eight minutes. Fails when a measurement fails; a missed target is reported in the table.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Only these rows
    #[arg(value_enum)]
    names: Vec<RowName>,
    /// Short run: one reading in place of five
    #[arg(long)]
    quick: bool,
    /// Write the table of all rows into BENCHMARKS.md
    #[arg(long, conflicts_with_all = ["quick", "names"])]
    write: bool,
}

/// Rows by their name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum RowName {
    /// Idle connections: memory, CPU time, and calls beside them
    Idle,
    /// REGISTER over established connections
    Refresh,
    /// New connection and REGISTER
    New,
    /// Call over one connection of each side
    Chain,
    /// Call with a connection of each user
    Local,
    /// Calls beside a flood of handshakes
    Flood,
}

const HEADING: &str = "## TLS";
/// Runs the command.
///
/// # Errors
/// A measurement failed; a missed target is not an error.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let (before, disturbance) = (machine::load_average(), Disturbance::start());
    eprintln!("{}; load average {before}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let rounds = if args.quick { 1 } else { 5 };
    let rows = Bench { servers: Servers::start(folder.path())?, rounds }.rows(&args.names);
    let [others, steal] = disturbance.percent();
    let section = render(&rows, rounds, [&before, &machine::load_average()], [others, steal]);
    publish(workspace, HEADING, &section, args.write)?;
    match rows.iter().filter(|row| row.verdict == Verdict::Failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} rows could not be measured; the list below the table says why"),
    }
}

/// Everything that the rows need.
struct Bench {
    servers: Servers,
    rounds: u32,
}

impl Bench {
    /// Measures the selected rows; all if there are no names.
    fn rows(&self, names: &[RowName]) -> Vec<Row> {
        let wants = |name| names.is_empty() || names.contains(&name);
        let mut made = Vec::new();
        // First, while the server has no freed memory to use again.
        if wants(RowName::Idle) {
            made.extend(idle::rows(&self.servers, self.rounds));
        }
        if wants(RowName::Refresh) {
            made.extend(self.refresh());
        }
        if wants(RowName::New) {
            made.extend(rows::NEW.iter().flat_map(|kind| self.new_connection(kind)));
        }
        if wants(RowName::Chain) {
            made.push(self.chain());
        }
        if wants(RowName::Local) {
            made.extend([self.local_rsa(), self.local_mutual()].into_iter().flatten());
        }
        if wants(RowName::Flood) {
            made.push(flood::row(&self.servers, self.rounds));
        }
        made
    }
}

fn render(rows: &[Row], rounds: u32, load: [&str; 2], [others, steal]: [f64; 2]) -> String {
    let mut text = format!(
        "{HEADING}\n\
         Written by `cargo xtask bench tls --write`; every figure below was measured in that one run.\n\n\
         - CPU time of the whole server with all its threads for one operation; medians of {rounds} readings, all loads of a row in \
         turn. Load: the generator of `ringway lab load`; server on one processor, generator on the other. A reading in which \
         sessions were not resumed does not count where they should be.\n\
         - **at N/s**: open loop, readings of {SECONDS} s; calls ring for 50 ms and last 50 ms. The server sleeps between the messages: \
         waking up, and code and data that have left the caches meanwhile, are in the figure.\n\
         - **saturated**: closed loop, readings of {:.0} s after a run-up; a ballast takes most of the server's processor, and a reading \
         in which the server's busiest thread slept for more than {:.0} % does not count. Calls have no pauses. The goals of new connections and of the local proxy come from \
         measurements of servers at their peak, so they apply to these rows; **compared** rows show the same at an ordinary rate.\n\
         - **TCP with the flights**: before its first request a connection makes as many round trips as the handshake, by keep-alives \
         of RFC 5626; **in memory**: the called side of a connection with a request and a response, without sockets, in this run, \
         in a loop or at the row's rate.\n\
         - **local proxy**: many connections in, many out (the IPTComm paper's name; the 2012 thesis has other names). The \
         registration opens the called user's connection, the call that of the caller; both are in the figure, over UDP as well.\n\
         - **ringway**: one worker, `memory:`, rustls with aws-lc-rs, P-256; **kamailio**: {}, one worker, `-x tlsf`, OpenSSL.\n\
         - machine: {}\n\
         - load average before: {}; after: {}; other programs used {others:.0} % of a processor, the hypervisor took {steal:.2} %\n\n\
         | what | must reach | result | |\n|---|---|---|---|\n",
        saturated::LENGTH.as_secs_f64(),
        100.0 * (1.0 - saturated::RUNNABLE_MIN),
        machine::version_of("kamailio", &["-v"]).trim_start_matches("version: ").trim_end(),
        machine::description(),
        load[0],
        load[1],
    );
    for row in rows {
        text.push_str(&format!("| {} | {} | {} | {} |\n", row.what, row.target, row.ringway, row.verdict));
    }
    let notes: Vec<&Row> = rows.iter().filter(|row| !row.note.is_empty()).collect();
    if !notes.is_empty() {
        text.push('\n');
        notes.iter().for_each(|row| text.push_str(&format!("- {}: {}\n", row.what, row.note)));
    }
    text
}
