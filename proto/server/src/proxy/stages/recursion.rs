//! Recursion: the contacts of a 3xx become targets of its request (RFC 3261 §16.7 step 4).

use crate::base::Reach;
use crate::dialog::is_credible;
use crate::proxy::call::{BranchEnd, Call, Forwarded, Planned, Redirected};
use crate::proxy::stages::diversion::{add_lines, is_divertible, may_divert};
use crate::proxy::stages::trunks;
use crate::proxy::states::{KeptStates, Recursion};
use crate::proxy::targets::{Authority, StoredTarget, write_as_request_uri};
use crate::report::Report;
use crate::{Aor, Config, DiversionReason};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;
use ringway_sansio::LocatedServers;
use ringway_sip::{Contact, HeaderName, Scheme, Uri};

/// Contact that may be called.
struct Found {
    uri: Vec<u8>,
    q: u16,
    /// User by whose permission the call leaves our domains.
    leaves_by: Option<u64>,
}

/// False for a request with one side or flow as its only next hop: its answer leads nowhere else.
const fn may_recurse(reach: Reach) -> bool {
    match reach {
        Reach::Anywhere | Reach::OurUsers => true,
        Reach::Side(_) | Reach::User | Reach::Flow(_) => false,
    }
}

/// The servers of a contact's host that the sender of the 3xx may name.
pub(super) fn permitted(config: &Config, servers: &LocatedServers, by: IpAddr) -> LocatedServers {
    servers.iter().filter(|server| is_credible(server.address.ip(), by, config)).collect()
}

/// Notes the targets of a new context, if the contacts of a 3xx may be called too.
pub(super) fn begin(call: &Call<'_, '_>, planned: &Planned<'_>, forwarded: &mut Forwarded<'_>) {
    if call.env.config.recurse
        && may_recurse(call.request.grant.reach)
        && is_divertible(call.env, call.request)
    {
        forwarded.context.states.keep(Recursion::of(call.routed, planned.targets));
    }
}

/// Calls the contacts of a 3xx: those with the highest q-value now, the others in the next groups.
pub(super) fn failed(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    end: &BranchEnd<'_>,
) -> Option<Redirected> {
    let response = end.response.filter(|_| matches!(end.status, 300..=302))?;
    let context = &*forwarded.context;
    if !call.env.config.recurse
        || end.is_superseded
        || context.states.kept::<Box<Recursion>>().is_none()
        || context.is_cancelled
        || forwarded.is_answered
    {
        return None;
    }
    let branch = forwarded.branch(end.id).filter(|branch| !trunks::is_at_trunk(branch));
    let branch = branch?;
    let (share, authority) = (branch.share, branch.authority);
    if authority == Authority::Number
        || (authority == Authority::CalledUser && !may_divert(call.env, call.request.message))
    {
        return None;
    }
    let by = response.flow.remote.ip();
    let (mut found, mut uncalled) = (Vec::new(), Vec::new());
    for value in response.message.values(HeaderName::Contact) {
        let is_free = found.len() < share.recursed_max();
        let accepted = is_free.then(|| accept(call, forwarded, authority, by, value));
        match accepted.flatten() {
            Some(contact) => found.push(contact),
            None => uncalled.push(value.to_vec()),
        }
    }
    call.env.counters.recursions_refused += uncalled.len() as u64;
    let share = share.recursed(call.env.config, found.len());
    let user = found.iter().find_map(|contact| contact.leaves_by);
    let targets = found.iter().map(|Found { uri, q, .. }| {
        let mut target = StoredTarget::redirected(uri, *q, share, by);
        if authority == Authority::CalledUser {
            add_lines(call, DiversionReason::Redirect, &mut target);
        }
        target
    });
    let targets: Vec<_> = targets.collect();
    let added = targets.iter().map(StoredTarget::rewrite_bytes).sum();
    if targets.is_empty() || !call.reserve(forwarded, targets.len(), added) {
        return None;
    }
    if let Some(user) = user {
        call.leave(forwarded, user);
    }
    for target in &targets {
        call.env.report(call.request, Report::Redirected(target.uri()));
    }
    Some(Redirected { targets, uncalled })
}

/// Checks a contact: its scheme, the permission to call it, and that it was not called before.
fn accept(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    authority: Authority,
    by: IpAddr,
    value: &[u8],
) -> Option<Found> {
    let (config, routed) = (call.env.config, call.routed);
    let contact = Contact::parse(value).ok()?;
    let mut uri = Vec::new();
    write_as_request_uri(contact.address.uri.as_bytes(), &mut uri);
    let parsed = Uri::parse(&uri).ok()?;
    match (routed.uri.scheme(), parsed.scheme()) {
        (Scheme::Sips, Scheme::Sips) | (Scheme::Sip, Scheme::Sip | Scheme::Sips) => {}
        (_, _) => return None,
    }
    // A contact never chooses a trunk of ours.
    if uri.len() > URI_BYTES_MAX || trunks::has_route(call.env, &parsed) {
        return None;
    }
    let is_ours = config.domain_of(&parsed).is_some();
    if !is_ours && parsed.host().ip().is_some_and(|ip| !is_credible(ip, by, config)) {
        return None;
    }
    let leaves_by = match authority {
        _ if is_ours || call.request.grant.may_call_anywhere() => None,
        Authority::Caller | Authority::Forward | Authority::Redirected { .. } | Authority::Number => {
            return None;
        }
        Authority::CalledUser => {
            let mut aor = Aor::default();
            config.read_target(&routed.uri, &mut aor);
            Some(call.pending.name_of(aor.as_bytes()))
        }
    };
    if let Some(user) = leaves_by
        && forwarded.context.leaves_by.is_none()
        && !call.pending.may_leave(user)
    {
        call.env.counters.over_user_forwards += 1;
        return None;
    }
    let is_new =
        forwarded.context.states.kept_mut::<Box<Recursion>>().is_some_and(|recursion| recursion.add(&parsed));
    is_new.then(|| Found { q: contact.q.unwrap_or(Q_MAX), uri, leaves_by })
}

/// Maximum length of a contact that is called.
const URI_BYTES_MAX: usize = 255;
/// q-value of a contact without one.
const Q_MAX: u16 = 1000;
