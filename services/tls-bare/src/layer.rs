//! A TLS connection as a layer of a stream connection, on either side, and the layers of a station's connections,
//! accepted and dialled. Certificate and key of a server, from a PEM file.
//!
//! ```text
//! waiting --its role begins it--> handshake --ended--> open --close_notify, error--> closed
//!     +--> closed: no TLS             +--> closed: alert sent, counted
//! ```

use crate::HandshakeCounters;
use crate::gate::Gate;
use crate::provider::provider;
use crate::role::{
    Accepted, Begin, Dialled, RECORD_BYTES_MAX, Records, Role, advance, close_notify, encrypt, write_alert,
};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use ringway_sansio::{Flow, Instant, Seed, Transport};
use ringway_stream::{Decoded, Encoded, Layer, LayerError, PassThrough, StreamLayers};
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::time_provider::TimeProvider;
use rustls::unbuffered::WriteTraffic;
use rustls::{ClientConfig, Error, ServerConfig, pki_types};

/// TLS by rustls.
struct TlsLayer<R: Role> {
    state: State<R::Connection>,
    role: R,
    /// Received bytes that rustls has not consumed: a part of a record, or of a handshake message.
    input: Vec<u8>,
    /// Messages to send after the handshake.
    kept: Vec<u8>,
}

enum State<C> {
    /// The role has not begun the handshake.
    Waiting,
    Handshake(Box<C>),
    Open(Box<C>),
    Closed,
}

impl<R: Role> TlsLayer<R> {
    pub(crate) const fn new(role: R) -> Self {
        Self { state: State::Waiting, role, input: Vec::new(), kept: Vec::new() }
    }

    /// Begins the handshake if the role does.
    fn begin(&mut self) -> Result<(), LayerError> {
        let State::Waiting = &self.state else { return Ok(()) };
        match self.role.begin(&self.input) {
            Begin::Waits => Ok(()),
            Begin::Begins(connection) => {
                self.state = State::Handshake(connection);
                Ok(())
            }
            Begin::NotTls => {
                self.close();
                Err(LayerError("no TLS on a TLS port"))
            }
            Begin::Failed(error) => self.fail(&error),
        }
    }

    /// Lets rustls process the received bytes.
    fn process(
        &mut self,
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        let (State::Handshake(connection) | State::Open(connection)) = &mut self.state else { return Ok(()) };
        let result = advance(&mut **connection, &mut self.input, decoded, wire, |_, _| Ok(()));
        match result {
            Ok(false) => Ok(()),
            Ok(true) => self.open(wire),
            Err(error) => {
                write_alert(&mut **connection, &mut self.input, wire);
                self.fail(&error)
            }
        }
    }

    /// Ends the handshake, and sends the messages that were kept.
    fn open(&mut self, wire: &mut Vec<u8>) -> Result<(), LayerError> {
        let State::Handshake(_) = &self.state else { return Ok(()) };
        self.role.ended();
        self.role.completed();
        if let State::Handshake(connection) = core::mem::replace(&mut self.state, State::Closed) {
            self.state = State::Open(connection);
        }
        match core::mem::take(&mut self.kept) {
            kept if kept.is_empty() => Ok(()),
            kept => self.write(wire, |traffic, wire| encrypt(traffic, &kept, wire)),
        }
    }

    /// Calls rustls for bytes to be sent.
    fn write(
        &mut self,
        wire: &mut Vec<u8>,
        write: impl FnMut(&mut WriteTraffic<'_, Data<R>>, &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), LayerError> {
        let State::Open(connection) = &mut self.state else {
            return Err(LayerError("the TLS connection is closed"));
        };
        match advance(&mut **connection, &mut self.input, &mut |_| {}, wire, write) {
            Ok(true) => Ok(()),
            Ok(false) => Err(LayerError("the TLS connection takes no more data")),
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &Error) -> Result<(), LayerError> {
        if self.is_handshaking() {
            self.role.failed(error);
        }
        self.close();
        Err(LayerError("the TLS connection failed"))
    }

    fn close(&mut self) {
        if self.is_handshaking() {
            self.role.ended();
        }
        self.state = State::Closed;
        self.input = Vec::new();
        self.kept = Vec::new();
    }
}

/// State of a role's side.
type Data<R> = <<R as Role>::Connection as Records>::Data;

impl<R: Role> fmt::Debug for TlsLayer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsLayer").finish_non_exhaustive()
    }
}

