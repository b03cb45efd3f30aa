//! From Ethernet frames to protocol machines, without an operating system.
//!
//! Does: names what a network card is ([`Card`]), and runs a [`Node`](ringway_sansio::Node) on one ([`Station`]): UDP and
//! TCP over IPv4, ARP, ICMP echo, DHCP and DNS; fetches files by TFTP ([`Download`]); keeps the beat of a
//! [`PacedNode`](ringway_sansio::PacedNode) beside it ([`PacedStation`]). Datagrams to the node's ports are read
//! where the card put them; all else goes through smoltcp.
//!
//! Does not: touch hardware, read clocks, know SIP, or have IPv6.
//!
//! Start reading at [`Station`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod card;
mod checksum;
mod counters;
mod fetch;
mod frame;
mod lease;
mod neighbours;
mod paced;
mod stack;
mod station;
mod streams;
mod tftp;
mod wire;

pub use card::{Card, CardCounters, FRAME_BYTES_MAX};
pub use counters::StationCounters;
pub use lease::{Lease, NAME_SERVERS_MAX};
pub use neighbours::NEIGHBOURS_MAX;
pub use paced::{PacedCounters, PacedStation};
pub use stack::Change;
pub use station::{Port, Station, Worked};
pub use streams::CONNECTIONS_MAX;
pub use tftp::{
    Download, DownloadError, DownloadFailure, DownloadLimits, DownloadOutput, DownloadProgress, TFTP_PORT,
};
