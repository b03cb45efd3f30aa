//! PASSporT (RFC 8225) in the value of an Identity header field (RFC 8224 §4).

use super::json::Value;
use super::signature::{decoded, has_signed};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Kind of a PASSporT, by its parameter `ppt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassportKind {
    /// None: RFC 8225.
    Base,
    /// `shaken` (RFC 8588).
    Shaken,
    /// `div` (RFC 8946).
    Div,
}

/// Right of a caller to its number, as the signer states it (RFC 8588 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attestation {
    /// The signer has proved who the caller is, and that it may use the number.
    Full,
    /// The signer has proved who the caller is.
    Partial,
    /// The signer has got the call, and nothing more.
    Gateway,
}

/// Claims about a call. Numbers have no `+` (RFC 8224 §8.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Number of the caller; empty: a URI.
    pub origin: Box<str>,
    /// Called numbers; none: URIs.
    pub destinations: Vec<Box<str>>,
    /// Time of the signature, in seconds since the epoch.
    pub made_s: u64,
    /// Right of the caller, of [`PassportKind::Shaken`].
    pub attestation: Option<Attestation>,
    /// Identifier of the origin of the call for its signer, of [`PassportKind::Shaken`].
    pub origin_id: Box<str>,
    /// Number that diverted the call, of [`PassportKind::Div`].
    pub diverted: Box<str>,
}

/// Value of an Identity header field that was read; its signature was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passport<'a> {
    /// Kind.
    pub kind: PassportKind,
    /// URL of the certificate, the same in the token and the header field.
    pub url: Box<str>,
    /// Claims.
    pub claims: Claims,
    signed: &'a [u8],
    signature: Vec<u8>,
}

/// Reason why a value is no PASSporT that can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPassport {
    /// It is malformed, too long, without a claim that it needs, or its parts contradict each other.
    Malformed,
    /// Its algorithm is not ES256.
    Algorithm,
    /// Its `ppt` is not supported.
    Kind,
}

impl PassportKind {
    const fn name(self) -> Option<&'static str> {
        match self {
            Self::Base => None,
            Self::Shaken => Some("shaken"),
            Self::Div => Some("div"),
        }
    }

    /// Header, in the order of RFC 8225 §9.
    pub(super) fn header(self, url: &str) -> String {
        let ppt = self.name().map_or_else(String::new, |name| format!(r#""ppt":"{name}","#));
        format!(r#"{{"alg":"ES256",{ppt}"typ":"passport","x5u":"{url}"}}"#)
    }
}

impl Attestation {
    /// Value of `attest`.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Full => "A",
            Self::Partial => "B",
            Self::Gateway => "C",
        }
    }

    fn of(letter: &str) -> Option<Self> {
        [Self::Full, Self::Partial, Self::Gateway].into_iter().find(|own| own.letter() == letter)
    }
}

impl Claims {
    /// Claims in the order of RFC 8225 §9. Numbers and identifier need no escapes.
    pub(super) fn payload(&self) -> String {
        let attest =
            self.attestation.map_or_else(String::new, |of| format!(r#""attest":"{}","#, of.letter()));
        let numbers: Vec<String> = self.destinations.iter().map(|number| format!("\"{number}\"")).collect();
        let div = match &*self.diverted {
            "" => String::new(),
            number => format!(r#""div":{{"tn":"{number}"}},"#),
        };
        let origid = match &*self.origin_id {
            "" => String::new(),
            id => format!(r#","origid":"{id}""#),
        };
        format!(
            r#"{{{attest}"dest":{{"tn":[{}]}},{div}"iat":{},"orig":{{"tn":"{}"}}{origid}}}"#,
            numbers.join(","),
            self.made_s,
            self.origin
        )
    }

    fn read(kind: PassportKind, payload: &Value) -> Option<Self> {
        let numbers_of = |value: &Value| -> Vec<Box<str>> {
            let list = value.get("tn").and_then(Value::list).unwrap_or_default();
            list.iter().filter_map(Value::text).map(Into::into).collect()
        };
        let orig = payload.get("orig")?;
        let origin = orig.get("tn").or_else(|| orig.get("uri")).and_then(Value::text)?;
        let is_number = orig.get("tn").is_some();
        let text_of = |name| payload.get(name).and_then(Value::text);
        let diverted = payload.get("div").and_then(|div| div.get("tn")).and_then(Value::text);
        let claims = Self {
            origin: if is_number { origin.into() } else { Box::default() },
            destinations: numbers_of(payload.get("dest")?),
            made_s: payload.get("iat").and_then(Value::number)?,
            attestation: text_of("attest").and_then(Attestation::of),
            origin_id: text_of("origid").unwrap_or_default().into(),
            diverted: diverted.unwrap_or_default().into(),
        };
        let is_complete = match kind {
            PassportKind::Base => true,
            PassportKind::Shaken => claims.attestation.is_some() && !claims.origin_id.is_empty(),
            PassportKind::Div => !claims.diverted.is_empty(),
        };
        is_complete.then_some(claims)
    }
}

impl<'a> Passport<'a> {
    /// Reads the value of an Identity header field, in its full form.
    ///
    /// # Errors
    /// The reason why it cannot be checked.
    pub fn parse(value: &'a [u8]) -> Result<Self, BadPassport> {
        if value.len() > IDENTITY_BYTES_MAX {
            return Err(BadPassport::Malformed);
        }
        let at = value.iter().position(|&byte| byte == b';').ok_or(BadPassport::Malformed)?;
        let (token, params) = value.split_at_checked(at).ok_or(BadPassport::Malformed)?;
        let params = Params::read(params).ok_or(BadPassport::Malformed)?;
        let kind = match params.ppt {
            None => PassportKind::Base,
            Some(name) => [PassportKind::Shaken, PassportKind::Div]
                .into_iter()
                .find(|kind| kind.name().is_some_and(|own| own.as_bytes() == name))
                .ok_or(BadPassport::Kind)?,
        };
        if params.alg.is_some_and(|alg| alg != b"ES256") {
            return Err(BadPassport::Algorithm);
        }
        Self::read(token.trim_ascii(), kind, params.info)
    }

    fn read(token: &'a [u8], kind: PassportKind, info: &[u8]) -> Result<Self, BadPassport> {
        let dots: Vec<usize> =
            token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at).take(3).collect();
        let &[first, second] = dots.as_slice() else { return Err(BadPassport::Malformed) };
        let part =
            |range: core::ops::Range<usize>| token.get(range).and_then(decoded).ok_or(BadPassport::Malformed);
        let header = Value::read(&part(0..first)?).ok_or(BadPassport::Malformed)?;
        let text_of = |name| header.get(name).and_then(Value::text);
        if text_of("alg") != Some("ES256") {
            return Err(BadPassport::Algorithm);
        }
        let url = text_of("x5u").filter(|url| url.as_bytes() == info);
        // RFC 7515 §4.1.11: there is no extension that must be understood, and is.
        let is_whole = text_of("typ") == Some("passport")
            && text_of("ppt") == kind.name()
            && header.get("ppt").is_some() == kind.name().is_some()
            && header.get("crit").is_none();
        let url = url.filter(|_| is_whole).ok_or(BadPassport::Malformed)?.into();
        let payload = Value::read(&part(first + 1..second)?).ok_or(BadPassport::Malformed)?;
        let claims = Claims::read(kind, &payload).ok_or(BadPassport::Malformed)?;
        let signature = part(second + 1..token.len())?;
        let signed = token.get(..second).ok_or(BadPassport::Malformed)?;
        Ok(Self { kind, url, claims, signed, signature })
    }

    /// True if the holder of this public key has signed it: an uncompressed point of P-256.
    pub fn is_signed_by(&self, public_key: &[u8]) -> bool {
        has_signed(public_key, self.signed, &self.signature)
    }
}

/// Parameters of the header field.
#[derive(Default)]
struct Params<'a> {
    info: &'a [u8],
    alg: Option<&'a [u8]>,
    ppt: Option<&'a [u8]>,
}

impl<'a> Params<'a> {
    /// Reads what follows the token. `None`: it is malformed, names one twice, or has no `info`.
    fn read(mut rest: &'a [u8]) -> Option<Self> {
        let mut params = Self::default();
        rest = rest.trim_ascii();
        while let Some(behind) = rest.strip_prefix(b";") {
            let name_len = behind.iter().position(|byte| matches!(byte, b'=' | b';'));
            let (name, behind) = behind.split_at_checked(name_len.unwrap_or(behind.len()))?;
            let name = name.trim_ascii();
            let Some(behind) = behind.strip_prefix(b"=") else {
                rest = behind;
                continue;
            };
            let (value, behind) = value_of(behind.trim_ascii_start())?;
            rest = behind.trim_ascii_start();
            let slot = match name.to_ascii_lowercase().as_slice() {
                b"info" if params.info.is_empty() => {
                    params.info = value;
                    continue;
                }
                b"info" => return None,
                b"alg" => &mut params.alg,
                b"ppt" => &mut params.ppt,
                _ => continue,
            };
            if slot.replace(value).is_some() {
                return None;
            }
        }
        (rest.is_empty() && !params.info.is_empty()).then_some(params)
    }
}

/// Value of a parameter without its brackets or quotes, and what follows it.
fn value_of(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let closed = |end: u8| {
        let inner = text.get(1..)?;
        let len = inner.iter().position(|&byte| byte == end)?;
        Some((inner.get(..len)?, inner.get(len + 1..)?))
    };
    match text.first()? {
        b'<' => closed(b'>'),
        b'"' => closed(b'"'),
        _ => {
            let len = text.iter().position(|&byte| byte == b';').unwrap_or(text.len());
            let (value, behind) = text.split_at_checked(len)?;
            Some((value.trim_ascii(), behind))
        }
    }
}

/// Maximum length of the value of an Identity header field.
pub const IDENTITY_BYTES_MAX: usize = 4096;

#[cfg(test)]
#[path = "passport_tests.rs"]
mod tests;
