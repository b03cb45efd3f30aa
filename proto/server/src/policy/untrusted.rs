//! Header fields that a sender may not give a forwarded request; methods and fields of strangers that reach a trunk: those of a call, and
//! nothing that a carrier bills, connects or rings by.
//!
//! Strangers get there by the forward of a user, and in the dialog that it began. docs/recipes/trunks.md has the same list.

use super::is_of_call;
use crate::Config;
use crate::base::{Request, Sender};
use ringway_sansio::Defence;
use ringway_sip::{Edit, HeaderName, Method};

/// Header fields that a next hop may get of a sender that is not trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Permitted {
    /// All but those of [`remove_fields`].
    #[default]
    Most,
    /// A trunk, of a user: none that names another payer.
    OfUserAtTrunk,
    /// A trunk, of a stranger: those of a call only.
    OfCall,
}

impl Permitted {
    /// Fields for the trunk `chosen` by the dial plan, or for another next hop, which may be one too. The mark of a dialog covers From.
    pub(crate) fn of(
        config: &Config,
        request: &Request<'_, '_>,
        chosen: Option<usize>,
        is_trunk: impl Fn() -> bool,
    ) -> Self {
        let trunking = &config.trunking;
        if request.grant.above_limits.is_some() {
            return match request.grant.sender {
                Sender::Trusted | Sender::Believed => Self::Most,
                // Also of a stranger: its location, its priority.
                _ => Self::OfUserAtTrunk,
            };
        }
        let has_trunk = chosen.is_some_and(|trunk| !trunking.is_node(trunk));
        let is_for_trunk = || has_trunk || (chosen.is_none() && is_trunk());
        match request.grant.sender {
            Sender::Trusted | Sender::Believed => Self::Most,
            Sender::Proven | Sender::ProvenUnnamed if is_for_trunk() => Self::OfUserAtTrunk,
            Sender::Proven | Sender::ProvenUnnamed => Self::Most,
            Sender::InDialog | Sender::Stranger | Sender::Unknown => {
                let is_known = !trunking.has_trunks() || trunking.is_trunk(request.source());
                if is_known || !is_for_trunk() {
                    Self::Most
                } else if config.domain_of(&request.message.from().uri).is_some() {
                    Self::OfUserAtTrunk
                } else {
                    Self::OfCall
                }
            }
        }
    }
}

/// RFC 3325 §5: removes identity header fields of a user agent; of a sender that is not believed also those that change
/// ringing and display of the called phone, and those of earlier diversions, by which a trunk may bill a user.
pub(crate) fn remove_fields(request: &Request<'_, '_>, permitted: Permitted, edit: &mut Edit<'_, '_>) {
    // Those that it has now are of this server.
    if request.grant.returned.is_some() || !Defence::Identities.is_on() {
        return;
    }
    let names: &[HeaderName] = match request.grant.sender {
        Sender::Trusted | Sender::Believed => return,
        Sender::Proven | Sender::ProvenUnnamed => &[HeaderName::PAssertedIdentity, HeaderName::RemotePartyId],
        Sender::InDialog | Sender::Stranger | Sender::Unknown => &[
            HeaderName::PAssertedIdentity,
            HeaderName::RemotePartyId,
            HeaderName::AlertInfo,
            HeaderName::CallInfo,
            HeaderName::HistoryInfo,
            HeaderName::Diversion,
        ],
    };
    for &name in names {
        if request.message.has(name) {
            edit.remove_lines(name, |_| true);
        }
    }
    match permitted {
        Permitted::Most => {}
        Permitted::OfUserAtTrunk => edit.retain_received(|_, spelled| !names_payer(spelled)),
        Permitted::OfCall => edit.retain_received(is_field_of_call),
    }
}

/// True for a method that a call needs, and NOTIFY. `[auth] strangers` and `stranger_refer` are about users of ours, not about trunks.
pub(crate) fn is_method_of_call(method: Method<'_>) -> bool {
    is_of_call(method) || method == Method::Notify
}

/// True for a NOTIFY of a package that phones subscribe to. Others are commands to some phones: to answer, to restart.
pub(crate) fn is_awaited_notify(request: &Request<'_, '_>) -> bool {
    let message = request.message;
    if request.method != Method::Notify || !message.has(HeaderName::SubscriptionState) {
        return false;
    }
    let event = message.first(HeaderName::Event).unwrap_or_default();
    let package = event.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    PACKAGES.iter().any(|name| package.eq_ignore_ascii_case(name.as_bytes()))
}

/// True for a header field that a call needs.
fn is_field_of_call(name: HeaderName, spelled: &[u8]) -> bool {
    match name {
        HeaderName::Other => OTHERS.iter().any(|other| other.eq_ignore_ascii_case(spelled)),
        name => NAMES.contains(&name),
    }
}

/// True for a header field by which a carrier could take somebody else for the one who pays. A password proves its user only.
fn names_payer(spelled: &[u8]) -> bool {
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

/// Event packages of RFC 3515, 3856, 3857, 4235, 3842, 3680, 4575, 4730 and 6910.
const PACKAGES: [&str; 9] = [
    "refer",
    "presence",
    "presence.winfo",
    "dialog",
    "message-summary",
    "reg",
    "conference",
    "kpml",
    "call-completion",
];

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn the_guide_has_the_list() {
        let guide = include_str!("../../../../docs/recipes/trunks.md");
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
