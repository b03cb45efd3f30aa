//! Changes of users in the tables, made by the code that changes a store.
//!
//! The users are read into a store of their own, changed there, and what differs is written back in one transaction.

use crate::connection::{DatabaseUrl, Engine, Server};
use crate::provisioning::ProvisioningError;
use crate::provisioning::read::{self, RowReader, Subscriber};
use crate::provisioning::status::Status;
use crate::provisioning::tables::{self, Absent};
use ringway_store::{Hashes, IncomingRows, Position, Provisioned, Store, StoreUrl, UserName, UserState};

/// The tables of a database, for changes.
pub struct UserTables {
    server: Server,
    status: Status,
}

impl UserTables {
    /// Connects; makes the tables if they are absent.
    ///
    /// # Errors
    /// The database failed, or its tables are of a later version.
    pub fn open(url: &DatabaseUrl) -> Result<Self, ProvisioningError> {
        let mut server = Server::connect(url).map_err(ProvisioningError::Connect)?;
        tables::ensure(&mut server, Absent::Create)?;
        Ok(Self { server, status: Status::default() })
    }

    /// Changes one user: `edit` gets a store that has this user only.
    ///
    /// # Errors
    /// The database or `edit` failed, or a row of the user is invalid. Nothing is changed then.
    pub fn edit<T, E: From<ProvisioningError>>(
        &mut self,
        user: &UserName,
        edit: impl FnOnce(&Store) -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = match self.server.engine() {
            Engine::Postgres => "BEGIN",
            // Without gaps between rows that are locked, in which others may want to insert theirs.
            Engine::MySql => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
        };
        self.in_transaction(begin, |tables| {
            let old = tables.read(user)?;
            let store = Store::open(&StoreUrl::Memory).map_err(ProvisioningError::from)?;
            let provisioned = Provisioned::of(&store);
            provisioned
                .put(&[(user.clone(), old.clone())], &Position::default())
                .map_err(ProvisioningError::from)?;
            let done = edit(&store)?;
            let new = provisioned.user(user).map_err(ProvisioningError::from)?;
            if new != old {
                // The write replaces all rows of the user.
                tables.check_refused()?;
                tables.write(&[(user.clone(), new)])?;
            }
            Ok(done)
        })
    }

