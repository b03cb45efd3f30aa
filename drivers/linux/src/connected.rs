//! Connections of a worker of either kind: streams and associations.

use crate::associations::AssociationTable;
use crate::connection_id::{self, Kind, kind_of};
use crate::shared::Common;
use crate::stream::More;
use crate::tcp::Streams;
use ringway_sansio::{ConnectionId, Dialler, Flow, Framer, Instant, Token, Transport};
use std::net::UdpSocket;

/// Connections of a worker: streams and associations.
pub(crate) struct Connected<'a, F> {
    pub(crate) streams: &'a mut Streams<F>,
    pub(crate) associations: &'a mut AssociationTable,
    pub(crate) udp: &'a [Option<UdpSocket>],
    pub(crate) now: Instant,
}

impl<F: Framer> Connected<'_, F> {
    pub(crate) fn send(&mut self, flow: Flow, (token, dialler): (Token, Dialler), bytes: &[u8], more: More) {
        let Self { streams, associations, udp, now } = self;
        match (flow.connection, flow.transport) {
            (Some(id), Transport::Dtls) => associations.send(udp, id, token, bytes, *now),
            (None, Transport::Dtls) => associations.dial(udp, flow, token, bytes, *now),
            (Some(id), _) => streams.send(id, token, bytes, more, *now),
            (None, _) => streams.dial(flow, (token, dialler), bytes, more, *now),
        }
    }

    pub(crate) fn keep(&mut self, id: ConnectionId, until: Instant) {
        match kind_of(id) {
            Kind::Stream => self.streams.keep(id, until),
            Kind::Association => self.associations.keep(id, until),
        }
    }

    pub(crate) fn disconnect(&mut self, flow: &Flow) {
        match flow.transport {
            Transport::Dtls => self.associations.disconnect(self.udp, flow, self.now),
            _ => self.streams.disconnect(flow),
        }
    }
}

/// Sends over a connection of this worker, or passes the packet to its owner. The owner of a connection to be dialled depends
/// on the remote address, so that all workers use the same one.
pub(crate) fn send_connected<F: Framer>(
    common: &Common,
    worker: usize,
    connections: &mut Connected<'_, F>,
    (flow, token, dialler): (Flow, Token, Dialler),
    bytes: &[u8],
    more: More,
) {
    let owner = owner_of(common, &flow);
    if owner == worker {
        return connections.send(flow, (token, dialler), bytes, more);
    }
    let Some(inbox) = common.inboxes.of(owner) else { return connections.streams.unreachable(token) };
    if !inbox.push_stream(flow, (token, dialler), bytes) {
        connections.streams.inbox_full(token);
    }
}

/// Worker that has the connection of a flow, or dials it.
pub(crate) fn owner_of(common: &Common, flow: &Flow) -> usize {
    match flow.connection {
        Some(id) => connection_id::owner_of(id),
        None => common.dialler_of(flow),
    }
}
