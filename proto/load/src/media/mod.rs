//! Media streams of many calls: RTP and SRTP packets of 20 ms (G.711, 160 bytes of payload), and their quality.
//!
//! ```text
//! MediaEvent::Started ──► receives ── Confirmed ──► sends and receives ── Ended ──► receives for LINGER ──► StreamReport
//! ```
//!
//! A scenario that plays recordings ([`MediaEvent::Play`]) sends their packets in place of those of its streams.
//!
//! All streams of a side share one address. A packet belongs to the stream of its source address and SSRC, if the peer's SDP
//! has an SSRC (RFC 5576), or else to the stream of its source address (symmetric RTP, RFC 4961).

mod players;
mod stream;

#[cfg(test)]
mod tests;

pub use stream::StreamReport;

use crate::session::{MediaEvent, MediaRefusal, MediaStart};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use hashbrown::HashTable;
use players::Players;
use ringway_media::rtp::{DatagramKind, RtpPacket};
use ringway_sansio::{Deadline, Flow, Instant, ListenerId, Outbox, Rng, Seed};
use ringway_transaction::{Slab, SlabKey};
use siphasher::sip::SipHasher13;
use stream::{Sending, Stream};

/// Media streams of the calls of one thread.
#[derive(Debug)]
pub struct MediaStreams {
    streams: Slab<Stream>,
    streams_max: usize,
    ring: Ring,
    by_call: HashTable<(u64, SlabKey)>,
    by_peer: HashTable<(u64, SlabKey)>,
    /// Streams that send no more, with the time of their end, in order.
    lingering: VecDeque<(Instant, SlabKey)>,
    ended: VecDeque<StreamReport>,
    players: Players,
    rng: Rng,
    hash_key: [u8; 16],
    mark: u64,
    counters: MediaCounters,
}

/// Counters of media streams; the values only increase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaCounters {
    /// Streams that were started.
    pub started: u64,
    /// Recordings that were started.
    pub played: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets sent more than [`MediaStreams::LATE`] after their planned time.
    pub late: u64,
    /// Longest time from a planned time to sending.
    pub late_max: Duration,
    /// Packets that were not sent because the generator was more than 200 ms late, or that a recording has for a port above 65,535.
    pub skipped: u64,
    /// Packets that were not sent because their SRTP key was used up.
    pub unprotected: u64,
    /// Datagrams received.
    pub received: u64,
    /// RTP packets that belong to no stream: too early, too late, or of a stranger.
    pub stray: u64,
    /// Datagrams that are not RTP.
    pub not_rtp: u64,
    /// Calls without a stream, by reason.
    pub refused: BTreeMap<MediaRefusal, u64>,
}

impl MediaStreams {
    /// Maximum number of streams unless [`Self::set_streams_max`] changes it.
    pub const STREAMS_MAX: usize = 50_000;
    /// Delay from which on a sent packet is late.
    pub const LATE: Duration = Duration::from_millis(5);
    /// Time for which packets of an ended stream are still received.
    pub const LINGER: Duration = Duration::from_millis(200);

    /// Creates the streams of a thread. All streams of a run have the same `mark`: a random number by which they recognize the
    /// packets of each other, whose send time is on the same clock.
    pub fn new(seed: &Seed, mark: u64, now: Instant) -> Self {
        let mut hash_key = [0; 16];
        hash_key.copy_from_slice(seed.part(1).bytes().split_at(16).0);
        Self {
            streams: Slab::default(),
            streams_max: Self::STREAMS_MAX,
            ring: Ring::new(now),
            by_call: HashTable::new(),
            by_peer: HashTable::new(),
            lingering: VecDeque::new(),
            ended: VecDeque::new(),
            players: Players::default(),
            rng: Rng::new(&seed.part(0)),
            hash_key,
            mark,
            counters: MediaCounters::default(),
        }
    }

    /// Changes the maximum number of streams.
    pub const fn set_streams_max(&mut self, streams_max: usize) {
        self.streams_max = streams_max;
    }

