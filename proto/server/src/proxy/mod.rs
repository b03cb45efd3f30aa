//! Proxy (RFC 3261 §16): target set, forking, response context.

mod call;
mod context;
mod ends;
mod fork;
mod forward;
mod limits;
mod lookups;
mod media;
mod plan;
mod reach;
mod response;
mod rewrite;
mod stages;
mod stateless;
mod states;
mod targets;

pub use context::RingingCall;
pub(crate) use states::{Candidate, Released};
pub(crate) use targets::{BindingHop, hop_to_binding};

use crate::Aor;
use crate::base::{BranchId, Env, Request, Response, Transactions};
use crate::dialog::route::Routed;
use crate::location::LocationTable;
use alloc::boxed::Box;
use alloc::vec::Vec;
use call::{Answer, Call, CallNext, Forwarded, MessageStep, Planned};
use context::{BranchState, Contexts};
use forward::Forwarding;
use limits::Pending;
pub(crate) use lookups::Lookups;
use lookups::{Lookup, StoredResponse};
use ringway_sansio::{Flow, Instant, LocatedServers, RelayResult, Seed, Wheel};
use ringway_sip::{EditSpace, Limits, Message, Method};
use ringway_transaction::StatelessBranch;
use stages::Memory;
use stateless::{Parts, Stateless};
use states::{States, TimeLimit};
use targets::Targets;

/// Proxy of one shard, with the requests that are being forwarded.
pub(crate) struct Proxy {
    contexts: Contexts,
    /// Timer C of the branches of INVITEs (RFC 3261 §16.8).
    timer_c: Wheel<BranchId>,
    /// Time limits of the running groups of targets, and of answers.
    groups: Wheel<TimeLimit>,
    /// Branches whose connections are being established.
    connecting: Wheel<BranchId>,
    lookups: Lookups,
    pending: Pending,
    /// Buffer for the target set of a request.
    targets: Targets,
    memory: Memory,
    /// Messages that no phone took.
    released: Vec<Released>,
    space: EditSpace,
    stateless: Stateless,
}

impl Proxy {
    pub(crate) fn new(seed: &Seed, now: Instant) -> Self {
        Self {
            contexts: Contexts::default(),
            timer_c: Wheel::new(now),
            groups: Wheel::new(now),
            connecting: Wheel::new(now),
            lookups: Lookups::new(seed, now),
            pending: Pending::new(&seed.part(PENDING_KEY)),
            targets: Targets::default(),
            memory: Memory::default(),
            released: Vec::new(),
            space: EditSpace::default(),
            stateless: Stateless::default(),
        }
    }

