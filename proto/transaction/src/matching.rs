//! Matching requests to server transactions (RFC 3261 §17.2.3).

use ringway_sansio::PartHasher;
use ringway_sip::{Message, Method, Start};
use siphasher::sip128::{Hasher128, SipHasher13};

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
