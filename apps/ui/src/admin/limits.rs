//! Page 3: every limit, and how often it was reached.

use super::Limit;
use crate::cells::Cells;
use crate::figures::{Grouped, Span};
use crate::keys::Key;
use crate::style::Style;
use crate::window::{BODY_ROW, BODY_ROWS, LABEL_X};
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::Instant;

/// Page 3.
#[derive(Debug)]
pub(super) struct LimitsPage {
    /// The first limit that is shown.
    first: usize,
    /// For each limit its hits, and when they last became more.
    seen: Vec<(u64, Option<Instant>)>,
}

impl LimitsPage {
    pub(super) const fn new() -> Self {
        Self { first: 0, seen: Vec::new() }
    }

    /// Notes which limits were reached since it was called last.
    pub(super) fn watch(&mut self, now: Instant, limits: &[Limit<'_>]) {
        for (seen, limit) in self.seen.iter_mut().zip(limits) {
            if limit.hits > seen.0 {
                *seen = (limit.hits, Some(now));
            }
        }
        let known = self.seen.len();
        self.seen.extend(limits.iter().skip(known).map(|limit| (limit.hits, None)));
    }

    /// Scrolls; false when the key means nothing here.
    pub(super) fn key(&mut self, key: Key) -> bool {
        self.first = match key {
            Key::Up => self.first.saturating_sub(1),
            Key::Down => self.first + 1,
            Key::PageUp => self.first.saturating_sub(ROWS),
            Key::PageDown => self.first + ROWS,
            Key::Home => 0,
            Key::End => usize::MAX,
            _ => return false,
        };
        self.first = self.first.min(self.seen.len().saturating_sub(ROWS));
        true
    }

    pub(super) fn draw(&mut self, cells: &mut Cells, now: Instant, limits: &[Limit<'_>]) {
        self.first = self.first.min(limits.len().saturating_sub(ROWS));
        cells.text(LABEL_X, BODY_ROW, NAME_COLUMNS, Style::Heading, "limit, or reason to drop");
        for ((x, columns), heading) in [(MOST, "at most"), (USED, "now"), (HITS, "reached"), (LAST, "last")] {
            cells.right(x, BODY_ROW, columns, Style::Heading, heading);
        }
        let rows = limits.iter().zip(self.seen.iter().map(|seen| seen.1)).skip(self.first);
        for ((limit, last), y) in rows.zip(BODY_ROW + 1..BODY_ROW + 1 + ROWS) {
            row(cells, y, limit, last.map(|last| now.since(last)));
        }
        let last = limits.len().min(self.first + ROWS);
        let status = format_args!("{} to {last} of {}", limits.len().min(self.first + 1), limits.len());
        cells.right(HITS.0, BODY_ROW + BODY_ROWS - 1, HITS.1 + LAST.1, Style::Plain, status);
    }
}

fn row(cells: &mut Cells, y: usize, limit: &Limit<'_>, last: Option<Duration>) {
    let style = match last {
        Some(ago) if ago < RECENT => Style::Warning,
        Some(_) | None if limit.hits > 0 => Style::Strong,
        Some(_) | None => Style::Plain,
    };
    cells.text(LABEL_X, y, NAME_COLUMNS, style, limit.name);
    if let Some(most) = limit.most {
        cells.right(MOST.0, y, MOST.1, Style::Plain, Grouped(most));
    }
    if let Some(used) = limit.used {
        let is_full = limit.most.is_some_and(|most| used >= most);
        let style = if is_full { Style::Warning } else { Style::Plain };
        cells.right(USED.0, y, USED.1, style, Grouped(used));
    }
    cells.right(HITS.0, y, HITS.1, style, Grouped(limit.hits));
    if let Some(ago) = last {
        cells.right(LAST.0, y, LAST.1, style, Span(ago));
    }
}

const ROWS: usize = BODY_ROWS - 2;
const NAME_COLUMNS: usize = 40;
/// Column and width of a column of figures.
const MOST: (usize, usize) = (41, 8);
const USED: (usize, usize) = (49, 8);
const HITS: (usize, usize) = (57, 10);
const LAST: (usize, usize) = (67, 12);
/// Limits that were reached within this time are coloured.
const RECENT: Duration = Duration::from_secs(60);
