//! Latching (RFC 7362 §4): the peer's media address, as signalled or as its packets show it. Probing of consecutive
//! ports of the peer while no packets arrive. Sound between our offer and the parameters that the peer's answer gives
//! (RFC 3264 §5.1).

use super::config::PortRow;
use crate::rtp::{RtpHeader, RtpPacket};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use ringway_sansio::Instant;
use ringway_sdp::Codec;

/// Tracks the peer's address.
///
/// Without SRTP the sender is not authenticated. The signalled address is accepted at once and permanently;
/// another one only while nothing arrives from the signalled address, and after [`LATCH_PACKETS`] packets in
/// a row. After that another port is accepted only where the stream itself moves, as behind a NAT that assigns a new one: the
/// same host continues the SSRC and the sequence numbers, and the old port is silent. With SRTP the packets are authenticated: the first source
/// is accepted, and another one only after the first has stopped sending.
#[derive(Debug)]
pub(super) struct Latch {
    signalled: SocketAddr,
    latched: Option<Latched>,
    candidate: Option<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Latched {
    address: SocketAddr,
    proof: Proof,
    last_at: Instant,
    /// SSRC and sequence number of the last unprotected packet.
    stream: Option<(u32, u16)>,
}

/// Reason to accept an address as the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    None,
    Authenticated,
}

/// A source that may become the peer's.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    address: SocketAddr,
    ssrc: u32,
    sequence: u16,
    packets: u32,
    last_at: Instant,
}

/// Sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// The peer, from its known address.
    Peer,
    /// The peer, from a new address.
    NewPeer,
    /// Another sender, or unknown.
    Stranger,
}

impl Latch {
    pub(super) const fn new(signalled: SocketAddr) -> Self {
        Self { signalled, latched: None, candidate: None }
    }

    /// Sets a new signalled address and discards the state of the old one.
    pub(super) fn on_signalled(&mut self, signalled: SocketAddr) {
        if self.signalled != signalled {
            *self = Self::new(signalled);
        }
    }

    /// Handles an unprotected packet of a negotiated payload type from `from`.
    pub(super) fn on_plain(&mut self, now: Instant, from: SocketAddr, header: RtpHeader) -> Sender {
        match &mut self.latched {
            Some(latched) if latched.address == from => {
                latched.last_at = now;
                latched.stream = Some((header.ssrc, header.sequence));
                Sender::Peer
            }
            _ if from == self.signalled => self.latch_to(now, from, Proof::None, Some(header)),
            Some(latched) if !latched.is_continued(now, from, header) => Sender::Stranger,
            Some(_) | None => self.on_candidate(now, from, header),
        }
    }

    /// Handles an authenticated packet from `from`. It is played in any case.
    pub(super) fn on_authenticated(&mut self, now: Instant, from: SocketAddr) -> Sender {
        match &mut self.latched {
            Some(latched) if latched.address == from => {
                latched.last_at = now;
                latched.proof = Proof::Authenticated;
                Sender::Peer
            }
            // Replayed packets are rejected before this. A delayed packet from elsewhere redirects our
            // packets only if the peer is silent, and they cannot be decrypted there.
            Some(latched)
                if latched.proof == Proof::Authenticated && now.since(latched.last_at) < MOVE_AFTER =>
            {
                Sender::Peer
            }
            Some(_) | None => self.latch_to(now, from, Proof::Authenticated, None),
        }
    }

    /// True for the known address of the peer.
    pub(super) fn is_peer(&self, from: SocketAddr) -> bool {
        self.target() == from
    }

    /// Destination of our packets.
    pub(super) fn target(&self) -> SocketAddr {
        self.latched.map_or(self.signalled, |latched| latched.address)
    }

    /// Latched source address of the peer.
    pub(super) fn heard_from(&self) -> Option<SocketAddr> {
        self.latched.map(|latched| latched.address)
    }

    /// Signalled address.
    pub(super) const fn signalled(&self) -> SocketAddr {
        self.signalled
    }

