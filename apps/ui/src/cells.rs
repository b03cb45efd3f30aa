//! The screen as cells, and drawing into them.
//!
//! All output stays in its columns and its row, and inside the screen. A cell never holds a control character.

use crate::figures::History;
use crate::style::Style;
use crate::text;
use crate::text::{CUT, Clip, each_code, is_typeable, width_of};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use core::fmt;

/// A character and its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// [`Cell::COVERED_LETTER`] in a cell that the wide letter on its left covers.
    letter: char,
    /// Accents and vowel signs on the letter; `COVERED_LETTER`: none.
    marks: [char; Self::MARKS_MAX],
    style: Style,
}

impl Cell {
    /// Marks of a letter at most; more are left out.
    pub const MARKS_MAX: usize = 2;
    /// An empty cell.
    pub const BLANK: Self = Self::new(' ', Style::Plain);
    const COVERED_LETTER: char = '\0';

    pub(crate) const fn new(letter: char, style: Style) -> Self {
        Self { letter, marks: [Self::COVERED_LETTER; Self::MARKS_MAX], style }
    }

    /// Its character in code page 437, 0x20 to 0x7e or 0x80 to 0xfe: the most similar one.
    pub fn code(&self) -> u8 {
        if self.is_covered() { text::BLANK } else { text::similar(self.letter) }
    }

    /// Its character; a blank if it is covered.
    pub fn character(&self) -> char {
        if self.is_covered() { ' ' } else { self.letter }
    }

    /// Its character and the marks on it; nothing if it is covered.
    pub fn characters(&self) -> impl Iterator<Item = char> {
        [self.letter].into_iter().chain(self.marks).filter(|c| *c != Self::COVERED_LETTER)
    }

    /// Its style.
    pub const fn style(&self) -> Style {
        self.style
    }

    /// True if the wide letter on its left covers it.
    pub fn is_covered(&self) -> bool {
        self.letter == Self::COVERED_LETTER
    }

    /// Columns of its letter: 0 if it is covered, 2 for a wide letter.
    pub(crate) fn width(&self) -> usize {
        if self.is_covered() { 0 } else { width_of(self.letter) }
    }

    /// True for a letter whose columns differ from terminal to terminal: wide letters, emoji, letters with marks.
    pub(crate) fn has_uncertain_width(&self) -> bool {
        self.width() > 1 || self.letter >= '\u{2600}' || self.marks.iter().any(|c| *c != Self::COVERED_LETTER)
    }

    /// The visible part of it: blanks of one background look alike.
    pub(crate) const fn look(self) -> Self {
        match self.letter {
            ' ' => Self { style: self.style.of_blank(), ..self },
            _ => self,
        }
    }

    fn add_mark(&mut self, mark: char) {
        if let Some(free) = self.marks.iter_mut().find(|place| **place == Self::COVERED_LETTER) {
            *free = mark;
        }
    }
}

/// A screen. Columns and rows count from 0, from the upper left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells {
    cells: Box<[Cell]>,
    columns: usize,
    /// Index of the cell with the cursor, if it is visible.
    cursor: Option<usize>,
}

impl Cells {
    /// Columns of a PC's screen.
    pub const COLUMNS: usize = 80;
    /// Rows of a PC's screen.
    pub const ROWS: usize = 25;
    /// Cells of a PC's screen.
    pub const COUNT: usize = Self::COLUMNS * Self::ROWS;

    /// An empty screen of a PC.
    pub fn new() -> Self {
        Self::with_size(Self::COLUMNS, Self::ROWS)
    }

    /// An empty screen of this size.
    pub fn with_size(columns: usize, rows: usize) -> Self {
        Self { cells: vec![Cell::BLANK; columns * rows].into_boxed_slice(), columns, cursor: None }
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.cells.fill(Cell::BLANK);
        self.cursor = None;
    }

    /// All cells, row by row.
    pub fn all(&self) -> &[Cell] {
        &self.cells
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Index of the cell with the cursor, if it is visible.
    pub(crate) const fn cursor(&self) -> Option<usize> {
        self.cursor
    }

    pub(crate) const fn hide_cursor(&mut self) {
        self.cursor = None;
    }

    /// Puts the cursor into a cell.
    pub(crate) fn set_cursor(&mut self, x: usize, y: usize) {
        self.cursor = (x < self.columns && y < self.rows()).then_some(y * self.columns + x);
    }

    /// Writes text of any script from the left; what does not fit is left out. Gives the column behind it. Characters
    /// that a terminal would obey are shown as U+FFFD.
    pub fn letters(&mut self, x: usize, y: usize, columns: usize, style: Style, text: &str) -> usize {
        let mut field = self.field(x, y, columns, style);
        for c in text.chars() {
            if !field.letter(c) {
                break;
            }
        }
        x + field.at
    }

    /// A row's characters.
    pub fn row_text(&self, y: usize) -> String {
        self.row(y).iter().flat_map(Cell::characters).collect()
    }

    /// A field for text: `columns` from column `x` of row `y`, as far as they are on the screen.
    pub fn field(&mut self, x: usize, y: usize, columns: usize, style: Style) -> Field<'_> {
        let end = x.saturating_add(columns).min(self.columns);
        let row = self.row_mut(y);
        Field { cells: row.get_mut(x..end).unwrap_or_default(), at: 0, style }
    }

