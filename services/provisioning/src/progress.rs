//! Point up to which a store has the changes of a database.

use crate::window::{ChangeWindow, Horizon, TooManyRanges};
use ringway_database::Engine;

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
}
