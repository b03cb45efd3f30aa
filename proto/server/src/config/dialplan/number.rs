//! Telephone numbers (RFC 3966).

use core::fmt;
use ringway_sansio::Defence;
use ringway_sip::grammar::unescaped_octet;
use ringway_sip::{Scheme, Uri};

/// Telephone number in its canonical form: an optional `+`, then digits, `*` and `#`; no visual separators.
///
/// ```
/// use ringway_server::Number;
/// use ringway_sip::Uri;
///
/// let uri = Uri::parse(b"tel:+1-201-555-0123;ext=5")?;
/// let (number, context) = Number::of_uri(&uri).expect("it is a number");
/// assert_eq!((number.as_bytes(), context), (&b"+12015550123"[..], None));
/// # Ok::<(), ringway_sip::Malformed>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Number {
    bytes: [u8; Number::BYTES_MAX],
    len: u8,
}

impl Number {
    /// Maximum length. The longest number of E.164 has 15 digits; a dialled one may have a prefix and digits for an extension.
    pub const BYTES_MAX: usize = 32;

    const EMPTY: Self = Self { bytes: [0; Self::BYTES_MAX], len: 0 };

    /// Number of a `tel:` URI, or of the user part of a SIP URI, and the domain of its `phone-context`, if that is one.
    ///
    /// The user part is a number if it has digits, `*` and `#` only, after an optional `+`. With `user=phone`, or a `+` and parameters, it
    /// may also have the visual separators and parameters of a `tel:` URI (RFC 3261 §19.1.6). `None`: it is no number, or too long.
    pub fn of_uri<'a>(uri: &Uri<'a>) -> Option<(Self, Option<&'a [u8]>)> {
        let user = match uri.scheme() {
            Scheme::Tel => uri.as_bytes().split_at_checked(b"tel:".len())?.1,
            Scheme::Sip | Scheme::Sips if has_user_phone(uri) => uri.user()?,
            Scheme::Sip | Scheme::Sips => match uri.user()? {
                // As carriers write it: `;npdi;rn=` without `user=phone`.
                user if user.starts_with(b"+") && user.contains(&b';') => user,
                user => return Self::of_plain(user).map(|number| (number, None)),
            },
            Scheme::Other => return None,
        };
        Self::of_subscriber(user)
    }

    /// Number of the same part without its parameters: the digits that were dialled, if a `phone-context` is put before them.
    pub(crate) fn without_context(uri: &Uri<'_>) -> Option<Self> {
        let user =
            if uri.scheme() == Scheme::Tel { uri.as_bytes().get(b"tel:".len()..)? } else { uri.user()? };
        Self::of_user(user.split(|&byte| byte == b';').next()?)
    }

    /// Number of a user part, read as with `user=phone`; a gateway may read any user part like that.
    pub(crate) fn of_user(user: &[u8]) -> Option<Self> {
        Self::of_subscriber(user).map(|(number, _)| number)
    }

    /// Number without separators and escapes.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut number = Self::EMPTY;
        text.iter().try_for_each(|&byte| number.push(byte))?;
        number.checked()
    }

    /// The number as text.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// True for a number of E.164, which begins with `+`.
    pub fn is_global(&self) -> bool {
        self.as_bytes().starts_with(b"+")
    }

    /// The number without its first `strip` characters, after `add`. `None`: it is too long then, or nothing is left.
    pub fn changed(&self, strip: usize, add: &[u8]) -> Option<Self> {
        let mut number = Self::EMPTY;
        let kept = self.as_bytes().get(strip..)?;
        add.iter().chain(kept).try_for_each(|&byte| number.push(byte))?;
        number.checked()
    }

    /// Numbers that a carrier may dial behind the service codes in this one: behind `*31#`, between `*21*` and `#`, and behind `*67`, whose
    /// two or three digits have no end.
    pub(crate) fn behind_codes(&self) -> impl Iterator<Item = Self> + '_ {
        let bytes = self.as_bytes();
        let is_sign = |byte: &u8| matches!(byte, b'*' | b'#');
        let has_code = bytes.iter().any(is_sign) && Defence::ServiceCodes.is_on();
        let open = match bytes.split_first() {
            Some((sign, rest)) if is_sign(sign) && has_code => rest.split(is_sign).next(),
            Some(_) | None => None,
        };
        let behind_open = [2, 3].into_iter().filter_map(move |digits| open?.get(digits..));
        let runs = bytes.split(is_sign).filter(move |_| has_code);
        runs.chain(behind_open).filter(|digits| digits.len() > CODE_DIGITS).filter_map(Self::parse)
    }

    fn of_plain(user: &[u8]) -> Option<Self> {
        let mut number = Self::EMPTY;
        let mut rest = user;
        while let Some((octet, used)) = unescaped_octet(rest) {
            number.push(octet)?;
            rest = rest.get(used..)?;
        }
        number.checked()
    }

    /// Number of a telephone-subscriber with its parameters (RFC 3966 §3).
    fn of_subscriber(text: &[u8]) -> Option<(Self, Option<&[u8]>)> {
        let mut parts = text.split(|&byte| byte == b';');
        let mut number = Self::EMPTY;
        let mut rest = parts.next()?;
        while let Some((octet, used)) = unescaped_octet(rest) {
            if !is_separator(octet) {
                number.push(octet)?;
            }
            rest = rest.get(used..)?;
        }
        let number = number.checked()?;
        // A gateway that reads escapes there would see another parameter than this server does.
        let has_escape =
            |part: &[u8]| part.iter().take_while(|byte| **byte != b'=').any(|byte| *byte == b'%');
        if parts.clone().any(has_escape) {
            return None;
        }
        let mut contexts = parts.filter_map(|part| {
            let (name, value) = part.split_at_checked(PHONE_CONTEXT.len())?;
            name.eq_ignore_ascii_case(PHONE_CONTEXT).then_some(value)
        });
        let context = contexts.next();
        // RFC 3966 §3: a parameter is there once. Of two nobody can tell which one counts.
        if contexts.next().is_some() {
            return None;
        }
        match context {
            Some(context) if !number.is_global() => number.in_context(context),
            Some(_) | None => Some((number, None)),
        }
    }

    /// The local number in a `phone-context`: global digits are put before it, a domain is returned.
    fn in_context(self, context: &[u8]) -> Option<(Self, Option<&[u8]>)> {
        if unescaped_octet(context).is_none_or(|(octet, _)| octet != b'+') {
            return Some((self, Some(context)));
        }
        let mut number = Self::EMPTY;
        let mut rest = context;
        while let Some((octet, used)) = unescaped_octet(rest) {
            if !is_separator(octet) {
                number.push(octet)?;
            }
            rest = rest.get(used..)?;
        }
        self.as_bytes().iter().try_for_each(|&byte| number.push(byte))?;
        Some((number.checked()?, None))
    }

    fn push(&mut self, byte: u8) -> Option<()> {
        let is_symbol =
            byte.is_ascii_digit() || matches!(byte, b'*' | b'#') || (byte == b'+' && self.len == 0);
        if !is_symbol {
            return None;
        }
        *self.bytes.get_mut(usize::from(self.len))? = byte;
        self.len += 1;
        Some(())
    }

    /// `None` for a number without a digit or another symbol.
    fn checked(self) -> Option<Self> {
        (!matches!(self.as_bytes(), b"" | b"+")).then_some(self)
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Number({})", self.as_bytes().escape_ascii())
    }
}

