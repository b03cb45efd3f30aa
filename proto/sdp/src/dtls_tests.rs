//! Tested: offers and answers of DTLS-SRTP (RFC 5763, RFC 4145, RFC 8122): roles, fingerprints, later offers, answers
//! without a fingerprint. Not tested here: complete offers of phones (`phones_tests`), and the handshake.

use crate::offer_answer::tests::{exchange, opportunistic, phone, sdes, text, zrtp};
use crate::{
    Direction, DtlsRole, Fingerprint, FingerprintHash, KeyManagement, Mismatch, Protection, Refused,
    SecurityPolicy,
};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub(crate) fn own_fingerprint() -> Fingerprint {
    fingerprint(0)
}

fn fingerprint(first: u8) -> Fingerprint {
    let digest: Vec<u8> = (first..first + 32).collect();
    Fingerprint::new(FingerprintHash::Sha256, &digest).unwrap()
}

fn dtls(first: u8) -> SecurityPolicy {
    SecurityPolicy::Dtls { fingerprint: fingerprint(first) }
}

/// Any protection, with a certificate.
fn best(first: u8) -> SecurityPolicy {
    let SecurityPolicy::Opportunistic { suites, .. } = opportunistic() else { panic!() };
    SecurityPolicy::Opportunistic { suites, hello_hash: Some([1; 32]), fingerprint: Some(fingerprint(first)) }
}

const BOTH: Direction = Direction::SendRecv;

/// A description from 198.51.100.1:4000 with these lines of the session and of the section.
fn sdp(profile: &str, session: &str, section: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 198.51.100.1\r\ns=-\r\nc=IN IP4 198.51.100.1\r\nt=0 0\r\n{session}\
        m=audio 4000 {profile} 0\r\n{section}"
    )
}

fn print(name: &str, first: u8, bytes: u8) -> String {
    let octets: Vec<String> = (first..first + bytes).map(|octet| format!("{octet:02x}")).collect();
    format!("a=fingerprint:{name} {}\r\n", octets.join(":"))
}

const DTLS: &str = "UDP/TLS/RTP/SAVP";

fn answered(offer: &str, policy: SecurityPolicy) -> Result<(String, Protection), Refused> {
    let (answer, params) = phone(1, policy).answer(offer.as_bytes(), BOTH)?;
    Ok((text(answer), params.protection))
}

#[test]
fn the_offerer_is_passive_and_each_side_has_the_fingerprint_of_the_other() {
    let (mut alice, mut bob) = (phone(1, dtls(10)), phone(2, best(20)));
    let offer = alice.offer(BOTH);
    let written = text(offer.clone());
    assert!(written.contains(&format!("m=audio 7078 {DTLS} ")), "{written}");
    assert!(written.contains(&format!("a=fingerprint:{}\r\na=setup:actpass\r\n", fingerprint(10))));
    assert!(written.contains("a=rtcp-mux\r\n"), "one association for RTP and RTCP: {written}");
    assert!(!written.contains("a=crypto") && !written.contains("a=zrtp-hash"), "{written}");
    let (answer, theirs) = bob.answer(&offer, BOTH).unwrap();
    let ours = alice.accept_answer(&answer).unwrap();
    assert!(ours.rtcp_mux && theirs.rtcp_mux);
    let of = |role, first| Protection::Dtls { role, fingerprints: [fingerprint(first)].into() };
    assert_eq!((ours.protection, theirs.protection), (of(DtlsRole::Passive, 20), of(DtlsRole::Active, 10)));
}

#[test]
fn the_answer_follows_the_role_in_the_offer() {
    let mine = print("sha-256", 1, 32);
    let roles = [
        ("a=setup:actpass\r\n", Ok(DtlsRole::Active)),
        ("a=setup:active\r\n", Ok(DtlsRole::Passive)),
        ("a=setup:PASSIVE\r\n", Ok(DtlsRole::Active)),
        ("", Ok(DtlsRole::Passive)),
        ("a=setup:holdconn\r\n", Err(Refused::Setup)),
        ("a=setup:sideways\r\n", Err(Refused::Setup)),
    ];
    for (setup, expected) in roles {
        for (session, section) in
            [(format!("{mine}{setup}"), String::new()), (String::new(), format!("{mine}{setup}"))]
        {
            let outcome = answered(&sdp(DTLS, &session, &section), dtls(0));
            match (outcome, expected) {
                (Ok((answer, Protection::Dtls { role, .. })), Ok(expected)) => {
                    assert_eq!(role, expected, "{setup}");
                    assert!(answer.contains(&format!("a=setup:{}\r\n", role.name())), "{answer}");
                }
                (Err(refused), Err(expected)) => assert_eq!(refused, expected),
                other => panic!("{setup}: {other:?}"),
            }
        }
    }
    // A section's own attribute comes before that of the session.
    let offer = sdp(DTLS, "a=setup:active\r\n", &format!("{mine}a=setup:passive\r\n"));
    assert!(answered(&offer, dtls(0)).unwrap().0.contains("a=setup:active\r\n"));
}

