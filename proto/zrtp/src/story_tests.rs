//! Successful calls: both agreements, both roles, lost packets, retained secrets.

use crate::wire::{A, B, Wire, config, dh3k, waiting};
use crate::*;
use alloc::vec::Vec;

#[test]
fn two_ends_agree_with_the_curve_and_the_fastest_of_both_is_taken() {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    wire.start();
    wire.run(5);
    let sas = wire.assert_agreed(1);
    let secured = wire.events[A].secured.as_ref().unwrap();
    assert_eq!((sas.len(), secured.key_agreement), (4, KeyAgreement::Ec25));
    assert_eq!((secured.continuity, secured.sas_verified), (Continuity::FirstCall, false));
    assert_eq!(secured.suite, ringway_sdp::CryptoSuite::AesCm256HmacSha1_80);
    assert_eq!((secured.peer_client.as_str(), secured.peer_zid), ("Ringway", [2; 12]));
    assert_eq!((wire.events[A].retained.len(), wire.events[B].retained.len()), (1, 1));
    assert!(wire.events[A].retained[0].rs1 == wire.events[B].retained[0].rs1);
    assert!(wire.ends.iter().all(|end| end.next_deadline().is_none()), "nothing is left to do");
}

#[test]
fn two_ends_agree_in_either_role_with_either_agreement() {
    for (seed, wrap) in [(1, (|config| config) as fn(ZrtpConfig) -> ZrtpConfig), (2, dh3k)] {
        for initiator in [A, B] {
            let mut configs = [wrap(config(A)), wrap(config(B))];
            configs[1 - initiator] = waiting(configs[1 - initiator].clone());
            let mut wire = Wire::new(seed, configs);
            wire.start();
            wire.run(5);
            wire.assert_agreed(seed);
            assert!(wire.events[initiator].ready_to_receive.is_some(), "reported to the initiator");
            assert!(wire.events[1 - initiator].ready_to_receive.is_none());
            assert_eq!(wire.ends.each_ref().map(Zrtp::computations), [2, 2]);
        }
    }
}

#[test]
fn every_choice_of_hash_cipher_tag_and_rendering_works() {
    for hash in [HashType::S256, HashType::S384] {
        for cipher in [CipherType::Aes1, CipherType::Aes2, CipherType::Aes3] {
            for (tag, sas) in [(AuthTag::Hs32, SasType::B256), (AuthTag::Hs80, SasType::B32)] {
                let algorithms = Algorithms {
                    hashes: [hash].into(),
                    ciphers: [cipher].into(),
                    auth_tags: [tag].into(),
                    key_agreements: [KeyAgreement::Ec25].into(),
                    sas_types: [sas].into(),
                };
                let with = |end| ZrtpConfig { algorithms: algorithms.clone(), ..config(end) };
                let mut wire = Wire::new(9, [with(A), with(B)]);
                wire.start();
                wire.run(5);
                let shown = wire.assert_agreed(9);
                assert_eq!(shown.contains(' '), sas == SasType::B256);
                let secured = wire.events[B].secured.as_ref().unwrap();
                assert_eq!((secured.send.key.len(), secured.send.salt.len()), (cipher.key_bytes(), 14));
                assert_eq!(secured.suite.tag_bits(), if tag == AuthTag::Hs32 { 32 } else { 80 });
            }
        }
    }
}

#[test]
fn both_ends_settle_the_contention_alike() {
    let mut winners = [0; 2];
    for seed in 0..20 {
        let mut wire = Wire::new(seed, [config(A), config(B)]);
        wire.delay_ms_max = 1;
        wire.start();
        wire.run(5);
        wire.assert_agreed(seed);
        let initiator = if wire.events[A].ready_to_receive.is_some() { A } else { B };
        assert!(wire.events[1 - initiator].ready_to_receive.is_none(), "seed {seed}: one initiator");
        winners[initiator] += 1;
        assert!(wire.ends.iter().all(|end| end.computations() == 2), "the pair is not made twice");
    }
    assert!(winners.iter().all(|wins| *wins > 0), "{winners:?}");
}

