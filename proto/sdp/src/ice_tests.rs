//! Tested: ICE of a lite agent in offers and answers (RFC 8839), with the offer of a browser: it is used or not, restarts,
//! credentials, the bundle of one section. Not tested here: the checks (`ringway-media`).

use crate::dtls_tests::own_fingerprint;
use crate::offer_answer::tests::{opportunistic, phone, text};
use crate::{Direction, IceCredentials, MediaParams, OfferAnswer, SecurityPolicy};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const BOTH: Direction = Direction::SendRecv;
const UFRAG: &str = "9Ldl";
const PASSWORD: &str = "jZr1YqIKo3XmJp0DQmUGSDeN";

fn required() -> SecurityPolicy {
    SecurityPolicy::Dtls { fingerprint: own_fingerprint() }
}

fn best() -> SecurityPolicy {
    let SecurityPolicy::Opportunistic { suites, .. } = opportunistic() else { panic!() };
    SecurityPolicy::Opportunistic { suites, hello_hash: Some([1; 32]), fingerprint: Some(own_fingerprint()) }
}

/// The offer of a browser (Chromium with JsSIP), with addresses of documentation; `candidates` is its number of them.
fn browser(setup: &str, candidates: usize) -> String {
    let print: Vec<String> = (0..32).map(|octet| format!("{octet:02X}")).collect();
    let candidate = |number: usize| {
        format!(
            "a=candidate:{number} 1 udp 2122260223 198.51.100.7 {} typ host generation 0 network-id 1\r\n",
            50_000 + number
        )
    };
    let candidates: String = (0..candidates).map(candidate).collect();
    format!(
        "v=0\r\no=- 3470416104 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
         a=extmap-allow-mixed\r\na=msid-semantic: WMS 7d1\r\n\
         m=audio 50000 UDP/TLS/RTP/SAVPF 111 63 9 0 8 13 110 126\r\nc=IN IP4 198.51.100.7\r\n\
         a=rtcp:9 IN IP4 0.0.0.0\r\n{candidates}\
         a=ice-ufrag:{UFRAG}\r\na=ice-pwd:{PASSWORD}\r\na=ice-options:trickle\r\n\
         a=fingerprint:sha-256 {}\r\na=setup:{setup}\r\na=mid:0\r\n\
         a=extmap:1 urn:ietf:params:rtp-hdrext:ssrc-audio-level\r\na=sendrecv\r\na=msid:7d1 3b7\r\n\
         a=rtcp-mux\r\na=rtcp-rsize\r\na=rtpmap:111 opus/48000/2\r\na=rtcp-fb:111 transport-cc\r\n\
         a=fmtp:111 minptime=10;useinbandfec=1\r\na=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\n\
         a=rtpmap:9 G722/8000\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:13 CN/8000\r\n\
         a=rtpmap:110 telephone-event/48000\r\na=rtpmap:126 telephone-event/8000\r\n\
         a=ssrc:1399694169 cname:vHW\r\n",
        print.join(":")
    )
}

fn answered(phone: &mut OfferAnswer, offer: &str) -> (String, MediaParams) {
    let (answer, params) = phone.answer(offer.as_bytes(), BOTH).unwrap();
    (text(answer), params)
}

/// The value of an attribute.
fn value<'a>(sdp: &'a str, name: &str) -> Option<&'a str> {
    sdp.lines().find_map(|line| line.strip_prefix("a=")?.strip_prefix(name)?.strip_prefix(':'))
}

#[test]
fn the_offer_of_a_browser_is_answered_with_ice() {
    for policy in [required(), best()] {
        let (answer, params) = answered(&mut phone(1, policy), &browser("actpass", 3));
        let ice = params.ice.clone().unwrap();
        assert_eq!((ice.remote.ufrag(), ice.remote.password()), (UFRAG, PASSWORD));
        assert_eq!((ice.local.ufrag().len(), ice.local.password().len()), (8, 24));
        for line in [
            "a=ice-lite\r\na=group:BUNDLE 0\r\nm=audio 7078 UDP/TLS/RTP/SAVPF 0 8 126\r\n",
            &format!("a=ice-ufrag:{}\r\na=ice-pwd:{}\r\n", ice.local.ufrag(), ice.local.password()),
            "a=ice-options:ice2\r\na=candidate:1 1 UDP 2130706431 192.0.2.1 7078 typ host\r\na=mid:0\r\n",
            "a=rtcp-mux\r\n",
            "a=setup:active\r\n",
        ] {
            assert!(answer.contains(line), "{line:?} in {answer}");
        }
        assert!(params.rtcp_mux && params.direction == BOTH);
        assert_eq!(
            format!("{:?}", ice.local),
            format!("IceCredentials({})", ice.local.ufrag()),
            "no password"
        );
    }
}

#[test]
fn our_offer_has_ice_exactly_with_dtls_and_the_answer_of_a_browser_uses_it() {
    let mut alice = phone(1, required());
    let offer = text(alice.offer(BOTH));
    assert!(offer.contains("a=ice-lite\r\na=group:BUNDLE 0\r\nm=audio "), "{offer}");
    assert!(
        offer.contains("a=candidate:1 1 UDP 2130706431 192.0.2.1 7078 typ host\r\na=mid:0\r\n"),
        "{offer}"
    );
    // A browser mirrors the profile.
    let answer = browser("active", 1).replace("UDP/TLS/RTP/SAVPF", "UDP/TLS/RTP/SAVP");
    let ice = alice.accept_answer(answer.as_bytes()).unwrap().ice.unwrap();
    assert_eq!(value(&offer, "ice-ufrag"), Some(ice.local.ufrag()));
    assert_eq!(ice.remote, IceCredentials::new(UFRAG.as_bytes(), PASSWORD.as_bytes()).unwrap());
    let again = text(alice.offer(Direction::SendOnly));
    assert_eq!(value(&again, "ice-pwd"), Some(ice.local.password()), "a hold is no restart");

    for policy in [opportunistic(), best(), SecurityPolicy::None] {
        let offer = text(phone(1, policy).offer(BOTH));
        assert!(!offer.contains("ice-") && !offer.contains("candidate") && !offer.contains("mid"), "{offer}");
    }
}

