//! Instructions per operation, counted by callgrind: independent of other load on the machine; their record in a file
//! of the repository, so that an increase is noticed.
//!
//! There are two runs, of N and of 4 N operations. Both have the same cost for the start, the registration of
//! the users and the stop, so the difference is that of 3 N operations. The counts are recorded in a file of
//! the repository; `--check` fails if one has grown, or if rules that apply to none of the operations make them
//! dearer.

use super::without_sockets;
use anyhow::{Context, Result, bail};
use ringway_lab::load::Flow;
use ringway_lab::machine;
use ringway_lab::operation::Operation;
use ringway_lab::subject::{Environment, Extent, ROUTES, Routing, Rules, Settings, Store, Under};
use ringway_test_support::process::run_to_end;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::workspace::{cargo, has_program, root, succeed, target_dir};

/// Example of `ringway-lab` that plays the load generator without sockets.
pub(super) const GENERATOR: &str = "generator_in_memory";

/// Number of users, registered before the counting.
const USERS: u32 = 1000;

/// Instructions per operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Counts {
    /// Per REGISTER that refreshes a binding.
    pub(super) register: f64,
    /// Per stateful call.
    pub(super) call: f64,
    /// Per INVITE to a user who does not exist.
    pub(super) not_found: f64,
    /// Per INVITE that a redirect server answers.
    pub(super) redirect: f64,
    /// Per REGISTER that refreshes a binding, with a store.
    pub(super) register_stored: f64,
    /// The same beside trunks, routes, forwards and block lists that do not apply to it.
    pub(super) register_routed: f64,
    /// Per stateful call between users beside these.
    pub(super) call_routed: f64,
    /// Of the load generator per registration, a peer without sockets included.
    pub(super) generator_register: f64,
    /// The same per call, both sides.
    pub(super) generator_call: f64,
}

/// Counts the instructions of Ringway's release binary.
///
/// # Errors
/// valgrind is not installed, or the server does not run under it.
pub(super) fn count(environment: &Environment) -> Result<Counts> {
    if machine::version_of("valgrind", &["--version"]).contains("not installed") {
        bail!("counting instructions needs valgrind: install the package `valgrind`");
    }
    Ok(Counts {
        register: slope(2000, |count| run(environment, Operation::Refresh, count))?,
        call: slope(500, |calls| run(environment, Operation::Call, calls))?,
        not_found: slope(1000, |calls| run(environment, Operation::NotFound, calls))?,
        redirect: slope(1000, |calls| run(environment, Operation::Redirect, calls))?,
        register_stored: slope(2000, |count| stored(environment, Operation::Refresh, count, Rules::Absent))?,
        register_routed: slope(2000, |count| stored(environment, Operation::Refresh, count, Rules::Present))?,
        call_routed: slope(500, |calls| stored(environment, Operation::Call, calls, Rules::Present))?,
        generator_register: slope(500, |attempts| run_generator(environment, Flow::Register, attempts))?,
        generator_call: slope(200, |attempts| run_generator(environment, Flow::Call, attempts))?,
    })
}

fn slope(operations: u64, run: impl Fn(u64) -> Result<u64>) -> Result<f64> {
    let few = run(operations)?;
    let many = run(4 * operations)?;
    Ok(many.saturating_sub(few) as f64 / (3 * operations) as f64)
}

/// Runs the load generator without sockets.
fn run_generator(environment: &Environment, flow: Flow, attempts: u64) -> Result<u64> {
    let file = environment.folder.join(format!("callgrind.generator.{attempts}.out"));
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(&file);
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind"]).arg(out);
    command.arg(target_dir().join("release/examples").join(GENERATOR));
    command.args([flow.name(), &attempts.to_string()]);
    run_to_end(&mut command, "")?;
    total_of(&file)
}

fn run(environment: &Environment, operation: Operation, operations: u64) -> Result<u64> {
    let routing = match operation {
        Operation::Redirect => Routing::Redirect,
        Operation::Refresh | Operation::RefreshChallenged | Operation::Call | Operation::NotFound => {
            Routing::Stateful
        }
    };
    run_with(environment, &Settings::open(USERS, routing), operation, operations)
}

/// A run with a store of its own, so that both runs start with the same bindings: none.
fn stored(environment: &Environment, operation: Operation, operations: u64, rules: Rules) -> Result<u64> {
    let folder = tempfile::tempdir_in(&environment.folder).context("make a folder for a store")?;
    let store = Store::Sqlite(folder.path().join("ringway.db"));
    let settings = Settings { store, rules, ..Settings::open(USERS, Routing::Stateful) };
    environment.prepare_store(&settings)?;
    run_with(environment, &settings, operation, operations)
}

fn run_with(
    environment: &Environment,
    settings: &Settings,
    operation: Operation,
    operations: u64,
) -> Result<u64> {
    let counts = environment.folder.join(format!("callgrind.{operations}.out"));
    let mut subject = environment.ringway(settings, Under::Callgrind(&counts))?;
    subject.register_all(Operation::Refresh)?;
    subject.run(operation, Extent::Operations(operations))?;
    subject.stop()?;
    total_of(&counts)
}

