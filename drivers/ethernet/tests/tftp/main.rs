//! Files fetched over a network in memory, on a virtual clock, from a server that can be told to misbehave.
//!
//! Tested: blocks and options, the server's refusals and lies, loss, duplication and reordering from seeds, strangers,
//! what is cut off, silence. Not tested here: other people's servers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bad_networks;
mod files;
mod network;
mod refusals;
mod strangers;

use network::Network;
use ringway_ethernet::{DownloadFailure, DownloadLimits};
use ringway_test_support::tftp::TftpServer;

/// A file whose bytes tell where they belong.
fn file(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n ^ (n >> 8) ^ (n >> 16)) as u8).collect()
}

/// A server that has `bytes` as the file.
fn serving(bytes: Vec<u8>) -> TftpServer {
    TftpServer::new("users.csv", bytes)
}

/// Fetches from `server` over a network without faults.
fn fetch(server: TftpServer) -> (Network, Result<Vec<u8>, DownloadFailure>) {
    let mut network = Network::new(server, DownloadLimits::default());
    let result = network.run();
    (network, result)
}

/// Why nothing came from `server`.
fn failure(server: TftpServer) -> DownloadFailure {
    fetch(server).1.unwrap_err()
}
