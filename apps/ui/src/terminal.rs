//! A terminal that shows the cells (ECMA-48, as VT100 and xterm implement it): at a serial line, or the user's own.
//!
//! A serial line is slow, 11 bytes a millisecond at 115,200 bit/s: each step writes a few bytes of the changes and the
//! next step continues. Only cells that look different are sent; a cell that changed twice meanwhile is sent once.

use crate::cells::{Cell, Cells};
use crate::style::{Palette, Style};
use alloc::boxed::Box;
use alloc::vec;
use core::fmt::{self, Write as _};
use core::ops::Range;

/// A terminal, and the cells that it shows as far as they are known.
#[derive(Clone, Debug)]
pub struct Terminal {
    palette: Palette,
    /// Visible cells, as [`Cell::look`] gives them; `None`: unknown.
    shown: Box<[Option<Cell>]>,
    rows: usize,
    columns: usize,
    /// Columns of the cells that are shown.
    cells_columns: usize,
    /// The row that is left out where there is one too few.
    spare_row: Option<usize>,
    /// Index of the cell under the cursor, if it is known.
    cursor: Option<usize>,
    is_cursor_visible: bool,
    style: Option<Style>,
    /// Index at which the search for changes continues, so that cells that change all the time do not keep the others
    /// from being drawn.
    at: usize,
    start: Start,
    waiting: Waiting,
}

