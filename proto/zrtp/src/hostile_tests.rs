//! Failing calls: man in the middle, forged, modified, duplicated and truncated packets, silence.

use crate::hash::sha256;
use crate::message::{Commit, Hello, error};
use crate::packet::{MessageType, write_message, write_packet};
use crate::secrets::Role;
use crate::wire::{A, B, Wire, config, dh3k, kind_of, reframed, ssrc, waiting};
use crate::*;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::{Entropy, Rng, Seed};

const ALL: [&[u8; 8]; 8] =
    [b"Hello   ", b"HelloACK", b"Commit  ", b"DHPart1 ", b"DHPart2 ", b"Confirm1", b"Confirm2", b"Conf2ACK"];

/// A is the initiator, so that every message has one direction.
fn ordered(seed: u64) -> Wire {
    Wire::new(seed, [config(A), waiting(config(B))])
}

fn packet(end: usize, kind: MessageType, parts: &[&[u8]]) -> Vec<u8> {
    write_packet(7, ssrc(end), &write_message(kind, parts))
}

#[test]
fn two_agreements_with_a_man_in_the_middle_show_two_strings() {
    // Mallory has an end for each of them.
    let mut differing = 0;
    for seed in 0..8 {
        let mut left = Wire::new(seed, [config(A), config(B)]);
        let mut right = Wire::new(seed + 1000, [config(A), config(B)]);
        for wire in [&mut left, &mut right] {
            wire.start();
            wire.run(5);
        }
        differing += usize::from(left.assert_agreed(seed) != right.assert_agreed(seed));
    }
    assert_eq!(differing, 8);
}

#[test]
fn an_announced_hello_hash_excludes_other_peers() {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    wire.start_end(A, Some([7; 32]));
    wire.start_end(B, None);
    wire.run(60);
    assert_eq!(wire.events[A].failure, Some(ZrtpFailure::HelloNotAnnounced));
    assert!(wire.ends[A].counts().not_announced > 0);
    assert_eq!(wire.ends[A].computations(), 0, "no computation for other peers");
    assert!(wire.events[B].secured.is_none());
}

/// A B2BUA that passes `a=zrtp-hash` on and ends the media itself.
#[test]
fn a_hello_of_another_phone_ends_the_agreement_after_two_seconds() {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    wire.start_end(A, Some([7; 32]));
    wire.start_end(B, None);
    wire.run(1);
    assert_eq!(wire.events[A].failure, None);
    wire.run(2);
    let failure = wire.events[A].failure.unwrap();
    assert_eq!(failure, ZrtpFailure::HelloNotAnnounced);
    assert!(failure.to_string().contains("B2BUA"));
}

/// Another dialog of a forked call has another hash, and its Hello may come before its answer.
#[test]
fn a_hash_that_is_announced_later_is_waited_for() {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    wire.start_end(A, Some([7; 32]));
    wire.start_end(B, None);
    wire.run(1);
    let announced = wire.ends[B].hello_hash();
    assert!(wire.ends[A].announce_peer_hello(announced));
    wire.run(5);
    assert!(wire.is_secured());
}

#[test]
fn a_call_without_the_retained_secret_is_reported_although_the_keys_agree() {
    let mut first = Wire::new(1, [config(A), config(B)]);
    first.start();
    first.run(5);
    let caches = [A, B].map(|end| first.ends[end].cache().clone());
    // Mallory has B's identity but not its secrets.
    let mut second = Wire::with_caches(2, [config(A), config(B)], [caches[A].clone(), ZidCache::default()]);
    second.start();
    second.run(5);
    assert_eq!(second.events[A].secured.as_ref().unwrap().continuity, Continuity::Broken);
}

/// Runs a call in which one byte of a message is changed: in every copy, or in the first alone.
fn with_changed(seed: u64, kind: &[u8; 8], at: usize, is_every_copy: bool) -> Wire {
    let mut wire = ordered(seed);
    let mut changed = 0;
    wire.start();
    wire.run_through(40, &mut |_, mut bytes| {
        if kind_of(&bytes) == kind && at + 4 < bytes.len() && (is_every_copy || changed == 0) {
            changed += 1;
            bytes[at] ^= 0x11;
            bytes = reframed(bytes);
        }
        [bytes].into()
    });
    wire
}

