//! MESSAGE that no phone of its user took, for those that are kept.

use crate::proxy::call::{Call, CallNext, Forwarded, Planned};
use crate::proxy::states::{Candidate, KeptStates, Released, TimeLimit, Waiting};
use crate::{Detail, Reason};
use alloc::boxed::Box;
use ringway_sansio::TimerKey;

/// Notes that a request is kept if no phone takes it.
pub(super) fn keep(planned: &mut Planned<'_>, candidate: Option<Candidate>) {
    if let Some(candidate) = candidate {
        planned.states.keep(Box::new(Waiting { candidate, timer: TimerKey::NONE }));
    }
}

/// Arms the time for an answer: the sender's own transaction must not end first.
pub(super) fn begin(call: &Call<'_, '_>, forwarded: &mut Forwarded<'_>) {
    if let Some(waiting) = forwarded.context.states.kept_mut::<Box<Waiting>>() {
        let ends = call.env.cx.now + call.env.config.timers.t1 * 48;
        waiting.timer = forwarded.timers.arm(ends, TimeLimit::Message(forwarded.key));
    }
}

/// Handles the end of the time for an answer: no phone is there.
pub(super) fn on_time(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>) -> CallNext {
    let Some(waiting) = forwarded.context.states.kept_mut::<Box<Waiting>>() else { return CallNext::Pass };
    waiting.timer = TimerKey::NONE;
    if forwarded.is_answered {
        return CallNext::Pass;
    }
    call.env.decided(call.request, Reason::GroupTimeout, Detail::None);
    hand_over(forwarded)
}

/// Hands over a request whose best response says that no phone is there.
pub(super) fn over(_: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>) -> CallNext {
    let context = &*forwarded.context;
    let is_absent = context.best().is_some_and(|best| matches!(best.status, 408 | 430 | 480));
    if context.is_done() && is_absent { hand_over(forwarded) } else { CallNext::Pass }
}

/// Takes the request out of its context, which ends without a response.
fn hand_over(forwarded: &mut Forwarded<'_>) -> CallNext {
    let context = &mut *forwarded.context;
    if context.is_cancelled || forwarded.is_answered {
        return CallNext::Pass;
    }
    let Some(waiting) = context.states.take::<Box<Waiting>>() else { return CallNext::Pass };
    forwarded.timers.cancel(waiting.timer);
    let Some(request) = context.request.take() else { return CallNext::Pass };
    let (flow, grant) = (context.source, context.grant);
    CallNext::Taken(Box::new(Released { request, flow, grant, candidate: waiting.candidate }))
}
