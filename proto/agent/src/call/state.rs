//! State of a call.

use crate::call::acceptance::Acceptance;
use crate::dialog::Dialog;
use crate::registration::Sender;
use crate::session::Session;
use crate::{AccountId, CallId};
use alloc::vec::Vec;
use ringway_sansio::{Flow, TimerKey};
use ringway_sdp::MediaParams;
use ringway_sip::{HeaderName, Message};
use ringway_transaction::{ServerId, SlabKey};

/// State of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    /// Outgoing call without an answer.
    Calling,
    /// Cancelled outgoing call; the final response is missing.
    Cancelling,
    /// Incoming call; the program must answer or reject it.
    Ringing,
    /// Answered incoming call; the ACK is missing.
    Accepted,
    /// Established on both sides.
    Established,
    /// Ended; the BYE or its response is pending.
    Leaving,
}

/// Our role in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We called.
    Caller,
    /// The peer called.
    Callee,
}

/// Call with its dialogs and session.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) account: AccountId,
    pub(super) role: Role,
    pub(super) state: CallState,
    pub(super) dialog: Dialog,
    /// `None` for a ringing incoming call: the program has not set its local media.
    pub(super) session: Option<Session>,
    /// Early dialogs of an outgoing call.
    pub(super) early: Vec<Early>,
    /// Last INVITE that we sent.
    pub(super) invite: Option<SlabKey>,
    /// INVITE of a ringing incoming call.
    pub(super) unanswered: Option<Unanswered>,
    pub(super) acceptance: Option<Acceptance>,
    pub(super) reoffer: Reoffer,
    pub(super) hold: Hold,
    pub(super) transfer: Option<Transfer>,
    pub(super) referral: Option<Referral>,
    /// Call that this one replaces when it is answered.
    pub(super) replaces: Option<CallId>,
    /// Call whose peer requested this one (REFER).
    pub(super) referred_by: Option<CallId>,
    /// Limit of the time to the answer of the call, then of our last change.
    pub(super) ring: TimerKey,
    pub(super) redirects: u8,
    /// Last provisional status that was reported.
    pub(super) progress: u16,
}

/// Hold of a call by either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hold {
    /// Requested by the program.
    pub(super) wanted: bool,
    /// Accepted by the peer.
    pub(super) reached: bool,
    /// The peer holds the call.
    pub(super) by_peer: bool,
}

/// Early dialog: created by a provisional response.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) dialog: Dialog,
    /// Media negotiated with its description, used if the final response has none.
    pub(super) agreed: Option<(Session, MediaParams)>,
}

/// Target and additional header fields of an INVITE.
#[derive(Debug)]
pub(super) struct Invitation {
    pub(super) account: AccountId,
    /// SIP URI without headers.
    pub(super) target: Vec<u8>,
    pub(super) fields: Vec<(HeaderName, Vec<u8>)>,
    pub(super) referred_by: Option<CallId>,
}

/// INVITE of a call that is not answered.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) server: ServerId,
    /// Received bytes; the responses are generated from them.
    pub(super) request: Vec<u8>,
    pub(super) flow: Flow,
    pub(super) cseq: u32,
    /// The peer that sent the INVITE.
    pub(super) sender: Sender,
}

/// Change of the session by us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reoffer {
    /// No change is pending.
    #[default]
    Nothing,
    /// A re-INVITE waits for its response.
    Sent {
        /// True if it puts the call on hold.
        hold: bool,
        retries: u8,
    },
    /// Glare (491): it is retried after a timer (RFC 3261 §14.1).
    Waiting { timer: TimerKey, retries: u8 },
}

/// Transfer requested by us.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) timer: TimerKey,
}

/// Transfer requested by the peer.
#[derive(Debug)]
pub(super) struct Referral {
    /// URI to call, without headers.
    pub(super) target: Vec<u8>,
    /// Additional header fields of the INVITE: `Referred-By`, `Replaces`.
    pub(super) fields: Vec<(HeaderName, Vec<u8>)>,
    /// True after the program has accepted.
    pub(super) is_accepted: bool,
    pub(super) timer: TimerKey,
}

impl Call {
    pub(super) fn new(id: CallId, account: AccountId, role: Role, state: CallState, dialog: Dialog) -> Self {
        Self {
            id,
            account,
            role,
            state,
            dialog,
            session: None,
            early: Vec::new(),
            invite: None,
            unanswered: None,
            acceptance: None,
            reoffer: Reoffer::default(),
            hold: Hold::default(),
            transfer: None,
            referral: None,
            replaces: None,
            referred_by: None,
            ring: TimerKey::NONE,
            redirects: 0,
            progress: 0,
        }
    }

    /// Dialog of a request: one of the early dialogs, which have their own CSeq, or the call's.
    pub(super) fn dialog_of(&mut self, message: &Message<'_>) -> &mut Dialog {
        let tag = message.from().tag().unwrap_or_default();
        let early = self.early.iter_mut().find(|early| early.dialog.has_remote_tag(tag));
        early.map_or(&mut self.dialog, |early| &mut early.dialog)
    }
}
