//! Names of the header fields that are recognised, and their compact forms.

use crate::grammar::is_same_name;

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
    /// `Remote-Party-ID`.
    RemotePartyId,
    /// `Alert-Info`.
    AlertInfo,
    /// `Call-Info`.
    CallInfo,
    /// `Privacy`.
    Privacy,
    /// `Service-Route`.
    ServiceRoute,
    /// `Replaces`.
    Replaces,
    /// `Subscription-State`.
    SubscriptionState,
    /// `History-Info` (RFC 7044).
    HistoryInfo,
    /// `Diversion` (RFC 5806).
    Diversion,
    /// `Authentication-Info`.
    AuthenticationInfo,
    /// `Proxy-Authentication-Info` (RFC 7615).
    ProxyAuthenticationInfo,
    /// `Flow-Timer` (RFC 5626).
    FlowTimer,
    /// `Geolocation` (RFC 6442).
    Geolocation,
    /// Any other name; the message has its spelling.
    Other,
}

impl HeaderName {
    /// Number of names, `Other` included.
    pub const COUNT: usize = Self::Other as usize + 1;

    /// Every name but `Other`, in order.
    const ALL: [Self; Self::COUNT - 1] = [
        Self::Via,
        Self::From,
        Self::To,
        Self::CallId,
        Self::CSeq,
        Self::Contact,
        Self::ContentLength,
        Self::MaxForwards,
        Self::Route,
        Self::RecordRoute,
        Self::Expires,
        Self::MinExpires,
        Self::Authorization,
        Self::ProxyAuthorization,
        Self::WwwAuthenticate,
        Self::ProxyAuthenticate,
        Self::Require,
        Self::ProxyRequire,
        Self::Supported,
        Self::Unsupported,
        Self::Allow,
        Self::Path,
        Self::Date,
        Self::RetryAfter,
        Self::Timestamp,
        Self::Warning,
        Self::ContentType,
        Self::ContentEncoding,
        Self::Accept,
        Self::UserAgent,
        Self::Server,
        Self::Subject,
        Self::Event,
        Self::AllowEvents,
        Self::ReferTo,
        Self::ReferredBy,
        Self::SessionExpires,
        Self::AcceptContact,
        Self::RejectContact,
        Self::RequestDisposition,
        Self::Identity,
        Self::MaxBreadth,
        Self::Priority,
        Self::Reason,
        Self::Organization,
        Self::RSeq,
        Self::RAck,
        Self::PAssertedIdentity,
        Self::RemotePartyId,
        Self::AlertInfo,
        Self::CallInfo,
        Self::Privacy,
        Self::ServiceRoute,
        Self::Replaces,
        Self::SubscriptionState,
        Self::HistoryInfo,
        Self::Diversion,
        Self::AuthenticationInfo,
        Self::ProxyAuthenticationInfo,
        Self::FlowTimer,
        Self::Geolocation,
    ];

    /// The name spelled `bytes`, long or compact, in any case.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        if let [letter] = bytes {
            return Self::from_compact(*letter);
        }
        let candidate = Self::candidate(bytes);
        if is_same_name(candidate.as_bytes(), bytes) { candidate } else { Self::Other }
    }

    /// The name of `len` bytes, the last of them `last`, that the RFC spells as `words` has it, with zeros behind it, as nearly
    /// all do; `Other` for any other spelling. Asked for every line of every message, where a call costs as much as the answer.
    #[inline(always)]
    pub(crate) fn usual(words: [u64; NAME_WORDS], last: u8, len: usize) -> Self {
        let candidate = KNOWN[place(words[0] as u8, last, len) as usize];
        let spelling = &SPELLINGS[candidate as usize];
        let differs = (spelling[0] ^ words[0]) | (spelling[1] ^ words[1]) | (spelling[2] ^ words[2]);
        // With a zero at its end a name would look like the shorter one without.
        if differs == 0 && last != 0 { candidate } else { Self::Other }
    }

    /// The one name that these bytes can be.
    #[inline]
    const fn candidate(bytes: &[u8]) -> Self {
        match bytes {
            [first, .., last] => KNOWN[place(*first, *last, bytes.len()) as usize],
            _ => Self::Other,
        }
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
    #[inline]
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
            Self::RemotePartyId => b"Remote-Party-ID",
            Self::AlertInfo => b"Alert-Info",
            Self::CallInfo => b"Call-Info",
            Self::Privacy => b"Privacy",
            Self::ServiceRoute => b"Service-Route",
            Self::Replaces => b"Replaces",
            Self::SubscriptionState => b"Subscription-State",
            Self::HistoryInfo => b"History-Info",
            Self::Diversion => b"Diversion",
            Self::AuthenticationInfo => b"Authentication-Info",
            Self::ProxyAuthenticationInfo => b"Proxy-Authentication-Info",
            Self::FlowTimer => b"Flow-Timer",
            Self::Geolocation => b"Geolocation",
            Self::Other => b"",
        }
    }
}

