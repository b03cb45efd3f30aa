//! Tested: RFC 4568 with its example (§7.1.5), RFC 8643, every combination of policies, keys across re-offers
//! and forks, removal of protection, answers with wrong keys. Not tested here: the syntax of the key line.

use crate::offer_answer::tests::{exchange, opportunistic, phone, sdes, text, zrtp};
use crate::*;
use crate::{CryptoSuite, Direction, MasterKey, MediaParams, Protection};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

const BOTH: Direction = Direction::SendRecv;

fn policies() -> [SecurityPolicy; 5] {
    let with_zrtp = SecurityPolicy::Opportunistic {
        suites: vec![CryptoSuite::AesCm128HmacSha1_80],
        hello_hash: Some([0xcd; 32]),
        fingerprint: None,
    };
    [opportunistic(), with_zrtp, SecurityPolicy::None, sdes(), zrtp()]
}

fn keys(params: &MediaParams) -> (CryptoSuite, &MasterKey, &MasterKey) {
    match &params.protection {
        Protection::Sdes { suite, send, receive } => (*suite, send, receive),
        Protection::None | Protection::Zrtp { .. } | Protection::Dtls { .. } => panic!("{params:?}"),
    }
}

/// Values of a description's key lines.
fn lines(sdp: &str) -> Vec<&str> {
    sdp.lines().filter_map(|line| line.strip_prefix("a=crypto:")).collect()
}

/// A description from 198.51.100.1:4000 with PCMU.
fn sdp(profile: &str, attributes: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 198.51.100.1\r\ns=-\r\nc=IN IP4 198.51.100.1\r\nt=0 0\r\n\
        m=audio 4000 {profile} 0\r\n{attributes}"
    )
}

const KEY_1: &str = "WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";
const KEY_2: &str = "PS1uQCVeeCFCanVmcjkpPywjNWhcYD0mXXtxaVBR";

fn crypto(tag: u32, suite: &str, key: &str) -> String {
    format!("a=crypto:{tag} {suite} inline:{key}\r\n")
}

fn usual(key: &str) -> String {
    crypto(1, "AES_CM_128_HMAC_SHA1_80", key)
}

/// Result of two policies: `-` none, `s` SDES, `z` ZRTP, `!` rejected.
#[test]
fn every_combination_of_policies() {
    let expected = ["ss-s-", "sz-sz", "---!-", "ss!s!", "-z-!z"];
    for (offers, row) in policies().iter().zip(expected) {
        for (answers, expected) in policies().iter().zip(row.chars()) {
            let (mut alice, mut bob) = (phone(1, offers.clone()), phone(2, answers.clone()));
            let offer = alice.offer(BOTH);
            let Ok((answer, theirs)) = bob.answer(&offer, BOTH) else {
                assert_eq!(expected, '!', "{offers:?} {answers:?}");
                continue;
            };
            let outcome = match (alice.accept_answer(&answer).map(|ours| ours.protection), theirs.protection)
            {
                (Ok(Protection::None), Protection::None) => '-',
                (Ok(Protection::Sdes { suite, send, receive }), Protection::Sdes { suite: other, .. }) => {
                    let (_, their_send, their_receive) = keys(bob.agreed().unwrap());
                    assert_eq!((suite, &send, &receive), (other, their_receive, their_send));
                    assert_ne!(send.key, receive.key);
                    's'
                }
                // One side may have no hash from the other.
                (Ok(Protection::Zrtp { .. }), Protection::Zrtp { .. }) => 'z',
                (Ok(Protection::Zrtp { peer_hello_hash: None }), Protection::None) => '-',
                (Ok(Protection::None), Protection::Zrtp { peer_hello_hash: None }) => '-',
                other => panic!("{offers:?} {answers:?}: {other:?}"),
            };
            assert_eq!(outcome, expected, "{offers:?} {answers:?}");
        }
    }
}

