//! The records of a journal file.
//!
//! ```text
//! crc32 of what follows: u32 | key length: u16 | value length: u32 | key | value        (little endian)
//! ```
//! An empty value says that the key is gone. An empty key marks a control record of the journal itself: `synced` (the
//! file's first n bytes were on the disk when this was written) or `end` (a snapshot is whole and has n records).

/// The longest key; a longer one is not stored.
pub const KEY_BYTES_MAX: usize = 4096;
/// The longest value; a longer one is not stored.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// The longest record.
pub(super) const RECORD_BYTES_MAX: usize = RECORD_HEADER_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX;
pub(super) const RECORD_HEADER_BYTES: usize = 10;
/// What a `synced` record carries before its number; searched for when a file is damaged.
pub(super) const SYNCED_MAGIC: &[u8; 16] = b"\0ringway synced\0";
const END_MAGIC: &[u8; 16] = b"\0ringway the end";

/// What stands at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A record of the user of the journal, and its length in the file.
    Record { key: &'a [u8], value: &'a [u8], length: usize },
    /// The file's first `bytes` bytes were on the disk when this was written.
    Synced { bytes: u64, length: usize },
    /// A snapshot of `records` records ends here.
    End { records: u64, length: usize },
    /// More bytes are needed to say.
    Incomplete,
    /// No record.
    Invalid(&'static str),
}

/// Adds a record whose checksum is still to be filled in by [`seal`]. `value` may only append. False, and nothing
/// added: the key or the value is too long, or the key is empty.
pub(super) fn encode(buffer: &mut Vec<u8>, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) -> bool {
    let Ok(key_length) = u16::try_from(key.len()) else { return false };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return false;
    }
    let start = buffer.len();
    buffer.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    buffer.extend_from_slice(key);
    let value_start = buffer.len();
    value(buffer);
    let value_length = buffer.len().saturating_sub(value_start);
    if value_length > VALUE_BYTES_MAX {
        buffer.truncate(start);
        return false;
    }
    if let Some(header) = buffer.get_mut(start..start + RECORD_HEADER_BYTES) {
        header[4..6].copy_from_slice(&key_length.to_le_bytes());
        header[6..10].copy_from_slice(&(value_length as u32).to_le_bytes());
    }
    true
}

/// Fills in the checksums of all records in `batch`. It is done here, by the store's thread, so that a worker that
/// appends holds the lock no longer than copying takes.
pub(super) fn seal(batch: &mut [u8]) {
    let mut rest = batch;
    while let Some(length) = declared_length(rest) {
        let Some((record, after)) = rest.split_at_mut_checked(length) else { return };
        let crc = crc32fast::hash(record.get(4..).unwrap_or_default());
        if let Some(place) = record.first_chunk_mut::<4>() {
            *place = crc.to_le_bytes();
        }
        rest = after;
    }
}

/// Adds a sealed `synced` record.
pub(super) fn encode_synced(buffer: &mut Vec<u8>, bytes: u64) {
    encode_control(buffer, SYNCED_MAGIC, bytes);
}

/// Adds a sealed `end` record.
pub(super) fn encode_end(buffer: &mut Vec<u8>, records: u64) {
    encode_control(buffer, END_MAGIC, records);
}

/// Reads what stands at the beginning of `bytes`.
pub(super) fn decode(bytes: &[u8]) -> Step<'_> {
    let Some(length) = declared_length(bytes) else { return Step::Incomplete };
    if length > RECORD_BYTES_MAX {
        return Step::Invalid("a record longer than any is written");
    }
    let Some(record) = bytes.get(..length) else { return Step::Incomplete };
    let (Some(crc), Some(covered)) = (record.first_chunk::<4>(), record.get(4..)) else {
        return Step::Incomplete;
    };
    if crc32fast::hash(covered) != u32::from_le_bytes(*crc) {
        return Step::Invalid("a record's checksum is wrong");
    }
    let key_length = covered.first_chunk::<2>().map_or(0, |field| usize::from(u16::from_le_bytes(*field)));
    let (Some(key), Some(value)) = (
        record.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + key_length),
        record.get(RECORD_HEADER_BYTES + key_length..),
    ) else {
        return Step::Invalid("a record's key is longer than the record");
    };
    if !key.is_empty() {
        return Step::Record { key, value, length };
    }
    match (value.first_chunk::<16>(), value.last_chunk::<8>()) {
        (Some(SYNCED_MAGIC), Some(number)) => Step::Synced { bytes: u64::from_le_bytes(*number), length },
        (Some(END_MAGIC), Some(number)) => Step::End { records: u64::from_le_bytes(*number), length },
        (Some(_), _) | (None, _) => Step::Invalid("a control record that no version writes"),
    }
}

fn encode_control(buffer: &mut Vec<u8>, magic: &[u8; 16], number: u64) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 6]);
    buffer.extend_from_slice(&24u32.to_le_bytes());
    buffer.extend_from_slice(magic);
    buffer.extend_from_slice(&number.to_le_bytes());
    seal(buffer.get_mut(start..).unwrap_or_default());
}

/// The length of the record that begins here, as its header says; `None` before the header is whole.
fn declared_length(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<RECORD_HEADER_BYTES>()?;
    let key = u16::from_le_bytes([header[4], header[5]]);
    let value = u32::from_le_bytes([header[6], header[7], header[8], header[9]]);
    Some(RECORD_HEADER_BYTES.saturating_add(usize::from(key)).saturating_add(value as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_no_part_of_it_does() {
        let mut buffer = Vec::new();
        assert!(encode(&mut buffer, b"alice", |value| value.extend_from_slice(b"contact")));
        seal(&mut buffer);
        assert_eq!(decode(&buffer), Step::Record { key: b"alice", value: b"contact", length: buffer.len() });
        for cut in 0..buffer.len() {
            assert_eq!(decode(&buffer[..cut]), Step::Incomplete, "cut at {cut}");
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut good = Vec::new();
        encode(&mut good, b"bob", |value| value.extend_from_slice(b"v"));
        seal(&mut good);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decode(&bad), Step::Invalid(_) | Step::Incomplete), "bit {bit}");
        }
    }

    #[test]
    fn what_is_too_long_or_nameless_is_not_encoded() {
        let mut buffer = Vec::new();
        assert!(!encode(&mut buffer, b"", |_| {}));
        assert!(!encode(&mut buffer, &[b'k'; KEY_BYTES_MAX + 1], |_| {}));
        assert!(!encode(&mut buffer, b"k", |value| value.resize(value.len() + VALUE_BYTES_MAX + 1, 0)));
        assert!(buffer.is_empty());
        assert!(encode(&mut buffer, &[b'k'; KEY_BYTES_MAX], |value| value
            .resize(value.len() + VALUE_BYTES_MAX, 0)));
        assert_eq!(buffer.len(), RECORD_BYTES_MAX);
    }

    #[test]
    fn control_records_come_back() {
        let mut buffer = Vec::new();
        encode_synced(&mut buffer, 77);
        assert_eq!(decode(&buffer), Step::Synced { bytes: 77, length: buffer.len() });
        buffer.clear();
        encode_end(&mut buffer, 5);
        assert_eq!(decode(&buffer), Step::End { records: 5, length: buffer.len() });
    }
}
