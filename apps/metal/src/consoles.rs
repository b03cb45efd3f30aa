//! Consoles of a machine: VGA with a keyboard, and a serial line with a terminal, whose speed limits the log.
//!
//! The serial line prints the log until a key is pressed on it; then it shows the page. `q` returns to the log, unless
//! the page has a text field; Ctrl-Q always does.

use alloc::collections::VecDeque;
use alloc::format;
use ringway_sansio::Instant;
use ringway_ui::{Cells, Key, Level, Ps2Keys, SerialKeys, Terminal, Typed, Vga};

pub(crate) struct Consoles {
    /// Current page.
    pub(crate) cells: Cells,
    pub(crate) log: SerialLog,
    vga: Vga,
    terminal: Terminal,
    serial_keys: SerialKeys,
    keyboard: Ps2Keys,
    serial: Serial,
}

/// Content of the serial line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serial {
    Log,
    Page,
}

impl Consoles {
    /// `spare_row`: the row that a terminal of 24 rows leaves out.
    pub(crate) fn new(now: Instant, spare_row: usize) -> Self {
        Self {
            cells: Cells::new(),
            log: SerialLog::new(now),
            vga: Vga::new(),
            terminal: Terminal::serial(spare_row),
            serial_keys: SerialKeys::default(),
            keyboard: Ps2Keys::default(),
            serial: Serial::Log,
        }
    }

    /// Processes a byte of the serial line; returns the key for the page. `takes_text`: letters are input of a text
    /// field.
    pub(crate) fn on_serial_byte(&mut self, now: Instant, byte: u8, takes_text: bool) -> Option<Key> {
        match self.serial_keys.byte(now, byte)? {
            Typed::Key(key) => self.on_serial_key(key, takes_text),
            Typed::Size { rows, columns } => {
                self.terminal.set_size(rows, columns);
                None
            }
        }
    }

    /// Processes a byte of the keyboard controller (scan code set 1).
    pub(crate) fn on_scan_code(&mut self, byte: u8) -> Option<Key> {
        let key = self.keyboard.byte(byte)?;
        if key == Key::REDRAW {
            self.vga.redraw();
        }
        Some(key)
    }

    /// Returns an Escape key that was not the start of a sequence.
    pub(crate) fn idle(&mut self, now: Instant, takes_text: bool) -> Option<Key> {
        let key = self.serial_keys.idle(now)?;
        self.on_serial_key(key, takes_text)
    }

    /// Passes each changed word of VGA's text memory to `put`.
    pub(crate) fn draw(&mut self, put: impl FnMut(usize, u16)) {
        self.vga.draw(&self.cells, put);
    }

    /// Writes pending output of the serial line into `room`; returns the number of bytes.
    pub(crate) fn serial_output(&mut self, room: &mut [u8]) -> usize {
        match self.serial {
            Serial::Log => self.log.take(room),
            Serial::Page => self.terminal.step(&self.cells, room),
        }
    }

    fn on_serial_key(&mut self, key: Key, takes_text: bool) -> Option<Key> {
        match (self.serial, key) {
            (Serial::Log, _) => {
                self.serial = Serial::Page;
                self.terminal.redraw();
                None
            }
            (Serial::Page, key) if key == Key::Ctrl('q') || key == Key::Char('q') && !takes_text => {
                self.serial = Serial::Log;
                self.log.clear_terminal();
                None
            }
            (Serial::Page, _) => {
                if key == Key::REDRAW {
                    self.terminal.redraw();
                }
                Some(key)
            }
        }
    }
}

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
    fn clear_terminal(&mut self) {
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
