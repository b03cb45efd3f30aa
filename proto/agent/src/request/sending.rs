//! Sending of requests: next hop, flow, credentials, ACKs; their peers: connections to them, the cache of resolved host
//! names, addresses that large requests could not be sent to by TCP.

use crate::context::AgentContext;
use crate::draft::{Draft, Purpose, Scope, hex, write_request};
use crate::event::number_of;
use crate::next_hop::NextHop;
use crate::request::challenge::Covered;
use crate::request::{Ack, NotSent, Request, Requests, Switched, Timer};
use crate::{Action, Config, LargeRequests};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{ConnectionId, Flow, HostNameId, Instant, LocatedServer, Token, Transport};
use ringway_sip::{Message, Method};
use ringway_transaction::{Outgoing, SlabKey};

impl Requests {
    /// Handles a request that the transport could not deliver.
    pub(super) fn on_undelivered(&mut self, cx: &mut AgentContext<'_>, key: SlabKey) {
        let Some(request) = self.active.get_mut(key) else { return };
        let flow = request.flow;
        if request.switched == Switched::ToTcp {
            request.switched = Switched::BackToUdp;
            request.client = None;
            if let Some(flow) = flow {
                let is_displaced = self.tcp_failures.note(cx.now(), flow.remote);
                cx.counters.tcp_failures_displaced += u64::from(is_displaced);
            }
            if let Some(Flow { transport, remote: address, host, .. }) = flow
                && self.transmit(cx, key, LocatedServer { transport, address, host }).is_ok()
            {
                return;
            }
        }
        let has_connection = flow.is_none_or(|flow| flow.transport.has_connections());
        let reason = match has_connection {
            true => "it could not be sent there, or the connection ended without an answer",
            false => "the port is closed, or the host is unreachable",
        };
        self.fail(key, 503, reason);
    }

    /// Sends the ACK of a 2xx. It is stored with the INVITE for retransmission.
    pub(crate) fn acknowledge(
        &mut self,
        cx: &mut AgentContext<'_>,
        invite: SlabKey,
        remote_tag: &[u8],
        draft: Draft,
    ) {
        if let Some(request) = self.active.get_mut(invite) {
            request.acks.push(Ack { remote_tag: remote_tag.to_vec(), flow: None, bytes: Vec::new() });
            // If the ACK cannot be sent, the peer times out.
            let _ = self.submit(cx, draft, Purpose::Ack(invite));
        }
    }

    /// Retransmits the ACK of a retransmitted 2xx. False for a 2xx that is not acknowledged yet.
    pub(super) fn retransmit_ack(
        &mut self,
        cx: &mut AgentContext<'_>,
        key: SlabKey,
        message: &Message<'_>,
    ) -> bool {
        let tag = message.to().tag().unwrap_or_default();
        let Some(request) = self.active.get(key) else { return false };
        let Some(ack) = request.acks.iter().find(|ack| ack.remote_tag == tag) else { return false };
        if let Some(flow) = ack.flow {
            cx.io.out.send(flow, Token::NONE, &ack.bytes);
        }
        true
    }

    pub(super) fn keep_until_forks_are_over(&mut self, cx: &AgentContext<'_>, key: SlabKey) {
        let until = cx.now() + cx.config.timers.t1 * 64;
        if let Some(request) = self.active.get_mut(key)
            && request.acks.is_empty()
        {
            self.timers.cancel(request.timer);
            request.timer = self.timers.arm(until, Timer::Forget(key));
        }
    }

    /// Starts a lookup of the next hop, or sends if its address is known.
    pub(super) fn route(&mut self, cx: &mut AgentContext<'_>, key: SlabKey) -> Result<(), NotSent> {
        let Some(request) = self.active.get_mut(key) else { return Ok(()) };
        let target = request.draft.next_hop.target(u64::from_ne_bytes(cx.random.visible.bytes()));
        let literal = request.draft.next_hop.ip().map(|ip| target.server_at(ip, HostNameId::NONE));
        if let Some(server) = literal.or_else(|| self.names.find(cx.now(), &request.draft.next_hop)) {
            return self.transmit(cx, key, server);
        }
        request.timer = self.timers.arm(cx.now() + cx.config.timers.t1 * 64, Timer::Lookup(key));
        cx.io.actions.push(Action::Resolve { query: number_of(key), target });
        Ok(())
    }

