//! SDES: parsing and writing of `a=crypto` attributes (RFC 4568).
//!
//! Does: parses one line into a usable [`CryptoLine`] or the reason why it is unusable; writes lines.
//!
//! Does not: choose among lines, or generate keys.
//!
//! Start reading at [`CryptoLine::parse`].

use crate::{CryptoSuite, MKI_BYTES_MAX, MasterKey, SRTP_PACKETS_MAX};
use alloc::string::String;
use alloc::vec::Vec;
use base64ct::{Base64, Base64Unpadded, Encoding};
use core::fmt::{self, Write as _};

/// Maximum length of an `a=crypto` value in bytes: enough for a key with the longest MKI and all parameters.
pub const LINE_BYTES_MAX: usize = 4096;

/// Maximum number of session parameters of a line.
pub const PARAMETERS_MAX: usize = 16;

/// Maximum length of key and salt in bytes, that of AES-256 in counter mode.
const KEY_AND_SALT_BYTES_MAX: usize = 46;

/// An `a=crypto` attribute: suite and key of the packets that its sender sends.
#[derive(Clone, PartialEq, Eq)]
pub struct CryptoLine {
    /// Tag, by which an answer refers to the line: 0 to 999,999,999 (RFC 4568 §4.1).
    pub tag: u32,
    /// Crypto suite of the key.
    pub suite: CryptoSuite,
    /// Name of the suite as written; `None` for [`CryptoSuite::name`].
    pub suite_name: Option<String>,
    /// Master key.
    pub key: MasterKey,
}

/// Reason why a line is unusable.
///
/// [`Self::UnknownSuite`] and [`Self::UnsupportedParameter`] are valid lines that another implementation
/// might support; the others are invalid. No error affects other lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoLineError {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("the crypto line is too long")]
    TooLong,
    /// Characters other than those of RFC 4568 §9.1, or fewer than three fields.
    #[error("the crypto line is not `tag suite inline:key`")]
    Malformed,
    /// The tag is not a number of one to nine digits.
    #[error("the tag is not a number of one to nine digits")]
    Tag,
    /// The suite is not supported.
    #[error("the crypto suite is not supported")]
    UnknownSuite,
    /// The key method is not `inline:`.
    #[error("the key is not given `inline:`")]
    KeyMethod,
    /// The key is not base64, or does not have the length that the suite needs.
    #[error("the key is not base64 of the suite's length")]
    Key,
    /// The lifetime is 0, has a leading zero, or exceeds the suite's maximum.
    #[error("the key's lifetime is not 1 to 2^48 packets")]
    Lifetime,
    /// The MKI has no length, a length outside 1 to 128, or does not fit its length.
    #[error("the master key identifier does not fit its length of 1 to 128 bytes")]
    Mki,
    /// More than one key: the sender could change to a key that is not tracked.
    #[error("the line has several keys")]
    SeveralKeys,
    /// A known session parameter is invalid or occurs twice.
    #[error("a session parameter has an invalid value")]
    Parameter,
    /// An unsupported session parameter that changes the protection: a key derivation rate, no encryption, no
    /// authentication, error correction after encryption or with its own key, or an unknown one that must not
    /// be ignored (RFC 4568 §6.3.7).
    #[error("a session parameter is not supported")]
    UnsupportedParameter,
}

impl CryptoLine {
    /// Creates a line with one key and no session parameters.
    pub fn new(tag: u32, suite: CryptoSuite, key: MasterKey) -> Self {
        Self { tag, suite, suite_name: None, key }
    }

    /// Parses the value of an `a=crypto` attribute.
    ///
    /// # Errors
    /// The line is unusable; other lines of the stream may be usable.
    pub fn parse(value: &[u8]) -> Result<Self, CryptoLineError> {
        if value.len() > LINE_BYTES_MAX {
            return Err(CryptoLineError::TooLong);
        }
        let text = core::str::from_utf8(value).map_err(|_| CryptoLineError::Malformed)?;
        if !text.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
            return Err(CryptoLineError::Malformed);
        }
        let mut parts = text.split([' ', '\t']).filter(|part| !part.is_empty());
        let (Some(tag), Some(suite), Some(keys)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(CryptoLineError::Malformed);
        };
        let tag = tag_of(tag)?;
        let name = suite;
        let suite = CryptoSuite::from_name(name).ok_or(CryptoLineError::UnknownSuite)?;
        let suite_name = (name != suite.name()).then(|| String::from(name));
        if keys.contains(';') {
            return Err(CryptoLineError::SeveralKeys);
        }
        let key = key_of(suite, keys)?;
        check_parameters(parts)?;
        Ok(Self { tag, suite, suite_name, key })
    }

    /// Appends the value of the `a=crypto` attribute.
    ///
    /// # Errors
    /// The name is not the suite's, a key does not have the length that the suite needs, or its MKI or
    /// lifetime is invalid. Part of the line may have been appended.
    pub fn write(&self, out: &mut String) -> Result<(), CryptoLineError> {
        if self.tag > TAG_MAX {
            return Err(CryptoLineError::Tag);
        }
        let name = self.suite_name.as_deref().unwrap_or(self.suite.name());
        // The name of another suite would make the keys invalid, and an invalid name could break the line.
        if CryptoSuite::from_name(name) != Some(self.suite) {
            return Err(CryptoLineError::UnknownSuite);
        }
        write!(out, "{} {name} inline:", self.tag).map_err(|_| CryptoLineError::TooLong)?;
        write_key(self.suite, &self.key, out)
    }
}

