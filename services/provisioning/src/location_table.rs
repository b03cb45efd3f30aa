//! The table `ringway_location` and its statements.

use crate::ProvisioningError;
use crate::edit::tuples;
use crate::location_row::UserRows;
use ringway_database::{DatabaseError, DatabaseUrl, Engine, Server};
use std::time::Duration;

/// A connection to the table, for the rows of one node.
pub(crate) struct LocationTable {
    server: Server,
    node: String,
}

impl LocationTable {
    /// Connects; makes the table if it is absent.
    pub(crate) fn open(url: &DatabaseUrl, node: &str) -> Result<Self, ProvisioningError> {
        let mut server = Server::connect(url).map_err(ProvisioningError::Connect)?;
        if server.columns(TABLE)?.is_empty() {
            let create = match server.engine() {
                Engine::Postgres => include_str!("location_postgres.sql"),
                Engine::MySql => include_str!("location_mysql.sql"),
            };
            server.run(create.trim().trim_end_matches(';')).map_err(ProvisioningError::CreateLocation)?;
        }
        if server.engine() == Engine::MySql {
            // Without gaps between rows that are locked, in which other nodes insert theirs.
            server.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")?;
        }
        Ok(Self { server, node: node.to_owned() })
    }

    /// Time of the database's clock, for [`LocationTable::remove_before`].
    pub(crate) fn now(&mut self) -> Result<String, DatabaseError> {
        let query = match self.server.engine() {
            Engine::Postgres => "SELECT now()::text",
            Engine::MySql => "SELECT cast(unix_timestamp(current_timestamp(6)) AS char)",
        };
        let mut now = String::new();
        self.server
            .query(query, &mut |row| now = row.first().copied().flatten().unwrap_or_default().to_owned())?;
        Ok(now)
    }

    /// Makes the rows of these users and this node those given, in one transaction.
    pub(crate) fn replace(&mut self, users: &[UserRows]) -> Result<(), DatabaseError> {
        if users.is_empty() {
            return Ok(());
        }
        self.server.run(match self.server.engine() {
            Engine::Postgres => "BEGIN",
            Engine::MySql => "START TRANSACTION",
        })?;
        let done = self.replace_rows(users).and_then(|()| self.server.run("COMMIT"));
        if done.is_err() {
            // A connection that ended has no transaction.
            let _ = self.server.run("ROLLBACK");
        }
        done
    }

    fn replace_rows(&mut self, users: &[UserRows]) -> Result<(), DatabaseError> {
        let node = Some(self.node.as_str());
        let mut key: Vec<Option<&str>> =
            users.iter().flat_map(|user| [Some(user.domain.as_str()), Some(user.name.as_str())]).collect();
        key.push(node);
        let delete = format!(
            "DELETE FROM {TABLE} WHERE (domain, name) IN ({}) AND node = ${}",
            tuples(users.len(), 2),
            key.len()
        );
        self.server.execute(&delete, &key, &mut |_| {})?;
        let numbered =
            |user: &'_ UserRows| (1..=user.rows.len()).map(|number| number.to_string()).collect::<Vec<_>>();
        let numbers: Vec<Vec<String>> = users.iter().map(numbered).collect();
        let rows: Vec<[Option<&str>; COLUMNS]> = users
            .iter()
            .zip(&numbers)
            .flat_map(|(user, numbers)| {
                user.rows.iter().zip(numbers).map(move |(row, number)| (user, row, number))
            })
            .map(|(user, row, number)| {
                [
                    Some(user.domain.as_str()),
                    Some(user.name.as_str()),
                    node,
                    Some(number.as_str()),
                    Some(row.contact.as_str()),
                    Some(row.transport.as_str()),
                    Some(row.received.as_str()),
                    Some(row.path.as_str()),
                    row.instance.as_deref(),
                    Some(row.call_id.as_str()),
                    Some(row.cseq.as_str()),
                    Some(row.expires_in_s.as_str()),
                ]
            })
            .collect();
        for some in rows.chunks(ROWS_AT_ONCE) {
            let insert = insert(self.server.engine(), some.len());
            self.server.execute(&insert, some.as_flattened(), &mut |_| {})?;
        }
        Ok(())
    }

