//! Servers that failed a short time ago (RFC 3263 §4.3), or asked for a pause (RFC 3261 §21.5.4).

use alloc::collections::VecDeque;
use core::time::Duration;
use ringway_sansio::{Instant, LocatedServer, LocatedServers, TableSize};
use ringway_sip::Message;

/// Servers to which requests failed, shared by all shards in [`SharedTables`](crate::SharedTables). They are tried after the
/// others of their host, so that a server that is down costs one request its timeout and not each.
///
/// A connection that failed for one host name says nothing of another name: the certificate may be that of the other one
/// only, and anybody can have SRV records that name a foreign server.
#[derive(Debug, Default)]
pub struct FailedServers {
    /// The first failed first.
    list: VecDeque<(LocatedServer, Instant)>,
}

impl FailedServers {
    /// Maximum number of servers; the oldest gives way.
    pub const SERVERS_MAX: usize = 256;

    /// Memory of the list.
    pub const fn size() -> TableSize {
        TableSize::of_list("servers that failed", Self::SERVERS_MAX, size_of::<(LocatedServer, Instant)>())
    }
    /// Time for which a failure counts.
    pub const FAILED_TIME: Duration = Duration::from_secs(60);

    /// Notes a failure that counts until `until`.
    pub fn note(&mut self, now: Instant, server: &LocatedServer, until: Instant) {
        self.list.retain(|(failed, until)| *until > now && failed != server);
        if self.list.len() >= Self::SERVERS_MAX {
            self.list.pop_front();
        }
        self.list.push_back((*server, until));
    }

    /// True if a failure of the server counts.
    pub fn has(&self, now: Instant, server: &LocatedServer) -> bool {
        self.until(now, server).is_some()
    }

    /// Time until which a failure of the server counts.
    pub(crate) fn until(&self, now: Instant, server: &LocatedServer) -> Option<Instant> {
        let mut counts = self.list.iter().filter(|(failed, until)| *until > now && failed == server);
        counts.next().map(|(_, until)| *until)
    }

    /// The servers with those at the end that are in this list.
    pub(crate) fn last_of(&self, now: Instant, servers: LocatedServers) -> LocatedServers {
        put_last(servers, |server| self.has(now, server))
    }
}

/// End of the pause that a 503 with Retry-After asks for, at most [`PAUSE_MAX`] from now; `None` for every other response: a 503
/// without Retry-After counts as a 500 (RFC 3261 §21.5.4).
pub(crate) fn paused_until(now: Instant, message: &Message<'_>, status: u16) -> Option<Instant> {
    if status != 503 {
        return None;
    }
    let pause = message.retry_after().filter(|pause| !pause.is_zero())?;
    Some(now + pause.min(PAUSE_MAX))
}

/// The servers with those at the end that failed.
pub(crate) fn put_last(
    servers: LocatedServers,
    has_failed: impl Fn(&LocatedServer) -> bool,
) -> LocatedServers {
    let working = servers.iter().filter(|server| !has_failed(server));
    working.chain(servers.iter().filter(&has_failed)).collect()
}

/// Maximum pause that a Retry-After can ask for.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{HostNameId, Target, Transport};

    #[test]
    fn failures_are_forgotten_in_time_and_number() {
        let (mut failed, now) = (FailedServers::default(), Instant::from_secs(1));
        let server = |port: u16| {
            let target = Target::of_address("192.0.2.1", port, Transport::Udp);
            target.server_at([192, 0, 2, 1].into(), HostNameId::NONE)
        };
        for port in 1..=300 {
            failed.note(now, &server(port), now + FailedServers::FAILED_TIME);
            failed.note(now, &server(port), now + FailedServers::FAILED_TIME);
        }
        assert_eq!(failed.list.len(), FailedServers::SERVERS_MAX);
        assert!(failed.has(now, &server(300)) && !failed.has(now, &server(1)));
        assert!(!failed.has(now + FailedServers::FAILED_TIME, &server(300)));
    }

    #[test]
    fn a_connection_that_fails_for_one_name_is_not_held_against_another() {
        let (mut failed, now) = (FailedServers::default(), Instant::from_secs(1));
        let server = |transport, host| {
            let target = Target::of_address("192.0.2.1", 5061, transport);
            target.server_at([192, 0, 2, 1].into(), HostNameId(host))
        };
        failed.note(now, &server(Transport::Tls, 1), now + FailedServers::FAILED_TIME);
        failed.note(now, &server(Transport::Udp, 1), now + FailedServers::FAILED_TIME);
        assert!(failed.has(now, &server(Transport::Tls, 1)) && !failed.has(now, &server(Transport::Tls, 2)));
        assert!(failed.has(now, &server(Transport::Udp, 2)), "datagrams have no names");
    }
}
