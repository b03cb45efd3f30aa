//! `cargo xtask bench`: CPU time of Ringway's operations, compared with the kernel alone and with Kamailio.
//!
//! Does: starts release binaries, loads them with `ringway-lab`, reads their CPU time, and prints or writes
//! the table of BENCHMARKS.md; counts instructions; profiles a row that misses its target.
//!
//! Does not: measure wall-clock throughput, which needs separate machines for generator and server.
//!
//! Start reading at [`rows`]; readings are taken by `ringway_lab::measure`.

mod attacks;
mod calls;
mod cluster;
mod databases;
mod entered;
mod gateways;
mod generator;
mod in_process;
mod instructions;
mod machines;
mod ordinary;
mod phone;
mod profile;
mod records;
mod relay;
mod report;
mod rows;
mod size;
mod tls;
mod tls_engines;
mod without_sockets;

pub(crate) use instructions::Record;
pub(crate) use report::with_section;

use anyhow::{Context, Result, bail};
use report::{Circumstances, Row, Verdict, publish};
use ringway_lab::measure::{Counting, Plan};
use ringway_lab::server::{Environment, find_program};
use ringway_lab::{floor, machine};
use rows::{Bench, RowName};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::workspace::{cargo, root, succeed, target_dir};

/// Measures the CPU time of operations, and prints the table of BENCHMARKS.md.
///
/// Without names: all rows, in about ten minutes. Fails when a measurement fails; a missed target is reported
/// in the table.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Only these rows
    #[arg(value_enum)]
    names: Vec<RowName>,
    /// Measured seconds of each reading
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Readings of each server; the table has their median
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// Short run: 10 k users instead of 1 M, three readings of a second
    #[arg(long)]
    quick: bool,
    /// Write BENCHMARKS.md (a run of all rows, or of `without-sockets` alone)
    #[arg(long, conflicts_with = "quick")]
    write: bool,
    #[command(subcommand)]
    command: Option<Special>,
}

/// Subcommands other than rows.
#[derive(clap::Subcommand, Debug)]
enum Special {
    /// Counts instructions per REGISTER and per call with callgrind
    Instructions {
        /// Fail when they have grown by more than 5 % since they were recorded, or by routes, forwards and block lists
        #[arg(long)]
        check: bool,
        /// Record them in tests/testbed/bench-instructions.toml
        #[arg(long, conflicts_with = "check")]
        write: bool,
    },
    /// Counts instructions of the core, without sockets: quicker, and the same on all systems
    Core {
        /// Fail when they have grown by more than 5 % since they were recorded
        #[arg(long)]
        check: bool,
        /// Record them in tests/testbed/core-instructions.toml
        #[arg(long, conflicts_with = "check")]
        write: bool,
        /// Print the files of the server that a plain call enters instead
        #[arg(long, conflicts_with_all = ["check", "write"])]
        files: bool,
        /// Count a call to a trunk that must not see the inside instead; fail when it has over 25 % more than one to another trunk
        #[arg(long, conflicts_with_all = ["check", "write", "files"])]
        hidden: bool,
    },
    /// Prints the most expensive functions of a row
    Profile {
        /// The row
        name: RowName,
        /// 10 k users instead of 1 M
        #[arg(long)]
        quick: bool,
    },
    /// Attacks a server on loopback: memory, traffic and served requests, with their bounds
    Attacks(attacks::Args),
    /// Measures servers that share their registrations in Redis
    Cluster(cluster::Args),
    /// Measures the CPU time at ordinary rates, beside Kamailio and a bare echo
    Ordinary(ordinary::Args),
    /// Measures the phone: SRTP compared with libsrtp2, timing and CPU time of calls, call set-up
    Phone(phone::Args),
    /// Measures the CPU time of the load generator, beside a bare loop of the same packets and SIPp
    Generator(generator::Args),
    /// Measures operations over TLS, beside TCP, UDP and Kamailio
    Tls(tls::Args),
    /// Measures rustls and OpenSSL side by side, in memory
    TlsEngines(tls_engines::Args),
    /// Measures what call records and the capture of messages add to the CPU time of a call
    Records(records::Args),
    /// Measures users of a database in a running server: the read of all, REGISTERs meanwhile
    Databases(databases::Args),
    /// Measures what a media relay adds to the CPU time of a call
    Relay(relay::Args),
    /// Adds up the bytes of the release binary by what they are
    Size(size::Args),
    /// The floor, as a separate process
    #[command(hide = true)]
    Floor {
        /// Treatment of messages
        kind: floor::Kind,
    },
}

