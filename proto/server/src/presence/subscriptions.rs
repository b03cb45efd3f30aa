//! Subscriptions of a shard, and their indices.

use super::subscription::Subscription;
use alloc::boxed::Box;
use alloc::vec::Vec;
use hashbrown::HashMap;
use ringway_auth::SeededHash;
use ringway_sansio::{ConnectionId, Flow, Seed};
use ringway_transaction::{Slab, SlabKey};

/// Subscriptions by key, tag, watcher and connection.
pub(super) struct Subscriptions {
    slab: Slab<Subscription>,
    by_tag: HashMap<u64, SlabKey, SeededHash>,
    /// Number of subscriptions of each watcher. Peers choose the names: a seeded hash.
    by_watcher: HashMap<Box<[u8]>, usize, SeededHash>,
    by_connection: HashMap<ConnectionId, Vec<SlabKey>, SeededHash>,
}

impl Subscriptions {
    pub(super) fn new(seed: &Seed) -> Self {
        let hash = SeededHash::new(seed);
        Self {
            slab: Slab::default(),
            by_tag: HashMap::with_hasher(hash),
            by_watcher: HashMap::with_hasher(hash),
            by_connection: HashMap::with_hasher(hash),
        }
    }

    pub(super) fn insert(&mut self, subscription: Subscription) -> SlabKey {
        let (tag, flow) = (subscription.tag, subscription.flow);
        *self.by_watcher.entry(subscription.watcher.clone()).or_insert(0) += 1;
        let key = self.slab.insert(subscription);
        self.by_tag.insert(tag, key);
        self.link(key, flow);
        key
    }

    pub(super) fn remove(&mut self, key: SlabKey) -> Option<Subscription> {
        let subscription = self.slab.remove(key)?;
        self.by_tag.remove(&subscription.tag);
        self.unlink(key, subscription.flow);
        if let Some(count) = self.by_watcher.get_mut(&subscription.watcher) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_watcher.remove(&subscription.watcher);
            }
        }
        Some(subscription)
    }

    /// Changes the flow of a subscription.
    pub(super) fn set_flow(&mut self, key: SlabKey, flow: Flow) {
        let Some(subscription) = self.slab.get_mut(key) else { return };
        let before = core::mem::replace(&mut subscription.flow, flow);
        if before.connection != flow.connection {
            self.unlink(key, before);
            self.link(key, flow);
        }
    }

    pub(super) fn get(&self, key: SlabKey) -> Option<&Subscription> {
        self.slab.get(key)
    }

    pub(super) fn get_mut(&mut self, key: SlabKey) -> Option<&mut Subscription> {
        self.slab.get_mut(key)
    }

    pub(super) fn of_tag(&self, tag: u64) -> Option<SlabKey> {
        self.by_tag.get(&tag).copied()
    }

    /// Subscriptions over a connection that has ended; the caller removes them.
    pub(super) fn take_connection(&mut self, connection: ConnectionId) -> Vec<SlabKey> {
        self.by_connection.remove(&connection).unwrap_or_default()
    }

    pub(super) fn keys(&self) -> Vec<SlabKey> {
        self.slab.iter().map(|(key, _)| key).collect()
    }

    /// Number of subscriptions of a watcher.
    pub(super) fn count_of(&self, watcher: &[u8]) -> usize {
        self.by_watcher.get(watcher).copied().unwrap_or(0)
    }

    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }

    fn link(&mut self, key: SlabKey, flow: Flow) {
        if let Some(connection) = flow.connection {
            self.by_connection.entry(connection).or_default().push(key);
        }
    }

    fn unlink(&mut self, key: SlabKey, flow: Flow) {
        let Some(connection) = flow.connection else { return };
        if let Some(keys) = self.by_connection.get_mut(&connection) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.by_connection.remove(&connection);
            }
        }
    }
}
