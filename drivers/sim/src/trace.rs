//! What was on the wire, for stories that fail and for checkers.

use ringway_sansio::{Instant, Transport};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

/// The packets of a run in the order they were sent; the oldest are forgotten beyond [`Trace::PACKETS_MAX`].
#[derive(Debug)]
pub struct Trace {
    begin: Instant,
    seen: VecDeque<Seen>,
    forgotten: u64,
}

/// A packet: a datagram, or what a machine wrote to a stream at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When it was sent.
    pub at: Instant,
    /// The sender's name, as given to [`Sim::add`](crate::Sim::add).
    pub sender: String,
    /// Where from: the sender's listener, or its end of the connection.
    pub from: SocketAddr,
    /// Where to.
    pub to: SocketAddr,
    /// How.
    pub transport: Transport,
    /// What became of it.
    pub fate: Fate,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives then.
    Arrives(Instant),
    /// It arrives then, for a second time.
    Doubled(Instant),
    /// The link loses it.
    Lost,
    /// No one is at that address.
    Nobody,
    /// Its connection is closed.
    Closed,
}

impl Trace {
    /// How many packets are kept.
    pub const PACKETS_MAX: usize = 20_000;

    pub(crate) fn new(begin: Instant) -> Self {
        Self { begin, seen: VecDeque::new(), forgotten: 0 }
    }

    pub(crate) fn push(&mut self, seen: Seen) {
        if self.seen.len() >= Self::PACKETS_MAX {
            self.seen.pop_front();
            self.forgotten += 1;
        }
        self.seen.push_back(seen);
    }

    /// The packets, oldest first.
    pub fn packets(&self) -> impl ExactSizeIterator<Item = &Seen> {
        self.seen.iter()
    }

    /// How many packets are no longer in here; a checker that must see all wants 0.
    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

impl Seen {
    /// The first line of the message, or what there is of one.
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
                Fate::Doubled(time) => writeln!(f, "  (doubled: {:.3})", arrival(time))?,
                Fate::Lost => writeln!(f, "  (lost)")?,
                Fate::Nobody => writeln!(f, "  (nobody is there)")?,
                Fate::Closed => writeln!(f, "  (connection closed)")?,
            }
        }
        Ok(())
    }
}
