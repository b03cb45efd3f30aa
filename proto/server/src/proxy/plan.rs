//! Target set of a request (RFC 3261 §16.5), before it is forwarded.

use super::call::{Answer, Call, Next, Planned};
use super::limits::{Share, TooBroad};
use super::reach;
use super::stages::{self, Point};
use super::states::States;
use super::targets::SipsMismatch;
use crate::base::{Env, Reach, Request, Step};
use crate::dialog::gruu::{self, Gruu};
use crate::dialog::route::Routed;
use crate::location::LocationTable;
use crate::report::Report;
use crate::token::UserHash;
use crate::{Detail, Reason};
use ringway_sip::{HeaderName, Scheme};

/// Result of planning, other than targets.
enum NoTarget {
    /// The request has a response.
    Answer(Answer),
    /// Its scheme fits no contact of its user (RFC 5630 §5.3).
    Scheme(SipsMismatch),
}

/// Asks the stages of a point; true if one has decided.
fn ask(call: &mut Call<'_, '_>, planned: &mut Planned<'_>, point: Point) -> Result<bool, NoTarget> {
    match stages::before(call, point, planned) {
        Next::Targets(targets) => {
            targets.iter().for_each(|target| planned.targets.push_stored(target));
            Ok(true)
        }
        Next::Answer(answer) => Err(NoTarget::Answer(answer)),
        Next::Pass => Ok(false),
    }
}

/// Fills the target set of a request and sets its limits; false: it was refused. None: its user does not exist, or has no binding.
pub(super) fn plan(
    call: &mut Call<'_, '_>,
    table: &LocationTable,
    planned: &mut Planned<'_>,
    is_stateless: bool,
) -> bool {
    if let Err(why) = find_targets(call, table, planned) {
        refuse(call, why);
        return false;
    }
    let targets = planned.targets.list().len();
    if targets == 0 {
        return true;
    }
    let shared = share(call, planned, if is_stateless { 1 } else { targets });
    if let Err(why) = shared {
        refuse_fork(call.env, call.request, why);
        return false;
    }
    report(call.env, call.request, call.routed, planned);
    true
}

/// Fills the target set of a request; none: its user does not exist, or has no binding.
fn find_targets(
    call: &mut Call<'_, '_>,
    table: &LocationTable,
    planned: &mut Planned<'_>,
) -> Result<(), NoTarget> {
    let (request, routed) = (call.request, call.routed);
    match request.grant.reach {
        Reach::User => {
            ask(call, planned, Point::Side)?;
        }
        Reach::Side(side) | Reach::Flow(side) => {
            ask(call, planned, Point::InDialog)?;
            let flow = reach::side_flow(call.env, side, routed);
            planned.targets.push(routed.uri.as_bytes(), true, flow);
        }
        Reach::Anywhere | Reach::OurUsers if routed.next_route.is_some() || !routed.is_of_domains => {
            if !ask(call, planned, Point::Elsewhere)? {
                planned.targets.push(routed.uri.as_bytes(), true, None);
            }
        }
        Reach::Anywhere | Reach::OurUsers => {
            if call.env.config.read_target(&routed.uri, &mut planned.aor) {
                find_users_targets(call, table, planned)?;
            }
        }
    }
    Ok(())
}

/// Adds the targets of a user: its contacts, or what the stages have instead.
fn find_users_targets(
    call: &mut Call<'_, '_>,
    table: &LocationTable,
    planned: &mut Planned<'_>,
) -> Result<(), NoTarget> {
    let (request, routed) = (call.request, call.routed);
    let key = &call.env.keys.gruu;
    let is_own = request.grant.has_own_uri;
    let is_in_dialog = is_own && gruu::is_in_dialog(&routed.uri);
    let may_be_gruu = call.env.config.registrar.gruu || is_in_dialog;
    let gruu = if may_be_gruu { Gruu::of(key, &routed.uri, is_own) } else { None };
    let to = &request.message.to().uri;
    let is_in_to = to.is_sip() && (to.user(), to.host()) == (routed.uri.user(), routed.uri.host());
    planned.targets.set_user(match is_in_to {
        true => UserHash::OF_HEADER,
        false => UserHash::of(&call.env.keys.route, planned.aor.user(), planned.aor.domain()),
    });
    planned.is_one_phone = gruu.is_some();
    note_user(call, planned);
    if ask(call, planned, Point::User)? {
        return Ok(());
    }
    if let Some(Gruu::Temporary(uri)) = &gruu {
        // Another shard may be responsible for its user.
        planned.targets.push(uri, false, None);
    }
    let is_sips = routed.uri.scheme() == Scheme::Sips;
    let mut mismatch = None;
    call.env.mark(Step::Rest);
    for offer in table.offers(planned.aor.as_bytes(), call.env.cx.now, call.env.host) {
        if let Some(gruu) = &gruu {
            if !gruu.is_of(key, offer.binding) {
                continue;
            }
            call.env.counters.gruu_capitals += u64::from(gruu.has_other_capitals(offer.binding));
        }
        if let Err(why) = planned.targets.push_binding(call.env.config, offer, is_sips) {
            mismatch = Some(why);
        }
    }
    call.env.mark(Step::FindUser);
    if is_in_dialog {
        if planned.targets.list().is_empty() {
            for offer in table.offers(planned.aor.as_bytes(), call.env.cx.now, call.env.host) {
                let _ = planned.targets.push_binding(call.env.config, offer, is_sips);
            }
        }
        planned.targets.keep_only();
        planned.states = States::new();
        return Ok(());
    }
    planned.targets.sort();
    if planned.targets.list().is_empty() {
        if let Some(why) = mismatch {
            return Err(NoTarget::Scheme(why));
        }
        ask(call, planned, Point::Absent)?;
        note_user(call, planned);
    }
    Ok(())
}

