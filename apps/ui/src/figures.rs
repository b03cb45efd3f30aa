//! Numbers for display, always with their unit, and the last minute of one.

use core::fmt;
use core::time::Duration;

/// A count with its thousands apart: `12,345`.
#[derive(Clone, Copy, Debug)]
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 1;
        while self.0 / unit >= 1000 {
            unit *= 1000;
        }
        write!(f, "{}", self.0 / unit)?;
        while unit > 1 {
            unit /= 1000;
            write!(f, ",{:03}", self.0 / unit % 1000)?;
        }
        Ok(())
    }
}

/// A duration in its two largest units: `45 s`, `3 min 05 s`, `11 h 59 min`, `3 d 04 h`.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
        if minutes == 0 {
            write!(f, "{seconds} s")
        } else if hours == 0 {
            write!(f, "{minutes} min {:02} s", seconds % 60)
        } else if days == 0 {
            write!(f, "{hours} h {:02} min", minutes % 60)
        } else {
            write!(f, "{} d {:02} h", Grouped(days), hours % 24)
        }
    }
}

/// Time as a clock shows it: `0:04:09`, `27:15:00`.
#[derive(Clone, Copy, Debug)]
pub struct Clock(pub Duration);

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        write!(f, "{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// A short time: `850 us`, `4.1 ms`, `1.2 s`.
#[derive(Clone, Copy, Debug)]
pub struct Delay(pub Duration);

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match micros {
            0..1000 => write!(f, "{micros} us"),
            1000..1_000_000 => write!(f, "{}.{} ms", micros / 1000, micros / 100 % 10),
            _ => write!(f, "{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
        }
    }
}

/// Bytes as mebibytes without their unit: `45.2`.
#[derive(Clone, Copy, Debug)]
pub struct MebiBytes(pub u64);

impl fmt::Display for MebiBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = u128::from(self.0) * 10 / (1 << 20);
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}

/// One value for each of the last [`History::LENGTH`] seconds.
#[derive(Clone, Debug)]
pub(crate) struct History {
    values: [u64; Self::LENGTH],
    /// Index of the next value.
    next: usize,
}

impl History {
    const LENGTH: usize = 60;

    pub(crate) const fn new() -> Self {
        Self { values: [0; Self::LENGTH], next: 0 }
    }

    /// Adds a second's value; the oldest goes.
    pub(crate) fn push(&mut self, value: u64) {
        if let Some(place) = self.values.get_mut(self.next) {
            *place = value;
        }
        self.next = (self.next + 1) % Self::LENGTH;
    }

    /// The value of the last second.
    pub(crate) fn newest(&self) -> u64 {
        self.newest_first().next().unwrap_or_default()
    }

    /// The highest value that is kept.
    pub(crate) fn most(&self) -> u64 {
        self.values.iter().copied().max().unwrap_or_default()
    }

    pub(crate) fn newest_first(&self) -> impl Iterator<Item = u64> + '_ {
        let (newer, older) = self.values.split_at_checked(self.next).unwrap_or((&self.values, &[]));
        newer.iter().rev().chain(older.iter().rev()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn figures_have_their_units() {
        let counts = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_005, "1,234,005")];
        for (count, text) in counts {
            assert_eq!(Grouped(count).to_string(), text);
        }
        assert_eq!(Grouped(u64::MAX).to_string(), "18,446,744,073,709,551,615");
        let spans =
            [(0, "0 s"), (59, "59 s"), (185, "3 min 05 s"), (43_190, "11 h 59 min"), (273_600, "3 d 04 h")];
        for (seconds, text) in spans {
            assert_eq!(Span(Duration::from_secs(seconds)).to_string(), text);
        }
        assert_eq!(Clock(Duration::from_secs(98_100)).to_string(), "27:15:00");
        let delays = [(7, "7 us"), (4_199, "4.1 ms"), (1_250_000, "1.2 s")];
        for (micros, text) in delays {
            assert_eq!(Delay(Duration::from_micros(micros)).to_string(), text);
        }
        assert_eq!(MebiBytes(47_500_000).to_string(), "45.2");
        assert_eq!(MebiBytes(u64::MAX).to_string(), "17592186044415.9");
    }

    #[test]
    fn a_minute_is_kept() {
        let mut history = History::new();
        assert_eq!((history.newest(), history.most()), (0, 0));
        (1..=61).for_each(|value| history.push(value));
        assert_eq!((history.newest(), history.most()), (61, 61));
        let kept: Vec<u64> = history.newest_first().collect();
        assert_eq!(kept, (2..=61).rev().collect::<Vec<u64>>());
    }
}
