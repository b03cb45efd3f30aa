//! Targets of numbers and domains that have a route, and the branches to trunks.

use crate::base::{BranchId, Env, Reach, Request, Sender};
use crate::config::{RouteTo, TrunkOrder, in_order};
use crate::dialog::cseq::{RepeatedInvites, TrunkNumbers, at_trunk, changed_rack, restored_event};
use crate::dialog::{contact_of, owner_of_sender};
use crate::policy::{Permitted, is_method_of_call};
use crate::proxy::call::{BranchEnd, BranchNext, Call, Forwarded, Next, Planned};
use crate::proxy::context::{Branch, BranchState, ResponseContext};
use crate::proxy::forward::{Changes, Foreign, Plan};
use crate::proxy::rewrite::Rewrite;
use crate::proxy::stages::destinations::{self, Payer, RouteRefusal};
use crate::proxy::stages::trunk_uris::{push_routes, uri_at};
use crate::proxy::stages::{call_limits, emergency, identity, relays, stir};
use crate::proxy::states::{GroupTimer, KeptStates, LaterGroups, TrunkBranch};
use crate::proxy::targets::StoredTarget;
use crate::report::Report;
use crate::tables::{CallResult, Learnt, Lifetime};
use crate::token::{Identities, UriHash, UserHash};
use crate::{Aor, Config, Detail, Number, PausedTrunks, Reason, TrunkEvent, TrunkPause};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_auth::Covered;
use ringway_sansio::{Instant, TimerKey};
use ringway_sip::{HeaderName, Method, Uri};

/// Refusal of a request that would reach a trunk without a route, and so past its destination rules, or of a stranger's that is none of a
/// call.
pub(super) fn refusal(env: &mut Env<'_>, plan: &Plan<'_, '_, '_>) -> Option<(u16, &'static str)> {
    if bypasses_routes(env, plan) {
        return Some((403, "Trunks Have Routes"));
    }
    if !is_method_of_call(plan.request().method) && permitted_fields(env.config, plan) == Permitted::OfCall {
        env.counters.strangers_methods_refused += 1;
        return Some((403, "Not A Method Of A Call"));
    }
    None
}

/// True, counted and reported, for a next hop that is a trunk, and no route leads there.
fn bypasses_routes(env: &mut Env<'_>, plan: &Plan<'_, '_, '_>) -> bool {
    let address = plan.flow().remote.ip();
    let bypasses = plan.free_hop().is_some_and(|hop| env.config.trunking.is_at(&hop, address));
    if bypasses {
        let Request { message, uri, flow, .. } = plan.request();
        let (caller, target, source) = (message.from().uri.as_bytes(), uri.as_bytes(), flow.remote);
        env.report(plan.request(), Report::TrunkBypassed { caller, target, source });
    }
    bypasses
}

/// Targets of a request for another domain, if that has a route and the sender may use it.
pub(super) fn before_elsewhere(call: &mut Call<'_, '_>, _: &mut Planned<'_>) -> Next {
    let (config, routed) = (call.env.config, call.routed);
    if !config.trunking.is_on() || routed.next_route.is_some() || !call.request.grant.may_call_anywhere() {
        return Next::Pass;
    }
    match config.trunking.routes.of_domain(&routed.uri) {
        Some(RouteTo::Trunks { trunks, .. }) => {
            let payer = Payer::of(config, &call.request.message.from().uri);
            let order = in_order(trunks, call.env.call_hash(call.request.message));
            next_of(targets_at(call, &payer, order, &Dialled::Uri(routed.uri)))
        }
        Some(RouteTo::ByCost(_) | RouteTo::User(_)) | None => Next::Pass,
    }
}

/// Targets of a number that is no user's, if it has a route and the sender may use it.
pub(super) fn before_absent(call: &mut Call<'_, '_>, planned: &mut Planned<'_>) -> Next {
    if !call.env.config.trunking.is_on() {
        return Next::Pass;
    }
    next_of(of_number(call, &mut planned.aor, None))
}

