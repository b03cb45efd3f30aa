//! SRTP contexts with valid, modified, early, late, duplicated and excess packets.
//!
//! Tested: every suite both ways with CSRCs, extensions and MKIs; every bit of a packet; every length from 0 to 60;
//! truncations; replays; limits of SSRCs, keys and lifetimes; the E flag; MKIs.

use crate::*;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::{Rng, Seed};
use ringway_sdp::{CryptoSuite, MasterKey, SRTP_PACKETS_MAX};

const SSRC: u32 = 0xcafe_babe;

fn key(suite: CryptoSuite, mki: &[u8]) -> MasterKey {
    let key = (0..suite.key_bytes()).map(|at| at as u8 ^ 0x5a).collect();
    MasterKey { key, salt: vec![7; suite.salt_bytes()], lifetime_packets: None, mki: mki.into() }
}

fn contexts(suite: CryptoSuite, mki: &[u8]) -> (SrtpSender, SrtpReceiver) {
    let key = key(suite, mki);
    (SrtpSender::new(suite, &key).unwrap(), SrtpReceiver::new(suite, &key).unwrap())
}

fn rtp(ssrc: u32, sequence: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend_from_slice(&sequence.to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 160]);
    packet.extend_from_slice(&ssrc.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

fn rtcp(ssrc: u32, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x81, 200, 0, 6];
    packet.extend_from_slice(&ssrc.to_be_bytes());
    packet.extend_from_slice(rest);
    packet
}

fn protect_rtp(sender: &mut SrtpSender, packet: &[u8]) -> Vec<u8> {
    let mut buffer = packet.to_vec();
    buffer.resize(packet.len() + sender.rtp_overhead_bytes(), 0xaa);
    assert_eq!(sender.protect_rtp(&mut buffer, packet.len()), Ok(buffer.len()));
    buffer
}

fn protect_rtcp(sender: &mut SrtpSender, packet: &[u8]) -> Vec<u8> {
    let mut buffer = packet.to_vec();
    buffer.resize(packet.len() + sender.rtcp_overhead_bytes(), 0xaa);
    assert_eq!(sender.protect_rtcp(&mut buffer, packet.len()), Ok(buffer.len()));
    buffer
}

#[test]
fn every_suite_protects_every_shape_of_packet() {
    for suite in CryptoSuite::ALL {
        for mki in [&[][..], &[1], &[1, 2, 3, 4], &[9; 128]] {
            let (mut sender, mut receiver) = contexts(suite, mki);
            let mut sequence = 65_000;
            for len in (0..=70).chain([160, 1000, 1460]) {
                let payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let mut packet = rtp(SSRC, sequence, &payload);
                if len % 3 == 1 {
                    packet[0] |= 2;
                    packet.splice(12..12, [5; 8]);
                }
                if len % 2 == 1 {
                    packet[0] |= 0x10;
                    let at = 12 + 4 * usize::from(packet[0] & 0x0f);
                    packet.splice(at..at, [0xbe, 0xde, 0, 1, 1, 2, 3, 4]);
                }
                let mut srtp = protect_rtp(&mut sender, &packet);
                assert_eq!(srtp.len(), packet.len() + usize::from(suite.tag_bits()) / 8 + mki.len());
                assert!(len < 8 || !srtp.windows(len).any(|window| window == payload), "{suite:?}");
                assert_eq!(receiver.unprotect_rtp(&mut srtp), Ok(packet.len()), "{suite:?}, {len} bytes");
                assert_eq!(srtp[..packet.len()], packet);
                sequence = sequence.wrapping_add(1);
                let packet = rtcp(SSRC, &payload);
                let mut srtcp = protect_rtcp(&mut sender, &packet);
                let tag_bytes = if suite.is_aead() { 16 } else { 10 };
                assert_eq!(srtcp.len(), packet.len() + tag_bytes + 4 + mki.len());
                assert_eq!(receiver.unprotect_rtcp(&mut srtcp), Ok(packet.len()), "{suite:?}, {len} bytes");
                assert_eq!(srtcp[..packet.len()], packet);
            }
        }
    }
}

