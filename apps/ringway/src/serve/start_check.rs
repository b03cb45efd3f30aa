//! Errors of a start that are found without it, for `ringway check`.

use super::{provisioning, records, tls};
use crate::config::{Config, ConfigError};
use crate::failure::Failure;
use ringway_store::Store;
use std::path::Path;

/// Errors of files, and of the database of users, with which a start with the configuration in `file` would end. Nothing is changed, and
/// no port is tried: a running server has them.
pub(crate) fn start_errors(config: &Config, file: &Path) -> Vec<ConfigError> {
    let of_store = || provisioning::check(config, Store::open_existing(&config.store.url)?);
    let checked: [(&str, Result<(), Failure>); 3] = [
        ("[tls]", tls::check(config)),
        ("[store]", of_store()),
        ("[records]", records::check(&config.records)),
    ];
    let failed = checked.into_iter().filter_map(|(section, checked)| Some((section, checked.err()?)));
    let error = |(section, failure): (&str, Failure)| {
        let line = failure.lines().join("; ");
        // Most lines begin with the key.
        let named = line.split_once(": ").filter(|(key, _)| key.starts_with(section));
        let (key, message) = named.unwrap_or((section, &line));
        ConfigError {
            file: file.display().to_string(),
            line: 0,
            key: key.to_owned(),
            message: message.to_owned(),
        }
    };
    failed.map(error).collect()
}
