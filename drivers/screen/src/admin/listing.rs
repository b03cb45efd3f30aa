//! A window on the roll: which users are shown, and how it moves.
//!
//! The roll may have a million places and the names that are searched for may be few: each step looks at
//! [`Listing::PLACES_MAX`] places at most and the next one goes on. What was shown stays until the new page is whole.

use super::roll::{Beginning, Roll, Row};
use crate::clip::Clip;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::Transport;

/// A window on the roll.
#[derive(Debug)]
pub(super) struct Listing {
    /// The first contact that is shown, or would be if it were still there.
    top: At,
    shown: Vec<Shown>,
    /// There are contacts behind those that are shown.
    has_more: bool,
    /// Places of the roll.
    places: u32,
    moves: VecDeque<Move>,
    job: Option<Job>,
}

/// Which contact: the user's place, and which of the user's contacts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct At {
    place: u32,
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

/// How the window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    RowDown,
    RowUp,
    PageDown,
    PageUp,
    First,
    Last,
}

/// What a step may not finish.
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
    /// Places of the roll that a step looks at.
    pub(super) const PLACES_MAX: u32 = 1024;

    pub(super) fn new() -> Self {
        Self {
            top: At::default(),
            shown: Vec::with_capacity(Self::ROWS),
            has_more: false,
            places: 0,
            moves: VecDeque::new(),
            job: None,
        }
    }

    /// Another search: everything begins anew.
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

    /// How far down the roll the page begins, in percent.
    pub(super) fn percent(&self) -> u64 {
        let whole = u64::from(self.places.saturating_sub(1));
        (u64::from(self.top.place) * 100).checked_div(whole).unwrap_or(0).min(100)
    }

    /// Reads the page again, after the moves that wait.
    pub(super) fn step(&mut self, roll: &dyn Roll, wanted: &Beginning<'_>) {
        let mut places_left = Self::PLACES_MAX;
        if self.job.is_none() && !self.begin_move(roll) {
            self.read();
        }
        while places_left > 0 {
            match self.job.take() {
                Some(Job::Read { from, found }) => self.go_on_reading(roll, wanted, from, found),
                Some(Job::Back { wanted: rows, before, end, found }) => {
                    self.go_on_back(roll, wanted, (rows, before), end, found);
                }
                None => {
                    if !self.begin_move(roll) {
                        break;
                    }
                }
            }
            places_left = places_left.saturating_sub(BLOCK);
        }
    }

    /// Begins the next move that waits; false when there is none.
    fn begin_move(&mut self, roll: &dyn Roll) -> bool {
        let Some(next) = self.moves.pop_front() else { return false };
        let next_at = match next {
            Move::RowDown => self.shown.get(1).map(|shown| shown.at),
            Move::PageDown => self.shown.last().map(|last| At { nth: last.at.nth + 1, ..last.at }),
            Move::First => Some(At::default()),
            Move::RowUp => return self.go_back(1, self.top),
            Move::PageUp => return self.go_back(Self::ROWS, self.top),
            Move::Last => {
                let end = places(roll);
                return self.go_back(Self::ROWS, At { place: end, nth: 0 });
            }
        };
        if let Some(at) = next_at.filter(|at| self.has_more || *at < self.top) {
            self.top = at;
        }
        self.read();
        true
    }

    fn read(&mut self) {
        self.job = Some(Job::Read { from: self.top.place, found: Vec::with_capacity(Self::ROWS) });
    }

    fn go_back(&mut self, wanted: usize, before: At) -> bool {
        let end = before.place.saturating_add(1);
        self.job = Some(Job::Back { wanted, before, end, found: VecDeque::new() });
        true
    }

    fn go_on_reading(&mut self, roll: &dyn Roll, wanted: &Beginning<'_>, from: u32, mut found: Vec<Shown>) {
        let (mut has_more, top) = (false, self.top);
        let mut numbers = Numbers::default();
        let next = roll.rows(from, BLOCK, wanted, &mut |place, row| {
            let at = numbers.at(place);
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
                self.places = places(roll);
                if is_behind_all {
                    // Those that were shown are gone.
                    self.go_back(Self::ROWS, top);
                }
            }
        }
    }

    fn go_on_back(
        &mut self,
        roll: &dyn Roll,
        wanted: &Beginning<'_>,
        (rows, before): (usize, At),
        end: u32,
        mut found: VecDeque<At>,
    ) {
        let from = end.saturating_sub(BLOCK);
        let (mut numbers, mut block) = (Numbers::default(), VecDeque::new());
        let room = rows.saturating_sub(found.len());
        roll.rows(from, end - from, wanted, &mut |place, _| {
            let at = numbers.at(place);
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
    fn at(&mut self, place: u32) -> At {
        let nth = self.0.filter(|last| last.place == place).map_or(0, |last| last.nth + 1);
        *self.0.insert(At { place, nth })
    }
}

/// How many places the roll has: they have no gaps, so that about 60 of them tell.
fn places(roll: &dyn Roll) -> u32 {
    let is_there = |place: u32| roll.rows(place, 1, &Beginning(b""), &mut |_, _| {}).is_some();
    let (mut is, mut is_not) = (0, 1_u32);
    // `is` places are known to be there, place `is_not - 1` is not yet.
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

/// Places that are looked at in one go.
const BLOCK: u32 = 64;
/// Moves that may wait; more are not pressed by a person in a step.
const MOVES_MAX: usize = 32;

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
