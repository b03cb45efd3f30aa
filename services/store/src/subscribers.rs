//! Subscribers and permanent contacts in SQLite, changed by commands and loaded by the server. Import of subscribers
//! from a CSV file, all or none.
//!
//! Only hashes of passwords are stored (RFC 7616 §3.4.2: H(A1) is H(name ":" realm ":" password)). Commands and a
//! running server use the file at the same time.

use super::rows::{self, Fault, Kind, Unreadable, check_contact, note};
use super::{StoreError, schema};
use ringway_journal::Journal;
use ringway_users::{BadRow, Ha1, Hashes, UserList, UserName, UserRow};
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Location of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// `sqlite://FILE`; a relative FILE is relative to the current folder.
    Sqlite(PathBuf),
    /// `memory:`: lost when the program ends.
    Memory,
}

impl StoreUrl {
    /// Prefix of the names of the journal's files: the database's path and `.bindings`. `None` in memory.
    pub fn bindings(&self) -> Option<PathBuf> {
        match self {
            Self::Sqlite(file) => {
                let mut path = file.clone().into_os_string();
                path.push(".bindings");
                Some(path.into())
            }
            Self::Memory => None,
        }
    }
}

/// A borrowed row of the subscriber table.
#[derive(Clone, Copy)]
pub struct SubscriberRow<'a> {
    /// The user part.
    pub name: &'a str,
    /// The domain, lower-case.
    pub domain: &'a str,
    /// Realm of the hashes.
    pub realm: &'a str,
    /// H(A1) with MD5.
    pub ha1_md5: &'a [u8; 16],
    /// H(A1) with SHA-256.
    pub ha1_sha256: &'a [u8; 32],
    /// The same of the user name with its domain, if they are known.
    full: Option<(&'a [u8; 16], &'a [u8; 32])>,
}

impl<'a> SubscriberRow<'a> {
    /// Hashes of the password.
    pub fn hashes(&self) -> Hashes {
        let of = |(md5, sha256): (&[u8; 16], &[u8; 32])| Ha1 { md5: *md5, sha256: *sha256 };
        Hashes { ha1: of((self.ha1_md5, self.ha1_sha256)), full: self.full.map(of) }
    }

    /// Columns that [`SubscriberRow::read`] reads.
    pub(super) const COLUMNS: &'static str =
        "domain, name, realm, ha1_md5, ha1_sha256, full_ha1_md5, full_ha1_sha256";

    /// Reads the first columns, which are those of [`SubscriberRow::COLUMNS`].
    pub(super) fn read(row: &'a Row<'_>) -> Result<Self, Fault> {
        rows::user(row)?;
        let (domain, name, realm) = (rows::text(row, 0)?, rows::text(row, 1)?, rows::text(row, 2)?);
        if realm.chars().any(char::is_control) {
            return Err("its realm has control characters".to_owned());
        }
        let full = match rows::is_null(row, 5) && rows::is_null(row, 6) {
            true => None,
            false => Some((rows::hash(row, 5)?, rows::hash(row, 6)?)),
        };
        Ok(Self { name, domain, realm, ha1_md5: rows::hash(row, 3)?, ha1_sha256: rows::hash(row, 4)?, full })
    }
}

/// Result of [`Store::load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Number of subscribers.
    pub subscribers: u64,
    /// Number of permanent contacts.
    pub contacts: u64,
    /// Number of the latest change that is contained in the loaded data.
    pub seq: u64,
    /// Number up to which the last server has applied changes. Later removals still have to be applied to the bindings
    /// that it left. `seq`, if there was no server before.
    pub applied: u64,
}

/// Subscribers of one domain with passwords for a realm that is not that of the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherRealm {
    /// The domain.
    pub domain: String,
    /// Realm of the passwords.
    pub realm: String,
    /// Number of the subscribers.
    pub users: u64,
    /// Name of one of them.
    pub name: String,
}

/// The database of subscribers and permanent contacts.
pub struct Store {
    connection: Mutex<Connection>,
    file: PathBuf,
    pub(super) unreadable: Unreadable,
}

