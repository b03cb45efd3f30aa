//! A virtual network and a virtual clock, in one thread and from one seed.
//!
//! Does: runs the same machines as the other drivers, with datagrams that are lost, doubled, delayed and overtaken
//! ([`Faults`]), with stream connections ([`ringway_stream::Connection`], as on Linux) that are dialled, cut into pieces, read
//! slowly, left half-open and closed, and with a clock that jumps to whatever happens next ([`Sim`]). The same seed makes the same run; [`Trace`] says what was on the wire.
//!
//! Does not: know SIP, sleep, read a clock, or open a socket.
//!
//! Start reading at [`Sim`]; how a machine gets in is [`Hosted`].
#![forbid(unsafe_code)]

mod connection;
mod faults;
mod host;
mod sim;
mod stream;
mod trace;

pub use connection::{SimConnection, Socket};
pub use faults::Faults;
pub use host::{Effects, HostId, Hosted, SimNode, shard_key};
pub use sim::{AddressInUse, Reading, Sim};
pub use trace::{Fate, Seen, Trace};

#[cfg(test)]
mod tests;