/// True for a user part that nobody takes for a number: of letters, `-`, `_` and `.` only.
pub(crate) fn is_plain_name(user: &[u8]) -> bool {
    let mut rest = user;
    while let Some((octet, used)) = unescaped_octet(rest) {
        if !octet.is_ascii_alphabetic() && !matches!(octet, b'-' | b'_' | b'.') {
            return false;
        }
        rest = rest.get(used..).unwrap_or_default();
    }
    true
}

/// RFC 3966 §3: visual separators.
const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'-' | b'.' | b'(' | b')')
}

fn has_user_phone(uri: &Uri<'_>) -> bool {
    uri.params().value(b"user").is_some_and(|user| user.eq_ignore_ascii_case(b"phone"))
}

const PHONE_CONTEXT: &[u8] = b"phone-context=";
/// Number of digits of a service code at most; more are a number.
const CODE_DIGITS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn read(uri: &str) -> Option<(String, Option<String>)> {
        let uri = Uri::parse(uri.as_bytes()).unwrap();
        let (number, context) = Number::of_uri(&uri)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Some((text(number.as_bytes()), context.map(text)))
    }

    #[test]
    fn numbers_are_read_without_visual_separators() {
        for (uri, number) in [
            ("tel:+1-201-555-0123", "+12015550123"),
            ("TEL:+49(30)12.34-5", "+493012345"),
            ("tel:7042;phone-context=+1-914", "+19147042"),
            ("tel:7042;Phone-Context=%2B1%2D914", "+19147042"),
            ("tel:+49301234;phone-context=example.com", "+49301234"),
            ("tel:863-1234;ext=9;phone-context=+1-914-555", "+19145558631234"),
            ("sip:+49301234@example.org", "+49301234"),
            ("sip:0301234@example.org", "0301234"),
            ("sip:*98@example.org", "*98"),
            ("sip:%2331%2330@example.org", "#31#30"),
            ("sip:+1-201-555-0123;ext=5@example.org;user=phone", "+12015550123"),
            ("sip:+4930123;npdi;rn=+49301@example.org", "+4930123"),
            ("sip:+4930123;phone-context=example.org@example.org", "+4930123"),
        ] {
            assert_eq!(read(uri), Some((number.into(), None)), "{uri}");
        }
        let context = read("tel:1234;phone-context=example.com").unwrap();
        assert_eq!(context, ("1234".into(), Some("example.com".into())));
    }

    #[test]
    fn other_users_are_no_numbers() {
        for uri in [
            "sip:alice@example.org",
            "sip:+@example.org",
            "sip:49+30@example.org",
            "sip:1-2@example.org",
            "sip:12a@example.org",
            "sip:+12a;npdi@example.org",
            "sip:12;npdi@example.org",
            "sip:alice;npdi@example.org",
            "sip:example.org",
            "tel:+",
            "tel:--",
            "tel:++49",
            "tel:12ab",
            "tel:;phone-context=+49",
            "tel:1;phone-context=+49abc",
            "tel:1;phone-context=+49;phone-context=+881",
            "tel:1;%70hone-context=+881",
            "tel:+491;phone-context=+49;Phone-Context=example.com",
            "tel:123456789012345678901234567890123",
            "tel:1234567890;phone-context=+12345678901234567890123",
            "http:12",
        ] {
            assert_eq!(read(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_long_row_of_separators_is_read_once() {
        let mut uri = String::from("tel:+49");
        uri.extend(core::iter::repeat_n('-', 60_000));
        uri.push('1');
        assert_eq!(read(&uri), Some(("+491".into(), None)));
    }

    #[test]
    fn what_follows_a_service_code_is_found() {
        let behind = |number: &str| -> Vec<String> {
            let number = Number::parse(number.as_bytes()).unwrap();
            number.behind_codes().map(|it| String::from_utf8(it.as_bytes().to_vec()).unwrap()).collect()
        };
        let none: [&str; 0] = [];
        assert_eq!(behind("0301234"), none);
        assert_eq!(behind("+49301234"), none);
        assert_eq!(behind("*98"), none);
        assert_eq!(behind("*31#0088123"), ["0088123"]);
        assert_eq!(behind("#31#110"), ["110"]);
        assert_eq!(behind("*21*0088123#"), ["0088123"]);
        assert_eq!(behind("*6700881"), ["6700881", "00881", "0881"]);
        assert_eq!(behind("0301234*5678"), ["0301234", "5678"]);
    }

    #[test]
    fn a_change_strips_and_adds() {
        let number = Number::parse(b"0301234").unwrap();
        assert_eq!(number.changed(1, b"+49").unwrap().as_bytes(), b"+49301234");
        assert_eq!(number.changed(8, b""), None);
        assert_eq!(number.changed(7, b""), None, "nothing is left");
        assert_eq!(number.changed(0, &[b'1'; 26]), None, "too long");
        assert_eq!(Number::parse(b"+49").unwrap().changed(0, b"1"), None, "a plus inside");
    }
}
