//! Requests of the server to its driver.

use alloc::boxed::Box;

/// A requested action that is neither a packet nor a question to [`Services`](crate::Services).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look a host name up and answer with [`Event::Resolved`](ringway_sansio::Event::Resolved).
    Resolve {
        /// The number to answer with.
        query: u64,
        /// The host name.
        host: Box<str>,
    },
}
