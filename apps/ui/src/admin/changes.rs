//! The latest changes to the registered users.

use super::listing::Prefix;
use crate::cells::Cells;
use crate::figures::{Grouped, Span};
use crate::style::Style;
use crate::text::Clip;
use alloc::collections::VecDeque;
use core::net::SocketAddr;
use ringway_sansio::{Instant, Transport};

/// A change to the registered users.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Kind of the change.
    pub what: What,
    /// The user: `user@domain`.
    pub aor: &'a [u8],
    /// Current or last address of the user, if it is known.
    pub address: Option<SocketAddr>,
    /// Current or last transport of the user.
    pub transport: Transport,
}

/// Kind of a change to a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Registered.
    Registered,
    /// Refreshed.
    Refreshed,
    /// Removed by the phone.
    Removed,
    /// Expired, or its connection was closed.
    Expired,
}

/// The last changes, newest last.
#[derive(Debug)]
pub(super) struct Changes {
    kept: VecDeque<Kept>,
    /// Number of changes since the start.
    count: u64,
    is_paused: bool,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    at: Instant,
    what: What,
    aor: Clip<AOR_COLUMNS>,
    address: Option<SocketAddr>,
    transport: Transport,
}

impl Changes {
    /// Changes that are kept: more than a page, so that a search among them finds something.
    const KEPT_MAX: usize = 200;

    pub(super) fn new() -> Self {
        Self { kept: VecDeque::with_capacity(Self::KEPT_MAX), count: 0, is_paused: false }
    }

    pub(super) fn push(&mut self, now: Instant, change: &Change<'_>) {
        self.count += 1;
        if self.is_paused {
            return;
        }
        if self.kept.len() >= Self::KEPT_MAX {
            self.kept.pop_front();
        }
        let Change { what, aor, address, transport } = *change;
        self.kept.push_back(Kept { at: now, what, aor: Clip::new(aor), address, transport });
    }

    /// Pauses the list: further changes are counted, and not shown later.
    pub(super) fn pause(&mut self) {
        self.is_paused = !self.is_paused;
    }

    /// Fills `rows` rows below a row of headings, the newest change on top.
    pub(super) fn draw(&self, cells: &mut Cells, y: usize, rows: usize, now: Instant, wanted: &Prefix<'_>) {
        cells.right(0, y, AGE_COLUMNS, Style::Heading, "ago");
        cells.text(WHAT_X, y, 10, Style::Heading, "what");
        cells.text(AOR_X, y, AOR_COLUMNS, Style::Heading, "user");
        cells.text(ADDRESS_X, y, ADDRESS_COLUMNS, Style::Heading, "from");
        let fitting = self.kept.iter().rev().filter(|kept| wanted.fits(kept.aor.codes()));
        for (kept, y) in fitting.zip(y + 1..y + 1 + rows) {
            let (name, style) = match kept.what {
                What::Registered => ("registered", Style::Good),
                What::Refreshed => ("refreshed", Style::Plain),
                What::Removed => ("removed", Style::Strong),
                What::Expired => ("expired", Style::Warning),
            };
            cells.right(0, y, AGE_COLUMNS, Style::Plain, Span(now.since(kept.at)));
            cells.text(WHAT_X, y, 10, style, name);
            cells.field(AOR_X, y, AOR_COLUMNS, Style::Strong).clip(&kept.aor);
            if let Some(address) = kept.address {
                cells.value(ADDRESS_X, y, ADDRESS_COLUMNS, Style::Plain, address);
            }
            cells.text(TRANSPORT_X, y, 3, Style::Plain, kept.transport.name());
        }
        if self.kept.is_empty() {
            cells.text(AOR_X, y + 1, AOR_COLUMNS, Style::Quiet, "Nothing has changed yet.");
        }
    }

    /// The line below.
    pub(super) fn status(&self, cells: &mut Cells, y: usize) {
        let x = Cells::COLUMNS - 1 - STATUS_COLUMNS;
        let count = format_args!("{} changes since the start", Grouped(self.count));
        cells.right(x, y, STATUS_COLUMNS, Style::Plain, count);
        if self.is_paused {
            cells.text(1, y, 40, Style::Warning, "PAUSED: p goes on");
        }
    }
}

const AGE_COLUMNS: usize = 12;
const WHAT_X: usize = 14;
const AOR_X: usize = 25;
const AOR_COLUMNS: usize = 28;
const ADDRESS_X: usize = 54;
const ADDRESS_COLUMNS: usize = 21;
const TRANSPORT_X: usize = 76;
const STATUS_COLUMNS: usize = 44;
