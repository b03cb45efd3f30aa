//! Events for a log, borrowed and unformatted, so that an event without a log costs nothing.

use crate::{CallName, Decision, DiversionReason, InnerHost};
use core::net::SocketAddr;
use ringway_sansio::Flow;
use ringway_sip::Message;

/// Event of the server. All bytes come from the network and can have any value.
#[derive(Clone, Copy, Debug)]
pub enum LogEvent<'a> {
    /// Credentials were refused.
    LoginRefused {
        /// `username` of the digest, without escapes.
        user: &'a [u8],
        /// Source address of the request.
        address: SocketAddr,
        /// Reason.
        reason: LoginRefusal,
    },
    /// A request got a refusal of this server, other than a challenge.
    RequestRefused {
        /// The request.
        message: &'a [u8],
        /// Status code.
        status: u16,
        /// Reason phrase.
        phrase: &'a str,
        /// Source address.
        address: SocketAddr,
    },
    /// A request was refused because the block list has its caller.
    CallerBlocked {
        /// URI of its From.
        caller: &'a [u8],
        /// Request-URI, or the target that a strict router put into Route.
        callee: &'a [u8],
        /// Source address.
        address: SocketAddr,
    },
    /// A REGISTER changed the bindings of a user.
    Registered {
        /// `user@domain`.
        aor: &'a [u8],
        /// Kind of change.
        change: BindingChange,
        /// REGISTER request.
        message: &'a [u8],
        /// Flow of the REGISTER.
        flow: Flow,
    },
    /// A binding ended without a REGISTER.
    BindingEnded {
        /// `user@domain`.
        aor: &'a [u8],
        /// Contact URI.
        contact: &'a [u8],
        /// Flow of its REGISTER.
        flow: Flow,
        /// Reason.
        reason: BindingEnd,
    },
    /// Step of a call.
    Call(CallEvent<'a>),
    /// A destination rule refused a call.
    DestinationRefused {
        /// `user@domain` of the caller.
        aor: &'a [u8],
        /// Number as the trunk would get it.
        number: &'a [u8],
        /// Prefix of the rule.
        prefix: &'a str,
        /// Source address of the request.
        address: SocketAddr,
    },
    /// A message for an absent user was not kept.
    MessageRefused {
        /// `user@domain` of the sender.
        sender: &'a [u8],
        /// `user@domain` of the recipient.
        recipient: &'a [u8],
        /// The limit that is reached.
        reason: &'a str,
        /// Source address of the request.
        address: SocketAddr,
    },
    /// A message that was kept for a user was removed without delivery, before its time.
    MessageDropped {
        /// `user@domain` of the sender.
        sender: &'a [u8],
        /// `user@domain` of the recipient.
        recipient: &'a [u8],
        /// Reason.
        reason: MessageDrop,
    },
    /// A request would have reached a trunk without a route, past its destination rules.
    TrunkBypassed {
        /// From URI of the request.
        caller: &'a [u8],
        /// Its Request-URI.
        target: &'a [u8],
        /// Its source address.
        address: SocketAddr,
    },
    /// A request would have reached an inner host.
    InnerHostRefused {
        /// From URI of the request.
        caller: &'a [u8],
        /// Its Request-URI.
        target: &'a [u8],
        /// Its source address.
        address: SocketAddr,
        /// Address of the next hop.
        hop: SocketAddr,
        /// Reason.
        host: InnerHost,
    },
    /// An emergency call begins.
    EmergencyCall {
        /// From URI of the request.
        caller: &'a [u8],
        /// Number as the trunk gets it.
        number: &'a [u8],
        /// Name of the site of the caller; empty: none of the configuration.
        site: &'a str,
        /// Source address of the request.
        address: SocketAddr,
    },
    /// A trunk asked for credentials that it was not given, or refused those that it was.
    TrunkLoginRefused {
        /// Its name.
        name: &'a str,
        /// Source address of its response.
        address: SocketAddr,
    },
    /// A message was received that is refused before it is parsed; only while [`Host::is_traced`](crate::Host::is_traced).
    Received {
        /// The message.
        message: &'a [u8],
        /// Flow that it was received on.
        flow: &'a Flow,
    },
    /// The server decided something about a request; only while [`Host::is_traced`](crate::Host::is_traced).
    Decided {
        /// The request, or a response to it.
        message: &'a [u8],
        /// Decision.
        decision: Decision<'a>,
    },
    /// A trunk registered this server, for the first time or after a failure.
    TrunkRegistered {
        /// Its name.
        name: &'a str,
    },
    /// A trunk did not register this server.
    TrunkNotRegistered {
        /// Its name.
        name: &'a str,
        /// Status of its response; 0: it was not reached; 408: it did not answer.
        status: u16,
    },
    /// A neighbour answered for the first time since the start or since it was down.
    NeighbourUp {
        /// Its kind.
        kind: NeighbourKind,
        /// Its name.
        name: &'a str,
        /// Its address.
        address: SocketAddr,
    },
    /// The connection to a neighbour failed; reported once until it is up again.
    NeighbourDown {
        /// Its kind.
        kind: NeighbourKind,
        /// Its name.
        name: &'a str,
        /// Reason.
        reason: NeighbourDown,
    },
}

/// Reason for the removal of a kept message before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageDrop {
    /// A phone answered with this status, which is about the message.
    Status(u16),
    /// The last of its attempts failed with this status; 408 if nothing was received.
    Attempts(u16),
    /// The block list has its sender.
    Blocked,
}

