//! Actions that the server requests from its driver.

use alloc::boxed::Box;

/// Requested action: anything but a packet or a query to [`Services`](crate::Services).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up the address of a host name; the result is [`Event::Resolved`](ringway_sansio::Event::Resolved).
    Resolve {
        /// Number of the query, for the result.
        query: u64,
        /// Host name.
        host: Box<str>,
    },
}
