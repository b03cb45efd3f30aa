//! One association: its SRTP protection profile and exported keys (RFC 5764 §4.1.2, RFC 7714 §14.2), the peer's fingerprint
//! (RFC 8122 §5), and a phone's time, which may be virtual, as the standard library's.
//!
//! ```text
//!   handshake ── complete, certificate checked ──► keyed ── retransmitted last flight ──► answered
//!       │ encrypted alert, wrong certificate, too many retransmissions
//!       └─► failed
//! ```

use crate::inbound::Inbound;
use crate::{Identity, builder};
use bytes::BytesMut;
use ringway_media::dtls::{DtlsAssociation, DtlsFailure, DtlsKeys, DtlsOutput};
use ringway_sansio::{Defence, Instant};
use ringway_sdp::{CryptoSuite, DtlsRole, Fingerprint, FingerprintHash, MasterKey};
use rtc_dtls::config::{ClientAuthType, HandshakeConfig};
use rtc_dtls::endpoint::{Endpoint, EndpointEvent};
use rtc_dtls::extension::extension_use_srtp::SrtpProtectionProfile;
use rtc_shared::TransportProtocol;
use rtc_shared::error::Error;
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

pub(crate) struct Association {
    endpoint: Endpoint,
    role: DtlsRole,
    clock: Clock,
    check: Arc<AtomicU8>,
    inbound: Inbound,
    state: State,
    /// Retransmission of the last flight that was sent.
    resend: Option<Resend>,
    output: VecDeque<DtlsOutput>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Handshake,
    Keyed,
    Failed,
}

/// Timer of the flight that was sent last (RFC 6347 §4.2.4.1): the interval doubles with each retransmission.
#[derive(Clone, Copy)]
struct Resend {
    due: Instant,
    interval: Duration,
}

impl Association {
    pub(crate) fn new(
        identity: &Identity,
        role: DtlsRole,
        fingerprints: &[Fingerprint],
        now: Instant,
    ) -> Self {
        let check = Arc::new(AtomicU8::new(UNCHECKED));
        let config = settings(identity, role, fingerprints, &check).map(Arc::new);
        let server = config.as_ref().ok().filter(|_| role == DtlsRole::Passive).cloned();
        let mut association = Self {
            endpoint: Endpoint::new(HERE, TransportProtocol::UDP, server),
            role,
            clock: identity.clock,
            check,
            inbound: Inbound::new(role),
            state: State::Handshake,
            resend: None,
            output: VecDeque::new(),
        };
        match (config, role) {
            (Err(_), _) => association.fail(DtlsFailure::Internal),
            (Ok(config), DtlsRole::Active) => {
                let at = association.clock.std(now);
                association
                    .run(now, |endpoint| endpoint.connect(at, PEER, config, None).map(|()| Vec::new()));
            }
            (Ok(_), DtlsRole::Passive) => {}
        }
        association
    }

    /// Lets the endpoint work, and collects what it has to say.
    ///
    /// A panic ends this handshake and nothing else: the endpoint parses what strangers sent, and is not used again.
    fn run(&mut self, now: Instant, work: impl FnOnce(&mut Endpoint) -> Result<Vec<EndpointEvent>, Error>) {
        if self.state == State::Failed {
            return;
        }
        let endpoint = &mut self.endpoint;
        let Ok(result) = catch_unwind(AssertUnwindSafe(|| work(endpoint))) else {
            return self.fail(DtlsFailure::Internal);
        };
        let mut has_sent = false;
        while let Some(datagram) = self.endpoint.poll_transmit() {
            self.output.push_back(DtlsOutput::Datagram(datagram.message.to_vec()));
            has_sent = true;
        }
        let is_complete = match result {
            Ok(events) => events.iter().any(|event| matches!(event, EndpointEvent::HandshakeComplete)),
            Err(_) if self.state == State::Keyed => return,
            // The endpoint has no error of its own for too many retransmissions.
            Err(Error::ErrInvalidFsmTransition) => return self.fail(DtlsFailure::Unanswered),
            Err(error) => return self.fail(self.failure(&error)),
        };
        if is_complete {
            self.complete();
        }
        self.schedule(now, has_sent);
    }

    /// Starts, repeats or stops the timer of the last flight.
    fn schedule(&mut self, now: Instant, has_sent: bool) {
        let is_waiting = self.state == State::Handshake && self.endpoint.poll_timeout(&PEER).is_some();
        if !is_waiting {
            self.resend = None;
        } else if has_sent || self.resend.is_none() {
            self.resend = Some(Resend { due: now + FIRST_RETRANSMISSION, interval: FIRST_RETRANSMISSION });
        }
    }

