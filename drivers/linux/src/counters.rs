//! Counters of the workers, and the histogram of their turns: the time in which messages are answered or forwarded.
//!
//! Each counter has one writer, its worker, so that counting is a plain addition; readers on other threads may see an
//! outdated value.

use ringway_stream::CloseReason;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one worker. Aligned so that no two workers write to one cache line.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            pub(crate) turns: TurnTimes,
        }

        impl Counters {
            pub(crate) fn add_to(&self, counts: &mut Counts) {
                $(counts.$name = counts.$name.wrapping_add(self.$name.read());)*
            }
        }

        /// Counters since the start, and current values.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// All counters with their names, for metrics.
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
    /// Failed calls that receive from a datagram socket.
    receive_errors,
    /// Times that the kernel was told to drop new requests, because of overload.
    filters_set,
    /// Datagrams that the kernel refused to send (no route, too long, not permitted), or without a listener.
    send_errors,
    /// Datagrams dropped because the socket's buffer remained full.
    send_drops,
    /// ICMP errors received for datagrams.
    icmp_errors,
    /// Times that a worker discarded ICMP errors for the rest of a second, because of their limit.
    icmp_pauses,
    /// Messages received on streams.
    stream_messages_in,
    /// Bytes read from streams.
    stream_bytes_in,
    /// Messages sent on streams, including queued ones.
    stream_messages_out,
    /// Bytes written to streams.
    stream_bytes_out,
    /// Connections that are open or being dialled (current value).
    connections_open,
    /// Connections accepted.
    connections_accepted,
    /// Connections closed at once, or not dialled, because of the limit of connections or of open files.
    connections_refused,
    /// Connections closed at once because of the limit of connections per source.
    connections_over_source,
    /// Connections closed at once at a listener with the PROXY protocol, because none of its proxies opened them.
    proxy_sources_refused,
    /// Connections of proxies closed because they began with no valid header of version 2 of the PROXY protocol.
    proxy_headers_refused,
    /// Connections of proxies closed because their header was not complete in time, or for newer ones.
    proxy_headers_late,
    /// Connections dialled.
    connections_dialled,
    /// Connections not dialled because too many were being dialled: of the same sender, of all senders, or of all.
    dials_refused,
    /// Dialled connections that failed.
    dial_failures,
    /// Connections whose TLS or WebSocket handshake failed or was not complete in time.
    handshake_failures,
    /// Connections refused because too many handshakes were in progress, of all or of their source.
    handshakes_refused,
    /// Connections closed because their bytes were not valid messages.
    framing_errors,
    /// Keep-alives answered.
    keep_alives,
    /// Connections closed because a message, the first or an incomplete one, was not complete in time.
    slow_closes,
    /// Connections closed because they were idle for too long.
    idle_closes,
    /// Accepted connections closed because no binding used them and no message was exchanged.
    unused_closes,
    /// Unused connections closed for new ones because all were in use, and their source or network had the most for its limit.
    crowded_closes,
    /// Connections closed because the peer did not read what was written.
    write_queue_closes,
    /// Connections closed because the peer sent too many keep-alives.
    keep_alive_closes,
    /// Connections closed because of the limit of memory for connections and requests together.
    stream_memory_closes,
    /// Connections closed because of the limit of memory per source.
    stream_source_closes,
    /// DTLS associations that are open or in their handshake (current value).
    associations_open,
    /// DTLS associations begun by clients that returned their cookie.
    associations_accepted,
    /// DTLS associations begun with servers.
    associations_dialled,
    /// DTLS associations not begun because of the limit of connections, of memory, or of handshakes.
    associations_refused,
    /// DTLS associations not begun because of the limit of connections per source.
    associations_over_source,
    /// DTLS associations that a new one of the same peer replaced.
    associations_replaced,
    /// Failed packets that were reported to their sender.
    unreachable,
    /// Failed packets on connections that were not reported to their senders, because 64 others were.
    unreachable_unreported,
    /// Packets and events dropped because another worker's inbox was full.
    inbox_drops,
    /// Packets held until the data that they confirm is stored (current value).
    held,
    /// Held packets dropped because of the limit of number, bytes or time.
    held_drops,
    /// Bytes in the write queues of streams (current value).
    unwritten_bytes,
}

