//! State that the workers of a runtime share.

pub(crate) mod connections;
mod sources;

use crate::config::{
    Acceptance, AcceptanceRule, Clock, Config, Direction, Layers, MessageBytesMax, MessageTrace,
};
use crate::dscp::Dscp;
use crate::held::MarkedPackets;
use crate::inbox::Inboxes;
use connections::{Connections, Kind, USES_MAX};
use ringway_datagram::Associations;
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_stream::StreamLimits;
use sources::Sources;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// State that all workers of a runtime share.
pub(crate) struct Common {
    pub(crate) clock: Clock,
    pub(crate) marked_packets: MarkedPackets,
    message_bytes_max: RwLock<MessageBytesMax>,
    acceptance: RwLock<Option<AcceptanceRule>>,
    max_connections: AtomicUsize,
    /// Connections that the limit of open files permits.
    connections_possible: usize,
    pub(crate) datagram_batch: usize,
    pub(crate) streams: StreamLimits,
    pub(crate) layers: Arc<dyn Layers>,
    pub(crate) dials_from_listener: Option<Transport>,
    /// Mark of all packets.
    pub(crate) dscp: Dscp,
    pub(crate) associations: Option<Arc<dyn Associations>>,
    pub(crate) trace: Option<MessageTrace>,
    pub(crate) sources: Sources,
    /// Connections of all workers, accepted or dialled.
    pub(crate) open: AtomicUsize,
    pub(crate) connections: Connections,
    pub(crate) inboxes: Inboxes,
    spread: RandomState,
    phase: AtomicU8,
    pub(crate) failed: AtomicBool,
}

/// Phase of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// No new connections are accepted.
    Draining,
    /// The workers end after one more turn.
    Ending,
}

impl Common {
    /// `connections_possible` is the number of connections that the limit of open files permits.
    pub(crate) fn new(config: &Config, connections_possible: usize, inboxes: Inboxes, dscp: Dscp) -> Self {
        Self {
            clock: config.clock,
            marked_packets: config.marked_packets,
            message_bytes_max: RwLock::new(Arc::clone(&config.message_bytes_max)),
            acceptance: RwLock::new(config.acceptance.clone()),
            max_connections: AtomicUsize::new(config.max_connections.min(connections_possible)),
            connections_possible,
            datagram_batch: config.datagram_batch,
            streams: config.streams,
            layers: Arc::clone(&config.layers),
            dials_from_listener: config.dials_from_listener,
            dscp,
            associations: config.associations.clone(),
            trace: config.trace.clone(),
            sources: Sources::new(config.max_connections_per_source, config.memory.clone()),
            open: AtomicUsize::new(0),
            connections: Connections::new(inboxes.clone()),
            inboxes,
            spread: RandomState::new(),
            phase: AtomicU8::new(Phase::Running as u8),
            failed: AtomicBool::new(false),
        }
    }

    /// Counts a new connection; false if there are too many.
    pub(crate) fn admit(&self) -> bool {
        let open = self.open.fetch_add(1, Ordering::Relaxed);
        if open >= self.max_connections() {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Maximum number of open connections.
    pub(crate) fn max_connections(&self) -> usize {
        self.max_connections.load(Ordering::Relaxed)
    }

    /// Changes the maximum number of open connections, as far as the limit of open files permits.
    pub(crate) fn set_max_connections(&self, max: usize) {
        self.max_connections.store(max.min(self.connections_possible), Ordering::Relaxed);
    }

    /// Maximum length of a message on a new stream with this flow.
    pub(crate) fn message_bytes_max(&self, flow: &Flow) -> usize {
        let max = Arc::clone(&self.message_bytes_max.read().unwrap_or_else(PoisonError::into_inner));
        max(flow)
    }

    /// Changes the maximum length of a message; open streams keep theirs.
    pub(crate) fn set_message_bytes_max(&self, max: MessageBytesMax) {
        *self.message_bytes_max.write().unwrap_or_else(PoisonError::into_inner) = max;
    }

    /// Treatment of a new connection from `source` at a listener.
    pub(crate) fn acceptance(&self, listener: ListenerId, source: IpAddr) -> Acceptance {
        let rule = self.acceptance.read().unwrap_or_else(PoisonError::into_inner).clone();
        rule.map_or(Acceptance::Direct, |rule| rule(listener, source))
    }

    /// Changes the rule for new connections.
    pub(crate) fn set_acceptance(&self, rule: Option<AcceptanceRule>) {
        *self.acceptance.write().unwrap_or_else(PoisonError::into_inner) = rule;
    }

    pub(crate) fn trace(&self, direction: Direction, flow: &Flow, bytes: &[u8]) {
        if let Some(trace) = &self.trace {
            trace(direction, flow, bytes);
        }
    }

    /// Worker that dials the connection for a flow.
    pub(crate) fn dialler_of(&self, flow: &Flow) -> usize {
        match self.inboxes.workers() {
            0 | 1 => 0,
            workers => (self.spread.hash_one((flow.remote, flow.dialled)) % workers as u64) as usize,
        }
    }

    /// First generation of a slot: random, so that the number of a connection from before a restart, which tokens and marks in
    /// dialogs keep, is never that of a stranger's. Half of all generations follow it at least.
    pub(crate) fn first_use(&self, worker: usize, kind: Kind, index: u32) -> u64 {
        1 + (self.spread.hash_one((worker, kind as u8, index)) & USES_MAX >> 1)
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Ending,
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::SeqCst);
        self.inboxes.wake();
    }
}
