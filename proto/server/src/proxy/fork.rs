//! Stateful forwarding: 100 Trying, the branches of a request and their targets (RFC 3261 §16.2, §16.6).

use super::call::{Call, Forwarded, Planned};
use super::context::{Branch, BranchState, OverTcp, ResponseContext, Servers};
use super::ends::on_unforwarded_bye;
use super::forward::{Forwarding, Plan};
use super::limits::{branch_cost_of, cost_of};
use super::lookups::Lookup;
use super::reach::{WITHHELD, failed_last, hop_to_target, is_withheld, refusal, take_reachable};
use super::stages;
use super::states::KeptStates;
use super::targets::{StoredTarget, Target, Targets, target_uri};
use super::{Proxy, reach};
use crate::base::{BranchId, Env, Owner, Request, Step, Transactions};
use crate::dialog::route::{NextHop, Routed, preprocess};
use crate::neighbour::Sending;
use crate::report::Report;
use crate::tables::{CallRequest, CallResult, CountedCall};
use crate::token::sender::as_its_sender_has;
use crate::{Detail, Reason};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{DialledId, Flow, LocatedServers, PlantedFault, TimerKey, Transport};
use ringway_sip::{EditSpace, HeaderName, Limits, Message, MessageWriter, Method};
use ringway_transaction::{Allowance, ClientId, DEFAULT_PORT, Outgoing, ServerId, SlabKey, reply_flow};

impl Proxy {
    /// Forwards statefully: 100 to an INVITE, one client transaction for each target, all at once. A call that is `counted` is left to
    /// the context, if there is one.
    pub(super) fn fork(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        mut planned: Planned<'_>,
        counted: &mut Option<Box<CountedCall>>,
    ) {
        let message = request.message;
        let is_new = request.grant.dialog.is_none() && request.grant.above_limits.is_none();
        if is_new && !transactions.has_room_for_new_calls() {
            env.counters.overflow += 1;
            return refuse_now(env, request, "Too Many Transactions");
        }
        let (branches, flows) = (planned.targets.list().len(), planned.targets.flows_len());
        let of_branch = branch_cost_of(message) + stages::bytes_of_branch(env, message);
        let cost = cost_of(message)
            + flows * of_branch
            + planned.targets.rewrite_bytes()
            + env.input.answer_info.len();
        let strangers_user = planned.strangers_user;
        let Some(reserved) = self.pending.reserve(env, request, strangers_user, cost, of_branch) else {
            return refuse_now(env, request, "Too Many Requests Under Way");
        };
        let is_invite = request.method == Method::Invite;
        let reply = reply_flow(message.via(), request.flow);
        let port = message.via().port.unwrap_or(DEFAULT_PORT);
        let key = self.contexts.next_key();
        let match_key = request.key.unwrap_or_else(|| transactions.key_of(message));
        let Some(server) = transactions.start_server(match_key, is_invite, reply, port, key) else {
            env.counters.overflow += 1;
            self.pending.release(env, reserved, strangers_user);
            return refuse_now(env, request, "Too Many Transactions");
        };
        if !request.is_verified() {
            transactions.limit(server, Allowance::for_request(message.as_bytes().len()));
        }
        let mut context =
            ResponseContext::new(server, request, reserved, strangers_user, env.cx.now, branches);
        if !env.input.answer_info.is_empty() {
            context.answer_info = env.input.answer_info.as_slice().into();
        }
        if let Some(counted) = counted.take() {
            context.states.keep(counted);
        }
        if let Some(user) = planned.leaves_by {
            self.pending.begin_leaving(user);
            context.leaves_by = Some(user);
        }
        let first = {
            let call = &mut Call { env, request, routed, pending: &mut self.pending };
            let (context, timers) = (&mut context, &mut self.groups);
            stages::begin(call, &mut planned, &mut Forwarded { context, key, timers, is_answered: false })
        };
        let targets = &*planned.targets;
        let key = self.contexts.insert(context);
        if is_invite {
            env.cx.out.keep(&request.flow, env.cx.now + env.config.timer_c);
            // RFC 3261 §16.2: so that the caller stops retransmitting. Over a link nothing is retransmitted, and the first response of the
            // phone replaces it: it usually follows within the time that §17.2.1 permits.
            if !env.config.is_link(&request.flow) {
                answer_trying(env, transactions, server, message, request.flow);
            }
        }
        for target in targets.list().iter().take(first) {
            self.start_branch(env, transactions, key, Forwarding { request, routed, targets }, target);
        }
        self.with_call(env, transactions, key, request, routed, |call, forwarded| {
            stages::started(call, forwarded);
        });
        self.finish_if_done(env, transactions, key);
    }