    /// Handles the start or end of the media of an attempt. `listener` is the side of the attempt: its packets are sent and
    /// received there.
    pub fn on_event(&mut self, now: Instant, listener: ListenerId, event: &MediaEvent) {
        match event {
            MediaEvent::Started(start) => {
                if let Err(refusal) = self.start(now, listener, start) {
                    self.refuse(refusal);
                }
            }
            MediaEvent::Confirmed(call) => {
                if let Some(key) = self.stream_of(listener, *call) {
                    self.confirm(now, key);
                }
            }
            MediaEvent::Play(play) => match self.players.start(now, listener, play, self.streams_max) {
                Ok(()) => self.counters.played += 1,
                Err(refusal) => self.refuse(refusal),
            },
            MediaEvent::Ended(call) => {
                self.players.stop(listener, *call);
                if let Some(key) = self.stream_of(listener, *call) {
                    self.linger(now, key);
                }
            }
            MediaEvent::Refused(refusal) => self.refuse(*refusal),
        }
    }

    /// Counts a call without a stream.
    pub fn refuse(&mut self, refusal: MediaRefusal) {
        *self.counters.refused.entry(refusal).or_default() += 1;
    }

    /// Ends all streams and recordings.
    pub fn end_all(&mut self, now: Instant) {
        self.players.stop_all();
        let open = self.streams.iter().filter(|(_, stream)| stream.state != Sending::Ended);
        let keys: alloc::vec::Vec<SlabKey> = open.map(|(key, _)| key).collect();
        for key in keys {
            self.linger(now, key);
        }
    }

    /// Writes up to `packets_max` packets that are due; true if more are. The time in the payload of a stream's packet is `now`.
    pub fn send_due(&mut self, now: Instant, packets_max: usize, out: &mut Outbox) -> bool {
        let played = self.players.send_due(now, packets_max, &mut self.counters, out);
        self.counters.skipped += self.ring.skip_late(now);
        for _ in played..packets_max {
            let Some(turn) = self.ring.take_due(now) else { return false };
            let Some(stream) =
                self.streams.get_mut(turn.key).filter(|stream| stream.state == Sending::Active)
            else {
                self.ring.remove_taken();
                continue;
            };
            if stream.send(turn, now, self.mark, out) {
                let late = now.since(turn.due);
                self.counters.sent += 1;
                self.counters.late += u64::from(late > Self::LATE);
                self.counters.late_max = self.counters.late_max.max(late);
            } else {
                self.counters.unprotected += 1;
            }
        }
        true
    }

    /// Handles a datagram of `flow` that arrived at `arrived`; its bytes are changed in place. Returns its one-way delay, if
    /// the other end is a stream of the same run.
    pub fn on_datagram(&mut self, arrived: Instant, flow: Flow, bytes: &mut [u8]) -> Option<Duration> {
        self.counters.received += 1;
        let header = match (DatagramKind::of(bytes), RtpPacket::parse_header(bytes)) {
            (DatagramKind::Rtp, Ok(packet)) => packet.header(),
            _ => {
                self.counters.not_rtp += 1;
                return None;
            }
        };
        let key = self.peer_of(flow.listener, flow.remote, Some(header.ssrc));
        let key = key.or_else(|| self.peer_of(flow.listener, flow.remote, None));
        let Some(stream) = key.and_then(|key| self.streams.get_mut(key)) else {
            self.counters.stray += 1;
            return None;
        };
        stream.receive(arrived, bytes, self.mark)
    }