#[test]
fn each_offered_suite_has_its_own_key_and_tag() {
    let mut alice = phone(1, opportunistic());
    let offer = text(alice.offer(BOTH));
    assert!(offer.contains("RTP/AVP"), "RFC 8643: protected if the peer supports it");
    let lines = lines(&offer);
    assert_eq!(lines.len(), CryptoSuite::ALL.len());
    for (index, (line, suite)) in lines.iter().zip(CryptoSuite::ALL).enumerate() {
        assert!(line.starts_with(&format!("{} {} inline:", index + 1, suite.name())), "{line}");
        assert!(
            lines.iter().skip(index + 1).all(|other| other.rsplit(':').next() != line.rsplit(':').next())
        );
    }
    assert!(text(phone(1, sdes()).offer(BOTH)).contains("RTP/SAVP 0"));
    let zrtp = text(phone(1, zrtp()).offer(BOTH));
    assert!(zrtp.contains(&format!("a=zrtp-hash:1.10 {}\r\n", "ab".repeat(32))), "{zrtp}");
}

/// RFC 4568 §7.1.5: F8 is not supported; of the other lines the first is accepted, with its tag.
#[test]
fn the_rfcs_example_is_answered() {
    let offer = "v=0\r\no=sam 2890844526 2890842807 IN IP4 10.47.16.5\r\ns=SRTP Discussion\r\n\
        i=A discussion of Secure RTP\r\nu=http://www.example.com/seminars/srtp.pdf\r\n\
        e=marge@example.com (Marge Simpson)\r\nc=IN IP4 168.2.17.12\r\nt=2873397496 2873404696\r\n\
        m=audio 49170 RTP/SAVP 0\r\n\
        a=crypto:1 F8_128_HMAC_SHA1_80 inline:MTIzNDU2Nzg5QUJDREUwMTIzNDU2Nzg5QUJjZGVm|2^20|1:4;\
        inline:QUJjZGVmMTIzNDU2Nzg5QUJDREUwMTIzNDU2Nzg5|2^20|2:4 FEC_ORDER=FEC_SRTP\r\n\
        a=crypto:2 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz|2^20|1:4\r\n";
    let mut bob = phone(2, sdes());
    let (answer, params) = bob.answer(offer.as_bytes(), BOTH).unwrap();
    let answer = text(answer);
    let (suite, send, receive) = keys(&params);
    assert_eq!(suite, CryptoSuite::AesCm128HmacSha1_80);
    assert_eq!(receive.key, b"YS___semctl () {");
    assert_ne!(send.key, receive.key);
    let [line] = lines(&answer)[..] else { panic!("{answer}") };
    assert!(line.starts_with("2 AES_CM_128_HMAC_SHA1_80 inline:"), "{line}");
}

#[test]
fn the_offerers_order_of_suites_is_used() {
    let offer = [
        sdp("RTP/SAVP", ""),
        crypto(7, "AES_CM_128_HMAC_SHA1_32", KEY_1),
        crypto(3, "AES_CM_128_HMAC_SHA1_80", KEY_2),
    ];
    let (answer, params) = phone(2, sdes()).answer(offer.concat().as_bytes(), BOTH).unwrap();
    assert_eq!(keys(&params).0, CryptoSuite::AesCm128HmacSha1_32);
    assert!(text(answer).contains("a=crypto:7 AES_CM_128_HMAC_SHA1_32 "));
}

/// A base64 key of the suite's length.
fn key_of(suite: CryptoSuite, byte: u8) -> String {
    use base64ct::{Base64, Encoding};
    let mut room = [0; 64];
    Base64::encode(&vec![byte; suite.key_bytes() + suite.salt_bytes()], &mut room).unwrap().to_owned()
}

