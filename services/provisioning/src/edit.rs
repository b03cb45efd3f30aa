//! Changes of users in the tables, made by the code that changes a store.
//!
//! The users are read into a store of their own, changed there, and what differs is written back in one transaction.

use crate::row::{RowReader, Subscriber};
use crate::status::Status;
use crate::{ProvisioningError, read, tables};
use ringway_database::{DatabaseError, DatabaseUrl, Engine, Server};
use ringway_store::{Position, Provisioned, Store, StoreUrl, UserName, UserState};
use std::path::Path;

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
        tables::ensure(&mut server)?;
        Ok(Self { server, status: Status::default() })
    }

    /// Changes one user: `edit` gets a store that has this user only.
    ///
    /// # Errors
    /// The database or `edit` failed. Nothing is changed then.
    pub fn edit<T, E: From<ProvisioningError>>(
        &mut self,
        user: &UserName,
        edit: impl FnOnce(&Store) -> Result<T, E>,
    ) -> Result<T, E> {
        self.in_transaction(|tables| {
            let old = tables.read(user)?;
            let store = Store::open(&StoreUrl::Memory).map_err(ProvisioningError::from)?;
            let provisioned = Provisioned::of(&store);
            let none = Position { database: String::new(), changes: String::new(), at_s: 0 };
            provisioned.put(&[(user.clone(), old.clone())], &none).map_err(ProvisioningError::from)?;
            let done = edit(&store)?;
            let new = provisioned.user(user).map_err(ProvisioningError::from)?;
            if new != old {
                tables.write(&[(user.clone(), new)])?;
            }
            Ok(done)
        })
    }

    /// Changes any number of users: `edit` gets a store, in a new file, that has all users. Block lists are no part of it.
    ///
    /// # Errors
    /// The database or `edit` failed. Nothing is changed then.
    pub fn edit_all<T, E: From<ProvisioningError>>(
        &mut self,
        file: &Path,
        edit: impl FnOnce(&Store) -> Result<T, E>,
    ) -> Result<T, E> {
        let store = Store::open(&StoreUrl::Sqlite(file.to_owned())).map_err(ProvisioningError::from)?;
        self.in_transaction(|tables| {
            let last = tables.read_all(&store)?;
            let done = edit(&store)?;
            tables.write_changes(&store, last)?;
            Ok(done)
        })
    }

    fn in_transaction<T, E: From<ProvisioningError>>(
        &mut self,
        steps: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let failed = |error: DatabaseError| E::from(error.into());
        self.server
            .run(match self.server.engine() {
                Engine::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ",
                Engine::MySql => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            })
            .map_err(failed)?;
        match steps(self) {
            Ok(done) => self.server.run("COMMIT").map(|()| done).map_err(failed),
            Err(error) => {
                // The connection ends with the value, and the transaction with it.
                let _ = self.server.run("ROLLBACK");
                Err(error)
            }
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
                state.password = Some((realm, ha1));
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

    /// Reads all users into an empty store; returns the number of its last change.
    fn read_all(&mut self, store: &Store) -> Result<u64, ProvisioningError> {
        let provisioned = Provisioned::of(store);
        let mut incoming = provisioned.incoming()?;
        incoming.fill(|rows| read::rows(&mut self.server, rows, &self.status).map(drop))?;
        provisioned
            .replace(incoming, &Position { database: String::new(), changes: String::new(), at_s: 0 })?;
        let mut last = 0;
        loop {
            let changes = store.changes_since(last)?;
            match changes.last() {
                Some(change) => last = change.seq,
                None => return Ok(last),
            }
        }
    }

    /// Writes the users that changed after number `last` of the store's changes.
    fn write_changes(&mut self, store: &Store, mut last: u64) -> Result<(), ProvisioningError> {
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
                let (realm, ha1) = state.password.as_ref()?;
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
fn tuples(rows: usize, columns: usize) -> String {
    let row = |row: usize| {
        let numbers = (1..=columns).map(|column| format!("${}", row * columns + column));
        format!("({})", numbers.collect::<Vec<_>>().join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

/// Users of one statement: databases limit the number of its parameters, PostgreSQL to 65,535.
const USERS_AT_ONCE: usize = 500;
