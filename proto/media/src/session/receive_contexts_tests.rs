//! A peer that changes its key while packets are in transit.

use super::*;
use crate::session::wire::key;
use alloc::vec::Vec;
use ringway_srtp::SrtpSender;

const SUITE: CryptoSuite = CryptoSuite::AesCm128HmacSha1_80;
const SSRC: u32 = 0x1234_5678;

fn at(millis: u64) -> Instant {
    Instant::from_secs(1000) + Duration::from_millis(millis)
}

fn sender(number: u8) -> SrtpSender {
    SrtpSender::new(SUITE, &key(SUITE, number)).unwrap()
}

fn receiving(number: u8) -> ReceiveContexts {
    ReceiveContexts::new(SUITE, &key(SUITE, number), SrtpSettings::default()).unwrap()
}

/// A protected RTP packet with this index.
fn packet(sender: &mut SrtpSender, index: u64) -> Vec<u8> {
    let mut bytes = alloc::vec![0x80, 0];
    bytes.extend_from_slice(&(index as u16).to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&SSRC.to_be_bytes());
    bytes.extend_from_slice(&index.to_be_bytes());
    let len = bytes.len();
    bytes.resize(len + sender.rtp_overhead_bytes(), 0);
    sender.protect_rtp(&mut bytes, len).unwrap();
    bytes
}

fn open(
    receiving: &mut ReceiveContexts,
    now: Instant,
    packet: &[u8],
) -> Result<KeyGeneration, UnprotectError> {
    let mut bytes = packet.to_vec();
    let result = receiving.open(now, |context| context.unprotect_rtp(&mut bytes));
    if result.is_err() {
        assert_eq!(bytes, packet, "a rejected packet is unchanged");
    }
    result.map(|(_, under)| under)
}

const FORGED: Result<KeyGeneration, UnprotectError> = Err(UnprotectError::AuthenticationFailed);

#[test]
fn packets_in_transit_are_decrypted_until_the_previous_key_expires() {
    let (mut old, mut receiving) = (sender(1), receiving(1));
    let packets: Vec<Vec<u8>> = (0..10).map(|index| packet(&mut old, index)).collect();
    assert_eq!(open(&mut receiving, at(0), &packets[0]), Ok(KeyGeneration::Current));
    receiving.rekey(at(0), SUITE, &key(SUITE, 2)).unwrap();
    assert_eq!(receiving.previous_until(), Some(at(2000)));
    assert_eq!(open(&mut receiving, at(20), &packets[1]), Ok(KeyGeneration::Previous));
    assert_eq!(open(&mut receiving, at(1999), &packets[2]), Ok(KeyGeneration::Previous));
    assert_eq!(open(&mut receiving, at(2000), &packets[3]), FORGED);
    assert_eq!(receiving.previous_until(), None, "its memory is freed");
}

#[test]
fn the_previous_key_ends_soon_after_the_first_packet_under_the_new_one() {
    let (mut old, mut new, mut receiving) = (sender(1), sender(2), receiving(1));
    let [one, two, three] = [1, 2, 3].map(|index| packet(&mut old, index));
    receiving.rekey(at(0), SUITE, &key(SUITE, 2)).unwrap();
    assert_eq!(open(&mut receiving, at(100), &packet(&mut new, 4)), Ok(KeyGeneration::Current));
    assert_eq!(open(&mut receiving, at(120), &one), Ok(KeyGeneration::Previous));
    assert_eq!(open(&mut receiving, at(590), &packet(&mut new, 5)), Ok(KeyGeneration::Current));
    assert_eq!(open(&mut receiving, at(599), &two), Ok(KeyGeneration::Previous));
    assert_eq!(open(&mut receiving, at(600), &three), FORGED, "later packets do not extend it");
    // A late first packet does not extend it.
    receiving.rekey(at(1000), SUITE, &key(SUITE, 3)).unwrap();
    assert_eq!(open(&mut receiving, at(2900), &packet(&mut sender(3), 6)), Ok(KeyGeneration::Current));
    assert_eq!(receiving.previous_until(), Some(at(3000)));
}

#[test]
fn packets_before_their_key_are_rejected_and_change_nothing() {
    let (mut old, mut new, mut receiving) = (sender(1), sender(2), receiving(1));
    assert_eq!(open(&mut receiving, at(0), &packet(&mut old, 7)), Ok(KeyGeneration::Current));
    let early = packet(&mut new, 8);
    assert_eq!(open(&mut receiving, at(10), &early), FORGED);
    receiving.rekey(at(20), SUITE, &key(SUITE, 2)).unwrap();
    assert_eq!(
        open(&mut receiving, at(30), &early),
        Ok(KeyGeneration::Current),
        "it is not in the replay window"
    );
}

