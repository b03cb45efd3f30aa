//! The most memory that the server takes with a configuration.

use super::host::table_limits;
use super::start::shards_of;
use super::{marked_packets, records, relays, trace};
use crate::config::Config;
use crate::log;
use ringway_linux::RuntimeSize;
use ringway_sansio::TableSize;
use ringway_server::table_sizes;
use ringway_transaction::SipFramer;
use serde_json::{Value, json};

/// Parts that the server keeps because of its peers, and the limit of each.
#[derive(Debug)]
pub(crate) struct MemorySum {
    /// The parts, largest first.
    pub(crate) parts: Vec<TableSize>,
}

impl MemorySum {
    pub(crate) fn of(config: &Config) -> Self {
        let limits = table_limits(config);
        let has_tls = config.listen.iter().any(|listener| listener.transport.is_secure());
        let runtime = RuntimeSize {
            workers: usize::from(config.workers),
            connections_max: config.limits.max_connections,
            layer_bytes: if has_tls { TLS_BYTES } else { 0 },
            marked_packets: marked_packets(config),
        };
        let shards = shards_of(runtime.workers());
        let mut parts = table_sizes(&limits, &config.server, shards);
        parts.push(TableSize::of_bytes(BOOKED, 0, limits.memory.max()));
        parts.extend(runtime.table_sizes::<SipFramer>());
        if config.records.enabled {
            parts.extend(records::sizes());
        }
        parts.push(trace::size());
        let queue = |name, bytes| TableSize::of_bytes(name, 0, bytes);
        let queues = [
            (log::size(), true),
            (queue("registrations that wait for the disk", ringway_store::MEMORY_BYTES_MAX), true),
            (ringway_dns::answers_size(), true),
            (relays::size(), !config.media_relays.is_empty()),
            (queue("captured messages", ringway_hep::MEMORY_BYTES_MAX), config.hep.is_some()),
            (
                queue("changes for the other nodes", ringway_redis::MEMORY_BYTES_MAX),
                config.location.is_some(),
            ),
        ];
        parts.extend(queues.into_iter().filter(|(_, is_used)| *is_used).map(|(size, _)| size));
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        Self { parts }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).fold(0, u64::saturating_add)
    }

    /// The sum in one line.
    pub(crate) fn line(&self) -> String {
        format!("memory: at most {} besides users and registrations", mebibytes(self.bytes()))
    }

    /// A line for each part.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.parts.iter().map(|part| {
            let entries = match part.entries {
                0 => String::new(),
                entries => format!(" ({entries}, {} bytes each)", part.bytes / entries),
            };
            format!("{:>12}  {}{entries}", mebibytes(part.bytes), part.name)
        })
    }

    pub(crate) fn json(&self) -> Value {
        let part = |part: &TableSize| json!({"of": part.name, "entries": part.entries, "bytes": part.bytes});
        json!({"bytes": self.bytes(), "parts": self.parts.iter().map(part).collect::<Vec<_>>()})
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Part with what is booked on `[limits] memory_mb`.
pub(crate) const BOOKED: &str = "requests under way, messages of connections, subscriptions, kept messages";

/// Bytes of the TLS of a connection: 10.7 kB when idle, and a record of 16 KiB that is not complete.
const TLS_BYTES: usize = 28 << 10;

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