    pub(super) fn transmit(
        &mut self,
        cx: &mut AgentContext<'_>,
        key: SlabKey,
        server: LocatedServer,
    ) -> Result<(), NotSent> {
        let to = Flow::canonical(server.address);
        let mut flow = self.flow_to(cx.config, key, to, server.host).ok_or(NotSent::NoListener)?;
        let Some(request) = self.active.get_mut(key) else { return Ok(()) };
        request.flow = Some(flow);
        self.note_server(cx.config, key, LocatedServer { address: to, ..server });
        self.write_credentials(cx, key, flow);
        let Some(request) = self.active.get(key) else { return Ok(()) };
        let larger = too_large_for(cx.config, request, flow);
        if larger.is_some() && self.tcp_failures.contains(cx.now(), to) {
            cx.counters.kept_on_udp += 1;
        } else if let Some(larger) = larger {
            flow = larger;
            cx.counters.switched_to_tcp += 1;
            if let Some(request) = self.active.get_mut(key) {
                request.switched = Switched::ToTcp;
                request.flow = Some(flow);
            }
        }
        let Some(request) = self.active.get(key) else { return Ok(()) };
        if let Purpose::Ack(invite) = request.purpose {
            return self.transmit_ack(cx, key, invite, flow);
        }
        let (config, credentials, now) = (cx.config, &request.credentials, cx.now());
        let is_invite = request.draft.method == Method::Invite;
        let outgoing = Outgoing { flow, is_invite, owner: key };
        let client = self.transactions.start_client(&mut cx.io, outgoing, |arena, branch| {
            write_request(config, &request.draft, credentials, flow, branch, arena);
        });
        let Some(client) = client else {
            let has_room = self.transactions.len().1 < cx.config.limits.transactions.clients_max;
            return Err(if has_room { NotSent::Unsafe } else { NotSent::TooMany });
        };
        if let Some(request) = self.active.get_mut(key) {
            request.client = Some(client);
            request.sent_at = now;
            request.connection = self.peers.connection_to(flow);
        }
        Ok(())
    }

    fn transmit_ack(
        &mut self,
        cx: &mut AgentContext<'_>,
        key: SlabKey,
        invite: SlabKey,
        flow: Flow,
    ) -> Result<(), NotSent> {
        let branch = [b"z9hG4bK.a", hex(&cx.random.visible.bytes::<12>()).as_slice()].concat();
        let Some(request) = self.active.remove(key) else { return Ok(()) };
        self.timers.cancel(request.timer);
        let Some(invite) = self.active.get_mut(invite) else { return Ok(()) };
        // RFC 3261 §13.2.2.4: with the INVITE's credentials, but only to the INVITE's destination.
        let goes_there = invite.flow.is_some_and(|sent| {
            // The peer chooses the transport of its Record-Route.
            sent.remote == flow.remote && (flow.transport.is_secure() || !sent.transport.is_secure())
        });
        let credentials = if goes_there { invite.credentials.as_slice() } else { &[] };
        let mut bytes = Vec::new();
        write_request(cx.config, &request.draft, credentials, flow, &branch, &mut bytes);
        cx.io.out.send(flow, Token::NONE, &bytes);
        let tag = tag_of(&request.draft.to);
        if let Some(ack) = invite.acks.iter_mut().find(|ack| ack.remote_tag == tag) {
            ack.flow = Some(flow);
            ack.bytes = bytes;
        }
        Ok(())
    }

    /// Notes the address of the account's server: the destination of a request that the configuration sends there.
    fn note_server(&mut self, config: &Config, key: SlabKey, server: LocatedServer) {
        let Some(request) = self.active.get(key).filter(|it| it.draft.scope == Scope::OutsideDialog) else {
            return;
        };
        let account = request.draft.account;
        let has_server = config.account(account).is_some_and(|account| account.server.is_some());
        if (has_server || request.draft.method == Method::Register)
            && let Some(credentials) = self.credentials.get_mut(account.0)
        {
            credentials.server = Some(server);
        }
    }

