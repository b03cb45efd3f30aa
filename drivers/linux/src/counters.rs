//! Counters of the workers.
//!
//! Each counter has one writer, its worker, so that counting is a plain addition; readers on other threads may see an
//! outdated value.

use crate::counter::Counter;
use crate::turn_times::TurnTimes;
use ringway_stream::CloseReason;

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
}
