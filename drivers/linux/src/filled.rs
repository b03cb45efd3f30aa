//! Tables of a worker that are filled to their limits, for tests that compare their memory with
//! [`RuntimeSize::table_sizes`](crate::RuntimeSize::table_sizes).

use crate::held::Held;
use crate::inbox::{Commands, Inboxes};
use crate::sys::{BATCH_MAX, ReceiveBatch};
use ringway_sansio::{Dialler, Flow, Instant, ListenerId, Outbox, Token};
use std::any::Any;
use std::net::SocketAddr;

/// Table of a worker.
#[derive(Clone, Copy, Debug)]
pub struct FilledTable {
    /// Its name in the sum.
    pub name: &'static str,
    /// Returns a full one.
    pub fill: fn() -> std::io::Result<Box<dyn Any>>,
}

/// The tables of a worker, without its connections; a test compares the names.
pub const FILLED_TABLES: &[FilledTable] = &[
    FilledTable { name: "commands to workers", fill: inbox },
    FilledTable { name: "datagrams of a batch", fill: batch },
    FilledTable { name: "responses that wait for the disk", fill: held },
];

fn flow() -> Flow {
    Flow::udp(ListenerId(0), SocketAddr::from(([127, 0, 0, 1], 5060)))
}

/// An inbox, and the commands that its worker has taken from it.
fn inbox() -> std::io::Result<Box<dyn Any>> {
    let inboxes = Inboxes::new(1)?;
    let mut taken = Commands::default();
    if let Some(inbox) = inboxes.of(0) {
        let fill = || while inbox.push_stream(flow(), (Token::NONE, Dialler::OWN), &[b'x'; 500]) {};
        fill();
        inbox.take(&mut taken);
        fill();
    }
    Ok(Box::new((inboxes, taken)))
}

/// Buffers of a batch that all had the longest datagram.
fn batch() -> std::io::Result<Box<dyn Any>> {
    let mut batch = ReceiveBatch::new(BATCH_MAX);
    batch.fill();
    Ok(Box::new(batch))
}

fn held() -> std::io::Result<Box<dyn Any>> {
    let mut held = Held::default();
    let mut out = Outbox::new();
    out.send(flow(), Token::NONE, b"x");
    out.hold_last(0);
    if let Some((packet, _)) = out.packets().next() {
        while held.keep(1, Instant::from_secs(1), packet, &[b'x'; 1000]) {}
    }
    Ok(Box::new(held))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::tests::Never;
    use crate::{MarkedPackets, RuntimeSize};

    #[test]
    fn the_memory_of_each_full_table_is_the_published_one_at_most() {
        let marked_packets = MarkedPackets::HoldUntilStored;
        let size = RuntimeSize { workers: 1, connections_max: 100, layer_bytes: 0, marked_packets };
        let sizes = size.table_sizes::<Never>();
        let names: Vec<_> = sizes.iter().map(|size| size.name).collect();
        let mut filled: Vec<_> = FILLED_TABLES.iter().map(|table| table.name).collect();
        filled.push("connections");
        assert_eq!(filled, names, "a table of the sum without one in FILLED_TABLES, or the other way round");
        for (table, size) in FILLED_TABLES.iter().zip(&sizes) {
            let mut kept = None;
            let taken = allocation_counter::measure(|| kept = Some((table.fill)().unwrap()));
            let taken = taken.bytes_current as u64;
            assert!(
                (size.bytes / 5..=size.bytes).contains(&taken),
                "{}: {taken} of {}",
                size.name,
                size.bytes
            );
        }
    }
}
