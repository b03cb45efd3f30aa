//! Instructions per operation, counted by callgrind: independent of other load on the machine.
//!
//! There are two runs, of N and of 4 N operations. Both have the same cost for the start, the registration of
//! the users and the stop, so the difference is that of 3 N operations. The counts are recorded in a file of
//! the repository; `--check` fails if one has grown.

use super::record::Record;
use anyhow::{Context, Result, bail};
use ringway_lab::call::Carried;
use ringway_lab::closed_loop::Extent;
use ringway_lab::machine;
use ringway_lab::register::Expect;
use ringway_lab::subject::{Environment, Operation, Routing, Settings, Under};
use std::fs;
use std::path::Path;

/// Number of users, registered before the counting.
const USERS: u32 = 1000;

/// Instructions per operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Counts {
    /// Per REGISTER that refreshes a binding.
    pub(super) register: f64,
    /// Per stateful call.
    pub(super) call: f64,
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
        register: slope(environment, Operation::Refresh(Expect::Ok), 2000)?,
        call: slope(environment, Operation::Call(Carried::ByProxy), 500)?,
    })
}

fn slope(environment: &Environment, operation: Operation, operations: u64) -> Result<f64> {
    let few = run(environment, operation, operations)?;
    let many = run(environment, operation, 4 * operations)?;
    Ok(many.saturating_sub(few) as f64 / (3 * operations) as f64)
}

fn run(environment: &Environment, operation: Operation, operations: u64) -> Result<u64> {
    let counts = environment.folder.join(format!("callgrind.{operations}.out"));
    let settings = Settings::open(USERS, Routing::Stateful);
    let mut subject = environment.ringway(&settings, Under::Callgrind(&counts))?;
    subject.register_all(Expect::Ok)?;
    subject.run(operation, Extent::Operations(operations))?;
    subject.stop()?;
    let text = fs::read_to_string(&counts).with_context(|| counts.display().to_string())?;
    total(&text).with_context(|| format!("{} has no total", counts.display()))
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
    pub(super) fn named(self) -> [(&'static str, f64); 2] {
        [("register", self.register), ("call", self.call)]
    }
}

/// File with the recorded counts.
pub(super) fn record(workspace: &Path) -> Record {
    Record {
        path: workspace.join("xtask/bench-instructions.toml"),
        what: format!("callgrind, release binary, {USERS} users, one worker, no store, no digest"),
        written_by: "cargo xtask bench instructions --write",
    }
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
}
