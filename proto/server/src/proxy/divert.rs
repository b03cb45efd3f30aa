//! Forwards of the called user: instead of its contacts, or after them.

use super::breadth::{Share, TooBroad};
use super::context::{Best, ResponseContext};
use super::destinations::Payer;
use super::pending::Pending;
use super::retarget::Diversion;
use super::serial::TimeLimit;
use super::stages::trunks;
use super::targets::{StoredTarget, Targets};
use super::{Proxy, decided, groups, lit};
use crate::base::{Env, Request, Transactions};
use crate::diversion::{Diverted, DivertedTo, diversions_of};
use crate::route::Routed;
use crate::{Condition, Detail, DiversionReason, Forwards};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::TimerKey;
use ringway_sip::{HeaderName, Message, Method, Uri};
use ringway_transaction::SlabKey;

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

/// Makes the target of a forward the only target; none, if a limit is reached.
pub(super) fn begin(
    pending: &Pending,
    env: &mut Env<'_>,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    (forwards, condition): (&Arc<Forwards>, Condition),
    targets: &mut Targets,
) {
    if let Some(new) = targets_of(pending, env, (request, routed), (forwards, condition)) {
        new.targets.iter().for_each(|target| targets.push_stored(target));
        targets.set_diverted(condition, new.leaves_by);
    }
}

/// Sets the limits of each of `branches` targets, and of the branch of a forward that may follow them.
pub(super) fn share(
    env: &mut Env<'_>,
    request: &Request<'_, '_>,
    targets: &mut Targets,
    branches: usize,
) -> Result<(), TooBroad> {
    if targets.forwards().is_some() {
        let may = may_divert(env, request.message);
        let both = Share::with_forward(env.config, request.message, branches).filter(|_| may);
        targets.set_forward_spirals(both.map(|(_, spirals)| spirals));
        if let Some((share, _)) = both {
            targets.set_share(share);
            return Ok(());
        }
    }
    let branches = match targets.are_at_trunks() {
        true => targets.keep_first(Share::breadth_for(env.config, request.message, branches)),
        false => branches,
    };
    targets.set_share(Share::of(env.config, request.message, branches)?);
    Ok(())
}

/// Keeps the forwards of the called user in a new context, and notes the user by whose permission it leaves our domains.
pub(super) fn hold(
    proxy: &mut Proxy,
    env: &Env<'_>,
    context: &mut ResponseContext,
    key: SlabKey,
    targets: &Targets,
) {
    if let Some(user) = targets.leaves_by() {
        proxy.pending.begin_leaving(user);
        context.leaves_by = Some(user);
    }
    let Some((forwards, spirals)) = targets.forwards() else { return };
    let timer = forwards.no_answer.as_ref().map_or(TimerKey::NONE, |no_answer| {
        let ends = env.cx.now + Duration::from_secs(u64::from(no_answer.after_s()));
        proxy.groups.arm(ends, TimeLimit::Answer(key))
    });
    context.diversion = Some(Box::new(Diversion { forwards: Arc::clone(forwards), timer, spirals }));
}

/// Calls the target of a forward, if every branch is over and it applies to the best response so far.
pub(super) fn start_if_due(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
) {
    let Some(context) = proxy.contexts.get(key) else { return };
    let Some(diversion) = &context.diversion else { return };
    if context.later.is_some() || !context.may_go_on() || transactions.is_answered(context.server) {
        return;
    }
    let condition = context.best().and_then(|best| condition_of(best, context.had_silent_group));
    if let Some(condition) = condition
        && diversion.forwards.target(condition).is_some()
    {
        divert(proxy, env, transactions, key, condition);
    }
}

/// Handles the end of the time for an answer: calls the target of the forward, and cancels the other branches.
pub(super) fn on_no_answer(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
) {
    let Some(context) = proxy.contexts.get_mut(key) else { return };
    if let Some(diversion) = &mut context.diversion {
        diversion.timer = TimerKey::NONE;
    }
    let was_answered = context
        .branches
        .iter()
        .any(|branch| branch.media.as_ref().is_some_and(|media| media.holds_success()));
    if was_answered || context.is_cancelled || transactions.is_answered(context.server) {
        return;
    }
    let branches = context.branches.len();
    let skipped = context.later.take();
    // The new branch comes first, so that the context does not end when the others do.
    if !divert(proxy, env, transactions, key, Condition::NoAnswer) {
        if let Some(context) = proxy.contexts.get_mut(key) {
            context.later = skipped;
        }
        return;
    }
    if let Some(later) = skipped {
        proxy.groups.cancel(later.timer);
    }
    groups::supersede(proxy, env, transactions, key, branches);
    proxy.finish_if_done(env, transactions, key);
}

