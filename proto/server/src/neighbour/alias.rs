//! Connections that a neighbour opened, for requests to it (RFC 5923).
//!
//! A request of the neighbour with `;alias` in its topmost Via offers its connection. The offer counts only if the
//! connection is TLS, its verified certificate is the neighbour's, and its source and the sent-by port are the address at
//! which the neighbour would be dialled (RFC 5923 §8.2): a request over it reaches nobody else than over a connection of
//! our own. The link takes an offer instead of dialling, and the certificate is checked again with each answer.

use crate::Neighbour;
use crate::base::{Env, Request};
use core::net::SocketAddr;
use ringway_sansio::{Instant, PeerNames, Transport};
use ringway_sip::Uri;

impl Env<'_> {
    /// Notes the offer of a request, if it is one.
    pub(crate) fn note_alias(&mut self, request: &Request<'_, '_>) {
        let (flow, via, now) = (request.flow, request.message.via(), self.cx.now);
        let Some(peer) = request.peer.filter(|_| flow.transport == Transport::Tls) else { return };
        let is_tls = Transport::from_token(via.transport) == Some(Transport::Tls);
        if !is_tls || flow.connection.is_none() || !via.params.has(b"alias") {
            return;
        }
        let port = via.port.unwrap_or(Transport::Tls.default_port());
        let advertised = SocketAddr::new(flow.remote.ip(), port);
        for (index, neighbour) in self.config.neighbours.iter().enumerate() {
            if neighbour.is_identified(Some(peer), now) && self.tables.neighbour_connection(index).is_none() {
                self.tables.change_neighbours((), |table| table.offer(index, advertised, flow));
            }
        }
    }
}

impl Neighbour {
    /// True for a certificate of this neighbour's `certificate` domain and, if its URI has a host name, of that name too
    /// (RFC 5922 §7.4, RFC 5923 §8.2).
    pub(crate) fn is_identified(&self, peer: Option<&PeerNames>, now: Instant) -> bool {
        let (Some(peer), Some(domain)) = (peer, &self.certificate) else { return false };
        let is_host = |uri: Uri<'_>| {
            let host = core::str::from_utf8(uri.host().as_bytes());
            uri.host().ip().is_some() || host.is_ok_and(|host| peer.is_domain(host, now))
        };
        peer.is_domain(domain, now) && Uri::parse(self.uri.as_bytes()).is_ok_and(is_host)
    }
}
