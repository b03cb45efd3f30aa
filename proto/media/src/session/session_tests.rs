extern crate std;

use super::wire::{Faults, Wire, address, blocks_of_tone, key, plain, sdes};
use super::*;
use crate::rtp::RtpHeader;
use alloc::string::String;
use alloc::vec::Vec;
use ringway_sansio::Outbox;
use ringway_sdp::{CryptoSuite, KeyManagement, MasterKey};
use ringway_zrtp::ZrtpConfig;

pub(super) const SUITE: CryptoSuite = CryptoSuite::AesCm128HmacSha1_80;
pub(super) const PERFECT: Faults = Faults { lost: 0, duplicated: 0, reordered: 0, jitter_ms: 0 };
pub(super) const BAD: Faults = Faults { lost: 300, duplicated: 50, reordered: 300, jitter_ms: 50 };

/// An audio packet of another sender.
fn forged(ssrc: u32, sequence: u16) -> Vec<u8> {
    let header =
        RtpHeader { marker: false, payload_type: 8, sequence, timestamp: 160 * u32::from(sequence), ssrc };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(&[0x2a; 160]);
    bytes
}

fn digits(events: &[MediaEvent]) -> String {
    events
        .iter()
        .filter_map(|event| if let MediaEvent::Digit(digit) = event { Some(*digit) } else { None })
        .collect()
}

#[test]
fn an_unprotected_call_has_sound_both_ways_and_a_report() {
    let mut wire = Wire::plain(1, PERFECT);
    wire.run(600);
    for (end, period) in [(0, 20), (1, 16)] {
        let report = wire.ends[end].session.report();
        assert_eq!(report.security, None);
        assert_eq!(
            (report.sent.packets, report.received.counts.received, report.received.counts.lost()),
            (600, 600, 0)
        );
        assert!(
            (report.received.kbit_s - 80.0).abs() < 1e-6 && (report.sent.kbit_s - 80.0).abs() < 0.2,
            "{report:?}"
        );
        assert!((report.received.delta_max_ms - 20.0).abs() < 1e-6 && report.received.jitter_max_ms < 1e-6);
        assert!(report.mos.is_some_and(|mos| (4.35..=4.41).contains(&mos)), "{:?}", report.mos);
        assert_eq!(report.refused, Refused::default());
        assert!(
            report.reports_received >= 2 && report.round_trip_ms.is_some_and(|ms| (1.9..2.1).contains(&ms))
        );
        assert_eq!(report.remote.map(|remote| remote.cumulative_lost), Some(0));
        let blocks = blocks_of_tone(&wire.ends[end].played, period);
        assert!(blocks >= 595, "{blocks} blocks of the peer's tone");
    }
}

#[test]
fn a_protected_call_has_sound_both_ways_and_reports_its_suite() {
    for suite in CryptoSuite::ALL {
        let mut wire = Wire::sdes(2, suite, PERFECT);
        wire.run(120);
        for end in &wire.ends {
            let report = end.session.report();
            let tag_bits = suite.tag_bits();
            assert_eq!(report.security, Some(Security { key_management: KeyManagement::Sdes, suite }));
            assert_eq!((report.received.counts.received, report.refused), (120, Refused::default()));
            let kbit_s = 80.0 + f64::from(tag_bits) * 50.0 / 1000.0;
            assert!((report.received.kbit_s - kbit_s).abs() < 1e-6, "{}", report.received.kbit_s);
            assert!(matches!(end.events[0], MediaEvent::Secured { sas: None, .. }));
        }
        assert!(blocks_of_tone(&wire.ends[0].played, 20) >= 115);
    }
}

/// `RINGWAY_SEED` is the first seed, `RINGWAY_SEEDS` their number.
pub(super) fn seeds() -> core::ops::Range<u64> {
    let number = |name, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap(),
        Err(_) => default,
    };
    let first = number("RINGWAY_SEED", 1);
    first..first + number("RINGWAY_SEEDS", 60)
}

