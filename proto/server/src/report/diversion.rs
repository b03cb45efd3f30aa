//! Reasons of a diversion.

use ringway_users::Condition;

/// Reason why a call goes to another target than the called user's phones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiversionReason {
    /// A forward of the called user.
    Forward(Condition),
    /// A 3xx of a phone of the called user.
    Redirect,
}

impl DiversionReason {
    /// Reason in Diversion (RFC 5806 §4), also the name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward(Condition::Always) => "unconditional",
            Self::Forward(Condition::Busy) => "user-busy",
            Self::Forward(Condition::NoAnswer) => "no-answer",
            Self::Forward(Condition::Unregistered) => "unavailable",
            Self::Redirect => "deflection",
        }
    }

    /// Parameter `cause` of the new target (RFC 4458 §2.2).
    pub(crate) const fn cause(self) -> &'static [u8] {
        match self {
            Self::Forward(Condition::Always) => b"302",
            Self::Forward(Condition::Busy) => b"486",
            Self::Forward(Condition::NoAnswer) => b"408",
            Self::Forward(Condition::Unregistered) => b"404",
            Self::Redirect => b"480",
        }
    }

    /// Status code for Reason of the earlier target (RFC 7044 §10.2); `None` if it was not called.
    pub(crate) const fn response(self) -> Option<&'static [u8]> {
        match self {
            Self::Forward(Condition::Always | Condition::Unregistered) => None,
            Self::Forward(Condition::Busy) => Some(b"486"),
            Self::Forward(Condition::NoAnswer) => Some(b"408"),
            Self::Redirect => Some(b"302"),
        }
    }
}