#[test]
fn a_suite_is_answered_and_offered_again_as_the_peer_spells_it() {
    for (name, suite) in [
        ("AES_CM_256_HMAC_SHA1_80", CryptoSuite::AesCm256HmacSha1_80),
        ("AES_256_CM_HMAC_SHA1_80", CryptoSuite::AesCm256HmacSha1_80),
        ("AES_CM_192_HMAC_SHA1_32", CryptoSuite::AesCm192HmacSha1_32),
        ("aes_cm_128_hmac_sha1_80", CryptoSuite::AesCm128HmacSha1_80),
    ] {
        let offer = sdp("RTP/SAVP", &crypto(3, name, &key_of(suite, 1)));
        let mut bob = phone(2, opportunistic());
        let (answer, params) = bob.answer(offer.as_bytes(), BOTH).unwrap();
        let start = format!("3 {name} inline:");
        let answer = text(answer);
        assert!(matches!(lines(&answer).as_slice(), [line] if line.starts_with(&start)), "{answer}");
        assert_eq!(keys(&params).0, suite);
        // Our hold must be readable for the same phone.
        let hold = text(bob.offer(Direction::SendOnly));
        assert!(
            lines(&hold).first().is_some_and(|line| line.starts_with(&format!("1 {name} inline:"))),
            "{hold}"
        );
        assert!(phone(1, opportunistic()).answer(hold.as_bytes(), BOTH).is_ok());
    }
}

#[test]
fn profiles_with_feedback_are_answered_as_they_were_offered() {
    for (profile, key, policy) in [
        ("RTP/SAVPF", true, opportunistic()),
        ("RTP/SAVPF", true, sdes()),
        ("RTP/AVPF", true, opportunistic()),
        ("RTP/AVPF", true, sdes()),
        ("RTP/AVPF", false, opportunistic()),
        ("RTP/AVPF", false, SecurityPolicy::None),
    ] {
        let feedback = "a=rtcp-fb:* trr-int 5000\r\n";
        let offer = sdp(profile, &format!("{}{feedback}", if key { usual(KEY_1) } else { String::new() }));
        let mut bob = phone(2, policy);
        let (answer, params) = bob.answer(offer.as_bytes(), BOTH).unwrap();
        let answer = text(answer);
        assert!(answer.contains(&format!("m=audio 7078 {profile} 0\r\n")), "{answer}");
        assert!(!answer.contains("rtcp-fb"), "no feedback is announced: {answer}");
        assert_eq!(matches!(params.protection, Protection::Sdes { .. }), key);
        assert!(text(bob.offer(BOTH)).contains(&format!(" {profile} 0")));
    }
    let bare = sdp("RTP/SAVPF", "");
    assert_eq!(phone(2, opportunistic()).answer(bare.as_bytes(), BOTH).unwrap_err(), Refused::Unprotected);
}

#[test]
fn a_rejected_offer_is_repeated_as_savp_and_then_requires_srtp() {
    let policy = SecurityPolicy::Opportunistic {
        suites: vec![CryptoSuite::AesCm128HmacSha1_80],
        hello_hash: Some([1; 32]),
        fingerprint: None,
    };
    let mut alice = phone(1, policy.clone());
    let first = text(alice.offer(BOTH));
    assert!(first.contains(" RTP/AVP 0") && first.contains("a=zrtp-hash"), "{first}");
    let second = text(alice.offer_as_savp(BOTH).unwrap());
    assert!(second.contains(" RTP/SAVP 0") && !second.contains("a=zrtp-hash"), "{second}");
    assert!(second.contains("o=- 1001 2 "), "{second}");
    assert_eq!(lines(&second), lines(&first));
    let bare = sdp("RTP/SAVP", "");
    assert_eq!(alice.accept_answer(bare.as_bytes()).unwrap_err(), Refused::Unprotected);
    assert!(alice.offer_as_savp(BOTH).is_none(), "once");

    let mut alice = phone(1, policy);
    alice.offer(BOTH);
    let second = alice.offer_as_savp(BOTH).unwrap();
    let (answer, _) = phone(2, sdes()).answer(&second, BOTH).unwrap();
    assert!(matches!(alice.accept_answer(&answer).unwrap().protection, Protection::Sdes { .. }));
    assert!(text(alice.offer(BOTH)).contains(" RTP/SAVP 0"));
    assert!(alice.offer_as_savp(BOTH).is_none(), "an agreement exists");

    let without_suites =
        SecurityPolicy::Opportunistic { suites: vec![], hello_hash: Some([1; 32]), fingerprint: None };
    for policy in [SecurityPolicy::None, sdes(), zrtp(), without_suites] {
        let mut alice = phone(1, policy);
        alice.offer(BOTH);
        assert!(alice.offer_as_savp(BOTH).is_none());
    }
}