    /// Changes any number of users: `edit` gets a store in memory that has all users. Block lists are no part of it.
    ///
    /// # Errors
    /// The database or `edit` failed. Nothing is changed then.
    pub fn edit_all<T, E: From<ProvisioningError>>(
        &mut self,
        edit: impl FnOnce(&Store) -> Result<T, E>,
    ) -> Result<T, E> {
        let store = Store::open(&StoreUrl::Memory).map_err(ProvisioningError::from)?;
        let begin = match self.server.engine() {
            Engine::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Engine::MySql => "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        };
        self.in_transaction(begin, |tables| {
            let rows = |rows: &IncomingRows<'_>| read::rows(&mut tables.server, rows, &tables.status);
            Provisioned::of(&store).fill(rows)?;
            let done = edit(&store)?;
            tables.write_changes(&store)?;
            Ok(done)
        })
    }

    /// Runs steps in a transaction that other commands and dashboards do not overlap.
    fn in_transaction<T, E: From<ProvisioningError>>(
        &mut self,
        begin: &str,
        steps: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut begun = || -> Result<(), ProvisioningError> {
            self.lock()?;
            self.server.run(begin)?;
            if self.server.engine() == Engine::MySql {
                self.server.run("START TRANSACTION")?;
            }
            Ok(())
        };
        begun()?;
        let done = steps(self).and_then(|done| {
            self.server.run("COMMIT").map_err(ProvisioningError::from)?;
            Ok(done)
        });
        if done.is_err() {
            // The connection ends with the value, and the transaction with it.
            let _ = self.server.run("ROLLBACK");
        }
        done
    }

    /// Takes the lock of changes, which the connection has until it ends.
    fn lock(&mut self) -> Result<(), ProvisioningError> {
        let lock = match self.server.engine() {
            // It waits for `lock_timeout` at most.
            Engine::Postgres => "SELECT pg_advisory_lock(5061)::text",
            Engine::MySql => "SELECT get_lock(concat('ringway ', database()), 10)",
        };
        let mut is_taken = true;
        self.server.query(lock, &mut |row| is_taken = row.first().copied().flatten() != Some("0"))?;
        if is_taken { Ok(()) } else { Err(ProvisioningError::Busy) }
    }

    fn check_refused(&self) -> Result<(), ProvisioningError> {
        match self.status.take_refused() {
            Some(row) => Err(ProvisioningError::InvalidRow(row)),
            None => Ok(()),
        }
    }

    /// Reads a user, and keeps others from changing it until the transaction ends.
    fn read(&mut self, user: &UserName) -> Result<UserState, ProvisioningError> {
        let reader = RowReader { status: &self.status };
        let key = [Some(user.domain()), Some(user.name())];
        let mut state = UserState::default();
        let of_user = |columns: &str, table: &str| {
            format!("SELECT {columns} FROM {table} t WHERE t.domain = $1 AND t.name = $2 FOR UPDATE")
        };
        self.server.execute(&of_user(read::SUBSCRIBER, "ringway_subscriber"), &key, &mut |row| {
            if let Some(Subscriber { realm, ha1, .. }) = reader.subscriber(row) {
                state.password = Some((realm, ha1.into()));
            }
        })?;
        self.server.execute(&of_user(read::CONTACT, "ringway_contact"), &key, &mut |row| {
            state.contacts.extend(reader.contact(row).map(|(_, contact)| contact.to_owned()));
        })?;
        self.server.execute(&of_user(read::FORWARD, "ringway_forward"), &key, &mut |row| {
            if let Some((_, forward)) = reader.forward(row) {
                forward.add_to(&mut state.forwards);
            }
        })?;
        state.contacts.sort();
        Ok(state)
    }

    /// Writes the users that the store's changes name.
    fn write_changes(&mut self, store: &Store) -> Result<(), ProvisioningError> {
        let mut last = 0;
        let provisioned = Provisioned::of(store);
        loop {
            let changes = store.changes_since(last)?;
            let Some(newest) = changes.last() else { return Ok(()) };
            last = newest.seq;
            for some in changes.chunks(USERS_AT_ONCE) {
                let mut users = Vec::with_capacity(some.len());
                for change in some {
                    // The list of blocks of all users has no name.
                    let Ok(user) = UserName::new(&change.name, &change.domain) else { continue };
                    if !users.iter().any(|(other, _)| *other == user) {
                        let state = provisioned.user(&user)?;
                        users.push((user, state));
                    }
                }
                self.write(&users)?;
            }
        }
    }

    /// Replaces the rows of users.
    fn write(&mut self, users: &[(UserName, UserState)]) -> Result<(), ProvisioningError> {
        if users.is_empty() {
            return Ok(());
        }
        let names: Vec<Option<&str>> =
            users.iter().flat_map(|(user, _)| [Some(user.domain()), Some(user.name())]).collect();
        for table in ["ringway_subscriber", "ringway_contact", "ringway_forward"] {
            let statement =
                format!("DELETE FROM {table} WHERE (domain, name) IN ({})", tuples(users.len(), 2));
            self.server.execute(&statement, &names, &mut |_| {})?;
        }
        let hashes: Vec<_> = users
            .iter()
            .filter_map(|(user, state)| {
                // The tables have no other hashes.
                let (realm, Hashes { ha1, .. }) = state.password.as_ref()?;
                let (md5, sha256) =
                    (base16ct::lower::encode_string(&ha1.md5), base16ct::lower::encode_string(&ha1.sha256));
                Some([user.domain().to_owned(), user.name().to_owned(), realm.clone(), md5, sha256])
            })
            .collect();
        self.insert("ringway_subscriber (domain, name, realm, ha1_md5, ha1_sha256)", &hashes)?;
        let contacts: Vec<_> = users
            .iter()
            .flat_map(|(user, state)| {
                state
                    .contacts
                    .iter()
                    .map(|contact| [user.domain().to_owned(), user.name().to_owned(), contact.clone()])
            })
            .collect();
        self.insert("ringway_contact (domain, name, contact)", &contacts)?;
        for (user, state) in users {
            self.write_forwards(user, state)?;
        }
        Ok(())
    }

    fn write_forwards(&mut self, user: &UserName, state: &UserState) -> Result<(), ProvisioningError> {
        let number = match self.server.engine() {
            Engine::Postgres => "CAST($5 AS integer)",
            Engine::MySql => "CAST($5 AS signed)",
        };
        let statement = format!(
            "INSERT INTO ringway_forward (domain, name, kind, uri, after_s) VALUES ($1, $2, $3, $4, {number})"
        );
        let after_s = state.forwards.no_answer.as_ref().map(|no_answer| no_answer.after_s().to_string());
        for (condition, target) in state.forwards.targets() {
            let after_s = match condition {
                ringway_store::Condition::NoAnswer => after_s.as_deref(),
                _ => None,
            };
            let values = [
                Some(user.domain()),
                Some(user.name()),
                Some(condition.name()),
                Some(target.as_str()),
                after_s,
            ];
            self.server.execute(&statement, &values, &mut |_| {})?;
        }
        Ok(())
    }

    fn insert<const N: usize>(&mut self, into: &str, rows: &[[String; N]]) -> Result<(), ProvisioningError> {
        for some in rows.chunks(USERS_AT_ONCE) {
            let values: Vec<Option<&str>> = some.iter().flatten().map(|value| Some(value.as_str())).collect();
            let statement = format!("INSERT INTO {into} VALUES {}", tuples(some.len(), N));
            self.server.execute(&statement, &values, &mut |_| {})?;
        }
        Ok(())
    }
}

/// `($1, $2), ($3, $4)` for rows of `columns` values.
pub(crate) fn tuples(rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let numbers = (1..=columns).map(|column| format!("${}", row * columns + column));
        format!("({})", numbers.collect::<Vec<_>>().join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

/// Users of one statement: databases limit the number of its parameters, PostgreSQL to 65,535.
const USERS_AT_ONCE: usize = 500;
