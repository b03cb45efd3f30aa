//! `[store]`: the file of users, and the database that they come from; files with a password.

use super::{Reader, Section};
use ringway_sql::connection::DatabaseUrl;
use ringway_store::{Durability, StoreUrl};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// `[store]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreConfig {
    /// The file of this node; with a database its copy.
    pub(crate) url: StoreUrl,
    /// Database that users come from.
    pub(crate) database: Option<DatabaseUrl>,
    /// Query of the operator's own tables in it.
    pub(crate) query: Option<StoreQuery>,
    /// Registrations are written into a table of the database.
    pub(crate) write_back: bool,
    /// Each request with a password reads it from the database, for measurements.
    pub(crate) danger_lookup: bool,
    pub(crate) durability: Durability,
}

impl StoreConfig {
    /// Database whose tables are those of this program: users are changed there.
    pub(crate) fn tables(&self) -> Option<&DatabaseUrl> {
        self.database.as_ref().filter(|_| self.has_tables())
    }

    /// True unless users come from the operator's own tables.
    pub(crate) fn has_tables(&self) -> bool {
        self.query.is_none()
    }
}

/// Query of the operator's own tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreQuery {
    /// Returns all users.
    pub(crate) all: String,
    /// Returns the users that changed lately.
    pub(crate) changed: Option<String>,
    /// Seconds between two runs of `all`.
    pub(crate) interval_s: u32,
}

pub(super) fn read(reader: &mut Reader<'_>, top: &mut Section<'_, '_>) -> StoreConfig {
    let mut section = top.section(reader, "store");
    let given = section.text(reader, "url");
    let (url, database) = match given {
        None => {
            section.note_default(reader, "url", || "\"sqlite://ringway.db\"".to_owned());
            (StoreUrl::Sqlite(FILE.into()), None)
        }
        Some((text, at)) => match store_url(text) {
            Ok(Given::File(url)) => (url, None),
            Ok(Given::Database(url)) => database(reader, &mut section, url),
            Err(why) => {
                reader.error(at, section.path("url"), why);
                (StoreUrl::Memory, None)
            }
        },
    };
    if database.is_none() {
        for key in DATABASE_KEYS {
            section.refuse(reader, key, "it is for a postgres:// or mysql:// url");
        }
    }
    let query = database.as_ref().and_then(|_| query(reader, &mut section));
    let write_back = database.is_some() && section.switch(reader, "write_back", false);
    let danger_lookup = database.is_some() && danger_lookup(reader, &mut section, query.is_some());
    let words = [("relaxed", Durability::Relaxed), ("strict", Durability::Strict)];
    let durability = section.word(reader, "durability", Durability::Relaxed, &words);
    section.finish(reader);
    StoreConfig { url, database, query, write_back, danger_lookup, durability }
}

/// The value of `url`.
enum Given {
    File(StoreUrl),
    Database(DatabaseUrl),
}

fn store_url(text: &str) -> Result<Given, String> {
    if text == "memory:" {
        return Ok(Given::File(StoreUrl::Memory));
    }
    match text.split_once("://") {
        Some(("sqlite", file)) if !file.is_empty() && !file.contains('\0') => {
            Ok(Given::File(StoreUrl::Sqlite(file.into())))
        }
        Some(("postgres" | "postgresql" | "mysql" | "mariadb", _)) => {
            DatabaseUrl::parse(text).map(Given::Database).map_err(|error| error.to_string())
        }
        // The rest can have a password.
        Some((scheme, _)) => Err(format!(
            "the scheme {scheme:?} is that of no store; give \"sqlite://FILE\", \"postgres://USER@HOST/NAME\", \
             \"mysql://USER@HOST/NAME\" or \"memory:\""
        )),
        None => Err(format!(
            "{text:?} is not a store URL; give \"sqlite://FILE\", \"postgres://USER@HOST/NAME\", \"mysql://USER@HOST/NAME\" or \
             \"memory:\""
        )),
    }
}

