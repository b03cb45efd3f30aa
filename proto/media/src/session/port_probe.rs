//! Probing of consecutive ports of the peer while no packets arrive.

use super::config::PortRow;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::Instant;

/// State of the probing: next port and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortProbe {
    row: PortRow,
    next: u8,
    due: Option<Instant>,
}

impl PortProbe {
    pub(super) const fn new(row: PortRow) -> Self {
        Self { row, next: 0, due: None }
    }

    /// Starts the wait for packets of the peer.
    pub(super) fn start(&mut self, now: Instant) {
        self.next = 0;
        self.due = (self.row.ports > 0).then(|| now + self.row.after);
    }

    /// Stops the probing: a packet arrived, or the call ended.
    pub(super) fn stop(&mut self) {
        self.due = None;
    }

    /// Time of the next probe.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Next port of the row, if it is due; the first follows the last.
    pub(super) fn next(&mut self, now: Instant, signalled: SocketAddr) -> Option<SocketAddr> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = Some(now + INTERVAL);
        self.next = self.next % self.row.ports.max(1) + 1;
        // RTP and RTCP of the peer take a port each of such a NAT, as does its other traffic: any parity is possible.
        let port = signalled.port().checked_add(u16::from(self.next))?;
        Some(SocketAddr::new(signalled.ip(), port))
    }
}

/// Interval of the probes, equal to that of audio packets.
const INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_tried_in_turn_after_a_while() {
        let row = PortRow { ports: 3, after: Duration::from_secs(2) };
        let mut search = PortProbe::new(row);
        let signalled = SocketAddr::from(([192, 0, 2, 1], 4000));
        assert_eq!(search.next(Instant::from_secs(9), signalled), None);
        search.start(Instant::from_secs(10));
        assert_eq!(search.next(Instant::from_secs(11), signalled), None);
        let mut ports = alloc::vec::Vec::new();
        for _ in 0..5 {
            ports.extend(search.next(search.due().unwrap(), signalled).map(|address| address.port()));
        }
        assert_eq!(ports, [4001, 4002, 4003, 4001, 4002]);
        search.stop();
        assert_eq!(search.due(), None);
    }

    #[test]
    fn ports_above_65535_are_not_probed() {
        let mut search = PortProbe::new(PortRow { ports: 2, after: Duration::ZERO });
        search.start(Instant::from_secs(1));
        let last = SocketAddr::from(([192, 0, 2, 1], 65_535));
        assert_eq!(search.next(Instant::from_secs(1), last), None);
        assert!(search.due().is_some());
    }
}