#[test]
fn no_bad_network_and_no_hold_desynchronises_the_rollover_counter() {
    for seed in seeds() {
        let mut wire = Wire::sdes(seed, SUITE, BAD);
        let mut rng = Rng::new(&Seed::from_number(seed));
        for end in &mut wire.ends {
            end.session.outgoing.set_sequence(65_535 - rng.below(60) as u16);
        }
        wire.run(40);
        let on_hold = |params, end: usize| {
            let direction = [Direction::SendOnly, Direction::RecvOnly][end];
            MediaParams { direction, ..sdes(params, SUITE, end as u8 + 1, 2 - end as u8) }
        };
        wire.agree(on_hold);
        wire.run(10 + rng.below(20) as usize);
        wire.agree(|params, end| sdes(params, SUITE, end as u8 + 1, 2 - end as u8));
        wire.run(40);
        wire.faults = PERFECT;
        wire.run(20);
        for (number, end) in wire.ends.iter().enumerate() {
            let report = end.session.report();
            assert_eq!(report.refused.auth_failures, 0, "seed {seed} end {number}: {:?}", report.refused);
            assert_eq!(report.refused.srtp_other, 0, "seed {seed} end {number}");
            let taken = report.received.counts.received + report.refused.replays + report.reports_received;
            assert_eq!(taken, end.delivered, "seed {seed} end {number}: {report:?}");
            let index = wire.ends[1 - number].session.outgoing.counts().packets;
            assert!(report.received.counts.expected <= index, "seed {seed} end {number}");
            let tail = &end.played[end.played.len() - 10 * 160..];
            assert!(
                blocks_of_tone(tail, [20, 16][number]) >= 8,
                "seed {seed} end {number}: nothing was received"
            );
        }
    }
}

#[test]
fn speech_continues_on_a_bad_network_and_the_report_rates_it() {
    let mut wire = Wire::sdes(77, SUITE, BAD);
    wire.run(1500);
    for end in &wire.ends {
        let report = end.session.report();
        let lost = report.received.counts.lost();
        assert!((350..550).contains(&lost), "{lost}");
        assert!(report.sound.concealed_samples / 160 >= lost * 8 / 10, "{:?}", report.sound);
        assert!(report.received.counts.reordered > 100 && report.refused.replays > 20, "{report:?}");
        let mos = report.mos.unwrap_or_default();
        assert!((1.0..3.0).contains(&mos), "{mos}");
        assert!(report.remote.is_some_and(|remote| remote.cumulative_lost > 0));
    }
}

#[test]
fn hold_and_resume_keep_the_sound_the_source_and_the_context() {
    let mut wire = Wire::sdes(3, SUITE, PERFECT);
    wire.run(100);
    let before = [wire.ends[0].session.ssrc(), wire.ends[1].session.ssrc()];
    for round in 0..4_u8 {
        let held = usize::from(round % 2);
        wire.agree(|params, end| {
            let direction = if end == held { Direction::RecvOnly } else { Direction::SendOnly };
            MediaParams { direction, ..sdes(params, SUITE, end as u8 + 1, 2 - end as u8) }
        });
        wire.ends.iter_mut().for_each(|end| end.played.clear());
        wire.run(60);
        assert_eq!(
            blocks_of_tone(&wire.ends[1 - held].played[480..], [20, 16][1 - held]),
            0,
            "round {round}"
        );
        wire.agree(|params, end| sdes(params, SUITE, end as u8 + 1, 2 - end as u8));
        wire.ends.iter_mut().for_each(|end| end.played.clear());
        wire.run(60);
        for (end, period) in [(0, 20), (1, 16)] {
            let blocks = blocks_of_tone(&wire.ends[end].played, period);
            assert!(blocks >= 55, "round {round} end {end}: {blocks}");
        }
    }
    assert_eq!(before, [wire.ends[0].session.ssrc(), wire.ends[1].session.ssrc()]);
    for end in &wire.ends {
        let report = end.session.report();
        assert_eq!(report.refused, Refused::default());
        assert_eq!((report.received.source_changes, report.received.counts.lost()), (0, 0));
        assert_eq!(report.sound.concealed_samples, 0, "{:?}", report.sound);
        let secured = end.events.iter().filter(|event| matches!(event, MediaEvent::Secured { .. })).count();
        assert_eq!(secured, 1, "the same key is not reported again");
    }
}

