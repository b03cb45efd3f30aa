//! Locating SIP servers by DNS (RFC 3263), off the packet path.
//!
//! Does: runs a [`Locator`](ringway_resolve::Locator) for each query on one thread; asks DNS servers, and caches what
//! they answer; bounds number and time of the queries, of each source and of all: [`Resolver`].
//!
//! Does not: decide about transports and order (`ringway_resolve`), read the wire format of DNS (`hickory-resolver`).
//!
//! Start reading at [`Resolver`].
#![forbid(unsafe_code)]

mod answers;
mod records;
mod resolver;
mod shares;
mod silent;
mod texts;

pub use records::Servers;
pub use resolver::{NotStarted, Resolver};
