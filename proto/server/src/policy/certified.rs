//! Users that are proven by the certificate of their connection.

use crate::base::{Env, Request};
use crate::report::Report;
use crate::{Aor, Config};
use ringway_sip::{Scheme, Uri};

/// True if the certificate of the request's connection is one of a user that `is_wanted` accepts. The user must be a
/// subscriber, as with a password. A neighbour's certificate names no users.
pub(crate) fn is_certified(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    is_wanted: impl Fn(&Aor) -> bool,
) -> bool {
    let (rules, now) = (&env.config.auth.certificates, env.cx.now);
    let Some(peer) = request.peer.filter(|peer| rules.users && !rules.is_trusted(Some(peer), now)) else {
        return false;
    };
    let mut aor = Aor::default();
    let is_proven = peer.users(now).any(|text| {
        read_user(env.config, text, &mut aor)
            && is_wanted(&aor)
            && env.host.is_known(aor.user(), aor.domain())
    });
    if is_proven {
        env.report(request, Report::Certified);
    }
    is_proven
}

/// Fills `aor` from a `sip:` URI of a user and a domain of `domains`, with nothing else; false for any other URI.
fn read_user(config: &Config, text: &str, aor: &mut Aor) -> bool {
    let Ok(uri) = Uri::parse(text.as_bytes()) else { return false };
    let is_plain = uri.scheme() == Scheme::Sip
        && uri.password().is_none()
        && uri.port().is_none()
        && uri.params().as_bytes().is_empty()
        && uri.headers().is_empty();
    is_plain && uri.host().ip().is_none() && config.read_aor(&uri, aor) && !aor.user().is_empty()
}