#[test]
fn with_an_invalid_key_nothing_is_sent() {
    let mut session =
        MediaSession::new(SessionConfig::default(), Seed::from_number(1), Instant::from_secs(1));
    let short = MasterKey { key: Vec::from([1; 15]), ..key(SUITE, 1) };
    let protection = Protection::Sdes { suite: SUITE, send: short, receive: key(SUITE, 2) };
    session.set_params(Instant::from_secs(1), MediaParams { protection, ..plain(address(9, 4000)) });
    assert!(matches!(session.poll_event(), Some(MediaEvent::SecurityFailed(SecurityFailure::Key(_)))));
    assert!(session.prepare(Instant::from_secs(1), &[0; 160]).is_none());
    let mut out = Outbox::new();
    session.on_timeout(Instant::from_secs(60), &mut out);
    session.close(Instant::from_secs(61), &mut out);
    assert!(out.is_empty(), "no unprotected report either");
}

#[test]
fn the_end_of_a_keys_lifetime_stops_sending_and_is_reported() {
    let mut session =
        MediaSession::new(SessionConfig::default(), Seed::from_number(1), Instant::from_secs(1));
    let few = MasterKey { lifetime_packets: Some(3), ..key(SUITE, 1) };
    let protection = Protection::Sdes { suite: SUITE, send: few, receive: key(SUITE, 2) };
    session.set_params(Instant::from_secs(1), MediaParams { protection, ..plain(address(9, 4000)) });
    let sent = (0..5).filter(|_| session.prepare(Instant::from_secs(2), &[0; 160]).is_some()).count();
    assert_eq!(sent, 3);
    session.poll_event();
    assert!(matches!(session.poll_event(), Some(MediaEvent::SecurityFailed(SecurityFailure::KeyUsedUp))));
}

#[test]
fn other_senders_are_counted_and_never_played_or_answered() {
    for protection in [Protection::None, sdes(plain(address(2, 8000)), SUITE, 1, 2).protection] {
        let configs = [SessionConfig::default(), SessionConfig::default()];
        let mut wire = Wire::with_configs(5, configs, PERFECT);
        let stranger = address(66, 6666);
        let bye = [0x80, 201, 0, 1, 0, 0, 0, 9, 0x81, 203, 0, 1, 0, 0, 0, 9];
        let attack = |wire: &mut Wire| {
            for number in 0..20_u16 {
                assert!(wire.inject(0, stranger, &forged(0xbad, number)).is_empty());
                let now = wire.now;
                wire.ends[0].session.on_rtcp(now, now, stranger, &mut bye.to_vec(), &mut Outbox::new());
                assert!(wire.inject(0, stranger, &[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]).is_empty());
                assert!(wire.inject(0, stranger, &[0x10; 40]).is_empty());
                assert!(wire.inject(0, stranger, &[22, 254, 253]).is_empty());
            }
        };
        attack(&mut wire);
        let refused = wire.ends[0].session.report().refused;
        assert_eq!((refused.early, refused.strangers), (100, 0), "no peer yet");
        wire.agree(|params, end| match protection {
            Protection::None => params,
            Protection::Sdes { .. } | Protection::Zrtp { .. } | Protection::Dtls { .. } => {
                sdes(params, SUITE, end as u8 + 1, 2 - end as u8)
            }
        });
        wire.run(50);
        attack(&mut wire);
        wire.run(50);
        let report = wire.ends[0].session.report();
        assert_eq!(report.refused.strangers, 100, "{:?}", report.refused);
        assert_eq!((report.received.counts.received, report.sound.concealed_samples), (100, 0));
        assert_eq!(report.target, Some(wire.ends[1].address));
        wire.close(0);
        attack(&mut wire);
        let refused = wire.ends[0].session.report().refused;
        assert_eq!((refused.early, refused.strangers, refused.after_end), (100, 200, 0));
        assert!(!wire.ends[0].events.iter().any(|event| matches!(event, MediaEvent::PeerLeft)));
        let silent = wire.ends[0].played.len();
        wire.run(10);
        assert!(wire.ends[0].played[silent..].iter().all(|sample| *sample == 0));
        // The peer has not received the BYE yet: what it still sends is counted as its own.
        let refused = wire.ends[0].session.report().refused;
        assert_eq!((refused.early, refused.strangers, refused.after_end), (100, 200, 10));
    }
}