#[test]
fn keys_are_kept_through_hold_and_resume_and_offers_of_both_sides() {
    for policy in [opportunistic(), sdes()] {
        let (mut alice, mut bob) = (phone(1, policy.clone()), phone(2, policy));
        let (first, _) = exchange(&mut alice, BOTH, &mut bob, BOTH);
        let (held, _) = exchange(&mut alice, Direction::SendOnly, &mut bob, BOTH);
        assert_eq!(held.protection, first.protection);
        let (_, by_bob) = exchange(&mut bob, Direction::SendOnly, &mut alice, BOTH);
        assert_eq!(by_bob.protection, first.protection);
        alice.offer(Direction::Inactive);
        alice.abandon_offer();
        let (resumed, _) = exchange(&mut alice, BOTH, &mut bob, BOTH);
        assert_eq!(resumed.protection, first.protection);
    }
}

#[test]
fn the_suite_in_use_is_offered_first() {
    let mut bob = phone(2, opportunistic());
    let offer = [sdp("RTP/SAVP", ""), usual(KEY_1)].concat();
    let (answer, params) = bob.answer(offer.as_bytes(), BOTH).unwrap();
    let offered = text(bob.offer(BOTH));
    assert!(offered.contains("RTP/SAVP"), "the call now requires SRTP");
    assert_eq!(lines(&offered)[0], lines(&text(answer))[0], "and the key is the same");
    assert_eq!(keys(&params).0, CryptoSuite::AesCm128HmacSha1_80);
}

#[test]
fn we_change_our_key_when_the_peer_changes_its_own() {
    let mut bob = phone(2, sdes());
    let mut answered = |key| {
        let (_, params) = bob.answer([sdp("RTP/SAVP", ""), usual(key)].concat().as_bytes(), BOTH).unwrap();
        keys(&params).1.key.clone()
    };
    let first = answered(KEY_1);
    assert_eq!(answered(KEY_1), first);
    let second = answered(KEY_2);
    assert_ne!(second, first);
    let third = answered(KEY_1);
    assert!(third != first && third != second, "an old key is never used again");
}

#[test]
fn an_old_key_is_never_used_again() {
    let mut alice = phone(1, sdes());
    let mut agreed = |suite: &str| {
        let offer = text(alice.offer(BOTH));
        // The suite in use comes first, so its tag changes.
        let tag = lines(&offer).iter().position(|line| line.contains(suite)).unwrap() as u32 + 1;
        let key = if suite.ends_with("80") { KEY_1 } else { KEY_2 };
        let answer = [sdp("RTP/SAVP", ""), crypto(tag, suite, key)].concat();
        keys(&alice.accept_answer(answer.as_bytes()).unwrap()).1.key.clone()
    };
    let first = agreed("AES_CM_128_HMAC_SHA1_80");
    let second = agreed("AES_CM_128_HMAC_SHA1_32");
    let third = agreed("AES_CM_128_HMAC_SHA1_80");
    assert!(first != second && second != third && first != third);
}

#[test]
fn new_keys_come_on_demand() {
    let (mut alice, mut bob) = (phone(1, sdes()), phone(2, sdes()));
    let (first, _) = exchange(&mut alice, BOTH, &mut bob, BOTH);
    alice.renew_keys();
    let (second, theirs) = exchange(&mut alice, BOTH, &mut bob, BOTH);
    assert_ne!(keys(&first).1.key, keys(&second).1.key);
    assert_eq!(keys(&second).1, keys(&theirs).2);
}

