//! Limits of the calls to a trunk: how many are under way, and how many begin in a second. What ends a call or continues it is never
//! counted, and so never refused.

use crate::base::{BranchId, Env, Request, Sender};
use crate::config::TrunkLimits;
use crate::dialog_state::Ended;
use crate::proxy::context::ResponseContext;
use crate::proxy::forward::Plan;
use crate::report::Report;
use crate::tables::CountedCall;
use crate::{Config, Trunk};
use core::hash::Hasher;
use ringway_sansio::PartHasher;
use ringway_sip::{Limits, Message, Method};
use siphasher::sip::SipHasher13;

/// True if a trunk can take no further call of this sender at present.
pub(super) fn is_full(env: &Env<'_>, trunk: &Trunk, request: &Request<'_, '_>) -> bool {
    let limits = trunk.call_limits.map(|limits| of_sender(limits, request.grant.sender));
    limits.is_some_and(|limits| env.tables.is_trunk_full(env.cx.now, (&trunk.name, &limits)))
}

/// Counts the call of a branch to a trunk; true, reported, if it would be one too many.
pub(in crate::proxy) fn exceeds(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    id: BranchId,
    plan: &Plan<'_, '_, '_>,
) -> bool {
    let (message, grant) = (plan.request().message, plan.request().grant);
    if !begins_call(plan.request()) {
        return false;
    }
    let config = env.config;
    let Some((name, limits)) = limits_of(config, plan.configured_hop()) else { return false };
    let branch = context.branches.get_mut(id.parts().1).filter(|branch| branch.states.counted.is_none());
    let Some(branch) = branch else { return false };
    let until = env.cx.now + config.dialog_lifetime;
    let (call, limits) = (hash_of(env, message, message.from().tag()), of_sender(limits, grant.sender));
    branch.states.counted = env.tables.begin_trunk_call((env.cx.now, until), (name, &limits), call);
    if branch.states.counted.is_none() {
        env.report(plan.request(), Report::TrunkFull { name });
    }
    branch.states.counted.is_none()
}

/// True for a request that begins a call. A tag in To proves no dialog.
pub(super) fn begins_call(request: &Request<'_, '_>) -> bool {
    request.method == Method::Invite && request.grant.dialog.is_none()
}

/// Limits for a sender: callers without a password, whose calls a user forwards, leave half of the lines to others.
fn of_sender(limits: TrunkLimits, sender: Sender) -> TrunkLimits {
    let share = |most: u32| if sender.is_believed() { most } else { most.div_ceil(2) };
    TrunkLimits { under_way: limits.under_way.map(share), per_second: limits.per_second.map(share) }
}

/// Leaves the end of an answered call to its BYE.
pub(in crate::proxy) fn on_success(env: &Env<'_>, counted: CountedCall, response: &Message<'_>) {
    env.tables.answer_trunk_call(counted, hash_of(env, response, response.to().tag()));
}

/// Ends the call that a BYE ends, whichever side sent it. One that was refused ends it for its sender only: if that is the callee, the trunk
/// has ended it.
pub(super) fn on_bye(env: &Env<'_>, bye: &[u8], ended: Ended) {
    let Ok(message) = &Message::parse(bye, &Limits::STORED) else { return };
    let (from, to) = (message.from().tag(), message.to().tag());
    let [from, to] = [from, to].map(|tag| hash_of(env, message, tag));
    env.tables.end_answered_call(to, from);
    match ended {
        Ended::Both => env.tables.end_answered_call(from, to),
        Ended::Sender => {}
    }
}

fn limits_of(config: &Config, hop: Option<usize>) -> Option<(&str, TrunkLimits)> {
    let trunk = config.trunking.trunks.get(hop?)?;
    Some((&trunk.name, trunk.call_limits?))
}

/// Hash of the Call-ID and a tag.
fn hash_of(env: &Env<'_>, message: &Message<'_>, tag: Option<&[u8]>) -> u64 {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(&env.keys.calls));
    hash.part(message.call_id());
    hash.part(tag.unwrap_or_default());
    hash.hasher().finish()
}
