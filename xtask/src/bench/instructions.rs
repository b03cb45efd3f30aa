//! Instructions per operation, counted by callgrind: a figure that no other work on the machine can disturb.
//!
//! Two runs, of N and of 4 N operations: starting, registering the users and stopping cost both the same, so the
//! difference belongs to 3 N operations. The counts are recorded in a file of the repository, and `--check` fails when
//! one has grown.

use super::call::Carried;
use super::drive::Extent;
use super::machine;
use super::register::Expect;
use super::subject::{Operation, Place, Routing, Settings, Under};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// How much a count may grow before `--check` fails, in percent.
const GROWTH_PERCENT_MAX: f64 = 5.0;

/// Users that are registered before the counting.
const USERS: u32 = 1000;

/// Instructions per operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Counts {
    /// Per REGISTER that refreshes a binding.
    pub(super) register: f64,
    /// Per stateful call.
    pub(super) call: f64,
}

/// Counts with Ringway's release binary.
///
/// # Errors
/// valgrind is not installed, or the server does not run under it.
pub(super) fn count(place: &Place) -> Result<Counts> {
    if machine::version_of("valgrind", &["--version"]).contains("not installed") {
        bail!("counting instructions needs valgrind: install the package `valgrind`");
    }
    Ok(Counts {
        register: slope(place, Operation::Refresh(Expect::Ok), 2000)?,
        call: slope(place, Operation::Call(Carried::ByProxy), 500)?,
    })
}

fn slope(place: &Place, operation: Operation, operations: u64) -> Result<f64> {
    let few = run(place, operation, operations)?;
    let many = run(place, operation, 4 * operations)?;
    Ok(many.saturating_sub(few) as f64 / (3 * operations) as f64)
}

fn run(place: &Place, operation: Operation, operations: u64) -> Result<u64> {
    let counts = place.folder.join(format!("callgrind.{operations}.out"));
    let settings = Settings::open(USERS, Routing::Stateful);
    let mut subject = place.ringway(&settings, Under::Callgrind(&counts))?;
    subject.register_all(Expect::Ok)?;
    subject.run(operation, Extent::Operations(operations))?;
    subject.stop()?;
    let text = fs::read_to_string(&counts).with_context(|| counts.display().to_string())?;
    total(&text).with_context(|| format!("{} holds no total", counts.display()))
}

/// The sum of all instructions in callgrind's output.
fn total(text: &str) -> Option<u64> {
    text.lines()
        .rev()
        .find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
}

/// Where the counts are recorded.
pub(super) fn record_path(workspace: &Path) -> PathBuf {
    workspace.join("xtask/bench-instructions.toml")
}

/// Writes the record.
pub(super) fn record(path: &Path, counts: Counts) -> Result<()> {
    let text = format!(
        "# Instructions per operation (callgrind, release binary, {USERS} users, one worker, no store, no digest).\n\
         # Written by `cargo xtask bench instructions --write`; `--check` fails when one grows by more than \
         {GROWTH_PERCENT_MAX} %.\n\
         rustc = \"{}\"\nregister = {:.0}\ncall = {:.0}\n",
        machine::version_of("rustc", &["--version"]),
        counts.register,
        counts.call,
    );
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Holds `counts` against the record; a line for each.
///
/// # Errors
/// A count has grown too much, or there is no record.
pub(super) fn check(path: &Path, counts: Counts) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| {
        format!("{}: make it with `cargo xtask bench instructions --write`", path.display())
    })?;
    let recorded: toml::Table = text.parse().with_context(|| path.display().to_string())?;
    let compiler = recorded.get("rustc").and_then(toml::Value::as_str).unwrap_or_default();
    let mut grown = Vec::new();
    for (name, now) in [("register", counts.register), ("call", counts.call)] {
        let before = recorded.get(name).and_then(toml::Value::as_integer).unwrap_or_default();
        if before <= 0 {
            bail!("{}: `{name}` is missing", path.display());
        }
        let percent = growth_percent(before as f64, now);
        eprintln!("  {name}: {now:.0} instructions, recorded {before}, {percent:+.1} %");
        if percent > GROWTH_PERCENT_MAX {
            grown.push(format!("{name} by {percent:.1} %"));
        } else if percent < -GROWTH_PERCENT_MAX {
            eprintln!("  {name} has become cheaper: record it with `cargo xtask bench instructions --write`");
        }
    }
    if !grown.is_empty() {
        bail!(
            "instructions per operation grew: {} (recorded with {compiler}; `cargo xtask bench instructions --write` \
             records what is meant to be)",
            grown.join(", ")
        );
    }
    Ok(())
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
        let path = folder.path().join("counts.toml");
        record(&path, Counts { register: 10_000.0, call: 50_000.0 }).unwrap();
        check(&path, Counts { register: 10_400.0, call: 20_000.0 }).unwrap();
        let error = check(&path, Counts { register: 10_600.0, call: 50_000.0 }).unwrap_err();
        assert!(error.to_string().contains("register by 6.0 %"), "{error}");
        assert!(check(&folder.path().join("none"), Counts { register: 1.0, call: 1.0 }).is_err());
    }
}
