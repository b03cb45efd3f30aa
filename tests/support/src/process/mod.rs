//! Programs under test: started in a process group of their own, which ends with the process that started them, with
//! their output kept, waited for with a time limit, and always ended.

use crate::eventually::{PATIENCE, retry_often};
use crate::namespace;
use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, kill_process, kill_process_group, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};
use tempfile::TempDir;

pub use rustix::process::Signal;

/// Folder and network namespace of programs.
#[derive(Clone)]
pub struct Site {
    /// Working folder, which also gets the output.
    pub folder: PathBuf,
    /// Name of the network namespace; `None`: that of this process.
    pub namespace: Option<Arc<str>>,
}

impl Site {
    /// Command for a program in the namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        namespace::command(self.namespace.as_deref(), program)
    }
}

/// A new folder, which the second value removes, in the namespace of this process.
pub(crate) fn temporary_site() -> (Site, TempDir) {
    let folder = TempDir::new().unwrap();
    (Site { folder: folder.path().to_owned(), namespace: None }, folder)
}

/// A running program. When the value is dropped it ends, and with it all processes of its group.
pub struct Process {
    name: String,
    child: Mutex<Child>,
    /// Number of the process.
    id: Pid,
    input: Option<ChildStdin>,
    out: Output,
    err: Output,
    /// Of the program; no number of a process, which another one may get.
    handle: OwnedFd,
    group: Group,
}

