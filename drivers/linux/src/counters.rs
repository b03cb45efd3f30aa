//! What the workers count.
//!
//! Each counter has one writer, its worker, so that counting is a plain addition; readers on other threads see a value
//! that is a moment old.

use ringway_stream::CloseReason;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread changes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one worker. Aligned so that no two workers write to one cache line.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) fn add_to(&self, counts: &mut Counts) {
                $(counts.$name = counts.$name.wrapping_add(self.$name.read());)*
            }
        }

        /// What was counted since the start, and what is there now.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Every count with its name, for a page of metrics.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Datagrams received.
    datagrams_in,
    /// Bytes of the datagrams received.
    datagram_bytes_in,
    /// Datagrams handed to the kernel.
    datagrams_out,
    /// Bytes of the datagrams handed to the kernel.
    datagram_bytes_out,
    /// Receiving from a datagram socket failed.
    receive_errors,
    /// Datagrams the kernel refused to send (no route, too long, forbidden), or that named no listener.
    send_errors,
    /// Datagrams dropped because the socket had no room for longer than a worker can wait.
    send_drops,
    /// Messages cut from streams.
    stream_messages_in,
    /// Bytes read from streams.
    stream_bytes_in,
    /// Messages written to streams, or queued there.
    stream_messages_out,
    /// Bytes written to streams.
    stream_bytes_out,
    /// Connections that are open or being dialled, now.
    connections_open,
    /// Connections accepted.
    connections_accepted,
    /// Connections closed at once, or not dialled, because there were too many or no file was left.
    connections_refused,
    /// Connections closed at once because their source has as many as it may have.
    connections_over_source,
    /// Connections dialled.
    connections_dialled,
    /// Dialled connections that could not be made.
    dial_failures,
    /// Connections closed because their bytes could not be cut into messages.
    framing_errors,
    /// Keep-alives answered.
    keep_alives,
    /// Connections closed because a message, the first or a begun one, did not become whole in time.
    slow_closes,
    /// Connections closed because nothing came for the idle time.
    idle_closes,
    /// Accepted connections closed because nothing was registered over them and no message was exchanged.
    unused_closes,
    /// Connections closed because the peer did not read what was written.
    write_queue_closes,
    /// Connections closed because all connections and requests together hold as many bytes as they may.
    stream_memory_closes,
    /// Connections closed because the connections of their source hold as many bytes as they may.
    stream_source_closes,
    /// Packets whose sender was told that they could not be sent.
    unreachable,
    /// Packets on connections that ended without a message of the peer, whose senders were not told because 64 others were.
    unreachable_unreported,
    /// Packets and events dropped because another worker's inbox was full.
    inbox_drops,
    /// Packets kept back until what they promise is stored, now.
    held,
    /// Packets dropped because too many were kept back, or for too long.
    held_drops,
    /// Bytes that wait for room in a stream, now.
    unwritten_bytes,
}

impl Counters {
    /// Counts a connection that is closed.
    pub(crate) fn closed(&self, why: CloseReason) {
        match why {
            CloseReason::Ended => {}
            CloseReason::NotConnected => self.dial_failures.one(),
            CloseReason::Framing => self.framing_errors.one(),
            CloseReason::Slow => self.slow_closes.one(),
            CloseReason::Idle => self.idle_closes.one(),
            CloseReason::Unused => self.unused_closes.one(),
            CloseReason::Unread => self.write_queue_closes.one(),
            CloseReason::SourceMemory => self.stream_source_closes.one(),
            CloseReason::Memory => self.stream_memory_closes.one(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_is_counted_by_the_name_of_its_reason() {
        for why in CloseReason::ALL {
            let (counters, mut counts) = (Counters::default(), Counts::default());
            counters.closed(why);
            counters.add_to(&mut counts);
            let counted: Vec<_> = counts.each().filter(|(_, value)| *value > 0).collect();
            let expected: Vec<_> = why.counter().map(|name| (name, 1)).into_iter().collect();
            assert_eq!(counted, expected, "{why:?}");
        }
    }

    #[test]
    fn workers_add_up() {
        let (a, b) = (Counters::default(), Counters::default());
        a.datagrams_in.add(3);
        b.datagrams_in.one();
        b.held.set(2);
        let mut sum = Counts::default();
        a.add_to(&mut sum);
        b.add_to(&mut sum);
        assert_eq!((sum.datagrams_in, sum.held), (4, 2));
        assert!(sum.each().any(|(name, value)| name == "datagrams_in" && value == 4));
    }
}
