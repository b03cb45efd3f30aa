//! Processor time and memory of this process.

use std::fs;
use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_memory_and_time() {
        let before = cpu_time().unwrap();
        let mut sum = 0_u64;
        while cpu_time().unwrap() < before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(resident_bytes().unwrap() > 100_000);
    }
}
