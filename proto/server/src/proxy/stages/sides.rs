//! Requests in dialogs for a side whose flow is gone, or whose Contact is a GRUU: a binding of its user is looked up.
//!
//! The user may be another shard's, so the request goes to this server itself, as one for a temporary GRUU does.

use crate::auth::user_of_side;
use crate::base::{Env, Reach};
use crate::proxy::breadth::Share;
use crate::proxy::call::{BranchEnd, Call, Next};
use crate::proxy::targets::StoredTarget;
use crate::route::Routed;
use crate::token::Mark;
use crate::{Detail, Reason, gruu};
use alloc::vec;
use alloc::vec::Vec;
use ringway_sip::Message;

/// URI of this server for the user of the side that a request is for; `None` if nobody is found.
pub(in crate::proxy) fn uri_of(env: &Env<'_>, message: &Message<'_>, routed: &Routed<'_>) -> Option<Vec<u8>> {
    let Some(Mark::Dialog { identities: Some(identities), is_of_caller, .. }) = routed.mark else {
        return None;
    };
    let aor = user_of_side(env, message, routed, identities.user(!is_of_caller))?;
    Some(gruu::in_dialog(&env.keys.gruu, &aor, &routed.uri, env.config.registrar.gruu))
}

/// Calls the user of a side instead of a branch whose flow is gone, the only one of its request.
pub(super) fn after(call: &mut Call<'_, '_>, end: &BranchEnd<'_>) -> Next {
    let is_gone = if end.response.is_some() { end.status == 430 } else { end.status == 480 };
    // One that came over a link crosses no other: the node that sent it looks the user up.
    if !is_gone
        || !matches!(call.context.grant.reach, Reach::Side(_))
        || call.env.config.is_link(&call.context.source)
        || !call.may_replace_branch()
        || !call.branch(end.id).is_some_and(|branch| branch.state.awaits_first_response())
    {
        return Next::Pass;
    }
    let found = call.read(|call, request, routed| {
        let uri = uri_of(call.env, request.message, routed)?;
        if !call.reserve(1, 0) {
            return None;
        }
        Some((uri, Share::of(call.env.config, request.message, 1).ok()?))
    });
    let Some((uri, share)) = found else { return Next::Pass };
    call.context.grant.reach = Reach::User;
    call.env.counters.sides_looked_up += 1;
    call.decided(Reason::ToDialogSide, Detail::Text(&uri));
    Next::Targets(vec![StoredTarget::new(&uri, 1000, share)])
}
