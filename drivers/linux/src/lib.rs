//! Bytes and time on Linux for the protocol machines.
//!
//! Does: runs any [`ringway_sansio::Node`] on worker threads over UDP and TCP ([`Runtime`]), keeps its time
//! ([`Clock`]), looks names up ([`Resolver`]), takes the process's signals ([`signals`]) and moves
//! sound. [`Shards`], [`Connections`] and [`Tally`] are handles for those who look from outside.
//!
//! Does not: know SIP beyond what a node says of itself; store anything; serve administrators; look up SRV or NAPTR records; speak TLS or WebSocket.
//!
//! Start reading at [`Runtime::start`], then `worker.rs`, which is the life of a message here.

mod action;
mod clock;
mod config;
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
mod shared;
pub mod signals;
mod sources;
mod stream;
pub mod sys;
mod tcp;
mod trace;
mod udp;
mod worker;

pub use action::{ActionSink, NoActions};
pub use clock::Clock;
pub use config::Config;
pub use counters::Counts;
pub use held::MarkedPackets;
pub use inbox::Inboxes;
pub use listen::{BindError, Bound, Listen, ListenError};
pub use listing::{Connections, OpenConnection};
pub use resolve::Resolver;
pub use ringway_stream::StreamLimits;
pub use runtime::{Runtime, StartError, Tally};
pub use shard::{Shards, shard_of_token};
pub use trace::{Direction, MessageTrace};
