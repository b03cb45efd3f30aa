//! Patterns of block lists, from text.

use crate::config::{Network, NotANetwork};
use crate::tables::block::caller::{host_into, number_of};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use ringway_sip::{Host, Uri};

/// Pattern of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockPattern {
    /// Callers by their From.
    Caller(CallerPattern),
    /// Sources of requests.
    Network(Network),
}

/// Callers, as `user@domain`, `*@domain`, a number or a number prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallerPattern {
    /// One user: `user@domain`, the user part without escapes, the domain in lower case.
    User(Box<[u8]>),
    /// All users of a domain, in lower case.
    Domain(Box<[u8]>),
    /// A number at any domain: digits, with or without `+`.
    Number(Box<[u8]>),
    /// All numbers that begin with these digits.
    Prefix(Box<[u8]>),
}

/// Text that is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAPattern {
    /// Not the syntax of a caller.
    Caller,
    /// Every caller or every address.
    Everyone,
    /// Longer than [`BlockPattern::BYTES_MAX`], or not visible ASCII.
    Text,
    /// Not the syntax of a network.
    Network,
    /// Bits behind the prefix are set; this network has the address.
    BitsBehindPrefix(Network),
    /// Loopback addresses, which are never blocked.
    Loopback,
}

impl BlockPattern {
    /// Maximum length of a pattern in bytes.
    pub const BYTES_MAX: usize = 255;

    /// Parses a caller: a SIP or tel URI, `user@domain`, `*@domain`, a number, or a number prefix with `*` at its end.
    ///
    /// # Errors
    /// The text is not a caller, or would be every caller.
    pub fn caller(text: &str) -> Result<Self, NotAPattern> {
        text.parse().map(Self::Caller)
    }

    /// Parses a network or an address.
    ///
    /// # Errors
    /// The text is not a network, has every address, or only addresses that are never blocked.
    pub fn network(text: &str) -> Result<Self, NotAPattern> {
        let network: Network = text.parse().map_err(|error| match error {
            NotANetwork::Syntax => NotAPattern::Network,
            NotANetwork::BitsBehindPrefix(network) => NotAPattern::BitsBehindPrefix(network),
        })?;
        let (first, last) = network.first_and_last();
        if network.holds_every_address() {
            Err(NotAPattern::Everyone)
        } else if is_exempt(first) && is_exempt(last) {
            Err(NotAPattern::Loopback)
        } else {
            Ok(Self::Network(network))
        }
    }
}

/// True for an address that is never blocked.
pub(super) fn is_exempt(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl FromStr for CallerPattern {
    type Err = NotAPattern;

    fn from_str(text: &str) -> Result<Self, NotAPattern> {
        if text.len() > BlockPattern::BYTES_MAX || text.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(NotAPattern::Text);
        }
        let bare = match text.split_once(':') {
            Some((scheme, rest))
                if ["sip", "sips", "tel"].iter().any(|of| of.eq_ignore_ascii_case(scheme)) =>
            {
                rest
            }
            Some(_) | None => text,
        };
        match bare.rsplit_once('@') {
            Some(("*", "*")) => Err(NotAPattern::Everyone),
            Some((user, host)) => of_domain(user, host),
            None => of_number(bare),
        }
    }
}

fn of_domain(user: &str, host: &str) -> Result<CallerPattern, NotAPattern> {
    // A host has no port and no parameters.
    let host = Host::parse(host.as_bytes()).map_err(|_| NotAPattern::Caller)?;
    let mut key = Vec::new();
    if user != "*" {
        if user.contains('*') {
            return Err(NotAPattern::Caller);
        }
        let uri = format!("sip:{user}@h");
        let uri = Uri::parse(uri.as_bytes()).map_err(|_| NotAPattern::Caller)?;
        if uri.user() != Some(user.as_bytes()) {
            return Err(NotAPattern::Caller);
        }
        uri.unescaped_user_into(&mut key);
        // A line break in a listing, or a second `@`, would make two patterns look alike.
        if key.is_empty() || key.iter().any(|byte| byte.is_ascii_control() || *byte == b'@') {
            return Err(NotAPattern::Caller);
        }
        key.push(b'@');
    }
    host_into(&host, &mut key);
    let key = key.into_boxed_slice();
    Ok(if user == "*" { CallerPattern::Domain(key) } else { CallerPattern::User(key) })
}

fn of_number(text: &str) -> Result<CallerPattern, NotAPattern> {
    let (digits, is_prefix) = match text.strip_suffix('*') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    if is_prefix && matches!(digits, "" | "+") {
        return Err(NotAPattern::Everyone);
    }
    let mut number = Vec::new();
    if !number_of(digits.as_bytes(), &mut number) {
        return Err(NotAPattern::Caller);
    }
    let number = number.into_boxed_slice();
    Ok(if is_prefix { CallerPattern::Prefix(number) } else { CallerPattern::Number(number) })
}

