//! A window on the registered users: access to them without a copy of their table, the rows that are shown, and moves up and
//! down.
//!
//! The table may have a million slots and few names may match the search: each step reads at most
//! [`Listing::SLOTS_MAX`] slots and the next one continues. The old page stays until the new one is complete.

use crate::text::Clip;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::Transport;

/// A window on the registered users.
#[derive(Debug)]
pub(super) struct Listing {
    /// The first contact that is shown, or would be if it were still there.
    top: At,
    shown: Vec<Shown>,
    /// There are contacts behind those that are shown.
    has_more: bool,
    /// Slots of the table.
    slots: u32,
    moves: VecDeque<Move>,
    job: Option<Job>,
}

/// Position of a contact: the user's slot, and the contact's number within the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    slot: u32,
    nth: u32,
}

/// A contact that is shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    at: At,
    pub(super) aor: Clip<40>,
    pub(super) contact: Clip<22>,
    pub(super) transport: Transport,
    pub(super) address: Option<SocketAddr>,
    pub(super) left_s: Option<u64>,
}

/// Movement of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    RowDown,
    RowUp,
    PageDown,
    PageUp,
    First,
    Last,
}

/// Work that may take several steps.
#[derive(Debug)]
enum Job {
    /// Reads the page that begins at the top.
    Read { from: u32, found: Vec<Shown> },
    /// Looks for the contacts before one, from `end` downwards.
    Back { wanted: usize, before: At, end: u32, found: VecDeque<At> },
}

impl Listing {
    /// Contacts on a page.
    pub(super) const ROWS: usize = 19;
    /// Slots of the table that a step reads.
    const SLOTS_MAX: u32 = 1024;

    pub(super) fn new() -> Self {
        Self {
            top: At::default(),
            shown: Vec::with_capacity(Self::ROWS),
            has_more: false,
            slots: 0,
            moves: VecDeque::new(),
            job: None,
        }
    }

    /// Starts over for another search.
    pub(super) fn reset(&mut self) {
        *self = Self::new();
    }

    pub(super) fn shift(&mut self, by: Move) {
        if self.moves.len() < MOVES_MAX {
            self.moves.push_back(by);
        }
    }

    pub(super) fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// True while a step has more to do at once.
    pub(super) fn is_busy(&self) -> bool {
        self.job.is_some() || !self.moves.is_empty()
    }

    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Position of the page's start in the table, in percent.
    pub(super) fn percent(&self) -> u64 {
        let whole = u64::from(self.slots.saturating_sub(1));
        (u64::from(self.top.slot) * 100).checked_div(whole).unwrap_or(0).min(100)
    }

    /// Reads the page again, after the moves that wait.
    pub(super) fn step(&mut self, source: &dyn RegistrationSource, wanted: &Prefix<'_>) {
        let mut slots_left = Self::SLOTS_MAX;
        if self.job.is_none() && !self.begin_move(source) {
            self.read();
        }
        while slots_left > 0 {
            match self.job.take() {
                Some(Job::Read { from, found }) => self.go_on_reading(source, wanted, from, found),
                Some(Job::Back { wanted: rows, before, end, found }) => {
                    self.go_on_back(source, wanted, (rows, before), end, found);
                }
                None => {
                    if !self.begin_move(source) {
                        break;
                    }
                }
            }
            slots_left = slots_left.saturating_sub(BLOCK);
        }
    }

    /// Begins the next move that waits; false when there is none.
    fn begin_move(&mut self, source: &dyn RegistrationSource) -> bool {
        let Some(next) = self.moves.pop_front() else { return false };
        let next_at = match next {
            Move::RowDown => self.shown.get(1).map(|shown| shown.at),
            Move::PageDown => self.shown.last().map(|last| At { nth: last.at.nth + 1, ..last.at }),
            Move::First => Some(At::default()),
            Move::RowUp => return self.go_back(1, self.top),
            Move::PageUp => return self.go_back(Self::ROWS, self.top),
            Move::Last => {
                let end = slots(source);
                return self.go_back(Self::ROWS, At { slot: end, nth: 0 });
            }
        };
        if let Some(at) = next_at.filter(|at| self.has_more || *at < self.top) {
            self.top = at;
        }
        self.read();
        true
    }

    fn read(&mut self) {
        self.job = Some(Job::Read { from: self.top.slot, found: Vec::with_capacity(Self::ROWS) });
    }

    fn go_back(&mut self, wanted: usize, before: At) -> bool {
        let end = before.slot.saturating_add(1);
        self.job = Some(Job::Back { wanted, before, end, found: VecDeque::new() });
        true
    }

