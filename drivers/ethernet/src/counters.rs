//! What a station counts.

use ringway_stream::CloseReason;

/// What a station counted since its start. What the card counts is in [`CardCounters`](crate::CardCounters).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationCounters {
    /// Datagrams for the protocol machine.
    pub datagrams_in: u64,
    /// Of them those that came in fragments.
    pub datagrams_reassembled: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Frames for the rest of the stack: ARP, ICMP, TCP, DHCP, DNS, fragments.
    pub frames_other: u64,
    /// Frames for others.
    pub frames_foreign: u64,
    /// Frames whose lengths or checksums are wrong, or that come from addresses nobody has.
    pub frames_damaged: u64,
    /// Packets that could not be sent because the card took none: lost.
    pub ring_full: u64,
    /// Packets to addresses that no way leads to.
    pub no_route: u64,
    /// Packets whose next hop did not answer ARP.
    pub unanswered: u64,
    /// Packets that could not be sent, for any reason.
    pub unreachable: u64,
    /// Packets on TCP connections that ended without a message of the peer, whose senders were not told because 64 others were.
    pub unreported: u64,
    /// Packets that found no room to wait for ARP.
    pub waiting_full: u64,
    /// Stations that found no room in the table of neighbours.
    pub neighbours_full: u64,
    /// TCP connections taken.
    pub connections_accepted: u64,
    /// TCP connections begun.
    pub connections_dialled: u64,
    /// TCP connections not begun because there are too many.
    pub connections_refused: u64,
    /// TCP connections that could not be made.
    pub connections_failed: u64,
    /// TCP connections closed because their bytes were no messages.
    pub connections_unframed: u64,
    /// TCP connections closed because a message did not become whole in time, or none came for too long.
    pub connections_slow: u64,
    /// TCP connections closed because the peer did not read.
    pub connections_unread: u64,
    /// Messages that came by TCP.
    pub stream_messages_in: u64,
    /// Messages sent by TCP.
    pub stream_messages_out: u64,
    /// Names that could not be looked up because too many were.
    pub lookups_refused: u64,
}

impl StationCounters {
    pub(crate) fn note_closing(&mut self, why: CloseReason) {
        match why {
            CloseReason::Ended => {}
            CloseReason::NotConnected => self.connections_failed += 1,
            CloseReason::Framing => self.connections_unframed += 1,
            CloseReason::Slow | CloseReason::Idle | CloseReason::Unused => self.connections_slow += 1,
            CloseReason::Unread => self.connections_unread += 1,
            // A station has few connections and a limit for each.
            CloseReason::SourceMemory | CloseReason::Memory => {}
        }
    }
}
