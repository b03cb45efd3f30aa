//! The vocabulary between a driver and a protocol machine.
//!
//! Does: names what crosses that border: [`Instant`] and [`Rng`] (the only time and chance a machine ever
//! sees), [`Flow`] and [`Received`] (where bytes came from), [`Outbox`] (where bytes go), [`Event`] (what a
//! transport reports), [`Deadline`] and the timer [`Wheel`], and the one trait, [`Node`], through which every
//! driver (Linux, simulator, bare metal) runs every machine. Machines that send at a beat, as media does, have a trait of
//! their own: [`PacedNode`].
//!
//! Does not: know SIP, sockets, clocks or threads.
//!
//! Start reading at [`Node`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod chance;
mod context;
mod entropy;
mod flow;
mod memory;
mod node;
mod outbox;
mod paced;
mod part_hasher;
mod time;
mod transport;
mod wheel;

pub use chance::{Rng, Seed};
pub use context::Context;
pub use entropy::Entropy;
pub use flow::{ConnectionId, Event, Flow, ListenerId, Received, Token, source_of};
pub use memory::MemoryBound;
pub use node::{Framer, FramingError, Node, ShardKey};
pub use outbox::{Outbox, Packet};
pub use paced::{PacedNode, beat_after};
pub use part_hasher::PartHasher;
pub use time::{Deadline, Instant};
pub use transport::{TRANSPORTS_NOT_SUPPORTED, Transport};
pub use wheel::{TimerKey, Wheel};
