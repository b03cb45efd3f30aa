//! ENUM (RFC 6116): a number that is nobody's here is looked up, before its routes are used. Strangers write the records.

use crate::base::{Env, Request};
use crate::config::RouteTo;
use crate::dialog::is_public;
use crate::dialog::route::Routed;
use crate::proxy::call::{Answer, Call, CallNext, Forwarded, Next, Planned};
use crate::proxy::limits::Share;
use crate::proxy::stages::destinations::{self, Payer};
use crate::proxy::stages::diversion::is_divertible;
use crate::proxy::stages::{identity, trunks};
use crate::proxy::states::{KeptStates, Recursion};
use crate::proxy::targets::{Authority, StoredTarget};
use crate::report::Report;
use crate::{Aor, Config, Detail, Number, Reason};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use ringway_sansio::{LocatedServers, NumberTarget};
use ringway_sip::{HeaderName, Scheme, Uri};

/// Makes the number of a request its only target, if it is looked up.
pub(super) fn before(call: &mut Call<'_, '_>, planned: &mut Planned<'_>) -> Next {
    if call.env.config.trunking.enum_zones.is_empty() {
        return Next::Pass;
    }
    let Some(number) = looked_up(call.env, call.request, call.routed, &planned.aor) else {
        return Next::Pass;
    };
    let payer = Payer::of(call.env.config, &call.request.message.from().uri);
    if let Err(why) = destinations::admit_number(call, &payer, &number, &[]) {
        return Next::Answer(why.into());
    }
    call.env.report(call.request, Report::NumberLookup(number.as_bytes()));
    planned.states.keep(Box::new(target_of(call.env.config, &number, call.request)));
    Next::Targets(vec![StoredTarget::of_request(call.routed.uri.as_bytes())])
}

/// Question about a number.
fn target_of(config: &Config, number: &Number, request: &Request<'_, '_>) -> NumberTarget {
    let digits = number.as_bytes().strip_prefix(b"+").unwrap_or_default();
    NumberTarget {
        digits: core::str::from_utf8(digits).unwrap_or_default().into(),
        zones: config.trunking.enum_zones.clone(),
        source: Some(request.client(config)),
    }
}

/// Handles the result of a lookup: calls the first URI that may be called, else the routes of the number.
pub(super) fn resumed(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    share: Share,
    uris: &[Box<str>],
) -> CallNext {
    let targets = match targets_of(call, uris, share) {
        Ok(targets) => targets,
        Err(answer) => return CallNext::Answer(answer),
    };
    let added = targets.iter().map(StoredTarget::rewrite_bytes).sum();
    if !call.reserve(forwarded, targets.len(), added) {
        return CallNext::Answer(Answer::new(503, "Too Many Requests Under Way"));
    }
    if let Some(recursion) = forwarded.context.states.kept_mut::<Box<Recursion>>() {
        targets.iter().for_each(|target| recursion.note(target.uri()));
    }
    CallNext::Targets(targets)
}

/// The servers that a record may lead to.
pub(super) fn permitted(config: &Config, servers: &LocatedServers) -> LocatedServers {
    servers.iter().filter(|server| is_permitted(config, server.address.ip())).collect()
}

/// Number of an INVITE that is looked up: one of E.164, neither a user's nor routed to one, of a sender that may call anywhere.
fn looked_up(env: &Env<'_>, request: &Request<'_, '_>, routed: &Routed<'_>, aor: &Aor) -> Option<Number> {
    if !request.grant.may_call_anywhere()
        || !is_divertible(env, request)
        || env.host.is_known(aor.user(), aor.domain())
    {
        return None;
    }
    let (dialled, context) = Number::of_uri(&routed.uri)?;
    let number = identity::called_number(env, request, &dialled, aor.domain());
    if number != dialled && env.host.is_known(number.as_bytes(), aor.domain()) {
        return None;
    }
    let digits = number.as_bytes().strip_prefix(b"+")?;
    if context.is_some() || digits.len() > NumberTarget::DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit)
    {
        return None;
    }
    match env.config.trunking.routes.of_number(&number) {
        Some(RouteTo::User(_)) => None,
        Some(RouteTo::Trunks { .. } | RouteTo::ByCost(_)) | None => Some(number),
    }
}

/// Targets of a number that was looked up.
fn targets_of(call: &mut Call<'_, '_>, uris: &[Box<str>], share: Share) -> Result<Vec<StoredTarget>, Answer> {
    for uri in uris {
        let target = target_at(uri.as_bytes(), share);
        if may_call(call.env, call.routed.uri.scheme(), target.uri()) {
            call.env.report(call.request, Report::NumberFound(target.uri()));
            return Ok([target].into());
        }
        call.env.counters.number_uris_refused += 1;
    }
    call.env.decided(call.request, Reason::NumberUnknown, Detail::None);
    let mut aor = Aor::default();
    call.env.config.read_target(&call.routed.uri, &mut aor);
    let counted = Number::of_uri(&call.routed.uri)
        .map(|(number, _)| identity::called_number(call.env, call.request, &number, aor.domain()));
    let targets = trunks::of_number(call, &mut aor, counted)?;
    let share = share.divided(targets.len());
    let targets: Vec<_> = targets.into_iter().map(|target| target.with_share(share)).collect();
    if targets.is_empty() { Err(Answer::new(404, "Not Found")) } else { Ok(targets) }
}

/// Target at a URI of the called number, whose host is a stranger's: it is not to learn who asserts what (RFC 3325 §7).
fn target_at(uri: &[u8], share: Share) -> StoredTarget {
    let mut target = StoredTarget::new(uri, Q_MAX, share).with_authority(Authority::Number);
    for name in [
        HeaderName::PAssertedIdentity,
        HeaderName::RemotePartyId,
        HeaderName::HistoryInfo,
        HeaderName::Diversion,
    ] {
        target.rewrite_mut().remove_lines(name);
    }
    target
}

/// True for a URI of a record that may be called. It never chooses a trunk: its owner does not pay for that.
fn may_call(env: &Env<'_>, dialled: Scheme, uri: &[u8]) -> bool {
    let config = env.config;
    let Some(uri) = Uri::parse(uri).ok().filter(|uri| uri.as_bytes().len() <= URI_BYTES_MAX) else {
        return false;
    };
    match (dialled, uri.scheme()) {
        (Scheme::Sips, Scheme::Sips) | (Scheme::Sip | Scheme::Tel, Scheme::Sip | Scheme::Sips) => {}
        (_, _) => return false,
    }
    if trunks::has_route(env, &uri) {
        return false;
    }
    let ip = uri.host().ip();
    let address = ip.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    config.domain_of(&uri).is_some()
        || (!config.trunking.is_at(&uri, address) && ip.is_none_or(|ip| is_permitted(config, ip)))
}

/// True for an address that a record may lead to: a public one, or one that the administrator named for it. A trusted proxy may
/// call anywhere for this server, at somebody's expense.
fn is_permitted(config: &Config, ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let is_named = config.trunking.enum_networks.iter().any(|network| network.contains(ip));
    is_named || (is_public(config, ip) && !config.is_trusted(ip))
}

/// q-value of a URI of a number.
const Q_MAX: u16 = 1000;
/// Maximum length of a URI that is called.
const URI_BYTES_MAX: usize = 255;
