//! A picture of a terminal: monospaced text on coloured rectangles, as SVG. For the documents.

use std::fmt::Write as _;
use std::format;
use std::string::String;
use std::vec::Vec;

/// Columns and rows of a character, in the picture's units.
const CELL: (usize, usize) = (9, 19);
const MARGIN: usize = 12;
const FRONT: &str = "#d8dee9";
const BACK: &str = "#1d2229";

/// One character of a terminal and how it looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Glyph {
    /// Empty: the wide character before it covers the cell.
    pub(crate) text: String,
    pub(crate) look: Look,
}

/// Look of characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// A colour of the terminal's palette, 0-15; `None`: its own.
    pub(crate) front: Option<u8>,
    pub(crate) back: Option<u8>,
    pub(crate) is_bold: bool,
    pub(crate) is_underlined: bool,
    pub(crate) is_reversed: bool,
}

/// The picture of a terminal's rows, all as wide as the first.
pub(crate) fn svg(rows: &[Vec<Glyph>], title: &str) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let (width, height) = (columns * CELL.0 + 2 * MARGIN, rows.len() * CELL.1 + 2 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACK}\"/>\n\
         <g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"15\">\n",
        escaped(title)
    );
    for (y, row) in rows.iter().enumerate() {
        let mut x = 0;
        for run in row.chunk_by(|a, b| a.look == b.look) {
            draw_run(&mut out, x, y, run);
            x += run.len();
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// Characters that look alike, from column `x` on.
fn draw_run(out: &mut String, x: usize, y: usize, run: &[Glyph]) {
    let Some(look) = run.first().map(|glyph| glyph.look) else { return };
    let (mut front, mut back) = (colour(look.front, FRONT), colour(look.back, BACK));
    if look.is_reversed {
        (front, back) = (back, front);
    }
    let (left, top) = (MARGIN + x * CELL.0, MARGIN + y * CELL.1);
    let width = run.len() * CELL.0;
    // Writing to a string does not fail.
    if back != BACK {
        let height = CELL.1;
        let _ = writeln!(
            out,
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"{back}\"/>"
        );
    }
    if look.is_underlined {
        let y = top + CELL.1 - 2;
        let _ =
            writeln!(out, "<rect x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"1\" fill=\"{front}\"/>");
    }
    let weight = if look.is_bold { " font-weight=\"bold\"" } else { "" };
    let y = top + CELL.1 - 5;
    // Each word has its own position, so that no font can shift a column.
    let mut at = 0;
    for word in run.split(|glyph| glyph.text == " ") {
        if !word.is_empty() {
            let text: String = word.iter().map(|glyph| glyph.text.as_str()).collect();
            let (x, length) = (left + at * CELL.0, word.len() * CELL.0);
            let _ = writeln!(
                out,
                "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\" \
                 fill=\"{front}\"{weight}>{}</text>",
                escaped(&text)
            );
        }
        at += word.len() + 1;
    }
}

fn colour(number: Option<u8>, own: &'static str) -> &'static str {
    match number {
        Some(0) => "#14181d",
        Some(1 | 9) => "#ff6b6b",
        Some(2 | 10) => "#8fd694",
        Some(3 | 11) => "#f2c14e",
        Some(4 | 12) => "#2f5d8a",
        Some(8) => "#8a94a3",
        Some(15) => "#ffffff",
        Some(_) | None => own,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