#[test]
fn protection_is_never_removed_silently() {
    for policy in [opportunistic(), sdes()] {
        let plain = [sdp("RTP/AVP", ""), sdp("RTP/AVP", "a=zrtp-hash:1.10 00\r\n")];
        let mut bob = phone(2, policy.clone());
        let protected = [sdp("RTP/AVP", ""), usual(KEY_1)].concat();
        let (_, before) = bob.answer(protected.as_bytes(), BOTH).unwrap();
        for offer in plain {
            let refused = bob.answer(offer.as_bytes(), BOTH).unwrap_err();
            assert_eq!((refused, refused.status()), (Refused::Downgrade, 488));
        }
        // An unsupported suite is no protection; a new section must not bypass the old one; and a disabled
        // stream belongs to the same call.
        let unknown = [sdp("RTP/AVP", ""), crypto(1, "F8_128_HMAC_SHA1_80", KEY_1)].concat();
        let beside = sdp("RTP/AVP", "")
            .replace("m=audio 4000 RTP/AVP 0", "m=audio 0 RTP/AVP 0\r\nm=audio 4002 RTP/AVP 0");
        for offer in [&unknown, &beside] {
            assert_eq!(bob.answer(offer.as_bytes(), BOTH).unwrap_err(), Refused::Downgrade);
        }
        assert_eq!(bob.agreed(), Some(&before));
        bob.answer(sdp("RTP/AVP", "").replace("audio 4000", "audio 0").as_bytes(), BOTH).unwrap();
        assert_eq!(bob.answer(sdp("RTP/AVP", "").as_bytes(), BOTH).unwrap_err(), Refused::Downgrade);

        bob.set_downgrade(Downgrade::Allowed);
        let (answer, params) = bob.answer(sdp("RTP/AVP", "").as_bytes(), BOTH).unwrap();
        assert_eq!((params.protection, lines(&text(answer)).len()), (Protection::None, 0));
        // The call continues like that with offers of either side.
        bob.answer(sdp("RTP/AVP", "a=sendonly\r\n").as_bytes(), BOTH).unwrap();
        bob.offer(BOTH);
        bob.accept_answer(sdp("RTP/AVP", "").as_bytes()).unwrap();
        let (_, again) = bob.answer(protected.as_bytes(), BOTH).unwrap();
        assert_ne!(keys(&again).1, keys(&before).1, "the old key is not used again");
    }
}

#[test]
fn an_answer_cannot_remove_protection_either() {
    let (mut alice, mut bob) = (phone(1, opportunistic()), phone(2, opportunistic()));
    let (before, _) = exchange(&mut alice, BOTH, &mut bob, BOTH);
    alice.offer(Direction::SendOnly);
    assert_eq!(alice.accept_answer(sdp("RTP/AVP", "").as_bytes()), Err(Refused::Downgrade));
    assert_eq!(alice.agreed(), Some(&before));
    alice.set_downgrade(Downgrade::Allowed);
    alice.offer(Direction::SendOnly);
    assert_eq!(alice.accept_answer(sdp("RTP/AVP", "").as_bytes()).unwrap().protection, Protection::None);
}

#[test]
fn a_call_keeps_its_key_management() {
    let both = SecurityPolicy::Opportunistic {
        suites: CryptoSuite::ALL.to_vec(),
        hello_hash: Some([1; 32]),
        fingerprint: None,
    };
    let hash = format!("a=zrtp-hash:1.10 {}\r\n", "0f".repeat(32));
    let mut bob = phone(2, both.clone());
    bob.answer(sdp("RTP/AVP", &hash).as_bytes(), BOTH).unwrap();
    assert_eq!(bob.answer(sdp("RTP/AVP", "").as_bytes(), BOTH).unwrap_err(), Refused::Downgrade);
    assert_eq!(bob.answer(sdp("RTP/AVP", &usual(KEY_1)).as_bytes(), BOTH).unwrap_err(), Refused::OtherKeys);
    let (_, params) =
        bob.answer(sdp("RTP/AVP", &[usual(KEY_1), hash.clone()].concat()).as_bytes(), BOTH).unwrap();
    assert_eq!(params.protection, Protection::Zrtp { peer_hello_hash: Some([0x0f; 32]) });
    let mut bob = phone(2, both);
    bob.answer(sdp("RTP/AVP", &usual(KEY_1)).as_bytes(), BOTH).unwrap();
    assert_eq!(bob.answer(sdp("RTP/AVP", &hash).as_bytes(), BOTH).unwrap_err(), Refused::OtherKeys);
    // A policy of ZRTP gets it with or without a hash.
    let mut bob = phone(2, zrtp());
    bob.answer(sdp("RTP/AVP", &hash).as_bytes(), BOTH).unwrap();
    let (_, params) = bob.answer(sdp("RTP/AVP", "").as_bytes(), BOTH).unwrap();
    assert_eq!(params.protection, Protection::Zrtp { peer_hello_hash: None });
}

