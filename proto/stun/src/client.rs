//! STUN client: determines the mapped address of our port, and keeps the NAT mapping open.
//!
//! ```text
//! idle ── start ──► asking ── answer ──► resting ── 30 s ──► asking …
//!                     └─── 7 requests without an answer, or refused ──► resting
//! ```

use super::{Class, METHOD_BINDING, Message, MessageWriter, TransactionId, attribute};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Deadline, Defence, Entropy, Instant, Seed};

/// Client of one server from one local port.
#[derive(Clone)]
pub struct StunClient {
    server: SocketAddr,
    entropy: Entropy,
    state: State,
    mapped: Option<SocketAddr>,
    counts: StunCounts,
}

/// Event of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StunEvent {
    /// Mapped address of our port: initially, or after a change.
    Mapped(SocketAddr),
    /// A transaction failed; the next one starts 30 s later.
    Failed(StunFailure),
}

/// Reason why a transaction failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StunFailure {
    /// No response within 39.5 s (RFC 8489 §6.2.1).
    #[error("the STUN server does not answer: check its address, or use another")]
    Timeout,
    /// Error response with this code (300 to 699).
    #[error("the STUN server refused with {0}: use another")]
    Refused(u16),
    /// The response has an unknown required attribute or no address (RFC 8489 §6.3.3, §6.3.4).
    #[error("the response of the STUN server has no usable address: use another")]
    Unusable,
}

/// Numbers of datagrams that were ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StunCounts {
    /// Not a STUN message, or with a wrong fingerprint.
    pub malformed: u64,
    /// From another address, with another transaction ID, or not a response.
    pub strangers: u64,
}

#[derive(Clone)]
enum State {
    Idle,
    Asking { id: TransactionId, request: Vec<u8>, sent: u32, interval: Duration, at: Instant },
    Resting { until: Instant },
}

impl StunClient {
    /// Creates an idle client. `seed` must be unpredictable: the transaction IDs are generated from it.
    pub fn new(server: SocketAddr, seed: &Seed) -> Self {
        Self {
            server,
            entropy: Entropy::new(seed),
            state: State::Idle,
            mapped: None,
            counts: StunCounts::default(),
        }
    }

    /// Sends the first request; what is passed to `out` must be sent to the server's address.
    pub fn start(&mut self, now: Instant, out: &mut dyn FnMut(&[u8])) {
        let id = TransactionId(self.entropy.bytes());
        let request = MessageWriter::new(Class::Request, METHOD_BINDING, id).finish_with_fingerprint();
        out(&request);
        self.state = State::Asking { id, request, sent: 1, interval: RTO, at: now + RTO };
    }

    /// Ends the transaction and the keep-alive.
    pub fn stop(&mut self) {
        self.state = State::Idle;
    }

    /// Handles a datagram. Only a response to the current
    /// request from the server's address has an effect.
    pub fn on_datagram(&mut self, now: Instant, source: SocketAddr, bytes: &[u8]) -> Option<StunEvent> {
        let Ok(message) = Message::parse(bytes) else {
            self.counts.malformed += 1;
            return None;
        };
        let is_ours = matches!(&self.state, State::Asking { id, .. } if *id == message.id());
        let is_answer = matches!(message.class(), Class::Success | Class::Error) && message.is_binding();
        if !is_ours || !is_answer || (source != self.server && Defence::StunSource.is_on()) {
            self.counts.strangers += 1;
            return None;
        }
        self.state = State::Resting { until: now + KEEP_ALIVE };
        match mapping(&message) {
            Ok(address) if self.mapped == Some(address) => None,
            Ok(address) => {
                self.mapped = Some(address);
                Some(StunEvent::Mapped(address))
            }
            Err(failure) => Some(StunEvent::Failed(failure)),
        }
    }

    /// Sends the request that is due.
    pub fn on_timeout(&mut self, now: Instant, out: &mut dyn FnMut(&[u8])) -> Option<StunEvent> {
        match &mut self.state {
            State::Idle => None,
            State::Resting { until } if *until <= now => {
                self.start(now, out);
                None
            }
            State::Asking { request, sent, interval, at, .. } if *at <= now => {
                if *sent >= REQUESTS_MAX {
                    self.state = State::Resting { until: now + KEEP_ALIVE };
                    return Some(StunEvent::Failed(StunFailure::Timeout));
                }
                out(request);
                *sent += 1;
                *interval *= 2;
                *at = now + if *sent == REQUESTS_MAX { RTO * LAST_WAIT } else { *interval };
                None
            }
            State::Resting { .. } | State::Asking { .. } => None,
        }
    }

    /// Time of the next call of [`on_timeout`](Self::on_timeout).
    pub fn next_deadline(&self) -> Option<Deadline> {
        match &self.state {
            State::Idle => None,
            State::Asking { at, .. } => Some(Deadline { at: *at, reason: "STUN request unanswered" }),
            State::Resting { until } => Some(Deadline { at: *until, reason: "STUN keep-alive" }),
        }
    }

    /// Mapped address in the last response.
    pub const fn mapped(&self) -> Option<SocketAddr> {
        self.mapped
    }

    /// Address of the server.
    pub const fn server(&self) -> SocketAddr {
        self.server
    }

    /// Numbers of datagrams that were ignored.
    pub const fn counts(&self) -> StunCounts {
        self.counts
    }
}

impl fmt::Debug for StunClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StunClient({}, {:?})", self.server, self.mapped)
    }
}

fn mapping(message: &Message<'_>) -> Result<SocketAddr, StunFailure> {
    if message.unknown_required().next().is_some() {
        return Err(StunFailure::Unusable);
    }
    if message.class() == Class::Error {
        let code = message.error_code().ok_or(StunFailure::Unusable)?.0;
        return Err(StunFailure::Refused(code));
    }
    // Servers from before the XOR had only the other; both, and the first is meant (RFC 8489 §14.2).
    let address = message.xor_mapped_address();
    let has_xor = message.attribute(attribute::XOR_MAPPED_ADDRESS).is_some();
    address.or_else(|| if has_xor { None } else { message.mapped_address() }).ok_or(StunFailure::Unusable)
}

/// Initial retransmission timeout, which doubles with every request (RFC 8489 §6.2.1).
const RTO: Duration = Duration::from_millis(500);
/// Rc of RFC 8489 §6.2.1.
const REQUESTS_MAX: u32 = 7;
/// Rm of RFC 8489 §6.2.1, in units of the first interval.
const LAST_WAIT: u32 = 16;
/// Keep-alive interval: NATs remove a mapping after 30 s to some minutes without packets (RFC 4787 §4.3).
const KEEP_ALIVE: Duration = Duration::from_secs(30);
