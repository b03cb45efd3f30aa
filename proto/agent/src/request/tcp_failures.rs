//! Addresses that large requests could not be sent to by TCP.

use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::Instant;

/// Addresses to which a large request was sent by UDP after TCP had failed (RFC 3261 §18.1.1). Where TCP is filtered each attempt
/// costs the time limit of a connection, so the next large requests are sent by UDP at once.
#[derive(Debug, Default)]
pub(crate) struct TcpFailures {
    known: Vec<(SocketAddr, Instant)>,
}

impl TcpFailures {
    pub(crate) fn contains(&self, now: Instant, address: SocketAddr) -> bool {
        self.known.iter().any(|(known, until)| *known == address && *until > now)
    }

    /// Adds an address. True if the oldest entry was removed for it.
    pub(crate) fn note(&mut self, now: Instant, address: SocketAddr) -> bool {
        self.known.retain(|(known, until)| *until > now && *known != address);
        let is_full = self.known.len() >= ADDRESSES_MAX;
        if is_full {
            self.known.remove(0);
        }
        self.known.push((address, now + LIFETIME));
        is_full
    }

    pub(crate) fn forget(&mut self, address: SocketAddr) {
        self.known.retain(|(known, _)| *known != address);
    }
}

/// More addresses than a phone has servers and calls.
const ADDRESSES_MAX: usize = 16;
/// A filter stays for long, but a phone moves to other networks.
const LIFETIME: Duration = Duration::from_secs(3600);
