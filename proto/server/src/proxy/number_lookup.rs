//! ENUM (RFC 6116): a number that is nobody's here is looked up, before its routes are used. Strangers write the records.

use super::breadth::Share;
use super::context::BranchState;
use super::destinations::{self, Payer, RouteRefusal};
use super::divert::{is_divertible, reserve};
use super::remote_target::is_public;
use super::stages::trunks;
use super::targets::{StoredTarget, Targets};
use super::{Proxy, groups};
use crate::base::{BranchId, Env, Request, Transactions};
use crate::dialplan::RouteTo;
use crate::route::Routed;
use crate::{Aor, Config, Detail, Number, Reason};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use ringway_sansio::{LocatedServers, NumberTarget};
use ringway_sip::{Scheme, Uri};

/// Final response of a request whose number has no targets.
type Refusal = (u16, &'static str);

/// Makes the number of a request its only target, if it is looked up. False: it is not.
pub(super) fn begin(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
    targets: &mut Targets,
    aor: &Aor,
) -> Result<bool, RouteRefusal> {
    if env.config.trunking.enum_zones.is_empty() {
        return Ok(false);
    }
    let Some(number) = looked_up(env, request, routed, aor) else { return Ok(false) };
    let payer = Payer::of(env.config, &request.message.from().uri);
    destinations::admit_number(env, (request, &payer), &number, &[])?;
    env.counters.number_lookups += 1;
    env.decided(request, Reason::NumberLookup, Detail::Text(number.as_bytes()));
    targets.set_number(number, routed.uri.as_bytes());
    Ok(true)
}

/// Question about a number.
pub(super) fn target_of(config: &Config, number: &Number, request: &Request<'_, '_>) -> NumberTarget {
    let digits = number.as_bytes().strip_prefix(b"+").unwrap_or_default();
    NumberTarget {
        digits: core::str::from_utf8(digits).unwrap_or_default().into(),
        zones: config.trunking.enum_zones.clone(),
        source: Some(request.client(config)),
    }
}

/// Handles the result of a lookup: calls the first URI that may be called, else the routes of the number.
pub(super) fn end(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    (id, query): (BranchId, u64),
    uris: &[Box<str>],
) {
    let (key, number) = id.parts();
    let Some(context) = proxy.contexts.get_mut(key) else { return };
    let bytes = context.request.clone().unwrap_or_default();
    let Some(branch) = context.branches.get_mut(number) else { return };
    if branch.state != (BranchState::Resolving { query }) {
        return;
    }
    branch.state = BranchState::Done;
    let share = branch.share;
    // The request was readable when it came.
    let mut begun: Result<(), Refusal> = Err((500, "Server Internal Error"));
    proxy.with_stored(env, key, &bytes, |proxy, env, request, routed| {
        begun = targets_of(env, (request, routed), uris, share).and_then(|targets| {
            let added = targets.iter().map(StoredTarget::rewrite_bytes).sum();
            if !reserve(proxy, env, key, (targets.len(), added)) {
                return Err((503, "Too Many Requests Under Way"));
            }
            let recursion = proxy.contexts.get_mut(key).and_then(|context| context.recursion.as_mut());
            if let Some(recursion) = recursion {
                targets.iter().for_each(|target| recursion.note(target.uri()));
            }
            groups::start_new(proxy, env, transactions, key, (request, routed), targets);
            Ok(())
        });
    });
    match begun {
        Ok(()) => proxy.finish_if_done(env, transactions, key),
        Err((status, phrase)) => proxy.answer_caller(env, transactions, key, status, phrase),
    }
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
    let (number, context) = Number::of_uri(&routed.uri)?;
    let digits = number.as_bytes().strip_prefix(b"+")?;
    if context.is_some() || digits.len() > NumberTarget::DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit)
    {
        return None;
    }
    match env.config.trunking.routes.of_number(&number).map(|route| &route.to) {
        Some(RouteTo::User(_)) => None,
        Some(RouteTo::Trunks { .. }) | None => Some(number),
    }
}

/// Targets of a number that was looked up.
fn targets_of(
    env: &mut Env<'_>,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    uris: &[Box<str>],
    share: Share,
) -> Result<Vec<StoredTarget>, Refusal> {
    for uri in uris {
        let target = StoredTarget::of_number(uri.as_bytes(), share);
        if may_call(env, routed.uri.scheme(), target.uri()) {
            env.counters.numbers_found += 1;
            env.decided(request, Reason::NumberFound, Detail::Text(target.uri()));
            return Ok([target].into());
        }
        env.counters.number_uris_refused += 1;
    }
    env.decided(request, Reason::NumberUnknown, Detail::None);
    let (mut aor, mut targets) = (Aor::default(), Targets::default());
    env.config.read_target(&routed.uri, &mut aor);
    let counted = Number::of_uri(&routed.uri).map(|(number, _)| number);
    let added = trunks::add_number(env, request, routed, &mut targets, (&mut aor, counted));
    added.map_err(|refusal| refusal.response())?;
    let share = share.divided(targets.list().len());
    let stored = targets.list().iter().map(|target| targets.stored(target).with_share(share));
    let targets: Vec<_> = stored.collect();
    if targets.is_empty() { Err((404, "Not Found")) } else { Ok(targets) }
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

/// Maximum length of a URI that is called.
const URI_BYTES_MAX: usize = 255;
