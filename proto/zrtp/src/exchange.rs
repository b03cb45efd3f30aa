//! States of the key exchange, from the Commit to the Confirms, in both roles (RFC 6189 §4.4.1), and the contention of two Commits
//! (§4.2).

use crate::CONFIRM_FAILURES_MAX;
use crate::agreement::KeyPair;
use crate::algorithm::Chosen;
use crate::confirm::Confirm;
use crate::engine::{Agreed, Answer, CommitMode, Offer, PATIENCE, PacketSink, State, Zrtp};
use crate::event::{Continuity, ZrtpEvent, ZrtpFailure};
use crate::hash::{is_equal, sha256};
use crate::message::{Commit, CommitRefusal, DhPart, is_sealed_with};
use crate::packet::{MessageType, Packet, write_message};
use crate::retransmission::Retransmission;
use crate::secrets::{KdfInput, Role, SessionKeys, common_secret, continuity, secret_ids};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::Instant;
use zeroize::Zeroizing;

impl Zrtp {
    /// Chooses the algorithms, creates the DHPart2 that is sent later, and commits to it.
    pub(crate) fn commit(&mut self, now: Instant, out: PacketSink<'_>) -> State {
        let Some(peer) = &self.peer else { return State::Discovering };
        let chosen = Chosen::from_lists(&self.config.algorithms, &peer.hello.algorithms);
        let key_pair = match self.key_pair(chosen) {
            Ok(key_pair) => key_pair,
            Err(failure) => return self.fail(now, failure, out),
        };
        let Some(peer) = &self.peer else { return State::Discovering };
        let retained = self.cache.find(&peer.hello.zid);
        let ids = secret_ids(chosen.hash, Role::Initiator, retained, &mut self.visible);
        let dh_part2 = DhPart { h1: self.chain.h1, ids, public: key_pair.public() }
            .write(MessageType::DhPart2, &self.chain.h0);
        let hvi = chosen.hash.digest(&[&dh_part2, &peer.message]).leftmost();
        let commit = Commit { h2: self.chain.h2, zid: self.config.zid, chosen, hvi }.write(&self.chain.h1);
        self.send(&commit, out);
        self.give_up = None;
        self.retransmission = Some(Retransmission::message(now, commit.clone(), "DHPart1"));
        State::AwaitDhPart1(Box::new(Offer { chosen, key_pair, hvi, commit, dh_part2 }))
    }

    pub(crate) fn await_dh_part1(
        &mut self,
        offer: Box<Offer>,
        now: Instant,
        packet: &Packet<'_>,
        out: PacketSink<'_>,
    ) -> State {
        match packet.kind {
            MessageType::DhPart1 => self.on_dh_part1(offer, now, packet.message, out),
            MessageType::Commit => self.on_commit(now, packet.message, State::AwaitDhPart1(offer), out),
            _ => {
                self.counts.unexpected += 1;
                State::AwaitDhPart1(offer)
            }
        }
    }

    fn on_dh_part1(&mut self, offer: Box<Offer>, now: Instant, message: &[u8], out: PacketSink<'_>) -> State {
        let Some(part) = DhPart::parse(message, offer.chosen.key_agreement) else {
            self.counts.malformed += 1;
            return State::AwaitDhPart1(offer);
        };
        // The responder sent no Commit: its H2 is computed from H1 (RFC 6189 §9).
        let h2 = sha256(&[&part.h1]);
        let Some(peer) = self.peer.as_ref().filter(|peer| is_equal(&sha256(&[&h2]), &peer.hello.h3)) else {
            self.counts.forged += 1;
            return State::AwaitDhPart1(offer);
        };
        if !is_sealed_with(&h2, &peer.message) {
            return self.fail(now, ZrtpFailure::Forged("Hello"), out);
        }
        let result = match self.agree(&offer.key_pair, part.public) {
            Ok(result) => result,
            Err(failure) => return self.fail(now, failure, out),
        };
        let dh_part2 = offer.dh_part2.clone();
        self.send(&dh_part2, out);
        self.retransmission = Some(Retransmission::message(now, dh_part2, "Confirm1"));
        let Some(peer) = &self.peer else { return State::Discovering };
        let input = KdfInput {
            chosen: offer.chosen,
            dh_result: &result,
            zid_initiator: self.config.zid,
            zid_responder: peer.hello.zid,
            messages: [&peer.message, &offer.commit, message, &offer.dh_part2],
            s1: None,
        };
        State::AwaitConfirm1(Box::new(self.agreed(now, Role::Initiator, &part, input)))
    }

