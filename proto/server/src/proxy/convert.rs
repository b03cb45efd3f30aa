//! Conversion between SRTP and RTP: a branch whose target refused the offer is sent again, with another one.
//!
//! `None` --415, 488, 606: the relay gets the offer--> `Converted` --482: after a pause--> `Repeated`
//!
//! The request is repeated with the same CSeq, because a proxy cannot change that for the caller's dialog. Some phones take it for
//! the refused one until the server transaction of that ends, which is T4 after our ACK (RFC 3261 §8.2.2.2, §17.2.1).

use super::context::{BranchState, Conversion};
use super::remote_target::Response;
use super::{Proxy, decided, relays};
use crate::base::{BranchId, Env, Transactions};
use crate::media::converted_plan;
use crate::tables::CallResult;
use crate::{Detail, Reason};
use core::time::Duration;
use ringway_sansio::Flow;
use ringway_sip::{Limits, Message};

/// Sends a branch again with a converted offer, if its target refused the media. False: the branch has failed.
pub(super) fn send_converted(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    id: BranchId,
    response: &Response<'_, '_>,
) -> bool {
    let (415 | 482 | 488 | 606, Some(flow), true) =
        (response.status, response.sent_to, env.config.media.converts())
    else {
        return false;
    };
    let Some(context) = proxy.contexts.get_mut(id.context()) else { return false };
    let is_late = env.cx.now >= context.since + env.config.timer_c;
    if context.is_cancelled || is_late || transactions.is_answered(context.server) {
        return false;
    }
    let request = context.request.clone().unwrap_or_default();
    let Some(branch) = proxy.contexts.branch_mut(id) else { return false };
    if !matches!(branch.state, BranchState::Sent { .. }) || branch.target.is_none() {
        return false;
    }
    match (branch.conversion, response.status) {
        (Conversion::None, 415 | 488 | 606) => {
            let Ok(message) = Message::parse(&request, &Limits::STORED) else { return false };
            if converted_plan(env.config, &message, *flow).is_none() {
                return false;
            }
            branch.conversion = Conversion::Converted;
            proxy.end_branch(env, id, CallResult::of(false, response.status));
            relays::end(env, &mut proxy.contexts, id, response.status);
            if let Some(branch) = proxy.contexts.branch_mut(id) {
                branch.media = None;
            }
            env.counters.media_converted += 1;
            decided::about(env, &proxy.contexts, id.context(), Reason::Converted, Detail::None);
            proxy.send_stored(env, transactions, id, *flow);
            proxy.finish_if_done(env, transactions, id.context());
            true
        }
        (Conversion::Converted, 482) => {
            branch.conversion = Conversion::Repeated;
            proxy.end_branch(env, id, CallResult::of(false, response.status));
            pause(proxy, env, id, *flow);
            true
        }
        (Conversion::Repeated, 482) => {
            // For the caller the media are refused.
            proxy.on_branch_failure(env, transactions, id, 488);
            true
        }
        (Conversion::None | Conversion::Converted | Conversion::Repeated, _) => false,
    }
}

/// Sends the branch once more, after the target has forgotten the refused request.
fn pause(proxy: &mut Proxy, env: &Env<'_>, id: BranchId, flow: Flow) {
    let query = proxy.lookups.pause(env.cx.now + env.config.timers.t4 + MARGIN, id, flow);
    if let Some(branch) = proxy.contexts.branch_mut(id) {
        branch.state = BranchState::Resolving { query };
    }
}

/// Sends a branch whose pause has passed.
pub(super) fn send_repeated(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    (id, flow): (BranchId, Flow),
) {
    let Some(branch) = proxy.contexts.branch_mut(id) else { return };
    // It ends if it cannot be sent.
    branch.state = BranchState::Done;
    proxy.send_stored(env, transactions, id, flow);
    proxy.finish_if_done(env, transactions, id.context());
}

/// Time after T4, for a target whose clock is slow, or that got the ACK late.
const MARGIN: Duration = Duration::from_millis(500);
