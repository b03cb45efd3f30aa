//! TLS of the connections to the server.

use anyhow::{Context as _, Result};
use ringway_tls::{InlineTls, Observer, TlsFiles, TlsMaterial};
use std::fmt;
use std::sync::Arc;

/// Certificates, and the host that the server must be. All connections of a load share the sessions that can be resumed.
#[derive(Clone)]
pub struct LoadTls {
    material: TlsMaterial,
    /// Name that the server's certificate must have; `None`: the address.
    name: Option<String>,
    observer: Arc<dyn Observer>,
}

impl LoadTls {
    /// Loads the files.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load(files: &TlsFiles, name: Option<String>, observer: Arc<dyn Observer>) -> Result<Self> {
        Ok(Self { material: files.load().context("TLS")?, name, observer })
    }

    /// Layers of one side, with counters of their own.
    pub(crate) fn layers(&self) -> InlineTls {
        InlineTls::new(self.material.clone(), Arc::clone(&self.observer))
    }

    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl fmt::Debug for LoadTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadTls").field("name", &self.name).finish_non_exhaustive()
    }
}
