//! Order of the groups of targets: the next one begins when the running one has failed, or its time has passed.

use super::context::BranchState;
use super::forward::Forwarding;
use super::serial::{LaterGroups, TimeLimit};
use super::stages::trunks;
use super::targets::{StoredTarget, Targets};
use super::{Proxy, decided};
use crate::base::{BranchId, Env, Request, Transactions};
use crate::route::Routed;
use crate::{Detail, Reason};
use alloc::vec::Vec;
use ringway_sansio::TimerKey;
use ringway_transaction::SlabKey;

/// Calls the next groups of targets, if the running one has failed, until one runs.
pub(super) fn start_next(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
) {
    while let Some(context) = proxy.contexts.get_mut(key)
        && context.later.is_some()
        && context.may_go_on()
        && !transactions.is_answered(context.server)
        && let Some(later) = &mut context.later
    {
        let group: Vec<_> = later.take_next().collect();
        proxy.groups.cancel(core::mem::replace(&mut later.timer, TimerKey::NONE));
        let bytes = context.request.clone().unwrap_or_default();
        if group.is_empty() {
            context.later = None;
        }
        proxy.with_stored(env, key, &bytes, |proxy, env, request, routed| {
            let mut targets = Targets::default();
            group.iter().for_each(|target| targets.push_stored(target));
            env.counters.trunk_failovers += u64::from(targets.are_at_trunks());
            env.decided(request, Reason::NextGroup, Detail::Count(targets.list().len()));
            let forwarding = Forwarding { request, routed, targets: &targets };
            start_branches(proxy, env, transactions, key, forwarding);
        });
        arm(proxy, env, key);
    }
}

/// Calls new targets of a context, with its stored request.
pub(super) fn start_stored(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
    targets: Vec<StoredTarget>,
) {
    let Some(bytes) = proxy.contexts.get(key).and_then(|context| context.request.clone()) else { return };
    proxy.with_stored(env, key, &bytes, |proxy, env, request, routed| {
        start_new(proxy, env, transactions, key, (request, routed), targets);
    });
}

/// Calls new targets of a context: those of the highest q-value now, the others in the next groups.
pub(super) fn start_new(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    mut targets: Vec<StoredTarget>,
) {
    targets.sort_by_key(|target| core::cmp::Reverse(target.q));
    let highest = targets.first().map(|target| target.q);
    let is_at_trunk = targets.first().is_some_and(|target| target.trunk().is_some());
    let is_parallel = env.config.serial_fork.is_zero() && !is_at_trunk;
    let first = targets.iter().take_while(|target| is_parallel || Some(target.q) == highest).count();
    let later = targets.split_off(first);
    if let Some(context) = proxy.contexts.get_mut(key) {
        LaterGroups::insert(&mut context.later, later);
    }
    let mut set = Targets::default();
    targets.iter().for_each(|target| set.push_stored(target));
    start_branches(proxy, env, transactions, key, Forwarding { request, routed, targets: &set });
    arm(proxy, env, key);
}

/// Starts a branch for each of the targets.
pub(super) fn start_branches(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
    forwarding: Forwarding<'_, '_, '_>,
) {
    for target in forwarding.targets.list() {
        proxy.start_branch(env, transactions, key, forwarding, target);
    }
}

/// Starts the timer of the running group, if another one follows.
pub(super) fn arm(proxy: &mut Proxy, env: &Env<'_>, key: SlabKey) {
    let Some(context) = proxy.contexts.get_mut(key) else { return };
    let until = (!context.is_invite).then(|| context.since + env.config.timers.t1 * 64);
    if trunks::waits_for_phone(context) {
        // Another node would keep a message once more.
        return;
    }
    let group_max = trunks::group_max(env.config, context);
    let later = context.later.as_mut();
    if let Some(later) = later.filter(|later| later.len() > 0 && later.timer == TimerKey::NONE) {
        let ends = later.ends_at(env.cx.now, group_max, until);
        later.timer = proxy.groups.arm(ends, TimeLimit::Group(key));
    }
}

/// Handles the end of a group's time: cancels its branches, and calls the next group.
pub(super) fn on_timeout(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
) {
    let Some(context) = proxy.contexts.get_mut(key) else { return };
    if let Some(later) = &mut context.later {
        later.timer = TimerKey::NONE;
    }
    let branches = context.branches.len();
    decided::about(env, &proxy.contexts, key, Reason::GroupTimeout, Detail::None);
    supersede(proxy, env, transactions, key, branches);
    env.counters.serial_forks += 1;
    proxy.finish_if_done(env, transactions, key);
}

/// Cancels the first `branches` branches without waiting for their responses.
pub(super) fn supersede(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
    branches: usize,
) {
    let Some(context) = proxy.contexts.get_mut(key) else { return };
    context.had_silent_group = true;
    for number in 0..branches {
        let id = BranchId::new(key, number);
        let Some(branch) = proxy.contexts.branch_mut(id) else { continue };
        trunks::note_silent(env, branch);
        match branch.state {
            BranchState::Sent { client, .. } if transactions.cancel(&mut env.cx, client) => {
                branch.state = BranchState::Superseded { client };
            }
            BranchState::Resolving { query } => {
                proxy.lookups.end(query);
                proxy.on_branch_failure(env, transactions, id, 480);
            }
            BranchState::Sent { .. } | BranchState::Superseded { .. } | BranchState::Done => {}
        }
    }
}
