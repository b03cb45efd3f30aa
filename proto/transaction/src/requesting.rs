//! Client side of [`Transactions`]: sent requests, their CANCEL and ACK, and the responses to them.

use crate::client::{self, Cancel, Client, ClientId, Outgoing, StoredRequest, write_ack, write_cancel};
use crate::layer::{Answer, Notice, Transactions, client_token, recycle};
use crate::slab::SlabKey;
use crate::state::{Class, ClientEvent, Effect, Step, Timer, invite_client, non_invite_client};
use crate::timers::{Clock, Due, Side};
use crate::via::{Branch, has_unique, write_unique};
use alloc::sync::Arc;
use alloc::vec::Vec;
use ringway_sansio::{Context, Defence, Flow, IcmpError, Outbox, PlantedFault, Token, Wheel};
use ringway_sip::{Message, Method};

impl<S: Copy, C: Copy> Transactions<S, C> {
    /// Sends a request in a new client transaction. `write` gets the branch for the Via; if it writes nothing, no
    /// transaction is started. `None`: the limit is reached, or nothing was written.
    pub fn start_client<A>(
        &mut self,
        cx: &mut Context<'_, A>,
        outgoing: Outgoing<C>,
        write: impl FnOnce(&mut Vec<u8>, &[u8]),
    ) -> Option<ClientId> {
        if self.clients.len() >= self.limits.clients_max {
            self.counters.transactions_refused += 1;
            return None;
        }
        let slot = self.clients.next_key();
        self.branch.clear();
        let unique = self.next_unique;
        self.next_unique = unique.wrapping_add(1);
        self.branch_key.write_transaction(self.shard, slot, &mut self.branch);
        write_unique(unique, &mut self.branch);
        let before = cx.out.len();
        let branch = &self.branch;
        cx.out.send_with(outgoing.flow, client_token(self.shard, slot), |arena| write(arena, branch));
        if cx.out.len() == before {
            return None;
        }
        let mut request = self.spare.pop().unwrap_or_default();
        request.extend_from_slice(cx.out.last_bytes());
        let step = client::Machine::start(outgoing.is_invite, outgoing.flow.transport.is_reliable());
        let slot = self.clients.insert(Client {
            machine: step.state,
            flow: outgoing.flow,
            owner: outgoing.owner,
            unique,
            request: StoredRequest::new(request),
            is_acknowledged: false,
            clock: Clock::STOPPED,
            cancel: Cancel::NotWanted,
            reason: None,
        });
        // The request has been sent.
        let effects = step.effects.strip_prefix(&[Effect::Send]).unwrap_or(step.effects);
        self.apply_client(cx, slot, &Step { effects, ..step }, None, &mut Vec::new());
        Some(ClientId(slot))
    }

    /// Shares the bytes that the request has in common with `original`, the received request of all branches.
    pub fn share(&mut self, id: ClientId, original: &Arc<[u8]>) {
        if let Some(client) = self.clients.get_mut(id.0) {
            client.request.share(original);
        }
    }

    /// Matches a response to its client transaction and runs the transaction. The ACK of a failed INVITE is sent here.
    ///
    /// `is_peer` gets the flow of the request and returns true if the response came from there; a response from another
    /// address is [`Answer::Elsewhere`] and changes nothing.
    pub fn receive_response<A>(
        &mut self,
        cx: &mut Context<'_, A>,
        message: &Message<'_>,
        status: u16,
        is_peer: impl FnOnce(&Flow) -> bool,
    ) -> Answer<C> {
        let slot = match self.branch_key.read(message) {
            Some(Branch::Transaction { shard, key }) if shard == self.shard => key,
            Some(Branch::Stateless(branch)) => return Answer::Stateless(branch),
            Some(Branch::Transaction { .. }) | None => {
                self.counters.stray_responses += 1;
                return Answer::Stray;
            }
        };
        let Some(client) = self.clients.get_mut(slot) else {
            self.counters.stray_responses += 1;
            return Answer::Stray;
        };
        // The key may be that of an earlier transaction, even from before a restart; the response is then for that one.
        if !message.via().branch.is_some_and(|branch| has_unique(branch, client.unique)) {
            self.counters.stray_responses += 1;
            return Answer::Stray;
        }
        if !is_peer(&client.flow) && Defence::ResponseSource.is_on() {
            return Answer::Elsewhere;
        }
        let is_invite = matches!(client.machine, client::Machine::Invite(_));
        let class = Class::of(status);
        if is_invite && message.method() == Method::Cancel {
            self.step_cancel(cx, slot, ClientEvent::Response(class));
            return Answer::Absorbed;
        }
        if is_invite != (message.method() == Method::Invite) {
            self.counters.stray_responses += 1;
            return Answer::Stray;
        }
        let owner = client.owner;
        let step = client.machine.on(ClientEvent::Response(class), client.flow.transport.is_reliable());
        let is_passed = self.apply_client(cx, slot, &step, Some(message), &mut Vec::new());
        self.settle_client(slot, step.state);
        if class == Class::Provisional {
            self.send_wanted_cancel(cx, slot);
        }
        if is_passed { Answer::Pass { client: ClientId(slot), owner } } else { Answer::Absorbed }
    }

