//! Loaded configuration of both sides, of either library.

use crate::configs::Configs;
#[cfg(feature = "legacy-tls")]
use crate::configs::https_of;
use crate::connection::Connection;
use crate::files::{ClientAuth, TlsFiles};
#[cfg(feature = "legacy-tls")]
use crate::legacy::Contexts;
use crate::offer::Backend;
use crate::pem::TlsError;
use crate::verified::Verifiers;
use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::SystemTime;

/// Loaded configuration of both sides.
#[derive(Clone)]
pub struct TlsMaterial {
    sides: Sides,
    has_client_auth: bool,
    verifiers: Arc<Verifiers>,
    /// The same certificates for HTTPS, by rustls.
    https: Option<Arc<ServerConfig>>,
    expires: Option<SystemTime>,
}

#[derive(Clone)]
enum Sides {
    Rustls(Configs),
    #[cfg(feature = "legacy-tls")]
    OpenSsl(Arc<Contexts>),
}

impl TlsFiles {
    /// Loads everything.
    ///
    /// # Errors
    /// A file is missing or not valid; the error names the key and the file.
    pub fn load(&self) -> Result<TlsMaterial, TlsError> {
        let (sides, verifiers, https, expires) = match self.offer.backend() {
            #[cfg(feature = "legacy-tls")]
            Backend::OpenSsl => {
                let (contexts, expires) = Contexts::load(self)?;
                // rustls has no short keys: then there is no HTTPS.
                let https = https_of(self).ok().flatten();
                // No names of peers: this library is for experiments.
                (Sides::OpenSsl(Arc::new(contexts)), Arc::default(), https, expires)
            }
            // An offer has no library that is not in the build.
            #[cfg(not(feature = "legacy-tls"))]
            Backend::OpenSsl => return Err(TlsError::OpenSsl("not in this build".to_owned())),
            Backend::Rustls => {
                let configs = Configs::load(self)?;
                let (https, expires) = (configs.https.clone(), configs.expires);
                let verifiers = Arc::clone(&configs.verifiers);
                (Sides::Rustls(configs), verifiers, https, expires)
            }
        };
        let has_client_auth = self.client_auth != ClientAuth::None;
        Ok(TlsMaterial { sides, has_client_auth, verifiers, https, expires })
    }
}

impl TlsMaterial {
    /// Time at which the first of the server's own certificates expires.
    pub const fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// True if a certificate is requested of clients.
    pub(crate) const fn has_client_auth(&self) -> bool {
        self.has_client_auth
    }

    /// Verifiers of the peers whose names count.
    pub(crate) const fn verifiers(&self) -> &Arc<Verifiers> {
        &self.verifiers
    }

    /// Configuration for HTTPS with the server's certificates, which asks for no client certificate. `None`: there are none.
    pub(crate) fn https(&self) -> Option<Arc<ServerConfig>> {
        self.https.clone()
    }

    /// Connection of a peer that was accepted. `None`: there is no certificate.
    pub(crate) fn accept(&self) -> Option<Connection> {
        match &self.sides {
            Sides::Rustls(configs) => configs.accept(),
            #[cfg(feature = "legacy-tls")]
            Sides::OpenSsl(contexts) => contexts.accept().map(Connection::OpenSsl),
        }
    }

    /// Connection to a peer that was dialled, and must be `name`.
    pub(crate) fn dial(&self, name: ServerName<'static>) -> Option<Connection> {
        match &self.sides {
            Sides::Rustls(configs) => configs.dial(name),
            #[cfg(feature = "legacy-tls")]
            Sides::OpenSsl(contexts) => contexts.dial(name).map(Connection::OpenSsl),
        }
    }
}
