//! Requests of the proxy to media relays, and their results.

use crate::base::{BranchId, Env, Response, StageDecision};
use crate::proxy::call::MessageStep;
use crate::proxy::context::{Branch, BranchState, ResponseContext};
use crate::proxy::forward::{Changes, Plan};
use crate::proxy::lookups::{Lookup, Lookups, StoredResponse};
use crate::proxy::media::{Hop, MEDIA_MARK, SDP_ADDED_MAX, SDP_BYTES_MAX, is_sdp, source_of_answer};
use crate::proxy::states::{AnswerStep, BranchMedia};
use crate::report::Report;
use crate::{Action, Detail, Reason, RelayFailure};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Context, RelayResult};
use ringway_sip::{Edit, EditSpace, HeaderName, Limits, Message};

/// Requests another SDP for a branch that needs a media relay. True: the branch waits for it, or failed.
pub(super) fn ask_offer(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    lookups: &mut Lookups,
    id: BranchId,
    plan: &Plan<'_, '_, '_>,
) -> bool {
    let number = id.parts().1;
    if context.branches.get(number).is_none_or(|branch| branch.states.media.is_some()) {
        return false;
    }
    let hop = Hop { flow: plan.flow(), contact: plan.contact() };
    let media = BranchMedia::of_request(env, plan.request(), hop, plan.decision());
    let Some(mut media) = media else { return false };
    let makes_offer = media.makes_offer();
    let offer = match makes_offer {
        true => media.offer(plan.request().message, lookups.random()),
        false => None,
    };
    if makes_offer && offer.is_none() {
        env.counters.media_failed += 1;
        if refuse(env, context, id, &mut media, plan.decision()) {
            return true;
        }
    }
    let Some(branch) = context.branches.get_mut(number) else { return true };
    branch.states.media = Some(Box::new(media));
    let Some(offer) = offer else { return false };
    env.decided(plan.request(), Reason::RelayAsked, Detail::None);
    let until = env.cx.now + env.config.media.time_limit + GRACE;
    let query = lookups.start_relay(&mut env.cx, until, Lookup::Offer(id, plan.flow()), offer);
    branch.target = Some(Box::new(plan.stored_target()));
    branch.state = BranchState::Resolving { query };
    true
}

/// Handles an offer that no relay has; true if the branch fails for it.
pub(super) fn refuse(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    id: BranchId,
    media: &mut BranchMedia,
    decision: StageDecision,
) -> bool {
    media.set_direct();
    let status = match env.config.media.on_failure {
        // Unchanged it would be refused again.
        _ if decision.is_relayed() => 488,
        // An emergency call is better off without a relay than without a call.
        _ if context.grant.above_limits.is_some() => return false,
        RelayFailure::Refuse => 500,
        RelayFailure::Direct => return false,
    };
    context.fail_branch(id.parts().1, status);
    true
}

/// Next step of a response. Requests the SDP of a relay if it needs one.
pub(super) fn answer_step(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    lookups: &mut Lookups,
    id: BranchId,
    response: &Response<'_, '_>,
) -> AnswerStep {
    let (message, status) = (response.message, response.status);
    let media = context.branches.get_mut(id.parts().1).and_then(|branch| branch.states.media.as_deref_mut());
    let Some(media) = media.filter(|_| (101..=299).contains(&status)) else { return AnswerStep::Forward };
    let step = media.on_response(status, message);
    if !matches!(step, AnswerStep::Ask) {
        return step;
    }
    let bytes = message.as_bytes();
    if !media.may_wait(message) || !lookups.has_room(bytes.len()) {
        env.counters.media_overflow += 1;
        return AnswerStep::Forward;
    }
    let (flow, sent_to) = (*response.flow, response.sent_to.copied());
    let stored = StoredResponse { branch: id, bytes: bytes.into(), status, flow, sent_to };
    let until = env.cx.now + env.config.media.time_limit + GRACE;
    let request = media.answer_request(message, source_of_answer(env.config, flow.remote));
    let query = lookups.start_relay(&mut env.cx, until, Lookup::Answer(Box::new(stored)), request);
    media.wait(status, query);
    AnswerStep::Ask
}

/// Deletes the call of a branch at its relay, if it ends with this final status.
pub(super) fn end(cx: &mut Context<'_, Action>, context: &mut ResponseContext, id: BranchId, status: u16) {
    let Some(branch) = context.branches.get_mut(id.parts().1) else { return };
    if let Some(media) = branch.states.media.take_if(|media| media.ends_with(status)) {
        cx.actions.push(media.delete());
    } else if let Some(media) = &mut branch.states.media {
        // A BYE that is challenged is sent again.
        media.keep_call();
    }
}

/// Bytes of the SDP that the branches of an answered request hold.
pub(super) fn held_bytes(branches: &[Branch]) -> usize {
    branches.iter().filter_map(|branch| branch.states.media.as_deref()).map(BranchMedia::held_bytes).sum()
}

