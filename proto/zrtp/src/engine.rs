//! One key agreement: what it is made of, its inputs, and which state gets them.

use crate::agreement::KeyPair;
use crate::algorithm::{Algorithms, Chosen};
use crate::cache::{Zid, ZidCache};
use crate::confirm::Confirm;
use crate::event::{Continuity, ZrtpCounts, ZrtpEvent, ZrtpFailure};
use crate::hash::{HashChain, sha256};
use crate::message::{Commit, Hello, VERSION, error, error_code, ping_ack};
use crate::packet::{MessageType, Packet, PacketError, write_message, write_packet};
use crate::retransmission::{Due, Retransmission};
use crate::secrets::{Role, SessionKeys};
use crate::{COMPUTATIONS_MAX, HELLO_ROUNDS_MAX};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::time::Duration;
use ringway_sansio::{Deadline, Entropy, Instant, Seed};

/// Who we are and what we want.
#[derive(Clone, Debug)]
pub struct ZrtpConfig {
    /// Our identity, made once by chance and kept for ever (RFC 6189 §4.9).
    pub zid: Zid,
    /// Our name in the Hello: printable ASCII, padded with spaces.
    pub client_id: [u8; 16],
    /// What we take, the best first.
    pub algorithms: Algorithms,
    /// Who sends the Commit.
    pub commit_mode: CommitMode,
    /// How long a secret is remembered, in seconds: `u32::MAX` for ever, 0 not at all (RFC 6189 §4.9).
    pub cache_interval_s: u32,
}

impl ZrtpConfig {
    /// Everything we have, remembered for ever.
    pub fn new(zid: Zid) -> Self {
        Self {
            zid,
            client_id: *b"Ringway         ",
            algorithms: Algorithms::default(),
            commit_mode: CommitMode::Active,
            cache_interval_s: u32::MAX,
        }
    }
}

/// Who sends the Commit: the passive flag P of the Hello (RFC 6189 §5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitMode {
    /// We send a Commit as soon as we can. If both do, §4.2 decides whose counts.
    #[default]
    Active,
    /// We leave the Commit to the peer. Two passive ends never agree.
    Passive,
}

/// One key agreement for one stream, from the first Hello to the end of the call.
///
/// Packets go in with the time, packets come out of a function that is given in, and [`Zrtp::poll_event`] says what
/// happened. Computing with Diffie-Hellman takes place inside [`Zrtp::on_packet`]: about 0.2 ms for EC25 and 1 to 3 ms
/// for DH3k, at most [`COMPUTATIONS_MAX`] times.
pub struct Zrtp {
    pub(crate) config: ZrtpConfig,
    /// Private Diffie-Hellman values, and the hash chain's first value.
    pub(crate) secrets: Entropy,
    /// What stands readable in packets.
    pub(crate) visible: Entropy,
    pub(crate) chain: HashChain,
    pub(crate) hello: Vec<u8>,
    pub(crate) cache: ZidCache,
    pub(crate) ssrc: u32,
    sequence: u16,
    pub(crate) peer_hello_hash: Option<[u8; 32]>,
    /// The source of the last HelloACK.
    pub(crate) hello_ack_from: Option<u32>,
    pub(crate) hello_rounds: u32,
    pub(crate) peer: Option<Peer>,
    state: State,
    pub(crate) retransmission: Option<Retransmission>,
    /// When we stop to wait, and for what, where the peer is who sends again.
    pub(crate) give_up: Option<(Instant, &'static str)>,
    pub(crate) confirm_failures: u32,
    computations: u32,
    events: VecDeque<ZrtpEvent>,
    pub(crate) counts: ZrtpCounts,
}

/// The peer since its Hello.
pub(crate) struct Peer {
    pub(crate) ssrc: u32,
    pub(crate) hello: Hello,
    /// The Hello as it came.
    pub(crate) message: Vec<u8>,
}

/// Named for what is waited for.
pub(crate) enum State {
    /// Not started.
    Idle,
    /// The peer's Hello, or its HelloACK.
    Discovering,
    /// Both Hellos are known, and the peer is to begin.
    AwaitCommit,
    /// Our Commit is out.
    AwaitDhPart1(Box<Offer>),
    /// The peer's Commit counts.
    AwaitDhPart2(Box<Answer>),
    AwaitConfirm1(Box<Agreed>),
    AwaitConfirm2(Box<Agreed>),
    /// The peer's Confirm is right.
    AwaitConf2Ack(Box<Agreed>, Confirm),
    Secured(Box<Agreed>),
    Failed,
}

/// Our side as the initiator, before we know the responder's.
pub(crate) struct Offer {
    pub(crate) chosen: Chosen,
    pub(crate) key_pair: KeyPair,
    pub(crate) hvi: [u8; 32],
    pub(crate) commit: Vec<u8>,
    pub(crate) dh_part2: Vec<u8>,
}

/// Our side as the responder, before we know the initiator's.
pub(crate) struct Answer {
    pub(crate) commit: Commit,
    pub(crate) commit_message: Vec<u8>,
    pub(crate) key_pair: KeyPair,
    pub(crate) dh_part1: Vec<u8>,
}

/// Both sides' public values are known.
pub(crate) struct Agreed {
    pub(crate) role: Role,
    pub(crate) chosen: Chosen,
    pub(crate) keys: SessionKeys,
    pub(crate) continuity: Continuity,
    /// What the peer's H0 will have to lead to.
    pub(crate) peer_h1: [u8; 32],
    /// What the peer's H0 will have to have sealed.
    pub(crate) peer_dh_part: Vec<u8>,
    /// The last message of the peer that counted: it may come again, because our answer was lost.
    pub(crate) received: Vec<u8>,
    /// Our answer to it.
    pub(crate) answer: Vec<u8>,
    /// The shorter of both intervals; 0 until the peer's is known.
    pub(crate) cache_interval_s: u32,
    pub(crate) is_go_clear_told: bool,
}

/// Where packets go.
pub(crate) type PacketSink<'a> = &'a mut dyn FnMut(&[u8]);

impl Zrtp {
    /// Makes the Hello and sends nothing. `cache` is what is remembered of earlier calls.
    pub fn new(config: ZrtpConfig, cache: ZidCache, mut entropy: Entropy) -> Self {
        let [mut secrets, mut visible] = [(); 2].map(|()| Entropy::new(&Seed::from_bytes(entropy.bytes())));
        let chain = HashChain::new(&mut secrets);
        let config = ZrtpConfig { algorithms: config.algorithms.completed(), ..config };
        let hello = Hello {
            version: VERSION,
            client_id: config.client_id,
            h3: chain.h3,
            zid: config.zid,
            is_passive: config.commit_mode == CommitMode::Passive,
            algorithms: config.algorithms.clone(),
        };
        Self {
            hello: hello.write(&chain.h2),
            sequence: u16::from_be_bytes(visible.bytes()),
            config,
            secrets,
            visible,
            chain,
            cache,
            ssrc: 0,
            peer_hello_hash: None,
            hello_ack_from: None,
            hello_rounds: 0,
            peer: None,
            state: State::Idle,
            retransmission: None,
            give_up: None,
            confirm_failures: 0,
            computations: 0,
            events: VecDeque::new(),
            counts: ZrtpCounts::default(),
        }
    }