/// Instructions that callgrind counted.
pub(super) fn total_of(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    total(&text).with_context(|| format!("{} has no total", file.display()))
}

/// Sum of all instructions in callgrind's output.
fn total(text: &str) -> Option<u64> {
    text.lines()
        .rev()
        .find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
}

impl Counts {
    /// Counts by their names in the record.
    pub(super) fn named(self) -> [(&'static str, f64); 7] {
        [
            ("register", self.register),
            ("call", self.call),
            ("not-found", self.not_found),
            ("redirect", self.redirect),
            ("register-stored", self.register_stored),
            ("generator-register", self.generator_register),
            ("generator-call", self.generator_call),
        ]
    }

    /// Compares the counts beside trunks, routes, forwards and block lists with those of the same run without them, and
    /// prints a line for each.
    ///
    /// # Errors
    /// One is more than [`RULES_PERCENT_MAX`] above the other.
    pub(super) fn check_rules(self) -> Result<()> {
        let mut above = Vec::new();
        for (name, count, plain) in [
            ("register-routed", self.register_routed, self.register_stored),
            ("call-routed", self.call_routed, self.call),
        ] {
            let percent = (count / plain - 1.0) * 100.0;
            eprintln!("  {name}: {count:.0} instructions, without rules {plain:.0}, {percent:+.1} %");
            if percent > RULES_PERCENT_MAX {
                above.push(format!("{name} by {percent:.1} %"));
            }
        }
        if !above.is_empty() {
            bail!(
                "{ROUTES} routes, a trunk, forwards and block lists cost more than {RULES_PERCENT_MAX} %: {}",
                above.join(", ")
            );
        }
        Ok(())
    }
}

/// Maximum share in percent that rules which do not apply add to an operation: 5, which is the goal, and the scatter of a count.
const RULES_PERCENT_MAX: f64 = 5.5;

/// Counts the instructions of the core by operation, without sockets: the server of the image in the example `in_memory`.
///
/// # Errors
/// valgrind is not installed, an operation fails, or with `check` a count has grown.
pub(super) fn core(check: bool, write: bool) -> Result<()> {
    has_valgrind()?;
    let program = target_dir().join("optimized/examples").join(without_sockets::PROGRAM);
    // All checks have built it with the other programs, from the same sources.
    if !check || is_stale(&program)? {
        let words = [
            "build",
            "--profile",
            "optimized",
            "--package",
            without_sockets::PACKAGE,
            "--example",
            without_sockets::PROGRAM,
        ];
        succeed(&mut cargo(&words))?;
    }
    let mut counts = Vec::new();
    for (operation, times) in CORE {
        let count = core_count(&program, operation, times)?;
        println!("{operation}: {count:.0} instructions");
        counts.push((operation, count));
    }
    let record = Record {
        path: root().join("tests/testbed/core-instructions.toml"),
        what: "callgrind, the server of the image over memory, with the registration of its user where an operation needs one".into(),
        written_by: "cargo xtask bench core --write",
    };
    if write {
        record.write(&counts)?;
    }
    if check { record.check(&counts) } else { Ok(()) }
}

/// Counts a call to a trunk that must not see the inside (decision 0063), beside one to another trunk.
///
/// # Errors
/// It has over [`HIDDEN_TIMES_MAX`] times the instructions.
pub(super) fn hidden() -> Result<()> {
    has_valgrind()?;
    // The server of the image has no trunks.
    let target = target_dir().join("operator");
    let mut build = cargo(&["build", "--profile", "optimized", "--package", without_sockets::PACKAGE]);
    build.args(["--example", without_sockets::PROGRAM, "--features", "operator", "--target-dir"]);
    succeed(build.arg(&target))?;
    let program = target.join("optimized/examples").join(without_sockets::PROGRAM);
    let plain = core_count(&program, "trunk-call", HIDDEN_CALLS)?;
    let hidden = core_count(&program, "hidden-call", HIDDEN_CALLS)?;
    let times = hidden / plain;
    println!("trunk-call: {plain:.0} instructions, hidden-call: {hidden:.0}, {times:.3} times");
    if times > HIDDEN_TIMES_MAX {
        bail!("hidden topology costs more than {HIDDEN_TIMES_MAX} times a call to a trunk");
    }
    Ok(())
}

/// Instructions of an operation of the server over memory.
fn core_count(program: &Path, operation: &str, times: u32) -> Result<f64> {
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let file = folder.path().join(operation);
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*Bench*pass*"]);
    valgrind.arg(format!("--callgrind-out-file={}", file.display())).arg(program);
    run_to_end(valgrind.args([operation, &times.to_string()]), "")?;
    Ok(total_of(&file)? as f64 / f64::from(times))
}

/// True for a program that does not exist, or is older than a source file of what it measures.
fn is_stale(program: &Path) -> Result<bool> {
    let Ok(built) = fs::metadata(program).and_then(|metadata| metadata.modified()) else { return Ok(true) };
    let mut folders = vec![root().join("proto"), root().join("apps/metal/in_memory")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry.context("a folder of sources")?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && fs::metadata(&path).and_then(|metadata| metadata.modified()).is_ok_and(|at| at > built)
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// # Errors
/// valgrind is missing.
pub(super) fn has_valgrind() -> Result<()> {
    if !has_program("valgrind") {
        bail!("counting instructions needs valgrind: install the package `valgrind`");
    }
    Ok(())
}

/// Operations of the core, and how often each is counted: so many calls a limit of one source permits.
const CORE: [(&str, u32); 5] =
    [("register", 2000), ("register-digest", 2000), ("call", 200), ("not-found", 2000), ("redirect", 2000)];

/// Calls of [`hidden`], and how many times the instructions of a call to another trunk one may have.
const HIDDEN_CALLS: u32 = 100;
const HIDDEN_TIMES_MAX: f64 = 1.25;

/// File with the recorded counts.
pub(super) fn record(workspace: &Path) -> Record {
    Record {
        path: workspace.join("tests/testbed/bench-instructions.toml"),
        what: format!(
            "callgrind, release binary, {USERS} users, one worker, no digest, no store but for `register-stored`"
        ),
        written_by: "cargo xtask bench instructions --write",
    }
}

/// Maximum growth of a count in percent.
const GROWTH_PERCENT_MAX: f64 = 5.0;

/// A file with counts.
pub(crate) struct Record {
    pub(crate) path: PathBuf,
    /// Description of the counts and of the method.
    pub(crate) what: String,
    /// Command that writes the file.
    pub(crate) written_by: &'static str,
}

impl Record {
    /// Writes the counts with their names.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write(&self, counts: &[(&str, f64)]) -> Result<()> {
        let mut text = format!(
            "# Instructions per operation ({}).\n# Written by `{}`; to grow by more than {GROWTH_PERCENT_MAX} % is an \
             error.\nrustc = \"{}\"\n",
            self.what,
            self.written_by,
            machine::version_of("rustc", &["--version"]),
        );
        for (name, count) in counts {
            text.push_str(&format!("{name} = {count:.0}\n"));
        }
        fs::write(&self.path, text).with_context(|| self.path.display().to_string())
    }

    /// Compares counts with the file and prints a line for each.
    ///
    /// # Errors
    /// A count has grown too much, or is not recorded.
    pub(crate) fn check(&self, counts: &[(&str, f64)]) -> Result<()> {
        let (path, written_by) = (self.path.display(), self.written_by);
        let text =
            fs::read_to_string(&self.path).with_context(|| format!("{path}: make it with `{written_by}`"))?;
        let recorded: toml::Table = text.parse().with_context(|| path.to_string())?;
        let compiler = recorded.get("rustc").and_then(toml::Value::as_str).unwrap_or_default();
        let mut grown = Vec::new();
        for &(name, now) in counts {
            let before = recorded.get(name).and_then(toml::Value::as_integer).unwrap_or_default();
            if before <= 0 {
                bail!("{path}: `{name}` is missing");
            }
            let percent = growth_percent(before as f64, now);
            eprintln!("  {name}: {now:.0} instructions, recorded {before}, {percent:+.1} %");
            if percent > GROWTH_PERCENT_MAX {
                grown.push(format!("{name} by {percent:.1} %"));
            } else if percent < -GROWTH_PERCENT_MAX {
                eprintln!("  {name} has become cheaper: record it with `{written_by}`");
            }
        }
        if !grown.is_empty() {
            bail!(
                "instructions per operation grew: {} (recorded with {compiler}; `{written_by}` records what is meant to \
                 be)",
                grown.join(", ")
            );
        }
        Ok(())
    }
}

fn growth_percent(before: f64, now: f64) -> f64 {
    (now / before - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        assert_eq!(total("events: Ir\nfn=x\n1 2\n\ntotals: 82600123\n"), Some(82_600_123));
        assert_eq!(total("summary: 17 0\n"), Some(17));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn growth_fails_the_check_and_shrinking_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let in_file =
            |name| Record { path: folder.path().join(name), what: "a test".into(), written_by: "test" };
        let record = in_file("counts.toml");
        record.write(&[("register", 10_000.0), ("call", 50_000.0)]).unwrap();
        record.check(&[("register", 10_400.0), ("call", 20_000.0)]).unwrap();
        let error = record.check(&[("register", 10_600.0), ("call", 50_000.0)]).unwrap_err();
        assert!(error.to_string().contains("register by 6.0 %"), "{error}");
        assert!(record.check(&[("logout", 1.0)]).is_err());
        assert!(in_file("none").check(&[("register", 1.0)]).is_err());
    }
}
