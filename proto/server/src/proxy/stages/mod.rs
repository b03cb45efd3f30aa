//! Stages: the features of the proxy, a file for each. The proxy asks them in the order of the tables here, and does what they decide.
//! Stages after the end of a branch are in `follow`.
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
mod follow;
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

pub(super) use crate::dialog_state::Ended;
pub(super) use call_limits::{admit, exceeds};
pub(super) use follow::{after, failed, may_add, may_go_on, number_found, on_time, over, permitted};
pub(super) use passing::{answered, as_received, offered, replaced};
pub(super) use topology::ResponseTopology;

use super::call::{Call, Forwarded, MessageStep, Next, Planned};
use super::context::{Branch, ResponseContext};
use super::forward::{Changes, Plan};
use super::limits::Share;
use super::lookups::Lookups;
use super::media::is_sdp;
use super::states::{
    AnswerStep, BranchStates, Candidate, Conversion, Diversion, KeptStates, LaterGroups, States, TrunkBranch,
    Waiting,
};
use super::targets::{StoredTarget, Target};
use crate::base::{BranchId, Env, Request, Response, TrunkTarget};
use crate::config::HeaderRule;
use crate::dialog::cseq::RepeatedInvites;
use crate::dialog_state::{end_dialog, refresh};
use crate::policy::Border;
use crate::report::reason_of as reason_of_forward;
use crate::tables::CountedCall;
use crate::{Action, CallStep, Reason};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::{Context, Flow, Instant, NumberTarget};
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

/// The function of a stage that a build has with the feature `operator` only.
const fn if_operator(stage: Planning) -> Planning {
    fn pass(_: &mut Call<'_, '_>, _: &mut Planned<'_>) -> Next {
        Next::Pass
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

// Sending a branch.

/// States of a new branch for this target.
pub(super) fn begin_branch(env: &Env<'_>, target: &Target) -> BranchStates {
    BranchStates {
        flows: target.flows.clone(),
        trunk: target.configured_hop().map(|trunk| TrunkBranch::of(&env.config.trunking, trunk)),
        counted: None,
        conversion: Conversion::None,
        media: None,
        hidden: None,
    }
}

/// True for a branch that a stage may send once more.
pub(super) fn may_repeat(env: &Env<'_>, request: &Request<'_, '_>, target: &Target) -> bool {
    (env.features.trunks()
        && trunks::may_be_challenged(env.config, request.grant.reach, target.configured_hop()))
        || (env.features.conversion() && is_sdp(request.message))
}

/// Refusal of a next hop.
pub(super) fn refusal(env: &mut Env<'_>, plan: &Plan<'_, '_, '_>) -> Option<(u16, &'static str)> {
    if env.features.hidden_topology()
        && let Some(refusal) = topology::refusal(env, plan)
    {
        return Some(refusal);
    }
    if env.features.trunks() { trunks::refusal(env, plan) } else { None }
}

/// True: the branch waits for a stage, or has failed.
pub(super) fn holds(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    lookups: &mut Lookups,
    id: BranchId,
    plan: &Plan<'_, '_, '_>,
) -> bool {
    env.features.relays() && relays::ask_offer(env, context, lookups, id, plan)
}

/// Changes of stages to the request of a branch; `None`: there are none.
pub(super) fn change(
    env: &mut Env<'_>,
    memory: &mut Memory,
    plan: &Plan<'_, '_, '_>,
    branch: Option<&Branch>,
) -> Option<Changes> {
    let relayed = branch.filter(|branch| has_media(branch));
    let is_at_trunk =
        env.features.trunks() || (cfg!(feature = "operator") && plan.configured_hop().is_some());
    if relayed.is_none() && !is_at_trunk {
        return None;
    }
    let mut changes = Changes::default();
    if let Some(branch) = relayed {
        relays::change(&env.keys.route, plan.request().message, branch, &mut changes);
    }
    if is_at_trunk {
        let trunk = branch.and_then(|branch| branch.states.trunk);
        trunks::change(env, &mut memory.repeated, plan, trunk, &mut changes);
        identity::change(env, plan, &mut changes);
        if env.features.stir() {
            stir::change(env, plan, &mut changes);
        }
    }
    change_at_border(env, plan, &mut changes);
    Some(changes)
}

/// Changes by which a trunk gets other header fields than the sides inside.
fn change_at_border(env: &Env<'_>, plan: &Plan<'_, '_, '_>, changes: &mut Changes) {
    if env.features.header_rules() {
        changes.border = headers::of_request(env, plan);
    }
    if env.features.hidden_topology() {
        topology::change(env, plan, changes);
    }
}

/// The same for a request without a branch.
pub(super) fn change_stateless(env: &Env<'_>, memory: &Memory, plan: &Plan<'_, '_, '_>) -> Changes {
    let mut changes = Changes::default();
    if env.features.trunks() {
        trunks::change_any(env, plan, 0, &memory.repeated, &mut changes);
        // Without state no response would get its From back.
        if env.config.stateful {
            identity::change(env, plan, &mut changes);
        }
    }
    change_at_border(env, plan, &mut changes);
    changes
}

// Responses of a branch.

/// True if a stage may change the responses of a branch before anything else reads them.
pub(super) const fn may_change_response(env: &Env<'_>, branch: &Branch) -> bool {
    env.features.header_rules() || (cfg!(feature = "operator") && branch.states.hidden.is_some())
}

/// Topology that the responses of a branch hide, or show again.
pub(super) fn topology_of<'b, 'e: 'b>(
    env: &Env<'e>,
    branch: Option<&'b Branch>,
) -> Option<ResponseTopology<'b>> {
    let hidden = branch.and_then(|branch| branch.states.hidden.as_deref());
    let hidden = hidden.filter(|_| cfg!(feature = "operator"))?;
    Some(ResponseTopology::new(env, hidden))
}

