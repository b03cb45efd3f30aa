//! Actions that the server requests from its driver.

use crate::Aor;
use ringway_sansio::{NumberTarget, RelayRequest, Target};

/// Requested action: anything but a packet or a query to the [`Host`](crate::Host).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up the servers of a host name; the result is [`Event::Resolved`](ringway_sansio::Event::Resolved).
    Resolve {
        /// Number of the query, for the result.
        query: u64,
        /// The host name, and what its URI says.
        target: Target,
    },
    /// Look up the URIs of a telephone number; the result is
    /// [`Event::NumberResolved`](ringway_sansio::Event::NumberResolved).
    ResolveNumber {
        /// Number of the query, for the result.
        query: u64,
        /// The telephone number, and the zones.
        target: NumberTarget,
    },
    /// Read the bindings of a user from the store that nodes share. The record is passed to [`Server::on_record`](crate::Server::on_record),
    /// then follows [`Event::Located`](ringway_sansio::Event::Located), in 50 ms at most.
    Locate {
        /// Number of the query, for the result.
        query: u64,
        /// The user.
        aor: Aor,
    },
    /// Deliver [`Event::StateChanged`](ringway_sansio::Event::StateChanged) with `user@domain` to the shard of this user
    /// ([`shard_of_user`](crate::shard_of_user)). One that is lost delays a NOTIFY by 30 s.
    CallsChanged {
        /// User whose calls changed.
        user: Aor,
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
