//! Forwarding without state (RFC 3261 §16.11): every request of a stateless proxy, and the ACK of a 2xx everywhere.

use super::Targets;
use super::forward::{Plan, target_uri};
use crate::route::{Hop, Routed};
use crate::server::{Out, Request};
use crate::{Server, Services};
use ringway_sansio::Token;
use ringway_sip::{Edit, HeaderName, Message, Via};
use ringway_transaction::{reply_address, stamped_address};

impl<S: Services> Server<S> {
    /// Forwards to the first target. The branch follows from the request, so that its repetitions, its ACK and its CANCEL
    /// have it too.
    pub(super) fn forward_without_state(
        &mut self,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        targets: &Targets,
        out: &mut Out<'_>,
    ) {
        let Some(target) = targets.list.first() else { return };
        let hop = match target_uri(targets, target, routed) {
            Some(uri) => self.hop_to_target(routed, target, &uri),
            None => Hop::Unreachable,
        };
        let flow = match hop {
            Hop::Flow(flow) => flow,
            // A look-up would have to be remembered.
            Hop::Name { .. } | Hop::Unreachable => {
                return self.refuse_plainly(request, 480, "Temporarily Unavailable", out);
            }
        };
        self.counters.forwarded += 1;
        let message = request.message;
        let reply = stamped_address(message.via(), request.flow.remote);
        let connection = request.flow.connection.map_or(0, |connection| connection.0);
        let mut branch = core::mem::take(&mut self.record);
        branch.clear();
        self.transactions.branch_key().write_stateless(message, reply, connection, &mut branch);
        let plan = Plan { config: &self.config, keys: &self.keys, request, routed, targets, target, flow };
        let space = &mut self.space;
        out.packets.send_with(flow, Token::NONE, |arena| plan.write(space, &branch, arena));
        self.record = branch;
    }

    /// A CANCEL goes where its INVITE went.
    pub(crate) fn cancel_without_state(
        &mut self,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        out: &mut Out<'_>,
    ) {
        let to_us = routed.next_route.is_none() && self.config.domain_of(&routed.uri).is_some();
        let from_us = self.config.domain_of(&request.message.from().uri).is_some();
        if to_us || from_us || routed.token.is_some() {
            self.proxy(request, routed, out);
        } else {
            self.refuse_plainly(request, 403, "Relaying Denied", out);
        }
    }

    /// Takes our Via off a response and sends it to the next one. The branch was checked: we did forward the request, to
    /// the address that stands in the next Via.
    pub(crate) fn forward_stateless_response(
        &mut self,
        message: &Message<'_>,
        connection: u64,
        out: &mut Out<'_>,
    ) {
        let next = message.values(HeaderName::Via).nth(1).map(Via::parse);
        let flow = match next {
            Some(Ok(via)) if reply_address(&via).is_some() => self.flow_to_via(&via, connection),
            _ => None,
        };
        let Some(flow) = flow else {
            self.counters.stray += 1;
            return;
        };
        let space = &mut self.space;
        out.packets.send_with(flow, Token::NONE, |arena| {
            let mut edit = Edit::new(message, space);
            edit.pop_first(HeaderName::Via);
            let _ = edit.write_into(arena);
        });
    }
}
