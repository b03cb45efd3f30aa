//! Stored state of a server transaction, the key by which requests match it (RFC 3261 §17.2.3), and the limit of the bytes
//! that are sent to an unverified address.

use crate::slab::SlabKey;
use crate::state::{ServerEvent, Step, invite_server, non_invite_server};
use crate::timers::Clock;
use alloc::vec::Vec;
use core::net::SocketAddr;
use ringway_sansio::{Defence, Flow, PartHasher};
use ringway_sip::{Message, Method, Start};
use siphasher::sip128::{Hasher128, SipHasher13};

/// Key of a server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId(pub(crate) SlabKey);

#[derive(Debug)]
pub(crate) struct Server<S> {
    pub(crate) machine: Machine,
    /// Flow of the responses.
    pub(crate) reply: Flow,
    /// Address of the responses after the connection is closed (RFC 3261 §18.2.2).
    pub(crate) fallback: Option<SocketAddr>,
    pub(crate) owner: S,
    pub(crate) key: MatchKey,
    /// Remaining allowance; `None` for a verified address.
    pub(crate) allowance: Option<Allowance>,
    /// Last response, as long as it may be retransmitted.
    pub(crate) last: Vec<u8>,
    pub(crate) clock: Clock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    Invite(invite_server::State),
    NonInvite(non_invite_server::State),
}

impl Machine {
    pub(crate) const fn new(is_invite: bool) -> Self {
        if is_invite {
            Self::Invite(invite_server::State::Proceeding)
        } else {
            Self::NonInvite(non_invite_server::State::Trying)
        }
    }

    pub(crate) fn on(self, event: ServerEvent, reliable: bool) -> Step<Self> {
        match self {
            Self::Invite(state) => invite_server::on(state, event, reliable).map(Self::Invite),
            Self::NonInvite(state) => non_invite_server::on(state, event, reliable).map(Self::NonInvite),
        }
    }

    pub(crate) fn is_over(self) -> bool {
        match self {
            Self::Invite(state) => state == invite_server::State::Terminated,
            Self::NonInvite(state) => state == non_invite_server::State::Terminated,
        }
    }

    pub(crate) fn is_answered(self) -> bool {
        match self {
            Self::Invite(state) => state != invite_server::State::Proceeding,
            Self::NonInvite(state) => {
                !matches!(state, non_invite_server::State::Trying | non_invite_server::State::Proceeding)
            }
        }
    }
}

/// Keyed 128-bit hash of everything that a request must share with the request that created a transaction. Peers cannot
/// provoke a collision without the key, so nothing else is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatchKey(pub(crate) u128);

/// Computes match keys; the secret never leaves the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matcher {
    key: [u8; 16],
}

impl Matcher {
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    /// Key of the transaction that `message` creates or belongs to. An ACK has the key of its INVITE.
    pub(crate) fn key(&self, message: &Message<'_>) -> MatchKey {
        let method = match message.method() {
            Method::Ack => Method::Invite,
            other => other,
        };
        self.key_as(message, method)
    }

    /// Key of the INVITE that a CANCEL belongs to (RFC 3261 §9.2).
    pub(crate) fn key_of_cancelled(&self, cancel: &Message<'_>) -> MatchKey {
        self.key_as(cancel, Method::Invite)
    }

    fn key_as(&self, message: &Message<'_>, method: Method<'_>) -> MatchKey {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.part(method.as_bytes());
        let via = message.via();
        hash.part(via.host.as_bytes());
        hash.fixed(&via.port.unwrap_or(0).to_le_bytes());
        match via.branch {
            Some(branch) if via.has_unique_branch() => hash.part(branch),
            // RFC 2543 clients: everything that is equal in a retransmission. The To tag of an INVITE is not used,
            // because the ACK of a failed INVITE has one and the INVITE has none.
            _ => {
                if let Start::Request { uri, .. } = message.start() {
                    hash.part(uri.as_bytes());
                }
                if method != Method::Invite {
                    hash.part(message.to().tag().unwrap_or_default());
                }
                hash.part(message.from().tag().unwrap_or_default());
                hash.part(message.call_id());
                hash.fixed(&message.cseq().number.to_le_bytes());
                hash.part(via.branch.unwrap_or_default());
            }
        }
        MatchKey(hash.hasher().finish128().as_u128())
    }
}

/// Bytes received from an unverified address for one transaction, and bytes sent there in return.
///
/// The source of a datagram can be forged, and the owner of the address may be a victim (RFC 9000 §8.1 has the same
/// rule). Generated responses, retransmissions included, have together at most [`Allowance::GENERATED_FACTOR`] times the
/// received bytes, or [`Allowance::GENERATED_MIN`] bytes; forwarded responses together at most
/// [`Allowance::FORWARDED_FACTOR`] times the received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    received: u32,
    generated: u32,
    forwarded: u32,
}

/// Origin of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Generated locally, or retransmitted.
    Generated,
    /// Forwarded from another element.
    Forwarded,
}

impl Allowance {
    /// Generated bytes for each received byte.
    pub const GENERATED_FACTOR: usize = 3;
    /// Generated bytes that are allowed for any request.
    pub const GENERATED_MIN: usize = 800;
    /// Bytes of forwarded responses for each received byte.
    pub const FORWARDED_FACTOR: usize = 10;

    /// Creates the allowance of a request with this length in bytes.
    pub fn for_request(bytes: usize) -> Self {
        let mut allowance = Self { received: 0, generated: 0, forwarded: 0 };
        allowance.receive(bytes);
        allowance
    }

    /// Maximum number of generated bytes in return for requests of `received` bytes together.
    pub const fn generated_max(received: usize) -> usize {
        let bytes = received.saturating_mul(Self::GENERATED_FACTOR);
        if bytes > Self::GENERATED_MIN { bytes } else { Self::GENERATED_MIN }
    }

    /// Counts a retransmission of the request.
    pub(crate) fn receive(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Counts a response of this length; false if it exceeds the allowance.
    pub(crate) fn send(&mut self, origin: Origin, bytes: usize) -> bool {
        let received = self.received as usize;
        let (sent, max) = match origin {
            Origin::Generated => (&mut self.generated, Self::generated_max(received)),
            Origin::Forwarded => (&mut self.forwarded, received.saturating_mul(Self::FORWARDED_FACTOR)),
        };
        let total = (*sent as usize).saturating_add(bytes);
        if total > max && Defence::Amplification.is_on() {
            return false;
        }
        *sent = u32::try_from(total).unwrap_or(u32::MAX);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_bound_and_retransmissions_of_the_request_raise_it() {
        let mut allowance = Allowance::for_request(100);
        assert!(allowance.send(Origin::Generated, 800) && !allowance.send(Origin::Generated, 1));
        assert!(allowance.send(Origin::Forwarded, 1000) && !allowance.send(Origin::Forwarded, 1));
        allowance.receive(300);
        assert!(allowance.send(Origin::Generated, 400) && !allowance.send(Origin::Generated, 1));
        assert!(allowance.send(Origin::Forwarded, 3000) && !allowance.send(Origin::Forwarded, 1));
        assert!(!Allowance::for_request(usize::MAX).send(Origin::Generated, usize::MAX));
    }
}
