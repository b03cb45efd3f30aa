//! OPTIONS to the server itself (RFC 3261 §11.2).

use crate::reply::write_allow;
use crate::server::{Out, Request};
use crate::{Server, Services};
use ringway_sip::HeaderName;

impl<S: Services> Server<S> {
    /// Says what this server can do.
    pub(crate) fn on_options(&mut self, request: &Request<'_, '_>, out: &mut Out<'_>) {
        if request.message.has(HeaderName::Require) {
            return self.refuse_extensions(request, HeaderName::Require, out);
        }
        self.reply(request, 200, "OK", out, |response| {
            response.header_with(HeaderName::Allow, write_allow);
            response.header(HeaderName::Accept, b"application/sdp");
        });
    }
}
