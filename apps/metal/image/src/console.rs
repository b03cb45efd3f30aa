//! Consoles: text output on the screen (80 by 25 cells at 0xB8000) and on the first serial port (16550, COM1: 115,200
//! bit/s, 8 data bits, no parity, one stop bit), and input from a PS/2 keyboard (Intel 8042), polled, which delivers
//! scan codes of set 1, the setting of the BIOS; `ringway-ui` decodes them. A USB keyboard works as long as the BIOS
//! emulates PS/2.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicUsize};
use core::time::Duration;

use crate::clock::wait_until;
use crate::port::{inb, outb};

/// Console for text output. It never fails, waits only for the serial line, and allocates nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    colours: u8,
}

impl Console {
    /// For messages of the boot.
    pub(crate) const fn plain() -> Self {
        Self { colours: GREY }
    }

    /// For fault reports.
    pub(crate) const fn alarm() -> Self {
        Self { colours: ALARM }
    }
}

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) => {
                    Serial.write_all(line.as_bytes());
                    Serial.write_all(b"\r\n");
                }
                None => Serial.write_all(line.as_bytes()),
            }
        }
        Vga.print(text, self.colours);
        Ok(())
    }
}

/// Prints a line to the console.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {{
        use core::fmt::Write as _;
        // Writing to the console cannot fail.
        let _ = writeln!($crate::console::Console::plain(), $($words)*);
    }};
}

/// The port. If there is none, output is discarded and nothing is received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Serial;

/// Initialises the port. False: there is none.
pub(crate) fn start_serial() -> bool {
    // The scratch register must return a written byte.
    outb(SCRATCH, 0xA5);
    if inb(SCRATCH) != 0xA5 {
        return false;
    }
    outb(INTERRUPT_ENABLE, 0);
    outb(LINE_CONTROL, DIVISOR_LATCH);
    outb(DATA, 1); // 115,200 divided by 1
    outb(INTERRUPT_ENABLE, 0);
    outb(LINE_CONTROL, EIGHT_BITS);
    outb(FIFO_CONTROL, FIFO_ON_AND_EMPTY);
    outb(MODEM_CONTROL, READY);
    IS_PRESENT.store(true, Relaxed);
    true
}

impl Serial {
    /// Number of bytes that the port accepts now; 0 if there is none.
    pub(crate) fn room(self) -> usize {
        let is_empty = IS_PRESENT.load(Relaxed) && inb(LINE_STATUS) & QUEUE_EMPTY != 0;
        if is_empty { QUEUE_BYTES } else { 0 }
    }

    /// Writes as many bytes as the port accepts now, at most its queue of 16 bytes; returns their number.
    pub(crate) fn write_some(self, bytes: &[u8]) -> usize {
        if !IS_PRESENT.load(Relaxed) || inb(LINE_STATUS) & QUEUE_EMPTY == 0 {
            return 0;
        }
        let now = bytes.len().min(QUEUE_BYTES);
        bytes.iter().take(now).for_each(|byte| outb(DATA, *byte));
        now
    }

    /// Writes all bytes, waiting for the line; disables the port if it stops accepting bytes.
    fn write_all(self, mut bytes: &[u8]) {
        while !bytes.is_empty() && IS_PRESENT.load(Relaxed) {
            let written = self.write_some(bytes);
            bytes = bytes.get(written..).unwrap_or_default();
            if written == 0 && !wait_until(QUEUE_TIME_MAX, || inb(LINE_STATUS) & QUEUE_EMPTY != 0) {
                IS_PRESENT.store(false, Relaxed);
            }
        }
    }

    /// Next received byte.
    pub(crate) fn read(self) -> Option<u8> {
        (IS_PRESENT.load(Relaxed) && inb(LINE_STATUS) & BYTE_RECEIVED != 0).then(|| inb(DATA))
    }
}

/// The screen. If there is none, all methods do nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vga;

/// Clears the screen and hides the cursor, if the firmware left it in text mode.
pub(crate) fn start_screen(has_text_screen: bool) -> bool {
    if has_text_screen {
        HAS_SCREEN.store(true, Relaxed);
        // Cursor start register, bit 5: off.
        outb(CRT_INDEX, 0x0A);
        outb(CRT_DATA, 0x20);
        Vga.clear();
    }
    has_text_screen
}

