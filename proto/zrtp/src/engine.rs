//! State machine of one key agreement: configuration, inputs and dispatch to the states.

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

/// Configuration of a ZRTP endpoint.
#[derive(Clone, Debug)]
pub struct ZrtpConfig {
    /// Our identity, generated at random once and kept (RFC 6189 §4.9).
    pub zid: Zid,
    /// Our client identifier in the Hello: printable ASCII, padded with spaces.
    pub client_id: [u8; 16],
    /// Supported algorithms in order of preference.
    pub algorithms: Algorithms,
    /// Role in sending the Commit.
    pub commit_mode: CommitMode,
    /// Time for which a secret is retained, in seconds: `u32::MAX` for ever, 0 not at all (RFC 6189 §4.9).
    pub cache_interval_s: u32,
}

impl ZrtpConfig {
    /// All implemented algorithms, active, with secrets retained for ever.
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

/// Role in sending the Commit: the passive flag P of the Hello (RFC 6189 §5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitMode {
    /// Sends a Commit as soon as possible. If both ends do, RFC 6189 §4.2 decides which one counts.
    #[default]
    Active,
    /// Leaves the Commit to the peer. Two passive ends never reach an agreement.
    Passive,
}

/// One key agreement for one media stream, from the first Hello to the end of the call.
///
/// Takes packets and the current time, passes packets to be sent to a closure, and reports events with
/// [`Zrtp::poll_event`]. Diffie-Hellman is computed inside [`Zrtp::on_packet`]: about 0.2 ms for EC25 and 1
/// to 3 ms for DH3k, at most [`COMPUTATIONS_MAX`] times.
pub struct Zrtp {
    pub(crate) config: ZrtpConfig,
    /// Randomness of private Diffie-Hellman values and of the hash chain.
    pub(crate) secrets: Entropy,
    /// Randomness of values that are sent in clear.
    pub(crate) visible: Entropy,
    pub(crate) chain: HashChain,
    pub(crate) hello: Vec<u8>,
    pub(crate) cache: ZidCache,
    pub(crate) ssrc: u32,
    sequence: u16,
    pub(crate) peer_hello_hash: Option<[u8; 32]>,
    /// SSRC of the last HelloACK.
    pub(crate) hello_ack_from: Option<u32>,
    pub(crate) hello_rounds: u32,
    pub(crate) peer: Option<Peer>,
    state: State,
    pub(crate) retransmission: Option<Retransmission>,
    /// Time at which waiting ends, and the awaited message, in states in which the peer retransmits.
    pub(crate) give_up: Option<(Instant, &'static str)>,
    /// Time at which a Hello with the announced hash is no longer expected, after one with another hash.
    pub(crate) unannounced_until: Option<Instant>,
    pub(crate) confirm_failures: u32,
    computations: u32,
    events: VecDeque<ZrtpEvent>,
    pub(crate) counts: ZrtpCounts,
}

/// The peer, known since its Hello.
pub(crate) struct Peer {
    pub(crate) ssrc: u32,
    pub(crate) hello: Hello,
    /// The Hello as received.
    pub(crate) message: Vec<u8>,
}

/// State of the key agreement, named after the awaited message.
pub(crate) enum State {
    Idle,
    /// Waiting for the peer's Hello or HelloACK.
    Discovering,
    /// Both Hellos were received; waiting for the peer's Commit.
    AwaitCommit,
    /// Our Commit was sent.
    AwaitDhPart1(Box<Offer>),
    /// The peer's Commit was accepted.
    AwaitDhPart2(Box<Answer>),
    AwaitConfirm1(Box<Agreed>),
    AwaitConfirm2(Box<Agreed>),
    /// The peer's Confirm was accepted.
    AwaitConf2Ack(Box<Agreed>, Confirm),
    Secured(Box<Agreed>),
    Failed,
}

/// Our side as the initiator, before the responder's public value is known.
pub(crate) struct Offer {
    pub(crate) chosen: Chosen,
    pub(crate) key_pair: KeyPair,
    pub(crate) hvi: [u8; 32],
    pub(crate) commit: Vec<u8>,
    pub(crate) dh_part2: Vec<u8>,
}

/// Our side as the responder, before the initiator's public value is known.
pub(crate) struct Answer {
    pub(crate) commit: Commit,
    pub(crate) commit_message: Vec<u8>,
    pub(crate) key_pair: KeyPair,
    pub(crate) dh_part1: Vec<u8>,
}

/// Both public values are known.
pub(crate) struct Agreed {
    pub(crate) role: Role,
    pub(crate) chosen: Chosen,
    pub(crate) keys: SessionKeys,
    pub(crate) continuity: Continuity,
    /// H1 that the hash of the peer's H0 must equal.
    pub(crate) peer_h1: [u8; 32],
    /// DHPart of the peer; the key of its MAC must be the peer's H0.
    pub(crate) peer_dh_part: Vec<u8>,
    /// Last accepted message of the peer; a retransmission of it is answered again.
    pub(crate) received: Vec<u8>,
    /// Our answer to it.
    pub(crate) answer: Vec<u8>,
    /// The shorter of both intervals; 0 until the peer's is known.
    pub(crate) cache_interval_s: u32,
    pub(crate) is_go_clear_reported: bool,
}

/// Receiver of packets to be sent.
pub(crate) type PacketSink<'a> = &'a mut dyn FnMut(&[u8]);

impl Zrtp {
    /// Creates the endpoint and its Hello; sends nothing. `cache` holds the retained secrets of earlier
    /// calls.
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
            unannounced_until: None,
            confirm_failures: 0,
            computations: 0,
            events: VecDeque::new(),
            counts: ZrtpCounts::default(),
        }
    }

    /// Starts sending Hellos for our stream with this SSRC. `peer_hello_hash` is the hash from the peer's
    /// `a=zrtp-hash`: Hellos with another hash are then ignored (RFC 6189 §8.1). Further calls do nothing.
    pub fn start(&mut self, now: Instant, ssrc: u32, peer_hello_hash: Option<[u8; 32]>, out: PacketSink<'_>) {
        if !matches!(self.state, State::Idle) {
            return;
        }
        self.ssrc = ssrc;
        self.peer_hello_hash = peer_hello_hash;
        self.state = State::Discovering;
        self.begin_hello_round(now, out);
    }

    /// Sets the peer's `a=zrtp-hash` when it arrives after [`Zrtp::start`]; it applies to the Hellos that
    /// follow. Returns false if the Hello that was already accepted has another hash: the call must end.
    #[must_use]
    pub fn announce_peer_hello(&mut self, hash: [u8; 32]) -> bool {
        if self.peer_hello_hash.replace(hash) != Some(hash) {
            self.unannounced_until = None;
        }
        self.peer.as_ref().is_none_or(|peer| sha256(&[&peer.message]) == hash)
    }

    /// Handles a datagram for which [`is_zrtp`](crate::is_zrtp) is true.
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

    /// Reports that an SRTP packet of the peer was authenticated with the key of
    /// [`ZrtpEvent::ReadyToReceive`], which is equivalent to a Conf2ACK (RFC 6189 §4.6).
    pub fn on_authenticated_srtp(&mut self, now: Instant) {
        let state = mem::replace(&mut self.state, State::Failed);
        self.state = match state {
            State::AwaitConf2Ack(agreed, confirm) => self.secure(now, agreed, &confirm),
            other => other,
        };
    }

    /// Retransmits messages that are due, and ends the agreement when the peer has not answered in time.
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
        if self.unannounced_until.is_some_and(|at| at <= now) {
            self.state = self.fail(now, ZrtpFailure::HelloNotAnnounced, out);
        }
    }

    /// Next event, if any; call until it returns `None`.
    pub fn poll_event(&mut self) -> Option<ZrtpEvent> {
        self.events.pop_front()
    }

    /// Time of the next call of [`Zrtp::on_timeout`].
    pub fn next_deadline(&self) -> Option<Deadline> {
        let retransmission = self
            .retransmission
            .as_ref()
            .map(|retransmission| Deadline { at: retransmission.at(), reason: retransmission.awaited });
        let give_up = self.give_up.map(|(at, reason)| Deadline { at, reason });
        let unannounced =
            self.unannounced_until.map(|at| Deadline { at, reason: "Hello with the announced hash" });
        [retransmission, give_up, unannounced].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }

    /// SHA-256 of our Hello, for `a=zrtp-hash:1.10` as 64 hexadecimal digits (RFC 6189 §8.1).
    pub fn hello_hash(&self) -> [u8; 32] {
        sha256(&[&self.hello])
    }

    /// True from [`ZrtpEvent::Secured`] on.
    pub const fn is_secured(&self) -> bool {
        matches!(self.state, State::Secured(_))
    }

    /// Retained secrets, including those of this call.
    pub const fn cache(&self) -> &ZidCache {
        &self.cache
    }

    /// Numbers of received packets.
    pub const fn counts(&self) -> ZrtpCounts {
        self.counts
    }

    /// Number of Diffie-Hellman computations; at most [`COMPUTATIONS_MAX`].
    pub const fn computations(&self) -> u32 {
        self.computations
    }

    /// Dispatches a message to the handler of the state.
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

    /// RFC 6189 §4.7.1: an Error ends an agreement in progress. It is not authenticated; one from another
    /// SSRC, or after the agreement, is only acknowledged.
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

    /// Handles the end of a retransmission schedule without an answer.
    fn on_exhausted(&mut self, now: Instant, out: PacketSink<'_>) {
        let awaited = self.retransmission.take().map_or("answer", |retransmission| retransmission.awaited);
        match self.state {
            State::Discovering if self.has_heard_others() => {
                self.state = self.fail(now, ZrtpFailure::HelloNotAnnounced, out);
            }
            State::Discovering => self.emit(ZrtpEvent::PeerNotZrtp),
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

    /// Failure to report when nothing was received.
    fn silence(&self, awaited: &'static str) -> ZrtpFailure {
        if self.has_heard_others() { ZrtpFailure::HelloNotAnnounced } else { ZrtpFailure::Timeout(awaited) }
    }

    /// True if ZRTP packets arrived, but none from the peer that the signalling announced.
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

    pub(crate) fn emit(&mut self, event: ZrtpEvent) {
        self.events.push_back(event);
    }

    /// Ends the agreement and sends an Error until the peer acknowledges it.
    #[must_use]
    pub(crate) fn fail(&mut self, now: Instant, failure: ZrtpFailure, out: PacketSink<'_>) -> State {
        self.give_up = None;
        self.unannounced_until = None;
        self.retransmission = None;
        if let Some(code) = failure.code() {
            let message = error(code);
            self.send(&message, out);
            self.retransmission = Some(Retransmission::message(now, message, "ErrorACK"));
        }
        self.emit(ZrtpEvent::Failed(failure));
        State::Failed
    }

    /// Counts a Diffie-Hellman computation before it starts.
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

    /// A GoClear and a SASrelay with the session keys of our end in `role`.
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

/// Time that a responder waits for the initiator's next message (RFC 6189 §6), and either end for a peer that
/// has sent a Hello.
pub(crate) const PATIENCE: Duration = Duration::from_secs(12);

/// Time to a Hello with the announced hash after one with another hash.
pub(crate) const UNANNOUNCED_WAIT: Duration = Duration::from_secs(2);
