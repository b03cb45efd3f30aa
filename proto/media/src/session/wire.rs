//! Two sessions, a link between them that loses, duplicates and reorders packets, and a virtual clock.

use super::*;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::Outbox;
use ringway_sdp::{Codec, CryptoSuite, MasterKey};

/// Faults of the link, in thousandths.
#[derive(Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) lost: u32,
    pub(super) duplicated: u32,
    pub(super) reordered: u32,
    pub(super) jitter_ms: u64,
}

/// One end.
pub(super) struct End {
    pub(super) session: MediaSession,
    pub(super) address: SocketAddr,
    /// All samples that were played.
    pub(super) played: Vec<i16>,
    pub(super) events: Vec<MediaEvent>,
    /// Datagrams that this end sent.
    pub(super) sent: Vec<Vec<u8>>,
    /// Datagrams that reached it, including duplicates.
    pub(super) delivered: u64,
}

/// A datagram in transit.
struct Flight {
    due: Instant,
    to: usize,
    listener: ListenerId,
    bytes: Vec<u8>,
}

/// Both ends and the link between them.
pub(super) struct Wire {
    pub(super) ends: [End; 2],
    pub(super) now: Instant,
    pub(super) faults: Faults,
    pub(super) rng: Rng,
    flights: Vec<Flight>,
    tone: usize,
}

pub(super) fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], port))
}

pub(super) fn plain(remote: SocketAddr) -> MediaParams {
    MediaParams {
        remote,
        remote_rtcp: SocketAddr::new(remote.ip(), remote.port() + 1),
        rtcp_mux: false,
        codec: Codec::Pcma,
        payload_type: 8,
        receive: Vec::from([(8, Codec::Pcma), (0, Codec::Pcmu)]),
        telephone_event: Some(101),
        receive_telephone_event: Some(101),
        ptime_ms: 20,
        direction: Direction::SendRecv,
        protection: Protection::None,
        ice: None,
    }
}

pub(super) fn key(suite: CryptoSuite, number: u8) -> MasterKey {
    MasterKey {
        key: alloc::vec![number; suite.key_bytes()],
        salt: alloc::vec![number ^ 0x5a; suite.salt_bytes()],
        lifetime_packets: None,
        mki: Vec::new(),
    }
}

/// The same stream protected by SDES; `sends` and `receives` are the numbers of the keys.
pub(super) fn sdes(params: MediaParams, suite: CryptoSuite, sends: u8, receives: u8) -> MediaParams {
    let protection = Protection::Sdes { suite, send: key(suite, sends), receive: key(suite, receives) };
    MediaParams { protection, ..params }
}

impl Wire {
    /// Creates two ends without parameters.
    pub(super) fn with_configs(seed: u64, configs: [SessionConfig; 2], faults: Faults) -> Self {
        let now = Instant::from_secs(1_700_000_000);
        let seed = Seed::from_number(seed);
        let mut number = 0;
        let ends = configs.map(|config| {
            number += 1;
            End {
                session: MediaSession::new(config, seed.part(number), now),
                address: address(number as u8, 4000 * number as u16),
                played: Vec::new(),
                events: Vec::new(),
                sent: Vec::new(),
                delivered: 0,
            }
        });
        Self { ends, now, faults, rng: Rng::new(&seed.part(9)), flights: Vec::new(), tone: 0 }
    }

    /// Creates two ends in an unprotected call.
    pub(super) fn plain(seed: u64, faults: Faults) -> Self {
        let mut wire = Self::with_configs(seed, [SessionConfig::default(), SessionConfig::default()], faults);
        wire.agree(|params, _| params);
        wire
    }

    /// Creates two ends in a call protected by SDES.
    pub(super) fn sdes(seed: u64, suite: CryptoSuite, faults: Faults) -> Self {
        let mut wire = Self::with_configs(seed, [SessionConfig::default(), SessionConfig::default()], faults);
        wire.agree(|params, end| sdes(params, suite, end as u8 + 1, 2 - end as u8));
        wire
    }

    /// Sets the parameters of both ends, modified by `change`.
    pub(super) fn agree(&mut self, change: impl Fn(MediaParams, usize) -> MediaParams) {
        for end in 0..2 {
            let params = change(plain(self.ends[1 - end].address), end);
            self.ends[end].session.set_params(self.now, params);
            self.collect(end);
        }
    }

