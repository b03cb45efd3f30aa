//! Profile of a row: its most expensive functions, by sampling with `perf`, or by callgrind if there is no
//! `perf`.

use super::in_process;
use super::rows::{Bench, RowName};
use anyhow::{Context, Result, bail};
use ringway_lab::machine;
use ringway_lab::operation::Operation;
use ringway_lab::saturation::Ballast;
use ringway_lab::subject::{Extent, Settings, Under};
use rustix::process::{Pid, getpid};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Number of functions that are printed.
const FUNCTIONS: usize = 25;

/// Number of users under callgrind, which is fifty times slower.
const CALLGRIND_USERS: u32 = 1000;

/// Prints the most expensive functions of Ringway during the operation of a row.
///
/// # Errors
/// The server does not run, or no profiler does.
pub(super) fn print(bench: &Bench, name: RowName) -> Result<()> {
    let has_perf = machine::version_of("perf", &["--version"]).starts_with("perf version");
    match name.operation() {
        None if has_perf && name == RowName::Parse => {
            let sampler = Sampler::start(bench, &[getpid()])?;
            in_process::repeat_for(sampler.duration)?;
            sampler.print()
        }
        None => {
            bail!("only rows of a server and, with perf (package `linux-perf`), the parser can be profiled")
        }
        Some(operation) if has_perf => sampled(bench, name, operation),
        Some(operation) => {
            eprintln!("there is no perf here: counting instructions with callgrind, kernel not included");
            counted(bench, name, operation)
        }
    }
}

fn sampled(bench: &Bench, name: RowName, operation: Operation) -> Result<()> {
    let mut subject = match name {
        RowName::RegisterDigest | RowName::Memory => bench.subscribed(&mut Vec::new())?,
        _ => bench.registered(name, bench.users)?,
    };
    let sampler = Sampler::start(bench, &subject.process.family()?)?;
    let ballast = Ballast::start()?;
    let outcome = subject.run(operation, Extent::Time(sampler.duration))?;
    drop(ballast);
    println!(
        "{:.2} µs for one operation of `{name:?}`, {} operations",
        outcome.server_ns as f64 / 1000.0 / outcome.operations.max(1) as f64,
        outcome.operations
    );
    sampler.print()
}

/// `perf record`, running beside the sampled processes.
struct Sampler {
    recorder: Child,
    samples: PathBuf,
    /// Duration of the sampling.
    duration: Duration,
}

impl Sampler {
    fn start(bench: &Bench, processes: &[Pid]) -> Result<Self> {
        let samples = bench.environment.folder.join("perf.data");
        let members: Vec<String> = processes.iter().map(|pid| pid.as_raw_nonzero().to_string()).collect();
        let seconds = bench.plan.measured.as_secs_f64().max(1.0);
        let recorder = Command::new("perf")
            .args(["record", "-q", "-e", "cpu-clock", "-F", "1999", "-p", &members.join(","), "-o"])
            .arg(&samples)
            .args(["--", "sleep", &format!("{seconds}")])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("start perf")?;
        Ok(Self { recorder, samples, duration: Duration::from_secs_f64(seconds + 0.5) })
    }

    fn print(mut self) -> Result<()> {
        let recorded = self.recorder.wait().context("wait for perf")?;
        if !recorded.success() {
            bail!("perf record ended with {recorded}");
        }
        for fields in ["overhead,dso", "overhead,dso,sym"] {
            let mut report = Command::new("perf");
            report.args(["report", "--stdio", "-F", fields, "-i"]).arg(&self.samples);
            print_report(&mut report)?;
        }
        Ok(())
    }
}

/// Without digest: its users are not imported here.
fn counted(bench: &Bench, name: RowName, operation: Operation) -> Result<()> {
    let counts = bench.environment.folder.join("callgrind.profile.out");
    let settings = Settings { challenge: None, ..name.settings(&bench.environment, CALLGRIND_USERS) };
    let mut subject = bench.environment.ringway(&settings, Under::Callgrind(&counts))?;
    subject.register_all(Operation::Refresh)?;
    let operation = if operation.is_register() { Operation::Refresh } else { operation };
    subject.run(operation, Extent::Operations(5000))?;
    subject.stop()?;
    for inclusive in ["yes", "no"] {
        println!("with what they call: {inclusive}");
        let mut report = Command::new("callgrind_annotate");
        print_report(report.arg(format!("--inclusive={inclusive}")).arg(&counts))?;
    }
    Ok(())
}

/// Prints the first lines of a report that contain a share.
fn print_report(command: &mut Command) -> Result<()> {
    let output = command.stderr(Stdio::null()).output().context("read the profile")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| {
        line.contains('%') && line.trim_start().starts_with(|first: char| first.is_ascii_digit())
    });
    for line in lines.take(FUNCTIONS) {
        println!("{}", line.trim_end());
    }
    println!();
    Ok(())
}
