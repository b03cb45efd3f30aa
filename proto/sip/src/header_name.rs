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
    /// Any other; its spelling stands in the message.
    Other,
}

impl HeaderName {
    /// How many names there are, `Other` with them.
    pub const COUNT: usize = Self::Other as usize + 1;

    /// The name spelled `bytes`, long or compact, in any case.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let candidates: &[(&[u8], Self)] = match bytes.len() {
            1 => &[
                (b"v", Self::Via),
                (b"f", Self::From),
                (b"t", Self::To),
                (b"i", Self::CallId),
                (b"m", Self::Contact),
                (b"l", Self::ContentLength),
                (b"k", Self::Supported),
                (b"c", Self::ContentType),
                (b"e", Self::ContentEncoding),
                (b"s", Self::Subject),
                (b"o", Self::Event),
                (b"u", Self::AllowEvents),
                (b"r", Self::ReferTo),
                (b"b", Self::ReferredBy),
                (b"x", Self::SessionExpires),
                (b"a", Self::AcceptContact),
                (b"j", Self::RejectContact),
                (b"d", Self::RequestDisposition),
                (b"y", Self::Identity),
            ],
            2 => &[(b"to", Self::To)],
            3 => &[(b"via", Self::Via)],
            4 => &[
                (b"from", Self::From),
                (b"cseq", Self::CSeq),
                (b"path", Self::Path),
                (b"date", Self::Date),
                (b"rseq", Self::RSeq),
                (b"rack", Self::RAck),
            ],
            5 => &[(b"route", Self::Route), (b"allow", Self::Allow), (b"event", Self::Event)],
            6 => &[(b"accept", Self::Accept), (b"server", Self::Server), (b"reason", Self::Reason)],
            7 => &[
                (b"call-id", Self::CallId),
                (b"contact", Self::Contact),
                (b"expires", Self::Expires),
                (b"require", Self::Require),
                (b"warning", Self::Warning),
                (b"subject", Self::Subject),
                (b"privacy", Self::Privacy),
            ],
            8 => {
                &[(b"refer-to", Self::ReferTo), (b"identity", Self::Identity), (b"priority", Self::Priority)]
            }
            9 => &[(b"supported", Self::Supported), (b"timestamp", Self::Timestamp)],
            10 => &[(b"user-agent", Self::UserAgent)],
            11 => &[
                (b"min-expires", Self::MinExpires),
                (b"unsupported", Self::Unsupported),
                (b"retry-after", Self::RetryAfter),
                (b"referred-by", Self::ReferredBy),
                (b"max-breadth", Self::MaxBreadth),
            ],
            12 => &[
                (b"max-forwards", Self::MaxForwards),
                (b"record-route", Self::RecordRoute),
                (b"content-type", Self::ContentType),
                (b"allow-events", Self::AllowEvents),
                (b"organization", Self::Organization),
            ],
            13 => &[
                (b"authorization", Self::Authorization),
                (b"proxy-require", Self::ProxyRequire),
                (b"service-route", Self::ServiceRoute),
            ],
            14 => &[
                (b"content-length", Self::ContentLength),
                (b"accept-contact", Self::AcceptContact),
                (b"reject-contact", Self::RejectContact),
            ],
            15 => &[(b"session-expires", Self::SessionExpires)],
            16 => {
                &[(b"www-authenticate", Self::WwwAuthenticate), (b"content-encoding", Self::ContentEncoding)]
            }
            18 => &[(b"proxy-authenticate", Self::ProxyAuthenticate)],
            19 => &[
                (b"proxy-authorization", Self::ProxyAuthorization),
                (b"request-disposition", Self::RequestDisposition),
                (b"p-asserted-identity", Self::PAssertedIdentity),
            ],
            _ => &[],
        };
        for (name, header) in candidates {
            if name.eq_ignore_ascii_case(bytes) {
                return *header;
            }
        }
        Self::Other
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
            Self::Other => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_in_compact_form() {
        assert_eq!(HeaderName::from_bytes(b"cALL-iD"), HeaderName::CallId);
        assert_eq!(HeaderName::from_bytes(b"I"), HeaderName::CallId);
        assert_eq!(HeaderName::from_bytes(b"v"), HeaderName::Via);
        assert_eq!(HeaderName::from_bytes(b"C%6Fntact"), HeaderName::Other);
        assert_eq!(HeaderName::from_bytes(b""), HeaderName::Other);
        assert_eq!(HeaderName::from_bytes(HeaderName::ServiceRoute.as_bytes()), HeaderName::ServiceRoute);
    }
}
