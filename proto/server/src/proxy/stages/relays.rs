//! Requests of the proxy to media relays, and their results.

use crate::base::{BranchId, Env};
use crate::media::{Hop, SDP_ADDED_MAX, SDP_BYTES_MAX, is_sdp, source_of_answer};
use crate::proxy::context::{Branch, BranchState, Contexts, Conversion, ResponseContext};
use crate::proxy::forward::Plan;
use crate::proxy::lookups::{Lookup, Lookups, StoredResponse};
use crate::proxy::remote_target::Response;
use crate::proxy::states::{AnswerStep, BranchMedia};
use crate::{Action, Detail, Reason, RelayFailure};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::Context;
use ringway_sip::{Edit, EditSpace, HeaderName, Limits, Message, write_host};

/// Requests another SDP for a branch that needs a media relay. True: the branch waits for it, or failed.
pub(in crate::proxy) fn ask_offer(
    env: &mut Env<'_>,
    contexts: &mut Contexts,
    lookups: &mut Lookups,
    id: BranchId,
    plan: &Plan<'_, '_, '_>,
) -> bool {
    let Some(branch) = contexts.branch_mut(id).filter(|branch| branch.media.is_none()) else { return false };
    let hop = Hop { flow: plan.flow(), contact: plan.contact() };
    let media = match branch.conversion {
        Conversion::None => BranchMedia::of_request(env, plan.request(), hop),
        Conversion::Converted | Conversion::Repeated => BranchMedia::of_converted(env, plan.request(), hop),
    };
    let Some(mut media) = media else { return false };
    let makes_offer = media.makes_offer();
    let offer = match makes_offer {
        true => media.offer(plan.request().message, lookups.random()),
        false => None,
    };
    if makes_offer && offer.is_none() && refuse(env, contexts, id, &mut media) {
        return true;
    }
    let Some(branch) = contexts.branch_mut(id) else { return true };
    branch.media = Some(Box::new(media));
    let Some(offer) = offer else { return false };
    env.decided(plan.request(), Reason::RelayAsked, Detail::None);
    let until = env.cx.now + env.config.media.time_limit + GRACE;
    let query = lookups.start_relay(&mut env.cx, until, Lookup::Offer(id, plan.flow()), offer);
    branch.target = Some(Box::new(plan.stored_target()));
    branch.state = BranchState::Resolving { query };
    true
}

/// Counts an offer that no relay has; true if the branch fails for it.
pub(in crate::proxy) fn refuse(
    env: &mut Env<'_>,
    contexts: &mut Contexts,
    id: BranchId,
    media: &mut BranchMedia,
) -> bool {
    env.counters.media_failed += 1;
    media.set_direct();
    let (key, number) = id.parts();
    let Some(context) = contexts.get_mut(key) else { return true };
    let Some(branch) = context.branches.get(number) else { return true };
    let status = match (branch.conversion, env.config.media.on_failure) {
        // Unchanged it would be refused again.
        (Conversion::Converted | Conversion::Repeated, _) => 488,
        (Conversion::None, RelayFailure::Refuse) => 500,
        (Conversion::None, RelayFailure::Direct) => return false,
    };
    context.fail_branch(number, status);
    true
}

/// Next step of a response. Requests the SDP of a relay if it needs one.
pub(in crate::proxy) fn answer_step(
    env: &mut Env<'_>,
    contexts: &mut Contexts,
    lookups: &mut Lookups,
    id: BranchId,
    response: &Response<'_, '_>,
) -> AnswerStep {
    let (message, status) = (response.message, response.status);
    if !env.config.media.is_on() || !(101..=299).contains(&status) {
        return AnswerStep::Forward;
    }
    let media = contexts.branch_mut(id).and_then(|branch| branch.media.as_deref_mut());
    let Some(media) = media else { return AnswerStep::Forward };
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
pub(in crate::proxy) fn end(
    cx: &mut Context<'_, Action>,
    context: &mut ResponseContext,
    id: BranchId,
    status: u16,
) {
    let Some(branch) = context.branches.get_mut(id.parts().1) else { return };
    if let Some(media) = branch.media.take_if(|media| media.ends_with(status)) {
        cx.actions.push(media.delete());
    } else if let Some(media) = &mut branch.media {
        // A BYE that is challenged is sent again.
        media.keep_call();
    }
}

/// Bytes of the SDP that the branches of an answered request hold.
pub(in crate::proxy) fn held_bytes(branches: &[Branch]) -> usize {
    branches.iter().filter_map(|branch| branch.media.as_deref()).map(BranchMedia::held_bytes).sum()
}

/// Bytes of the SDP that a relay adds to a branch of a request.
pub(in crate::proxy) fn cost_of(message: &Message<'_>) -> usize {
    match is_sdp(message) {
        true => 2 * (message.body().len().min(SDP_BYTES_MAX) + SDP_ADDED_MAX),
        false => 0,
    }
}

/// Response of a branch with the SDP of a relay, and with a warning if the caller's SRTP ends there.
pub(in crate::proxy) fn response_with_sdp(
    env: &Env<'_>,
    contexts: &mut Contexts,
    id: BranchId,
    response: &Response<'_, '_>,
    sdp: &[u8],
) -> Vec<u8> {
    let bytes = with_sdp(response.message, sdp);
    let media = contexts.branch_mut(id).and_then(|branch| branch.media.as_deref());
    if !media.is_some_and(BranchMedia::is_downgraded) {
        return bytes;
    }
    let Ok(message) = Message::parse(&bytes, &Limits::STORED) else { return bytes };
    let (mut space, mut warned) = (EditSpace::default(), Vec::new());
    let mut edit = Edit::new(&message, &mut space);
    edit.push_last(HeaderName::Warning, |out| {
        out.extend_from_slice(b"399 ");
        write_host(out, env.config.sent_by(response.flow.listener, response.flow.remote.ip()));
        out.extend_from_slice(b" \"Media Not Encrypted End To End\"");
    });
    match edit.write_into(&mut warned) {
        Ok(()) => warned,
        Err(_) => bytes,
    }
}

/// Message with the SDP of a relay.
pub(in crate::proxy) fn with_sdp(message: &Message<'_>, sdp: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write_with_body(sdp, &mut bytes);
    bytes
}

/// Time after which the driver has ended a request to a relay.
const GRACE: Duration = Duration::from_millis(500);
