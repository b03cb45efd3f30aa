//! CSeq numbers at trunks that may challenge: a request that is sent again with credentials has a higher number (RFC 3261 §22.2).
//!
//! The numbers of one side of a dialog must rise for all of its requests, and only this server sees those that it repeats. So a number
//! `n` of that side is one of `4n` to `4n + 3` at the trunk, by the number of challenges that were answered for the request: nothing has to
//! be stored for the dialog. `rc=` in our Record-Route shows that a dialog has such numbers. Its value is the number that the INVITE of the
//! dialog had at the trunk, which its ACK has too; 0 if the trunk began the dialog.

use crate::tables::{EntryOwner, Lifetime};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use ringway_sansio::Instant;
use ringway_sip::grammar::{is_lws, number_u32};
use ringway_sip::{HeaderName, Message, Method, Uri, write_number};

/// Numbering of the requests to a trunk in a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrunkNumbers {
    /// Number of the INVITE that began the dialog; 0: the trunk began it.
    first: u32,
}

impl TrunkNumbers {
    /// Numbering of a dialog that a request with this number at the trunk begins.
    pub(crate) const fn begun_with(first: u32) -> Self {
        Self { first }
    }

    /// Numbering of a dialog that a trunk begins.
    pub(crate) const BEGUN_BY_TRUNK: Self = Self { first: 0 };

    /// Numbering of the dialog of a Record-Route of this server. It is not signed: a sender that changes it changes the numbers of its own
    /// requests only.
    pub(crate) fn of_route(uri: &Uri<'_>) -> Option<Self> {
        let value = uri.params().value(TRUNK_CSEQ)?;
        number_u32(value).map(|first| Self { first })
    }

    /// Appends the parameter of our Record-Route URI.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.push(b';');
        out.extend_from_slice(TRUNK_CSEQ);
        out.push(b'=');
        write_number(out, u64::from(self.first));
    }

    /// True for requests of the side that began the dialog, or of the other one: those that go to the trunk.
    pub(crate) const fn are_of(self, is_of_caller: bool) -> bool {
        is_of_caller == (self.first != 0)
    }

    /// Number at the trunk of the INVITE that had this number when it came, for its ACK and PRACK. `repeated` has INVITEs that were
    /// challenged in the dialog.
    pub(crate) fn of_invite(self, repeated: &RepeatedInvites, call: u64, number: u32) -> Option<u32> {
        match self.first / ATTEMPTS == number && self.first != 0 {
            true => Some(self.first),
            false => repeated.find(call, number).or_else(|| at_trunk(number, 0)),
        }
    }
}

/// Number at a trunk of a request, for which so many challenges were answered. `None` for a number that leaves no room: the request keeps
/// it.
pub(crate) fn at_trunk(number: u32, challenges: u8) -> Option<u32> {
    let first = number.checked_mul(ATTEMPTS).filter(|first| (ATTEMPTS..CSEQ_END).contains(first))?;
    Some(first + u32::from(challenges).min(ATTEMPTS - 1))
}

/// Event of a trunk's NOTIFY with the number that its REFER had when it came (RFC 3515 §2.4.6). `None`: it stays as it is.
pub(crate) fn restored_event(message: &Message<'_>) -> Option<Vec<u8>> {
    let event = message.first(HeaderName::Event).filter(|_| message.method() == Method::Notify);
    event.and_then(event_of_sender)
}

/// RAck of a PRACK with the number of the INVITE that `number_of` has in place of its own. `None`: it has none.
pub(crate) fn changed_rack(
    message: &Message<'_>,
    number_of: impl FnOnce(u32) -> Option<u32>,
) -> Option<Vec<u8>> {
    let (response, number, method) = message.first(HeaderName::RAck).and_then(split_rack)?;
    let mut rack = response.to_vec();
    rack.push(b' ');
    write_number(&mut rack, u64::from(number_of(number)?));
    rack.push(b' ');
    rack.extend_from_slice(method);
    Some(rack)
}

/// Event with the sender's number in place of the trunk's. `None`: it names no number.
fn event_of_sender(event: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<Vec<u8>> = event.split(|byte| *byte == b';').map(<[u8]>::to_vec).collect();
    let id = parts.iter_mut().skip(1).find(|part| part.trim_ascii().starts_with(b"id="))?;
    let number = number_u32(id.trim_ascii().strip_prefix(b"id=")?)?;
    id.clear();
    id.extend_from_slice(b"id=");
    write_number(id, u64::from(number / ATTEMPTS));
    Some(parts.join(&b';'))
}

/// Response number, INVITE's number and method of a RAck (RFC 3262 §7.2).
fn split_rack(value: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let mut words = value.split(|byte| is_lws(*byte)).filter(|word| !word.is_empty());
    let (response, number, method) = (words.next()?, words.next()?, words.next()?);
    words.next().is_none().then_some((response, number_u32(number)?, method))
}

/// INVITEs in dialogs that were sent again with credentials, of one shard: their ACKs have their numbers.
#[derive(Debug, Default)]
pub(crate) struct RepeatedInvites {
    /// The oldest is first.
    list: VecDeque<RepeatedInvite>,
}

#[derive(Clone, Copy, Debug)]
struct RepeatedInvite {
    /// Keyed hash of the Call-ID.
    call: u64,
    /// Number at the trunk.
    number: u32,
    until: Instant,
    owner: EntryOwner,
}

impl RepeatedInvites {
    /// Maximum number of INVITEs; the oldest gives way.
    const INVITES_MAX: usize = 256;
    /// Maximum number of those of one user, or of one source without a user; its oldest gives way.
    const INVITES_EACH_MAX: usize = 16;

