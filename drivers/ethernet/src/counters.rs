//! Counters of a station.

use ringway_stream::CloseReason;

/// Counters of a station since its start. The card's own counters are in [`CardCounters`](crate::CardCounters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationCounters {
    /// Datagrams delivered to the protocol machine.
    pub datagrams_in: u64,
    /// Datagrams of these that were reassembled from fragments.
    pub datagrams_reassembled: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Frames for the TCP/IP stack: ARP, ICMP, TCP, DHCP, DNS, fragments.
    pub frames_other: u64,
    /// Frames for other stations.
    pub frames_foreign: u64,
    /// Frames with wrong lengths or checksums, or with an invalid source address.
    pub frames_damaged: u64,
    /// Packets lost because the card's send ring was full.
    pub ring_full: u64,
    /// Packets without a route to their address.
    pub no_route: u64,
    /// Packets whose next hop did not answer ARP.
    pub unanswered: u64,
    /// Packets that were not sent, for any reason.
    pub unreachable: u64,
    /// Failed packets on TCP connections that were not reported to their senders, because 64 others were.
    pub unreported: u64,
    /// Packets dropped because the queue for ARP was full.
    pub waiting_full: u64,
    /// Stations not stored because the table of neighbours was full.
    pub neighbours_full: u64,
    /// TCP connections accepted.
    pub connections_accepted: u64,
    /// TCP connections dialled.
    pub connections_dialled: u64,
    /// TCP connections not dialled because [`CONNECTIONS_MAX`](crate::CONNECTIONS_MAX) was reached.
    pub connections_refused: u64,
    /// TCP connections that failed before they were established.
    pub connections_failed: u64,
    /// TCP connections closed because their bytes were not valid messages.
    pub connections_unframed: u64,
    /// TCP connections closed because a message was not complete in time, or because they were idle.
    pub connections_slow: u64,
    /// TCP connections closed because the peer did not read.
    pub connections_unread: u64,
    /// Messages received over TCP.
    pub stream_messages_in: u64,
    /// Messages sent over TCP.
    pub stream_messages_out: u64,
    /// DNS lookups that were not started because too many were running, or because the name or the configuration is
    /// invalid.
    pub lookups_refused: u64,
}

impl StationCounters {
    pub(crate) fn note_closing(&mut self, why: CloseReason) {
        match why {
            CloseReason::Ended => {}
            CloseReason::NotConnected => self.connections_failed += 1,
            CloseReason::Handshake | CloseReason::Framing | CloseReason::KeepAlives => {
                self.connections_unframed += 1
            }
            CloseReason::Slow | CloseReason::Idle | CloseReason::Unused => self.connections_slow += 1,
            CloseReason::Unread => self.connections_unread += 1,
            // A station has few connections and a limit for each.
            CloseReason::SourceMemory | CloseReason::Memory | CloseReason::Crowded => {}
        }
    }
}
