//! Programs under test: started with their output in files, waited for with a time limit, and always ended.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use ringway_lab::machine::process_cpu_ns;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A running program, which is ended when this value is dropped.
pub(crate) struct Running {
    name: String,
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    /// Starts `command`; its output goes to `NAME.out` and `NAME.err` in `folder`. Its standard input is a
    /// pipe.
    pub(crate) fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self> {
        let out = folder.join(format!("{name}.out"));
        let err = folder.join(format!("{name}.err"));
        command.current_dir(folder).stdin(Stdio::piped());
        command.stdout(File::create(&out)?).stderr(File::create(&err)?);
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {program}; is it installed?"))?;
        Ok(Self { name: name.to_owned(), child, out, err })
    }

    /// Waits for the program to end.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        self.wait_for(PATIENCE)
    }

    /// Same with another time limit.
    pub(crate) fn wait_for(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.ended_within(limit)?
            .with_context(|| format!("{} did not end within {} s", self.name, limit.as_secs()))
    }

    /// Waits for the program to end with status 0. Returns its output.
    pub(crate) fn succeeds(&mut self) -> Result<String> {
        let status = self.wait()?;
        let output = self.output();
        ensure!(status.success(), "{} ended with {status}: {}", self.name, output.trim());
        Ok(output)
    }

    /// First JSON object that it printed.
    pub(crate) fn told(&self) -> Result<Value> {
        let output = self.output();
        let line = output.lines().find(|line| line.starts_with('{'));
        let line =
            line.with_context(|| format!("{} printed no JSON object: {}", self.name, output.trim()))?;
        serde_json::from_str(line).with_context(|| format!("{} printed bad JSON", self.name))
    }

    /// Waits until the program's output contains `text`; fails if the program ends first.
    pub(crate) fn wait_for_output(&mut self, text: &str) -> Result<()> {
        self.wait_until(text, |output| output.contains(text))
    }

    /// Waits until its output satisfies `is_so`; `what` names the condition. Fails if the program ends first.
    pub(crate) fn wait_until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // The status is read first: a program that has ended prints no more.
            let status = self.child.try_wait()?;
            if is_so(&self.output()) {
                return Ok(());
            }
            if let Some(status) = status {
                bail!("{} ended ({status}) before it printed \"{what}\"", self.name);
            }
            if Instant::now() > deadline {
                bail!("{} did not print \"{what}\" within {} s", self.name, PATIENCE.as_secs());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Writes a line to the program's standard input.
    pub(crate) fn type_line(&mut self, line: &str) -> Result<()> {
        self.type_keys(&format!("{line}\n"))
    }

    /// Writes to the program's standard input.
    pub(crate) fn type_keys(&mut self, keys: &str) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("no standard input")?;
        stdin.write_all(keys.as_bytes()).with_context(|| format!("{} does not read its input", self.name))
    }

    /// True if the program has ended.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Closes the program's standard input.
    pub(crate) fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// CPU time of its living threads in seconds.
    pub(crate) fn cpu_s(&self) -> Result<f64> {
        Ok(process_cpu_ns(Pid::from_child(&self.child))? as f64 / 1e9)
    }

    /// Sends SIGTERM.
    pub(crate) fn ask_to_end(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGTERM, and SIGKILL after a while.
    pub(crate) fn stop(&mut self) {
        self.ask_to_end();
        if !matches!(self.ended_within(INSIST_AFTER), Ok(Some(_))) {
            self.kill();
        }
    }

    /// Sends SIGKILL, so that the program cannot write anything more.
    pub(crate) fn kill(&mut self) {
        // Both fail only if the program has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its output so far: standard output, then standard error.
    pub(crate) fn output(&self) -> String {
        let read = |path: &Path| std::fs::read(path).unwrap_or_default();
        let mut bytes = read(&self.out);
        bytes.extend(read(&self.err));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn ended_within(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
            std::thread::sleep(POLL);
        }
    }

    fn signal(&mut self, signal: Signal) {
        let running = matches!(self.child.try_wait(), Ok(None));
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (true, Some(pid)) = (running, pid) {
            // It fails only if the program has just ended.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An even port that is free for UDP and TCP at every address of this machine, with a free odd neighbour (RTP
/// and RTCP). Below the ephemeral ports of the kernel, and never the same twice in one run.
pub(crate) fn free_port() -> Result<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % 4000)?;
    for _ in 0..4000 {
        let step = (start + NEXT.fetch_add(1, Ordering::Relaxed)) % 4000;
        let port = 20_000 + 2 * step;
        if is_free(port) && is_free(port + 1) {
            return Ok(port);
        }
    }
    bail!("no free port between 20000 and 28000")
}

/// Waits until a program listens on the port, without binding it, which would disturb the program.
pub(crate) fn await_listener(port: u16, tables: [&str; 2]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let wanted = format!(":{port:04X}");
    let is_local = |line: &str| line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&wanted));
    while Instant::now() < deadline {
        for table in tables {
            // A kernel without IPv6 has only one of the two tables.
            let text = std::fs::read_to_string(Path::new("/proc/net").join(table)).unwrap_or_default();
            if text.lines().any(is_local) {
                return Ok(());
            }
        }
        std::thread::sleep(POLL);
    }
    bail!("nobody listens at port {port}")
}

fn is_free(port: u16) -> bool {
    let at = (Ipv4Addr::UNSPECIFIED, port);
    UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok()
}

/// Time limit for an action of a program. It is long, because a busy machine is slow, and a shorter limit
/// speeds nothing up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Time between SIGTERM and SIGKILL.
const INSIST_AFTER: Duration = Duration::from_secs(10);

const POLL: Duration = Duration::from_millis(10);
