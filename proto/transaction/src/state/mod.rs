//! The four machines, each a pure function from a state and an event to the next state and what to do.

pub mod invite_client;
pub mod invite_server;
pub mod non_invite_client;
pub mod non_invite_server;

/// What a machine wants done, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send (again) what this transaction sends: a client its request, a server its last response.
    Send,
    /// Send the ACK of a failed INVITE.
    SendAck,
    /// Give the message to the user of the transaction.
    PassUp,
    /// Tell the user that no answer came in time.
    ReportTimeout,
    /// Tell the user that the transport failed.
    ReportTransportError,
    /// Start a timer.
    Start(Timer),
    /// Double the interval of a retransmission timer, as far as it goes, and start it again.
    Repeat(Timer),
    /// Stop the retransmission timer.
    StopRetransmitting,
    /// Stop the timer that bounds the state.
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
    /// True for the timers that repeat a message; the others bound a state.
    pub const fn is_retransmission(self) -> bool {
        matches!(self, Self::A | Self::E | Self::G)
    }

    /// What is waited for, in words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::A => "timer A: send the INVITE again",
            Self::B => "timer B: no answer to the INVITE",
            Self::D => "timer D: forget a failed INVITE",
            Self::E => "timer E: send the request again",
            Self::F => "timer F: no answer to the request",
            Self::G => "timer G: send the INVITE's failure again",
            Self::H => "timer H: no ACK came",
            Self::I => "timer I: forget an acknowledged INVITE",
            Self::J => "timer J: forget an answered request",
            Self::K => "timer K: forget a request",
            Self::L => "timer L: forget an answered INVITE",
            Self::M => "timer M: forget an INVITE that succeeded",
        }
    }
}

/// A step of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<S> {
    /// The state it is in now.
    pub state: S,
    /// What to do, in order.
    pub effects: &'static [Effect],
}

pub(crate) const fn step<S>(state: S, effects: &'static [Effect]) -> Step<S> {
    Step { state, effects }
}

/// What a status code means to a machine.
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
    /// The class of a status code; codes below 100 do not pass the parser.
    pub const fn of(status: u16) -> Self {
        match status {
            0..=199 => Self::Provisional,
            200..=299 => Self::Success,
            _ => Self::Failure,
        }
    }
}
