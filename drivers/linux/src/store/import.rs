//! Many subscribers from a CSV file, all of them or none.

use super::subscribers::insert;
use super::{Store, StoreError, UserName};
use csv::{ErrorKind, ReaderBuilder, StringRecord, Trim};
use rusqlite::Transaction;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

/// How often progress is told, in rows.
const PROGRESS_ROWS: u64 = 1000;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Subscribers added.
    pub users: u64,
    /// The domains they are in.
    pub domains: BTreeSet<String>,
}

/// Where the columns are.
struct Columns {
    username: usize,
    password: usize,
    domain: Option<usize>,
}

impl Store {
    /// Adds all subscribers of a CSV file whose header names `username`, `password` and perhaps `domain`, in any order.
    /// A row without a domain is of `domain`. `progress` hears of bytes read.
    ///
    /// # Errors
    /// The file cannot be read, its header is another, or a row is wrong, which is then named: nothing is imported.
    pub fn import(
        &self,
        file: &Path,
        domain: &str,
        realm: &str,
        mut progress: impl FnMut(u64),
    ) -> Result<Imported, StoreError> {
        let opened = File::open(file).map_err(StoreError::io(file, "open"))?;
        let mut reader = ReaderBuilder::new().trim(Trim::Headers).from_reader(opened);
        let columns = columns(reader.headers().map_err(|error| bad_csv(file, &error))?)
            .map_err(|detail| bad_row(file, 1, detail))?;
        self.write(|transaction| {
            let mut imported = Imported::default();
            let mut row = StringRecord::new();
            while reader.read_record(&mut row).map_err(|error| bad_csv(file, &error))? {
                let line = row.position().map_or(0, csv::Position::line);
                let user = self.import_row(transaction, &columns, &row, domain, realm).map_err(|error| {
                    let detail = match error {
                        StoreError::Exists(user) => {
                            format!(
                                "{user} is there already, in the store or in a row above; take the row out"
                            )
                        }
                        other => other.to_string(),
                    };
                    bad_row(file, line, detail)
                })?;
                imported.users += 1;
                if !imported.domains.contains(user.domain()) {
                    imported.domains.insert(user.domain().to_owned());
                }
                if imported.users.is_multiple_of(PROGRESS_ROWS) {
                    progress(row.position().map_or(0, csv::Position::byte));
                }
            }
            Ok(imported)
        })
    }

    fn import_row(
        &self,
        transaction: &Transaction<'_>,
        columns: &Columns,
        row: &StringRecord,
        domain: &str,
        realm: &str,
    ) -> Result<UserName, StoreError> {
        let field = |column: usize| row.get(column).unwrap_or_default();
        let own = columns.domain.map(field).filter(|own| !own.is_empty());
        let user = UserName::new(field(columns.username), own.unwrap_or(domain))?;
        let ha1 = user.ha1(realm, field(columns.password))?;
        if insert(transaction, &user, realm, &ha1).map_err(self.sql())? {
            Ok(user)
        } else {
            Err(StoreError::Exists(user.to_string()))
        }
    }
}

fn columns(header: &StringRecord) -> Result<Columns, String> {
    let (mut username, mut password, mut domain) = (None, None, None);
    for (index, name) in header.iter().enumerate() {
        // Spreadsheets begin a UTF-8 file with a byte order mark.
        let name = name.strip_prefix('\u{feff}').unwrap_or(name);
        let column = match name {
            "username" => &mut username,
            "password" => &mut password,
            "domain" => &mut domain,
            other => {
                return Err(format!(
                    "unknown column {other:?}; the header is username,password and perhaps domain"
                ));
            }
        };
        if column.replace(index).is_some() {
            return Err(format!("the column {name} is there twice"));
        }
    }
    match (username, password) {
        (Some(username), Some(password)) => Ok(Columns { username, password, domain }),
        (None, _) => Err("the column username is missing; the header is username,password".to_owned()),
        (Some(_), None) => Err("the column password is missing; the header is username,password".to_owned()),
    }
}

fn bad_row(file: &Path, line: u64, detail: String) -> StoreError {
    StoreError::BadRow { file: file.to_owned(), line, detail }
}

fn bad_csv(file: &Path, error: &csv::Error) -> StoreError {
    let line = error.position().map_or(1, csv::Position::line);
    let detail = match error.kind() {
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("the row has {len} fields and the header {expected_len}; quote a field that has a comma")
        }
        ErrorKind::Utf8 { .. } => "the row is not UTF-8; save the file as UTF-8".to_owned(),
        _ => error.to_string(),
    };
    bad_row(file, line, detail)
}
