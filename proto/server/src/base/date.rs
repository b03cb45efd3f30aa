//! Date header field (RFC 3261 §20.17).

use alloc::vec::Vec;
use core::fmt::Write;
use ringway_sansio::Instant;

/// Text of the last second: a busy server writes the same one thousands of times.
#[derive(Debug, Default)]
pub(crate) struct DateText {
    second: u64,
    text: Vec<u8>,
}

impl DateText {
    /// `Sat, 13 Nov 2010 23:29:00 GMT`
    pub(crate) fn at(&mut self, now: Instant) -> &[u8] {
        let second = now.as_secs();
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text.clear();
            let mut line = DateLine(&mut self.text);
            let _ = write_date(&mut line, second);
        }
        &self.text
    }
}

struct DateLine<'b>(&'b mut Vec<u8>);

impl Write for DateLine<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

fn write_date(out: &mut DateLine<'_>, second: u64) -> core::fmt::Result {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = second / 86_400;
    let (year, month, day) = civil(days);
    let weekday = DAYS.get((days % 7) as usize).copied().unwrap_or_default();
    let month = MONTHS.get(month as usize).copied().unwrap_or_default();
    let (hour, minute, rest) = (second / 3600 % 24, second / 60 % 60, second % 60);
    write!(out, "{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{rest:02} GMT")
}

/// Year, month from 0 and day from 1 of a day since 1970-01-01 (Gregorian calendar). Years begin in March, so that the
/// leap day is last.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_the_calendar() {
        let mut date = DateText::default();
        for (second, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_289_690_940, "Sat, 13 Nov 2010 23:29:00 GMT"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
        ] {
            assert_eq!(core::str::from_utf8(date.at(Instant::from_secs(second))).unwrap(), text);
        }
    }
}
