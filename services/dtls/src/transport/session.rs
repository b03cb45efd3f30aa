//! One association of the SIP transport.
//!
//! ```text
//!   handshake ── complete, server verified ──► established ── close_notify ──► ended
//!       │ alert, wrong certificate, limit                       │ fatal alert
//!       └──────────────────────► ended ◄────────────────────────┘
//! ```

use super::certificates::{ServerCheck, WithCookie};
use super::limits::{DtlsCounters, Pass, add};
use crate::association::Clock;
use crate::builder;
use crate::inbound::Inbound;
use bytes::BytesMut;
use ringway_datagram::{Association, COOKIE_BYTES, ClientHello, Output, SendError};
use ringway_sansio::{Flow, Instant, PeerNames};
use ringway_sdp::DtlsRole;
use ringway_tls::{Observer, Role};
use rtc_dtls::config::HandshakeConfig;
use rtc_dtls::crypto::Certificate;
use rtc_dtls::crypto_provider::RTCCryptoProvider;
use rtc_dtls::endpoint::{Endpoint, EndpointEvent};
use rtc_shared::TransportProtocol;
use rtc_shared::error::Error;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Peer of an association, and where its handshake is counted and reported.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) remote: SocketAddr,
    pub(super) role: Role,
    pub(super) counters: Arc<DtlsCounters>,
    pub(super) observer: Arc<dyn Observer>,
}

pub(super) struct Session {
    endpoint: Endpoint,
    clock: Clock,
    state: State,
    inbound: Inbound,
    /// Retransmission of the last flight that was sent.
    resend: Option<Resend>,
    output: VecDeque<Output>,
    /// Added to the sequence numbers of unencrypted records.
    sequence_offset: u64,
    /// Counts the handshake as one in progress.
    pass: Option<Pass>,
    check: Option<Arc<ServerCheck>>,
    peer: Peer,
}

/// Reason why no association was begun; `None`: it was counted and reported.
pub(super) struct Refusal(pub(super) Option<String>);

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self(Some(why))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Handshake,
    Established,
    Ended,
}

/// Timer of the flight that was sent last (RFC 6347 §4.2.4.1): the interval doubles with each retransmission.
#[derive(Clone, Copy)]
struct Resend {
    due: Instant,
    interval: Duration,
}

impl Session {
    /// Association of a ClientHello whose cookie was verified. `datagram` has the ClientHello alone.
    ///
    /// # Errors
    /// The certificate's key is of no use here, or the ClientHello is not accepted.
    pub(super) fn accept(
        now: Instant,
        datagram: &[u8],
        certificate: Certificate,
        provider: Arc<dyn RTCCryptoProvider>,
        clock: Clock,
        (peer, pass): (Peer, Pass),
    ) -> Result<Self, Refusal> {
        let hello = ClientHello::parse(datagram).map_err(|_| "it is no ClientHello".to_owned())?;
        let cookie: [u8; COOKIE_BYTES] = hello.cookie.try_into().map_err(|_| "no cookie".to_owned())?;
        let provider = WithCookie { provider, cookie, is_taken: AtomicBool::new(false) };
        let config = builder(Arc::new(provider), FIRST_RETRANSMISSION).with_certificates(vec![certificate]);
        let config = config.build(false, None).map_err(|error| error.to_string())?;
        let server = Some(Arc::new(config));
        let endpoint = Endpoint::new(HERE, TransportProtocol::UDP, server);
        let mut session = Self::new(endpoint, clock, DtlsRole::Passive, peer);
        session.pass = Some(pass);
        session.inbound = Inbound::without_certificates();
        let mut first = Vec::with_capacity(datagram.len());
        hello.write_first(&mut first);
        session.receive(now, &first);
        // The library's HelloVerifyRequest: the client has it already, and from it the cookie.
        let is_same = matches!(
            session.output.make_contiguous(),
            [Output::Datagram(request)] if request.ends_with(&cookie)
        );
        session.output.clear();
        if !is_same {
            let is_reported = session.state == State::Ended;
            return Err(Refusal((!is_reported).then(|| "the ClientHello is not accepted".to_owned())));
        }
        // RFC 6347 §4.2.1: the ServerHello, the library's record 1, continues the client's numbers.
        session.sequence_offset = hello.record_sequence.wrapping_sub(1);
        session.resend = None;
        session.on_datagram(now, datagram);
        Ok(session)
    }

