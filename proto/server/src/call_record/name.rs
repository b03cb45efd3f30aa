//! Names of calls: keyed hashes of what the messages of a call have in common.

use crate::{CallEvent, CallSender, CallStep};
use core::hash::Hasher;
use core::net::IpAddr;
use ringway_sansio::{Seed, source_of};
use ringway_sip::grammar::unescaped_octet;
use ringway_sip::{HeaderName, Limits, Message, Via};
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
    /// Branch of the INVITE as it was received, and its CSeq number; of no meaning in the name of a BYE.
    pub(super) pass: u64,
    /// CSeq number.
    pub(super) cseq: u32,
    /// Cause of the call, whose share of the table it takes: the user whose password the caller proved, otherwise its address. 0 except for
    /// [`CallStep::Begun`].
    pub(super) owner: u64,
}

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
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
            | CallStep::Bye => {}
        }
        match (event.response, event.parsed) {
            (Some(response), _) => Some(self.name(response, event)),
            (None, Some(request)) => {
                let owner = if event.step == CallStep::Begun { self.owner(event, request) } else { 0 };
                Some(CallName { owner, ..self.name(request, event) })
            }
            (None, None) => {
                let request = Message::parse(event.message, &Limits::default()).ok()?;
                Some(self.name(&request, event))
            }
        }
    }

    fn name(&self, message: &Message<'_>, event: &CallEvent<'_>) -> CallName {
        let tag = |tag: Option<&[u8]>| tag.map_or(0, |tag| self.hash(tag).max(1));
        let cseq = message.cseq().number;
        let (call, from) = (self.hash(message.call_id()), tag(message.from().tag()));
        let to = match event.step {
            CallStep::Begun | CallStep::Answered(_) | CallStep::Bye => tag(message.to().tag()),
            CallStep::Refused(_)
            | CallStep::Forwarded
            | CallStep::Diverted(_)
            | CallStep::Ringing(_)
            | CallStep::Failed(_)
            | CallStep::Cancelled
            | CallStep::TimedOut
            | CallStep::Over => 0,
        };
        let pass = match (event.step, event.response) {
            (CallStep::Bye, _) => 0,
            (_, Some(response)) => {
                // The first Via is this server's, the second that of the INVITE.
                let via = response.values(HeaderName::Via).nth(1).and_then(|value| Via::parse(value).ok());
                self.hash(via.and_then(|via| via.branch).unwrap_or_default())
            }
            (_, None) => self.hash(message.via().branch.unwrap_or_default()),
        };
        // Branches of old clients are not unique: with the call they are. All are keyed hashes.
        let pass = pass ^ call.rotate_left(21) ^ from.rotate_left(42) ^ u64::from(cseq);
        CallName { call, from, to, pass, cseq, owner: 0 }
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
}

/// An odd number, so that no bit of a name is lost.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
