//! Calls that play recordings.

use super::{BEHIND_MAX, MediaCounters, MediaStreams};
use crate::recording::Recording;
use crate::session::{MediaPlay, MediaRefusal};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use ringway_sansio::{Flow, Instant, ListenerId, Outbox, Token};

/// Side and number of an attempt.
type Call = (ListenerId, u64);

/// Recordings that calls play, each its own from its start on.
#[derive(Debug, Default)]
pub(super) struct Players {
    by_call: BTreeMap<Call, Player>,
    /// Time of the next packet of each call.
    due: BTreeSet<(Instant, Call)>,
}

#[derive(Debug)]
struct Player {
    recording: Arc<Recording>,
    flow: Flow,
    begun: Instant,
    /// Index of the next packet.
    next: usize,
}

impl Players {
    /// Starts a recording, in place of the one that the call still plays.
    pub(super) fn start(
        &mut self,
        now: Instant,
        listener: ListenerId,
        play: &MediaPlay,
        players_max: usize,
    ) -> Result<(), MediaRefusal> {
        let call = (listener, play.call);
        self.stop(listener, play.call);
        if self.by_call.len() >= players_max {
            return Err(MediaRefusal::Full);
        }
        let flow = Flow::udp(listener, play.remote);
        let player = Player { recording: Arc::clone(&play.recording), flow, begun: now, next: 0 };
        if let Some(due) = player.due() {
            self.due.insert((due, call));
            self.by_call.insert(call, player);
        }
        Ok(())
    }

    /// Ends the recording of a call.
    pub(super) fn stop(&mut self, listener: ListenerId, call: u64) {
        if let Some(player) = self.by_call.remove(&(listener, call))
            && let Some(due) = player.due()
        {
            self.due.remove(&(due, (listener, call)));
        }
    }

    /// Ends all recordings.
    pub(super) fn stop_all(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_call.is_empty()
    }

    /// Time of the next packet.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Writes up to `packets_max` packets that are due; returns the number of those that were handled. Packets that are too late are
    /// skipped, as those of streams are.
    pub(super) fn send_due(
        &mut self,
        now: Instant,
        packets_max: usize,
        counters: &mut MediaCounters,
        out: &mut Outbox,
    ) -> usize {
        let mut handled = 0;
        while handled < packets_max && self.next_due().is_some_and(|at| at <= now) {
            let Some((due, call)) = self.due.pop_first() else { break };
            handled += 1;
            let Some(player) = self.by_call.get_mut(&call) else { continue };
            let late = now.since(due);
            if late <= BEHIND_MAX && player.send(out) {
                counters.sent += 1;
                counters.late += u64::from(late > MediaStreams::LATE);
                counters.late_max = counters.late_max.max(late);
            } else {
                counters.skipped += 1;
            }
            player.next += 1;
            match player.due() {
                Some(due) => drop(self.due.insert((due, call))),
                None => drop(self.by_call.remove(&call)),
            }
        }
        handled
    }
}

impl Player {
    /// Time of the next packet.
    fn due(&self) -> Option<Instant> {
        self.recording.packet(self.next).map(|(at, ..)| self.begun + at)
    }

    /// Writes the next packet. False: there is no port with its number.
    fn send(&self, out: &mut Outbox) -> bool {
        let Some((_, port_offset, payload)) = self.recording.packet(self.next) else { return false };
        let mut flow = self.flow;
        let Some(port) = flow.remote.port().checked_add(port_offset) else { return false };
        flow.remote.set_port(port);
        out.send(flow, Token::NONE, payload);
        true
    }
}
