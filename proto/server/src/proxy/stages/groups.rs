//! Order of the groups of targets: the next one begins when the running one has failed, or its time has passed.

use crate::proxy::call::{Call, CallNext, Forwarded, Planned};
use crate::proxy::stages::trunks;
use crate::proxy::states::{KeptStates, LaterGroups, TimeLimit};
use crate::proxy::targets::StoredTarget;
use crate::report::Report;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::TimerKey;

/// Keeps the targets of lower preference in a new context, unless all are called at once.
pub(super) fn begin(call: &mut Call<'_, '_>, planned: &mut Planned<'_>, forwarded: &mut Forwarded<'_>) {
    let is_serial = planned.targets.are_ranked() || !call.env.config.serial_fork.is_zero();
    if is_serial && let Some(later) = LaterGroups::of(planned.targets) {
        forwarded.context.states.keep(later);
    }
}

/// Takes the targets of the highest q-value out of new ones; the others join the groups that wait.
pub(super) fn take_first(
    call: &Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    mut targets: Vec<StoredTarget>,
) -> Vec<StoredTarget> {
    targets.sort_by_key(|target| core::cmp::Reverse(target.q));
    let highest = targets.first().map(|target| target.q);
    let is_ranked = targets.first().is_some_and(StoredTarget::is_ranked);
    let is_parallel = call.env.config.serial_fork.is_zero() && !is_ranked;
    let first = targets.iter().take_while(|target| is_parallel || Some(target.q) == highest).count();
    let later = targets.split_off(first);
    if !later.is_empty() {
        let states = &mut forwarded.context.states;
        if states.kept::<Box<LaterGroups>>().is_none() {
            states.keep(Box::new(LaterGroups::none()));
        }
        if let Some(groups) = states.kept_mut::<Box<LaterGroups>>() {
            groups.insert(later);
        }
    }
    targets
}

/// Starts the timer of the running group, if another one follows.
pub(super) fn arm(call: &Call<'_, '_>, forwarded: &mut Forwarded<'_>) {
    let (config, context) = (call.env.config, &mut *forwarded.context);
    let until = (!context.is_invite).then(|| context.since + config.timers.t1 * 64);
    if trunks::waits_for_phone(context) {
        // Another node would keep a message once more.
        return;
    }
    let group_max = trunks::group_max(config, context);
    let later = context.states.kept_mut::<Box<LaterGroups>>();
    if let Some(later) = later.filter(|later| later.len() > 0 && later.timer == TimerKey::NONE) {
        let ends = later.ends_at(call.env.cx.now, group_max, until);
        later.timer = forwarded.timers.arm(ends, TimeLimit::Group(forwarded.key));
    }
}

/// Calls the next group of targets, if the running one has failed.
pub(super) fn over(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>) -> CallNext {
    let Some(later) = forwarded.context.states.kept_mut::<Box<LaterGroups>>() else { return CallNext::Pass };
    let group: Vec<_> = later.take_next().collect();
    forwarded.timers.cancel(core::mem::replace(&mut later.timer, TimerKey::NONE));
    let is_ranked = group.first().is_some_and(StoredTarget::is_ranked);
    call.env.report(call.request, Report::NextGroup { targets: group.len(), is_ranked });
    if group.is_empty() {
        let _ = forwarded.context.states.take::<Box<LaterGroups>>();
        return CallNext::Pass;
    }
    CallNext::Targets(group)
}

/// Handles the end of a group's time: cancels its branches, so that the next group is called.
pub(super) fn on_time(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>) -> CallNext {
    if let Some(later) = forwarded.context.states.kept_mut::<Box<LaterGroups>>() {
        later.timer = TimerKey::NONE;
    }
    call.env.report(call.request, Report::GroupTimeout);
    CallNext::Instead(Vec::new())
}