impl fmt::Display for BlockPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller(caller) => caller.fmt(f),
            Self::Network(network) => network.fmt(f),
        }
    }
}

impl fmt::Display for CallerPattern {
    /// In the form that [`FromStr`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self {
            Self::User(user) => {
                let at = user.iter().rposition(|byte| *byte == b'@').unwrap_or(0);
                let (user, host) = user.split_at(at);
                for &byte in user {
                    let is_plain = byte.is_ascii_alphanumeric() || b"-_.!~'()&=+$,;?/".contains(&byte);
                    match is_plain {
                        true => write!(f, "{}", char::from(byte))?,
                        false => write!(f, "%{byte:02X}")?,
                    }
                }
                f.write_str(&text(host))
            }
            Self::Domain(domain) => write!(f, "*@{}", text(domain)),
            Self::Number(number) => f.write_str(&text(number)),
            Self::Prefix(number) => write!(f, "{}*", text(number)),
        }
    }
}

impl fmt::Display for NotAPattern {
    /// The fault and the remedy, after the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Caller => {
                "is not a caller; write \"user@example.com\", \"*@example.com\", a number as \"+493012345\", or a prefix as \"+4930*\""
            }
            Self::Everyone => "would block everyone; name a domain, a number or a smaller network",
            Self::Text => "is too long or has characters that are not visible ASCII; give at most 255",
            Self::Network => "is not a network; write an address, or one with a prefix as \"192.0.2.0/24\"",
            Self::BitsBehindPrefix(network) => {
                return write!(f, "is not a network: bits behind the prefix are set; write \"{network}\"");
            }
            Self::Loopback => "is this machine itself, which is never blocked; give another network",
        };
        f.write_str(text)
    }
}

impl core::error::Error for NotAPattern {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// A text, and the pattern in its canonical form.
    #[test]
    fn patterns_have_one_canonical_form() {
        for (text, canonical) in [
            ("sip:Spam@Example.COM", "Spam@example.com"),
            ("sips:spam@example.com.", "spam@example.com"),
            ("%73pam@example.com", "spam@example.com"),
            ("a%20b@example.com", "a%20b@example.com"),
            ("*@example.com", "*@example.com"),
            ("sip:*@[2001:DB8::1]", "*@[2001:db8::1]"),
            ("+49 30", ""),
            ("+49-30-123", "+4930123"),
            ("tel:+49(30)*", "+4930*"),
            ("0900*", "0900*"),
            ("110", "110"),
        ] {
            match text.parse::<CallerPattern>() {
                Ok(pattern) => {
                    assert_eq!(pattern.to_string(), canonical, "{text}");
                    assert_eq!(canonical.parse(), Ok(pattern), "{canonical}");
                }
                Err(error) => assert_eq!((canonical, error), ("", NotAPattern::Text), "{text}"),
            }
        }
    }

    #[test]
    fn patterns_for_everyone_and_nonsense_are_refused() {
        let long = format!("{}@example.com", "a".repeat(250));
        for (text, why) in [
            ("*", NotAPattern::Everyone),
            ("+*", NotAPattern::Everyone),
            ("*@*", NotAPattern::Everyone),
            ("", NotAPattern::Caller),
            ("spam", NotAPattern::Caller),
            ("sp*m@example.com", NotAPattern::Caller),
            ("@example.com", NotAPattern::Caller),
            ("spam@", NotAPattern::Caller),
            ("spam@example.com:5060", NotAPattern::Caller),
            ("spam@example.com;a=b", NotAPattern::Caller),
            ("spam:pw@example.com", NotAPattern::Caller),
            ("a%0Ab@example.com", NotAPattern::Caller),
            ("a%40b@example.com", NotAPattern::Caller),
            ("a@b@example.com", NotAPattern::Caller),
            ("+49*30", NotAPattern::Caller),
            ("sp am@example.com", NotAPattern::Text),
            ("spam\n@example.com", NotAPattern::Text),
            (long.as_str(), NotAPattern::Text),
        ] {
            assert_eq!(text.parse::<CallerPattern>(), Err(why), "{text:?}");
        }
        let meant = "10.0.0.0/8".parse().unwrap();
        for (text, why) in [
            ("0.0.0.0/0", NotAPattern::Everyone),
            ("::/0", NotAPattern::Everyone),
            ("127.0.0.1", NotAPattern::Loopback),
            ("127.0.0.0/8", NotAPattern::Loopback),
            ("::1", NotAPattern::Loopback),
            ("10.0.0.1/8", NotAPattern::BitsBehindPrefix(meant)),
            ("example.com", NotAPattern::Network),
        ] {
            assert_eq!(BlockPattern::network(text), Err(why), "{text}");
        }
        assert_eq!(BlockPattern::network("192.0.2.7").unwrap().to_string(), "192.0.2.7/32");
    }
}
