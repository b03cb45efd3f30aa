//! Page 2: the registered users, or the latest changes to them.

use super::Facts;
use super::listing::{Listing, Move, Prefix, RegistrationSource};
use crate::cells::Cells;
use crate::figures::{Grouped, Span};
use crate::keys::Key;
use crate::style::Style;
use crate::text::Clip;
use crate::window::{BODY_ROW, BODY_ROWS, LABEL_X};
use alloc::collections::VecDeque;
use alloc::string::String;
use core::net::SocketAddr;
use ringway_sansio::{Instant, Transport};

/// Page 2.
#[derive(Debug)]
pub(super) struct UsersPage {
    listing: Listing,
    pub(super) changes: Changes,
    shows: Shows,
    /// Prefix of the names that are shown.
    search: String,
    /// True while keys go into the search.
    is_searching: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    Everyone,
    Changes,
}

impl UsersPage {
    pub(super) fn new() -> Self {
        Self {
            listing: Listing::new(),
            changes: Changes::new(),
            shows: Shows::Everyone,
            search: String::new(),
            is_searching: false,
        }
    }

    /// Handles a key; false if it has no function on this page.
    pub(super) fn key(&mut self, key: Key) -> bool {
        if self.is_searching {
            return self.search_key(key);
        }
        match (key, self.shows) {
            (Key::Char('/' | 's'), _) => self.is_searching = true,
            (Key::Char('l'), Shows::Everyone) => self.shows = Shows::Changes,
            (Key::Char('l'), Shows::Changes) => self.shows = Shows::Everyone,
            (Key::Char('p'), Shows::Changes) => self.changes.pause(),
            (Key::Escape, _) if !self.search.is_empty() => self.search_for(String::new()),
            (Key::Up, Shows::Everyone) => self.listing.shift(Move::RowUp),
            (Key::Down, Shows::Everyone) => self.listing.shift(Move::RowDown),
            (Key::PageUp, Shows::Everyone) => self.listing.shift(Move::PageUp),
            (Key::PageDown | Key::Char(' '), Shows::Everyone) => self.listing.shift(Move::PageDown),
            (Key::Home, Shows::Everyone) => self.listing.shift(Move::First),
            (Key::End, Shows::Everyone) => self.listing.shift(Move::Last),
            _ => return false,
        }
        true
    }

    /// True while keys go into the search.
    pub(super) const fn is_searching(&self) -> bool {
        self.is_searching
    }

    fn search_key(&mut self, key: Key) -> bool {
        match key {
            Key::Enter => self.is_searching = false,
            Key::Escape => {
                self.is_searching = false;
                self.search_for(String::new());
            }
            Key::Backspace | Key::Delete => {
                let mut search = core::mem::take(&mut self.search);
                search.pop();
                self.search_for(search);
            }
            Key::Char(c) if self.search.len() < SEARCH_BYTES_MAX && c.is_ascii_graphic() => {
                let mut search = core::mem::take(&mut self.search);
                search.push(c);
                self.search_for(search);
            }
            Key::Char(_) => {}
            // The list can be moved while the name is typed.
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Home | Key::End => {
                self.is_searching = false;
                let is_known = self.key(key);
                self.is_searching = true;
                return is_known;
            }
            Key::Tab => {
                self.is_searching = false;
                return false;
            }
            Key::Left | Key::Right | Key::BackTab | Key::Function(_) | Key::Ctrl(_) | Key::Alt(_) => {
                return false;
            }
        }
        true
    }

    fn search_for(&mut self, search: String) {
        self.search = search;
        self.listing.reset();
    }

    /// True while a search continues: the next step has more to do.
    pub(super) fn is_busy(&self) -> bool {
        self.shows == Shows::Everyone && self.listing.is_busy()
    }

    pub(super) fn draw(
        &mut self,
        cells: &mut Cells,
        now: Instant,
        facts: &Facts<'_>,
        source: &dyn RegistrationSource,
    ) {
        let wanted = Prefix(self.search.as_bytes());
        match self.shows {
            Shows::Everyone => {
                self.listing.step(source, &wanted);
                self.list(cells);
                self.position(cells, facts);
            }
            Shows::Changes => {
                self.changes.draw(cells, BODY_ROW, Listing::ROWS, now, &wanted);
                self.changes.status(cells, STATUS_ROW);
            }
        }
        if self.is_searching || !self.search.is_empty() {
            cells.fill(LABEL_X, STATUS_ROW, SEARCH_COLUMNS, Style::Plain);
            let mut field = cells.field(LABEL_X, STATUS_ROW, SEARCH_COLUMNS, Style::Warning);
            field.text("Names from: ").style(Style::Strong).text(self.search.as_bytes());
            if self.is_searching {
                field.text("_");
            }
        }
    }

