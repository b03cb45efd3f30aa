//! `cargo xtask ci`: every check that a change must pass, in one command.
//!
//! What fails fast runs first, then the tests are built. After that two lanes run beside each other: one compiles (other
//! forms of the code), with less priority; the other runs programs that mostly wait. Each step is a process of its own,
//! whose output is printed when it has ended.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use xtask::image::{self, Image};
use xtask::workspace::{cargo, first_line, has_program, succeed, target_dir};

use crate::steps::Outcome;
use crate::{compilations, crates, test, tidy};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask ci
  cargo xtask ci --only tidy,clippy
  cargo xtask ci --skip interop,metal")]
pub(crate) struct Args {
    /// Only these steps
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Step>,
    /// All but these steps
    #[arg(long, value_enum, value_delimiter = ',')]
    skip: Vec<Step>,
    /// Run one step in this process
    #[arg(long, value_enum, hide = true)]
    step: Option<Step>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Step {
    /// `cargo fmt --check`
    Fmt,
    /// `cargo xtask tidy`
    Tidy,
    /// Licences and sources of the crates, by deny.toml
    Crates,
    /// Test programs, `ringway` and the testbed
    Build,
    /// `cargo xtask test`
    Test,
    /// `cargo xtask package`
    Package,
    /// `cargo xtask interop`
    Interop,
    /// `cargo xtask metal test`
    Metal,
    /// `cargo xtask attacks --check`: each attack with its defence, and without
    Attacks,
    /// `cargo xtask sim --planted`: faults that random stories must find
    Sim,
    /// The image without an operating system
    Image,
    /// Suites that depend on optimization, with it; `cargo xtask long` runs all
    Release,
    /// Instructions per operation, which must not grow
    Instructions,
    /// `cargo clippy` with warnings as errors
    Clippy,
    /// `cargo doc` with warnings as errors, and the examples in the documentation
    Doc,
    /// The crates of proto/, and of bare metal, without std
    Purity,
}

/// Steps before the lanes, in order; one that fails ends the run.
const FIRST: [Step; 4] = [Step::Fmt, Step::Tidy, Step::Crates, Step::Build];
/// The lane of programs, of which most wait.
const RUNNING: [Step; 6] = [Step::Test, Step::Package, Step::Interop, Step::Metal, Step::Attacks, Step::Sim];
/// The lane of the compiler. The image comes first, because `metal` needs it.
const COMPILING: [Step; 6] =
    [Step::Image, Step::Release, Step::Instructions, Step::Clippy, Step::Doc, Step::Purity];

/// Scenarios that run at a time on two processors.
const INTEROP_JOBS: &str = "5";

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(step) = args.step {
        return match step.run()? {
            Outcome::Passed => Ok(()),
            Outcome::Skipped(why) if is_ci() => bail!("{why}"),
            Outcome::Skipped(why) => {
                println!("skipped: {why}");
                Ok(())
            }
        };
    }
    let is_chosen =
        |step: &Step| !args.skip.contains(step) && (args.only.is_empty() || args.only.contains(step));
    let chosen = |steps: &[Step]| steps.iter().copied().filter(is_chosen).collect::<Vec<_>>();
    compilations::forget();
    let report = Report { begun: Instant::now(), program: this_program()?, lines: Mutex::default() };
    let first_passed = report.play(&chosen(&FIRST), Ends::AtAFailure, Priority::Usual);
    if first_passed {
        std::thread::scope(|scope| {
            scope.spawn(|| report.play(&chosen(&COMPILING), Ends::AfterAll, Priority::Low));
            report.play(&chosen(&RUNNING), Ends::AfterAll, Priority::Usual);
        });
    }
    report.end()
}

/// True in a run that must skip nothing.
fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// This program; cargo may have replaced its file.
fn this_program() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let name = program.to_string_lossy();
    Ok(name.strip_suffix(" (deleted)").map_or_else(|| program.clone(), PathBuf::from))
}

/// End of a list of steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    AtAFailure,
    AfterAll,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Priority {
    Usual,
    Low,
}

/// Runs steps as processes, and collects their results.
struct Report {
    begun: Instant,
    program: PathBuf,
    lines: Mutex<Vec<(bool, String)>>,
}

impl Report {
    /// Runs steps one after another; true if all passed.
    fn play(&self, steps: &[Step], ends: Ends, priority: Priority) -> bool {
        let mut passed = true;
        for step in steps {
            passed &= self.play_one(*step, priority);
            if !passed && ends == Ends::AtAFailure {
                break;
            }
        }
        passed
    }