/// Refuses a request in a dialog with a trunk that the destination rules forbid.
pub(super) fn before_in_dialog(call: &mut Call<'_, '_>, _: &mut Planned<'_>) -> Next {
    match destinations::admit_in_dialog(call) {
        Ok(()) => Next::Pass,
        Err(why) => Next::Answer(why.into()),
    }
}

fn next_of(targets: Result<Vec<StoredTarget>, RouteRefusal>) -> Next {
    match targets {
        Ok(targets) if targets.is_empty() => Next::Pass,
        Ok(targets) => Next::Targets(targets),
        Err(why) => Next::Answer(why.into()),
    }
}

/// Targets of a number that is no user's; none if it has no route, or the sender may not use it. For a route to a
/// user `aor` becomes that user's. `counted` is a number for which the destination rules have counted this call.
pub(super) fn of_number(
    call: &mut Call<'_, '_>,
    aor: &mut Aor,
    counted: Option<Number>,
) -> Result<Vec<StoredTarget>, RouteRefusal> {
    let config = call.env.config;
    let Some((number, context)) = Number::of_uri(&call.routed.uri) else { return Ok(Vec::new()) };
    let dialled = number;
    let number = identity::called_number(call.env, call.request, &dialled, aor.domain());
    let is_ours =
        |domain: &[u8]| config.domains.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(domain));
    if context.is_some_and(|domain| !is_ours(domain)) || call.env.host.is_known(aor.user(), aor.domain()) {
        return Ok(Vec::new());
    }
    if number != dialled && call.env.host.is_known(number.as_bytes(), aor.domain()) {
        return Ok(vec![of_user(call, aor, &number, number.as_bytes())]);
    }
    match config.trunking.routes.of_number(&number) {
        None => Ok(Vec::new()),
        Some(RouteTo::User(user)) => Ok(vec![of_user(call, aor, &number, user.as_bytes())]),
        Some(to) if call.request.grant.may_call_anywhere() => {
            let payer = Payer { counted, ..Payer::of(config, &call.request.message.from().uri) };
            targets_of(call, &payer, to, &number)
        }
        Some(RouteTo::Trunks { .. } | RouteTo::ByCost(_)) => Ok(Vec::new()),
    }
}

/// The user who has a number, as a target; `aor` becomes that user's.
fn of_user(call: &mut Call<'_, '_>, aor: &mut Aor, number: &Number, user: &[u8]) -> StoredTarget {
    let domain = aor.domain().to_vec();
    aor.set(|out| out.extend_from_slice(user), &domain);
    let detail = Detail::Both(number.as_bytes(), aor.as_bytes());
    call.env.decided(call.request, Reason::RoutedToUser, detail);
    StoredTarget::of_caller(&[b"sip:", aor.as_bytes()].concat())
}

/// Targets of a call that a user of ours diverts to `uri`, with the permission, the limits and the number of that
/// user; none if `uri` has no route to a trunk.
pub(super) fn of_diverted(
    call: &mut Call<'_, '_>,
    uri: &Uri<'_>,
    payer: &Payer,
) -> Result<Vec<StoredTarget>, RouteRefusal> {
    let config = call.env.config;
    let trunking = &config.trunking;
    if config.domain_of(uri).is_none() {
        return match trunking.routes.of_domain(uri) {
            Some(RouteTo::Trunks { trunks, .. }) => {
                let order = in_order(trunks, call.env.call_hash(call.request.message));
                targets_at(call, payer, order, &Dialled::Other(*uri))
            }
            Some(RouteTo::ByCost(_) | RouteTo::User(_)) | None => Ok(Vec::new()),
        };
    }
    let mut aor = Aor::default();
    let is_read = config.read_target(uri, &mut aor);
    if !is_read || call.env.host.is_known(aor.user(), aor.domain()) {
        return Ok(Vec::new());
    }
    let Some((number, _)) = Number::of_uri(uri) else { return Ok(Vec::new()) };
    let number = identity::dialled_number(config, &number, aor.domain());
    match trunking.routes.of_number(&number) {
        Some(to) => targets_of(call, payer, to, &number),
        None => Ok(Vec::new()),
    }
}

