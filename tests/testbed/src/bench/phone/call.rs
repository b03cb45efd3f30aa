//! Rows "call": accuracy of packet times, the effect of SRTP on it, and CPU time of a call.
//!
//! A call with SRTP and one without run at the same time, each between two processes on two processors, so
//! that other load affects both. Threads that only sleep until each tick run beside them as the floor. Both
//! sides measure what they receive by the kernel's timestamps.

use super::super::report::Verdict;
use super::PhoneRow;
use super::setup::{Handset, number};
use anyhow::{Context, Result, bail};
use ringway_lab::floor::{Lateness, SleepFloor, TICK_MS};
use ringway_lab::machine::{GENERATOR_CPU, SERVER_CPU};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Three figures of one direction, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Timing {
    delta_max: f64,
    delta_mean: f64,
    jitter_mean: f64,
    /// 99.9th percentile of the deltas.
    delta_p999: f64,
    packets: f64,
    lost: f64,
}

/// Result of a call of this many packets; every figure is the worse one of both directions.
struct Measured {
    timing: Timing,
    /// Share of a processor used by the calling side.
    cpu: f64,
    priority: String,
    suite: String,
    late_ms: f64,
}

const DELTA_MAX_MS: f64 = 20.5;
const DELTA_MEAN_OFF_MS: f64 = 0.01;
const JITTER_MEAN_MS: f64 = 0.05;
const DIFFERENCE_MS: f64 = 0.05;
const CPU_PERCENT: f64 = 0.5;

/// Measures calls of `packets` packets in each direction.
pub(super) fn rows(ringway: &Path, packets: u32) -> Vec<PhoneRow> {
    let what =
        format!("call of {packets} packets each way on loopback: max delta / mean delta / mean jitter");
    eprintln!("{what}");
    let targets = [
        (
            format!("{what}, SRTP"),
            format!("≤ {DELTA_MAX_MS} / 20.00 ± {DELTA_MEAN_OFF_MS} / ≤ {JITTER_MEAN_MS} ms"),
        ),
        ("effect of SRTP on each of them".to_owned(), format!("≤ {DIFFERENCE_MS} ms")),
        ("CPU of one side of a call with SRTP".to_owned(), format!("≤ {CPU_PERCENT} % of a core")),
    ];
    match measure(ringway, packets) {
        Ok(([plain, protected], floor)) => judge(targets, &plain, &protected, &floor),
        Err(error) => targets.iter().map(|(what, target)| PhoneRow::failed(what, target, &error)).collect(),
    }
}

fn judge(
    targets: [(String, String); 3],
    plain: &Measured,
    protected: &Measured,
    floor: &Lateness,
) -> Vec<PhoneRow> {
    let [timing, difference, cpu] = targets;
    let changes = protected.timing.changes_from(&plain.timing);
    let row = |(what, target): (String, String), beside: String, ringway: String, met: bool| {
        eprintln!("  {what}: {ringway}");
        let verdict = if met { Verdict::Met } else { Verdict::Missed };
        PhoneRow { what, target, beside, ringway, verdict, notes: Vec::new() }
    };
    let mut first = row(
        timing,
        format!(
            "at the same time: a thread that only sleeps until each tick (the floor), max {:.3} ms; without SRTP {}",
            floor.delta_max,
            plain.timing.words()
        ),
        protected.timing.words(),
        protected.timing.is_on_time(),
    );
    first.notes.push(format!(
        "calls: {}, at {} priority, every packet's time by the kernel, the worse of both directions; 99.9 % of the deltas \
         are below {:.3} ms (without SRTP {:.3} ms), the latest tick was {:.3} ms late (without SRTP {:.3} ms); \
         {} packets lost",
        protected.suite,
        protected.priority,
        protected.timing.delta_p999,
        plain.timing.delta_p999,
        protected.late_ms,
        plain.late_ms,
        protected.timing.lost
    ));
    first.notes.push(format!(
        "floor: two threads with the same priority, one on each processor, that only sleep until each tick during the same \
         minutes: 99.9 % of their deltas are below {:.3} ms, their latest tick was {:.3} ms late",
        floor.delta_p999, floor.late_ms
    ));
    let [max, mean, jitter] = changes;
    vec![
        first,
        row(
            difference,
            String::new(),
            format!("{max:+.3} / {mean:+.4} / {jitter:+.4} ms"),
            changes.iter().all(|change| *change <= DIFFERENCE_MS),
        ),
        row(
            cpu,
            format!("without SRTP: {:.2} %", plain.cpu * 100.0),
            format!("{:.2} %", protected.cpu * 100.0),
            protected.cpu * 100.0 <= CPU_PERCENT,
        ),
    ]
}

impl Timing {
    fn of(result: &Value) -> Result<Self> {
        let received = |field| number(result, &["received", field]);
        Ok(Self {
            delta_max: received("max_delta_ms")?,
            delta_mean: received("mean_delta_ms")?,
            jitter_mean: received("mean_jitter_ms")?,
            delta_p999: received("p999_delta_ms")?,
            packets: received("packets")?,
            lost: received("lost")?,
        })
    }

    fn worse(self, other: Self) -> Self {
        let off = |timing: &Self| (timing.delta_mean - TICK_MS).abs();
        Self {
            delta_max: self.delta_max.max(other.delta_max),
            delta_mean: if off(&self) >= off(&other) { self.delta_mean } else { other.delta_mean },
            jitter_mean: self.jitter_mean.max(other.jitter_mean),
            delta_p999: self.delta_p999.max(other.delta_p999),
            packets: self.packets.min(other.packets),
            lost: self.lost + other.lost,
        }
    }