    /// Begins to send Hellos for our stream with this SSRC. `peer_hello_hash` is what the peer's signalling announced:
    /// no other Hello is then taken (RFC 6189 §8.1). Does nothing the second time.
    pub fn start(&mut self, now: Instant, ssrc: u32, peer_hello_hash: Option<[u8; 32]>, out: PacketSink<'_>) {
        if !matches!(self.state, State::Idle) {
            return;
        }
        self.ssrc = ssrc;
        self.peer_hello_hash = peer_hello_hash;
        self.state = State::Discovering;
        self.begin_hello_round(now, out);
    }

    /// The peer's signalling told its Hello hash after [`Zrtp::start`]; it counts for Hellos that come from now on. False
    /// when the Hello that was already taken is another: the call has to end.
    #[must_use]
    pub fn announce_peer_hello(&mut self, hash: [u8; 32]) -> bool {
        self.peer_hello_hash = Some(hash);
        self.peer.as_ref().is_none_or(|peer| sha256(&[&peer.message]) == hash)
    }

    /// Takes a datagram that [`is_zrtp`](crate::is_zrtp) sorted out.
    pub fn on_packet(&mut self, now: Instant, bytes: &[u8], out: PacketSink<'_>) {
        self.counts.packets += 1;
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(PacketError::NotZrtp | PacketError::Crc) => {
                self.counts.damaged += 1;
                return;
            }
            Err(PacketError::Malformed) => {
                self.counts.malformed += 1;
                return;
            }
        };
        if matches!(self.state, State::Idle) {
            self.counts.unexpected += 1;
            return;
        }
        if packet.kind == MessageType::Ping {
            return self.on_ping(&packet, out);
        }
        if self.peer.as_ref().is_some_and(|peer| peer.ssrc != packet.ssrc) {
            self.counts.strangers += 1;
            return;
        }
        let state = mem::replace(&mut self.state, State::Failed);
        self.state = match packet.kind {
            MessageType::Error => self.on_error(state, &packet, out),
            MessageType::Hello if self.peer.is_some() => self.on_hello_again(state, now, &packet, out),
            _ => self.on_message(state, now, &packet, out),
        };
    }

