//! Point up to which a store has the changes of a database: a snapshot, or numbers of changes that were read and that are
//! still open.
//!
//! A database gives numbers when a change is written, and shows them when its transaction ends: 8 can be visible before 7.
//! What was passed over is kept as an open range until it is visible, or until no transaction that could have it is left.

use crate::connection::Engine;
use std::fmt::Write;

/// Point up to which a store has the changes of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// PostgreSQL: the snapshot of the last read, which tells exactly whose changes it had.
    Snapshot(Snapshot),
    /// MySQL: numbers of changes.
    Numbers(ChangeWindow),
}

/// A snapshot as PostgreSQL writes it: `XMIN:XMAX:XIP,XIP…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot(String);

/// Rows of changes that a read returned.
pub(crate) struct Seen<'n> {
    /// Their numbers, sorted.
    pub(crate) numbers: &'n [u64],
    /// Snapshot of the read, of PostgreSQL.
    pub(crate) snapshot: Option<&'n Snapshot>,
    /// Transactions at that moment, of MySQL.
    pub(crate) horizon: Horizon,
    /// Difference of two numbers that follow each other, of MySQL.
    pub(crate) step: u64,
}

impl Progress {
    /// The point behind a read of all users; with MySQL `numbers` are the last ones. True: transactions that had not ended may be
    /// missing in it, and all users must be read again when they have.
    pub(crate) fn after_all(last: u64, seen: &Seen<'_>) -> (Self, bool) {
        match seen.snapshot {
            Some(snapshot) => (Self::Snapshot(snapshot.clone()), false),
            None => {
                let floor = seen.numbers.first().map_or(last, |first| first - 1);
                match ChangeWindow::after_all(floor, last, seen.numbers, seen.horizon, seen.step) {
                    // Transactions that had not ended may have numbers below those that were compared.
                    Ok(window) => (Self::Numbers(window), true),
                    Err(TooManyRanges) => (Self::Numbers(ChangeWindow::at(last)), true),
                }
            }
        }
    }

    /// Reads [`Progress::to_text`]. `None`: another program's, or of another kind of database.
    pub(crate) fn from_text(engine: Engine, text: &str) -> Option<Self> {
        match engine {
            Engine::Postgres => Snapshot::new(text).map(Self::Snapshot),
            Engine::MySql => ChangeWindow::from_text(text).map(Self::Numbers),
        }
    }

    /// The point as a text, for the store.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Snapshot(Snapshot(text)) => text.clone(),
            Self::Numbers(window) => window.to_text(),
        }
    }

    /// Condition of SQL for the rows of `c` that the store does not have.
    pub(crate) fn condition(&self) -> String {
        match self {
            Self::Snapshot(Snapshot(text)) => format!(
                "c.xid >= pg_snapshot_xmin('{text}'::pg_snapshot) AND NOT pg_visible_in_snapshot(c.xid, '{text}'::pg_snapshot)"
            ),
            Self::Numbers(window) => window.condition("c.seq"),
        }
    }

    /// Moves to a read. False: it cannot follow, so that all users must be read.
    pub(crate) fn follow(&mut self, last: u64, seen: &Seen<'_>) -> bool {
        match (self, seen.snapshot) {
            (Self::Snapshot(point), Some(snapshot)) => {
                // Numbers of transactions never fall, unless the database is another one.
                let is_later = snapshot.xmin() >= point.xmin();
                *point = snapshot.clone();
                is_later
            }
            (Self::Numbers(window), None) => {
                last >= window.last() && window.see(seen.numbers, seen.horizon, seen.step).is_ok()
            }
            (Self::Snapshot(_), None) | (Self::Numbers(_), Some(_)) => false,
        }
    }
}

impl Snapshot {
    /// Checks the text, which goes into statements.
    pub(crate) fn new(text: &str) -> Option<Self> {
        let is_valid = text.split(':').count() == 3
            && text.bytes().all(|byte| byte.is_ascii_digit() || b":,".contains(&byte))
            && text.len() <= BYTES_MAX;
        is_valid.then(|| Self(text.to_owned()))
    }

    /// The oldest transaction that had not ended.
    fn xmin(&self) -> u64 {
        self.0.split(':').next().and_then(|number| number.parse().ok()).unwrap_or_default()
    }
}

/// Maximum length of a snapshot: that of about 3,000 transactions at once.
const BYTES_MAX: usize = 64 << 10;

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
    fn see(&mut self, seen: &[u64], horizon: Horizon, step: u64) -> Result<(), TooManyRanges> {
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

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::new(text).unwrap()
    }

    #[test]
    fn a_snapshot_is_checked_before_it_goes_into_a_statement() {
        assert!(Snapshot::new("726:730:726,728").is_some());
        assert!(["", "1:2", "1:2:3'", "a:b:c", "1:2:3:4"].iter().all(|text| Snapshot::new(text).is_none()));
    }

    #[test]
    fn a_database_whose_transactions_begin_anew_is_another_one() {
        let seen = |snapshot| Seen {
            numbers: &[],
            snapshot: Some(snapshot),
            horizon: Horizon { done: 0, next: 0 },
            step: 1,
        };
        let mut progress = Progress::Snapshot(snapshot("726:730:726"));
        let (later, earlier) = (snapshot("730:731:"), snapshot("20:21:"));
        assert!(progress.follow(0, &seen(&later)));
        assert!(!progress.follow(0, &seen(&earlier)));
    }

    #[test]
    fn numbers_that_fall_are_those_of_another_database() {
        let seen = Seen { numbers: &[], snapshot: None, horizon: Horizon { done: 0, next: 9 }, step: 1 };
        let mut progress = Progress::Numbers(ChangeWindow::at(7));
        assert!(progress.follow(7, &seen));
        assert!(!progress.follow(6, &seen));
    }

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
