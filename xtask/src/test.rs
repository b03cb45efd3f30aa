//! `cargo xtask test`: the tests of the workspace, several programs at a time; `cargo xtask fuzz`: every target of `fuzz/` for some time, from its committed corpus.
//!
//! `cargo test --workspace` runs the same programs one by one. A program of integration tests runs as one process for each of
//! its modules, because most of their tests wait for other processes.
//!
//! Needs a nightly toolchain and `cargo install cargo-fuzz`.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use xtask::workspace::{cargo, first_line, root, succeed, target_dir};

use crate::compilations::{self, Built};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test
  cargo xtask test --only ringway --jobs 2")]
pub(crate) struct Args {
    /// Only programs and modules whose name contains this, such as `ringway test ringway trace`
    #[arg(long)]
    only: Option<String>,
    /// Number of processes at a time
    #[arg(long, value_name = "N", default_value_t = JOBS)]
    jobs: usize,
}

impl Default for Args {
    fn default() -> Self {
        Self { only: None, jobs: JOBS }
    }
}

/// Processes at a time. Most tests wait.
const JOBS: usize = 6;

pub(crate) fn run(args: &Args) -> Result<()> {
    run_all(compilations::run("build", &mut build_command())?, args)?;
    if args.only.is_none() { documentation() } else { Ok(()) }
}

/// Cargo's command that builds all test programs.
pub(crate) fn build_command() -> Command {
    cargo(&["test", "--quiet", "--workspace", "--no-run"])
}

/// Runs the examples in the documentation.
pub(crate) fn documentation() -> Result<()> {
    xtask::workspace::succeed(&mut cargo(&["test", "--quiet", "--workspace", "--doc"]))
}

