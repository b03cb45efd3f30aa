//! The phone's pages, and time as they show it.
//!
//! Does: keeps what the user sees of the phone ([`Model`]): keys, pasted text and the phone's events go in, drawn pages
//! and [`Effect`]s come out. The same pages run in a terminal on Linux and on a machine without an operating system.
//!
//! Does not: speak SIP or RTP, read clocks, files or terminals.
//!
//! Start reading at [`Model::update`].

mod form;
mod model;
#[cfg(test)]
mod pictures;
#[cfg(test)]
mod scene;
mod settings;
mod view;

pub use model::{Effect, Event, Host, Model, PAST_CALLS_BYTES_MAX};
pub use settings::{
    Account, Contact, PasswordPlace, Registration, Secret, Settings, complete_uri, escaped_user,
    is_host_port, is_sips,
};
pub use view::{Machine, SPARE_ROW, draw};

use alloc::format;
use alloc::string::String;
use core::time::Duration;

/// A moment, passed in by the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic time since the program began.
    pub elapsed: Duration,
    /// Local date and time; `None`: not known, `elapsed` is shown instead.
    pub wall: Option<WallTime>,
}

/// A local date and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallTime {
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 60.
    pub second: u8,
    /// 0 to 999.
    pub millisecond: u16,
}

impl Now {
    /// `14:03:07`
    pub(crate) fn clock(&self) -> String {
        match self.wall {
            Some(wall) => format!("{:02}:{:02}:{:02}", wall.hour, wall.minute, wall.second),
            None => clock(self.elapsed),
        }
    }

    /// `14:03:07.123`
    pub(crate) fn precise(&self) -> String {
        let millisecond = self.wall.map_or(self.elapsed.subsec_millis(), |wall| wall.millisecond.into());
        format!("{}.{millisecond:03}", self.clock())
    }

    /// `05-01 14:03`
    pub(crate) fn day_and_minute(&self) -> String {
        match self.wall {
            Some(WallTime { month, day, hour, minute, .. }) => {
                format!("{month:02}-{day:02} {hour:02}:{minute:02}")
            }
            None => clock(self.elapsed),
        }
    }
}

/// `00:02:13`
pub(crate) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
