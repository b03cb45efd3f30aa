//! Lamps of the calls that are forwarded: their steps, from the response contexts.

use super::context::Contexts;
use super::targets::Authority;
use crate::CallStep;
use crate::base::{BranchId, Env};
use crate::lamp::{self, Answer};
use ringway_sip::Message;
use ringway_transaction::SlabKey;

/// Handles a step of a call other than its answer.
#[inline]
pub(super) fn on_step(env: &mut Env<'_>, contexts: &Contexts, key: SlabKey, step: CallStep) {
    let Some(lit) = contexts.get(key).and_then(|context| context.lit.as_deref()) else { return };
    match step {
        CallStep::Ringing(_) => lamp::on_ringing(env, lit),
        CallStep::Failed(_) | CallStep::Over => lamp::end_unanswered(env, lit),
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
pub(super) fn on_answer(env: &mut Env<'_>, contexts: &Contexts, id: BranchId, response: &Message<'_>) {
    let (key, number) = id.parts();
    let Some(context) = contexts.get(key) else { return };
    let Some(lit) = context.lit.as_deref() else { return };
    let answer = match context.branches.get(number).map(|branch| branch.authority) {
        Some(Authority::Redirected { .. } | Authority::Number) => Answer::OfOther,
        // After a forward the part of the called user has ended.
        Some(Authority::Caller | Authority::Forward | Authority::CalledUser) | None => Answer::OfCallee,
    };
    lamp::on_answer(env, lit, answer, response);
}

/// Handles a diversion: the phones of the called user are not called any more.
pub(super) fn on_diversion(env: &mut Env<'_>, contexts: &Contexts, key: SlabKey) {
    if let Some(lit) = contexts.get(key).and_then(|context| context.lit.as_deref()) {
        lamp::end_callee(env, lit);
    }
}
