//! Requests in dialogs for a side whose flow is gone, or whose Contact is a GRUU: a binding of its user is looked up.
//!
//! The user may be another shard's, so the request goes to this server itself, as one for a temporary GRUU does.

use super::breadth::Share;
use super::divert::reserve;
use super::forward::Forwarding;
use super::groups::start_branches;
use super::targets::{StoredTarget, Targets};
use super::{Proxy, decided, relays};
use crate::auth::user_of_side;
use crate::base::{BranchId, Env, Grant, Reach, Request, Transactions};
use crate::route::Routed;
use crate::tables::CallResult;
use crate::token::Mark;
use crate::{Detail, Reason, gruu};
use alloc::vec::Vec;
use ringway_sip::Message;

/// URI of this server for the user of the side that a request is for; `None` if nobody is found.
pub(super) fn uri_of(env: &Env<'_>, message: &Message<'_>, routed: &Routed<'_>) -> Option<Vec<u8>> {
    let Some(Mark::Dialog { identities: Some(identities), is_of_caller, .. }) = routed.mark else {
        return None;
    };
    let aor = user_of_side(env, message, routed, identities.user(!is_of_caller))?;
    Some(gruu::in_dialog(&env.keys.gruu, &aor, &routed.uri, env.config.registrar.gruu))
}

/// Sends the only branch of a request in a dialog, whose flow is gone, to the user of its side instead. False: it has failed.
pub(super) fn retarget(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    id: BranchId,
) -> bool {
    let key = id.context();
    let Some(context) = proxy.contexts.get(key) else { return false };
    // One that came over a link crosses no other: the node that sent it looks the user up.
    if !matches!(context.grant.reach, Reach::Side(_))
        || env.config.is_link(&context.source)
        || !context.may_replace_branch(env, transactions)
        || !context.branches.get(id.parts().1).is_some_and(|branch| branch.state.awaits_first_response())
    {
        return false;
    }
    let bytes = context.request.clone().unwrap_or_default();
    let mut has_begun = false;
    proxy.with_stored(env, key, &bytes, |proxy, env, request, routed| {
        let Some(uri) = uri_of(env, request.message, routed) else { return };
        if !reserve(proxy, env, key, request.message, (1, 0)) {
            return;
        }
        let Ok(share) = Share::of(env.config, request.message, 1) else { return };
        proxy.end_branch(env, id, CallResult::Other);
        relays::end(env, &mut proxy.contexts, id, 480);
        let grant = Grant { reach: Reach::User, ..request.grant };
        if let Some(context) = proxy.contexts.get_mut(key) {
            context.grant = grant;
        }
        env.counters.sides_looked_up += 1;
        decided::about(env, &proxy.contexts, key, Reason::ToDialogSide, Detail::Text(&uri));
        let targets = Targets::of_one(&StoredTarget::new(&uri, 1000, share));
        let request = &Request { grant, ..*request };
        start_branches(proxy, env, transactions, key, Forwarding { request, routed, targets: &targets });
        has_begun = true;
    });
    if has_begun {
        proxy.finish_if_done(env, transactions, key);
    }
    has_begun
}
