//! Contacts that trunks registered, and calls to them (decision 0057): `sip:ACCOUNT@US;line=TOKEN`.

use crate::Number;
use crate::base::{Env, Request};
use crate::config::{SentBy, Trunk};
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_sansio::{PartHasher, Transport};
use ringway_sip::{Edit, EditSpace, NameAddr, Scheme, Uri, hex16};
use siphasher::sip::SipHasher13;

/// Token of a trunk's contact: nobody can guess one, and it is the same after a restart.
pub(super) fn line_of(key: &[u8; 16], trunk: &Trunk) -> [u8; 16] {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(key));
    hash.part(trunk.name.as_bytes());
    hash.part(trunk.account().as_bytes());
    hash.part(trunk.account_domain());
    hex16(hash.hasher().finish())
}

/// Appends the Contact of a trunk for a carrier that reaches this server at `host`.
pub(super) fn write_contact(
    key: &[u8; 16],
    trunk: &Trunk,
    host: SentBy<'_>,
    transport: Transport,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(b"<sip:");
    out.extend_from_slice(trunk.account().as_bytes());
    out.push(b'@');
    host.write(out);
    out.extend_from_slice(transport.uri_parameter().as_bytes());
    out.extend_from_slice(b";line=");
    out.extend_from_slice(&line_of(key, trunk));
    out.push(b'>');
}

/// A request for the contact of a trunk, as one for the called number; `None` for any other.
pub(crate) fn called_by_line(env: &mut Env<'_>, request: &Request<'_, '_>) -> Option<Vec<u8>> {
    let line = request.uri.params().value(b"line")?;
    env.config.domain_of(&request.uri)?;
    let key = &env.keys.line;
    let is_of = |trunk: &Trunk| line_of(key, trunk) == *line;
    let (_, trunk) = env.config.trunking.registering().find(|(_, trunk)| is_of(trunk))?;
    let message = request.message;
    let called = message.named(b"P-Called-Party-ID").and_then(|value| NameAddr::parse(value).ok());
    let uri = called.map_or(message.to().uri, |called| called.uri);
    let user = user_of(&uri).unwrap_or(trunk.account().as_bytes());
    let number = Number::of_user(user).map(|number| trunk.numbers_in.read(&number));
    let user = number.as_ref().filter(|_| trunk.numbers_in.changes()).map_or(user, Number::as_bytes);
    let domain = env.config.domains.first()?;
    let mut target = Vec::with_capacity(user.len() + domain.len() + 6);
    target.extend_from_slice(if request.uri.scheme() == Scheme::Sips { b"sips:" } else { b"sip:" });
    target.extend_from_slice(user);
    target.push(b'@');
    target.extend_from_slice(domain.as_bytes());
    let (mut space, mut out) = (EditSpace::default(), Vec::new());
    let mut edit = Edit::new(message, &mut space);
    edit.set_request_uri(&target);
    edit.write_into(&mut out).ok()?;
    env.counters.trunk_line_calls += 1;
    Some(out)
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
