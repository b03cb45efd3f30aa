//! What the machine says: kept for the screen, and given to the serial line as it is said.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use ringway_sansio::Instant;
use ringway_screen::Level;
use ringway_screen::admin::Admin;

/// The screen's log and the serial line's.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) admin: Admin,
    started: Instant,
    /// Bytes for the serial line.
    unsent: VecDeque<u8>,
    /// Lines that found no room there.
    dropped: u64,
}

impl Journal {
    pub(crate) fn new(now: Instant) -> Self {
        Self { admin: Admin::new(now), started: now, unsent: VecDeque::new(), dropped: 0 }
    }

    /// Says a line.
    pub(crate) fn say(&mut self, now: Instant, level: Level, text: &str) {
        self.admin.on_log(now, level, text);
        if self.unsent.len() + text.len() + STAMP_BYTES > UNSENT_BYTES_MAX {
            self.dropped += 1;
            return;
        }
        let since = now.since(self.started);
        let stamp = alloc::format!("{:>5}.{:03} ", since.as_secs(), since.subsec_millis());
        self.unsent.extend(stamp.bytes());
        let word: &str = match level {
            Level::Info => "",
            Level::Warning => "warning: ",
            Level::Error => "error: ",
        };
        self.unsent.extend(word.bytes());
        // Names from the network may be anything.
        self.unsent.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b'?' } else { byte }));
        self.unsent.extend(*b"\r\n");
    }

    /// Takes bytes for the serial line; 0: there are none.
    pub(crate) fn take(&mut self, room: &mut [u8]) -> usize {
        let count = room.len().min(self.unsent.len());
        let bytes: Vec<u8> = self.unsent.drain(..count).collect();
        if let Some(room) = room.get_mut(..count) {
            room.copy_from_slice(&bytes);
        }
        count
    }

    /// The page that the terminal has is to go: the log begins on an empty screen.
    pub(crate) fn clear_terminal(&mut self) {
        self.unsent.extend(*b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[2J\x1b[H");
    }

    /// Lines that the serial line was too slow for.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// What waits for a slow serial line.
const UNSENT_BYTES_MAX: usize = 32 << 10;

/// The time, the level, and the end of the line.
const STAMP_BYTES: usize = 32;
