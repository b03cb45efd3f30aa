//! Two ends and a link between them on a virtual clock. The link loses, duplicates and reorders packets by a
//! seed, and a test may modify the packets.

use crate::*;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use ringway_sansio::{Entropy, Instant, Rng, Seed};
use ringway_sdp::{CryptoSuite, MasterKey};

/// Index of an end.
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

/// A packet in transit: arrival time, receiving end, bytes.
type Flight = (Instant, usize, Vec<u8>);

/// Modifies the packets that arrive at an end: the returned packets are delivered.
pub(crate) type Middle<'a> = &'a mut dyn FnMut(usize, Vec<u8>) -> Vec<Vec<u8>>;

pub(crate) struct Wire {
    pub(crate) ends: [Zrtp; 2],
    pub(crate) events: [Events; 2],
    pub(crate) now: Instant,
    pub(crate) loss_per_mille: u32,
    pub(crate) delay_ms_max: u64,
    delivered: usize,
    flights: Vec<Flight>,
    rng: Rng,
}

/// Events of an end.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) ready_to_receive: Option<(CryptoSuite, MasterKey)>,
    pub(crate) secured: Option<Secured>,
    pub(crate) retained: Vec<Retained>,
    pub(crate) forgotten: Vec<Zid>,
    pub(crate) failure: Option<ZrtpFailure>,
    pub(crate) not_zrtp: usize,
    pub(crate) go_clear: usize,
}

pub(crate) fn config(end: usize) -> ZrtpConfig {
    ZrtpConfig::new([end as u8 + 1; 12])
}

pub(crate) fn dh3k(config: ZrtpConfig) -> ZrtpConfig {
    let algorithms = Algorithms { key_agreements: [KeyAgreement::Dh3k].into(), ..config.algorithms };
    ZrtpConfig { algorithms, ..config }
}

pub(crate) fn waiting(config: ZrtpConfig) -> ZrtpConfig {
    ZrtpConfig { commit_mode: CommitMode::Passive, ..config }
}

/// SSRC of an end.
pub(crate) fn ssrc(end: usize) -> u32 {
    100 + end as u32
}

/// Message type of a packet.
pub(crate) fn kind_of(packet: &[u8]) -> &[u8] {
    packet.get(16..24).unwrap_or_default()
}

/// A modified packet with a valid CRC.
pub(crate) fn reframed(mut packet: Vec<u8>) -> Vec<u8> {
    let end = packet.len() - 4;
    let crc = crate::packet::CRC32C.checksum(&packet[..end]);
    packet[end..].copy_from_slice(&crc.to_le_bytes());
    packet
}

impl Wire {
    /// A link of 5 ms without loss between two ends with empty caches.
    pub(crate) fn new(seed: u64, configs: [ZrtpConfig; 2]) -> Self {
        Self::with_caches(seed, configs, [ZidCache::default(), ZidCache::default()])
    }

    pub(crate) fn with_caches(seed: u64, configs: [ZrtpConfig; 2], caches: [ZidCache; 2]) -> Self {
        let seed = Seed::from_number(seed);
        let [config_a, config_b] = configs;
        let [cache_a, cache_b] = caches;
        Self {
            ends: [
                Zrtp::new(config_a, cache_a, Entropy::new(&seed.part(1))),
                Zrtp::new(config_b, cache_b, Entropy::new(&seed.part(2))),
            ],
            events: Default::default(),
            now: Instant::from_secs(1000),
            loss_per_mille: 0,
            delay_ms_max: 5,
            delivered: 0,
            flights: Vec::new(),
            rng: Rng::new(&seed.part(3)),
        }
    }

    /// Both ends start at the same time.
    pub(crate) fn start(&mut self) {
        self.start_end(A, None);
        self.start_end(B, None);
    }

    pub(crate) fn start_end(&mut self, end: usize, announced: Option<[u8; 32]>) {
        self.call(end, |zrtp, now, out| zrtp.start(now, ssrc(end), announced, out));
    }

    /// Runs until no end has a deadline, or for `seconds`.
    pub(crate) fn run(&mut self, seconds: u64) {
        self.run_through(seconds, &mut |_, bytes| Vec::from([bytes]));
    }

