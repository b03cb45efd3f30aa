//! Tables of numbers.

use super::text::{Markup, Text, short};

/// A table. Cells are plain text.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    /// Headings; those of numbers name the unit.
    pub(super) head: &'static [&'static str],
    /// Number of columns at the left that are text.
    pub(super) text_columns: usize,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// Writes the table, up to [`ROWS_MAX`] rows.
    pub(super) fn write(&self, page: &mut Markup) {
        page.push(format_args!(
            "<div class=\"wide\"><table class=\"c{}\"><thead><tr>",
            self.text_columns.min(5)
        ));
        for heading in self.head {
            page.push(format_args!("<th>{}", Text(heading)));
        }
        page.push(format_args!("<tbody>"));
        let (start, mut written) = (page.len(), 0);
        for row in self.rows.iter().take(ROWS_MAX) {
            let mut line = Markup::default();
            line.push(format_args!("<tr>"));
            for cell in row {
                line.push(format_args!("<td>{}", Text(&short(cell, CELL_CHARS_MAX))));
            }
            if page.len() - start + line.len() > BYTES_MAX {
                break;
            }
            page.push(format_args!("{line}"));
            written += 1;
        }
        page.push(format_args!("</table></div>"));
        if let Some(more @ 1..) = self.rows.len().checked_sub(written) {
            page.push(format_args!("<p>{more} rows more are in the results."));
        }
    }
}

/// Most rows of a table.
const ROWS_MAX: usize = 150;

/// Largest part of the rows of a table.
const BYTES_MAX: usize = 60_000;

/// Longest text of a cell.
const CELL_CHARS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_rows_are_limited() {
        let rows = vec![vec!["<b>".to_owned(), "1".to_owned()]; ROWS_MAX + 3];
        let mut page = Markup::default();
        Table { head: &["name", "rate, 1/s"], text_columns: 1, rows }.write(&mut page);
        let page = page.into_string();
        assert_eq!(
            (page.matches("<tr>").count(), page.matches("<td>").count()),
            (ROWS_MAX + 1, 2 * ROWS_MAX)
        );
        assert!(
            page.contains("&lt;b&gt;") && !page.contains("<b>") && page.contains("3 rows more"),
            "{page}"
        );
    }
}
