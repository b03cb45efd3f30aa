//! Recursion: the contacts of a 3xx become targets of its request (RFC 3261 §16.7 step 4).

use super::divert::{add_lines, leave, may_divert, reserve};
use super::remote_target::is_credible;
use super::targets::{Authority, StoredTarget, write_as_request_uri};
use super::{Proxy, groups, to_trunk};
use crate::base::{BranchId, Env, Reach, Request, Transactions};
use crate::route::Routed;
use crate::{Aor, Config, Detail, DiversionReason, Reason};
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::LocatedServers;
use ringway_sip::{Contact, HeaderName, Message, Scheme, Uri};
use ringway_transaction::SlabKey;

/// Result of a recursion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Recursed {
    /// No contact is called.
    None,
    /// Every contact is called.
    All,
    /// These contacts are not called; the caller may get them.
    Without(Vec<Vec<u8>>),
}

/// Contact that may be called.
struct Found {
    uri: Vec<u8>,
    q: u16,
    /// User by whose permission the call leaves our domains.
    leaves_by: Option<u64>,
}

/// False for a request with one side or flow as its only next hop: its answer leads nowhere else.
pub(super) const fn may_recurse(reach: Reach) -> bool {
    match reach {
        Reach::Anywhere | Reach::OurUsers => true,
        Reach::Side(_) | Reach::User | Reach::Flow(_) => false,
    }
}

/// The servers of a contact's host that the sender of the 3xx may name.
pub(super) fn permitted(config: &Config, servers: &LocatedServers, by: IpAddr) -> LocatedServers {
    servers.iter().filter(|server| is_credible(server.address.ip(), by, config)).collect()
}

/// Calls the contacts of a 3xx of a branch that has ended, which came from `by`: those with the highest q-value now, the
/// others in the next groups.
pub(super) fn recurse(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    id: BranchId,
    (response, by): (&Message<'_>, IpAddr),
) -> Recursed {
    let (key, number) = id.parts();
    let Some(context) = proxy.contexts.get(key) else { return Recursed::None };
    if context.recursion.is_none() || context.is_cancelled || transactions.is_answered(context.server) {
        return Recursed::None;
    }
    let Some(branch) = context.branches.get(number) else { return Recursed::None };
    let (share, authority) = (branch.share, branch.authority);
    if authority == Authority::Number {
        return Recursed::None;
    }
    let bytes = context.request.clone().unwrap_or_default();
    let mut recursed = Recursed::None;
    proxy.with_stored(env, key, &bytes, |proxy, env, request, routed| {
        if authority == Authority::CalledUser && !may_divert(env, request.message) {
            return;
        }
        let (mut found, mut others) = (Vec::new(), Vec::new());
        for value in response.values(HeaderName::Contact) {
            let is_free = found.len() < share.recursed_max();
            let accepted =
                is_free.then(|| accept(proxy, env, key, (request, routed), (authority, by), value));
            match accepted.flatten() {
                Some(contact) => found.push(contact),
                None => others.push(value.to_vec()),
            }
        }
        env.counters.recursions_refused += others.len() as u64;
        let share = share.recursed(env.config, found.len());
        let user = found.iter().find_map(|contact| contact.leaves_by);
        let targets = found.iter().map(|Found { uri, q, .. }| {
            let mut target = StoredTarget::redirected(uri, *q, share, by);
            if authority == Authority::CalledUser {
                add_lines(env, (request, routed), DiversionReason::Redirect, &mut target);
            }
            target
        });
        let targets: Vec<_> = targets.collect();
        let added = targets.iter().map(StoredTarget::rewrite_bytes).sum();
        if targets.is_empty() || !reserve(proxy, env, key, request.message, (targets.len(), added)) {
            return;
        }
        if let Some(user) = user {
            leave(proxy, key, user);
        }
        start(proxy, env, transactions, key, (request, routed), targets);
        recursed = if others.is_empty() { Recursed::All } else { Recursed::Without(others) };
    });
    recursed
}

/// Checks a contact: its scheme, the permission to call it, and that it was not called before.
fn accept(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    key: SlabKey,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    (authority, by): (Authority, IpAddr),
    value: &[u8],
) -> Option<Found> {
    let contact = Contact::parse(value).ok()?;
    let mut uri = Vec::new();
    write_as_request_uri(contact.address.uri.as_bytes(), &mut uri);
    let parsed = Uri::parse(&uri).ok()?;
    match (routed.uri.scheme(), parsed.scheme()) {
        (Scheme::Sips, Scheme::Sips) | (Scheme::Sip, Scheme::Sip | Scheme::Sips) => {}
        (_, _) => return None,
    }
    // A contact never chooses a trunk of ours.
    if uri.len() > URI_BYTES_MAX || to_trunk::has_route(env, &parsed) {
        return None;
    }
    let is_ours = env.config.domain_of(&parsed).is_some();
    if !is_ours && parsed.host().ip().is_some_and(|ip| !is_credible(ip, by, env.config)) {
        return None;
    }
    let leaves_by = match authority {
        _ if is_ours || request.grant.may_call_anywhere() => None,
        Authority::Caller | Authority::Forward | Authority::Redirected { .. } | Authority::Number => {
            return None;
        }
        Authority::CalledUser => {
            let mut aor = Aor::default();
            env.config.read_target(&routed.uri, &mut aor);
            Some(proxy.pending.name_of(aor.as_bytes()))
        }
    };
    let context = proxy.contexts.get_mut(key)?;
    if let Some(user) = leaves_by
        && context.leaves_by.is_none()
        && !proxy.pending.may_leave(user)
    {
        env.counters.over_user_forwards += 1;
        return None;
    }
    let is_new = context.recursion.as_mut().is_some_and(|recursion| recursion.add(&parsed));
    is_new.then(|| Found { q: contact.q.unwrap_or(Q_MAX), uri, leaves_by })
}

/// Calls new targets, whose memory is reserved.
fn start(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    targets: Vec<StoredTarget>,
) {
    env.counters.recursions += targets.len() as u64;
    for target in &targets {
        env.observe_diversion(request, DiversionReason::Redirect, target.uri());
        env.decided(request, Reason::Redirected, Detail::Text(target.uri()));
    }
    groups::start_new(proxy, env, transactions, key, (request, routed), targets);
}

/// Maximum length of a contact that is called.
const URI_BYTES_MAX: usize = 255;
/// q-value of a contact without one.
const Q_MAX: u16 = 1000;
