//! Servers that failed a short time ago (RFC 3263 §4.3).

use alloc::collections::VecDeque;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Instant, LocatedServer, Transport};

/// Servers to which requests failed, shared by all shards behind [`Services`](crate::Services). They are tried after the
/// others of their host, so that a server that is down costs one request its timeout and not each.
#[derive(Debug, Default)]
pub struct FailedServers {
    /// The first failed first.
    list: VecDeque<(Transport, SocketAddr, Instant)>,
}

impl FailedServers {
    /// Maximum number of servers; the oldest gives way.
    pub const SERVERS_MAX: usize = 256;
    /// Time for which a failure counts.
    pub const FAILED_TIME: Duration = Duration::from_secs(60);

    /// Notes a failure.
    pub fn note(&mut self, now: Instant, server: &LocatedServer) {
        self.list.retain(|(transport, address, until)| {
            *until > now && (*transport, *address) != (server.transport, server.address)
        });
        if self.list.len() >= Self::SERVERS_MAX {
            self.list.pop_front();
        }
        self.list.push_back((server.transport, server.address, now + Self::FAILED_TIME));
    }

    /// True if the server failed within [`FailedServers::FAILED_TIME`].
    pub fn has(&self, now: Instant, server: &LocatedServer) -> bool {
        self.list.iter().any(|(transport, address, until)| {
            *until > now && (*transport, *address) == (server.transport, server.address)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{HostNameId, Target};

    #[test]
    fn failures_are_forgotten_in_time_and_number() {
        let (mut failed, now) = (FailedServers::default(), Instant::from_secs(1));
        let server = |port: u16| {
            let target = Target::of_address("192.0.2.1", port, Transport::Udp);
            target.server_at([192, 0, 2, 1].into(), HostNameId::NONE)
        };
        for port in 1..=300 {
            failed.note(now, &server(port));
            failed.note(now, &server(port));
        }
        assert_eq!(failed.list.len(), FailedServers::SERVERS_MAX);
        assert!(failed.has(now, &server(300)) && !failed.has(now, &server(1)));
        assert!(!failed.has(now + FailedServers::FAILED_TIME, &server(300)));
    }
}
