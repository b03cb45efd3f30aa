//! Profiles: the CPU time of a server by component.
//!
//! ```text
//!  perf record, all processors ─► perf.data ─► perf script ─► Samples ─► Split ─► record::Profile
//! ```
//! Does: runs `perf` beside a load ([`Sampler`]), reads its samples one at a time ([`samples`]), and sums those of a window by component
//! ([`components`], [`split`]).
//!
//! Does not: start servers or loads.
//!
//! Start reading at [`Sampler`].

pub mod components;
mod elf;
pub mod samples;
pub mod split;

use crate::machine;
use crate::process::ends_within;
use anyhow::{Context, Result, bail};
use components::Table;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::ClockId;
use samples::Samples;
use split::{Processes, Split, Window};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `perf record` of all processors, beside a load.
#[derive(Debug)]
pub struct Sampler {
    recorder: Recorder,
    folder: PathBuf,
    window: Window,
    /// CPU time of perf at both ends of the window.
    used_ns: [u64; 2],
}

impl Sampler {
    /// Reason for which perf cannot sample here, and the remedy. `folder` is for its files.
    pub fn obstacle(folder: &Path) -> Option<String> {
        if !machine::version_of("perf", &["--version"]).starts_with("perf version") {
            return Some("perf is not installed; apt-get install linux-perf".to_owned());
        }
        let tried = Self::start(folder).and_then(|sampler| sampler.recorder.stop());
        tried.err().map(|error| {
            format!("perf cannot sample all processors ({error:#}); run as root or with CAP_PERFMON")
        })
    }

    /// Starts to record into `folder`.
    ///
    /// # Errors
    /// perf does not start, or is not permitted to sample.
    pub fn start(folder: &Path) -> Result<Self> {
        let data = folder.join(DATA);
        match fs::remove_file(&data) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| data.display().to_string());
            }
            Ok(()) | Err(_) => {}
        }
        let log = File::create(folder.join(LOG)).context("make a log for perf")?;
        let mut command = Command::new("perf");
        command.args(["record", "--quiet", "--event", "cpu-clock", "--all-cpus", "-g"]);
        command.args(["--count", &PERIOD_NS.to_string(), "--clockid", "CLOCK_MONOTONIC"]);
        command.args(["--no-buildid", "--no-buildid-cache", "--mmap-pages", "1024", "--max-size", "1G"]);
        command.arg("--output").arg(&data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().context("start perf record")?;
        let mut recorder = Recorder { child, log: folder.join(LOG) };
        recorder.wait_for(&data)?;
        Ok(Self { recorder, folder: folder.to_owned(), window: Window::default(), used_ns: [0; 2] })
    }

    /// Begins the window: samples from now on count.
    pub fn begin(&mut self) {
        self.window.from_ns = machine::clock_ns(ClockId::Monotonic);
        self.used_ns[0] = self.recorder.cpu_ns();
    }

    /// Ends the window.
    pub fn end(&mut self) {
        self.window.until_ns = machine::clock_ns(ClockId::Monotonic);
        self.used_ns[1] = self.recorder.cpu_ns();
    }

    /// CPU time of perf in the window, in nanoseconds.
    pub const fn profiler_ns(&self) -> u64 {
        let [from, until] = self.used_ns;
        until.saturating_sub(from)
    }

    /// Ends the recording, and sums its samples.
    ///
    /// # Errors
    /// perf failed, or its output cannot be read.
    pub fn finish(self, processes: Processes, table: Table) -> Result<Split> {
        let Self { recorder, folder, window, .. } = self;
        recorder.stop()?;
        let data = folder.join(DATA);
        let log = folder.join(LOG);
        let errors = File::create(&log).context("make a log for perf")?;
        let wanted: Vec<String> = processes.all().map(|pid| pid.to_string()).collect();
        let mut command = Command::new("perf");
        command.args(["script", "--ns", "--no-demangle", "--fields", "comm,pid,tid,time,period,ip,sym,dso"]);
        command.args(["--pid", &wanted.join(",")]).arg("--input").arg(&data);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut script = Recorder { child: command.spawn().context("start perf script")?, log };
        let output = script.child.stdout.take().context("the output of perf script is not there")?;
        let mut samples = Samples::new(BufReader::new(output));
        let mut split = Split::new(processes, table, window);
        while let Some(sample) = samples.next_sample()? {
            split.add(&sample);
        }
        split.unreadable = samples.unreadable();
        let status = script.child.wait().context("wait for perf script")?;
        if !status.success() {
            bail!("perf script ended with {status}{}", script.last_words());
        }
        // Megabytes for each second.
        let _ = fs::remove_file(&data);
        Ok(split)
    }
}

/// A perf program, which is ended with its owner.
#[derive(Debug)]
struct Recorder {
    child: Child,
    log: PathBuf,
}

impl Recorder {
    fn cpu_ns(&self) -> u64 {
        machine::process_cpu_ns(Pid::from_child(&self.child)).unwrap_or_default()
    }

    /// Waits until the recording has begun, which makes `data`.
    fn wait_for(&mut self, data: &Path) -> Result<()> {
        let until = Instant::now() + START_WAIT;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().context("wait for perf record")? {
                bail!("perf record ended with {status}{}", self.last_words());
            }
            if fs::metadata(data).is_ok_and(|data| data.len() > 0) {
                // The events are opened right after its file, or refused.
                std::thread::sleep(SETTLE);
                return match self.child.try_wait().context("wait for perf record")? {
                    None => Ok(()),
                    Some(status) => bail!("perf record ended with {status}{}", self.last_words()),
                };
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("perf record did not begin within {} s", START_WAIT.as_secs())
    }

    /// Ends the recording, which writes the rest of its file.
    fn stop(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait().context("wait for perf record")? {
            bail!("perf record ended early with {status}{}", self.last_words());
        }
        kill_process(Pid::from_child(&self.child), Signal::INT).context("end perf record")?;
        match ends_within(&mut self.child, END_WAIT).context("wait for perf record")? {
            true => Ok(()),
            false => bail!("perf record did not end within {} s", END_WAIT.as_secs()),
        }
    }

    /// Line of its log that names the error, for a message.
    fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let line = text.lines().map(str::trim).find(|line| !line.is_empty() && *line != "Error:");
        line.map_or_else(String::new, |line| format!(": {}", line.chars().take(200).collect::<String>()))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Time between two samples of a processor. Loads come in ticks of a millisecond and multiples: the phase of the samples moves by a part of
/// the period from tick to tick.
const PERIOD_NS: u32 = 196_613;
/// Files in the folder.
const DATA: &str = "perf.data";
const LOG: &str = "perf.log";
/// Most time until perf records.
const START_WAIT: Duration = Duration::from_secs(10);
/// Time from the file of the recording to its first samples.
const SETTLE: Duration = Duration::from_millis(300);
/// Most time until perf has written its file.
const END_WAIT: Duration = Duration::from_secs(60);
