//! Changes of the nodes, of the store that they share and of the public address, applied by the main thread.

use super::Running;
use super::control::Input;
use super::listeners::ListenerTable;
use super::settings::{self, Present};
use super::sharing::{Again, SharedLocation, Sweep};
use crate::config::Config;
use ringway_redis::Walks;
use ringway_server::{LinkedNode, Server, Trunk};
use std::sync::Arc;
use std::time::Duration;

/// Work on the shared registrations that the main thread does in steps, so that signals and reloads do not wait.
#[derive(Default)]
pub(super) struct SharedWork {
    /// Writing the registrations of this node once more.
    again: Option<Again>,
    /// Ending what a read of all did not confirm.
    sweep: Option<Sweep>,
}

impl Running {
    /// Opens links to these nodes, and ends those to others. Call it when the list changes: nothing else is disturbed.
    pub(crate) fn set_nodes(&mut self, listed: Vec<LinkedNode>) {
        let present = self.settings.links.as_ref().map_or(&[][..], |links| &links.nodes);
        let is_gateway = |trunk: &&Trunk| !trunk.is_node && trunk.neighbour.is_some();
        let gateways = self.settings.trunking.trunks.iter().filter(is_gateway).count();
        let others = self.settings.neighbours.len().saturating_sub(present.len() + gateways);
        let (nodes, left_out) = settings::placed(&self.config, present, listed, others);
        if left_out > 0 {
            tracing::warn!("{left_out} nodes have no link: 64 neighbours and nodes are the maximum");
        }
        if nodes == present {
            return;
        }
        let settings = self.settings_with(&self.config, &self.listeners, &nodes);
        self.use_settings(Arc::new(settings));
    }

    /// Uses the settings of the present configuration, nodes and public address.
    pub(super) fn renew_settings(&mut self) {
        let nodes = self.settings.links.as_ref().map_or(&[][..], |links| &links.nodes);
        let settings = self.settings_with(&self.config, &self.listeners, nodes);
        self.use_settings(Arc::new(settings));
    }

    /// Settings of the server machine for a configuration and its listeners, and links to `nodes`.
    pub(super) fn settings_with(
        &self,
        config: &Config,
        listeners: &ListenerTable,
        nodes: &[LinkedNode],
    ) -> ringway_server::Config {
        let (incarnation, public_ip) = (self.incarnation(), self.public_address.ip());
        let present = Present { nodes, incarnation, public_ip };
        settings::server_config(config, listeners, self.settings.secret, present)
    }

    /// Asks the STUN server of the configuration, if it has one, and no other any more.
    pub(super) fn watch_public_address(&mut self) {
        self.public_watch = None;
        let Some(server) = &self.config.stun else { return };
        let inputs = self.inputs.clone();
        // The main thread has ended if it cannot be sent.
        let on_change = move || drop(inputs.send(Input::PublicAddress));
        match self.public_address.watch(server, on_change) {
            Ok(watch) => self.public_watch = Some(watch),
            Err(why) => {
                tracing::error!("the thread that asks for the public address cannot be started: {why}")
            }
        }
    }

    /// Start of this process among those of its node.
    pub(super) fn incarnation(&self) -> u64 {
        self.settings.cluster.map_or(0, |cluster| cluster.incarnation)
    }

    /// Opens links to the nodes that the store has now, and ends those to others. One that came back is dialled at once.
    pub(super) fn apply_nodes(&mut self) {
        let nodes = self.host.location().map(SharedLocation::linked_nodes);
        self.set_nodes(nodes.unwrap_or_default());
        self.runtime.shards().with_each(Server::retry_links);
    }

    /// Begins a sweep after reads of the store, instead of one that is not done.
    pub(super) fn begin_sweep(&self, work: &mut SharedWork, walks: Box<Walks>, is_loss: bool) {
        let before = work.sweep.take();
        work.sweep = Some(Sweep::new(walks, is_loss, before, (&self.runtime.shards(), self.clock.now())));
    }

    /// Does the next step of the work on shared registrations.
    pub(super) fn step(&self, work: &mut SharedWork) {
        let (shards, now) = (self.runtime.shards(), self.clock.now());
        let location = self.host.location();
        if let (Some(again), Some(location)) = (work.again.take(), location) {
            work.again = again.step(location, &shards, now);
            if work.again.is_none() {
                location.set_appending_again(false);
            }
        }
        let are_others_writing = || location.is_some_and(SharedLocation::is_one_writing_again);
        work.sweep = work.sweep.take().and_then(|sweep| sweep.step(&shards, are_others_writing, now));
    }

    /// Begins to write the registrations of this node once more.
    pub(super) fn begin_again(&self, work: &mut SharedWork) {
        work.again = Some(Again::new(self.clock.now()));
        if let Some(location) = self.host.location() {
            location.set_appending_again(true);
        }
    }
}

impl SharedWork {
    /// Time between two steps.
    pub(super) const INTERVAL: Duration = Again::INTERVAL;

    pub(super) const fn is_under_way(&self) -> bool {
        self.again.is_some() || self.sweep.is_some()
    }
}
