//! States of the initiator, the end whose Commit counts (RFC 6189 §4.4.1.1, §4.4.1.3).

use crate::algorithm::Chosen;
use crate::confirm::Confirm;
use crate::engine::{Agreed, Offer, PacketSink, State, Zrtp};
use crate::event::{ZrtpEvent, ZrtpFailure};
use crate::hash::{is_equal, sha256};
use crate::message::{Commit, DhPart, is_sealed_with};
use crate::packet::{MessageType, Packet};
use crate::retransmission::Retransmission;
use crate::secrets::{KdfInput, Role, SessionKeys, common_secret, continuity, secret_ids};
use alloc::boxed::Box;
use alloc::vec::Vec;
use ringway_sansio::Instant;

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
        let retained = self.cache.find(&peer.hello.zid);
        let hash = offer.chosen.hash;
        let s1 = retained.and_then(|retained| common_secret(hash, Role::Responder, retained, &part.ids));
        let keys = SessionKeys::derive(&KdfInput {
            chosen: offer.chosen,
            dh_result: &result,
            zid_initiator: self.config.zid,
            zid_responder: peer.hello.zid,
            messages: [&peer.message, &offer.commit, message, &offer.dh_part2],
            s1,
        });
        let is_expected = retained.is_some_and(|retained| retained.is_current(now));
        State::AwaitConfirm1(Box::new(Agreed {
            role: Role::Initiator,
            chosen: offer.chosen,
            keys,
            continuity: continuity(is_expected, s1.is_some()),
            peer_h1: part.h1,
            peer_dh_part: message.to_vec(),
            received: Vec::new(),
            answer: Vec::new(),
            cache_interval_s: 0,
            is_go_clear_told: false,
        }))
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
}
