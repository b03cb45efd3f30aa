//! Limits of the calls to a trunk: how many are under way, and how many begin in a second. What ends a call or continues it is never
//! counted, and so never refused.

use crate::base::{BranchId, Env};
use crate::config::TrunkLimits;
use crate::proxy::context::ResponseContext;
use crate::proxy::forward::Plan;
use crate::report::Report;
use crate::tables::CountedCall;
use crate::{Config, Trunk};
use core::hash::Hasher;
use ringway_sansio::PartHasher;
use ringway_sip::{Limits, Message, Method};
use siphasher::sip::SipHasher13;

/// True if a trunk can take no further call at present.
pub(super) fn is_full(env: &Env<'_>, trunk: &Trunk) -> bool {
    let most = trunk.call_limits.and_then(|limits| limits.under_way);
    most.is_some_and(|most| env.tables.trunk_calls(&trunk.name) >= most)
}

/// Counts the call of a branch to a trunk; true, reported, if it would be one too many.
pub(super) fn exceeds(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    id: BranchId,
    plan: &Plan<'_, '_, '_>,
) -> bool {
    let message = plan.request().message;
    if plan.request().method != Method::Invite || message.to().tag().is_some() {
        return false;
    }
    let config = env.config;
    let Some((name, limits)) = limits_of(config, plan.configured_hop()) else { return false };
    let branch = context.branches.get_mut(id.parts().1).filter(|branch| branch.states.counted.is_none());
    let Some(branch) = branch else { return false };
    let until = env.cx.now + config.dialog_lifetime;
    let call = call_of(env, message, message.from().tag());
    branch.states.counted = env.tables.begin_trunk_call((env.cx.now, until), (name, &limits), call);
    if branch.states.counted.is_none() {
        env.report(plan.request(), Report::TrunkFull { name });
    }
    branch.states.counted.is_none()
}

/// Ends the call of a branch that failed, or whose context ends.
pub(super) fn end(env: &Env<'_>, counted: Option<CountedCall>) {
    if let Some(call) = counted.filter(|_| cfg!(feature = "operator")) {
        env.tables.end_trunk_call(call);
    }
}

/// Ends the call that a BYE ends: its caller is one of both sides.
pub(super) fn on_bye(env: &Env<'_>, bye: &[u8]) {
    let Ok(message) = &Message::parse(bye, &Limits::STORED) else { return };
    for tag in [message.from().tag(), message.to().tag()] {
        env.tables.end_answered_call(call_of(env, message, tag));
    }
}

fn limits_of(config: &Config, hop: Option<usize>) -> Option<(&str, TrunkLimits)> {
    let trunk = config.trunking.trunks.get(hop?)?;
    Some((&trunk.name, trunk.call_limits?))
}

/// Hash of Call-ID and caller's tag.
fn call_of(env: &Env<'_>, message: &Message<'_>, tag: Option<&[u8]>) -> u64 {
    let mut hash = PartHasher::new(SipHasher13::new_with_key(&env.keys.calls));
    hash.part(message.call_id());
    hash.part(tag.unwrap_or_default());
    hash.hasher().finish()
}
