//! OPTIONS to the server itself (RFC 3261 §11.2).

use crate::reply::write_allow;
use crate::server::Request;
use crate::{Action, Server, Services};
use ringway_sansio::Context;
use ringway_sip::HeaderName;

impl<S: Services> Server<S> {
    /// Says what this server can do.
    pub(crate) fn on_options(&mut self, cx: &mut Context<'_, Action>, request: &Request<'_, '_>) {
        if request.message.has(HeaderName::Require) {
            return self.refuse_extensions(cx, request, HeaderName::Require);
        }
        self.reply(cx, request, 200, "OK", |response| {
            response.header_with(HeaderName::Allow, write_allow);
            response.header(HeaderName::Accept, b"application/sdp");
        });
    }
}
