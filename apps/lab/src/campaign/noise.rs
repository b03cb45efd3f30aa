//! Machine of a campaign, and its other work.

use crate::machine::{self, Ticks};
use crate::record::Machine;
use sha2::{Digest, Sha256};
use std::fs;
use std::time::{Duration, Instant};

/// Meter of what the machine does besides server and generator.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    ticks: Ticks,
    own_ns: u64,
}

/// Other work of the machine, as shares of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Of other programs.
    pub others: f64,
    /// Of the hypervisor.
    pub steal: f64,
}

impl Meter {
    /// Begins to measure.
    pub fn start() -> Self {
        Self { begun: Instant::now(), ticks: Ticks::now(), own_ns: own_ns() }
    }

    /// Work of others since the start; `server_ns` is the CPU time of the server meanwhile.
    pub fn noise(&self, server_ns: u64) -> Noise {
        let now = Ticks::now();
        let busy_ns = now.busy.saturating_sub(self.ticks.busy) * Ticks::ns();
        let steal_ns = now.steal.saturating_sub(self.ticks.steal) * Ticks::ns();
        let known_ns = own_ns().saturating_sub(self.own_ns) + server_ns;
        Noise::of(busy_ns, known_ns, steal_ns, self.elapsed())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl Noise {
    /// Noise of a machine that was busy for some time, of which `known_ns` was that of server and generator.
    pub fn of(busy_ns: u64, known_ns: u64, steal_ns: u64, wall: Duration) -> Self {
        let wall_ns = wall.as_nanos().max(1) as f64;
        let others_ns = busy_ns as f64 - known_ns as f64;
        Self { others: (others_ns / wall_ns).max(0.0), steal: steal_ns as f64 / wall_ns }
    }

    /// The larger share of two machines.
    #[must_use]
    pub fn or_larger(self, other: Self) -> Self {
        Self { others: self.others.max(other.others), steal: self.steal.max(other.steal) }
    }

    /// Disturbance of figures of time, if it is above a limit.
    pub fn disturbance(&self) -> Option<String> {
        if self.others > OTHERS_MAX {
            return Some(format!("other programs used {:.0} % of a processor", self.others * 100.0));
        }
        (self.steal > STEAL_MAX)
            .then(|| format!("the hypervisor took {:.1} % of a processor", self.steal * 100.0))
    }

    /// Warning if figures of time cannot be trusted.
    pub fn warning(&self) -> Option<String> {
        let remedy = if self.others > OTHERS_MAX { "; end them for exact figures" } else { "" };
        self.disturbance().map(|disturbance| format!("{disturbance}{remedy}"))
    }
}

/// Times at which a machine ran nothing of a program, while all its processors had work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalls {
    /// Share of the time, from 0 to 1: of the thread that had most.
    pub share: f64,
    /// Longest one.
    pub longest: Duration,
}

impl Stalls {
    /// Has all processors work for `time`.
    pub fn measure(time: Duration) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..processors).map(|_| scope.spawn(|| Self::of_worker(time))).collect();
            let stalls = workers.into_iter().filter_map(|worker| worker.join().ok());
            stalls.fold(Self::default(), |all, one| Self {
                share: all.share.max(one.share),
                longest: all.longest.max(one.longest),
            })
        })
    }

    fn of_worker(time: Duration) -> Self {
        let begun = Instant::now();
        Self::between(time, || begun.elapsed())
    }

    /// Reads a clock, which begins at 0, until it shows `time`.
    fn between(time: Duration, mut clock: impl FnMut() -> Duration) -> Self {
        let (mut last, mut sum, mut longest) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        while last < time {
            let now = clock();
            let gap = now.saturating_sub(last);
            if gap > STALL_MIN {
                sum += gap;
                longest = longest.max(gap);
            }
            last = now;
        }
        Self { share: sum.as_secs_f64() / last.as_secs_f64().max(f64::MIN_POSITIVE), longest }
    }

    /// Warning if figures of time cannot be trusted.
    pub fn warning(&self) -> Option<String> {
        let (share, longest_ms) = (self.share * 100.0, self.longest.as_secs_f64() * 1e3);
        (self.longest > STALL_MAX || self.share > STALLED_MAX).then(|| {
            format!(
                "with all processors at work this machine paused for {share:.1} % of the time, up to {longest_ms:.0} ms: many trials \
                 will be invalid, and peaks too low; end other programs, or measure on another machine or at another time"
            )
        })
    }
}