    fn play_one(&self, step: Step, priority: Priority) -> bool {
        let name = step.name();
        println!("== {name}, after {:.0} s", self.begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        let log = target_dir().join("ci").join(format!("{name}.log"));
        let outcome = self.run_process(step, priority, &log);
        let seconds = begun.elapsed().as_secs_f64();
        let Ok(mut lines) = self.lines.lock() else { return false };
        let text = std::fs::read(&log).unwrap_or_default();
        println!("-- {name} ended after {seconds:.0} s:\n{}", String::from_utf8_lossy(&text));
        let line = match &outcome {
            Ok(()) => format!("ok      {seconds:6.1} s  {name}"),
            Err(error) => format!("FAILED  {seconds:6.1} s  {name}: {error:#}"),
        };
        lines.push((outcome.is_ok(), line));
        outcome.is_ok()
    }

    fn run_process(&self, step: Step, priority: Priority, log: &Path) -> Result<()> {
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = match priority {
            Priority::Usual => Command::new(&self.program),
            Priority::Low => {
                let mut nice = Command::new("nice");
                nice.args(["-n", "15"]).arg(&self.program);
                nice
            }
        };
        command.args(["ci", "--step", &step.name()]);
        succeed(command.stdin(std::process::Stdio::null()).stdout(output.try_clone()?).stderr(output))
    }

    /// Prints all results.
    fn end(self) -> Result<()> {
        let lines = self.lines.into_inner().unwrap_or_default();
        let counted = compilations::check();
        println!();
        lines.iter().for_each(|(_, line)| println!("{line}"));
        let failed = lines.iter().filter(|(passed, _)| !passed).count();
        println!(
            "ci: {} steps passed, {failed} failed in {:.0} s",
            lines.len() - failed,
            self.begun.elapsed().as_secs_f64()
        );
        if failed > 0 {
            bail!("ci failed");
        }
        counted
    }
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn run(self) -> Result<Outcome> {
        let name = self.name();
        match self {
            Self::Fmt => {
                succeed(&mut cargo(&["fmt", "--all", "--check"]))?;
                image::check_format()?;
            }
            Self::Tidy => tidy::run()?,
            Self::Crates => crates::run()?,
            Self::Build => {
                compilations::run(&name, &mut test::build_command())?;
                compilations::run(&name, &mut test::testbed_command())?;
            }
            Self::Test => {
                test::run_all(
                    compilations::run("build", &mut test::build_command())?,
                    &test::Args::default(),
                )?;
            }
            Self::Package => {
                succeed(Command::new(this_program()?).arg("package").arg("--server").arg(ringway()))?;
            }
            Self::Interop => {
                let mut interop = Command::new(test::program());
                succeed(interop.args(["interop", "--jobs", INTEROP_JOBS, "--server"]).arg(ringway()))?;
            }
            Self::Metal => {
                let mut metal = Command::new(test::program());
                succeed(metal.args(["metal", "test", "--server"]).arg(ringway()))?;
            }
            Self::Attacks => succeed(Command::new(this_program()?).args(["attacks", "--check"]))?,
            Self::Sim => {
                let words = ["sim", "--planted", "--debug", "--seeds", "400"];
                succeed(Command::new(this_program()?).args(words))?;
            }
            Self::Image => {
                let images = [Image::server(), Image::phone()];
                compilations::run(&name, &mut image::build_command(&images.each_ref())?)?;
                images.iter().try_for_each(Image::build_elf)?;
            }
            Self::Release => {
                let programs = compilations::run(&name, &mut optimized())?;
                test::run_all(programs, &test::Args::default())?;
            }
            Self::Instructions => {
                if !has_program("valgrind") {
                    return Ok(Outcome::Skipped(
                        "valgrind is not installed (`apt-get install valgrind`)".to_owned(),
                    ));
                }
                compilations::run("release", &mut optimized())?;
                for what in ["--check", "--files"] {
                    succeed(Command::new(test::program()).args(["bench", "core", what]))?;
                }
            }
            Self::Clippy => {
                let arguments = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
                compilations::run("check", &mut cargo(&arguments))?;
                compilations::run("check-image", &mut image::lint_command())?;
            }
            Self::Doc => {
                let mut doc = cargo(&["doc", "--quiet", "--workspace", "--no-deps"]);
                // The crates that it needs are those of the lints.
                for (name, value) in clippy_environment()? {
                    doc.env(name, value);
                }
                compilations::run("doc", doc.env("RUSTDOCFLAGS", "-D warnings"))?;
                test::documentation()?;
            }
            Self::Purity => compilations::check_purity()?,
        }
        Ok(Outcome::Passed)
    }
}

/// Variables by which `cargo clippy -- -D warnings` compiles the crates of the workspace.
fn clippy_environment() -> Result<[(&'static str, String); 2]> {
    let sysroot = first_line(Command::new("rustc").args(["--print", "sysroot"])).context("no rustc")?;
    let driver = format!("{sysroot}/bin/clippy-driver");
    Ok([
        ("RUSTC_WORKSPACE_WRAPPER", driver),
        ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__".to_owned()),
    ])
}

/// The server as `build` made it.
fn ringway() -> PathBuf {
    target_dir().join("debug/ringway")
}

/// Cargo's command that builds the tests of [`RELEASED`], and the program whose instructions are counted: together, so that
/// crates have one set of features.
fn optimized() -> Command {
    let mut command =
        cargo(&["build", "--quiet", "--profile", "optimized", "--example", "in_memory", "--tests"]);
    command.args(RELEASED.iter().flat_map(|package| ["--package", *package]));
    command.args(["--package", "ringway-in-memory"]);
    command
}

/// Packages whose tests may differ with optimization: allocations and times that are measured, and unsafe code. The rest
/// computes the same in both, and is tested with overflow checks on.
const RELEASED: [&str; 5] =
    ["ringway-linux", "ringway-sip", "ringway-media", "ringway-journal", "ringway-store"];
