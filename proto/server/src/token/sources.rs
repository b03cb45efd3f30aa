//! Source addresses of the two sides of a dialog, in the mark of our Record-Route.
//!
//! Behind the sides of the mark: `.` and up to three hashes of eight hexadecimal digits, the caller's and one or two of
//! the callee. The MAC of the mark covers them.

use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::{PartHasher, source_of};
use ringway_sip::{read_hex32, write_hex};
use siphasher::sip::SipHasher13;

/// Keyed hash of an IP address (an IPv6 /64 network counts as one), which the other side cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceHash(u32);

/// Addresses that the sides of a dialog send from, as far as they are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) caller: SourceHash,
    /// That of the next hop of the first request, and that of the remote target in its 2xx.
    pub(crate) callee: [SourceHash; 2],
}

/// Sender of a request in a dialog, by the address that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An address of the side that sends, or the side has none in the mark.
    Recorded,
    /// Another address.
    Elsewhere,
}

impl SourceHash {
    /// No address.
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn of(key: &[u8; 16], ip: IpAddr) -> Self {
        let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
        hash.fixed(b"source");
        match source_of(ip) {
            IpAddr::V4(v4) => hash.fixed(&v4.octets()),
            IpAddr::V6(v6) => hash.fixed(&v6.octets()),
        }
        Self((core::hash::Hasher::finish(hash.hasher()) as u32).max(1))
    }
}

impl SourceHash {
    /// The hash as a number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Appends its digits.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        write_hex(out, u64::from(self.0), DIGITS);
    }

    /// Reads its digits.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        read_hex32(text).map(Self)
    }
}

impl Sources {
    /// No addresses.
    pub(crate) const NONE: Self = Self { caller: SourceHash::NONE, callee: [SourceHash::NONE; 2] };

    /// Appends the hashes; nothing if there are none.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        let Self { caller, callee: [first, second] } = self;
        if self == Self::NONE {
            return;
        }
        out.push(b'.');
        write_hex(out, u64::from(caller.0), DIGITS);
        write_hex(out, u64::from(first.0), DIGITS);
        if second != SourceHash::NONE {
            write_hex(out, u64::from(second.0), DIGITS);
        }
    }

    /// Reads what is behind the last `.`.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        if text.len() != 2 * DIGITS && text.len() != 3 * DIGITS {
            return None;
        }
        let mut hashes = text.chunks(DIGITS).map(SourceHash::read);
        let mut next = || hashes.next().unwrap_or(Some(SourceHash::NONE));
        Some(Self { caller: next()?, callee: [next()?, next()?] })
    }
}

/// Hexadecimal digits of a hash.
const DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 16] = [7; 16];

    fn hash(ip: &str) -> SourceHash {
        SourceHash::of(&KEY, ip.parse().unwrap())
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let (one, two) = (hash("192.0.2.1"), hash("192.0.2.2"));
        for callee in [[two, SourceHash::NONE], [two, one], [SourceHash::NONE; 2]] {
            let sources = Sources { caller: one, callee };
            let mut out = Vec::new();
            sources.write(&mut out);
            assert_eq!(Sources::read(out.strip_prefix(b".").unwrap()), Some(sources));
        }
        for bad in ["", "0", "0123456789abcde", "0123456789abcdefg", "x123456789abcdef"] {
            assert_eq!(Sources::read(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn an_ipv6_network_is_one_source() {
        assert_eq!(hash("2001:db8::1"), hash("2001:db8::ffff"));
        assert_ne!(hash("2001:db8::1"), hash("2001:db8:0:1::1"));
        assert_ne!(hash("192.0.2.1"), hash("192.0.2.2"));
    }
}
