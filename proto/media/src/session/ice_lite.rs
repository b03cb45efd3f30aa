//! ICE of a lite agent (RFC 8445 §2.5): the peer's checks are answered, and the address that it nominates gets the media.
//!
//! ```text
//!            SDP with credentials        valid check            with USE-CANDIDATE
//!   no ICE ──────────────────────► open ─────────────► checked ───────────────────► nominated ◄──┐ check or authenticated
//!                                                                                       │        │ packet from there
//!                                                                                       └─ 30 s ─┴─► silent
//! ```
//! Nothing of an address that passed no check is read, and nothing is sent there, except the response to a valid check.
//! That is not longer than the check, so that nobody can use it against others with a forged source address.

use super::{MediaSession, RTP_PORT};
use crate::stun::{Class, Message, MessageWriter, attribute};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Deadline, Flow, Instant, Outbox, Token};
use ringway_sdp::{IceParams, MediaParams};

/// State of ICE.
#[derive(Debug)]
pub(super) struct IceLite {
    params: IceParams,
    /// Sources of valid checks, the newest first, at most [`CHECKED_MAX`].
    checked: Vec<SocketAddr>,
    nominated: Option<SocketAddr>,
    /// Time of the last check or authenticated packet from the nominated address.
    heard_at: Instant,
    /// Nothing came from there for [`CONSENT`].
    is_silent: bool,
}

/// Response to a datagram that may be a check.
enum Verdict {
    /// Not a check of the peer.
    Invalid,
    /// The peer has the wrong role.
    Conflict(Vec<u8>),
    Valid {
        response: Vec<u8>,
        nominates: bool,
    },
}

impl IceLite {
    fn new(params: IceParams, now: Instant) -> Self {
        Self {
            params,
            checked: Vec::with_capacity(CHECKED_MAX),
            nominated: None,
            heard_at: now,
            is_silent: false,
        }
    }

    /// True for an address from which a valid check came.
    pub(super) fn admits(&self, from: SocketAddr) -> bool {
        self.nominated == Some(from) || self.checked.contains(&from)
    }

    /// Destination of media.
    pub(super) fn selected(&self) -> Option<SocketAddr> {
        self.nominated.filter(|_| !self.is_silent)
    }

    /// Destination of a DTLS handshake, which may begin before the nomination.
    pub(super) fn target(&self) -> Option<SocketAddr> {
        self.nominated.or_else(|| self.checked.first().copied())
    }

    /// Notes a check or an authenticated packet.
    pub(super) fn hear(&mut self, now: Instant, from: SocketAddr) {
        if self.nominated == Some(from) {
            (self.heard_at, self.is_silent) = (now, false);
        }
    }

    pub(super) fn on_time(&mut self, now: Instant) {
        self.is_silent |= self.consent_ends().is_some_and(|end| end <= now);
    }

    pub(super) fn next_deadline(&self) -> Option<Deadline> {
        self.consent_ends().map(|at| Deadline { at, reason: "no check of the peer: its consent expires" })
    }

    fn consent_ends(&self) -> Option<Instant> {
        self.selected().map(|_| self.heard_at + CONSENT)
    }

    /// Reads a check (RFC 8445 §7.3): a Binding request with FINGERPRINT, PRIORITY, both user names and our password.
    fn verdict(&self, from: SocketAddr, datagram: &[u8]) -> Verdict {
        let IceParams { local, remote } = &self.params;
        let Ok(message) = Message::parse(datagram) else { return Verdict::Invalid };
        let is_named = message.attribute(attribute::USERNAME).is_some_and(|name| {
            let rest = name.strip_prefix(local.ufrag().as_bytes());
            rest.and_then(|rest| rest.strip_prefix(b":")) == Some(remote.ufrag().as_bytes())
        });
        let is_complete = [attribute::FINGERPRINT, attribute::PRIORITY]
            .into_iter()
            .all(|kind| message.attribute(kind).is_some());
        let is_check = message.class() == Class::Request && message.is_binding() && is_named && is_complete;
        let password = local.password().as_bytes();
        if !is_check || !message.has_integrity(password) || message.unknown_required().next().is_some() {
            return Verdict::Invalid;
        }
        let writer = |class| MessageWriter::new(class, message.method(), message.id());
        if message.attribute(attribute::ICE_CONTROLLED).is_some() {
            // A lite agent is never the controlling one of a full agent (RFC 8445 §6.1.1).
            let response = writer(Class::Error).error_code(ROLE_CONFLICT, "");
            return Verdict::Conflict(response.integrity(password).finish_with_fingerprint());
        }
        let response = writer(Class::Success).xor_mapped_address(from);
        Verdict::Valid {
            response: response.integrity(password).finish_with_fingerprint(),
            nominates: message.attribute(attribute::USE_CANDIDATE).is_some(),
        }
    }

    /// Notes a valid check.
    fn on_valid(&mut self, now: Instant, from: SocketAddr, nominates: bool) {
        self.checked.retain(|other| *other != from);
        self.checked.truncate(CHECKED_MAX - 1);
        self.checked.insert(0, from);
        if nominates {
            self.nominated = Some(from);
        }
        self.hear(now, from);
    }
}

impl MediaSession {
    /// Applies the negotiated ICE. Media continues to the nominated address after other credentials, until the peer
    /// nominates again (RFC 8445 §9) or its consent expires. Returns true if ICE is in use.
    pub(super) fn set_ice(&mut self, now: Instant, params: &MediaParams) -> bool {
        let before = self.ice.take();
        self.ice = params.ice.as_ref().map(|params| match before {
            Some(before) if before.params == *params => before,
            Some(before) => IceLite { params: params.clone(), ..before },
            None => IceLite::new(params.clone(), now),
        });
        self.ice.is_some()
    }

    /// Answers a check of the peer.
    pub(super) fn on_check(&mut self, now: Instant, from: SocketAddr, datagram: &[u8], out: &mut Outbox) {
        let Some(ice) = &mut self.ice else { return };
        let flow = Flow::udp(RTP_PORT, from);
        match ice.verdict(from, datagram) {
            Verdict::Invalid => self.refused.checks += 1,
            Verdict::Conflict(response) => out.send(flow, Token::NONE, &response),
            Verdict::Valid { response, nominates } => {
                out.send(flow, Token::NONE, &response);
                ice.on_valid(now, from, nominates);
            }
        }
    }
}

/// Number of addresses of the peer that are kept; a browser checks from each of its own.
const CHECKED_MAX: usize = 8;

/// Time without a check or an authenticated packet after which nothing is sent any more (RFC 7675 §5.1).
const CONSENT: Duration = Duration::from_secs(30);

/// RFC 8445 §7.3.1.1.
const ROLE_CONFLICT: u16 = 487;
