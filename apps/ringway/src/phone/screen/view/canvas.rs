//! A part of the window to write in. Nothing is ever written outside of it.

use crate::phone::screen::text;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;

/// How things look. The terminal's own colours: each has been chosen by its person.
pub(super) mod style {
    use ratatui::style::{Color, Modifier, Style};

    pub(in super::super) const PLAIN: Style = Style::new();
    pub(in super::super) const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
    pub(in super::super) const QUIET: Style = Style::new().fg(Color::DarkGray);
    pub(in super::super) const BAR: Style = Style::new().fg(Color::White).bg(Color::Blue);
    pub(in super::super) const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
    pub(in super::super) const FIELD: Style = Style::new().add_modifier(Modifier::UNDERLINED);
    pub(in super::super) const GOOD: Style = Style::new().fg(Color::Green).add_modifier(Modifier::BOLD);
    pub(in super::super) const WARNING: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
    pub(in super::super) const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    pub(in super::super) const ALARM: Style =
        Style::new().fg(Color::Black).bg(Color::Yellow).add_modifier(Modifier::BOLD);
}

/// A rectangle of the window; places in it count from its own corner.
pub(super) struct Canvas<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
}

impl<'b> Canvas<'b> {
    /// The whole window.
    pub(super) fn new(buffer: &'b mut Buffer) -> Self {
        let area = buffer.area;
        Self { buffer, area }
    }

    /// A part of it.
    pub(super) fn part(&mut self, x: u16, y: u16, columns: u16, rows: u16) -> Canvas<'_> {
        let wanted = Rect {
            x: self.area.x.saturating_add(x),
            y: self.area.y.saturating_add(y),
            width: columns,
            height: rows,
        };
        let area = wanted.intersection(self.area);
        Canvas { buffer: self.buffer, area }
    }

    /// Writes `text`; what does not fit is not written. Gives the column behind it.
    pub(super) fn put(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        let Some(at) = self.position(x, y) else { return x };
        let room = self.area.right().saturating_sub(at.x);
        let (end, _) = self.buffer.set_stringn(at.x, at.y, text, usize::from(room), style);
        end.saturating_sub(self.area.x)
    }

    /// The same with `…` for what does not fit.
    pub(super) fn put_cut(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        let room = usize::from(self.area.width.saturating_sub(x));
        self.put(x, y, &text::cut(text, room), style)
    }

    /// A line across.
    pub(super) fn rule(&mut self, y: u16) {
        self.put(0, y, &"─".repeat(usize::from(self.area.width)), style::QUIET);
    }

    /// An empty box with a border and a title in the middle; gives its inside.
    pub(super) fn window(&mut self, columns: u16, rows: u16, title: &str) -> Canvas<'_> {
        let (columns, rows) = (columns.min(self.area.width), rows.min(self.area.height));
        let (x, y) = ((self.area.width - columns) / 2, (self.area.height - rows) / 2);
        let inner = usize::from(columns.saturating_sub(2));
        let mut frame = self.part(x, y, columns, rows);
        let title = text::cut(&format!(" {title} "), inner);
        let rest = "─".repeat(inner.saturating_sub(text::width(&title)));
        frame.put(0, 0, &format!("┌{title}{rest}┐"), style::STRONG);
        for row in 1..rows.saturating_sub(1) {
            frame.put(0, row, &format!("│{}│", " ".repeat(inner)), style::STRONG);
        }
        frame.put(0, rows.saturating_sub(1), &format!("└{}┘", "─".repeat(inner)), style::STRONG);
        self.part(x + 2, y + 1, columns.saturating_sub(4), rows.saturating_sub(2))
    }

    pub(super) fn columns(&self) -> u16 {
        self.area.width
    }

    pub(super) fn rows(&self) -> u16 {
        self.area.height
    }

    /// Where a place of this part is in the window, if it is inside.
    pub(super) fn position(&self, x: u16, y: u16) -> Option<Position> {
        let is_inside = x < self.area.width && y < self.area.height;
        is_inside.then(|| Position { x: self.area.x + x, y: self.area.y + y })
    }
}
