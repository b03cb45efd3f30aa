//! Sending of requests and responses for an attempt; start and end of its media.

use super::{Action, Generator, Timer};
use crate::attempt::{Attempt, Filling, Invite, Unacknowledged};
use crate::authentication::Challenge;
use crate::session::{MediaEvent, Session, State};
use crate::template::Template;
use crate::{Config, MediaRefusal, MediaUse, Outcome, Recording};
use alloc::boxed::Box;
use alloc::sync::Arc;
use ringway_sansio::{Context, Token};
use ringway_sip::{Message, Method};
use ringway_transaction::{Outgoing, SlabKey};

/// Result of a step that sends.
pub(super) enum Sent {
    Yes,
    Failed(Outcome),
}

impl Generator {
    pub(super) fn send_request(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        method: &[u8],
        template: &Template,
    ) -> Sent {
        let Some(attempt) = self.attempts.get_mut(key) else { return Sent::Yes };
        let method = Method::from_bytes(method);
        if method == Method::Ack && attempt.invite == Invite::Refused {
            // The transaction layer has sent it (RFC 3261 §17.1.1.3).
            return Sent::Yes;
        }
        if method == Method::Cancel {
            // RFC 3261 §9.1: URI, branch and CSeq number are those of the INVITE, and it follows a provisional response. The
            // transaction writes it, and takes its response.
            if let Some(invite) = attempt.client.filter(|_| attempt.invite == Invite::Pending) {
                self.counters.requests += u64::from(self.transactions.cancel(cx, invite));
            }
            return Sent::Yes;
        }
        if template.uses.next_url && !attempt.has_next_url() {
            return Sent::Failed(Outcome::Malformed);
        }
        let is_answer = attempt.is_challenged && template.uses.authentication;
        let has_password = !self.config.users.password(attempt.user).is_empty();
        if is_answer && !(has_password && attempt.challenge.is_some()) {
            return Sent::Failed(Outcome::Challenge);
        }
        let mut user_cseq = 0;
        if method != Method::Ack {
            attempt.cseq += 1;
            self.counters.requests += 1;
            if let Some(user) = self.users.get_mut(attempt.user as usize) {
                user.cseq += u32::from(template.uses.user_cseq);
                user_cseq = user.cseq;
            }
        }
        if method == Method::Bye {
            attempt.times.bye.get_or_insert(cx.now);
            Self::end_media(cx, attempt);
        }
        let flow = match template.uses.next_url {
            true => attempt.dialog_flow(&self.config),
            false => attempt.flow,
        };
        let random = self.rng.next_u64();
        let filling = Filling {
            config: &self.config,
            locals: &self.locals,
            run: self.run,
            key,
            attempt,
            user_cseq,
            random,
            media_seed: &self.media_seed,
        };
        if method == Method::Ack {
            let mut branch = b"z9hG4bKack".to_vec();
            ringway_sip::write_hex(&mut branch, random, 16);
            cx.out.send_with(flow, Token::NONE, |arena| {
                template.write(&mut |word, start, out| filling.fill(word, &branch, start, out), arena);
            });
            attempt.ack.clear();
            attempt.ack.extend_from_slice(cx.out.last_bytes());
            return Sent::Yes;
        }
        let outgoing = Outgoing { flow, is_invite: method == Method::Invite, owner: key };
        let client = self.transactions.start_client(cx, outgoing, |arena, branch| {
            template.write(&mut |word, start, out| filling.fill(word, branch, start, out), arena);
        });
        attempt.client = client;
        attempt.is_challenged = false;
        if method == Method::Invite {
            attempt.invite = Invite::Pending;
        }
        if client.is_some() { Sent::Yes } else { Sent::Failed(Outcome::Full) }
    }