    fn complete(&mut self) {
        // Without this check an implementation that accepts a peer without a certificate would go unnoticed.
        if self.check.load(Ordering::Relaxed) != RIGHT {
            return self.fail(DtlsFailure::WrongCertificate);
        }
        match self.keys() {
            Some(keys) => {
                self.state = State::Keyed;
                self.inbound.establish();
                self.output.push_back(DtlsOutput::Keys(Box::new(keys)));
            }
            None => self.fail(DtlsFailure::NoProfile),
        }
    }

    fn keys(&self) -> Option<DtlsKeys> {
        let state = self.endpoint.get_connection_state(PEER)?;
        let suite = suite(state.srtp_protection_profile())?;
        let length = exported_bytes(suite);
        let exported = state.export_keying_material(EXPORTER_LABEL, &[], length).ok()?;
        keys(suite, self.role, exported.as_ref())
    }

    fn failure(&self, error: &Error) -> DtlsFailure {
        match error {
            _ if self.check.load(Ordering::Relaxed) == WRONG => DtlsFailure::WrongCertificate,
            Error::ErrServerNoMatchingSrtpProfile
            | Error::ErrClientNoMatchingSrtpProfile
            | Error::ErrRequestedButNoSrtpExtension => DtlsFailure::NoProfile,
            _ => DtlsFailure::Handshake,
        }
    }

    fn fail(&mut self, failure: DtlsFailure) {
        self.state = State::Failed;
        self.resend = None;
        self.output.push_back(DtlsOutput::Failed(failure));
    }
}

impl DtlsAssociation for Association {
    fn on_datagram(&mut self, now: Instant, datagram: &[u8]) {
        if self.state == State::Failed {
            return;
        }
        let records = self.inbound.admit(datagram).records;
        if !records.is_empty() {
            let (at, records) = (self.clock.std(now), BytesMut::from(records.as_slice()));
            self.run(now, |endpoint| endpoint.read(at, PEER, None, records));
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        let Some(Resend { interval, .. }) = self.resend.filter(|resend| resend.due <= now) else { return };
        // The endpoint's own interval is constant, and not longer than ours.
        let at = self.clock.std(now);
        self.run(now, |endpoint| endpoint.handle_timeout(PEER, at).map(|()| Vec::new()));
        let interval = (interval * 2).min(RETRANSMISSION_MAX);
        if let Some(resend) = &mut self.resend {
            *resend = Resend { due: now + interval, interval };
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.resend.map(|resend| resend.due)
    }

    fn poll(&mut self) -> Option<DtlsOutput> {
        self.output.pop_front()
    }
}

/// Settings of a handshake. The check of the certificate's fingerprint stores its result in `check`.
fn settings(
    identity: &Identity,
    role: DtlsRole,
    fingerprints: &[Fingerprint],
    check: &Arc<AtomicU8>,
) -> Result<HandshakeConfig, Error> {
    let (announced, check) = (fingerprints.to_vec(), Arc::clone(check));
    let verify = move |certificates: &[Vec<u8>], _: &[_]| {
        let leaf = certificates.first();
        let is_right =
            leaf.is_some_and(|leaf| is_one_of(&announced, leaf)) || !Defence::DtlsFingerprint.is_on();
        check.store(if is_right { RIGHT } else { WRONG }, Ordering::Relaxed);
        if is_right { Ok(()) } else { Err(Error::ErrInvalidCertificate) }
    };
    let profiles = identity.suites.iter().filter_map(|suite| profile(*suite)).collect();
    let is_client = role == DtlsRole::Active;
    builder(Arc::clone(&identity.provider), FIRST_RETRANSMISSION)
        .with_certificates(vec![identity.certificate.clone()])
        .with_srtp_protection_profiles(profiles)
        .with_client_auth(ClientAuthType::RequireAnyClientCert)
        // No authority signed the certificates: the fingerprints in the SDP prove them (RFC 5763 §5).
        .with_verify_peer_certificate(Some(Arc::new(verify)))
        .with_server_name("phone.invalid".to_owned())
        .build(is_client, None)
}

/// Interval before the first retransmission: longer than a round trip, shorter than the second of RFC 6347 §4.2.4.1,
/// because a person is waiting (RFC 9147 §5.8.2 permits it).
pub const FIRST_RETRANSMISSION: Duration = Duration::from_millis(400);

/// Longest interval between retransmissions; the endpoint gives up after seven of them.
const RETRANSMISSION_MAX: Duration = Duration::from_secs(4);

/// RFC 5764 §4.2.
const EXPORTER_LABEL: &str = "EXTRACTOR-dtls_srtp";

/// States of the check of the peer's certificate.
const UNCHECKED: u8 = 0;
const RIGHT: u8 = 1;
const WRONG: u8 = 2;

/// Addresses inside the endpoint; the session has the real ones.
const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2);

/// An arbitrary instant of the standard library that counts as the phone's zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { zero: std::time::Instant::now() }
    }

    pub(crate) fn std(self, at: Instant) -> std::time::Instant {
        self.zero + Duration::from_nanos(at.as_nanos())
    }
}

