//! Events of the server that a log may show: borrowed and unformatted, so that an event nobody logs costs nothing.

use core::net::SocketAddr;
use ringway_sansio::Flow;

/// One event. All bytes came from the network, and may hold anything.
#[derive(Clone, Copy, Debug)]
pub enum LogEvent<'a> {
    /// Credentials that prove nothing.
    LoginRefused {
        /// The digest's `username`, escapes undone.
        user: &'a [u8],
        /// Where the request came from.
        address: SocketAddr,
        /// Why.
        reason: LoginRefusal,
    },
    /// A REGISTER changed the bindings of a user.
    Registered {
        /// `user@domain`.
        aor: &'a [u8],
        /// How.
        change: BindingChange,
        /// The REGISTER.
        message: &'a [u8],
        /// How it came.
        flow: Flow,
    },
    /// A binding ended by itself.
    BindingEnded {
        /// `user@domain`.
        aor: &'a [u8],
        /// Its contact URI.
        contact: &'a [u8],
        /// How its REGISTER came.
        flow: Flow,
        /// Why.
        reason: BindingEnd,
    },
    /// Something happened to a call.
    Call {
        /// What.
        step: CallStep,
        /// The request or response that it happened with.
        message: &'a [u8],
        /// Where that came from, or for [`CallStep::Forwarded`] goes to.
        flow: Option<Flow>,
    },
}

/// How the bindings of a user changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingChange {
    /// There is one more.
    Registered,
    /// They stay longer, or say something else.
    Refreshed,
    /// The phone, or an administrator, took one back.
    Removed,
    /// The time of one is over, or its connection is gone.
    Ended,
}

/// Why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// The user exists and the digest is not that of its password.
    WrongPassword,
    /// There is no such user.
    UnknownUser,
    /// The password is that of another user than the address is of.
    NotItsAddress,
    /// A digest that this server does not offer.
    Unusable,
    /// The password was not checked: there were too many wrong ones.
    Slowed,
}

/// Why a binding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingEnd {
    /// It was not refreshed.
    Expired,
    /// The connection that it was registered over is gone.
    ConnectionClosed,
}

/// What happened to a call. A proxy without dialog state sees no more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStep {
    /// Its INVITE came and may be forwarded.
    Begun,
    /// Its INVITE was refused with this status before it was accepted.
    Refused(u16),
    /// Its INVITE was sent to a target.
    Forwarded,
    /// A target accepted it with this status.
    Answered(u16),
    /// The caller got this status.
    Failed(u16),
    /// The caller gave up.
    Cancelled,
    /// Nobody answered in time (timer C, RFC 3261 §16.8).
    TimedOut,
    /// One side sent a BYE.
    Bye,
}

impl LoginRefusal {
    /// As a log names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WrongPassword => "wrong-password",
            Self::UnknownUser => "unknown-user",
            Self::NotItsAddress => "not-its-address",
            Self::Unusable => "unusable-digest",
            Self::Slowed => "slowed",
        }
    }
}
