//! Recognition of handshake messages that were received before.
//!
//! `rtc-dtls` stops its retransmission timer at every handshake message, also at one that it has already. Where both
//! ends then wait for the other, the handshake stalls. Retransmitted messages are therefore not passed on: the side
//! that sent last keeps its timer.

use ringway_sdp::DtlsRole;
use std::collections::BTreeSet;

/// Unencrypted handshake messages that were received.
pub(crate) struct Messages {
    role: DtlsRole,
    seen: BTreeSet<Fragment>,
}

/// Sequence number, offset and length of a fragment of a message (RFC 6347 §4.2.2).
type Fragment = (u16, u32, u32);

impl Messages {
    pub(crate) const fn new(role: DtlsRole) -> Self {
        Self { role, seen: BTreeSet::new() }
    }

    /// Notes the messages of a datagram. True if it has nothing but messages that were received before.
    pub(crate) fn are_old(&mut self, datagram: &[u8]) -> bool {
        let Some(fragments) = fragments(datagram) else { return false };
        let are_old = fragments.iter().all(|fragment| self.seen.contains(fragment));
        // A server answers a first ClientHello each time, until the client has shown its cookie.
        let may_repeat =
            self.role == DtlsRole::Passive && self.seen.last().is_none_or(|(newest, ..)| *newest == 0);
        if self.seen.len() + fragments.len() <= FRAGMENTS_MAX {
            self.seen.extend(fragments);
        }
        are_old && !may_repeat
    }
}

/// Fragments in a datagram; `None` if it has something else than unencrypted handshake messages.
fn fragments(mut datagram: &[u8]) -> Option<Vec<Fragment>> {
    let mut fragments = Vec::new();
    while !datagram.is_empty() {
        let (header, rest) = datagram.split_first_chunk::<13>()?;
        let [kind, _, _, epoch_high, epoch_low, .., length_high, length_low] = *header;
        if kind != HANDSHAKE || (epoch_high, epoch_low) != (0, 0) {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let (mut record, rest) = rest.split_at_checked(length)?;
        while !record.is_empty() {
            let (header, body) = record.split_first_chunk::<12>()?;
            let [_, _, _, _, seq_high, seq_low, offset @ .., l0, l1, l2] = *header;
            let [o0, o1, o2] = offset;
            let bytes = u32::from_be_bytes([0, l0, l1, l2]);
            fragments.push((
                u16::from_be_bytes([seq_high, seq_low]),
                u32::from_be_bytes([0, o0, o1, o2]),
                bytes,
            ));
            record = body.get(usize::try_from(bytes).ok()?..)?;
        }
        datagram = rest;
    }
    Some(fragments)
}

const HANDSHAKE: u8 = 22;

/// Maximum number of fragments that are remembered; a handshake has about ten messages.
const FRAGMENTS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with one fragment of two bytes.
    fn record(epoch: u8, seq: u8, offset: u8) -> Vec<u8> {
        let mut record = vec![22, 254, 253, 0, epoch, 0, 0, 0, 0, 0, 9, 0, 14];
        record.extend([1, 0, 0, 4, 0, seq, 0, 0, offset, 0, 0, 2, 7, 7]);
        record
    }

    #[test]
    fn a_fragment_is_old_when_it_comes_again() {
        let mut messages = Messages::new(DtlsRole::Active);
        assert!(!messages.are_old(&record(0, 0, 0)));
        assert!(messages.are_old(&record(0, 0, 0)));
        assert!(!messages.are_old(&record(0, 0, 2)), "another fragment");
        assert!(!messages.are_old(&[record(0, 0, 2), record(0, 1, 0)].concat()), "one is new");
        assert!(messages.are_old(&[record(0, 0, 2), record(0, 1, 0)].concat()));
        assert!(!messages.are_old(&record(1, 0, 0)), "encrypted");
        assert!(!messages.are_old(&record(0, 0, 0)[..20]), "cut off");
        assert!(!messages.are_old(&[20]), "no handshake message");
    }

    #[test]
    fn a_server_answers_the_first_client_hello_until_the_second() {
        let mut messages = Messages::new(DtlsRole::Passive);
        assert!(!messages.are_old(&record(0, 0, 0)) && !messages.are_old(&record(0, 0, 0)));
        assert!(!messages.are_old(&record(0, 1, 0)));
        assert!(messages.are_old(&record(0, 0, 0)) && messages.are_old(&record(0, 1, 0)));
    }
}