    /// Notes an INVITE for this time. False: another one gave way.
    pub(crate) fn note(&mut self, lifetime: Lifetime, call: u64, number: u32, owner: EntryOwner) -> bool {
        let Lifetime { now, until } = lifetime;
        self.list.retain(|one| one.until > now && !one.is_of(call, number / ATTEMPTS));
        let owners = || self.list.iter().filter(|one| one.owner == owner).count();
        let displaced = if owner != EntryOwner::NONE && owners() >= Self::INVITES_EACH_MAX {
            self.list.iter().position(|one| one.owner == owner)
        } else {
            (self.list.len() >= Self::INVITES_MAX).then_some(0)
        };
        if let Some(index) = displaced {
            self.list.remove(index);
        }
        self.list.push_back(RepeatedInvite { call, number, until, owner });
        displaced.is_none()
    }

    fn find(&self, call: u64, number: u32) -> Option<u32> {
        self.list.iter().find(|one| one.is_of(call, number)).map(|one| one.number)
    }
}

impl RepeatedInvite {
    /// True for the INVITE that had this number when it came.
    const fn is_of(&self, call: u64, number: u32) -> bool {
        self.call == call && self.number / ATTEMPTS == number
    }
}

/// Parameter of our Record-Route URI.
const TRUNK_CSEQ: &[u8] = b"rc";
/// Numbers at a trunk for each number of the sender: more than the challenges that are answered for a request.
const ATTEMPTS: u32 = 4;
/// RFC 3261 §8.1.1.5: numbers are below it.
const CSEQ_END: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::UserHash;

    #[test]
    fn numbers_rise_with_each_challenge_and_each_request() {
        let sent = [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0), (3, 1), (102, 0)];
        let numbers = sent.map(|(number, challenges)| at_trunk(number, challenges).unwrap());
        assert_eq!(numbers, [4, 5, 6, 8, 12, 13, 408]);
        assert!(at_trunk(5, u8::MAX) < at_trunk(6, 0));
        assert_eq!(at_trunk((1 << 29) - 1, 3), Some((1 << 31) - 1));
        for number in [0, 1 << 29, u32::MAX] {
            assert_eq!(at_trunk(number, 0), None, "{number} leaves no room");
        }
    }

    #[test]
    fn an_ack_has_the_number_of_its_invite() {
        let (mut repeated, now) = (RepeatedInvites::default(), Instant::from_secs(1));
        let (first, by_trunk) = (TrunkNumbers::begun_with(6), TrunkNumbers::BEGUN_BY_TRUNK);
        let lifetime = Lifetime { now, until: now + core::time::Duration::from_secs(9) };
        repeated.note(lifetime, 7, 13, EntryOwner::NONE);
        for (numbers, call, number, at_trunk) in [
            (first, 7, 1, Some(6)),
            (first, 7, 2, Some(8)),
            (first, 7, 3, Some(13)),
            (first, 8, 3, Some(12)),
            (by_trunk, 7, 3, Some(13)),
            (by_trunk, 7, 1, Some(4)),
            (by_trunk, 7, 0, None),
        ] {
            assert_eq!(numbers.of_invite(&repeated, call, number), at_trunk, "{numbers:?} {call} {number}");
        }
        assert!(first.are_of(true) && !first.are_of(false) && by_trunk.are_of(false));
    }

    #[test]
    fn repeated_invites_are_forgotten_in_time_and_number() {
        let (mut repeated, now) = (RepeatedInvites::default(), Instant::from_secs(1));
        let end = now + core::time::Duration::from_secs(9);
        let (lifetime, owner) = (Lifetime { now, until: end }, EntryOwner::NONE);
        assert!((1..=256).all(|call| repeated.note(lifetime, call, 5, owner)));
        assert!(repeated.note(lifetime, 256, 6, owner) && !repeated.note(lifetime, 257, 5, owner));
        assert_eq!(
            (repeated.find(1, 1), repeated.find(256, 1), repeated.find(257, 1)),
            (None, Some(6), Some(5))
        );
        assert!(repeated.note(
            Lifetime { now: end, until: end + core::time::Duration::from_secs(1) },
            258,
            5,
            owner
        ));
        assert_eq!(repeated.list.len(), 1);
    }

    #[test]
    fn repeated_invites_of_one_user_displace_none_of_others() {
        let (mut repeated, now) = (RepeatedInvites::default(), Instant::from_secs(1));
        let lifetime = Lifetime { now, until: now + core::time::Duration::from_secs(9) };
        let [one, other] =
            [b"one", b"two"].map(|name| EntryOwner::of_user(UserHash::of(&[7; 16], name, b"h")));
        assert!(repeated.note(lifetime, 1, 5, other));
        let with_room = (2..1000).filter(|&call| repeated.note(lifetime, call, 5, one)).count();
        assert_eq!((with_room, repeated.list.len()), (16, 17));
        let found = [1, 983, 984, 999].map(|call| repeated.find(call, 1).is_some());
        assert_eq!(found, [true, false, true, true], "its own oldest gave way");
    }

    #[test]
    fn only_a_whole_rack_is_split() {
        assert_eq!(split_rack(b"776656 1 INVITE"), Some((&b"776656"[..], 1, &b"INVITE"[..])));
        assert_eq!(split_rack(b"1  2\t INVITE"), Some((&b"1"[..], 2, &b"INVITE"[..])));
        for value in [&b"1 2"[..], b"1 2 INVITE x", b"1 x INVITE", b"", b"1 4294967296 INVITE"] {
            assert_eq!(split_rack(value), None, "{value:?}");
        }
    }
}
