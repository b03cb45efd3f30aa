//! The stages of a request on its way: what they add to a branch, and see of its responses and of its call.

use super::{Memory, call_limits, dialog_state, headers, identity, relays, stir, topology, trunks};
use crate::CallStep;
use crate::base::{BranchId, Env, Request, Response};
use crate::dialog_state::{Ended, end_dialog, refresh};
use crate::policy::Border;
use crate::proxy::call::{Forwarded, MessageStep};
use crate::proxy::context::{Branch, ResponseContext};
use crate::proxy::forward::{Changes, Plan};
use crate::proxy::lookups::Lookups;
use crate::proxy::media::is_sdp;
use crate::proxy::states::{AnswerStep, BranchStates, Conversion, KeptStates, TrunkBranch};
use crate::proxy::targets::Target;
use crate::tables::CountedCall;
use crate::token::caller_uri::with_value;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::{Flow, RelayResult};
use ringway_sip::{Limits, Message};

// Sending a branch.

/// States of a new branch for this target.
pub(in crate::proxy) fn begin_branch(env: &Env<'_>, target: &Target) -> BranchStates {
    BranchStates {
        flows: target.flows.clone(),
        trunk: target.configured_hop().map(|trunk| TrunkBranch::of(&env.config.trunking, trunk)),
        counted: None,
        conversion: Conversion::None,
        media: None,
        hidden: None,
    }
}

/// True for a branch that a stage may send once more.
pub(in crate::proxy) fn may_repeat(env: &Env<'_>, request: &Request<'_, '_>, target: &Target) -> bool {
    (env.features.trunks()
        && trunks::may_be_challenged(env.config, request.grant.reach, target.configured_hop()))
        || (env.features.conversion() && is_sdp(request.message))
}

/// Refusal of a next hop.
pub(in crate::proxy) fn refusal(env: &mut Env<'_>, plan: &Plan<'_, '_, '_>) -> Option<(u16, &'static str)> {
    if env.features.hidden_topology()
        && let Some(refusal) = topology::refusal(env, plan)
    {
        return Some(refusal);
    }
    if env.features.trunks() { trunks::refusal(env, plan) } else { None }
}

/// True: the branch waits for a stage, or has failed.
pub(in crate::proxy) fn holds(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    lookups: &mut Lookups,
    id: BranchId,
    plan: &Plan<'_, '_, '_>,
) -> bool {
    env.features.relays() && relays::ask_offer(env, context, lookups, id, plan)
}

/// Changes of stages to the request of a branch; `None`: there are none.
pub(in crate::proxy) fn change(
    env: &mut Env<'_>,
    memory: &mut Memory,
    plan: &Plan<'_, '_, '_>,
    branch: Option<&Branch>,
) -> Option<Changes> {
    let relayed = branch.filter(|branch| has_media(branch));
    let is_at_trunk =
        env.features.trunks() || (cfg!(feature = "operator") && plan.configured_hop().is_some());
    if relayed.is_none() && !is_at_trunk {
        return None;
    }
    let mut changes = Changes::default();
    if let Some(branch) = relayed {
        relays::change(&env.keys.route, plan.request().message, branch, &mut changes);
    }
    if is_at_trunk {
        let trunk = branch.and_then(|branch| branch.states.trunk);
        trunks::change(env, &mut memory.repeated, (plan, trunk), &mut changes);
        identity::change(env, plan, &mut changes);
        if env.features.stir() {
            stir::change(env, plan, &mut changes);
        }
    }
    if env.features.header_rules() {
        changes.border = headers::of_request(env, plan);
    }
    if env.features.hidden_topology() {
        topology::change(env, plan, &mut changes);
    }
    Some(changes)
}

/// The same for a request without a branch.
pub(in crate::proxy) fn change_stateless(env: &Env<'_>, memory: &Memory, plan: &Plan<'_, '_, '_>) -> Changes {
    let mut changes = Changes::default();
    if env.features.trunks() {
        trunks::change_any(env, (plan, 0), &memory.repeated, &mut changes);
        // Without state no response would get its From back.
        if env.config.stateful {
            identity::change(env, plan, &mut changes);
        }
    }
    if env.features.header_rules() {
        changes.border = headers::of_request(env, plan);
    }
    if env.features.hidden_topology() {
        topology::change(env, plan, &mut changes);
    }
    changes
}

/// Request of a branch in place of the one that came.
pub(in crate::proxy) fn replaced(context: &ResponseContext, number: usize) -> Option<Vec<u8>> {
    let branch = context.branches.get(number).filter(|branch| has_media(branch))?;
    relays::offer_of(context, branch)
}

/// Handles the result of a relay for the request of a branch. True: the branch is sent.
pub(in crate::proxy) fn offered(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    id: BranchId,
    result: Option<RelayResult>,
) -> bool {
    cfg!(feature = "operator") && relays::offered(env, context, id, result)
}

// Responses of a branch.

/// True if a stage may change the responses of a branch before anything else reads them.
pub(in crate::proxy) const fn may_change_response(env: &Env<'_>, branch: &Branch) -> bool {
    env.features.header_rules() || (cfg!(feature = "operator") && branch.states.hidden.is_some())
}

