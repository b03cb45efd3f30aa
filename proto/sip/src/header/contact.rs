//! Contact (RFC 3261 §20.10): `*`, or a list of addresses.

use crate::grammar::{delta_seconds, q_thousandths};
use crate::{Fields, HeaderName, Malformed, NameAddr};

/// One Contact value with the parameters a registrar reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact<'a> {
    /// The address and all its parameters.
    pub address: NameAddr<'a>,
    /// `expires` in seconds. A malformed value counts as 3600 (RFC 3261 §20.10).
    pub expires: Option<u32>,
    /// `q` in thousandths.
    pub q: Option<u16>,
}

impl<'a> Contact<'a> {
    /// Parses one value other than `*`.
    pub fn parse(value: &'a [u8]) -> Result<Self, Malformed> {
        let address = NameAddr::parse(value)?;
        let expires = address.params.value(b"expires").map(|text| delta_seconds(text).unwrap_or(3600));
        let q = match address.params.value(b"q") {
            Some(text) => Some(q_thousandths(text).ok_or(Malformed)?),
            None => None,
        };
        Ok(Self { address, expires, q })
    }
}

/// All Contact values of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contacts {
    /// There is none: a query.
    Absent,
    /// `Contact: *`, alone.
    Star,
    /// This many addresses.
    List(usize),
}

impl Contacts {
    /// The kind of Contacts of a message; the addresses are not read. A `*` beside anything else is malformed (RFC 3261
    /// §10.3 step 6).
    pub fn of(message: &Fields<'_>) -> Result<Self, Malformed> {
        let mut stars = 0;
        let mut count = 0;
        for value in message.values(HeaderName::Contact) {
            if value == b"*" {
                stars += 1;
            } else {
                count += 1;
            }
        }
        match (stars, count) {
            (0, 0) if message.has(HeaderName::Contact) => Err(Malformed),
            (0, 0) => Ok(Self::Absent),
            (1, 0) => Ok(Self::Star),
            (0, count) => Ok(Self::List(count)),
            _ => Err(Malformed),
        }
    }
}
