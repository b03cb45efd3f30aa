//! Choice among the servers of a carrier's host name for the attempts of a registration (RFC 3263 §4.3).

use core::time::Duration;
use ringway_sansio::{Instant, LocatedServer, LocatedServers};

/// Servers of a registration: the one of this attempt, and those of the attempts before.
#[derive(Debug, Default)]
pub(super) struct ServerChoice {
    /// Servers of the last lookup that this server has a listener for.
    located: LocatedServers,
    /// Server of this attempt; `None`: no lookup, or none found.
    current: Option<LocatedServer>,
    /// Server that granted the last registration.
    good: Option<LocatedServer>,
    /// Servers whose attempts failed since then.
    tried: LocatedServers,
}

impl ServerChoice {
    /// Begins an attempt, whose server is not located yet.
    pub(super) const fn begin(&mut self) {
        self.current = None;
    }

    /// Chooses the server of an attempt: one that did not fail, for any request or in the last attempts; of several the one that granted
    /// the last registration, or else the first one. Of servers that all failed the one whose failure ends first.
    pub(super) fn choose(
        &mut self,
        located: LocatedServers,
        failed_until: impl Fn(&LocatedServer) -> Option<Instant>,
    ) -> Option<LocatedServer> {
        let still_there = self.tried.iter().filter(|server| has(&located, server));
        let tried: LocatedServers = still_there.collect();
        self.tried =
            if located.iter().all(|server| has(&tried, &server)) { LocatedServers::NONE } else { tried };
        self.located = located;
        self.current = located.iter().min_by_key(|server| {
            (failed_until(server), has(&self.tried, server), self.good != Some(*server))
        });
        self.current
    }

    pub(super) const fn on_success(&mut self) {
        (self.good, self.tried) = (self.current, LocatedServers::NONE);
    }

    pub(super) fn on_failure(&mut self) {
        let failed = self.current.filter(|server| !has(&self.tried, server));
        self.tried = self.tried.iter().chain(failed).collect();
    }

    pub(super) const fn current(&self) -> Option<LocatedServer> {
        self.current
    }

    /// Time until the next attempt if the server of this one asks for a pause: no longer than until another server is free.
    pub(super) fn pause(
        &self,
        now: Instant,
        pause: Duration,
        failed_until: impl Fn(&LocatedServer) -> Option<Instant>,
    ) -> Duration {
        let others = self.located.iter().filter(|server| self.current.is_some_and(|own| own != *server));
        let free =
            others.map(|server| failed_until(&server).map_or(Duration::ZERO, |until| until.since(now)));
        free.min().map_or(pause, |free| free.min(pause))
    }
}

fn has(servers: &LocatedServers, server: &LocatedServer) -> bool {
    servers.iter().any(|other| other == *server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{HostNameId, Transport};

    fn server(last: u8) -> LocatedServer {
        LocatedServer::new(Transport::Udp, ([192, 0, 2, last], 5060).into(), HostNameId::NONE)
    }

    #[test]
    fn each_server_gets_its_turn_and_the_one_that_granted_comes_first() {
        let located: LocatedServers = [1, 2, 3].map(server).into_iter().collect();
        let mut choice = ServerChoice::default();
        for last in [1, 2, 3, 1] {
            assert_eq!(choice.choose(located, |_| None), Some(server(last)));
            choice.on_failure();
        }
        assert_eq!(choice.choose(located, |_| None), Some(server(2)));
        choice.on_success();
        assert_eq!(choice.choose(located, |_| None), Some(server(2)), "the last good one");
        let until = |of: &LocatedServer| Some(Instant::from_secs(u64::from(of == &server(1)) + 1));
        assert_eq!(choice.choose(located, until), Some(server(2)), "all failed");
        let only_good = |of: &LocatedServer| (of == &server(2)).then(|| Instant::from_secs(9));
        assert_eq!(choice.choose(located, only_good), Some(server(1)), "the good one failed");
    }

    #[test]
    fn a_pause_ends_when_another_server_is_free() {
        let (now, hour) = (Instant::from_secs(10), Duration::from_secs(3600));
        let mut choice = ServerChoice::default();
        assert_eq!(choice.pause(now, hour, |_| None), hour, "an address without a name");
        choice.choose(server(1).into(), |_| None);
        assert_eq!(choice.pause(now, hour, |_| None), hour, "no other");
        choice.choose([1, 2].map(server).into_iter().collect(), |_| None);
        assert_eq!(choice.pause(now, hour, |_| None), Duration::ZERO);
        let busy = |_: &LocatedServer| Some(Instant::from_secs(70));
        assert_eq!(choice.pause(now, hour, busy), Duration::from_secs(60));
    }
}