    pub(crate) fn run_through(&mut self, seconds: u64, middle: Middle<'_>) {
        let end_at = self.now + Duration::from_secs(seconds);
        while let Some(next) = self.next_event().filter(|next| *next <= end_at) {
            self.now = self.now.max(next);
            self.step(middle);
        }
    }

    /// Delivers a packet to an end unchanged.
    pub(crate) fn inject(&mut self, end: usize, bytes: &[u8]) {
        self.call(end, |zrtp, now, out| zrtp.on_packet(now, bytes, out));
    }

    pub(crate) fn is_secured(&self) -> bool {
        self.events.iter().all(|events| events.secured.is_some())
    }

    /// Asserts that both ends have the same keys and the same string; returns the string.
    pub(crate) fn assert_agreed(&self, seed: u64) -> String {
        let [Some(one), Some(other)] = [&self.events[A].secured, &self.events[B].secured] else {
            let failures = [self.events[A].failure, self.events[B].failure];
            panic!(
                "seed {seed}: not secured: {failures:?}, {:?}",
                self.ends.each_ref().map(Zrtp::state_name)
            );
        };
        assert_eq!(one.suite, other.suite, "seed {seed}");
        assert_eq!(one.sas, other.sas, "seed {seed}");
        assert!(one.send == other.receive && one.receive == other.send, "seed {seed}");
        assert!(one.send != one.receive, "seed {seed}");
        one.sas.clone()
    }

    fn next_event(&self) -> Option<Instant> {
        let deadlines = self.ends.iter().filter_map(|end| end.next_deadline().map(|deadline| deadline.at));
        deadlines.chain(self.flights.iter().map(|flight| flight.0)).min()
    }

    /// Delivers the packets that have arrived, through `middle`, and handles expired deadlines.
    fn step(&mut self, middle: Middle<'_>) {
        let now = self.now;
        while let Some(place) = self.flights.iter().position(|flight| flight.0 <= now) {
            let (_, end, bytes) = self.flights.swap_remove(place);
            self.delivered += 1;
            assert!(self.delivered < DELIVERED_MAX, "the ends keep each other busy");
            for bytes in middle(end, bytes) {
                self.call(end, |zrtp, now, out| zrtp.on_packet(now, &bytes, out));
            }
        }
        for end in [A, B] {
            if self.ends[end].next_deadline().is_some_and(|deadline| deadline.at <= now) {
                self.call(end, |zrtp, now, out| zrtp.on_timeout(now, out));
            }
        }
    }

    fn call(&mut self, end: usize, input: impl FnOnce(&mut Zrtp, Instant, &mut dyn FnMut(&[u8]))) {
        let mut sent = Vec::new();
        input(&mut self.ends[end], self.now, &mut |bytes| sent.push(bytes.to_vec()));
        for bytes in sent {
            let copies = 1 + usize::from(self.loss_per_mille > 0 && self.rng.random_bool(100));
            for _ in 0..copies {
                if !self.rng.random_bool(self.loss_per_mille) {
                    let delay = Duration::from_millis(1 + self.rng.below(self.delay_ms_max));
                    self.flights.push((self.now + delay, 1 - end, bytes.clone()));
                }
            }
        }
        while let Some(event) = self.ends[end].poll_event() {
            self.events[end].note(event);
        }
    }
}

impl Events {
    pub(crate) fn note(&mut self, event: ZrtpEvent) {
        match event {
            ZrtpEvent::ReadyToReceive { suite, receive } => self.ready_to_receive = Some((suite, receive)),
            ZrtpEvent::Secured(secured) => {
                assert!(self.secured.is_none() && self.failure.is_none(), "secured once");
                self.secured = Some(*secured);
            }
            ZrtpEvent::Retain(retained) => self.retained.push(retained),
            ZrtpEvent::Forget(zid) => self.forgotten.push(zid),
            ZrtpEvent::PeerNotZrtp => self.not_zrtp += 1,
            ZrtpEvent::Failed(failure) => {
                assert!(self.secured.is_none() && self.failure.is_none(), "{failure}");
                self.failure = Some(failure);
            }
            ZrtpEvent::GoClearRefused => self.go_clear += 1,
        }
    }
}

/// More packets than any test needs.
const DELIVERED_MAX: usize = 20_000;
