//! Subscribers of another server.

use crate::database::SUBSCRIBERS;
use crate::{Database, MigrationError};
use ringway_database::hex;

/// A subscriber of another server, unchecked: all texts can have any value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Account<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its domain; empty if the server has users without one.
    pub domain: &'a str,
    /// Its password, if that is stored.
    pub password: Option<&'a str>,
    /// H(A1) with MD5, if that is stored.
    pub md5: Option<[u8; 16]>,
    /// H(A1) with SHA-256, if that is stored.
    pub sha256: Option<[u8; 32]>,
}

/// Passes each subscriber to `each`; returns their number.
///
/// # Errors
/// A query failed.
pub fn read_accounts(
    database: &mut Database,
    mut each: impl FnMut(Account<'_>),
) -> Result<u64, MigrationError> {
    let columns =
        ["username", "domain", "password", "ha1", database.origin().sha256_column().unwrap_or_default()];
    let mut accounts = 0;
    database.rows(SUBSCRIBERS, &columns, &mut |row| {
        let [name, domain, password, md5, sha256] = row else { return };
        accounts += 1;
        each(Account {
            name: name.unwrap_or_default(),
            domain: domain.unwrap_or_default(),
            password: password.filter(|password| !password.is_empty()),
            md5: md5.and_then(hex),
            sha256: sha256.and_then(hex),
        });
    })?;
    Ok(accounts)
}
