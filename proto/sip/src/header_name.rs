//! The header fields this program knows by name.

/// A header field name, found without regard to case and in either form (RFC 3261 §7.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HeaderName {
    /// `Via`, compact `v`.
    Via,
    /// `From`, compact `f`.
    From,
    /// `To`, compact `t`.
    To,
    /// `Call-ID`, compact `i`.
    CallId,
    /// `CSeq`.
    CSeq,
    /// `Contact`, compact `m`.
    Contact,
    /// `Content-Length`, compact `l`.
    ContentLength,
    /// `Max-Forwards`.
    MaxForwards,
    /// `Route`.
    Route,
    /// `Record-Route`.
    RecordRoute,
    /// `Expires`.
    Expires,
    /// `Min-Expires`.
    MinExpires,
    /// `Authorization`.
    Authorization,
    /// `Proxy-Authorization`.
    ProxyAuthorization,
    /// `WWW-Authenticate`.
    WwwAuthenticate,
    /// `Proxy-Authenticate`.
    ProxyAuthenticate,
    /// `Require`.
    Require,
    /// `Proxy-Require`.
    ProxyRequire,
    /// `Supported`, compact `k`.
    Supported,
    /// `Unsupported`.
    Unsupported,
    /// `Allow`.
    Allow,
    /// `Path`.
    Path,
    /// `Date`.
    Date,
    /// `Retry-After`.
    RetryAfter,
    /// `Timestamp`.
    Timestamp,
    /// `Warning`.
    Warning,
    /// `Content-Type`, compact `c`.
    ContentType,
    /// `Content-Encoding`, compact `e`.
    ContentEncoding,
    /// `Accept`.
    Accept,
    /// `User-Agent`.
    UserAgent,
    /// `Server`.
    Server,
    /// `Subject`, compact `s`.
    Subject,
    /// `Event`, compact `o`.
    Event,
    /// `Allow-Events`, compact `u`.
    AllowEvents,
    /// `Refer-To`, compact `r`.
    ReferTo,
    /// `Referred-By`, compact `b`.
    ReferredBy,
    /// `Session-Expires`, compact `x`.
    SessionExpires,
    /// `Accept-Contact`, compact `a`.
    AcceptContact,
    /// `Reject-Contact`, compact `j`.
    RejectContact,
    /// `Request-Disposition`, compact `d`.
    RequestDisposition,
    /// `Identity`, compact `y`.
    Identity,
    /// `Max-Breadth`.
    MaxBreadth,
    /// `Priority`.
    Priority,
    /// `Reason`.
    Reason,
    /// `Organization`.
    Organization,
    /// `RSeq`.
    RSeq,
    /// `RAck`.
    RAck,
    /// `P-Asserted-Identity`.
    PAssertedIdentity,
    /// `Privacy`.
    Privacy,
    /// `Service-Route`.
    ServiceRoute,
    /// `Replaces`.
    Replaces,
    /// `Subscription-State`.
    SubscriptionState,
    /// Any other; its spelling stands in the message.
    Other,
}

impl HeaderName {
    /// How many names there are, `Other` with them.
    pub const COUNT: usize = Self::Other as usize + 1;

