//! Capture of messages for a collector of HEP3 packets, such as Homer.
//!
//! Does: writes HEP3 packets ([`PacketWriter`]), keeps them in a bounded buffer, and sends them on a thread of its own over TCP or UDP
//! ([`Collector`]).
//!
//! Does not: wait on the caller's thread; keep anything while no collector is connected; look into a message.
//!
//! Start reading at [`Collector::capture`].
#![forbid(unsafe_code)]

mod collector;
mod link;
mod packet;

pub use collector::{Collector, CollectorConfig, CollectorStats};
pub use link::{CollectorTransport, MEMORY_BYTES_MAX, WAITING_BYTES_MAX};
pub use packet::{PASSWORD_BYTES_MAX, PAYLOAD_BYTES_MAX, Packet, PacketWriter, TooLong, TransportProtocol};
