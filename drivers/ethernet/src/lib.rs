//! Ethernet driver: runs protocol machines on a network card without an operating system.
//!
//! Does: defines the interface of a network card ([`Card`]); runs a [`Node`](ringway_sansio::Node) on a card
//! ([`Station`]) with UDP and TCP over IPv4, ARP, ICMP echo, DHCP and DNS; fetches files by TFTP ([`Download`]); runs a
//! [`PacedNode`](ringway_sansio::PacedNode) beside the node ([`PacedStation`]). Datagrams to the node's ports are read
//! in the card's buffers; all other traffic goes through smoltcp.
//!
//! Does not: access hardware, read clocks, contain anything of SIP, support IPv6.
//!
//! Start reading at [`Station`].

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod counters;
mod frame;
mod neighbours;
mod paced;
mod stack;
mod station;
mod streams;
mod tftp;
mod wire;

pub use counters::StationCounters;
pub use frame::{Card, CardCounters, FRAME_BYTES_MAX};
pub use neighbours::NEIGHBOURS_MAX;
pub use paced::{PacedCounters, PacedStation};
pub use stack::Change;
pub use station::{Port, Station, Worked};
pub use streams::CONNECTIONS_MAX;
pub use tftp::{
    Download, DownloadError, DownloadFailure, DownloadLimits, DownloadOutput, DownloadProgress, TFTP_PORT,
};
pub use wire::{Lease, NAME_SERVERS_MAX};