/// Bytes of the SDP that a relay adds to a branch of a request.
pub(super) fn cost_of(message: &Message<'_>) -> usize {
    match is_sdp(message) {
        true => 2 * (message.body().len().min(SDP_BYTES_MAX) + SDP_ADDED_MAX),
        false => 0,
    }
}

/// Handles the result of an offer; `None`: no relay has it. True: the branch is sent.
pub(super) fn offered(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    id: BranchId,
    result: Option<RelayResult>,
) -> bool {
    let Some(branch) = context.branches.get_mut(id.parts().1) else { return false };
    branch.state = BranchState::Done;
    let Some(mut media) = branch.states.media.take() else { return false };
    let decision = branch.target.as_ref().map_or(StageDecision::ByRule, |target| target.decision);
    let was_relayed = media.set_offer_result(result);
    context.report(env, if was_relayed { Report::RelayChosen } else { Report::RelayFailed });
    if !was_relayed && media.is_unanswered() {
        // A relay may have the call: its SDP is not credible, or its answer was late.
        env.cx.actions.push(media.delete());
    }
    let is_sent = was_relayed || !refuse(env, context, id, &mut media, decision);
    if is_sent && let Some(branch) = context.branches.get_mut(id.parts().1) {
        branch.states.media = Some(media);
    }
    is_sent
}

/// Next step of a response that was stored, with the result of its query; without one no relay has its SDP.
pub(super) fn answered(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    query: u64,
    id: BranchId,
    response: &Response<'_, '_>,
    result: Option<RelayResult>,
) -> MessageStep {
    let branch = context.branches.get_mut(id.parts().1);
    // The branch has ended meanwhile.
    let Some(media) = branch.and_then(|branch| branch.states.media.as_deref_mut()) else {
        return MessageStep::Wait;
    };
    if let Some(sdp) = media.take_answer(query, response.message, result) {
        return MessageStep::Replace(response_with_sdp(env, context, id, response, &sdp));
    }
    context.report(env, Report::RelayFailed);
    MessageStep::Pass
}

/// Request of a branch with the SDP of a relay; `None`: it is sent as it came.
pub(super) fn offer_of(context: &ResponseContext, branch: &Branch) -> Option<Vec<u8>> {
    let sdp = branch.states.media.as_deref()?.sdp()?;
    let message = Message::parse(context.request.as_deref()?, &Limits::STORED).ok()?;
    Some(with_sdp(&message, sdp))
}

/// Adds the parameter of our Record-Route for a relayed call that a request begins.
pub(super) fn change(key: &[u8; 16], message: &Message<'_>, branch: &Branch, changes: &mut Changes) {
    if let Some(mark) = branch.states.media.as_deref().and_then(BranchMedia::written_mark) {
        let out = &mut changes.route_params;
        out.push(b';');
        out.extend_from_slice(MEDIA_MARK);
        out.push(b'=');
        mark.write(key, message, out);
    }
}

/// Ends the media of a branch whose context ends.
pub(super) fn give_up(cx: &mut Context<'_, Action>, lookups: &mut Lookups, branch: &mut Branch) {
    if let Some(media) = branch.states.media.take() {
        media.queries().for_each(|query| drop(lookups.end(query)));
        if media.ends_with_transaction() {
            cx.actions.push(media.delete());
        }
    }
}

/// Ends the media of a branch that was cancelled before it was sent: the ports are not to wait for the end of the transaction.
pub(super) fn cancel(cx: &mut Context<'_, Action>, branch: &mut Branch) {
    if let Some(media) = branch.states.media.take_if(|media| media.is_unanswered()) {
        cx.actions.push(media.delete());
    }
}

/// Response of a branch with the SDP of a relay, and with a warning if the caller's SRTP ends there.
pub(super) fn response_with_sdp(
    env: &Env<'_>,
    context: &mut ResponseContext,
    id: BranchId,
    response: &Response<'_, '_>,
    sdp: &[u8],
) -> Vec<u8> {
    let bytes = with_sdp(response.message, sdp);
    let media = context.branches.get(id.parts().1).and_then(|branch| branch.states.media.as_deref());
    if !media.is_some_and(BranchMedia::is_downgraded) {
        return bytes;
    }
    let Ok(message) = Message::parse(&bytes, &Limits::STORED) else { return bytes };
    let (mut space, mut warned) = (EditSpace::default(), Vec::new());
    let mut edit = Edit::new(&message, &mut space);
    edit.push_last(HeaderName::Warning, |out| {
        out.extend_from_slice(b"399 ");
        env.config.sent_by(response.flow.listener, response.flow.remote.ip()).write(out);
        out.extend_from_slice(b" \"Media Not Encrypted End To End\"");
    });
    match edit.write_into(&mut warned) {
        Ok(()) => warned,
        Err(_) => bytes,
    }
}

/// Message with the SDP of a relay.
pub(super) fn with_sdp(message: &Message<'_>, sdp: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write_with_body(sdp, &mut bytes);
    bytes
}

/// Time after which the driver has ended a request to a relay.
const GRACE: Duration = Duration::from_millis(500);