#[test]
fn no_modified_byte_leads_to_different_keys_or_to_an_undetected_change() {
    for kind in ALL {
        let length = {
            let mut length = 0;
            let mut wire = ordered(1);
            wire.start();
            wire.run_through(5, &mut |_, bytes| {
                if kind_of(&bytes) == kind {
                    length = bytes.len();
                }
                [bytes].into()
            });
            length
        };
        // The SSRC and everything behind it; the receiver does not check the first eight bytes.
        for at in (8..length - 4).step_by(if length > 60 { 5 } else { 1 }) {
            for is_every_copy in [false, true] {
                let wire = with_changed(at as u64, kind, at, is_every_copy);
                let both = [A, B].map(|end| wire.events[end].secured.is_some());
                let name = core::str::from_utf8(kind).unwrap();
                if both == [true; 2] {
                    wire.assert_agreed(at as u64);
                }
                // A lost Conf2ACK affects only the responder, which has checked everything by then.
                assert!(both[B] || !both[A], "{name} at {at}: only the initiator is secured");
                for end in [A, B] {
                    let events = &wire.events[end];
                    let is_over = events.secured.is_some() || events.failure.is_some() || events.not_zrtp > 0;
                    assert!(is_over, "{name} at {at}: end {end} is still in {}", wire.ends[end].state_name());
                    assert!(wire.ends[end].computations() <= COMPUTATIONS_MAX);
                }
            }
        }
    }
}

#[test]
fn the_failure_names_what_was_modified() {
    let failure = |kind: &[u8; 8], at, end: usize| with_changed(1, kind, at, true).events[end].failure;
    // Bid-down attack: EC25 made unknown in the responder's Hello.
    let bid_down = with_changed(1, b"Hello   ", 12 + 80 + 24, true);
    let failures = [A, B].map(|end| bid_down.events[end].failure);
    assert!(failures.contains(&Some(ZrtpFailure::Forged("Hello"))), "{failures:?}");
    // The hash commitment (hvi), and the MAC of the Commit.
    assert_eq!(failure(b"Commit  ", 12 + 80, B), Some(ZrtpFailure::Forged("Commit")));
    // The identifiers of secrets in the DHPart2 are bound by the hvi.
    assert_eq!(failure(b"DHPart2 ", 12 + 45, B), Some(ZrtpFailure::Commitment));
    assert_eq!(failure(b"Confirm1", 12 + 40, A), Some(ZrtpFailure::ConfirmMac));
    assert_eq!(failure(b"Confirm2", 12 + 40, B), Some(ZrtpFailure::ConfirmMac));
    // The peer receives an Error.
    assert_eq!(failure(b"DHPart2 ", 12 + 45, A), Some(ZrtpFailure::PeerError(0x62)));
}

#[test]
fn a_weak_public_value_ends_the_call_at_once() {
    let mut less_one = vec![0xff; 384];
    less_one.copy_from_slice(&crate::agreement::less_one());
    let mut one = vec![0; 384];
    one[383] = 1;
    for weak in [vec![0; 384], one, less_one] {
        let mut wire = Wire::new(1, [dh3k(config(A)), waiting(dh3k(config(B)))]);
        wire.start();
        wire.run_through(40, &mut |_, mut bytes| {
            if kind_of(&bytes) == b"DHPart1 " {
                bytes[12 + 76..12 + 76 + 384].copy_from_slice(&weak);
                bytes = reframed(bytes);
            }
            [bytes].into()
        });
        assert_eq!(wire.events[A].failure, Some(ZrtpFailure::PublicValue));
        assert_eq!(wire.events[B].failure, Some(ZrtpFailure::PeerError(0x61)));
    }
}

