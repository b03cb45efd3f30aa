//! The screen's clock and passwords.

use std::fmt;
use std::time::Duration;

/// A password. It is not printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A moment, told by whoever drives the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// Since the program began, on a clock that never jumps.
    pub(crate) elapsed: Duration,
    /// What the clock on the wall says.
    pub(crate) wall: WallTime,
}

/// A local date and time, for people to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WallTime {
    pub(crate) month: u8,
    pub(crate) day: u8,
    pub(crate) hour: u8,
    pub(crate) minute: u8,
    pub(crate) second: u8,
    pub(crate) millisecond: u16,
}

impl WallTime {
    /// `14:03:07`
    pub(crate) fn clock(&self) -> String {
        format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second)
    }

    /// `14:03:07.123`
    pub(crate) fn precise(&self) -> String {
        format!("{}.{:03}", self.clock(), self.millisecond)
    }

    /// `05-01 14:03`
    pub(crate) fn day_and_minute(&self) -> String {
        format!("{:02}-{:02} {:02}:{:02}", self.month, self.day, self.hour, self.minute)
    }
}
