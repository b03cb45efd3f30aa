//! The most memory that the driver takes.

use crate::config::BoxedLayer;
use crate::held::{Held, MarkedPackets};
use crate::inbox::Inbox;
use crate::listeners;
use crate::sys::{BATCH_MAX, ROOM_BYTES};
use crate::tcp::stream::Stream;
use ringway_sansio::{Framer, TableSize};

/// Settings that decide how much memory a runtime takes.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeSize {
    /// Worker threads; 0: one for each core.
    pub workers: usize,
    /// Maximum number of open connections and associations.
    pub connections_max: usize,
    /// Bytes that the layers of a connection take besides the messages in them.
    pub layer_bytes: usize,
    /// Treatment of packets that confirm that something is stored.
    pub marked_packets: MarkedPackets,
}

impl RuntimeSize {
    /// Number of worker threads.
    pub fn workers(&self) -> usize {
        listeners::workers(self.workers)
    }

    /// The most memory of the runtime, besides its nodes and what connections have booked on [`Config::memory`](crate::Config::memory).
    pub fn table_sizes<F: Framer>(&self) -> Vec<TableSize> {
        let connection_bytes = size_of::<Stream<F, BoxedLayer>>() + CONNECTION_BYTES + self.layer_bytes;
        let batch =
            TableSize::of_bytes("datagrams of a batch", BATCH_MAX, BATCH_MAX * (ROOM_BYTES + HEADER_BYTES));
        let mut of_worker = vec![Inbox::size(), batch];
        if self.marked_packets == MarkedPackets::HoldUntilStored {
            of_worker.push(Held::size());
        }
        let mut sizes: Vec<_> = of_worker.iter().map(|size| size.times(self.workers())).collect();
        sizes.push(TableSize::of_bytes(
            "connections",
            self.connections_max,
            self.connections_max.saturating_mul(connection_bytes),
        ));
        sizes
    }
}

/// Bytes of a datagram's address and header for the kernel.
const HEADER_BYTES: usize = 256;

/// Bytes of a connection in the tables of slots, sources, timers and open connections.
const CONNECTION_BYTES: usize = 1024;