/// Describes the machine; measures its other work and its stalls, for `wait` each.
pub fn machine(wait: Duration) -> (Machine, Noise, Stalls) {
    let loadavg = machine::load_average();
    let meter = Meter::start();
    std::thread::sleep(wait);
    let noise = meter.noise(0);
    let stalls = Stalls::measure(wait);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.trim_start_matches([':', '=', '\t', ' ']).trim_matches('"').to_owned()
    };
    let cpu = value(&info, "model name");
    let processors = info.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    let memory = value(&read("/proc/meminfo"), "MemTotal");
    let memory_kb: u64 = memory.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default();
    let id = identity(&[&cpu, &processors.to_string(), &kernel, read("/etc/machine-id").trim()]);
    let machine = Machine {
        id,
        cpu,
        processors: u32::try_from(processors).unwrap_or(u32::MAX),
        kernel,
        memory_mb: memory_kb / 1024,
        os: value(&read("/etc/os-release"), "PRETTY_NAME"),
        loadavg,
        steal: noise.steal,
        stalled: Some(stalls.share),
        stall_ms: Some(stalls.longest.as_secs_f64() * 1e3),
    };
    (machine, noise, stalls)
}

/// Hash of what makes figures comparable.
fn identity(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    base16ct::lower::encode_string(hash.finalize().get(..8).unwrap_or_default())
}

/// CPU time of this process in nanoseconds.
fn own_ns() -> u64 {
    machine::clock_ns(rustix::time::ClockId::ProcessCPUTime)
}

/// Time without a look at the clock from which on it is a stall; a look takes some 50 ns.
const STALL_MIN: Duration = Duration::from_micros(500);
/// Longest stall, and share of the time, without a warning: the lag of a valid trial is 1 ms at most.
const STALL_MAX: Duration = Duration::from_millis(8);
const STALLED_MAX: f64 = 0.02;
/// Largest share of a processor for other programs without a warning.
const OTHERS_MAX: f64 = 0.05;
/// Largest share of a processor for the hypervisor without a warning.
const STEAL_MAX: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_pauses_is_warned_of() {
        let stalls = |share, milliseconds| Stalls { share, longest: Duration::from_millis(milliseconds) };
        assert_eq!(stalls(0.01, 4).warning(), None);
        let warning = stalls(0.06, 24).warning().unwrap();
        assert!(warning.contains("6.0 % of the time, up to 24 ms"), "{warning}");
        assert!(stalls(0.03, 1).warning().is_some() && stalls(0.0, 30).warning().is_some());
        let mut times = [1, 2, 12, 13, 15, 100].map(|tenths| Duration::from_micros(100 * tenths)).into_iter();
        let measured = Stalls::between(Duration::from_millis(10), || times.next().unwrap());
        assert_eq!(measured, Stalls { share: 0.95, longest: Duration::from_micros(8_500) });
    }

    #[test]
    fn a_machine_is_the_same_until_a_part_changes() {
        let (machine, ..) = machine(Duration::from_millis(1));
        assert!(machine.processors > 0 && machine.memory_mb > 0 && !machine.kernel.is_empty());
        assert_eq!(identity(&["a", "b"]), identity(&["a", "b"]));
        assert_ne!(identity(&["a", "b"]), identity(&["ab", ""]));
        assert_eq!(machine.id.len(), 16);
    }

    #[test]
    fn the_noisier_machine_counts() {
        let second = Duration::from_secs(1);
        let quiet = Noise::of(300_000_000, 300_000_000, 0, second);
        let noisy = Noise::of(500_000_000, 300_000_000, 20_000_000, second);
        assert_eq!(quiet, Noise::default());
        assert_eq!(quiet.or_larger(noisy), noisy);
        assert!((noisy.others - 0.2).abs() < 1e-9 && (noisy.steal - 0.02).abs() < 1e-9);
        // Counters of ticks are coarse.
        assert_eq!(Noise::of(290_000_000, 300_000_000, 0, second).others, 0.0);
    }

    #[test]
    fn much_other_work_gives_a_warning() {
        let noise = |others, steal| Noise { others, steal };
        assert_eq!(noise(0.04, 0.009).warning(), None);
        assert!(noise(0.2, 0.0).warning().is_some_and(|text| text.contains("20 %")));
        assert!(noise(0.0, 0.02).warning().is_some_and(|text| text.contains("hypervisor")));
    }
}