impl Store {
    /// Opens the store; creates it if necessary.
    ///
    /// # Errors
    /// The file is damaged, belongs to another program, or has a newer version; a file operation failed.
    pub fn open(url: &StoreUrl) -> Result<Self, StoreError> {
        let (connection, file) = match url {
            StoreUrl::Sqlite(file) => (schema::open(file)?, file.clone()),
            StoreUrl::Memory => {
                let file = PathBuf::from("memory:");
                (schema::open_memory(&file)?, file)
            }
        };
        Ok(Self { connection: Mutex::new(connection), file, unreadable: Unreadable::default() })
    }

    /// Opens the store as it is, and checks that a server could use it and its journal. Nothing is changed, and a running server is
    /// not disturbed. `None`: a start would create the store.
    ///
    /// # Errors
    /// As [`Store::open`] and [`Bindings::recover`](crate::Bindings::recover); a process that uses the journal is none.
    pub fn open_existing(url: &StoreUrl) -> Result<Option<Self>, StoreError> {
        let StoreUrl::Sqlite(file) = url else { return Ok(None) };
        let connection = schema::open_existing(file)?;
        url.bindings().map_or(Ok(()), |journal| Journal::check(&journal))?;
        let store = |connection| {
            let file = file.clone();
            Self { connection: Mutex::new(connection), file, unreadable: Unreadable::default() }
        };
        Ok(connection.map(store))
    }

    /// Path of the database, or `memory:`.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// 32 random bytes, generated with the store; nonces are derived from them, so that they survive a restart.
    ///
    /// # Errors
    /// A query failed.
    pub fn secret(&self) -> Result<[u8; 32], StoreError> {
        self.lock()
            .query_row("SELECT value FROM meta WHERE key = 'secret'", [], |row| row.get(0))
            .map_err(self.sql())
    }

    /// Adds a subscriber.
    ///
    /// # Errors
    /// The user exists already, the password is invalid, or a query failed.
    pub fn add(&self, user: &UserName, realm: &str, password: &str) -> Result<(), StoreError> {
        let hashes = user.hashes(realm, password)?;
        self.write(|transaction| {
            if !insert(transaction, user, realm, &hashes).map_err(self.sql())? {
                return Err(StoreError::Exists(user.to_string()));
            }
            Ok(())
        })
    }

    /// Changes the password and the realm of a subscriber.
    ///
    /// # Errors
    /// The user does not exist, the password is invalid, or a query failed.
    pub fn passwd(&self, user: &UserName, realm: &str, password: &str) -> Result<(), StoreError> {
        let Hashes { ha1, full } = user.hashes(realm, password)?;
        let (full_md5, full_sha256) = (full.map(|full| full.md5), full.map(|full| full.sha256));
        self.write(|transaction| {
            let changed = transaction
                .execute(
                    "UPDATE subscriber SET realm = ?3, ha1_md5 = ?4, ha1_sha256 = ?5, full_ha1_md5 = ?6, full_ha1_sha256 = ?7
                     WHERE domain = ?1 AND name = ?2",
                    params![user.domain(), user.name(), realm, ha1.md5, ha1.sha256, full_md5, full_sha256],
                )
                .map_err(self.sql())?;
            if changed == 0 {
                return Err(StoreError::NoSuchUser(user.to_string()));
            }
            note(transaction, user.domain(), user.name(), Kind::Subscriber).map_err(self.sql())
        })
    }

    /// Removes a subscriber, its permanent contacts, its forwards and its block list.
    ///
    /// # Errors
    /// The user has neither a password nor a permanent contact; a query failed.
    pub fn remove(&self, user: &UserName) -> Result<(), StoreError> {
        let sql = || self.sql();
        self.write(|transaction| {
            let key = params![user.domain(), user.name()];
            let users = transaction
                .execute("DELETE FROM subscriber WHERE domain = ?1 AND name = ?2", key)
                .map_err(sql())?;
            let contacts = transaction
                .execute("DELETE FROM contact WHERE domain = ?1 AND name = ?2", key)
                .map_err(sql())?;
            if users + contacts == 0 {
                return Err(StoreError::NoSuchUser(user.to_string()));
            }
            remove_settings(transaction, user).map_err(sql())?;
            if contacts > 0 {
                note(transaction, user.domain(), user.name(), Kind::Contacts).map_err(sql())?;
            }
            note(transaction, user.domain(), user.name(), Kind::Removed).map_err(sql())
        })
    }