    fn on_candidate(&mut self, now: Instant, from: SocketAddr, header: RtpHeader) -> Sender {
        let packets = match &mut self.candidate {
            Some(candidate) if candidate.address == from && candidate.ssrc == header.ssrc => {
                let ahead = header.sequence.wrapping_sub(candidate.sequence);
                candidate.packets = if (1..=GAP_MAX).contains(&ahead) { candidate.packets + 1 } else { 1 };
                candidate.sequence = header.sequence;
                candidate.last_at = now;
                candidate.packets
            }
            Some(candidate) if now.since(candidate.last_at) < CANDIDATE_SILENCE => return Sender::Stranger,
            candidate => {
                let Candidate { packets, .. } = *candidate.insert(Candidate {
                    address: from,
                    ssrc: header.ssrc,
                    sequence: header.sequence,
                    packets: 1,
                    last_at: now,
                });
                packets
            }
        };
        if packets < LATCH_PACKETS {
            return Sender::Stranger;
        }
        self.latch_to(now, from, Proof::None, Some(header))
    }

    fn latch_to(
        &mut self,
        now: Instant,
        address: SocketAddr,
        proof: Proof,
        header: Option<RtpHeader>,
    ) -> Sender {
        let is_new = self.latched.is_none_or(|latched| latched.address != address);
        let stream = header.map(|header| (header.ssrc, header.sequence));
        self.latched = Some(Latched { address, proof, last_at: now, stream });
        self.candidate = None;
        if is_new { Sender::NewPeer } else { Sender::Peer }
    }
}

impl Latched {
    /// True if a packet from another port of the same host continues the unprotected stream of this one, which is silent.
    fn is_continued(&self, now: Instant, from: SocketAddr, header: RtpHeader) -> bool {
        let Some((ssrc, sequence)) = self.stream else { return false };
        let ahead = header.sequence.wrapping_sub(sequence);
        self.proof == Proof::None
            && self.address.ip() == from.ip()
            && ssrc == header.ssrc
            && (1..=CONTINUED_MAX).contains(&ahead)
            && now.since(self.last_at) >= CANDIDATE_SILENCE
    }
}

/// Number of packets in a row after which a source is accepted.
const LATCH_PACKETS: u32 = 5;
/// Maximum number of missing sequence numbers between them, plus one.
const GAP_MAX: u16 = 4;
/// Maximum number of sequence numbers between the last packet of a port and those of the port that continues it: 20 s.
const CONTINUED_MAX: u16 = 1000;
/// Time without a packet after which another candidate may try, or a stream may continue from another port.
const CANDIDATE_SILENCE: Duration = Duration::from_millis(200);
/// Time without a packet after which the address of another authenticated source is used.
const MOVE_AFTER: Duration = Duration::from_secs(1);

/// State of the probing: next port and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortProbe {
    row: PortRow,
    next: u8,
    due: Option<Instant>,
}

impl PortProbe {
    pub(super) const fn new(row: PortRow) -> Self {
        Self { row, next: 0, due: None }
    }

    /// Starts the wait for packets of the peer.
    pub(super) fn start(&mut self, now: Instant) {
        self.next = 0;
        self.due = (self.row.ports > 0).then(|| now + self.row.after);
    }

    /// Stops the probing: a packet arrived, or the call ended.
    pub(super) fn stop(&mut self) {
        self.due = None;
    }

    /// Time of the next probe.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Next port of the row, if it is due; the first follows the last.
    pub(super) fn next(&mut self, now: Instant, signalled: SocketAddr) -> Option<SocketAddr> {
        if self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.due = Some(now + INTERVAL);
        self.next = self.next % self.row.ports.max(1) + 1;
        // RTP and RTCP of the peer take a port each of such a NAT, as does its other traffic: any parity is possible.
        let port = signalled.port().checked_add(u16::from(self.next))?;
        Some(SocketAddr::new(signalled.ip(), port))
    }
}

/// Unprotected sound that our offer lets the peer send before its answer arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedSound {
    /// Payload types and codecs of the offer.
    pub receive: Vec<(u8, Codec)>,
    /// True if the offer has keys too. The peer may then send SRTP with a key that only its answer has.
    pub may_be_protected: bool,
}

/// The state of it.
#[derive(Debug)]
pub(super) struct Offered {
    sound: OfferedSound,
    /// Of a peer whose address is not known: a source is accepted after some packets in a row, and no other after it.
    latch: Latch,
}

