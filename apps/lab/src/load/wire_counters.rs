//! Counters of the generator's sockets.

use std::ops::AddAssign;

/// Counters of the generator's sockets; the values only increase, except for `connections`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireCounters {
    /// Packets that were not sent: to an address that is not permitted.
    pub not_permitted: u64,
    /// Packets that the system did not accept: no room in the socket's buffer, or an error.
    pub unsent: u64,
    /// Refusals of the target: ICMP errors, refused connections.
    pub refused: u64,
    /// Open connections.
    pub connections: u64,
    /// Connections that this side opened.
    pub opened: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that could not be established, refused ones included.
    pub not_opened: u64,
    /// Connections that the peer closed or reset.
    pub closed_by_peer: u64,
    /// Connections that were closed because a limit of [`StreamLimits`](ringway_linux::StreamLimits) was reached, or for bytes
    /// that are no SIP.
    pub broken: u64,
    /// Connections that were not opened or not accepted because of the limit of connections or of open files.
    pub over_limit: u64,
    /// Connections that were not opened because the local address had no free port.
    pub no_port: u64,
    /// Full TLS handshakes of connections that this side opened.
    pub tls_full: u64,
    /// Resumed TLS handshakes of connections that this side opened.
    pub tls_resumed: u64,
    /// Full TLS handshakes of accepted connections: the server is the TLS client.
    pub tls_accepted_full: u64,
    /// Resumed TLS handshakes of accepted connections.
    pub tls_accepted_resumed: u64,
    /// Failed TLS handshakes.
    pub tls_failed: u64,
}

impl WireCounters {
    /// Share of resumed handshakes among those of opened connections that succeeded. `None`: none did.
    pub fn resumed_share(&self) -> Option<f64> {
        let all = self.tls_full + self.tls_resumed;
        (all > 0).then(|| self.tls_resumed as f64 / all as f64)
    }

    /// Share of resumed handshakes among those of accepted connections. `None`: none was accepted.
    pub fn accepted_resumed_share(&self) -> Option<f64> {
        let all = self.tls_accepted_full + self.tls_accepted_resumed;
        (all > 0).then(|| self.tls_accepted_resumed as f64 / all as f64)
    }
}

impl AddAssign for WireCounters {
    fn add_assign(&mut self, other: Self) {
        self.not_permitted += other.not_permitted;
        self.unsent += other.unsent;
        self.refused += other.refused;
        self.connections += other.connections;
        self.opened += other.opened;
        self.accepted += other.accepted;
        self.not_opened += other.not_opened;
        self.closed_by_peer += other.closed_by_peer;
        self.broken += other.broken;
        self.over_limit += other.over_limit;
        self.no_port += other.no_port;
        self.tls_full += other.tls_full;
        self.tls_resumed += other.tls_resumed;
        self.tls_accepted_full += other.tls_accepted_full;
        self.tls_accepted_resumed += other.tls_accepted_resumed;
        self.tls_failed += other.tls_failed;
    }
}