    /// Cancels an INVITE: at once if a provisional response was received, else after the first one (RFC 3261 §9.1).
    ///
    /// Returns true while the transaction is pending: a final response or a notice follows.
    pub fn cancel<A>(&mut self, cx: &mut Context<'_, A>, id: ClientId) -> bool {
        let Some(client) = self.clients.get_mut(id.0) else { return false };
        let client::Machine::Invite(state) = client.machine else { return true };
        match (state, client.cancel) {
            (invite_client::State::Calling, Cancel::NotWanted) => client.cancel = Cancel::Wanted,
            (invite_client::State::Proceeding, Cancel::NotWanted) => {
                client.cancel = Cancel::Wanted;
                self.send_wanted_cancel(cx, id.0);
            }
            (invite_client::State::Calling | invite_client::State::Proceeding, _) => {}
            (
                invite_client::State::Completed
                | invite_client::State::Accepted
                | invite_client::State::Terminated,
                _,
            ) => return false,
        }
        true
    }

    /// Sets the values of Reason for the CANCEL of an INVITE (RFC 3326 §2), each with a line feed behind it. They have no
    /// other control characters. A CANCEL that was sent keeps its own.
    pub fn set_reason(&mut self, id: ClientId, reason: &Arc<[u8]>) {
        if let Some(client) = self.clients.get_mut(id.0)
            && client.cancel == Cancel::NotWanted
        {
            client.reason = Some(Arc::clone(reason));
        }
    }

    /// Ends a client transaction without a notice, because its connection is closed.
    pub fn drop_client(&mut self, id: ClientId) {
        self.remove_client(id.0);
    }

    /// Handles an ICMP error (RFC 3261 §18.4): the transaction of the quoted request fails with a transport error.
    ///
    /// The request must be quoted with its branch, which only those can do who saw it, and have been sent to the address of
    /// the error; no response may have been received. The error of the first transmission is ignored, so that a peer that is
    /// just starting gets the retransmission after T1.
    pub fn icmp_error<A>(
        &mut self,
        cx: &mut Context<'_, A>,
        error: IcmpError<'_>,
        notices: &mut Vec<Notice<C>>,
    ) {
        let Some((Branch::Transaction { shard, key }, branch)) = self.branch_key.read_quoted(error.quoted)
        else {
            return;
        };
        let Some(client) = self.clients.get_mut(key).filter(|_| shard == self.shard) else { return };
        if has_unique(branch, client.unique)
            && client.flow == error.flow
            && client.machine.is_unanswered()
            && client.clock.interval > self.timers.t1
        {
            self.counters.icmp_failures += 1;
            self.step_client_alone(cx, key, ClientEvent::TransportError, notices);
        }
    }

