//! Process groups that end with the process that started them, also when that is killed.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex};

/// The process group of a program, which is killed when the value is dropped.
pub(super) struct Group(Pid);

impl Group {
    /// The group whose first process is `leader`.
    pub(super) fn of(leader: Pid) -> Self {
        report("add", leader);
        Self(leader)
    }

    /// Sends SIGKILL to all its processes.
    pub(super) fn kill(&self) {
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