    fn go_on_reading(
        &mut self,
        source: &dyn RegistrationSource,
        wanted: &Prefix<'_>,
        from: u32,
        mut found: Vec<Shown>,
    ) {
        let (mut has_more, top) = (false, self.top);
        let mut numbers = Numbers::default();
        let next = source.rows(from, BLOCK, wanted, &mut |slot, row| {
            let at = numbers.at(slot);
            if at < top {
                return;
            }
            if found.len() < Self::ROWS {
                found.push(Shown::new(at, &row));
            } else {
                has_more = true;
            }
        });
        match next {
            Some(from) if !has_more => self.job = Some(Job::Read { from, found }),
            Some(_) | None => {
                let is_behind_all = found.is_empty() && top > At::default();
                self.shown = found;
                self.has_more = has_more;
                self.slots = slots(source);
                if is_behind_all {
                    // Those that were shown are gone.
                    self.go_back(Self::ROWS, top);
                }
            }
        }
    }

    fn go_on_back(
        &mut self,
        source: &dyn RegistrationSource,
        wanted: &Prefix<'_>,
        (rows, before): (usize, At),
        end: u32,
        mut found: VecDeque<At>,
    ) {
        let from = end.saturating_sub(BLOCK);
        let (mut numbers, mut block) = (Numbers::default(), VecDeque::new());
        let room = rows.saturating_sub(found.len());
        source.rows(from, end - from, wanted, &mut |slot, _| {
            let at = numbers.at(slot);
            if at < before {
                // The last ones of the block are the nearest.
                block.push_back(at);
                if block.len() > room {
                    block.pop_front();
                }
            }
        });
        block.into_iter().rev().for_each(|at| found.push_front(at));
        if found.len() < rows && from > 0 {
            self.job = Some(Job::Back { wanted: rows, before, end: from, found });
            return;
        }
        self.top = found.front().copied().filter(|_| found.len() >= rows).unwrap_or_default();
        self.read();
    }
}

impl Shown {
    fn new(at: At, row: &Row<'_>) -> Self {
        Self {
            at,
            aor: Clip::new(row.aor),
            contact: Clip::new(row.contact),
            transport: row.transport,
            address: row.address,
            left_s: row.left_s,
        }
    }
}

/// Numbers the contacts of each user.
#[derive(Default)]
struct Numbers(Option<At>);

impl Numbers {
    fn at(&mut self, slot: u32) -> At {
        let nth = self.0.filter(|last| last.slot == slot).map_or(0, |last| last.nth + 1);
        *self.0.insert(At { slot, nth })
    }
}

/// Number of slots of the table, by a search of about 60 reads: slots are without gaps.
fn slots(source: &dyn RegistrationSource) -> u32 {
    let is_there = |slot: u32| source.rows(slot, 1, &Prefix(b""), &mut |_, _| {}).is_some();
    let (mut is, mut is_not) = (0, 1_u32);
    // Slot `is - 1` is known to exist, slot `is_not - 1` is not known to.
    while is_there(is_not - 1) {
        is = is_not;
        match is_not.checked_mul(2) {
            Some(double) => is_not = double,
            None => return u32::MAX,
        }
    }
    while is + 1 < is_not {
        let middle = is + (is_not - is) / 2;
        if is_there(middle - 1) { is = middle } else { is_not = middle }
    }
    is
}

/// Slots that are read in one call.
const BLOCK: u32 = 64;
/// Moves that may wait; more are not pressed by a person in a step.
const MOVES_MAX: usize = 32;

/// A table of registered users, read by slot.
///
/// A slot holds one user or none; slots count from 0 without gaps up to the end. A user keeps its slot as long as it is
/// registered, independently of other users: the screen reads a few slots at a time and needs no copy. The server's
/// location table is read this way (`LocationTable::bindings_from`, one slot after the other).
pub trait RegistrationSource {
    /// Passes the contacts of the users in `count` slots from `from` on whose names match `wanted` to `each`, each with
    /// its slot, all contacts of a user one after the other and always in the same order. Returns the slot to continue
    /// from, `None` if one of these slots is behind the end.
    fn rows(
        &self,
        from: u32,
        count: u32,
        wanted: &Prefix<'_>,
        each: &mut dyn FnMut(u32, Row<'_>),
    ) -> Option<u32>;
}

/// A registered contact.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// `user@domain`.
    pub aor: &'a [u8],
    /// The contact URI; shown if there is no address.
    pub contact: &'a [u8],
    /// Transport to the contact.
    pub transport: Transport,
    /// Source address of the REGISTER; `None` for an administrator's contact.
    pub address: Option<SocketAddr>,
    /// Seconds until it expires; `None`: permanent.
    pub left_s: Option<u64>,
}

/// Prefix of a name, without regard to case. An empty one matches all names.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<'a>(pub &'a [u8]);

impl Prefix<'_> {
    /// True if `name` begins with it.
    pub fn fits(&self, name: &[u8]) -> bool {
        name.get(..self.0.len()).is_some_and(|start| start.eq_ignore_ascii_case(self.0))
    }
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