impl<R: Role> Layer for TlsLayer<R> {
    fn start(&mut self, wire: &mut Vec<u8>) {
        // A failure is counted, and the next call returns it.
        let _ = self.begin().and_then(|()| self.process(&mut |_| {}, wire));
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        if matches!(self.state, State::Closed) {
            return Err(LayerError("the TLS connection is closed"));
        }
        // Of an open connection, whole records are processed below, so that one is buffered at most.
        let most =
            if self.is_handshaking() { R::HANDSHAKE_BYTES_MAX } else { RECORD_BYTES_MAX + bytes.len() };
        if self.input.len() + bytes.len() > most {
            return self.fail(&Error::General("the handshake has too many bytes".to_string()));
        }
        self.input.extend_from_slice(bytes);
        self.resume(decoded, wire)
    }

    fn resume(&mut self, decoded: &mut dyn FnMut(Decoded<'_>), wire: &mut Vec<u8>) -> Result<(), LayerError> {
        if self.input.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let result = self.process(decoded, wire);
        if self.input.len() < INPUT_BYTES_KEPT {
            self.input.shrink_to(INPUT_BYTES_KEPT);
        }
        result
    }

    fn encode(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        if self.is_handshaking() {
            self.kept.extend_from_slice(message);
            return Ok(Encoded::Appended);
        }
        self.write(wire, |traffic, wire| encrypt(traffic, message, wire))?;
        Ok(Encoded::Appended)
    }

    fn finish(&mut self, wire: &mut Vec<u8>) {
        if let State::Open(_) = &self.state {
            // The connection is closed in any case.
            let _ = self.write(wire, close_notify);
        }
    }

    fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Waiting | State::Handshake(_))
    }

    fn held_bytes(&self) -> usize {
        let state = match &self.state {
            State::Waiting | State::Closed => 0,
            State::Handshake(_) => HANDSHAKE_BYTES,
            State::Open(_) => OPEN_BYTES,
        };
        state + self.input.capacity() + self.kept.capacity()
    }
}

impl<R: Role> Drop for TlsLayer<R> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Layers of TCP connections and, with [`TlsLayers::set_credentials`], of accepted TLS connections.
pub struct TlsLayers {
    server: Option<Arc<ServerConfig>>,
    gate: Rc<Gate>,
    clock: Arc<Clock>,
}

impl TlsLayers {
    /// Creates layers that refuse TLS connections.
    pub fn new(now: Instant) -> Self {
        Self { server: None, gate: Rc::new(Gate::new(now)), clock: Arc::new(Clock::new(now)) }
    }

    /// Accepts TLS connections with this certificate and key. `seed` is the source of the connections' random numbers; it
    /// must be unpredictable, and not be used elsewhere.
    ///
    /// # Errors
    /// The key is not an ECDSA key on P-256, or the certificate is not the key's.
    pub fn set_credentials(&mut self, credentials: Credentials, seed: &Seed) -> Result<(), CredentialsError> {
        self.server = Some(credentials.into_config(seed, Arc::clone(&self.clock))?);
        Ok(())
    }

    /// Counters of handshakes.
    pub fn counters(&self) -> HandshakeCounters {
        self.gate.counters()
    }

    /// Number of handshakes in progress.
    pub fn handshakes(&self) -> usize {
        self.gate.in_progress()
    }

    /// First failure of a handshake since the last call: the peer and the reason.
    pub fn take_failure(&self) -> Option<(SocketAddr, String)> {
        self.gate.take_failure()
    }
}

impl fmt::Debug for TlsLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsLayers").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl StreamLayers for TlsLayers {
    type Layer = Box<dyn Layer>;

    fn resumes(&self) -> bool {
        self.gate.is_awaited()
    }

    fn begin_turn(&mut self, now: Instant) {
        self.clock.set(now);
        self.gate.begin_turn(now);
    }

    fn accept(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        match flow.transport {
            Transport::Tcp => Some(Box::new(PassThrough)),
            Transport::Tls => {
                let config = Arc::clone(self.server.as_ref()?);
                let is_in = self.gate.enter(flow.remote.ip());
                let role = || Accepted::new(config, flow.remote, Rc::clone(&self.gate));
                is_in.then(|| Box::new(TlsLayer::new(role())) as Box<dyn Layer>)
            }
            Transport::Udp | Transport::Ws | Transport::Wss | Transport::Dtls => None,
        }
    }

    fn dial(&mut self, flow: &Flow) -> Option<Box<dyn Layer>> {
        (flow.transport == Transport::Tcp).then(|| Box::new(PassThrough) as Box<dyn Layer>)
    }
}

/// Layers of dialled TLS connections, whose servers a verifier accepts.
pub struct TlsClient {
    config: Arc<ClientConfig>,
    /// For its counters: dialled handshakes have no limits of their own.
    gate: Rc<Gate>,
    clock: Arc<Clock>,
}

