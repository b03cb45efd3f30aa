//! The other flows of a phone, which are tried one after another if its target fails (RFC 5626 §7).

use crate::proxy::call::{BranchEnd, BranchNext, Call, Forwarded};
use crate::proxy::context::BranchState;
use crate::report::Report;
use alloc::vec;

/// Calls the next flow of the phone instead of a branch that was sent, and whose flow failed.
pub(super) fn after(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    end: &BranchEnd<'_>,
) -> BranchNext {
    let has_flow_failed = end.response.is_none() || matches!(end.status, 408 | 430);
    if !has_flow_failed || !forwarded.may_replace_branch(call.env) {
        return BranchNext::Pass;
    }
    let branch = forwarded.branch(end.id).filter(|branch| matches!(branch.state, BranchState::Sent { .. }));
    let Some(next) = branch.and_then(|branch| branch.states.flows.take()?.take_next()) else {
        return BranchNext::Pass;
    };
    call.env.report(call.request, Report::NextFlow);
    BranchNext::Targets(vec![next])
}