/// Some phones send these in any call.
#[test]
fn unexpected_datagrams_of_the_peer_are_not_counted_as_strangers() {
    let mut wire = Wire::plain(19, PERFECT);
    wire.run(10);
    let peer = wire.ends[1].address;
    for _ in 0..5 {
        assert!(wire.inject(0, peer, &[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]).is_empty());
        assert!(wire.inject(0, peer, &[0x10; 40]).is_empty());
        assert!(wire.inject(0, peer, &[22, 254, 253]).is_empty());
    }
    let refused = wire.ends[0].session.report().refused;
    assert_eq!(refused, Refused { unknown: 15, ..Refused::default() });
}

#[test]
fn bad_srtp_packets_are_counted_and_do_not_end_the_call() {
    let mut wire = Wire::sdes(6, SUITE, PERFECT);
    wire.run(20);
    let peer = wire.ends[1].address;
    let now = wire.now;
    let good = wire.ends[1].session.prepare(now, &[0; 160]).map(|(bytes, _)| bytes.to_vec()).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        wire.inject(0, peer, &bad);
    }
    for len in 0..good.len() {
        wire.inject(0, peer, &good[..len]);
    }
    for _ in 0..10 {
        wire.inject(0, peer, &forged(wire.ends[1].session.ssrc(), 9));
    }
    assert!(wire.inject(0, peer, &good).is_empty());
    wire.inject(0, peer, &good);
    wire.run(30);
    let report = wire.ends[0].session.report();
    let refused = report.refused;
    assert!(
        refused.auth_failures >= 300 && (1..20).contains(&refused.replays) && refused.malformed >= 12,
        "{refused:?}"
    );
    assert_eq!((report.received.counts.received, report.received.counts.lost()), (51, 0));
}

#[test]
fn every_truncation_is_counted_and_breaks_nothing() {
    let mut wire = Wire::plain(7, PERFECT);
    wire.run(300);
    let peer = wire.ends[1].address;
    let samples: Vec<Vec<u8>> =
        wire.ends[1].sent.clone().into_iter().filter(|bytes| bytes.len() > 60).collect();
    let report = samples.iter().find(|bytes| bytes[1] >= 192).unwrap();
    for len in 0..=60 {
        wire.inject(0, peer, &samples[0][..len]);
        let now = wire.now;
        wire.ends[0].session.on_rtcp(now, now, peer, &mut report[..len].to_vec(), &mut Outbox::new());
        for first in 0..=u8::MAX {
            let mut bytes = alloc::vec![first; len];
            wire.inject(0, peer, &bytes);
            wire.ends[0].session.on_rtcp(now, now, peer, &mut bytes, &mut Outbox::new());
        }
    }
    wire.run(50);
    let refused = wire.ends[0].session.report().refused;
    assert!(refused.malformed > 1000 && refused.unknown > 1000, "{refused:?}");
    let tail = &wire.ends[0].played[320 * 160..];
    assert!(blocks_of_tone(tail, 20) >= 25, "{}", blocks_of_tone(tail, 20));
}

#[test]
fn digits_arrive_once_on_a_bad_network() {
    for seed in 0..20 {
        let mut wire = Wire::sdes(seed, SUITE, Faults { lost: 100, ..BAD });
        wire.run(30);
        wire.ends[0].session.send_digits("159#*0D").unwrap();
        wire.run(120);
        assert_eq!(digits(&wire.ends[1].events), "159#*0D", "seed {seed}");
    }
    let mut wire = Wire::plain(1, PERFECT);
    assert_eq!(wire.ends[0].session.send_digits("1x"), Err(DigitsError::NoDigit('x')));
    assert_eq!(wire.ends[0].session.send_digits(&"1".repeat(65)), Err(DigitsError::TooMany { dropped: 1 }));
    wire.agree(|params, _| MediaParams { telephone_event: None, ..params });
    assert_eq!(wire.ends[0].session.send_digits("1"), Err(DigitsError::NotAgreed));
}

#[test]
fn a_peer_behind_a_nat_is_latched() {
    let mut wire = Wire::plain(8, PERFECT);
    let nat = address(77, 30_000);
    for number in 0..10 {
        wire.inject(0, nat, &forged(5, number));
    }
    assert!(matches!(wire.ends[0].events[..], [MediaEvent::LatchedTo(from)] if from == nat));
    let now = wire.now;
    let target = wire.ends[0].session.prepare(now, &[0; 160]).map(|(_, to)| to);
    assert_eq!(target, Some(nat));
    assert_eq!(wire.ends[0].session.report().refused.strangers, 4);
}

