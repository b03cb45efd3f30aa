//! Rows "SRTP": protecting and unprotecting a packet, compared with libsrtp2, by the thread's CPU clock.
//!
//! Both alternate batch by batch, so that other load affects both.

use super::super::report::Verdict;
use super::PhoneRow;
use crate::libsrtp::{Library, ROOM_BYTES, Session, Side};
use anyhow::{Context, Result};
use ringway_lab::machine;
use ringway_lab::statistics::median;
use ringway_sdp::{CryptoSuite, MasterKey};
use ringway_srtp::{Probe, SrtpReceiver, SrtpSender, Step};
use std::hint::black_box;
use std::time::Instant;

/// Number of packets between two readings of the clock.
const BATCH: usize = 256;

/// Payload length in bytes: 20 ms of G.711.
const PAYLOAD_BYTES: usize = 160;

/// Packet length with its header.
const RTP_BYTES: usize = 12 + PAYLOAD_BYTES;

/// One of this many packets is timed step by step.
const SAMPLED: usize = 64;

/// Targets of a row.
struct Target {
    suite: CryptoSuite,
    ns_max: f64,
    /// Minimum ratio of libsrtp2's time to ours, if required.
    libsrtp_times_min: Option<f64>,
}

const TARGETS: [Target; 3] = [
    Target { suite: CryptoSuite::AesCm128HmacSha1_80, ns_max: 330.0, libsrtp_times_min: Some(5.0) },
    Target { suite: CryptoSuite::AesCm256HmacSha1_80, ns_max: 350.0, libsrtp_times_min: None },
    Target { suite: CryptoSuite::AeadAes128Gcm, ns_max: 210.0, libsrtp_times_min: None },
];

/// Measures `batches` batches for each suite.
pub(super) fn rows(batches: usize) -> Vec<PhoneRow> {
    TARGETS.iter().map(|target| row(target, batches)).collect()
}

fn row(target: &Target, batches: usize) -> PhoneRow {
    let what =
        format!("SRTP protect / unprotect, {PAYLOAD_BYTES} B, {}, rollover and replay", target.suite.name());
    eprintln!("{what}");
    match measure(target.suite, batches) {
        Ok(measured) => {
            let row = measured.row(&what, target);
            eprintln!("  {}; {}", row.ringway, row.beside);
            row
        }
        Err(error) => PhoneRow::failed(&what, &target.words(), &error),
    }
}

impl Target {
    fn words(&self) -> String {
        let times = self
            .libsrtp_times_min
            .map(|times| format!(", ≥ {times} × the speed of Debian's libsrtp2 (NSS)"))
            .unwrap_or_default();
        format!("≤ {} ns, 0 allocations{times}", self.ns_max)
    }
}

/// Nanoseconds per packet, of each batch.
#[derive(Default)]
struct Times {
    protect: Vec<f64>,
    unprotect: Vec<f64>,
}

impl Times {
    fn medians(&self) -> [f64; 2] {
        [median(self.protect.iter().copied()), median(self.unprotect.iter().copied())]
    }

    fn words(&self) -> String {
        let [protect, unprotect] = self.medians();
        let (half_protect, half_unprotect) = (middle_half(&self.protect), middle_half(&self.unprotect));
        format!("{protect:.0} / {unprotect:.0} ns ({half_protect} / {half_unprotect})")
    }
}

/// Range of the middle half of the batches. The extremes come from the clock: time of other processes is
/// accounted late.
fn middle_half(times: &[f64]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| sorted.get(sorted.len() * quarter / 4).copied().unwrap_or(f64::NAN);
    format!("{:.0}-{:.0}", at(1), at(3))
}

/// Result for one suite.
struct Measured {
    ours: Times,
    allocations: u64,
    libsrtp: Option<(String, Times)>,
    steps: [StepTimes; 2],
    /// Time to create a sender: key derivation for SRTP and SRTCP.
    derivation_us: f64,
}

