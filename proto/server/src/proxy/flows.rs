//! The other flows of a phone, which are tried one after another if its target fails (RFC 5626 §7).

use super::context::BranchState;
use super::forward::Forwarding;
use super::groups::start_branches;
use super::targets::Targets;
use super::{Proxy, decided, relays};
use crate::base::{BranchId, Env, Transactions};
use crate::tables::CallResult;
use crate::{Detail, Reason};

/// Replaces a branch that was sent and whose flow failed by one over the next flow of its phone. False: there is
/// none, and the branch has failed.
pub(super) fn try_next(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    id: BranchId,
) -> bool {
    let key = id.context();
    let Some(context) = proxy.contexts.get(key) else { return false };
    if !context.may_replace_branch(env, transactions) {
        return false;
    }
    let bytes = context.request.clone().unwrap_or_default();
    let Some(branch) = proxy.contexts.branch_mut(id) else { return false };
    if !matches!(branch.state, BranchState::Sent { .. }) {
        return false;
    }
    let Some(next) = branch.flows.take().and_then(|flows| flows.take_next()) else { return false };
    proxy.end_branch(env, id, CallResult::Other);
    relays::end(env, &mut proxy.contexts, id, 480);
    env.counters.flow_failovers += 1;
    decided::about(env, &proxy.contexts, key, Reason::NextFlow, Detail::None);
    proxy.with_stored(env, key, &bytes, |proxy, env, request, routed| {
        let targets = Targets::of_one(&next);
        start_branches(proxy, env, transactions, key, Forwarding { request, routed, targets: &targets });
    });
    proxy.finish_if_done(env, transactions, key);
    true
}