#[test]
fn loss_duplication_and_reordering_only_delay_the_agreement() {
    let mut secured = 0;
    for seed in 0..60 {
        let mut wire = Wire::new(seed, [config(A), config(B)]);
        wire.loss_per_mille = 300;
        wire.delay_ms_max = 250;
        wire.start();
        wire.run(60);
        if wire.is_secured() {
            wire.assert_agreed(seed);
            secured += 1;
        } else {
            // Ten losses in a row can occur; then both ends fail, or one is secured and the other lost its
            // Conf2ACK.
            assert!(
                wire.events.iter().any(|events| events.failure.is_some() || events.not_zrtp > 0),
                "seed {seed}"
            );
        }
    }
    assert!(secured >= 58, "{secured} of 60");
}

#[test]
fn a_peer_that_starts_late_is_found() {
    let mut wire = Wire::new(4, [config(A), config(B)]);
    wire.start_end(A, None);
    wire.run(10);
    assert_eq!(wire.events[A].not_zrtp, 1);
    wire.now = wire.now + core::time::Duration::from_secs(20);
    wire.start_end(B, None);
    wire.run(10);
    wire.assert_agreed(4);
}

#[test]
fn an_authenticated_srtp_packet_replaces_a_lost_conf2ack() {
    let mut wire = Wire::new(5, [config(A), waiting(config(B))]);
    wire.start();
    wire.run_through(1, &mut |to, bytes| {
        if to == A && bytes.windows(8).any(|name| name == b"Conf2ACK") { Vec::new() } else { [bytes].into() }
    });
    assert!(wire.events[B].secured.is_some() && wire.events[A].secured.is_none());
    let (suite, key) = wire.events[A].ready_to_receive.clone().unwrap();
    let other = wire.events[B].secured.as_ref().unwrap();
    assert!(suite == other.suite && key == other.send);
    let now = wire.now;
    wire.ends[A].on_authenticated_srtp(now);
    wire.run(5);
    while let Some(event) = wire.ends[A].poll_event() {
        wire.events[A].note(event);
    }
    wire.assert_agreed(5);
}

/// The caches after a call, as stored.
fn stored(wire: &Wire) -> [ZidCache; 2] {
    [A, B].map(|end| {
        let mut cache = ZidCache::default();
        for retained in &wire.events[end].retained {
            cache.insert(retained.clone());
        }
        cache
    })
}

fn call(seed: u64, caches: [ZidCache; 2]) -> Wire {
    let mut wire = Wire::with_caches(seed, [config(A), config(B)], caches);
    wire.start();
    wire.run(5);
    wire.assert_agreed(seed);
    wire
}

fn compare(wire: &mut Wire, end: usize, check: SasCheck) {
    let now = wire.now;
    wire.ends[end].on_sas_compared(now, check);
    while let Some(event) = wire.ends[end].poll_event() {
        wire.events[end].note(event);
    }
}

#[test]
fn the_next_calls_continue_the_secrets_and_keep_the_comparison() {
    let mut first = call(1, Default::default());
    compare(&mut first, A, SasCheck::Matches);
    let mut caches = stored(&first);
    let mut last = [1; 32];
    for seed in 2..5 {
        let next = call(seed, caches.clone());
        for end in [A, B] {
            let secured = next.events[end].secured.as_ref().unwrap();
            assert_eq!(secured.continuity, Continuity::Continued);
            assert_eq!((secured.sas_verified, secured.peer_sas_verified), (end == A, end == B));
        }
        caches = stored(&next);
        let retained = caches[B].find(&[1; 12]).unwrap();
        assert!(retained.rs1 != last && retained.rs2.is_some(), "a new secret in every call");
        last = retained.rs1;
    }
}

#[test]
fn an_end_that_missed_the_last_update_is_found_by_rs2() {
    let first = stored(&call(1, Default::default()));
    let second = stored(&call(2, first.clone()));
    // B lost power before it could store the second call.
    let third = call(3, [second[A].clone(), first[B].clone()]);
    assert!(
        third
            .events
            .iter()
            .all(|events| events.secured.as_ref().unwrap().continuity == Continuity::Continued)
    );
}

