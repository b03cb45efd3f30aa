//! DTLS associations of the session: one for RTP, and one for RTCP if that has a port of its own (RFC 5764 §3).
//!
//! ```text
//!            SDP with fingerprints                Keys                         other fingerprints or role in the SDP
//!   none ─────────────────────────► handshake ──────────► keyed (SrtpState) ─────────────────────────► handshake
//!                                       │ failure, or HANDSHAKE_MAX over
//!                                       └─► the call cannot be protected
//! ```
//! Datagrams are accepted from the peer's address. Behind some NATs the peer has another one than its SDP says: a
//! passive session takes a first message from elsewhere too. Its sender cannot have the right certificate unless it is
//! the peer; if its handshake fails, it was a stranger, and a new one begins. A sender without a cookie, and one whose
//! handshake takes longer than [`SENDER_MAX`], gives way to the next first message. With ICE only addresses that passed a
//! check take part, and the first message waits for one.

use super::config::{MediaEvent, SecurityFailure};
use super::latch::{Latch, Sender};
use super::srtp_state::SrtpState;
use super::{MediaSession, RTCP_PORT, RTP_PORT, is_reachable};
use crate::dtls::{
    DtlsAssociation, DtlsFailure, DtlsIdentity, DtlsKeys, DtlsOutput, is_client_hello, is_first_message,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Deadline, Flow, Instant, ListenerId, Outbox, Token};
use ringway_sdp::{DtlsRole, Fingerprint, KeyManagement, MediaParams, Protection};

/// State of DTLS.
pub(super) struct DtlsState {
    identity: Arc<dyn DtlsIdentity>,
    rtp: Port,
    rtcp: Port,
}

/// DTLS at one port.
#[derive(Default)]
struct Port {
    running: Option<Running>,
    /// First message of a peer that was faster than its SDP (RFC 5763 §5).
    early: Option<(SocketAddr, Vec<u8>)>,
}

/// An association and its limits.
struct Running {
    association: Box<dyn DtlsAssociation>,
    role: DtlsRole,
    fingerprints: Vec<Fingerprint>,
    /// Source of the peer's datagrams if it is not the peer's known address.
    from: Option<SocketAddr>,
    /// The source sent a message with a cookie: it receives what is sent to it.
    is_proven: bool,
    /// Time of the first datagram.
    taken_at: Option<Instant>,
    /// Bytes received, up to [`HANDSHAKE_BYTES_MAX`].
    bytes: usize,
    /// End of the handshake; `None` once it succeeded or failed.
    until: Option<Instant>,
    /// Number of handshakes that failed with others than the peer.
    strangers: u32,
    /// Its output was not polled yet.
    is_fresh: bool,
}

impl DtlsState {
    pub(super) fn new(identity: Arc<dyn DtlsIdentity>) -> Self {
        Self { identity, rtp: Port::default(), rtcp: Port::default() }
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.identity.fingerprint()
    }

    /// Ends the associations.
    pub(super) fn stop(&mut self) {
        (self.rtp, self.rtcp) = (Port::default(), Port::default());
    }

    fn port(&mut self, port: ListenerId) -> &mut Port {
        if port == RTCP_PORT { &mut self.rtcp } else { &mut self.rtp }
    }

    /// Time of the next action at either port.
    /// `agreed_at` is the time of the first message. While we wait for a check of ICE, nothing can be sent.
    pub(super) fn next_deadline(&self, agreed_at: Instant, awaits_check: bool) -> Option<Deadline> {
        let ports = [&self.rtp, &self.rtcp].into_iter().filter_map(|port| port.running.as_ref());
        let due = ports.flat_map(|running| {
            let fresh = running.is_fresh.then_some(agreed_at).filter(|_| !awaits_check);
            let fresh = fresh.map(|at| Deadline { at, reason: "first DTLS message" });
            let resend = running.association.next_deadline().filter(|_| !awaits_check);
            let resend = resend.map(|at| Deadline { at, reason: "DTLS retransmission" });
            let end = running.until.map(|at| Deadline { at, reason: "end of the DTLS handshake" });
            [fresh, resend, end].into_iter().flatten()
        });
        due.min_by_key(|deadline| deadline.at)
    }
}

impl Port {
    /// Begins an association, unless there is one with this role and these fingerprints. Returns true if it begins.
    fn begin(
        &mut self,
        identity: &dyn DtlsIdentity,
        now: Instant,
        role: DtlsRole,
        fingerprints: &[Fingerprint],
    ) -> bool {
        let is_same = |running: &Running| running.role == role && running.fingerprints == fingerprints;
        if self.running.as_ref().is_some_and(is_same) {
            return false;
        }
        self.running = Some(Running {
            association: identity.associate(role, fingerprints, now),
            role,
            fingerprints: fingerprints.to_vec(),
            from: None,
            is_proven: false,
            taken_at: None,
            bytes: 0,
            until: Some(now + HANDSHAKE_MAX),
            strangers: 0,
            is_fresh: true,
        });
        true
    }
}