    /// Association with a server, whose certificate `check` verifies.
    pub(super) fn dial(
        now: Instant,
        name: &str,
        certificate: Option<Certificate>,
        provider: Arc<dyn RTCCryptoProvider>,
        clock: Clock,
        (peer, check): (Peer, Arc<ServerCheck>),
    ) -> Result<Self, String> {
        let verify = Arc::clone(&check);
        let config = builder(provider, FIRST_RETRANSMISSION)
            .with_certificates(certificate.into_iter().collect())
            .with_server_name(name.to_owned())
            .with_verify_peer_certificate(Some(Arc::new(move |chain: &[Vec<u8>], _: &[_]| {
                if verify.verify(chain) { Ok(()) } else { Err(Error::ErrInvalidCertificate) }
            })))
            .build(true, None)
            .map_err(|error| error.to_string())?;
        let endpoint = Endpoint::new(HERE, TransportProtocol::UDP, None);
        let mut session = Self::new(endpoint, clock, DtlsRole::Active, peer);
        session.check = Some(check);
        let (at, config) = (clock.std(now), Arc::new(config));
        session.run(now, |endpoint| endpoint.connect(at, PEER, config, None).map(|()| Vec::new()));
        Ok(session)
    }

    fn new(endpoint: Endpoint, clock: Clock, role: DtlsRole, peer: Peer) -> Self {
        Self {
            endpoint,
            clock,
            state: State::Handshake,
            inbound: Inbound::new(role),
            resend: None,
            output: VecDeque::new(),
            sequence_offset: 0,
            pass: None,
            check: None,
            peer,
        }
    }

    /// Passes what is admitted of a datagram to the library.
    fn receive(&mut self, now: Instant, datagram: &[u8]) {
        if self.state == State::Ended {
            return;
        }
        let admitted = self.inbound.admit(datagram);
        self.peer.counters.dtls_excess.fetch_add(u64::from(admitted.refused), Ordering::Relaxed);
        let kept = self.inbound.kept_bytes();
        if self.pass.as_mut().is_some_and(|pass| !pass.keep(kept)) {
            add(&self.peer.counters.dtls_refused_source);
            return self.fail("handshakes of this source keep too many bytes");
        }
        if !admitted.records.is_empty() {
            let (at, records) = (self.clock.std(now), BytesMut::from(admitted.records.as_slice()));
            self.run(now, |endpoint| endpoint.read(at, PEER, None, records));
        }
    }

    /// Lets the endpoint work, and collects its output.
    ///
    /// A panic ends this association and nothing else: the endpoint parses what strangers sent, and is not used again.
    fn run(&mut self, now: Instant, work: impl FnOnce(&mut Endpoint) -> Result<Vec<EndpointEvent>, Error>) {
        if self.state == State::Ended {
            return;
        }
        let endpoint = &mut self.endpoint;
        let Ok(result) = catch_unwind(AssertUnwindSafe(|| work(endpoint))) else {
            return self.fail("internal error of the DTLS library");
        };
        // The library returns a fatal alert to its sender, where it would end the next handshake.
        let is_alert = matches!(result, Err(Error::ErrAlertFatalOrClose));
        let has_sent = !is_alert && self.take_datagrams();
        match result {
            Ok(events) => {
                for event in events {
                    self.on_event(event);
                }
            }
            // The peer's fatal alert; after the handshake it is one of the peer itself, because it was encrypted.
            Err(Error::ErrAlertFatalOrClose) => return self.fail("the peer sent an alert"),
            Err(_) if self.state == State::Established => {}
            Err(error) => return self.fail(&error.to_string()),
        }
        self.schedule(now, has_sent);
    }

    /// Queues the endpoint's datagrams. True: there are some.
    fn take_datagrams(&mut self) -> bool {
        let mut has_sent = false;
        while let Some(datagram) = self.endpoint.poll_transmit() {
            let mut datagram = datagram.message.to_vec();
            shift_sequences(&mut datagram, self.sequence_offset);
            self.output.push_back(Output::Datagram(datagram));
            has_sent = true;
        }
        has_sent
    }

    fn on_event(&mut self, event: EndpointEvent) {
        match event {
            EndpointEvent::HandshakeComplete => self.complete(),
            EndpointEvent::ApplicationData(message) if self.state == State::Established => {
                if message.len() > MESSAGE_BYTES_MAX {
                    add(&self.peer.counters.dtls_excess);
                } else if !message.is_empty() {
                    self.output.push_back(Output::Message(message.to_vec()));
                }
            }
            EndpointEvent::PeerClosed => {
                self.end();
                self.output.push_back(Output::Closed);
            }
            _ => {}
        }
    }

