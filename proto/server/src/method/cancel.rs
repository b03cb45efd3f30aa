//! CANCEL (RFC 3261 §9.2, §16.10).

use crate::request::Request;
use crate::{Action, Server, Services};
use ringway_sansio::Context;

impl<S: Services> Server<S> {
    /// Cancels what the INVITE of the same branch set going.
    ///
    /// Only the hop that sent the INVITE may cancel it: a CANCEL from another address finds nothing.
    pub(crate) fn on_cancel(&mut self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>) {
        let found = self.transactions.cancelled_by(request.message);
        let same_hop = |reply: &ringway_sansio::Flow| {
            reply.transport == request.flow.transport
                && reply.remote.ip() == request.flow.remote.ip()
                && reply.connection == request.flow.connection
        };
        match found {
            Some((_, context, reply)) if same_hop(&reply) => {
                self.environment.env(cx).reply(request, 200, "OK", |_| {});
                self.cancel_context(cx, context);
            }
            _ => self.environment.env(cx).reply(request, 481, "Call/Transaction Does Not Exist", |_| {}),
        }
    }
}
