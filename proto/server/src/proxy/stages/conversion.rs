//! Conversion between SRTP and RTP: a branch whose target refused the offer is sent again, with another one.
//!
//! `None` --415, 488, 606: the relay gets the offer--> `Converted` --482: after a pause--> `Repeated`
//!
//! The request is repeated with the same CSeq, because a proxy cannot change that for the caller's dialog. Some phones take it for
//! the refused one until the server transaction of that ends, which is T4 after our ACK (RFC 3261 §8.2.2.2, §17.2.1).

use crate::base::StageDecision;
use crate::proxy::call::{BranchEnd, BranchNext, Call, Forwarded};
use crate::proxy::context::BranchState;
use crate::proxy::media::converted_plan;
use crate::proxy::stages::relays;
use crate::proxy::states::Conversion;
use crate::report::Report;
use crate::tables::CallResult;
use core::time::Duration;

/// Sends a branch again with a converted offer, if its target refused the media.
pub(super) fn after(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    end: &BranchEnd<'_>,
) -> BranchNext {
    let sent_to = end.response.and_then(|response| response.sent_to);
    let (415 | 482 | 488 | 606, Some(flow), true) = (end.status, sent_to, call.env.config.media.converts())
    else {
        return BranchNext::Pass;
    };
    let config = call.env.config;
    let is_late = call.env.cx.now >= forwarded.context.since + config.timer_c;
    if forwarded.context.is_cancelled || is_late || forwarded.is_answered {
        return BranchNext::Pass;
    }
    let Some(branch) = forwarded.branch(end.id) else { return BranchNext::Pass };
    let Some(target) = branch.target.as_mut().filter(|_| matches!(branch.state, BranchState::Sent { .. }))
    else {
        return BranchNext::Pass;
    };
    let result = CallResult::of(false, end.status);
    match (branch.states.conversion, end.status) {
        (Conversion::None, 415 | 488 | 606) => {
            let Some(plan) = converted_plan(config, call.request.message, *flow) else {
                return BranchNext::Pass;
            };
            target.decision = StageDecision::Relayed(plan);
            branch.states.conversion = Conversion::Converted;
            relays::end(&mut call.env.cx, forwarded.context, end.id, end.status);
            if let Some(branch) = forwarded.branch(end.id) {
                branch.states.media = None;
            }
            call.env.report(call.request, Report::Converted);
            BranchNext::Again(*flow, result)
        }
        (Conversion::Converted, 482) => {
            branch.states.conversion = Conversion::Repeated;
            BranchNext::Later(config.timers.t4 + MARGIN, *flow, result)
        }
        // For the caller the media are refused.
        (Conversion::Repeated, 482) => BranchNext::Fail(488, CallResult::Other),
        (Conversion::None | Conversion::Converted | Conversion::Repeated, _) => BranchNext::Pass,
    }
}

/// Time after T4, for a target whose clock is slow, or that got the ACK late.
const MARGIN: Duration = Duration::from_millis(500);
