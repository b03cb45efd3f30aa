//! Names of calls: keyed hashes of what the messages of a call have in common.

use crate::{CallEvent, CallStep};
use core::hash::{BuildHasherDefault, Hasher};
use core::net::IpAddr;
use ringway_sansio::{PartHasher, Seed, source_of};
use ringway_sip::{HeaderName, Message, Start, Via};
use siphasher::sip::SipHasher13;

/// Key of the names of calls. Peers choose Call-IDs, tags and branches; without the key nobody can make two names equal.
#[derive(Clone, Copy, Debug)]
pub struct CallNames {
    key: [u8; 16],
}

/// Hasher of keys that are made of such names: they are keyed hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameHasher(u64);

pub(super) type NameHash = BuildHasherDefault<NameHasher>;

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

    /// Name of a step; `None` for one that no record depends on, or whose request is neither parsed nor named.
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
        // Never from the response, whose sender chooses it, but for the tag of the answer.
        let mut name = match (event.name, event.parsed) {
            (Some(name), _) => *name,
            (None, Some(request)) => self.name(request, event),
            (None, None) => return None,
        };
        if let (CallStep::Answered(_), Some(response)) = (event.step, event.response) {
            name.to = self.tag(response.to().tag());
        }
        Some(name)
    }

    fn name(&self, request: &Message<'_>, event: &CallEvent<'_>) -> CallName {
        let cseq = request.cseq().number;
        let (call, from) = (self.hash(request.call_id()), self.tag(request.from().tag()));
        let to = self.tag(request.to().tag());
        let mut name = CallName { call, from, to, via: 0, before: 0, uri: 0, cseq, owner: 0 };
        if matches!(event.step, CallStep::Bye | CallStep::ByeRefused(_)) {
            return name;
        }
        // Branches of old clients are not unique: with the call they are. All are keyed hashes.
        let mixed = call.rotate_left(21) ^ from.rotate_left(42) ^ u64::from(cseq);
        name.via = self.hash_via(request.via()) ^ mixed;
        if event.step == CallStep::Begun {
            name.owner = self.owner(event);
            if event.is_spiral {
                let before = request.values(HeaderName::Via).nth(1);
                let before = before.and_then(|value| Via::parse(value).ok());
                name.before = before.map_or(0, |via| self.hash_via(&via) ^ mixed);
            }
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

    fn tag(&self, tag: Option<&[u8]>) -> u64 {
        tag.map_or(0, |tag| self.hash(tag).max(1))
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        // A single part, whose end SipHash includes.
        SipHasher13::new_with_key(&self.key).hash(bytes)
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
    use crate::CallSender;
    use ringway_sip::Limits;

    #[test]
    fn a_step_of_a_named_call_reads_only_the_tag_of_its_answer() {
        let names = CallNames::new(&Seed::from_number(1));
        let answer = b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP x;branch=other\r\nFrom: <sip:x@x>;tag=other\r\nTo: <sip:b@h>;tag=2\r\n\
                       Call-ID: other\r\nCSeq: 9 INVITE\r\nContent-Length: 0\r\n\r\n";
        let answer = Message::parse(answer, &Limits::default()).unwrap();
        let name = CallName { call: 1, from: 2, to: 0, via: 3, before: 0, uri: 4, cseq: 5, owner: 6 };
        for (step, to) in [(CallStep::Ringing(180), 0), (CallStep::Answered(200), names.hash(b"2"))] {
            let event = CallEvent::stored(step, b"not read", CallSender::Stranger);
            assert_eq!(names.of(&event), None, "the call began before calls were recorded");
            let event = CallEvent { name: Some(&name), response: Some(&answer), ..event };
            assert_eq!(names.of(&event), Some(CallName { to, ..name }));
        }
    }

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
