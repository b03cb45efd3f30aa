//! Offered load of a row, and what became of it.

use ringway_lab::server::Carrier;
use ringway_lab::subject::Routing;

/// Messages of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Traffic {
    /// REGISTER, 200.
    Register,
    /// REGISTER, 401, REGISTER, 200.
    RegisterPair,
    /// INVITE, 100 if stateful, 180, 200, ACK, BYE, 200.
    Call,
}

/// An offered load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) what: &'static str,
    pub(super) traffic: Traffic,
    /// Operations a second.
    pub(super) rate: u32,
    pub(super) carrier: Carrier,
    pub(super) routing: Routing,
}

/// Result of one load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Played {
    /// Successful operations.
    pub(super) successful: u64,
    pub(super) retransmissions: u64,
    /// Text for a load that was not made as planned.
    pub(super) slow: Option<String>,
}
