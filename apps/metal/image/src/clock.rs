//! The clock: the time-stamp counter, measured once against the programmable interval timer.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use ringway_sansio::Instant;

use crate::port::{cpuid, inb, outb, tsc};

/// How the counter's frequency became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The processor says it (CPUID leaf 0x15).
    Cpuid,
    /// Measured against the timer.
    Timer,
    /// The processor's base frequency (CPUID leaf 0x16), where there is no timer: some parts in a thousand off.
    BaseFrequency,
    /// Nobody knows: one gigahertz, which no timer of SIP should be trusted with.
    Guess,
}

/// Finds the counter's frequency. Takes about 20 milliseconds.
pub(crate) fn start() -> Source {
    let (hertz, source) = if let Some(hertz) = hertz_by_cpuid() {
        (hertz, Source::Cpuid)
    } else if let Some(hertz) = hertz_by_timer() {
        (hertz, Source::Timer)
    } else if let Some(hertz) = base_hertz() {
        (hertz, Source::BaseFrequency)
    } else {
        (1_000_000_000, Source::Guess)
    };
    HERTZ.store(hertz, Relaxed);
    NANOS_PER_CYCLE.store(((1_000_000_000_u128 << 32) / u128::from(hertz)) as u64, Relaxed);
    source
}

/// Sets the date: [`now`] counts from `seconds_since_1970` on.
pub(crate) fn set_date(seconds_since_1970: u64) {
    EPOCH.store(seconds_since_1970 * 1_000_000_000, Relaxed);
    START.store(tsc(), Relaxed);
}

/// The time: the date that was set, and the counter's nanoseconds since.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(EPOCH.load(Relaxed).saturating_add(nanos(tsc().saturating_sub(START.load(Relaxed)))))
}

/// Cycles of the counter in a second.
pub(crate) fn hertz() -> u64 {
    HERTZ.load(Relaxed)
}

/// True where the counter keeps its pace when the processor saves power (CPUID 0x8000_0007).
pub(crate) fn is_invariant() -> bool {
    cpuid(0x8000_0007, 0)[3] & (1 << 8) != 0
}

/// Waits. Before [`start`] it waits as if the counter ran at four gigahertz, which is rather too long than too short.
pub(crate) fn wait(duration: Duration) {
    let from = tsc();
    let nanos_wanted = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    while nanos(tsc().wrapping_sub(from)) < nanos_wanted {
        core::hint::spin_loop();
    }
}

/// Asks `is_done` until it says yes; false after `limit`.
pub(crate) fn wait_until(limit: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    let from = tsc();
    let nanos_limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    loop {
        if is_done() {
            return true;
        }
        if nanos(tsc().wrapping_sub(from)) >= nanos_limit {
            return false;
        }
        core::hint::spin_loop();
    }
}

fn nanos(cycles: u64) -> u64 {
    ((u128::from(cycles) * u128::from(NANOS_PER_CYCLE.load(Relaxed))) >> 32) as u64
}

/// CPUID 0x15: the counter runs at the crystal's hertz (ECX) times EBX by EAX.
fn hertz_by_cpuid() -> Option<u64> {
    let [denominator, numerator, crystal, _] = cpuid(0x15, 0);
    if denominator == 0 || numerator == 0 || crystal == 0 {
        return None;
    }
    Some(u64::from(crystal) * u64::from(numerator) / u64::from(denominator))
}

/// CPUID 0x16: the base frequency in megahertz (EAX).
fn base_hertz() -> Option<u64> {
    let megahertz = cpuid(0x16, 0)[0] & 0xFFFF;
    (megahertz > 0).then_some(u64::from(megahertz) * 1_000_000)
}

/// Several shots, of which the shortest counts. A pause between two marks (by the firmware, by a hypervisor) does no harm,
/// since both counters run on; but one in which the timer goes round looks like too many cycles.
fn hertz_by_timer() -> Option<u64> {
    // Gate on, speaker off; mode 2, low byte then high byte: counts down from 65,536, again and again.
    outb(PORT_B, inb(PORT_B) & !SPEAKER | GATE_2);
    outb(TIMER_CONTROL, 0b1011_0100);
    outb(TIMER_2, 0);
    outb(TIMER_2, 0);
    let mut shortest = shot()?;
    for _ in 1..SHOTS {
        shortest = shortest.min(shot()?);
    }
    Some(shortest)
}

/// Cycles of a second, by one shot; `None` where the timer does not count.
fn shot() -> Option<u64> {
    let from = mark();
    loop {
        let now = mark();
        let cycles = now.cycles.saturating_sub(from.cycles);
        let ticks = u64::from(from.ticks.wrapping_sub(now.ticks));
        if ticks >= SHOT_TICKS {
            return Some((u128::from(cycles) * u128::from(TIMER_HERTZ) / u128::from(ticks)) as u64);
        }
        if cycles > CYCLES_MAX {
            return None;
        }
    }
}

/// Both counters at the same time.
struct Mark {
    cycles: u64,
    ticks: u16,
}

/// Of several tries the one in which least passed between the two readings around the timer's.
fn mark() -> Mark {
    let mut best = (u64::MAX, Mark { cycles: 0, ticks: 0 });
    for _ in 0..TRIES {
        let before = tsc();
        outb(TIMER_CONTROL, LATCH_2);
        let width = tsc().saturating_sub(before);
        let ticks = u16::from_le_bytes([inb(TIMER_2), inb(TIMER_2)]);
        if width < best.0 {
            best = (width, Mark { cycles: before + width / 2, ticks });
        }
    }
    best.1
}

static HERTZ: AtomicU64 = AtomicU64::new(4_000_000_000);
/// Nanoseconds of a cycle, times 2^32.
static NANOS_PER_CYCLE: AtomicU64 = AtomicU64::new(1 << 30);
static START: AtomicU64 = AtomicU64::new(0);
static EPOCH: AtomicU64 = AtomicU64::new(0);

const SHOTS: usize = 3;
const TRIES: usize = 6;
const TIMER_HERTZ: u64 = 1_193_182;
/// 6 milliseconds.
const SHOT_TICKS: u64 = 7159;
/// A tenth of a second at ten gigahertz: a timer that has not counted so far by then does not count.
const CYCLES_MAX: u64 = 1_000_000_000;

const TIMER_2: u16 = 0x42;
const TIMER_CONTROL: u16 = 0x43;
/// Keeps the count of channel 2 until it is read.
const LATCH_2: u8 = 0b1000_0000;
const PORT_B: u16 = 0x61;
const GATE_2: u8 = 1;
const SPEAKER: u8 = 2;