impl Measured {
    fn row(&self, what: &str, target: &Target) -> PhoneRow {
        let [protect, unprotect] = self.ours.medians();
        let mut met = protect <= target.ns_max && unprotect <= target.ns_max && self.allocations == 0;
        let mut ringway = format!("{}, {} allocations", self.ours.words(), self.allocations);
        let mut notes = Vec::new();
        let beside = match &self.libsrtp {
            None => {
                if target.libsrtp_times_min.is_some() {
                    notes.push(format!("{what}: measured without libsrtp2, which is not installed"));
                }
                "libsrtp2 not installed".to_owned()
            }
            Some((name, times)) => {
                let [their_protect, their_unprotect] = times.medians();
                let times_as_fast = (their_protect / protect).min(their_unprotect / unprotect);
                ringway = format!("{ringway}, {times_as_fast:.1} × as fast");
                // The bound applies to the library as built by Debian.
                let bound = target.libsrtp_times_min.filter(|_| name.ends_with("NSS"));
                met &= bound.is_none_or(|least| times_as_fast >= least);
                format!("{name}: {}", times.words())
            }
        };
        notes.push(format!(
            "{}, by steps (one packet in {SAMPLED}, the clock's own time taken off; together more than a packet, whose \
             steps otherwise overlap): protect {}; unprotect {}; key derivation, SRTP and SRTCP of one direction, \
             {:.1} µs",
            target.suite.name(),
            self.steps[0].words(),
            self.steps[1].words(),
            self.derivation_us
        ));
        let verdict = if met { Verdict::Met } else { Verdict::Missed };
        PhoneRow { what: what.to_owned(), target: target.words(), beside, ringway, verdict, notes }
    }
}

/// Buffer of a packet, aligned for libsrtp.
#[repr(align(8))]
#[derive(Clone)]
struct Slot([u8; RTP_BYTES + ROOM_BYTES]);

fn measure(suite: CryptoSuite, batches: usize) -> Result<Measured> {
    let key = MasterKey {
        key: (1..).take(suite.key_bytes()).collect(),
        salt: (101..).take(suite.salt_bytes()).collect(),
        lifetime_packets: None,
        mki: Vec::new(),
    };
    let mut ours = (SrtpSender::new(suite, &key)?, SrtpReceiver::new(suite, &key)?);
    let library = Library::load()?;
    let mut theirs = match &library {
        Some(library) => {
            Some((library.session(suite, &key, Side::Sender)?, library.session(suite, &key, Side::Receiver)?))
        }
        None => None,
    };
    let mut slots = vec![Slot([0; RTP_BYTES + ROOM_BYTES]); BATCH];
    let (mut our_times, mut their_times) = (Times::default(), Times::default());
    let mut allocations = 0;
    let mut steps = [StepTimes::default(), StepTimes::default()];
    for batch in 0..=batches {
        fill(&mut slots, batch);
        let mut times = None;
        let counted = allocation_counter::measure(|| times = Some(our_batch(&mut ours, &mut slots)));
        let (protect, unprotect) = times.context("nothing was measured")??;
        allocations += counted.count_total;
        let theirs = match &mut theirs {
            Some(sessions) => {
                fill(&mut slots, batch);
                Some(their_batch(sessions, &mut slots)?)
            }
            None => None,
        };
        // The first batch warms the caches.
        if batch > 0 {
            our_times.protect.push(protect);
            our_times.unprotect.push(unprotect);
            if let Some((protect, unprotect)) = theirs {
                their_times.protect.push(protect);
                their_times.unprotect.push(unprotect);
            }
        }
    }
    for batch in batches + 1..=batches + batches / 4 {
        fill(&mut slots, batch);
        probed_batch(&mut ours, &mut slots, &mut steps)?;
    }
    Ok(Measured {
        ours: our_times,
        allocations,
        libsrtp: library.map(|library| (library.description(), their_times)),
        steps,
        derivation_us: derivation_us(suite, &key)?,
    })
}

/// Fills in packets with consecutive sequence numbers over all batches, so that they wrap every 256 batches.
fn fill(slots: &mut [Slot], batch: usize) {
    for (number, slot) in (batch * BATCH..).zip(slots) {
        slot.0.fill(0x55);
        let sequence = (number as u16).to_be_bytes();
        let timestamp = (number as u32).wrapping_mul(160).to_be_bytes();
        let [t0, t1, t2, t3] = timestamp;
        let header = [0x80, 0, sequence[0], sequence[1], t0, t1, t2, t3, 0x12, 0x34, 0x56, 0x78];
        slot.0[..12].copy_from_slice(&header);
    }
}

fn our_batch((sender, receiver): &mut (SrtpSender, SrtpReceiver), slots: &mut [Slot]) -> Result<(f64, f64)> {
    let begun = machine::thread_cpu_ns();
    let mut len = 0;
    for slot in slots.iter_mut() {
        len = black_box(sender.protect_rtp(black_box(&mut slot.0), RTP_BYTES))?;
    }
    let between = machine::thread_cpu_ns();
    for slot in slots.iter_mut() {
        let packet = slot.0.get_mut(..len).context("no packet")?;
        black_box(receiver.unprotect_rtp(black_box(packet)))?;
    }
    Ok(per_packet(begun, between, machine::thread_cpu_ns()))
}