#[test]
fn a_public_value_replaced_in_transit_never_leads_to_keys() {
    let mallory = crate::agreement::KeyPair::new(
        KeyAgreement::Ec25,
        CipherType::Aes3,
        &mut Entropy::new(&Seed::from_number(666)),
    );
    let expected = [
        (b"DHPart1 ", [ZrtpFailure::ConfirmMac, ZrtpFailure::PeerError(0x70)]),
        (b"DHPart2 ", [ZrtpFailure::PeerError(0x62), ZrtpFailure::Commitment]),
    ];
    for (kind, failures) in expected {
        let mut wire = ordered(1);
        wire.start();
        wire.run_through(40, &mut |_, mut bytes| {
            if kind_of(&bytes) == kind {
                bytes[12 + 76..12 + 76 + 64].copy_from_slice(mallory.public());
                bytes = reframed(bytes);
            }
            [bytes].into()
        });
        // Replacing DHPart1 changes the result of DHPart2, but not its commitment.
        assert_eq!([wire.events[A].failure, wire.events[B].failure], failures.map(Some));
        assert!(
            wire.events.iter().all(|events| events.secured.is_none() && events.ready_to_receive.is_none())
        );
    }
}

/// Random packets with a valid CRC.
fn forged(rng: &mut Rng, source: u32) -> Vec<u8> {
    let kinds = MessageType::ALL;
    let kind = kinds[rng.below(kinds.len() as u64) as usize];
    // Nothing protects an Error (RFC 6189 §4.7.1) or an acknowledgement: they are not forged here.
    let kind = match kind {
        MessageType::Error | MessageType::HelloAck | MessageType::Conf2Ack => MessageType::Hello,
        other => other,
    };
    let words = [0, 1, 2, 6, 16, 26, 27, 34, 114, 64][rng.below(10) as usize];
    let body: Vec<u8> = (0..words * 4).map(|_| rng.next_u64() as u8).collect();
    write_packet(rng.next_u64() as u16, source, &write_message(kind, &[&body]))
}

#[test]
fn packets_of_an_off_path_attacker_change_nothing_in_any_state() {
    for seed in 0..12 {
        let mut wire = Wire::new(seed, [config(A), config(B)]);
        let mut rng = Rng::new(&Seed::from_number(seed + 77));
        let hashes = wire.ends.each_ref().map(Zrtp::hello_hash);
        wire.start_end(A, Some(hashes[B]));
        wire.start_end(B, Some(hashes[A]));
        wire.run_through(20, &mut |to, bytes| {
            let mut all = Vec::new();
            for _ in 0..4 {
                // Half of them even have the peer's SSRC.
                let source = if rng.random_bool(500) { ssrc(1 - to) } else { 5 };
                all.push(forged(&mut rng, source));
            }
            // Confirms with the right SSRC count as failures; another test covers that limit.
            all.retain(|bytes| !kind_of(bytes).starts_with(b"Confirm"));
            all.push(bytes);
            all
        });
        wire.assert_agreed(seed);
        let counts = wire.ends[A].counts();
        assert!(counts.strangers > 0 && counts.forged + counts.malformed + counts.unexpected > 0);
        assert!(wire.ends.iter().all(|end| end.computations() <= COMPUTATIONS_MAX));
    }
}

#[test]
fn a_few_forged_confirms_are_ignored_and_more_end_the_call() {
    for forgeries in 1..=CONFIRM_FAILURES_MAX {
        let mut wire = ordered(3);
        let mut left = forgeries;
        wire.start();
        wire.run_through(20, &mut |to, bytes| {
            if to == A && kind_of(&bytes) == b"Confirm1" {
                let forged = packet(B, MessageType::Confirm1, &[&[9; 64]]);
                let mut all = vec![forged; left as usize];
                left = 0;
                all.push(bytes);
                return all;
            }
            [bytes].into()
        });
        if forgeries < CONFIRM_FAILURES_MAX {
            wire.assert_agreed(3);
            assert_eq!(wire.ends[A].counts().forged, u64::from(forgeries));
        } else {
            assert_eq!(wire.events[A].failure, Some(ZrtpFailure::ConfirmMac));
        }
    }
}

#[test]
fn duplicated_packets_cost_nothing_and_packets_of_the_last_call_are_rejected() {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    let mut seen: [Vec<Vec<u8>>; 2] = Default::default();
    wire.start();
    wire.run_through(5, &mut |to, bytes| {
        // Each message is new once: an answer to a duplicate differs only in its sequence number.
        if seen[to].iter().any(|old| old[12..old.len() - 4] == bytes[12..bytes.len() - 4]) {
            return [bytes].into();
        }
        seen[to].push(bytes.clone());
        let mut all = seen[to].clone();
        all.push(bytes);
        all
    });
    wire.assert_agreed(1);
    assert!(wire.ends.iter().all(|end| end.computations() == 2));

    let mut next = Wire::new(2, [config(A), config(B)]);
    next.start_end(A, None);
    for bytes in seen[A].iter().filter(|bytes| kind_of(bytes) != b"Hello   ") {
        next.inject(A, bytes);
    }
    assert_eq!((next.ends[A].state_name(), next.ends[A].computations()), ("discovering", 0));
    next.start_end(B, None);
    next.run(30);
    next.assert_agreed(2);
    for bytes in &seen[A] {
        next.inject(A, bytes);
    }
    assert!(next.ends[A].is_secured());
}