/// Runs the command.
///
/// # Errors
/// A measurement failed; a missed target is not an error.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(Special::Floor { kind }) = &args.command {
        return floor::serve(*kind);
    }
    if let Some(Special::Instructions { check, write }) = args.command {
        // Its figures do not depend on the time that the generator takes.
        build("ringway")?;
        build_example("ringway-lab", instructions::GENERATOR)?;
        machine::pin_to(machine::GENERATOR_CPU)?;
        let folder = tempfile::tempdir().context("make a folder for the run")?;
        return count_instructions(&environment(folder.path()), check, write);
    }
    if let Some(Special::Core { check, write, files, hidden }) = args.command {
        return match (files, hidden) {
            (true, _) => entered::run(),
            (_, true) => instructions::hidden(),
            (false, false) => instructions::core(check, write),
        };
    }
    if let Some(Special::TlsEngines(args)) = &args.command {
        return tls_engines::run(args, &root());
    }
    if let Some(Special::Size(args)) = &args.command {
        return build("ringway").and_then(|()| size::run(args, &root()));
    }
    if cfg!(debug_assertions) {
        return run_as_release();
    }
    if let Some(result) = args.command.as_ref().and_then(run_beside_server) {
        return result;
    }
    let is_in_process = args.command.is_none()
        && !args.names.is_empty()
        && args.names.iter().all(|name| name.is_in_process());
    if !is_in_process {
        build("ringway")?;
        build_example(without_sockets::PACKAGE, without_sockets::PROGRAM)?;
        build_example("ringway-lab", instructions::GENERATOR)?;
    }
    machine::pin_to(machine::GENERATOR_CPU)?;
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path());
    match &args.command {
        None => measure_rows(args, environment),
        Some(Special::Profile { name, quick }) => profile::print(&bench(args, *quick, environment), *name),
        Some(
            Special::Instructions { .. }
            | Special::Core { .. }
            | Special::Attacks(_)
            | Special::Cluster(_)
            | Special::Ordinary(_)
            | Special::Phone(_)
            | Special::Generator(_)
            | Special::Tls(_)
            | Special::TlsEngines(_)
            | Special::Records(_)
            | Special::Databases(_)
            | Special::Relay(_)
            | Special::Size(_)
            | Special::Floor { .. },
        ) => Ok(()),
    }
}

/// Runs a command that needs the server and no other program; `None`: it is another one.
fn run_beside_server(command: &Special) -> Option<Result<()>> {
    let root = &root();
    let ready = || {
        build("ringway")?;
        machine::pin_to(machine::GENERATOR_CPU)
    };
    Some(match command {
        Special::Phone(args) => ready().and_then(|()| phone::run(args, root)),
        Special::Ordinary(args) => ready().and_then(|()| ordinary::run(args, root)),
        Special::Generator(args) => ready().and_then(|()| generator::run(args, root)),
        Special::Tls(args) => ready().and_then(|()| tls::run(args, root)),
        Special::Attacks(args) => ready().and_then(|()| attacks::run(args, root)),
        Special::Cluster(args) => ready().and_then(|()| cluster::run(args, root)),
        Special::Records(args) => ready().and_then(|()| records::run(args, root)),
        Special::Databases(args) => ready().and_then(|()| databases::run(args, root)),
        Special::Relay(args) => ready().and_then(|()| relay::run(args, root)),
        Special::Instructions { .. }
        | Special::Core { .. }
        | Special::Profile { .. }
        | Special::TlsEngines(_)
        | Special::Size(_)
        | Special::Floor { .. } => return None,
    })
}

/// The generator must be cheap: builds this program with optimisation and runs that instead.
fn run_as_release() -> Result<()> {
    build("ringway-testbed")?;
    let program = target_dir().join("release/testbed");
    if std::env::current_exe().is_ok_and(|running| running == program) {
        bail!("{} is not built with optimization; remove it", program.display());
    }
    let status = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .status()
        .with_context(|| program.display().to_string())?;
    // The program has printed its error.
    if status.success() { Ok(()) } else { bail!("the measurement ended with {status}") }
}

fn build(package: &str) -> Result<()> {
    succeed(&mut cargo(&["build", "--release", "--package", package]))
}

fn build_example(package: &str, example: &str) -> Result<()> {
    let words = ["--package", package, "--example", example];
    succeed(cargo(&["build", "--release"]).args(words))
}