    /// Adds a permanent contact of a user, who need not have a password. False: the contact exists already.
    ///
    /// # Errors
    /// The contact is not a valid SIP URI for a Contact header field; a query failed.
    pub fn bind(&self, user: &UserName, contact: &str) -> Result<bool, StoreError> {
        check_contact(contact)?;
        self.write(|transaction| {
            let added = transaction
                .execute(
                    "INSERT INTO contact (domain, name, contact) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                    params![user.domain(), user.name(), contact],
                )
                .map_err(self.sql())?;
            if added > 0 {
                note(transaction, user.domain(), user.name(), Kind::Contacts).map_err(self.sql())?;
            }
            Ok(added > 0)
        })
    }

    /// Removes one or all permanent contacts of a user; returns their number.
    ///
    /// # Errors
    /// The contact does not exist; a query failed.
    pub fn unbind(&self, user: &UserName, contact: Option<&str>) -> Result<usize, StoreError> {
        self.write(|transaction| {
            let removed = transaction
                .execute(
                    "DELETE FROM contact WHERE domain = ?1 AND name = ?2 AND (?3 IS NULL OR contact = ?3)",
                    params![user.domain(), user.name(), contact],
                )
                .map_err(self.sql())?;
            if removed == 0 {
                let contact = contact.unwrap_or("at all").to_owned();
                return Err(StoreError::NoSuchContact { user: user.to_string(), contact });
            }
            // Without a password and a contact there is no such user any more.
            if !exists(transaction, user).map_err(self.sql())? {
                remove_settings(transaction, user).map_err(self.sql())?;
            }
            note(transaction, user.domain(), user.name(), Kind::Contacts).map_err(self.sql())?;
            Ok(removed)
        })
    }