#[test]
fn each_key_has_its_own_counter_and_replay_window() {
    // The old key passes a wrap after the change; with the new one the peer continues, or restarts at 0.
    for restarts in [false, true] {
        let (mut old, mut receiving) = (sender(1), receiving(1));
        for index in [30_000, 60_000, 65_530] {
            assert_eq!(open(&mut receiving, at(0), &packet(&mut old, index)), Ok(KeyGeneration::Current));
        }
        receiving.rekey(at(0), SUITE, &key(SUITE, 2)).unwrap();
        let late: Vec<Vec<u8>> = (65_533..65_540).map(|index| packet(&mut old, index)).collect();
        old.rekey(SUITE, &key(SUITE, 2)).unwrap();
        let (mut new, first) = if restarts { (sender(2), 4) } else { (old, 65_540) };
        let fresh: Vec<Vec<u8>> = (first..first + 7).map(|index| packet(&mut new, index)).collect();
        for (old, new) in late.iter().zip(&fresh) {
            assert_eq!(
                open(&mut receiving, at(10), old),
                Ok(KeyGeneration::Previous),
                "restarts: {restarts}"
            );
            assert_eq!(open(&mut receiving, at(10), new), Ok(KeyGeneration::Current), "restarts: {restarts}");
        }
        for packet in late.iter().chain(&fresh) {
            let again = open(&mut receiving, at(20), packet);
            assert!(matches!(again, Err(UnprotectError::Replayed | UnprotectError::TooOld)), "{again:?}");
        }
        let previous = receiving.previous.as_ref().unwrap();
        assert_eq!(previous.context.highest_index(SSRC), Some(65_539));
        assert_eq!(receiving.current.highest_index(SSRC), Some(first + 6), "restarts: {restarts}");
    }
}

#[test]
fn a_forged_packet_changes_neither_context() {
    let (mut old, mut new, mut receiving) = (sender(1), sender(2), receiving(1));
    assert_eq!(open(&mut receiving, at(0), &packet(&mut old, 7)), Ok(KeyGeneration::Current));
    receiving.rekey(at(0), SUITE, &key(SUITE, 2)).unwrap();
    let state = |receiving: &ReceiveContexts| {
        let previous = receiving.previous.as_ref().unwrap();
        let highest = |context: &SrtpReceiver| context.highest_index(SSRC);
        (highest(&receiving.current), highest(&previous.context), previous.until)
    };
    let before = state(&receiving);
    let genuine = [packet(&mut old, 8), packet(&mut new, 9)];
    for good in genuine.iter().chain([&packet(&mut sender(3), 10)]) {
        for at_byte in 0..good.len() {
            let mut bad = good.clone();
            bad[at_byte] ^= 4;
            assert!(open(&mut receiving, at(10), &bad).is_err(), "byte {at_byte}");
        }
    }
    assert_eq!(state(&receiving), before);
    // No replay window contains the index of a forged packet.
    for (good, under) in genuine.iter().zip([KeyGeneration::Previous, KeyGeneration::Current]) {
        assert_eq!(open(&mut receiving, at(10), good), Ok(under));
    }
}

#[test]
fn one_previous_key_is_kept_and_no_more() {
    let (mut receiving, mut oldest) = (receiving(1), sender(1));
    let under_oldest = packet(&mut oldest, 1);
    for number in 2..100 {
        receiving.rekey(at(0), SUITE, &key(SUITE, number)).unwrap();
    }
    assert_eq!(open(&mut receiving, at(1), &under_oldest), FORGED);
    assert_eq!(open(&mut receiving, at(1), &packet(&mut sender(98), 2)), Ok(KeyGeneration::Previous));
    assert_eq!(open(&mut receiving, at(1), &packet(&mut sender(99), 3)), Ok(KeyGeneration::Current));
    receiving.forget_previous();
    assert_eq!(open(&mut receiving, at(1), &packet(&mut sender(98), 4)), FORGED);
}

#[test]
fn a_key_used_again_in_time_keeps_its_context() {
    let (mut first, mut receiving) = (sender(1), receiving(1));
    let seen = packet(&mut first, 7);
    assert_eq!(open(&mut receiving, at(0), &seen), Ok(KeyGeneration::Current));
    receiving.rekey(at(0), SUITE, &key(SUITE, 2)).unwrap();
    receiving.rekey(at(500), SUITE, &key(SUITE, 1)).unwrap();
    assert_eq!(open(&mut receiving, at(510), &seen), Err(UnprotectError::Replayed));
    assert_eq!(open(&mut receiving, at(510), &packet(&mut first, 8)), Ok(KeyGeneration::Current));
    assert_eq!(open(&mut receiving, at(510), &packet(&mut sender(2), 9)), Ok(KeyGeneration::Previous));
    // Setting the current key again is not a change.
    let until = receiving.previous_until();
    receiving.rekey(at(520), SUITE, &key(SUITE, 1)).unwrap();
    assert_eq!(receiving.previous_until(), until);
}

#[test]
fn both_suites_with_tags_of_different_lengths_are_decrypted() {
    for suite in CryptoSuite::ALL {
        let (mut old, mut receiving) = (sender(1), receiving(1));
        let mut new = SrtpSender::new(suite, &key(suite, 2)).unwrap();
        receiving.rekey(at(0), suite, &key(suite, 2)).unwrap();
        assert_eq!(
            open(&mut receiving, at(1), &packet(&mut old, 1)),
            Ok(KeyGeneration::Previous),
            "{}",
            suite.name()
        );
        assert_eq!(
            open(&mut receiving, at(1), &packet(&mut new, 2)),
            Ok(KeyGeneration::Current),
            "{}",
            suite.name()
        );
    }
}