impl Offered {
    pub(super) const fn new(sound: OfferedSound) -> Self {
        Self { sound, latch: Latch::new(UNKNOWN) }
    }

    /// Codec and sender of a packet to be played; `None`: it is not one of the offered sound, or of another source.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        from: SocketAddr,
        packet: &RtpPacket<'_>,
    ) -> Option<(Codec, Sender)> {
        let codec = self.codec_of(packet)?;
        match self.latch.on_plain(now, from, packet.header()) {
            sender @ (Sender::Peer | Sender::NewPeer) => Some((codec, sender)),
            Sender::Stranger => None,
        }
    }

    /// Codec of a packet; `None`: its payload type is not that of an offered codec, or it is SRTP.
    fn codec_of(&self, packet: &RtpPacket<'_>) -> Option<Codec> {
        let length = packet.payload().len();
        // Tags of SRTP have 4 to 16 bytes.
        let is_plain = !self.sound.may_be_protected || length.is_multiple_of(BLOCK_BYTES);
        let known = self.sound.receive.iter().find(|(number, _)| *number == packet.header().payload_type);
        known.filter(|_| length > 0 && is_plain).map(|(_, codec)| *codec)
    }
}

/// Interval of the probes, equal to that of audio packets.
const INTERVAL: Duration = Duration::from_millis(20);
/// No source has this address.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// 10 ms of G.711: packets have multiples of it (RFC 3551 §4.2).
const BLOCK_BYTES: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn header(sequence: u16) -> RtpHeader {
        RtpHeader { marker: false, payload_type: 0, sequence, timestamp: 0, ssrc: 1 }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    const SIGNALLED: u16 = 4000;

    fn latch() -> Latch {
        Latch::new(address(SIGNALLED))
    }

    #[test]
    fn the_signalled_source_is_accepted_at_once_and_no_other_after_it() {
        let mut latch = latch();
        assert_eq!(latch.on_plain(at(0), address(SIGNALLED), header(0)), Sender::NewPeer);
        for number in 0..100 {
            assert_eq!(latch.on_plain(at(20), address(9), header(number)), Sender::Stranger);
        }
        assert_eq!(latch.on_plain(at(9000), address(SIGNALLED), header(1)), Sender::Peer);
        assert_eq!(latch.target(), address(SIGNALLED));
    }

    #[test]
    fn another_source_is_accepted_after_five_packets_and_kept() {
        let mut latch = latch();
        for number in 0..4 {
            assert_eq!(latch.on_plain(at(20), address(9), header(number)), Sender::Stranger);
        }
        assert_eq!(latch.on_plain(at(20), address(9), header(4)), Sender::NewPeer);
        assert_eq!(latch.target(), address(9));
        for number in 0..100 {
            assert_eq!(latch.on_plain(at(20), address(10), header(number)), Sender::Stranger);
        }
        // The signalled source has precedence at any time.
        assert_eq!(latch.on_plain(at(20), address(SIGNALLED), header(0)), Sender::NewPeer);
        assert_eq!(latch.on_plain(at(20), address(9), header(5)), Sender::Stranger);
    }

    /// A NAT assigns another port in the call (RFC 4961: RTP is symmetric).
    #[test]
    fn a_stream_that_continues_from_another_port_is_followed() {
        for signalled in [SIGNALLED, 8] {
            let mut latch = latch();
            for number in 0..10 {
                latch.on_plain(at(20 * u64::from(number)), address(signalled), header(number));
            }
            assert_eq!(latch.target(), address(signalled));
            // The old port is not silent yet, then five packets are necessary.
            let senders: Vec<Sender> = (10..30)
                .map(|number| latch.on_plain(at(20 * u64::from(number)), address(9), header(number)))
                .collect();
            let first = senders.iter().position(|sender| *sender != Sender::Stranger);
            assert_eq!(
                first.map(|first| (first, senders[first], senders[first + 1])),
                Some((13, Sender::NewPeer, Sender::Peer))
            );
            assert_eq!(latch.target(), address(9));
        }
    }

    #[test]
    fn other_hosts_other_streams_and_other_numbers_do_not_continue_one() {
        let other_host = SocketAddr::from(([192, 0, 2, 2], 9));
        for (from, ssrc) in [(other_host, 1), (address(9), 2)] {
            let mut latch = latch();
            latch.on_plain(at(0), address(SIGNALLED), header(0));
            for number in 1..100 {
                let header = RtpHeader { ssrc, ..header(number) };
                assert_eq!(latch.on_plain(at(5000), from, header), Sender::Stranger);
            }
        }
        let mut latch = latch();
        latch.on_plain(at(0), address(SIGNALLED), header(0));
        for number in [0, 1001, 40_000, 65_000] {
            for more in 0..10 {
                let sender = latch.on_plain(at(5000), address(9), header(number + more));
                assert!(number == 0 && more > 0 || sender == Sender::Stranger, "{number}");
            }
            latch = Latch::new(address(SIGNALLED));
            latch.on_plain(at(0), address(SIGNALLED), header(0));
        }
        // While the old port sends, nothing is moved.
        for number in 1..200 {
            let now = at(20 * u64::from(number));
            assert_eq!(latch.on_plain(now, address(SIGNALLED), header(number)), Sender::Peer);
            assert_eq!(latch.on_plain(now, address(9), header(number + 1)), Sender::Stranger);
        }
        // A stream that was authenticated moves by its own rule.
        latch.on_authenticated(at(9000), address(SIGNALLED));
        for number in 200..300 {
            assert_eq!(latch.on_plain(at(20_000), address(9), header(number)), Sender::Stranger);
        }
    }

    #[test]
    fn gaps_in_the_numbers_or_two_sources_at_once_do_not_latch() {
        let mut latch = latch();
        for number in 0..50 {
            let sender = latch.on_plain(at(20), address(9), header(number * 977));
            assert_eq!(sender, Sender::Stranger);
        }
        for number in 0..4 {
            assert_eq!(latch.on_plain(at(300), address(10), header(number)), Sender::Stranger);
            assert_eq!(latch.on_plain(at(300), address(11), header(number)), Sender::Stranger);
        }
        assert_eq!(latch.heard_from(), None);
    }

    #[test]
    fn an_authenticated_source_is_replaced_only_when_it_is_silent() {
        let mut latch = latch();
        assert_eq!(latch.on_authenticated(at(0), address(9)), Sender::NewPeer);
        assert_eq!(latch.on_authenticated(at(500), address(10)), Sender::Peer);
        assert_eq!(latch.target(), address(9));
        assert_eq!(latch.on_authenticated(at(1500), address(10)), Sender::NewPeer);
        assert_eq!(latch.target(), address(10));
    }

    #[test]
    fn a_new_signalled_address_resets_the_latch() {
        let mut latch = latch();
        latch.on_authenticated(at(0), address(9));
        latch.on_signalled(address(SIGNALLED));
        assert_eq!(latch.target(), address(9));
        latch.on_signalled(address(5000));
        assert_eq!((latch.target(), latch.heard_from()), (address(5000), None));
    }

    #[test]
    fn ports_are_tried_in_turn_after_a_while() {
        let row = PortRow { ports: 3, after: Duration::from_secs(2) };
        let mut search = PortProbe::new(row);
        let signalled = SocketAddr::from(([192, 0, 2, 1], 4000));
        assert_eq!(search.next(Instant::from_secs(9), signalled), None);
        search.start(Instant::from_secs(10));
        assert_eq!(search.next(Instant::from_secs(11), signalled), None);
        let mut ports = alloc::vec::Vec::new();
        for _ in 0..5 {
            ports.extend(search.next(search.due().unwrap(), signalled).map(|address| address.port()));
        }
        assert_eq!(ports, [4001, 4002, 4003, 4001, 4002]);
        search.stop();
        assert_eq!(search.due(), None);
    }

    #[test]
    fn ports_above_65535_are_not_probed() {
        let mut search = PortProbe::new(PortRow { ports: 2, after: Duration::ZERO });
        search.start(Instant::from_secs(1));
        let last = SocketAddr::from(([192, 0, 2, 1], 65_535));
        assert_eq!(search.next(Instant::from_secs(1), last), None);
        assert!(search.due().is_some());
    }
}
