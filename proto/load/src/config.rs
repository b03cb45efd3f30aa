//! Configuration of a generator.

use crate::{Arrivals, MediaUse, Scenario, Users};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::Transport;
use ringway_transaction::Timers;

/// Configuration of a [`Generator`](crate::Generator).
#[derive(Clone, Debug)]
pub struct Config {
    /// Steps of each attempt.
    pub scenario: Arc<Scenario>,
    /// Users whose attempts are made, in order.
    pub users: Users,
    /// Called users. Attempt `n` of user `n` calls peer `n`.
    pub peers: Users,
    /// Domain of the users.
    pub domain: String,
    /// Address of the server.
    pub remote: SocketAddr,
    /// Transport to the server.
    pub transport: Transport,
    /// Connections of a stream transport.
    pub connections: ConnectionUse,
    /// True if requests inside a dialog without routes go to [`Config::remote`] too, not to the peer's Contact: the server is an
    /// outbound proxy.
    pub is_outbound_proxy: bool,
    /// Local addresses, one for each listener. User `n` has address `n`, modulo their number. Empty: attempts fail.
    pub locals: Vec<SocketAddr>,
    /// Address in the SDP.
    pub media: SocketAddr,
    /// Media streams of the calls. The scenario's SDP must agree with it.
    pub media_use: MediaUse,
    /// Planned times of the attempts; not used by a callee.
    pub arrivals: Option<Arrivals>,
    /// Values of T1, T2 and T4.
    pub timers: Timers,
    /// Maximum number of open attempts.
    pub attempts_max: usize,
    /// Maximum wait for a request of the peer, and for a final response after a provisional one.
    pub silence_max: Duration,
}

/// Connections of a stream transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionUse {
    /// One connection for each local address.
    #[default]
    Shared,
    /// One connection for each user.
    PerUser,
    /// One connection for each attempt.
    PerAttempt,
}

impl Config {
    /// Default of [`Config::attempts_max`].
    pub const ATTEMPTS_MAX: usize = 1_000_000;
    /// Default of [`Config::silence_max`]: timer C of a proxy (RFC 3261 §16.6).
    pub const SILENCE_MAX: Duration = Duration::from_secs(180);
}
