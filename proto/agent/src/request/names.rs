//! Cache of resolved host names.

use crate::next_hop::NextHop;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Instant, LocatedServer};

/// Cache of resolved names, so that an ACK and a BYE are sent without another lookup.
#[derive(Debug, Default)]
pub(crate) struct ResolvedNames {
    known: Vec<(NextHop, LocatedServer, Instant)>,
}

impl ResolvedNames {
    pub(crate) fn find(&self, now: Instant, hop: &NextHop) -> Option<LocatedServer> {
        let found = self.known.iter().find(|(known, _, until)| *until > now && known == hop);
        found.map(|(_, server, _)| *server)
    }

    /// Adds a server. True if the oldest entry was removed for it.
    pub(crate) fn remember(&mut self, now: Instant, hop: NextHop, server: LocatedServer) -> bool {
        self.known.retain(|(known, _, until)| *until > now && *known != hop);
        let is_full = self.known.len() >= NAMES_MAX;
        if is_full {
            self.known.remove(0);
        }
        self.known.push((hop, server, now + NAME_LIFETIME));
        is_full
    }
}

const NAMES_MAX: usize = 16;
const NAME_LIFETIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;
    use ringway_sansio::{HostNameId, Transport};

    #[test]
    fn names_are_forgotten_in_time_and_number() {
        let mut names = ResolvedNames::default();
        let now = Instant::from_secs(1);
        let hop = |number: u8| NextHop {
            host: alloc::format!("host{number}"),
            port: None,
            transport: Transport::Udp,
        };
        let server = |number: u8| {
            let ip = IpAddr::from([192, 0, 2, number]);
            hop(number).target(0).server_at(ip, HostNameId::NONE)
        };
        for number in 0..40 {
            let is_displaced = names.remember(now, hop(number), server(number));
            assert_eq!(is_displaced, usize::from(number) >= NAMES_MAX, "{number}");
        }
        assert_eq!(names.known.len(), NAMES_MAX);
        assert_eq!(names.find(now, &hop(39)), Some(server(39)));
        assert_eq!(names.find(now, &NextHop { port: Some(5070), ..hop(39) }), None, "another server");
        assert_eq!(names.find(now + NAME_LIFETIME, &hop(39)), None);
    }
}