    /// An SRTP packet of the peer has authenticated with the key of [`ZrtpEvent::ReadyToReceive`]: as good as a Conf2ACK
    /// (RFC 6189 §4.6).
    pub fn on_authenticated_srtp(&mut self, now: Instant) {
        let state = mem::replace(&mut self.state, State::Failed);
        self.state = match state {
            State::AwaitConf2Ack(agreed, confirm) => self.secure(now, agreed, &confirm),
            other => other,
        };
    }

    /// Sends what is due again, and gives up what waits for too long.
    pub fn on_timeout(&mut self, now: Instant, out: PacketSink<'_>) {
        let due = self.retransmission.as_mut().map_or(Due::NotYet, |retransmission| retransmission.poll(now));
        match due {
            Due::NotYet => {}
            Due::Again => {
                if let Some(retransmission) = &self.retransmission {
                    let packet = write_packet(self.sequence, self.ssrc, &retransmission.message);
                    self.sequence = self.sequence.wrapping_add(1);
                    out(&packet);
                }
            }
            Due::GiveUp => self.on_exhausted(now, out),
        }
        if let Some((_, awaited)) = self.give_up.filter(|(at, _)| *at <= now) {
            self.state = self.fail(now, self.silence(awaited), out);
        }
    }

    /// What happened; call it until it gives nothing.
    pub fn poll_event(&mut self) -> Option<ZrtpEvent> {
        self.events.pop_front()
    }

