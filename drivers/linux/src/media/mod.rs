//! Media threads: a pair of UDP ports, and a thread that runs a [`PacedNode`](ringway_sansio::PacedNode) at them.
//!
//! Start reading at [`MediaThread::start`], then `tick_loop.rs`, the loop of the thread.

mod counts;
mod ports;
mod thread;
mod tick_loop;

pub use counts::{MediaCounts, Priority};
pub use ports::{MediaPorts, PortRange, PortsError, RTCP_PORT, RTP_PORT};
pub use thread::{MediaConfig, MediaCountersReader, MediaThread};

#[cfg(test)]
mod tests;