impl Counters {
    /// Counts a closed connection.
    pub(crate) fn closed(&self, why: CloseReason) {
        match why {
            CloseReason::Ended => {}
            CloseReason::NotConnected => self.dial_failures.increment(),
            CloseReason::Handshake => self.handshake_failures.increment(),
            CloseReason::Framing => self.framing_errors.increment(),
            CloseReason::Slow => self.slow_closes.increment(),
            CloseReason::Idle => self.idle_closes.increment(),
            CloseReason::Unused => self.unused_closes.increment(),
            CloseReason::Unread => self.write_queue_closes.increment(),
            CloseReason::KeepAlives => self.keep_alive_closes.increment(),
            CloseReason::SourceMemory => self.stream_source_closes.increment(),
            CloseReason::Memory => self.stream_memory_closes.increment(),
            CloseReason::Crowded => self.crowded_closes.increment(),
        }
    }
}

/// Number that one thread changes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Durations of one worker's turns. It has one writer, as the counters have.
#[derive(Debug, Default)]
pub(crate) struct TurnTimes {
    buckets: [Counter; BUCKETS],
    nanos: Counter,
}

/// Histogram of turns: the time from a worker's wake-up for packets until everything that they caused is handed to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCounts {
    /// Turns of at most [`TurnCounts::bound`] that are longer than the bound before; the last has those above all bounds.
    pub buckets: [u64; BUCKETS],
    /// Sum of the durations in nanoseconds.
    pub nanos: u64,
}

impl TurnTimes {
    pub(crate) fn note(&self, turn: Duration) {
        let nanos = u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX);
        // Units of the first bound; the number of bits is the index of the first power of two that is not less.
        let units = nanos.saturating_sub(1) / FIRST_NANOS;
        let index = (u64::BITS - units.leading_zeros()) as usize;
        self.buckets[index.min(BUCKETS - 1)].increment();
        self.nanos.add(nanos);
    }

    pub(crate) fn add_to(&self, counts: &mut TurnCounts) {
        for (sum, bucket) in counts.buckets.iter_mut().zip(&self.buckets) {
            *sum = sum.wrapping_add(bucket.read());
        }
        counts.nanos = counts.nanos.wrapping_add(self.nanos.read());
    }
}

impl TurnCounts {
    /// Longest turn of a bucket; `None`: it has no bound.
    pub fn bound(index: usize) -> Option<Duration> {
        (index + 1 < BUCKETS).then(|| Duration::from_nanos(FIRST_NANOS << index))
    }
}

/// Number of buckets: bounds from 16 µs to 524 ms.
const BUCKETS: usize = 17;
const FIRST_NANOS: u64 = 16_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_is_counted_by_its_reason() {
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
        b.datagrams_in.increment();
        b.held.set(2);
        let mut sum = Counts::default();
        a.add_to(&mut sum);
        b.add_to(&mut sum);
        assert_eq!((sum.datagrams_in, sum.held), (4, 2));
        assert!(sum.each().any(|(name, value)| name == "datagrams_in" && value == 4));
    }

    #[test]
    fn a_turn_is_in_the_first_bucket_whose_bound_is_not_less() {
        let counted = |micros_10th: u64| {
            let (times, mut counts) = (TurnTimes::default(), TurnCounts::default());
            times.note(Duration::from_nanos(micros_10th * 100));
            times.add_to(&mut counts);
            assert_eq!((counts.buckets.iter().sum::<u64>(), counts.nanos), (1, micros_10th * 100));
            counts.buckets.iter().position(|count| *count == 1).unwrap()
        };
        assert_eq!([0, 1, 160, 161, 320, 321, 640, 641].map(counted), [0, 0, 0, 1, 1, 2, 2, 3]);
        assert_eq!(counted(u64::MAX / 1000), BUCKETS - 1);
        for index in 0..BUCKETS - 1 {
            let bound = TurnCounts::bound(index).unwrap();
            assert_eq!(counted(bound.as_nanos() as u64 / 100), index);
        }
        assert_eq!(TurnCounts::bound(BUCKETS - 1), None);
    }
}