impl core::fmt::Display for MessageDrop {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Status(status) => write!(f, "a phone answered {status}"),
            Self::Attempts(status) => write!(f, "too many attempts, the last one with {status}"),
            Self::Blocked => f.write_str("its sender is blocked"),
        }
    }
}

/// Step of a call, with the messages that caused it.
#[derive(Clone, Copy, Debug)]
pub struct CallEvent<'a> {
    /// Kind of step.
    pub step: CallStep,
    /// INVITE, or BYE, as it was received.
    pub message: &'a [u8],
    /// The same, if it is parsed: always for [`CallStep::Begun`].
    pub parsed: Option<&'a Message<'a>>,
    /// Name of the call by `message`, if it was made before.
    pub name: Option<&'a CallName>,
    /// Response that caused the step, as it was received.
    pub response: Option<&'a Message<'a>>,
    /// Proof of identity of the sender of `message`.
    pub sender: CallSender,
    /// `user@domain` in canonical form, if the sender proved to be that user; only for [`CallStep::Begun`].
    pub user: Option<&'a [u8]>,
    /// True if `message` came from an address of this server, which sent it to itself; only for [`CallStep::Begun`].
    pub is_spiral: bool,
    /// Flow of `message`; for [`CallStep::Forwarded`] the flow to the next hop. `None` for a request that was stored.
    pub flow: Option<Flow>,
    /// URI that a diverted call goes to; only for [`CallStep::Diverted`].
    pub target: Option<&'a [u8]>,
}

impl<'a> CallEvent<'a> {
    /// Creates the step of a call whose request is stored.
    pub const fn stored(step: CallStep, message: &'a [u8], sender: CallSender) -> Self {
        let (parsed, name, response, user, flow, target) = (None, None, None, None, None, None);
        Self { step, message, parsed, name, response, sender, user, is_spiral: false, flow, target }
    }
}

/// Proof of identity of the sender of an INVITE or a BYE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallSender {
    /// The password or certificate of the user in From.
    Proven,
    /// A trusted address, the mark of its dialog, or authentication is off.
    Believed,
    /// None.
    Stranger,
}

/// Kind of a neighbour, by its section of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourKind {
    /// Another server of the operator.
    Neighbour,
    /// Gateway or carrier.
    Trunk,
    /// Another node of this cluster.
    Node,
    /// Node behind this server.
    NodeBehind,
}

/// Reason why a neighbour is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourDown {
    /// Its host name has no address.
    NoAddress,
    /// No listener has the transport and the address family of its URI.
    NoListener,
    /// No connection was established, or it ended before an answer.
    NotConnected,
    /// OPTIONS over UDP was reported as undelivered (ICMP).
    NotDelivered,
    /// The connection ended.
    Closed,
    /// OPTIONS was not answered.
    NoAnswer,
    /// It answered OPTIONS with 503.
    Unavailable,
    /// The certificate of the connection that it opened does not count any more.
    NotIdentified,
    /// It is a node, and does not accept the certificate of this one any more.
    Refused,
    /// This server has no free transaction.
    NoTransaction,
}

impl NeighbourDown {
    /// Text for a log.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoAddress => "its host name has no address",
            Self::NoListener => "no listener has its transport and address family",
            Self::NotConnected => {
                "it cannot be reached, accepted no connection, or closed it before it answered OPTIONS"
            }
            Self::NotDelivered => {
                "it did not answer OPTIONS: the network reported that nothing listens at its address and port"
            }
            Self::Closed => "the connection was closed",
            Self::NoAnswer => "it did not answer OPTIONS",
            Self::Unavailable => "it answered OPTIONS with 503",
            Self::NotIdentified => "the certificate of the connection that it opened does not count any more",
            Self::Refused => "it does not accept the certificate of this node any more",
            Self::NoTransaction => "this server has no free transaction",
        }
    }
}

/// Change of a user's bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingChange {
    /// A binding was added.
    Registered,
    /// A binding was extended or replaced.
    Refreshed,
    /// A phone or an administrator removed a binding.
    Removed,
    /// A binding expired, or its connection was closed.
    Ended,
}

/// Reason for refusing a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// The digest does not match the user's password.
    WrongPassword,
    /// There is no such user.
    UnknownUser,
    /// The password is that of another user than the address-of-record's.
    NotItsAddress,
    /// The digest has no algorithm or parameters that this server offers.
    Unusable,
    /// The password was not checked, after too many wrong ones.
    Slowed,
}

/// Reason for the end of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingEnd {
    /// It was not refreshed.
    Expired,
    /// The connection of its REGISTER was closed.
    ConnectionClosed,
    /// An administrator ended it.
    Administrator,
    /// It was registered or removed at another node.
    OtherNode,
}

/// Step of a call. A proxy without dialog state recognises no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStep {
    /// The INVITE was accepted for forwarding.
    Begun,
    /// The INVITE was refused with this status.
    Refused(u16),
    /// Its INVITE was sent to a target.
    Forwarded,
    /// It goes to another target than the called user's phones.
    Diverted(DiversionReason),
    /// A target sent this provisional response.
    Ringing(u16),
    /// A target accepted it with this status.
    Answered(u16),
    /// The caller got this status.
    Failed(u16),
    /// The caller gave up.
    Cancelled,
    /// No final response in time (timer C, RFC 3261 §16.8).
    TimedOut,
    /// The INVITE ended without a response to report: the caller got the 487 of its CANCEL, or nothing can be sent to it.
    Over,
    /// A BYE of one side was answered, or could not be delivered.
    Bye,
    /// A BYE of one side was refused with this status, which ends no call (RFC 3261 §15.1.1).
    ByeRefused(u16),
}

impl LoginRefusal {
    /// Name in the log.
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
