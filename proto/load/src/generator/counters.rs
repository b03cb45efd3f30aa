//! Counters of a generator.

/// Counters of a generator; the values only increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Attempts that were started.
    pub started: u64,
    /// Planned attempts that were not started because [`Config::attempts_max`](crate::Config::attempts_max) was reached.
    pub dropped: u64,
    /// Requests sent, without retransmissions.
    pub requests: u64,
    /// Received challenges: 401 and 407.
    pub challenges: u64,
    /// Retransmissions of requests and of 2xx to INVITE.
    pub retransmissions: u64,
    /// Messages that cannot be parsed.
    pub malformed: u64,
    /// Messages that belong to no attempt.
    pub stray: u64,
}
