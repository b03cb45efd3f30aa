//! Proxy (RFC 3261 §16): target set, forking, response context.

mod at_trunk;
mod branch_media;
mod breadth;
mod bye;
mod call;
mod cancel_reason;
mod candidate;
mod context;
mod decided;
mod destinations;
mod divert;
mod edge_flows;
mod fork;
mod forward;
mod groups;
mod lit;
mod lookups;
mod moves;
mod number_lookup;
mod pending;
mod reach;
mod relays;
mod remote_target;
mod response;
mod retarget;
mod rewrite;
mod serial;
mod stages;
mod stateless;
mod targets;
mod to_node;
mod trunk_branch;
mod trying;
mod unreached;
mod untrusted;

pub(crate) use candidate::Candidate;
pub use context::RingingCall;
pub(crate) use remote_target::Response;
pub(crate) use unreached::{BindingHop, Unreached, hop_to_binding};

use crate::base::{BranchId, Env, Owner, Reach, Request, Transactions};
use crate::gruu::{self, Gruu};
use crate::location::LocationTable;
use crate::route::Routed;
use crate::token::UserHash;
use crate::trunk::RepeatedInvites;
use crate::{Aor, CallStep, Condition, Detail, Reason};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use breadth::TooBroad;
use call::BranchEnd;
use context::{BranchState, Contexts, ResponseContext};
use destinations::RouteRefusal;
use forward::Forwarding;
use lookups::{Lookup, Lookups};
use pending::Pending;
use ringway_sansio::{Flow, Instant, LocatedServers, RelayResult, Seed, Wheel};
use ringway_sip::{EditSpace, HeaderName, Method, Scheme, write_host};
use ringway_transaction::Notice;
use serial::TimeLimit;
use stages::{sides, trunks};
use targets::{SipsMismatch, Targets};

/// Proxy of one shard, with the requests that are being forwarded.
pub(crate) struct Proxy {
    contexts: Contexts,
    /// Timer C of the branches of INVITEs (RFC 3261 §16.8).
    timer_c: Wheel<BranchId>,
    /// Time limits of the running groups of targets, and of answers.
    groups: Wheel<TimeLimit>,
    lookups: Lookups,
    pending: Pending,
    /// Buffer for the target set of a request.
    targets: Targets,
    /// INVITEs in dialogs that trunks challenged.
    repeated: RepeatedInvites,
    /// Messages that no phone took.
    unreached: Vec<Unreached>,
    space: EditSpace,
    /// Buffer for the branch of a statelessly forwarded request.
    branch: Vec<u8>,
}

impl Proxy {
    pub(crate) fn new(seed: &Seed, now: Instant) -> Self {
        Self {
            contexts: Contexts::default(),
            timer_c: Wheel::new(now),
            groups: Wheel::new(now),
            lookups: Lookups::new(seed, now),
            pending: Pending::new(&seed.part(PENDING_KEY)),
            targets: Targets::default(),
            repeated: RepeatedInvites::default(),
            unreached: Vec::new(),
            space: EditSpace::default(),
            branch: Vec::new(),
        }
    }

    /// Forgets which trunks pending requests were sent to. Another trunk may have the number now: it must not get a call that was not
    /// routed to it, nor may its password be used for the answer to a challenge of the former one.
    pub(crate) fn forget_trunks(&mut self) {
        for key in self.contexts.keys() {
            let Some(context) = self.contexts.get_mut(key) else { continue };
            context.branches.iter_mut().for_each(|branch| branch.trunk = None);
            if let Some(later) = &mut context.later {
                later.forget_trunks();
            }
            if let Some(later) = context.later.take_if(|later| later.len() == 0) {
                self.groups.cancel(later.timer);
            }
        }
    }

    /// Number of requests that are being forwarded.
    pub(crate) fn contexts_len(&self) -> usize {
        self.contexts.len()
    }

    pub(crate) const fn ringing_calls_len(&self) -> usize {
        self.contexts.unanswered_len()
    }