    /// True if `user` has a password.
    ///
    /// # Errors
    /// A query failed.
    pub fn is_subscriber(&self, user: &UserName) -> Result<bool, StoreError> {
        self.lock()
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM subscriber WHERE domain = ?1 AND name = ?2)",
                params![user.domain(), user.name()],
                |row| row.get(0),
            )
            .map_err(self.sql())
    }

    /// Passes every user to `on_user`, sorted by domain and name, with its realm (`None`: no password) and its
    /// permanent contacts, separated by line breaks. `on_user` returns false to stop.
    ///
    /// A query failed.
    /// The database refuses.
    pub fn list(
        &self,
        mut on_user: impl FnMut(&str, &str, Option<&str>, Option<&str>) -> bool,
    ) -> Result<(), StoreError> {
        let connection = self.lock();
        let mut statement = connection
            .prepare(
                "SELECT domain, name, realm, (SELECT group_concat(contact, char(10)) FROM contact c
                     WHERE c.domain = u.domain AND c.name = u.name)
                 FROM (SELECT domain, name, realm FROM subscriber
                       UNION ALL
                       SELECT DISTINCT domain, name, NULL FROM contact c WHERE NOT EXISTS
                           (SELECT 1 FROM subscriber s WHERE s.domain = c.domain AND s.name = c.name)) u
                 ORDER BY domain, name",
            )
            .map_err(self.sql())?;
        let mut rows = statement.query([]).map_err(self.sql())?;
        while let Some(row) = rows.next().map_err(self.sql())? {
            let text = |column| row.get_ref(column).ok()?.as_str_or_null().ok().flatten();
            let (Some(domain), Some(name)) = (text(0), text(1)) else { continue };
            if !on_user(name, domain, text(2), text(3)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Passes all subscribers, then all permanent contacts (name, domain, contact), from one snapshot of the database. A row that no
    /// command would have written is passed over and counted.
    ///
    /// # Errors
    /// A query failed, or the file is damaged.
    pub fn load(
        &self,
        mut on_subscriber: impl FnMut(SubscriberRow<'_>),
        mut on_contact: impl FnMut(&str, &str, &str),
    ) -> Result<Loaded, StoreError> {
        let mut connection = self.lock();
        let mut load = || {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
            let seq = rows::last(&transaction)?;
            let applied = rows::applied(&transaction)?.unwrap_or(seq);
            let mut loaded = Loaded { subscribers: 0, contacts: 0, seq, applied };
            let mut statement =
                transaction.prepare(&format!("SELECT {} FROM subscriber", SubscriberRow::COLUMNS))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let Some(subscriber) = self.unreadable.pass("subscriber", row, SubscriberRow::read(row)) {
                    on_subscriber(subscriber);
                    loaded.subscribers += 1;
                }
            }
            let mut statement = transaction.prepare("SELECT domain, name, contact FROM contact")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let read = rows::contact(row).and_then(|contact| Ok((rows::user(row)?, contact)));
                if let Some((user, contact)) = self.unreadable.pass("contact", row, read) {
                    on_contact(user.name(), user.domain(), contact);
                    loaded.contacts += 1;
                }
            }
            Ok(loaded)
        };
        load().map_err(self.sql())
    }

    /// Subscribers whose password hash is for another realm than that of their domain, by domain and realm: they cannot
    /// log in until the password is set again. `realm_of` returns the realm of a domain.
    ///
    /// # Errors
    /// A query failed.
    pub fn subscribers_of_other_realms<'r>(
        &self,
        realm_of: impl Fn(&str) -> &'r str,
    ) -> Result<Vec<OtherRealm>, StoreError> {
        let read = || {
            let connection = self.lock();
            let mut statement = connection.prepare(
                "SELECT domain, realm, count(*), min(name) FROM subscriber GROUP BY domain, realm ORDER BY domain, realm",
            )?;
            let rows = statement.query_map([], |row| {
                let (domain, realm, users) = (row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?);
                Ok(OtherRealm { domain, realm, users: users.unsigned_abs(), name: row.get(3)? })
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        let mut others = read().map_err(self.sql())?;
        others.retain(|other| realm_of(&other.domain) != other.realm);
        Ok(others)
    }

    /// Rows that this value passed over, because no command would have written them.
    pub fn rows_unreadable(&self) -> u64 {
        self.unreadable.count()
    }

    /// Runs `change` in one transaction; an error rolls it back.
    pub(super) fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut connection = self.lock();
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(self.sql())?;
        let done = change(&transaction)?;
        transaction.commit().map_err(self.sql())?;
        Ok(done)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sql(&self) -> impl FnOnce(rusqlite::Error) -> StoreError + use<> {
        let file = self.file.clone();
        move |error| match error {
            rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..) => {
                StoreError::Corrupt { file, detail: format!("invalid row: {error}") }
            }
            error => schema::from_sqlite(&file, error),
        }
    }
}

/// True for a user with a password or a permanent contact.
pub(super) fn exists(connection: &Connection, user: &UserName) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM subscriber WHERE domain = ?1 AND name = ?2)
             OR EXISTS (SELECT 1 FROM contact WHERE domain = ?1 AND name = ?2)",
        params![user.domain(), user.name()],
        |row| row.get(0),
    )
}

/// Removes the forwards and the block list of a user.
fn remove_settings(transaction: &Transaction<'_>, user: &UserName) -> rusqlite::Result<()> {
    for (table, kind) in [("forward", Kind::Forwards), ("block", Kind::Blocks)] {
        let query = format!("DELETE FROM {table} WHERE domain = ?1 AND name = ?2");
        if transaction.execute(&query, params![user.domain(), user.name()])? > 0 {
            note(transaction, user.domain(), user.name(), kind)?;
        }
    }
    Ok(())
}

/// Inserts a subscriber's row. False: it exists already.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    user: &UserName,
    realm: &str,
    hashes: &Hashes,
) -> rusqlite::Result<bool> {
    let is_added = insert_row(transaction, user, realm, hashes)?;
    if is_added {
        note(transaction, user.domain(), user.name(), Kind::Subscriber)?;
    }
    Ok(is_added)
}