#[test]
fn of_both_key_managements_the_answerer_takes_zrtp_and_the_offerer_what_was_answered() {
    let both = SecurityPolicy::Opportunistic {
        suites: CryptoSuite::ALL.to_vec(),
        hello_hash: Some([1; 32]),
        fingerprint: None,
    };
    let (mut alice, mut bob) = (phone(1, both.clone()), phone(2, both.clone()));
    let (answer, _) = bob.answer(&alice.offer(BOTH), BOTH).unwrap();
    let shown = text(answer.clone());
    assert!(shown.contains("a=zrtp-hash") && !shown.contains("a=crypto"), "{shown}");
    assert!(matches!(alice.accept_answer(&answer).unwrap().protection, Protection::Zrtp { .. }));
    // An answer with both, of a phone that uses the key.
    let mut alice = phone(1, both);
    alice.offer(BOTH);
    let hash = format!("a=zrtp-hash:1.10 {}\r\n", "0f".repeat(32));
    let answer = sdp("RTP/AVP", &[usual(KEY_1).replace("crypto:1", "crypto:2"), hash].concat());
    let answered =
        alice.accept_answer(answer.replace("AES_CM_128_HMAC_SHA1_80", CryptoSuite::ALL[1].name()).as_bytes());
    assert!(!matches!(
        answered.map(|params| params.protection),
        Ok(Protection::Zrtp { .. } | Protection::None)
    ));
}

#[test]
fn a_protected_section_is_preferred() {
    let offer = [sdp("RTP/AVP", ""), "m=audio 4002 RTP/SAVP 0\r\n".into(), usual(KEY_1)].concat();
    let (answer, params) = phone(2, opportunistic()).answer(offer.as_bytes(), BOTH).unwrap();
    assert_eq!(params.remote.port(), 4002);
    assert!(text(answer).contains("m=audio 0 RTP/AVP 0\r\nm=audio 7078 RTP/SAVP 0\r\n"));
    let (_, params) = phone(2, SecurityPolicy::None).answer(offer.as_bytes(), BOTH).unwrap();
    assert_eq!((params.remote.port(), params.protection), (4000, Protection::None));
}

#[test]
fn invalid_keys_are_not_accepted() {
    let bad = [
        crypto(1, "AES_CM_128_HMAC_SHA1_80", "c2hvcnQ="),
        crypto(1, "AES_CM_128_HMAC_SHA1_80", "!"),
        crypto(1, "F8_128_HMAC_SHA1_80", KEY_1),
        "a=crypto:\r\n".into(),
        "a=crypto\r\n".into(),
        "a=crypto:1\r\n".into(),
        "a=crypto:x AES_CM_128_HMAC_SHA1_80 inline:".to_owned() + KEY_1 + "\r\n",
        usual(KEY_1).replace("\r\n", " UNENCRYPTED_SRTP\r\n"),
        usual(KEY_1).replace("\r\n", " NEW_AND_MANDATORY=1\r\n"),
        usual(KEY_1).replace("inline", "url"),
    ];
    for line in bad {
        let savp = sdp("RTP/SAVP", &line);
        assert_eq!(
            phone(2, opportunistic()).answer(savp.as_bytes(), BOTH).unwrap_err(),
            Refused::Crypto,
            "{line}"
        );
        let (_, params) = phone(2, opportunistic()).answer(sdp("RTP/AVP", &line).as_bytes(), BOTH).unwrap();
        assert_eq!(params.protection, Protection::None, "RFC 8643: an unusable line is ignored");
    }
    let several = usual(&format!("{KEY_1}|1:4;inline:{KEY_2}|2:4"));
    assert_eq!(
        phone(2, sdes()).answer(sdp("RTP/SAVP", &several).as_bytes(), BOTH).unwrap_err(),
        Refused::Crypto,
        "several keys are not supported"
    );
    // A key at session level is not allowed (RFC 4568 §4).
    let session = sdp("RTP/SAVP", "").replace("t=0 0\r\n", &["t=0 0\r\n", &usual(KEY_1)].concat());
    assert_eq!(phone(2, sdes()).answer(session.as_bytes(), BOTH).unwrap_err(), Refused::Unprotected);
}