    /// Runs for this many packet times. Each end plays its own tone: 500 Hz and 400 Hz.
    pub(super) fn run(&mut self, packets: usize) {
        for _ in 0..packets {
            for end in 0..2 {
                let sound = tone([16, 20][end], self.tone);
                let packet = self.ends[end].session.prepare(self.now, &sound);
                if let Some((bytes, to)) = packet.map(|(bytes, to)| (bytes.to_vec(), to)) {
                    self.send(end, to, RTP_PORT, bytes);
                }
            }
            self.tone += 160;
            let until = self.now + Duration::from_millis(20);
            self.pass(until);
            for end in &mut self.ends {
                let mut block = [0; 160];
                end.session.playout(until, &mut block);
                end.played.extend_from_slice(&block);
            }
        }
    }

    /// Delivers a datagram to an end with the source address `from`.
    pub(super) fn inject(&mut self, end: usize, from: SocketAddr, bytes: &[u8]) -> Outbox {
        let mut out = Outbox::new();
        let mut bytes = bytes.to_vec();
        self.ends[end].session.on_rtp(self.now, self.now, from, &mut bytes, &mut out);
        self.collect(end);
        out
    }

    /// Ends the call at one end.
    pub(super) fn close(&mut self, end: usize) {
        let mut out = Outbox::new();
        self.ends[end].session.close(self.now, &mut out);
        self.send_all(end, &out);
    }

    fn pass(&mut self, until: Instant) {
        loop {
            let deadlines =
                self.ends.iter().filter_map(|end| end.session.next_deadline()).map(|deadline| deadline.at);
            let flights = self.flights.iter().map(|flight| flight.due);
            let Some(next) = deadlines.chain(flights).min().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            self.deliver();
            for end in 0..2 {
                let mut out = Outbox::new();
                self.ends[end].session.on_timeout(self.now, &mut out);
                self.send_all(end, &out);
                self.collect(end);
            }
        }
        self.now = until;
    }

    fn deliver(&mut self) {
        while let Some(at) = self.flights.iter().position(|flight| flight.due <= self.now) {
            let mut flight = self.flights.remove(at);
            let from_port = if flight.listener == RTCP_PORT { 1 } else { 0 };
            let from = self.ends[1 - flight.to].address;
            let from = SocketAddr::new(from.ip(), from.port() + from_port);
            let end = &mut self.ends[flight.to];
            end.delivered += 1;
            let mut out = Outbox::new();
            if flight.listener == RTCP_PORT {
                end.session.on_rtcp(self.now, self.now, from, &mut flight.bytes, &mut out);
            } else {
                end.session.on_rtp(self.now, self.now, from, &mut flight.bytes, &mut out);
            }
            self.send_all(flight.to, &out);
            self.collect(flight.to);
        }
    }

    fn send_all(&mut self, end: usize, out: &Outbox) {
        for (packet, bytes) in out.packets() {
            self.send(end, packet.flow.remote, packet.flow.listener, bytes.to_vec());
        }
    }

    fn send(&mut self, end: usize, to: SocketAddr, listener: ListenerId, bytes: Vec<u8>) {
        self.ends[end].sent.push(bytes.clone());
        let peer = self.ends[1 - end].address;
        let port = if listener == RTCP_PORT { peer.port() + 1 } else { peer.port() };
        if to != SocketAddr::new(peer.ip(), port) || self.rng.random_bool(self.faults.lost) {
            return;
        }
        let copies = if self.rng.random_bool(self.faults.duplicated) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay_us = 1000 + self.rng.below(1 + 1000 * self.faults.jitter_ms);
            if self.rng.random_bool(self.faults.reordered) {
                delay_us += 30_000;
            }
            let due = self.now + Duration::from_micros(delay_us);
            self.flights.push(Flight { due, to: 1 - end, listener, bytes: bytes.clone() });
        }
    }

    fn collect(&mut self, end: usize) {
        let end = &mut self.ends[end];
        while let Some(event) = end.session.poll_event() {
            end.events.push(event);
        }
    }
}

/// 20 ms of a triangle wave of this period.
fn tone(period: usize, from: usize) -> Vec<i16> {
    (from..from + 160)
        .map(|at| ((at % period) as i16 - period as i16 / 2) * (16_000 / period as i16))
        .collect()
}

/// Number of 20 ms blocks that contain a tone of this period.
pub(super) fn blocks_of_tone(sound: &[i16], period: usize) -> usize {
    let is_tone = |block: &[i16]| {
        let energy: i64 = block.iter().map(|sample| i64::from(*sample).pow(2)).sum();
        let likeness: i64 =
            block.iter().zip(&block[period..]).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
        energy > 160 * 1_000_000 && likeness * 10 > energy * 6
    };
    sound.chunks_exact(160).filter(|block| is_tone(block)).count()
}
