//! Discovery phase: exchange of Hello messages (RFC 6189 §4.1).

use crate::engine::{CommitMode, PATIENCE, PacketSink, Peer, State, UNANNOUNCED_WAIT, Zrtp};
use crate::event::ZrtpFailure;
use crate::hash::{is_equal, sha256};
use crate::message::{Body, Hello, VERSION};
use crate::packet::{MessageType, Packet, write_message};
use core::cmp::Ordering;
use ringway_sansio::Instant;

impl Zrtp {
    pub(crate) fn discovering(&mut self, now: Instant, packet: &Packet<'_>, out: PacketSink<'_>) -> State {
        match packet.kind {
            MessageType::Hello => self.on_first_hello(now, packet, out),
            MessageType::HelloAck => {
                self.hello_ack_from = Some(packet.ssrc);
                self.retransmission = None;
                if self.peer.is_none() {
                    self.give_up = Some((now + PATIENCE, "Hello"));
                }
                self.when_discovered(now, out)
            }
            // RFC 6189 §6: a Commit replaces a lost HelloACK at any time.
            MessageType::Commit if self.peer.is_some() => {
                self.on_commit(now, packet.message, State::Discovering, out)
            }
            _ => {
                self.counts.unexpected += 1;
                State::Discovering
            }
        }
    }

    /// Both Hellos were received; waits for the peer's Commit.
    pub(crate) fn await_commit(&mut self, now: Instant, packet: &Packet<'_>, out: PacketSink<'_>) -> State {
        if packet.kind == MessageType::Commit {
            return self.on_commit(now, packet.message, State::AwaitCommit, out);
        }
        self.counts.unexpected += 1;
        State::AwaitCommit
    }

    /// Handles a further Hello: the peer did not receive our HelloACK. A Hello that differs from the first is
    /// ignored.
    pub(crate) fn on_hello_again(
        &mut self,
        state: State,
        now: Instant,
        packet: &Packet<'_>,
        out: PacketSink<'_>,
    ) -> State {
        if self.peer.as_ref().is_none_or(|peer| peer.message != packet.message) {
            self.counts.unexpected += 1;
            return state;
        }
        self.send(&write_message(MessageType::HelloAck, &[]), out);
        if matches!(state, State::Discovering) && self.retransmission.is_none() {
            self.begin_hello_round(now, out);
        }
        state
    }

    fn on_first_hello(&mut self, now: Instant, packet: &Packet<'_>, out: PacketSink<'_>) -> State {
        let hash = sha256(&[packet.message]);
        if self.peer_hello_hash.is_some_and(|announced| !is_equal(&announced, &hash)) {
            self.counts.not_announced += 1;
            self.unannounced_until.get_or_insert(now + UNANNOUNCED_WAIT);
            return State::Discovering;
        }
        let Some(version) = Body::new(packet.message).take::<4>() else {
            self.counts.malformed += 1;
            return State::Discovering;
        };
        // RFC 6189 §4.1.1: the last character is not compared.
        match version[..3].cmp(&VERSION[..3]) {
            Ordering::Less => {
                self.send(&write_message(MessageType::HelloAck, &[]), out);
                return self.fail(now, ZrtpFailure::Version, out);
            }
            // The peer will fall back to our version.
            Ordering::Greater => {
                self.send(&write_message(MessageType::HelloAck, &[]), out);
                return State::Discovering;
            }
            Ordering::Equal => {}
        }
        let Some(hello) = Hello::parse(packet.message) else {
            self.counts.malformed += 1;
            return State::Discovering;
        };
        if hello.zid == self.config.zid {
            return self.fail(now, ZrtpFailure::EqualZids, out);
        }
        if packet.ssrc == self.ssrc {
            return self.fail(now, ZrtpFailure::SsrcCollision, out);
        }
        self.send(&write_message(MessageType::HelloAck, &[]), out);
        self.give_up = None;
        self.unannounced_until = None;
        self.peer = Some(Peer { ssrc: packet.ssrc, hello, message: packet.message.to_vec() });
        // A HelloACK from another source does not show that this peer has our Hello.
        if self.hello_ack_from.is_some_and(|source| source != packet.ssrc) {
            self.hello_ack_from = None;
        }
        match &mut self.retransmission {
            Some(retransmission) => retransmission.extend(),
            None if self.hello_ack_from.is_none() => self.begin_hello_round(now, out),
            None => {}
        }
        self.when_discovered(now, out)
    }

    /// RFC 6189 §5.4: a Commit can be sent after both Hello and HelloACK have been received.
    fn when_discovered(&mut self, now: Instant, out: PacketSink<'_>) -> State {
        let Some(peer) = &self.peer else { return State::Discovering };
        if self.hello_ack_from != Some(peer.ssrc) {
            return State::Discovering;
        }
        match self.config.commit_mode {
            CommitMode::Active => self.commit(now, out),
            CommitMode::Passive => {
                self.give_up = Some((now + PATIENCE, "Commit"));
                State::AwaitCommit
            }
        }
    }
}
