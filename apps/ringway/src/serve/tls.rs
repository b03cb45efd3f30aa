//! TLS of the running server: the files of its certificates, their expiry, and the log of failed handshakes.

use super::acme::{self, CertificateOrders};
use super::log_lines::LineRates;
use crate::config::Config;
use crate::failure::Failure;
use ringway_admin::{Stat, Stats};
use ringway_dtls::{DtlsLimits, DtlsTransport};
use ringway_linux::{Clock, Hosts};
use ringway_sansio::{Seed, Transport};
use ringway_server::{ClusterSecret, Links, node_domain};
use ringway_stream::WebSocketServer;
use ringway_tls::{HandshakeLimits, LinkTls, Observer, Role, TlsError, TlsFiles, TlsLayers, TlsMaterial};
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Layers of the server's connections, with their files.
pub(super) struct ServerTls {
    files: TlsFiles,
    layers: Arc<TlsLayers>,
    /// `None`: there is no DTLS listener.
    dtls: Option<Arc<DtlsTransport>>,
    /// Thread that orders certificates.
    orders: Arc<CertificateOrders>,
    /// Certificates of links to other nodes.
    of_links: Option<TlsMaterial>,
    expiry: Expiry,
    /// Times of the last change of the files, as far as they could be read.
    changed: Vec<Option<SystemTime>>,
    checked: Instant,
    /// Times of the last warnings, in the order of [`Expiry::warnings`].
    warned: [Option<Instant>; 2],
}

/// Times at which files of `[tls]` expire.
#[derive(Clone, Copy)]
pub(crate) struct Expiry {
    certificate: Option<SystemTime>,
    lists: Option<SystemTime>,
    /// True for a certificate that is renewed by orders, which have warnings of their own.
    is_ordered: bool,
}

/// Warning of a file that has expired, or expires soon.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExpiryWarning {
    Expired(&'static str),
    Soon(String),
}

impl Expiry {
    pub(crate) fn of(material: &TlsMaterial) -> Self {
        Self { certificate: material.expires(), lists: material.lists_expire(), is_ordered: false }
    }

    /// The same; `is_ordered`: orders renew the certificate, and have warnings of their own.
    pub(crate) fn of_orders(self, is_ordered: bool) -> Self {
        Self { is_ordered, ..self }
    }

    /// Warnings of the certificate, and of the revocation lists. Lists are valid for days only, so that they have no warning before.
    pub(crate) fn warnings(&self, now: SystemTime) -> [Option<ExpiryWarning>; 2] {
        let certificate = self.certificate.and_then(|expires| match expires.duration_since(now) {
            Err(_) => Some(ExpiryWarning::Expired(EXPIRED_CERTIFICATE)),
            Ok(left) if left < WARN_BEFORE && !self.is_ordered => {
                let days = left.as_secs() / 86_400;
                Some(ExpiryWarning::Soon(format!("a certificate of [tls] expires in {days} days; renew it")))
            }
            Ok(_) => None,
        });
        let lists = self.lists.filter(|expires| *expires < now).map(|_| ExpiryWarning::Expired(EXPIRED_LIST));
        [certificate, lists]
    }
}

impl fmt::Display for ExpiryWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired(line) => line,
            Self::Soon(line) => line,
        })
    }
}

impl ServerTls {
    /// Loads the files and starts the threads for handshakes.
    pub(super) fn start(
        config: &Config,
        hosts: Arc<Hosts>,
        clock: Clock,
        seed: &Seed,
    ) -> Result<Self, Failure> {
        let files = &config.tls;
        acme::prepare(config)?;
        let material = load(files)?;
        let expiry = Expiry::of(&material).of_orders(config.acme.is_some());
        let rates = Mutex::new(LineRates::new((LINES_PER_SOURCE_S, LINES_S), &seed.part(LINE_RATES)));
        let log = Arc::new(HandshakeLog { rates, clock });
        let dtls = match has_dtls(config) {
            false => None,
            true => {
                let (material, seed) = (material.clone(), seed.part(COOKIES));
                let made =
                    DtlsTransport::server(material, seed, DtlsLimits::default(), Arc::clone(&log) as _);
                Some(Arc::new(made.map_err(|error| Failure::configuration(vec![error.to_string()]))?))
            }
        };
        let layers = TlsLayers::start(material, hosts, HandshakeLimits::default(), log)
            .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
        let changed = changed(files);
        let (files, checked) = (files.clone(), Instant::now());
        let (layers, of_links, warned) = (Arc::new(layers), link_material(config)?, [None; 2]);
        let orders = Arc::default();
        Ok(Self { files, layers, dtls, orders, of_links, expiry, changed, checked, warned })
    }

