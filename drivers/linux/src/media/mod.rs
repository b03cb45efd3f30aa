//! Media on time: a pair of ports, and the one thread that runs a [`PacedNode`](ringway_sansio::PacedNode) at them.
//!
//! Start reading at [`MediaThread::start`], then `beat.rs`, which is the thread's life.

mod beat;
mod counts;
mod ports;
mod thread;

pub use counts::{MediaCounts, Priority};
pub use ports::{MediaPorts, PortRange, PortsError, RTCP_PORT, RTP_PORT};
pub use thread::{MediaConfig, MediaTally, MediaThread};

#[cfg(test)]
mod tests;