    pub(super) fn send_response(
        &mut self,
        cx: &mut Context<'_, Action>,
        key: SlabKey,
        status: u16,
        template: &Template,
    ) -> Sent {
        let Some(attempt) = self.attempts.get_mut(key) else { return Sent::Yes };
        let Some(server) = attempt.server else { return Sent::Failed(Outcome::Malformed) };
        let random = self.rng.next_u64();
        let filling = Filling {
            config: &self.config,
            locals: &self.locals,
            run: self.run,
            key,
            attempt,
            user_cseq: 0,
            random,
            media_seed: &self.media_seed,
        };
        let is_sent = self.transactions.respond(cx, server, status, |arena| {
            template.write(&mut |word, start, out| filling.fill(word, b"", start, out), arena);
        });
        if is_sent && attempt.invite == Invite::Pending && status >= 200 {
            attempt.note_invite_final(status);
            if status < 300
                && let Some(flow) = self.transactions.reply_flow_of(server)
            {
                let interval = self.config.timers.t1;
                let timer = self.wheel.arm(cx.now + interval, (key, Timer::Success));
                let until = cx.now + 64 * self.config.timers.t1;
                let bytes = cx.out.last_bytes().to_vec();
                attempt.unacknowledged = Some(Unacknowledged { flow, bytes, interval, until, timer }.into());
                self.start_media(cx, key, false);
            }
        }
        Sent::Yes
    }

    /// Sends the last request again, with credentials (RFC 3261 §22.2).
    pub(super) fn retry(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, challenge: &Message<'_>) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        attempt.step = attempt.request_step;
        attempt.retried_step = Some(attempt.request_step);
        attempt.is_challenged = true;
        attempt.client = None;
        attempt.challenge = Challenge::of(challenge).map(Box::new);
        self.advance(cx, key);
    }
}

impl Generator {
    /// Keeps the peer's description: the offer in an INVITE, or the answer in a 2xx.
    pub(super) fn note_session(attempt: &mut Attempt, config: &Config, message: &Message<'_>) {
        if config.media_use != MediaUse::None || config.scenario.plays() {
            attempt.session = Some(Session::read(message.body(), config.media_use).into());
        }
    }

    /// Starts the media of an attempt, if there is a description of the peer. The stream of a scenario that plays recordings only
    /// receives.
    pub(super) fn start_media(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, is_confirmed: bool) {
        let Some(attempt) = self.attempts.get_mut(key) else { return };
        let Config { media_use, ref scenario, .. } = self.config;
        let own = attempt.own_media(&self.media_seed, self.run);
        let Some(session) = attempt.session.as_mut().filter(|session| session.state == State::Described)
        else {
            return;
        };
        match media_use {
            MediaUse::None => session.state = State::Started,
            MediaUse::Rtp | MediaUse::Srtp(_) => {
                let event = session.start(&own, media_use, is_confirmed && !scenario.plays());
                cx.emit(Action::Media(event));
            }
        }
    }

    /// Lets a callee send, whose answer has arrived.
    pub(super) fn confirm_media(&mut self, cx: &mut Context<'_, Action>, key: SlabKey) {
        let is_sending = !self.config.scenario.plays();
        let session = self.attempts.get_mut(key).and_then(|attempt| {
            let number = attempt.number;
            Some((number, attempt.session.as_mut().filter(|session| session.state == State::Started)?))
        });
        if let Some((number, session)) = session.filter(|_| is_sending) {
            session.state = State::Confirmed;
            cx.emit(Action::Media(MediaEvent::Confirmed(number)));
        }
    }

    /// Plays a recording to the peer.
    pub(super) fn play(&mut self, cx: &mut Context<'_, Action>, key: SlabKey, recording: &Arc<Recording>) {
        let is_answered = self.attempts.get(key).is_some_and(|attempt| attempt.invite == Invite::Accepted);
        if is_answered && self.config.scenario.is_caller() {
            // An action of the 2xx itself.
            self.start_media(cx, key, true);
        }
        let Some(attempt) = self.attempts.get(key) else { return };
        let event = match &attempt.session {
            Some(session) => session.play(attempt.number, recording),
            None => Some(MediaEvent::Refused(MediaRefusal::Early)),
        };
        if let Some(event) = event {
            cx.emit(Action::Media(event));
        }
    }

    /// Ends the media of an attempt.
    pub(super) fn end_media(cx: &mut Context<'_, Action>, attempt: &mut Attempt) {
        if let Some(session) = &mut attempt.session
            && matches!(session.state, State::Started | State::Confirmed)
        {
            session.state = State::Ended;
            cx.emit(Action::Media(MediaEvent::Ended(attempt.number)));
        }
    }
}
