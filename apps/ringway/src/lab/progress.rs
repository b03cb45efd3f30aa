//! Progress of `ringway lab load`: a view that is redrawn in place on a terminal, lines elsewhere, or records as JSON.

use super::view::{self, Snapshot};
use crate::failure::Failure;
use crate::output;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Output of the progress.
pub(super) enum Progress {
    /// Records on standard output; the number of the last one.
    Json(u64),
    /// Lines on standard error; the number of the last one.
    Lines(u64),
    /// View on the terminal of standard error.
    Screen(Screen),
}

impl Progress {
    pub(super) fn new(is_json: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        match is_json {
            true => Self::Json(0),
            false if io::stderr().is_terminal() && !is_dumb => Self::Screen(Screen::default()),
            false => Self::Lines(0),
        }
    }

    /// Time between two calls of [`Progress::show`].
    pub(super) const fn interval(&self) -> Duration {
        match self {
            Self::Json(_) | Self::Lines(_) => Duration::from_secs(1),
            Self::Screen(_) => REDRAW_EVERY,
        }
    }

    /// Writes a line.
    pub(super) fn say(&self, text: &str) {
        match self {
            Self::Json(_) => {}
            // Progress that cannot be written is not missed.
            Self::Lines(_) | Self::Screen(_) => drop(writeln!(io::stderr(), "{text}")),
        }
    }

    /// Shows the state.
    pub(super) fn show(&mut self, snapshot: &Snapshot<'_>) -> Result<(), Failure> {
        match self {
            Self::Json(second) => {
                *second += 1;
                output::line(&view::second_json(*second, snapshot.statistics))?;
            }
            Self::Lines(second) => {
                *second += 1;
                let line = view::second_line(*second, snapshot.plan.length, snapshot.statistics);
                drop(writeln!(io::stderr(), "{line}"));
            }
            Self::Screen(screen) => screen.show(snapshot),
        }
        Ok(())
    }

    /// Writes that open attempts are being ended; the view has it in its progress line.
    pub(super) fn note_interruption(&self) {
        if let Self::Lines(_) = self {
            self.say("interrupted: ending open attempts; a second signal ends at once, without a result");
        }
    }

    /// Removes the view.
    pub(super) fn end(&mut self) {
        if let Self::Screen(screen) = self {
            screen.draw(&[]);
        }
    }
}

/// View on a terminal.
#[derive(Default)]
pub(super) struct Screen {
    /// Number of lines of the last drawing.
    drawn: usize,
    /// Samples of the last second.
    samples: VecDeque<view::Sample>,
}

impl Screen {
    fn show(&mut self, snapshot: &Snapshot<'_>) {
        let now = view::Sample::of(snapshot);
        let before = self.samples.front().copied().unwrap_or_default();
        self.samples.push_back(now);
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.draw(&view::screen(snapshot, &before));
    }

    /// Draws lines over the last ones, cut to the size of the terminal so that none is wrapped or scrolled away.
    fn draw(&mut self, lines: &[String]) {
        let (columns, rows) = crossterm::terminal::size().unwrap_or((80, 24));
        let shown = lines.iter().take(usize::from(rows.saturating_sub(1)));
        let mut out = String::new();
        if self.drawn > 0 {
            out.push_str(&format!("\x1b[{}A", self.drawn));
        }
        self.drawn = shown.len();
        for line in shown {
            out.extend(line.chars().take(usize::from(columns.saturating_sub(1))));
            out.push_str("\x1b[K\n");
        }
        out.push_str("\x1b[J");
        let mut err = io::stderr().lock();
        // Progress that cannot be written is not missed.
        let _ = err.write_all(out.as_bytes()).and_then(|()| err.flush());
    }
}

/// Time between two drawings.
const REDRAW_EVERY: Duration = Duration::from_millis(500);
/// Number of samples in a second.
const SAMPLES_MAX: usize = 2;