#[test]
fn a_forged_source_is_ignored_and_a_real_change_is_followed() {
    let mut wire = Wire::plain(9, PERFECT);
    wire.run(50);
    let peer = wire.ends[1].address;
    wire.inject(0, peer, &forged(0xbad, 500));
    wire.run(50);
    let report = wire.ends[0].session.report();
    assert_eq!((report.received.source_changes, report.received.counts.received), (0, 100));
    for number in 0..50 {
        wire.inject(0, peer, &forged(0x900d, number));
    }
    assert_eq!(wire.ends[0].session.report().received.source_changes, 1);
}

#[test]
fn consecutive_ports_are_probed_until_a_packet_arrives() {
    let row = PortRow { ports: 4, after: core::time::Duration::from_secs(1) };
    let config = SessionConfig { port_row: row, ..SessionConfig::default() };
    let mut session = MediaSession::new(config, Seed::from_number(1), Instant::from_secs(1));
    session.set_params(Instant::from_secs(1), plain(address(9, 4000)));
    let mut out = Outbox::new();
    session.on_timeout(Instant::from_secs(1), &mut out);
    assert!(out.is_empty());
    for millis in (1000..1200).step_by(20) {
        let now = Instant::from_secs(1) + core::time::Duration::from_millis(millis);
        session.prepare(now, &[0; 160]);
        session.on_timeout(now, &mut out);
    }
    let ports: Vec<u16> = out.packets().map(|(packet, _)| packet.flow.remote.port()).collect();
    assert_eq!(ports, [4001, 4002, 4003, 4004, 4001, 4002, 4003, 4004, 4001, 4002]);
    out.clear();
    for number in 0..6 {
        session.on_rtp(
            Instant::from_secs(3),
            Instant::from_secs(3),
            address(9, 4004),
            &mut forged(5, number),
            &mut out,
        );
    }
    session.on_timeout(Instant::from_secs(3), &mut out);
    assert!(out.packets().all(|(packet, _)| packet.flow.listener == RTCP_PORT));
    assert_eq!(session.report().target, Some(address(9, 4004)));
}

/// A STUN server's response to `request` from this port of the seventh host.
fn stun_answer(request: &[u8], port: u16) -> Vec<u8> {
    let mut answer = alloc::vec![1, 1, 0, 12];
    answer.extend_from_slice(&request[4..20]);
    answer.extend_from_slice(&[0, 0x20, 0, 8, 0, 1]);
    answer.extend_from_slice(&(port ^ 0x2112).to_be_bytes());
    answer.extend_from_slice(&[192 ^ 0x21, 0x12, 2 ^ 0xa4, 7 ^ 0x42]);
    answer
}

#[test]
fn a_stun_server_is_queried_at_once_and_until_a_packet_arrives() {
    let server = address(99, 3478);
    let config = SessionConfig { stun_server: Some(server), ..SessionConfig::default() };
    let mut session = MediaSession::new(config, Seed::from_number(1), Instant::from_secs(1));
    assert_eq!(session.next_deadline().map(|deadline| deadline.at), Some(Instant::from_secs(1)));
    let mut out = Outbox::new();
    session.on_timeout(Instant::from_secs(1), &mut out);
    let deferred: Vec<_> =
        out.packets().map(|(packet, _)| (packet.flow.remote, packet.flow.listener)).collect();
    assert_eq!(deferred, [(server, RTP_PORT), (server, RTCP_PORT)]);
    let mut requests = out.packets().map(|(_, request)| request);
    let mut rtp = stun_answer(requests.next().unwrap(), 20_000);
    let mut rtcp = stun_answer(requests.next().unwrap(), 31_000);
    let now = Instant::from_secs(2);
    session.on_rtp(now, now, address(66, 1), &mut rtp.clone(), &mut Outbox::new());
    assert_eq!((session.poll_event().is_none(), session.report().refused.early), (true, 1));
    session.on_rtcp(now, now, server, &mut rtp.clone(), &mut Outbox::new());
    assert!(session.poll_event().is_none(), "a response to the other port's request");
    session.on_rtp(now, now, server, &mut rtp, &mut Outbox::new());
    let Some(MediaEvent::StunMapped { rtp, rtcp: None }) = session.poll_event() else { panic!("no event") };
    assert_eq!(rtp, address(7, 20_000));
    session.on_rtcp(now, now, server, &mut rtcp, &mut Outbox::new());
    let Some(MediaEvent::StunMapped { rtp, rtcp }) = session.poll_event() else { panic!("no event") };
    assert_eq!((rtp, rtcp), (address(7, 20_000), Some(address(7, 31_000))));
    assert_eq!(session.next_deadline().map(|deadline| deadline.at), Some(Instant::from_secs(32)));
    session.set_params(now, plain(address(9, 4000)));
    session.on_rtp(now, now, address(9, 4000), &mut forged(1, 1), &mut Outbox::new());
    assert_eq!(session.next_deadline().map(|deadline| deadline.reason), Some("RTCP report"));
}