impl Vga {
    /// True if there is a screen.
    pub(crate) fn is_present(self) -> bool {
        HAS_SCREEN.load(Relaxed)
    }

    /// Writes a cell, counted from the upper left one along the rows: the character of code page 437 in the low byte,
    /// its colours in the high one. Cells outside the screen are ignored.
    pub(crate) fn put(self, cell: usize, word: u16) {
        if self.is_present() && cell < COLUMNS * ROWS {
            // SAFETY: the cell is in the screen's memory, which is mapped and used here only.
            unsafe { (CELLS as *mut u16).wrapping_add(cell).write_volatile(word) };
        }
    }

    /// Clears the screen; [`Vga::print`] continues at its top.
    pub(crate) fn clear(self) {
        (0..ROWS).for_each(|row| self.clear_row(row));
        PRINTED.store(0, Relaxed);
    }

    /// Prints after the previous text, and continues at the top when the screen is full. Characters other than
    /// printable ASCII become question marks.
    fn print(self, text: &str, colours: u8) {
        let mut at = PRINTED.load(Relaxed);
        for character in text.chars() {
            if character == '\n' {
                at = (at / COLUMNS + 1) * COLUMNS;
            } else {
                at %= COLUMNS * ROWS;
                let shown = u8::try_from(character).ok().filter(|byte| (b' '..0x7F).contains(byte));
                self.put(at, u16::from_be_bytes([colours, shown.unwrap_or(b'?')]));
                at += 1;
            }
            if at.is_multiple_of(COLUMNS) {
                at %= COLUMNS * ROWS;
                self.clear_row(at / COLUMNS);
            }
        }
        PRINTED.store(at, Relaxed);
    }

    fn clear_row(self, row: usize) {
        (0..COLUMNS).for_each(|column| self.put(row * COLUMNS + column, u16::from_be_bytes([GREY, b' '])));
    }
}

/// The keyboard. Without a controller it delivers nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyboard;

impl Keyboard {
    /// Next byte of a scan code.
    pub(crate) fn read(self) -> Option<u8> {
        for _ in 0..MOUSE_BYTES_MAX {
            let status = inb(KEYBOARD_STATUS);
            // All bits are set if there is no controller.
            if status & KEYBOARD_FULL == 0 || status == 0xFF {
                return None;
            }
            let byte = inb(KEYBOARD_DATA);
            if status & FROM_MOUSE == 0 {
                return Some(byte);
            }
        }
        None
    }
}

static IS_PRESENT: AtomicBool = AtomicBool::new(false);

const DATA: u16 = 0x3F8;
const INTERRUPT_ENABLE: u16 = DATA + 1;
const FIFO_CONTROL: u16 = DATA + 2;
const LINE_CONTROL: u16 = DATA + 3;
const MODEM_CONTROL: u16 = DATA + 4;
const LINE_STATUS: u16 = DATA + 5;
const SCRATCH: u16 = DATA + 7;
const DIVISOR_LATCH: u8 = 0x80;
const EIGHT_BITS: u8 = 0x03;
const FIFO_ON_AND_EMPTY: u8 = 0xC7;
/// DTR, RTS.
const READY: u8 = 0x03;
const BYTE_RECEIVED: u8 = 0x01;
const QUEUE_EMPTY: u8 = 0x20;
/// Size of the send queue.
pub(crate) const QUEUE_BYTES: usize = 16;
/// 16 bytes take 1.4 ms.
const QUEUE_TIME_MAX: Duration = Duration::from_millis(20);
static HAS_SCREEN: AtomicBool = AtomicBool::new(false);
/// Cell after the last printed one.
static PRINTED: AtomicUsize = AtomicUsize::new(0);

/// Cells of a row.
const COLUMNS: usize = 80;
/// Rows of the screen.
const ROWS: usize = 25;
/// Grey on black.
const GREY: u8 = 0x07;
/// White on red.
const ALARM: u8 = 0x4F;

const CELLS: usize = 0xB_8000;
const CRT_INDEX: u16 = 0x3D4;
const CRT_DATA: u16 = 0x3D5;
const KEYBOARD_DATA: u16 = 0x60;
const KEYBOARD_STATUS: u16 = 0x64;
const KEYBOARD_FULL: u8 = 1;
const FROM_MOUSE: u8 = 1 << 5;
/// Maximum number of mouse bytes skipped in one call.
const MOUSE_BYTES_MAX: usize = 16;
