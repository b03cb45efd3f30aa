//! Locating SIP servers (RFC 3263), and the SIP URIs of telephone numbers (RFC 6116), by DNS, off the packet path.
//!
//! Does: runs a [`Locator`](ringway_resolve::Locator) or a [`NumberSearch`](ringway_resolve::NumberSearch) for each query on
//! one thread; asks DNS servers, and caches what they answer; bounds number and time of the queries, of each source and of
//! all: [`Resolver`].
//!
//! Does not: decide about transports and order (`ringway_resolve`), read the wire format of DNS (`hickory-resolver`).
//!
//! Start reading at [`Resolver`].

#![forbid(unsafe_code)]

mod answers;
mod limits;
mod resolver;

pub use answers::{Servers, answers_size};
pub use resolver::{NotStarted, Resolver};
