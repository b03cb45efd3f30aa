//! BYE (RFC 3261 §15.1.2).

use crate::UserAgent;
use crate::agent::Out;
use crate::reply::Asked;

impl UserAgent {
    pub(super) fn on_bye(&mut self, asked: &Asked<'_, '_>, out: &mut Out<'_>) {
        let Some(id) = self.call_in_order(asked, out) else { return };
        self.respond(asked, 200, "OK", None, out, |_, _| None);
        self.on_peer_left(asked.now, id, out);
    }
}
