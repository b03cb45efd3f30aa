//! Access rules applied to a request: the facts about its sender, challenges, the block list, emergency calls.

use super::admission::UrgentRates;
use crate::base::{EdgePart, Env, Grant, Reach, Request, Sender, TrunkTarget};
use crate::dialog::route::Routed;
use crate::dialog::{DialogMark, LiveMark, edge, live_mark};
use crate::policy::{Access, Authenticator, Facts, decide, is_awaited_notify, is_certified};
use crate::report::Report;
use crate::token::sources::Origin;
use crate::token::{Mark, UserHash};
use crate::{Caller, Config, Emergency, Strangers};
use alloc::borrow::ToOwned;
use core::net::IpAddr;
use ringway_sip::{HeaderName, Method, Uri};

/// Domains of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parties {
    /// The From URI is in a domain of `domains`.
    pub(super) from_us: bool,
    /// The target is in a domain of `domains`, and no Route leads elsewhere.
    pub(super) to_us: bool,
}

impl Parties {
    pub(super) fn of(config: &Config, request: &Request<'_, '_>, routed: &Routed<'_>) -> Self {
        Self {
            from_us: config.is_claimed_by(&request.message.from().uri),
            to_us: routed.next_route.is_none() && routed.is_of_domains,
        }
    }
}

/// True for an INVITE that begins an emergency call, of anybody but a trunk.
pub(super) fn is_to_emergency(env: &Env<'_>, request: &Request<'_, '_>, uri: &Uri<'_>) -> bool {
    env.features.emergency()
        && request.method == Method::Invite
        && request.message.to().tag().is_none()
        && request.line.is_none()
        && Emergency::number_of(env.config, uri).is_some()
        && !env.config.trunking.has_address(request.flow.remote.ip())
}

/// False, answered and counted, if the source of an emergency call begins too many.
pub(super) fn may_call_emergency(
    env: &mut Env<'_>,
    urgent: &mut UrgentRates,
    request: &Request<'_, '_>,
) -> bool {
    let may = urgent.admit_call(env.cx.now, request.client(env.config));
    if !may {
        env.counters.emergency_calls_refused += 1;
        env.report(request, Report::OverLimit { phrase: "Too Many Emergency Calls" });
        env.reply(request, 503, "Too Many Emergency Calls", |response| {
            response.header_number(HeaderName::RetryAfter, 1);
        });
    }
    may
}

/// Applies the access rules. `None` if the request was answered or dropped. An emergency call needs a password as any other, unless the
/// network of its phone needs none.
#[inline(always)]
pub(super) fn accept_caller(
    env: &mut Env<'_>,
    authenticator: &mut Authenticator,
    request: &Request<'_, '_>,
    routed: &mut Routed<'_>,
    parties: Parties,
) -> Option<Grant> {
    let begins = routed.next_route.is_none() && routed.mark.is_none();
    let is_emergency = begins && is_to_emergency(env, request, &routed.uri);
    let above_limits = is_emergency.then(|| env.call_hash(request.message));
    // A page of any site can send over WebSocket from a listed network.
    let may_be_listed = is_emergency && !request.flow.transport.is_websocket();
    if may_be_listed && env.config.trunking.emergency.lets_in(request.client(env.config)) {
        return Some(Grant { above_limits, ..Grant::new(Reach::Anywhere, Sender::Stranger) });
    }
    accept_by_rules(env, authenticator, request, routed, parties, above_limits)
}

/// Applies the access rules, and notes the next hop that they compared. `None` if the request was answered or dropped. One that may go
/// anywhere gets `above_limits`.
fn accept_by_rules(
    env: &mut Env<'_>,
    authenticator: &mut Authenticator,
    request: &Request<'_, '_>,
    routed: &mut Routed<'_>,
    parties: Parties,
    above_limits: Option<u64>,
) -> Option<Grant> {
    let mark = live_mark(env, request, routed);
    let facts = facts_of(env, request, routed, parties, mark);
    let in_dialog = match mark {
        Some(LiveMark::Dialog(mark)) if mark.reaches_side => Some(mark),
        Some(LiveMark::Dialog(_) | LiveMark::Accepted(_)) | None => None,
    };
    routed.side_hop = in_dialog.and_then(|mark| mark.hop);
    let access = decide(&facts);
    count_in_dialog(env, access, in_dialog.as_ref());
    let grant = match access {
        Access::Forward(grant) => Some(grant),
        Access::Challenge(grant) if parties.from_us => {
            // From has the name of the called user: another one may have answered a forwarded call.
            let side = in_dialog.and_then(|mark| mark.sender);
            let side = side.filter(|user| user.is_named() && *user != UserHash::OF_HEADER);
            let is_proven = match side {
                Some(user) => authenticator.authenticate_side(env, request, user),
                None => authenticator.authenticate_caller(env, request),
            };
            is_proven.then_some(grant)
        }
        Access::Challenge(grant) => is_user_of(env, authenticator, request, routed).then_some(Grant {
            // The password is that of a user whom From does not name.
            sender: Sender::ProvenUnnamed,
            ..grant
        }),
        Access::Refuse(status, phrase) => {
            env.refuse_plainly(request, status, phrase);
            None
        }
        Access::Drop => {
            env.report(request, Report::Dropped);
            None
        }
    }?;
    let strangers = env.config.auth.strangers;
    let grant = Grant {
        dialog: in_dialog.map(|mark| mark.id).or(grant.dialog),
        trunk: in_dialog.map(|mark| mark.trunk).unwrap_or_default(),
        uses_accounts: in_dialog.is_none_or(|mark| mark.uses_accounts(grant.sender, strangers)),
        above_limits: above_limits.filter(|_| grant.may_call_anywhere()),
        ..grant
    };
    // A request of a call that was accepted passes.
    let is_in_dialog =
        grant.dialog.is_some() || (grant.returned.is_some() && request.message.to().tag().is_some());
    let source = Request { grant, ..*request }.source();
    (is_in_dialog || grant.above_limits.is_some() || !is_blocked(env, request, routed, parties, source))
        .then_some(grant)
}

