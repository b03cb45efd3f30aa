//! BYE (RFC 3261 §15.1.2).

use crate::Action;
use crate::UserAgent;
use crate::reply::Asked;
use ringway_sansio::Context;

impl UserAgent {
    pub(super) fn on_bye(&mut self, cx: &mut Context<'_, Action>, asked: &Asked<'_, '_>) {
        let Some(id) = self.call_in_order(cx, asked) else { return };
        self.respond(cx, asked, 200, "OK", None, |_, _| None);
        self.on_peer_left(cx, id);
    }
}
