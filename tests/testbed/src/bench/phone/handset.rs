//! `ringway call` and `ringway answer` as processes: one side of a call each, pinned to a processor.

use crate::process::Process;
use anyhow::{Context, Result, ensure};
use ringway_lab::machine;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// One side of a call.
pub(super) struct Handset(Process);

impl Handset {
    /// Starts `ringway` with these arguments on this processor; `password` is written to its standard input.
    pub(super) fn start(ringway: &Path, arguments: &[&str], password: &str, cpu: usize) -> Result<Self> {
        // The threads that read its output stay here.
        machine::pin_to(machine::GENERATOR_CPU)?;
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string()]).arg(ringway).args(arguments);
        let mut process = Process::start_with_pipes("ringway", &mut command)?;
        // A command without a password does not read it.
        let _ = process.type_line(password);
        process.close_input();
        Ok(Self(process))
    }

    /// First line of its output that contains `part`.
    pub(super) fn line(&self, part: &str) -> Result<String> {
        self.0.wait_for_line(PATIENCE, part, |line| line.contains(part))
    }

    /// CPU time of its threads in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        machine::process_cpu_ns(self.0.id())
    }

    /// Waits for its end and parses the printed results, one object for each call.
    ///
    /// # Errors
    /// It does not end within `patience`, or fails.
    pub(super) fn results(self, patience: Duration) -> Result<Vec<Value>> {
        let status = self.0.wait_for(patience)?;
        ensure!(status.success(), "ringway ended with {status}: {}", self.0.output().trim());
        let text = String::from_utf8_lossy(&self.0.out()).into_owned();
        text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    }
}

/// Number in a result, by its path.
pub(super) fn number(result: &Value, path: &[&str]) -> Result<f64> {
    let found = path.iter().fold(result, |value, field| &value[*field]);
    found.as_f64().with_context(|| format!("{} in {result}", path.join(".")))
}

/// Maximum time until a phone prints a line.
const PATIENCE: Duration = Duration::from_secs(20);