    /// Orders certificates from now on, if the configuration says so.
    pub(super) fn start_orders(&self, config: &Config) -> Result<(), Failure> {
        self.orders.start(config, &self.layers)
    }

    /// Thread that orders certificates.
    pub(super) fn orders(&self) -> Arc<CertificateOrders> {
        Arc::clone(&self.orders)
    }

    /// Replaces the certificates of links; [`ServerTls::set_links`] uses them.
    pub(super) fn set_link_material(&mut self, material: TlsMaterial) {
        self.of_links = Some(material);
    }

    /// Accepts and opens links to these nodes.
    pub(super) fn set_links(&self, links: Option<&Links>) {
        if let (Some(links), Some(material)) = (links, &self.of_links) {
            let names = links.nodes.iter().map(|node| (node.address, node_domain(&node.name)));
            let (listener, material) = (links.listener, material.clone());
            self.layers.set_links(LinkTls { listener, material, names: names.collect() });
        }
    }

    /// Sets the rules of WebSocket connections.
    pub(super) fn set_websocket(&self, config: &Config) {
        self.layers.set_websocket(WebSocketServer {
            origins: config.websocket_origins.clone(),
            message_bytes_max: config.server.message_limits.message_bytes_max,
        });
    }

    /// Layers for the runtime.
    pub(super) fn layers(&self) -> Arc<TlsLayers> {
        Arc::clone(&self.layers)
    }

    /// Associations of the DTLS listeners.
    pub(super) fn dtls(&self) -> Option<Arc<DtlsTransport>> {
        self.dtls.clone()
    }

    /// True if there may be DTLS listeners.
    pub(super) const fn has_dtls(&self) -> bool {
        self.dtls.is_some()
    }

    /// Checks that the server can use these files.
    pub(super) fn check(&self, material: &TlsMaterial) -> Result<(), Failure> {
        check_material(material, self.has_dtls())
    }

    /// Uses the files of a new configuration, which were loaded and checked before.
    pub(super) fn reload(&mut self, files: &TlsFiles, material: TlsMaterial, is_ordered: bool) {
        self.files = files.clone();
        self.changed = changed(files);
        self.expiry = Expiry::of(&material).of_orders(is_ordered);
        self.warned = [None; 2];
        if let Some(dtls) = &self.dtls {
            dtls.reload(material.clone());
        }
        self.layers.reload(material);
    }

    /// Loads the files again if one of them has changed, and warns of a certificate that expires soon. Call it often.
    pub(super) fn follow_files(&mut self) {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.checked = Instant::now();
        let changed = changed(&self.files);
        if changed != self.changed {
            self.changed = changed;
            let loaded = load(&self.files);
            match loaded.and_then(|material| self.check(&material).map(|()| material)) {
                Ok(material) => {
                    self.reload(&self.files.clone(), material, self.expiry.is_ordered);
                    tracing::info!("certificates reloaded: their files have changed");
                }
                Err(failure) => {
                    for line in failure.lines() {
                        tracing::error!("certificates not reloaded, the old ones remain in use: {line}");
                    }
                }
            }
        }
        self.warn_of_expiry();
    }

    /// Logs what has expired, or expires soon.
    pub(super) fn warn_of_expiry(&mut self) {
        let warnings = self.expiry.warnings(SystemTime::now());
        for (warning, warned) in warnings.into_iter().zip(&mut self.warned) {
            if warned.is_some_and(|at| at.elapsed() < WARN_INTERVAL) {
                continue;
            }
            match warning {
                Some(ExpiryWarning::Expired(line)) => tracing::error!("{line}"),
                Some(ExpiryWarning::Soon(line)) => tracing::warn!("{line}"),
                None => continue,
            }
            *warned = Some(Instant::now());
        }
    }
}

/// Figures of TLS and DTLS.
pub(super) fn stats(layers: &TlsLayers, dtls: Option<&DtlsTransport>) -> Stats {
    let mut stats = Vec::new();
    let tls = layers.counters().counts();
    stats.extend(
        tls.each()
            .map(|(name, value)| Stat::counter(name, "Counted by TLS; see docs/recipes/tls.md.", value)),
    );
    let dtls = dtls.map(|dtls| dtls.counters().counts()).unwrap_or_default();
    stats.extend(
        dtls.each()
            .map(|(name, value)| Stat::counter(name, "Counted by DTLS; see docs/recipes/tls.md.", value)),
    );
    if let Some(left_s) = layers.expires_s() {
        stats.push(Stat::gauge(
            "tls_certificate_expires_s",
            "Seconds until the first of the server's certificates expires.",
            left_s,
        ));
    }
    if let Some(left_s) = layers.lists_expire_s() {
        stats.push(Stat::gauge(
            "tls_crl_expires_s",
            "Seconds until the first of the revocation lists should be replaced.",
            left_s,
        ));
    }
    stats
}

