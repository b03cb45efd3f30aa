//! Stateless forwarding (RFC 3261 §16.11): every request of a stateless proxy, and the ACK of a 2xx in every mode.

use super::forward::{Forwarding, Plan};
use super::lookups::{Lookup, Lookups, Waiting};
use super::reach::{charge, failed_last, hop_to_target, refusal, take_reachable};
use super::stages::{self, Memory};
use super::targets::{Targets, target_uri};
use crate::base::{Env, Request, Response, Step, Transactions};
use crate::dialog::route::{NextHop, preprocess};
use crate::neighbour::Sending;
use crate::tables::CallRequest;
use crate::{Config, dialog};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::{ConnectionId, Flow, Instant, LocatedServers, Token};
use ringway_sip::{Edit, EditSpace, HeaderName, Limits, Message, Method};
use ringway_transaction::{StatelessBranch, stamped_address};

/// Stateless proxy: its buffers.
#[derive(Debug, Default)]
pub(super) struct Stateless {
    space: EditSpace,
    /// Branch of a forwarded request.
    branch: Vec<u8>,
}

/// Parts of the proxy that it needs.
pub(super) struct Parts<'p> {
    pub(super) transactions: &'p Transactions,
    pub(super) lookups: &'p mut Lookups,
    pub(super) memory: &'p Memory,
}

impl Stateless {
    /// Forwards to the first target. The branch is a function of the request, so that its retransmissions, its ACK and
    /// its CANCEL have the same.
    pub(super) fn forward(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        forwarding: Forwarding<'_, '_, '_>,
    ) {
        let Forwarding { request, routed, targets } = forwarding;
        let Some(target) = targets.list().first() else { return };
        let hop = match target_uri(targets, target, routed) {
            Some(uri) => hop_to_target(env, request.grant.reach, routed, target, &uri),
            None => NextHop::Unreachable,
        };
        match hop {
            NextHop::Flow(flow) => {
                let plan = Plan::new(env, forwarding, target, flow);
                self.send(env, parts, &plan);
            }
            NextHop::Name(host) => {
                if !parts.lookups.has_room(request.message.as_bytes().len()) {
                    env.counters.overflow += 1;
                    return env.refuse_plainly(request, 503, "Too Many Lookups");
                }
                let waiting = Waiting {
                    request: request.message.as_bytes().into(),
                    source: request.flow,
                    key: request.key,
                    grant: request.grant,
                    target: targets.stored(target),
                };
                let waiting = Lookup::Stateless(Box::new(waiting));
                // A peer must not use up the lookups of what the configuration names.
                let source = target.configured_hop().is_none().then(|| request.client(env.config));
                parts.lookups.start(&mut env.cx, host, request.message, source, waiting);
            }
            NextHop::Unreachable => env.refuse_plainly(request, 480, "Temporarily Unavailable"),
        }
    }

    /// Forwards a request after the lookup of its target.
    pub(super) fn forward_waiting(
        &mut self,
        env: &mut Env<'_>,
        parts: &mut Parts<'_>,
        waiting: &Waiting,
        servers: LocatedServers,
    ) {
        let Ok(message) = Message::parse(&waiting.request, &Limits::STORED) else { return };
        let Some(request) = Request::of(&message, waiting.source, waiting.grant) else { return };
        let Ok(routed) = preprocess(env.config, &env.keys.route, &message, request.uri) else { return };
        let request = Request { key: waiting.key, ..request };
        // Without state all requests go to the first server (RFC 3263 §4.4). With state this is the ACK of a 2xx, which must
        // not go to a server that the INVITE was not sent to.
        let mut servers = match env.config.stateful {
            true => failed_last(env, servers),
            false => servers,
        };
        let found = take_reachable(env, waiting.grant.reach, &mut servers);
        let targets = Targets::of_one(&waiting.target);
        match (found, targets.list().first()) {
            (Some((_, flow)), Some(target)) => {
                let forwarding = Forwarding { request: &request, routed: &routed, targets: &targets };
                let plan = Plan::new(env, forwarding, target, flow);
                self.send(env, parts, &plan);
            }
            (Some(_) | None, _) => {
                env.refuse_plainly(&request, 480, "Temporarily Unavailable");
            }
        }
    }

