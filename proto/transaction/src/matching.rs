//! Matching requests to server transactions (RFC 3261 §17.2.3).

use core::hash::Hasher;
use ringway_sip::{Message, Method, Start, Via};
use siphasher::sip128::{Hasher128, SipHasher13};

/// Stands for all that a request must share with the one that made a transaction. A keyed 128-bit hash: peers cannot make
/// two requests meet in it, so nothing else is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatchKey(pub(crate) u128);

/// Makes match keys; the secret never leaves the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matcher {
    key: [u8; 16],
}

impl Matcher {
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    /// The key of the transaction that `message` makes or belongs to. An ACK has that of its INVITE.
    pub(crate) fn key(&self, message: &Message<'_>) -> MatchKey {
        let method = match message.method() {
            Method::Ack => Method::Invite,
            other => other,
        };
        self.key_as(message, method)
    }

    /// The key of the INVITE that a CANCEL belongs to (RFC 3261 §9.2).
    pub(crate) fn key_of_cancelled(&self, cancel: &Message<'_>) -> MatchKey {
        self.key_as(cancel, Method::Invite)
    }

    fn key_as(&self, message: &Message<'_>, method: Method<'_>) -> MatchKey {
        let mut hash = SipHasher13::new_with_key(&self.key);
        put(&mut hash, method.as_bytes());
        let via = message.via();
        put_sent_by(&mut hash, via);
        match via.branch {
            Some(branch) if via.has_unique_branch() => put(&mut hash, branch),
            // RFC 2543 clients: everything that stays the same in a retransmission. An INVITE's To tag is left out
            // because the ACK of a failure has one where the INVITE had none.
            _ => {
                if let Start::Request { uri, .. } = message.start() {
                    put(&mut hash, uri.as_bytes());
                }
                if method != Method::Invite {
                    put(&mut hash, message.to().tag().unwrap_or_default());
                }
                put(&mut hash, message.from().tag().unwrap_or_default());
                put(&mut hash, message.call_id());
                hash.write_u32(message.cseq().number);
                put(&mut hash, via.branch.unwrap_or_default());
            }
        }
        MatchKey(hash.finish128().as_u128())
    }
}

fn put_sent_by(hash: &mut SipHasher13, via: &Via<'_>) {
    put(hash, via.host.as_bytes());
    hash.write_u16(via.port.unwrap_or(0));
}

/// With its length, so that no two rows of parts run together.
fn put(hash: &mut SipHasher13, bytes: &[u8]) {
    hash.write_usize(bytes.len());
    hash.write(bytes);
}
