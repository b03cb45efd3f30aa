//! Stages: the features of the proxy, a file for each. The proxy asks them in the order of the tables here, and does what they decide.
//!
//! A new feature has its file here, a row in each table of an entry that it uses, a [`State`](super::states::State) if it keeps something
//! with a request, and its values in the configuration.

mod conversion;
mod destinations;
mod diversion;
mod flows;
mod groups;
pub(super) mod lamps;
mod messages;
mod nodes;
mod numbers;
mod recursion;
pub(super) mod relays;
mod sides;
pub(super) mod trunks;

pub(super) use diversion::reason_of;

use super::breadth::Share;
use super::call::{BranchEnd, Call, Forwarded, Next, Planned};
use super::states::{Candidate, Diversion, LaterGroups, States, TimeLimit, Waiting};
use super::targets::{Authority, StoredTarget};
use crate::Config;
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::LocatedServers;

/// Point of planning at which stages may have the targets of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// It is for a side of a dialog whose flow is gone.
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
    run: fn(&mut Call<'_, '_>, &mut Planned<'_>) -> Next,
}

/// Stages that may have targets: for each point, the first one that has any decides.
const BEFORE: [Before; 8] = [
    Before { point: Point::Side, run: sides::before },
    Before { point: Point::InDialog, run: trunks::before_in_dialog },
    // The nodes of a domain know its users: a route of the same name must not come before them.
    Before { point: Point::Elsewhere, run: nodes::before },
    Before { point: Point::Elsewhere, run: trunks::before_elsewhere },
    Before { point: Point::User, run: diversion::before },
    // What a user wants is before what a number leads to.
    Before { point: Point::Absent, run: diversion::before_absent },
    // A carrier is paid for: the records of a number are free.
    Before { point: Point::Absent, run: numbers::before },
    Before { point: Point::Absent, run: trunks::before_absent },
];

/// Function of a stage that decides after the end of a branch.
type After = fn(&mut Call<'_, '_>, &mut Forwarded<'_>, &BranchEnd<'_>) -> Next;

/// Stages that may go on with a branch that has ended, first to last.
const AFTER: [After; 4] = [
    // The same phone gets another offer: a forward must not come before it.
    conversion::after,
    // The same phone over another flow (RFC 5626 §7).
    flows::after,
    // The phone has another binding now.
    sides::after,
    // What a trunk refuses is not called by another one.
    trunks::after,
];

/// Stages that add targets to those of a branch that has failed.
const FAILED: [After; 1] = [
    // A 3xx answers for all flows of its target (RFC 3261 §16.7 step 4).
    recursion::after,
];

/// Function of a stage that decides when every branch is over.
type Over = fn(&mut Call<'_, '_>, &mut Forwarded<'_>) -> Next;

/// Stages that may go on with a request whose branches are over, first to last.
const OVER: [Over; 3] = [
    // Targets of the request itself.
    groups::over,
    // Of the user that was called, when none of its phones is left.
    diversion::over,
    // Only when nobody else can answer.
    messages::over,
];

/// Targets or answer of the first stage of a point that has any.
pub(super) fn before(call: &mut Call<'_, '_>, point: Point, planned: &mut Planned<'_>) -> Next {
    for stage in BEFORE.iter().filter(|stage| stage.point == point) {
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
    messages::keep(planned, candidate);
}

/// Begins the stages of a new context; returns the number of targets that are called at once.
pub(super) fn begin(
    call: &mut Call<'_, '_>,
    planned: &mut Planned<'_>,
    forwarded: &mut Forwarded<'_>,
) -> usize {
    let branches = planned.targets.list().len();
    lamps::begin(call, planned, forwarded);
    recursion::begin(call, planned, forwarded);
    let mut states = core::mem::take(&mut planned.states);
    forwarded.context.states.append(&mut states);
    if branches > 1 {
        groups::begin(call, planned, forwarded);
    }
    diversion::begin_time(call, forwarded);
    messages::begin(call, forwarded);
    let later = forwarded.context.states.get::<Box<LaterGroups>>();
    branches - later.map_or(0, |later| later.len())
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
    groups::arm(call, forwarded);
}

/// Decision of the first stage that goes on with a branch that has ended.
pub(super) fn after(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>, end: &BranchEnd<'_>) -> Next {
    first(AFTER.iter().map(|after| after(call, forwarded, end)))
}

/// The same for a branch that has failed.
pub(super) fn failed(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>, end: &BranchEnd<'_>) -> Next {
    first(FAILED.iter().map(|failed| failed(call, forwarded, end)))
}

/// The same for a request whose branches are over.
pub(super) fn over(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>) -> Next {
    first(OVER.iter().map(|over| over(call, forwarded)))
}

/// Decision at the end of a time.
pub(super) fn on_time(call: &mut Call<'_, '_>, forwarded: &mut Forwarded<'_>, due: TimeLimit) -> Next {
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
) -> Next {
    numbers::resumed(call, forwarded, share, uris)
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
    states.get::<Box<LaterGroups>>().is_some()
        || states.get::<Box<Diversion>>().is_some()
        || states.get::<Box<Waiting>>().is_some()
}

fn first(mut decisions: impl Iterator<Item = Next>) -> Next {
    decisions.find(|next| !matches!(next, Next::Pass)).unwrap_or(Next::Pass)
}