#[test]
fn answers_with_wrong_keys_are_rejected() {
    use Mismatch::{Crypto, KeyReused};
    let mut alice = phone(1, sdes());
    let offer = text(alice.offer(BOTH));
    let own = lines(&offer)[1].rsplit(':').next().unwrap().to_owned();
    let table = [
        (String::new(), Refused::Unprotected),
        ("a=fingerprint:SHA-256 00\r\n".into(), Refused::Unprotected),
        (crypto(2, "AES_CM_128_HMAC_SHA1_80", KEY_1), Refused::Mismatch(Crypto)),
        (crypto(3, "AES_CM_128_HMAC_SHA1_80", KEY_1), Refused::Mismatch(Crypto)),
        (crypto(1, "AES_CM_128_HMAC_SHA1_32", KEY_1), Refused::Mismatch(Crypto)),
        (crypto(1, "AES_CM_128_HMAC_SHA1_80", "c2hvcnQ="), Refused::Mismatch(Crypto)),
        ([usual(KEY_1), crypto(2, "AES_CM_128_HMAC_SHA1_32", KEY_2)].concat(), Refused::Mismatch(Crypto)),
        (usual(&format!("{KEY_1}|1:4;inline:{KEY_2}|2:4")), Refused::Mismatch(Crypto)),
        (usual(&own), Refused::Mismatch(KeyReused)),
    ];
    for (line, reason) in table {
        alice.offer(BOTH);
        assert_eq!(alice.accept_answer(sdp("RTP/SAVP", &line).as_bytes()), Err(reason), "{line}");
    }
    alice.offer(BOTH);
    assert!(alice.accept_answer(sdp("RTP/SAVP", &usual(KEY_1)).as_bytes()).is_ok());
}

#[test]
fn a_key_in_an_answer_to_no_key_is_ignored() {
    for policy in [SecurityPolicy::None, zrtp()] {
        let mut alice = phone(1, policy.clone());
        alice.offer(BOTH);
        let params = alice.accept_answer(sdp("RTP/AVP", &usual(KEY_1)).as_bytes()).unwrap();
        assert!(!matches!(params.protection, Protection::Sdes { .. }), "{policy:?}");
    }
}

#[test]
fn our_own_key_in_an_offer_is_rejected() {
    let mut bob = phone(2, sdes());
    let (answer, _) = bob.answer(sdp("RTP/SAVP", &usual(KEY_1)).as_bytes(), BOTH).unwrap();
    let answer = text(answer);
    let own = format!("a=crypto:{}\r\n", lines(&answer)[0]);
    let refused = bob.answer(sdp("RTP/SAVP", &own).as_bytes(), BOTH).unwrap_err();
    assert_eq!(refused, Refused::Mismatch(Mismatch::KeyReused));
}

#[test]
fn forks_share_keys_and_renew_them_separately() {
    let mut alice = phone(1, sdes());
    let offer = alice.offer(BOTH);
    let mut second = alice.fork();
    let (to_bob, _) = phone(2, sdes()).answer(&offer, BOTH).unwrap();
    let (to_carol, _) = phone(3, sdes()).answer(&offer, BOTH).unwrap();
    let (bob, carol) = (alice.accept_answer(&to_bob).unwrap(), second.accept_answer(&to_carol).unwrap());
    assert_eq!(keys(&bob).1, keys(&carol).1);
    assert_ne!(keys(&bob).2, keys(&carol).2);
    alice.renew_keys();
    second.renew_keys();
    assert_ne!(lines(&text(alice.offer(BOTH))), lines(&text(second.offer(BOTH))));
}

#[test]
fn debug_output_contains_no_key() {
    let (mut alice, mut bob) = (phone(1, sdes()), phone(2, sdes()));
    exchange(&mut alice, BOTH, &mut bob, BOTH);
    let shown = format!("{alice:?}");
    assert!(shown.contains("Sdes(AES_CM_128_HMAC_SHA1_80)") && !shown.contains("key: ["), "{shown}");
}