    pub(crate) fn await_confirm1(
        &mut self,
        agreed: Box<Agreed>,
        now: Instant,
        packet: &Packet<'_>,
        out: PacketSink<'_>,
    ) -> State {
        if packet.kind != MessageType::Confirm1 {
            self.counts.unexpected += 1;
            return State::AwaitConfirm1(agreed);
        }
        let confirm = match self.check_confirm(&agreed, packet.message) {
            Ok(Some(confirm)) => confirm,
            Ok(None) => return State::AwaitConfirm1(agreed),
            Err(failure) => return self.fail(now, failure, out),
        };
        let confirm2 = self.write_confirm(&agreed, MessageType::Confirm2);
        self.send(&confirm2, out);
        self.retransmission = Some(Retransmission::message(now, confirm2, "Conf2ACK"));
        self.emit(ZrtpEvent::ReadyToReceive {
            suite: agreed.chosen.suite(),
            receive: agreed.keys.of(Role::Responder).master_key(),
        });
        State::AwaitConf2Ack(agreed, confirm)
    }

    pub(crate) fn await_conf2_ack(
        &mut self,
        agreed: Box<Agreed>,
        confirm: Confirm,
        now: Instant,
        packet: &Packet<'_>,
    ) -> State {
        if packet.kind == MessageType::Conf2Ack {
            return self.secure(now, agreed, &confirm);
        }
        self.counts.unexpected += 1;
        State::AwaitConf2Ack(agreed, confirm)
    }

    /// Handles a Commit in `state`: discovering, waiting for a Commit, or after our own Commit.
    pub(crate) fn on_commit(
        &mut self,
        now: Instant,
        message: &[u8],
        state: State,
        out: PacketSink<'_>,
    ) -> State {
        let Some(h2) = Commit::h2(message) else {
            self.counts.malformed += 1;
            return state;
        };
        let Some(peer) = self.peer.as_ref().filter(|peer| is_equal(&sha256(&[&h2]), &peer.hello.h3)) else {
            self.counts.forged += 1;
            return state;
        };
        if !is_sealed_with(&h2, &peer.message) {
            return self.fail(now, ZrtpFailure::Forged("Hello"), out);
        }
        let peer_zid = peer.hello.zid;
        let commit = match Commit::parse(message, &self.config.algorithms) {
            Ok(commit) => commit,
            Err(refusal) => return self.on_commit_refused(now, refusal, state, out),
        };
        if commit.zid != peer_zid {
            self.counts.forged += 1;
            return state;
        }
        let State::AwaitDhPart1(offer) = state else {
            return self.respond(now, commit, message, None, out);
        };
        // RFC 6189 §4.2: the lower hvi is discarded. The peer decides the same.
        if offer.hvi >= commit.hvi {
            self.counts.unexpected += 1;
            return State::AwaitDhPart1(offer);
        }
        self.respond(now, commit, message, Some(offer.key_pair), out)
    }

    pub(crate) fn await_dh_part2(
        &mut self,
        answer: Box<Answer>,
        now: Instant,
        packet: &Packet<'_>,
        out: PacketSink<'_>,
    ) -> State {
        match packet.kind {
            MessageType::DhPart2 => return self.on_dh_part2(answer, now, packet.message, out),
            MessageType::Commit if packet.message == answer.commit_message => {
                self.send(&answer.dh_part1, out);
            }
            _ => self.counts.unexpected += 1,
        }
        State::AwaitDhPart2(answer)
    }