#[test]
fn a_packet_with_any_flipped_bit_is_rejected_and_changes_no_state() {
    for suite in CryptoSuite::ALL {
        let (mut sender, mut receiver) = contexts(suite, &[1, 2]);
        for sequence in [10, 11] {
            receiver.unprotect_rtp(&mut protect_rtp(&mut sender, &rtp(SSRC, sequence, &[3; 20]))).unwrap();
            receiver.unprotect_rtcp(&mut protect_rtcp(&mut sender, &rtcp(SSRC, &[4; 20]))).unwrap();
        }
        let state = receiver.state();
        let srtp = protect_rtp(&mut sender, &rtp(SSRC, 12, &[5; 20]));
        let srtcp = protect_rtcp(&mut sender, &rtcp(SSRC, &[6; 20]));
        for bit in 0..srtp.len() * 8 {
            let mut forged = srtp.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let before = forged.clone();
            assert!(receiver.unprotect_rtp(&mut forged).is_err(), "{suite:?}, bit {bit}");
            assert_eq!(forged, before, "{suite:?}, bit {bit}");
        }
        for bit in 0..srtcp.len() * 8 {
            let mut forged = srtcp.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let before = forged.clone();
            // The first header's other fields are authenticated too.
            assert!(receiver.unprotect_rtcp(&mut forged).is_err(), "{suite:?}, bit {bit}");
            assert_eq!(forged, before, "{suite:?}, bit {bit}");
        }
        assert!(receiver.state() == state, "{suite:?}");
        assert!(receiver.counts().authentication_failed > 0);
        assert!(receiver.unprotect_rtp(&mut srtp.clone()).is_ok());
        assert!(receiver.unprotect_rtcp(&mut srtcp.clone()).is_ok());
    }
}

#[test]
fn short_and_random_packets_are_rejected_and_change_no_state() {
    let mut rng = Rng::new(&Seed::from_number(3));
    for suite in CryptoSuite::ALL {
        for mki in [&[][..], &[0], &[1, 2, 3, 4], &[1; 45]] {
            let (mut sender, mut receiver) = contexts(suite, mki);
            let state = receiver.state();
            let srtp = protect_rtp(&mut sender, &rtp(SSRC, 1, &[1; 60]));
            let srtcp = protect_rtcp(&mut sender, &rtcp(SSRC, &[1; 60]));
            for len in 0..=60 {
                let zeros = vec![0; len];
                let ones = vec![0xff; len];
                let noise: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
                let rtp_noise = [&[0x9f], &noise[..]].concat();
                let mut end = srtp[srtp.len() - len..].to_vec();
                for bytes in
                    [&zeros, &ones, &noise, &rtp_noise, &srtp[..len].to_vec(), &srtcp[..len].to_vec()]
                {
                    assert!(receiver.unprotect_rtp(&mut bytes.clone()).is_err());
                    assert!(receiver.unprotect_rtcp(&mut bytes.clone()).is_err());
                    assert!(sender.protect_rtp(&mut bytes.clone(), bytes.len()).is_err());
                }
                assert!(receiver.unprotect_rtp(&mut end).is_err());
            }
            for cut in 1..srtp.len() {
                assert!(receiver.unprotect_rtp(&mut srtp[..srtp.len() - cut].to_vec()).is_err());
            }
            for cut in 1..srtcp.len() {
                assert!(receiver.unprotect_rtcp(&mut srtcp[..srtcp.len() - cut].to_vec()).is_err());
            }
            assert!(receiver.state() == state);
            assert_eq!(receiver.counts().accepted, 0);
        }
    }
}