/// Trunks of a next hop as targets of a number; none if it leads to no trunk.
fn targets_of(
    call: &mut Call<'_, '_>,
    payer: &Payer,
    to: &RouteTo,
    number: &Number,
) -> Result<Vec<StoredTarget>, RouteRefusal> {
    let draw = call.env.call_hash(call.request.message);
    match call.env.config.trunking.order_of(to, number, draw) {
        Some((order, number)) => targets_at(call, payer, order, &Dialled::Number(number)),
        None => Ok(Vec::new()),
    }
}

/// True if requests for this URI have a route to a trunk.
pub(super) fn has_route(env: &Env<'_>, uri: &Uri<'_>) -> bool {
    let (trunking, routes) = (&env.config.trunking, &env.config.trunking.routes);
    let is_to_trunks = |to: &RouteTo| matches!(to, RouteTo::Trunks { .. });
    match env.config.domain_of(uri) {
        None => routes.of_domain(uri).is_some_and(is_to_trunks),
        Some(_) => {
            let mut aor = Aor::default();
            env.config.read_target(uri, &mut aor);
            let is_user = env.host.is_known(aor.user(), aor.domain());
            !is_user
                && Number::of_uri(uri)
                    .and_then(|(number, _)| {
                        let number = identity::dialled_number(env.config, &number, aor.domain());
                        trunking.order_of(routes.of_number(&number)?, &number, 0)
                    })
                    .is_some()
        }
    }
}

