//! Stored form of a kept message.
//!
//! One byte of version, time of receipt and expiry in nanoseconds (little-endian), one byte of flags, the sender, the header
//! fields in the order of [`FIELDS`], the Content-Type, the body. Texts have two bytes of length before them.

use alloc::vec::Vec;
use ringway_sansio::Instant;
use ringway_sip::{HeaderName, Message};

/// Content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) received: Instant,
    pub(super) expires: Instant,
    /// The message was for a `sips:` URI.
    pub(super) is_sips: bool,
    /// `user@domain` of the sender.
    pub(super) sender: &'a [u8],
    /// Values of [`FIELDS`]; empty: the message did not have it.
    pub(super) fields: [&'a [u8]; FIELDS.len()],
    pub(super) content_type: &'a str,
    pub(super) body: &'a [u8],
}

/// Header field that is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// Its name, where it has a compact form.
    known: Option<HeaderName>,
}

impl Field {
    const fn named(name: &'static str) -> Self {
        Self { name, known: None }
    }

    const fn known(name: &'static str, known: HeaderName) -> Self {
        Self { name, known: Some(known) }
    }

    /// Its value in a message; empty: it has none.
    pub(super) fn value_in<'a>(&self, message: &Message<'a>) -> &'a [u8] {
        let value = match self.known {
            Some(name) => message.first(name),
            None => message.named(self.name.as_bytes()),
        };
        value.unwrap_or_default()
    }
}

/// Header fields that are kept, besides Content-Type.
pub(super) const FIELDS: [Field; 9] = [
    Field::known("From", HeaderName::From),
    Field::known("To", HeaderName::To),
    Field::known("Subject", HeaderName::Subject),
    Field::known("Priority", HeaderName::Priority),
    Field::named("Content-Language"),
    Field::known("Content-Encoding", HeaderName::ContentEncoding),
    Field::named("Content-Disposition"),
    Field::named("MIME-Version"),
    Field::known("Expires", HeaderName::Expires),
];

impl<'a> Record<'a> {
    /// Writes the record.
    pub(super) fn write(&self) -> Vec<u8> {
        let fields = self.fields.iter().map(|field| field.len() + 2).sum::<usize>();
        let texts = self.sender.len() + self.content_type.len() + self.body.len();
        let mut out = Vec::with_capacity(FIXED_BYTES + fields + texts);
        out.push(VERSION);
        out.extend_from_slice(&self.received.as_nanos().to_le_bytes());
        out.extend_from_slice(&self.expires.as_nanos().to_le_bytes());
        out.push(if self.is_sips { IS_SIPS } else { 0 });
        put(self.sender, &mut out);
        self.fields.iter().for_each(|field| put(field, &mut out));
        put(self.content_type.as_bytes(), &mut out);
        put(self.body, &mut out);
        out
    }

    /// Reads a record; `None` if it is not one of this version.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&VERSION, mut rest) = bytes.split_first()? else { return None };
        let received = Instant::from_nanos(u64::from_le_bytes(take(&mut rest)?));
        let expires = Instant::from_nanos(u64::from_le_bytes(take(&mut rest)?));
        let [flags] = take(&mut rest)?;
        let sender = text(&mut rest)?;
        let mut fields = [&b""[..]; FIELDS.len()];
        for field in &mut fields {
            *field = text(&mut rest)?;
        }
        let content_type = core::str::from_utf8(text(&mut rest)?).ok()?;
        let body = text(&mut rest)?;
        let is_sips = flags & IS_SIPS != 0;
        rest.is_empty().then_some(Self { received, expires, is_sips, sender, fields, content_type, body })
    }

    /// Value of From.
    pub(super) const fn from(&self) -> &'a [u8] {
        let [from, ..] = self.fields;
        from
    }

    /// Length in bytes of the header fields.
    pub(super) fn head_len(&self) -> usize {
        self.fields.iter().map(|field| field.len()).sum::<usize>() + self.content_type.len()
    }
}

/// Appends a text, which is shorter than 65,536 bytes: a message is.
fn put(text: &[u8], out: &mut Vec<u8>) {
    let text = text.get(..text.len().min(usize::from(u16::MAX))).unwrap_or_default();
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text);
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::from(u16::from_le_bytes(take(rest)?));
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(head)
}

/// Differs from every version of the records of bindings, which are in the same journal.
const VERSION: u8 = 0x81;
const IS_SIPS: u8 = 1;
/// Bytes of version, times, flags, and the lengths of sender, type and body.
const FIXED_BYTES: usize = 1 + 2 * 8 + 1 + 3 * 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_never_cut() {
        let mut fields = [&b""[..]; FIELDS.len()];
        (fields[0], fields[1]) = (b"<sip:a@x>;tag=1", b"<sip:b@x>");
        let record = Record {
            received: Instant::from_secs(7),
            expires: Instant::from_secs(9),
            is_sips: true,
            sender: b"a@x",
            fields,
            content_type: "text/plain",
            body: b"\x00\xff\r\n",
        };
        let bytes = record.write();
        assert_eq!(Record::read(&bytes), Some(record));
        for end in 0..bytes.len() {
            assert_eq!(Record::read(&bytes[..end]), None, "{end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Record::read(&longer), None);
    }
}