    pub(crate) fn await_confirm2(
        &mut self,
        mut agreed: Box<Agreed>,
        now: Instant,
        packet: &Packet<'_>,
        out: PacketSink<'_>,
    ) -> State {
        match packet.kind {
            MessageType::Confirm2 => {}
            MessageType::DhPart2 if packet.message == agreed.received => {
                self.send(&agreed.answer, out);
                return State::AwaitConfirm2(agreed);
            }
            _ => {
                self.counts.unexpected += 1;
                return State::AwaitConfirm2(agreed);
            }
        }
        let confirm = match self.check_confirm(&agreed, packet.message) {
            Ok(Some(confirm)) => confirm,
            Ok(None) => return State::AwaitConfirm2(agreed),
            Err(failure) => return self.fail(now, failure, out),
        };
        agreed.answer = write_message(MessageType::Conf2Ack, &[]);
        agreed.received = packet.message.to_vec();
        self.send(&agreed.answer, out);
        self.secure(now, agreed, &confirm)
    }

    /// Derives the session keys from the exchanged DHParts; `part` is the peer's. The shared secret s1 is found here.
    fn agreed<'a>(&'a self, now: Instant, role: Role, part: &DhPart<'_>, mut input: KdfInput<'a>) -> Agreed {
        let [_, _, dh_part1, dh_part2] = input.messages;
        let (peer_zid, peer_dh_part) = match role {
            Role::Initiator => (input.zid_responder, dh_part1),
            Role::Responder => (input.zid_initiator, dh_part2),
        };
        let retained = self.cache.find(&peer_zid);
        let hash = input.chosen.hash;
        input.s1 = retained.and_then(|retained| common_secret(hash, role.other(), retained, &part.ids));
        let is_expected = retained.is_some_and(|retained| retained.is_current(now));
        Agreed {
            role,
            chosen: input.chosen,
            keys: SessionKeys::derive(&input),
            continuity: continuity(is_expected, input.s1.is_some()),
            peer_h1: part.h1,
            peer_dh_part: peer_dh_part.to_vec(),
            received: Vec::new(),
            answer: Vec::new(),
            cache_interval_s: 0,
            is_go_clear_reported: false,
        }
    }

    /// Checks the peer's Confirm. `None`: ignored, because the authentic one may still arrive.
    pub(crate) fn check_confirm(
        &mut self,
        agreed: &Agreed,
        message: &[u8],
    ) -> Result<Option<Confirm>, ZrtpFailure> {
        let keys = agreed.keys.of(agreed.role.other());
        let confirm = Confirm::parse(message, agreed.chosen.hash, keys)
            .filter(|confirm| is_equal(&sha256(&[&confirm.h0]), &agreed.peer_h1));
        let Some(confirm) = confirm else {
            self.counts.forged += 1;
            self.confirm_failures += 1;
            let is_enough = self.confirm_failures >= CONFIRM_FAILURES_MAX;
            return if is_enough { Err(ZrtpFailure::ConfirmMac) } else { Ok(None) };
        };
        if is_sealed_with(&confirm.h0, &agreed.peer_dh_part) {
            Ok(Some(confirm))
        } else {
            Err(ZrtpFailure::Forged("DHPart"))
        }
    }

    /// Writes our Confirm. The V flag is false without a cache (RFC 6189 §4.9.1) and if the retained secrets
    /// do not match.
    pub(crate) fn write_confirm(&mut self, agreed: &Agreed, kind: MessageType) -> Vec<u8> {
        let confirm = Confirm {
            h0: self.chain.h0,
            sas_verified: self.is_sas_verified(agreed.continuity) && self.config.cache_interval_s > 0,
            discloses: false,
            cache_interval_s: self.config.cache_interval_s,
        };
        let iv = self.visible.bytes();
        confirm.write(kind, agreed.chosen.hash, agreed.keys.of(agreed.role), iv)
    }

    /// True if our user compared the string in an earlier call and the retained secrets match.
    pub(crate) fn is_sas_verified(&self, continuity: Continuity) -> bool {
        let retained = self.peer.as_ref().and_then(|peer| self.cache.find(&peer.hello.zid));
        continuity == Continuity::Continued && retained.is_some_and(|retained| retained.sas_verified)
    }

    /// Computes DHResult with the peer's public value.
    pub(crate) fn agree(
        &mut self,
        key_pair: &KeyPair,
        public: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ZrtpFailure> {
        self.may_compute()?;
        key_pair.agree(public).map_err(|_| ZrtpFailure::PublicValue)
    }

    fn on_commit_refused(
        &mut self,
        now: Instant,
        refusal: CommitRefusal,
        state: State,
        out: PacketSink<'_>,
    ) -> State {
        let what = match refusal {
            CommitRefusal::Malformed => {
                self.counts.malformed += 1;
                return state;
            }
            CommitRefusal::Hash => "hash",
            CommitRefusal::Cipher => "cipher",
            CommitRefusal::AuthTag => "auth tag",
            CommitRefusal::KeyAgreement => "key agreement",
            CommitRefusal::SasType => "SAS type",
            // RFC 6189 §4.4.2.3: our Commit with Diffie-Hellman exchanges the roles, and has precedence if
            // both were sent.
            CommitRefusal::Preshared => match (&state, self.config.commit_mode) {
                (State::AwaitDhPart1(_), _) => return state,
                (_, CommitMode::Active) => return self.commit(now, out),
                (_, CommitMode::Passive) => "Preshared mode",
            },
            CommitRefusal::Multistream => "Multistream mode",
        };
        self.fail(now, ZrtpFailure::NotOffered(what), out)
    }

    /// Answers the Commit. An existing key pair is used if it is strong enough (RFC 6189 §4.2).
    fn respond(
        &mut self,
        now: Instant,
        commit: Commit,
        message: &[u8],
        key_pair: Option<KeyPair>,
        out: PacketSink<'_>,
    ) -> State {
        let chosen = commit.chosen;
        let key_pair = match key_pair.filter(|pair| pair.serves(chosen.key_agreement, chosen.cipher)) {
            Some(key_pair) => key_pair,
            None => match self.key_pair(chosen) {
                Ok(key_pair) => key_pair,
                Err(failure) => return self.fail(now, failure, out),
            },
        };
        let retained = self.cache.find(&commit.zid);
        let ids = secret_ids(chosen.hash, Role::Responder, retained, &mut self.visible);
        let dh_part1 = DhPart { h1: self.chain.h1, ids, public: key_pair.public() }
            .write(MessageType::DhPart1, &self.chain.h0);
        self.send(&dh_part1, out);
        self.retransmission = None;
        self.give_up = Some((now + PATIENCE, "DHPart2"));
        State::AwaitDhPart2(Box::new(Answer { commit, commit_message: message.to_vec(), key_pair, dh_part1 }))
    }

    fn on_dh_part2(
        &mut self,
        answer: Box<Answer>,
        now: Instant,
        message: &[u8],
        out: PacketSink<'_>,
    ) -> State {
        let Commit { h2, zid, chosen, hvi } = answer.commit;
        let Some(part) = DhPart::parse(message, chosen.key_agreement) else {
            self.counts.malformed += 1;
            return State::AwaitDhPart2(answer);
        };
        if !is_equal(&sha256(&[&part.h1]), &h2) {
            self.counts.forged += 1;
            return State::AwaitDhPart2(answer);
        }
        if !is_sealed_with(&part.h1, &answer.commit_message) {
            return self.fail(now, ZrtpFailure::Forged("Commit"), out);
        }
        let shown: [u8; 32] = chosen.hash.digest(&[message, &self.hello]).leftmost();
        if !is_equal(&shown, &hvi) {
            return self.fail(now, ZrtpFailure::Commitment, out);
        }
        let result = match self.agree(&answer.key_pair, part.public) {
            Ok(result) => result,
            Err(failure) => return self.fail(now, failure, out),
        };
        let input = KdfInput {
            chosen,
            dh_result: &result,
            zid_initiator: zid,
            zid_responder: self.config.zid,
            messages: [&self.hello, &answer.commit_message, &answer.dh_part1, message],
            s1: None,
        };
        let mut agreed = Box::new(self.agreed(now, Role::Responder, &part, input));
        agreed.received = message.to_vec();
        agreed.answer = self.write_confirm(&agreed, MessageType::Confirm1);
        self.send(&agreed.answer, out);
        self.give_up = Some((now + PATIENCE, "Confirm2"));
        State::AwaitConfirm2(agreed)
    }
}
