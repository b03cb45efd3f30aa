//! Sockets of one side of the load, of any transport.

use super::Plan;
use super::datagrams::{Batches, Datagrams};
use super::layers::Layers;
use super::locals::may_send;
use super::plan::LoadTls;
use super::streams::Streams;
use super::{Input, Place, WireCounters};
use anyhow::{Result, bail};
use ringway_linux::BoxedLayer;
use ringway_linux::sys::{Epoll, Ready};
use ringway_sansio::{ConnectionId, Event, Instant, Outbox, Transport};
use ringway_stream::Origin;
use ringway_tls::{TlsCounters, TlsCounts};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Sockets of one side.
pub(crate) struct Sockets {
    kind: Kind,
    allowed: Arc<[IpAddr]>,
    counters: WireCounters,
    tls: Option<Tls>,
}

/// Counters of TLS handshakes, and their values at the start of the load.
struct Tls {
    counters: Arc<TlsCounters>,
    earlier: TlsCounts,
    shared: LoadTls,
}

enum Kind {
    Datagrams(Datagrams),
    Streams(Box<Streams<BoxedLayer>>),
}

impl Sockets {
    /// Opens sockets for packets to the plan's target and to the hosts that are allowed. Connections that are opened, and those that
    /// are accepted, have the layers of the plan.
    pub(crate) fn open(
        plan: &Plan,
        allowed: Arc<[IpAddr]>,
        (epoll, player): (&Arc<Epoll>, u8),
        now: Instant,
    ) -> Result<Self> {
        let (locals, watched) = (&plan.locals(), (epoll, player));
        let mut layers = Layers::new(plan)?;
        let tls = layers.counters().zip(plan.tls.clone()).map(|(counters, shared)| Tls {
            counters: Arc::clone(counters),
            earlier: TlsCounts::default(),
            shared,
        });
        let kind = match plan.transport {
            Transport::Udp => Kind::Datagrams(Datagrams::open(locals, plan.target, epoll, player)?),
            Transport::Dtls => bail!("the load generator has no DTLS; use another transport"),
            Transport::Tcp | Transport::Tls | Transport::Ws | Transport::Wss => {
                let layer = move |origin: Origin, remote: SocketAddr| match origin {
                    Origin::Dialled => layers.dialled(),
                    Origin::Accepted => layers.accepted(remote),
                };
                Kind::Streams(Streams::open(plan.transport, locals, watched, Box::new(layer), now)?.into())
            }
        };
        Ok(Self { kind, allowed, counters: WireCounters::default(), tls })
    }

    /// Counters since the start of the load.
    pub(crate) fn counters(&self) -> WireCounters {
        let Some(Tls { counters, earlier, .. }) = &self.tls else { return self.counters };
        let now = counters.counts();
        let failed = |counts: &TlsCounts| {
            counts.tls_failed_certificate + counts.tls_failed_parameters + counts.tls_failed_protocol
        };
        WireCounters {
            tls_full: now.tls_dialled_full - earlier.tls_dialled_full,
            tls_resumed: now.tls_dialled_resumed - earlier.tls_dialled_resumed,
            tls_accepted_full: now.tls_accepted_full - earlier.tls_accepted_full,
            tls_accepted_resumed: now.tls_accepted_resumed - earlier.tls_accepted_resumed,
            tls_failed: failed(&now) - failed(earlier),
            ..self.counters
        }
    }

    /// Reason for which handshakes fail, if none has succeeded.
    pub(crate) fn tls_failure(&self) -> Option<&str> {
        let tls = self.tls.as_ref()?;
        let counts = tls.counters.counts();
        let dialled = counts.tls_dialled_full + counts.tls_dialled_resumed;
        let accepted = counts.tls_accepted_full + counts.tls_accepted_resumed;
        tls.shared.first_failure().filter(|_| dialled + accepted == 0)
    }

    /// Counts from here on.
    pub(crate) fn restart_counters(&mut self) {
        let connections = self.counters.connections;
        self.counters = WireCounters { connections, ..WireCounters::default() };
        if let Some(tls) = &mut self.tls {
            tls.earlier = tls.counters.counts();
        }
    }

    /// Addresses of the sockets that packets of peers arrive at.
    pub(crate) fn locals(&self) -> Result<Vec<SocketAddr>> {
        match &self.kind {
            Kind::Datagrams(datagrams) => datagrams.locals(),
            Kind::Streams(streams) => Ok(streams.locals()),
        }
    }

    /// Receives from a socket. True: call [`Sockets::finish`] after the responses are sent.
    pub(crate) fn receive(
        &mut self,
        place: Place,
        ready: Ready,
        now: Instant,
        batches: &mut Batches,
        each: &mut dyn FnMut(Input<'_>),
    ) -> Result<bool> {
        let (counters, allowed) = (&mut self.counters, &self.allowed);
        match (&mut self.kind, place) {
            (Kind::Datagrams(datagrams), Place::Socket(index)) => {
                datagrams.receive(index, ready.error, batches, counters, each)?;
            }
            (Kind::Streams(streams), Place::Socket(index)) => {
                streams.accept(index, now, |peer| may_send(peer.ip(), allowed), counters);
            }
            (Kind::Streams(streams), Place::Connection(key)) => {
                if ready.write {
                    streams.writable(key, now, counters);
                }
                return Ok(ready.read && streams.read(key, now, counters, each));
            }
            (Kind::Datagrams(_), Place::Connection(_)) => {}
        }
        Ok(false)
    }

    /// Closes a connection that receives nothing more, once everything is written.
    pub(crate) fn finish(&mut self, place: Place) {
        if let (Kind::Streams(streams), Place::Connection(key)) = (&mut self.kind, place) {
            streams.finish(key, &mut self.counters);
        }
    }

    /// Sends the packets of `out` and empties it. Packets to addresses that are not permitted are counted.
    pub(crate) fn send(&mut self, out: &mut Outbox, batches: &mut Batches, now: Instant) {
        if !out.is_empty() {
            let allowed = &self.allowed;
            let is_permitted = |to: SocketAddr| may_send(to.ip(), allowed);
            match &mut self.kind {
                Kind::Datagrams(datagrams) => datagrams.send(out, is_permitted, batches, &mut self.counters),
                Kind::Streams(streams) => streams.send(out, is_permitted, now, &mut self.counters),
            }
        }
        out.clear();
    }

    /// Takes an event for the generator.
    pub(crate) fn take_event(&mut self) -> Option<Event> {
        match &mut self.kind {
            Kind::Datagrams(_) => None,
            Kind::Streams(streams) => streams.take_event(),
        }
    }

    /// Closes a connection that the generator does not use any more.
    pub(crate) fn release(&mut self, id: ConnectionId, now: Instant) {
        if let Kind::Streams(streams) = &mut self.kind {
            streams.release(id, now, &mut self.counters);
        }
    }

    /// Runs due timers of connections.
    pub(crate) fn expire(&mut self, now: Instant) {
        if let Kind::Streams(streams) = &mut self.kind {
            streams.expire(now, &mut self.counters);
        }
    }

    /// Time of the next [`Sockets::expire`].
    pub(crate) fn next_due(&self) -> Option<Instant> {
        match &self.kind {
            Kind::Datagrams(_) => None,
            Kind::Streams(streams) => streams.next_due(),
        }
    }
}