#[test]
fn ice_is_not_used_without_credentials_mux_or_with_a_second_lite_agent() {
    let offer = browser("actpass", 1);
    let without = |lines: &[&str]| {
        let kept =
            offer.split_inclusive("\r\n").filter(|line| !lines.iter().any(|start| line.starts_with(start)));
        kept.collect::<String>()
    };
    let long = "a".repeat(257);
    let with_ufrag =
        |ufrag: &str| offer.replace(&format!("a=ice-ufrag:{UFRAG}"), &format!("a=ice-ufrag:{ufrag}"));
    let mut offers = [
        without(&["a=ice-ufrag"]),
        without(&["a=ice-pwd"]),
        without(&["a=rtcp-mux"]),
        offer.replace("a=group", "a=ice-lite\r\na=group"),
        offer.replace(PASSWORD, "short"),
        offer.replace("a=mid:0", "a=ice-mismatch"),
    ]
    .to_vec();
    offers.extend(["abc", "a bcd", "a-bcd", "é123", &long].map(with_ufrag));
    for offer in offers {
        let (answer, params) = answered(&mut phone(1, best()), &offer);
        assert_eq!(params.ice, None, "{offer}");
        assert!(!answer.contains("a=ice") && !answer.contains("a=candidate"), "{answer}");
        assert!(answer.contains("a=fingerprint"), "the call has DTLS nevertheless: {answer}");
    }
    // Two phones of ours are two lite agents.
    let (mut alice, mut bob) = (phone(1, required()), phone(2, required()));
    let (answer, theirs) = bob.answer(&alice.offer(BOTH), BOTH).unwrap();
    assert_eq!((alice.accept_answer(&answer).unwrap().ice, theirs.ice), (None, None));
}

#[test]
fn credentials_of_the_session_apply_too() {
    let line = format!("a=ice-ufrag:{UFRAG}\r\n");
    let offer = browser("actpass", 1).replace(&line, "").replace("a=group", &format!("{line}a=group"));
    assert_eq!(answered(&mut phone(1, best()), &offer).1.ice.unwrap().remote.ufrag(), UFRAG);
}

#[test]
fn an_unspecified_address_is_no_hold_with_ice() {
    // Browsers announce it while they hide their addresses.
    let offer = browser("actpass", 0).replace("m=audio 50000", "m=audio 9");
    for address in ["IP4 0.0.0.0", "IP6 2001:db8::1"] {
        let offer = offer.replace("IP4 198.51.100.7", address);
        let (answer, params) = answered(&mut phone(1, best()), &offer);
        assert_eq!(params.direction, BOTH, "{address}");
        assert!(answer.contains("a=sendrecv\r\n"), "{answer}");
    }
    let held = offer.replace("IP4 198.51.100.7", "IP4 0.0.0.0").replace("a=ice-pwd", "a=x-pwd");
    assert_eq!(answered(&mut phone(1, best()), &held).1.direction, Direction::RecvOnly);
}

#[test]
fn other_credentials_restart_ice_and_the_same_ones_do_not() {
    let mut bob = phone(1, best());
    let offer = browser("actpass", 1);
    let first = answered(&mut bob, &offer).1.ice.unwrap();
    assert_eq!(answered(&mut bob, &offer.replace("sendrecv", "sendonly")).1.ice.unwrap(), first);
    let second = answered(&mut bob, &offer.replace(UFRAG, "Other")).1.ice.unwrap();
    assert_eq!(second.remote.ufrag(), "Other");
    assert!(second.local.ufrag() != first.local.ufrag() && second.local.password() != first.local.password());
}

#[test]
fn the_tag_of_the_section_is_repeated_and_bundled_only_if_it_was_offered_so() {
    let offer = browser("actpass", 1);
    let with = |group: &str, mid: &str| {
        let offer = offer.replace("a=group:BUNDLE 0\r\n", group).replace("a=mid:0\r\n", mid);
        answered(&mut phone(1, best()), &offer).0
    };
    let answer = with("a=group:BUNDLE sound picture\r\n", "a=mid:sound\r\n");
    assert_eq!((value(&answer, "mid"), value(&answer, "group")), (Some("sound"), Some("BUNDLE sound")));
    for group in ["", "a=group:LS 0\r\n", "a=group:BUNDLE 1\r\n"] {
        let answer = with(group, "a=mid:0\r\n");
        assert_eq!((value(&answer, "mid"), value(&answer, "group")), (Some("0"), None));
    }
    let answer = with("a=group:BUNDLE 0\r\n", "");
    assert_eq!((value(&answer, "mid"), value(&answer, "group")), (None, None));
}

#[test]
fn candidates_are_not_kept() {
    let (few, many) = (browser("actpass", 1), browser("actpass", 200));
    let (few, many) = (answered(&mut phone(1, best()), &few), answered(&mut phone(1, best()), &many));
    assert_eq!(few.1, many.1);
    let too_many = browser("actpass", 257);
    assert!(
        phone(1, best()).answer(too_many.as_bytes(), BOTH).unwrap_err().to_string().contains("attributes")
    );
}