#[test]
fn truncated_messages_of_every_length_are_counted_and_the_call_continues() {
    let mut wire = ordered(1);
    let mut cut = 0_u64;
    wire.start();
    wire.run_through(10, &mut |to, bytes| {
        let mut all = Vec::new();
        // A forged Confirm with the right SSRC counts as a failure; so does a truncated one.
        if to == B && !kind_of(&bytes).starts_with(b"Conf") && cut < 2000 {
            for end in 0..bytes.len() {
                all.push(bytes[..end].to_vec());
                // The same with a valid CRC and length.
                if end >= 24 && (end - 12) % 4 == 0 && end + 4 < bytes.len() {
                    let mut message = bytes[12..end].to_vec();
                    message[3] = (message.len() / 4) as u8;
                    message[2] = 0;
                    let is_ack = message.len() == 12 && kind_of(&bytes) == b"HelloACK";
                    if !is_ack {
                        all.push(write_packet(1, ssrc(A), &message));
                    }
                }
                cut += 1;
            }
        }
        all.push(bytes);
        all
    });
    wire.assert_agreed(1);
    let counts = wire.ends[B].counts();
    assert!(counts.damaged > 300 && counts.malformed + counts.unexpected > 50, "{counts:?}");
}

#[test]
fn a_peer_that_stops_answering_after_any_message_is_a_failure() {
    for last in 0..9 {
        for (silent, initiator) in [(A, A), (A, B), (B, A), (B, B)] {
            let mut configs = [config(A), config(B)];
            configs[1 - initiator] = waiting(configs[1 - initiator].clone());
            let mut wire = Wire::new(last, configs);
            let mut passed = 0;
            wire.start();
            wire.run_through(120, &mut |to, bytes| {
                passed += u64::from(to != silent);
                if to != silent && passed > last { Vec::new() } else { [bytes].into() }
            });
            let events = &wire.events[1 - silent];
            assert!(
                events.secured.is_some() || events.failure.is_some() || events.not_zrtp > 0,
                "after {last}"
            );
            assert!(wire.ends[1 - silent].next_deadline().is_none(), "after {last}: no deadline is left");
        }
    }
}

/// A valid Hello after `change`.
fn hello_with(change: impl FnOnce(&mut Hello)) -> Vec<u8> {
    let mut hello = Hello {
        version: *b"1.10",
        client_id: [b' '; 16],
        h3: [3; 32],
        zid: [0x33; 12],
        is_passive: false,
        algorithms: Algorithms::default().completed(),
    };
    change(&mut hello);
    hello.write(&[2; 32])
}

/// State of A after one Hello.
fn after_hello(source: u32, message: &[u8]) -> Wire {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    wire.start_end(A, None);
    wire.inject(A, &write_packet(1, source, message));
    wire
}

#[test]
fn invalid_hellos_are_not_answered() {
    let failure = |wire: &Wire| wire.events[A].failure;
    assert_eq!(failure(&after_hello(9, &hello_with(|_| ()))), None);
    assert_eq!(failure(&after_hello(9, &hello_with(|hello| hello.version = *b"1.1a"))), None);
    let older = after_hello(9, &hello_with(|hello| hello.version = *b"0.90"));
    assert_eq!(failure(&older), Some(ZrtpFailure::Version));
    let newer = after_hello(9, &hello_with(|hello| hello.version = *b"2.00"));
    assert_eq!((failure(&newer), newer.ends[A].state_name()), (None, "discovering"));
    let mirror = after_hello(9, &hello_with(|hello| hello.zid = [1; 12]));
    assert_eq!(failure(&mirror), Some(ZrtpFailure::EqualZids));
    let collision = after_hello(ssrc(A), &hello_with(|_| ()));
    assert_eq!(failure(&collision), Some(ZrtpFailure::SsrcCollision));
}

