//! State machines of the four transactions: pure functions from a state and an event to the next state and the effects.

pub mod invite_client;
pub mod invite_server;
pub mod non_invite_client;
pub mod non_invite_server;

/// Effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send or retransmit: a client its request, a server its last response.
    Send,
    /// Send the ACK of a failed INVITE.
    SendAck,
    /// Pass the message to the user of the transaction.
    PassUp,
    /// Report to the user that the transaction timed out.
    ReportTimeout,
    /// Report to the user that the transport failed.
    ReportTransportError,
    /// Start a timer.
    Start(Timer),
    /// Double the interval of a retransmission timer, up to its maximum, and start it again.
    Repeat(Timer),
    /// Stop the retransmission timer.
    StopRetransmitting,
    /// Stop the timer that limits the duration of the state.
    StopWaiting,
}

/// The timers of RFC 3261 table 4 and RFC 6026 §8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// INVITE request retransmission: T1, doubling.
    A,
    /// INVITE transaction timeout: 64·T1.
    B,
    /// Wait for response retransmissions: over 32 s.
    D,
    /// Non-INVITE request retransmission: T1, doubling to T2.
    E,
    /// Non-INVITE transaction timeout: 64·T1.
    F,
    /// INVITE response retransmission: T1, doubling to T2.
    G,
    /// Wait for the ACK: 64·T1.
    H,
    /// Wait for ACK retransmissions: T4.
    I,
    /// Wait for non-INVITE request retransmissions: 64·T1.
    J,
    /// Wait for response retransmissions: T4.
    K,
    /// Wait for INVITE retransmissions after a 2xx: 64·T1 (RFC 6026).
    L,
    /// Wait for 2xx retransmissions and forks: 64·T1 (RFC 6026).
    M,
}

impl Timer {
    /// True for the timers that retransmit a message; the others limit the duration of a state.
    pub const fn is_retransmission(self) -> bool {
        matches!(self, Self::A | Self::E | Self::G)
    }

    /// True for the timers after which a transaction is removed and nothing else happens. They may fire late.
    pub const fn only_removes(self) -> bool {
        matches!(self, Self::D | Self::I | Self::J | Self::K | Self::L | Self::M)
    }
}

/// Event of a client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// A response was received.
    Response(Class),
    /// A timer of this transaction fired.
    Timer(Timer),
    /// The transport could not deliver the request.
    TransportError,
}

/// Event of a server transaction. There is none for a response that the transport could not deliver: it is sent to the
/// fallback address instead (RFC 3261 §18.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A retransmission of the request was received.
    Request,
    /// An ACK of this transaction was received.
    Ack,
    /// The user sends a response.
    Respond(Class),
    /// A timer of this transaction fired.
    Timer(Timer),
}

/// Result of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<S> {
    /// Next state.
    pub state: S,
    /// Effects, in order.
    pub effects: &'static [Effect],
}

impl<S> Step<S> {
    pub(crate) fn map<T>(self, state: impl FnOnce(S) -> T) -> Step<T> {
        Step { state: state(self.state), effects: self.effects }
    }
}

pub(crate) const fn step<S>(state: S, effects: &'static [Effect]) -> Step<S> {
    Step { state, effects }
}

/// Class of a status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// 100 to 199.
    Provisional,
    /// 200 to 299.
    Success,
    /// 300 to 699.
    Failure,
}

impl Class {
    /// Class of a status code; the parser rejects codes below 100.
    pub const fn of(status: u16) -> Self {
        match status {
            0..=199 => Self::Provisional,
            200..=299 => Self::Success,
            _ => Self::Failure,
        }
    }
}
