//! Offers of real phones, each answered.
//!
//! Tested: baresip 1.0 (optional SRTP, SRTP, DTLS), linphone 5.1 (plain, SDES, ZRTP, DTLS), and a phone that
//! requests 30 ms packets. Not tested here: their handling of our answers, which the interop tests check.

use crate::dtls_tests::own_fingerprint;
use crate::offer_answer::tests::{opportunistic, phone, sdes, zrtp};
use crate::{Codec, CryptoSuite, Direction, DtlsRole, MediaParams, Protection, Refused, SecurityPolicy};
use alloc::string::String;

#[test]
fn baresip_with_a_key_and_rtp_avp_gets_a_key_in_rtp_avp() {
    let (answer, params) = answered(BARESIP_SRTP, opportunistic());
    assert!(answer.contains("m=audio 7078 RTP/AVP 0 8 101\r\n"), "{answer}");
    assert!(answer.contains("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"), "{answer}");
    assert!(matches!(params.protection, Protection::Sdes { suite: CryptoSuite::AesCm128HmacSha1_80, .. }));
    assert_eq!(params.remote, "127.0.0.1:25136".parse().unwrap());
    assert_eq!(params.remote_rtcp.port(), 25137);
    let (answer, params) = answered(BARESIP_SRTP, SecurityPolicy::None);
    assert!(!answer.contains("a=crypto"));
    assert_eq!(params.protection, Protection::None);
}

#[test]
fn baresip_with_rtp_savp_is_protected_or_rejected() {
    let (answer, params) = answered(BARESIP_SRTP_MANDATORY, sdes());
    assert!(answer.contains("m=audio 7078 RTP/SAVP 0 8 101\r\n"), "{answer}");
    assert!(matches!(params.protection, Protection::Sdes { .. }));
    assert_eq!(refused(BARESIP_SRTP_MANDATORY, SecurityPolicy::None), Refused::ProtectionUnwanted);
    assert_eq!(refused(BARESIP_SRTP_MANDATORY, zrtp()), Refused::Sdes);
}

#[test]
fn dtls_is_answered_where_it_is_enabled_and_rejected_with_its_own_reason_elsewhere() {
    let best = SecurityPolicy::Opportunistic {
        suites: CryptoSuite::ALL.to_vec(),
        hello_hash: Some([0xab; 32]),
        fingerprint: Some(own_fingerprint()),
    };
    for (offer, profile, octet) in
        [(BARESIP_DTLS, "UDP/TLS/RTP/SAVPF", 0xf6), (LINPHONE_DTLS, "UDP/TLS/RTP/SAVP", 0x08)]
    {
        for policy in [best.clone(), SecurityPolicy::Dtls { fingerprint: own_fingerprint() }] {
            let (answer, params) = answered(offer, policy);
            assert!(answer.contains(&alloc::format!("m=audio 7078 {profile} ")), "{answer}");
            assert!(answer.contains("a=fingerprint:sha-256 00:01:02:"), "{answer}");
            assert!(answer.contains("a=setup:active\r\n") && !answer.contains("a=crypto"), "{answer}");
            let Protection::Dtls { role, fingerprints } = params.protection else { panic!("no DTLS") };
            assert_eq!((role, fingerprints.len()), (DtlsRole::Active, 1));
            assert_eq!(fingerprints[0].digest()[0], octet);
        }
        for policy in [opportunistic(), sdes(), zrtp()] {
            let refused = refused(offer, policy);
            assert_eq!((refused, refused.status()), (Refused::Dtls, 488));
        }
        assert_eq!(refused(offer, SecurityPolicy::None), Refused::ProtectionUnwanted);
    }
    let savp = LINPHONE_DTLS.replace("UDP/TLS/RTP/SAVP", "RTP/SAVP");
    assert_eq!(refused(&savp, sdes()), Refused::Dtls, "a fingerprint and no key");
}