    /// Writes text from the left; what does not fit is cut off, with `~` in the last column. Gives the column behind it.
    pub fn text(
        &mut self,
        x: usize,
        y: usize,
        columns: usize,
        style: Style,
        text: impl AsRef<[u8]>,
    ) -> usize {
        let mut field = self.field(x, y, columns, style);
        field.text(text);
        x + field.at
    }

    /// The same for a value. Use [`format_args`] for more than one.
    pub fn value(
        &mut self,
        x: usize,
        y: usize,
        columns: usize,
        style: Style,
        value: impl fmt::Display,
    ) -> usize {
        let mut field = self.field(x, y, columns, style);
        field.value(value);
        x + field.at
    }

    /// Writes a figure from the right. One that does not fit is shown as `###`, because the rest of a figure is another
    /// figure.
    pub fn right(&mut self, x: usize, y: usize, columns: usize, style: Style, value: impl fmt::Display) {
        let text = Clip::<{ Self::COLUMNS + 1 }>::of(value);
        let mut field = self.field(x, y, columns, style);
        match field.cells.len().checked_sub(text.codes().len()) {
            Some(blanks) => {
                field.at = blanks;
                field.codes(text.codes());
            }
            None => field.fill('#'),
        }
    }

    /// A horizontal bar: `part` of `whole`.
    pub fn bar(&mut self, x: usize, y: usize, columns: usize, style: Style, part: u64, whole: u64) {
        let mut field = self.field(x, y, columns, style);
        let room = field.cells.len() as u128;
        let share = u128::from(part.min(whole)) * room;
        // Rounded up, so that the smallest value is visible.
        let filled = share.checked_div(u128::from(whole)).unwrap_or(0)
            + u128::from(whole > 0 && !share.is_multiple_of(u128::from(whole)));
        for place in 0..room {
            field.letter(if place < filled { '█' } else { '░' });
        }
    }

    /// One column for each second, the newest on the right; a full column is the highest value that is kept.
    pub(crate) fn history(&mut self, x: usize, y: usize, columns: usize, style: Style, history: &History) {
        let most = u128::from(history.most());
        let field = self.field(x, y, columns, style);
        for (cell, value) in field.cells.iter_mut().rev().zip(history.newest_first()) {
            let height = (u128::from(value) * 3).div_ceil(most.max(1));
            let (c, style) = match height {
                0 => ('·', Style::Quiet),
                1 => ('_', style),
                2 => ('▄', style),
                _ => ('█', style),
            };
            *cell = Cell::new(c, style);
        }
    }

    /// Fills columns of a row with a blank of this style.
    pub fn fill(&mut self, x: usize, y: usize, columns: usize, style: Style) {
        self.field(x, y, columns, style).fill(' ');
    }

    /// A line across the screen.
    pub fn rule(&mut self, y: usize, style: Style) {
        self.field(0, y, self.columns, style).fill('─');
    }

    /// An empty box with a border and a title.
    pub fn frame(&mut self, x: usize, y: usize, columns: usize, rows: usize, style: Style, title: &str) {
        let (Some(last_row), Some(inner)) = (rows.checked_sub(1), columns.checked_sub(2)) else { return };
        for row in 0..rows {
            let (left, middle, right) = match row {
                0 => ('┌', '─', '┐'),
                row if row == last_row => ('└', '─', '┘'),
                _ => ('│', ' ', '│'),
            };
            let mut field = self.field(x, y + row, columns, style);
            field.letter(left);
            (0..inner).for_each(|_| {
                field.letter(middle);
            });
            field.letter(right);
        }
        self.value(x + 1, y, inner, style, format_args!(" {title} "));
    }

    fn row(&self, y: usize) -> &[Cell] {
        self.cells.chunks(self.columns.max(1)).nth(y).unwrap_or_default()
    }

    fn row_mut(&mut self, y: usize) -> &mut [Cell] {
        self.cells.chunks_mut(self.columns.max(1)).nth(y).unwrap_or_default()
    }
}

impl Default for Cells {
    fn default() -> Self {
        Self::new()
    }
}

/// Columns of a row, written from left to right. What does not fit is left out, and the last column says so with `~`.
#[derive(Debug)]
pub struct Field<'c> {
    cells: &'c mut [Cell],
    at: usize,
    style: Style,
}

