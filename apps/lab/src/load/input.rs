//! Input of a generator from its sockets.

use ringway_sansio::{IcmpError, Received};

/// Input of a generator from its sockets.
pub(crate) enum Input<'a> {
    /// Message of a peer.
    Message(Received<'a>),
    /// ICMP error for a datagram of the generator.
    Icmp(IcmpError<'a>),
}
