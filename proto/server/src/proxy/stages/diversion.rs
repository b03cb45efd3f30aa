//! Forwards of the called user: instead of its contacts, or after them.

use crate::base::{Env, Request};
use crate::policy::{Diverted, DivertedTo, diversions_of};
use crate::proxy::call::{Call, CallNext, Forwarded, Next, Planned};
use crate::proxy::context::Best;
use crate::proxy::limits::Share;
use crate::proxy::stages::destinations::Payer;
use crate::proxy::stages::{dialog_state, identity, trunks};
use crate::proxy::states::{Diversion, KeptStates, Recursion, TimeLimit};
use crate::proxy::targets::StoredTarget;
use crate::report::Report;
use crate::{Condition, DiversionReason, Forwards};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::TimerKey;
use ringway_sip::{HeaderName, Message, Method, Uri};

/// Targets of a forward: its URI, or the trunks that lead there.
struct NewTargets {
    targets: Vec<StoredTarget>,
    /// User by whose permission the call leaves our domains.
    leaves_by: Option<u64>,
}

/// True for a request that forwards apply to. Without state no server could try one target after another.
pub(super) fn is_divertible(env: &Env<'_>, request: &Request<'_, '_>) -> bool {
    env.config.stateful && request.method == Method::Invite && request.message.to().tag().is_none()
}

/// False, and counted, for a call that was diverted too often.
pub(super) fn may_divert(env: &mut Env<'_>, message: &Message<'_>) -> bool {
    let may = diversions_of(message) < DIVERSIONS_MAX;
    env.counters.forward_loops += u64::from(!may);
    may
}

/// Calls the target of the forward of all calls of the user; keeps the other forwards, unless the request is for one phone.
pub(super) fn before(call: &mut Call<'_, '_>, planned: &mut Planned<'_>) -> Next {
    // A GRUU names one phone: the user's forwards do not apply.
    let forwards = call.env.forwards.find(planned.aor.as_bytes());
    let forwards = forwards.filter(|_| !planned.is_one_phone && is_divertible(call.env, call.request));
    let Some(forwards) = forwards else { return Next::Pass };
    let diversion = Diversion { forwards: Arc::clone(forwards), timer: TimerKey::NONE, spirals: 0 };
    if forwards.always.is_some() {
        return begin(call, planned, &diversion.forwards, Condition::Always);
    }
    planned.states.keep(Box::new(diversion));
    Next::Pass
}

/// Calls the target of the forward for a user without a phone.
pub(super) fn before_absent(call: &mut Call<'_, '_>, planned: &mut Planned<'_>) -> Next {
    match planned.states.take::<Box<Diversion>>() {
        Some(diversion) => begin(call, planned, &diversion.forwards, Condition::Unregistered),
        None => Next::Pass,
    }
}

/// The target of a forward as the only one; no target, if a limit is reached.
fn begin(
    call: &mut Call<'_, '_>,
    planned: &mut Planned<'_>,
    forwards: &Arc<Forwards>,
    condition: Condition,
) -> Next {
    let Some(new) = targets_of(call, forwards, condition) else { return Next::Targets(Vec::new()) };
    planned.states.keep(condition);
    planned.leaves_by = new.leaves_by;
    Next::Targets(new.targets)
}

/// Limits of each of `branches` targets that a forward may follow; `None`: none follows.
pub(super) fn share(call: &mut Call<'_, '_>, planned: &mut Planned<'_>, branches: usize) -> Option<Share> {
    planned.states.kept::<Box<Diversion>>()?;
    let message = call.request.message;
    let may = may_divert(call.env, message);
    let Some((share, spirals)) = Share::with_forward(call.env.config, message, branches).filter(|_| may)
    else {
        let _ = planned.states.take::<Box<Diversion>>();
        return None;
    };
    if let Some(diversion) = planned.states.kept_mut::<Box<Diversion>>() {
        diversion.spirals = spirals;
    }
    Some(share)
}

/// Reports a call that goes to the target of a forward only, or arms the time for an answer.
pub(super) fn begin_context(call: &mut Call<'_, '_>, planned: &Planned<'_>, forwarded: &mut Forwarded<'_>) {
    if let Some(condition) = forwarded.context.states.kept::<Condition>() {
        let target = planned.targets.list().first().map(|target| planned.targets.uri(target));
        let (condition, target) = (*condition, target.unwrap_or_default());
        call.env.report(call.request, Report::Diverted { condition, target, is_known: true });
    }
    if let Some(diversion) = forwarded.context.states.kept_mut::<Box<Diversion>>()
        && let Some(no_answer) = &diversion.forwards.no_answer
    {
        let ends = call.env.cx.now + Duration::from_secs(u64::from(no_answer.after_s()));
        diversion.timer = forwarded.timers.arm(ends, TimeLimit::Answer(forwarded.key));
    }
}

/// Calls the target of a forward that applies to the best response so far.
pub(super) fn over(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>) -> CallNext {
    let context = &*forwarded.context;
    let Some(diversion) = context.states.kept::<Box<Diversion>>() else { return CallNext::Pass };
    let condition = context.best().and_then(|best| condition_of(best, context.had_silent_group));
    match condition.filter(|condition| diversion.forwards.target(*condition).is_some()) {
        Some(condition) => divert(call, forwarded, condition).map_or(CallNext::Pass, CallNext::Targets),
        None => CallNext::Pass,
    }
}

