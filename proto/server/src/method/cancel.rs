//! CANCEL (RFC 3261 §9.2, §16.10).

use crate::route::Routed;
use crate::server::{Out, Request};
use crate::{Mode, Server, Services};

impl<S: Services> Server<S> {
    /// Cancels what the INVITE of the same branch set going.
    ///
    /// Only the hop that sent the INVITE may cancel it: a CANCEL from another address finds nothing.
    pub(crate) fn on_cancel(&mut self, request: &Request<'_, '_>, routed: &Routed<'_>, out: &mut Out<'_>) {
        if !self.config.stateful && self.config.mode == Mode::Proxy {
            return self.cancel_without_state(request, routed, out);
        }
        let found = self.transactions.cancelled_by(request.message);
        let same_hop = |reply: &ringway_sansio::Flow| {
            reply.transport == request.flow.transport
                && reply.remote.ip() == request.flow.remote.ip()
                && reply.connection == request.flow.connection
        };
        match found {
            Some((_, owner, reply)) if same_hop(&reply) => {
                self.reply(request, 200, "OK", out, |_| {});
                self.cancel_context(request.now, owner, out);
            }
            _ => self.reply(request, 481, "Call/Transaction Does Not Exist", out, |_| {}),
        }
    }
}