    pub(crate) fn ringing_calls(
        &self,
        from: u32,
        count: u32,
        each: impl FnMut(RingingCall<'_>),
    ) -> Option<u32> {
        self.contexts.ringing_calls(from, count, each)
    }

    /// Times of the next timer C, the next end of a group of targets, and the next timeout of a lookup, with their reasons.
    pub(crate) fn next_due(&self) -> [(Option<Instant>, &'static str); 3] {
        [
            (self.timer_c.next_due(), "timer C: no final response"),
            (self.groups.next_due(), "the next group of targets, or a forward, is called"),
            (self.lookups.next_due(), "a DNS server or a media relay did not answer"),
        ]
    }

    pub(crate) const fn has_unreached(&self) -> bool {
        cfg!(feature = "events") && !self.unreached.is_empty()
    }

    /// Messages that no phone took since the last call.
    pub(crate) fn take_unreached(&mut self) -> Vec<Unreached> {
        core::mem::take(&mut self.unreached)
    }

    /// Forwards a request that the access rules allow. One that may be kept, and whose user has no phone, is returned.
    pub(crate) fn forward(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        table: &LocationTable,
        (request, routed): (&Request<'_, '_>, &Routed<'_>),
        candidate: Option<Candidate>,
    ) -> Option<Candidate> {
        let mut targets = core::mem::take(&mut self.targets);
        targets.clear();
        let mut absent = None;
        let mut aor = Aor::default();
        let found = self.find_targets(env, table, (request, routed), &mut targets, &mut aor);
        let is_stateless = !env.config.stateful || request.method == Method::Ack;
        let branches = if is_stateless { 1 } else { targets.list().len() };
        if let Err(why) = found {
            refuse_untargeted(env, request, why);
        } else if targets.list().is_empty() {
            absent = candidate;
            if absent.is_none() {
                env.refuse_absent(request, &aor);
            }
        } else {
            targets.set_candidate(candidate);
            match divert::share(env, request, &mut targets, branches) {
                Err(reason) => refuse_fork(env, request, reason),
                Ok(()) => {
                    decided::targets(env, request, routed, &targets);
                    let forwarding = Forwarding { request, routed, targets: &targets };
                    if is_stateless {
                        self.forward_without_state(env, transactions, forwarding);
                    } else {
                        self.fork(env, transactions, forwarding);
                    }
                }
            }
        }
        self.targets = targets;
        absent
    }

    /// Fills the target set of a request (RFC 3261 §16.5); none: its user does not exist, or has no binding. `aor` becomes the
    /// address-of-record.
    fn find_targets(
        &self,
        env: &mut Env<'_>,
        table: &LocationTable,
        (request, routed): (&Request<'_, '_>, &Routed<'_>),
        targets: &mut Targets,
        aor: &mut Aor,
    ) -> Result<(), NoTarget> {
        if request.grant.reach == Reach::User {
            if let Some(uri) = sides::uri_of(env, request.message, routed) {
                env.counters.sides_looked_up += 1;
                targets.push(&uri, false, None);
            }
            return Ok(());
        }
        if let Reach::Side(side) | Reach::Flow(side) = request.grant.reach {
            destinations::admit_in_dialog(env, request, routed).map_err(NoTarget::Route)?;
            let flow = reach::side_flow(env, side, routed);
            targets.push(routed.uri.as_bytes(), true, flow);
            return Ok(());
        }
        if routed.next_route.is_some() || !routed.is_of_domains {
            to_node::add(env, request, routed, targets).map_err(NoTarget::Route)?;
            if targets.list().is_empty() && env.config.trunking.is_on() {
                trunks::add_domain(env, request, routed, targets).map_err(NoTarget::Route)?;
            }
            if targets.list().is_empty() {
                targets.push(routed.uri.as_bytes(), true, None);
            }
            return Ok(());
        }
        if !env.config.read_target(&routed.uri, aor) {
            return Ok(());
        }
        self.find_users_targets(env, table, (request, routed), targets, aor)
    }

    /// Adds the targets of a user: that of a forward, or its contacts.
    fn find_users_targets(
        &self,
        env: &mut Env<'_>,
        table: &LocationTable,
        (request, routed): (&Request<'_, '_>, &Routed<'_>),
        targets: &mut Targets,
        aor: &mut Aor,
    ) -> Result<(), NoTarget> {
        let key = &env.keys.gruu;
        let is_in_dialog = gruu::is_in_dialog(&routed.uri);
        let may_be_gruu = env.config.registrar.gruu || is_in_dialog;
        let gruu = if may_be_gruu { Gruu::of(key, &routed.uri) } else { None };
        let to = &request.message.to().uri;
        let is_in_to = to.is_sip() && (to.user(), to.host()) == (routed.uri.user(), routed.uri.host());
        targets.set_user(match is_in_to {
            true => UserHash::OF_HEADER,
            false => UserHash::of(&env.keys.route, aor.user(), aor.domain()),
        });
        // A GRUU names one phone: the user's forwards do not apply.
        let forwards = env.forwards.find(aor.as_bytes());
        let forwards = forwards.filter(|_| gruu.is_none() && divert::is_divertible(env, request));
        if !request.grant.sender.is_believed() {
            targets.set_strangers_user(self.pending.name_of(aor.as_bytes()));
        }
        if let Some(forwards) = forwards.filter(|forwards| forwards.always.is_some()) {
            divert::begin(&self.pending, env, (request, routed), (forwards, Condition::Always), targets);
            return Ok(());
        }
        if let Some(Gruu::Temporary(uri)) = &gruu {
            // Another shard may be responsible for its user.
            targets.push(uri, false, None);
        }
        let is_sips = routed.uri.scheme() == Scheme::Sips;
        let mut mismatch = None;
        for offer in table.offers(aor.as_bytes(), env.cx.now, env.host) {
            if let Some(gruu) = &gruu {
                if !gruu.is_of(key, offer.binding) {
                    continue;
                }
                env.counters.gruu_capitals += u64::from(gruu.has_other_capitals(offer.binding));
            }
            if let Err(why) = targets.push_binding(offer, is_sips) {
                mismatch = Some(why);
            }
        }
        if is_in_dialog {
            if targets.list().is_empty() {
                for offer in table.offers(aor.as_bytes(), env.cx.now, env.host) {
                    let _ = targets.push_binding(offer, is_sips);
                }
            }
            targets.keep_only();
            return Ok(());
        }
        targets.sort();
        if let Some(why) = mismatch.filter(|_| targets.list().is_empty()) {
            return Err(NoTarget::Scheme(why));
        }
        match forwards {
            Some(forwards) if targets.list().is_empty() => {
                let forward = (forwards, Condition::Unregistered);
                divert::begin(&self.pending, env, (request, routed), forward, targets);
            }
            Some(forwards) => targets.set_forwards(Arc::clone(forwards)),
            None if env.config.trunking.is_on() && targets.list().is_empty() => {
                if !number_lookup::begin(env, request, routed, targets, aor).map_err(NoTarget::Route)? {
                    trunks::add_number(env, request, routed, targets, (aor, None))
                        .map_err(NoTarget::Route)?;
                }
                if !request.grant.sender.is_believed() {
                    targets.set_strangers_user(self.pending.name_of(aor.as_bytes()));
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Handles the result of a lookup.
    pub(crate) fn on_resolved(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        query: u64,
        servers: LocatedServers,
    ) {
        match self.lookups.end(query) {
            Some(Lookup::Branch(id)) => {
                self.on_branch_resolved(env, transactions, id, query, servers);
            }
            Some(Lookup::Stateless(waiting)) => {
                self.forward_waiting(env, transactions, &waiting, servers);
            }
            Some(_) if !cfg!(feature = "operator") => {}
            Some(Lookup::Number(id)) => number_lookup::end(self, env, transactions, (id, query), &[]),
            Some(Lookup::Offer(id, flow)) => self.on_offer_relayed(env, transactions, (id, flow), None),
            Some(Lookup::Answer(stored)) => {
                self.on_answer_relayed(env, transactions, query, &stored, None);
            }
            Some(Lookup::Pause(id, flow)) => self.send_again(env, transactions, id, flow),
            None => {}
        }
    }

    /// Handles the result of the lookup of a number.
    pub(crate) fn on_number_resolved(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        query: u64,
        uris: &[Box<str>],
    ) {
        if let Some(Lookup::Number(id)) = self.lookups.end(query) {
            number_lookup::end(self, env, transactions, (id, query), uris);
        }
    }

    /// Handles the result of a request to a media relay.
    pub(crate) fn on_relayed(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        query: u64,
        result: Option<RelayResult>,
    ) {
        match self.lookups.end(query) {
            Some(Lookup::Offer(id, flow)) => self.on_offer_relayed(env, transactions, (id, flow), result),
            Some(Lookup::Answer(stored)) => {
                self.on_answer_relayed(env, transactions, query, &stored, result);
            }
            Some(Lookup::Branch(_) | Lookup::Stateless(_) | Lookup::Number(_) | Lookup::Pause(..)) | None => {
            }
        }
    }

    /// Sends a branch with the SDP of a media relay; `None`: no relay has it.
    fn on_offer_relayed(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        (id, flow): (BranchId, Flow),
        result: Option<RelayResult>,
    ) {
        let Some(branch) = self.contexts.branch_mut(id) else { return };
        branch.state = BranchState::Done;
        let Some(mut media) = branch.media.take() else { return };
        let was_relayed = media.set_offer_result(result);
        env.counters.media_relayed += u64::from(was_relayed);
        let reason = if was_relayed { Reason::RelayChosen } else { Reason::RelayFailed };
        decided::about(env, &self.contexts, id.context(), reason, Detail::None);
        if !was_relayed && media.is_unanswered() {
            // A relay may have the call: its SDP is not credible, or its answer was late.
            env.cx.actions.push(media.delete());
        }
        if was_relayed || !relays::refuse(env, &mut self.contexts, id, &mut media) {
            if let Some(branch) = self.contexts.branch_mut(id) {
                branch.media = Some(media);
            }
            self.send_stored(env, transactions, id, flow);
        }
        self.finish_if_done(env, transactions, id.context());
    }

    /// Handles the branches whose timer C fired, and the groups whose time has passed.
    pub(crate) fn expire_branches(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        while let Some(due) = self.timer_c.expire(env.cx.now) {
            self.on_timer_c(env, transactions, due);
        }
        while let Some(due) = self.groups.expire(env.cx.now) {
            match due {
                TimeLimit::Group(key) => groups::on_timeout(self, env, transactions, key),
                TimeLimit::Answer(key) => divert::on_no_answer(self, env, transactions, key),
                TimeLimit::Message(key) => unreached::on_silence(self, env, transactions, key),
            }
        }
    }

    /// Ends the lookups that timed out.
    pub(crate) fn expire_lookups(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        while let Some(query) = self.lookups.expire(env.cx.now) {
            self.on_resolved(env, transactions, query, LocatedServers::NONE);
        }
    }

    /// Applies the effects of the transactions: notices about branches, and the end of contexts.
    pub(crate) fn apply(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        notices: &mut Vec<Notice<Owner>>,
    ) {
        for notice in notices.drain(..) {
            let (client, owner, status) = match notice {
                Notice::ClientTimedOut { client, owner } => (client, owner, 408),
                // RFC 3261 §16.9 has 503 here; without another response the user is not reachable. A closed connection is
                // not dialled again: the peer's address may belong to another host by now.
                Notice::ClientUnreachable { client, owner } => (client, owner, 480),
            };
            let Owner::Branch(id) = owner else { continue };
            // That of an earlier server says nothing of the present one.
            if !self.contexts.branch_mut(id).is_some_and(|branch| branch.state.is_of(client)) {
                continue;
            }
            trunks::note_failed(env, &mut self.contexts, id);
            let reason = if status == 408 { Reason::HopTimeout } else { Reason::HopUnreachable };
            decided::about(env, &self.contexts, id.context(), reason, Detail::None);
            let is_over_flow =
                |context: &ResponseContext| context.is_over_flow() || env.config.is_link(&context.source);
            let flow_is_gone = status == 480 && self.contexts.get(id.context()).is_some_and(is_over_flow);
            let status = if flow_is_gone { 430 } else { status };
            let end = BranchEnd { id, status, response: None, is_superseded: false };
            if !self.fail_over(env, transactions, id) && !self.goes_on(env, transactions, &end) {
                self.on_branch_failure(env, transactions, id, status);
            }
        }
        while let Some(context) = transactions.take_gone() {
            if let Some(ended) = self.contexts.get(context) {
                ended.note_ended(env);
            }
            self.drop_context(env, transactions, context);
        }
    }
}

/// Reason why a request has no target, other than that its user has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoTarget {
    Scheme(SipsMismatch),
    Route(RouteRefusal),
}

fn refuse_untargeted(env: &mut Env<'_>, request: &Request<'_, '_>, why: NoTarget) {
    match why {
        NoTarget::Scheme(why) => refuse_scheme(env, request, why),
        NoTarget::Route(why @ (RouteRefusal::Forbidden | RouteRefusal::TooManyCalls)) => {
            let (status, phrase) = why.response();
            env.refuse_decided(request, status, phrase);
        }
        NoTarget::Route(why @ (RouteRefusal::AllDown | RouteRefusal::NodesDown)) => {
            let (status, phrase) = why.response();
            env.decided(request, Reason::TrunksDown, Detail::None);
            if request.method == Method::Invite {
                env.observe_call(request, CallStep::Failed(status));
            }
            env.refuse(request, status, phrase, |response| {
                response.header_number(HeaderName::RetryAfter, TRUNKS_RETRY_S);
            });
        }
    }
}

/// Refuses a request whose scheme fits no contact of its user (RFC 5630 §5.3).
fn refuse_scheme(env: &mut Env<'_>, request: &Request<'_, '_>, why: SipsMismatch) {
    env.counters.not_registered += 1;
    env.decided(request, Reason::NotRegistered, Detail::Text(why.warning().1));
    if request.method == Method::Invite {
        env.observe_call(request, CallStep::Failed(480));
    }
    let host = env.config.sent_by(request.flow.listener, request.flow.remote.ip());
    let (code, text) = why.warning();
    env.refuse(request, 480, "Temporarily Unavailable", |response| {
        response.header_with(HeaderName::Warning, |out| {
            out.extend_from_slice(code);
            write_host(out, host);
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

/// Seconds after which a request to trunks that are down is worth another attempt.
const TRUNKS_RETRY_S: u64 = 30;
/// Part of a shard's seed that is the key of [`Pending`].
const PENDING_KEY: u64 = 1;
