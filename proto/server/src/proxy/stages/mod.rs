//! Stages: the features of the proxy, a file for each. The proxy asks them in the order of the tables here, and does what they decide.
//! The functions below the tables plan a request and end it; what stages add to a branch, or see of a response, is in `passing`.
//!
//! A new routing feature has its file here, a row in the tables that it needs, a [`State`](super::states::State) if it keeps something
//! with a request, and its values in the configuration.

mod call_limits;
mod conversion;
mod destinations;
mod dialog_state;
mod diversion;
mod emergency;
mod flows;
mod groups;
mod headers;
mod identity;
mod messages;
mod nodes;
mod numbers;
mod passing;
mod recursion;
mod relays;
mod sides;
mod stir;
mod topology;
mod trunk_uris;
mod trunks;

pub(super) use super::context::{keep_counted, on_datagram};
pub(super) use crate::dialog_state::Ended;
pub(super) use call_limits::{admit, exceeds};
pub(super) use passing::{
    answered, as_received, begin_branch, border_of_response, change, change_stateless, holds,
    may_change_response, may_repeat, offered, on_answer, on_bye, on_message, on_provisional, on_refresh,
    on_response, on_step, on_success, refusal, replaced,
};

use super::call::{BranchEnd, BranchNext, Call, CallNext, Forwarded, Next, Planned, Redirected};
use super::context::{Branch, ResponseContext};
use super::limits::Share;
use super::lookups::Lookups;
use super::states::{Candidate, Diversion, KeptStates, LaterGroups, States, TimeLimit, Waiting};
use super::targets::{Authority, StoredTarget};
use crate::base::{BranchId, Env, Reach, TrunkTarget};
use crate::config::HeaderRule;
use crate::dialog::cseq::RepeatedInvites;
use crate::report::reason_of as reason_of_forward;
use crate::tables::CountedCall;
use crate::{Action, Config, Reason};
use alloc::boxed::Box;
use alloc::vec::Vec;
use passing::{end_counted, has_media};
use ringway_sansio::{Context, Instant, LocatedServers, NumberTarget};
use ringway_sip::Message;

/// Memory of the stages of a shard.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// INVITEs in dialogs that trunks challenged.
    repeated: RepeatedInvites,
}

/// Point of planning at which stages may have the targets of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// It is for the user of a side of a dialog: the flow of that is gone, or its Contact is a GRUU.
    Side,
    /// It is for a side of a dialog that is reached.
    InDialog,
    /// It is for another domain, or has a next Route.
    Elsewhere,
    /// It is for a user of ours.
    User,
    /// It is for an address-of-record without a contact.
    Absent,
}

/// Stage that may have the targets of a request, or its answer.
struct Before {
    point: Point,
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers and the test of the order"))]
    name: &'static str,
    /// False: it has nothing to say about the request.
    applies: fn(&Call<'_, '_>) -> bool,
    run: Planning,
}

