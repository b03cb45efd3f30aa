//! Buffer in front of a hasher, for several parts of a message.

use core::hash::Hasher;

/// Collects many short parts and passes them to a hasher in one piece.
///
/// A keyed hash processes eight bytes at a time and is slow for shorter writes. The result equals that of the hasher for
/// the same bytes.
pub struct PartHasher<H> {
    hasher: H,
    buffer: [u8; BUFFER_LEN],
    len: usize,
}

impl<H: Hasher> PartHasher<H> {
    /// Creates a buffer in front of `hasher`, which holds the key.
    #[inline]
    pub const fn new(hasher: H) -> Self {
        Self { hasher, buffer: [0; BUFFER_LEN], len: 0 }
    }

    /// Adds bytes whose length is fixed by their type: a number, an address. They are stored without a call.
    #[inline]
    pub fn fixed<const N: usize>(&mut self, bytes: &[u8; N]) {
        match self.buffer.get_mut(self.len..).and_then(|room| room.first_chunk_mut()) {
            Some(room) => {
                *room = *bytes;
                self.len += N;
            }
            None => self.spill(bytes),
        }
    }

    /// Adds bytes whose length other parts state.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.buffer.get_mut(self.len..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len = end;
            }
            None => self.spill(bytes),
        }
    }

    /// Adds bytes with their length (below 2^32), so that different sequences of parts give different input.
    #[inline]
    pub fn part(&mut self, bytes: &[u8]) {
        self.fixed(&(bytes.len() as u32).to_le_bytes());
        self.bytes(bytes);
    }

    /// Adds a [`part`](Self::part) with ASCII letters in lower case, so that case is ignored.
    #[inline]
    pub fn part_without_case(&mut self, bytes: &[u8]) {
        self.fixed(&(bytes.len() as u32).to_le_bytes());
        for piece in bytes.chunks(32) {
            let mut lower = [0; 32];
            if let Some(letters) = lower.get_mut(..piece.len()) {
                letters.copy_from_slice(piece);
            }
            // All at once: the zeros behind them stay.
            lower.make_ascii_lowercase();
            self.bytes(lower.get(..piece.len()).unwrap_or_default());
        }
    }

    /// Passes the rest to the hasher and returns it where it is: the buffer is not copied.
    #[inline]
    pub fn hasher(&mut self) -> &H {
        self.hasher.write(self.buffer.get(..self.len).unwrap_or_default());
        self.len = 0;
        &self.hasher
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        self.hasher.write(self.buffer.get(..self.len).unwrap_or_default());
        self.len = 0;
        self.hasher.write(bytes);
    }
}

/// Size of the buffer; the parts of a usual message are shorter.
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
    fn the_hasher_gets_all_bytes_in_order_for_any_number() {
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
            assert_eq!(hash.hasher().0, expected, "{len}");
        }
    }
}