#[test]
fn linphone_offers_unsupported_codecs_and_events() {
    let (answer, params) = answered(LINPHONE_PLAIN, opportunistic());
    assert!(answer.contains("m=audio 7078 RTP/AVP 0 8 101\r\n"), "{answer}");
    assert_eq!((params.codec, params.payload_type), (Codec::Pcmu, 0));
    assert_eq!(params.receive, [(0, Codec::Pcmu), (8, Codec::Pcma)]);
    assert_eq!((params.telephone_event, params.receive_telephone_event), (Some(101), Some(101)));
    assert_eq!(refused(LINPHONE_PLAIN, sdes()), Refused::Unprotected);
}

#[test]
fn linphone_gets_the_first_of_its_suites_that_is_supported() {
    let (answer, _) = answered(LINPHONE_SDES, sdes());
    assert!(answer.contains("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"), "{answer}");
    let policy = SecurityPolicy::Sdes { suites: alloc::vec![CryptoSuite::AesCm256HmacSha1_80] };
    let (answer, params) = answered(LINPHONE_SDES, policy);
    assert!(answer.contains("a=crypto:3 AES_256_CM_HMAC_SHA1_80 inline:"), "{answer}");
    let Protection::Sdes { receive, send, .. } = &params.protection else { panic!("{params:?}") };
    assert_eq!((receive.key.len(), receive.salt.len(), send.key.len()), (32, 14, 32));
    let policy = SecurityPolicy::Sdes { suites: alloc::vec![CryptoSuite::AeadAes128Gcm] };
    assert_eq!(refused(LINPHONE_SDES, policy), Refused::Crypto);
}

#[test]
fn linphones_zrtp_hash_is_used_if_zrtp_is_enabled() {
    let (answer, params) = answered(LINPHONE_ZRTP, zrtp());
    assert!(answer.contains("a=zrtp-hash:1.10 abababab"), "{answer}");
    let Protection::Zrtp { peer_hello_hash: Some(hash) } = params.protection else { panic!("{params:?}") };
    assert_eq!((hash[0], hash[31]), (0x50, 0x36));
    let policy = SecurityPolicy::Opportunistic {
        suites: CryptoSuite::ALL.to_vec(),
        hello_hash: Some([0xab; 32]),
        fingerprint: None,
    };
    assert!(matches!(answered(LINPHONE_ZRTP, policy).1.protection, Protection::Zrtp { .. }));
    assert_eq!(answered(LINPHONE_ZRTP, opportunistic()).1.protection, Protection::None);
}

#[test]
fn a_phone_gets_the_packet_length_it_requests() {
    let (answer, params) = answered(THIRTY_MS, opportunistic());
    assert!(answer.contains("a=ptime:30\r\n") && answer.contains("RTP/AVP 8 0 101\r\n"), "{answer}");
    assert_eq!((params.codec, params.ptime_ms), (Codec::Pcma, 30));
}

