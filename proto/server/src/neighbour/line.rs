//! Contacts that trunks registered, and calls to them (decision 0057): `sip:ACCOUNT@US;line=TOKEN`.

use crate::base::{Env, Lines, Request};
use crate::config::{SentBy, Trunk};
use crate::{Detail, Number, Reason};
use alloc::vec::Vec;
use ringway_sansio::Transport;
use ringway_sip::{Edit, EditSpace, Method, NameAddr, Scheme, Uri};

/// URI of the contact of a trunk for a carrier that reaches this server at `host`; one for numbers in bulk has no user (RFC 6140 §5.1).
pub(super) fn contact_of(lines: &Lines, trunk: &Trunk, host: SentBy<'_>, transport: Transport) -> Vec<u8> {
    let mut uri = b"sip:".to_vec();
    if !trunk.bulk {
        uri.extend_from_slice(trunk.account().as_bytes());
        uri.push(b'@');
    }
    host.write(&mut uri);
    uri.extend_from_slice(transport.uri_parameter().as_bytes());
    if trunk.bulk {
        uri.extend_from_slice(b";bnc");
    }
    uri.extend_from_slice(b";line=");
    uri.extend_from_slice(&lines.token_of(trunk));
    uri
}

/// A request for the contact of a trunk, as one for the called number, with the index of the trunk; `None` for any other.
pub(crate) fn called_by_line(env: &mut Env<'_>, request: &Request<'_, '_>) -> Option<(Vec<u8>, usize)> {
    let line = request.uri.params().value(b"line")?;
    env.config.domain_of(&request.uri)?;
    let index = env.keys.lines.trunk_of(line)?;
    let trunk = env.config.trunking.trunks.get(index)?;
    let message = request.message;
    let called = || message.named(b"P-Called-Party-ID").and_then(|value| NameAddr::parse(value).ok());
    let of_bulk = if trunk.bulk { user_of(&request.uri) } else { None };
    let of_fields = || user_of(&called().map_or(message.to().uri, |called| called.uri));
    let user = of_bulk.or_else(of_fields).unwrap_or(trunk.account().as_bytes());
    let number = Number::of_user(user).map(|number| trunk.numbers_in.read(&number));
    let user = number.as_ref().filter(|_| trunk.numbers_in.changes()).map_or(user, Number::as_bytes);
    let domain = env.config.domains.first()?;
    // Carriers ask so whether the contact still works: this server answers, and no user.
    let user = if request.method == Method::Options { &b""[..] } else { user };
    let mut target = Vec::with_capacity(user.len() + domain.len() + 6);
    target.extend_from_slice(if request.uri.scheme() == Scheme::Sips { b"sips:" } else { b"sip:" });
    target.extend_from_slice(user);
    target.extend_from_slice(if user.is_empty() { &b""[..] } else { b"@" });
    target.extend_from_slice(domain.as_bytes());
    let (mut space, mut out) = (EditSpace::default(), Vec::new());
    let mut edit = Edit::new(message, &mut space);
    edit.set_request_uri(&target);
    edit.write_into(&mut out).ok()?;
    env.counters.trunk_line_calls += u64::from(request.method != Method::Options);
    env.decided(request, Reason::OfTrunk, Detail::Text(trunk.name.as_bytes()));
    Some((out, index))
}

/// User part, without the parameters of a telephone number; `None`: there is none.
fn user_of<'a>(uri: &Uri<'a>) -> Option<&'a [u8]> {
    let user = match uri.scheme() {
        Scheme::Tel => uri.as_bytes().get(b"tel:".len()..)?,
        Scheme::Sip | Scheme::Sips => uri.user()?,
        Scheme::Other => return None,
    };
    let user = user.split(|&byte| byte == b';').next().unwrap_or_default();
    (!user.is_empty()).then_some(user)
}
