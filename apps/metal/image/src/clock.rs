//! The clock: the time-stamp counter, measured once against the programmable interval timer.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use ringway_sansio::Instant;

use crate::port::{cpuid, inb, outb, tsc};
use crate::rtc;

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

/// Finds the counter's frequency and the date. Takes about 20 milliseconds.
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
    EPOCH.store(rtc::seconds_since_1970().unwrap_or(rtc::NO_DATE) * 1_000_000_000, Relaxed);
    START.store(tsc(), Relaxed);
    source
}

/// The time: the real-time clock's date at the start, and the counter's nanoseconds since.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(EPOCH.load(Relaxed).saturating_add(nanos(tsc().saturating_sub(START.load(Relaxed)))))
}

/// Nanoseconds since the processor was reset, as far as the counter shows them.
pub(crate) fn nanos_since_reset() -> u64 {
    nanos(tsc())
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

/// Several shots, of which the shortest counts: one that was interrupted (by the firmware, by a hypervisor) is too long,
/// and none can be too short, because the counter is read before the timer starts.
fn hertz_by_timer() -> Option<u64> {
    let cycles = (0..SHOTS).filter_map(|_| shot()).min()?;
    Some((u128::from(cycles) * u128::from(TIMER_HERTZ) / u128::from(SHOT_TICKS)) as u64)
}

/// Cycles while channel 2 of the timer (Intel 8254) counts down once; `None` where it does not.
fn shot() -> Option<u64> {
    // Gate on, speaker off; mode 0 (output goes up at the end of the count), low byte then high byte.
    outb(PORT_B, inb(PORT_B) & !SPEAKER | GATE_2);
    outb(TIMER_CONTROL, 0b1011_0000);
    outb(TIMER_2, SHOT_TICKS as u8);
    let from = tsc();
    outb(TIMER_2, (SHOT_TICKS >> 8) as u8);
    loop {
        let is_over = inb(PORT_B) & OUTPUT_2 != 0;
        let cycles = tsc().saturating_sub(from);
        if is_over {
            return (cycles > CYCLES_MIN).then_some(cycles);
        }
        if cycles > CYCLES_MAX {
            return None;
        }
    }
}

static HERTZ: AtomicU64 = AtomicU64::new(4_000_000_000);
/// Nanoseconds of a cycle, times 2^32.
static NANOS_PER_CYCLE: AtomicU64 = AtomicU64::new(1 << 30);
static START: AtomicU64 = AtomicU64::new(0);
static EPOCH: AtomicU64 = AtomicU64::new(0);

const SHOTS: usize = 5;
const TIMER_HERTZ: u64 = 1_193_182;
/// 4 milliseconds.
const SHOT_TICKS: u64 = 4773;
/// At 100 megahertz.
const CYCLES_MIN: u64 = 400_000;
/// A tenth of a second at ten gigahertz.
const CYCLES_MAX: u64 = 1_000_000_000;

const TIMER_2: u16 = 0x42;
const TIMER_CONTROL: u16 = 0x43;
const PORT_B: u16 = 0x61;
const GATE_2: u8 = 1;
const SPEAKER: u8 = 2;
const OUTPUT_2: u8 = 1 << 5;
