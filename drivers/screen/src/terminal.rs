//! A terminal at a serial line that shows the cells (ECMA-48, as VT100 and xterm implement it).
//!
//! A serial line is slow, 11 bytes a millisecond at 115,200 bit/s: each step writes a few bytes of the changes and the
//! next step continues. Only cells that look different are sent; a cell that changed twice meanwhile is sent once.

use crate::cells::{Cell, Cells};
use crate::cp437;
use crate::style::Style;
use alloc::boxed::Box;
use alloc::vec;
use core::fmt::{self, Write as _};
use core::ops::Range;

/// Character set of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Unicode, as UTF-8.
    Utf8,
    /// ASCII: lines are drawn with `-`, `|` and `+`, letters with accents are `?`.
    Ascii,
}

/// A terminal, and the cells that it shows as far as they are known.
#[derive(Clone, Debug)]
pub struct Terminal {
    charset: Charset,
    /// Visible cells, as [`look`] encodes them; [`UNKNOWN`]: unknown.
    shown: Box<[u16]>,
    rows: u16,
    columns: u16,
    /// Index of the cell under the cursor, if it is known.
    cursor: Option<usize>,
    style: Option<Style>,
    /// Index at which the search for changes continues, so that cells that change all the time do not keep the others
    /// from being drawn.
    at: usize,
    start: Start,
    waiting: Waiting,
}

/// Preparation before cells are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Done,
    Clear,
    /// Also asks for its size.
    ClearAndAsk,
}

