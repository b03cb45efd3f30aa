//! The tables of this program in PostgreSQL and MySQL, and their triggers.

use crate::ProvisioningError;
use ringway_database::{Engine, Server};

/// Channel of PostgreSQL's notifications.
pub(crate) const CHANNEL: &str = "ringway_change";

/// Treatment of tables that are absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// They are made.
    Create,
    /// It is an error.
    IsError,
}

/// Checks the tables and their triggers.
pub(crate) fn ensure(server: &mut Server, absent: Absent) -> Result<(), ProvisioningError> {
    let mut version = None;
    if !server.columns("ringway_meta")?.is_empty() {
        version = meta(server, "version")?;
    }
    if version.is_none() && absent == Absent::Create {
        create(server)?;
        version = meta(server, "version")?;
    }
    match version.as_deref() {
        Some(VERSION) => {}
        None => return Err(ProvisioningError::Incomplete),
        Some(found) => return Err(ProvisioningError::Newer { found: found.to_owned(), known: VERSION }),
    }
    let triggers = match server.engine() {
        Engine::Postgres => {
            "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal AND tgrelid IN \
             ('ringway_subscriber'::regclass, 'ringway_contact'::regclass, 'ringway_forward'::regclass)"
        }
        Engine::MySql => {
            "SELECT count(*) FROM information_schema.triggers WHERE trigger_schema = database() AND trigger_name LIKE 'ringway\\_%'"
        }
    };
    let wanted = match server.engine() {
        Engine::Postgres => POSTGRES.matches("CREATE OR REPLACE TRIGGER").count(),
        Engine::MySql => MYSQL.matches("CREATE TRIGGER").count(),
    };
    let mut found = 0;
    server.query(triggers, &mut |row| {
        found = row.first().copied().flatten().and_then(|count| count.parse().ok()).unwrap_or_default();
    })?;
    if found < wanted { Err(ProvisioningError::Incomplete) } else { Ok(()) }
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