#[test]
fn zrtp_secures_a_call_and_nothing_is_sent_unencrypted_before() {
    let settings = |zid: u8| ZrtpSettings {
        config: ZrtpConfig::new([zid; 12]),
        cache: ringway_zrtp::ZidCache::default(),
    };
    let config = |zid| SessionConfig { zrtp: Some(settings(zid)), ..SessionConfig::default() };
    let mut wire = Wire::with_configs(10, [config(1), config(2)], PERFECT);
    let hashes = [1, 0].map(|end: usize| wire.ends[end].session.zrtp_hello_hash());
    wire.agree(|params, end| MediaParams {
        protection: Protection::Zrtp { peer_hello_hash: hashes[end] },
        ..params
    });
    let peer = wire.ends[1].address;
    wire.inject(0, peer, &forged(5, 5));
    assert_eq!(wire.ends[0].session.report().refused.unprotected, 1);
    wire.run(100);
    let texts: Vec<&Sas> = wire
        .ends
        .iter()
        .filter_map(|end| {
            end.events.iter().find_map(|event| match event {
                MediaEvent::Secured { sas, .. } => sas.as_ref(),
                _ => None,
            })
        })
        .collect();
    assert_eq!(texts.len(), 2);
    assert!(!texts[0].text.is_empty() && texts[0].text == texts[1].text && texts[0].is_hello_announced);
    for (end, period) in [(0, 20), (1, 16)] {
        let report = wire.ends[end].session.report();
        let key_management = report.security.map(|security| security.key_management);
        assert_eq!(key_management, Some(KeyManagement::Zrtp));
        assert!(report.refused.auth_failures == 0, "{report:?}");
        assert!(blocks_of_tone(&wire.ends[end].played, period) >= 80);
        // No packet has the length of an unencrypted one.
        assert!(wire.ends[end].sent.iter().all(|bytes| bytes.len() != 172));
        assert!(wire.ends[end].events.iter().any(|event| matches!(event, MediaEvent::Retain(_))));
    }
    wire.agree(|params, _| params);
    wire.agree(|params, _| MediaParams { protection: Protection::Zrtp { peer_hello_hash: None }, ..params });
    let last = wire.ends[0].events.last();
    assert!(matches!(last, Some(MediaEvent::SecurityFailed(SecurityFailure::ZrtpLeft))), "{last:?}");
}

/// Datagrams of another sender on a port that expects ZRTP: random bytes, and the peer's own Hello.
#[test]
fn zrtp_of_another_sender_is_counted_and_not_answered() {
    let settings = |zid: u8| ZrtpSettings {
        config: ZrtpConfig::new([zid; 12]),
        cache: ringway_zrtp::ZidCache::default(),
    };
    let config = |zid| SessionConfig { zrtp: Some(settings(zid)), ..SessionConfig::default() };
    let mut wire = Wire::with_configs(15, [config(1), config(2)], PERFECT);
    wire.agree(|params, _| MediaParams { protection: Protection::Zrtp { peer_hello_hash: None }, ..params });
    let stranger = address(66, 6666);
    for len in 0..=60 {
        let mut garbage = alloc::vec![0x10; len];
        if let Some(kind) = garbage.get_mut(16..24) {
            kind.copy_from_slice(b"Hello   ");
        }
        assert!(wire.inject(0, stranger, &garbage).is_empty());
    }
    assert_eq!(wire.ends[0].session.report().refused.strangers, 61);
    wire.run(50);
    assert!(wire.ends[0].session.report().security.is_some());
    let hello = wire.ends[1].sent[0].clone();
    assert!(wire.inject(0, stranger, &hello).is_empty());
    assert_eq!(wire.ends[0].session.report().refused.strangers, 62);
}

