//! Requests of strangers to a trunk: methods and header fields of a call, and nothing that a carrier bills, connects or rings by.
//!
//! They get there by the forward of a user, and in the dialog that it began. The user guide has the same list.

use crate::auth::is_of_call;
use ringway_sip::{HeaderName, Method};

/// True for a method that a call needs, and NOTIFY. `[auth] strangers` and `stranger_refer` are about users of ours, not about trunks.
pub(super) fn is_method_of_call(method: Method<'_>) -> bool {
    is_of_call(method) || method == Method::Notify
}

/// True for a header field that a call needs.
pub(super) fn is_field_of_call(name: HeaderName, spelled: &[u8]) -> bool {
    match name {
        HeaderName::Other => OTHERS.iter().any(|other| other.eq_ignore_ascii_case(spelled)),
        name => NAMES.contains(&name),
    }
}

/// True for a header field by which a carrier could take somebody else for the one who pays. A password proves its user only.
pub(super) fn names_payer(spelled: &[u8]) -> bool {
    PAYERS.iter().any(|name| name.eq_ignore_ascii_case(spelled))
}

/// Names of fields that a call needs.
const NAMES: &[HeaderName] = &[
    HeaderName::Via,
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::CSeq,
    HeaderName::Contact,
    HeaderName::ContentLength,
    HeaderName::ContentType,
    HeaderName::ContentEncoding,
    HeaderName::MaxForwards,
    HeaderName::MaxBreadth,
    HeaderName::Route,
    HeaderName::RecordRoute,
    HeaderName::Expires,
    HeaderName::Require,
    HeaderName::ProxyRequire,
    HeaderName::Supported,
    HeaderName::Unsupported,
    HeaderName::Allow,
    HeaderName::AllowEvents,
    HeaderName::Accept,
    HeaderName::Event,
    HeaderName::SubscriptionState,
    HeaderName::Date,
    HeaderName::Timestamp,
    HeaderName::UserAgent,
    HeaderName::SessionExpires,
    HeaderName::Reason,
    HeaderName::RSeq,
    HeaderName::RAck,
    HeaderName::Privacy,
    HeaderName::Identity,
];

/// Those without a [`HeaderName`].
const OTHERS: &[&[u8]] = &[
    b"Min-SE",
    b"Accept-Encoding",
    b"Accept-Language",
    b"Content-Disposition",
    b"Content-Language",
    b"Content-ID",
    b"MIME-Version",
    b"Info-Package",
    b"Recv-Info",
];

/// Fields of RFC 3325, 8496 and 7315.
const PAYERS: &[&[u8]] =
    &[b"P-Preferred-Identity", b"P-Charge-Info", b"P-Charging-Vector", b"P-Charging-Function-Addresses"];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_guide_has_the_list() {
        let guide = include_str!("../../../../docs/user-guide.md");
        let (_, list) = guide.split_once("header fields of a stranger reach a trunk: ").unwrap();
        let (list, _) = list.split_once(". ").unwrap();
        let mut listed: Vec<&str> = list.split(", ").map(|name| name.trim_matches('`')).collect();
        let names = NAMES.iter().map(|name| name.as_bytes()).chain(OTHERS.iter().copied());
        let mut own: Vec<&str> = names.map(|name| core::str::from_utf8(name).unwrap()).collect();
        listed.sort_unstable();
        own.sort_unstable();
        assert_eq!(listed, own);
    }
}