impl Terminal {
    /// The most bytes that a step gives, 6 ms of a line at 115,200 bit/s.
    pub const STEP_BYTES_MAX: usize = 64;
    /// Resets a terminal: colours, cursor, line wrap.
    pub const FAREWELL: &str = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[2J\x1b[H";

    /// A terminal in an unknown state. Until it reports its size it counts as 24 rows.
    pub fn new(charset: Charset) -> Self {
        Self {
            charset,
            shown: vec![UNKNOWN; Cells::COUNT].into_boxed_slice(),
            rows: ROWS_MIN,
            columns: COLUMNS,
            cursor: None,
            style: None,
            at: 0,
            start: Start::ClearAndAsk,
            waiting: Waiting::EMPTY,
        }
    }

    /// Draws all of it again, and queries the size again: after a key for it, or when another terminal may be
    /// connected.
    pub fn redraw(&mut self) {
        self.start = Start::ClearAndAsk;
    }

    /// Sets the size that the terminal reported ([`Typed::Size`](crate::Typed::Size)). With 24 rows the line above the
    /// last is left out; on smaller ones, all that does not fit.
    pub fn set_size(&mut self, rows: u16, columns: u16) {
        let (rows, columns) = (rows.min(ROWS), columns.min(COLUMNS));
        if (rows, columns) != (self.rows, self.columns) {
            (self.rows, self.columns) = (rows, columns);
            self.start = Start::Clear;
        }
    }

    /// Writes the next bytes to send into `out`, at most [`Terminal::STEP_BYTES_MAX`], and returns their number; 0: the
    /// terminal shows these cells. It compares all cells: call it when the line has room, not after each packet.
    pub fn step(&mut self, cells: &Cells, out: &mut [u8]) -> usize {
        let room = out.len().min(Self::STEP_BYTES_MAX);
        let out = out.get_mut(..room).unwrap_or_default();
        let mut written = 0;
        while let Some(rest) = out.get_mut(written..).filter(|rest| !rest.is_empty()) {
            if self.waiting.is_empty() && !self.prepare(cells) {
                break;
            }
            written += self.waiting.take(rest);
        }
        written
    }

    /// Puts the next change into `waiting`; false when there is none.
    fn prepare(&mut self, cells: &Cells) -> bool {
        self.waiting = Waiting::EMPTY;
        if self.start != Start::Done {
            self.clear();
            return true;
        }
        while let Some((index, cell)) = self.next_change(cells) {
            if let Some(shown) = self.shown.get_mut(index) {
                *shown = look(cell);
            }
            self.at = (index + 1) % Cells::COUNT;
            // A cell outside the terminal counts as shown.
            let Some((row, column)) = self.position(index) else { continue };
            self.move_to(index, row, column, cells);
            self.put(cell);
            // After the last column the cursor's position depends on the terminal.
            let is_last = column + 1 >= self.columns;
            self.cursor = (!is_last).then_some(index + 1);
            return true;
        }
        false
    }

    /// The next cell that is not shown as it is, from where the search stopped, once around.
    fn next_change(&self, cells: &Cells) -> Option<(usize, Cell)> {
        let change = |range: Range<usize>| {
            let (shown, cells) = (self.shown.get(range.clone())?, cells.all().get(range.clone())?);
            let differs = |(shown, cell): (&u16, &Cell)| *shown != look(*cell);
            let index = shown.iter().zip(cells).position(differs)?;
            Some((range.start + index, *cells.get(index)?))
        };
        change(self.at..Cells::COUNT).or_else(|| change(0..self.at))
    }

    /// Line wrap and cursor off, colours known, nothing shown.
    fn clear(&mut self) {
        self.waiting.text("\x1b[?7l\x1b[?25l\x1b[0;37;40m\x1b[2J");
        if self.start == Start::ClearAndAsk {
            // The cursor stops at the last row and column: the size.
            self.waiting.text("\x1b[999;999H\x1b[6n");
        }
        self.start = Start::Done;
        self.shown.fill(UNKNOWN);
        (self.cursor, self.style, self.at) = (None, Some(Style::PLAIN), 0);
    }

    /// Row and column on the terminal, from 0; `None`: not shown there.
    fn position(&self, index: usize) -> Option<(u16, u16)> {
        let row = u16::try_from(index / Cells::COLUMNS).ok()?;
        let column = u16::try_from(index % Cells::COLUMNS).ok()?;
        let row = match self.rows {
            ROWS.. => row,
            _ if row == SPARE_ROW => return None,
            _ => row - u16::from(row > SPARE_ROW),
        };
        (row < self.rows && column < self.columns).then_some((row, column))
    }

    fn move_to(&mut self, index: usize, row: u16, column: u16, cells: &Cells) {
        let same_row = self.cursor.filter(|cursor| cursor / Cells::COLUMNS == index / Cells::COLUMNS);
        let Some((cursor, distance)) = same_row.and_then(|at| Some((at, index.checked_sub(at)?))) else {
            self.waiting.value(format_args!("\x1b[{};{}H", row + 1, column + 1));
            return;
        };
        if distance == 0 {
            return;
        }
        // A few characters that are there already are shorter than a command that jumps over them.
        let between = cells.all().get(cursor..index).unwrap_or_default();
        let shown = self.shown.get(cursor..index).unwrap_or_default();
        let is_cheap = distance <= OVERWRITTEN_MAX
            && between
                .iter()
                .zip(shown)
                .all(|(cell, shown)| *shown == look(*cell) && self.is_in_style(*cell) && cell.code() <= b'~');
        if is_cheap {
            between.iter().for_each(|cell| self.waiting.byte(cell.code()));
        } else {
            self.waiting.value(format_args!("\x1b[{distance}C"));
        }
    }

    fn put(&mut self, cell: Cell) {
        if !self.is_in_style(cell) {
            let (front, back) = (ansi(cell.style().front()), ansi(cell.style().back()));
            let front = if front < 8 { 30 + front } else { 82 + front };
            self.waiting.value(format_args!("\x1b[{front};{}m", 40 + back));
            self.style = Some(cell.style());
        }
        match self.charset {
            Charset::Ascii => self.waiting.byte(cp437::ascii(cell.code())),
            Charset::Utf8 => self.waiting.value(cell.character()),
        }
    }

    /// True when the terminal's colours are this cell's. A blank has no character to be coloured.
    fn is_in_style(&self, cell: Cell) -> bool {
        let is_blank = cell.code() == cp437::BLANK;
        self.style
            .is_some_and(|style| style == cell.style() || is_blank && style.back() == cell.style().back())
    }
}

/// The visible part of a cell: blanks of one background look alike.
fn look(cell: Cell) -> u16 {
    let attribute = cell.style().attribute();
    let seen = if cell.code() == cp437::BLANK { attribute & 0xf0 } else { attribute };
    u16::from_be_bytes([seen, cell.code()])
}

/// A terminal's number for a PC's colour: blue and red are exchanged.
const fn ansi(colour: u8) -> u8 {
    colour & 0b1010 | (colour & 1) << 2 | colour >> 2 & 1
}

/// Bytes of one change that could not be sent yet.
#[derive(Clone, Debug)]
struct Waiting {
    bytes: [u8; Self::BYTES_MAX],
    from: usize,
    to: usize,
}

impl Waiting {
    /// The longest is what clears the screen.
    const BYTES_MAX: usize = 64;
    const EMPTY: Self = Self { bytes: [0; Self::BYTES_MAX], from: 0, to: 0 };

    fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    fn byte(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(self.to) {
            *free = byte;
            self.to += 1;
        }
    }

    fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
    }

    fn value(&mut self, value: impl fmt::Display) {
        // Numbers and characters do not fail to be written, nor does this fail to take them.
        let _ = write!(self, "{value}");
    }

    /// Moves what fits to the start of `out`; gives how much it was.
    fn take(&mut self, out: &mut [u8]) -> usize {
        let waiting = self.bytes.get(self.from..self.to).unwrap_or_default();
        let count = waiting.len().min(out.len());
        for (to, from) in out.iter_mut().zip(waiting) {
            *to = *from;
        }
        self.from += count;
        count
    }
}

impl fmt::Write for Waiting {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text);
        Ok(())
    }
}

const ROWS: u16 = Cells::ROWS as u16;
const COLUMNS: u16 = Cells::COLUMNS as u16;
/// No cell holds a character 0.
const UNKNOWN: u16 = 0;
/// Rows of most terminals.
const ROWS_MIN: u16 = 24;
/// The row that a terminal of 24 rows does without: the rule above the keys.
const SPARE_ROW: u16 = crate::window::RULE_ROW as u16;
/// As many characters as the shortest jump has.
const OVERWRITTEN_MAX: usize = 4;
