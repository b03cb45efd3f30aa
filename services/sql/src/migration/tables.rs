//! Subscribers and settings in another server's tables.

use crate::connection::hex;
use crate::migration::database::SUBSCRIBERS;
use crate::migration::{Database, MigrationError};
use std::net::IpAddr;

/// Settings of another server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Its domains, as they are written there.
    pub domains: Vec<String>,
    /// Networks that its script trusts in some way.
    pub addresses: Vec<Address>,
    /// Its accounts at other servers.
    pub registrations: Vec<Registration>,
    /// Tables with rows that were not read.
    pub left: Vec<LeftTable>,
}

/// A network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its address.
    pub address: IpAddr,
    /// Prefix length in bits.
    pub prefix: u8,
    /// Group that the script asks for, and a remark.
    pub remark: String,
}

/// An account at another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The other server, as it is written there.
    pub server: String,
    /// User name there.
    pub user: String,
}

/// A table that was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftTable {
    /// Its name.
    pub table: &'static str,
    /// Number of its rows.
    pub rows: u64,
    /// Its content, and the counterpart here.
    pub remark: &'static str,
}

/// Reads the settings of a server; tables that it does not have are empty.
///
/// # Errors
/// A query failed.
pub fn read_settings(database: &mut Database) -> Result<Settings, MigrationError> {
    let origin = database.origin();
    let mut settings = Settings::default();
    database.rows("domain", &["domain"], &mut |row| {
        if let [Some(domain)] = row {
            push(&mut settings.domains, (*domain).to_owned());
        }
    })?;
    let (table, columns) = origin.addresses();
    database.rows(table, &columns, &mut |row| push(&mut settings.addresses, address(row)))?;
    database.rows("trusted", &["src_ip", "", "", "tag"], &mut |row| {
        push(&mut settings.addresses, address(row));
    })?;
    let (table, columns) = origin.registrations();
    database.rows(table, &columns, &mut |row| {
        if let [Some(server), Some(user)] = row {
            let (server, user) = ((*server).to_owned(), (*user).to_owned());
            push(&mut settings.registrations, Registration { server, user });
        }
    })?;
    for (table, remark) in origin.left_tables() {
        let rows = database.count(table)?;
        if rows > 0 {
            settings.left.push(LeftTable { table, rows, remark });
        }
    }
    Ok(settings)
}

fn push<T>(list: &mut Vec<T>, item: impl Into<Option<T>>) {
    if let Some(item) = item.into()
        && list.len() < ENTRIES_MAX
    {
        list.push(item);
    }
}

/// Reads address, prefix length, group, remark. An address that is none, as `any`, is passed over.
fn address(row: &[Option<&str>]) -> Option<Address> {
    let [Some(address), mask, group, tag] = row else { return None };
    let address: IpAddr = address.trim().parse().ok()?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = mask.and_then(|mask| mask.trim().parse().ok()).filter(|prefix| *prefix <= bits);
    let group = group.map_or_else(|| "trusted".to_owned(), |group| format!("group {group}"));
    let remark = match tag.filter(|tag| !tag.is_empty()) {
        Some(tag) => format!("{group}, {tag}"),
        None => group,
    };
    Some(Address { address, prefix: prefix.unwrap_or(bits), remark })
}

/// Maximum number of entries of a list.
const ENTRIES_MAX: usize = 1000;

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
