//! STUN messages: validated view of a datagram.

use super::{
    CRC32, FAMILY_IPV4, FAMILY_IPV6, FINGERPRINT_XOR, HEADER_BYTES, MAGIC_COOKIE, METHOD_BINDING, attribute,
};
use core::net::{IpAddr, SocketAddr};

/// Transaction ID: 96 random bits that match a response to its request (RFC 8489 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionId(pub [u8; 12]);

/// Message class (RFC 8489 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Request: expects a response.
    Request,
    /// Indication: expects no response.
    Indication,
    /// Success response.
    Success,
    /// Error response.
    Error,
}

/// Reason why a datagram is not a valid STUN message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StunError {
    /// Shorter than a header, the first two bits are not zero, or no magic cookie.
    #[error("not a STUN message")]
    NotStun,
    /// The length field is not a multiple of four, or not the length of the datagram.
    #[error("STUN length field is not the length")]
    Length,
    /// An attribute exceeds the message, or follows FINGERPRINT.
    #[error("STUN attribute too long or after FINGERPRINT")]
    Attribute,
    /// The value of FINGERPRINT is wrong.
    #[error("STUN fingerprint does not match")]
    Fingerprint,
}

/// A message with valid header, attribute lengths and fingerprint.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    class: Class,
    method: u16,
    id: TransactionId,
}

impl<'a> Message<'a> {
    /// Parses a datagram.
    ///
    /// # Errors
    /// The first fault found.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, StunError> {
        let (head, id) = bytes
            .first_chunk::<HEADER_BYTES>()
            .filter(|header| header[0] < 64 && header[4..8] == MAGIC_COOKIE)
            .and_then(|header| header.split_first_chunk::<8>())
            .ok_or(StunError::NotStun)?;
        let id = id.try_into().map(TransactionId).map_err(|_| StunError::NotStun)?;
        let [type_high, type_low, length_high, length_low, ..] = *head;
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        if length % 4 != 0 || HEADER_BYTES + length != bytes.len() {
            return Err(StunError::Length);
        }
        let (class, method) = split_type(u16::from_be_bytes([type_high, type_low]));
        let message = Self { bytes, class, method, id };
        message.check_attributes()?;
        Ok(message)
    }

    /// Message class.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Method; always [`METHOD_BINDING`] here.
    pub const fn method(&self) -> u16 {
        self.method
    }

    /// True for the Binding method.
    pub const fn is_binding(&self) -> bool {
        self.method == METHOD_BINDING
    }

    /// Transaction ID.
    pub const fn id(&self) -> TransactionId {
        self.id
    }

    /// Type and value of the attributes, without those after MESSAGE-INTEGRITY, which must be ignored (RFC
    /// 8489 §14.5).
    pub fn attributes(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut is_sealed = false;
        self.raw().filter_map(Result::ok).filter_map(move |(_, kind, value)| {
            let counts =
                !is_sealed || matches!(kind, attribute::MESSAGE_INTEGRITY_SHA256 | attribute::FINGERPRINT);
            is_sealed |= kind == attribute::MESSAGE_INTEGRITY;
            counts.then_some((kind, value))
        })
    }

    /// First attribute of a type; further ones must be ignored (RFC 8489 §14).
    pub fn attribute(&self, kind: u16) -> Option<&'a [u8]> {
        self.attributes().find(|attribute| attribute.0 == kind).map(|attribute| attribute.1)
    }

    /// XOR-MAPPED-ADDRESS (RFC 8489 §14.2).
    pub fn xor_mapped_address(&self) -> Option<SocketAddr> {
        let address = address(self.attribute(attribute::XOR_MAPPED_ADDRESS)?)?;
        Some(xor_address(address, self.id))
    }

    /// MAPPED-ADDRESS (RFC 8489 §14.1).
    pub fn mapped_address(&self) -> Option<SocketAddr> {
        address(self.attribute(attribute::MAPPED_ADDRESS)?)
    }

    /// ERROR-CODE: 300 to 699, and the reason phrase as received (RFC 8489 §14.8).
    pub fn error_code(&self) -> Option<(u16, &'a [u8])> {
        let (&[_, _, class, number], reason) =
            self.attribute(attribute::ERROR_CODE)?.split_first_chunk::<4>()?;
        let class = class & 7;
        ((3..7).contains(&class) && number < 100)
            .then(|| (u16::from(class) * 100 + u16::from(number), reason))
    }

    /// Unknown comprehension-required attributes (RFC 8489 §14). SOURCE-ADDRESS, CHANGED-ADDRESS and
    /// REFLECTED-FROM of RFC 3489 count as known, because old servers still send them.
    pub fn unknown_required(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.attributes().map(|attribute| attribute.0).filter(|kind| *kind < 0x8000 && !KNOWN.contains(kind))
    }

    /// Bytes before the first attribute of a type, and its value.
    #[cfg(feature = "integrity")]
    pub(crate) fn before(&self, wanted: u16) -> Option<(&'a [u8], &'a [u8])> {
        let (at, _, value) = self.raw().filter_map(Result::ok).find(|(_, kind, _)| *kind == wanted)?;
        Some((self.bytes.get(..at)?, value))
    }

    fn check_attributes(&self) -> Result<(), StunError> {
        let mut is_last = false;
        for attribute in self.raw() {
            let (at, kind, value) = attribute?;
            if is_last {
                return Err(StunError::Attribute);
            }
            if kind == attribute::FINGERPRINT {
                let expected = fingerprint(self.bytes.get(..at).unwrap_or_default());
                if value != expected {
                    return Err(StunError::Fingerprint);
                }
                is_last = true;
            }
        }
        Ok(())
    }

    /// All attributes with the offsets of their types.
    fn raw(&self) -> impl Iterator<Item = Result<(usize, u16, &'a [u8]), StunError>> + use<'a> {
        let bytes = self.bytes;
        let mut at = HEADER_BYTES;
        core::iter::from_fn(move || {
            let (head, rest) = bytes.get(at..).filter(|rest| !rest.is_empty())?.split_first_chunk::<4>()?;
            let [kind_high, kind_low, length_high, length_low] = *head;
            let length = usize::from(u16::from_be_bytes([length_high, length_low]));
            let here = at;
            let Some(value) = rest.get(..length).filter(|_| rest.len() >= length.next_multiple_of(4)) else {
                at = bytes.len();
                return Some(Err(StunError::Attribute));
            };
            at += 4 + length.next_multiple_of(4);
            Some(Ok((here, u16::from_be_bytes([kind_high, kind_low]), value)))
        })
    }
}

