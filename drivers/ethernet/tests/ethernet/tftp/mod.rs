//! Downloads over a network in memory with a virtual clock, from a server with configurable faults.
//!
//! Tested: blocks and options, refusals and wrong announcements of the server, loss, duplication and reordering from
//! seeds, other senders, truncated packets, no answer. Not tested here: other TFTP implementations.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_networks;
mod files;
mod network;
mod refusals;
mod strangers;

use self::network::Network;
use ringway_ethernet::{DownloadFailure, DownloadLimits};
use ringway_test_support::tftp::TftpServer;

/// A file whose bytes depend on their offset.
fn file(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n ^ (n >> 8) ^ (n >> 16)) as u8).collect()
}

/// A server with one file.
fn serving(bytes: Vec<u8>) -> TftpServer {
    TftpServer::new("users.csv", bytes)
}

/// Downloads from `server` over a network without faults.
fn fetch(server: TftpServer) -> (Network, Result<Vec<u8>, DownloadFailure>) {
    let mut network = Network::new(server, DownloadLimits::default());
    let result = network.run();
    (network, result)
}

/// Failure of a download from `server`.
fn failure(server: TftpServer) -> DownloadFailure {
    fetch(server).1.unwrap_err()
}