#[test]
fn a_packet_is_accepted_once_and_one_behind_the_window_never() {
    let (mut sender, mut receiver) = contexts(CryptoSuite::AesCm128HmacSha1_80, &[]);
    let packets: Vec<Vec<u8>> =
        (0..70).map(|sequence| protect_rtp(&mut sender, &rtp(SSRC, sequence, &[1]))).collect();
    receiver.unprotect_rtp(&mut packets[69].clone()).unwrap();
    assert_eq!(receiver.unprotect_rtp(&mut packets[69].clone()), Err(UnprotectError::Replayed));
    assert_eq!(receiver.unprotect_rtp(&mut packets[5].clone()), Err(UnprotectError::TooOld));
    assert_eq!(receiver.unprotect_rtp(&mut packets[6].clone()), Ok(13));
    assert_eq!(receiver.unprotect_rtp(&mut packets[6].clone()), Err(UnprotectError::Replayed));
    let expected = SrtpCounts { accepted: 2, replayed: 2, too_old: 1, ..SrtpCounts::default() };
    assert_eq!(*receiver.counts(), expected);
    let settings = SrtpSettings { window_packets: 70, ..SrtpSettings::default() };
    let key = key(CryptoSuite::AesCm128HmacSha1_80, &[]);
    let mut wide = SrtpReceiver::with_settings(CryptoSuite::AesCm128HmacSha1_80, &key, settings).unwrap();
    for packet in packets.iter().rev() {
        wide.unprotect_rtp(&mut packet.clone()).unwrap();
    }
    let srtcp: Vec<Vec<u8>> = (0..3).map(|_| protect_rtcp(&mut sender, &rtcp(SSRC, &[1]))).collect();
    receiver.unprotect_rtcp(&mut srtcp[2].clone()).unwrap();
    receiver.unprotect_rtcp(&mut srtcp[0].clone()).unwrap();
    assert_eq!(receiver.unprotect_rtcp(&mut srtcp[2].clone()), Err(UnprotectError::Replayed));
    assert_eq!(receiver.unprotect_rtcp(&mut srtcp[0].clone()), Err(UnprotectError::Replayed));
}

#[test]
fn a_sequence_number_is_never_sent_twice() {
    let (mut sender, _) = contexts(CryptoSuite::AeadAes128Gcm, &[]);
    let state = protect_rtp(&mut sender, &rtp(SSRC, 100, &[1])).len();
    let packet = rtp(SSRC, 100, &[2]);
    let mut buffer = vec![0; state];
    buffer[..packet.len()].copy_from_slice(&packet);
    let before = buffer.clone();
    assert_eq!(sender.protect_rtp(&mut buffer, packet.len()), Err(ProtectError::Repeated));
    assert_eq!(buffer, before);
    protect_rtp(&mut sender, &rtp(SSRC, 99, &[2]));
    buffer[2..4].copy_from_slice(&20u16.to_be_bytes());
    assert_eq!(sender.protect_rtp(&mut buffer, packet.len()), Err(ProtectError::Repeated));
}

#[test]
fn a_change_of_ssrc_and_back_keeps_both_counters() {
    let (mut sender, mut receiver) = contexts(CryptoSuite::AesCm256HmacSha1_80, &[]);
    for sequence in [40_000, 65_000, 20_000] {
        receiver.unprotect_rtp(&mut protect_rtp(&mut sender, &rtp(1, sequence, &[1]))).unwrap();
    }
    for sequence in [50_000, 50_001] {
        receiver.unprotect_rtp(&mut protect_rtp(&mut sender, &rtp(2, sequence, &[1]))).unwrap();
    }
    receiver.unprotect_rtp(&mut protect_rtp(&mut sender, &rtp(1, 20_001, &[1]))).unwrap();
    assert_eq!(receiver.highest_index(1), Some(0x1_0000 + 20_001));
    assert_eq!(receiver.highest_index(2), Some(50_001));
    assert_eq!((sender.highest_index(1), sender.highest_index(3)), (Some(0x1_0000 + 20_001), None));
}

