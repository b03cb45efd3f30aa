//! Virtual network and virtual clock, in one thread and from one seed.
//!
//! Does: runs the same machines as the other drivers, with datagrams that are lost, duplicated, delayed and reordered
//! ([`Faults`]), with stream connections ([`ringway_stream::Connection`], as on Linux) that are dialled, segmented, read
//! slowly, left half-open and closed, whose layers a host may set, such as TLS ([`Sim::set_layers`]), and with a clock that
//! advances to the next event ([`Sim`]). Equal seeds give equal
//! runs; [`Trace`] has the sent packets.
//!
//! Does not: contain SIP, sleep, read a clock, or open a socket.
//!
//! Start reading at [`Sim`]; [`Hosted`] adapts a machine to it.
#![forbid(unsafe_code)]

mod connection;
mod faults;
mod host;
mod sim;
mod stream;
mod trace;

pub use connection::{SimConnection, Socket};
pub use faults::Faults;
pub use host::{Effects, HostId, Hosted, SimLocks, SimNode, shard_key};
pub use sim::{AddressInUse, ClosedPorts, Reading, Sim};
pub use trace::{Fate, Trace, TracedPacket};

#[cfg(test)]
mod tests;
