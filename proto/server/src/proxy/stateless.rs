//! Forwarding without state (RFC 3261 §16.11): every request of a stateless proxy, and the ACK of a 2xx everywhere.

use super::breadth::Share;
use super::forward::{Plan, target_uri};
use super::{Lookup, Target, Targets};
use crate::auth::Grant;
use crate::route::{Hop, Routed, preprocess};
use crate::server::{Request, Source};
use crate::{Action, Server, Services};
use alloc::boxed::Box;
use core::net::{IpAddr, SocketAddr};
use ringway_sansio::{Context, Flow, Instant, Token, Transport};
use ringway_sip::{Edit, HeaderName, Message, Method, Start, Via};
use ringway_transaction::{reply_address, stamped_address};

/// A request that is forwarded without state and waits for the address of its target.
#[derive(Debug)]
pub(crate) struct Waiting {
    request: Box<[u8]>,
    source: Flow,
    grant: Grant,
    uri: Box<[u8]>,
    keeps_uri: bool,
    port: u16,
    transport: Transport,
}

impl<S: Services> Server<S> {
    /// Forwards to the first target. The branch follows from the request, so that its repetitions, its ACK and its CANCEL
    /// have it too.
    pub(super) fn forward_without_state(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        targets: &Targets,
    ) {
        let Some(target) = targets.list.first() else { return };
        let hop = match target_uri(targets, target, routed) {
            Some(uri) => self.hop_to_target(request.grant.reach, routed, target, &uri),
            None => Hop::Unreachable,
        };
        match hop {
            Hop::Flow(flow) => self.send_without_state(cx, request, routed, targets, target, flow),
            Hop::Name { host, port, transport } => {
                let bytes = request.message.as_bytes().len();
                if self.waiting >= WAITING_MAX || self.waiting_bytes + bytes > WAITING_BYTES_MAX {
                    self.counters.overflow += 1;
                    return self.refuse_plainly(cx, request, 503, "Too Many Look-Ups");
                }
                let waiting = Waiting {
                    request: request.message.as_bytes().into(),
                    source: request.flow,
                    grant: request.grant,
                    uri: targets.uri(target).into(),
                    keeps_uri: target.keeps_uri,
                    port,
                    transport,
                };
                self.waiting += 1;
                self.waiting_bytes += bytes;
                self.look_up(cx, host, Lookup::Stateless(Box::new(waiting)));
            }
            Hop::Unreachable => self.refuse_plainly(cx, request, 480, "Temporarily Unavailable"),
        }
    }

    /// The address is there that a request without state waits for.
    pub(super) fn forward_waiting(
        &mut self,
        cx: &mut Context<'_, Action>,
        waiting: &Waiting,
        address: Option<IpAddr>,
    ) {
        self.waiting -= 1;
        self.waiting_bytes -= waiting.request.len();
        let limits = self.config.message_limits.clone();
        let Ok(message) = Message::parse(&waiting.request, &limits) else { return };
        let Start::Request { method, uri } = *message.start() else { return };
        let Ok(routed) = preprocess(&self.config, &self.keys.route, &message, uri) else { return };
        let grant = waiting.grant;
        let request = Request { message: &message, method, uri, flow: waiting.source, key: None, grant };
        let hop = match address {
            Some(ip) => self.resolved(grant.reach, SocketAddr::new(ip, waiting.port), waiting.transport),
            None => Hop::Unreachable,
        };
        let share = Share::of(&self.config, &message, 1).unwrap_or_default();
        let mut targets = Targets { share, ..Targets::default() };
        match hop {
            Hop::Flow(flow) => {
                targets.push(&waiting.uri, waiting.keeps_uri, None, 1000);
                if let Some(target) = targets.list.first() {
                    self.send_without_state(cx, &request, &routed, &targets, target, flow);
                }
            }
            Hop::Name { .. } | Hop::Unreachable => {
                self.refuse_plainly(cx, &request, 480, "Temporarily Unavailable");
            }
        }
    }

    fn send_without_state(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        targets: &Targets,
        target: &Target,
        flow: Flow,
    ) {
        self.counters.forwarded += 1;
        let message = request.message;
        let reply = stamped_address(message.via(), request.flow.remote);
        let connection = request.flow.connection.map_or(0, |connection| connection.0);
        let mut branch = core::mem::take(&mut self.record);
        branch.clear();
        self.transactions.branch_key().write_stateless(message, reply, connection, &flow, &mut branch);
        let plan = Plan {
            config: &self.config,
            keys: &self.keys,
            now: cx.now,
            request,
            routed,
            targets,
            target,
            flow,
        };
        let space = &mut self.space;
        cx.out.send_with(flow, Token::NONE, |arena| plan.write(space, &branch, arena));
        self.record = branch;
    }

    /// A CANCEL goes where its INVITE went.
    pub(crate) fn cancel_without_state(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) {
        if let Some(grant) = self.accept_caller(cx, request, routed, self.parties(request, routed)) {
            self.proxy(cx, &Request { grant, ..*request }, routed);
        }
    }

    /// Takes our Via off a response and sends it to the next one. The branch was checked: we did forward the request, to
    /// the address that stands in the next Via.
    pub(crate) fn forward_stateless_response(
        &mut self,
        cx: &mut Context<'_, Action>,
        message: &Message<'_>,
        source: &Flow,
        (connection, target): (u64, u32),
    ) {
        let is_from_target = self.transactions.branch_key().is_from_target(source, target);
        if !is_from_target && !self.config.is_trusted(source.remote.ip()) {
            self.counters.responses_from_elsewhere += 1;
            return;
        }
        let next = message.values(HeaderName::Via).nth(1).map(Via::parse);
        let flow = match next {
            Some(Ok(via)) if reply_address(&via).is_some() => self.flow_to_via(&via, connection),
            _ => None,
        };
        let Some(flow) = flow else {
            self.counters.stray += 1;
            return;
        };
        if let (Start::Response { status: 200..=299, .. }, Method::Invite) =
            (message.start(), message.method())
        {
            cx.out.keep(&flow, Instant::FAR);
        }
        let Self { space, config, keys, .. } = self;
        cx.out.send_with(flow, Token::NONE, |arena| {
            let mut edit = Edit::new(message, space);
            edit.pop_first(HeaderName::Via);
            let source = Source { flow: source, sent_to: None };
            super::remote_target::record(config, &keys.route, message, &source, &mut edit);
            let _ = edit.write_into(arena);
        });
    }
}

/// Requests that wait for an address at once.
const WAITING_MAX: usize = 1024;

/// Their bytes, in one shard.
const WAITING_BYTES_MAX: usize = 4 << 20;