/// Form in which a trunk gets the target.
enum Dialled<'a> {
    /// The number, at the trunk's host.
    Number(Number),
    /// The Request-URI, with the trunk as its Route.
    Uri(Uri<'a>),
    /// Another URI instead of the Request-URI, with the trunk as its Route.
    Other(Uri<'a>),
}

/// Trunks as targets, for a call of which `payer` has the limits and the number.
fn targets_at(
    call: &mut Call<'_, '_>,
    payer: &Payer,
    mut order: TrunkOrder,
    dialled: &Dialled<'_>,
) -> Result<Vec<StoredTarget>, RouteRefusal> {
    let (config, tables, now) = (call.env.config, call.env.tables, call.env.cx.now);
    let list = &config.trunking.trunks;
    let is_up = |trunk: &usize| {
        let neighbour = list.get(*trunk).map(|trunk| trunk.neighbour);
        neighbour.is_some_and(|index| index.is_none_or(|index| tables.is_neighbour_up(index)))
    };
    order.retain(|trunk| is_up(trunk));
    if order.is_empty() {
        call.env.counters.trunks_down += 1;
        return Err(RouteRefusal::AllDown);
    }
    if call.env.features.call_limits() && call_limits::begins_call(call.request) {
        let is_open = |trunk: &usize| {
            list.get(*trunk).is_some_and(|trunk| !call_limits::is_full(call.env, trunk, call.request))
        };
        if !order.iter().any(is_open) {
            call.env.counters.trunk_calls_refused += 1;
            return Err(RouteRefusal::AllFull);
        }
        order.retain(|trunk| is_open(trunk));
    }
    match dialled {
        Dialled::Number(number) => destinations::admit_number(call, payer, number, &order)?,
        Dialled::Uri(uri) | Dialled::Other(uri) => {
            let counts = destinations::is_counted(call.request);
            let dialled = uri.user().unwrap_or_default();
            destinations::admit_user_part(call, payer, dialled, &order, counts)?;
        }
    }
    destinations::admit_refer(call, payer)?;
    order.sort_by_key(|trunk| tables.trunk_pause(now, *trunk).is_some());
    let numbered = order.into_iter().filter_map(|index| Some((index, list.get(index)?)));
    let mut targets = Vec::new();
    for (rank, (index, trunk)) in (0..).zip(numbered) {
        let mut rewrite = Rewrite::to_configured(index);
        call.env.decided(call.request, Reason::RoutedToTrunk, Detail::Text(trunk.name.as_bytes()));
        identity::add(call, payer, trunk, &mut rewrite);
        stir::mark(call, payer, trunk, &mut rewrite);
        let (uri, keeps_uri) = match dialled {
            Dialled::Number(number) => (Cow::Owned(uri_at(trunk, &trunk.numbers_out.write(number))), false),
            Dialled::Uri(uri) | Dialled::Other(uri) => {
                (Cow::Borrowed(uri.as_bytes()), matches!(dialled, Dialled::Uri(_)))
            }
        };
        push_routes(call.env, trunk, matches!(dialled, Dialled::Number(_)), &mut rewrite);
        targets.push(StoredTarget::ranked(&uri, keeps_uri, rewrite, rank));
    }
    Ok(targets)
}

/// Maximum time of a group of targets: that of its trunk, or of the users' contacts.
pub(super) fn group_max(config: &Config, context: &ResponseContext) -> Duration {
    let trunk = context.branches.last().and_then(|branch| branch.states.trunk);
    let trunk = trunk.and_then(|branch| config.trunking.trunks.get(branch.trunk));
    trunk.map_or(config.serial_fork, |trunk| trunk.silence)
}

/// True for a request at a node behind this server that only the called phone answers: its silence says nothing of the node.
pub(super) fn waits_for_phone(context: &ResponseContext) -> bool {
    let trunk = context.branches.last().and_then(|branch| branch.states.trunk);
    context.is_answered_by_phone && trunk.is_some_and(|trunk| trunk.is_node)
}

/// Notes that the trunk of a branch has sent no response in time.
pub(super) fn on_silence(env: &Env<'_>, branch: &Branch) {
    if let Some(trunk) = branch.states.trunk.filter(|_| branch.state.awaits_first_response()) {
        let until = env.cx.now + PausedTrunks::SILENT_TIME;
        env.tables.pause_trunk(trunk.trunk, TrunkPause::Silent, until);
    }
}

/// Notes the pause that a trunk asks for, of which no server is left, so that other requests try it last (RFC 3261 §21.5.4). What a node
/// refuses may be a matter of one user.
pub(super) fn on_pause(env: &Env<'_>, branch: &Branch, until: Instant) {
    let is_last = branch.servers.as_deref().is_none_or(|servers| servers.left.is_empty());
    if let Some(trunk) = branch.states.trunk.filter(|trunk| is_last && !trunk.is_node) {
        env.tables.pause_trunk(trunk.trunk, TrunkPause::RetryAfter, until);
    }
}

/// Notes that the trunk of a branch, if it has one, sent a response.
pub(super) fn on_response(env: &Env<'_>, branch: &Branch, status: u16) {
    let Some(TrunkBranch { trunk, .. }) = branch.states.trunk else { return };
    env.host.note_trunk(env.cx.now, trunk, TrunkEvent::Answered(status));
    if env.tables.trunk_pause(env.cx.now, trunk) == Some(TrunkPause::Silent) {
        env.tables.note_answering_trunk(trunk);
    }
}

/// Forgets which trunks a pending request was sent to. Another trunk may have the number now: it must not get a call that was not
/// routed to it, nor may its password be used for the answer to a challenge of the former one.
pub(super) fn forget(forwarded: &mut Forwarded<'_>) {
    forwarded.context.branches.iter_mut().for_each(|branch| branch.states.trunk = None);
    let Some(later) = forwarded.context.states.kept_mut::<Box<LaterGroups>>() else { return };
    later.forget_trunks();
    if later.len() == 0 {
        forwarded.give_up_later();
    }
}

/// True if a branch may be sent again with credentials, so that its target is kept.
pub(super) fn may_be_challenged(config: &Config, reach: Reach, trunk: Option<usize>) -> bool {
    trunk.is_some() || (config.trunking.has_logins() && matches!(reach, Reach::Side(_)))
}

/// Changes of a request to a trunk that may challenge it: its CSeq, and its credentials. `repeated` are the INVITEs in dialogs that were
/// challenged; the ACK of one that is repeated will need its number.
pub(super) fn change(
    env: &mut Env<'_>,
    repeated: &mut RepeatedInvites,
    plan: &Plan<'_, '_, '_>,
    trunk: Option<TrunkBranch>,
    changes: &mut Changes,
) {
    let challenges = trunk.map_or(0, |trunk| trunk.logins);
    change_any(env, plan, challenges, repeated, changes);
    let Request { message, method, .. } = plan.request();
    if challenges > 0
        && *method == Method::Invite
        && message.to().tag().is_some()
        && let Some(number) = changes.cseq
    {
        let now = env.cx.now;
        let until = now + env.config.timer_c + env.config.timers.t1 * 64;
        let owner = owner_of_sender(env, plan.request(), plan.routed());
        let has_room = repeated.note(Lifetime { now, until }, env.call_hash(message), number, owner);
        env.counters.trunk_invites_forgotten += u64::from(!has_room);
    }
    changes.credentials = credentials(env, trunk, plan.covered());
}

/// Changes of any request of a server with trunks, for which so many challenges were answered.
pub(super) fn change_any(
    env: &Env<'_>,
    plan: &Plan<'_, '_, '_>,
    challenges: u8,
    repeated: &RepeatedInvites,
    changes: &mut Changes,
) {
    let config = env.config;
    let hop = plan.configured_hop();
    changes.permitted = permitted_fields(config, plan);
    changes.foreign = match hop {
        Some(hop) if config.trunking.is_node(hop) => Foreign::Passed,
        _ if config.trunking.has_nodes() => Foreign::Of(is_for_node),
        _ => Foreign::Unknown,
    };
    if plan.begins_dialog() {
        changes.identities = Some(identities(env, plan));
    }
    number(env, plan, challenges, repeated, changes);
}

/// Header fields that the next hop of a request may get.
fn permitted_fields(config: &Config, plan: &Plan<'_, '_, '_>) -> Permitted {
    let to = plan.flow().remote;
    let is_at_trunk = |hop| config.trunking.is_at(&hop, to.ip());
    // A request to this server itself may go on to a trunk, as one of its own.
    let is_trunk = || config.is_own_address(to) || plan.hop_uri().is_some_and(is_at_trunk);
    Permitted::of(config, plan.request(), plan.configured_hop(), is_trunk)
}

/// True for credentials for a node behind this server: they go to nodes only, as a phone repeats those of its INVITE in the ACK, which does
/// not pass the node (RFC 3261 §22.1).
fn is_for_node(config: &Config, name: HeaderName, realm: &[u8]) -> bool {
    name == HeaderName::ProxyAuthorization
        || config.edge_domains.iter().any(|domain| domain.as_bytes() == realm)
}

/// Identities of the sides of a dialog that a request begins, with those of trunks.
fn identities(env: &Env<'_>, plan: &Plan<'_, '_, '_>) -> Identities {
    let (trunking, request) = (&env.config.trunking, plan.request());
    let is_of_trunk = trunking.is_trunk(request.source());
    let is_at_trunk = plan.configured_hop().is_some_and(|hop| !trunking.is_node(hop));
    let all = plan.identities();
    let contact =
        || contact_of(request.message).map_or(UriHash::NONE, |uri| UriHash::of(&env.keys.route, &uri));
    Identities {
        caller: match request.grant.sender {
            Sender::Trusted if is_of_trunk => UserHash::NONE,
            _ => all.caller,
        },
        calling_trunk: is_of_trunk.then(contact),
        called_trunk: is_at_trunk.then_some(None),
        ..all
    }
}

/// Sets the numbers of a request to or from a trunk that may challenge, after so many challenges.
fn number(
    env: &Env<'_>,
    plan: &Plan<'_, '_, '_>,
    challenges: u8,
    repeated: &RepeatedInvites,
    changes: &mut Changes,
) {
    let (request, routed) = (plan.request(), plan.routed());
    let (message, number) = (request.message, request.message.cseq().number);
    if routed.is_of_numbered_trunk()
        && let Some(event) = restored_event(message)
    {
        changes.values.push((HeaderName::Event, event));
    }
    if let Some(numbers) = routed.trunk_numbers() {
        let of_invite = |invite| numbers.of_invite(repeated, env.call_hash(message), invite);
        changes.cseq = match request.method {
            Method::Ack => of_invite(number),
            _ => at_trunk(number, challenges),
        };
        if request.method == Method::Prack
            && let Some(rack) = changed_rack(message, of_invite)
        {
            changes.values.push((HeaderName::RAck, rack));
        }
    } else if is_new_at_login(env.config, plan) {
        changes.cseq = at_trunk(number, challenges);
    }
    if plan.begins_dialog()
        && let Some(numbers) = begun_numbers(env.config, request, changes.cseq)
    {
        numbers.write(&mut changes.route_params);
    }
}

/// True for a request outside dialogs to a trunk with a login, if it begins no dialog that will not pass this server.
fn is_new_at_login(config: &Config, plan: &Plan<'_, '_, '_>) -> bool {
    let trunk = plan.configured_hop().and_then(|trunk| config.trunking.trunks.get(trunk));
    trunk.is_some_and(|trunk| trunk.login.is_some())
        && plan.request().message.to().tag().is_none()
        && (config.record_route || !plan.begins_dialog())
}

/// Numbering of the dialog that a request begins, if one of its sides is a trunk that may challenge the other one.
fn begun_numbers(config: &Config, request: &Request<'_, '_>, cseq: Option<u32>) -> Option<TrunkNumbers> {
    let is_of_trunk =
        || request.grant.sender == Sender::Trusted && config.trunking.login_at(&request.flow).is_some();
    match cseq {
        Some(number) => Some(TrunkNumbers::begun_with(number)),
        None => is_of_trunk().then_some(TrunkNumbers::BEGUN_BY_TRUNK),
    }
}

/// Header field of the credentials for a request to a trunk.
fn credentials(
    env: &mut Env<'_>,
    trunk: Option<TrunkBranch>,
    covered: Covered<'_>,
) -> Option<(HeaderName, Vec<u8>)> {
    let TrunkBranch { trunk, is_counted, .. } = trunk?;
    env.counters.trunk_requests += u64::from(!is_counted);
    if covered.method == Method::Invite && !is_counted {
        env.host.note_trunk(env.cx.now, trunk, TrunkEvent::Called);
    }
    let trunking = &env.config.trunking;
    let mut given = None;
    if trunking.trunks.get(trunk).is_some_and(|trunk| trunk.login.is_some()) {
        given = env.tables.change_trunk_logins(None, |logins| logins.credentials(trunking, trunk, covered));
    }
    given
}

/// Answers the challenge of a trunk, and gives up the targets behind a trunk whose response is no failure of the trunk. The caller gets no
/// challenge of a trunk: it has no credentials for it, and must not give it the user's.
pub(super) fn after(
    call: &mut Call<'_, '_>,
    forwarded: &mut Forwarded<'_>,
    end: &BranchEnd<'_>,
) -> BranchNext {
    if end.response.is_none() {
        return BranchNext::Pass;
    }
    match answer_challenge(call.env, forwarded.context, end) {
        BranchNext::Pass => {}
        next => return next,
    }
    let Some(branch) = forwarded.branch(end.id) else { return BranchNext::Pass };
    let (trunk, is_at_trunk) = (branch.states.trunk, is_at_trunk(branch));
    let is_urgent = forwarded.context.grant.above_limits.is_some() && emergency::fails_over(end.status);
    if trunk.is_some_and(|branch| !end.is_superseded && !branch.fails_over(end.status) && !is_urgent) {
        forwarded.give_up_later();
    }
    match end.status {
        401 | 407 if is_at_trunk => {
            relays::end(&mut call.env.cx, forwarded.context, end.id, end.status);
            let status = if end.is_superseded { 480 } else { 500 };
            BranchNext::Fail(status, CallResult::Challenged)
        }
        _ => BranchNext::Pass,
    }
}

/// True for a branch whose target is at a trunk, also after a reload without it.
pub(super) fn is_at_trunk(branch: &Branch) -> bool {
    !branch.states.is_at_node()
        && branch.target.as_ref().is_some_and(|target| target.configured_hop().is_some())
}

/// Handles a provisional response of a trunk: with one other than 100 the route ends with it.
pub(super) fn on_provisional(forwarded: &mut Forwarded<'_>, id: BranchId, status: u16) {
    let trunk = forwarded.branch(id).and_then(|branch| branch.states.trunk.as_mut());
    match trunk.map_or(GroupTimer::Runs, |trunk| trunk.note_provisional(status)) {
        GroupTimer::Runs => {}
        GroupTimer::Stops => {
            if let Some(later) = forwarded.context.states.kept_mut::<Box<LaterGroups>>() {
                forwarded.timers.cancel(core::mem::replace(&mut later.timer, TimerKey::NONE));
            }
        }
        GroupTimer::Ends => forwarded.give_up_later(),
    }
}

fn answer_challenge(env: &mut Env<'_>, context: &mut ResponseContext, end: &BranchEnd<'_>) -> BranchNext {
    let trunking = &env.config.trunking;
    let Some(response) = end.response.filter(|_| matches!(end.status, 401 | 407)) else {
        return BranchNext::Pass;
    };
    let Some(flow) = response.sent_to else { return BranchNext::Pass };
    let is_in_dialog = matches!(context.grant.reach, Reach::Side(_));
    let uses_accounts = context.grant.uses_accounts;
    let is_wanted = !context.is_cancelled;
    let Some(branch) = context.branches.get_mut(end.id.parts().1) else { return BranchNext::Pass };
    if branch.states.trunk.is_some_and(|trunk| trunk.is_node) {
        // The phone has the password that it asks for.
        return BranchNext::Pass;
    }
    let of_dialog =
        || trunking.login_at(flow).filter(|_| is_in_dialog && uses_accounts).map(TrunkBranch::new);
    let Some(mut trunk) = branch.states.trunk.or_else(of_dialog) else { return BranchNext::Pass };
    let learnt = env.tables.change_trunk_logins(None, |logins| {
        logins.learn(trunking, trunk.trunk, response.message, response.status)
    });
    let is_answered = match learnt {
        Some(Learnt::New) => trunk.logins == 0,
        Some(Learnt::Stale) => trunk.logins < LOGINS_MAX,
        None => false,
    };
    if !is_answered {
        env.host.note_trunk(env.cx.now, trunk.trunk, TrunkEvent::LoginRefused);
        if let Some(trunk) = trunking.trunks.get(trunk.trunk) {
            let refused = Report::TrunkLoginRefused { name: &trunk.name, address: flow.remote };
            env.report_about(response.message.as_bytes(), refused);
        }
        return if is_in_dialog { BranchNext::Pass } else { BranchNext::Fail(500, CallResult::Other) };
    }
    (trunk.logins, trunk.is_counted) = (trunk.logins + 1, false);
    if branch.states.trunk.replace(trunk).is_none() {
        // The credentials are for this address, and for no other server of the host that the dialog names.
        branch.servers = None;
    }
    if !is_wanted || !matches!(branch.state, BranchState::Sent { .. }) || branch.target.is_none() {
        return BranchNext::Pass;
    }
    env.report_about(response.message.as_bytes(), Report::TrunkLogin(*flow));
    BranchNext::Again(*flow, CallResult::Challenged)
}

/// Maximum number of challenges of a trunk that are answered for a branch; the second one if the nonce was stale.
const LOGINS_MAX: u8 = 2;