#[test]
fn every_truncation_and_flipped_bit_of_an_offer_or_an_answer_is_handled() {
    for offer in PHONES {
        for end in 0..offer.len() {
            let _ = phone(1, opportunistic()).answer(&offer.as_bytes()[..end], Direction::SendRecv);
        }
        let mut bytes = offer.as_bytes().to_vec();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut one = phone(1, SecurityPolicy::Dtls { fingerprint: own_fingerprint() });
            let _ = one.answer(&bytes, Direction::SendRecv);
            one.offer(Direction::SendRecv);
            let _ = one.accept_answer(&bytes);
            let mut one = phone(1, sdes());
            let _ = one.answer(&bytes, Direction::SendRecv);
            one.offer(Direction::SendRecv);
            let _ = one.accept_answer(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

fn answered(offer: &str, policy: SecurityPolicy) -> (String, MediaParams) {
    let (answer, params) = phone(1, policy).answer(offer.as_bytes(), Direction::SendRecv).unwrap();
    (String::from_utf8(answer).unwrap(), params)
}

fn refused(offer: &str, policy: SecurityPolicy) -> Refused {
    phone(1, policy).answer(offer.as_bytes(), Direction::SendRecv).unwrap_err()
}

pub(crate) const PHONES: &[&str] = &[
    BARESIP_SRTP,
    BARESIP_SRTP_MANDATORY,
    BARESIP_DTLS,
    LINPHONE_PLAIN,
    LINPHONE_SDES,
    LINPHONE_ZRTP,
    LINPHONE_DTLS,
    THIRTY_MS,
];

const BARESIP_SRTP: &str = "\
v=0
o=- 448841060 66758251 IN IP4 127.0.0.1
s=-
c=IN IP4 127.0.0.1
t=0 0
a=tool:baresip 1.0.0
m=audio 25136 RTP/AVP 0 8 101
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
a=rtpmap:101 telephone-event/8000
a=fmtp:101 0-15
a=sendrecv
a=label:1
a=rtcp-rsize
a=ssrc:3934276844 cname:sip:alice@127.0.0.1:25070
a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:AOV/q0AX42vdPXJdKkNSLLkZwU7M1AmC9Wt7nrm+
a=minptime:20
a=ptime:20
";

const BARESIP_SRTP_MANDATORY: &str = "\
v=0
o=- 1818840246 2065915654 IN IP4 127.0.0.1
s=-
c=IN IP4 127.0.0.1
t=0 0
a=tool:baresip 1.0.0
m=audio 25128 RTP/SAVP 0 8 101
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
a=rtpmap:101 telephone-event/8000
a=fmtp:101 0-15
a=sendrecv
a=label:1
a=rtcp-rsize
a=ssrc:1325599784 cname:sip:alice@127.0.0.1:25070
a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:+6fx0KQQDw+7gAHUjlqAjNARLMsOIXpveBTWpplA
a=minptime:20
a=ptime:20
";

const BARESIP_DTLS: &str = "\
v=0
o=- 4276155218 115930368 IN IP4 127.0.0.1
s=-
c=IN IP4 127.0.0.1
t=0 0
a=tool:baresip 1.0.0
a=setup:actpass
a=fingerprint:SHA-256 F6:CC:17:6D:F3:7F:9B:36:42:C8:D9:55:B0:D5:C9:8D:3C:0A:8C:E9:B1:D9:B7:8F:38:98:12:F2:24:AD:89:2E
m=audio 25106 UDP/TLS/RTP/SAVPF 0 8 101
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
a=rtpmap:101 telephone-event/8000
a=fmtp:101 0-15
a=sendrecv
a=label:1
a=rtcp-rsize
a=ssrc:2298809029 cname:sip:alice@127.0.0.1:25070
a=minptime:20
a=ptime:20
";

const LINPHONE_PLAIN: &str = "\
v=0
o=a 46 2951 IN IP4 192.0.2.2
s=Talk
c=IN IP4 192.0.2.2
t=0 0
a=rtcp-xr:rcvr-rtt=all:10000 stat-summary=loss,dup,jitt,TTL voip-metrics
m=audio 25400 RTP/AVP 96 97 98 0 8 18 99 100 101
a=rtpmap:96 opus/48000/2
a=fmtp:96 useinbandfec=1
a=rtpmap:97 speex/16000
a=fmtp:97 vbr=on
a=rtpmap:98 speex/8000
a=fmtp:98 vbr=on
a=fmtp:18 annexb=yes
a=rtpmap:99 telephone-event/48000
a=rtpmap:100 telephone-event/16000
a=rtpmap:101 telephone-event/8000
a=rtcp-fb:* trr-int 5000
a=rtcp-fb:* ccm tmmbr
";

const LINPHONE_SDES: &str = "\
v=0
o=a 1956 3809 IN IP4 192.0.2.2
s=Talk
c=IN IP4 192.0.2.2
t=0 0
a=rtcp-xr:rcvr-rtt=all:10000 stat-summary=loss,dup,jitt,TTL voip-metrics
m=audio 25400 RTP/SAVP 96 97 98 0 8 18 99 100 101
a=rtpmap:96 opus/48000/2
a=fmtp:96 useinbandfec=1
a=rtpmap:97 speex/16000
a=fmtp:97 vbr=on
a=rtpmap:98 speex/8000
a=fmtp:98 vbr=on
a=fmtp:18 annexb=yes
a=rtpmap:99 telephone-event/48000
a=rtpmap:100 telephone-event/16000
a=rtpmap:101 telephone-event/8000
a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:NcOpZTmfs7keRKi91wOc0mzhqnTCw0Vkvw1Odd3I
a=crypto:2 AES_CM_128_HMAC_SHA1_32 inline:ewXsxe6LhhLhqHxTnovqh+E9IBknEZ89sZ03OBbt
a=crypto:3 AES_256_CM_HMAC_SHA1_80 inline:Wlph2pxar0MTdFyFvEoF8/RkDcf1xxjziWpxwxXyZ8lW/xDix9rP+ro1B5RI4w==
a=crypto:4 AES_256_CM_HMAC_SHA1_32 inline:86nYKqtDuS8Rauz5Qz+khDiUf7yW/6c/2X1w2EweVeCU+2041ucz4jBLL8yrcA==
a=rtcp-fb:* trr-int 5000
a=rtcp-fb:* ccm tmmbr
";

const LINPHONE_ZRTP: &str = "\
v=0
o=a 641 701 IN IP4 192.0.2.2
s=Talk
c=IN IP4 192.0.2.2
t=0 0
a=rtcp-xr:rcvr-rtt=all:10000 stat-summary=loss,dup,jitt,TTL voip-metrics
m=audio 25400 RTP/AVP 96 97 98 0 8 18 99 100 101
a=rtpmap:96 opus/48000/2
a=fmtp:96 useinbandfec=1
a=rtpmap:97 speex/16000
a=fmtp:97 vbr=on
a=rtpmap:98 speex/8000
a=fmtp:98 vbr=on
a=fmtp:18 annexb=yes
a=rtpmap:99 telephone-event/48000
a=rtpmap:100 telephone-event/16000
a=rtpmap:101 telephone-event/8000
a=zrtp-hash:1.10 50102b8bbdc5ded264d97eebf77382796d0e0d5955b00b04a068f8d195d8ac36
a=rtcp-fb:* trr-int 5000
a=rtcp-fb:* ccm tmmbr
";

const LINPHONE_DTLS: &str = "\
v=0
o=a 2060 3041 IN IP4 192.0.2.2
s=Talk
c=IN IP4 192.0.2.2
t=0 0
a=rtcp-xr:rcvr-rtt=all:10000 stat-summary=loss,dup,jitt,TTL voip-metrics
m=audio 25400 UDP/TLS/RTP/SAVP 96 97 98 0 8 18 99 100 101
a=rtpmap:96 opus/48000/2
a=fmtp:96 useinbandfec=1
a=rtpmap:97 speex/16000
a=fmtp:97 vbr=on
a=rtpmap:98 speex/8000
a=fmtp:98 vbr=on
a=fmtp:18 annexb=yes
a=rtpmap:99 telephone-event/48000
a=rtpmap:100 telephone-event/16000
a=rtpmap:101 telephone-event/8000
a=setup:actpass
a=fingerprint:SHA-256 08:87:A9:13:56:F9:0A:13:1F:AB:CC:C9:FC:E7:E7:AD:56:5E:94:52:4B:D6:14:97:95:07:C6:53:FB:BC:4C:AB
a=ssrc:2796596777 cname:sip:a@127.0.0.1
a=rtcp-fb:* trr-int 5000
a=rtcp-fb:* ccm tmmbr
";

const THIRTY_MS: &str = "\
v=0
o=alice 1186712293 1186712293 IN IP4 192.0.2.9
s=-
c=IN IP4 192.0.2.9
t=0 0
m=audio 15600 RTP/AVP 8 0 3 101
a=rtpmap:8 PCMA/8000
a=rtpmap:0 PCMU/8000
a=rtpmap:3 GSM/8000
a=rtpmap:101 telephone-event/8000
a=fmtp:101 0-15
a=ptime:30
";
