//! Text, numbers and tables in HTML.

use std::fmt::{self, Write as _};

/// Text of a record, escaped for HTML elements and attributes, and limited to [`TEXT_CHARS_MAX`].
pub(super) struct Text<'a>(pub(super) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, c) in self.0.chars().enumerate() {
            if index == TEXT_CHARS_MAX {
                return f.write_char('…');
            }
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(c)?,
                c if c.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// HTML that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Markup(String);

impl Markup {
    /// Appends formatted markup. Text of records goes through [`Text`].
    pub(super) fn push(&mut self, markup: fmt::Arguments<'_>) {
        // A String accepts everything.
        let _ = self.0.write_fmt(markup);
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The first `chars_max` characters of a text; `…` is the last one if there were more.
pub(super) fn short(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// [`amount`] of a value that may be missing.
pub(super) fn amount_or_none(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), amount)
}

/// A number with three significant digits, or as an integer with separators of thousands.
pub(super) fn amount(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    if size >= 1e12 || (size > 0.0 && size < 1e-4) {
        return format!("{value:.1e}");
    }
    let decimals = match size {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size => (2.0 - size.log10().floor()).clamp(2.0, 7.0) as usize,
    };
    let text = format!("{value:.decimals$}");
    let text = if decimals == 0 { &text } else { text.trim_end_matches('0').trim_end_matches('.') };
    with_separators(text)
}

/// A count with separators of thousands.
pub(super) fn count(value: u64) -> String {
    with_separators(&value.to_string())
}

/// A share from 0 to 1 in percent, with the sign. A share that is almost 0 or 1 is not rounded to it.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p > 0.0 && p < 0.01 => "< 0.01\u{a0}%".to_owned(),
        p if p > 99.9 && p < 100.0 => format!("{:.3}\u{a0}%", (p * 1e3).floor() / 1e3),
        p => format!("{}\u{a0}%", amount(p)),
    }
}

fn with_separators(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(whole, part)| (whole, Some(part)));
    let mut text = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// Longest text of a record that is shown.
const TEXT_CHARS_MAX: usize = 8_000;

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
    fn text_is_neither_markup_nor_endless() {
        let hostile = "<script>alert('1')</script>\"onload=x & \u{1b}[2J\0";
        assert_eq!(
            Text(hostile).to_string(),
            "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;onload=x &amp; \u{fffd}[2J\u{fffd}"
        );
        assert_eq!(Text(&"x".repeat(TEXT_CHARS_MAX + 5)).to_string().chars().count(), TEXT_CHARS_MAX + 1);
        assert_eq!((short("kamailio", 8).as_str(), short("kamailio", 5).as_str()), ("kamailio", "kama…"));
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (12.0, "12"),
            (12.34, "12.3"),
            (0.123_45, "0.123"),
            (0.001_234, "0.00123"),
            (9.999, "10"),
            (99.96, "100"),
            (999.6, "1,000"),
            (12_345.6, "12,346"),
            (-1_234_567.0, "-1,234,567"),
            (1e300, "1.0e300"),
            (1e-9, "1.0e-9"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ] {
            assert_eq!(amount(value), text, "{value}");
        }
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn a_share_of_almost_all_is_not_all() {
        assert_eq!(percent(1.0), "100\u{a0}%");
        assert_eq!(percent(0.999_999_9), "99.999\u{a0}%");
        assert_eq!(percent(0.000_01), "< 0.01\u{a0}%");
        assert_eq!(percent(0.051_2), "5.12\u{a0}%");
        assert_eq!(percent(0.0), "0\u{a0}%");
    }

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
