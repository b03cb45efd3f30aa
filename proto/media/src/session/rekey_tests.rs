//! Key changes of a stream; see also `receive_contexts_tests`, which tests the contexts alone.

use super::session_tests::{BAD, PERFECT, SUITE, seeds};
use super::wire::{Faults, Wire, address, blocks_of_tone, plain, sdes};
use super::*;
use alloc::vec::Vec;
use ringway_sansio::Outbox;
use ringway_sdp::CryptoSuite;

#[test]
fn another_key_is_used_and_reported() {
    let mut wire = Wire::sdes(4, SUITE, PERFECT);
    wire.run(50);
    wire.agree(|params, end| sdes(params, CryptoSuite::AeadAes256Gcm, end as u8 + 11, 12 - end as u8));
    wire.ends.iter_mut().for_each(|end| end.played.clear());
    wire.run(50);
    for (end, period) in [(0, 20), (1, 16)] {
        let report = wire.ends[end].session.report();
        assert_eq!(report.security.map(|security| security.suite), Some(CryptoSuite::AeadAes256Gcm));
        assert_eq!((report.refused, report.received.counts.lost()), (Refused::default(), 0));
        assert!(blocks_of_tone(&wire.ends[end].played, period) >= 49, "end {end}");
    }
    wire.agree(|params, _| params);
    wire.run(5);
    assert!(matches!(wire.ends[0].events.last(), Some(MediaEvent::Unprotected)));
    assert_eq!(wire.ends[0].session.report().security, None);
}

/// One end has a new key with its answer, the other when it receives the answer.
#[test]
fn a_change_of_keys_loses_only_what_overtakes_the_answer() {
    let keys = |params: MediaParams, end: usize, round: u8| {
        sdes(params, SUITE, 10 * round + end as u8 + 1, 10 * round + 2 - end as u8)
    };
    let mut wire = Wire::sdes(16, SUITE, PERFECT);
    wire.run(50);
    for round in 1..=4 {
        let (answerer, offerer) = (usize::from(round % 2), 1 - usize::from(round % 2));
        let params = [0, 1].map(|end| keys(plain(wire.ends[1 - end].address), end, round));
        wire.ends[answerer].session.set_params(wire.now, params[answerer].clone());
        wire.run(3);
        wire.ends[offerer].session.set_params(wire.now, params[offerer].clone());
        wire.run(50);
    }
    for end in &wire.ends {
        let report = end.session.report();
        // Each waited twice for an answer that three packets overtook.
        let lost = report.received.counts.lost();
        assert_eq!((report.refused.auth_failures, lost), (6, 6), "{:?}", report.refused);
        assert_eq!((report.refused.replays, report.refused.strangers), (0, 0));
        assert_eq!(report.received.counts.received, 50 + 4 * 53 - lost);
    }
}

#[test]
fn nothing_is_lost_at_a_change_of_keys_on_a_network_that_reorders() {
    for seed in seeds() {
        let mut wire = Wire::sdes(seed, SUITE, Faults { lost: 0, ..BAD });
        for round in 1..10_u8 {
            let suite = CryptoSuite::ALL[usize::from(round) % CryptoSuite::ALL.len()];
            wire.run(30);
            wire.agree(|params, end| sdes(params, suite, 2 * round + end as u8, 2 * round + 1 - end as u8));
        }
        wire.faults = PERFECT;
        wire.run(60);
        for (number, end) in wire.ends.iter().enumerate() {
            let Report { refused, received, reports_received, .. } = end.session.report();
            assert_eq!(
                (refused.auth_failures, refused.srtp_other),
                (0, 0),
                "seed {seed} end {number}: {refused:?}"
            );
            assert_eq!(received.counts.lost(), 0, "seed {seed} end {number}");
            let taken = received.counts.received + refused.replays + reports_received;
            assert_eq!(taken, end.delivered, "seed {seed} end {number}");
        }
    }
}

#[test]
fn the_previous_key_of_a_peer_that_has_moved_is_given_up_at_once() {
    for is_elsewhere in [false, true] {
        let mut wire = Wire::sdes(17, SUITE, PERFECT);
        wire.run(20);
        let (peer, now) = (wire.ends[1].address, wire.now);
        let mut late =
            || wire.ends[1].session.prepare(now, &[0; 160]).map(|(bytes, _)| bytes.to_vec()).unwrap();
        let late = [late(), late()];
        let remote = if is_elsewhere { address(9, 9000) } else { peer };
        wire.ends[0].session.set_params(now, sdes(plain(remote), SUITE, 21, 22));
        wire.inject(0, peer, &late[0]);
        // From another address the previous key proves nothing either.
        wire.inject(0, address(66, 6666), &late[1]);
        let report = wire.ends[0].session.report();
        let reported =
            (report.received.counts.received, report.refused.auth_failures, report.refused.strangers);
        assert_eq!(reported, if is_elsewhere { (20, 2, 2) } else { (21, 0, 1) }, "{:?}", report.refused);
        assert_eq!(report.target, Some(remote));
        let mut out = Outbox::new();
        let is_kept = core::iter::from_fn(|| {
            let deadline = wire.ends[0].session.next_deadline()?;
            wire.ends[0].session.on_timeout(deadline.at, &mut out);
            (deadline.at < now + core::time::Duration::from_secs(3)).then_some(deadline.reason)
        })
        .any(|reason| reason.contains("previous key"));
        assert_eq!(is_kept, !is_elsewhere);
    }
}

/// An SSRC that the peer has replaced must not return because of packets in transit.
#[test]
fn late_packets_of_the_old_source_do_not_replace_the_new_one() {
    let mut wire = Wire::sdes(18, SUITE, PERFECT);
    wire.run(20);
    let (peer, now) = (wire.ends[1].address, wire.now);
    let packet = |session: &mut MediaSession| {
        session.prepare(now, &[0; 160]).map(|(bytes, _)| bytes.to_vec()).unwrap()
    };
    let late: Vec<Vec<u8>> = (0..4).map(|_| packet(&mut wire.ends[1].session)).collect();
    let mut other = MediaSession::new(SessionConfig::default(), Seed::from_number(99), now);
    other.set_params(now, sdes(plain(wire.ends[0].address), SUITE, 22, 21));
    wire.ends[0].session.set_params(now, sdes(plain(peer), SUITE, 21, 22));
    for late in &late {
        wire.inject(0, peer, &packet(&mut other));
        wire.inject(0, peer, &packet(&mut other));
        wire.inject(0, peer, late);
    }
    let report = wire.ends[0].session.report();
    assert_eq!((report.received.source_changes, report.refused.auth_failures), (1, 0));
    assert_eq!(report.received.counts.lost(), 0);
}
