//! ZRTP: two ends and an attacker on the link between them. Both ends never get different keys, never send
//! more than the protocol requires, never compute more than an agreement needs, and never wait for ever.

use ringway_sansio::{Entropy, Instant, Seed};
use ringway_zrtp::{
    Algorithms, COMPUTATIONS_MAX, CommitMode, KeyAgreement, Secured, ZidCache, Zrtp, ZrtpConfig, ZrtpEvent,
};
use std::collections::VecDeque;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

/// Input: settings (one byte), then steps of an operation, a length, and that many bytes.
pub(crate) fn run(data: &[u8]) {
    let Some((&settings, mut steps)) = data.split_first() else { return };
    let mut wire = Wire::new(settings);
    for _ in 0..STEPS_MAX {
        let Some((&[operation, len], rest)) = steps.split_first_chunk::<2>() else { break };
        let (bytes, rest) = rest.split_at(usize::from(len).min(rest.len()));
        steps = rest;
        wire.step(operation, bytes);
    }
    wire.end();
}

struct Wire {
    ends: [Zrtp; 2],
    /// Packets in transit to an end.
    towards: [VecDeque<Vec<u8>>; 2],
    secured: [Option<Secured>; 2],
    events: [usize; 2],
    now: Instant,
}

impl Wire {
    fn new(settings: u8) -> Self {
        let end = |number: u8, commit_mode| {
            let algorithms = Algorithms { key_agreements: vec![KeyAgreement::Ec25], ..Algorithms::default() };
            let config = ZrtpConfig { algorithms, commit_mode, ..ZrtpConfig::new([number; 12]) };
            Zrtp::new(config, ZidCache::default(), Entropy::new(&Seed::from_number(number.into())))
        };
        let commit_mode = |bit| if settings & bit == 0 { CommitMode::Active } else { CommitMode::Passive };
        let mut wire = Self {
            ends: [end(1, commit_mode(1)), end(2, commit_mode(2))],
            towards: Default::default(),
            secured: [None, None],
            events: [0; 2],
            now: Instant::from_secs(1),
        };
        let hashes = wire.ends.each_ref().map(Zrtp::hello_hash);
        for number in 0..2 {
            let announced = (settings & 4 != 0).then_some(hashes[1 - number]);
            wire.call(number, |zrtp, now, out| zrtp.start(now, SSRC + number as u32, announced, out));
        }
        wire
    }

    fn step(&mut self, operation: u8, bytes: &[u8]) {
        let end = usize::from(operation & 1);
        match operation >> 1 & 7 {
            0 => self.deliver(end, |packet| Some(packet.to_vec())),
            1 => self.deliver(end, |_| None),
            2 => self.deliver(end, |packet| Some(changed(packet, bytes))),
            3 => self.towards[end].rotate_left(usize::from(self.towards[end].len() > 1)),
            4 => {
                if let Some(packet) = self.towards[end].front().cloned() {
                    self.receive(end, &packet);
                }
            }
            5 => self.receive(end, bytes),
            6 => self.receive(end, &framed(SSRC + 1 - end as u32, bytes)),
            _ => self.wait(Duration::from_millis(10 * bytes.len() as u64 + 1)),
        }
    }

    fn deliver(&mut self, end: usize, middle: impl FnOnce(&[u8]) -> Option<Vec<u8>>) {
        let packet = self.towards[end].pop_front();
        if let Some(packet) = packet.and_then(|packet| middle(&packet)) {
            self.receive(end, &packet);
        }
    }

    fn receive(&mut self, end: usize, packet: &[u8]) {
        let sent = self.call(end, |zrtp, now, out| zrtp.on_packet(now, packet, out));
        // A HelloACK with a Commit, or a Hello with both; an Error with its acknowledgement.
        assert!(sent <= 3, "{sent} packets for one");
    }

    fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        for end in 0..2 {
            let sent = self.call(end, |zrtp, now, out| zrtp.on_timeout(now, out));
            assert!(sent <= 2);
            assert!(self.ends[end].next_deadline().is_none_or(|deadline| deadline.at > self.now));
        }
    }

    fn end(&mut self) {
        for _ in 0..200 {
            self.wait(Duration::from_millis(1500));
        }
        for (zrtp, events) in self.ends.iter().zip(self.events) {
            assert_eq!(zrtp.next_deadline(), None, "no deadline is left");
            assert!(zrtp.computations() <= COMPUTATIONS_MAX);
            assert!(events <= EVENTS_MAX);
        }
        if let [Some(one), Some(other)] = &self.secured {
            assert!(one.sas == other.sas && one.suite == other.suite);
            assert!(one.send == other.receive && one.receive == other.send && one.send != one.receive);
        }
    }

    fn call(&mut self, end: usize, input: impl FnOnce(&mut Zrtp, Instant, &mut dyn FnMut(&[u8]))) -> usize {
        let mut sent = 0;
        let towards = &mut self.towards[1 - end];
        input(&mut self.ends[end], self.now, &mut |bytes| {
            sent += 1;
            if towards.len() < QUEUE_MAX {
                towards.push_back(bytes.to_vec());
            }
        });
        while let Some(event) = self.ends[end].poll_event() {
            self.events[end] += 1;
            if let ZrtpEvent::Secured(secured) = event {
                assert!(self.secured[end].is_none(), "secured once");
                self.secured[end] = Some(*secured);
            }
        }
        sent
    }
}

/// The packet with modified bytes: each pair is an offset and a change.
fn changed(packet: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let end = packet.len() - 4;
    for pair in changes.chunks_exact(2) {
        let place = usize::from(pair[0]) * 2 % end;
        packet[place] ^= pair[1];
    }
    let crc = crc32c(&packet[..end]);
    packet[end..].copy_from_slice(&crc.to_le_bytes());
    packet
}

/// A packet of a type and a body, with a valid length and CRC.
fn framed(source: u32, bytes: &[u8]) -> Vec<u8> {
    let mut body = bytes.to_vec();
    body.resize(body.len().next_multiple_of(4).max(8), b' ');
    let words = (body.len() / 4 + 1) as u16;
    let mut packet = [&[0x10, 0, 0, 1][..], b"ZRTP", &source.to_be_bytes(), &[0x50, 0x5a]].concat();
    packet.extend_from_slice(&words.to_be_bytes());
    packet.extend_from_slice(&body);
    let crc = crc32c(&packet);
    packet.extend_from_slice(&crc.to_le_bytes());
    packet
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

const SSRC: u32 = 0x0102_0304;
const STEPS_MAX: usize = 200;
const QUEUE_MAX: usize = 64;
/// Upper limit of events: no peer in each round of Hellos, the keys, the end, retained secrets, and a refused
/// GoClear.
const EVENTS_MAX: usize = 10;
