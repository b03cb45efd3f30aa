//! Records of a journal file.
//!
//! ```text
//! mark: 4 | file: u32 | number: u32 | key length: u16 | value length: u32
//! | crc32 of file to value length: u32 | crc32 of the key: u32 | crc32 of the value: u32 | key | value   (little endian)
//! ```
//! An empty value means that the key was removed. An empty key marks a control record of the journal: `synced` (the
//! file's first n bytes were durable when this was written) or `end` (a snapshot is complete and has n records).
//!
//! There are three checksums, each continuing the previous one: the first protects the lengths, the second the key, so
//! that the key of a record with a damaged value is readable. `file` is random and the same in all records of one file,
//! so that neither stale disk blocks nor text in a value are taken for a record. `number` counts the records of a file,
//! so that the number of missing ones is known; a control record has the number of the next record.
//!
//! Version 1 (read, not written) had neither mark, file nor number:
//! ```text
//! crc32 of what follows: u32 | key length: u16 | value length: u32 | key | value
//! ```

use memchr::memmem;
use std::fmt::{self, Display, Formatter};

/// Maximum length of a key in bytes; records with longer keys are not stored.
pub const KEY_BYTES_MAX: usize = 4096;
/// Maximum length of a value in bytes; records with longer values are not stored.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a record in bytes.
pub(crate) const RECORD_BYTES_MAX: usize = RECORD_HEADER_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX;
pub(crate) const RECORD_HEADER_BYTES: usize = 30;
/// First bytes of every record. They do not occur in UTF-8.
const MARK: [u8; 4] = [0xf5, b'r', 0xc0, b'B'];
const V1_HEADER_BYTES: usize = 10;
const SYNCED_MAGIC: &[u8; 16] = b"\0ringway synced\0";
const END_MAGIC: &[u8; 16] = b"\0ringway the end";

/// Version of a file's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    V1,
    V2 {
        /// Number in all records of the file; `None`: the header is damaged, and any number is accepted.
        file: Option<u32>,
    },
}

/// Result of decoding at one position of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    Whole(Whole<'a>),
    /// More bytes are needed.
    Incomplete,
    /// No intact record begins here.
    Damaged(Option<LostKey<'a>>),
}

/// An intact record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole<'a> {
    pub(crate) content: Content<'a>,
    /// Length in the file.
    pub(crate) length: usize,
    /// Number of the file and of the record; `None` in version 1.
    pub(crate) position: Option<(u32, u32)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    Record {
        key: &'a [u8],
        value: &'a [u8],
    },
    /// All bytes before it were durable when it was written.
    Synced,
    /// End of a snapshot with `records` records.
    End {
        records: u64,
    },
}

/// The key of a damaged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostKey<'a> {
    /// Bytes of the key, possibly wrong.
    pub key: &'a [u8],
    /// False: the key's checksum does not match.
    pub is_certain: bool,
}

/// Writes the key in quotes, followed by `?` if it may be wrong.
impl Display for LostKey<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mark = if self.is_certain { "" } else { "?" };
        write!(f, "{:?}{mark}", String::from_utf8_lossy(self.key))
    }
}

/// Appends a record; [`seal`] fills in the other fields. `value` may only append. Returns false and appends nothing if
/// the key is empty, or the key or the value is too long.
pub(crate) fn encode(buffer: &mut Vec<u8>, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) -> bool {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return false;
    }
    let start = begin(buffer, key);
    let value_start = buffer.len();
    value(buffer);
    let value_length = buffer.len().saturating_sub(value_start);
    if value_length > VALUE_BYTES_MAX {
        buffer.truncate(start);
        return false;
    }
    set_value_length(buffer, start, value_length);
    true
}

/// Fills in mark, file, numbers and checksums of all records in `batch`, beginning with record `number` of `file`;
/// returns the number of the next record. The journal's thread calls it, so that appending threads hold the lock only
/// for the copy.
pub(crate) fn seal(batch: &mut [u8], file: u32, mut number: u32) -> u32 {
    let mut rest = batch;
    while let Some(lengths) = Lengths::read(rest, 12) {
        let Some((record, after)) = rest.split_at_mut_checked(lengths.of_record(RECORD_HEADER_BYTES)) else {
            return number;
        };
        let Some((header, body)) = record.split_first_chunk_mut::<RECORD_HEADER_BYTES>() else {
            return number;
        };
        header[..4].copy_from_slice(&MARK);
        header[4..8].copy_from_slice(&file.to_le_bytes());
        header[8..12].copy_from_slice(&number.to_le_bytes());
        let (key, value) = body.split_at_checked(lengths.key).unwrap_or_default();
        let fields = crc32fast::hash(&header[4..18]);
        let of_key = crc_after(fields, key);
        header[18..22].copy_from_slice(&fields.to_le_bytes());
        header[22..26].copy_from_slice(&of_key.to_le_bytes());
        header[26..30].copy_from_slice(&crc_after(of_key, value).to_le_bytes());
        number = number.wrapping_add(u32::from(lengths.key > 0));
        rest = after;
    }
    number
}

/// Appends an unsealed `synced` record.
pub(crate) fn encode_synced(buffer: &mut Vec<u8>, bytes: u64) {
    encode_control(buffer, SYNCED_MAGIC, bytes);
}

/// Appends an unsealed `end` record.
pub(crate) fn encode_end(buffer: &mut Vec<u8>, records: u64) {
    encode_control(buffer, END_MAGIC, records);
}

/// Decodes the record at the beginning of `bytes`.
pub(crate) fn decode(format: Format, bytes: &[u8]) -> Step<'_> {
    match format {
        Format::V1 => decode_v1(bytes),
        Format::V2 { file } => decode_v2(file, bytes),
    }
}