    /// Writes the credentials of a request: for the called phone's challenge, and to the account's server; there inside a dialog
    /// only after a challenge.
    fn write_credentials(&mut self, cx: &mut AgentContext<'_>, key: SlabKey, flow: Flow) {
        let Some(request) = self.active.get_mut(key) else { return };
        request.credentials.clear();
        let (draft, cnonces) = (&request.draft, &mut cx.random.visible);
        let body = draft.body.as_ref().map_or(&[][..], |body| &body.bytes);
        let covered = Covered { method: draft.method, uri: &draft.uri, body };
        if let Some(peer) = &mut request.peer_credentials {
            request.credentials.push(peer.write(covered, cnonces));
        }
        let (Some(account), Some(credentials)) =
            (cx.config.account(draft.account), self.credentials.get_mut(draft.account.0))
        else {
            return;
        };
        if !credentials.are_for(flow) || (draft.scope == Scope::InDialog && request.rounds == 0) {
            return;
        }
        credentials.wallet.write(account, covered, cnonces, &mut request.credentials);
    }

    /// The flow of a request to `to`; for a stream or DTLS the connection of the peer's last request in the dialog, if that has this
    /// address.
    ///
    /// A Record-Route names the account's server by its address: its connection, which was verified by its name, is used
    /// for that too.
    fn flow_to(&self, config: &Config, key: SlabKey, to: SocketAddr, host: HostNameId) -> Option<Flow> {
        let transport = self.active.get(key)?.draft.next_hop.transport;
        let listener = config.listener_for(transport, to.ip())?;
        let peer = self.active.get(key)?.draft.peer.filter(|_| transport.has_connections());
        let peer = peer.filter(|peer| peer.transport == transport && peer.remote == to);
        let account = self.active.get(key)?.draft.account;
        let of_server = self.credentials.get(account.0).and_then(|credentials| credentials.server);
        let of_server = of_server.filter(|server| server.transport == transport && server.address == to);
        let host = of_server.filter(|_| host == HostNameId::NONE).map_or(host, |server| server.host);
        Some(peer.unwrap_or(Flow { host, ..Flow::new(transport, listener, to) }))
    }
}

/// TCP flow for a request that is too large for UDP (RFC 3261 §18.1.1).
fn too_large_for(config: &Config, request: &Request, flow: Flow) -> Option<Flow> {
    if flow.transport.has_connections()
        || request.switched == Switched::BackToUdp
        || config.large_requests == LargeRequests::StayOnUdp
    {
        return None;
    }
    let mut bytes = Vec::new();
    write_request(config, &request.draft, &request.credentials, flow, &[b'x'; BRANCH_BYTES], &mut bytes);
    let listener = config.listener_for(Transport::Tcp, flow.remote.ip())?;
    (bytes.len() > DATAGRAM_BYTES_MAX).then(|| Flow::dial(listener, flow.remote))
}

/// Tag in a From or To value.
fn tag_of(value: &[u8]) -> Vec<u8> {
    let parsed = ringway_sip::NameAddr::parse(value).ok();
    parsed.and_then(|value| value.tag()).unwrap_or_default().to_vec()
}

/// Connections that responses were received on, by the peer's address: the driver reuses them for requests to that address.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    known: Vec<(SocketAddr, ConnectionId)>,
}

impl Peers {
    /// Adds a connection. True if the oldest entry was removed for it.
    pub(crate) fn note(&mut self, remote: SocketAddr, connection: ConnectionId) -> bool {
        if self.known.contains(&(remote, connection)) {
            return false;
        }
        self.known.retain(|(known, _)| *known != remote);
        let is_full = self.known.len() >= PEERS_MAX;
        if is_full {
            self.known.remove(0);
        }
        self.known.push((remote, connection));
        is_full
    }

    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.known.retain(|(_, known)| *known != connection);
    }

    /// `None` for datagrams, and for a peer whose connection is not known.
    fn connection_to(&self, flow: Flow) -> Option<ConnectionId> {
        if !flow.transport.has_connections() {
            return None;
        }
        let known = self.known.iter().find(|(remote, _)| *remote == flow.remote);
        flow.connection.or(known.map(|(_, connection)| *connection))
    }
}

