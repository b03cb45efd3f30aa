//! Errors of commands for calls.

use crate::RouteError;
use alloc::string::String;

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