fn measure_rows(args: &Args, environment: Environment) -> Result<()> {
    if args.write && !matches!(args.names.as_slice(), [] | [RowName::WithoutSockets]) {
        bail!("--write is for all rows, or for `without-sockets` alone: BENCHMARKS.md has a table of each");
    }
    let bench = bench(args, args.quick, environment);
    let (load, disturbance) = (machine::load_average(), Disturbance::start());
    eprintln!("{}; load average {load}", machine::description());
    let mut rows = bench.rows();
    if args.names.is_empty() {
        rows.push(instructions_row(&bench.environment));
    }
    let [others_percent, steal_percent] = disturbance.percent();
    let circumstances = Circumstances {
        command: format!("cargo xtask {}", std::env::args().skip(1).collect::<Vec<_>>().join(" ")),
        plan: format!(
            "Medians of {} readings of {} s (smallest and largest in brackets), all servers of a row in turn.",
            bench.plan.repeats,
            bench.plan.measured.as_secs_f64()
        ),
        load: [load, machine::load_average()],
        steal_percent,
        others_percent,
        kamailio: machine::version_of("kamailio", &["-v"]),
    };
    let text = report::render(&rows, &circumstances);
    if args.write {
        let path = root().join("BENCHMARKS.md");
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let after = match args.names.as_slice() {
            [] => report::with_section(&before, report::HEADING, &text),
            _ => without_sockets::with_section(&before, &text),
        };
        std::fs::write(&path, after).with_context(|| path.display().to_string())?;
        eprintln!("wrote {}", path.display());
    } else {
        println!("{text}");
    }
    for row in rows.iter().filter(|row| row.verdict == Verdict::Missed) {
        eprintln!(
            "missed: {} ({}, must reach {}): `cargo xtask bench profile ROW` shows where it goes",
            row.what, row.ringway, row.target
        );
    }
    match rows.iter().filter(|row| row.verdict == Verdict::Failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} rows could not be measured; the list below the table says why"),
    }
}

/// Counters at the start of a run, to state what disturbed it.
struct Disturbance {
    begun: Instant,
    ticks: machine::Ticks,
    /// Ticks used by the run itself.
    own: u64,
}

impl Disturbance {
    fn start() -> Self {
        Self { begun: Instant::now(), ticks: machine::Ticks::now(), own: machine::own_ticks() }
    }

    /// CPU time since the start of other programs, and of the hypervisor's other guests, in percent of one processor.
    fn percent(&self) -> [f64; 2] {
        let now = machine::Ticks::now();
        let ns = self.begun.elapsed().as_nanos().max(1) as f64;
        let own = machine::own_ticks().saturating_sub(self.own);
        let others = now.busy.saturating_sub(self.ticks.busy).saturating_sub(own);
        let steal = now.steal.saturating_sub(self.ticks.steal);
        [others, steal].map(|ticks| (ticks * machine::Ticks::ns()) as f64 / ns * 100.0)
    }
}

/// Row of the instruction counts, compared with the record.
fn instructions_row(environment: &Environment) -> Row {
    let what = "instructions per REGISTER, call, INVITE to nobody, redirected INVITE, REGISTER with a store; of the load \
                generator per registration, call (callgrind)";
    let target = "≤ 5 % above the record, ≤ 8 % for routes, forwards and block lists";
    match instructions::count(environment) {
        Ok(counts) => {
            let grown = instructions::record(&root()).check(&counts.named()).and(counts.check_rules());
            let mut row = Row::single(
                what,
                target,
                counts.named().map(|(_, count)| format!("{count:.0}")).join(", "),
                grown.is_ok(),
            );
            row.note = grown.err().map(|error| format!("{error:#}")).unwrap_or_default();
            row
        }
        Err(error) => Row::failed(what, target, &error),
    }
}

fn count_instructions(environment: &Environment, check: bool, write: bool) -> Result<()> {
    let counts = instructions::count(environment)?;
    for (name, count) in counts.named() {
        println!("{name}: {count:.0} instructions");
    }
    let record = instructions::record(&root());
    if write {
        record.write(&counts.named())?;
    }
    if check {
        record.check(&counts.named()).and(counts.check_rules())?;
    }
    Ok(())
}

fn bench(args: &Args, quick: bool, environment: Environment) -> Bench {
    let plan = if quick {
        Plan { repeats: 3, measured: Duration::from_secs(1), counting: Counting::Saturated }
    } else {
        Plan {
            repeats: args.repeat.max(1),
            measured: Duration::from_secs_f64(args.seconds.clamp(0.1, 60.0)),
            counting: Counting::Saturated,
        }
    };
    let (users, users_few) = if quick { (10_000, 1000) } else { (1_000_000, 10_000) };
    Bench { environment, plan, users, users_few, wanted: args.names.clone() }
}

/// Finds the programs: Ringway in the target folder of cargo, Kamailio in the path.
fn environment(folder: &Path) -> Environment {
    let ringway = target_dir().join("release/ringway");
    let [kamailio, opensips] = ["kamailio", "opensips"].map(find_program);
    Environment { ringway, kamailio, opensips, floor_command, folder: folder.to_path_buf() }
}

fn floor_command() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.args(["bench", "floor"]);
    Ok(command)
}
