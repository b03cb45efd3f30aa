//! Names of calls: keyed hashes of what the messages of a call have in common.

use crate::{CallEvent, CallStep};
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::{PartHasher, Seed, source_of};
use ringway_sip::{HeaderName, Limits, Message, Start, Via};
use siphasher::sip::SipHasher13;

/// Key of the names of calls. Peers choose Call-IDs, tags and branches; without the key nobody can make two names equal.
#[derive(Clone, Copy, Debug)]
pub struct CallNames {
    key: [u8; 16],
}

/// Hasher of keys that are made of such names: they are keyed hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameHasher(u64);

/// Name of a step: its call, its sides, and the transaction that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName {
    /// Call-ID.
    pub(super) call: u64,
    /// From tag; 0: none.
    pub(super) from: u64,
    /// To tag; 0: none, or no step of its kind depends on it.
    pub(super) to: u64,
    /// Topmost Via of the INVITE as it was received (branch and sent-by), and its CSeq number; of no meaning in the name of a BYE.
    pub(super) via: u64,
    /// The same of the second Via, which is that of the pass before if this server sent the INVITE to itself; otherwise 0.
    pub(super) before: u64,
    /// Request-URI of the INVITE; of no meaning in the name of a BYE.
    pub(super) uri: u64,
    /// CSeq number.
    pub(super) cseq: u32,
    /// Cause of the call, whose share of the table it takes: the user whose password the caller proved, otherwise its address. 0 except for
    /// [`CallStep::Begun`].
    pub(super) owner: u64,
}

/// Transaction of an INVITE, by the keyed hashes of its Via and its Request-URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pass {
    pub(super) via: u64,
    pub(super) uri: u64,
}

impl Hasher for NameHasher {
    /// The low bits of a product depend on the low bits of its factors only, and a table takes the low bits: without the high half, CSeq
    /// numbers that a peer chooses would collide. A second product spreads their pattern.
    fn finish(&self) -> u64 {
        let folded = (self.0 ^ (self.0 >> 32)).wrapping_mul(MULTIPLIER);
        folded ^ (folded >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(23) ^ value).wrapping_mul(MULTIPLIER);
    }
}

impl CallNames {
    /// Creates the names; the key is the first half of `seed`.
    pub fn new(seed: &Seed) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(seed.bytes().get(..16).unwrap_or(&[0; 16]));
        Self { key }
    }

    /// Name of a step; `None` for one that no record depends on.
    pub fn of(&self, event: &CallEvent<'_>) -> Option<CallName> {
        match event.step {
            CallStep::Refused(_) | CallStep::Forwarded => return None,
            CallStep::Begun
            | CallStep::Diverted(_)
            | CallStep::Ringing(_)
            | CallStep::Answered(_)
            | CallStep::Failed(_)
            | CallStep::Cancelled
            | CallStep::TimedOut
            | CallStep::Over
            | CallStep::Bye
            | CallStep::ByeRefused(_) => {}
        }
        // Never from the response: its sender chooses it.
        match event.parsed {
            Some(request) => Some(self.name(request, event)),
            None => Some(self.name(&Message::parse(event.message, &Limits::default()).ok()?, event)),
        }
    }

    fn name(&self, request: &Message<'_>, event: &CallEvent<'_>) -> CallName {
        let tag = |tag: Option<&[u8]>| tag.map_or(0, |tag| self.hash(tag).max(1));
        let cseq = request.cseq().number;
        let (call, from) = (self.hash(request.call_id()), tag(request.from().tag()));
        let to = match event.step {
            CallStep::Begun | CallStep::Answered(_) | CallStep::Bye | CallStep::ByeRefused(_) => {
                tag(event.response.unwrap_or(request).to().tag())
            }
            CallStep::Refused(_)
            | CallStep::Forwarded
            | CallStep::Diverted(_)
            | CallStep::Ringing(_)
            | CallStep::Failed(_)
            | CallStep::Cancelled
            | CallStep::TimedOut
            | CallStep::Over => 0,
        };
        let mut name = CallName { call, from, to, via: 0, before: 0, uri: 0, cseq, owner: 0 };
        if matches!(event.step, CallStep::Bye | CallStep::ByeRefused(_)) {
            return name;
        }
        // Branches of old clients are not unique: with the call they are. All are keyed hashes.
        let mixed = call.rotate_left(21) ^ from.rotate_left(42) ^ u64::from(cseq);
        name.via = self.hash_via(request.via()) ^ mixed;
        if event.step == CallStep::Begun {
            name.owner = self.owner(event);
            let before = request.values(HeaderName::Via).nth(1).filter(|_| event.is_spiral);
            let before = before.and_then(|value| Via::parse(value).ok());
            name.before = before.map_or(0, |via| self.hash_via(&via) ^ mixed);
        }
        if let Start::Request { uri, .. } = request.start() {
            name.uri = self.hash(uri.as_bytes());
        }
        name
    }

    fn hash_via(&self, via: &Via<'_>) -> u64 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.part(via.branch.unwrap_or_default());
        hash.part(via.host.as_bytes());
        hash.fixed(&via.port.unwrap_or_default().to_be_bytes());
        hash.into_hasher().finish()
    }

    fn owner(&self, event: &CallEvent<'_>) -> u64 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        // A stranger does not share with a believed caller at its address.
        hash.fixed(&[event.sender as u8]);
        match (event.user, event.flow) {
            (Some(user), _) => hash.part(user),
            (None, Some(flow)) => match source_of(flow.remote.ip()) {
                IpAddr::V4(address) => hash.fixed(&address.octets()),
                IpAddr::V6(address) => hash.fixed(&address.octets()),
            },
            (None, None) => {}
        }
        hash.into_hasher().finish()
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        // A single part, whose end SipHash includes.
        hasher.write(bytes);
        hasher.finish()
    }
}

impl CallName {
    /// Partition of the call among `count`: all messages with its Call-ID have the same.
    pub fn partition(&self, count: usize) -> usize {
        (self.call >> 32) as usize % count.max(1)
    }

    pub(super) const fn pass(&self) -> Pass {
        Pass { via: self.via, uri: self.uri }
    }
}

/// An odd number, so that no bit of a name is lost.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_cseq_numbers_do_not_collide() {
        const BITS: u32 = 13;
        for shift in 0..20 {
            let mut slots = alloc::vec![0; 1 << BITS];
            for number in 0..4096_u32 {
                let mut hash = NameHasher::default();
                // As in the name of a pass.
                hash.write_u64(0x1234_5678_9abc_def0 ^ u64::from(number << shift));
                slots[hash.finish() as usize % (1 << BITS)] += 1;
            }
            // Random names have at most about 7 in a slot.
            let most = slots.iter().max();
            assert!(most.is_some_and(|most| *most <= 16), "{shift}: {most:?}");
        }
    }
}