#[test]
fn a_hello_ack_with_another_ssrc_does_not_count() {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    wire.start_end(A, None);
    wire.inject(A, &write_packet(1, 5, &write_message(MessageType::HelloAck, &[])));
    wire.start_end(B, None);
    wire.run(10);
    wire.assert_agreed(1);
}

/// A in the state in which it waits for a Commit, and the hash chain of its peer.
fn await_commit(commit_mode: CommitMode) -> (Wire, [[u8; 32]; 4]) {
    let h0 = [8; 32];
    let h1 = sha256(&[&h0]);
    let h2 = sha256(&[&h1]);
    let h3 = sha256(&[&h2]);
    let mut wire = Wire::new(1, [ZrtpConfig { commit_mode, ..config(A) }, config(B)]);
    wire.start_end(A, None);
    let hello = Hello {
        version: *b"1.10",
        client_id: [b' '; 16],
        h3,
        zid: [2; 12],
        is_passive: false,
        algorithms: Algorithms::default().completed(),
    };
    wire.inject(A, &write_packet(1, ssrc(B), &hello.write(&h2)));
    (wire, [h0, h1, h2, h3])
}

#[test]
fn commits_of_unsupported_modes_are_answered() {
    let commit = |h2: &[u8; 32], mode: &[u8; 4], rest: usize| {
        let head: [&[u8]; 4] = [h2, &[2; 12], b"S256AES1HS32", mode];
        packet(B, MessageType::Commit, &[head[0], head[1], head[2], head[3], b"B32 ", &vec![0; rest]])
    };
    let (mut wire, chain) = await_commit(CommitMode::Passive);
    wire.inject(A, &commit(&chain[2], b"Prsh", 32));
    assert_eq!(wire.events[A].failure, Some(ZrtpFailure::NotOffered("Preshared mode")));
    let (mut wire, chain) = await_commit(CommitMode::Active);
    wire.inject(A, &commit(&chain[2], b"Prsh", 32));
    assert_eq!((wire.events[A].failure, wire.ends[A].state_name()), (None, "await DHPart1"));
    wire.inject(A, &commit(&chain[2], b"Prsh", 32));
    assert_eq!(wire.ends[A].state_name(), "await DHPart1");
    let (mut wire, chain) = await_commit(CommitMode::Passive);
    wire.inject(A, &commit(&chain[2], b"Mult", 24));
    assert_eq!(wire.events[A].failure, Some(ZrtpFailure::NotOffered("Multistream mode")));
    let (mut wire, chain) = await_commit(CommitMode::Passive);
    wire.inject(A, &commit(&chain[1], b"DH3k", 40));
    assert_eq!((wire.events[A].failure, wire.ends[A].counts().forged), (None, 1), "not from this sender");
    wire.inject(A, &commit(&chain[2], b"EC38", 40));
    assert_eq!(wire.events[A].failure, Some(ZrtpFailure::NotOffered("key agreement")));
    let (mut wire, chain) = await_commit(CommitMode::Passive);
    let all = Algorithms::default().completed();
    let chosen = crate::algorithm::Chosen::from_lists(&all, &all);
    let other_zid = Commit { h2: chain[2], zid: [9; 12], chosen, hvi: [0; 32] }.write(&chain[1]);
    wire.inject(A, &write_packet(2, ssrc(B), &other_zid));
    assert_eq!((wire.ends[A].computations(), wire.ends[A].counts().forged), (0, 1));
}

#[test]
fn an_error_ends_an_agreement_in_progress_and_nothing_else() {
    let mut wire = Wire::new(1, [config(A), config(B)]);
    wire.start_end(A, None);
    let error_of = |end| write_packet(1, ssrc(end), &error(0xa0));
    wire.inject(A, &error_of(B));
    assert_eq!(wire.events[A].failure, None, "no peer yet");
    let (mut wire, _) = await_commit(CommitMode::Passive);
    wire.inject(A, &write_packet(1, 5, &error(0xa0)));
    assert_eq!(wire.events[A].failure, None, "from another SSRC");
    wire.inject(A, &error_of(B));
    assert_eq!(wire.events[A].failure, Some(ZrtpFailure::PeerError(0xa0)));
    let mut wire = ordered(1);
    wire.start();
    wire.run(5);
    wire.inject(A, &error_of(B));
    assert!(wire.ends[A].is_secured());
}

