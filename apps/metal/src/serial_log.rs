//! What a machine says, for a serial line that takes it at its own pace.

use alloc::collections::VecDeque;
use alloc::format;
use ringway_sansio::Instant;
use ringway_screen::Level;

/// Lines that wait for the serial line, as bytes.
#[derive(Debug)]
pub(crate) struct SerialLog {
    started: Instant,
    unsent: VecDeque<u8>,
    /// Lines that found no room, in all.
    dropped: u64,
    /// Of them, those that the line was not told of yet.
    untold: u64,
}

impl SerialLog {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { started: now, unsent: VecDeque::new(), dropped: 0, untold: 0 }
    }

    /// Says a line.
    pub(crate) fn say(&mut self, now: Instant, level: Level, text: &str) {
        if self.unsent.len() + text.len() + STAMP_BYTES > UNSENT_BYTES_MAX {
            self.dropped += 1;
            self.untold += 1;
            return;
        }
        let untold = core::mem::take(&mut self.untold);
        if untold > 0 {
            self.unsent.extend(format!("({untold} lines were lost here)\r\n").bytes());
        }
        let since = now.since(self.started);
        let word = match level {
            Level::Info => "",
            Level::Warning => "warning: ",
            Level::Error => "error: ",
        };
        let stamp = format!("{:>5}.{:03} {word}", since.as_secs(), since.subsec_millis());
        self.unsent.extend(stamp.bytes());
        // Names from the network may be anything.
        self.unsent.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b'?' } else { byte }));
        self.unsent.extend(*b"\r\n");
    }

    /// Takes bytes for the serial line; 0: there are none.
    pub(crate) fn take(&mut self, room: &mut [u8]) -> usize {
        let count = room.len().min(self.unsent.len());
        for (place, byte) in room.iter_mut().zip(self.unsent.drain(..count)) {
            *place = byte;
        }
        count
    }

    /// The page that the terminal has is to go: an empty screen has what was said meanwhile, and what comes.
    pub(crate) fn clear_terminal(&mut self) {
        let mut said_meanwhile = core::mem::take(&mut self.unsent);
        self.unsent.extend(*b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[2J\x1b[HThe log. Any key shows the screen.\r\n");
        self.unsent.append(&mut said_meanwhile);
    }

    /// Lines that the serial line was too slow for.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// What waits for a slow serial line.
const UNSENT_BYTES_MAX: usize = 32 << 10;

/// The time, the level, the end of the line, and what is said of lines that were lost.
const STAMP_BYTES: usize = 96;