/// More connections than a phone has servers and calls.
const PEERS_MAX: usize = 32;

/// Cache of resolved names, so that an ACK and a BYE are sent without another lookup.
#[derive(Debug, Default)]
pub(crate) struct ResolvedNames {
    known: Vec<(NextHop, LocatedServer, Instant)>,
}

impl ResolvedNames {
    pub(crate) fn find(&self, now: Instant, hop: &NextHop) -> Option<LocatedServer> {
        let found = self.known.iter().find(|(known, _, until)| *until > now && known == hop);
        found.map(|(_, server, _)| *server)
    }

    /// Adds a server. True if the oldest entry was removed for it.
    pub(crate) fn remember(&mut self, now: Instant, hop: NextHop, server: LocatedServer) -> bool {
        self.known.retain(|(known, _, until)| *until > now && *known != hop);
        let is_full = self.known.len() >= NAMES_MAX;
        if is_full {
            self.known.remove(0);
        }
        self.known.push((hop, server, now + NAME_LIFETIME));
        is_full
    }
}

const NAMES_MAX: usize = 16;
const NAME_LIFETIME: Duration = Duration::from_secs(60);

/// Addresses to which a large request was sent by UDP after TCP had failed (RFC 3261 §18.1.1). Where TCP is filtered each attempt
/// costs the time limit of a connection, so the next large requests are sent by UDP at once.
#[derive(Debug, Default)]
pub(crate) struct TcpFailures {
    known: Vec<(SocketAddr, Instant)>,
}

impl TcpFailures {
    pub(crate) fn contains(&self, now: Instant, address: SocketAddr) -> bool {
        self.known.iter().any(|(known, until)| *known == address && *until > now)
    }

    /// Adds an address. True if the oldest entry was removed for it.
    pub(crate) fn note(&mut self, now: Instant, address: SocketAddr) -> bool {
        self.known.retain(|(known, until)| *until > now && *known != address);
        let is_full = self.known.len() >= ADDRESSES_MAX;
        if is_full {
            self.known.remove(0);
        }
        self.known.push((address, now + LIFETIME));
        is_full
    }

    pub(crate) fn forget(&mut self, address: SocketAddr) {
        self.known.retain(|(known, _)| *known != address);
    }
}

/// Maximum for an unknown path MTU (RFC 3261 §18.1.1).
const DATAGRAM_BYTES_MAX: usize = 1300;
/// Approximate length of a branch.
const BRANCH_BYTES: usize = 62;
/// More addresses than a phone has servers and calls.
const ADDRESSES_MAX: usize = 16;
/// A filter stays for long, but a phone moves to other networks.
const LIFETIME: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::IpAddr;
    use ringway_sansio::{HostNameId, Transport};

    #[test]
    fn names_are_forgotten_in_time_and_number() {
        let mut names = ResolvedNames::default();
        let now = Instant::from_secs(1);
        let hop = |number: u8| NextHop {
            host: alloc::format!("host{number}"),
            port: None,
            transport: Transport::Udp,
        };
        let server = |number: u8| {
            let ip = IpAddr::from([192, 0, 2, number]);
            hop(number).target(0).server_at(ip, HostNameId::NONE)
        };
        for number in 0..40 {
            let is_displaced = names.remember(now, hop(number), server(number));
            assert_eq!(is_displaced, usize::from(number) >= NAMES_MAX, "{number}");
        }
        assert_eq!(names.known.len(), NAMES_MAX);
        assert_eq!(names.find(now, &hop(39)), Some(server(39)));
        assert_eq!(names.find(now, &NextHop { port: Some(5070), ..hop(39) }), None, "another server");
        assert_eq!(names.find(now + NAME_LIFETIME, &hop(39)), None);
    }
}
