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

mod counters;
mod defence;
mod flow;
mod node;
mod outbox;
mod planted_fault;
mod queue;
mod requests;
mod seed;
mod sharing;
mod shedding;
mod source;
mod switch;
mod table_size;
mod time;
mod transport;

pub use defence::Defence;
pub use flow::{
    ConnectionId, DialledId, Event, Flow, IcmpError, LimitHolder, ListenerId, PeerNames, Received, Token,
    WideNetwork,
};
pub use node::{Context, Framer, FramingError, Node, PacedNode, ShardKey, tick_after};
pub use outbox::{Dialler, Outbox, Packet};
pub use planted_fault::PlantedFault;
pub use queue::{Queue, Waited};
pub use requests::{
    HostNameId, LocatedServer, LocatedServers, NoSigner, NumberTarget, RelayCall, RelayHolder, RelayId,
    RelayInterfaces, RelayKind, RelayMedia, RelayRequest, RelayResult, RelaySide, SignerCertificate,
    SignerNumbers, Target,
};
pub use seed::{Entropy, PartHasher, Rng, Seed};
pub use sharing::{Guarded, Locked, Locks, MemoryBound};
pub use shedding::Shedding;
pub use source::{limit_of_source, source_of};
pub use table_size::TableSize;
pub use time::{Deadline, Instant, TimerKey, Wheel};
pub use transport::Transport;
