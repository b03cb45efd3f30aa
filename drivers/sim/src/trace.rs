//! Trace of the sent packets, for failed tests and for checkers.

use ringway_sansio::{Instant, Transport};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

/// Packets of a run in the order of sending; the oldest are dropped beyond [`Trace::PACKETS_MAX`].
#[derive(Debug)]
pub struct Trace {
    begin: Instant,
    seen: VecDeque<TracedPacket>,
    forgotten: u64,
}

/// Sent packet: a datagram, or the bytes that a machine wrote to a stream at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedPacket {
    /// Time of sending.
    pub at: Instant,
    /// Name of the sender, as passed to [`Sim::add`](crate::Sim::add).
    pub sender: String,
    /// Source address: the sender's listener, or its end of the connection.
    pub from: SocketAddr,
    /// Destination address.
    pub to: SocketAddr,
    /// Transport protocol.
    pub transport: Transport,
    /// Outcome of sending.
    pub fate: Fate,
    /// Bytes of the packet.
    pub bytes: Vec<u8>,
}

/// Outcome of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives at this time.
    Arrives(Instant),
    /// A copy of it arrives at this time.
    Duplicated(Instant),
    /// The link loses it.
    Lost,
    /// The destination has no listener.
    NoListener,
    /// Its connection is closed.
    Closed,
}

impl Trace {
    /// Maximum number of packets in a trace.
    pub const PACKETS_MAX: usize = 20_000;

    pub(crate) fn new(begin: Instant) -> Self {
        Self { begin, seen: VecDeque::new(), forgotten: 0 }
    }

    pub(crate) fn push(&mut self, seen: TracedPacket) {
        if self.seen.len() >= Self::PACKETS_MAX {
            self.seen.pop_front();
            self.forgotten += 1;
        }
        self.seen.push_back(seen);
    }

    /// Packets, the oldest first.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = &TracedPacket> {
        self.seen.iter()
    }

    /// Number of dropped packets; a checker of all packets needs 0.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

impl TracedPacket {
    /// First line of the message, as far as it is complete.
    pub fn first_line(&self) -> String {
        let line = self.bytes.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
        String::from_utf8_lossy(line).into_owned()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.forgotten > 0 {
            writeln!(f, "({} earlier packets forgotten)", self.forgotten)?;
        }
        for seen in &self.seen {
            let at = seen.at.since(self.begin);
            write!(
                f,
                "{:>9.3} s  {:<8} {} -> {} {}  {}",
                at.as_secs_f64(),
                seen.sender,
                seen.from,
                seen.to,
                seen.transport,
                seen.first_line()
            )?;
            let arrival = |time: Instant| time.since(self.begin).as_secs_f64();
            match seen.fate {
                Fate::Arrives(time) => writeln!(f, "  ({:.3})", arrival(time))?,
                Fate::Duplicated(time) => writeln!(f, "  (duplicated: {:.3})", arrival(time))?,
                Fate::Lost => writeln!(f, "  (lost)")?,
                Fate::NoListener => writeln!(f, "  (no listener)")?,
                Fate::Closed => writeln!(f, "  (connection closed)")?,
            }
        }
        Ok(())
    }
}
