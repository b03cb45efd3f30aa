//! Forwards of a user: where calls go instead of its phones, or after them.

use alloc::boxed::Box;
use alloc::format;
use core::fmt;
use ringway_sip::{Scheme, Uri};

/// Forwards of a user, at most one for each condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Forwards {
    /// Calls go there, and to no phone of the user.
    pub always: Option<ForwardUri>,
    /// Calls go there if the user is busy.
    pub busy: Option<ForwardUri>,
    /// Calls go there if nobody answers in time.
    pub no_answer: Option<NoAnswer>,
    /// Calls go there if the user has no phone that can be reached.
    pub unregistered: Option<ForwardUri>,
}

/// Forward of calls that nobody answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NoAnswer {
    after_s: u8,
    to: ForwardUri,
}

/// Target of a forward: a `sip:` or `sips:` URI of at most 255 bytes without headers.
///
/// ```
/// use ringway_users::ForwardUri;
///
/// assert!(ForwardUri::new("sip:carol@example.org").is_ok());
/// assert!(ForwardUri::new("sip:carol@example.org?Subject=x").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ForwardUri(Box<str>);

/// Condition of a forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// For every call.
    Always,
    /// The user is busy.
    Busy,
    /// Nobody answered in time.
    NoAnswer,
    /// The user has no phone that can be reached.
    Unregistered,
}

/// Forward that cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct UnusableForward {
    /// The value, quoted as far as it is safe to print.
    pub what: alloc::string::String,
    /// The fault, and the remedy.
    pub why: &'static str,
}

impl Forwards {
    /// True without any forward.
    pub const fn is_empty(&self) -> bool {
        self.always.is_none()
            && self.busy.is_none()
            && self.no_answer.is_none()
            && self.unregistered.is_none()
    }

    /// Target for a condition.
    pub fn target(&self, condition: Condition) -> Option<&ForwardUri> {
        match condition {
            Condition::Always => self.always.as_ref(),
            Condition::Busy => self.busy.as_ref(),
            Condition::NoAnswer => self.no_answer.as_ref().map(NoAnswer::to),
            Condition::Unregistered => self.unregistered.as_ref(),
        }
    }

    /// All targets with their conditions.
    pub fn targets(&self) -> impl Iterator<Item = (Condition, &ForwardUri)> {
        Condition::ALL.into_iter().filter_map(|condition| Some((condition, self.target(condition)?)))
    }
}

impl NoAnswer {
    /// Forward to `to` after this time in seconds.
    ///
    /// # Errors
    /// The time is not between 1 and 180 seconds.
    pub fn new(after_s: u64, to: ForwardUri) -> Result<Self, UnusableForward> {
        let why = "a call is forwarded after 1 to 180 seconds";
        match u8::try_from(after_s) {
            Ok(after_s @ 1..=AFTER_S_MAX) => Ok(Self { after_s, to }),
            Ok(_) | Err(_) => Err(UnusableForward { what: format!("{after_s} s"), why }),
        }
    }

    /// Time in seconds.
    pub const fn after_s(&self) -> u8 {
        self.after_s
    }

    /// Target.
    pub const fn to(&self) -> &ForwardUri {
        &self.to
    }
}

impl ForwardUri {
    /// Maximum length in bytes.
    pub const BYTES_MAX: usize = 255;

    /// Checks a URI.
    ///
    /// # Errors
    /// It is not a `sip:` or `sips:` URI, is longer than 255 bytes, or has headers, a parameter `method` or `cause`, or
    /// characters that a URI must not have.
    pub fn new(text: &str) -> Result<Self, UnusableForward> {
        let unusable = |why| UnusableForward { what: format!("{text:?}"), why };
        if text.len() > Self::BYTES_MAX {
            let start: alloc::string::String = text.chars().take(32).collect();
            let what = format!("{start:?}…");
            return Err(UnusableForward { what, why: "the target of a forward has at most 255 bytes" });
        }
        let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"\\".contains(&byte));
        let uri = Uri::parse(text.as_bytes()).ok().filter(|_| is_printable);
        let Some(uri) = uri.filter(|uri| matches!(uri.scheme(), Scheme::Sip | Scheme::Sips)) else {
            return Err(unusable(
                "the target of a forward is a SIP URI; write for example sip:carol@example.org",
            ));
        };
        if text.contains('?') {
            return Err(unusable("the target of a forward has no headers; leave out the part from the ? on"));
        }
        if [&b"method"[..], b"cause"].iter().any(|name| uri.params().has(name)) {
            return Err(unusable(
                "the target of a forward has no parameters method and cause; leave them out",
            ));
        }
        Ok(Self(text.into()))
    }

    /// The URI.
    pub const fn as_str(&self) -> &str {
        &self.0
    }

    /// True if this is the address of a user itself, so that its calls would only return.
    pub fn is_user(&self, name: &str, domain: &str) -> bool {
        Uri::parse(self.0.as_bytes()).is_ok_and(|uri| {
            uri.user() == Some(name.as_bytes())
                && uri.host().as_bytes().eq_ignore_ascii_case(domain.as_bytes())
        })
    }
}

impl Condition {
    /// All conditions.
    pub const ALL: [Self; 4] = [Self::Always, Self::Busy, Self::NoAnswer, Self::Unregistered];

    /// Name in listings and the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Busy => "busy",
            Self::NoAnswer => "no-answer",
            Self::Unregistered => "unregistered",
        }
    }
}

impl fmt::Display for ForwardUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Less than timer C, which ends a ringing call (RFC 3261 §16.8).
const AFTER_S_MAX: u8 = 180;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_that_no_request_could_have_are_refused() {
        let good = ["sip:carol@example.org", "sips:1000@[2001:db8::1]:5061;transport=tls", "sip:192.0.2.7"];
        for uri in good {
            assert!(ForwardUri::new(uri).is_ok(), "{uri}");
        }
        let long = format!("sip:{}@example.org", "x".repeat(255));
        let bad = [
            "",
            "carol",
            "carol@example.org",
            "tel:+4930123",
            "http://example.org",
            "sip:",
            "sip:a@b?Subject=x",
            "sip:a@b?",
            "sip:a@b\r\nRoute: <sip:evil>",
            "sip:a b@c",
            "sip:a@b>",
            "sip:a@b;method=BYE",
            "sip:a@b;cause=302",
            "sip:ä@b",
            &long,
        ];
        for uri in bad {
            assert!(ForwardUri::new(uri).is_err(), "{uri:?}");
        }
    }

    #[test]
    fn no_answer_has_a_time_below_that_of_ringing() {
        let to = ForwardUri::new("sip:c@d").unwrap();
        for after_s in [0, 181, 256, u64::MAX] {
            assert!(NoAnswer::new(after_s, to.clone()).is_err(), "{after_s}");
        }
        assert_eq!(NoAnswer::new(180, to).unwrap().after_s(), 180);
    }

    #[test]
    fn a_users_own_address_is_recognised() {
        let own = ForwardUri::new("sip:bob@Example.ORG;x=1").unwrap();
        assert!(own.is_user("bob", "example.org") && !own.is_user("Bob", "example.org"));
    }
}
