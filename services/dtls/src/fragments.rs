//! Fragments of handshake messages (RFC 6347 §4.2.2 and §4.2.3) within limits of number and bytes.

/// A fragment in a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'a> {
    /// Type of the message.
    pub(crate) kind: u8,
    /// Length of the message.
    pub(crate) length: u32,
    /// Number of the message.
    sequence: u16,
    offset: u32,
    body: &'a [u8],
    /// The fragment with its header.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Splits the first fragment from what follows it. `None`: it is malformed. Only a message without a body has an empty
    /// fragment.
    pub(crate) fn parse(payload: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, after) = payload.split_first_chunk::<HEADER_BYTES>()?;
        let &[kind, l0, l1, l2, s0, s1, o0, o1, o2, b0, b1, b2] = header;
        let number = |bytes: [u8; 3]| u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        let (length, offset, body_bytes) = (number([l0, l1, l2]), number([o0, o1, o2]), number([b0, b1, b2]));
        let (body, rest) = after.split_at_checked(body_bytes as usize)?;
        let bytes = payload.get(..HEADER_BYTES + body.len())?;
        let sequence = u16::from_be_bytes([s0, s1]);
        // Numbers of 24 bits, whose sum fits.
        let is_sound = offset + body_bytes <= length && (body_bytes > 0 || length == 0);
        is_sound.then_some((Self { kind, length, sequence, offset, body, bytes }, rest))
    }

    /// True for the fragment with which the message ends.
    pub(crate) const fn is_last(&self) -> bool {
        self.offset as usize + self.body.len() == self.length as usize
    }
}

/// Fragments of messages that are not complete, and the number of the next message.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    /// Sorted by message and offset. None is part of another one.
    kept: Vec<Kept>,
    next: u16,
    /// Bytes of all fragments so far that were not repeats; a complete message is kept by the library.
    kept_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    kind: u8,
    length: u32,
    sequence: u16,
    offset: usize,
    body: Vec<u8>,
}

/// Result of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Insertion {
    /// It is kept: a message may be complete now.
    Kept,
    /// Its bytes were kept before.
    Known,
    /// It contradicts another one, or a limit is reached.
    Refused,
}

impl Kept {
    const fn end(&self) -> usize {
        self.offset + self.body.len()
    }
}

impl Fragments {
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// True once a message was complete.
    pub(crate) const fn has_begun(&self) -> bool {
        self.next > 0
    }

    pub(crate) const fn is_waiting_for(&self, sequence: u16) -> bool {
        self.next == sequence
    }

    /// True for a fragment of a message that was complete.
    pub(crate) const fn is_old(&self, fragment: &Fragment<'_>) -> bool {
        fragment.sequence < self.next
    }

    pub(crate) fn clear(&mut self) {
        self.kept = Vec::new();
    }

    /// Keeps a fragment, unless its bytes are kept already. Its cost does not depend on what is kept before, unless it is kept.
    pub(crate) fn insert(&mut self, fragment: &Fragment<'_>) -> Insertion {
        let Fragment { kind, length, sequence, body, .. } = *fragment;
        let (offset, end) = (fragment.offset as usize, fragment.offset as usize + body.len());
        if sequence < self.next || sequence >= MESSAGES_MAX {
            return Insertion::Refused;
        }
        // None is part of another one, so that their ends have the same order as their offsets.
        let at = self.kept.partition_point(|kept| (kept.sequence, kept.offset) < (sequence, offset));
        let (before, after) = self.kept.split_at_checked(at).unwrap_or_default();
        let of_message = |kept: &&Kept| kept.sequence == sequence;
        let (before, after) = (before.last().filter(of_message), after.first().filter(of_message));
        if before.or(after).is_some_and(|kept| (kept.kind, kept.length) != (kind, length)) {
            return Insertion::Refused;
        }
        let has_all = |kept: &Kept| kept.offset <= offset && end <= kept.end();
        if before.is_some_and(has_all) || after.is_some_and(has_all) {
            return Insertion::Known;
        }
        let bytes = self.kept_bytes + HEADER_BYTES + body.len();
        if self.kept.len() >= FRAGMENTS_MAX || bytes > HANDSHAKE_BYTES_MAX {
            return Insertion::Refused;
        }
        self.kept_bytes = bytes;
        self.kept.insert(at, Kept { kind, length, sequence, offset, body: body.to_vec() });
        let is_part = |kept: &&Kept| kept.sequence == sequence && kept.end() <= end;
        let parts = self.kept.iter().skip(at + 1).take_while(is_part).count();
        self.kept.drain(at + 1..at + 1 + parts);
        Insertion::Kept
    }

