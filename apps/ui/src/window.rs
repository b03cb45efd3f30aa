//! The frame of all pages: a title above, keys below.

use crate::cells::Cells;
use crate::figures::Span;
use crate::style::Style;
use core::fmt;
use core::time::Duration;

/// The row under the title.
pub(crate) const TABS_ROW: usize = 1;
/// The first row of a page's own.
pub(crate) const BODY_ROW: usize = 2;
/// Rows of a page's own.
pub(crate) const BODY_ROWS: usize = RULE_ROW - BODY_ROW;
/// A line across.
pub(crate) const RULE_ROW: usize = Cells::ROWS - 2;
/// The row that a terminal with a row too few does without.
pub const SPARE_ROW: usize = RULE_ROW;
const KEYS_ROW: usize = Cells::ROWS - 1;

/// Column of labels.
pub(crate) const LABEL_X: usize = 1;
/// Column of values, after their labels.
pub(crate) const VALUE_X: usize = 14;
/// Columns for values.
pub(crate) const VALUE_COLUMNS: usize = Cells::COLUMNS - VALUE_X - 1;

/// The first row: what this is, whose, and for how long it has been running.
pub(crate) fn title(cells: &mut Cells, what: impl fmt::Display, whose: impl AsRef<[u8]>, uptime: Duration) {
    cells.fill(0, 0, Cells::COLUMNS, Style::Title);
    let x = cells.value(LABEL_X, 0, 30, Style::Title, what);
    cells.text(x + 2, 0, UP_X.saturating_sub(x + 4), Style::Title, whose);
    let up = format_args!("up {}", Span(uptime));
    cells.right(UP_X, 0, Cells::COLUMNS - UP_X - 1, Style::Title, up);
}

/// The last two rows. `keys` holds pairs: a key, what it does.
pub(crate) fn keys(cells: &mut Cells, keys: &[(&str, &str)]) {
    cells.rule(RULE_ROW, Style::Quiet);
    cells.fill(0, KEYS_ROW, Cells::COLUMNS, Style::Bar);
    let mut field = cells.field(LABEL_X, KEYS_ROW, Cells::COLUMNS - 2, Style::Bar);
    for (number, (key, does)) in keys.iter().enumerate() {
        field.style(Style::Bar).text(if number == 0 { "" } else { "   " });
        field.style(Style::Key).text(key).style(Style::Bar).text(" ").text(does);
    }
}

/// A label and the field for its value.
pub(crate) fn value<'c>(cells: &'c mut Cells, y: usize, label: &str, style: Style) -> crate::Field<'c> {
    cells.text(LABEL_X, y, VALUE_X - LABEL_X - 1, Style::Plain, label);
    cells.field(VALUE_X, y, VALUE_COLUMNS, style)
}

/// Column of the uptime.
const UP_X: usize = 60;
