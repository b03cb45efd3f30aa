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

use crate::stun::{Class, Message, MessageWriter, attribute};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Deadline, Instant};
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

/// A check with our password.
enum Check {
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

    /// The state for these parameters; `None` without ICE. Media continues to the nominated address after other
    /// credentials, until the peer nominates again (RFC 8445 §9) or its consent expires.
    pub(super) fn agreed(before: Option<Self>, params: &MediaParams, now: Instant) -> Option<Self> {
        let params = params.ice.clone()?;
        Some(match before {
            Some(before) => Self { params, ..before },
            None => Self::new(params, now),
        })
    }

    /// Handles a Binding request. Returns its response; `None` if it is not a valid check of the peer.
    pub(super) fn answer(&mut self, now: Instant, from: SocketAddr, request: &[u8]) -> Option<Vec<u8>> {
        match self.check(from, request)? {
            Check::Conflict(response) => Some(response),
            Check::Valid { response, nominates } => {
                self.on_valid(now, from, nominates);
                Some(response)
            }
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
    fn check(&self, from: SocketAddr, datagram: &[u8]) -> Option<Check> {
        let IceParams { local, remote } = &self.params;
        let message = Message::parse(datagram).ok()?;
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
            return None;
        }
        let writer = |class| MessageWriter::new(class, message.method(), message.id());
        if message.attribute(attribute::ICE_CONTROLLED).is_some() {
            // A lite agent is never the controlling one of a full agent (RFC 8445 §6.1.1).
            let response = writer(Class::Error).error_code(ROLE_CONFLICT, "");
            return Some(Check::Conflict(response.integrity(password).finish_with_fingerprint()));
        }
        let response = writer(Class::Success).xor_mapped_address(from);
        Some(Check::Valid {
            response: response.integrity(password).finish_with_fingerprint(),
            nominates: message.attribute(attribute::USE_CANDIDATE).is_some(),
        })
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

/// Number of addresses of the peer that are kept; a browser checks from each of its own.
const CHECKED_MAX: usize = 8;

/// Time without a check or an authenticated packet after which nothing is sent any more (RFC 7675 §5.1).
const CONSENT: Duration = Duration::from_secs(30);

/// RFC 8445 §7.3.1.1.
const ROLE_CONFLICT: u16 = 487;
