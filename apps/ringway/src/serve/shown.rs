//! Configuration in force, as the admin API shows it. Neither a listing nor a reload waits for the other.

use super::listeners::ListenerTable;
use crate::config::Config;
use ringway_admin::ServerInfo;
use serde_json::{Map, Value, json};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Configuration in force, without secrets.
#[derive(Default)]
pub(super) struct ShownConfig {
    current: RwLock<Current>,
}

#[derive(Default)]
struct Current {
    info: ServerInfo,
    keys: Map<String, Value>,
}

impl ShownConfig {
    /// Shows a configuration.
    pub(super) fn of(config: &Config, listeners: &ListenerTable) -> Self {
        let shown = Self::default();
        shown.set(config, listeners.shown());
        shown
    }

    /// Replaces it. `listeners` have their actual ports.
    pub(super) fn set(&self, config: &Config, listeners: Vec<String>) {
        let file = config.file.as_ref().map(|file| file.display().to_string());
        let info =
            ServerInfo { domains: config.server.domains.clone(), listeners, file, ..ServerInfo::default() };
        let keys = config.keys.shown().map(|(key, value)| (key.to_owned(), json!(value.to_string())));
        let current = Current { info, keys: keys.collect() };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// File, domains and listeners.
    pub(super) fn info(&self) -> ServerInfo {
        self.read().info.clone()
    }

    /// Domain of users who are named without one.
    pub(super) fn default_domain(&self) -> String {
        self.read().info.domains.first().cloned().unwrap_or_default()
    }

    /// File and keys.
    pub(super) fn to_json(&self) -> Value {
        let current = self.read();
        json!({ "file": current.info.file, "keys": current.keys })
    }

    /// Keys in force.
    pub(super) fn keys(&self) -> Value {
        Value::Object(self.read().keys.clone())
    }

    fn read(&self) -> RwLockReadGuard<'_, Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner)
    }
}
