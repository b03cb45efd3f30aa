//! `cargo xtask ci`: every check that a change must pass, in one command.

use std::process::Command;

use anyhow::Result;

use crate::metal;
use crate::purity_build;
use crate::steps::{Choice, Outcome};
use crate::tidy;
use crate::workspace::{cargo, first_line, has_program, succeed};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    steps: Choice<Step>,
}

/// The steps, in their order: what fails fastest comes first.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Step {
    /// `cargo fmt --check`
    Fmt,
    /// `cargo xtask tidy`
    Tidy,
    /// The crates of proto/, and of bare metal, for a target without std
    Purity,
    /// `cargo clippy` with warnings as errors
    Clippy,
    /// Lints and tests of TLS by OpenSSL, which the default build does not have
    LegacyTls,
    /// `cargo test --release` of the suites that depend on optimization; `cargo test --workspace` and `cargo xtask long` run all
    Test,
    /// `cargo doc` with warnings as errors
    Doc,
    /// `cargo deny check`: licences, advisories, sources
    Deny,
    /// Instructions per operation, which must not grow
    Instructions,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    args.steps.run("ci", |step| run_step(*step))
}

fn run_step(step: Step) -> Result<Outcome> {
    match step {
        Step::Fmt => {
            succeed(&mut cargo(&["fmt", "--all", "--check"]))?;
            metal::check_format()?;
        }
        Step::Tidy => tidy::run()?,
        Step::Purity => purity_build::run()?,
        Step::Clippy => {
            let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
            succeed(&mut cargo(&arguments))?;
            metal::check_lints()?;
        }
        Step::LegacyTls => {
            if !has_program("pkg-config")
                || succeed(Command::new("pkg-config").args(["--exists", "openssl"])).is_err()
            {
                let why =
                    "the headers of OpenSSL are not installed (`apt-get install libssl-dev pkg-config`)";
                return Ok(Outcome::Skipped(why.to_owned()));
            }
            let with = ["--quiet", "--package", "ringway-tls", "--features", "ringway-tls/legacy-tls"];
            let lab = ["--package", "ringway-lab", "--features", "ringway-lab/legacy-tls"];
            let clippy = ["clippy", "--all-targets"];
            succeed(cargo(&clippy).args(with).args(lab).args(["--", "-D", "warnings"]))?;
            succeed(cargo(&["test"]).args(with))?;
        }
        Step::Test => {
            for suites in RELEASE_SUITES {
                succeed(cargo(&["test", "--quiet", "--release"]).args(suites))?;
            }
        }
        Step::Doc => {
            let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
            succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
        }
        Step::Deny => {
            if first_line(&mut cargo(&["deny", "--version"])).is_none() {
                let why = "cargo-deny is not installed (`cargo install cargo-deny`)";
                return Ok(Outcome::Skipped(why.to_owned()));
            }
            succeed(&mut cargo(&["deny", "check"]))?;
        }
        Step::Instructions => {
            if !has_program("valgrind") {
                let why = "valgrind is not installed (`apt-get install valgrind`)";
                return Ok(Outcome::Skipped(why.to_owned()));
            }
            // Counting needs a process of its own, because it pins itself to a processor.
            succeed(Command::new(std::env::current_exe()?).args(["bench", "instructions", "--check"]))?;
        }
    }
    Ok(Outcome::Passed)
}

/// Suites whose result may differ with optimization: the program as users run it, allocations and times that are measured,
/// and unsafe code. The rest computes the same in both, and `cargo test --workspace` checks it with overflow checks on.
const RELEASE_SUITES: [&[&str]; 2] = [
    &["--package", "ringway-linux"],
    &[
        "--package",
        "ringway",
        "--package",
        "ringway-journal",
        "--package",
        "ringway-media",
        "--package",
        "ringway-sip",
        "--package",
        "ringway-store",
        "--test",
        "allocations",
        "--test",
        "commands",
        "--test",
        "load",
        "--test",
        "log",
        "--test",
        "phone",
        "--test",
        "phone_screen",
        "--test",
        "restart",
    ],
];