/// Runs the programs and prints the tests that failed, and a line with the numbers.
///
/// # Errors
/// A test failed, or there is none.
pub(crate) fn run_all(programs: Vec<Built>, args: &Args) -> Result<()> {
    let begun = Instant::now();
    let count = programs.len();
    let mut runs: Vec<Run> = Vec::new();
    for built in programs {
        runs.extend(Run::of(built)?);
    }
    runs.retain(|run| args.only.as_ref().is_none_or(|only| run.name.contains(only.as_str())));
    // Long ones first, so that the last one does not run alone.
    runs.sort_by_key(|run| std::cmp::Reverse((run.waits(), run.tests.len())));
    let queue = Mutex::new(VecDeque::from(runs));
    let total = Mutex::new(Total::default());
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                while let Some(run) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) {
                    let outcome = run.play();
                    if let Ok(mut total) = total.lock() {
                        total.add(&run, outcome);
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_default();
    let seconds = begun.elapsed().as_secs_f64();
    println!("{count} programs in {seconds:.0} s; the longest: {}", total.longest());
    println!("tests: {} passed, {} failed, {} skipped", total.passed, total.failed, total.ignored);
    if !total.names.is_empty() {
        bail!("tests failed: {}", total.names.join(", "));
    }
    if total.passed == 0 {
        bail!("no test has that name");
    }
    Ok(())
}

/// One process: a program, or a module of one.
struct Run {
    name: String,
    tests: Vec<String>,
    kind: String,
    folder: PathBuf,
    program: PathBuf,
}

impl Run {
    /// The processes of a program.
    fn of(built: Built) -> Result<Vec<Self>> {
        let list = Command::new(&built.program).arg("--list").output();
        let list = list.with_context(|| format!("cannot start {}", built.program.display()))?;
        let list = String::from_utf8_lossy(&list.stdout).into_owned();
        let names: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        let run = |name: String, tests: &[&str]| Self {
            name,
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
            kind: built.kind.clone(),
            folder: built.folder.clone(),
            program: built.program.clone(),
        };
        let mut modules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in &names {
            let module =
                if built.kind == "test" { name.split_once("::").map(|(module, _)| module) } else { None };
            modules.entry(module.unwrap_or_default()).or_default().push(name);
        }
        let named = |(module, tests): (&str, Vec<&str>)| {
            run(format!("{} {module}", built.name).trim_end().to_owned(), &tests)
        };
        Ok(modules.into_iter().map(named).collect())
    }

    /// True for programs whose tests wait for other processes.
    fn waits(&self) -> bool {
        self.kind == "test" && self.folder.ends_with("apps/ringway")
    }

    fn play(&self) -> (bool, String, f64) {
        let begun = Instant::now();
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.arg("--exact").args(&self.tests);
        let outcome = command.output();
        let seconds = begun.elapsed().as_secs_f64();
        match outcome {
            Ok(output) => {
                let text = [output.stdout, output.stderr].concat();
                (output.status.success(), String::from_utf8_lossy(&text).into_owned(), seconds)
            }
            Err(error) => (false, error.to_string(), seconds),
        }
    }
}

#[derive(Default)]
struct Total {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// Of the processes that failed.
    names: Vec<String>,
    times: Vec<(f64, String)>,
}

impl Total {
    fn add(&mut self, run: &Run, (succeeded, text, seconds): (bool, String, f64)) {
        let [passed, failed, ignored] = numbers(&text).unwrap_or_default();
        self.passed += passed;
        self.failed += failed;
        self.ignored += ignored;
        self.times.push((seconds, run.name.clone()));
        for line in text.lines().filter(|line| line.starts_with("skipped: ")) {
            println!("{line} ({})", run.name);
        }
        if !succeeded {
            // A process that crashed has no numbers.
            self.failed += usize::from(failed == 0);
            println!("FAILED {seconds:.1} s  {}\n{text}", run.name);
            self.names.push(run.name.clone());
        }
    }

    fn longest(&self) -> String {
        let mut times = self.times.clone();
        times.sort_by(|a, b| b.0.total_cmp(&a.0));
        let shown = times.iter().take(5).map(|(seconds, name)| format!("{name} {seconds:.0} s"));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Passed, failed and ignored tests of libtest's last line.
fn numbers(text: &str) -> Option<[usize; 3]> {
    let line = text.lines().rev().find(|line| line.starts_with("test result:"))?;
    let number = |what: &str| {
        let before = line.split(what).next()?;
        before.split_whitespace().last()?.parse().ok()
    };
    Some([number(" passed")?, number(" failed")?, number(" ignored")?])
}

/// Words after the name of the task, for the testbed to read.
#[derive(clap::Args)]
pub(crate) struct TestbedArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    words: Vec<OsString>,
}

/// Replaces this process by the testbed with `task` and its words.
pub(crate) fn run_testbed(task: &str, args: &TestbedArgs) -> Result<()> {
    let program = built()?;
    Err(Command::new(&program).arg(task).args(&args.words).exec())
        .with_context(|| format!("cannot start {}", program.display()))
}

/// Builds the testbed with the features of the whole workspace, so that it shares all crates with the tests.
pub(crate) fn built() -> Result<PathBuf> {
    succeed(&mut testbed_command())?;
    Ok(program())
}

/// Cargo's command that builds the testbed, and the server that its scenarios use.
pub(crate) fn testbed_command() -> Command {
    cargo(&["build", "--quiet", "--workspace", "--bin", "testbed", "--bin", "ringway"])
}

/// The testbed, if it was built.
pub(crate) fn program() -> PathBuf {
    target_dir().join("debug/testbed")
}

#[derive(clap::Args)]
pub(crate) struct FuzzArgs {
    /// Seconds for which each target runs
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Only targets whose name contains this
    #[arg(long)]
    only: Option<String>,
}

pub(crate) fn fuzz(args: &FuzzArgs) -> Result<()> {
    let missing = missing();
    if !missing.is_empty() {
        bail!("missing for fuzzing: {}", missing.join("; "));
    }
    let mut ran = 0_usize;
    for target in targets()? {
        if args.only.as_ref().is_some_and(|only| !target.contains(only.as_str())) {
            continue;
        }
        println!("== fuzz {target}, {} s", args.seconds);
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", "--release", target.as_str(), "--"]);
        command.arg(format!("-max_total_time={}", args.seconds)).arg("-timeout=5");
        command.arg(format!("-dict={}", root().join("fuzz/sip.dict").display())).current_dir(root());
        succeed(&mut command)
            .with_context(|| format!("fuzz target {target}: the input is under fuzz/artifacts"))?;
        ran += 1;
    }
    if ran == 0 {
        bail!("no fuzz target has that name");
    }
    println!("fuzz: {ran} targets without findings");
    Ok(())
}

/// Names of the targets, in the order of `fuzz/Cargo.toml`.
pub(crate) fn targets() -> Result<Vec<String>> {
    let path = root().join("fuzz/Cargo.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: toml::Table = text.parse().context("fuzz/Cargo.toml is not TOML")?;
    let bins =
        manifest.get("bin").and_then(toml::Value::as_array).context("fuzz/Cargo.toml has no [[bin]]")?;
    Ok(bins.iter().filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)).collect())
}

pub(crate) fn missing() -> Vec<&'static str> {
    let mut missing = Vec::new();
    if first_line(Command::new("cargo").args(["+nightly", "--version"])).is_none() {
        missing.push("a nightly toolchain (`rustup toolchain install nightly`)");
    }
    if first_line(Command::new("cargo").args(["fuzz", "--version"])).is_none() {
        missing.push("cargo-fuzz (`cargo install cargo-fuzz`)");
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_program_are_read() {
        let text =
            "test a ... ok\n\ntest result: ok. 12 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(numbers(text), Some([12, 1, 3]));
        assert_eq!(numbers("Segmentation fault"), None);
    }
}
