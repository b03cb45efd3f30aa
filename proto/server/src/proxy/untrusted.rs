//! Header fields that a sender may not give a forwarded request.

use super::at_trunk;
use crate::Config;
use crate::base::{Request, Sender};
use ringway_sip::{Edit, HeaderName};

/// Header fields that a next hop may get of a sender that is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permitted {
    /// All but those of [`remove_fields`].
    Most,
    /// A trunk, of a user: none that names another payer.
    OfUserAtTrunk,
    /// A trunk, of a stranger: those of a call only.
    OfCall,
}

impl Permitted {
    /// Fields for the trunk `chosen` by the dial plan, or for another next hop, which may be one too. The mark of a dialog covers From.
    pub(super) fn of(
        config: &Config,
        request: &Request<'_, '_>,
        chosen: Option<usize>,
        is_trunk: impl FnOnce() -> bool,
    ) -> Self {
        let trunking = &config.trunking;
        let has_trunk = chosen.is_some_and(|trunk| !trunking.is_node(trunk));
        match request.grant.sender {
            Sender::Trusted | Sender::Believed => Self::Most,
            Sender::Proven | Sender::ProvenUnnamed if has_trunk => Self::OfUserAtTrunk,
            Sender::Proven | Sender::ProvenUnnamed => Self::Most,
            Sender::InDialog | Sender::Stranger | Sender::Unknown => {
                let is_stranger = trunking.has_trunks()
                    && config.domain_of(&request.message.from().uri).is_none()
                    && !trunking.is_trunk(request.flow.remote.ip());
                let is_for_trunk = || has_trunk || (chosen.is_none() && is_trunk());
                if is_stranger && is_for_trunk() { Self::OfCall } else { Self::Most }
            }
        }
    }
}

/// RFC 3325 §5: removes identity header fields of a user agent; of a sender that is not believed also those that change
/// ringing and display of the called phone, and those of earlier diversions, by which a trunk may bill a user.
pub(super) fn remove_fields(request: &Request<'_, '_>, permitted: Permitted, edit: &mut Edit<'_, '_>) {
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
        Permitted::OfUserAtTrunk => edit.retain_received(|_, spelled| !at_trunk::names_payer(spelled)),
        Permitted::OfCall => edit.retain_received(at_trunk::is_field_of_call),
    }
}
