//! Output of results to standard output.

use ringway_ui::is_obeyed;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Buffered standard output, for results of many lines. Call `flush` at the end to get its error.
pub(crate) fn buffered() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Writes one line.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Replaces characters that a terminal interprets, that change the reading direction, or that are invisible: much of the text is
/// from the network.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if is_obeyed(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_interpreted_or_invisible() {
        assert_eq!(printable("\u{1b}[2Ja\u{202e}b\u{200b}c\u{e9}"), "\u{fffd}[2Ja\u{fffd}b\u{fffd}c\u{e9}");
    }
}