#[test]
fn zrtp_without_an_answer_or_without_settings_is_reported_and_sends_nothing() {
    let protection = || Protection::Zrtp { peer_hello_hash: None };
    let mut wire = Wire::with_configs(11, [SessionConfig::default(), SessionConfig::default()], PERFECT);
    wire.agree(|params, _| MediaParams { protection: protection(), ..params });
    wire.run(5);
    let failure = wire.ends[0].events.first();
    assert!(matches!(failure, Some(MediaEvent::SecurityFailed(SecurityFailure::NoZrtp))), "{failure:?}");
    assert!(wire.ends.iter().all(|end| end.sent.is_empty()));
    let config = ZrtpSettings { config: ZrtpConfig::new([1; 12]), cache: ringway_zrtp::ZidCache::default() };
    let config = SessionConfig { zrtp: Some(config), ..SessionConfig::default() };
    let mut wire = Wire::with_configs(12, [config, SessionConfig::default()], PERFECT);
    wire.agree(
        |params, end| if end == 0 { MediaParams { protection: protection(), ..params } } else { params },
    );
    wire.run(300);
    assert!(matches!(wire.ends[0].events[..], [MediaEvent::PeerNotZrtp]), "{:?}", wire.ends[0].events);
    assert_eq!(wire.ends[0].session.report().sent.packets, 0);
    assert!(wire.ends[0].session.report().refused.unprotected >= 300);
}

#[test]
fn reports_are_multiplexed_if_negotiated_and_a_bye_is_reported() {
    for suite in [None, Some(SUITE)] {
        let mut wire = Wire::with_configs(13, [SessionConfig::default(), SessionConfig::default()], PERFECT);
        wire.agree(|params, end| {
            let params = MediaParams { rtcp_mux: true, remote_rtcp: params.remote, ..params };
            match suite {
                Some(suite) => sdes(params, suite, end as u8 + 1, 2 - end as u8),
                None => params,
            }
        });
        wire.run(600);
        assert!(wire.ends.iter().all(|end| end.session.report().reports_received >= 2));
        wire.close(0);
        wire.run(2);
        assert!(matches!(wire.ends[1].events.last(), Some(MediaEvent::PeerLeft)));
        assert!(wire.ends[0].session.next_deadline().is_none());
    }
}

#[test]
fn an_unspecified_address_is_a_hold() {
    let mut wire = Wire::plain(14, PERFECT);
    wire.run(20);
    let zero = SocketAddr::from(([0, 0, 0, 0], 0));
    wire.ends[0].session.set_params(wire.now, MediaParams { remote: zero, remote_rtcp: zero, ..plain(zero) });
    let sent = wire.ends[0].sent.len();
    wire.run(20);
    assert_eq!(wire.ends[0].sent.len(), sent);
    wire.agree(|params, _| params);
    wire.run(40);
    assert_eq!(wire.ends[0].events.len(), 1, "latched once: {:?}", wire.ends[0].events);
    assert!(wire.ends[1].session.report().received.counts.received >= 60);
}

#[test]
fn events_that_nobody_polls_are_bounded() {
    let limits = SessionLimits { events_max: 3, ..SessionLimits::default() };
    let config = SessionConfig { limits, ..SessionConfig::default() };
    let now = Instant::from_secs(1);
    let mut session = MediaSession::new(config, Seed::from_number(1), now);
    session.set_params(now, plain(address(9, 4000)));
    for number in 0..50_u16 {
        let header = RtpHeader {
            marker: true,
            payload_type: 101,
            sequence: number,
            timestamp: 800 * u32::from(number),
            ssrc: 1,
        };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(&[5, 0x80, 1, 0]);
        session.on_rtp(now, now, address(9, 4000), &mut bytes, &mut Outbox::new());
    }
    assert_eq!(core::iter::from_fn(|| session.poll_event()).count(), 3);
    assert_eq!(session.report().events_dropped, 48);
}