#[test]
fn only_fingerprints_of_strong_hash_functions_are_used() {
    let setup = "a=setup:actpass\r\n";
    let of = |prints: &[String]| {
        let offer = sdp(DTLS, "", &format!("{}{setup}", prints.concat()));
        answered(&offer, best(0)).map(|(_, protection)| match protection {
            Protection::Dtls { fingerprints, .. } => {
                fingerprints.iter().map(|print| (print.hash().name(), print.digest()[0])).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        })
    };
    let (sha1, md5) = (print("sha-1", 1, 20), print("md5", 1, 16));
    let (sha256, sha512) = (print("SHA-256", 3, 32), print("sha-512", 5, 64));
    assert_eq!(of(core::slice::from_ref(&sha256)), Ok([("sha-256", 3)].to_vec()));
    assert_eq!(of(&[sha1.clone(), sha256.clone()]), Ok([("sha-256", 3)].to_vec()));
    assert_eq!(of(&[sha256.clone(), sha512.clone()]), Ok([("sha-512", 5)].to_vec()), "RFC 8122 §5");
    assert_eq!(of(&[print("sha-384", 7, 48)]), Ok([("sha-384", 7)].to_vec()));
    for unusable in [
        [sha1].to_vec(),
        [md5].to_vec(),
        [].to_vec(),
        [print("sha-256", 1, 31)].to_vec(),
        ["a=fingerprint:sha-256\r\n".into()].to_vec(),
        ["a=fingerprint:sha-256 0:1:2\r\n".into()].to_vec(),
        [sha256.replace("03:", "3:")].to_vec(),
        [sha256.replace("03:", "0g:")].to_vec(),
    ] {
        assert_eq!(of(&unusable), Err(Refused::Fingerprint), "{unusable:?}");
    }
    let many: Vec<String> = (0..9).map(|first| print("sha-256", first, 32)).collect();
    assert_eq!(of(&many).map(|prints| prints.len()), Ok(4));
}

#[test]
fn a_fingerprint_counts_only_where_srtp_is_required() {
    let section = format!("{}a=setup:actpass\r\n", print("sha-256", 1, 32));
    let key = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";
    let management = |profile: &str, section: &str| {
        answered(&sdp(profile, "", section), best(0)).map(|(_, protection)| protection.key_management())
    };
    assert_eq!(management("RTP/SAVP", &section), Ok(Some(KeyManagement::Dtls)));
    assert_eq!(management("RTP/SAVPF", &format!("{key}{section}")), Ok(Some(KeyManagement::Dtls)));
    assert_eq!(management("RTP/AVP", &section), Ok(None));
    assert_eq!(management("RTP/AVP", &format!("{key}{section}")), Ok(Some(KeyManagement::Sdes)));
    assert_eq!(management(DTLS, key), Err(Refused::Fingerprint), "the keys of SDES need RTP/SAVP");
    let savp = sdp("RTP/SAVP", "", &format!("{key}{section}"));
    assert_eq!(answered(&savp, sdes()).unwrap().1.key_management(), Some(KeyManagement::Sdes));
    for profile in ["RTP/SAVP", "RTP/SAVPF", "RTP/AVP"] {
        assert_eq!(answered(&sdp(profile, "", key), dtls(0)).unwrap_err(), Refused::Sdes);
    }
    assert_eq!(answered(&sdp("RTP/SAVP", "", ""), dtls(0)).unwrap_err(), Refused::Fingerprint);
    assert_eq!(answered(&sdp(DTLS, "", &section), zrtp()).unwrap_err(), Refused::Dtls);
}

/// SHA-1 is not accepted, and the reason says which hash functions are.
#[test]
fn a_fingerprint_that_is_not_accepted_is_the_reason_with_every_protocol() {
    let section = format!("{}a=setup:actpass\r\n", print("sha-1", 1, 20));
    for policy in [best(0), dtls(0)] {
        for profile in ["RTP/SAVP", "RTP/SAVPF", DTLS, "UDP/TLS/RTP/SAVPF"] {
            let refused = answered(&sdp(profile, "", &section), policy.clone()).unwrap_err();
            assert_eq!(refused, Refused::Fingerprint, "{profile}");
            assert!(refused.to_string().contains("sha-256"));
        }
    }
    let no_role = format!("{}a=setup:holdconn\r\n", print("sha-256", 1, 32));
    assert_eq!(answered(&sdp("RTP/SAVPF", "", &no_role), best(0)).unwrap_err(), Refused::Setup);
}

#[test]
fn an_answer_without_a_fingerprint_or_a_role_is_refused() {
    let print = print("sha-256", 1, 32);
    let accept = |profile: &str, section: &str| {
        let mut alice = phone(1, dtls(0));
        alice.offer(BOTH);
        alice.accept_answer(sdp(profile, "", section).as_bytes()).map(|params| params.protection)
    };
    let role = |section: &str| match accept(DTLS, section) {
        Ok(Protection::Dtls { role, .. }) => Ok(role),
        Ok(other) => panic!("{other:?}"),
        Err(refused) => Err(refused),
    };
    assert_eq!(role(&format!("{print}a=setup:active\r\n")), Ok(DtlsRole::Passive));
    assert_eq!(role(&format!("{print}a=setup:passive\r\n")), Ok(DtlsRole::Active));
    assert_eq!(role(&print), Ok(DtlsRole::Active), "RFC 4145 §4: passive");
    let no_role = Err(Refused::Mismatch(Mismatch::Setup));
    assert_eq!(role(&format!("{print}a=setup:actpass\r\n")), no_role);
    assert_eq!(role(&format!("{print}a=setup:holdconn\r\n")), no_role);
    assert_eq!(role("a=setup:active\r\n"), Err(Refused::Unprotected));
    let key = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";
    assert_eq!(role(key), Err(Refused::Sdes));
    let sha1 = "a=fingerprint:sha-1 00:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f:10:11:12:13\r\n";
    assert_eq!(role(&format!("{sha1}a=setup:active\r\n")), Err(Refused::Fingerprint));
    let plain = accept("RTP/AVP", "");
    assert_eq!(plain, Err(Refused::Mismatch(Mismatch::Profile)), "no fall-back to RTP");
}

#[test]
fn later_offers_keep_dtls_and_the_roles_of_both_sides() {
    for (caller, callee) in [(dtls(10), best(20)), (dtls(10), dtls(20))] {
        let (mut alice, mut bob) = (phone(1, caller), phone(2, callee));
        let (first, theirs) = exchange(&mut alice, BOTH, &mut bob, BOTH);
        let (hold, held) = exchange(&mut bob, Direction::SendOnly, &mut alice, BOTH);
        assert_eq!(hold.protection, theirs.protection, "the answerer keeps its role");
        assert_eq!(held.protection, first.protection);
        assert_eq!(hold.direction, Direction::SendOnly);
        let again = text(bob.offer(BOTH));
        assert!(again.contains("a=setup:actpass") && !again.contains("a=crypto"), "{again}");
    }
    let mut bob = phone(2, best(20));
    let offer = sdp(DTLS, "", &format!("{}a=setup:actpass\r\n", print("sha-256", 1, 32)));
    bob.answer(offer.as_bytes(), BOTH).unwrap();
    let bare = sdp("RTP/AVP", "", "");
    assert_eq!(bob.answer(bare.as_bytes(), BOTH).unwrap_err(), Refused::Downgrade);
    let sdes = sdp(
        "RTP/SAVP",
        "",
        "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n",
    );
    assert_eq!(bob.answer(sdes.as_bytes(), BOTH).unwrap_err(), Refused::OtherKeys);
}

#[test]
fn a_fingerprint_is_written_as_it_is_parsed() {
    for (hash, bytes) in
        [(FingerprintHash::Sha256, 32), (FingerprintHash::Sha384, 48), (FingerprintHash::Sha512, 64)]
    {
        let digest: Vec<u8> = (0..bytes).map(|at| at * 3).collect();
        let fingerprint = Fingerprint::new(hash, &digest).unwrap();
        let written = fingerprint.to_string();
        assert!(written.starts_with(&format!("{} 00:03:06:", hash.name())), "{written}");
        assert_eq!(Fingerprint::parse(written.as_bytes()), Some(fingerprint));
        assert_eq!(Fingerprint::new(hash, &digest[1..]), None);
    }
}
