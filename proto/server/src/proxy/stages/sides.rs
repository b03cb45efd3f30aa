//! Requests in dialogs for a side whose flow is gone, or whose Contact is a GRUU: a binding of its user is looked up.
//!
//! The user may be another shard's, so the request goes to this server itself, as one for a temporary GRUU does.

use crate::base::Reach;
use crate::dialog::gruu;
use crate::dialog::user_of_side;
use crate::proxy::call::{BranchEnd, BranchNext, Call, Forwarded, Next, Planned};
use crate::proxy::limits::Share;
use crate::proxy::targets::StoredTarget;
use crate::report::Report;
use crate::token::Mark;
use alloc::vec;
use alloc::vec::Vec;

/// Sends a request to the user of its side.
pub(super) fn before(call: &mut Call<'_, '_>, _: &mut Planned<'_>) -> Next {
    let Some(uri) = uri_of(call) else { return Next::Pass };
    call.env.counters.sides_looked_up += 1;
    Next::Targets(vec![StoredTarget::of_caller(&uri)])
}

/// Calls the user of a side instead of a branch whose flow is gone, the only one of its request.
pub(super) fn after(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    end: &BranchEnd<'_>,
) -> BranchNext {
    let is_gone = if end.response.is_some() { end.status == 430 } else { end.status == 480 };
    // One that came over a link crosses no other: the node that sent it looks the user up.
    if !is_gone
        || !matches!(call.request.grant.reach, Reach::Side(_))
        || call.env.config.is_link(&call.request.flow)
        || !forwarded.may_replace_branch(call.env)
        || !forwarded.branch(end.id).is_some_and(|branch| branch.state.awaits_first_response())
    {
        return BranchNext::Pass;
    }
    let Some(uri) = uri_of(call) else { return BranchNext::Pass };
    if !call.reserve(forwarded, 1, 0) {
        return BranchNext::Pass;
    }
    let Ok(share) = Share::of(call.env.config, call.request.message, 1) else { return BranchNext::Pass };
    forwarded.context.grant.reach = Reach::User;
    call.env.report(call.request, Report::ToDialogSide(&uri));
    BranchNext::Targets(vec![StoredTarget::new(&uri, 1000, share)])
}

/// URI of this server for the user of the side that a request is for; `None` if nobody is found.
fn uri_of(call: &Call<'_, '_>) -> Option<Vec<u8>> {
    let Call { env, request, routed, .. } = call;
    let Some(Mark::Dialog { identities: Some(identities), is_of_caller, .. }) = routed.mark else {
        return None;
    };
    let aor = user_of_side(env, request.message, routed, identities.user(!is_of_caller))?;
    Some(gruu::in_dialog(&env.keys.gruu, &aor, &routed.uri, env.config.registrar.gruu))
}