impl Running {
    /// Begins again with another sender; the time limit stays.
    fn begin_again(&mut self, identity: &dyn DtlsIdentity, now: Instant) {
        self.association = identity.associate(self.role, &self.fingerprints, now);
        (self.from, self.is_proven, self.taken_at) = (None, false, None);
        (self.bytes, self.is_fresh) = (0, true);
    }

    /// True if the sender that takes part gives way to `from`, which sent a first message: the signalled address comes before one
    /// that only sent something, and nobody keeps the others out by one datagram.
    fn gives_way(&self, now: Instant, from: SocketAddr, peer: Option<SocketAddr>, datagram: &[u8]) -> bool {
        let (Some(taken_at), Some(_), DtlsRole::Passive) = (self.taken_at, self.until, self.role) else {
            return false;
        };
        let is_other = self.from.or(peer) != Some(from);
        let is_late = taken_at + SENDER_MAX <= now;
        // The signalled address with a cookie never does.
        let gives_way = match (self.from, self.is_proven) {
            (Some(_), false) => true,
            (Some(_), true) | (None, false) => is_late,
            (None, true) => false,
        };
        is_other && (gives_way || peer == Some(from)) && is_first_message(datagram)
    }

    /// True if the sender may take part; `peer` is the peer's known address.
    fn admits(&mut self, now: Instant, from: SocketAddr, peer: Option<SocketAddr>, datagram: &[u8]) -> bool {
        let is_free = self.from.is_none() && self.bytes == 0 && self.role == DtlsRole::Passive;
        if peer != Some(from) && is_free && self.strangers < STRANGERS_MAX && is_client_hello(datagram) {
            self.from = Some(from);
        }
        let admits = self.from.or(peer) == Some(from);
        if admits {
            self.taken_at.get_or_insert(now);
            self.is_proven |= is_client_hello(datagram) && !is_first_message(datagram);
        }
        admits
    }
}

impl MediaSession {
    /// Fingerprint of our certificate; `None` without DTLS.
    pub fn dtls_fingerprint(&self) -> Option<Fingerprint> {
        self.dtls.as_ref().map(DtlsState::fingerprint)
    }

    /// Applies the negotiated DTLS. An association with the same role and fingerprints continues, also after a change
    /// of the peer's address.
    pub(super) fn set_dtls(&mut self, now: Instant, params: &MediaParams) {
        let Protection::Dtls { role, fingerprints } = &params.protection else { return };
        let Some(dtls) = &mut self.dtls else {
            self.srtp = SrtpState::Failed;
            return self.emit(MediaEvent::SecurityFailed(SecurityFailure::NoDtls));
        };
        if dtls.rtp.begin(&*dtls.identity, now, *role, fingerprints) {
            self.srtp = SrtpState::Agreeing { receive: None };
            self.control_srtp = None;
            dtls.rtcp.running = None;
        }
        if params.rtcp_mux {
            dtls.rtcp.running = None;
            self.control_srtp = None;
        } else if dtls.rtcp.begin(&*dtls.identity, now, *role, fingerprints) {
            self.control_srtp = Some(SrtpState::Agreeing { receive: None });
        }
    }

    /// Handles a DTLS datagram.
    pub(super) fn on_dtls(
        &mut self,
        now: Instant,
        port: ListenerId,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut Outbox,
    ) {
        // With ICE only addresses that passed a check come here.
        let peer = if self.ice.is_some() { Some(from) } else { self.dtls_peer(port) };
        let (Some(dtls), false) = (&mut self.dtls, self.is_closed) else {
            return self.count_unexpected(from);
        };
        if self.params.is_none() && is_client_hello(datagram) && datagram.len() <= EARLY_BYTES_MAX {
            dtls.port(port).early = Some((from, datagram.to_vec()));
            return;
        }
        let identity = Arc::clone(&dtls.identity);
        let Some(running) = &mut dtls.port(port).running else { return self.count_unexpected(from) };
        if running.gives_way(now, from, peer, datagram) {
            running.strangers += u32::from(running.is_proven);
            running.begin_again(&*identity, now);
        }
        if !running.admits(now, from, peer, datagram) {
            return self.count_by_sender(from);
        }
        running.bytes = running.bytes.saturating_add(datagram.len());
        if running.bytes > HANDSHAKE_BYTES_MAX {
            self.refused.dtls_excess += 1;
            return;
        }
        running.association.on_datagram(now, datagram);
        self.follow_dtls(now, port, out);
    }

