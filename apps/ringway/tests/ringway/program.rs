//! The built program as a process: input, output, exit status.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "no test needs all of it, and a test fails by panicking"
)]

use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Returns the output of a command that succeeded.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.status, 0, "{self:?}");
        self.out
    }

    /// Returns the line on standard error of a command that failed with `status`.
    pub(crate) fn refused(&self, status: i32) -> String {
        assert_eq!((self.status, self.err.lines().count(), self.out.len()), (status, 1, 0), "{self:?}");
        self.err.clone()
    }

    /// Parses the output, whatever the exit status is.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A running command, which is killed when dropped.
pub(crate) struct Running {
    child: Child,
    out: Output,
    err: Output,
}

impl Running {
    /// Starts `ringway` in a folder.
    pub(crate) fn start(folder: &Path, args: &[&str], input: &str) -> Self {
        Self::start_and_keep_input(folder, args, input).0
    }

    /// Like [`Running::start`], with a limit of open files.
    pub(crate) fn start_with_files(folder: &Path, args: &[&str], files: u32) -> Self {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={files}:{files}")).arg(env!("CARGO_BIN_EXE_ringway"));
        Self::run(command, folder, args, "").0
    }

    /// Like [`Running::start`], with a limit of the address space in bytes.
    pub(crate) fn start_with_memory(folder: &Path, args: &[&str], bytes: u64) -> Self {
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={bytes}:{bytes}")).arg(env!("CARGO_BIN_EXE_ringway"));
        Self::run(command, folder, args, "").0
    }

    /// Like [`Running::start`], with a variable in its environment.
    pub(crate) fn start_with_variable(folder: &Path, args: &[&str], (name, value): (&str, &Path)) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringway"));
        command.env(name, value);
        Self::run(command, folder, args, "").0
    }

    /// Starts `ringway`, which is `$0`, by a script of the shell.
    pub(crate) fn start_by_shell(folder: &Path, script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_ringway")]);
        Self::run(command, folder, &[], "").0
    }

    /// Like [`Running::start`], without the end of standard input.
    pub(crate) fn start_and_keep_input(folder: &Path, args: &[&str], input: &str) -> (Self, ChildStdin) {
        Self::run(Command::new(env!("CARGO_BIN_EXE_ringway")), folder, args, input)
    }

    /// Starts any program.
    pub(crate) fn run(mut command: Command, folder: &Path, args: &[&str], input: &str) -> (Self, ChildStdin) {
        let mut child = command
            .args(args)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read its input may have ended already.
        let mut stdin = child.stdin.take().unwrap();
        let _ = stdin.write_all(input.as_bytes());
        let (out, err) = (Output::of(child.stdout.take().unwrap()), Output::of(child.stderr.take().unwrap()));
        (Self { child, out, err }, stdin)
    }

    /// Waits for a line on either output that contains the text, and returns it.
    pub(crate) fn says(&self, text: &str) -> String {
        self.line(text, |line| line.contains(text))
    }

    /// True if a line contains the text.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.said().contains(text)
    }

    /// Waits for the line with the listeners, and returns it.
    pub(crate) fn ready(&self) -> String {
        self.line("ready", |line| line.starts_with("ready "))
    }

    /// Waits for the UDP listener, and returns its address.
    pub(crate) fn address(&self) -> String {
        self.ready().split(' ').find_map(|word| word.strip_prefix("udp:")).unwrap().to_owned()
    }

    /// Number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    pub(crate) fn end(&self) {
        self.signal("-TERM");
    }

    /// Sends a signal, such as `-HUP`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Waits for the end of the process.
    pub(crate) fn done(mut self) -> Done {
        let end = Instant::now() + TIME_LIMIT;
        let status = loop {
            let status = self.child.try_wait().unwrap();
            if let Some(status) = status.filter(|_| self.out.is_over() && self.err.is_over()) {
                break status;
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.said());
            std::thread::sleep(POLL_INTERVAL);
        };
        let text = |output: &Output| String::from_utf8(output.bytes()).unwrap();
        Done { status: status.code().unwrap(), out: text(&self.out), err: text(&self.err) }
    }

    fn line(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + TIME_LIMIT;
        loop {
            // Checked before the lines are read, so that no line can follow.
            let is_over = self.out.is_over() && self.err.is_over();
            let said = self.said();
            if let Some(line) = said.lines().find(|line| is_wanted(line)) {
                return line.to_owned();
            }
            assert!(!is_over && Instant::now() < end, "no line {what:?} in:\n{said}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Lines of both outputs so far.
    pub(crate) fn said(&self) -> String {
        self.out.lines() + &self.err.lines()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has usually ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Output of a program, read continuously so that the program does not block.
pub(crate) struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Output {
    pub(crate) fn of(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let to = bytes.clone();
        let reader = std::thread::spawn(move || {
            let mut room = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut room) {
                to.lock().unwrap().extend_from_slice(&room[..count]);
            }
        });
        Self { bytes, reader }
    }

    /// True if the output has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.reader.is_finished()
    }

    /// Complete output.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    /// Complete lines of the output.
    fn lines(&self) -> String {
        let bytes = self.bytes();
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// Time limit of any wait.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Interval of checks.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(10);
