//! CSeq (RFC 3261 §20.16).

use crate::grammar::{is_lws, trim};
use crate::{Malformed, Method};

/// A sequence number and the method it numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// 0 to 2^32-1. RFC 3261 §8.1.1.5 asks senders to stay below 2^31; readers accept the grammar's range.
    pub number: u32,
    /// The method.
    pub method: Method<'a>,
}

impl<'a> CSeq<'a> {
    /// Parses a CSeq value.
    #[inline]
    pub fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = value;
        let mut number = 0_u64;
        while let [digit @ b'0'..=b'9', after @ ..] = rest {
            number = number * 10 + u64::from(digit - b'0');
            if number > u64::from(u32::MAX) {
                return Err(Malformed);
            }
            rest = after;
        }
        if rest.len() == value.len() || !rest.first().is_some_and(|&byte| is_lws(byte)) {
            return Err(Malformed);
        }
        Ok(Self { number: number as u32, method: Method::parse(trim(rest))? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_methods() {
        assert_eq!(CSeq::parse(b"0009\r\n  INVITE"), Ok(CSeq { number: 9, method: Method::Invite }));
        assert_eq!(CSeq::parse(b"4294967295 X").map(|cseq| cseq.number), Ok(u32::MAX));
        for bad in [&b"4294967296 INVITE"[..], b"INVITE", b"1", b"-1 INVITE", b"1 IN VITE", b" 1"] {
            assert_eq!(CSeq::parse(bad), Err(Malformed));
        }
    }
}
