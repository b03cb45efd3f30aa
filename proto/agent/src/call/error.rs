//! Errors of commands for calls.

use crate::RouteError;
use alloc::string::String;

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