    /// Forgets which trunks pending requests were sent to. Another trunk may have the number now: it must not get a call that was not
    /// routed to it, nor may its password be used for the answer to a challenge of the former one.
    pub(crate) fn forget_trunks(&mut self) {
        for key in self.contexts.keys() {
            let Some(context) = self.contexts.get_mut(key) else { continue };
            let timers = &mut self.groups;
            stages::forget_trunks(&mut Forwarded { context, key, timers, is_answered: false });
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

    /// Times of the next timer C, the next end of a group of targets, of a connection that is established, and of a lookup, with their
    /// reasons.
    pub(crate) fn next_due(&self) -> [(Option<Instant>, &'static str); 4] {
        [
            (self.timer_c.next_due(), "timer C: no final response"),
            (self.groups.next_due(), "the next group of targets, or a forward, is called"),
            (self.connecting.next_due(), "a connection for a long request is not established"),
            (self.lookups.deadlines.next_due(), "a DNS server or a media relay did not answer"),
        ]
    }

    pub(crate) const fn has_released(&self) -> bool {
        cfg!(feature = "events") && !self.released.is_empty()
    }

    /// Messages that no phone took since the last call.
    pub(crate) fn take_released(&mut self) -> Vec<Released> {
        core::mem::take(&mut self.released)
    }

    /// Forwards a request that the access rules allow. One that may be kept, and whose user has no phone, is returned.
    pub(crate) fn forward(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        table: &LocationTable,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        candidate: Option<Candidate>,
    ) -> Option<Candidate> {
        let mut targets = core::mem::take(&mut self.targets);
        targets.clear();
        let mut planned = Planned {
            targets: &mut targets,
            states: States::new(),
            aor: Aor::default(),
            is_one_phone: false,
            leaves_by: None,
            strangers_user: None,
        };
        let is_stateless = !env.config.stateful || request.method == Method::Ack;
        let mut counted = None;
        if env.features.caller_limits() {
            match stages::admit(env, request) {
                Ok(admitted) => counted = admitted,
                Err(answer) => {
                    plan::answer(env, request, answer);
                    self.targets = targets;
                    return None;
                }
            }
        }
        let call = &mut Call { env, request, routed, pending: &mut self.pending };
        let mut absent = None;
        if !plan::plan(call, table, &mut planned, is_stateless) {
        } else if planned.targets.list().is_empty() {
            absent = candidate;
            if absent.is_none() {
                env.refuse_absent(request, &planned.aor);
            }
        } else if is_stateless {
            let forwarding = Forwarding { request, routed, targets: planned.targets };
            let Self { stateless, lookups, memory, .. } = self;
            stateless.forward(env, &mut Parts { transactions, lookups, memory }, forwarding);
        } else {
            stages::keep_candidate(&mut planned, candidate);
            self.fork(env, transactions, request, routed, planned, &mut counted);
        }
        stages::abandon(env, counted);
        self.targets = targets;
        absent
    }

    /// Removes our Via from a response without a transaction and sends it to the next one.
    pub(crate) fn forward_stateless_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &Transactions,
        response: &Response<'_, '_>,
        branch: &StatelessBranch,
    ) {
        self.stateless.forward_response(env, transactions, response, branch);
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
                let Self { stateless, lookups, memory, .. } = self;
                stateless.forward_waiting(
                    env,
                    &mut Parts { transactions, lookups, memory },
                    &waiting,
                    servers,
                );
            }
            Some(_) if !cfg!(feature = "operator") => {}
            Some(Lookup::Number(id)) => self.on_number(env, transactions, id, query, &[]),
            Some(Lookup::Offer(id, flow)) => self.on_offer_relayed(env, transactions, id, flow, None),
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
            self.on_number(env, transactions, id, query, uris);
        }
    }

    /// Handles the result of the lookup of the number that a branch waits for.
    fn on_number(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        query: u64,
        uris: &[Box<str>],
    ) {
        let Some(branch) = self.contexts.branch_mut(id) else { return };
        if branch.state != (BranchState::Resolving { query }) {
            return;
        }
        branch.state = BranchState::Done;
        let (key, share) = (id.context(), branch.share);
        let next = self.decide(env, transactions, key, |call, forwarded| {
            stages::number_found(call, forwarded, share, uris)
        });
        match next {
            // The request was readable when it came.
            CallNext::Pass => {
                let answer = Answer::new(500, "Server Internal Error");
                self.answer_caller(env, transactions, key, answer);
            }
            next => self.follow(env, transactions, key, next),
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
            Some(Lookup::Offer(id, flow)) => self.on_offer_relayed(env, transactions, id, flow, result),
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
        id: BranchId,
        flow: Flow,
        result: Option<RelayResult>,
    ) {
        let Some(context) = self.contexts.get_mut(id.context()) else { return };
        if stages::offered(env, context, id, result) {
            self.send_stored(env, transactions, id, flow);
        }
        self.finish_if_done(env, transactions, id.context());
    }

    /// Handles a stored response with the result of a media relay; `None`: no relay has it.
    fn on_answer_relayed(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        query: u64,
        stored: &StoredResponse,
        result: Option<RelayResult>,
    ) {
        let Ok(message) = Message::parse(&stored.bytes, &Limits::STORED) else { return };
        let StoredResponse { branch: id, status, flow, sent_to, .. } = stored;
        let Some(context) = self.contexts.get_mut(id.context()) else { return };
        let response = Response { message: &message, status: *status, flow, sent_to: sent_to.as_ref() };
        match stages::answered(env, context, query, *id, &response, result) {
            MessageStep::Pass => self.on_passed(env, transactions, *id, &response),
            MessageStep::Replace(bytes) => self.on_replaced(env, transactions, *id, &response, &bytes),
            MessageStep::Wait => {}
        }
    }

    /// Ends the lookups that timed out.
    pub(crate) fn expire_lookups(&mut self, env: &mut Env<'_>, transactions: &mut Transactions) {
        while let Some(query) = self.lookups.deadlines.expire(env.cx.now) {
            self.on_resolved(env, transactions, query, LocatedServers::NONE);
        }
    }
}

/// Part of a shard's seed that is the key of [`Pending`].
const PENDING_KEY: u64 = 1;
