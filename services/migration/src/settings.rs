//! Settings in another server's database.

use crate::{Database, MigrationError};
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