    fn complete(&mut self) {
        // Without this check an implementation that accepts a server without a certificate would go unnoticed.
        if self.check.as_ref().is_some_and(|check| !check.is_accepted()) {
            return self.fail("the server presented no certificate");
        }
        self.state = State::Established;
        self.inbound.establish();
        self.pass = None;
        add(match self.peer.role {
            Role::Server => &self.peer.counters.dtls_accepted,
            Role::Client => &self.peer.counters.dtls_dialled,
        });
        self.output.push_back(Output::Established);
    }

    fn fail(&mut self, reason: &str) {
        let refused = self.check.as_ref().and_then(|check| check.refusal());
        if self.state == State::Handshake {
            add(match &refused {
                Some(_) => &self.peer.counters.dtls_failed_certificate,
                None => &self.peer.counters.dtls_failed,
            });
            self.peer.observer.failed(self.peer.remote, self.peer.role, refused.as_deref().unwrap_or(reason));
        }
        self.end();
        self.output.push_back(Output::Failed);
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.resend = None;
        self.pass = None;
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
}

impl Association for Session {
    fn on_datagram(&mut self, now: Instant, datagram: &[u8]) {
        self.receive(now, datagram);
    }

    fn on_timeout(&mut self, now: Instant) {
        let Some(Resend { interval, .. }) = self.resend.filter(|resend| resend.due <= now) else { return };
        // The endpoint's own interval is constant, and not longer than ours.
        let at = self.clock.std(now);
        self.run(now, |endpoint| endpoint.handle_timeout(PEER, at).map(|()| Vec::new()));
        let interval = interval * 2;
        if let Some(resend) = &mut self.resend {
            *resend = Resend { due: now + interval, interval };
        }
    }

    fn send(&mut self, now: Instant, message: &[u8]) -> Result<(), SendError> {
        if self.state != State::Established {
            return Err(SendError::NotEstablished);
        }
        if message.len() > MESSAGE_BYTES_MAX {
            add(&self.peer.counters.dtls_too_long);
            return Err(SendError::TooLong);
        }
        let at = self.clock.std(now);
        self.run(now, |endpoint| endpoint.write(at, PEER, message).map(|()| Vec::new()));
        Ok(())
    }

    fn close(&mut self, now: Instant) {
        if self.state == State::Ended {
            return;
        }
        let at = self.clock.std(now);
        self.run(now, |endpoint| {
            endpoint.stop(at, PEER);
            Ok(Vec::new())
        });
        self.end();
    }

    fn poll(&mut self) -> Option<Output> {
        self.output.pop_front()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.resend.map(|resend| resend.due)
    }

    fn is_established(&self) -> bool {
        self.state == State::Established
    }

    fn peer_names(&self) -> Option<Arc<PeerNames>> {
        self.check.as_ref().filter(|_| self.is_established()).and_then(|check| check.names())
    }

    fn is_also(&self, flow: &Flow) -> bool {
        let Some(check) = self.check.as_ref().filter(|_| self.is_established()) else { return false };
        let checked = check.verify_also(flow);
        if let Err(why) = &checked {
            self.peer.observer.failed(self.peer.remote, self.peer.role, why);
        }
        checked.is_ok()
    }

    fn held_bytes(&self) -> usize {
        ASSOCIATION_BYTES + self.inbound.kept_bytes()
    }
}

/// Adds `offset` to the sequence numbers of the unencrypted records of a datagram.
fn shift_sequences(mut datagram: &mut [u8], offset: u64) {
    while let Some((header, rest)) = datagram.split_first_chunk_mut::<13>() {
        let [_, _, _, numbers @ .., high, low] = header;
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let number = u64::from_be_bytes(*numbers);
        if number >> 48 == 0 {
            *numbers = (number.wrapping_add(offset) & ((1 << 48) - 1)).to_be_bytes();
        }
        let Some((_, next)) = rest.split_at_mut_checked(length) else { return };
        datagram = next;
    }
}

/// Checks that the key of a certificate can sign handshakes.
///
/// # Errors
/// The reason for a user.
pub(super) fn check_key(
    certificate: Certificate,
    provider: Arc<dyn RTCCryptoProvider>,
) -> Result<HandshakeConfig, String> {
    let config = builder(provider, FIRST_RETRANSMISSION).with_certificates(vec![certificate]);
    config.build(false, None).map_err(|error| error.to_string())
}

/// Interval before the first retransmission (RFC 6347 §4.2.4.1).
pub(super) const FIRST_RETRANSMISSION: Duration = Duration::from_secs(1);

/// Maximum length of a message: that of a record's plaintext (RFC 5246 §6.2.1).
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 14;

/// Memory that an association is assumed to use besides the messages of its handshake.
pub(super) const ASSOCIATION_BYTES: usize = 16 << 10;

/// Addresses inside the endpoint; the driver has the real ones.
const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2);