    fn send(&mut self, env: &mut Env<'_>, parts: &Parts<'_>, plan: &Plan<'_, '_, '_>) {
        let changes = stages::change_stateless(env, parts.memory, plan);
        let plan = &plan.with(&changes);
        let (request, flow) = (plan.request(), plan.flow());
        if let Some((status, phrase)) = refusal(env, plan) {
            return env.refuse_plainly(request, status, phrase);
        }
        // A call's connection ends by time here: there is no transaction whose end ends it.
        let Ok(Sending { flow: over, offers_alias }) =
            env.sending_flow(flow, request.message, CallRequest::Ack)
        else {
            return env.refuse_plainly(request, 480, "Temporarily Unavailable");
        };
        env.count_forwarded(&over);
        let message = request.message;
        let reply = stamped_address(message.via(), request.flow.remote);
        let connection = request.flow.connection.map_or(0, |connection| connection.0);
        let Self { space, branch } = self;
        branch.clear();
        parts.transactions.branch_key().write_stateless(message, reply, connection, &flow, branch);
        let mut skipped = 0;
        env.mark(Step::Rest);
        env.cx.out.send_with(over, Token::NONE, |arena| {
            skipped = plan.write(space, branch, offers_alias, arena);
        });
        env.mark(Step::Format);
        env.counters.header_changes_skipped += skipped;
        charge(env, plan, &over);
    }

    /// Removes our Via from a response and sends it to the next one. The verified branch proves that this server
    /// forwarded the request for the address in the next Via.
    pub(super) fn forward_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &Transactions,
        response: &Response<'_, '_>,
        branch: &StatelessBranch,
    ) {
        let (message, source) = (response.message, response.flow);
        let is_from_target = transactions.branch_key().is_from_target(source, branch.target);
        if !is_from_target && !env.config.is_trusted(source.remote.ip()) {
            env.counters.responses_from_elsewhere += 1;
            return;
        }
        let Some(flow) = flow_to_client(env.config, branch) else {
            env.counters.stray += 1;
            return;
        };
        if matches!(response.status, 200..=299) && message.method() == Method::Invite {
            env.cx.out.keep(&flow, Instant::FAR);
        }
        let changed = stages::as_received(env, None, response);
        let parsed = changed.as_deref().and_then(|bytes| Message::parse(bytes, &Limits::STORED).ok());
        let response = &Response { message: parsed.as_ref().unwrap_or(message), ..*response };
        let border = stages::border_of_response(env, &flow);
        let (space, mut skipped) = (&mut self.space, 0);
        env.mark(Step::Rest);
        env.cx.out.send_with(flow, Token::NONE, |arena| {
            let start = arena.len();
            let mut edit = Edit::new(response.message, space);
            edit.pop_first(HeaderName::Via);
            dialog::record(env.config, &env.keys.route, response, &mut edit);
            let _ = edit.write_into(arena);
            skipped = border.apply(env.config, start, arena);
        });
        env.mark(Step::Format);
        env.counters.header_changes_skipped += skipped;
    }
}

/// Flow to the client of a statelessly forwarded request.
fn flow_to_client(config: &Config, branch: &StatelessBranch) -> Option<Flow> {
    let (transport, remote) = (branch.transport, branch.reply);
    let listener = config.listener_for(transport, remote.ip())?;
    let connection = (branch.connection != 0).then_some(ConnectionId(branch.connection));
    // A response uses the connection of its request. A request that came by datagram with TCP in its Via has none, and a
    // new connection would go to an address that an attacker can choose.
    if transport.has_connections() && connection.is_none() {
        return None;
    }
    Some(Flow { connection, ..Flow::new(transport, listener, remote) })
}
