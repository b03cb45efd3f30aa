//! Ends of attempts.

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
    /// The server had asked the user to wait (Retry-After), who did. Nothing was sent.
    Withheld,
    /// A search of the scenario found nothing, or something that it must not find.
    NoMatch,
    /// The scenario's jumps led through too many steps in a row without a wait.
    EndlessLoop,
    /// A value of a variable, or a line for the log, is too long.
    TooLong,
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
            Self::Withheld => "withheld",
            Self::NoMatch => "no_match",
            Self::EndlessLoop => "endless_loop",
            Self::TooLong => "too_long",
            Self::Stopped => "stopped",
        }
    }
}
