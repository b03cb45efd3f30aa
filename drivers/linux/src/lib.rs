//! Linux driver: runs protocol machines on sockets.
//!
//! Does: runs any [`ringway_sansio::Node`] on worker threads over UDP and TCP ([`Runtime`]) and a
//! [`ringway_sansio::PacedNode`] on a media thread ([`media`]), serves UDP clients on the workers ([`DatagramClient`]),
//! provides their clock ([`Clock`]), numbers host names ([`Hosts`]), and receives the process's signals ([`signals`]).
//! [`Shards`], [`Connections`] and [`CountersReader`] are handles for other threads. [`Stream`] and [`sys`] are its parts,
//! for other loops on sockets.
//!
//! Does not: interpret SIP; store anything; serve the admin API; look up host names; speak TLS or
//! WebSocket: the program adds them ([`Layers`]).
//!
//! Start reading at [`Runtime::start`], then `worker.rs`, which handles every message.

mod action;
mod associations;
mod client;
mod clock;
mod config;
mod connected;
mod connection_id;
mod counter;
mod counters;
mod held;
mod hosts;
mod icmp;
mod inbox;
mod layers;
mod listen;
mod listeners;
mod listing;
mod lock;
pub mod media;
pub mod memory;
mod nodes;
pub mod process;
pub mod runtime;
mod shard;
mod shared;
pub mod signals;
mod socket_change;
mod sources;
mod stream;
pub mod sys;
mod tcp;
mod trace;
mod turn_times;
mod udp;
mod watched;
mod worker;

pub use action::{ActionSink, NoActions};
pub use client::DatagramClient;
pub use clock::Clock;
pub use config::{Config, MessageBytesMax};
pub use counters::Counts;
pub use held::MarkedPackets;
pub use hosts::Hosts;
pub use inbox::Inboxes;
pub use layers::{BoxedLayer, Layers, PlainTcp, Resume};
pub use listen::{BindError, Bound, LISTENERS_MAX, Listen, ListenError};
pub use listeners::Attached;
pub use listing::{Connections, OpenConnection};
pub use lock::SystemLocks;
pub use ringway_stream::StreamLimits;
pub use runtime::{CountersReader, Runtime, StartError};
pub use shard::{Shards, shard_of_token};
pub use stream::{Filled, More, Stream, Written, connect};
pub use trace::{Direction, MessageTrace};
pub use turn_times::TurnCounts;
pub use watched::Watched;
