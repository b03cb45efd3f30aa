//! Log output for a serial line of limited speed.

use alloc::collections::VecDeque;
use alloc::format;
use ringway_sansio::Instant;
use ringway_ui::Level;

/// Log lines queued for the serial line, as bytes.
#[derive(Debug)]
pub(crate) struct SerialLog {
    started: Instant,
    unsent: VecDeque<u8>,
    /// Lines dropped since the start.
    dropped: u64,
    /// Lines dropped since the last report on the line.
    unreported: u64,
}

impl SerialLog {
    pub(crate) const fn new(now: Instant) -> Self {
        Self { started: now, unsent: VecDeque::new(), dropped: 0, unreported: 0 }
    }

    /// Queues a line.
    pub(crate) fn say(&mut self, now: Instant, level: Level, text: &str) {
        if self.unsent.len() + text.len() + STAMP_BYTES > UNSENT_BYTES_MAX {
            self.dropped += 1;
            self.unreported += 1;
            return;
        }
        let unreported = core::mem::take(&mut self.unreported);
        if unreported > 0 {
            self.unsent.extend(format!("({unreported} lines were lost here)\r\n").bytes());
        }
        let since = now.since(self.started);
        let word = match level {
            Level::Info => "",
            Level::Warning => "warning: ",
            Level::Error => "error: ",
        };
        let stamp = format!("{:>5}.{:03} {word}", since.as_secs(), since.subsec_millis());
        self.unsent.extend(stamp.bytes());
        // Names from the network may contain control characters.
        self.unsent.extend(text.bytes().map(|byte| if byte.is_ascii_control() { b'?' } else { byte }));
        self.unsent.extend(*b"\r\n");
    }

    /// Moves queued bytes into `room`; 0: there are none.
    pub(crate) fn take(&mut self, room: &mut [u8]) -> usize {
        let count = room.len().min(self.unsent.len());
        for (to, byte) in room.iter_mut().zip(self.unsent.drain(..count)) {
            *to = byte;
        }
        count
    }

    /// Clears the terminal after the page; lines logged meanwhile follow.
    pub(crate) fn clear_terminal(&mut self) {
        let mut logged_meanwhile = core::mem::take(&mut self.unsent);
        self.unsent.extend(*b"\x1b[0m\x1b[?7h\x1b[?25h\x1b[2J\x1b[HThe log. Any key shows the screen.\r\n");
        self.unsent.append(&mut logged_meanwhile);
    }

    /// Lines dropped because the serial line was too slow.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Maximum number of queued bytes.
const UNSENT_BYTES_MAX: usize = 32 << 10;

/// Reserve for the time, the level, the line end, and a report of dropped lines.
const STAMP_BYTES: usize = 96;
