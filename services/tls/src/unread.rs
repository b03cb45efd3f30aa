//! Received bytes that a TLS connection keeps because they are incomplete.

/// Bytes of the peer that the TLS library holds: those of the handshake, and then those of a record whose end is missing.
#[derive(Debug, Default)]
pub(crate) struct UnreadBytes {
    /// Number of all bytes so far.
    received: usize,
    header: [u8; HEADER_BYTES],
    /// Number of bytes of the current record, its header included.
    of_record: usize,
}

impl UnreadBytes {
    /// Notes received bytes: any part of a record, or several records.
    pub(crate) fn note(&mut self, mut bytes: &[u8]) {
        self.received = self.received.saturating_add(bytes.len());
        while let Some(next) = bytes.first() {
            if let Some(byte) = self.header.get_mut(self.of_record) {
                *byte = *next;
                self.of_record += 1;
                bytes = bytes.get(1..).unwrap_or_default();
            }
            let [.., high, low] = self.header;
            let record = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
            if self.of_record < HEADER_BYTES {
                continue;
            }
            let taken = bytes.len().min(record.saturating_sub(self.of_record));
            self.of_record += taken;
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.of_record >= record {
                self.of_record = 0;
            }
        }
    }

    /// Bytes of the handshake, whose messages may be spread over several records.
    pub(crate) const fn of_handshake(&self) -> usize {
        self.received
    }

    /// Bytes of the record whose end is missing.
    pub(crate) const fn of_record(&self) -> usize {
        self.of_record
    }
}

/// Type, version and length (RFC 8446 §5.1).
const HEADER_BYTES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_the_last_record_count_until_its_end_in_any_pieces() {
        let records =
            [&[22, 3, 3, 0, 3, 1, 2, 3][..], &[23, 3, 3, 0, 0], &[23, 3, 3, 1, 0], &[7; 256]].concat();
        let ends = [8, 13, 13 + 5 + 256];
        for piece in [1, 2, 3, 7, 100, 1000] {
            let (mut unread, mut position) = (UnreadBytes::default(), 0);
            for part in records.chunks(piece) {
                unread.note(part);
                position += part.len();
                let begun = ends.iter().rev().find(|end| **end <= position).copied().unwrap_or(0);
                assert_eq!((unread.of_record(), unread.of_handshake()), (position - begun, position));
            }
        }
    }
}
