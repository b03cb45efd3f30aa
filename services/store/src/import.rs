//! Import of subscribers from a CSV file, all or none.

use super::subscribers::insert;
use super::{Store, StoreError, UserName};
use ringway_users::{BadRow, Hashes, UserList, UserRow};
use rusqlite::Transaction;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Rows between two calls of `progress`.
const PROGRESS_ROWS: u64 = 1000;

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
    /// returns the realm of a domain, `progress` gets the number of bytes read.
    ///
    /// # Errors
    /// The file cannot be read, or its header or a row is invalid; the error names the line, and nothing is imported.
    pub fn import<'r>(
        &self,
        file: &Path,
        domain: &str,
        realm_of: impl Fn(&str) -> &'r str,
        mut progress: impl FnMut(u64),
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
                        if imported.users.is_multiple_of(PROGRESS_ROWS) {
                            progress(row.byte);
                        }
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
