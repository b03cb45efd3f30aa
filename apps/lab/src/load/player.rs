//! One side of the load: a generator with its sockets.

use super::datagrams::Batches;
use super::media::MediaSide;
use super::plan::Plan;
use super::sockets::Sockets;
use super::{Input, Place};
use anyhow::Result;
use ringway_linux::sys::{Epoll, Ready};
use ringway_load::{Action, Counters, Generator};
use ringway_sansio::{Context, Instant, Node, Outbox};
use std::net::SocketAddr;
use std::sync::Arc;

/// Generator with its sockets.
pub(crate) struct Player {
    /// Number among the players of a thread.
    pub(crate) number: u8,
    pub(crate) generator: Option<Generator>,
    pub(crate) sockets: Sockets,
    /// Media of its calls.
    pub(crate) media: Option<MediaSide>,
    /// Counters of the generator at the start of the load.
    earlier: Counters,
}

/// Buffers of a thread for calls into its generators.
pub(crate) struct Buffers {
    pub(crate) batches: Batches,
    pub(crate) out: Outbox,
    pub(crate) actions: Vec<Action>,
}

impl Player {
    /// Opens the sockets of one side, watched by `epoll`.
    pub(crate) fn open(plan: &Plan, epoll: &Arc<Epoll>, number: u8, now: Instant) -> Result<Self> {
        let allowed = plan.allowed_hosts.as_slice().into();
        let watched = (epoll, number);
        let sockets = Sockets::open(plan, allowed, watched, now)?;
        Ok(Self { number, generator: None, sockets, media: None, earlier: Counters::default() })
    }

    /// Addresses of the sockets.
    pub(crate) fn locals(&self) -> Result<Vec<SocketAddr>> {
        self.sockets.locals()
    }

    /// Counts from here on.
    pub(crate) fn restart_counters(&mut self) {
        self.earlier = self.generator.as_ref().map(Generator::counters).unwrap_or_default();
        self.sockets.restart_counters();
    }

    /// Counters of the generator since the start of the load.
    pub(crate) fn counters(&self) -> Counters {
        let now = self.generator.as_ref().map(Generator::counters).unwrap_or_default();
        let earlier = self.earlier;
        Counters {
            started: now.started - earlier.started,
            dropped: now.dropped - earlier.dropped,
            requests: now.requests - earlier.requests,
            challenges: now.challenges - earlier.challenges,
            retransmissions: now.retransmissions - earlier.retransmissions,
            malformed: now.malformed - earlier.malformed,
            stray: now.stray - earlier.stray,
        }
    }

    /// Number of received messages that are not SIP.
    pub(crate) fn foreign(&self) -> u64 {
        self.sockets.counters().broken + self.counters().malformed
    }

    /// Number of open attempts.
    pub(crate) fn open_attempts(&self) -> usize {
        self.generator.as_ref().map_or(0, Generator::open)
    }

    /// True if no attempt is open or planned.
    pub(crate) fn is_done(&self) -> bool {
        self.generator.as_ref().is_none_or(Generator::is_done)
    }

    /// Handles a ready descriptor. Returns the number of received SIP messages. The caller sends `buffers.out` and then calls
    /// [`Sockets::finish`] if the second value is true.
    pub(crate) fn receive(
        &mut self,
        place: Place,
        ready: Ready,
        now: Instant,
        buffers: &mut Buffers,
    ) -> Result<(u64, bool)> {
        let Self { generator: Some(generator), sockets, .. } = self else { return Ok((0, false)) };
        let Buffers { batches, out, actions } = buffers;
        let malformed = generator.counters().malformed;
        let mut messages = 0;
        let is_last = sockets.receive(place, ready, now, batches, &mut |input| {
            let mut cx = Context::new(now, out, actions);
            match input {
                Input::Message(received) => {
                    messages += 1;
                    generator.on_message(&mut cx, received);
                }
                Input::Icmp(error) => generator.on_icmp_error(&mut cx, error),
            }
        })?;
        let malformed = generator.counters().malformed - malformed;
        Ok((messages - malformed.min(messages), is_last))
    }

    /// Passes events of the sockets to the generator and runs its due timers.
    pub(crate) fn run(&mut self, now: Instant, is_stopped: bool, buffers: &mut Buffers) {
        let Self { generator: Some(generator), sockets, .. } = self else { return };
        let mut cx = Context::new(now, &mut buffers.out, &mut buffers.actions);
        if is_stopped {
            generator.abort(&mut cx);
        }
        while let Some(event) = sockets.take_event() {
            generator.on_event(&mut cx, event);
        }
        if generator.next_deadline().is_some_and(|deadline| deadline.at <= now) {
            generator.on_timeout(&mut cx);
        }
        sockets.expire(now);
    }

    /// Time of the next [`Player::run`].
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let timers = self.generator.as_ref().and_then(|generator| generator.next_deadline());
        [timers.map(|deadline| deadline.at), self.sockets.next_due()].into_iter().flatten().min()
    }
}
