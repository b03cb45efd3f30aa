//! Bytes, time and stores on Linux for the protocol machines.
//!
//! Does: runs any [`ringway_sansio::Node`] on worker threads over UDP and TCP ([`Runtime`]), keeps its time
//! ([`Clock`]), looks names up ([`Resolver`]), takes the process's signals ([`signals`]), keeps subscribers and
//! bindings, and serves administrators.
//!
//! Does not: know SIP beyond what a node says of itself; look up SRV or NAPTR records; speak TLS or WebSocket.
//!
//! Start reading at [`Runtime::start`], then `worker.rs`, which is the life of a message here.

mod action;
pub mod admin;
mod clock;
mod counters;
mod held;
mod inbox;
mod listen;
mod listing;
pub mod media;
pub mod memory;
pub mod resolve;
mod runtime;
mod shard;
pub mod signals;
pub mod sound;
mod sources;
pub mod store;
mod stream;
pub mod sys;
mod tcp;
mod trace;
mod udp;
mod worker;

pub use action::{ActionSink, NoActions};
pub use clock::Clock;
pub use counters::Counts;
pub use inbox::Inboxes;
pub use listen::{BindError, Bound, Listen, ListenError};
pub use listing::{Connections, OpenConnection};
pub use resolve::Resolver;
pub use ringway_stream::StreamLimits;
pub use runtime::{Config, Runtime, StartError, Tally};
pub use shard::{Shards, shard_of_token};
pub use store::Durability;
pub use trace::{Direction, MessageTrace};