    /// Performs what is due at `now`.
    pub(super) fn on_dtls_time(&mut self, now: Instant, out: &mut Outbox) {
        for port in [RTP_PORT, RTCP_PORT] {
            let (has_params, awaits_check) = (self.params.is_some(), self.awaits_check());
            let Some(dtls) = &mut self.dtls else { return };
            let early = dtls.port(port).early.take_if(|_| has_params);
            let Some(running) = &mut dtls.port(port).running else { continue };
            let is_over = running.until.is_some_and(|until| until <= now);
            if !awaits_check {
                running.association.on_timeout(now);
                self.follow_dtls(now, port, out);
            }
            if let Some((from, datagram)) = early.filter(|_| self.ice.is_none()) {
                self.on_dtls(now, port, from, &datagram, out);
            }
            if is_over {
                self.fail_dtls(now, port, DtlsFailure::Unanswered);
            }
        }
    }

    /// Passes on the output of an association.
    fn follow_dtls(&mut self, now: Instant, port: ListenerId, out: &mut Outbox) {
        let peer = self.dtls_peer(port);
        loop {
            let Some(running) = self.dtls.as_mut().and_then(|dtls| dtls.port(port).running.as_mut()) else {
                return;
            };
            running.is_fresh = false;
            let target = running.from.or(peer).filter(|target| is_reachable(*target));
            match running.association.poll() {
                None => return,
                Some(DtlsOutput::Datagram(bytes)) => {
                    if let Some(target) = target {
                        out.send(Flow::udp(port, target), Token::NONE, &bytes);
                    }
                }
                Some(DtlsOutput::Keys(keys)) => {
                    running.until = None;
                    let proved = running.from;
                    self.on_dtls_keys(now, port, proved, &keys);
                }
                Some(DtlsOutput::Failed(failure)) => self.fail_dtls(now, port, failure),
            }
        }
    }

    fn on_dtls_keys(&mut self, now: Instant, port: ListenerId, proved: Option<SocketAddr>, keys: &DtlsKeys) {
        let DtlsKeys { suite, send, receive, .. } = keys;
        let srtp = match &mut self.control_srtp {
            Some(control) if port == RTCP_PORT => control,
            Some(_) | None => &mut self.srtp,
        };
        let settings = self.config.srtp;
        if let Err(error) = srtp.set_agreed(KeyManagement::Dtls, *suite, send, receive, settings) {
            return self.fail(SecurityFailure::Key(error));
        }
        if port == RTCP_PORT {
            self.control_from = proved.or(self.control_from);
            return;
        }
        // The handshake proves that the peer is there.
        let moved =
            proved.zip(self.latch.as_mut()).map(|(from, latch)| (from, latch.on_authenticated(now, from)));
        if let Some((from, Sender::NewPeer)) = moved {
            self.on_new_peer(from);
        }
        self.emit(MediaEvent::Secured { suite: *suite, sas: None, key_management: KeyManagement::Dtls });
    }

    /// Ends a handshake. One with a stranger begins again; one of RTCP ends the call only if somebody is in between.
    fn fail_dtls(&mut self, now: Instant, port: ListenerId, failure: DtlsFailure) {
        let Some(dtls) = &mut self.dtls else { return };
        let identity = Arc::clone(&dtls.identity);
        let Some(running) = &mut dtls.port(port).running else { return };
        if running.until.is_none() {
            // The keys stay; only retransmissions are not answered any more.
            return;
        }
        if running.from.is_some() && failure != DtlsFailure::Unanswered {
            self.refused.strangers += 1;
            running.strangers += 1;
            return running.begin_again(&*identity, now);
        }
        // It is kept as ended, so that the same parameters do not begin another one.
        running.until = None;
        if port == RTP_PORT || failure == DtlsFailure::WrongCertificate {
            dtls.stop();
            self.fail(SecurityFailure::Dtls(failure));
        }
    }

    /// True while ICE is in use and the peer has not checked yet.
    pub(super) fn awaits_check(&self) -> bool {
        self.ice.as_ref().is_some_and(|ice| ice.target().is_none())
    }

    /// The peer's known address at a port.
    fn dtls_peer(&self, port: ListenerId) -> Option<SocketAddr> {
        if let Some(ice) = &self.ice {
            return ice.target();
        }
        let params = self.params.as_ref()?;
        let peer = match port {
            RTCP_PORT => Flow::canonical(params.remote_rtcp),
            _ => self.latch.as_ref().map_or_else(|| Flow::canonical(params.remote), Latch::target),
        };
        Some(peer)
    }
}

/// Maximum time from the agreement to the keys. The first messages of an active peer may be lost until its SDP arrives,
/// which SIP retransmits for some seconds.
const HANDSHAKE_MAX: Duration = Duration::from_secs(20);

/// Maximum number of bytes that are read in one association: a handshake takes 2 to 4 kB, and each retransmission as
/// much again.
const HANDSHAKE_BYTES_MAX: usize = 65_536;

/// Time after which the handshake of a sender gives way to that of another.
const SENDER_MAX: Duration = Duration::from_secs(5);

/// Maximum number of handshakes with others than the peer.
const STRANGERS_MAX: u32 = 8;

/// Maximum length of a first message that is kept until the SDP arrives.
const EARLY_BYTES_MAX: usize = 2048;
