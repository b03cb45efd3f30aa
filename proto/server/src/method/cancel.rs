//! CANCEL (RFC 3261 §9.2, §16.10).

use crate::route::Routed;
use crate::server::Request;
use crate::{Action, Mode, Server, Services};
use ringway_sansio::Context;

impl<S: Services> Server<S> {
    /// Cancels what the INVITE of the same branch set going.
    ///
    /// Only the hop that sent the INVITE may cancel it: a CANCEL from another address finds nothing.
    pub(crate) fn on_cancel(
        &mut self,
        cx: &mut Context<'_, Action>,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
    ) {
        if !self.config.stateful && self.config.mode == Mode::Proxy {
            return self.cancel_without_state(cx, request, routed);
        }
        let found = self.transactions.cancelled_by(request.message);
        let same_hop = |reply: &ringway_sansio::Flow| {
            reply.transport == request.flow.transport
                && reply.remote.ip() == request.flow.remote.ip()
                && reply.connection == request.flow.connection
        };
        match found {
            Some((_, context, reply)) if same_hop(&reply) => {
                self.reply(cx, request, 200, "OK", |_| {});
                self.cancel_context(cx, context);
            }
            _ => self.reply(cx, request, 481, "Call/Transaction Does Not Exist", |_| {}),
        }
    }
}
