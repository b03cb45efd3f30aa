//! Names of calls: keyed hashes of what the messages of a call have in common.

use crate::{CallEvent, CallSender, CallStep};
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::{PartHasher, Seed, source_of};
use ringway_sip::grammar::unescaped_octet;
use ringway_sip::{HeaderName, Limits, Message, Via};
use siphasher::sip::SipHasher13;

/// Key of the names of calls. Peers choose Call-IDs, tags and branches; without the key nobody can make two names equal.
#[derive(Clone, Copy, Debug)]
pub struct CallNames {
    key: [u8; 16],
}

/// Name of a step: its call, its sides, and the transaction that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallName {
    /// Call-ID.
    pub(super) call: u64,
    /// From tag; 0: none.
    pub(super) from: u64,
    /// To tag; 0: none.
    pub(super) to: u64,
    /// Branch of the INVITE as it was received, and its CSeq number.
    pub(super) pass: u64,
    /// CSeq number.
    pub(super) cseq: u32,
    /// Cause of the call, whose share of the table it takes: the user whose password the caller proved, otherwise its address. 0 except for
    /// [`CallStep::Begun`].
    pub(super) owner: u64,
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
            | CallStep::Bye => {}
        }
        match (event.response, event.parsed) {
            (Some(response), _) => {
                // The first Via is this server's, the second that of the INVITE.
                let via = response.values(HeaderName::Via).nth(1).and_then(|value| Via::parse(value).ok());
                Some(self.name(response, via.and_then(|via| via.branch)))
            }
            (None, Some(request)) => {
                let owner = if event.step == CallStep::Begun { self.owner(event, request) } else { 0 };
                Some(CallName { owner, ..self.name(request, request.via().branch) })
            }
            (None, None) => {
                let request = Message::parse(event.message, &Limits::default()).ok()?;
                Some(self.name(&request, request.via().branch))
            }
        }
    }

    fn name(&self, message: &Message<'_>, branch: Option<&[u8]>) -> CallName {
        let tag = |tag: Option<&[u8]>| tag.map_or(0, |tag| self.hash(tag).max(1));
        let cseq = message.cseq().number;
        let (call, from) = (self.hash(message.call_id()), tag(message.from().tag()));
        // Branches of old clients are not unique: with the call they are.
        let mut pass = PartHasher::new(SipHasher13::new_with_key(&self.key));
        pass.part(branch.unwrap_or_default());
        pass.fixed(&call.to_le_bytes());
        pass.fixed(&from.to_le_bytes());
        pass.fixed(&cseq.to_le_bytes());
        let pass = pass.into_hasher().finish();
        CallName { call, from, to: tag(message.to().tag()), pass, cseq, owner: 0 }
    }

    fn owner(&self, event: &CallEvent<'_>, invite: &Message<'_>) -> u64 {
        let mut hash = SipHasher13::new_with_key(&self.key);
        match (event.sender, event.flow) {
            (CallSender::Proven, _) => {
                let uri = &invite.from().uri;
                let mut user = uri.user().unwrap_or_default();
                while let Some((octet, used)) = unescaped_octet(user) {
                    hash.write_u8(octet);
                    user = user.get(used..).unwrap_or_default();
                }
                hash.write_u8(b'@');
                uri.host().as_bytes().iter().for_each(|byte| hash.write_u8(byte.to_ascii_lowercase()));
            }
            (CallSender::Believed | CallSender::Stranger, Some(flow)) => match source_of(flow.remote.ip()) {
                IpAddr::V4(address) => hash.write(&address.octets()),
                IpAddr::V6(address) => hash.write(&address.octets()),
            },
            (CallSender::Believed | CallSender::Stranger, None) => {}
        }
        hash.finish()
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(&self.key));
        hash.part(bytes);
        hash.into_hasher().finish()
    }
}

impl CallName {
    /// Partition of the call among `count`: all messages with its Call-ID have the same.
    pub fn partition(&self, count: usize) -> usize {
        (self.call >> 32) as usize % count.max(1)
    }
}