/// Function of a stage that may have the targets of a request.
type Planning = fn(&mut Call<'_, '_>, &mut Planned<'_>) -> Next;

/// Function of a stage that may go on with a branch.
type GoingOn = fn(&mut Call<'_, '_>, &mut Forwarded<'_>, &BranchEnd<'_>) -> BranchNext;

/// The function of a stage that a build has with the feature `operator` only.
const fn if_operator(stage: Planning) -> Planning {
    fn pass(_: &mut Call<'_, '_>, _: &mut Planned<'_>) -> Next {
        Next::Pass
    }
    if cfg!(feature = "operator") { stage } else { pass }
}

/// The same for one that goes on with a branch.
const fn goes_on_if_operator(stage: GoingOn) -> GoingOn {
    fn pass(_: &mut Call<'_, '_>, _: &mut Forwarded<'_>, _: &BranchEnd<'_>) -> BranchNext {
        BranchNext::Pass
    }
    if cfg!(feature = "operator") { stage } else { pass }
}

/// Stages that may have targets: for each point, the first one that decides; no targets are a decision too.
const BEFORE: [Before; 10] = [
    Before { point: Point::Side, applies: |_| true, name: "sides", run: sides::before },
    Before {
        point: Point::InDialog,
        applies: is_at_trunk,
        name: "trunks",
        run: if_operator(trunks::before_in_dialog),
    },
    // An emergency call goes nowhere else: to no user of that name, and to no forward.
    Before {
        point: Point::Elsewhere,
        applies: |call| call.request.grant.above_limits.is_some(),
        name: "emergency",
        run: if_operator(emergency::before),
    },
    // The nodes of a domain know its users: a route of the same name must not come before them.
    Before {
        point: Point::Elsewhere,
        applies: |call| call.env.features.trunks(),
        name: "nodes",
        run: if_operator(nodes::before),
    },
    Before {
        point: Point::Elsewhere,
        applies: |call| call.env.features.routes(),
        name: "trunks",
        run: if_operator(trunks::before_elsewhere),
    },
    Before {
        point: Point::User,
        applies: |call| call.request.grant.above_limits.is_some(),
        name: "emergency",
        run: if_operator(emergency::before),
    },
    Before { point: Point::User, applies: has_forwards, name: "diversion", run: diversion::before },
    // A user's forward comes before the servers of a number.
    Before { point: Point::Absent, applies: has_forwards, name: "diversion", run: diversion::before_absent },
    // A carrier is paid for: the records of a number are free.
    Before {
        point: Point::Absent,
        applies: |call| call.env.features.routes(),
        name: "numbers",
        run: if_operator(numbers::before),
    },
    Before {
        point: Point::Absent,
        applies: |call| call.env.features.routes(),
        name: "trunks",
        run: if_operator(trunks::before_absent),
    },
];

/// The mark of the dialog says it, whatever trunks there are now.
fn is_at_trunk(call: &Call<'_, '_>) -> bool {
    cfg!(feature = "operator") && call.request.grant.trunk != TrunkTarget::None
}

fn has_forwards(call: &Call<'_, '_>) -> bool {
    !call.env.forwards.is_empty()
}

/// Stage that decides after the end of a branch, with its name.
type After<N> = (&'static str, fn(&mut Call<'_, '_>, &mut Forwarded<'_>, &BranchEnd<'_>) -> N);

/// Stages that may go on with a branch that has ended, first to last.
const AFTER: [After<BranchNext>; 4] = [
    // The same phone gets another offer: a forward must not come before it.
    ("conversion", goes_on_if_operator(conversion::after)),
    // The same phone over another flow (RFC 5626 §7).
    ("flows", flows::after),
    // The phone has another binding now.
    ("sides", sides::after),
    // A call that a trunk refused goes to no other one.
    ("trunks", goes_on_if_operator(trunks::after)),
];

/// Stages that add targets to those of a branch that has failed.
const FAILED: [After<Option<Redirected>>; 1] = [
    // A 3xx answers for all flows of its target (RFC 3261 §16.7 step 4).
    ("recursion", recursion::failed),
];

/// Stage that decides when every branch is over, with its name.
type Over = (&'static str, fn(&mut Call<'_, '_>, &mut Forwarded<'_>) -> CallNext);

/// Stages that may go on with a request whose branches are over, first to last.
const OVER: [Over; 3] = [
    // Targets of the request itself.
    ("groups", groups::over),
    // Of the user that was called, when none of its phones is left.
    ("diversion", diversion::over),
    // Only when nobody else can answer.
    ("messages", messages::over),
];

// Planning.

/// Targets or answer of the first stage of a point that has any.
pub(super) fn before(call: &mut Call<'_, '_>, point: Point, planned: &mut Planned<'_>) -> Next {
    for stage in BEFORE.iter().filter(|stage| stage.point == point) {
        if !(stage.applies)(call) {
            continue;
        }
        match (stage.run)(call, planned) {
            Next::Pass => {}
            next => return next,
        }
    }
    Next::Pass
}

/// Limits of each target, if something may follow them that needs its part.
pub(super) fn share(call: &mut Call<'_, '_>, planned: &mut Planned<'_>, branches: usize) -> Option<Share> {
    if planned.states.is_empty() { None } else { diversion::share(call, planned, branches) }
}

/// Keeps the users of a message that may be kept.
pub(super) fn keep_candidate(planned: &mut Planned<'_>, candidate: Option<Candidate>) {
    if candidate.is_some() {
        messages::keep(planned, candidate);
    }
}

/// Bytes that stages may add to each branch of a request.
pub(super) fn bytes_of_branch(env: &Env<'_>, message: &Message<'_>) -> usize {
    let of_media = if env.features.relays() { relays::cost_of(message) } else { 0 };
    let of_rules = if env.features.header_rules() { HeaderRule::ADDED_BYTES_MAX } else { 0 };
    let of_vias = if env.features.hidden_topology() { topology::cost_of(message) } else { 0 };
    of_media + of_rules + of_vias + if env.features.trunks() { identity::cost_of(message) } else { 0 }
}

/// Ends a counted call of a request that is not forwarded.
pub(super) fn abandon(env: &Env<'_>, counted: Option<Box<CountedCall>>) {
    if let Some(counted) = counted {
        call_limits::end(env, &counted);
    }
}

/// Begins the stages of a new context; returns the number of targets that are called at once.
pub(super) fn begin(
    call: &mut Call<'_, '_>,
    planned: &mut Planned<'_>,
    forwarded: &mut Forwarded<'_>,
) -> usize {
    let branches = planned.targets.list().len();
    if call.env.features.presence() {
        dialog_state::begin(call, planned, forwarded);
    }
    if call.env.features.recursion() {
        recursion::begin(call, planned, forwarded);
    }
    if branches > 1 {
        groups::begin(call, planned, forwarded);
    }
    if !planned.states.is_empty() {
        forwarded.context.states.append(&mut planned.states);
        diversion::begin_context(call, planned, forwarded);
        messages::begin(call, forwarded);
    }
    if forwarded.context.states.is_empty() {
        return branches;
    }
    let later = forwarded.context.states.kept::<Box<LaterGroups>>();
    branches - later.map_or(0, |later| later.len())
}

/// Reason to report for the targets of a request that a stage chose; `None`: they are its own.
pub(super) fn reason_of(states: &States) -> Option<Reason> {
    states.kept().copied().map(reason_of_forward)
}

/// Takes the number that the only target of a new context waits for.
pub(super) fn awaited_number(states: &mut States) -> Option<Box<NumberTarget>> {
    states.take()
}

/// True if a number is looked up before a request has targets.
pub(super) fn awaits_number(states: &States) -> bool {
    states.kept::<Box<NumberTarget>>().is_some()
}

/// Takes the targets that are called at once out of new ones.
pub(super) fn take_first(
    call: &Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    targets: Vec<StoredTarget>,
) -> Vec<StoredTarget> {
    groups::take_first(call, forwarded, targets)
}

/// Handles the start of branches.
pub(super) fn started(call: &Call<'_, '_>, forwarded: &mut Forwarded<'_>) {
    if !forwarded.context.states.is_empty() {
        groups::arm(call, forwarded);
    }
}

// Ends.

/// Handles the pause that the next hop of a branch asks for.
pub(super) fn on_pause(env: &Env<'_>, branch: &Branch, until: Instant) {
    if env.features.trunks() {
        trunks::on_pause(env, branch, until);
    }
}

/// Handles the silence of the next hop of a branch.
pub(super) fn on_silence(env: &Env<'_>, branch: &Branch) {
    if env.features.trunks() {
        trunks::on_silence(env, branch);
    }
}

/// True for a request whose silence says nothing of its next hop.
pub(super) fn waits_for_phone(context: &ResponseContext) -> bool {
    trunks::waits_for_phone(context)
}

/// Handles the final status of a branch.
pub(super) fn close_branch(env: &mut Env<'_>, context: &mut ResponseContext, id: BranchId, status: u16) {
    let branch = context.branches.get_mut(id.parts().1);
    if let Some(counted) = branch.and_then(|branch| branch.states.counted.take()) {
        call_limits::end(env, &counted);
    }
    if context.branches.get(id.parts().1).is_some_and(has_media) {
        relays::end(&mut env.cx, context, id, status);
    }
}

/// Handles the CANCEL of a branch that was not sent yet.
pub(super) fn cancel_branch(cx: &mut Context<'_, Action>, branch: &mut Branch) {
    if has_media(branch) {
        relays::cancel(cx, branch);
    }
}

/// Handles the end of a context.
pub(super) fn end(env: &mut Env<'_>, lookups: &mut Lookups, context: &mut ResponseContext) {
    if !context.states.is_empty() {
        dialog_state::on_end(env, context);
        end_counted(env, context);
    }
    let counted = context.branches.iter_mut().filter_map(|branch| branch.states.counted.take());
    counted.for_each(|counted| call_limits::end(env, &counted));
    for branch in context.branches.iter_mut().filter(|branch| has_media(branch)) {
        relays::give_up(&mut env.cx, lookups, branch);
    }
}

/// Bytes that stages hold for an answered request.
pub(super) fn held_bytes(branches: &[Branch]) -> usize {
    match branches.iter().any(has_media) {
        true => relays::held_bytes(branches),
        false => 0,
    }
}

/// Handles a change of the trunks.
pub(super) fn forget_trunks(forwarded: &mut Forwarded<'_>) {
    trunks::forget(forwarded);
}

/// True if a stage may go on with a branch that has ended.
pub(super) fn may_go_on(env: &Env<'_>, context: &ResponseContext, id: BranchId) -> bool {
    let branch = context.branches.get(id.parts().1);
    let Some(branch) = branch else { return false };
    // A trunk that a reload took away must still not challenge the caller.
    let is_configured = branch.target.as_ref().is_some_and(|target| target.configured_hop().is_some());
    let is_in_dialog = matches!(context.grant.reach, Reach::Side(_));
    branch.states.flows.is_some() || is_configured || is_in_dialog || env.features.conversion()
}

/// True if a stage may add targets to those of a branch that has failed.
pub(super) fn may_add(context: &ResponseContext) -> bool {
    !context.states.is_empty()
}

/// Decision of the first stage that goes on with a branch that has ended.
pub(super) fn after(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    end: &BranchEnd<'_>,
) -> BranchNext {
    let mut decisions = AFTER.iter().map(|(_, after)| after(call, forwarded, end));
    decisions.find(|next| !matches!(next, BranchNext::Pass)).unwrap_or_default()
}

/// Targets that the first stage adds to those of a branch that has failed.
pub(super) fn failed(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    end: &BranchEnd<'_>,
) -> Option<Redirected> {
    FAILED.iter().find_map(|(_, failed)| failed(call, forwarded, end))
}

/// Decision of the first stage that goes on with a request whose branches are over.
pub(super) fn over(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>) -> CallNext {
    let mut decisions = OVER.iter().map(|(_, over)| over(call, forwarded));
    decisions.find(|next| !matches!(next, CallNext::Pass)).unwrap_or_default()
}

/// Decision at the end of a time.
pub(super) fn on_time(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>, due: TimeLimit) -> CallNext {
    match due {
        TimeLimit::Group(_) => groups::on_time(call, forwarded),
        TimeLimit::Answer(_) => diversion::on_time(call, forwarded),
        TimeLimit::Message(_) => messages::on_time(call, forwarded),
    }
}

/// Decision after the lookup of a number, whose branch had these limits.
pub(super) fn number_found(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    share: Share,
    uris: &[Box<str>],
) -> CallNext {
    match cfg!(feature = "operator") {
        true => numbers::resumed(call, forwarded, share, uris),
        false => CallNext::Pass,
    }
}

/// The servers that a target's host may have.
pub(super) fn permitted(config: &Config, authority: Authority, servers: LocatedServers) -> LocatedServers {
    match authority {
        Authority::Number => numbers::permitted(config, &servers),
        Authority::Redirected { by } => recursion::permitted(config, &servers, by),
        Authority::Caller | Authority::Forward | Authority::CalledUser => servers,
    }
}

/// True if a stage may go on when every branch is over.
pub(super) fn may_follow(states: &States) -> bool {
    !states.is_empty() && has_follower(states)
}

fn has_follower(states: &States) -> bool {
    states.kept::<Box<LaterGroups>>().is_some()
        || states.kept::<Box<Diversion>>().is_some()
        || states.kept::<Box<Waiting>>().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    /// Row of the decision for one entry.
    fn row(entry: &str, names: impl Iterator<Item = &'static str>) -> String {
        format!("| {entry} | {} |", names.collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn the_order_is_that_of_the_decision() {
        let decision = include_str!("../../../../../docs/decisions/0055-rooms-of-the-server.md");
        let before = |point| BEFORE.iter().filter(move |stage| stage.point == point).map(|stage| stage.name);
        let rows = [
            row("before, to the user of a side", before(Point::Side)),
            row("before, in a dialog", before(Point::InDialog)),
            row("before, elsewhere", before(Point::Elsewhere)),
            row("before, to a user", before(Point::User)),
            row("before, without a contact", before(Point::Absent)),
            row("after a branch", AFTER.iter().map(|(name, _)| *name)),
            row("after a branch that failed", FAILED.iter().map(|(name, _)| *name)),
            row("when all are over", OVER.iter().map(|(name, _)| *name)),
        ];
        for row in rows {
            assert!(decision.contains(&row), "the decision has no row {row:?}");
        }
    }
}