#[test]
fn an_ssrc_beyond_the_limit_is_rejected_and_counted() {
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    let settings = SrtpSettings { ssrcs_max: 2, ..SrtpSettings::default() };
    let mut sender = SrtpSender::new(suite, &key(suite, &[])).unwrap();
    let mut receiver = SrtpReceiver::with_settings(suite, &key(suite, &[]), settings).unwrap();
    for (ssrc, expected) in [(1, Ok(13)), (2, Ok(13)), (3, Err(UnprotectError::TooManySsrcs))] {
        assert_eq!(receiver.unprotect_rtp(&mut protect_rtp(&mut sender, &rtp(ssrc, 1, &[1]))), expected);
    }
    let mut forged = protect_rtp(&mut sender, &rtp(1, 2, &[1]));
    assert_eq!(receiver.unprotect_rtp(&mut forged.clone()), Ok(13));
    forged[3] = 9;
    assert!(receiver.unprotect_rtp(&mut forged).is_err());
    let refused = protect_rtcp(&mut sender, &rtcp(4, &[1]));
    assert_eq!(receiver.unprotect_rtcp(&mut refused.clone()), Err(UnprotectError::TooManySsrcs));
    assert_eq!(receiver.counts().too_many_ssrcs, 2);
    for ssrc in 5..=17 {
        let mut buffer = rtp(ssrc, 1, &[0; 20]);
        let result = sender.protect_rtp(&mut buffer, 13);
        assert_eq!(result.is_ok(), ssrc < 17, "{ssrc}");
    }
    assert_eq!(sender.protect_rtp(&mut rtp(18, 1, &[0; 20]), 13), Err(ProtectError::TooManySsrcs));
}

#[test]
fn a_key_protects_no_more_packets_than_its_lifetime() {
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    let short = MasterKey { lifetime_packets: Some(3), ..key(suite, &[]) };
    let mut sender = SrtpSender::new(suite, &short).unwrap();
    let mut endless = SrtpSender::new(suite, &key(suite, &[])).unwrap();
    let mut receiver = SrtpReceiver::new(suite, &short).unwrap();
    for sequence in 1..=3 {
        assert_eq!(sender.rtp_packets_left(), 4 - u64::from(sequence));
        receiver.unprotect_rtp(&mut protect_rtp(&mut sender, &rtp(SSRC, sequence, &[1]))).unwrap();
        receiver.unprotect_rtcp(&mut protect_rtcp(&mut sender, &rtcp(SSRC, &[1]))).unwrap();
    }
    assert_eq!((sender.rtp_packets_left(), sender.rtcp_packets_left()), (0, 0));
    let mut buffer = rtp(SSRC, 4, &[0; 20]);
    let before = buffer.clone();
    assert_eq!(sender.protect_rtp(&mut buffer, 13), Err(ProtectError::LifetimeOver));
    assert_eq!(sender.protect_rtcp(&mut buffer, 13), Err(ProtectError::LifetimeOver));
    assert_eq!(buffer, before);
    let mut fourth = protect_rtp(&mut endless, &rtp(SSRC, 4, &[1]));
    assert_eq!(receiver.unprotect_rtp(&mut fourth), Err(UnprotectError::LifetimeOver));
    for _ in 1..=3 {
        protect_rtcp(&mut endless, &rtcp(SSRC, &[1]));
    }
    let mut fourth = protect_rtcp(&mut endless, &rtcp(SSRC, &[1]));
    assert_eq!(receiver.unprotect_rtcp(&mut fourth), Err(UnprotectError::LifetimeOver));
    assert_eq!(receiver.counts().lifetime_over, 2);
    sender.rekey(suite, &MasterKey { key: vec![9; 16], ..short }).unwrap();
    protect_rtp(&mut sender, &rtp(SSRC, 4, &[1]));
    assert_eq!(sender.rtp_packets_left(), 2);
}

