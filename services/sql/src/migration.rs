//! Users and settings in the databases of other SIP servers. Subscribers and settings in another server's tables. A
//! database of another server, opened for reading: the servers, the names of their tables, errors.
//!
//! Does: reads subscribers ([`read_accounts`]) and what can be expressed as settings ([`read_settings`]) of Kamailio and OpenSIPS from
//! SQLite, MySQL, MariaDB and PostgreSQL; tells which tables were left alone.
//!
//! Does not: write anything, read scripts, or decide what becomes of a user.
//!
//! Start reading at [`Database::open`].

use crate::connection::{DatabaseUrl, Server, UrlError, hex};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use std::borrow::Cow;
use std::net::IpAddr;
use std::path::Path;

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

/// A database of another server.
pub struct Database {
    reader: Reader,
    url: String,
    origin: Origin,
}

enum Reader {
    File(Connection),
    Server(Box<Server>),
}

impl Database {
    /// Opens the database of `origin` by its URL: `sqlite://FILE`, `mysql://USER@HOST/NAME`, `postgres://USER@HOST/NAME`, without TLS.
    /// `password` replaces that of the URL.
    ///
    /// # Errors
    /// The URL is none of these; the database cannot be opened, or has no subscribers.
    pub fn open(origin: Origin, url: &str, password: Option<&str>) -> Result<Self, MigrationError> {
        let (reader, url) = match url.strip_prefix("sqlite://") {
            Some(file) => (open_file(url, file)?, url.to_owned()),
            None => open_server(url, password)?,
        };
        let mut database = Self { reader, url, origin };
        let found = database.columns(SUBSCRIBERS)?;
        if !["username", "domain"].into_iter().all(|needed| found.iter().any(|column| column == needed)) {
            return Err(MigrationError::NoSubscribers { url: database.url, origin: origin.name() });
        }
        Ok(database)
    }

    /// The server whose database it is.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Its URL without a password.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Names of a table's columns; none if there is no table.
    pub(crate) fn columns(&mut self, table: &str) -> Result<Vec<String>, MigrationError> {
        let columns = match &mut self.reader {
            Reader::File(connection) => file_columns(connection, table).map_err(|error| error.to_string()),
            Reader::Server(server) => server.columns(table).map_err(|error| error.to_string()),
        };
        columns.map_err(|why| self.failed(table, why))
    }

    /// Number of rows of a table; 0 if there is none.
    pub(crate) fn count(&mut self, table: &str) -> Result<u64, MigrationError> {
        if self.columns(table)?.is_empty() {
            return Ok(0);
        }
        let mut count = 0;
        self.query(table, &["count(*)"], &mut |row| {
            count = row.first().copied().flatten().and_then(|count| count.parse().ok()).unwrap_or_default();
        })?;
        Ok(count)
    }

    /// Passes the values of `columns` in each row of a table: none for a column that the table does not have or whose name is
    /// empty, for NULL, and for a value of more than [`VALUE_BYTES_MAX`]. No rows if there is no table.
    pub(crate) fn rows(
        &mut self,
        table: &str,
        columns: &[&str],
        each: &mut dyn FnMut(&[Option<&str>]),
    ) -> Result<(), MigrationError> {
        let found = self.columns(table)?;
        if found.is_empty() {
            return Ok(());
        }
        let is_found = |column: &str| found.iter().any(|name| name == column);
        let columns = columns.iter().map(|column| if is_found(column) { column } else { "NULL" });
        self.query(table, &columns.collect::<Vec<_>>(), &mut |row| {
            let bounded = row.iter().map(|value| value.filter(|value| value.len() <= VALUE_BYTES_MAX));
            each(&bounded.collect::<Vec<_>>());
        })
    }

    /// Passes the values of expressions in each row of a table.
    fn query(
        &mut self,
        table: &str,
        expressions: &[&str],
        each: &mut dyn FnMut(&[Option<&str>]),
    ) -> Result<(), MigrationError> {
        let query = format!("SELECT {} FROM {table}", expressions.join(", "));
        let read = match &mut self.reader {
            Reader::File(connection) => {
                file_rows(connection, &query, each).map_err(|error| error.to_string())
            }
            Reader::Server(server) => server.query(&query, each).map_err(|error| error.to_string()),
        };
        read.map_err(|why| self.failed(table, why))
    }

    fn failed(&self, table: &str, why: String) -> MigrationError {
        MigrationError::Query { url: self.url.clone(), table: table.to_owned(), why }
    }
}

fn open_file(url: &str, file: &str) -> Result<Reader, MigrationError> {
    let failed = |why: String| MigrationError::Open { url: url.to_owned(), why };
    // SQLite would say the same of a file that is absent as of one that is not readable.
    std::fs::File::open(Path::new(file)).map_err(|error| failed(error.to_string()))?;
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    connection.map(Reader::File).map_err(|error| failed(error.to_string()))
}

fn open_server(url: &str, password: Option<&str>) -> Result<(Reader, String), MigrationError> {
    let mut parsed = DatabaseUrl::parse(url).map_err(|error| match error {
        UrlError::NoDatabase(shown) | UrlError::NoUser(shown) | UrlError::Parameters(shown) => {
            MigrationError::Url(shown)
        }
    })?;
    if let Some(password) = password {
        parsed = parsed.with_password(password);
    }
    let url = parsed.shown();
    match Server::connect(&parsed) {
        Ok(server) => Ok((Reader::Server(Box::new(server)), url)),
        Err(why) => Err(MigrationError::Open { url, why: why.to_string() }),
    }
}

