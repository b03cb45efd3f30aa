//! Packets of TFTP (RFC 1350 §5, RFC 2347 §3): parsing and writing.

use alloc::format;
use alloc::vec::Vec;

/// A received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// DATA: a block of the file.
    Data { block: u16, data: &'a [u8] },
    /// ERROR.
    Error { code: u16, text: &'a [u8] },
    /// OACK: accepted options.
    OptionsAccepted(Options<'a>),
    /// RRQ, WRQ or ACK, which only servers receive.
    ForServers,
}

impl<'a> Packet<'a> {
    /// `None`: too short, or not a TFTP packet.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (code, rest) = bytes.split_first_chunk::<2>()?;
        match u16::from_be_bytes(*code) {
            RRQ | WRQ | ACK => Some(Self::ForServers),
            DATA => {
                let (block, data) = rest.split_first_chunk::<2>()?;
                Some(Self::Data { block: u16::from_be_bytes(*block), data })
            }
            ERROR => {
                let (code, rest) = rest.split_first_chunk::<2>()?;
                // The terminating zero may be missing.
                let text = rest.split(|byte| *byte == 0).next().unwrap_or_default();
                Some(Self::Error { code: u16::from_be_bytes(*code), text })
            }
            OACK => Options::parse(rest).map(Self::OptionsAccepted),
            _ => None,
        }
    }
}

/// Options with their values, each terminated by a zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        let is_whole = bytes.last().is_none_or(|last| *last == 0) && zeros.is_multiple_of(2);
        is_whole.then_some(Self(bytes))
    }

    /// Name and value of each option.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut words = self.0.split(|byte| *byte == 0);
        // The empty word after the last zero has no value.
        core::iter::from_fn(move || Some((words.next()?, words.next()?)))
    }
}

/// Writes a read request for `file`; with the options blksize and tsize unless `block_bytes` is `None`.
pub(super) fn write_request(out: &mut Vec<u8>, file: &str, block_bytes: Option<usize>) {
    out.extend_from_slice(&RRQ.to_be_bytes());
    let mut word = |word: &[u8]| {
        out.extend_from_slice(word);
        out.push(0);
    };
    word(file.as_bytes());
    word(b"octet");
    let Some(block_bytes) = block_bytes else { return };
    word(BLKSIZE);
    word(format!("{block_bytes}").as_bytes());
    // RFC 2349: a tsize of 0 requests the file's size.
    word(TSIZE);
    word(b"0");
}

/// Writes an ACK; block 0 acknowledges the options.
pub(super) fn write_ack(out: &mut Vec<u8>, block: u16) {
    out.extend_from_slice(&ACK.to_be_bytes());
    out.extend_from_slice(&block.to_be_bytes());
}

pub(super) fn write_error(out: &mut Vec<u8>, code: u16, text: &str) {
    out.extend_from_slice(&ERROR.to_be_bytes());
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

const RRQ: u16 = 1;
const WRQ: u16 = 2;
const DATA: u16 = 3;
const ACK: u16 = 4;
const ERROR: u16 = 5;
const OACK: u16 = 6;

/// Option of RFC 2348.
pub(super) const BLKSIZE: &[u8] = b"blksize";
/// Option of RFC 2349.
pub(super) const TSIZE: &[u8] = b"tsize";

/// Not defined; see the text.
pub(super) const NOT_DEFINED: u16 = 0;
/// File not found.
pub(super) const FILE_NOT_FOUND: u16 = 1;
/// Disk full.
pub(super) const DISK_FULL: u16 = 3;
/// Illegal operation.
pub(super) const ILLEGAL_OPERATION: u16 = 4;
/// Unknown transfer ID.
pub(super) const UNKNOWN_TRANSFER: u16 = 5;
/// Options refused (RFC 2347).
pub(super) const OPTIONS_REFUSED: u16 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_file_mode_and_options() {
        let mut out = Vec::new();
        write_request(&mut out, "users.csv", Some(1428));
        assert_eq!(out, b"\0\x01users.csv\0octet\0blksize\x001428\0tsize\x000\0");
        out.clear();
        write_request(&mut out, "users.csv", None);
        assert_eq!(out, b"\0\x01users.csv\0octet\0");
    }

    #[test]
    fn options_are_pairs_and_nothing_is_left_over() {
        let parsed = |bytes| Packet::parse(bytes);
        let Some(Packet::OptionsAccepted(options)) = parsed(b"\0\x06blksize\x00512\0tsize\x007\0") else {
            panic!("these are options");
        };
        let pairs: Vec<_> = options.iter().collect();
        assert_eq!(pairs, [(&b"blksize"[..], &b"512"[..]), (b"tsize", b"7")]);
        let Some(Packet::OptionsAccepted(none)) = parsed(b"\0\x06") else { panic!("no options are options") };
        assert_eq!(none.iter().count(), 0);
        for bad in [&b"\0\x06blksize"[..], b"\0\x06blksize\0", b"\0\x06blksize\x001", b"\0\x06a\0b\0c\0"] {
            assert_eq!(parsed(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn truncated_packets_are_invalid() {
        for bad in [
            &b""[..],
            b"\0",
            b"\0\x03",
            b"\0\x03\0",
            b"\0\x05\0",
            b"\0\0\0\0",
            b"\0\x07\0\0",
            b"\x01\x03\0\0",
        ] {
            assert_eq!(Packet::parse(bad), None, "{bad:?}");
        }
        assert_eq!(Packet::parse(b"\0\x03\0\x01"), Some(Packet::Data { block: 1, data: b"" }));
        assert_eq!(Packet::parse(b"\0\x05\0\x01no"), Some(Packet::Error { code: 1, text: b"no" }));
    }
}