/// Notes the user that a stranger's request is for, whose requests are limited.
fn note_user(call: &Call<'_, '_>, planned: &mut Planned<'_>) {
    let grant = call.request.grant;
    // Requests of a live dialog are counted for the dialog.
    if !grant.sender.is_believed() && grant.dialog.is_none() && grant.above_limits.is_none() {
        planned.strangers_user = Some(call.pending.name_of(planned.aor.as_bytes()));
    }
}

/// Sets the limits of each of `branches` targets, and of what may follow them.
fn share(call: &mut Call<'_, '_>, planned: &mut Planned<'_>, branches: usize) -> Result<(), TooBroad> {
    let share = match stages::share(call, planned, branches) {
        Some(share) => share,
        None => {
            let (config, message) = (call.env.config, call.request.message);
            let branches = match planned.targets.are_ranked() {
                true => planned.targets.keep_first(Share::breadth_for(config, message, branches)),
                false => branches,
            };
            Share::of(config, message, branches)?
        }
    };
    planned.targets.set_share(share);
    Ok(())
}

fn refuse(call: &mut Call<'_, '_>, why: NoTarget) {
    let (env, request) = (&mut *call.env, call.request);
    match why {
        NoTarget::Scheme(why) => refuse_scheme(env, request, why),
        NoTarget::Answer(answer) => self::answer(env, request, answer),
    }
}

/// Answers a request that is not forwarded.
pub(super) fn answer(env: &mut Env<'_>, request: &Request<'_, '_>, answer: Answer) {
    let Answer { status, phrase, reason, retry_after_s } = answer;
    let Some(after_s) = retry_after_s else {
        if let Some(reason) = reason {
            env.decided(request, reason, Detail::None);
        }
        return env.refuse_decided(request, status, phrase);
    };
    env.report(request, Report::AllDown { status, reason });
    env.refuse(request, status, phrase, |response| {
        response.header_number(HeaderName::RetryAfter, after_s);
    });
}

/// Refuses a request whose scheme fits no contact of its user (RFC 5630 §5.3).
fn refuse_scheme(env: &mut Env<'_>, request: &Request<'_, '_>, why: SipsMismatch) {
    env.report(request, Report::SchemeMismatch(why.warning().1));
    let host = env.config.sent_by(request.flow.listener, request.flow.remote.ip());
    let (code, text) = why.warning();
    env.refuse(request, 480, "Temporarily Unavailable", |response| {
        response.header_with(HeaderName::Warning, |out| {
            out.extend_from_slice(code);
            host.write(out);
            out.extend_from_slice(text);
        });
    });
}

fn refuse_fork(env: &mut Env<'_>, request: &Request<'_, '_>, reason: TooBroad) {
    match reason {
        TooBroad::Malformed => env.refuse_plainly(request, 400, "Bad Max-Breadth"),
        TooBroad::Breadth => env.refuse_plainly(request, 440, "Max-Breadth Exceeded"),
        TooBroad::Spirals => env.refuse_plainly(request, 483, "Too Many Spirals"),
    }
}

/// Reports the target set of a request. Routes and lookups of numbers were reported when they were found.
#[inline]
fn report(env: &Env<'_>, request: &Request<'_, '_>, routed: &Routed<'_>, planned: &Planned<'_>) {
    if env.is_tracing() {
        report_targets(env, request, routed, planned);
    }
}

#[cold]
fn report_targets(env: &Env<'_>, request: &Request<'_, '_>, routed: &Routed<'_>, planned: &Planned<'_>) {
    let (targets, states) = (&*planned.targets, &planned.states);
    let (reason, detail) = match request.grant.reach {
        Reach::Side(_) | Reach::User => (Reason::ToDialogSide, Detail::None),
        Reach::Flow(_) => (Reason::ToFlow, Detail::None),
        Reach::Anywhere | Reach::OurUsers => {
            if let Some(reason) = stages::reason_of(states) {
                let target = targets.list().first().map(|target| targets.uri(target));
                (reason, Detail::Text(target.unwrap_or_default()))
            } else if routed.next_route.is_some() || !routed.is_of_domains {
                (Reason::ToOther, Detail::Text(routed.uri.as_bytes()))
            } else {
                (Reason::ToPhones, Detail::Count(targets.list().len()))
            }
        }
    };
    let was_reported = targets.are_ranked() || stages::awaits_number(states);
    if !was_reported || reason != Reason::ToPhones {
        env.decided(request, reason, detail);
    }
}