    /// Answers the INVITE of another node with 100 because the first response of its target is one: the node gives up after 64·T1
    /// without a response, as this one does, and can cancel only after one.
    pub(super) fn answer_first_response(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
    ) {
        let Some(context) = self.contexts.get(key).filter(|context| context.is_invite) else { return };
        let Some(bytes) = context.request.as_deref().filter(|_| env.config.is_link(&context.source)) else {
            return;
        };
        if let Ok(message) = &Message::parse(bytes, &Limits::STORED) {
            answer_trying(env, transactions, context.server, message, context.source);
        }
    }

    /// Calls `act` with a request and its context.
    fn with_call<T>(
        &mut self,
        env: &mut Env<'_>,
        transactions: &Transactions,
        key: SlabKey,
        request: &Request<'_, '_>,
        routed: &Routed<'_>,
        act: impl FnOnce(&mut Call<'_, '_>, &mut Forwarded<'_>) -> T,
    ) -> Option<T> {
        let context = self.contexts.get_mut(key)?;
        let is_answered = transactions.is_answered(context.server);
        let call = &mut Call { env, request, routed, pending: &mut self.pending };
        Some(act(call, &mut Forwarded { context, key, timers: &mut self.groups, is_answered }))
    }

    /// Decision of a stage about a stored request; that to pass if the request is gone.
    pub(super) fn decide<N: Default>(
        &mut self,
        env: &mut Env<'_>,
        transactions: &Transactions,
        key: SlabKey,
        decide: impl FnOnce(&mut Call<'_, '_>, &mut Forwarded<'_>) -> N,
    ) -> N {
        let Some(bytes) = self.contexts.get(key).and_then(|context| context.request.clone()) else {
            return N::default();
        };
        let mut next = N::default();
        self.with_stored(env, key, &bytes, |proxy, env, request, routed| {
            if let Some(decided) = proxy.with_call(env, transactions, key, request, routed, decide) {
                next = decided;
            }
        });
        next
    }

    /// Calls new targets of a context: those of the highest q-value now, the others later.
    pub(super) fn start_targets(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
        targets: Vec<StoredTarget>,
    ) {
        if targets.is_empty() {
            return;
        }
        let Some(bytes) = self.contexts.get(key).and_then(|context| context.request.clone()) else { return };
        self.with_stored(env, key, &bytes, |proxy, env, request, routed| {
            let first = proxy.with_call(env, transactions, key, request, routed, |call, forwarded| {
                stages::take_first(call, forwarded, targets)
            });
            let mut set = Targets::default();
            first.iter().flatten().for_each(|target| set.push_stored(target));
            let forwarding = Forwarding { request, routed, targets: &set };
            for target in set.list() {
                proxy.start_branch(env, transactions, key, forwarding, target);
            }
            proxy.with_call(env, transactions, key, request, routed, |call, forwarded| {
                stages::started(call, forwarded);
            });
        });
    }

    fn start_branch(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        key: SlabKey,
        forwarding: Forwarding<'_, '_, '_>,
        target: &Target,
    ) {
        let Forwarding { request, routed, targets } = forwarding;
        let hop = match target_uri(targets, target, routed) {
            Some(uri) => hop_to_target(env, request.grant.reach, routed, target, &uri),
            None => NextHop::Unreachable,
        };
        let Some(context) = self.contexts.get_mut(key) else { return };
        let number = context.branches.len();
        let id = BranchId::new(key, number);
        let mut branch = Branch {
            state: BranchState::Done,
            timer_c: TimerKey::NONE,
            dialled: DialledId::SHARED,
            share: target.share,
            authority: target.authority,
            target: None,
            is_of_binding: !target.keeps_uri && target.configured_hop().is_none(),
            servers: None,
            over_tcp: None,
            caller_cseq: None,
            came: None,
            states: stages::begin_branch(env, target),
        };
        if stages::may_repeat(env, request, target) {
            branch.target = Some(Box::new(targets.stored(target)));
        }
        if !context.states.is_empty()
            && let Some(number) = stages::awaited_number(&mut context.states)
        {
            let query = self.lookups.start_number(&mut env.cx, *number, id);
            branch.state = BranchState::Resolving { query };
            return context.branches.push(branch);
        }
        match hop {
            NextHop::Flow(flow) => {
                context.branches.push(branch);
                let plan = Plan::new(env, forwarding, target, flow);
                self.send_branch(env, transactions, id, &plan);
            }
            NextHop::Name(host) => {
                // A peer must not use up the lookups of what the configuration names.
                let source = target.configured_hop().is_none().then(|| request.client(env.config));
                env.decided(request, Reason::Resolving, Detail::Text(host.parts().1.as_bytes()));
                let lookup = Lookup::Branch(id);
                let query = self.lookups.start(&mut env.cx, host, request.message, source, lookup);
                branch.target = Some(Box::new(targets.stored(target)));
                branch.state = BranchState::Resolving { query };
                context.branches.push(branch);
            }
            NextHop::Unreachable => {
                context.branches.push(branch);
                env.decided(request, Reason::NotSent, Detail::None);
                context.fail_branch(number, 480);
            }
        }
    }

    /// False for a branch that is refused, or that a stage holds.
    #[inline]
    fn may_send(&mut self, env: &mut Env<'_>, id: BranchId, plan: &Plan<'_, '_, '_>) -> bool {
        let Some(context) = self.contexts.get_mut(id.context()) else { return false };
        if let Some((status, phrase)) = refusal(env, plan) {
            context.refuse_branch(id.parts().1, status, phrase);
            return false;
        }
        if stages::holds(env, context, &mut self.lookups, id, plan) {
            return false;
        }
        let exceeds = env.features.call_limits() && stages::exceeds(env, context, id, plan);
        if exceeds {
            context.fail_branch(id.parts().1, 503);
        } else if env.features.peer_control() && is_withheld(env, plan) {
            env.counters.requests_withheld += 1;
            env.decided(plan.request(), Reason::Withheld, Detail::Flow(plan.flow()));
            context.refuse_branch(id.parts().1, 503, WITHHELD);
            return false;
        }
        !exceeds
    }

    fn send_branch(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        plan: &Plan<'_, '_, '_>,
    ) {
        if !self.may_send(env, id, plan) {
            return;
        }
        let (key, number) = id.parts();
        let request = plan.request();
        let is_invite = request.method == Method::Invite;
        let Sending { flow, offers_alias } =
            match env.sending_flow(plan.flow(), request.message, CallRequest::of(request.method)) {
                Ok(sending) => sending,
                Err(status) => {
                    env.decided(request, Reason::NotSent, Detail::Flow(plan.flow()));
                    if let Some(context) = self.contexts.get_mut(key) {
                        context.fail_branch(number, status);
                    }
                    return;
                }
            };
        let space = &mut self.space;
        let outgoing = Outgoing { flow, is_invite, owner: Owner::Branch(id) };
        let branch = self.contexts.get(key).and_then(|context| context.branches.get(number));
        let mut changes = stages::change(env, &mut self.memory, plan, branch);
        let came = changes.as_ref().and_then(|changes| changes.came.clone()).map(Box::new);
        let hidden = changes.as_mut().and_then(|changes| changes.hidden.take());
        let changed;
        let plan = match &changes {
            Some(changes) => {
                changed = plan.with(changes);
                &changed
            }
            None => plan,
        };
        let mut client = start_client(env, transactions, outgoing, offers_alias, plan, space);
        let over = client.and_then(|sent| self.send_over_tcp(env, transactions, sent, outgoing, plan));
        let datagrams = over.map(|_| flow);
        if let Some((long, _)) = over {
            client = long;
        }
        let flow = over.map_or(flow, |(_, flow)| flow);
        let caller_cseq = plan.caller_cseq();
        reach::charge(env, plan, &flow);
        let Some(context) = self.contexts.get_mut(key) else { return };
        let Some(client) = client else {
            env.counters.overflow += 1;
            env.end_call_request(flow.dialled, CallResult::Other);
            return context.fail_branch(number, 503);
        };
        let is_link = env.config.is_link(&flow);
        env.report_over(request, &flow, Report::Forwarded { flow, is_link });
        if let Some(original) = &context.request {
            transactions.share(client, original);
        }
        let has_timer_c = is_invite && !PlantedFault::NoTimerC.is_planted();
        let timer_c =
            if has_timer_c { self.timer_c.arm(env.cx.now + env.config.timer_c, id) } else { TimerKey::NONE };
        if let Some(branch) = context.branches.get_mut(number) {
            branch.state = BranchState::Sent { client, rings: false };
            branch.timer_c = timer_c;
            branch.dialled = flow.dialled;
            branch.caller_cseq = caller_cseq;
            branch.came = came;
            branch.states.hidden = hidden;
            branch.over_tcp = None;
            if let Some(datagrams) = datagrams {
                let connecting = self.connecting.arm(env.cx.now + CONNECT_TIME, id);
                branch.over_tcp = Some(Box::new(OverTcp { datagrams, connecting }));
                branch.target.get_or_insert_with(|| Box::new(plan.stored_target()));
            }
        }
    }

    /// RFC 3261 §18.1.1: sends the last packet, a request that is too long for a datagram, over TCP instead. `None`: it stays as it is.
    fn send_over_tcp(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        sent: ClientId,
        outgoing: Outgoing<Owner>,
        plan: &Plan<'_, '_, '_>,
    ) -> Option<(Option<ClientId>, Flow)> {
        let is_short = env.cx.out.last_bytes().len() <= env.config.datagram_bytes_max as usize;
        if is_short || outgoing.flow.transport != Transport::Udp {
            return None;
        }
        let Some(flow) = plan.over_tcp(env) else {
            if !env.config.is_own_address(outgoing.flow.remote) {
                env.counters.long_in_datagrams += 1;
                env.decided(plan.request(), Reason::NoTcp, Detail::None);
            }
            return None;
        };
        env.decided(plan.request(), Reason::LongOverTcp, Detail::Flow(flow));
        let space = &mut self.space;
        env.cx.out.drop_last();
        transactions.drop_client(sent);
        env.counters.long_over_tcp += 1;
        let outgoing = Outgoing { flow, ..outgoing };
        let client = start_client(env, transactions, outgoing, false, &plan.over(&flow), space);
        Some((client, flow))
    }

    /// Handles the result of a branch's lookup.
    pub(super) fn on_branch_resolved(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        query: u64,
        servers: LocatedServers,
    ) {
        let (key, number) = id.parts();
        let Some(context) = self.contexts.get_mut(key) else { return };
        let Some(branch) = context.branches.get_mut(number) else { return };
        if branch.state != (BranchState::Resolving { query }) {
            return;
        }
        branch.state = BranchState::Done;
        let servers = failed_last(env, servers);
        let (reason, detail) = match servers.iter().count() {
            0 => (Reason::NotResolved, Detail::None),
            count => (Reason::Resolved, Detail::Count(count)),
        };
        self.contexts.decided(env, key, reason, detail);
        if !self.send_to_first(env, transactions, id, servers)
            && let Some(context) = self.contexts.get_mut(key)
        {
            context.fail_branch(number, 480);
        }
        self.finish_if_done(env, transactions, key);
    }

    /// Sends a branch with the stored request.
    pub(super) fn send_stored(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        flow: Flow,
    ) {
        let (key, number) = id.parts();
        let Some(context) = self.contexts.get(key) else { return };
        let received = context.request.clone().unwrap_or_default();
        let replaced = stages::replaced(context, number);
        let bytes = replaced.as_deref().unwrap_or(&received);
        self.with_stored(env, key, bytes, |proxy, env, request, routed| {
            let branch = proxy.contexts.get(key).and_then(|context| context.branches.get(number));
            let Some(target) = branch.and_then(|branch| branch.target.as_deref()) else { return };
            let targets = Targets::of_one(target);
            if let Some(target) = targets.list().first() {
                let forwarding = Forwarding { request, routed, targets: &targets };
                let plan = Plan::new(env, forwarding, target, flow);
                proxy.send_branch(env, transactions, id, &plan);
            }
        });
    }

    /// Sends a branch whose pause has passed.
    pub(super) fn send_again(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        flow: Flow,
    ) {
        let Some(branch) = self.contexts.branch_mut(id) else { return };
        // It ends if it cannot be sent.
        branch.state = BranchState::Done;
        self.send_stored(env, transactions, id, flow);
        self.finish_if_done(env, transactions, id.context());
    }

    /// Calls `send` with the stored request of a context; `bytes` may be those of a stage.
    pub(super) fn with_stored(
        &mut self,
        env: &mut Env<'_>,
        key: SlabKey,
        bytes: &[u8],
        send: impl for<'a> FnOnce(&mut Self, &mut Env<'_>, &Request<'_, 'a>, &Routed<'a>),
    ) {
        let Some(context) = self.contexts.get(key) else { return };
        let (flow, grant, call) = (context.source, context.grant, context.call.as_deref().copied());
        if let Ok(message) = &Message::parse(bytes, &Limits::STORED)
            && let Some(request) = Request::of(message, flow, grant)
            && let Ok(routed) = preprocess(env.config, &env.keys.route, message, request.uri)
        {
            send(self, env, &Request { call: call.as_ref(), ..request }, &routed);
        }
    }

    /// Sends a branch to the first of the servers that can be reached. False: there is none.
    pub(super) fn send_to_first(
        &mut self,
        env: &mut Env<'_>,
        transactions: &mut Transactions,
        id: BranchId,
        mut servers: LocatedServers,
    ) -> bool {
        let Some(context) = self.contexts.get_mut(id.context()) else { return false };
        if let Some(branch) = context.branches.get(id.parts().1) {
            servers = stages::permitted(env.config, branch.authority, servers);
        }
        let Some((current, flow)) = take_reachable(env, context.grant.reach, &mut servers) else {
            return false;
        };
        if let Some(branch) = self.contexts.branch_mut(id) {
            branch.servers = Some(Box::new(Servers { current, left: servers }));
        }
        self.send_stored(env, transactions, id, flow);
        true
    }
}

/// Starts the transaction of a request; `None`: there are too many, or it cannot be written safely.
fn start_client(
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    outgoing: Outgoing<Owner>,
    offers_alias: bool,
    plan: &Plan<'_, '_, '_>,
    space: &mut EditSpace,
) -> Option<ClientId> {
    let mut skipped = 0;
    let steps = &mut env.input.steps;
    let client = transactions.start_client(&mut env.cx, outgoing, |arena, branch| {
        steps.mark(Step::Rest);
        skipped = plan.write(space, branch, offers_alias, arena);
        steps.mark(Step::Format);
    });
    env.counters.header_changes_skipped += skipped;
    client
}

fn refuse_now(env: &mut Env<'_>, request: &Request<'_, '_>, phrase: &str) {
    on_unforwarded_bye(env, request);
    env.report(request, Report::OverLimit { phrase });
    env.reply(request, 503, phrase, |response| {
        response.header_number(HeaderName::RetryAfter, 5);
    });
}

/// Answers an INVITE that was accepted with 100 Trying.
fn answer_trying(
    env: &mut Env<'_>,
    transactions: &mut Transactions,
    server: ServerId,
    message: &Message<'_>,
    source: Flow,
) {
    env.mark(Step::Rest);
    as_its_sender_has(env.config, &env.keys.route, &env.keys.hidden, message, &source, |message| {
        transactions.respond(&mut env.cx, server, 100, |arena| {
            let _ = MessageWriter::answer(arena, message, 100, "Trying", source.remote, None).finish();
        });
    });
    env.mark(Step::Format);
}

/// Time in which the TCP connection for a long request is to be established.
const CONNECT_TIME: Duration = Duration::from_secs(1);
