//! TLS-ALPN-01 of ACME (RFC 8737): while an authority verifies a domain, a ClientHello with the protocol `acme-tls/1` gets the certificate of
//! the challenge, and all others what they get otherwise.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::DnsName;
use rustls::server::{Accepted, Acceptor, ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Connection, Error, ServerConfig};
use std::collections::HashMap;
use std::sync::Arc;

/// Configuration for connections of authorities. `None`: no challenge is under way.
pub(crate) fn config_of(
    certificates: HashMap<String, Arc<CertifiedKey>>,
) -> Result<Option<Arc<ServerConfig>>, Error> {
    if certificates.is_empty() {
        return Ok(None);
    }
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Certificates(certificates)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Some(Arc::new(config)))
}

/// True for a connection of an authority: it ends with its handshake (RFC 8737 §3).
pub(crate) fn is_of_authority(connection: &Connection) -> bool {
    connection.alpn_protocol() == Some(PROTOCOL)
}

/// An accepted connection before its ClientHello is complete.
pub(crate) struct Undecided {
    acceptor: Acceptor,
    usual: Arc<ServerConfig>,
    challenge: Arc<ServerConfig>,
    /// Alert of a refused ClientHello.
    pub(crate) alert: Vec<u8>,
}

impl Undecided {
    pub(crate) fn new(usual: Arc<ServerConfig>, challenge: Arc<ServerConfig>) -> Self {
        Self { acceptor: Acceptor::default(), usual, challenge, alert: Vec::new() }
    }

    /// Takes received bytes, those that are used off the front. Returns the connection once its ClientHello is complete.
    pub(crate) fn receive(&mut self, bytes: &mut &[u8]) -> Result<Option<Connection>, Error> {
        while !bytes.is_empty() {
            let too_much = |_| Error::General("the peer sent too much at once".to_owned());
            if self.acceptor.read_tls(bytes).map_err(too_much)? == 0 {
                return Ok(None);
            }
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let config = if is_challenge(&accepted) { &self.challenge } else { &self.usual };
                    let made = accepted.into_connection(Arc::clone(config));
                    return made
                        .map(|connection| Some(connection.into()))
                        .map_err(|refused| self.refuse(refused));
                }
                Err(refused) => return Err(self.refuse(refused)),
            }
        }
        Ok(None)
    }

    fn refuse(&mut self, (error, mut alert): (Error, rustls::server::AcceptedAlert)) -> Error {
        // Writing to memory does not fail.
        let _ = alert.write_all(&mut self.alert);
        error
    }
}

fn is_challenge(accepted: &Accepted) -> bool {
    accepted
        .client_hello()
        .alpn()
        .is_some_and(|mut offered| offered.next() == Some(PROTOCOL) && offered.next().is_none())
}

/// Certificates of challenges by domain; none for other names.
#[derive(Debug)]
struct Certificates(HashMap<String, Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = DnsName::try_from(hello.server_name()?).ok()?;
        self.0.get(name.to_lowercase_owned().as_ref()).cloned()
    }
}

/// Application protocol of the challenge.
const PROTOCOL: &[u8] = b"acme-tls/1";
