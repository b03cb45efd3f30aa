//! A call: an INVITE, the dialogs it makes, the session in them, and its end.
//!
//! ```text
//!   call()                                             INVITE
//!     │                                                  │ 100
//!     v           1xx: Progress, EarlyMedia              v           ring(): 18x
//!   Calling ◄──┐                                       Ringing ◄──┐
//!     │  │  └──┘                                         │  │  └──┘
//!     │  │ 2xx: ACK, Answered            answer(): 200   │  │ reject(), CANCEL, too long: 4xx, 6xx
//!     │  └──────────────► Established ◄── ACK ── Accepted ◄┘  └──────────────► (gone)
//!     │ hang_up()             │                    │ no ACK for 64·T1, or hung up: BYE
//!     v                       │ hang_up(): BYE     │
//!   Cancelling                v                    │
//!     │ 2xx: ACK, BYE ──► Leaving ◄────────────────┘
//!     │ failure               │ the BYE's answer
//!     v                       v
//!   (gone)                  (gone)          BYE of the other side, in any state: 200 ──► (gone)
//! ```
//!
//! `Ended` is told on entering Leaving, or when the call is gone without it. One file a transition: `outgoing.rs` the left
//! side, `incoming.rs` the right, `acceptance.rs` the wait for the ACK, `reoffer.rs` hold and resume, `ending.rs` the end,
//! `transfer.rs` and `referral.rs` the two sides of a transfer.

pub(crate) mod acceptance;
mod ending;
mod incoming;
mod outgoing;
mod referral;
mod reoffer;
mod transfer;

use crate::dialog::Dialog;
use crate::session::Session;
use crate::{AccountId, CallId, RouteError, UserAgent};
use acceptance::Acceptance;
use alloc::string::String;
use alloc::vec::Vec;
use incoming::Unanswered;
use outgoing::Early;
use referral::Referral;
pub(crate) use reoffer::Reoffer;
use ringway_sansio::TimerKey;
use ringway_sip::Message;
use ringway_transaction::SlabKey;

/// Why a call cannot be made, answered, or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// There is no such account.
    NoAccount,
    /// There is no such call (any more).
    NoCall,
    /// The call is not in a state for this.
    WrongState,
    /// There are as many calls as allowed.
    TooManyCalls,
    /// The agent is shutting down.
    Stopping,
    /// Nothing can be sent to this URI.
    Route(RouteError),
    /// The request could not be sent; why, for a person.
    NotSent(&'static str),
    /// The other side's session description is not acceptable; the call was refused with this status.
    Refused {
        /// 400 or 488.
        status: u16,
        /// Why, for a person.
        reason: String,
    },
    /// This is no status code that a call can be refused with, or ring with.
    BadStatus,
}

impl core::fmt::Display for CallError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NoAccount => f.write_str("there is no such account"),
            Self::NoCall => f.write_str("this call is over"),
            Self::WrongState => f.write_str("the call is not in a state for this"),
            Self::TooManyCalls => f.write_str("there are too many calls"),
            Self::Stopping => f.write_str("the phone is shutting down"),
            Self::Route(why) => write!(f, "{why}"),
            Self::NotSent(why) => f.write_str(why),
            Self::Refused { status, reason } => write!(f, "{status} {reason}"),
            Self::BadStatus => f.write_str("this status code cannot be used here"),
        }
    }
}

impl core::error::Error for CallError {}

/// Where a call stands.
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
pub(crate) struct Call {
    pub(crate) account: AccountId,
    pub(crate) role: Role,
    pub(crate) state: CallState,
    pub(crate) dialog: Dialog,
    /// `None`: a call that rings here, and nobody has said yet where its sound goes.
    pub(crate) session: Option<Session>,
    /// The caller's dialogs before the answer.
    pub(crate) early: Vec<Early>,
    /// The caller's INVITE.
    pub(crate) invite: Option<SlabKey>,
    /// The callee's INVITE.
    pub(crate) unanswered: Option<Unanswered>,
    pub(crate) acceptance: Option<Acceptance>,
    pub(crate) reoffer: Reoffer,
    pub(crate) hold: Hold,
    pub(crate) transfer: Option<transfer::Transfer>,
    pub(crate) referral: Option<Referral>,
    /// The call that this one takes the place of when it is answered.
    pub(crate) replaces: Option<CallId>,
    /// The call whose other side asked for this one.
    pub(crate) referred_by: Option<CallId>,
    pub(crate) ring: TimerKey,
    pub(crate) redirects: u8,
    /// The last provisional status that was told.
    pub(crate) progress: u16,
}

/// Who keeps a call on hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hold {
    /// The program wants it.
    pub(crate) wanted: bool,
    /// The other side has agreed.
    pub(crate) reached: bool,
    /// The other side keeps us on hold.
    pub(crate) by_peer: bool,
}

impl Call {
    pub(crate) fn new(account: AccountId, role: Role, state: CallState, dialog: Dialog) -> Self {
        Self {
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
    pub(crate) fn dialog_of(&mut self, message: &Message<'_>) -> &mut Dialog {
        let tag = message.from().tag().unwrap_or_default();
        let early = self.early.iter_mut().find(|early| early.dialog.remote_tag == tag);
        early.map_or(&mut self.dialog, |early| &mut early.dialog)
    }
}

impl UserAgent {
    /// Where a call stands; `None`: it is over.
    pub fn call_state(&self, call: CallId) -> Option<CallState> {
        self.call_at(call).map(|call| call.state)
    }

    /// Who called; `None`: it is over.
    pub fn call_role(&self, call: CallId) -> Option<Role> {
        self.call_at(call).map(|call| call.role)
    }

    /// All calls that are not over.
    pub fn calls(&self) -> impl Iterator<Item = (CallId, CallState)> {
        self.calls.iter().map(|(key, call)| (CallId::from_key(key), call.state))
    }

    pub(crate) fn call_at(&self, call: CallId) -> Option<&Call> {
        self.calls.get(call.key())
    }

    pub(crate) fn call_mut(&mut self, call: CallId) -> Option<&mut Call> {
        self.calls.get_mut(call.key())
    }

    /// Calls that count towards the limit.
    pub(crate) fn calls_len(&self) -> usize {
        self.calls.iter().filter(|(_, call)| call.state != CallState::Leaving).count()
    }

    /// The call whose dialog a request belongs to.
    pub(crate) fn call_of(&self, message: &Message<'_>) -> Option<CallId> {
        let local_tag = message.to().tag()?;
        let remote_tag = message.from().tag().unwrap_or_default();
        let found = self.calls.iter().find(|(_, call)| {
            let is_early =
                call.early.iter().any(|early| early.dialog.is(message.call_id(), local_tag, remote_tag));
            is_early || call.dialog.is(message.call_id(), local_tag, remote_tag)
        });
        found.map(|(key, _)| CallId::from_key(key))
    }
}
