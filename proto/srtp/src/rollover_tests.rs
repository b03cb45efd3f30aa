//! The rollover counter over many wraps, on a network that loses and reorders.
//!
//! Tested: the index estimate alone against the true index (10,000 seeds), whole contexts (1,000 seeds), a stream whose
//! first packets are lost around a wrap, loss of almost half of the sequence numbers, a new key that keeps the counter
//! and one that does not. Not tested, because RFC 3711 §3.3.1 excludes it: more than 2^15 packets lost in a
//! row.

use crate::stream::{Streams, index_candidates};
use crate::*;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::{Rng, Seed};
use ringway_sdp::{CryptoSuite, MasterKey};

const SSRC: u32 = 0x1234_5678;

/// Maximum displacement of reordered packets; less than the replay window.
const REORDERED_PACKETS_MAX: u64 = 40;

fn key(number: u8) -> MasterKey {
    MasterKey { key: vec![number; 16], salt: vec![number; 14], lifetime_packets: None, mki: vec![] }
}

fn contexts(suite: CryptoSuite) -> (SrtpSender, SrtpReceiver) {
    let key = MasterKey { key: vec![1; suite.key_bytes()], salt: vec![2; suite.salt_bytes()], ..key(1) };
    (SrtpSender::new(suite, &key).unwrap(), SrtpReceiver::new(suite, &key).unwrap())
}

fn rtp(index: u64) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend_from_slice(&(index as u16).to_be_bytes());
    packet.extend_from_slice(&[0; 4]);
    packet.extend_from_slice(&SSRC.to_be_bytes());
    packet.extend_from_slice(&index.to_be_bytes());
    packet
}

fn protected(sender: &mut SrtpSender, index: u64) -> Vec<u8> {
    let mut packet = rtp(index);
    let len = packet.len();
    packet.resize(len + sender.rtp_overhead_bytes(), 0);
    sender.protect_rtp(&mut packet, len).unwrap();
    packet
}

/// Indices in order of arrival: bursts of packets around each of `wraps` wraps, of which 30 % are lost and 30
/// % arrive after later ones. The packets between the bursts are all lost.
fn arrivals(rng: &mut Rng, wraps: u64) -> Vec<u64> {
    let mut sent: Vec<(u64, u64)> = Vec::new();
    let mut index = rng.below(1 << 15);
    for wrap in 1..=wraps {
        let boundary = wrap << 16;
        while index + 30_000 < boundary {
            index += 1 + rng.below(25_000);
            sent.push((index, index));
        }
        index = index.max(boundary - 20 - rng.below(60));
        let end = boundary + 20 + rng.below(60);
        while index < end {
            if !rng.random_bool(300) {
                let late = if rng.random_bool(300) { 1 + rng.below(REORDERED_PACKETS_MAX) } else { 0 };
                sent.push((index + late, index));
            }
            index += 1;
        }
    }
    sent.sort_by_key(|&(arrives, _)| arrives);
    // Two passes over the end of a burst must not send an index twice.
    let mut seen = alloc::collections::BTreeSet::new();
    sent.into_iter().map(|(_, index)| index).filter(|&index| seen.insert(index)).collect()
}

#[test]
fn the_estimate_is_the_true_index_in_ten_thousand_seeds() {
    let mut packets = 0u64;
    for seed in 0..10_000 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut streams = Streams::new(1, 64);
        for index in arrivals(&mut rng, 3) {
            let at = streams.find(SSRC);
            let candidates = index_candidates(streams.at(at), index as u16);
            assert_eq!(candidates.first, Ok(index), "seed {seed}");
            streams.at_or_new(at, SSRC).unwrap().rtp.note(index);
            packets += 1;
        }
    }
    assert!(packets > 1_000_000, "{packets}");
}

#[test]
fn contexts_stay_synchronised_in_a_thousand_seeds() {
    for seed in 0..1000 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let suite = [CryptoSuite::AesCm128HmacSha1_32, CryptoSuite::AeadAes128Gcm][seed as usize % 2];
        let (mut sender, mut receiver) = contexts(suite);
        let arrivals = arrivals(&mut rng, 2);
        let mut sent = arrivals.clone();
        sent.sort_unstable();
        let packets: alloc::collections::BTreeMap<u64, Vec<u8>> =
            sent.iter().map(|&index| (index, protected(&mut sender, index))).collect();
        for (arrived, index) in arrivals.iter().enumerate() {
            let mut packet = packets[index].clone();
            let len = receiver
                .unprotect_rtp(&mut packet)
                .unwrap_or_else(|error| panic!("seed {seed}, packet {arrived} of index {index:#x}: {error}"));
            assert_eq!(packet[..len], rtp(*index), "seed {seed}");
            if rng.random_bool(100) {
                let mut again = packets[index].clone();
                assert_eq!(receiver.unprotect_rtp(&mut again), Err(UnprotectError::Replayed), "seed {seed}");
            }
        }
        assert_eq!(sender.highest_index(SSRC), sent.last().copied());
        assert_eq!(receiver.highest_index(SSRC), sent.last().copied());
        assert_eq!(receiver.counts().accepted, arrivals.len() as u64);
    }
}

