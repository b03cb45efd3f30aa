//! TLS of the connections to the server.

use anyhow::{Context as _, Result};
use ringway_tls::{InlineTls, Observer, Role, TlsFiles, TlsMaterial};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// Certificates, and the host that the server must be. All connections of a load share the sessions that can be resumed.
#[derive(Clone)]
pub struct LoadTls {
    material: TlsMaterial,
    /// Name that the server's certificate must have; `None`: the address.
    name: Option<String>,
    reports: Arc<Reports>,
}

/// Passes reports of handshakes on, and keeps the reason of the first one.
struct Reports {
    first: OnceLock<String>,
    observer: Arc<dyn Observer>,
}

impl Observer for Reports {
    fn failed(&self, remote: SocketAddr, role: Role, reason: &str) {
        self.first.get_or_init(|| reason.to_owned());
        self.observer.failed(remote, role, reason);
    }
}

impl LoadTls {
    /// Loads the files.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn load(files: &TlsFiles, name: Option<String>, observer: Arc<dyn Observer>) -> Result<Self> {
        let reports = Arc::new(Reports { first: OnceLock::new(), observer });
        Ok(Self { material: files.load().context("TLS")?, name, reports })
    }

    /// Layers of one side, with counters of their own.
    pub(crate) fn layers(&self) -> InlineTls {
        InlineTls::new(self.material.clone(), Arc::clone(&self.reports) as Arc<dyn Observer>)
    }

    /// Reason of the first handshake that failed.
    pub(crate) fn first_failure(&self) -> Option<&str> {
        self.reports.first.get().map(String::as_str)
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
