//! Actions that the server requests from its driver.

use ringway_sansio::{RelayRequest, Target};

/// Requested action: anything but a packet or a query to [`Services`](crate::Services).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up the servers of a host name; the result is [`Event::Resolved`](ringway_sansio::Event::Resolved).
    Resolve {
        /// Number of the query, for the result.
        query: u64,
        /// The host name, and what its URI says.
        target: Target,
    },
    /// Send a request to a media relay; the result is [`Event::Relayed`](ringway_sansio::Event::Relayed). A request to
    /// delete has none.
    Relay {
        /// Number of the query, for the result.
        query: u64,
        /// The request.
        request: RelayRequest,
    },
}
