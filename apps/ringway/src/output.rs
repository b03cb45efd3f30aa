//! Output of results to standard output.

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

/// Replaces control characters, which a terminal would interpret: much of the text is from the network.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
