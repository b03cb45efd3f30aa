//! Linux driver: runs protocol machines on sockets.
//!
//! Does: runs any [`ringway_sansio::Node`] on worker threads over UDP and TCP ([`Runtime`]) and a
//! [`ringway_sansio::PacedNode`] on a media thread ([`media`]), serves UDP clients on the workers ([`DatagramClient`]),
//! provides their clock ([`Clock`]), numbers host names ([`Hosts`]), and receives the process's signals ([`process`]).
//! [`Shards`], [`Connections`] and [`CountersReader`] are handles for other threads. [`Stream`] and [`sys`] are its parts,
//! for other loops on sockets.
//!
//! Does not: interpret SIP; store anything; serve the admin API; look up host names; speak TLS or
//! WebSocket: the program adds them ([`Layers`]).
//!
//! Start reading at [`Runtime::start`], then `worker/mod.rs`, which handles every message.

mod associations;
mod config;
mod counters;
mod dscp;
mod filled;
mod held;
mod hosts;
mod inbox;
mod listeners;
pub mod media;
pub mod process;
pub mod runtime;
mod shard;
mod shared;
mod sizes;
pub mod sys;
mod tcp;
mod worker;

pub use config::{
    Acceptance, AcceptanceRule, BoxedLayer, Clock, Config, Direction, Layers, MessageBytesMax, MessageTrace,
    PlainTcp, Resume, SystemLocks,
};
pub use counters::{Counts, TurnCounts};
pub use dscp::{Dscp, NotADscp};
#[doc(hidden)]
pub use filled::{FILLED_TABLES, FilledTable};
pub use held::MarkedPackets;
pub use hosts::Hosts;
pub use inbox::{DatagramClient, Inboxes};
pub use listeners::{Attached, BindError, Bound, LISTENERS_MAX, Listen, ListenError, Watched};
pub use ringway_stream::StreamLimits;
pub use runtime::{CountersReader, Runtime, StartError};
pub use shard::{ActionSink, NoActions, Shards, shard_of_token};
pub use shared::connections::{Connections, OpenConnection};
pub use sizes::RuntimeSize;
pub use tcp::stream::{Filled, More, Stream, Written, connect};
