//! Real-time clock (Motorola MC146818 and compatible).

use core::time::Duration;

use crate::clock::wait_until;
use crate::port::{inb, outb};

/// Seconds since 1970 according to the real-time clock, taken as UTC. `None`: it has no valid date from 2020 to 2099.
pub(crate) fn seconds_since_1970() -> Option<u64> {
    // Two equal readings are required, because a reading may fall into an update.
    let mut last = read()?;
    for _ in 0..TRIES {
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
const TRIES: usize = 4;
const UPDATE_MAX: Duration = Duration::from_millis(5);
