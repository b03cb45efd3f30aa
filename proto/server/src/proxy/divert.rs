//! Forwards of the called user: instead of its contacts, or after them.

use super::Proxy;
use super::breadth::{Share, TooBroad};
use super::context::{Best, ResponseContext, Transactions};
use super::forward::Forwarding;
use super::groups;
use super::pending::{Pending, branch_cost_of};
use super::relays;
use super::retarget::Diversion;
use super::rewrite::Rewrite;
use super::serial::TimeLimit;
use super::targets::{StoredTarget, Targets};
use crate::diversion::{Diverted, DivertedTo, diversions_of};
use crate::env::Env;
use crate::request::Request;
use crate::route::Routed;
use crate::{Aor, Condition, DiversionReason, Forwards, Services};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;
use ringway_sansio::TimerKey;
use ringway_sip::{HeaderName, Message, Method};
use ringway_transaction::SlabKey;

/// New target of a call.
pub(super) struct NewTarget {
    pub(super) target: StoredTarget,
    /// True if it is outside the server's domains.
    pub(super) leaves: bool,
}

/// True for a request that forwards apply to. Without state no server could try one target after another.
pub(super) fn is_divertible<S>(env: &Env<'_, S>, request: &Request<'_, '_>) -> bool {
    env.config.stateful && request.method == Method::Invite && request.message.to().tag().is_none()
}

/// False, and counted, for a call that was diverted too often.
pub(super) fn may_divert<S>(env: &mut Env<'_, S>, message: &Message<'_>) -> bool {
    let may = diversions_of(message) < DIVERSIONS_MAX;
    env.counters.forward_loops += u64::from(!may);
    may
}

/// Makes the target of a forward the only target; none, if a limit is reached.
pub(super) fn begin(
    pending: &Pending,
    env: &mut Env<'_, impl Services>,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    (forwards, condition): (&Arc<Forwards>, Condition),
    targets: &mut Targets,
) {
    if let Some((new, leaves_by)) =
        target_of(pending, env, (request, routed), (forwards, condition), Share::default())
    {
        targets.push_diverted(&new.target, condition, leaves_by);
    }
}

/// Sets the limits of each of `branches` targets, and of the branch of a forward that may follow them.
pub(super) fn share(
    env: &mut Env<'_, impl Services>,
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
    targets.set_share(Share::of(env.config, request.message, branches)?);
    Ok(())
}

/// Keeps the forwards of the called user in a new context, and notes the user by whose permission it leaves our domains.
pub(super) fn hold(
    proxy: &mut Proxy,
    env: &Env<'_, impl Services>,
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
    env: &mut Env<'_, impl Services>,
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
    env: &mut Env<'_, impl Services>,
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
    // The new branch comes first, so that the context does not end when the others do.
    if !divert(proxy, env, transactions, key, Condition::NoAnswer) {
        return;
    }
    if let Some(context) = proxy.contexts.get_mut(key)
        && let Some(later) = context.later.take()
    {
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
    env: &mut Env<'_, impl Services>,
    key: SlabKey,
    message: &Message<'_>,
    (branches, added): (usize, usize),
) -> bool {
    let mut bytes = branches * branch_cost_of(message) + added;
    if env.config.media.is_on() {
        bytes += relays::cost_of(message, branches);
    }
    proxy.contexts.get_mut(key).is_some_and(|context| Pending::reserve_more(env, context, bytes))
}

/// Target of a call that is diverted to `uri`; `None`: a `sips:` request cannot go there.
pub(super) fn new_target<S>(
    env: &Env<'_, S>,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    (uri, q): (&[u8], u16),
    reason: DiversionReason,
    share: Share,
) -> Option<NewTarget> {
    let DivertedTo { uri, leaves } = DivertedTo::new(env.config, routed.uri.scheme(), uri, reason)?;
    let target = StoredTarget::new(&uri, q, share);
    let diverted = Diverted {
        message: request.message,
        from: routed.uri,
        to: target.uri(),
        reason,
        is_believed: request.grant.sender.is_believed(),
        leaves,
    };
    let lines = diverted.lines();
    let mut rewrite = Rewrite::default();
    if !lines.history.is_empty() {
        rewrite.push_line(HeaderName::HistoryInfo, &lines.history);
    }
    if !lines.diversion.is_empty() {
        rewrite.push_first_line(HeaderName::Diversion, &lines.diversion);
    }
    Some(NewTarget { target: target.with_rewrite(rewrite), leaves })
}

/// Calls the target of a forward of the called user. False: a limit is reached. Only one forward applies to a request.
fn divert(
    proxy: &mut Proxy,
    env: &mut Env<'_, impl Services>,
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
        let Some((new, leaves_by)) = target_of(&proxy.pending, env, (request, routed), forward, share) else {
            return;
        };
        if !reserve(proxy, env, key, message, (1, new.target.rewrite_bytes())) {
            return;
        }
        if let Some(recursion) = proxy.contexts.get_mut(key).and_then(|context| context.recursion.as_mut()) {
            recursion.note(new.target.uri());
        }
        if let Some(user) = leaves_by {
            leave(proxy, key, user);
        }
        env.note_forward(request, condition);
        has_begun = true;
        let targets = Targets::of_one(&new.target);
        for target in targets.list() {
            let forwarding = Forwarding { request, routed, targets: &targets };
            proxy.start_branch(env, transactions, key, forwarding, target);
        }
    });
    has_begun
}

/// Target of a forward, and the user by whose permission the call leaves our domains; `None`, and counted, if a limit is
/// reached.
fn target_of(
    pending: &Pending,
    env: &mut Env<'_, impl Services>,
    (request, routed): (&Request<'_, '_>, &Routed<'_>),
    (forwards, condition): (&Arc<Forwards>, Condition),
    share: Share,
) -> Option<(NewTarget, Option<u64>)> {
    let uri = forwards.target(condition)?.as_str().as_bytes();
    if !may_divert(env, request.message) {
        return None;
    }
    let reason = DiversionReason::Forward(condition);
    let new = new_target(env, (request, routed), (uri, Q_MAX), reason, share)?;
    if !new.leaves {
        return Some((new, None));
    }
    let mut aor = Aor::default();
    env.config.read_aor(&routed.uri, &mut aor);
    let user = pending.name_of(aor.as_bytes());
    if !pending.may_leave(user) {
        env.counters.over_user_forwards += 1;
        return None;
    }
    Some((new, Some(user)))
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
