//! The thread that writes the registrations of this node into a table of the database.

use crate::connection::{DatabaseAccess, DatabaseError};
use crate::provisioning::ProvisioningError;
use crate::provisioning::location_table::{LiveRegistration, LocationTable, UserRows};
use crate::provisioning::status::{PAUSE_MAX, PAUSE_MIN, Status, wait};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Registrations of the running server, which the thread copies some at a time.
pub trait LiveRegistrations: Send + 'static {
    /// Registrations of a user at this node; none if it has none.
    fn of(&self, aor: &[u8]) -> Vec<LiveRegistration>;

    /// Passes the registrations of some users from a position on, those of a user one after the other; returns the next position,
    /// `None` at the end.
    fn page(&self, from: Position, each: &mut dyn FnMut(&[u8], LiveRegistration)) -> Option<Position>;
}

/// Position among all registrations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Part of the server.
    pub shard: u16,
    /// User in it.
    pub slot: u32,
}

/// Registrations on their way into the table `ringway_location`; the thread ends soon after the value is dropped.
///
/// A change is the name of a user: the thread reads what the user has when it writes. Nothing waits while the database is away, since
/// all registrations are written after each connection.
pub struct WriteBack {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<WaitingUsers>,
    /// False while changes need not be noted: all registrations are written after the next connection.
    is_noting: AtomicBool,
    is_ended: AtomicBool,
    status: Status,
    written: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
}

/// Figures of [`WriteBack`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteBackCounts {
    /// 1 while changes are written as they happen.
    pub connected: u64,
    /// Users whose change waits.
    pub waiting: u64,
    /// Users that were written.
    pub written: u64,
    /// Changes that were dropped because too many waited.
    pub dropped: u64,
    /// Users whose rows the table cannot have.
    pub refused: u64,
    /// Connections and statements that failed.
    pub failures: u64,
}

struct Writer<L> {
    access: DatabaseAccess,
    node: String,
    live: L,
    shared: Arc<Shared>,
}

