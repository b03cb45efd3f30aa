//! A hash over several parts of a message.

use core::hash::Hasher;

/// Feeds a hasher with many short parts in one piece.
///
/// A keyed hash handles eight bytes at a time and spends most of its work on the seams of shorter writes. The result is that
/// of the hasher for the same bytes.
pub struct PartHasher<H> {
    hasher: H,
    buffer: [u8; BUFFER_LEN],
    len: usize,
}

impl<H: Hasher> PartHasher<H> {
    /// Begins with `hasher`, which holds the key.
    #[inline]
    pub const fn new(hasher: H) -> Self {
        Self { hasher, buffer: [0; BUFFER_LEN], len: 0 }
    }

    /// Adds bytes of a length that the reader of the hash has in mind: a number, an address.
    #[inline]
    pub fn fixed(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.buffer.get_mut(self.len..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len = end;
            }
            None => self.spill(bytes),
        }
    }

    /// Adds bytes of any length below 2^32 with that length, so that no two rows of parts give the same bytes.
    #[inline]
    pub fn part(&mut self, bytes: &[u8]) {
        self.fixed(&(bytes.len() as u32).to_le_bytes());
        self.fixed(bytes);
    }

    /// Adds a [`part`](Self::part) in which upper and lower case letters of ASCII count as equal.
    #[inline]
    pub fn part_without_case(&mut self, bytes: &[u8]) {
        self.fixed(&(bytes.len() as u32).to_le_bytes());
        for piece in bytes.chunks(32) {
            let mut lower = [0; 32];
            if let Some(place) = lower.get_mut(..piece.len()) {
                place.copy_from_slice(piece);
                place.make_ascii_lowercase();
                self.fixed(place);
            }
        }
    }

    /// The hasher, fed with all parts.
    #[inline]
    pub fn into_hasher(mut self) -> H {
        self.hasher.write(self.buffer.get(..self.len).unwrap_or_default());
        self.hasher
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        self.hasher.write(self.buffer.get(..self.len).unwrap_or_default());
        self.len = 0;
        self.hasher.write(bytes);
    }
}

/// Bytes that are hashed in one piece: more than the parts of a usual message have.
const BUFFER_LEN: usize = 192;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[derive(Default)]
    struct Bytes(Vec<u8>);

    impl Hasher for Bytes {
        fn write(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }

        fn finish(&self) -> u64 {
            0
        }
    }

    #[test]
    fn the_hasher_gets_all_bytes_in_order_whatever_their_number() {
        for len in [0, 1, 31, 32, 33, 150, 191, 192, 193, 1000] {
            let part: Vec<u8> = (0..len).map(|at| b'A' + (at % 50) as u8).collect();
            let mut hash = PartHasher::new(Bytes::default());
            hash.fixed(b"key");
            hash.part(&part);
            hash.part_without_case(&part);
            hash.part(b"Z");
            let length = (len as u32).to_le_bytes();
            let expected =
                [b"key", &length[..], &part, &length, &part.to_ascii_lowercase(), &[1, 0, 0, 0], b"Z"]
                    .concat();
            assert_eq!(hash.into_hasher().0, expected, "{len}");
        }
    }
}