    /// Removes the next message, as one fragment with its header, if it is complete.
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        let count = self.kept.iter().take_while(|kept| kept.sequence == self.next).count();
        let (of_message, _) = self.kept.split_at_checked(count)?;
        let first = of_message.first()?;
        let mut end = 0;
        for kept in of_message {
            if kept.offset > end {
                return None;
            }
            end = end.max(kept.end());
        }
        if end < first.length as usize {
            return None;
        }
        let [_, length @ ..] = first.length.to_be_bytes();
        let [high, low] = self.next.to_be_bytes();
        let mut message = Vec::with_capacity(HEADER_BYTES + end);
        message.push(first.kind);
        message.extend(length);
        message.extend([high, low, 0, 0, 0]);
        message.extend(length);
        for kept in of_message {
            let known = message.len() - HEADER_BYTES;
            message.extend(kept.body.get(known - kept.offset..).unwrap_or_default());
        }
        self.kept.drain(..count);
        self.next = self.next.checked_add(1)?;
        Some(message)
    }
}

/// Length of a fragment's header.
const HEADER_BYTES: usize = 12;

/// Number of messages of a side in a handshake: a server with a cookie sends seven in the clear.
const MESSAGES_MAX: u16 = 8;

/// Maximum number of fragments that are kept. A chain of certificates in datagrams of 576 bytes has 26.
const FRAGMENTS_MAX: usize = 64;

/// Maximum number of bytes that a handshake keeps. A chain of certificates has some kilobytes.
pub(crate) const HANDSHAKE_BYTES_MAX: usize = 24 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{Rng, Seed};

    /// The bytes of a fragment of `message`, which has the number `sequence`.
    fn bytes(sequence: u16, message: &[u8], from: usize, to: usize) -> Vec<u8> {
        let number = |number: usize| (number as u32).to_be_bytes()[1..].to_vec();
        let header = [
            vec![11],
            number(message.len()),
            sequence.to_be_bytes().to_vec(),
            number(from),
            number(to - from),
        ];
        [&header.concat(), &message[from..to]].concat()
    }

    /// Inserts a fragment; true unless it is refused.
    fn insert(fragments: &mut Fragments, bytes: &[u8]) -> bool {
        let (fragment, rest) = Fragment::parse(bytes).unwrap();
        assert!(rest.is_empty());
        fragments.insert(&fragment) != Insertion::Refused
    }

    #[test]
    fn any_cut_in_any_order_gives_the_message_once() {
        for seed in 0..300 {
            let mut rng = Rng::new(&Seed::from_number(seed));
            let message: Vec<u8> = (0..rng.below(2000)).map(|_| rng.below(256) as u8).collect();
            let mut fragments = Fragments::default();
            let mut whole = None;
            for _ in 0..10_000 {
                let from =
                    if rng.random_bool(100) { 0 } else { rng.below(message.len() as u64 + 1) as usize };
                let to = (from + 1 + rng.below(600) as usize).min(message.len());
                if from == to && !message.is_empty() {
                    continue;
                }
                let _ = insert(&mut fragments, &bytes(0, &message, from, to));
                assert!(fragments.kept.len() <= FRAGMENTS_MAX && fragments.kept_bytes <= HANDSHAKE_BYTES_MAX);
                whole = fragments.pop();
                if whole.is_some() {
                    break;
                }
            }
            assert_eq!(whole, Some(bytes(0, &message, 0, message.len())), "seed {seed}");
            assert!(fragments.kept.is_empty() && fragments.is_waiting_for(1));
        }
    }

    #[test]
    fn what_is_kept_is_limited_in_number_and_bytes() {
        let (mut fragments, message) = (Fragments::default(), vec![7; 14 << 10]);
        let kept =
            (0..200).filter(|at| insert(&mut fragments, &bytes(1, &message, at * 2, at * 2 + 1))).count();
        assert_eq!(kept, FRAGMENTS_MAX);
        let mut fragments = Fragments::default();
        let kept =
            (1..=7).filter(|sequence| insert(&mut fragments, &bytes(*sequence, &message, 1, 8192))).count();
        assert_eq!(kept, 2);
        assert!(!insert(&mut Fragments::default(), &bytes(8, &message, 0, 10)), "too far ahead");
    }

    #[test]
    fn fragments_that_contradict_each_other_are_refused() {
        let mut fragments = Fragments::default();
        assert!(insert(&mut fragments, &bytes(0, &[1; 10], 2, 4)));
        assert!(!insert(&mut fragments, &bytes(0, &[1; 11], 4, 6)), "another length");
        let mut other = bytes(0, &[1; 10], 4, 6);
        other[0] = 12;
        assert!(!insert(&mut fragments, &other), "another type");
        for malformed in [&bytes(0, &[1; 10], 2, 4)[..13], &bytes(0, &[1; 10], 4, 4), &[11, 0, 0]] {
            assert!(Fragment::parse(malformed).is_none(), "{malformed:?}");
        }
    }
}