    /// The name spelled `bytes`, long or compact, in any case.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let [first, .., last] = bytes else {
            return bytes.first().map_or(Self::Other, |&letter| Self::from_compact(letter));
        };
        // Length, first and last letter leave one candidate.
        let candidate = match (bytes.len(), first.to_ascii_lowercase(), last.to_ascii_lowercase()) {
            (2, b't', b'o') => Self::To,
            (3, b'v', b'a') => Self::Via,
            (4, b'f', b'm') => Self::From,
            (4, b'c', b'q') => Self::CSeq,
            (4, b'p', b'h') => Self::Path,
            (4, b'd', b'e') => Self::Date,
            (4, b'r', b'q') => Self::RSeq,
            (4, b'r', b'k') => Self::RAck,
            (5, b'r', b'e') => Self::Route,
            (5, b'a', b'w') => Self::Allow,
            (5, b'e', b't') => Self::Event,
            (6, b'a', b't') => Self::Accept,
            (6, b's', b'r') => Self::Server,
            (6, b'r', b'n') => Self::Reason,
            (7, b'c', b'd') => Self::CallId,
            (7, b'c', b't') => Self::Contact,
            (7, b'e', b's') => Self::Expires,
            (7, b'r', b'e') => Self::Require,
            (7, b'w', b'g') => Self::Warning,
            (7, b's', b't') => Self::Subject,
            (7, b'p', b'y') => Self::Privacy,
            (8, b'r', b'o') => Self::ReferTo,
            (8, b'r', b's') => Self::Replaces,
            (8, b'i', b'y') => Self::Identity,
            (8, b'p', b'y') => Self::Priority,
            (9, b's', b'd') => Self::Supported,
            (9, b't', b'p') => Self::Timestamp,
            (10, b'u', b't') => Self::UserAgent,
            (11, b'm', b's') => Self::MinExpires,
            (11, b'u', b'd') => Self::Unsupported,
            (11, b'r', b'r') => Self::RetryAfter,
            (11, b'r', b'y') => Self::ReferredBy,
            (11, b'm', b'h') => Self::MaxBreadth,
            (12, b'm', b's') => Self::MaxForwards,
            (12, b'r', b'e') => Self::RecordRoute,
            (12, b'c', b'e') => Self::ContentType,
            (12, b'a', b's') => Self::AllowEvents,
            (12, b'o', b'n') => Self::Organization,
            (13, b'a', b'n') => Self::Authorization,
            (13, b'p', b'e') => Self::ProxyRequire,
            (13, b's', b'e') => Self::ServiceRoute,
            (14, b'c', b'h') => Self::ContentLength,
            (14, b'a', b't') => Self::AcceptContact,
            (14, b'r', b't') => Self::RejectContact,
            (15, b's', b's') => Self::SessionExpires,
            (16, b'w', b'e') => Self::WwwAuthenticate,
            (16, b'c', b'g') => Self::ContentEncoding,
            (18, b's', b'e') => Self::SubscriptionState,
            (18, b'p', b'e') => Self::ProxyAuthenticate,
            (19, b'p', b'n') => Self::ProxyAuthorization,
            (19, b'r', b'n') => Self::RequestDisposition,
            (19, b'p', b'y') => Self::PAssertedIdentity,
            _ => return Self::Other,
        };
        // Most are spelled as the RFC spells them.
        let name = candidate.as_bytes();
        if name == bytes || name.eq_ignore_ascii_case(bytes) { candidate } else { Self::Other }
    }

    const fn from_compact(letter: u8) -> Self {
        match letter.to_ascii_lowercase() {
            b'v' => Self::Via,
            b'f' => Self::From,
            b't' => Self::To,
            b'i' => Self::CallId,
            b'm' => Self::Contact,
            b'l' => Self::ContentLength,
            b'k' => Self::Supported,
            b'c' => Self::ContentType,
            b'e' => Self::ContentEncoding,
            b's' => Self::Subject,
            b'o' => Self::Event,
            b'u' => Self::AllowEvents,
            b'r' => Self::ReferTo,
            b'b' => Self::ReferredBy,
            b'x' => Self::SessionExpires,
            b'a' => Self::AcceptContact,
            b'j' => Self::RejectContact,
            b'd' => Self::RequestDisposition,
            b'y' => Self::Identity,
            _ => Self::Other,
        }
    }

    /// The long form as RFC 3261 writes it; empty for `Other`.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Via => b"Via",
            Self::From => b"From",
            Self::To => b"To",
            Self::CallId => b"Call-ID",
            Self::CSeq => b"CSeq",
            Self::Contact => b"Contact",
            Self::ContentLength => b"Content-Length",
            Self::MaxForwards => b"Max-Forwards",
            Self::Route => b"Route",
            Self::RecordRoute => b"Record-Route",
            Self::Expires => b"Expires",
            Self::MinExpires => b"Min-Expires",
            Self::Authorization => b"Authorization",
            Self::ProxyAuthorization => b"Proxy-Authorization",
            Self::WwwAuthenticate => b"WWW-Authenticate",
            Self::ProxyAuthenticate => b"Proxy-Authenticate",
            Self::Require => b"Require",
            Self::ProxyRequire => b"Proxy-Require",
            Self::Supported => b"Supported",
            Self::Unsupported => b"Unsupported",
            Self::Allow => b"Allow",
            Self::Path => b"Path",
            Self::Date => b"Date",
            Self::RetryAfter => b"Retry-After",
            Self::Timestamp => b"Timestamp",
            Self::Warning => b"Warning",
            Self::ContentType => b"Content-Type",
            Self::ContentEncoding => b"Content-Encoding",
            Self::Accept => b"Accept",
            Self::UserAgent => b"User-Agent",
            Self::Server => b"Server",
            Self::Subject => b"Subject",
            Self::Event => b"Event",
            Self::AllowEvents => b"Allow-Events",
            Self::ReferTo => b"Refer-To",
            Self::ReferredBy => b"Referred-By",
            Self::SessionExpires => b"Session-Expires",
            Self::AcceptContact => b"Accept-Contact",
            Self::RejectContact => b"Reject-Contact",
            Self::RequestDisposition => b"Request-Disposition",
            Self::Identity => b"Identity",
            Self::MaxBreadth => b"Max-Breadth",
            Self::Priority => b"Priority",
            Self::Reason => b"Reason",
            Self::Organization => b"Organization",
            Self::RSeq => b"RSeq",
            Self::RAck => b"RAck",
            Self::PAssertedIdentity => b"P-Asserted-Identity",
            Self::Privacy => b"Privacy",
            Self::ServiceRoute => b"Service-Route",
            Self::Replaces => b"Replaces",
            Self::SubscriptionState => b"Subscription-State",
            Self::Other => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name with a spelling, and its compact form where it has one (RFC 3261 §7.3.3 and the registry of header
    /// fields).
    const NAMES: [(HeaderName, &[u8]); HeaderName::COUNT - 1] = [
        (HeaderName::Via, b"v"),
        (HeaderName::From, b"f"),
        (HeaderName::To, b"t"),
        (HeaderName::CallId, b"i"),
        (HeaderName::CSeq, b""),
        (HeaderName::Contact, b"m"),
        (HeaderName::ContentLength, b"l"),
        (HeaderName::MaxForwards, b""),
        (HeaderName::Route, b""),
        (HeaderName::RecordRoute, b""),
        (HeaderName::Expires, b""),
        (HeaderName::MinExpires, b""),
        (HeaderName::Authorization, b""),
        (HeaderName::ProxyAuthorization, b""),
        (HeaderName::WwwAuthenticate, b""),
        (HeaderName::ProxyAuthenticate, b""),
        (HeaderName::Require, b""),
        (HeaderName::ProxyRequire, b""),
        (HeaderName::Supported, b"k"),
        (HeaderName::Unsupported, b""),
        (HeaderName::Allow, b""),
        (HeaderName::Path, b""),
        (HeaderName::Date, b""),
        (HeaderName::RetryAfter, b""),
        (HeaderName::Timestamp, b""),
        (HeaderName::Warning, b""),
        (HeaderName::ContentType, b"c"),
        (HeaderName::ContentEncoding, b"e"),
        (HeaderName::Accept, b""),
        (HeaderName::UserAgent, b""),
        (HeaderName::Server, b""),
        (HeaderName::Subject, b"s"),
        (HeaderName::Event, b"o"),
        (HeaderName::AllowEvents, b"u"),
        (HeaderName::ReferTo, b"r"),
        (HeaderName::ReferredBy, b"b"),
        (HeaderName::SessionExpires, b"x"),
        (HeaderName::AcceptContact, b"a"),
        (HeaderName::RejectContact, b"j"),
        (HeaderName::RequestDisposition, b"d"),
        (HeaderName::Identity, b"y"),
        (HeaderName::MaxBreadth, b""),
        (HeaderName::Priority, b""),
        (HeaderName::Reason, b""),
        (HeaderName::Organization, b""),
        (HeaderName::RSeq, b""),
        (HeaderName::RAck, b""),
        (HeaderName::PAssertedIdentity, b""),
        (HeaderName::Privacy, b""),
        (HeaderName::ServiceRoute, b""),
        (HeaderName::Replaces, b""),
        (HeaderName::SubscriptionState, b""),
    ];

    #[test]
    fn every_name_is_found_in_any_case_and_in_compact_form() {
        for (at, (name, compact)) in NAMES.into_iter().enumerate() {
            assert_eq!(name as usize, at, "{name:?} is missing here");
            let long = name.as_bytes();
            for spelled in [long.to_vec(), long.to_ascii_lowercase(), long.to_ascii_uppercase()] {
                assert_eq!(HeaderName::from_bytes(&spelled), name);
                // One byte more, less or other is another name.
                let (more, less) = ([&spelled[..], b"x"].concat(), &spelled[..spelled.len() - 1]);
                let mut other = spelled.clone();
                other[1] = b'!';
                for not_it in [&more[..], less, &other].into_iter().filter(|it| it.len() > 1) {
                    assert_ne!(HeaderName::from_bytes(not_it), name, "{name:?}");
                }
            }
            if !compact.is_empty() {
                assert_eq!(HeaderName::from_bytes(compact), name);
                assert_eq!(HeaderName::from_bytes(&compact.to_ascii_uppercase()), name);
            }
        }
    }

    #[test]
    fn one_letter_names_are_the_compact_forms_and_no_more() {
        for letter in 0..=u8::MAX {
            let found = HeaderName::from_bytes(&[letter]);
            let compact = NAMES.iter().find(|(_, form)| *form == [letter.to_ascii_lowercase()]);
            assert_eq!(found, compact.map_or(HeaderName::Other, |(name, _)| *name));
        }
    }

    #[test]
    fn what_is_no_name_we_know() {
        for other in [&b""[..], b"C%6Fntact", b"X-Anything", b"Via ", b"Content_Length", b"\xD6ther"] {
            assert_eq!(HeaderName::from_bytes(other), HeaderName::Other);
        }
    }
}