    fn is_on_time(&self) -> bool {
        self.delta_max <= DELTA_MAX_MS
            && (self.delta_mean - TICK_MS).abs() <= DELTA_MEAN_OFF_MS
            && self.jitter_mean <= JITTER_MEAN_MS
            && self.lost == 0.0
    }

    /// Increase of each figure over `other`; negative is better.
    fn changes_from(&self, other: &Self) -> [f64; 3] {
        [
            self.delta_max - other.delta_max,
            (self.delta_mean - TICK_MS).abs() - (other.delta_mean - TICK_MS).abs(),
            self.jitter_mean - other.jitter_mean,
        ]
    }

    fn words(&self) -> String {
        format!("{:.3} / {:.4} / {:.4} ms", self.delta_max, self.delta_mean, self.jitter_mean)
    }
}

/// Runs a call without SRTP, one with it, and the floor at the same time.
fn measure(ringway: &Path, packets: u32) -> Result<([Measured; 2], Lateness)> {
    let seconds = f64::from(packets) * TICK_MS / 1000.0;
    let plain = Pair::start(ringway, &["--srtp", "none"], seconds)?;
    // Half a tick apart, so that they do not send at the same time.
    std::thread::sleep(Duration::from_millis(10));
    let protected = Pair::start(ringway, &["--srtp", "sdes", "--suite", "AES_CM_128_HMAC_SHA1_80"], seconds)?;
    let ticks = SleepFloor::start(seconds);
    let shares = watch(&plain, &protected, seconds)?;
    let [plain_share, protected_share] = shares;
    let measured = [plain.end(plain_share, packets)?, protected.end(protected_share, packets)?];
    Ok((measured, ticks.end()?))
}

/// Share of a processor that each calling side uses during the calls.
fn watch(plain: &Pair, protected: &Pair, seconds: f64) -> Result<[f64; 2]> {
    let window = Duration::from_secs_f64(seconds * 0.8);
    let begun = Instant::now();
    let before = [plain.alice.cpu_ns()?, protected.alice.cpu_ns()?];
    std::thread::sleep(window);
    let (after, passed) = ([plain.alice.cpu_ns()?, protected.alice.cpu_ns()?], begun.elapsed());
    let share = |before: u64, after: u64| after.saturating_sub(before) as f64 / passed.as_nanos() as f64;
    Ok([share(before[0], after[0]), share(before[1], after[1])])
}

/// Both sides of an established call.
struct Pair {
    alice: Handset,
    bob: Handset,
    seconds: f64,
}

impl Pair {
    fn start(ringway: &Path, options: &[&str], seconds: f64) -> Result<Self> {
        let answer = [
            "answer",
            "--as",
            "sip:bob@127.0.0.1",
            "--bind",
            "127.0.0.1:0",
            "--count",
            "1",
            "--json",
            "--play",
            "speech",
        ];
        let bob = Handset::start(ringway, &answer, "", SERVER_CPU)?;
        let ready = bob.line("ready ")?;
        let address =
            ready.split(' ').find_map(|word| word.strip_prefix("udp:")).context("no udp address")?;
        let (uri, duration) = (format!("sip:bob@{address}"), format!("{}", seconds + MARGIN_S));
        let mut call = vec!["call", &uri, "--json", "--play", "speech", "--duration", &duration];
        call.extend(options);
        let alice = Handset::start(ringway, &call, "", GENERATOR_CPU)?;
        alice.line("is connected")?;
        Ok(Self { alice, bob, seconds })
    }

    fn end(self, cpu: f64, packets: u32) -> Result<Measured> {
        let patience = Duration::from_secs_f64(self.seconds) + Duration::from_secs(30);
        let (alice, bob) = (self.alice.results(patience)?, self.bob.results(patience)?);
        let [alice, bob] = [alice.first(), bob.first()].map(|result| result.context("no result"));
        let (alice, bob) = (alice?, bob?);
        let timing = Timing::of(alice)?.worse(Timing::of(bob)?);
        if timing.packets < f64::from(packets) {
            bail!("only {} of {packets} packets came", timing.packets);
        }
        let late = [alice, bob].map(|result| number(result, &["sent", "late_ms_max"]));
        let [late_alice, late_bob] = late;
        let text = |path: [&str; 2]| alice[path[0]][path[1]].as_str().unwrap_or("no SRTP").to_owned();
        Ok(Measured {
            timing,
            cpu,
            priority: text(["sent", "priority"]),
            suite: text(["security", "suite"]),
            late_ms: late_alice?.max(late_bob?),
        })
    }
}

/// Packets of the first moments are sent before the call is established on both sides.
const MARGIN_S: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_of_both_directions_counts() {
        let good = Timing {
            delta_max: 20.1,
            delta_mean: 20.0,
            jitter_mean: 0.01,
            packets: 100.0,
            ..Timing::default()
        };
        let late = Timing { delta_max: 21.0, delta_mean: 19.98, ..good };
        assert!(good.is_on_time() && !late.is_on_time());
        let worse = good.worse(late);
        assert_eq!((worse.delta_max, worse.delta_mean), (21.0, 19.98));
        assert!(!Timing { lost: 1.0, ..good }.is_on_time());
        let [max, mean, jitter] = late.changes_from(&good);
        assert!((max - 0.9).abs() < 1e-9 && (mean - 0.02).abs() < 1e-9 && jitter == 0.0);
    }
}
