//! Errors of commands for calls.

use crate::RouteError;
use alloc::string::String;

/// Error of a command for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// There is no such account.
    NoAccount,
    /// There is no such call (any more).
    NoCall,
    /// The call is not in a state for this.
    WrongState,
    /// The maximum number of calls is reached.
    TooManyCalls,
    /// The agent is shutting down.
    Stopping,
    /// Nothing can be sent to this URI.
    Route(RouteError),
    /// The request could not be sent; the reason as text for the user.
    NotSent(&'static str),
    /// The peer's session description is not acceptable; the call was refused with this status.
    Refused {
        /// 400 or 488.
        status: u16,
        /// Reason as text for the user.
        reason: String,
    },
    /// The status code is not valid for this command.
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
