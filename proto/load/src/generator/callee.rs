//! Received requests: the side of the callee, and requests of a peer inside a caller's dialog.

use super::{Action, Generator, Owner, find};
use crate::attempt::{Attempt, Invite, Times, read_call_id};
use crate::scenario::Received as Expected;
use crate::{Outcome, Step};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hasher;
use ringway_sansio::{Context, Flow};
use ringway_sip::{HeaderName, Message, MessageWriter, Method};
use ringway_transaction::{Incoming, MatchKey, ServerId, SlabKey, Transactions, reply_flow};
use siphasher::sip::SipHasher13;

impl Generator {
    pub(super) fn on_request(&mut self, cx: &mut Context<'_, Action>, flow: Flow, message: &Message<'_>) {
        let found = match self.transactions.receive_request(cx, message) {
            Incoming::New(found) => found,
            Incoming::Absorbed | Incoming::AckOfSuccess(_) => return,
        };
        if message.method() == Method::Cancel {
            return self.on_cancel(cx, found, flow, message);
        }
        let hash = self.hash_of(message.call_id());
        match self.attempt_of(message.call_id(), hash) {
            Some(key) => self.on_request_of(cx, key, found, flow, message),
            None if message.method() == Method::Ack => self.counters.stray += 1,
            None => self.on_first_request(cx, found, flow, message, hash),
        }
    }

    /// Answers a CANCEL, and its INVITE with 487 (RFC 3261 §9.2).
    fn on_cancel(
        &mut self,
        cx: &mut Context<'_, Action>,
        found: MatchKey,
        flow: Flow,
        message: &Message<'_>,
    ) {
        let Some((server, owner, _)) = self.transactions.cancelled_by(message) else {
            return self.refuse(cx, found, flow, message, 481, "Call/Transaction Does Not Exist");
        };
        self.refuse(cx, found, flow, message, 200, "OK");
        let Some(attempt) = self.attempts.get(owner).filter(|attempt| attempt.server == Some(server)) else {
            return;
        };
        if !self.transactions.is_answered(server) {
            let (last, scenario) = (&attempt.last, &self.config.scenario);
            self.transactions.respond(cx, server, 487, |arena| {
                last.write_refusal(scenario, b"SIP/2.0 487 Request Terminated", arena);
            });
            self.end(cx, owner, Outcome::Cancelled);
        }
    }

    /// Handles a request outside all attempts: it begins one, or gets 481.
    fn on_first_request(
        &mut self,
        cx: &mut Context<'_, Action>,
        found: MatchKey,
        flow: Flow,
        message: &Message<'_>,
        hash: u64,
    ) {
        let is_first = self.config.scenario.first_received() == Some(message.method().as_bytes());
        let is_room = self.attempts.len() < self.config.attempts_max;
        if !is_first || !is_room || message.to().tag().is_some() {
            let (status, phrase) = match is_first && !is_room {
                true => (503, "Service Unavailable"),
                false => (481, "Call/Transaction Does Not Exist"),
            };
            self.counters.stray += 1;
            self.counters.dropped += u64::from(is_first && !is_room);
            return self.refuse(cx, found, flow, message, status, phrase);
        }
        self.counters.started += 1;
        let user = (self.counters.started % u64::from(self.config.users.count())) as u32;
        let flow_back = Flow { connection: None, remote: self.config.remote, ..flow };
        let times = Times::new(cx.now, cx.now);
        let mut attempt = Attempt::new(self.counters.started, user, flow_back, times);
        attempt.call_id_hash = Some(hash);
        let key = self.attempts.insert(attempt);
        self.by_call_id.insert_unique(hash, (hash, key), |entry| entry.0);
        if matches!(self.config.scenario.steps().first(), Some(Step::Nop)) {
            self.advance(cx, key);
        }
        self.on_request_of(cx, key, found, flow, message);
    }

    fn on_request_of(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        found: MatchKey,
        flow: Flow,
        message: &Message<'_>,
    ) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        let method = message.method();
        let is_ack = method == Method::Ack;
        if is_ack && let Some(sent) = attempt.unacknowledged.take() {
            self.wheel.cancel(sent.timer);
            self.confirm_media(cx, key);
        }
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        let scenario = Arc::clone(&self.config.scenario);
        let is_expected = |expected: &Expected| match expected {
            Expected::Request(name) => **name == *method.as_bytes(),
            Expected::Response(_) => false,
        };
        let Some((place, is_optional)) = find(scenario.steps(), attempt.step, is_expected) else {
            if !is_ack {
                self.refuse(cx, found, flow, message, 500, "Server Internal Error");
                self.end(cx, key, Outcome::Request);
            }
            return;
        };
        if !is_ack {
            attempt.server = start_server(&mut self.transactions, found, flow, message, key);
            if method == Method::Invite {
                attempt.invite = Invite::Pending;
                Self::note_session(attempt, &self.config, message);
            }
        }
        if !attempt.keep(&scenario, place, message) {
            return self.end(cx, key, Outcome::Malformed);
        }
        match self.pass(cx, key, place, Some(message.as_bytes()), is_optional) {
            Ok(true) => self.advance(cx, key),
            Ok(false) => {}
            Err(outcome) => self.end(cx, key, outcome),
        }
    }

    /// Sends a final response outside all attempts.
    fn refuse(
        &mut self,
        cx: &mut Context<'_, Action>,
        found: MatchKey,
        flow: Flow,
        message: &Message<'_>,
        status: u16,
        phrase: &str,
    ) {
        let server = start_server(&mut self.transactions, found, flow, message, NOBODY);
        let Some(server) = server else { return };
        self.transactions.respond(cx, server, status, |arena| {
            write_refusal(message, status, phrase, flow, arena);
        });
    }

    /// Attempt with this Call-ID: written by this generator, or received by it.
    fn attempt_of(&self, call_id: &[u8], hash: u64) -> Option<SlabKey> {
        if self.config.scenario.is_caller() {
            let (key, number) = read_call_id(call_id, self.run)?;
            return self.attempts.get(key).filter(|attempt| attempt.number == number).map(|_| key);
        }
        self.by_call_id.find(hash, |entry| entry.0 == hash).map(|entry| entry.1)
    }

    fn hash_of(&self, call_id: &[u8]) -> u64 {
        let mut hash = SipHasher13::new_with_key(&self.hash_key);
        hash.write(call_id);
        hash.finish()
    }
}

/// Starts the server transaction of a request.
fn start_server(
    transactions: &mut Transactions<Owner, Owner>,
    found: MatchKey,
    flow: Flow,
    message: &Message<'_>,
    owner: Owner,
) -> Option<ServerId> {
    let is_invite = message.method() == Method::Invite;
    let reply = reply_flow(message.via(), flow);
    let port = message.via().port.unwrap_or(flow.transport.default_port());
    transactions.start_server(found, is_invite, reply, port, owner)
}

/// Appends a response without content.
fn write_refusal(request: &Message<'_>, status: u16, phrase: &str, flow: Flow, out: &mut Vec<u8>) {
    let start = out.len();
    let mut response = MessageWriter::answer(out, request, status, phrase, flow.remote, Some(b"refused"));
    response.header(HeaderName::ContentLength, b"0");
    if response.finish().is_err() {
        out.truncate(start);
    }
}

/// Owner of transactions outside all attempts.
const NOBODY: Owner = SlabKey { index: u32::MAX, generation: 0 };