/// Notes the user by whose permission a request leaves our domains.
pub(super) fn leave(proxy: &mut Proxy, key: SlabKey, user: u64) {
    if let Some(context) = proxy.contexts.get_mut(key)
        && context.leaves_by.is_none()
    {
        context.leaves_by = Some(user);
        proxy.pending.begin_leaving(user);
    }
}

/// Reserves the memory of `branches` further branches, whose targets add `added` bytes in all.
pub(super) fn reserve(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    key: SlabKey,
    (branches, added): (usize, usize),
) -> bool {
    proxy.contexts.get_mut(key).is_some_and(|context| {
        let bytes = branches * context.reserved.of_branch + added;
        Pending::reserve_more(env, context, bytes)
    })
}

/// Adds History-Info and Diversion to the request of a new target.
pub(super) fn add_lines(
    env: &Env<'_>,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    reason: DiversionReason,
    target: &mut StoredTarget,
) {
    let is_ours = Uri::parse(target.uri()).is_ok_and(|uri| env.config.domain_of(&uri).is_some());
    let diverted = Diverted {
        message: request.message,
        from: routed.uri,
        to: target.uri(),
        reason,
        is_believed: request.grant.sender.is_believed(),
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

/// Calls the target of a forward of the called user. False: a limit is reached. Only one forward applies to a request.
fn divert(
    proxy: &mut Proxy,
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    key: SlabKey,
    condition: Condition,
) -> bool {
    let Some(context) = proxy.contexts.get_mut(key) else { return false };
    let Some(diversion) = context.diversion.take() else { return false };
    proxy.groups.cancel(diversion.timer);
    let running = context.running_breadth();
    let bytes = context.request.clone().unwrap_or_default();
    let mut has_begun = false;
    proxy.with_stored(env, key, &bytes, |proxy, env, request, routed| {
        let message = request.message;
        let share = Share::of_forward(env.config, message, diversion.spirals, running);
        let Some(share) = share else { return };
        let forward = (&diversion.forwards, condition);
        let Some(new) = targets_of(&proxy.pending, env, (request, routed), forward) else { return };
        let share = share.divided(new.targets.len());
        let targets: Vec<_> = new.targets.into_iter().map(|target| target.with_share(share)).collect();
        let added = targets.iter().map(StoredTarget::rewrite_bytes).sum();
        if !reserve(proxy, env, key, (targets.len(), added)) {
            return;
        }
        let context = proxy.contexts.get_mut(key);
        if let Some(recursion) = context.and_then(|context| context.recursion.as_mut()) {
            targets.iter().for_each(|target| recursion.note(target.uri()));
        }
        if let Some(user) = new.leaves_by {
            leave(proxy, key, user);
        }
        let target = targets.first().map(StoredTarget::uri).unwrap_or_default();
        env.note_forward(request, condition, target);
        lit::on_diversion(env, &proxy.contexts, key);
        env.decided(request, decided::of_forward(condition), Detail::Text(target));
        has_begun = true;
        groups::start_new(proxy, env, transactions, key, (request, routed), targets);
    });
    has_begun
}

/// Targets of a forward; `None`, and counted, if a limit is reached or a rule forbids it.
fn targets_of(
    pending: &Pending,
    env: &mut Env<'_>,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    (forwards, condition): (&Arc<Forwards>, Condition),
) -> Option<NewTargets> {
    let uri = forwards.target(condition)?.as_str().as_bytes();
    if !may_divert(env, request.message) {
        return None;
    }
    let reason = DiversionReason::Forward(condition);
    let DivertedTo { uri, leaves } = DivertedTo::new(env.config, routed.uri.scheme(), uri, reason)?;
    let payer = Payer::of_forward(env.config, &routed.uri);
    let mut at_trunks = Targets::default();
    let parsed = Uri::parse(&uri).ok()?;
    let has_route = env.config.trunking.is_on() && trunks::has_route(env, &parsed);
    let leaves = leaves || has_route;
    let user = pending.name_of(payer.aor.as_bytes());
    if leaves && !pending.may_leave(user) {
        env.counters.over_user_forwards += 1;
        return None;
    }
    if has_route {
        trunks::add_diverted(env, request, &parsed, &payer, &mut at_trunks).ok()?;
    }
    let mut targets: Vec<_> = at_trunks.list().iter().map(|target| at_trunks.stored(target)).collect();
    if targets.is_empty() {
        targets.push(StoredTarget::new(&uri, Q_MAX, Share::default()));
    }
    targets.iter_mut().for_each(|target| add_lines(env, (request, routed), reason, target));
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
