//! The table `ringway_location`, its rows and statements.

use crate::connection::{DatabaseError, DatabaseUrl, Engine, Server};
use crate::provisioning::ProvisioningError;
use crate::provisioning::edit::tuples;
use std::net::SocketAddr;
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

/// A registration of this node, as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRegistration {
    /// Contact URI.
    pub contact: Vec<u8>,
    /// Transport of the REGISTER.
    pub transport: String,
    /// Source address of the REGISTER.
    pub received: SocketAddr,
    /// Path values, the first hop first.
    pub path: Vec<Vec<u8>>,
    /// Instance of the phone, if the contact names one.
    pub instance: Option<Vec<u8>>,
    /// Call-ID of the REGISTER.
    pub call_id: Vec<u8>,
    /// CSeq of the REGISTER.
    pub cseq: u32,
    /// Seconds until it ends.
    pub expires_in_s: u64,
}

/// A user with all its rows of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserRows {
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
}

/// Texts of a row that any database takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) contact: String,
    transport: String,
    received: String,
    pub(crate) path: String,
    instance: Option<String>,
    call_id: String,
    cseq: String,
    expires_in_s: String,
}

impl UserRows {
    /// The rows of a user; `None` if the columns cannot have its name, as that of a user without a password can be.
    pub(crate) fn new(aor: &[u8], registrations: &[LiveRegistration]) -> Option<Self> {
        let (name, domain) = std::str::from_utf8(aor).ok()?.rsplit_once('@')?;
        let fits = |text: &str| !text.contains('\0') && text.chars().count() <= NAME_CHARS_MAX;
        let rows = registrations.iter().map(Row::new).collect();
        (fits(name) && fits(domain)).then(|| Self { domain: domain.to_owned(), name: name.to_owned(), rows })
    }
}

impl Row {
    fn new(registration: &LiveRegistration) -> Self {
        let path: Vec<String> = registration.path.iter().map(|value| escaped(value)).collect();
        Self {
            contact: escaped(&registration.contact),
            transport: registration.transport.clone(),
            received: registration.received.to_string(),
            path: path.join(", "),
            instance: registration.instance.as_deref().map(escaped),
            call_id: escaped(&registration.call_id),
            cseq: registration.cseq.to_string(),
            expires_in_s: registration.expires_in_s.to_string(),
        }
    }
}

/// Text in ASCII, which a database of any encoding takes: other bytes become `%` and two digits, as in a URI.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                text.push('%');
                text.extend(
                    [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789ABCDEF"[usize::from(digit)])),
                );
            }
        }
    }
    text
}

/// Maximum length of the columns of name and domain.
const NAME_CHARS_MAX: usize = 255;

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

    #[test]
    fn what_a_phone_sends_becomes_text_that_every_database_takes() {
        let registration = LiveRegistration {
            contact: b"sip:\xE4'; DROP TABLE x\0@192.0.2.1".to_vec(),
            transport: "udp".to_owned(),
            received: ([192, 0, 2, 1], 5060).into(),
            path: vec![b"<sip:a;lr>".to_vec(), b"<sip:b;lr>".to_vec()],
            instance: None,
            call_id: b"1\r\n".to_vec(),
            cseq: u32::MAX,
            expires_in_s: 60,
        };
        let user = UserRows::new(b"a@b@example.org", &[registration]).unwrap();
        assert_eq!((user.name.as_str(), user.domain.as_str()), ("a@b", "example.org"));
        let row = &user.rows[0];
        assert_eq!(row.contact, "sip:%E4'; DROP TABLE x%00@192.0.2.1");
        assert_eq!((row.path.as_str(), row.call_id.as_str()), ("<sip:a;lr>, <sip:b;lr>", "1%0D%0A"));
        assert_eq!((row.received.as_str(), row.cseq.as_str()), ("192.0.2.1:5060", "4294967295"));
    }

    #[test]
    fn names_that_the_columns_cannot_have_are_passed_over() {
        let long = format!("{}@b", "a".repeat(NAME_CHARS_MAX + 1));
        for aor in [&b"no domain"[..], b"\xFF@b", b"a\0@b", long.as_bytes()] {
            assert_eq!(UserRows::new(aor, &[]), None, "{}", aor.escape_ascii());
        }
        assert!(UserRows::new("ä@b".as_bytes(), &[]).is_some());
    }
}
