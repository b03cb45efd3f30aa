//! Stages that decide what follows the end of a branch, a time or a lookup, in their order.

use super::{conversion, diversion, flows, groups, messages, numbers, recursion, sides, trunks};
use crate::Config;
use crate::base::{BranchId, Env, Reach};
use crate::proxy::call::{BranchEnd, BranchNext, Call, CallNext, Forwarded, Redirected};
use crate::proxy::context::ResponseContext;
use crate::proxy::limits::Share;
use crate::proxy::states::TimeLimit;
use crate::proxy::targets::Authority;
use alloc::boxed::Box;
use ringway_sansio::LocatedServers;

/// Function of a stage that may go on with a branch.
type GoingOn = fn(&mut Call<'_, '_>, &mut Forwarded<'_>, &BranchEnd<'_>) -> BranchNext;

/// The same for one that goes on with a branch.
const fn goes_on_if_operator(stage: GoingOn) -> GoingOn {
    fn pass(_: &mut Call<'_, '_>, _: &mut Forwarded<'_>, _: &BranchEnd<'_>) -> BranchNext {
        BranchNext::Pass
    }
    if cfg!(feature = "operator") { stage } else { pass }
}

/// Stage that decides after the end of a branch, with its name.
pub(super) type After<N> = (&'static str, fn(&mut Call<'_, '_>, &mut Forwarded<'_>, &BranchEnd<'_>) -> N);

/// Stages that may go on with a branch that has ended, first to last.
pub(super) const AFTER: [After<BranchNext>; 4] = [
    // The same phone gets another offer: a forward must not come before it.
    ("conversion", goes_on_if_operator(conversion::after)),
    // The same phone over another flow (RFC 5626 §7).
    ("flows", flows::after),
    // The phone has another binding now.
    ("sides", sides::after),
    // A call that a trunk refused goes to no other one.
    ("trunks", goes_on_if_operator(trunks::after)),
];

/// Stages that add targets to those of a branch that has failed.
pub(super) const FAILED: [After<Option<Redirected>>; 1] = [
    // A 3xx answers for all flows of its target (RFC 3261 §16.7 step 4).
    ("recursion", recursion::failed),
];

/// Stage that decides when every branch is over, with its name.
pub(super) type Over = (&'static str, fn(&mut Call<'_, '_>, &mut Forwarded<'_>) -> CallNext);

/// Stages that may go on with a request whose branches are over, first to last.
pub(super) const OVER: [Over; 3] = [
    // Targets of the request itself.
    ("groups", groups::over),
    // Of the user that was called, when none of its phones is left.
    ("diversion", diversion::over),
    // Only when nobody else can answer.
    ("messages", messages::over),
];

/// True if a stage may go on with a branch that has ended.
pub(in crate::proxy) fn may_go_on(env: &Env<'_>, context: &ResponseContext, id: BranchId) -> bool {
    let branch = context.branches.get(id.parts().1);
    let Some(branch) = branch else { return false };
    // A trunk that a reload took away must still not challenge the caller.
    let is_configured = branch.target.as_ref().is_some_and(|target| target.configured_hop().is_some());
    let is_in_dialog = matches!(context.grant.reach, Reach::Side(_));
    branch.states.flows.is_some() || is_configured || is_in_dialog || env.features.conversion()
}

/// True if a stage may add targets to those of a branch that has failed.
pub(in crate::proxy) fn may_add(context: &ResponseContext) -> bool {
    !context.states.is_empty()
}

/// Decision of the first stage that goes on with a branch that has ended.
pub(in crate::proxy) fn after(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    end: &BranchEnd<'_>,
) -> BranchNext {
    let mut decisions = AFTER.iter().map(|(_, after)| after(call, forwarded, end));
    decisions.find(|next| !matches!(next, BranchNext::Pass)).unwrap_or_default()
}

/// Targets that the first stage adds to those of a branch that has failed.
pub(in crate::proxy) fn failed(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    end: &BranchEnd<'_>,
) -> Option<Redirected> {
    FAILED.iter().find_map(|(_, failed)| failed(call, forwarded, end))
}

/// Decision of the first stage that goes on with a request whose branches are over.
pub(in crate::proxy) fn over(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>) -> CallNext {
    let mut decisions = OVER.iter().map(|(_, over)| over(call, forwarded));
    decisions.find(|next| !matches!(next, CallNext::Pass)).unwrap_or_default()
}

/// Decision at the end of a time.
pub(in crate::proxy) fn on_time(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    due: TimeLimit,
) -> CallNext {
    match due {
        TimeLimit::Group(_) => groups::on_time(call, forwarded),
        TimeLimit::Answer(_) => diversion::on_time(call, forwarded),
        TimeLimit::Message(_) => messages::on_time(call, forwarded),
    }
}

/// Decision after the lookup of a number, whose branch had these limits.
pub(in crate::proxy) fn number_found(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    share: Share,
    uris: &[Box<str>],
) -> CallNext {
    match cfg!(feature = "operator") {
        true => numbers::resumed(call, forwarded, share, uris),
        false => CallNext::Pass,
    }
}

/// The servers that a target's host may have.
pub(in crate::proxy) fn permitted(
    config: &Config,
    authority: Authority,
    servers: LocatedServers,
) -> LocatedServers {
    match authority {
        Authority::Number => numbers::permitted(config, &servers),
        Authority::Redirected { by } => recursion::permitted(config, &servers, by),
        Authority::Caller | Authority::Forward | Authority::CalledUser => servers,
    }
}