#[test]
fn an_end_without_its_cache_breaks_the_continuity_until_the_string_is_compared() {
    let mut first = call(1, Default::default());
    compare(&mut first, A, SasCheck::Matches);
    let [cache, _] = stored(&first);
    let before = cache.find(&[2; 12]).unwrap().clone();
    let mut second = call(2, [cache, ZidCache::default()]);
    let secured = second.events[A].secured.as_ref().unwrap();
    assert_eq!((secured.continuity, secured.sas_verified), (Continuity::Broken, false));
    assert_eq!(second.events[B].secured.as_ref().unwrap().continuity, Continuity::FirstCall);
    assert!(!second.events[B].secured.as_ref().unwrap().peer_sas_verified);
    assert!(second.events[A].retained.is_empty());
    assert!(*second.ends[A].cache().find(&[2; 12]).unwrap() == before);

    compare(&mut second, A, SasCheck::Matches);
    compare(&mut second, A, SasCheck::Matches);
    let after = second.events[A].retained.last().unwrap();
    assert!(after.sas_verified && after.rs1 != before.rs1 && after.rs2 == Some(before.rs1));
    let third = call(3, stored(&second));
    assert!(
        third
            .events
            .iter()
            .all(|events| events.secured.as_ref().unwrap().continuity == Continuity::Continued)
    );
    assert!(third.events[A].secured.as_ref().unwrap().sas_verified);
}

#[test]
fn a_string_that_differs_deletes_the_cache_entry() {
    let mut wire = call(1, Default::default());
    compare(&mut wire, B, SasCheck::Differs);
    assert_eq!(wire.events[B].forgotten, [[1; 12]]);
    assert!(wire.ends[B].cache().find(&[1; 12]).is_none());
}

#[test]
fn an_end_that_retains_nothing_leaves_no_entry_at_the_other() {
    let forgetful = ZrtpConfig { cache_interval_s: 0, ..config(A) };
    let mut wire = Wire::new(1, [forgetful, config(B)]);
    wire.start();
    wire.run(5);
    wire.assert_agreed(1);
    assert!(wire.events.iter().all(|events| events.retained.is_empty()));
}

#[test]
fn an_expired_secret_is_used_but_may_be_missing() {
    let with = |seconds| ZrtpConfig { cache_interval_s: seconds, ..config(A) };
    let mut wire = Wire::new(1, [with(60), config(B)]);
    wire.start();
    wire.run(5);
    let caches = stored(&wire);
    assert_eq!(caches[B].find(&[1; 12]).unwrap().expires_at.as_secs(), 1060);
    for (late_s, lost, expected) in [
        (10, true, Continuity::Broken),
        (100, true, Continuity::FirstCall),
        (100, false, Continuity::Continued),
    ] {
        let theirs = if lost { ZidCache::default() } else { caches[A].clone() };
        let mut wire = Wire::with_caches(2, [with(60), config(B)], [theirs, caches[B].clone()]);
        wire.now = wire.now + core::time::Duration::from_secs(late_s);
        wire.start();
        wire.run(5);
        wire.assert_agreed(2);
        assert_eq!(wire.events[B].secured.as_ref().unwrap().continuity, expected);
    }
}

#[test]
fn a_hello_with_the_announced_hash_is_reported() {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    let hashes = wire.ends.each_ref().map(Zrtp::hello_hash);
    wire.start_end(A, Some(hashes[B]));
    wire.start_end(B, None);
    wire.run(5);
    wire.assert_agreed(1);
    assert!(wire.events[A].secured.as_ref().unwrap().is_hello_announced);
    assert!(!wire.events[B].secured.as_ref().unwrap().is_hello_announced);
    assert!(wire.ends[B].announce_peer_hello(hashes[A]) && !wire.ends[B].announce_peer_hello(hashes[B]));
}

#[test]
fn a_missing_peer_is_reported_once_and_the_hellos_follow_the_schedule() {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    let mut sent = 0;
    wire.start_end(A, None);
    wire.run_through(60, &mut |_, _| {
        sent += 1;
        Vec::new()
    });
    assert_eq!((sent, wire.events[A].not_zrtp), (21, 1));
    assert!(wire.ends[A].next_deadline().is_none());
    assert!(wire.events[A].failure.is_none());
}