/// Value of FINGERPRINT after `before`, whose header length already includes it (RFC 8489 §14.7).
pub(crate) fn fingerprint(before: &[u8]) -> [u8; 4] {
    (CRC32.checksum(before) ^ FINGERPRINT_XOR).to_be_bytes()
}

pub(crate) fn with_length(mut header: [u8; HEADER_BYTES], length: usize) -> Option<[u8; HEADER_BYTES]> {
    [header[2], header[3]] = u16::try_from(length).ok()?.to_be_bytes();
    Some(header)
}

/// XORs an address with cookie and transaction ID (RFC 8489 §14.2); the function is its own inverse.
pub(crate) fn xor_address(address: SocketAddr, id: TransactionId) -> SocketAddr {
    let [cookie_0, cookie_1, cookie_2, cookie_3] = MAGIC_COOKIE;
    let port = address.port() ^ u16::from_be_bytes([cookie_0, cookie_1]);
    let ip = match address.ip() {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            IpAddr::from([a ^ cookie_0, b ^ cookie_1, c ^ cookie_2, d ^ cookie_3])
        }
        IpAddr::V6(ip) => {
            let mut octets = ip.octets();
            for (octet, mask) in octets.iter_mut().zip(MAGIC_COOKIE.iter().chain(&id.0)) {
                *octet ^= mask;
            }
            IpAddr::from(octets)
        }
    };
    SocketAddr::new(ip, port)
}

fn address(value: &[u8]) -> Option<SocketAddr> {
    let (&[_, family, port_high, port_low], ip) = value.split_first_chunk::<4>()?;
    let ip = match family {
        FAMILY_IPV4 => IpAddr::from(<[u8; 4]>::try_from(ip).ok()?),
        FAMILY_IPV6 => IpAddr::from(<[u8; 16]>::try_from(ip).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes([port_high, port_low])))
}

/// Splits a message type into class and method; the class is two bits in its middle (RFC 8489 §5).
fn split_type(kind: u16) -> (Class, u16) {
    let class = match kind & 0x0110 {
        0x0000 => Class::Request,
        0x0010 => Class::Indication,
        0x0100 => Class::Success,
        _ => Class::Error,
    };
    (class, (kind & 0x000f) | ((kind & 0x00e0) >> 1) | ((kind & 0x3e00) >> 2))
}

pub(crate) const fn join_type(class: Class, method: u16) -> u16 {
    let class = match class {
        Class::Request => 0x0000,
        Class::Indication => 0x0010,
        Class::Success => 0x0100,
        Class::Error => 0x0110,
    };
    class | (method & 0x000f) | ((method & 0x0070) << 1) | ((method & 0x0f80) << 2)
}

const KNOWN: [u16; 14] = [
    attribute::MAPPED_ADDRESS,
    0x0004,
    0x0005,
    attribute::USERNAME,
    attribute::MESSAGE_INTEGRITY,
    attribute::ERROR_CODE,
    attribute::UNKNOWN_ATTRIBUTES,
    0x000b,
    attribute::REALM,
    attribute::NONCE,
    attribute::MESSAGE_INTEGRITY_SHA256,
    attribute::XOR_MAPPED_ADDRESS,
    attribute::PRIORITY,
    attribute::USE_CANDIDATE,
];
