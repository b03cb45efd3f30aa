//! DTLS as a SIP transport: associations for a driver (docs/decisions/0031-dtls-transport.md).

mod certificates;
mod limits;
mod session;
#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock};

use ringway_datagram::{
    Association, Associations, ClientHello, Cookies, FirstDatagram, Judged, NotHello,
    write_hello_verify_request,
};
use ringway_sansio::{Flow, HostNameId, Instant, Seed};
use ringway_tls::{Observer, Role, TlsMaterial};
use rtc_dtls::crypto_provider::{RTCCryptoProvider, default_provider};
use rustls::pki_types::ServerName;

use crate::association::Clock;
use certificates::ServerCheck;
pub use limits::{DtlsCounters, DtlsCounts, DtlsLimits};
use limits::{Gate, add};
use session::{Peer, Refusal, Session};

/// Name of a host that was looked up.
pub type HostNames = Box<dyn Fn(HostNameId) -> Option<Arc<str>> + Send + Sync>;

/// Associations with the certificates of `[tls]`.
pub struct DtlsTransport {
    material: RwLock<TlsMaterial>,
    cookies: Cookies,
    gate: Arc<Gate>,
    limits: DtlsLimits,
    /// `None`: this program opens no association.
    hosts: Option<Arc<HostNames>>,
    counters: Arc<DtlsCounters>,
    observer: Arc<dyn Observer>,
    provider: Arc<dyn RTCCryptoProvider>,
    clock: Clock,
}

/// The library or the certificate cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DtlsError(String);

