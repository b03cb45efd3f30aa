//! Loaded configuration of both sides, of either library.

use crate::Role;
#[cfg(feature = "legacy-tls")]
use crate::configs::https_of;
use crate::configs::{Certificates, Configs};
use crate::connection::Connection;
use crate::files::{ClientAuth, TlsError, TlsFiles, load_crls, next_update};
use crate::identity::{Verifiers, covers, names_of};
#[cfg(feature = "legacy-tls")]
use crate::legacy::Contexts;
use crate::offer::Backend;
use crate::report::describe;
use ringway_sansio::PeerNames;
use rustls::ServerConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
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
    /// The same certificates for DTLS; `None` with OpenSSL.
    certificates: Option<Arc<Certificates>>,
    expires: Option<SystemTime>,
    lists_expire: Option<SystemTime>,
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
        let (sides, verifiers, https, certificates, expires) = match self.offer.backend() {
            #[cfg(feature = "legacy-tls")]
            Backend::OpenSsl => {
                let (contexts, expires) = Contexts::load(self)?;
                // rustls has no short keys: then there is no HTTPS.
                let https = https_of(self).ok().flatten();
                // No names of peers: this library is for experiments.
                (Sides::OpenSsl(Arc::new(contexts)), Arc::default(), https, None, expires)
            }
            // An offer has no library that is not in the build.
            #[cfg(not(feature = "legacy-tls"))]
            Backend::OpenSsl => return Err(TlsError::OpenSsl("not in this build".to_owned())),
            Backend::Rustls => {
                let configs = Configs::load(self)?;
                let (https, expires) = (configs.https.clone(), configs.expires);
                let verifiers = Arc::clone(&configs.verifiers);
                let certificates = configs.certificates.clone();
                (Sides::Rustls(configs), verifiers, https, certificates, expires)
            }
        };
        let has_client_auth = self.client_auth != ClientAuth::None;
        let lists = self.crl.as_deref().map(load_crls).transpose()?;
        let lists_expire = lists.as_deref().and_then(next_update);
        Ok(TlsMaterial { sides, has_client_auth, verifiers, https, certificates, expires, lists_expire })
    }
}

impl TlsMaterial {
    /// Material of links, whose clients need a certificate.
    pub(crate) fn of_configs(configs: Configs) -> Self {
        let verifiers = Arc::clone(&configs.verifiers);
        Self {
            sides: Sides::Rustls(configs),
            has_client_auth: true,
            verifiers,
            https: None,
            certificates: None,
            expires: None,
            lists_expire: None,
        }
    }

    /// Time at which the first of the server's own certificates expires.
    pub const fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// Time at which the first revocation list should have been replaced by its next one. A later revocation is in none of them.
    pub const fn lists_expire(&self) -> Option<SystemTime> {
        self.lists_expire
    }

    /// Certificate for a client that asks for this name, by another protocol with the same certificates. `None`: there is none, or
    /// OpenSSL has it.
    pub fn certificate(&self, server_name: Option<&str>) -> Option<&Arc<CertifiedKey>> {
        self.certificates.as_ref().map(|own| own.of(server_name))
    }

    /// True if the certificate for clients that ask for this host name has it. `None`: there is no certificate, OpenSSL has it, or
    /// it is no host name.
    pub fn covers(&self, host: &str) -> Option<bool> {
        let first = self.certificate(Some(host))?.cert.first()?;
        Some(covers(first, &ServerName::try_from(host).ok()?))
    }

    /// Verifies the certificates of a server that was dialled as `name`, by another protocol (RFC 5922). Returns the names that
    /// count, if there are any.
    ///
    /// # Errors
    /// They are not accepted, with the reason for a log.
    pub fn verify_server(
        &self,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
    ) -> Result<Option<PeerNames>, String> {
        let Some((first, others)) = chain.split_first() else { return Err("there is none".to_owned()) };
        let Some(servers) = &self.verifiers.servers else { return Ok(None) };
        match servers.verify_server_cert(first, others, name, &[], UnixTime::now()) {
            Ok(_) => Ok(names_of(first, true).and_then(Result::ok)),
            Err(error) => Err(describe(&error, Role::Client)),
        }
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

    /// Connection of a peer that was accepted. `None`: there is no certificate. `challenge`: configuration for authorities that verify a
    /// domain, which OpenSSL does not have.
    pub(crate) fn accept(&self, challenge: Option<&Arc<ServerConfig>>) -> Option<Connection> {
        match &self.sides {
            Sides::Rustls(configs) => configs.accept(challenge),
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
