//! Marks of sent packets for the quality of service of routers and switches (DiffServ, RFC 2474).

use socket2::Socket;
use std::str::FromStr;
use std::{fmt, io};

/// Code point of DiffServ (DSCP), 0 to 63: the upper six bits of the field TOS of IPv4, and of the traffic class of IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dscp(u8);

impl Dscp {
    /// No mark, which sockets have without one.
    pub const NONE: Self = Self(0);
    /// Expedited forwarding (RFC 3246), for sound.
    pub const EF: Self = Self(46);

    /// Code point by its number; `None` above 63.
    pub const fn new(number: u8) -> Option<Self> {
        if number < 64 { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Marks what a socket sends.
    pub(crate) fn mark(self, socket: &Socket, is_ipv6: bool) -> io::Result<()> {
        // Below are the two bits of ECN, which belong to the kernel.
        let field = u32::from(self.0) << 2;
        match (self, is_ipv6) {
            (Self::NONE, _) => Ok(()),
            (_, true) => socket.set_tclass_v6(field),
            (_, false) => socket.set_tos_v4(field),
        }
    }
}

/// Error of parsing a [`Dscp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no DSCP; write none, cs0 to cs7, af11 to af43, ef, or a number from 0 to 63")]
pub struct NotADscp;

/// A name (RFC 2474 §4.2.2, RFC 2597 §6, RFC 3246), or a number from 0 to 63.
impl FromStr for Dscp {
    type Err = NotADscp;

    fn from_str(text: &str) -> Result<Self, NotADscp> {
        let text = text.to_ascii_lowercase();
        let digits = |text: &str| text.bytes().map(|byte| byte.wrapping_sub(b'0')).collect::<Vec<u8>>();
        let named = match text.split_at_checked(2) {
            Some(("cs", class)) => match digits(class).as_slice() {
                [class @ 0..=7] => Some(class * 8),
                _ => None,
            },
            Some(("af", class)) => match digits(class).as_slice() {
                [class @ 1..=4, precedence @ 1..=3] => Some(class * 8 + precedence * 2),
                _ => None,
            },
            Some(("ef", "")) => Some(Self::EF.0),
            _ if text == "none" => Some(0),
            _ if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        };
        named.and_then(Self::new).ok_or(NotADscp)
    }
}

/// Its number.
impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_point_is_a_name_or_a_number() {
        for (text, number) in [
            ("none", 0),
            ("cs0", 0),
            ("cs3", 24),
            ("CS7", 56),
            ("af11", 10),
            ("af31", 26),
            ("af43", 38),
            ("ef", 46),
            ("0", 0),
            ("63", 63),
        ] {
            assert_eq!(text.parse::<Dscp>().map(Dscp::number), Ok(number), "{text}");
        }
        for text in
            ["", "64", "256", "-1", "+1", "cs", "cs8", "cs33", "af10", "af14", "af51", "ef1", "é", "eé"]
        {
            assert_eq!(text.parse::<Dscp>(), Err(NotADscp), "{text}");
        }
    }
}