impl DtlsTransport {
    /// Associations of a server, which opens none. The seed must be unpredictable.
    ///
    /// # Errors
    /// There is no certificate, or its key has a kind that DTLS cannot use.
    pub fn server(
        material: TlsMaterial,
        seed: Seed,
        limits: DtlsLimits,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, DtlsError> {
        let transport = Self::new(material, seed, limits, None, observer)?;
        Self::check(&transport.material())?;
        Ok(transport)
    }

    /// Associations of a client, which verifies servers by the names of `hosts`.
    ///
    /// # Errors
    /// The library cannot be used.
    pub fn client(
        material: TlsMaterial,
        hosts: HostNames,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, DtlsError> {
        // A client accepts nothing, so it needs no secret for cookies.
        let limits = DtlsLimits { total: 0, ..DtlsLimits::default() };
        Self::new(material, Seed::from_bytes([0; 32]), limits, Some(hosts), observer)
    }

    fn new(
        material: TlsMaterial,
        seed: Seed,
        limits: DtlsLimits,
        hosts: Option<HostNames>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, DtlsError> {
        Ok(Self {
            material: RwLock::new(material),
            cookies: Cookies::new(seed),
            gate: Arc::default(),
            limits,
            hosts: hosts.map(Arc::new),
            counters: Arc::default(),
            observer,
            provider: default_provider().map_err(|error| DtlsError(error.to_string()))?,
            clock: Clock::new(),
        })
    }

    /// Checks that a server can use the certificates.
    ///
    /// # Errors
    /// There is none, or its key has a kind that DTLS cannot use.
    pub fn check(material: &TlsMaterial) -> Result<(), DtlsError> {
        let own = material.certificate(None).ok_or_else(|| {
            DtlsError("DTLS needs [tls] certificate and private_key, with backend = \"rustls\"".to_owned())
        })?;
        let provider = default_provider().map_err(|error| DtlsError(error.to_string()))?;
        match session::check_key(certificates::certificate(own), provider) {
            Ok(_) => Ok(()),
            Err(_) => Err(DtlsError(
                "DTLS cannot use the key of [tls] certificate: use ECDSA on P-256 or P-384, or RSA"
                    .to_owned(),
            )),
        }
    }

    /// Uses other certificates for associations from now on.
    pub fn reload(&self, material: TlsMaterial) {
        *self.material.write().unwrap_or_else(PoisonError::into_inner) = material;
    }

    /// Counters of associations.
    pub const fn counters(&self) -> &Arc<DtlsCounters> {
        &self.counters
    }

    fn material(&self) -> TlsMaterial {
        self.material.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn peer(&self, flow: &Flow, role: Role) -> Peer {
        let (counters, observer) = (Arc::clone(&self.counters), Arc::clone(&self.observer));
        Peer { remote: flow.remote, role, counters, observer }
    }
}

impl Associations for DtlsTransport {
    fn judge(&self, now: Instant, flow: &Flow, datagram: &[u8], answer: &mut Vec<u8>) -> FirstDatagram {
        let counters = &self.counters;
        // A client has no use for the cookies of others.
        if self.limits.total == 0 {
            return FirstDatagram::Dropped;
        }
        let hello = match ClientHello::parse(datagram) {
            Ok(hello) => hello,
            Err(why) => {
                add(match why {
                    NotHello::Fragmented => &counters.dtls_fragmented,
                    NotHello::Malformed | NotHello::Version => &counters.dtls_not_hello,
                });
                return FirstDatagram::Dropped;
            }
        };
        // RFC 6347 §4.2.2: the first message has the number 0, the one with the cookie 1. The library can continue no other.
        match (self.cookies.judge(now, flow.remote, &hello), hello.message_sequence) {
            (Judged::NoCookie(cookie), 0) => {
                write_hello_verify_request(&hello, &cookie, answer);
                add(&counters.dtls_cookies_sent);
                FirstDatagram::Answered
            }
            (Judged::Proven, 1) if hello.record_sequence > 0 => FirstDatagram::Proven,
            (Judged::NoCookie(_) | Judged::Proven, _) => {
                add(&counters.dtls_not_hello);
                FirstDatagram::Dropped
            }
            (Judged::WrongCookie, _) => {
                add(&counters.dtls_cookies_wrong);
                FirstDatagram::Dropped
            }
        }
    }

    fn accept(&self, now: Instant, flow: &Flow, datagram: &[u8]) -> Option<Box<dyn Association>> {
        let pass = self.gate.enter(now, flow.remote.ip(), &self.limits, &self.counters)?;
        let name = ClientHello::parse(datagram).ok()?.server_name().map(str::to_owned);
        let material = self.material();
        let certificate = certificates::certificate(material.certificate(name.as_deref())?);
        let (peer, provider) = (self.peer(flow, Role::Server), Arc::clone(&self.provider));
        match Session::accept(now, datagram, certificate, provider, self.clock, (peer.clone(), pass)) {
            Ok(session) => Some(Box::new(session)),
            Err(Refusal(why)) => {
                if let Some(why) = why {
                    add(&self.counters.dtls_failed);
                    peer.observer.failed(peer.remote, peer.role, &why);
                }
                None
            }
        }
    }

    fn dial(&self, now: Instant, flow: &Flow) -> Option<Box<dyn Association>> {
        let hosts = self.hosts.as_ref()?;
        let name = name_of(hosts, flow)?;
        // A server name is no address (RFC 6066 §3), and the library always sends one.
        let sent_name = match &name {
            ServerName::DnsName(name) => name.as_ref().to_owned(),
            _ => "address.invalid".to_owned(),
        };
        let material = self.material();
        let certificate = material.certificate(None).map(certificates::certificate);
        let check = Arc::new(ServerCheck::new(material, name, Arc::clone(hosts)));
        let (peer, provider) = (self.peer(flow, Role::Client), Arc::clone(&self.provider));
        let session = Session::dial(now, &sent_name, certificate, provider, self.clock, (peer, check));
        Some(Box::new(session.ok()?))
    }
}

/// Name that the server of a flow must have. `None`: its host has none any more.
fn name_of(hosts: &HostNames, flow: &Flow) -> Option<ServerName<'static>> {
    match flow.host {
        HostNameId::NONE => Some(ServerName::from(flow.remote.ip())),
        host => ServerName::try_from(hosts(host)?.to_string()).ok(),
    }
}

impl std::fmt::Display for DtlsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DtlsError {}
