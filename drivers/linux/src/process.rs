//! Processor time, memory and signals of this process, and limits of its allocator.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{fs, io};

/// Processor time of all threads, ended ones included. `None`: the system does not tell.
pub fn cpu_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name, in parentheses; it may have spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1000 / TICKS_PER_SECOND))
}

/// Memory that is in use by this process. `None`: the system does not tell.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Unit of the times in /proc, USER_HZ: 100 on all architectures of this program.
const TICKS_PER_SECOND: u64 = 100;

/// Memory of the machine in bytes, or the limit of the control group if that is lower. `None`: neither is readable.
pub fn available_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups.lines().filter_map(|line| limit_of_group(line, Path::new("/sys/fs/cgroup")));
    limits.chain(machine_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default())).min()
}

/// Makes the allocator keep little of freed memory; to be called once at the start.
pub fn limit_free_heap() {
    crate::sys::limit_free_heap();
}

/// Returns freed memory to the system (malloc_trim(3)). The allocator is locked meanwhile.
pub fn release_unused() {
    crate::sys::trim_heap();
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Lowest limit from a control group up to the root, for a line of /proc/self/cgroup (cgroups(7)).
fn limit_of_group(line: &str, root: &Path) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (root, file) = match controllers {
        "" => (root.to_path_buf(), "memory.max"),
        names if names.split(',').any(|name| name == "memory") => {
            (root.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let group: PathBuf = root.join(path.trim_start_matches('/'));
    let folders = group.ancestors().take_while(|folder| folder.starts_with(&root));
    folders.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
}

/// Request to the process by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM or SIGINT: finish and exit.
    Terminate,
    /// SIGHUP: read the configuration again.
    Reload,
}

/// Handles signals as [`watch_with`], and passes them to the receiver during its lifetime.
pub fn watch() -> io::Result<Receiver<Signal>> {
    let (to, from) = channel();
    watch_with(move |signal| to.send(signal).is_ok())?;
    Ok(from)
}

/// Handles SIGTERM, SIGINT and SIGHUP and passes them to `each`, until that returns false. Also handles SIGXFSZ, which
/// would end the process: a write beyond the file size limit fails with EFBIG instead.
pub fn watch_with(each: impl Fn(Signal) -> bool + Send + 'static) -> io::Result<()> {
    // The flag is not read; a handled signal does not end the process.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let body = move || {
        for number in signals.forever() {
            let signal = if number == SIGHUP { Signal::Reload } else { Signal::Terminate };
            if !each(signal) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(body)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn this_process_has_used_memory_and_time() {
        let before = cpu_time().unwrap();
        let mut sum = 0_u64;
        while cpu_time().unwrap() < before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(resident_bytes().unwrap() > 100_000);
    }

    #[test]
    fn the_lowest_limit_up_to_the_root_applies() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("a/b");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(limit_of_group("0::/a/b", root.path()), None);
        fs::write(root.path().join("a/memory.max"), "1073741824\n").unwrap();
        assert_eq!(limit_of_group("0::/a/b", root.path()), Some(1 << 30));
        let old = root.path().join("memory/c");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join("memory.limit_in_bytes"), "4096\n").unwrap();
        assert_eq!(limit_of_group("7:cpu,memory:/c", root.path()), Some(4096));
        assert_eq!(limit_of_group("7:cpu:/c", root.path()), None);
    }

    #[test]
    fn the_machine_has_memory() {
        assert_eq!(machine_bytes("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16_384));
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn signals_arrive_as_messages() {
        let signals = watch().unwrap();
        signal_hook::low_level::raise(SIGXFSZ).unwrap();
        for (number, expected) in
            [(SIGHUP, Signal::Reload), (SIGTERM, Signal::Terminate), (SIGINT, Signal::Terminate)]
        {
            signal_hook::low_level::raise(number).unwrap();
            assert_eq!(signals.recv_timeout(Duration::from_secs(5)), Ok(expected));
        }
    }
}