fn their_batch((sender, receiver): &mut (Session, Session), slots: &mut [Slot]) -> Result<(f64, f64)> {
    let begun = machine::thread_cpu_ns();
    let mut len = 0;
    for slot in slots.iter_mut() {
        len = black_box(sender.protect_rtp(black_box(&mut slot.0), RTP_BYTES))?;
    }
    let between = machine::thread_cpu_ns();
    for slot in slots.iter_mut() {
        black_box(receiver.unprotect_rtp(black_box(&mut slot.0), len))?;
    }
    Ok(per_packet(begun, between, machine::thread_cpu_ns()))
}

fn per_packet(begun: u64, between: u64, ended: u64) -> (f64, f64) {
    let each = |ns: u64| ns as f64 / BATCH as f64;
    (each(between.saturating_sub(begun)), each(ended.saturating_sub(between)))
}

/// Nanoseconds of each step, for every sampled packet.
#[derive(Default)]
struct StepTimes([Vec<f64>; Step::ALL.len()]);

impl StepTimes {
    fn words(&self) -> String {
        let steps = Step::ALL.into_iter().zip(&self.0).filter(|(_, times)| !times.is_empty());
        steps
            .map(|(step, times)| {
                format!("{} {:.0} ns", name_of(step), median(times.iter().copied()).max(0.0))
            })
            .collect::<Vec<_>>()
            .join(", ")
    }
}

const fn name_of(step: Step) -> &'static str {
    match step {
        Step::Headers => "headers",
        Step::Replay => "index and replay",
        Step::Encryption => "encryption",
        Step::Authentication => "authentication",
    }
}

/// Probe that reads the clock at the end of each step.
struct Clock {
    last: Instant,
    ns: [f64; Step::ALL.len()],
    /// Time of one reading of the clock, in nanoseconds.
    look_ns: f64,
}

impl Clock {
    fn start(look_ns: f64) -> Self {
        Self { last: Instant::now(), ns: [0.0; Step::ALL.len()], look_ns }
    }

    fn note(self, times: &mut StepTimes) {
        for (times, ns) in times.0.iter_mut().zip(self.ns) {
            if ns != 0.0 {
                times.push(ns);
            }
        }
    }
}

impl Probe for Clock {
    fn ended(&mut self, step: Step) {
        let now = Instant::now();
        if let Some(at) = Step::ALL.iter().position(|other| *other == step) {
            self.ns[at] += (now - self.last).as_nanos() as f64 - self.look_ns;
        }
        self.last = now;
    }
}

fn probed_batch(
    (sender, receiver): &mut (SrtpSender, SrtpReceiver),
    slots: &mut [Slot],
    steps: &mut [StepTimes; 2],
) -> Result<()> {
    let look_ns = median((0..32).map(|_| {
        let before = Instant::now();
        black_box(Instant::now()).duration_since(before).as_nanos() as f64
    }));
    for (number, slot) in slots.iter_mut().enumerate() {
        if number % SAMPLED != 0 {
            let len = sender.protect_rtp(&mut slot.0, RTP_BYTES)?;
            receiver.unprotect_rtp(slot.0.get_mut(..len).context("no packet")?)?;
            continue;
        }
        let mut clock = Clock::start(look_ns);
        let len = sender.protect_rtp_probed(&mut slot.0, RTP_BYTES, &mut clock)?;
        clock.note(&mut steps[0]);
        let packet = slot.0.get_mut(..len).context("no packet")?;
        let mut clock = Clock::start(look_ns);
        receiver.unprotect_rtp_probed(packet, &mut clock)?;
        clock.note(&mut steps[1]);
    }
    Ok(())
}

fn derivation_us(suite: CryptoSuite, key: &MasterKey) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        black_box(SrtpSender::new(suite, black_box(key))?);
        times.push(begun.elapsed().as_nanos() as f64 / 1000.0);
    }
    Ok(median(times.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_measures_every_row_without_allocating() {
        for row in rows(4) {
            assert_ne!(row.verdict, Verdict::Failed, "{row:?}");
            assert!(row.ringway.contains(" 0 allocations"), "{row:?}");
        }
    }
}