/// Facts that the access rules compare.
fn facts_of<'r>(
    env: &Env<'_>,
    request: &Request<'r, '_>,
    routed: &Routed<'_>,
    parties: Parties,
    mark: Option<LiveMark>,
) -> Facts<'r> {
    Facts {
        method: request.method,
        from_us: parties.from_us,
        to_us: parties.to_us,
        mark,
        edge: match env.features.flow_tokens() {
            true => edge::part_of(env.config, env.keys, routed, request, env.cx.now, env.started_s),
            false => EdgePart::Absent,
        },
        is_of_node: env.config.is_link(&request.flow),
        is_trunk: env.features.trunks()
            && !request.flow.transport.is_websocket()
            && env.config.trunking.is_trunk(request.flow.remote.ip()),
        is_trusted: env.config.trusts(&request.flow)
            || (request.peer.is_some() && env.config.auth.certificates.is_trusted(request.peer, env.cx.now)),
        requires_passwords: env.config.auth.enabled,
        challenges_in_dialog: env.config.auth.in_dialog,
        marks_dialogs: env.config.stateful && env.config.record_route,
        strangers: match request.line {
            Some(_) => Strangers::Call,
            None => env.config.auth.strangers,
        },
        stranger_refer: env.config.auth.stranger_refer,
        is_of_edge: is_of_edge(env.config, request, routed),
        is_awaited_notify: is_awaited_notify(request),
    }
}

/// Counts a challenge or a refusal inside a dialog.
fn count_in_dialog(env: &mut Env<'_>, access: Access, mark: Option<&DialogMark>) {
    let Some(mark) = mark else { return };
    let is_moved = mark.origin == Origin::Elsewhere;
    match (access, mark.trunk) {
        (Access::Challenge(_), _) => env.counters.moved_challenged += u64::from(is_moved),
        (Access::Refuse(..), _) if is_moved => env.counters.moved_refused += 1,
        (Access::Refuse(..), TrunkTarget::Other | TrunkTarget::Foreign) => {
            env.counters.trunk_targets_refused += 1;
        }
        (Access::Refuse(..), TrunkTarget::None | TrunkTarget::Recorded) => {
            env.counters.strangers_methods_refused += 1;
        }
        (Access::Forward(_) | Access::Drop, _) => {}
    }
}

/// True for a user of the domain that a request is for, whom From does not name. False if the request was answered.
fn is_user_of(
    env: &mut Env<'_>,
    authenticator: &mut Authenticator,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
) -> bool {
    let domain = env.config.target_domain(&routed.uri).map(ToOwned::to_owned).unwrap_or_default();
    if is_certified(env, request, |user| user.domain() == domain.as_bytes()) {
        return true;
    }
    env.counters.strangers_refused += 1;
    authenticator.authenticate(env, request, HeaderName::ProxyAuthorization, domain.as_bytes()).is_some()
}

/// True if either side claims to be a phone of another registrar, and the recipient is no user of ours.
fn is_of_edge(config: &Config, request: &Request<'_, '_>, routed: &Routed<'_>) -> bool {
    let message = request.message;
    let is_for_user = || match routed.mark {
        Some(Mark::Dialog { is_of_caller, identities: Some(identities), .. }) => {
            identities.user(!is_of_caller).is_user()
        }
        _ => false,
    };
    !config.edge_domains.is_empty()
        && !is_for_user()
        && [message.from(), message.to()].iter().any(|side| edge::serves(config, &side.uri))
}

/// True if the block list has the caller. The request was answered then.
fn is_blocked(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    routed: &Routed<'_>,
    parties: Parties,
    source: IpAddr,
) -> bool {
    // They have no answer, or end what was accepted before (RFC 3261 §22.1).
    if matches!(request.method, Method::Ack | Method::Cancel) {
        return false;
    }
    let (from, address) = (&request.message.from().uri, request.flow.remote);
    let callee = parties.to_us.then_some(&routed.uri);
    if !env.tables.is_caller_blocked(|| Caller::new(env.config, from, callee, source)) {
        return false;
    }
    let (caller, callee) = (from.as_bytes(), routed.uri.as_bytes());
    env.report(request, Report::CallerBlocked { caller, callee, address });
    env.refuse(request, 403, "Forbidden", |_| {});
    true
}