impl fmt::Debug for CryptoLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CryptoLine({} {})", self.tag, self.suite.name())
    }
}

/// Largest number of nine digits.
const TAG_MAX: u32 = 999_999_999;

/// Parses the tag (RFC 4568 §9.1: 1*9DIGIT).
fn tag_of(text: &str) -> Result<u32, CryptoLineError> {
    match (text.len(), digits(text)) {
        (1..=9, Some(number)) => u32::try_from(number).map_err(|_| CryptoLineError::Tag),
        _ => Err(CryptoLineError::Tag),
    }
}

/// Parses "inline:" key-salt ["|" lifetime] ["|" mki] (RFC 4568 §9.2). Only the MKI has a colon.
fn key_of(suite: CryptoSuite, text: &str) -> Result<MasterKey, CryptoLineError> {
    let info = match text.split_once(':') {
        Some((method, info)) if method.eq_ignore_ascii_case("inline") => info,
        _ => return Err(CryptoLineError::KeyMethod),
    };
    let mut fields = info.split('|');
    let (key, salt) = key_and_salt(suite, fields.next().unwrap_or_default())?;
    let mut next = fields.next();
    let mut lifetime_packets = None;
    if let Some(field) = next.filter(|field| !field.contains(':')) {
        lifetime_packets = Some(lifetime_of(field)?);
        next = fields.next();
    }
    let mki = next.map(mki_of).transpose()?.unwrap_or_default();
    if fields.next().is_some() {
        return Err(CryptoLineError::Malformed);
    }
    Ok(MasterKey { key, salt, lifetime_packets, mki })
}

/// Decodes key and salt from base64; padding is optional (RFC 4568 §6.1).
fn key_and_salt(suite: CryptoSuite, text: &str) -> Result<(Vec<u8>, Vec<u8>), CryptoLineError> {
    let mut room = [0; KEY_AND_SALT_BYTES_MAX];
    let decoded = match Base64Unpadded::decode(text.trim_end_matches('='), &mut room) {
        Ok(decoded) if padding_is_right(text, decoded.len()) => decoded,
        _ => return Err(CryptoLineError::Key),
    };
    match decoded.split_at_checked(suite.key_bytes()) {
        Some((key, salt)) if salt.len() == suite.salt_bytes() => Ok((key.into(), salt.into())),
        _ => Err(CryptoLineError::Key),
    }
}

/// True for no padding, or the padding that base64 requires for this length.
fn padding_is_right(text: &str, decoded_bytes: usize) -> bool {
    let padding = text.len() - text.trim_end_matches('=').len();
    padding == 0 || padding == (3 - decoded_bytes % 3) % 3
}

/// Parses a lifetime: a decimal number, or "2^" and the exponent (RFC 4568 §6.1).
fn lifetime_of(text: &str) -> Result<u64, CryptoLineError> {
    let packets = match text.strip_prefix("2^") {
        Some(power) => {
            let power = number_without_leading_zero(power).and_then(|power| u32::try_from(power).ok());
            power.and_then(|power| 1u64.checked_shl(power))
        }
        None => number_without_leading_zero(text),
    };
    packets.filter(|packets| (1..=SRTP_PACKETS_MAX).contains(packets)).ok_or(CryptoLineError::Lifetime)
}

/// Parses an MKI: a decimal number, and its length in bytes (RFC 4568 §6.1).
fn mki_of(text: &str) -> Result<Vec<u8>, CryptoLineError> {
    let (value, length) = text.split_once(':').ok_or(CryptoLineError::Mki)?;
    let length = number_without_leading_zero(length).and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| (1..=MKI_BYTES_MAX).contains(length)).ok_or(CryptoLineError::Mki)?;
    if value.is_empty() || value.starts_with('0') {
        return Err(CryptoLineError::Mki);
    }
    let mut mki = alloc::vec![0u8; length];
    for digit in value.bytes() {
        if !digit.is_ascii_digit() {
            return Err(CryptoLineError::Mki);
        }
        let mut carry = u16::from(digit - b'0');
        for byte in mki.iter_mut().rev() {
            carry += u16::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry != 0 {
            return Err(CryptoLineError::Mki);
        }
    }
    Ok(mki)
}