    /// Ends the streams whose time to linger is over.
    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(&(_, key)) = self.lingering.front().filter(|(at, _)| *at <= now) {
            self.lingering.pop_front();
            self.remove(key);
        }
    }

    /// Time of the next necessary call of [`Self::send_due`] or [`Self::on_timeout`].
    pub fn next_deadline(&self) -> Option<Deadline> {
        let packet = self.ring.next_due().map(|at| Deadline { at, reason: "a media packet" });
        let end = self.lingering.front().map(|&(at, _)| Deadline { at, reason: "the end of a stream" });
        let played = self.players.next_due().map(|at| Deadline { at, reason: "a recorded packet" });
        packet.into_iter().chain(played).chain(end).min_by_key(|deadline| deadline.at)
    }

    /// Result of the next stream that has ended.
    pub fn take_ended(&mut self) -> Option<StreamReport> {
        self.ended.pop_front()
    }

    /// Number of streams.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// True if there are no streams, and nothing is played.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.players.is_empty()
    }

    /// Counters since the start.
    pub const fn counters(&self) -> &MediaCounters {
        &self.counters
    }

    fn start(&mut self, now: Instant, listener: ListenerId, start: &MediaStart) -> Result<(), MediaRefusal> {
        if self.streams.len() >= self.streams_max {
            return Err(MediaRefusal::Full);
        }
        if let Some(key) = self.peer_of(listener, start.remote, start.remote_ssrc) {
            // A phone uses the port of its last call again.
            match self.streams.get(key).is_some_and(|stream| stream.state == Sending::Ended) {
                true => self.remove(key),
                false => return Err(MediaRefusal::Ambiguous),
            }
        }
        let stream = Stream::new(listener, start, &mut self.rng).map_err(|_| MediaRefusal::Protection)?;
        let key = self.streams.insert(stream);
        let hash = self.peer_hash(listener, start.remote, start.remote_ssrc);
        self.by_peer.insert_unique(hash, (hash, key), |entry| entry.0);
        let hash = self.call_hash(listener, start.call);
        self.by_call.insert_unique(hash, (hash, key), |entry| entry.0);
        self.counters.started += 1;
        if start.is_confirmed {
            self.confirm(now, key);
        }
        Ok(())
    }

    /// Lets a stream send.
    fn confirm(&mut self, now: Instant, key: SlabKey) {
        if let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.state == Sending::NotYet) {
            stream.state = Sending::Active;
            self.ring.add(now, key);
        }
    }

    /// Ends the sending of a stream.
    fn linger(&mut self, now: Instant, key: SlabKey) {
        if let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.state != Sending::Ended) {
            stream.state = Sending::Ended;
            self.lingering.push_back((now + Self::LINGER, key));
        }
    }

    fn remove(&mut self, key: SlabKey) {
        let Some(stream) = self.streams.remove(key) else { return };
        let by_call = self.call_hash(stream.flow.listener, stream.call);
        if let Ok(entry) = self.by_call.find_entry(by_call, |entry| entry.1 == key) {
            entry.remove();
        }
        let by_peer = self.peer_hash(stream.flow.listener, stream.flow.remote, stream.remote_ssrc);
        if let Ok(entry) = self.by_peer.find_entry(by_peer, |entry| entry.1 == key) {
            entry.remove();
        }
        self.ended.push_back(stream.report());
    }

    fn stream_of(&self, listener: ListenerId, call: u64) -> Option<SlabKey> {
        let is_it = |entry: &(u64, SlabKey)| {
            self.streams.get(entry.1).is_some_and(|s| s.call == call && s.flow.listener == listener)
        };
        self.by_call.find(self.call_hash(listener, call), is_it).map(|entry| entry.1)
    }

    fn peer_of(&self, listener: ListenerId, remote: SocketAddr, ssrc: Option<u32>) -> Option<SlabKey> {
        let flow = Flow::udp(listener, remote);
        let is_it = |entry: &(u64, SlabKey)| {
            self.streams.get(entry.1).is_some_and(|s| s.remote_ssrc == ssrc && s.flow == flow)
        };
        self.by_peer.find(self.peer_hash(listener, remote, ssrc), is_it).map(|entry| entry.1)
    }

    fn call_hash(&self, listener: ListenerId, call: u64) -> u64 {
        let mut hash = SipHasher13::new_with_key(&self.hash_key);
        hash.write_u8(listener.0);
        hash.write_u64(call);
        hash.finish()
    }

    fn peer_hash(&self, listener: ListenerId, remote: SocketAddr, ssrc: Option<u32>) -> u64 {
        let mut hash = SipHasher13::new_with_key(&self.hash_key);
        match remote.ip() {
            IpAddr::V4(v4) => hash.write_u32(v4.to_bits()),
            IpAddr::V6(v6) => hash.write(&v6.octets()),
        }
        hash.write_u64(
            u64::from(remote.port()) << 40 | u64::from(listener.0) << 32 | u64::from(ssrc.unwrap_or(0)),
        );
        hash.finish()
    }
}

