//! Records of a datagram (RFC 6347 §4.1).

/// Content type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// ChangeCipherSpec.
    ChangeCipherSpec,
    /// Alert.
    Alert,
    /// Handshake message, or a fragment of one.
    Handshake,
    /// Application data.
    ApplicationData,
    /// A content type that DTLS 1.2 does not have.
    Other(u8),
}

/// Header of a record, and its payload, which may be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Content type.
    pub content_type: ContentType,
    /// Version as on the wire: 254, 253 for DTLS 1.2.
    pub version: [u8; 2],
    /// Number of the cipher state; 0 is unencrypted.
    pub epoch: u16,
    /// Sequence number, 48 bits.
    pub sequence: u64,
    /// Payload.
    pub payload: &'a [u8],
}

/// Iterator over the records of a datagram. It ends at the first that is not complete.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Records of a datagram.
    pub const fn of(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    /// Bytes after the last record that was returned.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (header, after) = self.rest.split_first_chunk::<RECORD_HEADER_BYTES>()?;
        let [kind, major, minor, numbers @ .., high, low] = header;
        let (payload, rest) = after.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        self.rest = rest;
        // 16 bits of epoch, 48 of sequence number.
        let number = numbers.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        Some(Record {
            content_type: ContentType::of(*kind),
            version: [*major, *minor],
            epoch: (number >> 48) as u16,
            sequence: number & SEQUENCE_MAX,
            payload,
        })
    }
}

impl ContentType {
    const fn of(number: u8) -> Self {
        match number {
            20 => Self::ChangeCipherSpec,
            21 => Self::Alert,
            22 => Self::Handshake,
            23 => Self::ApplicationData,
            other => Self::Other(other),
        }
    }
}

/// Length of a record's header in bytes.
pub(crate) const RECORD_HEADER_BYTES: usize = 13;

/// Largest sequence number.
pub(crate) const SEQUENCE_MAX: u64 = (1 << 48) - 1;