impl Process {
    /// Starts `command` in `folder`; its output goes to `NAME.out` and `NAME.err` there. Its standard input is a pipe.
    ///
    /// # Errors
    /// The program or a file cannot be opened.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self> {
        let (out, out_file) = Output::in_file(&folder.join(format!("{name}.out")))?;
        let (err, err_file) = Output::in_file(&folder.join(format!("{name}.err")))?;
        let child = spawn(command.current_dir(folder).stdout(out_file).stderr(err_file))?;
        Self::of(name, child, out, err)
    }

    /// Starts `command`, whose outputs and standard input are pipes; its output is kept in memory.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_with_pipes(name: &str, command: &mut Command) -> Result<Self> {
        let mut child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let out = Output::of_pipe(child.stdout.take().context("no standard output")?);
        let err = Output::of_pipe(child.stderr.take().context("no standard error")?);
        Self::of(name, child, out, err)
    }

    fn of(name: &str, mut child: Child, out: Output, err: Output) -> Result<Self> {
        let id = Pid::from_child(&child);
        let (group, input) = (Group::of(id), child.stdin.take());
        let handle = pidfd_open(id, PidfdFlags::empty())?;
        Ok(Self { name: name.to_owned(), child: Mutex::new(child), id, input, out, err, handle, group })
    }

    /// Waits for the program to end.
    ///
    /// # Errors
    /// It does not within [`PATIENCE`].
    pub fn wait(&self) -> Result<ExitStatus> {
        self.wait_for(PATIENCE)
    }

    /// Same with another time limit. Its output is complete then.
    ///
    /// # Errors
    /// It does not end in time, or another process keeps its output open.
    pub fn wait_for(&self, limit: Duration) -> Result<ExitStatus> {
        let ended = is_soon(limit, || self.has_ended().unwrap_or(true) && self.is_output_complete());
        let status = self.status()?.filter(|_| ended);
        status.with_context(|| format!("{} did not end within {} s", self.name, limit.as_secs()))
    }

    /// Waits for the program to end with status 0. Returns its output.
    ///
    /// # Errors
    /// It has another status, or does not end.
    pub fn succeeds(&self) -> Result<String> {
        let status = self.wait()?;
        let output = self.output();
        ensure!(status.success(), "{} ended with {status}: {}", self.name, output.trim());
        Ok(output)
    }

    /// First JSON object that it printed.
    ///
    /// # Errors
    /// It printed none.
    pub fn printed_json(&self) -> Result<Value> {
        let output = self.output();
        let line = output.lines().find(|line| line.starts_with('{'));
        let line =
            line.with_context(|| format!("{} printed no JSON object: {}", self.name, output.trim()))?;
        serde_json::from_str(line).with_context(|| format!("{} printed bad JSON", self.name))
    }

    /// Waits until the program's output contains `text`.
    ///
    /// # Errors
    /// The program ends first, or does not print it within [`PATIENCE`].
    pub fn wait_for_output(&self, text: &str) -> Result<()> {
        self.wait_until(text, |output| output.contains(text))
    }

    /// Waits until its output satisfies `is_so`; `what` names the condition.
    ///
    /// # Errors
    /// As of [`Process::wait_for_output`].
    pub fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> Result<()> {
        self.wait_within(PATIENCE, what, |process| is_so(&process.output()).then_some(()))
    }

    /// Waits for a complete line of either output that satisfies `is_so`, and returns it; `what` names it.
    ///
    /// # Errors
    /// The program ends first, or does not print it within `limit`.
    pub fn wait_for_line(&self, limit: Duration, what: &str, is_so: impl Fn(&str) -> bool) -> Result<String> {
        self.wait_within(limit, what, |process| {
            process.lines().lines().find(|line| is_so(line)).map(str::to_owned)
        })
    }

    fn wait_within<T>(&self, limit: Duration, what: &str, look: impl Fn(&Self) -> Option<T>) -> Result<T> {
        let outcome = retry_often(limit, POLL, || {
            // The status is read first: a program that has ended prints no more.
            let status = self.status().ok().flatten().filter(|_| self.is_output_complete());
            look(self).map(Ok).or_else(|| status.map(Err)).ok_or(())
        });
        match outcome {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(status)) => {
                bail!("{} ended ({status}) before it printed \"{what}\":\n{}", self.name, self.lines())
            }
            Err(()) => {
                let seconds = limit.as_secs();
                bail!("{} did not print \"{what}\" within {seconds} s:\n{}", self.name, self.lines())
            }
        }
    }

    /// Writes a line to the program's standard input.
    ///
    /// # Errors
    /// It does not read its input.
    pub fn type_line(&mut self, line: &str) -> Result<()> {
        self.type_keys(&format!("{line}\n"))
    }

    /// Writes to the program's standard input.
    ///
    /// # Errors
    /// It does not read its input.
    pub fn type_keys(&mut self, keys: &str) -> Result<()> {
        let input = self.input.as_mut().context("no standard input")?;
        input.write_all(keys.as_bytes()).with_context(|| format!("{} does not read its input", self.name))
    }

    /// Closes the program's standard input.
    pub fn close_input(&mut self) {
        drop(self.take_input());
    }

    /// The program's standard input, for its first caller.
    pub const fn take_input(&mut self) -> Option<ChildStdin> {
        self.input.take()
    }

    /// True if the program has ended.
    ///
    /// # Errors
    /// The system refuses the question.
    pub fn has_ended(&self) -> Result<bool> {
        Ok(self.status()?.is_some())
    }

    /// Number of the process.
    pub const fn id(&self) -> Pid {
        self.id
    }

    /// Sends a signal to the program, if it runs; not to the other processes of its group.
    pub fn signal(&self, signal: Signal) {
        // It fails only if the program has ended.
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// Sends SIGTERM, and SIGKILL after a while.
    pub fn stop(&self) {
        self.signal(Signal::TERM);
        if !is_soon(INSIST_AFTER, || self.has_ended().unwrap_or(true)) {
            self.kill();
        }
    }

    /// Sends SIGKILL to all processes of its group, so that the program cannot write anything more.
    pub fn kill(&self) {
        self.group.kill();
        // Both fail only if the program has ended already.
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Its output so far: standard output, then standard error.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&[self.out.bytes(), self.err.bytes()].concat()).into_owned()
    }

    /// Complete lines of its output so far: of standard output, then of standard error.
    pub fn lines(&self) -> String {
        self.out.lines() + &self.err.lines()
    }

    /// Bytes of its standard output so far.
    pub fn out(&self) -> Vec<u8> {
        self.out.bytes()
    }

    /// Bytes of its standard error so far.
    pub fn err(&self) -> Vec<u8> {
        self.err.bytes()
    }

    fn status(&self) -> Result<Option<ExitStatus>> {
        Ok(self.child.lock().unwrap().try_wait()?)
    }

    fn is_output_complete(&self) -> bool {
        self.out.is_complete() && self.err.is_complete()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs a program with this input to its end, and returns its standard output.
///
/// # Errors
/// It cannot be started, or does not end with status 0; the error has what it wrote to standard error.
pub fn run_to_end(command: &mut Command, input: &str) -> Result<String> {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    // It stays in the process group of this one, which waits for it: an interruption in the terminal ends both.
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let spawned = command.spawn();
    let mut child = spawned.with_context(|| format!("cannot start {}; is it installed?", words[0]))?;
    if let Some(mut stdin) = child.stdin.take() {
        // It fails if the program has ended, which its status tells.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} ended with {}: {}", words.join(" "), output.status, error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Sends a signal to a process that another program started.
///
/// # Errors
/// There is no such process.
pub fn send_signal(id: u32, signal: Signal) -> Result<()> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw).context("no number of a process")?;
    Ok(kill_process(id, signal)?)
}

fn spawn(command: &mut Command) -> Result<Child> {
    let program = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdin(Stdio::piped()).process_group(0).spawn();
    spawned.with_context(|| format!("cannot start {program}; is it installed?"))
}

/// Waits until a condition holds; false if it does not within `limit`.
fn is_soon(limit: Duration, condition: impl Fn() -> bool) -> bool {
    retry_often(limit, POLL, || condition().then_some(()).ok_or(())).is_ok()
}

/// The process group of a program, which is killed when the value is dropped.
struct Group(Pid);

impl Group {
    /// The group whose first process is `leader`.
    fn of(leader: Pid) -> Self {
        report("add", leader);
        Self(leader)
    }

    /// Sends SIGKILL to all its processes.
    fn kill(&self) {
        // It fails if none is left.
        let _: Result<(), Errno> = kill_process_group(self.0, Signal::KILL);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        report("remove", self.0);
    }
}

fn report(change: &str, group: Pid) {
    if let Some(input) = WATCHDOG.lock().unwrap().as_mut() {
        let _ = writeln!(input, "{change} {}", group.as_raw_nonzero());
    }
}

/// Standard input of a shell that kills the groups that are left when this process has ended and its pipe is closed. An
/// interruption in the terminal reaches only this process, because each program has a group of its own.
static WATCHDOG: LazyLock<Mutex<Option<ChildStdin>>> = LazyLock::new(|| {
    let mut shell = Command::new("sh");
    shell.args(["-c", SCRIPT]).process_group(0).stdin(Stdio::piped());
    let started = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Mutex::new(started.ok().and_then(|mut shell| shell.stdin.take()))
});

const SCRIPT: &str = r#"
groups=" "
while read -r change group; do
    case $change in
        add) groups="$groups$group " ;;
        remove) groups="${groups% $group *} ${groups#* $group }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"#;