/// Checks the session parameters (RFC 4568 §6.3). The recommended replay window (WSH) may be ignored (§6.3.6).
fn check_parameters<'a>(parts: impl Iterator<Item = &'a str>) -> Result<(), CryptoLineError> {
    let mut seen: Vec<&str> = Vec::new();
    for part in parts {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        };
        if seen.len() >= PARAMETERS_MAX || seen.contains(&name) {
            return Err(CryptoLineError::Parameter);
        }
        seen.push(name);
        match (name, value) {
            // The grammar permits a rate of 0, which is the default, although §6.3.1 does not.
            ("KDR", Some("0")) | ("FEC_ORDER", Some("FEC_SRTP")) => {}
            ("KDR", Some(power)) => {
                let power = number_without_leading_zero(power).filter(|power| *power <= 24);
                power.ok_or(CryptoLineError::Parameter)?;
                return Err(CryptoLineError::UnsupportedParameter);
            }
            ("FEC_ORDER", Some("SRTP_FEC")) | ("FEC_KEY", Some(_)) => {
                return Err(CryptoLineError::UnsupportedParameter);
            }
            ("UNENCRYPTED_SRTP" | "UNENCRYPTED_SRTCP" | "UNAUTHENTICATED_SRTP", None) => {
                return Err(CryptoLineError::UnsupportedParameter);
            }
            ("WSH", Some(window)) => {
                let window =
                    number_without_leading_zero(window).and_then(|window| u32::try_from(window).ok());
                window.filter(|window| *window >= 64).ok_or(CryptoLineError::Parameter)?;
            }
            (
                "KDR"
                | "FEC_ORDER"
                | "FEC_KEY"
                | "UNENCRYPTED_SRTP"
                | "UNENCRYPTED_SRTCP"
                | "UNAUTHENTICATED_SRTP"
                | "WSH",
                _,
            ) => return Err(CryptoLineError::Parameter),
            // §6.3.7: a parameter with a leading dash may be ignored, any other must be supported.
            _ if name.starts_with('-') => {}
            _ => return Err(CryptoLineError::UnsupportedParameter),
        }
    }
    Ok(())
}

fn write_key(suite: CryptoSuite, key: &MasterKey, out: &mut String) -> Result<(), CryptoLineError> {
    let mut joined = [0; KEY_AND_SALT_BYTES_MAX];
    let (key_bytes, salt_bytes) = (suite.key_bytes(), suite.salt_bytes());
    let whole = joined.get_mut(..key_bytes + salt_bytes).ok_or(CryptoLineError::Key)?;
    if key.key.len() != key_bytes || key.salt.len() != salt_bytes {
        return Err(CryptoLineError::Key);
    }
    let (key_room, salt_room) = whole.split_at_mut(key_bytes);
    key_room.copy_from_slice(&key.key);
    salt_room.copy_from_slice(&key.salt);
    let mut room = [0; KEY_AND_SALT_BYTES_MAX.div_ceil(3) * 4];
    out.push_str(Base64::encode(whole, &mut room).map_err(|_| CryptoLineError::Key)?);
    if let Some(packets) = key.lifetime_packets {
        let written = match packets {
            2..=SRTP_PACKETS_MAX if packets.is_power_of_two() => {
                write!(out, "|2^{}", packets.trailing_zeros())
            }
            1..=SRTP_PACKETS_MAX => write!(out, "|{packets}"),
            _ => return Err(CryptoLineError::Lifetime),
        };
        written.map_err(|_| CryptoLineError::TooLong)?;
    }
    if !key.mki.is_empty() {
        out.push('|');
        write_mki(&key.mki, out)?;
    }
    Ok(())
}

/// Writes the MKI as a decimal number, and its length.
fn write_mki(mki: &[u8], out: &mut String) -> Result<(), CryptoLineError> {
    if mki.len() > MKI_BYTES_MAX || mki.iter().all(|byte| *byte == 0) {
        return Err(CryptoLineError::Mki);
    }
    let mut rest = Vec::from(mki);
    let mut digits = Vec::new();
    while rest.iter().any(|byte| *byte != 0) {
        let mut remainder = 0u16;
        for byte in &mut rest {
            remainder = (remainder << 8) | u16::from(*byte);
            *byte = (remainder / 10) as u8;
            remainder %= 10;
        }
        digits.push(char::from(b'0' + remainder as u8));
    }
    out.extend(digits.iter().rev());
    write!(out, ":{}", mki.len()).map_err(|_| CryptoLineError::TooLong)
}

/// Parses digits as a number.
fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

fn number_without_leading_zero(text: &str) -> Option<u64> {
    if text.starts_with('0') { None } else { digits(text) }
}

#[cfg(test)]
#[path = "sdes_tests.rs"]
mod tests;
