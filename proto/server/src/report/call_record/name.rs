//! Names of calls: keyed hashes of what the messages of a call have in common.

use crate::report::CallName;
use crate::{CallEvent, CallStep};
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::{PartHasher, Seed, source_of};
use ringway_sip::{HeaderName, Message, Start, Via};
use siphasher::sip::SipHasher13;

/// Key of the names of calls. Peers choose Call-IDs, tags and branches; without the key nobody can make two names equal.
#[derive(Clone, Copy, Debug)]
pub struct CallNames {
    key: [u8; 16],
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
        hash.hasher().finish()
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
        hash.hasher().finish()
    }

    fn tag(&self, tag: Option<&[u8]>) -> u64 {
        tag.map_or(0, |tag| self.hash(tag).max(1))
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        // A single part, whose end SipHash includes.
        SipHasher13::new_with_key(&self.key).hash(bytes)
    }
}

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
}
