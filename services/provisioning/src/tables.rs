//! The tables of this program in PostgreSQL and MySQL, and their triggers.

use crate::ProvisioningError;
use ringway_database::{Engine, Server};

/// Channel of PostgreSQL's notifications.
pub(crate) const CHANNEL: &str = "ringway_change";

/// Makes the tables if they are absent. Returns the identity of the database, which is made with them.
pub(crate) fn ensure(server: &mut Server) -> Result<String, ProvisioningError> {
    let mut version = None;
    if !server.columns("ringway_meta")?.is_empty() {
        version = meta(server, "version")?;
    }
    if version.is_none() {
        create(server)?;
        version = meta(server, "version")?;
    }
    if version.as_deref() != Some(VERSION) {
        let found = version.unwrap_or_else(|| "?".to_owned());
        return Err(ProvisioningError::Newer { found, known: 1 });
    }
    Ok(meta(server, "identity")?.unwrap_or_default())
}

fn meta(server: &mut Server, key: &str) -> Result<Option<String>, ProvisioningError> {
    let mut value = None;
    let query = format!("SELECT value FROM ringway_meta WHERE name = '{key}'");
    server.query(&query, &mut |row| value = row.first().copied().flatten().map(str::to_owned))?;
    Ok(value)
}

fn create(server: &mut Server) -> Result<(), ProvisioningError> {
    let statements = match server.engine() {
        Engine::Postgres => POSTGRES,
        Engine::MySql => MYSQL,
    };
    // Nodes that start together make the tables one after the other; the second finds them.
    for statement in statements.split("\n\n").filter(|statement| !statement.trim().is_empty()) {
        server.run(statement.trim().trim_end_matches(';')).map_err(ProvisioningError::Create)?;
    }
    Ok(())
}

/// Version of the tables.
const VERSION: &str = "1";

/// Statements for PostgreSQL, separated by empty lines.
const POSTGRES: &str = include_str!("postgres.sql");

/// Statements for MySQL, separated by empty lines.
const MYSQL: &str = include_str!("mysql.sql");
