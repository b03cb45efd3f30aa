//! Both ends of a phone call as processes, and the timing of the machine as a reference. `ringway call` and `ringway answer`
//! as processes: one side of a call each, pinned to a processor.

pub mod sleep_floor;

use crate::machine;
use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// One side of a call.
pub struct Handset {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Handset {
    /// Starts `ringway` with these arguments on this processor; `password` is written to its standard input.
    pub fn start(ringway: &Path, arguments: &[&str], password: &str, cpu: usize) -> Result<Self> {
        let mut command = Command::new(ringway);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        machine::pin_to(cpu)?;
        let spawned = command.spawn();
        machine::pin_to(machine::GENERATOR_CPU)?;
        let mut child = spawned.with_context(|| format!("start {}", ringway.display()))?;
        let mut input = child.stdin.take().context("no standard input")?;
        // A command without a password does not read it.
        let _ = writeln!(input, "{password}");
        drop(input);
        let errors = child.stderr.take().context("no standard error")?;
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            // Ends with the process, or when the receiver is dropped.
            BufReader::new(errors).lines().map_while(|line| line.ok()).try_for_each(|line| tell.send(line))
        });
        Ok(Self { child, lines, said: Vec::new() })
    }

    /// First line on standard error that contains `part`.
    pub fn line(&mut self, part: &str) -> Result<String> {
        let end = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.said.push(line.clone());
            if line.contains(part) {
                return Ok(line);
            }
        }
        bail!("ringway did not print {part:?}, but {:?}", self.said)
    }

    /// CPU time of its threads in nanoseconds.
    pub fn cpu_ns(&self) -> Result<u64> {
        machine::process_cpu_ns(Pid::from_child(&self.child))
    }

    /// Waits for its end and parses the printed results, one object for each call.
    ///
    /// # Errors
    /// It does not end within `patience`, or fails.
    pub fn results(mut self, patience: Duration) -> Result<Vec<Value>> {
        let end = Instant::now() + patience;
        let status = loop {
            if let Some(status) = self.child.try_wait().context("wait for ringway")? {
                break status;
            }
            if Instant::now() > end {
                bail!("ringway does not end; it printed {:?}", self.said);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut text = String::new();
        self.child.stdout.take().context("no standard output")?.read_to_string(&mut text)?;
        self.said.extend(self.lines.try_iter());
        if !status.success() {
            bail!("ringway ended with {status}: {text} {:?}", self.said);
        }
        text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    }
}

impl Drop for Handset {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Fails if it has already ended.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Number in a result, by its path.
pub fn number(result: &Value, path: &[&str]) -> Result<f64> {
    let found = path.iter().fold(result, |value, field| &value[*field]);
    found.as_f64().with_context(|| format!("{} in {result}", path.join(".")))
}

/// Maximum time until a phone prints a line.
const PATIENCE: Duration = Duration::from_secs(20);
