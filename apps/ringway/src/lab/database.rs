//! The operator's database for experiments that read passwords from one.

use super::run_args::RunArgs;
use crate::failure::Failure;
use ringway_lab::campaign::target::UserDatabase;
use ringway_lab::server::Database;
use ringway_sql::connection::DatabaseUrl;
use ringway_sql::provisioning::{remove_tables, table_names};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The database of `--database`, which must be empty: its tables are removed after each use. The password is copied into `folder`.
pub(super) fn open(args: &RunArgs, folder: &Path) -> Result<Option<UserDatabase>, Failure> {
    let Some(text) = &args.database else { return Ok(None) };
    let refused = |why: &dyn std::fmt::Display| Failure::usage(format!("--database: {why}"));
    let mut url = DatabaseUrl::parse(text).map_err(|error| refused(&error))?;
    if url.has_password() {
        let why = "the URL is written into the results; give its password with --database-password-file";
        return Err(refused(&why));
    }
    let shown = url.shown();
    let mut password_file = None;
    if let Some(file) = &args.database_password_file {
        let password = super::users::password(file)?;
        let copied = copy(&password, folder);
        password_file = Some(
            copied.map_err(|error| Failure::failed(format!("cannot copy {}: {error}", file.display())))?,
        );
        url = url.with_password(&password);
    }
    // As the server, which has its defaults.
    if !url.is_loopback() {
        url = url.with_tls(ringway_tls::authorities("ca", None).map_err(|error| refused(&error))?);
    }
    let names = table_names(&url).map_err(|error| Failure::failed(format!("--database {shown}: {error}")))?;
    if !names.is_empty() {
        let why = format!(
            "{shown} is not empty, it has {}; the lab removes all users that it finds in its database: make an empty one",
            names.join(", ")
        );
        return Err(refused(&why));
    }
    let database = Database { url: shown, password_file };
    Ok(Some(UserDatabase::new(database, Box::new(move || Ok(remove_tables(&url)?)))))
}

/// Writes a password as the server wants it: in a file that others cannot read.
fn copy(password: &str, folder: &Path) -> std::io::Result<PathBuf> {
    let path = folder.join("database-password");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    writeln!(file, "{password}")?;
    Ok(path)
}