fn file_columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT lower(name) FROM pragma_table_info(?1)")?;
    statement.query_map([table], |row| row.get(0))?.collect()
}

fn file_rows(
    connection: &Connection,
    query: &str,
    each: &mut dyn FnMut(&[Option<&str>]),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(query)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let texts = (0..columns).map(|column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Text(text) => std::str::from_utf8(text).ok().map(Cow::Borrowed),
                ValueRef::Integer(number) => Some(Cow::Owned(number.to_string())),
                ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => None,
            })
        });
        let texts = texts.collect::<rusqlite::Result<Vec<Option<Cow<'_, str>>>>>()?;
        each(&texts.iter().map(Option::as_deref).collect::<Vec<_>>());
    }
    Ok(())
}

/// The table of subscribers.
const SUBSCRIBERS: &str = "subscriber";

/// Maximum size of a value in bytes.
const VALUE_BYTES_MAX: usize = 1024;

/// A server whose database is read. The two have a common ancestor, and most of their tables in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Kamailio 4 to 6.
    Kamailio,
    /// OpenSIPS 2 to 4.
    OpenSips,
}

impl Origin {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kamailio => "Kamailio",
            Self::OpenSips => "OpenSIPS",
        }
    }

    /// Column of H(A1) with SHA-256.
    const fn sha256_column(self) -> Option<&'static str> {
        match self {
            Self::Kamailio => None,
            Self::OpenSips => Some("ha1_sha256"),
        }
    }

    /// Table and columns of networks: address, prefix length, group, remark.
    pub(crate) const fn addresses(self) -> (&'static str, [&'static str; 4]) {
        match self {
            Self::Kamailio => ("address", ["ip_addr", "mask", "grp", "tag"]),
            Self::OpenSips => ("address", ["ip", "mask", "grp", "context_info"]),
        }
    }

    /// Table and columns of accounts at other servers: host, user name.
    pub(crate) const fn registrations(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Kamailio => ("uacreg", ["r_domain", "auth_username"]),
            Self::OpenSips => ("registrant", ["registrar", "username"]),
        }
    }

    /// Tables that are not read but say how the server worked, with what to do about them.
    const fn left_tables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Kamailio => &KAMAILIO,
            Self::OpenSips => &OPENSIPS,
        }
    }
}

const ALIASES: (&str, &str) = ("dbaliases", "aliases of users: `ringway user bind ALIAS sip:USER@DOMAIN`");
const DIALPLAN: (&str, &str) = ("dialplan", "number rules: [[route]] with strip and add");
const DISPATCHER: (&str, &str) = ("dispatcher", "servers behind this one: [[trunk]] and [[route]]");
const GATEWAYS: (&str, &str) = ("dr_gateways", "gateways: [[trunk]]");
const RULES: (&str, &str) = ("dr_rules", "prefixes: [[route]]");
const BLACKLIST: (&str, &str) = ("userblacklist", "blocked numbers: `ringway block add`, [[destination]]");
const PREFERENCES: (&str, &str) =
    ("usr_preferences", "settings that a script reads: forwards are `ringway user forward`");
const SPEED_DIAL: (&str, &str) = ("speed_dial", "speed dial: no counterpart");
const LOCATION: (&str, &str) = ("location", "registrations: phones register again");

const KAMAILIO: [(&str, &str); 11] = [
    ALIASES,
    DIALPLAN,
    DISPATCHER,
    GATEWAYS,
    RULES,
    BLACKLIST,
    PREFERENCES,
    SPEED_DIAL,
    LOCATION,
    ("lcr_gw", "gateways: [[trunk]]"),
    ("lcr_rule", "prefixes: [[route]]"),
];

const OPENSIPS: [(&str, &str); 10] = [
    ALIASES,
    DIALPLAN,
    DISPATCHER,
    GATEWAYS,
    RULES,
    BLACKLIST,
    PREFERENCES,
    SPEED_DIAL,
    LOCATION,
    ("load_balancer", "servers behind this one: [[trunk]] and [[route]] with weights"),
];

/// Error of reading another server's database.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The URL is none of a database that can be read.
    #[error(
        "{0:?} is no database; write sqlite:///etc/kamailio/kamailio.sqlite, mysql://USER@HOST/kamailio or postgres://USER@HOST/kamailio"
    )]
    Url(String),
    /// The database cannot be opened.
    #[error("{url}: it cannot be opened: {why}; check the address, the name and --password-stdin")]
    Open {
        /// The database, without a password.
        url: String,
        /// The reason.
        why: String,
    },
    /// A query failed.
    #[error("{url}: table {table}: {why}")]
    Query {
        /// The database, without a password.
        url: String,
        /// The table.
        table: String,
        /// The reason.
        why: String,
    },
    /// The database has no table of subscribers.
    #[error(
        "{url}: it has no table `subscriber` with the columns username and domain; is it the database of {origin}?"
    )]
    NoSubscribers {
        /// The database, without a password.
        url: String,
        /// The server that was named.
        origin: &'static str,
    },
}
