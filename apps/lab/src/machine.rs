//! Machine that is measured: processors, clocks, CPU time, load.

use anyhow::{Context, Result, anyhow};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::process::Command;

/// Processor of the measured server.
pub const SERVER_CPU: usize = 0;

/// Processor of the generator.
pub const GENERATOR_CPU: usize = 1;

/// CPU time of this thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// Reads a clock, in nanoseconds.
pub fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// Pins this thread, and the threads and processes that it starts later, to one processor.
///
/// # Errors
/// The processor does not exist: a machine with one processor cannot separate server and generator.
pub fn pin_to(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
        .with_context(|| format!("run on processor {cpu} (the measurements need two processors)"))
}

/// Times of a thread since its start, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Time on a processor.
    pub cpu_ns: u64,
    /// Time in which it was runnable and waited for its processor.
    pub waiting_ns: u64,
}

impl ThreadTimes {
    /// Reads the text of `schedstat`.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        Some(Self { cpu_ns: numbers.next()??, waiting_ns: numbers.next()?? })
    }

    /// Time in which the thread did not sleep.
    pub const fn runnable_ns(self) -> u64 {
        self.cpu_ns + self.waiting_ns
    }
}

/// Times of a process's living threads, by their numbers.
pub fn thread_times(pid: Pid) -> Result<Vec<(u32, ThreadTimes)>> {
    let folder = format!("/proc/{}/task", pid.as_raw_nonzero());
    let mut threads = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.clone())? {
        let entry = entry.with_context(|| folder.clone())?;
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
        threads.extend(ThreadTimes::parse(&text).map(|times| (number, times)));
    }
    Ok(threads)
}

/// CPU time of a process's living threads, in nanoseconds.
pub fn process_cpu_ns(pid: Pid) -> Result<u64> {
    Ok(thread_times(pid)?.iter().map(|(_, times)| times.cpu_ns).sum())
}

/// Resident memory of a process, in bytes.
pub fn resident_bytes(pid: Pid) -> Result<u64> {
    kibibytes(pid, "status", "VmRSS:")
}

/// Resident memory of a process, in bytes; of shared memory its part.
pub fn proportional_bytes(pid: Pid) -> Result<u64> {
    kibibytes(pid, "smaps_rollup", "Pss:")
}

fn kibibytes(pid: Pid, file: &str, key: &str) -> Result<u64> {
    let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    text.lines()
        .find_map(|line| line.strip_prefix(key))
        .and_then(|rest| rest.trim().split(' ').next())
        .and_then(|number| number.parse::<u64>().ok())
        .map(|kibibytes| kibibytes * 1024)
        .ok_or_else(|| anyhow!("{path} names no {key}"))
}

/// System-wide counters at one point in time, in clock ticks of all processors.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ticks {
    /// Ticks in which a process ran.
    pub busy: u64,
    /// Ticks that the hypervisor gave to other guests.
    pub steal: u64,
}

impl Ticks {
    /// Reads the current counters; zeros if the system does not provide them.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let numbers: Vec<u64> = text
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .map(|number| number.parse().unwrap_or_default())
            .collect();
        let at = |index: usize| numbers.get(index).copied().unwrap_or_default();
        // user, nice, system, idle, iowait, irq, softirq, steal
        Self { busy: at(0) + at(1) + at(2) + at(5) + at(6), steal: at(7) }
    }

    /// Nanoseconds in one tick.
    pub fn ns() -> u64 {
        1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
    }
}

/// Clock ticks used by this process and its reaped children.
pub fn own_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    // utime, stime, cutime, cstime: fields 14 to 17 of proc(5), 12 to 15 behind the name.
    fields.split_whitespace().skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// The load averages, as the system prints them.
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// One line about the machine: processors, kernel, compiler.
pub fn description() -> String {
    format!("{}, {}", hardware(), version_of("rustc", &["--version"]))
}

/// One line about the machine: processors, kernel.
pub fn hardware() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // Not available_parallelism: this thread may be pinned to one of them.
    let cpus = info.lines().filter(|line| line.starts_with("processor")).count();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| rest.trim_start_matches([':', '\t', ' ']));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cpus} × {model}, Linux {}", kernel.trim())
}

/// Number that the kernel made at its start, the same in all namespaces; empty if the system does not provide it.
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim_end().to_owned()
}

/// Frequency of the processor in MHz, as the system reports it.
pub fn mhz() -> f64 {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("cpu MHz"));
    line.and_then(|rest| rest.trim_start_matches([':', '\t', ' ']).parse().ok()).unwrap_or(f64::NAN)
}

/// First line of a program's version output, or a note that it is not installed.
pub fn version_of(program: &str, arguments: &[&str]) -> String {
    Command::new(program).args(arguments).output().map_or_else(
        |_| format!("{program}: not installed"),
        |output| String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_thread_are_read() {
        assert_eq!(ThreadTimes::parse("12 30 4\n"), Some(ThreadTimes { cpu_ns: 12, waiting_ns: 30 }));
        assert_eq!(ThreadTimes::parse("12"), None);
        assert_eq!(ThreadTimes { cpu_ns: 12, waiting_ns: 30 }.runnable_ns(), 42);
        let threads = thread_times(rustix::process::getpid()).unwrap();
        assert!(threads.iter().any(|(_, times)| times.cpu_ns > 0), "{threads:?}");
    }

    #[test]
    fn this_process_has_used_time_and_memory() {
        let own = rustix::process::getpid();
        assert!(process_cpu_ns(own).unwrap() > 0);
        assert!(resident_bytes(own).unwrap() > 100_000);
        assert!(proportional_bytes(own).unwrap() > 100_000);
        assert!(Ticks::now().busy >= own_ticks());
        assert!(description().contains("Linux"));
    }
}