/// A response with the header fields that its request had, and those that it is to have; `None`: it stays as it came.
pub(in crate::proxy) fn as_received(
    env: &mut Env<'_>,
    branch: Option<&Branch>,
    response: &Response<'_, '_>,
) -> Option<Vec<u8>> {
    let branch = branch.filter(|_| cfg!(feature = "operator"));
    let hidden = branch.and_then(|branch| branch.states.hidden.as_deref());
    let mut bytes = hidden.and_then(|hidden| topology::received(env, hidden, response));
    if let Some((name, value)) = branch.and_then(|branch| branch.came.as_deref()) {
        bytes = changed(bytes, response, |response| with_value(response.message, *name, value));
    }
    if env.features.header_rules() {
        bytes = changed(bytes, response, |response| headers::received(env, branch, response));
    }
    bytes
}

/// A response, which has these bytes by now, after one more change.
fn changed(
    bytes: Option<Vec<u8>>,
    response: &Response<'_, '_>,
    change: impl FnOnce(&Response<'_, '_>) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    let parsed = bytes.as_deref().and_then(|bytes| Message::parse(bytes, &Limits::STORED).ok());
    let message = parsed.as_ref().unwrap_or(response.message);
    change(&Response { message, ..*response }).or(bytes)
}

/// Changes of a response of a branch to this source of its request, after all others.
pub(in crate::proxy) fn border_of_response(env: &Env<'_>, source: &Flow, branch: Option<&Branch>) -> Border {
    let mut border = Border::default();
    if env.features.header_rules() {
        border = headers::of_response(env, source);
    }
    let hidden = branch.and_then(|branch| branch.states.hidden.as_deref());
    border.hides = cfg!(feature = "operator") && hidden.is_some_and(|hidden| hidden.answers);
    border
}

/// Next step of a response: a stage may hold it, or replace it.
pub(in crate::proxy) fn on_message(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    lookups: &mut Lookups,
    id: BranchId,
    response: &Response<'_, '_>,
) -> MessageStep {
    if !env.features.relays() {
        return MessageStep::Pass;
    }
    match relays::answer_step(env, context, lookups, id, response) {
        AnswerStep::Forward => MessageStep::Pass,
        AnswerStep::Replace(sdp) => {
            MessageStep::Replace(relays::response_with_sdp(env, context, id, response, &sdp))
        }
        AnswerStep::Drop | AnswerStep::Ask => MessageStep::Wait,
    }
}

/// The same for a response that was stored, from the result of its query.
pub(in crate::proxy) fn answered(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    query: u64,
    response: (BranchId, &Response<'_, '_>),
    result: Option<RelayResult>,
) -> MessageStep {
    relays::answered(env, context, query, response, result)
}

/// Handles the 2xx of a branch.
pub(in crate::proxy) fn on_success(
    env: &Env<'_>,
    context: &mut ResponseContext,
    id: BranchId,
    response: &Message<'_>,
) {
    let branch = context.branches.get_mut(id.parts().1);
    let of_branch = branch.and_then(|branch| branch.states.counted.take());
    let of_caller = if context.states.is_empty() { None } else { context.states.take::<Box<CountedCall>>() };
    for counted in [of_branch, of_caller].into_iter().flatten() {
        call_limits::on_success(env, &counted, response);
    }
}

/// Handles any response of a branch.
pub(in crate::proxy) fn on_response(env: &Env<'_>, context: &ResponseContext, id: BranchId, status: u16) {
    if env.features.trunks()
        && let Some(branch) = context.branches.get(id.parts().1)
    {
        trunks::on_response(env, branch, status);
    }
}

/// Handles a provisional response of a branch.
pub(in crate::proxy) fn on_provisional(
    env: &Env<'_>,
    forwarded: &mut Forwarded<'_>,
    id: BranchId,
    status: u16,
) {
    if env.features.trunks() {
        trunks::on_provisional(forwarded, id, status);
    }
}

/// Handles a step of a call.
pub(in crate::proxy) fn on_step(env: &mut Env<'_>, context: &mut ResponseContext, step: CallStep) {
    if context.states.is_empty() {
        return;
    }
    dialog_state::on_step(env, context, step);
    // One that the caller cancelled may still be answered.
    if matches!(step, CallStep::Failed(_) | CallStep::Over) {
        end_counted(env, context);
    }
}

/// Ends the call of a context as its caller counts it, unless it was answered.
pub(super) fn end_counted(env: &Env<'_>, context: &mut ResponseContext) {
    if let Some(counted) = context.states.take::<Box<CountedCall>>() {
        call_limits::end(env, &counted);
    }
}

/// Handles the answer of a call.
pub(in crate::proxy) fn on_answer(
    env: &mut Env<'_>,
    context: &ResponseContext,
    id: BranchId,
    response: &Message<'_>,
) {
    if !context.states.is_empty() {
        dialog_state::on_answer(env, context, id, response);
    }
}

/// Handles the 2xx of a request that refreshes a session.
pub(in crate::proxy) fn on_refresh(env: &mut Env<'_>, response: &Message<'_>) {
    if env.features.presence() {
        refresh(env, response);
    }
    if cfg!(feature = "operator") && env.tables.has_counted_calls() {
        call_limits::on_refresh(env, response);
    }
}

/// Handles a BYE that ends a call.
pub(in crate::proxy) fn on_bye(env: &mut Env<'_>, bye: &[u8], ended: Ended) {
    if env.features.presence() {
        end_dialog(env, bye, ended);
    }
    if cfg!(feature = "operator") && env.tables.has_counted_calls() {
        call_limits::on_bye(env, bye, ended);
    }
}

/// True if a relay has, or is to have, the media of a branch.
pub(super) const fn has_media(branch: &Branch) -> bool {
    cfg!(feature = "operator") && branch.states.media.is_some()
}