/// Changes of a response to this source of its request, after all others.
pub(super) fn border_of_response(env: &Env<'_>, source: &Flow) -> Border {
    if env.features.header_rules() { headers::of_response(env, source) } else { Border::default() }
}

/// Next step of a response: a stage may hold it, or replace it.
pub(super) fn on_message(
    env: &mut Env<'_>,
    context: &mut ResponseContext,
    lookups: &mut Lookups,
    id: BranchId,
    response: &Response<'_, '_>,
) -> MessageStep {
    if !env.features.relays() {
        return MessageStep::Pass;
    }
    match relays::answer_step(env, context, lookups, id, response) {
        AnswerStep::Forward => MessageStep::Pass,
        AnswerStep::Replace(sdp) => {
            MessageStep::Replace(relays::response_with_sdp(env, context, id, response, &sdp))
        }
        AnswerStep::Drop | AnswerStep::Ask => MessageStep::Wait,
    }
}

/// Handles the 2xx of a branch.
pub(super) fn on_success(env: &Env<'_>, context: &mut ResponseContext, id: BranchId, response: &Message<'_>) {
    let branch = context.branches.get_mut(id.parts().1);
    let of_branch = branch.and_then(|branch| branch.states.counted.take());
    let of_caller = if context.states.is_empty() { None } else { context.states.take::<Box<CountedCall>>() };
    for counted in [of_branch, of_caller].into_iter().flatten() {
        call_limits::on_success(env, &counted, response);
    }
}

/// Handles any response of a branch.
pub(super) fn on_response(env: &Env<'_>, context: &ResponseContext, id: BranchId, status: u16) {
    if env.features.trunks()
        && let Some(branch) = context.branches.get(id.parts().1)
    {
        trunks::on_response(env, branch, status);
    }
}

/// Handles a provisional response of a branch.
pub(super) fn on_provisional(env: &Env<'_>, forwarded: &mut Forwarded<'_>, id: BranchId, status: u16) {
    if env.features.trunks() {
        trunks::on_provisional(forwarded, id, status);
    }
}

/// Handles a step of a call.
pub(super) fn on_step(env: &mut Env<'_>, context: &mut ResponseContext, step: CallStep) {
    if context.states.is_empty() {
        return;
    }
    dialog_state::on_step(env, context, step);
    // One that the caller cancelled may still be answered.
    if matches!(step, CallStep::Failed(_) | CallStep::Over) {
        end_counted(env, context);
    }
}

/// Ends the call of a context as its caller counts it, unless it was answered.
fn end_counted(env: &Env<'_>, context: &mut ResponseContext) {
    if let Some(counted) = context.states.take::<Box<CountedCall>>() {
        call_limits::end(env, &counted);
    }
}

/// Handles the answer of a call.
pub(super) fn on_answer(env: &mut Env<'_>, context: &ResponseContext, id: BranchId, response: &Message<'_>) {
    if !context.states.is_empty() {
        dialog_state::on_answer(env, context, id, response);
    }
}

/// Handles the 2xx of a request that refreshes a session.
pub(super) fn on_refresh(env: &mut Env<'_>, response: &Message<'_>) {
    if env.features.presence() {
        refresh(env, response);
    }
    if cfg!(feature = "operator") && env.tables.has_counted_calls() {
        call_limits::on_refresh(env, response);
    }
}

/// Handles a BYE that ends a call.
pub(super) fn on_bye(env: &mut Env<'_>, bye: &[u8], ended: Ended) {
    if env.features.presence() {
        end_dialog(env, bye, ended);
    }
    if cfg!(feature = "operator") && env.tables.has_counted_calls() {
        call_limits::on_bye(env, bye, ended);
    }
}

/// True if a relay has, or is to have, the media of a branch.
const fn has_media(branch: &Branch) -> bool {
    cfg!(feature = "operator") && branch.states.media.is_some()
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
pub(super) fn held_bytes(env: &Env<'_>, branches: &[Branch]) -> usize {
    let of_media = if branches.iter().any(has_media) { relays::held_bytes(branches) } else { 0 };
    of_media + if env.features.hidden_topology() { topology::held_bytes(branches) } else { 0 }
}

/// Handles a change of the trunks.
pub(super) fn forget_trunks(forwarded: &mut Forwarded<'_>) {
    trunks::forget(forwarded);
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
    use super::follow::{AFTER, FAILED, OVER};
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
