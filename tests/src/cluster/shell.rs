//! Process of a node: its clock, and its pauses.

use ringway_sansio::{ConnectionId, Deadline, Event, Flow, IcmpError, Instant, Node, Received};
use ringway_server::Server;
use ringway_sim::{Effects, Hosted, SimConnection, SimNode};
use ringway_stream::{Layer, Origin};
use std::time::Duration;

pub(super) type RealServer = Server;

/// Server whose clock differs from that of the simulation, and which can pause.
pub(super) struct Shell {
    pub(super) hosted: Hosted<RealServer>,
    pub(super) ahead: Duration,
    /// Inputs of a pause, in order; `None`: it runs.
    paused: Option<Vec<(u16, Input)>>,
}

enum Input {
    Message(Flow, Vec<u8>),
    Closed(ConnectionId),
    Other(Event),
}

impl Shell {
    pub(super) fn new(hosted: Hosted<RealServer>, ahead: Duration) -> Self {
        Self { hosted, ahead, paused: None }
    }

    pub(super) fn pause(&mut self) {
        self.paused = Some(Vec::new());
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Goes on with the inputs of one shard.
    pub(super) fn resume(&mut self, now: Instant, shard: u16, effects: &mut Effects) {
        let inputs = self.paused.take().unwrap_or_default();
        let (own, others): (Vec<_>, Vec<_>) = inputs.into_iter().partition(|(of, _)| *of == shard);
        for (_, input) in own {
            match input {
                Input::Message(flow, bytes) => {
                    self.on_message(shard, now, Received::new(flow, &bytes), effects);
                }
                Input::Closed(connection) => self.on_event(shard, now, Event::Closed(connection), effects),
                Input::Other(event) => self.on_event(shard, now, event, effects),
            }
        }
        // The other shards go on in calls of their own.
        self.paused = (!others.is_empty()).then_some(others);
    }
}

impl SimNode for Shell {
    fn shards(&self) -> u16 {
        self.hosted.shards().len() as u16
    }

    fn shard_of(&self, bytes: &[u8]) -> u16 {
        self.hosted.shard_of(bytes)
    }

    fn connection(&self, origin: Origin, layer: Box<dyn Layer>, now: Instant) -> Box<dyn SimConnection> {
        self.hosted.connection(origin, layer, now)
    }

    fn on_message(&mut self, shard: u16, now: Instant, received: Received<'_>, effects: &mut Effects) {
        if let Some(paused) = &mut self.paused {
            // Streams are not read in a pause.
            return paused.push((shard, Input::Message(received.flow, received.bytes.to_vec())));
        }
        self.hosted.on_message(shard, now + self.ahead, received, effects);
    }

    fn on_event(&mut self, shard: u16, now: Instant, event: Event, effects: &mut Effects) {
        if let Some(paused) = &mut self.paused {
            let input = match event {
                Event::Closed(connection) => Input::Closed(connection),
                other => Input::Other(other),
            };
            return paused.push((shard, input));
        }
        self.hosted.on_event(shard, now + self.ahead, event, effects);
    }

    fn shard_of_quoted(&self, quoted: &[u8]) -> Option<u16> {
        RealServer::shard_of_quoted(quoted, self.shards())
    }

    fn on_icmp_error(&mut self, shard: u16, now: Instant, error: IcmpError<'_>, effects: &mut Effects) {
        if self.paused.is_none() {
            self.hosted.on_icmp_error(shard, now + self.ahead, error, effects);
        }
    }

    fn on_timeout(&mut self, shard: u16, now: Instant, effects: &mut Effects) {
        if self.paused.is_none() {
            self.hosted.on_timeout(shard, now + self.ahead, effects);
        }
    }

    fn next_deadline(&self, shard: u16) -> Option<Deadline> {
        if self.paused.is_some() {
            return None;
        }
        let due = self.hosted.next_deadline(shard)?;
        let at = due.at.as_nanos().saturating_sub(self.ahead.as_nanos() as u64);
        Some(Deadline { at: Instant::from_nanos(at), ..due })
    }
}