fn database(
    reader: &mut Reader<'_>,
    section: &mut Section<'_, '_>,
    url: DatabaseUrl,
) -> (StoreUrl, Option<DatabaseUrl>) {
    let copy = match section.text(reader, "copy") {
        None => {
            section.note_default(reader, "copy", || format!("\"{FILE}\""));
            FILE
        }
        Some((file, at)) => {
            if file.is_empty() || file.contains('\0') {
                reader.error(
                    at,
                    section.path("copy"),
                    "is no name of a file; give for example \"ringway.db\"",
                );
            }
            file
        }
    };
    let password = section.text(reader, "password_file").map(|(file, at)| {
        read_password(file).unwrap_or_else(|why| {
            reader.error(at, section.path("password_file"), format!("{file:?} {why}"));
            String::new()
        })
    });
    let url = match password {
        Some(_) if url.has_password() => {
            let at = section.place("password_file").unwrap_or_default();
            let why = "the url has a password too; leave it out there";
            reader.error(at, section.path("password_file"), why);
            url
        }
        Some(password) => url.with_password(&password),
        None => url,
    };
    let url = protected(reader, section, url);
    (StoreUrl::Sqlite(copy.into()), Some(url))
}

fn query(reader: &mut Reader<'_>, section: &mut Section<'_, '_>) -> Option<StoreQuery> {
    let mut text = |key| {
        let (text, at) = section.text(reader, key)?;
        if text.len() > QUERY_BYTES_MAX || text.trim().is_empty() {
            let message = format!(
                "give one statement of at most {QUERY_BYTES_MAX} bytes, as SELECT username, ha1 FROM users"
            );
            reader.error(at, section.path(key), message);
        }
        Some(text.trim().trim_end_matches(';').to_owned())
    };
    let (all, changed) = (text("query"), text("query_changed"));
    let Some(all) = all else {
        for key in ["query_changed", "query_interval_s"] {
            section.refuse(reader, key, "it goes with query, which returns all users");
        }
        return None;
    };
    let default = if changed.is_some() { INTERVAL_S } else { INTERVAL_ALONE_S };
    let interval_s = section.number(reader, "query_interval_s", default, 1..=86_400);
    Some(StoreQuery { all, changed, interval_s })
}

fn danger_lookup(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, has_query: bool) -> bool {
    if has_query {
        section.refuse(reader, "danger_lookup", "it reads the tables of Ringway, not those of query");
        return false;
    }
    section.word(reader, "danger_lookup", false, &[("off", false), ("per-request", true)])
}

/// The URL with what protects its connections.
fn protected(reader: &mut Reader<'_>, section: &mut Section<'_, '_>, url: DatabaseUrl) -> DatabaseUrl {
    let default = if url.is_loopback() { Tls::None } else { Tls::Required };
    let tls = section.word(reader, "tls", default, &[("required", Tls::Required), ("none", Tls::None)]);
    let ca = section.text(reader, "ca");
    section.note_default(reader, "ca", || "\"system\"".to_owned());
    if tls == Tls::None {
        return url;
    }
    let file = ca.map(|(text, _)| text).filter(|text| *text != "system").map(Path::new);
    match ringway_tls::authorities("ca", file) {
        Ok(authorities) => url.with_tls(authorities),
        Err(error) => {
            let at = ca.map_or(0, |(_, at)| at);
            reader.error(at, section.path("ca"), error.to_string());
            url
        }
    }
}

/// `tls`
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tls {
    Required,
    None,
}

/// File of users, and of the copy, in the current folder.
const FILE: &str = "ringway.db";

/// Keys that only a database has.
const DATABASE_KEYS: [&str; 9] = [
    "copy",
    "password_file",
    "tls",
    "ca",
    "query",
    "query_changed",
    "query_interval_s",
    "write_back",
    "danger_lookup",
];

const QUERY_BYTES_MAX: usize = 4096;

/// Seconds between two runs of `query` beside `query_changed`, and without it.
const INTERVAL_S: u32 = 300;
const INTERVAL_ALONE_S: u32 = 5;

/// Password in the first line of a file that others cannot read; the error is what is wrong, and the remedy.
pub(super) fn read_password(file: &str) -> Result<String, String> {
    match lines(file)?.into_iter().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line),
        None => Err("is empty; write the password into its first line".to_owned()),
    }
}

/// Lines of such a file.
pub(super) fn lines(file: &str) -> Result<Vec<String>, String> {
    let unreadable = |error| format!("cannot be read: {error}; check the path");
    let metadata = fs::metadata(file).map_err(unreadable)?;
    if metadata.len() > PASSWORD_BYTES_MAX || !metadata.is_file() {
        return Err("is no file of at most 1 KiB; give one with the password, or secret, in its first line"
            .to_owned());
    }
    if metadata.permissions().mode() & 0o007 != 0 {
        return Err(format!("is open to every user of this machine; run `chmod o= {file}`"));
    }
    let text = fs::read_to_string(file).map_err(unreadable)?;
    Ok(text.lines().map(str::to_owned).collect())
}

const PASSWORD_BYTES_MAX: u64 = 1024;