    /// When to call [`Zrtp::on_timeout`].
    pub fn next_deadline(&self) -> Option<Deadline> {
        let retransmission = self
            .retransmission
            .as_ref()
            .map(|retransmission| Deadline { at: retransmission.at(), reason: retransmission.awaited });
        let give_up = self.give_up.map(|(at, reason)| Deadline { at, reason });
        [retransmission, give_up].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    /// For `a=zrtp-hash:1.10`, as 64 hexadecimal digits (RFC 6189 §8.1): SHA-256 of our Hello.
    pub fn hello_hash(&self) -> [u8; 32] {
        sha256(&[&self.hello])
    }

    /// True since [`ZrtpEvent::Secured`].
    pub const fn is_secured(&self) -> bool {
        matches!(self.state, State::Secured(_))
    }

    /// What is remembered, with what this call added.
    pub const fn cache(&self) -> &ZidCache {
        &self.cache
    }

    /// What came in.
    pub const fn counts(&self) -> ZrtpCounts {
        self.counts
    }

    /// How often we computed with Diffie-Hellman; at most [`COMPUTATIONS_MAX`].
    pub const fn computations(&self) -> u32 {
        self.computations
    }

    /// The state's own messages.
    fn on_message(&mut self, state: State, now: Instant, packet: &Packet<'_>, out: PacketSink<'_>) -> State {
        match state {
            State::Idle => state,
            State::Discovering => self.discovering(now, packet, out),
            State::AwaitCommit => self.await_commit(now, packet, out),
            State::AwaitDhPart1(offer) => self.await_dh_part1(offer, now, packet, out),
            State::AwaitDhPart2(answer) => self.await_dh_part2(answer, now, packet, out),
            State::AwaitConfirm1(agreed) => self.await_confirm1(agreed, now, packet, out),
            State::AwaitConfirm2(agreed) => self.await_confirm2(agreed, now, packet, out),
            State::AwaitConf2Ack(agreed, confirm) => self.await_conf2_ack(agreed, confirm, now, packet),
            State::Secured(agreed) => self.secured(agreed, packet, out),
            State::Failed => {
                if packet.kind == MessageType::ErrorAck {
                    self.retransmission = None;
                }
                state
            }
        }
    }

    fn on_ping(&mut self, packet: &Packet<'_>, out: PacketSink<'_>) {
        match ping_ack(packet.message, packet.ssrc, &self.config.zid) {
            Some(message) => self.send(&message, out),
            None => self.counts.malformed += 1,
        }
    }

    /// RFC 6189 §4.7.1: an Error ends an agreement under way. Nothing proves who sent it; from elsewhere than the peer,
    /// or when we are done, it is acknowledged and no more.
    fn on_error(&mut self, state: State, packet: &Packet<'_>, out: PacketSink<'_>) -> State {
        let Some(code) = error_code(packet.message) else {
            self.counts.malformed += 1;
            return state;
        };
        self.send(&write_message(MessageType::ErrorAck, &[]), out);
        if self.peer.is_none() || matches!(state, State::Idle | State::Secured(_) | State::Failed) {
            return state;
        }
        self.retransmission = None;
        self.give_up = None;
        self.events.push_back(ZrtpEvent::Failed(ZrtpFailure::PeerError(code)));
        State::Failed
    }

    /// No answer came in all the time of the schedule.
    fn on_exhausted(&mut self, now: Instant, out: PacketSink<'_>) {
        let awaited = self.retransmission.take().map_or("answer", |retransmission| retransmission.awaited);
        match self.state {
            State::Discovering if self.has_heard_others() => {
                self.state = self.fail(now, ZrtpFailure::HelloNotAnnounced, out);
            }
            State::Discovering => self.tell(ZrtpEvent::PeerNotZrtp),
            State::Idle | State::Failed => {}
            State::AwaitCommit
            | State::AwaitDhPart1(_)
            | State::AwaitDhPart2(_)
            | State::AwaitConfirm1(_)
            | State::AwaitConfirm2(_)
            | State::AwaitConf2Ack(..)
            | State::Secured(_) => self.state = self.fail(now, ZrtpFailure::Timeout(awaited), out),
        }
    }

    /// Why nothing came.
    fn silence(&self, awaited: &'static str) -> ZrtpFailure {
        if self.has_heard_others() { ZrtpFailure::HelloNotAnnounced } else { ZrtpFailure::Timeout(awaited) }
    }

    /// Somebody speaks ZRTP here, and not the one whom the signalling announced.
    fn has_heard_others(&self) -> bool {
        self.counts.not_announced > 0 && self.peer.is_none()
    }

    pub(crate) fn begin_hello_round(&mut self, now: Instant, out: PacketSink<'_>) {
        if self.hello_rounds >= HELLO_ROUNDS_MAX {
            return;
        }
        self.hello_rounds += 1;
        let hello = self.hello.clone();
        self.send(&hello, out);
        let mut retransmission = Retransmission::hello(now, hello);
        if self.peer.is_some() || self.peer_hello_hash.is_some() {
            retransmission.extend();
        }
        self.retransmission = Some(retransmission);
    }

    pub(crate) fn send(&mut self, message: &[u8], out: PacketSink<'_>) {
        out(&write_packet(self.sequence, self.ssrc, message));
        self.sequence = self.sequence.wrapping_add(1);
    }

    pub(crate) fn replace_state(&mut self, state: State) -> State {
        mem::replace(&mut self.state, state)
    }

    pub(crate) fn tell(&mut self, event: ZrtpEvent) {
        self.events.push_back(event);
    }

    /// Ends the agreement and tells the peer why, until it acknowledges.
    #[must_use]
    pub(crate) fn fail(&mut self, now: Instant, failure: ZrtpFailure, out: PacketSink<'_>) -> State {
        self.give_up = None;
        self.retransmission = None;
        if let Some(code) = failure.code() {
            let message = error(code);
            self.send(&message, out);
            self.retransmission = Some(Retransmission::message(now, message, "ErrorACK"));
        }
        self.tell(ZrtpEvent::Failed(failure));
        State::Failed
    }

    /// Counts a computation with Diffie-Hellman before it is begun.
    pub(crate) fn may_compute(&mut self) -> Result<(), ZrtpFailure> {
        if self.computations >= COMPUTATIONS_MAX {
            return Err(ZrtpFailure::TooManyComputations);
        }
        self.computations += 1;
        Ok(())
    }

    pub(crate) fn key_pair(&mut self, chosen: Chosen) -> Result<KeyPair, ZrtpFailure> {
        self.may_compute()?;
        Ok(KeyPair::new(chosen.key_agreement, chosen.cipher, &mut self.secrets))
    }

    /// A GoClear and a SASrelay as our end in `role` would send them.
    #[cfg(test)]
    pub(crate) fn sealed_with_session_keys(&self, role: Role) -> (Vec<u8>, Vec<u8>) {
        let State::Secured(agreed) = &self.state else { panic!("not secured") };
        let (hash, keys) = (agreed.chosen.hash, agreed.keys.of(role));
        let clear_mac: [u8; 8] = hash.mac(&keys.mac, &[b"GoClear "]).leftmost();
        let relay_mac: [u8; 8] = hash.mac(&keys.mac, &[&[0; 40]]).leftmost();
        (
            write_message(MessageType::GoClear, &[&clear_mac]),
            write_message(MessageType::SasRelay, &[&relay_mac, &[0; 16], &[0; 40]]),
        )
    }

    #[cfg(test)]
    pub(crate) const fn state_name(&self) -> &'static str {
        match self.state {
            State::Idle => "idle",
            State::Discovering => "discovering",
            State::AwaitCommit => "await Commit",
            State::AwaitDhPart1(_) => "await DHPart1",
            State::AwaitDhPart2(_) => "await DHPart2",
            State::AwaitConfirm1(_) => "await Confirm1",
            State::AwaitConfirm2(_) => "await Confirm2",
            State::AwaitConf2Ack(..) => "await Conf2ACK",
            State::Secured(_) => "secured",
            State::Failed => "failed",
        }
    }
}

impl fmt::Debug for Zrtp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zrtp(..)")
    }
}

/// How long a responder waits for the initiator's next message (RFC 6189 §6), and any end for a peer that is known to
/// be there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(12);
