//! A part of the screen to write in. Nothing is ever written outside of it.

use crate::cells::Cells;
use crate::style::Style;
use crate::text;

/// A rectangle of the screen; positions in it count from its own corner.
pub(super) struct Canvas<'c> {
    cells: &'c mut Cells,
    x: usize,
    y: usize,
    columns: usize,
    rows: usize,
}

impl<'c> Canvas<'c> {
    /// The whole screen.
    pub(super) fn new(cells: &'c mut Cells) -> Self {
        let (columns, rows) = (cells.columns(), cells.rows());
        Self { cells, x: 0, y: 0, columns, rows }
    }

    /// A part of it.
    pub(super) fn part(&mut self, x: usize, y: usize, columns: usize, rows: usize) -> Canvas<'_> {
        let (columns, rows) =
            (columns.min(self.columns.saturating_sub(x)), rows.min(self.rows.saturating_sub(y)));
        Canvas { cells: self.cells, x: self.x + x, y: self.y + y, columns, rows }
    }

    /// All cells, for pages that fill whole rows of the screen, and the row of this part's corner.
    pub(super) fn whole_rows(&mut self) -> (&mut Cells, usize) {
        (self.cells, self.y)
    }

    /// Writes `text`; what does not fit is left out. Gives the column behind it.
    pub(super) fn put(&mut self, x: usize, y: usize, text: &str, style: Style) -> usize {
        if y >= self.rows {
            return x;
        }
        let room = self.columns.saturating_sub(x);
        let end = self.cells.letters(self.x + x, self.y + y, room, style, text);
        end - self.x
    }

    /// The same with `…` for what does not fit.
    pub(super) fn put_cut(&mut self, x: usize, y: usize, text: &str, style: Style) -> usize {
        let room = self.columns.saturating_sub(x);
        self.put(x, y, &text::cut(text, room), style)
    }

    /// A line across the screen.
    pub(super) fn rule(&mut self, y: usize) {
        self.cells.rule(self.y + y, Style::Quiet);
    }

    /// An empty box with a border and a title in the middle; gives its inside.
    pub(super) fn window(&mut self, columns: usize, rows: usize, title: &str) -> Canvas<'_> {
        let (columns, rows) = (columns.min(self.columns), rows.min(self.rows));
        let (x, y) = ((self.columns - columns) / 2, (self.rows - rows) / 2);
        self.cells.frame(self.x + x, self.y + y, columns, rows, Style::Strong, title);
        self.part(x + 2, y + 1, columns.saturating_sub(4), rows.saturating_sub(2))
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Puts the cursor there, if it is inside.
    pub(super) fn set_cursor(&mut self, x: usize, y: usize) {
        if x < self.columns && y < self.rows {
            self.cells.set_cursor(self.x + x, self.y + y);
        }
    }

    pub(super) fn hide_cursor(&mut self) {
        self.cells.hide_cursor();
    }
}