    pub(super) fn keys(&self) -> &'static [(&'static str, &'static str)] {
        match (self.is_searching, self.shows) {
            (true, _) => &[("letters", "the name's beginning"), ("Enter", "done"), ("Esc", "all names")],
            (false, Shows::Everyone) => {
                &[("arrows PgUp PgDn Home End", "move"), ("/", "search"), ("l", "live"), ("?", "help")]
            }
            (false, Shows::Changes) => {
                &[("l", "back to the list"), ("p", "pause"), ("/", "search"), ("?", "help")]
            }
        }
    }

    fn list(&self, cells: &mut Cells) {
        cells.text(LABEL_X, BODY_ROW, AOR_COLUMNS, Style::Heading, "user");
        cells.text(ADDRESS_X, BODY_ROW, ADDRESS_COLUMNS, Style::Heading, "contact");
        cells.text(TRANSPORT_X, BODY_ROW, 3, Style::Heading, "by");
        cells.right(LEFT_X, BODY_ROW, LEFT_COLUMNS, Style::Heading, "left");
        for (number, shown) in self.listing.shown().iter().enumerate() {
            let y = BODY_ROW + 1 + number;
            cells.field(LABEL_X, y, AOR_COLUMNS, Style::Strong).clip(&shown.aor);
            let mut address = cells.field(ADDRESS_X, y, ADDRESS_COLUMNS, Style::Plain);
            match shown.address {
                Some(known) => address.value(known),
                None => address.clip(&shown.contact),
            };
            cells.text(TRANSPORT_X, y, 3, Style::Plain, shown.transport.name());
            match shown.left_s {
                Some(left) => {
                    let style = if left < LEFT_SHORT_S { Style::Warning } else { Style::Plain };
                    cells.right(LEFT_X, y, LEFT_COLUMNS, style, format_args!("{} s", Grouped(left)));
                }
                None => cells.right(LEFT_X, y, LEFT_COLUMNS, Style::Plain, "stays"),
            }
        }
        if self.listing.shown().is_empty() && !self.listing.is_busy() {
            let text = if self.search.is_empty() { "Nobody is registered." } else { "No name begins so." };
            cells.text(LABEL_X, BODY_ROW + 1, AOR_COLUMNS, Style::Quiet, text);
        }
    }

    fn position(&self, cells: &mut Cells, facts: &Facts<'_>) {
        let x = Cells::COLUMNS - 1 - STATUS_COLUMNS;
        let contacts = Grouped(facts.contacts);
        let noun = if facts.contacts == 1 { "contact" } else { "contacts" };
        let (percent, columns) = (self.listing.percent(), STATUS_COLUMNS);
        if self.listing.is_busy() {
            cells.right(x, STATUS_ROW, columns, Style::Warning, "looking ...");
        } else if self.listing.has_more() {
            let text = format_args!("{contacts} {noun}, from {percent} % on");
            cells.right(x, STATUS_ROW, columns, Style::Plain, text);
        } else {
            cells.right(x, STATUS_ROW, columns, Style::Plain, format_args!("{contacts} {noun}, to the end"));
        }
    }
}

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
    aor: Clip<CHANGED_AOR_COLUMNS>,
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
    fn pause(&mut self) {
        self.is_paused = !self.is_paused;
    }

    /// Fills `rows` rows below a row of headings, the newest change on top.
    pub(super) fn draw(&self, cells: &mut Cells, y: usize, rows: usize, now: Instant, wanted: &Prefix<'_>) {
        cells.right(0, y, AGE_COLUMNS, Style::Heading, "ago");
        cells.text(WHAT_X, y, 10, Style::Heading, "what");
        cells.text(AOR_X, y, CHANGED_AOR_COLUMNS, Style::Heading, "user");
        cells.text(CHANGED_ADDRESS_X, y, CHANGED_ADDRESS_COLUMNS, Style::Heading, "from");
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
            cells.field(AOR_X, y, CHANGED_AOR_COLUMNS, Style::Strong).clip(&kept.aor);
            if let Some(address) = kept.address {
                cells.value(CHANGED_ADDRESS_X, y, CHANGED_ADDRESS_COLUMNS, Style::Plain, address);
            }
            cells.text(CHANGED_TRANSPORT_X, y, 3, Style::Plain, kept.transport.name());
        }
        if self.kept.is_empty() {
            cells.text(AOR_X, y + 1, CHANGED_AOR_COLUMNS, Style::Quiet, "Nothing has changed yet.");
        }
    }

    /// The line below.
    pub(super) fn status(&self, cells: &mut Cells, y: usize) {
        let x = Cells::COLUMNS - 1 - CHANGES_STATUS_COLUMNS;
        let count = format_args!("{} changes since the start", Grouped(self.count));
        cells.right(x, y, CHANGES_STATUS_COLUMNS, Style::Plain, count);
        if self.is_paused {
            cells.text(1, y, 40, Style::Warning, "PAUSED: p goes on");
        }
    }
}

const STATUS_ROW: usize = BODY_ROW + BODY_ROWS - 1;
const AOR_COLUMNS: usize = 40;
const ADDRESS_X: usize = 42;
const ADDRESS_COLUMNS: usize = 22;
const TRANSPORT_X: usize = 65;
const LEFT_X: usize = 69;
const LEFT_COLUMNS: usize = 10;
const STATUS_COLUMNS: usize = 36;
const SEARCH_COLUMNS: usize = Cells::COLUMNS - 3 - STATUS_COLUMNS;
/// Maximum length of a name in the search, the same as in the list.
const SEARCH_BYTES_MAX: usize = AOR_COLUMNS;
/// A phone that is still there has registered again before.
const LEFT_SHORT_S: u64 = 10;
const AGE_COLUMNS: usize = 12;
const WHAT_X: usize = 14;
const AOR_X: usize = 25;
const CHANGED_AOR_COLUMNS: usize = 28;
const CHANGED_ADDRESS_X: usize = 54;
const CHANGED_ADDRESS_COLUMNS: usize = 21;
const CHANGED_TRANSPORT_X: usize = 76;
const CHANGES_STATUS_COLUMNS: usize = 44;