/// Suites with a profile, best first. The profile with a tag of 32 bits is not offered: RFC 5764 has it for other
/// codecs than speech at 64 kbit/s.
pub(crate) const SUITES: [CryptoSuite; 3] =
    [CryptoSuite::AeadAes256Gcm, CryptoSuite::AeadAes128Gcm, CryptoSuite::AesCm128HmacSha1_80];

/// The profile of a suite.
pub(crate) const fn profile(suite: CryptoSuite) -> Option<SrtpProtectionProfile> {
    match suite {
        CryptoSuite::AeadAes256Gcm => Some(SrtpProtectionProfile::Srtp_Aead_Aes_256_Gcm),
        CryptoSuite::AeadAes128Gcm => Some(SrtpProtectionProfile::Srtp_Aead_Aes_128_Gcm),
        CryptoSuite::AesCm128HmacSha1_80 => Some(SrtpProtectionProfile::Srtp_Aes128_Cm_Hmac_Sha1_80),
        CryptoSuite::AesCm128HmacSha1_32
        | CryptoSuite::AesCm192HmacSha1_80
        | CryptoSuite::AesCm192HmacSha1_32
        | CryptoSuite::AesCm256HmacSha1_80
        | CryptoSuite::AesCm256HmacSha1_32 => None,
    }
}

/// The suite of a profile.
pub(crate) fn suite(negotiated: SrtpProtectionProfile) -> Option<CryptoSuite> {
    SUITES.into_iter().find(|suite| profile(*suite) == Some(negotiated))
}

/// Number of bytes to export for a suite.
const fn exported_bytes(suite: CryptoSuite) -> usize {
    2 * (suite.key_bytes() + suite.salt_bytes())
}

/// Divides exported bytes (RFC 5764 §4.2): the client's key, the server's, the client's salt, the server's.
pub(crate) fn keys(suite: CryptoSuite, role: DtlsRole, exported: &[u8]) -> Option<DtlsKeys> {
    let (client_key, rest) = exported.split_at_checked(suite.key_bytes())?;
    let (server_key, rest) = rest.split_at_checked(suite.key_bytes())?;
    let (client_salt, server_salt) = rest.split_at_checked(suite.salt_bytes())?;
    if server_salt.len() != suite.salt_bytes() {
        return None;
    }
    let key = |key: &[u8], salt: &[u8]| MasterKey {
        key: key.to_vec(),
        salt: salt.to_vec(),
        lifetime_packets: None,
        mki: Vec::new(),
    };
    let (client, server) = (key(client_key, client_salt), key(server_key, server_salt));
    let (send, receive) = match role {
        DtlsRole::Active => (client, server),
        DtlsRole::Passive => (server, client),
    };
    Some(DtlsKeys { suite, send, receive })
}

/// Fingerprint of a certificate in DER.
pub(crate) fn of(hash: FingerprintHash, der: &[u8]) -> Option<Fingerprint> {
    match hash {
        FingerprintHash::Sha256 => Fingerprint::new(hash, &Sha256::digest(der)),
        FingerprintHash::Sha384 => Fingerprint::new(hash, &Sha384::digest(der)),
        FingerprintHash::Sha512 => Fingerprint::new(hash, &Sha512::digest(der)),
    }
}

/// True if a certificate has one of these fingerprints.
fn is_one_of(fingerprints: &[Fingerprint], der: &[u8]) -> bool {
    fingerprints.iter().any(|announced| of(announced.hash(), der).as_ref() == Some(announced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_sends_with_its_own_key_and_salt() {
        for suite in SUITES {
            let exported: Vec<u8> = (0..exported_bytes(suite) as u8).collect();
            let client = keys(suite, DtlsRole::Active, &exported).unwrap();
            let server = keys(suite, DtlsRole::Passive, &exported).unwrap();
            assert_eq!((&client.send, &client.receive), (&server.receive, &server.send));
            let (key, salt) = (suite.key_bytes() as u8, suite.salt_bytes() as u8);
            assert_eq!((client.send.key[0], client.receive.key[0]), (0, key));
            assert_eq!((client.send.salt[0], client.receive.salt[0]), (2 * key, 2 * key + salt));
            assert!(keys(suite, DtlsRole::Active, &exported[1..]).is_none());
        }
    }
}