#[test]
fn no_index_above_the_maximum_is_used() {
    for suite in [CryptoSuite::AesCm128HmacSha1_80, CryptoSuite::AeadAes128Gcm] {
        let (mut sender, mut receiver) = contexts(suite, &[]);
        sender.set_highest_index(SSRC, SRTP_PACKETS_MAX - 2);
        receiver.set_highest_index(SSRC, SRTP_PACKETS_MAX - 2);
        let mut last = protect_rtp(&mut sender, &rtp(SSRC, 0xffff, &[1]));
        assert_eq!(receiver.unprotect_rtp(&mut last), Ok(13));
        let mut buffer = rtp(SSRC, 0, &[0; 30]);
        assert_eq!(sender.protect_rtp(&mut buffer, 13), Err(ProtectError::LifetimeOver));
        assert_eq!(receiver.unprotect_rtp(&mut buffer), Err(UnprotectError::LifetimeOver));
        sender.set_next_rtcp_index(SSRC, SRTCP_PACKETS_MAX - 1);
        let mut last = protect_rtcp(&mut sender, &rtcp(SSRC, &[1]));
        assert_eq!(receiver.unprotect_rtcp(&mut last), Ok(9));
        let mut buffer = rtcp(SSRC, &[0; 40]);
        assert_eq!(sender.protect_rtcp(&mut buffer, 9), Err(ProtectError::LifetimeOver));
    }
}

#[test]
fn srtcp_without_the_e_flag_is_rejected() {
    for suite in
        [CryptoSuite::AesCm128HmacSha1_80, CryptoSuite::AesCm192HmacSha1_32, CryptoSuite::AeadAes256Gcm]
    {
        let (mut sender, mut receiver) = contexts(suite, &[7]);
        let packet = rtcp(SSRC, b"readable by nobody");
        let mut encrypted = protect_rtcp(&mut sender, &packet);
        let flag_at = if suite.is_aead() { encrypted.len() - 5 } else { packet.len() };
        encrypted[flag_at] ^= 0x80;
        let before = encrypted.clone();
        assert_eq!(receiver.unprotect_rtcp(&mut encrypted), Err(UnprotectError::WrongEncryption));
        assert_eq!(encrypted, before);
        encrypted[flag_at] ^= 0x80;
        assert_eq!(receiver.unprotect_rtcp(&mut encrypted), Ok(packet.len()));
    }
}

#[test]
fn another_master_key_identifier_is_rejected() {
    let suite = CryptoSuite::AesCm128HmacSha1_80;
    let mut receiver = SrtpReceiver::new(suite, &key(suite, &[0, 1])).unwrap();
    let mut sender = SrtpSender::new(suite, &key(suite, &[0, 2])).unwrap();
    let mut packet = protect_rtp(&mut sender, &rtp(SSRC, 20, &[1]));
    assert_eq!(receiver.unprotect_rtp(&mut packet), Err(UnprotectError::UnknownMki));
    assert_eq!(
        receiver.unprotect_rtcp(&mut protect_rtcp(&mut sender, &rtcp(SSRC, &[1]))),
        Err(UnprotectError::UnknownMki)
    );
    let mut sender = SrtpSender::new(suite, &key(suite, &[0, 1])).unwrap();
    receiver.unprotect_rtp(&mut protect_rtp(&mut sender, &rtp(SSRC, 20, &[1]))).unwrap();
}

