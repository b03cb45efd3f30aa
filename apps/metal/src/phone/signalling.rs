//! The user agent as the station's node, with the look-ups that are ours and not its own.

use core::net::IpAddr;
use ringway_agent::{Action, UserAgent};
use ringway_sansio::{Context, Deadline, Event, Node, Received};

pub(crate) struct Signalling {
    pub(crate) agent: UserAgent,
    /// What came of looking the STUN server up, once. Within: `None`, it has no address.
    stun: Option<Option<IpAddr>>,
}

/// The look-up of the STUN server. The agent counts its own from 1.
pub(crate) const STUN_QUERY: u64 = u64::MAX;

impl Signalling {
    pub(crate) const fn new(agent: UserAgent) -> Self {
        Self { agent, stun: None }
    }

    /// What came of looking the STUN server up, once.
    pub(crate) const fn take_stun(&mut self) -> Option<Option<IpAddr>> {
        self.stun.take()
    }
}

impl Node for Signalling {
    type Action = Action;
    type Framer = <UserAgent as Node>::Framer;

    fn shard_of(key: &ringway_sansio::ShardKey, bytes: &[u8], shards: u16) -> u16 {
        UserAgent::shard_of(key, bytes, shards)
    }

    fn on_message(&mut self, cx: &mut Context<'_, Action>, received: Received<'_>) {
        self.agent.on_message(cx, received);
    }

    fn on_event(&mut self, cx: &mut Context<'_, Action>, event: Event) {
        match event {
            Event::Resolved { query: STUN_QUERY, address } => self.stun = Some(address),
            Event::Resolved { .. } | Event::Closed(_) | Event::Unreachable(_) => {
                self.agent.on_event(cx, event);
            }
        }
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, Action>) {
        self.agent.on_timeout(cx);
    }

    fn next_deadline(&self) -> Option<Deadline> {
        self.agent.next_deadline()
    }
}