/// Handles the end of the time for an answer: calls the target of the forward instead of the other branches.
pub(super) fn on_time(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>) -> CallNext {
    let context = &mut *forwarded.context;
    if let Some(diversion) = context.states.kept_mut::<Box<Diversion>>() {
        diversion.timer = TimerKey::NONE;
    }
    let was_answered = context.branches.iter().any(|branch| branch.states.holds_success());
    if was_answered || context.is_cancelled || forwarded.is_answered {
        return CallNext::Pass;
    }
    match divert(call, forwarded, Condition::NoAnswer) {
        Some(targets) => {
            forwarded.give_up_later();
            CallNext::Instead(targets)
        }
        None => CallNext::Pass,
    }
}

/// Adds History-Info and Diversion to the request of a new target.
pub(super) fn add_lines(call: &Call<'_, '_>, reason: DiversionReason, target: &mut StoredTarget) {
    let Call { env, request, routed, .. } = call;
    let is_ours = Uri::parse(target.uri()).is_ok_and(|uri| env.config.domain_of(&uri).is_some());
    let trunk = target.configured_hop().and_then(|index| env.config.trunking.trunks.get(index));
    let shown = trunk.and_then(|trunk| identity::diverter(env.config, &routed.uri, trunk));
    let diverted = Diverted {
        message: request.message,
        from: routed.uri,
        shown: shown.as_deref(),
        to: target.uri(),
        reason,
        is_believed: request.grant.sender.is_believed() || request.grant.returned.is_some(),
        leaves: !is_ours,
    };
    let lines = diverted.lines();
    if !lines.history.is_empty() {
        target.rewrite_mut().push_line(HeaderName::HistoryInfo, &lines.history);
    }
    if !lines.diversion.is_empty() {
        target.rewrite_mut().push_first_line(HeaderName::Diversion, &lines.diversion);
    }
}

/// Targets of a forward of the called user; `None`: a limit is reached. Only one forward applies to a request.
fn divert(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    condition: Condition,
) -> Option<Vec<StoredTarget>> {
    let diversion = forwarded.context.states.take::<Box<Diversion>>()?;
    forwarded.timers.cancel(diversion.timer);
    let running = forwarded.context.running_breadth();
    let share = Share::of_forward(call.env.config, call.request.message, diversion.spirals, running)?;
    let new = targets_of(call, &diversion.forwards, condition)?;
    let share = share.divided(new.targets.len());
    let targets: Vec<_> = new.targets.into_iter().map(|target| target.with_share(share)).collect();
    let added = targets.iter().map(StoredTarget::rewrite_bytes).sum();
    if !call.reserve(forwarded, targets.len(), added) {
        return None;
    }
    if let Some(recursion) = forwarded.context.states.kept_mut::<Box<Recursion>>() {
        targets.iter().for_each(|target| recursion.note(target.uri()));
    }
    if let Some(user) = new.leaves_by {
        call.leave(forwarded, user);
    }
    let target = targets.first().map(StoredTarget::uri).unwrap_or_default();
    call.env.report(call.request, Report::Diverted { condition, target, is_known: false });
    dialog_state::on_diversion(call.env, forwarded.context);
    Some(targets)
}

/// Targets of a forward; `None`, and counted, if a limit is reached or a rule forbids it.
fn targets_of(call: &mut Call<'_, '_>, forwards: &Arc<Forwards>, condition: Condition) -> Option<NewTargets> {
    let uri = forwards.target(condition)?.as_str().as_bytes();
    if !may_divert(call.env, call.request.message) {
        return None;
    }
    let (config, routed) = (call.env.config, call.routed);
    let reason = DiversionReason::Forward(condition);
    let DivertedTo { uri, leaves } = DivertedTo::new(config, routed.uri.scheme(), uri, reason)?;
    let payer = Payer::of_forward(config, &routed.uri);
    let parsed = Uri::parse(&uri).ok()?;
    let has_route = config.trunking.is_on() && trunks::has_route(call.env, &parsed);
    let leaves = leaves || has_route;
    let user = call.pending.name_of(payer.aor.as_bytes());
    if leaves && !call.pending.may_leave(user) {
        call.env.counters.over_user_forwards += 1;
        return None;
    }
    let mut targets = match has_route {
        true => trunks::of_diverted(call, &parsed, &payer).ok()?,
        false => Vec::new(),
    };
    if targets.is_empty() {
        targets = vec![StoredTarget::new(&uri, Q_MAX, Share::default())];
    }
    targets.iter_mut().for_each(|target| add_lines(call, reason, target));
    Some(NewTargets { targets, leaves_by: leaves.then_some(user) })
}

/// Condition that a best response meets.
fn condition_of(best: &Best, had_silent_group: bool) -> Option<Condition> {
    match (best.status, best.bytes.is_empty()) {
        (486, _) => Some(Condition::Busy),
        (408, _) | (480, false) => Some(Condition::NoAnswer),
        (480, true) if had_silent_group => Some(Condition::NoAnswer),
        // No phone could be reached.
        (480, true) => Some(Condition::Unregistered),
        (_, _) => None,
    }
}

/// Maximum number of diversions of one call, with those before it came here.
const DIVERSIONS_MAX: u32 = 5;

/// q-value of a forward.
const Q_MAX: u16 = 1000;
