//! `cargo xtask ci`: every check that a change must pass, in one command.

use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::ValueEnum;

use crate::metal;
use crate::purity_build;
use crate::tidy;
use crate::workspace::{cargo, first_line, has_program, succeed};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these steps
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Step>,
    /// All but these steps
    #[arg(long, value_enum, value_delimiter = ',')]
    skip: Vec<Step>,
    /// Stop at the first step that fails
    #[arg(long)]
    fail_fast: bool,
}

/// The steps, in their order: what fails fastest comes first.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    /// `cargo fmt --check`
    Fmt,
    /// `cargo xtask tidy`
    Tidy,
    /// The crates of proto/, and of bare metal, for a target without std
    Purity,
    /// `cargo clippy` with warnings as errors
    Clippy,
    /// `cargo test --release`: what users run is what is tested
    Test,
    /// `cargo doc` with warnings as errors
    Doc,
    /// `cargo deny check`: licences, advisories, sources
    Deny,
    /// Instructions per operation, which must not grow
    Instructions,
}

/// Result of a step.
enum Outcome {
    Passed,
    Failed(String),
    Skipped(&'static str),
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let started = Instant::now();
    let mut report = Vec::new();
    let mut failed = Vec::new();
    let (mut passed, mut skipped) = (0, 0);
    for step in Step::value_variants() {
        let name = name_of(*step);
        if args.skip.contains(step) || !(args.only.is_empty() || args.only.contains(step)) {
            continue;
        }
        println!("== {name}");
        let begun = Instant::now();
        let outcome = outcome_of(*step);
        let seconds = begun.elapsed().as_secs_f64();
        report.push(match &outcome {
            Outcome::Passed => format!("ok      {seconds:6.1} s  {name}"),
            Outcome::Failed(why) => format!("FAILED  {seconds:6.1} s  {name}: {why}"),
            Outcome::Skipped(why) => format!("skipped {seconds:6.1} s  {name}: {why}"),
        });
        match outcome {
            Outcome::Passed => passed += 1,
            Outcome::Skipped(_) => skipped += 1,
            Outcome::Failed(_) => {
                failed.push(name);
                if args.fail_fast {
                    break;
                }
            }
        }
    }
    println!("\n{}", report.join("\n"));
    let seconds = started.elapsed().as_secs_f64();
    println!("ci: {passed} steps passed, {} failed, {skipped} skipped in {seconds:.0} s", failed.len());
    if !failed.is_empty() {
        bail!("ci failed: {}", failed.join(", "));
    }
    Ok(())
}

fn outcome_of(step: Step) -> Outcome {
    let result = match step {
        Step::Fmt => succeed(&mut cargo(&["fmt", "--all", "--check"])).and_then(|()| metal::check_format()),
        Step::Tidy => tidy::run(),
        Step::Purity => purity_build::run(),
        Step::Clippy => succeed(&mut cargo(&[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
        .and_then(|()| metal::check_lints()),
        Step::Test => succeed(&mut cargo(&["test", "--quiet", "--workspace", "--release"])),
        Step::Doc => {
            let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
            succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
        }
        Step::Deny => {
            if first_line(&mut cargo(&["deny", "--version"])).is_none() {
                return Outcome::Skipped("cargo-deny is not installed (`cargo install cargo-deny`)");
            }
            succeed(&mut cargo(&["deny", "check"]))
        }
        Step::Instructions => {
            if !has_program("valgrind") {
                return Outcome::Skipped("valgrind is not installed (`apt-get install valgrind`)");
            }
            instructions()
        }
    };
    match result {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

/// Counting needs a process of its own, because it pins itself to a processor.
fn instructions() -> Result<()> {
    succeed(Command::new(std::env::current_exe()?).args(["bench", "instructions", "--check"]))
}

fn name_of(step: Step) -> String {
    step.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
