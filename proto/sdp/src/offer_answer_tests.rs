//! Tested: RFC 3264 with its examples (§10): formats, direction, hold, sections, versions, rejected offers,
//! RTCP. Not tested here: protection (`protect_tests`), and complete offers of phones (`phones_tests`).

use super::*;
use crate::{Mismatch, Refused};
use alloc::string::String;
use alloc::vec;

pub(crate) fn phone(number: u8, policy: SecurityPolicy) -> OfferAnswer {
    let local = LocalMedia {
        rtp: SocketAddr::from(([192, 0, 2, number], 7078)),
        rtcp_port: 7079,
        codecs: vec![Codec::Pcmu, Codec::Pcma],
        ptime_ms: 20,
        telephone_event: true,
        policy,
        rtcp_mux: false,
    };
    let seed = Seed::from_number(u64::from(number));
    OfferAnswer::new(local, "-", 1000 + u64::from(number), Entropy::new(&seed))
}

pub(crate) fn opportunistic() -> SecurityPolicy {
    SecurityPolicy::Opportunistic { suites: CryptoSuite::ALL.to_vec(), hello_hash: None, fingerprint: None }
}

pub(crate) fn sdes() -> SecurityPolicy {
    SecurityPolicy::Sdes { suites: vec![CryptoSuite::AesCm128HmacSha1_80, CryptoSuite::AesCm128HmacSha1_32] }
}

pub(crate) fn zrtp() -> SecurityPolicy {
    SecurityPolicy::Zrtp { hello_hash: [0xab; 32] }
}

fn plain(number: u8) -> OfferAnswer {
    phone(number, SecurityPolicy::None)
}