/// Time between two packets of a stream.
const PACKET_INTERVAL: Duration = Duration::from_millis(20);
/// Largest delay of a slot; packets of older ones are skipped.
const BEHIND_MAX: Duration = Duration::from_millis(200);

const SLOTS: u64 = 20;
const SLOT: Duration = Duration::from_millis(1);

/// Streams by the millisecond of the packet interval in which they send.
#[derive(Debug)]
struct Ring {
    slots: [Vec<SlabKey>; SLOTS as usize],
    origin: Instant,
    /// Number of the next slot since the origin.
    next: u64,
    /// Number of streams of the next slot that have sent.
    sent: usize,
}

/// Turn of one stream.
#[derive(Clone, Copy, Debug)]
struct Turn {
    key: SlabKey,
    /// Planned time.
    due: Instant,
    /// Number of the packet interval since the origin.
    lap: u64,
}

impl Ring {
    fn new(origin: Instant) -> Self {
        Self { slots: Default::default(), origin, next: 0, sent: 0 }
    }

    /// Adds a stream to the slot with the fewest streams; among equals to the next one.
    fn add(&mut self, now: Instant, key: SlabKey) {
        if self.slots.iter().all(Vec::is_empty) {
            self.next = now.since(self.origin).as_millis() as u64 + 1;
            self.sent = 0;
        }
        let first = self.next;
        let slots = (first..first + SLOTS).map(|number| (number % SLOTS) as usize);
        let least = slots.min_by_key(|&slot| self.slots.get(slot).map_or(0, Vec::len));
        if let Some(slot) = least.and_then(|slot| self.slots.get_mut(slot)) {
            slot.push(key);
        }
    }

    /// Time of the next slot with streams.
    fn next_due(&self) -> Option<Instant> {
        let has_streams =
            |number: &u64| self.slots.get((number % SLOTS) as usize).is_some_and(|s| !s.is_empty());
        (self.next..self.next + SLOTS).find(has_streams).map(|number| self.due_at(number))
    }

    /// Next stream whose packet is due.
    fn take_due(&mut self, now: Instant) -> Option<Turn> {
        loop {
            let due = self.due_at(self.next);
            if due > now || self.slots.iter().all(Vec::is_empty) {
                return None;
            }
            let slot = self.slots.get((self.next % SLOTS) as usize)?;
            if let Some(&key) = slot.get(self.sent) {
                self.sent += 1;
                return Some(Turn { key, due, lap: self.next / SLOTS });
            }
            self.next += 1;
            self.sent = 0;
        }
    }

    /// Removes the stream that [`Ring::take_due`] has returned last.
    fn remove_taken(&mut self) {
        let Some(slot) = self.slots.get_mut((self.next % SLOTS) as usize) else { return };
        if let Some(last) = self.sent.checked_sub(1).filter(|&last| last < slot.len()) {
            slot.swap_remove(last);
            self.sent = last;
        }
    }

    /// Passes over packet intervals that are more than [`BEHIND_MAX`] late; returns the number of packets that were due in
    /// them.
    fn skip_late(&mut self, now: Instant) -> u64 {
        let late = now.since(self.due_at(self.next));
        if late <= BEHIND_MAX {
            return 0;
        }
        let laps = (late.as_nanos() / PACKET_INTERVAL.as_nanos()) as u64;
        self.next += laps * SLOTS;
        laps * self.slots.iter().map(|slot| slot.len() as u64).sum::<u64>()
    }

    fn due_at(&self, number: u64) -> Instant {
        self.origin + Duration::from_nanos(number.saturating_mul(SLOT.as_nanos() as u64))
    }
}