impl TlsClient {
    /// Creates a client without a certificate. `seed` is the source of the connections' random numbers; it must be
    /// unpredictable, and not be used elsewhere.
    ///
    /// # Errors
    /// rustls does not accept the provider.
    pub fn new(
        verifier: Arc<dyn ServerCertVerifier>,
        seed: &Seed,
        now: Instant,
    ) -> Result<Self, CredentialsError> {
        let clock = Arc::new(Clock::new(now));
        let time = Arc::clone(&clock) as Arc<_>;
        let builder = ClientConfig::builder_with_details(Arc::new(provider(seed)), time)
            .with_safe_default_protocol_versions()
            .map_err(|error| CredentialsError::Unusable(error.to_string()))?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let mut config = builder.with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), gate: Rc::new(Gate::new(now)), clock })
    }

    /// Sets the time for the verification of certificates.
    pub fn set_time(&self, now: Instant) {
        self.clock.set(now);
    }

    /// Layer of a connection to the host `name`; without a name, to the host with the address. `None`: it is not a name.
    pub fn layer(&self, remote: SocketAddr, name: Option<&str>) -> Option<Box<dyn Layer>> {
        let name = match name {
            Some(name) => ServerName::try_from(name.to_string()).ok()?,
            None => ServerName::IpAddress(match remote.ip() {
                IpAddr::V4(address) => pki_types::IpAddr::V4(address.octets().into()),
                IpAddr::V6(address) => pki_types::IpAddr::V6(address.segments().into()),
            }),
        };
        let role = Dialled::new(Arc::clone(&self.config), remote, name, Rc::clone(&self.gate));
        Some(Box::new(TlsLayer::new(role)))
    }

    /// Counters of its handshakes.
    pub fn counters(&self) -> HandshakeCounters {
        self.gate.counters()
    }

    /// First failure of a handshake since the last call: the peer and the reason.
    pub fn take_failure(&self) -> Option<(SocketAddr, String)> {
        self.gate.take_failure()
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

/// Certificate chain and private key of a server.
#[derive(Debug)]
pub struct Credentials {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Error of [`Credentials`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialsError {
    /// A block of PEM (RFC 7468) is damaged.
    Pem,
    /// There is no `CERTIFICATE` block.
    NoCertificate,
    /// There is no private key, in PKCS#8 or SEC1, or more than one.
    NotOneKey,
    /// Key or certificate cannot be used; with the reason.
    Unusable(String),
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pem => f.write_str("the file is not valid PEM"),
            Self::NoCertificate => f.write_str("the file has no certificate (-----BEGIN CERTIFICATE-----)"),
            Self::NotOneKey => {
                f.write_str("the file must have one private key (-----BEGIN PRIVATE KEY-----)")
            }
            Self::Unusable(why) => write!(f, "the certificate or its key cannot be used: {why}"),
        }
    }
}

impl Credentials {
    /// Reads a PEM file with one private key and its certificate, followed by the certificates of its authorities.
    ///
    /// # Errors
    /// The file is damaged, or the key or the certificate is missing.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CredentialsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let keys: Result<Vec<_>, _> = PrivateKeyDer::pem_slice_iter(pem).collect();
        let (chain, keys) =
            (chain.map_err(|_| CredentialsError::Pem)?, keys.map_err(|_| CredentialsError::Pem)?);
        if chain.is_empty() {
            return Err(CredentialsError::NoCertificate);
        }
        let [key] = <[_; 1]>::try_from(keys).map_err(|_| CredentialsError::NotOneKey)?;
        Ok(Self { chain, key })
    }

    /// Makes the configuration of a server whose random numbers come from `seed`.
    fn into_config(self, seed: &Seed, time: Arc<Clock>) -> Result<Arc<ServerConfig>, CredentialsError> {
        let unusable = |error: rustls::Error| CredentialsError::Unusable(error.to_string());
        let builder = ServerConfig::builder_with_details(Arc::new(provider(seed)), time);
        let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?.with_no_client_auth();
        let mut config = builder.with_single_cert(self.chain, self.key).map_err(unusable)?;
        // No state of strangers is kept after their connections.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }
}

/// Time of the machine's last turn, for rustls.
#[derive(Debug)]
struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn new(now: Instant) -> Self {
        Self(AtomicU64::new(now.as_secs()))
    }

    fn set(&self, now: Instant) {
        self.0.store(now.as_secs(), Ordering::Relaxed);
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.load(Ordering::Relaxed))))
    }
}

/// Capacity of the input buffer that is kept between records: most messages.
const INPUT_BYTES_KEPT: usize = 2048;
/// Approximate memory of a connection during its handshake, and after it, in bytes.
const HANDSHAKE_BYTES: usize = 8 << 10;
const OPEN_BYTES: usize = 4 << 10;