    /// Runs a step of a client transaction for a timer or a transport error.
    pub(crate) fn step_client_alone<A>(
        &mut self,
        cx: &mut Context<'_, A>,
        slot: SlabKey,
        event: ClientEvent,
        notices: &mut Vec<Notice<C>>,
    ) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        let (id, owner) = (ClientId(slot), client.owner);
        // RFC 3261 §9.1: the INVITE transaction ends 64·T1 after its CANCEL, with or without a final response.
        let is_cancelled = matches!(client.cancel, Cancel::Sent { .. });
        if is_cancelled && event == ClientEvent::Timer(Timer::B) {
            self.counters.client_timeouts += 1;
            notices.push(Notice::ClientTimedOut { client: id, owner });
            self.remove_client(slot);
            return;
        }
        let step = client.machine.on(event, client.flow.transport.is_reliable());
        self.apply_client(cx, slot, &step, None, notices);
        self.settle_client(slot, step.state);
    }

    /// Applies a step of a client transaction; `response` is the message that caused it. Returns true if the response is
    /// to be passed to the owner.
    fn apply_client<A>(
        &mut self,
        cx: &mut Context<'_, A>,
        slot: SlabKey,
        step: &Step<client::Machine>,
        response: Option<&Message<'_>>,
        notices: &mut Vec<Notice<C>>,
    ) -> bool {
        let Some(client) = self.clients.get_mut(slot) else { return false };
        let (id, owner) = (ClientId(slot), client.owner);
        let due = |timer| Due { of: Side::Client, key: slot, timer };
        let mut is_passed = false;
        for &effect in step.effects {
            match effect {
                Effect::Start(Timer::B | Timer::F) if PlantedFault::NoTimeout.is_planted() => {}
                Effect::Start(timer) => {
                    client.clock.start(&mut self.wheel, cx.now, self.timers.length(timer), due(timer));
                }
                Effect::Repeat(timer) => {
                    let interval = match step.state {
                        client::Machine::Invite(_) => self.timers.next_interval(timer, client.clock.interval),
                        client::Machine::NonInvite(state) => {
                            self.timers.interval_after(timer, client.clock.interval, state)
                        }
                    };
                    client.clock.repeat(&mut self.wheel, cx.now, interval, due(timer));
                }
                Effect::StopRetransmitting => client.clock.stop_retransmission(&mut self.wheel),
                Effect::StopWaiting => client.clock.stop_waiting(&mut self.wheel),
                Effect::Send => {
                    self.counters.requests_retransmitted += 1;
                    let token = client_token(self.shard, slot);
                    cx.out.send_with(client.flow, token, |arena| client.request.write(arena));
                }
                Effect::SendAck => {
                    if let Some(response) = response.filter(|_| !PlantedFault::AckForgotten.is_planted()) {
                        send_ack(client, response, cx.out);
                    }
                }
                Effect::PassUp => is_passed = true,
                Effect::ReportTimeout => {
                    self.counters.client_timeouts += 1;
                    notices.push(Notice::ClientTimedOut { client: id, owner });
                }
                Effect::ReportTransportError => notices.push(Notice::ClientUnreachable { client: id, owner }),
            }
        }
        is_passed
    }

    fn settle_client(&mut self, slot: SlabKey, state: client::Machine) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        client.machine = state;
        if state.is_over() {
            self.remove_client(slot);
            return;
        }
        if state.is_answered() {
            // RFC 3261 §9.1: there is nothing left to cancel.
            end_cancel(&mut self.wheel, client);
        }
        if state.is_done_with_request() {
            recycle(&mut self.spare, client.request.take_buffer());
        }
    }

    fn remove_client(&mut self, slot: SlabKey) {
        if let Some(mut client) = self.clients.remove(slot) {
            client.clock.stop(&mut self.wheel);
            end_cancel(&mut self.wheel, &mut client);
            recycle(&mut self.spare, client.request.take_buffer());
        }
    }

    fn send_wanted_cancel<A>(&mut self, cx: &mut Context<'_, A>, slot: SlabKey) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        if client.cancel != Cancel::Wanted {
            return;
        }
        cx.out.send_with(client.flow, Token::NONE, |arena| {
            write_cancel(&client.request.bytes(), client.reason.as_deref(), arena)
        });
        let reliable = client.flow.transport.is_reliable();
        let due = |timer| Due { of: Side::CancelOfClient, key: slot, timer };
        let mut clock = Clock::STOPPED;
        for timer in [Timer::E, Timer::F] {
            if !(reliable && timer.is_retransmission()) {
                clock.start(&mut self.wheel, cx.now, self.timers.length(timer), due(timer));
            }
        }
        client.cancel = Cancel::Sent { state: non_invite_client::State::Trying, clock };
        let due = Due { of: Side::Client, key: slot, timer: Timer::B };
        client.clock.start(&mut self.wheel, cx.now, self.timers.length(Timer::B), due);
    }

    pub(crate) fn step_cancel<A>(&mut self, cx: &mut Context<'_, A>, slot: SlabKey, event: ClientEvent) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        let Cancel::Sent { state, clock } = &mut client.cancel else { return };
        let step = non_invite_client::on(*state, event, client.flow.transport.is_reliable());
        *state = step.state;
        for &effect in step.effects {
            match effect {
                Effect::Send => {
                    self.counters.requests_retransmitted += 1;
                    cx.out.send_with(client.flow, Token::NONE, |arena| {
                        write_cancel(&client.request.bytes(), client.reason.as_deref(), arena)
                    });
                }
                Effect::Repeat(timer) => {
                    let interval = self.timers.interval_after(timer, clock.interval, step.state);
                    let due = Due { of: Side::CancelOfClient, key: slot, timer };
                    clock.repeat(&mut self.wheel, cx.now, interval, due);
                }
                Effect::StopRetransmitting => clock.stop(&mut self.wheel),
                // It ends with its INVITE and needs no other timer.
                Effect::Start(_)
                | Effect::SendAck
                | Effect::PassUp
                | Effect::ReportTimeout
                | Effect::ReportTransportError
                | Effect::StopWaiting => {}
            }
        }
    }
}

/// Stops the CANCEL, pending or sent.
fn end_cancel<C>(wheel: &mut Wheel<Due>, client: &mut Client<C>) {
    if let Cancel::Sent { clock, .. } = client.cancel {
        clock.stop(wheel);
    }
    client.cancel = Cancel::NotWanted;
}

/// Sends the ACK of a failed INVITE, which replaces the request.
fn send_ack<C>(client: &mut Client<C>, response: &Message<'_>, out: &mut Outbox) {
    let is_acknowledged = client.is_acknowledged;
    let request = &client.request;
    let before = out.len();
    out.send_with(client.flow, Token::NONE, |arena| match is_acknowledged {
        true => request.write(arena),
        false => write_ack(&request.bytes(), response, arena),
    });
    // After this the request is only needed for its ACK.
    if !is_acknowledged && out.len() > before {
        let mut buffer = client.request.take_buffer();
        buffer.clear();
        buffer.extend_from_slice(out.last_bytes());
        if buffer.capacity() > 2 * buffer.len() {
            buffer.shrink_to_fit();
        }
        client.request = StoredRequest::new(buffer);
        client.is_acknowledged = true;
    }
}
