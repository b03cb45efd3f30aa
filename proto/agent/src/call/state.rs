//! A call's state.

use crate::call::acceptance::Acceptance;
use crate::dialog::Dialog;
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
    /// We call; nobody has answered.
    Calling,
    /// We have given up calling; the other side must still agree.
    Cancelling,
    /// We are called; the program must decide.
    Ringing,
    /// We have answered; the other side has not said that it knows.
    Accepted,
    /// It stands.
    Established,
    /// It is over; the other side must still agree.
    Leaving,
}

/// Who called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// We did.
    Caller,
    /// The other side did.
    Callee,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) account: AccountId,
    pub(super) role: Role,
    pub(super) state: CallState,
    pub(super) dialog: Dialog,
    /// `None`: a call that rings here, and nobody has said yet where its sound goes.
    pub(super) session: Option<Session>,
    /// The caller's dialogs before the answer.
    pub(super) early: Vec<Early>,
    /// The caller's INVITE.
    pub(super) invite: Option<SlabKey>,
    /// The callee's INVITE.
    pub(super) unanswered: Option<Unanswered>,
    pub(super) acceptance: Option<Acceptance>,
    pub(super) reoffer: Reoffer,
    pub(super) hold: Hold,
    pub(super) transfer: Option<Transfer>,
    pub(super) referral: Option<Referral>,
    /// The call that this one takes the place of when it is answered.
    pub(super) replaces: Option<CallId>,
    /// The call whose other side asked for this one.
    pub(super) referred_by: Option<CallId>,
    pub(super) ring: TimerKey,
    pub(super) redirects: u8,
    /// The last provisional status that was told.
    pub(super) progress: u16,
}

/// Who keeps a call on hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hold {
    /// The program wants it.
    pub(super) wanted: bool,
    /// The other side has agreed.
    pub(super) reached: bool,
    /// The other side keeps us on hold.
    pub(super) by_peer: bool,
}

/// A dialog that a provisional answer has made.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) dialog: Dialog,
    /// What its description was answered with, should the final answer bring none.
    pub(super) agreed: Option<(Session, MediaParams)>,
}

/// Target and additional header fields of an INVITE.
#[derive(Debug)]
pub(super) struct Invitation {
    pub(super) account: AccountId,
    /// A SIP URI without headers.
    pub(super) target: Vec<u8>,
    pub(super) fields: Vec<(HeaderName, Vec<u8>)>,
    pub(super) referred_by: Option<CallId>,
}

/// The INVITE of a call that is not answered.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) server: ServerId,
    /// As received; the responses are made from it.
    pub(super) request: Vec<u8>,
    pub(super) flow: Flow,
    pub(super) cseq: u32,
}

/// A change of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reoffer {
    /// None is under way.
    #[default]
    Nothing,
    /// An INVITE waits for its answer.
    Sent {
        /// Whether it puts the call on hold.
        hold: bool,
        retries: u8,
    },
    /// It met one of the other side's, and is tried again (RFC 3261 §14.1).
    Waiting { timer: TimerKey, retries: u8 },
}

/// A transfer that we requested.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) timer: TimerKey,
}

/// A transfer that the peer requested.
#[derive(Debug)]
pub(super) struct Referral {
    /// The URI to call, without headers.
    pub(super) target: Vec<u8>,
    /// Additional header fields of the INVITE: `Referred-By`, `Replaces`.
    pub(super) fields: Vec<(HeaderName, Vec<u8>)>,
    /// True once the program has accepted.
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

    /// The dialog that a request belongs to: one of the early ones, each with numbers of its own, or the call's.
    pub(super) fn dialog_of(&mut self, message: &Message<'_>) -> &mut Dialog {
        let tag = message.from().tag().unwrap_or_default();
        let early = self.early.iter_mut().find(|early| early.dialog.remote_tag == tag);
        early.map_or(&mut self.dialog, |early| &mut early.dialog)
    }
}
