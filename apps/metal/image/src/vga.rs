//! Text screen of a PC: 80 by 25 cells at 0xB8000.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::port::outb;

/// The screen. If there is none, all methods do nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vga;

/// Clears the screen and hides the cursor, if the firmware left it in text mode.
pub(crate) fn start(has_text_screen: bool) -> bool {
    if has_text_screen {
        IS_PRESENT.store(true, Relaxed);
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
        IS_PRESENT.load(Relaxed)
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
    pub(crate) fn print(self, text: &str, colours: u8) {
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

static IS_PRESENT: AtomicBool = AtomicBool::new(false);
/// Cell after the last printed one.
static PRINTED: AtomicUsize = AtomicUsize::new(0);

/// Cells of a row.
pub(crate) const COLUMNS: usize = 80;
/// Rows of the screen.
pub(crate) const ROWS: usize = 25;
/// Grey on black.
pub(crate) const GREY: u8 = 0x07;
/// White on red.
pub(crate) const ALARM: u8 = 0x4F;

const CELLS: usize = 0xB_8000;
const CRT_INDEX: u16 = 0x3D4;
const CRT_DATA: u16 = 0x3D5;