/// Standard output or standard error of a program.
enum Output {
    File(File),
    Pipe { bytes: Arc<Mutex<Vec<u8>>>, reader: JoinHandle<()> },
}

impl Output {
    /// An output in a new file, and the file for the program.
    fn in_file(path: &Path) -> io::Result<(Self, File)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok((Self::File(file.try_clone()?), file))
    }

    fn of_pipe(mut from: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let to = bytes.clone();
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                to.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self::Pipe { bytes, reader }
    }

    /// True if nothing can follow from a program that has ended.
    fn is_complete(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Pipe { reader, .. } => reader.is_finished(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::File(file) => read_all(file).unwrap_or_default(),
            Self::Pipe { bytes, .. } => bytes.lock().unwrap().clone(),
        }
    }

    /// Complete lines.
    fn lines(&self) -> String {
        let bytes = self.bytes();
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

/// The whole file. It does not move the position, which is also that of the program.
fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or_default()];
    let mut filled = 0;
    while let count @ 1.. = file.read_at(&mut bytes[filled..], filled as u64)? {
        filled += count;
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Longest pause between two looks at a program, whose times are measured too.
const POLL: Duration = Duration::from_millis(10);

/// Time between SIGTERM and SIGKILL.
const INSIST_AFTER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually::holds;

    fn shell(script: &str) -> Process {
        Process::start_with_pipes("sh", Command::new("sh").args(["-c", script])).unwrap()
    }

    /// True if the process with the number in `line` runs.
    fn runs(line: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{line}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with('Z'))
    }

    #[test]
    fn output_is_kept_in_memory_and_in_files() {
        let folder = tempfile::tempdir().unwrap();
        let script = "read line; echo \"$line\"; echo '{\"a\":1}' >&2; printf end >&2";
        let mut in_files =
            Process::start("sh", Command::new("sh").args(["-c", script]), folder.path()).unwrap();
        for process in [&mut shell(script), &mut in_files] {
            process.type_line("first").unwrap();
            let line = process.wait_for_line(PATIENCE, "first", |line| line.starts_with("first"));
            assert_eq!(line.unwrap(), "first");
            assert_eq!(process.succeeds().unwrap(), "first\n{\"a\":1}\nend");
            assert_eq!((process.lines(), process.out()), ("first\n{\"a\":1}\n".into(), b"first\n".into()));
            assert_eq!(process.printed_json().unwrap()["a"], 1);
            let missing = process.wait_for_output("second").unwrap_err().to_string();
            assert!(
                missing.starts_with("sh ended (exit status: 0) before it printed \"second\""),
                "{missing}"
            );
        }
        assert_eq!(std::fs::read(folder.path().join("sh.out")).unwrap(), b"first\n");
    }

    #[test]
    fn processes_that_the_program_started_end_with_it() {
        let script = "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; wait";
        for end in [|process: &mut Process| process.kill(), drop_in_place as fn(&mut Process)] {
            let mut process = shell(script);
            let child = process.wait_for_line(PATIENCE, "a number", |_| true).unwrap();
            assert!(runs(&child));
            end(&mut process);
            assert!(holds(PATIENCE, || !runs(&child)));
        }
        fn drop_in_place(process: &mut Process) {
            drop(std::mem::replace(process, shell("true")));
        }
    }

    #[test]
    fn a_program_ends_after_sigterm_and_a_killed_parent_leaves_nothing() {
        let process = shell("trap 'echo ended; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
        process.wait_for_output("ready").unwrap();
        process.signal(Signal::TERM);
        assert_eq!(process.wait().unwrap().code(), Some(3));
        // The parent is this test program once more, with one ignored test.
        let mut parent = Command::new(std::env::current_exe().unwrap());
        parent.args(["--exact", "process::tests::parent", "--ignored", "--nocapture"]);
        let parent = Process::start_with_pipes("parent", &mut parent).unwrap();
        let line = parent.wait_for_line(PATIENCE, "child", |line| line.contains("child ")).unwrap();
        let child = line.rsplit(' ').next().unwrap();
        assert!(runs(child));
        parent.kill();
        assert!(holds(PATIENCE, || !runs(child)), "{child} runs");
    }

    #[test]
    #[ignore = "the parent of another test"]
    fn parent() {
        let ended = shell("true").wait().unwrap();
        assert!(ended.success());
        let child = shell("sleep 1000");
        println!("child {}", child.id());
        std::thread::sleep(PATIENCE);
    }
}
