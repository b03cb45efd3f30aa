//! The administrator's consoles: VGA with a keyboard, and a serial line with a terminal. Both show the same page and take the
//! same keys.
//!
//! The serial line says the log line by line until somebody presses a key there; then it has the page. `q` gives the log back.

use crate::Machine;
use ringway_ethernet::Card;
use ringway_sansio::Instant;
use ringway_screen::{Cells, Charset, Key, Ps2Keys, SerialKeys, Terminal, Typed, Vga};

pub(crate) struct Console {
    pub(crate) cells: Cells,
    vga: Vga,
    terminal: Terminal,
    serial_keys: SerialKeys,
    keyboard: Ps2Keys,
    serial: Serial,
}

/// What the serial line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serial {
    Log,
    Page,
}

impl Console {
    pub(crate) fn new() -> Self {
        Self {
            cells: Cells::new(),
            vga: Vga::new(),
            terminal: Terminal::new(Charset::Utf8),
            serial_keys: SerialKeys::default(),
            keyboard: Ps2Keys::default(),
            serial: Serial::Log,
        }
    }
}

impl<C: Card> Machine<C> {
    /// A byte came from the serial line.
    pub fn on_serial_byte(&mut self, now: Instant, byte: u8) {
        match self.console.serial_keys.byte(now, byte) {
            Some(Typed::Key(key)) => self.on_serial_key(now, key),
            Some(Typed::Size { rows, columns }) => self.console.terminal.set_size(rows, columns),
            None => {}
        }
    }

    /// A byte came from the keyboard controller (scan code set 1).
    pub fn on_scan_code(&mut self, now: Instant, byte: u8) {
        if let Some(key) = self.console.keyboard.byte(byte) {
            if key == Key::Redraw {
                self.console.vga.redraw();
            }
            self.journal.admin.on_key(now, key);
        }
    }

    /// Draws what is due, and tells each word of VGA's text memory that changed: its place and its value.
    pub fn draw(&mut self, now: Instant, put: impl FnMut(usize, u16)) {
        if let Some(key) = self.console.serial_keys.idle(now) {
            self.on_serial_key(now, key);
        }
        if self.draw_page(now) {
            self.console.vga.draw(&self.console.cells, put);
        }
    }

    /// Writes what the serial line is to say next into `room`, and gives how many bytes; 0: nothing now. To be called with as
    /// much room as the line has.
    pub fn serial_output(&mut self, room: &mut [u8]) -> usize {
        let Self { console, journal, .. } = self;
        match console.serial {
            Serial::Log => journal.take(room),
            Serial::Page => console.terminal.step(&console.cells, room),
        }
    }

    fn on_serial_key(&mut self, now: Instant, key: Key) {
        let console = &mut self.console;
        match (console.serial, key) {
            (Serial::Log, _) => {
                console.serial = Serial::Page;
                console.terminal.redraw();
            }
            (Serial::Page, Key::Char('q')) if !self.journal.admin.takes_text() => {
                console.serial = Serial::Log;
                self.journal.clear_terminal();
            }
            (Serial::Page, _) => {
                if key == Key::Redraw {
                    console.terminal.redraw();
                }
                self.journal.admin.on_key(now, key);
            }
        }
    }
}
