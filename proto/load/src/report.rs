//! Result of one attempt.

use core::time::Duration;
use ringway_sansio::Instant;

/// End of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Every step of the scenario was done.
    Success,
    /// A final response that the scenario does not expect.
    Status(u16),
    /// A request that the scenario does not expect.
    Request,
    /// No final response in time (timer B or F).
    TimedOut,
    /// No message of the peer in time, or no ACK for a 2xx (RFC 3261 §13.3.1.4).
    Silence,
    /// The caller cancelled the call.
    Cancelled,
    /// A transport error.
    Unreachable,
    /// A challenge that cannot be answered: no password, or an unknown algorithm.
    Challenge,
    /// A response that lacks what the next message needs.
    Malformed,
    /// The limit of transactions was reached.
    Full,
    /// All tried users still had an attempt pending: earlier attempts take longer than users are enough for. Nothing was sent.
    UserBusy,
    /// The generator was stopped before the end.
    Stopped,
}

impl Outcome {
    /// Name in results: lower case, with underscores; a response is its status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Status(_) => "status",
            Self::Request => "unexpected_request",
            Self::TimedOut => "timed_out",
            Self::Silence => "silence",
            Self::Cancelled => "cancelled",
            Self::Unreachable => "unreachable",
            Self::Challenge => "challenge",
            Self::Malformed => "malformed",
            Self::Full => "full",
            Self::UserBusy => "user_busy",
            Self::Stopped => "stopped",
        }
    }
}

/// Times and outcome of one attempt. Delays are those of RFC 6076, measured at the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Planned start. For a callee the start.
    pub planned: Instant,
    /// Time of the first send.
    pub started: Instant,
    /// End of the attempt.
    pub ended: Instant,
    /// End of the attempt in words.
    pub outcome: Outcome,
    /// Time from the first send to the first response other than 100 (session request delay).
    pub first_response: Option<Duration>,
    /// Time from the first send to the final response that is no challenge: registration request delay of a
    /// REGISTER, time to the 200 of a call.
    pub final_response: Option<Duration>,
    /// Time from the BYE to its final response (session disconnect delay).
    pub disconnect: Option<Duration>,
    /// Sum of the pauses of the scenario, such as the talk time, and of the ring time: from the first provisional response other
    /// than 100 to the final one. No server shortens it.
    pub paused: Duration,
}

impl Report {
    /// Report of an attempt that had no user.
    pub(crate) const fn without_user(planned: Instant, now: Instant) -> Self {
        Self {
            planned,
            started: now,
            ended: now,
            outcome: Outcome::UserBusy,
            first_response: None,
            final_response: None,
            disconnect: None,
            paused: Duration::ZERO,
        }
    }

    /// Time from the planned start to the first send.
    pub fn lag(&self) -> Duration {
        self.started.since(self.planned)
    }
}