    /// Removes the rows of this node that were written before a time; returns their number.
    pub(crate) fn remove_before(&mut self, time: &str) -> Result<u64, DatabaseError> {
        let earlier = match self.server.engine() {
            Engine::Postgres => "updated < CAST($2 AS timestamptz)",
            Engine::MySql => "unix_timestamp(updated) < CAST($2 AS decimal(20, 6))",
        };
        let statement = format!("DELETE FROM {TABLE} WHERE node = $1 AND {earlier}");
        self.server.execute(&statement, &[Some(&self.node), Some(time)], &mut |_| {})
    }

    /// Waits; an error if the connection is closed, which MySQL does not tell.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<(), DatabaseError> {
        self.server.wait(time).map(drop)
    }
}

/// Checks that the table of a database is there and that its user may write it, without a trace.
///
/// # Errors
/// There is no connection, no table, or a right is missing.
pub fn check_location_table(url: &DatabaseUrl) -> Result<(), ProvisioningError> {
    let mut server = Server::connect(url).map_err(ProvisioningError::Connect)?;
    if server.columns(TABLE)?.is_empty() {
        return Err(ProvisioningError::NoLocationTable);
    }
    server.run(match server.engine() {
        Engine::Postgres => "BEGIN",
        Engine::MySql => "START TRANSACTION",
    })?;
    // The end of the connection is the end of the transaction.
    let key = ["", "", "", "1", "", "", "", "", "", "", "1", "0"].map(Some);
    let insert = insert(server.engine(), 1);
    server.execute(&insert, &key, &mut |_| {})?;
    server.execute(
        &format!("DELETE FROM {TABLE} WHERE node = $1 AND number = 1"),
        &[Some("")],
        &mut |_| {},
    )?;
    Ok(())
}

/// Statement that adds this number of rows. Expiries are by the clock of the database.
fn insert(engine: Engine, rows: usize) -> String {
    let [number, cseq, expires] = match engine {
        Engine::Postgres => {
            ["CAST(# AS integer)", "CAST(# AS bigint)", "now() + CAST(# AS integer) * interval '1 second'"]
        }
        Engine::MySql => [
            "CAST(# AS signed)",
            "CAST(# AS signed)",
            "current_timestamp + interval CAST(# AS signed) second",
        ],
    };
    let forms = ["#", "#", "#", number, "#", "#", "#", "#", "#", "#", cseq, expires];
    let row = |row: usize| {
        let values = forms
            .iter()
            .enumerate()
            .map(|(column, form)| form.replace('#', &format!("${}", row * COLUMNS + column + 1)));
        format!("({})", values.collect::<Vec<_>>().join(", "))
    };
    let values = (0..rows).map(row).collect::<Vec<_>>().join(", ");
    format!(
        "INSERT INTO {TABLE} (domain, name, node, number, contact, transport, received, path, instance, call_id, cseq, expires) \
         VALUES {values}"
    )
}

const TABLE: &str = "ringway_location";

/// Columns that are written; the last one has a default.
const COLUMNS: usize = 12;

/// Rows of one statement: databases limit the number of its parameters, PostgreSQL to 65,535.
const ROWS_AT_ONCE: usize = 1000;

const _: () = assert!(ROWS_AT_ONCE * COLUMNS <= 65_535);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_row_is_a_parameter() {
        for engine in [Engine::Postgres, Engine::MySql] {
            let statement = insert(engine, 2);
            for number in 1..=2 * COLUMNS {
                let is_used = statement.matches(&format!("${number}")).any(|_| true);
                assert!(is_used, "{number}: {statement}");
            }
            assert_eq!(statement.matches('$').count(), 2 * COLUMNS, "{statement}");
        }
    }
}