/// Performs one exchange; returns the parameters of both sides.
pub(crate) fn exchange(
    offerer: &mut OfferAnswer,
    offers: Direction,
    answerer: &mut OfferAnswer,
    wants: Direction,
) -> (MediaParams, MediaParams) {
    let offer = offerer.offer(offers);
    let (answer, theirs) = answerer.answer(&offer, wants).unwrap();
    (offerer.accept_answer(&answer).unwrap(), theirs)
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

fn answered(phone: &mut OfferAnswer, offer: &str) -> Result<(String, MediaParams), Refused> {
    phone.answer(offer.as_bytes(), Direction::SendRecv).map(|(answer, params)| (text(answer), params))
}

const BOTH: Direction = Direction::SendRecv;

/// An offer of one audio section from 198.51.100.1:4000.
fn offer(formats: &str, attributes: &str) -> String {
    alloc::format!(
        "v=0\r\no=- 1 1 IN IP4 198.51.100.1\r\ns=-\r\nc=IN IP4 198.51.100.1\r\nt=0 0\r\n\
        m=audio 4000 RTP/AVP {formats}\r\n{attributes}"
    )
}

#[test]
fn an_offer_is_complete_and_an_answer_matches_it() {
    let (mut alice, mut bob) = (plain(1), plain(2));
    let offer = alice.offer(BOTH);
    assert_eq!(
        text(offer.clone()),
        "v=0\r\no=- 1001 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
        m=audio 7078 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
        a=rtpmap:101 telephone-event/8000\r\na=fmtp:101 0-16\r\na=ptime:20\r\na=sendrecv\r\n"
    );
    let (answer, theirs) = bob.answer(&offer, BOTH).unwrap();
    let ours = alice.accept_answer(&answer).unwrap();
    assert_eq!((ours.codec, ours.payload_type, ours.telephone_event), (Codec::Pcmu, 0, Some(101)));
    assert_eq!(ours.receive, [(0, Codec::Pcmu), (8, Codec::Pcma)]);
    assert_eq!((ours.direction, ours.ptime_ms, &ours.protection), (BOTH, 20, &Protection::None));
    assert_eq!(ours.remote, "192.0.2.2:7078".parse().unwrap());
    assert_eq!(ours.remote_rtcp, "192.0.2.2:7079".parse().unwrap());
    assert_eq!(MediaParams { remote: ours.remote, remote_rtcp: ours.remote_rtcp, ..theirs }, ours);
}

/// RFC 3264 §10.1, with addresses instead of host names.
#[test]
fn sections_that_are_not_ours_are_disabled_in_order() {
    let first = "v=0\no=alice 2890844526 2890844526 IN IP4 198.51.100.1\ns=\nc=IN IP4 198.51.100.1\n\
        t=2873397496 2873404696\nm=audio 49170 RTP/AVP 0\na=rtpmap:0 PCMU/8000\nm=video 51372 RTP/AVP 31\n\
        a=rtpmap:31 H261/90000\nm=video 53000 RTP/AVP 32\na=rtpmap:32 MPV/90000\n";
    let mut bob = plain(2);
    let (answer, params) = answered(&mut bob, first).unwrap();
    let (session, sections) = answer.split_once("m=").unwrap();
    assert!(session.contains("t=2873397496 2873404696\r\n"), "the time is the offer's");
    assert!(sections.contains("a=sendrecv\r\nm=video 0 RTP/AVP 31\r\nm=video 0 RTP/AVP 32\r\n"), "{answer}");
    assert!(!answer.contains("telephone-event"), "not offered");
    assert_eq!((params.remote.port(), params.telephone_event), (49170, None));

    let second = first.replace("audio 49170", "audio 65422").replace("2890844526 IN", "2890844527 IN");
    let second =
        [&second, "m=audio 51434 RTP/AVP 110\na=rtpmap:110 telephone-events/8000\na=recvonly\n"].concat();
    let (answer, params) = answered(&mut bob, &second).unwrap();
    assert!(answer.ends_with("m=video 0 RTP/AVP 32\r\nm=audio 0 RTP/AVP 110\r\n"), "{answer}");
    assert_eq!(params.remote.port(), 65422);

    let ours = text(bob.offer(BOTH));
    let kinds: Vec<_> = ours.lines().filter(|line| line.starts_with("m=")).collect();
    let disabled = ["m=video 0 RTP/AVP 31", "m=video 0 RTP/AVP 32", "m=audio 0 RTP/AVP 110"];
    assert_eq!(kinds[0], "m=audio 7078 RTP/AVP 0 8 101");
    assert_eq!(kinds[1..], disabled, "sections are never removed");
}

/// RFC 3264 §10.2, with PCMU only.
#[test]
fn an_inactive_stream_is_activated_by_the_next_offer() {
    let mut bob = plain(2);
    let (answer, params) =
        answered(&mut bob, &offer("0 4 18", "a=rtpmap:4 G723/8000\r\na=inactive\r\n")).unwrap();
    assert!(answer.contains("RTP/AVP 0\r\n") && answer.contains("a=inactive\r\n"), "{answer}");
    assert_eq!(params.direction, Direction::Inactive);
    let (_, params) = answered(&mut bob, &offer("0", "a=sendrecv\r\n")).unwrap();
    assert_eq!(params.direction, BOTH);
}

#[test]
fn the_offerers_order_and_payload_types_are_used() {
    let mut bob = plain(2);
    let maps = "a=rtpmap:98 pcma/8000/1\r\na=rtpmap:97 telephone-event/8000\r\na=rtpmap:99 PCMU/16000\r\n";
    let (answer, params) = answered(&mut bob, &offer("99 18 97 98 0 98", maps)).unwrap();
    assert!(answer.contains("m=audio 7078 RTP/AVP 98 0 97\r\na=rtpmap:98 PCMA/8000\r\n"), "{answer}");
    assert_eq!((params.codec, params.payload_type), (Codec::Pcma, 98));
    assert_eq!((params.telephone_event, params.receive_telephone_event), (Some(97), Some(97)));
    // 101 has no meaning in this call, but 97 has one.
    assert!(text(bob.offer(BOTH)).contains("a=rtpmap:97 telephone-event/8000"));
}

#[test]
fn a_payload_type_keeps_its_meaning_for_the_whole_call() {
    let mut bob = plain(2);
    answered(&mut bob, &offer("0 101 96", "a=rtpmap:101 speex/8000\r\na=rtpmap:96 iLBC/8000\r\n")).unwrap();
    assert!(text(bob.offer(BOTH)).contains("RTP/AVP 0 8 97\r\n"), "101 and 96 are taken");
}

#[test]
fn a_static_number_with_another_meaning_is_not_used() {
    let mut bob = plain(2);
    let (answer, _) = answered(&mut bob, &offer("0 8", "a=rtpmap:0 opus/48000/2\r\n")).unwrap();
    assert!(answer.contains("RTP/AVP 8\r\n"), "{answer}");
    for maps in ["a=rtpmap:0 PCMA/8000\r\n", "a=rtpmap:0 PCMU/8000\r\na=rtpmap:0 PCMU/8000/2\r\n"] {
        assert_eq!(answered(&mut bob, &offer("0", maps)).unwrap_err(), Refused::Codec);
    }
}

#[test]
fn we_send_with_the_answers_payload_types_and_receive_with_our_own() {
    let mut alice = plain(1);
    alice.offer(BOTH);
    let maps = "a=rtpmap:97 PCMA/8000\r\na=rtpmap:96 telephone-event/8000\r\n";
    let params = alice.accept_answer(offer("97 96 9", maps).as_bytes()).unwrap();
    assert_eq!((params.codec, params.payload_type, params.telephone_event), (Codec::Pcma, 97, Some(96)));
    assert_eq!((params.receive, params.receive_telephone_event), (vec![(8, Codec::Pcma)], Some(101)));
}

#[test]
fn directions_are_answered_by_their_reverse() {
    use Direction::{Inactive, RecvOnly, SendOnly, SendRecv};
    let table = [
        (SendRecv, SendRecv, SendRecv),
        (SendRecv, SendOnly, SendOnly),
        (SendRecv, Inactive, Inactive),
        (SendOnly, SendRecv, RecvOnly),
        (SendOnly, SendOnly, Inactive),
        (RecvOnly, SendRecv, SendOnly),
        (RecvOnly, RecvOnly, Inactive),
        (Inactive, SendRecv, Inactive),
    ];
    for (offered, wanted, answer) in table {
        let (alice, bob) = exchange(&mut plain(1), offered, &mut plain(2), wanted);
        assert_eq!((alice.direction, bob.direction), (answer.reversed(), answer), "{offered:?} {wanted:?}");
    }
}

#[test]
fn hold_and_resume_both_ways() {
    let (mut alice, mut bob) = (plain(1), plain(2));
    exchange(&mut alice, BOTH, &mut bob, BOTH);
    let (one, two) = exchange(&mut alice, Direction::SendOnly, &mut bob, BOTH);
    assert_eq!((one.direction, two.direction), (Direction::SendOnly, Direction::RecvOnly));
    // Bob holds as well, and Alice resumes: Bob's hold continues.
    let (two, one) = exchange(&mut bob, Direction::Inactive, &mut alice, Direction::SendOnly);
    assert_eq!((one.direction, two.direction), (Direction::Inactive, Direction::Inactive));
    let (one, two) = exchange(&mut alice, BOTH, &mut bob, Direction::SendOnly);
    assert_eq!((one.direction, two.direction), (Direction::RecvOnly, Direction::SendOnly));
    let (two, one) = exchange(&mut bob, BOTH, &mut alice, BOTH);
    assert_eq!((one.direction, two.direction), (BOTH, BOTH));
}

#[test]
fn nothing_is_sent_to_an_unspecified_address() {
    let mut bob = plain(2);
    answered(&mut bob, &offer("0", "")).unwrap();
    let held = offer("0", "").replace("c=IN IP4 198.51.100.1", "c=IN IP4 0.0.0.0");
    let (answer, params) = answered(&mut bob, &held).unwrap();
    assert!(answer.contains("a=recvonly\r\n"));
    assert_eq!(params.direction, Direction::RecvOnly);
    assert!(params.remote.ip().is_unspecified() && params.remote_rtcp.ip().is_unspecified());
    let mut alice = plain(1);
    alice.offer(BOTH);
    assert_eq!(alice.accept_answer(held.as_bytes()).unwrap().direction, Direction::RecvOnly);
}

#[test]
fn the_version_increases_only_with_a_change() {
    let version = |sdp: Vec<u8>| text(sdp).split(' ').nth(2).unwrap().parse::<u64>().unwrap();
    let (mut alice, mut bob) = (plain(1), plain(2));
    assert_eq!(version(alice.offer(BOTH)), 1);
    assert_eq!(version(alice.offer(BOTH)), 1, "repeated");
    let first = alice.offer(BOTH);
    let (answer, _) = bob.answer(&first, BOTH).unwrap();
    alice.accept_answer(&answer).unwrap();
    assert_eq!(version(alice.offer(Direction::SendOnly)), 2);
    alice.abandon_offer();
    assert_eq!(version(alice.offer(BOTH)), 3, "differs from the last one, although that was rejected");
    alice.abandon_offer();
    assert_eq!(version(alice.offer(Direction::SendOnly)), 4);
    alice.retract_offer();
    assert!(!alice.is_offer_pending());
    assert_eq!(version(alice.offer(Direction::RecvOnly)), 4, "the previous one was never sent");
    alice.abandon_offer();
    alice.retract_offer();
    assert_eq!(version(alice.offer(BOTH)), 5, "nothing is left to retract");
    assert_eq!(version(bob.answer(&first, BOTH).unwrap().0), 1, "the same answer again");
    assert_eq!(version(bob.answer(&first, Direction::SendOnly).unwrap().0), 2);
    assert_eq!(version(bob.offer(BOTH)), 3);
}

#[test]
fn a_refused_offer_changes_nothing() {
    let (mut alice, mut bob) = (plain(1), plain(2));
    let (before, _) = exchange(&mut alice, BOTH, &mut bob, BOTH);
    alice.offer(Direction::SendOnly);
    assert!(alice.is_offer_pending());
    alice.abandon_offer();
    assert!(!alice.is_offer_pending());
    assert_eq!(alice.agreed(), Some(&before));
    assert_eq!(alice.accept_answer(b""), Err(Refused::NoOffer));
    assert_eq!(answered(&mut alice, &offer("18", "")).unwrap_err(), Refused::Codec);
    assert_eq!(alice.agreed(), Some(&before));
    alice.offer(BOTH);
    let refused = answered(&mut alice, &offer("0", "")).unwrap_err();
    assert_eq!((refused, refused.status()), (Refused::OfferPending, 491));
}

#[test]
fn a_disabled_stream_is_inactive_and_comes_back() {
    let mut bob = plain(2);
    let disabled = offer("0", "").replace("audio 4000", "audio 0");
    assert_eq!(answered(&mut bob, &disabled).unwrap_err(), Refused::NoAudio, "not in the first offer");
    answered(&mut bob, &offer("0", "")).unwrap();
    let (answer, params) = answered(&mut bob, &disabled).unwrap();
    assert!(answer.ends_with("m=audio 0 RTP/AVP 0\r\n"), "{answer}");
    assert_eq!((params.direction, params.remote.port()), (Direction::Inactive, 0));
    let (_, params) = answered(&mut bob, &offer("0", "")).unwrap();
    assert_eq!((params.direction, params.remote.port()), (BOTH, 4000));

    let mut alice = plain(1);
    alice.offer(BOTH);
    assert_eq!(alice.accept_answer(disabled.as_bytes()), Err(Refused::Rejected));
    alice.offer(BOTH);
    alice.accept_answer(offer("0", "").as_bytes()).unwrap();
    alice.offer(BOTH);
    assert_eq!(alice.accept_answer(disabled.as_bytes()).unwrap().direction, Direction::Inactive);
    assert!(text(alice.offer(BOTH)).contains("m=audio 7078 "), "the section is used again");
}

#[test]
fn of_several_audio_sections_the_first_acceptable_is_used() {
    let mut bob = plain(2);
    let two = [&offer("18", ""), "m=audio 4002 RTP/AVP 8\r\nm=audio 4004 RTP/AVP 0\r\n"].concat();
    let (answer, params) = answered(&mut bob, &two).unwrap();
    assert_eq!(params.remote.port(), 4002);
    assert!(answer.contains("m=audio 0 RTP/AVP 18\r\nm=audio 7078 RTP/AVP 8\r\n"), "{answer}");
    assert!(answer.ends_with("m=audio 0 RTP/AVP 0\r\n"), "{answer}");
    // The section in use stays in use, although an earlier one has become acceptable.
    let (_, params) = answered(&mut bob, &two.replace("RTP/AVP 18", "RTP/AVP 0")).unwrap();
    assert_eq!(params.remote.port(), 4002);
}

#[test]
fn an_unacceptable_offer_is_rejected_with_its_reason() {
    let table = [
        (offer("0", "").replace("m=audio", "m=video"), Refused::NoAudio),
        (offer("0", "").replace("RTP/AVP", "TCP/MSRP"), Refused::Transport),
        (offer("0", "").replace("audio 4000", "audio 4000/2"), Refused::Transport),
        (offer("18 101", "a=rtpmap:101 telephone-event/8000\r\n"), Refused::Codec),
        (offer("0", "").replace("198.51.100.1\r\nt=", "224.1.1.1/5\r\nt="), Refused::Address),
        (offer("0", "").replace("IP4 198.51.100.1\r\nt=", "IP6 2001:db8::1\r\nt="), Refused::Address),
        (offer("0", "").replace("IP4 198.51.100.1\r\nt=", "IP4 pbx.example\r\nt="), Refused::Address),
        (offer("0", "").replace("IP4 198.51.100.1\r\nt=", "IP6 fe80::1%eth0\r\nt="), Refused::Address),
        (offer("0", "c=IN IP4 198.51.100.2\r\nc=IN IP4 198.51.100.3\r\n"), Refused::Address),
        (offer("0", "").replace("RTP/AVP", "RTP/SAVP"), Refused::ProtectionUnwanted),
    ];
    for (offer, reason) in table {
        let refused = answered(&mut plain(2), &offer).unwrap_err();
        assert_eq!((refused, refused.status()), (reason, 488), "{offer}");
    }
    let refused = answered(&mut plain(2), "v=0\r\nhello").unwrap_err();
    assert_eq!(refused.status(), 400);
    let refused = answered(&mut plain(2), &"v".repeat(40_000)).unwrap_err();
    assert_eq!(refused.status(), 488, "exceeding a limit is not a syntax error");
}

/// Session border controllers answer an offer of RTP/AVP with keys (RFC 8643) with the profile of what they do.
#[test]
fn a_key_in_an_answer_with_the_secure_profile_protects_the_call() {
    const KEY: &str =
        "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";
    let alice = || {
        let (suites, hello_hash) = (vec![CryptoSuite::AesCm128HmacSha1_80], None);
        let mut alice = phone(1, SecurityPolicy::Opportunistic { suites, hello_hash, fingerprint: None });
        assert!(text(alice.offer(BOTH)).contains("RTP/AVP"));
        alice
    };
    let answer = |line: &str| offer("0", line).replace("RTP/AVP", "RTP/SAVP");
    let mut secured = alice();
    let params = secured.accept_answer(answer(KEY).as_bytes()).unwrap();
    assert!(matches!(params.protection, Protection::Sdes { .. }), "{:?}", params.protection);
    assert!(text(secured.offer(BOTH)).contains("RTP/SAVP"), "so are later offers");
    let refused = alice().accept_answer(answer("").as_bytes()).unwrap_err();
    assert_eq!(refused, Refused::Mismatch(Mismatch::Profile), "without a key it protects nothing");
}

#[test]
fn answers_that_do_not_match_the_offer_are_rejected() {
    let table = [
        (offer("18", ""), Refused::Codec),
        (offer("0", "m=video 0 RTP/AVP 31\r\n"), Refused::Mismatch(Mismatch::Sections)),
        (offer("0", "").replace("m=audio", "m=video"), Refused::Mismatch(Mismatch::Medium)),
        (offer("0", "").replace("RTP/AVP", "RTP/AVPF"), Refused::Mismatch(Mismatch::Profile)),
        (offer("0", "").replace("RTP/AVP", "RTP/SAVP"), Refused::Mismatch(Mismatch::Profile)),
    ];
    for (answer, reason) in table {
        let mut alice = plain(1);
        alice.offer(BOTH);
        assert_eq!(alice.accept_answer(answer.as_bytes()), Err(reason), "{answer}");
        assert_eq!(alice.agreed(), None);
    }
    // Both send only: neither receives.
    let mut alice = plain(1);
    alice.offer(Direction::SendOnly);
    let params = alice.accept_answer(offer("0", "a=sendonly\r\n").as_bytes()).unwrap();
    assert_eq!(params.direction, Direction::Inactive);
}

#[test]
fn rtcp_is_sent_to_the_announced_port() {
    let rtcp = |attributes: &str| answered(&mut plain(2), &offer("0", attributes)).unwrap().1.remote_rtcp;
    assert_eq!(rtcp(""), "198.51.100.1:4001".parse().unwrap());
    assert_eq!(rtcp("a=rtcp:5000\r\n"), "198.51.100.1:5000".parse().unwrap());
    assert_eq!(rtcp("a=rtcp:5000 IN IP4 198.51.100.7\r\n"), "198.51.100.7:5000".parse().unwrap());
    assert_eq!(rtcp("a=rtcp:5000 IN IP6 2001:db8::1\r\n"), "198.51.100.1:5000".parse().unwrap());
    for unusable in ["a=rtcp:0\r\n", "a=rtcp:99999\r\n", "a=rtcp:5000 IN IP4 224.0.0.1\r\n", "a=rtcp\r\n"] {
        assert_eq!(rtcp(unusable), "198.51.100.1:4001".parse().unwrap(), "{unusable}");
    }
    let last = offer("0", "").replace("audio 4000", "audio 65535");
    assert_eq!(answered(&mut plain(2), &last).unwrap().1.remote_rtcp.port(), 0);

    let mut bob = plain(2);
    bob.local.rtcp_port = 9000;
    assert!(text(bob.offer(BOTH)).contains("a=rtcp:9000\r\n"));
}

#[test]
fn behind_a_nat_the_mapped_rtcp_port_is_announced() {
    let rtp: SocketAddr = "203.0.113.7:31000".parse().unwrap();
    for (rtcp, line) in [
        (Some("203.0.113.7:40404"), Some("a=rtcp:40404\r\n")),
        (Some("203.0.113.7:31001"), None),
        (Some("203.0.113.8:40404"), None),
        (None, None),
    ] {
        let mut alice = plain(1);
        alice.local.seen_as(rtp, rtcp.map(|rtcp| rtcp.parse().unwrap()));
        let offer = text(alice.offer(BOTH));
        assert!(offer.contains("c=IN IP4 203.0.113.7\r\n") && offer.contains("m=audio 31000 "), "{offer}");
        assert_eq!(offer.lines().any(|line| line.starts_with("a=rtcp:")), line.is_some(), "{offer}");
        assert!(line.is_none_or(|line| offer.contains(line)), "{offer}");
    }
}

#[test]
fn rtcp_is_multiplexed_if_both_sides_support_it() {
    let sharing = |number, rtcp_mux| {
        let mut phone = plain(number);
        phone.local.rtcp_mux = rtcp_mux;
        phone
    };
    for (one, two) in [(true, true), (true, false), (false, true)] {
        let (alice, bob) = exchange(&mut sharing(1, one), BOTH, &mut sharing(2, two), BOTH);
        assert_eq!((alice.rtcp_mux, bob.rtcp_mux), (one && two, one && two));
        assert_eq!(alice.remote_rtcp == alice.remote, one && two);
    }
    let ambiguous = offer("72 0", "a=rtpmap:72 PCMU/8000\r\na=rtcp-mux\r\n");
    let (answer, params) = answered(&mut sharing(2, true), &ambiguous).unwrap();
    assert!(
        !params.rtcp_mux && !answer.contains("rtcp-mux"),
        "72 with the marker looks like a sender report"
    );
    let mut alice = sharing(1, true);
    alice.offer(BOTH);
    assert!(!alice.accept_answer(ambiguous.as_bytes()).unwrap().rtcp_mux);
}

#[test]
fn the_packet_length_is_the_peers_within_limits() {
    let ptime_ms = |attributes: &str| answered(&mut plain(2), &offer("0", attributes)).unwrap().1.ptime_ms;
    let table = [
        ("", 20),
        ("a=ptime:30\r\n", 30),
        ("a=ptime:0\r\n", 20),
        ("a=ptime:1\r\n", 10),
        ("a=ptime:25\r\n", 20),
        ("a=ptime:60000\r\n", 200),
        ("a=ptime:60\r\na=maxptime:40\r\n", 40),
        ("a=maxptime:10\r\n", 10),
        ("a=ptime:many\r\n", 20),
    ];
    for (attributes, expected) in table {
        assert_eq!(ptime_ms(attributes), expected, "{attributes}");
    }
}

#[test]
fn ipv6_is_written_and_parsed() {
    let sixes = |number: u8| {
        let mut phone = plain(number);
        let ip = core::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number));
        phone.local.rtp = SocketAddr::from((ip, 7078));
        phone
    };
    let (mut alice, mut bob) = (sixes(1), sixes(2));
    assert!(text(alice.offer(BOTH)).contains("c=IN IP6 2001:db8::1\r\n"));
    let (params, _) = exchange(&mut alice, BOTH, &mut bob, BOTH);
    assert_eq!(params.remote, "[2001:db8::2]:7078".parse().unwrap());
}

#[test]
fn an_invalid_user_name_is_not_sent() {
    let with = |name| {
        text(OfferAnswer::new(plain(1).local, name, 7, Entropy::new(&Seed::from_number(1))).offer(BOTH))
    };
    assert!(with("alice").contains("o=alice 7 1 IN"));
    for bad in ["", "a b", "a\r\nm=audio 1 RTP/AVP 0", "\u{e9}"] {
        assert!(with(bad).contains("o=- 7 1 IN"), "{bad}");
    }
}
