//! The tables of this program in PostgreSQL and MySQL, and their triggers.

use crate::ProvisioningError;
use ringway_database::{DatabaseUrl, Engine, Server};

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

/// Names of the first tables and views of a database, those of other programs too; none if it is empty.
///
/// # Errors
/// The database failed.
pub fn table_names(url: &DatabaseUrl) -> Result<Vec<String>, ProvisioningError> {
    let mut server = Server::connect(url).map_err(ProvisioningError::Connect)?;
    let query = match server.engine() {
        Engine::Postgres => {
            "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' \
             ORDER BY 1 LIMIT 5"
        }
        Engine::MySql => {
            "SELECT table_name FROM information_schema.tables WHERE table_schema = database() ORDER BY 1 LIMIT 5"
        }
    };
    let mut names = Vec::new();
    server.query(query, &mut |row| names.extend(row.first().copied().flatten().map(str::to_owned)))?;
    Ok(names)
}

/// Removes the tables of this program with all users, and what belongs to them. Tables that are absent are no error.
///
/// # Errors
/// The database failed.
pub fn remove_tables(url: &DatabaseUrl) -> Result<(), ProvisioningError> {
    let mut server = Server::connect(url).map_err(ProvisioningError::Connect)?;
    let made_by = match server.engine() {
        Engine::Postgres => POSTGRES,
        Engine::MySql => MYSQL,
    };
    for statement in removal(made_by) {
        server.run(&statement)?;
    }
    Ok(())
}

/// Statements that remove what these statements make. Triggers go with their tables.
fn removal(made_by: &str) -> impl Iterator<Item = String> {
    let statement = |line: &str| {
        let of = |made: &str, kind: &str| {
            let name = line.strip_prefix(made)?.split(' ').next()?;
            Some(format!("DROP {kind} IF EXISTS {name}"))
        };
        of("CREATE TABLE IF NOT EXISTS ", "TABLE").or_else(|| of("CREATE OR REPLACE FUNCTION ", "FUNCTION"))
    };
    made_by.lines().filter_map(statement)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_made_is_removed() {
        let tables = ["subscriber", "contact", "forward", "change", "meta"];
        let tables = tables.map(|table| format!("DROP TABLE IF EXISTS ringway_{table}"));
        let functions = ["note_change", "forget_forwards"];
        let functions = functions.map(|function| format!("DROP FUNCTION IF EXISTS ringway_{function}()"));
        assert_eq!(removal(MYSQL).collect::<Vec<_>>(), tables);
        assert_eq!(removal(POSTGRES).collect::<Vec<_>>(), [&tables[..], &functions].concat());
    }
}
