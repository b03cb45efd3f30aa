//! Interface between a driver and a protocol machine.
//!
//! Does: defines the types that cross this interface: [`Instant`] and [`Rng`] (a machine has no other source of time and
//! randomness), [`Received`] and [`Event`] (input), [`Outbox`] and [`Context`] (output), [`Flow`], [`Deadline`] and the
//! timer [`Wheel`]; the locks that a driver supplies ([`Guarded`]); and the trait [`Node`], through which every driver (Linux, simulator, bare metal) runs every machine.
//! Machines that send at a fixed packet interval, such as RTP, implement [`PacedNode`].
//!
//! Does not: contain SIP, sockets, clocks or threads.
//!
//! Start reading at [`Node`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod context;
mod counters;
mod entropy;
mod flow;
mod locate;
mod lock;
mod memory;
mod node;
mod outbox;
mod paced;
mod part_hasher;
mod peer_names;
mod relay;
mod seed;
mod time;
mod transport;
mod wheel;

pub use context::Context;
pub use entropy::Entropy;
pub use flow::{
    ConnectionId, DialledId, Event, Flow, IcmpError, LimitHolder, ListenerId, Received, Token, WideNetwork,
    limit_of_source, source_of,
};
pub use locate::{HostNameId, LocatedServer, LocatedServers, NumberTarget, Target};
pub use lock::{Guarded, Locked, Locks};
pub use memory::MemoryBound;
pub use node::{Framer, FramingError, Node, ShardKey};
pub use outbox::{Dialler, Outbox, Packet};
pub use paced::{PacedNode, tick_after};
pub use part_hasher::PartHasher;
pub use peer_names::PeerNames;
pub use relay::{
    RelayCall, RelayHolder, RelayId, RelayKind, RelayMedia, RelayRequest, RelayResult, RelaySide,
};
pub use seed::{Rng, Seed};
pub use time::{Deadline, Instant};
pub use transport::Transport;
pub use wheel::{TimerKey, Wheel};
