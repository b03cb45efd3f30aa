//! Lines that the actions of scenario files write to the log.

use std::sync::{Mutex, PoisonError};

/// Line of a scenario's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Number of the attempt in its thread.
    pub attempt: u64,
    /// True for a warning.
    pub is_warning: bool,
    /// The line.
    pub text: String,
}

/// Lines since the last look at them.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Taken>);

/// Lines, and the number of those that were too many.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Lines in their order.
    pub lines: Vec<LogLine>,
    /// Number of lines that there was no room for.
    pub left_out: u64,
}

impl Log {
    pub(crate) fn add(&self, attempt: u64, is_warning: bool, text: &[u8]) {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.lines.len() >= LINES_MAX {
            taken.left_out += 1;
            return;
        }
        let text = String::from_utf8_lossy(text).trim_end().to_owned();
        taken.lines.push(LogLine { attempt, is_warning, text });
    }

    pub(crate) fn take(&self) -> Taken {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Maximum number of lines that wait.
const LINES_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let log = Log::default();
        (0..LINES_MAX as u64 + 3).for_each(|attempt| log.add(attempt, false, b"x \n"));
        let taken = log.take();
        assert_eq!((taken.lines.len(), taken.left_out, taken.lines[0].text.as_str()), (LINES_MAX, 3, "x"));
        log.add(7, true, b"y");
        let line = LogLine { attempt: 7, is_warning: true, text: "y".into() };
        assert_eq!((log.take().lines, log.take().left_out), (vec![line], 0));
    }
}
