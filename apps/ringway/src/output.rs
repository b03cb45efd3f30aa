//! Writing results to standard output.

use std::io::{self, BufWriter, StdoutLock, Write};

/// Standard output with a buffer, for results of many lines. Call `flush` at the end: an error is then told.
pub(crate) fn buffered() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Writes one line.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// `text` without characters that a terminal would obey: much of what is shown came from a network.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