/// Finds the offset at which the next record may begin in `bytes`; `Err`: number of bytes in which none begins.
pub(crate) fn find_next(format: Format, bytes: &[u8]) -> Result<usize, usize> {
    match format {
        // Version 1 has no mark, so a record may begin at every byte.
        Format::V1 if bytes.is_empty() => Err(0),
        Format::V1 => Ok(0),
        Format::V2 { .. } => {
            memmem::find(bytes, &MARK).ok_or_else(|| bytes.len().saturating_sub(MARK.len() - 1))
        }
    }
}

fn decode_v2(file: Option<u32>, bytes: &[u8]) -> Step<'_> {
    let Some((header, body)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() else {
        return Step::Incomplete;
    };
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let Some(lengths) = Lengths::read(header, 12) else { return Step::Incomplete };
    let fields = crc32fast::hash(&header[4..18]);
    if fields != word(18) || file.is_some_and(|file| file != word(4)) || !lengths.are_possible() {
        return Step::Damaged(readable(body, lengths.key));
    }
    let Some((key, rest)) = body.split_at_checked(lengths.key) else { return Step::Incomplete };
    let of_key = crc_after(fields, key);
    if of_key != word(22) {
        return Step::Damaged(readable(body, lengths.key));
    }
    let Some(value) = rest.get(..lengths.value) else { return Step::Incomplete };
    if crc_after(of_key, value) != word(26) {
        let lost = LostKey { key, is_certain: true };
        return Step::Damaged((!key.is_empty()).then_some(lost));
    }
    let length = lengths.of_record(RECORD_HEADER_BYTES);
    whole(key, value, length, Some((word(4), word(8))))
}

fn decode_v1(bytes: &[u8]) -> Step<'_> {
    let Some((header, body)) = bytes.split_first_chunk::<V1_HEADER_BYTES>() else { return Step::Incomplete };
    let Some(lengths) = Lengths::read(header, 4) else { return Step::Incomplete };
    let is_control = lengths.key == 0 && lengths.value == CONTROL_BYTES;
    if !lengths.are_possible() || (lengths.key == 0 && !is_control) {
        return Step::Damaged(None);
    }
    let length = lengths.of_record(V1_HEADER_BYTES);
    let Some(covered) = bytes.get(4..length) else { return Step::Incomplete };
    if crc32fast::hash(covered).to_le_bytes() != header[..4] {
        return Step::Damaged(readable(body, lengths.key));
    }
    let (key, value) = body.split_at_checked(lengths.key).unwrap_or_default();
    whole(key, value.get(..lengths.value).unwrap_or_default(), length, None)
}

fn whole<'a>(key: &'a [u8], value: &'a [u8], length: usize, position: Option<(u32, u32)>) -> Step<'a> {
    let content = if key.is_empty() {
        match (value.first_chunk::<16>(), value.last_chunk::<8>()) {
            (Some(SYNCED_MAGIC), Some(_)) => Content::Synced,
            (Some(END_MAGIC), Some(number)) => Content::End { records: u64::from_le_bytes(*number) },
            // Unknown control record.
            (Some(_), _) | (None, _) => return Step::Damaged(None),
        }
    } else {
        Content::Record { key, value }
    };
    Step::Whole(Whole { content, length, position })
}

/// Key of a record whose lengths or key are damaged, if it is text.
fn readable(body: &[u8], key_length: usize) -> Option<LostKey<'_>> {
    let key = body.get(..key_length).filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()))?;
    let is_text = core::str::from_utf8(key).is_ok_and(|text| !text.contains(char::is_control));
    is_text.then_some(LostKey { key, is_certain: false })
}

fn encode_control(buffer: &mut Vec<u8>, magic: &[u8; 16], number: u64) {
    let start = begin(buffer, b"");
    buffer.extend_from_slice(magic);
    buffer.extend_from_slice(&number.to_le_bytes());
    set_value_length(buffer, start, CONTROL_BYTES);
}

/// Appends a record's header and key; returns the record's offset.
fn begin(buffer: &mut Vec<u8>, key: &[u8]) -> usize {
    let start = buffer.len();
    let mut header = [0; RECORD_HEADER_BYTES];
    header[12..14].copy_from_slice(&(key.len() as u16).to_le_bytes());
    buffer.extend_from_slice(&header);
    buffer.extend_from_slice(key);
    start
}

fn set_value_length(buffer: &mut [u8], start: usize, length: usize) {
    if let Some(field) = buffer.get_mut(start + 14..start + 18) {
        field.copy_from_slice(&(length as u32).to_le_bytes());
    }
}

/// Checksum of `bytes`, continuing the checksum of the bytes before them.
fn crc_after(before: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(bytes);
    hasher.finalize()
}

#[derive(Clone, Copy)]
struct Lengths {
    key: usize,
    value: usize,
}

impl Lengths {
    /// Reads key length and value length at byte `at` of a record; `None`: incomplete.
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let field = bytes.get(at..)?.first_chunk::<6>()?;
        let key = u16::from_le_bytes([field[0], field[1]]);
        let value = u32::from_le_bytes([field[2], field[3], field[4], field[5]]);
        Some(Self { key: usize::from(key), value: value as usize })
    }

    fn are_possible(self) -> bool {
        self.key <= KEY_BYTES_MAX && self.value <= VALUE_BYTES_MAX
    }

    fn of_record(self, header: usize) -> usize {
        header.saturating_add(self.key).saturating_add(self.value)
    }
}

/// Length of a control record's value.
const CONTROL_BYTES: usize = 24;

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