#[test]
fn keys_of_a_wrong_length_are_rejected() {
    let suite = CryptoSuite::AesCm192HmacSha1_80;
    let good = key(suite, &[]);
    let error = |key: MasterKey| SrtpSender::new(suite, &key).err();
    assert_eq!(error(good.clone()), None);
    assert_eq!(error(key(CryptoSuite::AesCm128HmacSha1_80, &[])), Some(KeyError::KeyLength { expected: 24 }));
    assert_eq!(
        error(MasterKey { salt: vec![1; 12], ..good.clone() }),
        Some(KeyError::SaltLength { expected: 14 })
    );
    assert_eq!(error(MasterKey { mki: vec![1; 129], ..good.clone() }), Some(KeyError::MkiTooLong));
    for lifetime in [0, SRTP_PACKETS_MAX + 1] {
        let key = MasterKey { lifetime_packets: Some(lifetime), ..good.clone() };
        assert_eq!(error(key), Some(KeyError::Lifetime));
    }
    let (sender, receiver) = contexts(suite, &[]);
    assert!(sender.is_keyed_by(suite, &good) && receiver.is_keyed_by(suite, &good));
    assert!(!sender.is_keyed_by(CryptoSuite::AesCm192HmacSha1_32, &good));
    let other = MasterKey { key: vec![1; 24], ..good };
    assert!(!sender.is_keyed_by(suite, &other) && !receiver.is_keyed_by(suite, &other));
}

#[test]
fn a_buffer_that_is_too_short_is_rejected_unchanged() {
    let (mut sender, _) = contexts(CryptoSuite::AesCm128HmacSha1_80, &[1, 2, 3, 4]);
    let packet = rtp(SSRC, 1, &[1; 20]);
    let mut buffer = packet.clone();
    buffer.resize(45, 0);
    let before = buffer.clone();
    assert_eq!(sender.protect_rtp(&mut buffer, 32), Err(ProtectError::NoRoom { needed: 46 }));
    assert_eq!(sender.protect_rtcp(&mut buffer, 32), Err(ProtectError::NoRoom { needed: 50 }));
    assert_eq!(sender.protect_rtp(&mut buffer, 46), Err(ProtectError::Malformed));
    assert_eq!(sender.protect_rtp(&mut buffer, usize::MAX), Err(ProtectError::Malformed));
    assert_eq!(buffer, before);
    let mut long = rtp(SSRC, 1, &vec![0; 70_000]);
    assert_eq!(sender.protect_rtp(&mut long, 66_000), Err(ProtectError::TooLong));
    assert_eq!(sender.protect_rtp(&mut long, PACKET_BYTES_MAX - 14), Ok(PACKET_BYTES_MAX));
    let (_, mut receiver) = contexts(CryptoSuite::AesCm128HmacSha1_80, &[1, 2, 3, 4]);
    assert_eq!(receiver.unprotect_rtp(&mut long.clone()), Err(UnprotectError::Malformed));
    assert_eq!(receiver.unprotect_rtp(&mut long[..PACKET_BYTES_MAX]), Ok(PACKET_BYTES_MAX - 14));
}

#[test]
fn the_probe_is_called_after_every_step() {
    struct Steps(Vec<Step>);
    impl Probe for Steps {
        fn ended(&mut self, step: Step) {
            self.0.push(step);
        }
    }
    use Step::{Authentication, Encryption, Headers, Replay};
    for (suite, out, back) in [
        (
            CryptoSuite::AesCm128HmacSha1_80,
            vec![Headers, Replay, Encryption, Authentication, Replay],
            vec![Headers, Replay, Authentication, Encryption, Replay],
        ),
        (
            CryptoSuite::AeadAes128Gcm,
            vec![Headers, Replay, Encryption, Replay],
            vec![Headers, Replay, Encryption, Replay],
        ),
    ] {
        let (mut sender, mut receiver) = contexts(suite, &[]);
        let mut packet = rtp(SSRC, 1, &[0; 40]);
        let mut steps = Steps(Vec::new());
        let len = sender.protect_rtp_probed(&mut packet, 20, &mut steps).unwrap();
        assert_eq!(steps.0, out);
        let mut steps = Steps(Vec::new());
        receiver.unprotect_rtp_probed(&mut packet[..len], &mut steps).unwrap();
        assert_eq!(steps.0, back);
    }
}