impl Field<'_> {
    /// Sets the style of the following text.
    pub fn style(&mut self, style: Style) -> &mut Self {
        self.style = style;
        self
    }

    /// Appends bytes that should be UTF-8; invalid bytes, and characters that code page 437 lacks, are `?`.
    pub fn text(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        each_code(text.as_ref(), |code| self.push(code));
        self
    }

    /// Appends a value. Use [`format_args`] for more than one.
    pub fn value(&mut self, value: impl fmt::Display) -> &mut Self {
        // Writing into a field does not fail; a value whose formatting fails has written a part.
        let _ = fmt::write(self, format_args!("{value}"));
        self
    }

    /// Appends text that was kept.
    pub fn clip<const N: usize>(&mut self, clip: &Clip<N>) -> &mut Self {
        self.codes(clip.codes());
        self
    }

    /// Moves on to a column of the field; never back.
    pub fn skip_to(&mut self, column: usize) -> &mut Self {
        self.at = self.at.max(column.min(self.cells.len()));
        self
    }

    pub(crate) fn codes(&mut self, codes: &[u8]) {
        codes.iter().for_each(|code| {
            self.push(*code);
        });
    }

    fn fill(&mut self, letter: char) {
        self.cells.fill(Cell::new(letter, self.style));
        self.at = self.cells.len();
    }

    /// Appends a character of any script; false: there is no room for it.
    fn letter(&mut self, c: char) -> bool {
        let c = if is_typeable(c) { c } else { char::REPLACEMENT_CHARACTER };
        let columns = width_of(c);
        let Some(place) = self.cells.get_mut(self.at..self.at + columns) else { return false };
        match place {
            [] => {
                // A wide letter's marks are in its first cell.
                let before = self.cells.get_mut(..self.at).unwrap_or_default();
                if let Some(cell) = before.iter_mut().rev().find(|cell| !cell.is_covered()) {
                    cell.add_mark(c);
                }
            }
            [first, covered @ ..] => {
                *first = Cell::new(c, self.style);
                covered.fill(Cell::new(Cell::COVERED_LETTER, self.style));
            }
        }
        self.at += columns;
        true
    }

    /// False: there is no room for more, and the end is marked.
    fn push(&mut self, code: u8) -> bool {
        if self.letter(text::character(code)) {
            return true;
        }
        if let Some(last) = self.cells.last_mut() {
            *last = Cell::new(CUT, last.style);
        }
        false
    }
}

impl fmt::Write for Field<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_its_field() {
        let mut cells = Cells::new();
        let end = cells.text(10, 3, 8, Style::Strong, "\u{1b}[2Jbobby and more");
        assert_eq!((end, cells.row_text(3).trim()), (18, "?[2Jbob~"));
        assert_eq!(cells.row_text(3).find('?'), Some(10));
        cells.text(78, 4, 8, Style::Plain, "abc");
        assert_eq!((cells.row_text(4).trim(), cells.row_text(5).trim()), ("a~", ""));
        cells.text(80, 5, 8, Style::Plain, "abc");
        cells.text(usize::MAX, 5, 8, Style::Plain, "abc");
        cells.text(0, 25, usize::MAX, Style::Plain, "abc");
        cells.bar(75, 26, 10, Style::Plain, 1, 2);
        assert!((5..25).all(|y| cells.row_text(y).trim().is_empty()));
        assert_eq!(cells.all().len(), Cells::COUNT);
    }

    #[test]
    fn a_field_is_written_piece_by_piece() {
        let mut cells = Cells::new();
        let mut field = cells.field(0, 0, 12, Style::Plain);
        field.text("a").style(Style::Bad).value(12).skip_to(6).clip(&Clip::<3>::new("xyz")).text("1234");
        assert_eq!(cells.row_text(0).trim(), "a12   xyz12~");
        let styles: [Style; 2] = [cells.all()[0].style(), cells.all()[1].style()];
        assert_eq!(styles, [Style::Plain, Style::Bad]);
    }

    #[test]
    fn a_figure_is_whole_or_not_there() {
        let mut cells = Cells::new();
        cells.right(0, 0, 6, Style::Plain, 12_345);
        cells.right(0, 1, 4, Style::Plain, 12_345);
        cells.right(0, 2, 5, Style::Plain, 12_345);
        assert_eq!(cells.row_text(0).trim_end(), " 12345");
        assert_eq!(cells.row_text(1).trim_end(), "####");
        assert_eq!(cells.row_text(2).trim_end(), "12345");
    }

    #[test]
    fn bars_show_what_is_there() {
        let mut cells = Cells::new();
        let parts = [(0, 10), (1, 1000), (5, 10), (999, 1000), (20, 10), (3, 0), (u64::MAX, u64::MAX)];
        for (y, (part, whole)) in parts.into_iter().enumerate() {
            cells.bar(0, y, 4, Style::Plain, part, whole);
        }
        let rows: [String; 7] = core::array::from_fn(|y| cells.row_text(y).trim_end().into());
        assert_eq!(rows, ["░░░░", "█░░░", "██░░", "████", "████", "░░░░", "████"]);
        let mut history = History::new();
        [0, 1, 30, 60, 90].into_iter().for_each(|value| history.push(value));
        cells.history(0, 9, 6, Style::Plain, &history);
        assert_eq!(cells.row_text(9).trim_end(), "··__▄█");
    }

    #[test]
    fn a_frame_has_corners() {
        let mut cells = Cells::new();
        cells.frame(2, 1, 12, 3, Style::Plain, "Help");
        let rows: [String; 3] = core::array::from_fn(|y| cells.row_text(y + 1).trim().into());
        assert_eq!(rows, ["┌ Help ────┐", "│          │", "└──────────┘"]);
    }
}