#[test]
fn an_error_is_retransmitted_until_it_is_acknowledged() {
    let (mut wire, chain) = await_commit(CommitMode::Passive);
    let commit: [&[u8]; 3] = [&chain[2], &[2; 12], b"S256AES1HS32MultB32 "];
    wire.inject(A, &packet(B, MessageType::Commit, &[commit[0], commit[1], commit[2], &[0; 24]]));
    assert_eq!(wire.ends[A].next_deadline().unwrap().reason, "ErrorACK");
    let mut errors = 0;
    wire.run_through(2, &mut |_, bytes| {
        errors += usize::from(kind_of(&bytes) == b"Error   ");
        Vec::new()
    });
    assert!(errors >= 3);
    wire.inject(A, &packet(B, MessageType::ErrorAck, &[]));
    assert!(wire.ends[A].next_deadline().is_none());
}

#[test]
fn go_clear_is_refused_sas_relay_acknowledged_and_ping_answered() {
    let mut wire = ordered(1);
    wire.start();
    wire.run(5);
    wire.assert_agreed(1);
    let (go_clear, relay) = wire.ends[B].sealed_with_session_keys(Role::Responder);
    let mut sent = Vec::new();
    let now = wire.now;
    let mut receive = |zrtp: &mut Zrtp, bytes: &[u8]| {
        sent.clear();
        zrtp.on_packet(now, bytes, &mut |bytes| sent.push(kind_of(bytes).to_vec()));
        sent.clone()
    };
    let zrtp = &mut wire.ends[A];
    let forged = packet(B, MessageType::GoClear, &[&[0; 8]]);
    assert!(receive(zrtp, &forged).is_empty());
    assert!(receive(zrtp, &packet(B, MessageType::SasRelay, &[&[0; 64]])).is_empty());
    assert_eq!(zrtp.counts().forged, 2);
    for _ in 0..3 {
        assert_eq!(receive(zrtp, &write_packet(1, ssrc(B), &go_clear)), [b"Error   "]);
    }
    assert_eq!(receive(zrtp, &write_packet(1, ssrc(B), &relay)), [b"RelayACK"]);
    assert_eq!(receive(zrtp, &packet(5, MessageType::Ping, &[b"1.10", &[0; 8]])), [b"PingACK "]);
    assert!(zrtp.is_secured());
    assert!(matches!(zrtp.poll_event(), Some(ZrtpEvent::GoClearRefused)));
    assert!(zrtp.poll_event().is_none(), "reported once");
}

#[test]
fn a_flood_causes_no_more_computations_than_an_agreement_and_no_more_packets_than_it_has() {
    for commit_mode in [CommitMode::Active, CommitMode::Passive] {
        let mut zrtp = Zrtp::new(
            ZrtpConfig { commit_mode, ..config(A) },
            ZidCache::default(),
            Entropy::new(&Seed::from_number(1)),
        );
        let mut rng = Rng::new(&Seed::from_number(2));
        let (mut sent, mut now) = (0, ringway_sansio::Instant::from_secs(1));
        zrtp.start(now, ssrc(A), None, &mut |_| sent += 1);
        for _ in 0..3000 {
            now = now + core::time::Duration::from_micros(100);
            zrtp.on_packet(now, &forged(&mut rng, ssrc(B)), &mut |_| sent += 1);
        }
        assert!(zrtp.computations() <= COMPUTATIONS_MAX);
        assert!(sent <= 3001);
        assert!(core::iter::from_fn(|| zrtp.poll_event()).count() <= 2);
    }
}

#[test]
fn packets_before_the_start_are_ignored() {
    let mut zrtp = Zrtp::new(config(A), ZidCache::default(), Entropy::new(&Seed::from_number(1)));
    let hello = write_packet(1, 9, &hello_with(|_| ()));
    zrtp.on_packet(Default::default(), &hello, &mut |_| panic!("sends nothing"));
    assert_eq!((zrtp.counts().unexpected, zrtp.next_deadline()), (1, None));
}