impl WriteBack {
    /// Starts to write the registrations of the node with this name.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(access: DatabaseAccess, node: &str, live: impl LiveRegistrations) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let node = node.chars().take(NODE_CHARS_MAX).collect();
        let writer = Writer { access, node, live, shared: Arc::clone(&shared) };
        std::thread::Builder::new().name("write-back".to_owned()).spawn(move || writer.run())?;
        Ok(Self { shared })
    }

    /// Notes a change of a user's registrations, without waiting for the database. The caller keeps others from reading the
    /// registrations meanwhile.
    pub fn note(&self, aor: &[u8]) {
        if self.shared.is_noting.load(Ordering::Relaxed) {
            let dropped = self.shared.waiting().add(aor);
            self.shared.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// The figures.
    pub fn counts(&self) -> WriteBackCounts {
        let status = self.shared.status.counts();
        WriteBackCounts {
            connected: status.connected,
            waiting: self.shared.waiting().len() as u64,
            written: self.shared.written.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            failures: status.failures,
        }
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, WaitingUsers> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }
}

impl<L: LiveRegistrations> Writer<L> {
    fn run(&self) {
        let mut pause = PAUSE_MIN;
        while !self.shared.is_ended() {
            let Err(error) = self.write_until_it_fails(&mut pause) else { return };
            self.shared.is_noting.store(false, Ordering::SeqCst);
            // Users that changed are written with the rest after the next connection.
            let _ = self.shared.waiting().take();
            if self.shared.status.failed(error.to_string()) {
                let url = self.access.url().shown();
                tracing::error!(
                    "{url}: {error}; registrations are not written to ringway_location, which changes nothing for phones; attempts go on"
                );
            }
            wait(pause, &self.shared.is_ended);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Connects, writes all registrations, and then those that change, until the thread ends.
    fn write_until_it_fails(&self, pause: &mut Duration) -> Result<(), ProvisioningError> {
        let mut table = LocationTable::open(&self.access.url(), &self.node)?;
        self.shared.is_noting.store(true, Ordering::SeqCst);
        self.write_all(&mut table)?;
        *pause = PAUSE_MIN;
        while !self.shared.is_ended() {
            table.wait(INTERVAL)?;
            if !self.write_changed(&mut table)? {
                self.write_all(&mut table)?;
            }
        }
        Ok(())
    }

    /// Writes all registrations, and removes the rows of this node that are none of them.
    fn write_all(&self, table: &mut LocationTable) -> Result<(), DatabaseError> {
        let begun = table.now()?;
        let mut is_complete = true;
        let mut next = Some(Position::default());
        let mut changed_at = Instant::now();
        while let Some(from) = next {
            if self.shared.is_ended() {
                return Ok(());
            }
            let mut page: Vec<(Vec<u8>, Vec<LiveRegistration>)> = Vec::new();
            next = self.live.page(from, &mut |aor, registration| match page.last_mut() {
                Some((last, registrations)) if last == aor => registrations.push(registration),
                _ => page.push((aor.to_vec(), vec![registration])),
            });
            self.write(
                table,
                page.iter().map(|(aor, registrations)| (aor.as_slice(), registrations.as_slice())),
            )?;
            if changed_at.elapsed() >= INTERVAL {
                is_complete &= self.write_changed(table)?;
                changed_at = Instant::now();
            }
        }
        let removed = table.remove_before(&begun)?;
        if self.shared.status.connected() {
            let url = self.access.url().shown();
            tracing::info!(
                "{url}: registrations are written to ringway_location; {removed} old rows of this node are removed"
            );
        }
        if !is_complete {
            // Some of the users that were dropped may have been written before their change.
            self.shared.waiting().drop_all();
        }
        Ok(())
    }

    /// Writes the users that changed. False: some were dropped, so that all must be written.
    fn write_changed(&self, table: &mut LocationTable) -> Result<bool, DatabaseError> {
        let Some(changed) = self.shared.waiting().take() else { return Ok(false) };
        for aors in changed.chunks(USERS_AT_ONCE) {
            let users: Vec<_> = aors.iter().map(|aor| (aor, self.live.of(aor))).collect();
            self.write(table, users.iter().map(|(aor, registrations)| (&***aor, registrations.as_slice())))?;
        }
        Ok(true)
    }

    fn write<'r>(
        &self,
        table: &mut LocationTable,
        users: impl Iterator<Item = (&'r [u8], &'r [LiveRegistration])>,
    ) -> Result<(), DatabaseError> {
        let mut refused = 0;
        let users: Vec<UserRows> = users
            .filter_map(|(aor, registrations)| {
                let rows = UserRows::new(aor, registrations);
                refused += u64::from(rows.is_none());
                rows
            })
            .collect();
        for some in users.chunks(USERS_AT_ONCE) {
            refused += write_some(some, |users| table.replace(users), DatabaseError::is_of_statement)?;
        }
        self.shared.refused.fetch_add(refused, Ordering::Relaxed);
        self.shared.written.fetch_add(users.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Writes users at once, or one by one if the database refuses that: a row that it cannot have must not keep the others out of it.
/// Returns the number of users that it refuses.
fn write_some<E>(
    users: &[UserRows],
    mut replace: impl FnMut(&[UserRows]) -> Result<(), E>,
    is_refusal: impl Fn(&E) -> bool,
) -> Result<u64, E> {
    let Err(error) = replace(users) else { return Ok(0) };
    if !is_refusal(&error) || users.len() < 2 {
        return Err(error);
    }
    let mut refused = 0;
    for user in users.chunks(1) {
        match replace(user) {
            Ok(()) => {}
            Err(error) if is_refusal(&error) => refused += 1,
            Err(error) => return Err(error),
        }
    }
    // All refused: the rows are not the reason.
    if refused == users.len() as u64 { Err(error) } else { Ok(refused) }
}

/// Time in which changes of a user become one.
const INTERVAL: Duration = Duration::from_secs(1);

/// Users of one transaction.
const USERS_AT_ONCE: usize = 256;

/// Maximum length of the column of the node.
const NODE_CHARS_MAX: usize = 64;

/// Addresses-of-record whose registrations changed, each once: what is written is read when it is written.
#[derive(Debug, Default)]
struct WaitingUsers {
    aors: HashSet<Box<[u8]>>,
    bytes: usize,
    /// True after a drop, until all registrations are written again: no names are needed meanwhile.
    is_incomplete: bool,
}

impl WaitingUsers {
    /// Adds a user, and returns the number of users that were dropped because too many wait.
    pub(crate) fn add(&mut self, aor: &[u8]) -> u64 {
        if self.is_incomplete {
            return 1;
        }
        if self.aors.contains(aor) {
            return 0;
        }
        if self.aors.len() >= USERS_MAX || self.bytes + aor.len() > BYTES_MAX {
            let dropped = self.aors.len() as u64 + 1;
            self.drop_all();
            return dropped;
        }
        self.bytes += aor.len();
        self.aors.insert(aor.into());
        0
    }

    /// Removes all users and returns them. `None`: some were dropped, and all registrations must be written.
    pub(crate) fn take(&mut self) -> Option<Vec<Box<[u8]>>> {
        let Self { aors, is_incomplete, .. } = std::mem::take(self);
        if is_incomplete { None } else { Some(aors.into_iter().collect()) }
    }

    /// Drops all users: all registrations must be written.
    fn drop_all(&mut self) {
        *self = Self { is_incomplete: true, ..Self::default() };
    }

    /// Number of users that wait.
    pub(crate) fn len(&self) -> usize {
        self.aors.len()
    }
}

/// Maximum number of users that wait, and bytes of their names; as many can be under way to the database.
const USERS_MAX: usize = 100_000;
pub(crate) const BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes users `a`, `b` and `c` into a table that refuses the users of `refused`; returns the result and the users of each attempt.
    fn written(refused: &[&str], is_refusal: bool) -> (Result<u64, &'static str>, Vec<String>) {
        let users = [b"a@x", b"b@x", b"c@x"].map(|aor| UserRows::new(aor, &[]).unwrap());
        let mut attempts = Vec::new();
        let replace = |users: &[UserRows]| {
            let names: Vec<&str> = users.iter().map(|user| user.name.as_str()).collect();
            attempts.push(names.concat());
            if names.iter().any(|name| refused.contains(name)) { Err("no") } else { Ok(()) }
        };
        let result = write_some(&users, replace, |_| is_refusal);
        (result, attempts)
    }

    #[test]
    fn one_user_that_the_database_refuses_keeps_no_other_out() {
        assert_eq!(written(&[], true), (Ok(0), vec!["abc".to_owned()]));
        let (result, attempts) = written(&["b"], true);
        assert_eq!((result, attempts.join(" ")), (Ok(1), "abc a b c".to_owned()));
    }

    #[test]
    fn a_database_that_refuses_all_or_is_gone_is_an_error() {
        assert_eq!(written(&["a", "b", "c"], true).0, Err("no"));
        let (result, attempts) = written(&["b"], false);
        assert_eq!((result, attempts.join(" ")), (Err("no"), "abc".to_owned()));
    }

    #[test]
    fn a_user_waits_once() {
        let mut waiting = WaitingUsers::default();
        assert_eq!((waiting.add(b"a@b"), waiting.add(b"a@b"), waiting.len()), (0, 0, 1));
        assert_eq!(waiting.take().map(|aors| aors.len()), Some(1));
        assert_eq!((waiting.take().map(|aors| aors.len()), waiting.bytes), (Some(0), 0));
    }

    #[test]
    fn beyond_the_number_all_are_dropped_and_the_next_read_is_of_all() {
        let mut waiting = WaitingUsers::default();
        let dropped: u64 = (0..=USERS_MAX).map(|n| waiting.add(n.to_string().as_bytes())).sum();
        assert_eq!((dropped, waiting.len()), (USERS_MAX as u64 + 1, 0));
        assert_eq!((waiting.add(b"a@b"), waiting.len()), (1, 0));
        assert_eq!(waiting.take(), None);
        assert_eq!((waiting.add(b"a@b"), waiting.len()), (0, 1));
    }

    #[test]
    fn long_names_are_bounded_too() {
        let mut waiting = WaitingUsers::default();
        let name = |n: usize| format!("{n:0>50000}");
        let dropped: u64 = (0..BYTES_MAX / 50_000 + 1).map(|n| waiting.add(name(n).as_bytes())).sum();
        assert!(dropped > 0 && waiting.bytes == 0, "{dropped}");
    }
}
