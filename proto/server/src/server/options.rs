//! OPTIONS to the server itself (RFC 3261 §11.2).

use crate::base::{Env, Request, write_allow};
use ringway_sip::HeaderName;

/// Answers with the capabilities of this server.
pub(crate) fn on_options(env: &mut Env<'_>, request: &Request<'_, '_>) {
    if request.message.has(HeaderName::Require) {
        return env.refuse_extensions(request, HeaderName::Require);
    }
    env.reply(request, 200, "OK", |response| {
        response.header_with(HeaderName::Allow, write_allow);
        response.header(HeaderName::Accept, b"application/sdp");
        // RFC 3261 §20.35: without a version, which would tell an attacker which weaknesses to try.
        response.header(HeaderName::Server, b"Ringway");
    });
}
