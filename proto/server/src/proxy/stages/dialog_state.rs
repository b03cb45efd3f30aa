//! Lamps of the calls that are forwarded: their steps, from the response contexts.

use crate::base::{BranchId, Env};
use crate::dialog_state::{self, Answer, ShownDialogs};
use crate::proxy::call::{Call, Forwarded, Planned};
use crate::proxy::context::ResponseContext;
use crate::proxy::states::KeptStates;
use crate::proxy::targets::Authority;
use crate::{CallStep, Condition};
use alloc::boxed::Box;
use ringway_sip::Message;

/// Lights the lamps of the users of a new call.
pub(super) fn begin(call: &mut Call<'_, '_>, planned: &Planned<'_>, forwarded: &mut Forwarded<'_>) {
    let is_diverted = planned.states.kept::<Condition>().is_some();
    if forwarded.context.is_invite
        && let Some(shown) = dialog_state::begin(call.env, call.request, call.routed, is_diverted)
    {
        forwarded.context.states.keep(shown);
    }
}

/// Handles a step of a call other than its answer.
pub(super) fn on_step(env: &mut Env<'_>, context: &ResponseContext, step: CallStep) {
    let Some(shown) = context.states.kept::<Box<ShownDialogs>>() else { return };
    match step {
        CallStep::Ringing(_) => dialog_state::on_ringing(env, shown),
        CallStep::Failed(_) | CallStep::Over => dialog_state::end_unanswered(env, shown),
        // The final response follows.
        CallStep::Cancelled | CallStep::TimedOut => {}
        CallStep::Begun
        | CallStep::Refused(_)
        | CallStep::Forwarded
        | CallStep::Diverted(_)
        | CallStep::Answered(_)
        | CallStep::Bye
        | CallStep::ByeRefused(_) => {}
    }
}

/// Handles the answer of a branch.
pub(super) fn on_answer(env: &mut Env<'_>, context: &ResponseContext, id: BranchId, response: &Message<'_>) {
    let Some(shown) = context.states.kept::<Box<ShownDialogs>>() else { return };
    let answer = match context.branches.get(id.parts().1).map(|branch| branch.authority) {
        Some(Authority::Redirected { .. } | Authority::Number) => Answer::OfOther,
        // After a forward the part of the called user has ended.
        Some(Authority::Caller | Authority::Forward | Authority::CalledUser) | None => Answer::OfCallee,
    };
    dialog_state::on_answer(env, shown, answer, response);
}

/// Handles a diversion: the phones of the called user are not called any more.
pub(super) fn on_diversion(env: &mut Env<'_>, context: &ResponseContext) {
    if let Some(shown) = context.states.kept::<Box<ShownDialogs>>() {
        dialog_state::end_callee(env, shown);
    }
}

/// Handles the end of a context.
pub(super) fn on_end(env: &mut Env<'_>, context: &ResponseContext) {
    if let Some(shown) = context.states.kept::<Box<ShownDialogs>>() {
        dialog_state::end_unanswered(env, shown);
    }
}