#[test]
fn a_stream_that_begins_before_a_wrap_is_decrypted_after_it() {
    for lost in [0, 1, 2, 10, 1000] {
        let (mut sender, mut receiver) = contexts(CryptoSuite::AesCm128HmacSha1_80);
        let packets: Vec<Vec<u8>> = (65_534..66_600).map(|index| protected(&mut sender, index)).collect();
        for packet in &packets[lost..] {
            receiver.unprotect_rtp(&mut packet.clone()).unwrap();
        }
        assert_eq!(receiver.highest_index(SSRC), Some(66_599));
    }
}

#[test]
fn the_first_packets_of_a_stream_may_be_reordered_across_a_wrap() {
    let (mut sender, mut receiver) = contexts(CryptoSuite::AesCm128HmacSha1_80);
    let [mut before, mut after] = [65_535, 65_536].map(|index| protected(&mut sender, index));
    receiver.unprotect_rtp(&mut after).unwrap();
    receiver.unprotect_rtp(&mut before).unwrap();
    assert_eq!(receiver.highest_index(SSRC), Some(65_536));
}

#[test]
fn half_of_the_sequence_numbers_may_be_lost_in_a_row() {
    let (mut sender, mut receiver) = contexts(CryptoSuite::AeadAes256Gcm);
    for step in 0..20 {
        let index = 40_000 + step * 32_767;
        receiver.unprotect_rtp(&mut protected(&mut sender, index)).unwrap();
        assert_eq!(receiver.highest_index(SSRC), Some(index));
    }
}

#[test]
fn a_new_key_keeps_the_counter() {
    let (mut sender, mut receiver) = contexts(CryptoSuite::AesCm128HmacSha1_80);
    for index in [30_000, 60_000, 80_000] {
        receiver.unprotect_rtp(&mut protected(&mut sender, index)).unwrap();
    }
    let mut old = protected(&mut sender, 80_001);
    sender.rekey(CryptoSuite::AesCm128HmacSha1_80, &key(9)).unwrap();
    let mut before = receiver;
    let mut receiver = before.successor(CryptoSuite::AesCm128HmacSha1_80, &key(9)).unwrap();
    assert_eq!(receiver.unprotect_rtp(&mut old.clone()), Err(UnprotectError::AuthenticationFailed));
    before.unprotect_rtp(&mut old).unwrap();
    assert_eq!((before.highest_index(SSRC), receiver.highest_index(SSRC)), (Some(80_001), Some(80_000)));
    let mut packet = protected(&mut sender, 80_002);
    receiver.unprotect_rtp(&mut packet.clone()).unwrap();
    assert_eq!(receiver.highest_index(SSRC), Some(80_002));
    assert_eq!(receiver.unprotect_rtp(&mut packet), Err(UnprotectError::Replayed));
}

#[test]
fn a_peer_that_restarts_its_counter_with_a_new_key_is_accepted() {
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    for (highest, first) in
        [(80_000, 80_001), (80_000, 79_990), (80_000, 70_000), (80_000, 20), (30_000, 100), (30_000, 30_000)]
    {
        let (mut sender, mut receiver) = contexts(suite);
        for index in (highest % 25_000..=highest).step_by(25_000) {
            receiver.unprotect_rtp(&mut protected(&mut sender, index)).unwrap();
        }
        let mut restarted = SrtpSender::new(suite, &key(9)).unwrap();
        let mut receiver = receiver.successor(suite, &key(9)).unwrap();
        let mut packet = protected(&mut restarted, first);
        let mut again = packet.clone();
        let mut forged = packet.clone();
        forged[15] ^= 1;
        assert!(receiver.unprotect_rtp(&mut forged).is_err());
        assert_eq!(receiver.highest_index(SSRC), Some(highest));
        receiver.unprotect_rtp(&mut packet).unwrap();
        assert_eq!(receiver.highest_index(SSRC), Some(first & 0xffff), "the counter started at 0");
        assert_eq!(receiver.unprotect_rtp(&mut again), Err(UnprotectError::Replayed));
        receiver.unprotect_rtp(&mut protected(&mut restarted, first + 1)).unwrap();
    }
}

#[test]
fn the_same_key_again_changes_nothing() {
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    let same = MasterKey { lifetime_packets: Some(3), ..key(1) };
    let mut sender = SrtpSender::new(suite, &same).unwrap();
    let mut receiver = SrtpReceiver::new(suite, &same).unwrap();
    let mut packet = protected(&mut sender, 5);
    receiver.unprotect_rtp(&mut packet.clone()).unwrap();
    sender.rekey(suite, &same).unwrap();
    assert_eq!(receiver.unprotect_rtp(&mut packet), Err(UnprotectError::Replayed));
    assert_eq!(sender.rtp_packets_left(), 2);
}
