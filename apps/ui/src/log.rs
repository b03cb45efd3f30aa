//! The last lines of the log.

use crate::cells::Cells;
use crate::figures::Clock;
use crate::keys::Key;
use crate::style::Style;
use crate::text::Clip;
use alloc::collections::VecDeque;
use core::time::Duration;

/// The last [`Log::LINES_MAX`] lines, and which of them are shown.
#[derive(Clone, Debug)]
pub struct Log {
    lines: VecDeque<Line>,
    /// Rows below the window's last; 0: the newest line is shown.
    below: usize,
}

/// Severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Information.
    Info,
    /// Warning.
    Warning,
    /// Error: a function does not work.
    Error,
}

#[derive(Clone, Debug)]
struct Line {
    at: Duration,
    level: Level,
    text: Clip<{ TEXT_COLUMNS * ROWS_MAX }>,
}

impl Line {
    fn rows(&self) -> usize {
        self.text.codes().len().div_ceil(TEXT_COLUMNS).max(1)
    }
}

impl Log {
    /// Lines that are kept; the oldest go.
    pub const LINES_MAX: usize = 200;

    /// No lines.
    pub fn new() -> Self {
        Self { lines: VecDeque::with_capacity(Self::LINES_MAX), below: 0 }
    }

    /// Adds a line, with its time since the start. Longer ones than three rows are cut off.
    pub fn push(&mut self, uptime: Duration, level: Level, text: impl AsRef<[u8]>) {
        if self.lines.len() >= Self::LINES_MAX {
            self.lines.pop_front();
        }
        let line = Line { at: uptime, level, text: Clip::new(text) };
        if self.below > 0 {
            // A window that was scrolled back keeps its lines.
            self.below += line.rows();
        }
        self.lines.push_back(line);
    }

    /// Scrolls; false when the key means nothing here.
    pub(crate) fn key(&mut self, key: Key, rows: usize) -> bool {
        self.below = match key {
            Key::Up => self.below + 1,
            Key::Down => self.below.saturating_sub(1),
            Key::PageUp => self.below + rows,
            Key::PageDown => self.below.saturating_sub(rows),
            Key::Home => usize::MAX,
            Key::End => 0,
            _ => return false,
        };
        self.below = self.below.min(self.rows().saturating_sub(rows));
        true
    }

    /// Fills `rows` rows from `y` on, the newest line at the bottom.
    pub(crate) fn draw(&self, cells: &mut Cells, y: usize, rows: usize) {
        let total = self.rows();
        let below = self.below.min(total.saturating_sub(rows));
        let first = total.saturating_sub(below + rows);
        let mut row = 0;
        for line in &self.lines {
            let (name, style) = match line.level {
                Level::Info => ("info", Style::Plain),
                Level::Warning => ("warning", Style::Warning),
                Level::Error => ("ERROR", Style::Bad),
            };
            let mut pieces = line.text.codes().chunks(TEXT_COLUMNS);
            for number in 0..line.rows() {
                let piece = pieces.next().unwrap_or_default();
                if (first..first + rows).contains(&row) {
                    let y = y + row - first;
                    if number == 0 {
                        cells.right(0, y, 10, Style::Quiet, Clock(line.at));
                        cells.text(LEVEL_X, y, TEXT_X - LEVEL_X, style, name);
                    }
                    cells.field(TEXT_X, y, TEXT_COLUMNS, style).codes(piece);
                }
                row += 1;
            }
        }
        if total == 0 {
            cells.text(TEXT_X, y, TEXT_COLUMNS, Style::Quiet, "Nothing yet.");
        }
    }

    /// Rows below the window's last; 0: the newest line is shown.
    pub(crate) fn rows_below(&self) -> usize {
        self.below
    }

    fn rows(&self) -> usize {
        self.lines.iter().map(Line::rows).sum()
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

const LEVEL_X: usize = 11;
const TEXT_X: usize = 19;
const TEXT_COLUMNS: usize = Cells::COLUMNS - TEXT_X;
/// Rows of a line at most.
const ROWS_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn log(lines: usize) -> Log {
        let mut log = Log::new();
        (0..lines).for_each(|number| log.push(Duration::from_secs(1), Level::Info, format!("line {number}")));
        log
    }

    fn drawn(log: &mut Log) -> [String; 3] {
        let mut cells = Cells::new();
        log.draw(&mut cells, 0, 3);
        core::array::from_fn(|y| cells.row_text(y).get(TEXT_X..).unwrap().trim().into())
    }

    #[test]
    fn the_newest_is_at_the_bottom_and_the_oldest_go() {
        assert_eq!(drawn(&mut log(0)), ["Nothing yet.", "", ""]);
        assert_eq!(drawn(&mut log(2)), ["line 0", "line 1", ""]);
        let mut log = log(250);
        assert_eq!(drawn(&mut log), ["line 247", "line 248", "line 249"]);
        assert!(log.key(Key::Home, 3));
        assert_eq!(drawn(&mut log), ["line 50", "line 51", "line 52"]);
    }

    #[test]
    fn who_reads_old_lines_goes_on_reading_them() {
        let mut log = log(10);
        log.key(Key::PageUp, 3);
        assert_eq!(drawn(&mut log), ["line 4", "line 5", "line 6"]);
        log.push(Duration::ZERO, Level::Error, "new");
        assert_eq!(drawn(&mut log), ["line 4", "line 5", "line 6"]);
        log.key(Key::Down, 3);
        assert_eq!(drawn(&mut log), ["line 5", "line 6", "line 7"]);
        log.key(Key::End, 3);
        assert_eq!(drawn(&mut log), ["line 8", "line 9", "new"]);
        (0..20).for_each(|_| {
            log.key(Key::Up, 3);
        });
        assert_eq!(drawn(&mut log), ["line 0", "line 1", "line 2"]);
        log.key(Key::Down, 3);
        assert_eq!(drawn(&mut log), ["line 1", "line 2", "line 3"], "there is nothing above the first");
    }

    #[test]
    fn long_lines_are_wrapped_and_have_an_end() {
        let mut log = Log::new();
        log.push(Duration::ZERO, Level::Info, "x".repeat(TEXT_COLUMNS + 2));
        assert_eq!(drawn(&mut log), ["x".repeat(TEXT_COLUMNS), "xx".into(), String::new()]);
        log.push(Duration::ZERO, Level::Info, "y".repeat(1000));
        let whole = "y".repeat(TEXT_COLUMNS);
        assert_eq!(drawn(&mut log), [whole.clone(), whole.clone(), format!("{}~", &whole[1..])]);
    }
}
