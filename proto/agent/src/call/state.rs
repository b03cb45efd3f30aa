//! State of a call; a sent 2xx to an INVITE until its ACK (RFC 3261 §13.3.1.4); errors of commands for calls.
//!
//! ```text
//!   2xx sent ── T1, doubling up to T2: sent again ──┐
//!      │  ▲─────────────────────────────────────────┘
//!      │ ACK ──► done (its answer, where the 2xx had the offer)
//!      └ 64·T1 ──► BYE
//! ```

use crate::dialog::Dialog;
use crate::draft::Draft;
use crate::registration::Sender;
use crate::session::Session;
use crate::{AccountId, CallId, RouteError};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
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
    /// Number of times that a busy server asked to call later.
    pub(super) postponements: u8,
    pub(super) postponed: Option<Postponed>,
    /// Last provisional status that was reported.
    pub(super) progress: u16,
}

/// INVITE that is sent again at the time that a busy server named.
#[derive(Debug)]
pub(super) struct Postponed {
    pub(super) draft: Box<Draft>,
    pub(super) timer: TimerKey,
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
            postponements: 0,
            postponed: None,
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

/// Sent 2xx without its ACK.
#[derive(Debug)]
pub(super) struct Acceptance {
    pub(super) server: ServerId,
    pub(super) response: Vec<u8>,
    /// CSeq number of the INVITE and of its ACK.
    pub(super) cseq: u32,
    pub(super) accepting: Accepting,
    /// True if the 2xx has the offer.
    pub(super) awaits_answer: bool,
    pub(super) interval: Duration,
    pub(super) repeat: TimerKey,
    pub(super) give_up: TimerKey,
}

/// Purpose of the accepted INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accepting {
    /// New call.
    Call,
    /// Change of an established call.
    Change,
}

impl Acceptance {
    pub(super) const fn new(
        server: ServerId,
        response: Vec<u8>,
        cseq: u32,
        accepting: Accepting,
        awaits_answer: bool,
    ) -> Self {
        Self {
            server,
            response,
            cseq,
            accepting,
            awaits_answer,
            interval: Duration::ZERO,
            repeat: TimerKey::NONE,
            give_up: TimerKey::NONE,
        }
    }
}

/// Error of a command for a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// There is no such account.
    #[error("there is no such account")]
    NoAccount,
    /// There is no such call (any more).
    #[error("this call is over")]
    NoCall,
    /// The call is not in a state for this.
    #[error("the call is not in a state for this")]
    WrongState,
    /// The maximum number of calls is reached.
    #[error("there are too many calls")]
    TooManyCalls,
    /// The agent is shutting down.
    #[error("the phone is shutting down")]
    Stopping,
    /// Nothing can be sent to this URI.
    #[error("{0}")]
    Route(RouteError),
    /// The request could not be sent; the reason as text for the user.
    #[error("{0}")]
    NotSent(&'static str),
    /// The peer's session description is not acceptable; the call was refused with this status.
    #[error("{status} {reason}")]
    Refused {
        /// 400 or 488.
        status: u16,
        /// Reason as text for the user.
        reason: String,
    },
    /// The status code is not valid for this command.
    #[error("this status code cannot be used here")]
    BadStatus,
}
