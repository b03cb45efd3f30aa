//! Numbers of changes that were read, and those that are still open.
//!
//! A database gives numbers when a change is written, and shows them when its transaction ends: 8 can be visible before 7. What
//! was passed over is kept as an open range until it is visible, or until no transaction that could have it is left.

use std::fmt::Write;

/// Number of the last change that was seen, and ranges below it that were not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeWindow {
    last: u64,
    /// Sorted, disjoint, and below `last`.
    open: Vec<OpenRange>,
}

/// Numbers from `from` to `to`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenRange {
    from: u64,
    to: u64,
    /// [`Horizon::done`] from which on no transaction can have these numbers.
    ends: u64,
}

/// Transactions of the database at a moment, on a scale of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// All transactions before this one have ended.
    pub(crate) done: u64,
    /// No transaction from this one on has begun.
    pub(crate) next: u64,
}

/// A window has too many open ranges to follow: all users must be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyRanges;

impl ChangeWindow {
    /// The window behind a read of all users, which saw these changes after `floor` and none after `last`.
    pub(crate) fn after_all(
        floor: u64,
        last: u64,
        seen: &[u64],
        horizon: Horizon,
        step: u64,
    ) -> Result<Self, TooManyRanges> {
        let mut window = Self::at(floor);
        window.see(seen, horizon, step)?;
        window.last = window.last.max(last);
        Ok(window)
    }

    /// The window behind a change, with nothing open.
    pub(crate) const fn at(last: u64) -> Self {
        Self { last, open: Vec::new() }
    }

    /// Number of the last change.
    pub(crate) const fn last(&self) -> u64 {
        self.last
    }

    /// Condition of SQL for the changes that were not seen.
    pub(crate) fn condition(&self, column: &str) -> String {
        let mut condition = format!("{column} > {}", self.last);
        for range in &self.open {
            // Writing to a String does not fail.
            let _ = write!(condition, " OR {column} BETWEEN {} AND {}", range.from, range.to);
        }
        condition
    }

    /// Notes changes that were read, sorted by number; `horizon` is from before the read. Numbers follow each other by `step` or less.
    pub(crate) fn see(&mut self, seen: &[u64], horizon: Horizon, step: u64) -> Result<(), TooManyRanges> {
        self.open.retain(|range| horizon.done < range.ends);
        for &number in seen {
            if number > self.last {
                if number > self.last + step {
                    self.open.push(OpenRange { from: self.last + 1, to: number - 1, ends: horizon.next });
                }
                self.last = number;
            } else if let Some(index) =
                self.open.iter().position(|range| (range.from..=range.to).contains(&number))
            {
                self.split(index, number);
            }
        }
        if self.open.len() > RANGES_MAX { Err(TooManyRanges) } else { Ok(()) }
    }

    /// The window as a text, for the store.
    pub(crate) fn to_text(&self) -> String {
        let ranges = self.open.iter().map(|range| format!(" {}-{}/{}", range.from, range.to, range.ends));
        format!("{}{}", self.last, ranges.collect::<String>())
    }

    /// Reads [`ChangeWindow::to_text`]. `None`: another program's.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let last = words.next()?.parse().ok()?;
        let open = words.map(|word| {
            let (range, ends) = word.split_once('/')?;
            let (from, to) = range.split_once('-')?;
            Some(OpenRange { from: from.parse().ok()?, to: to.parse().ok()?, ends: ends.parse().ok()? })
        });
        Some(Self { last, open: open.collect::<Option<_>>()? })
    }

    /// Takes a number out of an open range.
    fn split(&mut self, index: usize, number: u64) {
        let OpenRange { from, to, ends } = self.open.remove(index);
        if number < to {
            self.open.insert(index, OpenRange { from: number + 1, to, ends });
        }
        if from < number {
            self.open.insert(index, OpenRange { from, to: number - 1, ends });
        }
    }
}

/// Maximum number of open ranges.
const RANGES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: Horizon = Horizon { done: 10, next: 20 };

    #[test]
    fn a_number_that_was_passed_over_is_asked_for_again() {
        let mut window = ChangeWindow::default();
        window.see(&[1, 2, 5, 6], EARLY, 1).unwrap();
        assert_eq!(window.condition("seq"), "seq > 6 OR seq BETWEEN 3 AND 4");
        window.see(&[4, 7], EARLY, 1).unwrap();
        assert_eq!(window.condition("seq"), "seq > 7 OR seq BETWEEN 3 AND 3");
        window.see(&[3], EARLY, 1).unwrap();
        assert_eq!(window.condition("seq"), "seq > 7");
    }

    #[test]
    fn a_number_of_a_transaction_that_was_rolled_back_is_forgotten_when_no_transaction_can_have_it() {
        let mut window = ChangeWindow::default();
        window.see(&[2], EARLY, 1).unwrap();
        window.see(&[], Horizon { done: 19, next: 30 }, 1).unwrap();
        assert_eq!(window.condition("seq"), "seq > 2 OR seq BETWEEN 1 AND 1");
        window.see(&[], Horizon { done: 20, next: 30 }, 1).unwrap();
        assert_eq!(window.condition("seq"), "seq > 2");
    }

    #[test]
    fn a_long_transaction_is_one_range() {
        let mut window = ChangeWindow::default();
        window.see(&[1_000_001], EARLY, 1).unwrap();
        assert_eq!(window.condition("seq"), "seq > 1000001 OR seq BETWEEN 1 AND 1000000");
        window.see(&[500_000], EARLY, 1).unwrap();
        assert_eq!(
            window.condition("seq"),
            "seq > 1000001 OR seq BETWEEN 1 AND 499999 OR seq BETWEEN 500001 AND 1000000"
        );
    }

    #[test]
    fn too_many_ranges_are_an_error_and_not_a_long_query() {
        let mut window = ChangeWindow::default();
        let odd: Vec<u64> = (0..200).map(|n| 2 * n + 1).collect();
        assert_eq!(window.see(&odd, EARLY, 1), Err(TooManyRanges));
    }

    #[test]
    fn a_read_of_all_users_leaves_open_what_it_did_not_see() {
        let window = ChangeWindow::after_all(4, 9, &[5, 6, 9], EARLY, 1).unwrap();
        assert_eq!(window.condition("seq"), "seq > 9 OR seq BETWEEN 7 AND 8");
        let window = ChangeWindow::after_all(0, 3, &[3], EARLY, 1).unwrap();
        assert_eq!(window.condition("seq"), "seq > 3 OR seq BETWEEN 1 AND 2");
        assert_eq!(ChangeWindow::after_all(0, 0, &[], EARLY, 1), Ok(ChangeWindow::default()));
    }

    #[test]
    fn numbers_with_steps_leave_nothing_open() {
        let mut window = ChangeWindow::default();
        let seen: Vec<u64> = (0..300).map(|n| 3 * n + 1).collect();
        window.see(&seen, EARLY, 3).unwrap();
        assert_eq!(window.condition("seq"), "seq > 898");
    }

    #[test]
    fn the_text_has_everything() {
        let mut window = ChangeWindow::default();
        window.see(&[2, 9], EARLY, 1).unwrap();
        assert_eq!(ChangeWindow::from_text(&window.to_text()), Some(window));
        assert!(
            ["", "x", "1 2", "1 2-3", "1 2-3/x"].iter().all(|text| ChangeWindow::from_text(text).is_none())
        );
    }
}