/// Loads the files; an error names the key.
pub(super) fn load(files: &TlsFiles) -> Result<TlsMaterial, Failure> {
    files.load().map_err(|error: TlsError| Failure::configuration(vec![format!("[tls] {error}")]))
}

/// Loads the files of a configuration, and checks that a server can use them.
pub(super) fn check(config: &Config) -> Result<(), Failure> {
    let files = acme::present_files(config);
    let material = load(&files)?;
    if files.certificate == config.tls.certificate {
        check_material(&material, has_dtls(config))?;
    }
    link_material(config).map(drop)
}

fn check_material(material: &TlsMaterial, has_dtls: bool) -> Result<(), Failure> {
    let checked = if has_dtls { DtlsTransport::check(material) } else { Ok(()) };
    checked.map_err(|error| Failure::configuration(vec![error.to_string()]))
}

fn has_dtls(config: &Config) -> bool {
    config.listen.iter().any(|listener| listener.transport == Transport::Dtls)
}

/// Makes the certificate of this node; `None`: it is alone.
pub(super) fn link_material(config: &Config) -> Result<Option<TlsMaterial>, Failure> {
    let Some(cluster) = &config.cluster else { return Ok(None) };
    let seed = |secret: &ClusterSecret| secret.key(b"link authority");
    let (current, accepted) = (seed(&cluster.secrets.0), cluster.secrets.1.as_ref().map(seed));
    let made = TlsMaterial::of_node(&node_domain(&cluster.node), &current, accepted.as_ref());
    made.map(Some).map_err(|error| Failure::failed(format!("[cluster] {error}; try again")))
}

fn changed(files: &TlsFiles) -> Vec<Option<SystemTime>> {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    files.paths().map(changed).collect()
}

/// Logs failed handshakes, with a limit for each source.
struct HandshakeLog {
    rates: Mutex<LineRates>,
    clock: Clock,
}

impl Observer for HandshakeLog {
    fn failed(&self, remote: SocketAddr, role: Role, reason: &str) {
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(suppressed) = rates.admit(self.clock.now(), remote.ip()) else { return };
        drop(rates);
        match role {
            Role::Server => tracing::info!(peer = %remote, reason, suppressed, "refused TLS connection"),
            Role::Client => tracing::warn!(peer = %remote, reason, suppressed, "TLS connection failed"),
        }
    }
}

/// Parts of the seed.
const LINE_RATES: u64 = 0;
const COOKIES: u64 = 1;
/// Maximum number of lines per second for failed handshakes of one source, and of all.
const LINES_PER_SOURCE_S: u32 = 20;
const LINES_S: u32 = 100;
/// Interval at which the files are looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Remaining validity below which a warning is logged, and its interval.
const WARN_BEFORE: Duration = Duration::from_secs(14 * 86_400);
const WARN_INTERVAL: Duration = Duration::from_secs(86_400);
const EXPIRED_CERTIFICATE: &str = "a certificate of [tls] has expired: phones refuse it; renew it";
const EXPIRED_LIST: &str = "a list of [tls] crl has expired: certificates that were revoked since then are accepted, and backend = \"openssl\" refuses \
                            all of its authority; fetch the next list";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_and_a_certificate_that_does_soon_have_warnings() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let day = Duration::from_secs(86_400);
        let of = |certificate, lists| Expiry { certificate, lists, is_ordered: false }.warnings(now);
        assert_eq!(of(None, None), [None, None]);
        assert_eq!(of(Some(now + 15 * day), Some(now + day)), [None, None]);
        let soon = ExpiryWarning::Soon("a certificate of [tls] expires in 2 days; renew it".to_owned());
        let expired = ExpiryWarning::Expired(EXPIRED_LIST);
        assert_eq!(of(Some(now + day * 5 / 2), Some(now - day)), [Some(soon), Some(expired)]);
        let ordered = Expiry { certificate: Some(now + day), lists: None, is_ordered: true };
        assert_eq!(ordered.warnings(now), [None, None], "its renewal has warnings of its own");
        assert_eq!(of(Some(now - day), None), [Some(ExpiryWarning::Expired(EXPIRED_CERTIFICATE)), None]);
    }
}