/// Perfect hash of a recognised name, 0 to 255: its first and last letter without regard to case, and its length, with
/// weights under which no two names collide. Another name may need other weights; then [`KNOWN`] does not compile.
const fn place(first: u8, last: u8, len: usize) -> u8 {
    let (first, last) = (first | 0x20, last | 0x20);
    first.wrapping_add(last.wrapping_mul(8)).wrapping_add((len as u8).wrapping_mul(13))
}

/// The only name that a spelling with this hash can be; `Other` if there is none.
const KNOWN: [HeaderName; 256] = {
    let mut table = [HeaderName::Other; 256];
    let mut at = 0;
    while at < HeaderName::ALL.len() {
        let name = HeaderName::ALL[at];
        if let [first, .., last] = name.as_bytes() {
            let place = place(*first, *last, name.as_bytes().len()) as usize;
            assert!(matches!(table[place], HeaderName::Other), "two names with one hash");
            table[place] = name;
        }
        at += 1;
    }
    table
};

/// Words of eight bytes of the longest name that [`HeaderName::usual`] finds.
pub(crate) const NAME_WORDS: usize = 3;

/// The spellings of [`HeaderName::as_bytes`] as little-endian words of eight bytes, padded with zeros, for comparison.
/// No message contains the entry of `Other` and of longer names.
const SPELLINGS: [[u64; NAME_WORDS]; HeaderName::COUNT] = {
    let mut table = [[u64::MAX; NAME_WORDS]; HeaderName::COUNT];
    let mut at = 0;
    while at < HeaderName::ALL.len() {
        let name = HeaderName::ALL[at].as_bytes();
        let len = if name.len() <= 8 * NAME_WORDS { name.len() } else { 0 };
        if len > 0 {
            table[at] = [0; NAME_WORDS];
        }
        let mut place = 0;
        while place < len {
            table[at][place / 8] |= (name[place] as u64) << (8 * (place % 8));
            place += 1;
        }
        at += 1;
    }
    table
};

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
        (HeaderName::RemotePartyId, b""),
        (HeaderName::AlertInfo, b""),
        (HeaderName::CallInfo, b""),
        (HeaderName::Privacy, b""),
        (HeaderName::ServiceRoute, b""),
        (HeaderName::Replaces, b""),
        (HeaderName::SubscriptionState, b""),
        (HeaderName::HistoryInfo, b""),
        (HeaderName::Diversion, b""),
        (HeaderName::AuthenticationInfo, b""),
        (HeaderName::ProxyAuthenticationInfo, b""),
        (HeaderName::FlowTimer, b""),
        (HeaderName::Geolocation, b""),
    ];

    fn usual(bytes: &[u8]) -> HeaderName {
        let mut words = [0; NAME_WORDS];
        for (place, byte) in bytes.iter().enumerate().take(8 * NAME_WORDS) {
            words[place / 8] |= u64::from(*byte) << (8 * (place % 8));
        }
        HeaderName::usual(words, bytes.last().copied().unwrap_or_default(), bytes.len())
    }

    #[test]
    fn every_name_is_found_in_any_case_and_in_compact_form() {
        for (at, (name, compact)) in NAMES.into_iter().enumerate() {
            assert_eq!(name as usize, at, "{name:?} is missing here");
            let long = name.as_bytes();
            for spelled in [long.to_vec(), long.to_ascii_lowercase(), long.to_ascii_uppercase()] {
                assert_eq!(HeaderName::from_bytes(&spelled), name);
                let is_usual = spelled == long && long.len() <= 8 * NAME_WORDS;
                let expected = if is_usual { name } else { HeaderName::Other };
                assert_eq!(usual(&spelled), expected);
                // One byte more, less or other is another name.
                let (more, less) = ([&spelled[..], b"x"].concat(), &spelled[..spelled.len() - 1]);
                for zeros in 1..=(8 * NAME_WORDS).saturating_sub(spelled.len()) {
                    let followed = [&spelled[..], &b"\0".repeat(zeros)].concat();
                    assert_eq!(usual(&followed), HeaderName::Other, "{name:?}");
                }
                let mut other = spelled.clone();
                other[1] = b'!';
                for not_it in [&more[..], less, &other].into_iter().filter(|it| it.len() > 1) {
                    assert_ne!(HeaderName::from_bytes(not_it), name, "{name:?}");
                    assert_ne!(usual(not_it), name, "{name:?}");
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
        for other in [&b""[..], b"C%6Fntact", b"X-Anything", b"Via ", b"Content_Length", b"\xD6ther", b"To\0"]
        {
            assert_eq!(HeaderName::from_bytes(other), HeaderName::Other);
            assert_eq!(usual(other), HeaderName::Other);
        }
    }
}
