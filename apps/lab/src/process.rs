//! A server as a separate process: measured through the system, and always ended.

use crate::machine::{self, GENERATOR_CPU, SERVER_CPU, ThreadTimes};
use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time until a server is ready, which may have to load a million users.
const READY_WAIT: Duration = Duration::from_secs(60);

/// Maximum time until a server ends after SIGTERM.
const END_WAIT: Duration = Duration::from_secs(20);

/// CPU time of a process and all its children, in nanoseconds.
///
/// # Errors
/// There is no such process.
pub fn cpu_ns_of(pid: u32) -> Result<u64> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("not the number of a process")?;
    sum_of_family(pid, machine::process_cpu_ns)
}

/// Memory of a process and all its children in bytes; what they share counts once.
///
/// # Errors
/// There is no such process.
pub fn memory_bytes_of(pid: u32) -> Result<u64> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("not the number of a process")?;
    sum_of_family(pid, machine::proportional_bytes)
}

/// Number of the only process with this name whose parent has another one.
///
/// # Errors
/// None or several processes have the name.
pub fn find(name: &str) -> Result<u32> {
    let has_name = |pid: Pid| {
        let text = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).unwrap_or_default();
        // The kernel keeps 15 bytes.
        text.trim_end() == name.get(..15).unwrap_or(name)
    };
    let found: Vec<Pid> = parents()?
        .into_iter()
        .filter(|(pid, parent)| has_name(*pid) && !has_name(*parent))
        .map(|(pid, _)| pid)
        .collect();
    match found[..] {
        [pid] => u32::try_from(pid.as_raw_nonzero().get()).context("not the number of a process"),
        [] => bail!("no process is named {name:?}"),
        _ => bail!("{} processes are named {name:?}; give the number of one", found.len()),
    }
}

/// A running server, pinned to [`SERVER_CPU`] with all its threads and children.
pub struct Process {
    child: Child,
    pid: Pid,
    name: &'static str,
    lines: mpsc::Receiver<String>,
}

impl Process {
    /// Starts `command`; its standard error goes to `log`.
    pub fn start(name: &'static str, command: &mut Command, log: &Path) -> Result<Self> {
        // An interruption in the terminal is for the lab, which ends its servers.
        command.process_group(0);
        let errors = File::create(log).with_context(|| log.display().to_string())?;
        machine::pin_to(SERVER_CPU)?;
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
        machine::pin_to(GENERATOR_CPU)?;
        let mut child = spawned.with_context(|| format!("start {name}"))?;
        let output = child.stdout.take().context("the server's standard output is not there")?;
        let (sender, lines) = mpsc::channel();
        // Reads to the end, so that the server never blocks on its standard output.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid, name, lines })
    }

    /// Waits for the line that starts with `ready`, and returns it.
    ///
    /// # Errors
    /// The server ended, or printed nothing in time.
    pub fn ready(&mut self) -> Result<String> {
        let until = Instant::now() + READY_WAIT;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("ready") => return Ok(line),
                Ok(_) => {}
                Err(_) => {
                    let fate = self.fate();
                    bail!("{} did not become ready{fate}", self.name)
                }
            }
        }
    }

    /// CPU time of the server and all its children, in nanoseconds.
    pub fn cpu_ns(&self) -> Result<u64> {
        sum_of_family(self.pid, machine::process_cpu_ns)
    }

    /// Times of the threads of the server and all its children, by their numbers.
    ///
    /// # Errors
    /// The server has ended.
    pub fn threads(&self) -> Result<HashMap<u32, ThreadTimes>> {
        let mut threads = HashMap::new();
        for pid in family(self.pid)? {
            threads.extend(machine::thread_times(pid)?);
        }
        Ok(threads)
    }

    /// Resident memory of the server's own process, in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        machine::resident_bytes(self.pid)
    }

    /// Memory of the server and all its children, in bytes; what they share counts once.
    pub fn memory_bytes(&self) -> Result<u64> {
        sum_of_family(self.pid, machine::proportional_bytes)
    }

    /// The processes with their children, for a profiler.
    pub fn family(&self) -> Result<Vec<Pid>> {
        family(self.pid)
    }

    /// Text for an error message if the server has ended; empty while it runs.
    pub fn fate(&mut self) -> &'static str {
        match self.child.try_wait() {
            Ok(Some(_)) => " (it ended)",
            Ok(None) | Err(_) => "",
        }
    }

    /// Sends SIGTERM and waits; kills the server after `END_WAIT`.
    ///
    /// # Errors
    /// It had to be killed, or ended with an error.
    pub fn stop(&mut self) -> Result<()> {
        let ended = self.end()?;
        if ended { Ok(()) } else { Err(anyhow!("{} did not end after SIGTERM and was killed", self.name)) }
    }

    /// Ends the server; true if it did not have to be killed.
    fn end(&mut self) -> Result<bool> {
        let _ = kill_process(self.pid, Signal::TERM);
        if ends_within(&mut self.child, END_WAIT).context("wait for a server")? {
            return Ok(true);
        }
        self.child.kill().context("kill a server")?;
        self.child.wait().context("wait for a server")?;
        Ok(false)
    }
}

/// True if a program ends within this time.
pub(crate) fn ends_within(child: &mut Child, time: Duration) -> io::Result<bool> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(false)
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.end();
        }
    }
}

/// All processes with their parents.
fn parents() -> Result<Vec<(Pid, Pid)>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").context("/proc")? {
        let name = entry.context("/proc")?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // "pid (name) state parent …": the name may contain anything; the last bracket ends it.
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        if let Some(parent) = parent.and_then(Pid::from_raw) {
            parents.push((pid, parent));
        }
    }
    Ok(parents)
}

/// Sum of a value of a process and all its descendants.
fn sum_of_family(root: Pid, value: impl Fn(Pid) -> Result<u64>) -> Result<u64> {
    let has_ended = |error: &anyhow::Error| {
        let cause = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        matches!(cause, Some(libc::ENOENT | libc::ESRCH))
    };
    let values = family(root)?.into_iter().map(|pid| match value(pid) {
        // A child that has ended since it was found.
        Err(error) if pid != root && has_ended(&error) => Ok(0),
        value => value,
    });
    values.sum()
}

/// A process and all its descendants.
fn family(root: Pid) -> Result<Vec<Pid>> {
    let parents = parents()?;
    let mut found = vec![root];
    let mut index = 0;
    while let Some(&member) = found.get(index) {
        found.extend(parents.iter().filter(|(_, parent)| *parent == member).map(|(pid, _)| *pid));
        index += 1;
    }
    Ok(found)
}
