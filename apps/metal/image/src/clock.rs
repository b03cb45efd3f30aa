//! Clock: the time-stamp counter, calibrated against the programmable interval timer. Real-time clock (Motorola MC146818 and
//! compatible).

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use ringway_sansio::Instant;

use crate::port::{cpuid, inb, outb, tsc};

/// Source of the counter's frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// CPUID leaf 0x15.
    Cpuid,
    /// Calibrated against the timer.
    Timer,
    /// Base frequency of the processor (CPUID leaf 0x16), if there is no timer; wrong by some parts in a thousand.
    BaseFrequency,
    /// Unknown: one gigahertz is assumed, and all timers of SIP may be wrong.
    Guess,
}

/// Determines the counter's frequency. Takes about 20 ms.
pub(crate) fn start() -> Source {
    let (hertz, source) = if let Some(hertz) = hertz_from_cpuid() {
        (hertz, Source::Cpuid)
    } else if let Some(hertz) = hertz_from_timer() {
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

/// Sets the date from which [`now`] counts.
pub(crate) fn set_date(seconds_since_1970: u64) {
    EPOCH.store(seconds_since_1970 * 1_000_000_000, Relaxed);
    START.store(tsc(), Relaxed);
}

/// Current time: the date that was set, plus the time since.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(EPOCH.load(Relaxed).saturating_add(nanos(tsc().saturating_sub(START.load(Relaxed)))))
}

/// Frequency of the counter.
pub(crate) fn hertz() -> u64 {
    HERTZ.load(Relaxed)
}

/// True if the counter runs at a constant rate in all power states (CPUID 0x8000_0007).
pub(crate) fn is_invariant() -> bool {
    cpuid(0x8000_0007, 0)[3] & (1 << 8) != 0
}

/// Waits. Before [`start`] it assumes four gigahertz, so that it waits too long rather than too short.
pub(crate) fn wait(duration: Duration) {
    let from = tsc();
    let nanos_wanted = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    while nanos(tsc().wrapping_sub(from)) < nanos_wanted {
        core::hint::spin_loop();
    }
}

/// Polls `is_done` until it returns true; false after `limit`.
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

/// CPUID 0x15: the crystal frequency (ECX) times EBX divided by EAX.
fn hertz_from_cpuid() -> Option<u64> {
    let [denominator, numerator, crystal, _] = cpuid(0x15, 0);
    if denominator == 0 || numerator == 0 || crystal == 0 {
        return None;
    }
    Some(u64::from(crystal) * u64::from(numerator) / u64::from(denominator))
}

/// CPUID 0x16: base frequency in megahertz (EAX).
fn base_hertz() -> Option<u64> {
    let megahertz = cpuid(0x16, 0)[0] & 0xFFFF;
    (megahertz > 0).then_some(u64::from(megahertz) * 1_000_000)
}

/// Takes the smallest of several measurements. A pause during a measurement (by the firmware or a hypervisor) does no
/// harm, since both counters continue; but one in which the timer wraps adds cycles.
fn hertz_from_timer() -> Option<u64> {
    // Gate on, speaker off; mode 2, low byte then high byte: counts down from 65,536 repeatedly.
    outb(PORT_B, inb(PORT_B) & !SPEAKER | GATE_2);
    outb(TIMER_CONTROL, 0b1011_0100);
    outb(TIMER_2, 0);
    outb(TIMER_2, 0);
    let mut shortest = measure()?;
    for _ in 1..MEASUREMENTS {
        shortest = shortest.min(measure()?);
    }
    Some(shortest)
}

/// One measurement of the cycles per second; `None` if the timer does not count.
fn measure() -> Option<u64> {
    let from = read_counters();
    loop {
        let now = read_counters();
        let cycles = now.cycles.saturating_sub(from.cycles);
        let ticks = u64::from(from.ticks.wrapping_sub(now.ticks));
        if ticks >= MEASUREMENT_TICKS {
            return Some((u128::from(cycles) * u128::from(TIMER_HERTZ) / u128::from(ticks)) as u64);
        }
        if cycles > CYCLES_MAX {
            return None;
        }
    }
}

/// Values of both counters at the same time.
struct CounterValues {
    cycles: u64,
    ticks: u16,
}

/// Takes the reading with the fewest cycles around the timer's latch command, out of several.
fn read_counters() -> CounterValues {
    let mut best = (u64::MAX, CounterValues { cycles: 0, ticks: 0 });
    for _ in 0..TRIES {
        let before = tsc();
        outb(TIMER_CONTROL, LATCH_2);
        let width = tsc().saturating_sub(before);
        let ticks = u16::from_le_bytes([inb(TIMER_2), inb(TIMER_2)]);
        if width < best.0 {
            best = (width, CounterValues { cycles: before + width / 2, ticks });
        }
    }
    best.1
}

static HERTZ: AtomicU64 = AtomicU64::new(4_000_000_000);
/// Nanoseconds per cycle, times 2^32.
static NANOS_PER_CYCLE: AtomicU64 = AtomicU64::new(1 << 30);
static START: AtomicU64 = AtomicU64::new(0);
static EPOCH: AtomicU64 = AtomicU64::new(0);

const MEASUREMENTS: usize = 3;
const TRIES: usize = 6;
const TIMER_HERTZ: u64 = 1_193_182;
/// 6 milliseconds.
const MEASUREMENT_TICKS: u64 = 7159;
/// A tenth of a second at ten gigahertz; a timer that has not reached [`MEASUREMENT_TICKS`] by then does not count.
const CYCLES_MAX: u64 = 1_000_000_000;

const TIMER_2: u16 = 0x42;
const TIMER_CONTROL: u16 = 0x43;
/// Latches the count of channel 2 until it is read.
const LATCH_2: u8 = 0b1000_0000;
const PORT_B: u16 = 0x61;
const GATE_2: u8 = 1;
const SPEAKER: u8 = 2;

/// Seconds since 1970 according to the real-time clock, taken as UTC. `None`: it has no valid date from 2020 to 2099.
pub(crate) fn seconds_since_1970() -> Option<u64> {
    // Two equal readings are required, because a reading may fall into an update.
    let mut last = read()?;
    for _ in 0..RTC_TRIES {
        let again = read()?;
        if again == last {
            return seconds(last);
        }
        last = again;
    }
    None
}

/// Date that is used if the clock has none: 1 January 2026.
pub(crate) const NO_DATE: u64 = 1_767_225_600;

/// Second, minute, hour, day, month, year of the century.
type Fields = [u8; 6];

fn read() -> Option<Fields> {
    if !wait_until(UPDATE_MAX, || register(STATUS_A) & UPDATE_IN_PROGRESS == 0) {
        return None;
    }
    let mut fields = [0, 2, 4, 7, 8, 9].map(register);
    let mode = register(STATUS_B);
    let is_afternoon = fields[2] & 0x80 != 0;
    fields[2] &= 0x7F;
    if mode & BINARY == 0 {
        fields = fields.map(|value| (value >> 4) * 10 + (value & 15));
    }
    if mode & HOURS_24 == 0 {
        fields[2] = fields[2] % 12 + if is_afternoon { 12 } else { 0 };
    }
    Some(fields)
}

fn seconds([second, minute, hour, day, month, year]: Fields) -> Option<u64> {
    let is_date = second < 60 && minute < 60 && hour < 24 && (1..=31).contains(&day);
    if !is_date || !(1..=12).contains(&month) || !(20..=99).contains(&year) {
        return None;
    }
    // Days since 1970 of a date in a year that begins in March, so that leap days are at the end of a year.
    let (year, month) = (2000 + u64::from(year), u64::from(month));
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + u64::from(day) - 719_469;
    Some(((days * 24 + u64::from(hour)) * 60 + u64::from(minute)) * 60 + u64::from(second))
}

fn register(index: u8) -> u8 {
    // Bit 7 disables the non-maskable interrupt during the access.
    outb(INDEX, index | 0x80);
    let value = inb(DATA);
    outb(INDEX, 0);
    value
}

const INDEX: u16 = 0x70;
const DATA: u16 = 0x71;
const STATUS_A: u8 = 10;
const STATUS_B: u8 = 11;
const UPDATE_IN_PROGRESS: u8 = 0x80;
const BINARY: u8 = 4;
const HOURS_24: u8 = 2;
const RTC_TRIES: usize = 4;
const UPDATE_MAX: Duration = Duration::from_millis(5);
