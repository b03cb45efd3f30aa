//! BYE (RFC 3261 §15.1.2).

use crate::request::reply::IncomingRequest;
use crate::{Action, UserAgent};
use ringway_sansio::Context;

impl UserAgent {
    pub(super) fn on_bye(&mut self, cx: &mut Context<'_, Action>, incoming: &IncomingRequest<'_, '_>) {
        let Some(id) = self.call_in_order(cx, incoming) else { return };
        self.requests.respond(&mut self.shared.lend(cx), incoming, 200, "OK", None, |_, _| None);
        self.on_peer_left(cx, id);
    }
}