/// Preparation before cells are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// A terminal at a serial line, in an unknown state, for a PC's screen. Until it reports its size it counts as 24
    /// rows: `spare_row` is left out there.
    pub fn serial(spare_row: usize) -> Self {
        Self {
            spare_row: Some(spare_row),
            rows: ROWS_MIN,
            columns: Cells::COLUMNS,
            start: Start::ClearAndAsk,
            palette: Palette::Pc,
            ..Self::local()
        }
    }

    /// The user's terminal, in its own colours. It has the size of the cells.
    pub fn local() -> Self {
        Self {
            palette: Palette::Own,
            shown: Box::default(),
            rows: usize::MAX,
            columns: usize::MAX,
            cells_columns: 0,
            spare_row: None,
            cursor: None,
            is_cursor_visible: false,
            style: None,
            at: 0,
            start: Start::Clear,
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
        let (rows, columns) = (usize::from(rows).min(Cells::ROWS), usize::from(columns).min(Cells::COLUMNS));
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
        if self.shown.len() != cells.all().len() || self.cells_columns != cells.columns() {
            self.shown = vec![None; cells.all().len()].into_boxed_slice();
            self.cells_columns = cells.columns();
            self.start = self.start.max(Start::Clear);
        }
        if self.start != Start::Done {
            self.clear();
            return true;
        }
        while let Some((index, cell)) = self.next_change(cells) {
            if let Some(shown) = self.shown.get_mut(index) {
                *shown = Some(cell.look());
            }
            self.at = (index + 1) % self.shown.len();
            if cell.is_covered() {
                continue;
            }
            // A cell outside the terminal counts as shown.
            let Some((row, column)) = self.position(index) else { continue };
            self.move_to(index, row, column, cells);
            self.put(cell);
            // After the last column the cursor's position depends on the terminal.
            let is_last = column + cell.width() >= self.columns.min(self.cells_columns);
            let is_known = !is_last && !cell.has_uncertain_width();
            self.cursor = is_known.then_some(index + cell.width());
            return true;
        }
        self.place_cursor(cells)
    }

    /// Shows or hides the cursor once all cells are drawn; false if it is as it should be.
    fn place_cursor(&mut self, cells: &Cells) -> bool {
        let wanted = cells.cursor().and_then(|index| Some((index, self.position(index)?)));
        match wanted {
            Some((index, (row, column))) if !self.is_cursor_visible || self.cursor != Some(index) => {
                self.waiting.value(format_args!("\x1b[{};{}H\x1b[?25h", row + 1, column + 1));
                (self.cursor, self.is_cursor_visible) = (Some(index), true);
                true
            }
            None if self.is_cursor_visible => {
                self.waiting.text("\x1b[?25l");
                self.is_cursor_visible = false;
                true
            }
            Some(_) | None => false,
        }
    }

    /// The next cell that is not shown as it is, from where the search stopped, once around.
    fn next_change(&self, cells: &Cells) -> Option<(usize, Cell)> {
        let change = |range: Range<usize>| {
            let (shown, cells) = (self.shown.get(range.clone())?, cells.all().get(range.clone())?);
            let differs = |(shown, cell): (&Option<Cell>, &Cell)| *shown != Some(cell.look());
            let index = shown.iter().zip(cells).position(differs)?;
            Some((range.start + index, *cells.get(index)?))
        };
        change(self.at..self.shown.len()).or_else(|| change(0..self.at))
    }

    /// Line wrap and cursor off, colours known, nothing shown.
    fn clear(&mut self) {
        self.waiting.text("\x1b[?7l\x1b[?25l");
        self.waiting.text(match self.palette {
            Palette::Pc => "\x1b[0;37;40m\x1b[2J",
            Palette::Own => "\x1b[0m\x1b[2J",
        });
        if self.start == Start::ClearAndAsk {
            // The cursor stops at the last row and column: the size.
            self.waiting.text("\x1b[999;999H\x1b[6n");
        }
        self.start = Start::Done;
        self.shown.fill(None);
        (self.cursor, self.style, self.at) = (None, Some(Style::Plain), 0);
        self.is_cursor_visible = false;
    }

    /// Row and column on the terminal, from 0; `None`: not shown there.
    fn position(&self, index: usize) -> Option<(usize, usize)> {
        let (row, column) = (index.checked_div(self.cells_columns)?, index % self.cells_columns);
        let is_short = self.rows < self.shown.len() / self.cells_columns;
        let row = match self.spare_row.filter(|_| is_short) {
            Some(spare) if row == spare => return None,
            Some(spare) => row - usize::from(row > spare),
            None => row,
        };
        (row < self.rows && column < self.columns).then_some((row, column))
    }

    fn move_to(&mut self, index: usize, row: usize, column: usize, cells: &Cells) {
        let same_row = self.cursor.filter(|cursor| cursor / self.cells_columns == index / self.cells_columns);
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
            && between.iter().zip(shown).all(|(cell, shown)| {
                *shown == Some(cell.look()) && self.is_in_style(*cell) && cell.character().is_ascii()
            });
        if is_cheap {
            between.iter().for_each(|cell| self.waiting.byte(cell.code()));
        } else {
            self.waiting.value(format_args!("\x1b[{distance}C"));
        }
    }

    fn put(&mut self, cell: Cell) {
        if !self.is_in_style(cell) {
            match self.palette {
                Palette::Pc => {
                    let attribute = cell.style().attribute();
                    let (front, back) = (ansi(attribute & 0x0f), ansi(attribute >> 4));
                    let front = if front < 8 { 30 + front } else { 82 + front };
                    self.waiting.value(format_args!("\x1b[{front};{}m", 40 + back));
                }
                Palette::Own => self.waiting.value(format_args!("\x1b[{}m", cell.style().sgr())),
            }
            self.style = Some(cell.style());
        }
        cell.characters().for_each(|c| self.waiting.value(c));
    }

    /// True when the terminal's style is this cell's. A blank has no character to be coloured.
    fn is_in_style(&self, cell: Cell) -> bool {
        self.style.is_some_and(|style| {
            style == cell.style() || cell.character() == ' ' && style.of_blank() == cell.style().of_blank()
        })
    }
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

/// Rows of most terminals.
const ROWS_MIN: usize = 24;
/// As many characters as the shortest jump has.
const OVERWRITTEN_MAX: usize = 4;