/// Inserts a subscriber's row without a note of the change. False: it exists already.
pub(super) fn insert_row(
    transaction: &Transaction<'_>,
    user: &UserName,
    realm: &str,
    Hashes { ha1, full }: &Hashes,
) -> rusqlite::Result<bool> {
    let (full_md5, full_sha256) = (full.map(|full| full.md5), full.map(|full| full.sha256));
    let added = transaction
        .prepare_cached(
            "INSERT INTO subscriber (domain, name, realm, ha1_md5, ha1_sha256, full_ha1_md5, full_ha1_sha256)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
        )?
        .execute(params![user.domain(), user.name(), realm, ha1.md5, ha1.sha256, full_md5, full_sha256])?;
    Ok(added > 0)
}

/// Result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Subscribers added.
    pub users: u64,
    /// Domains of the added subscribers.
    pub domains: BTreeSet<String>,
}

impl Store {
    /// Adds all subscribers of a list in the format of [`UserList`]. A row without a domain is in `domain`. `realm_of`
    /// returns the realm of a domain, `each` gets the rows that were added.
    ///
    /// # Errors
    /// The file cannot be read, or its header or a row is invalid; the error names the line, and nothing is imported.
    pub fn import<'r>(
        &self,
        file: &Path,
        domain: &str,
        realm_of: impl Fn(&str) -> &'r str,
        mut each: impl FnMut(&UserRow<'_>),
    ) -> Result<Imported, StoreError> {
        let opened = File::open(file).map_err(StoreError::io(file, "open"))?;
        let mut reader = BufReader::new(opened);
        let mut list = UserList::new(domain);
        self.write(|transaction| {
            let mut imported = Imported::default();
            loop {
                let given = reader.fill_buf().map_err(|error| unreadable(file, &error))?;
                let (mut rest, bytes) = (given, given.len());
                let row = list.next(&mut rest).map_err(|bad| bad_row(file, bad))?;
                let used = bytes - rest.len();
                match row {
                    Some(row) => {
                        let inserted = self.import_row(transaction, &row, realm_of(row.user.domain()));
                        inserted.map_err(|detail| bad_row(file, BadRow { line: row.line, detail }))?;
                        imported.add(&row.user);
                        each(&row);
                    }
                    None if bytes == 0 => return Ok(imported),
                    None => {}
                }
                reader.consume(used);
            }
        })
    }

    /// Adds all subscribers that `read` passes with their realm and the hashes of their password, in one transaction; a user that exists already is
    /// passed over. An error of `read` leaves the store as it was.
    ///
    /// # Errors
    /// `read` failed, or a query.
    pub fn add_hashed<T>(
        &self,
        read: impl FnOnce(
            &mut dyn FnMut(&UserName, &str, &Hashes) -> Result<bool, StoreError>,
        ) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.write(|transaction| {
            read(&mut |user, realm, hashes| insert(transaction, user, realm, hashes).map_err(self.sql()))
        })
    }

    fn import_row(
        &self,
        transaction: &Transaction<'_>,
        row: &UserRow<'_>,
        realm: &str,
    ) -> Result<(), String> {
        let user = &row.user;
        let hashes = user.hashes(realm, row.password).map_err(|unusable| unusable.to_string())?;
        if insert(transaction, user, realm, &hashes).map_err(|error| self.sql()(error).to_string())? {
            Ok(())
        } else {
            Err(format!("{user} exists already, in the store or in an earlier row; remove the row"))
        }
    }
}

impl Imported {
    fn add(&mut self, user: &UserName) {
        self.users += 1;
        if !self.domains.contains(user.domain()) {
            self.domains.insert(user.domain().to_owned());
        }
    }
}

fn bad_row(file: &Path, BadRow { line, detail }: BadRow) -> StoreError {
    StoreError::BadRow { file: file.to_owned(), line, detail }
}

fn unreadable(file: &Path, error: &io::Error) -> StoreError {
    bad_row(file, BadRow { line: 1, detail: error.to_string() })
}
