//! Tested: parsed text is written again unchanged; the lines of RFC 8866 and of non-conforming phones; each
//! fault and each limit; every truncation and single-bit error. Not tested here: negotiation
//! (`offer_answer_tests`).

use super::*;
use crate::phones_tests::PHONES;
use crate::{Profile, RtcpAttribute, RtpMap};
use alloc::string::String;
use core::net::Ipv4Addr;

fn parse(text: &str) -> Result<SessionDescription, Malformed> {
    SessionDescription::parse(text.as_bytes(), &Limits::default())
}

fn written(description: &SessionDescription) -> String {
    let mut out = Vec::new();
    description.write_to(&mut out);
    String::from_utf8(out).unwrap()
}

fn fault(text: &str) -> (usize, Fault) {
    let malformed = parse(text).unwrap_err();
    (malformed.line, malformed.fault)
}

/// RFC 8866 §5, with rarely used lines.
const EXAMPLE: &str = "v=0\r\no=jdoe 3724394400 3724394405 IN IP4 198.51.100.1\r\ns=Call to John Smith\r\n\
    i=SDP Offer #1\r\nu=http://www.jdoe.example.com/home.html\r\ne=Jane Doe <jane@jdoe.example.com>\r\n\
    p=+1 617 555-6011\r\nc=IN IP4 198.51.100.1\r\nb=AS:64\r\nt=0 0\r\nr=7d 1h 0 25h\r\nz=3730928400 -1h\r\n\
    k=prompt\r\na=recvonly\r\na=charset:UTF-8\r\nm=audio 49170 RTP/AVP 0\r\ni=the voice\r\nb=AS:32\r\n\
    a=x-unknown:\u{e9}\r\nm=audio 49180/1 RTP/AVP 0\r\nc=IN IP6 2001:db8::2\r\n\
    m=video 51372 RTP/AVP 99\r\na=rtpmap:99 h263-1998/90000\r\n";

#[test]
fn parsed_text_is_written_again() {
    let description = parse(EXAMPLE).unwrap();
    assert_eq!(written(&description), EXAMPLE);
    for phone in PHONES {
        let crlf = phone.replace('\n', "\r\n");
        let (one, two) = (parse(phone).unwrap(), parse(&crlf).unwrap());
        assert_eq!(one, two, "LF and CRLF are equivalent");
        assert_eq!(written(&one), crlf);
    }
}

#[test]
fn the_example_is_parsed() {
    let description = parse(EXAMPLE).unwrap();
    assert_eq!(description.origin().username, b"jdoe");
    assert_eq!(description.origin().version, b"3724394405");
    let address = Connection::Address(Ipv4Addr::new(198, 51, 100, 1).into());
    assert_eq!(description.connection(), Some(&address));
    assert_eq!(description.time(), (0, 0));
    assert_eq!(description.other_lines().len(), 6);
    let [first, second, third] = description.media() else { panic!("three sections") };
    assert_eq!((first.medium(), first.port(), first.profile()), (&b"audio"[..], 49170, Some(Profile::Avp)));
    assert_eq!(description.direction_of(first), Direction::RecvOnly);
    assert_eq!(second.connections(), [Connection::Address("2001:db8::2".parse().unwrap())]);
    let map = RtpMap { encoding: "h263-1998", clock_rate_hz: 90_000, channels: 1 };
    assert_eq!(third.rtpmap(99), Some(map));
    assert_eq!(third.rtpmap(98), None);
}

#[test]
fn attributes_are_parsed() {
    let text = "v=0\no=- 1 1 IN IP4 192.0.2.1\ns=-\nc=IN IP4 192.0.2.1\nt=0 0\na=inactive\n\
        m=audio 4000 rtp/avp 0 98 98\na=rtpmap:98 L16/16000/2\na=rtpmap:97 a/1\na=rtpmap:97 b/1\n\
        a=fmtp:98 a=b; c\na=ptime:20.5\na=maxptime:40\na=rtcp:53020 IN IP4 126.16.64.4\na=rtcp-mux\n\
        a=zrtp-hash:1.00 00\na=zrtp-hash:1.10 \
        FE30efd02423cb054e50efd0248742ac7a52c8f91bc2df881ae642c371ba46df\n\
        a=ssrc:4294967295 cname:x\na=sendonly\na=sendonly\n";
    let description = parse(text).unwrap();
    let section = &description.media()[0];
    assert_eq!(section.profile(), Some(Profile::Avp));
    assert_eq!(section.rtpmap(98), Some(RtpMap { encoding: "L16", clock_rate_hz: 16_000, channels: 2 }));
    assert_eq!(section.rtpmap(97), None, "two different lines are ambiguous");
    assert_eq!((section.ptime_ms(), section.maxptime_ms()), (Some(20), Some(40)));
    let address = Some(Ipv4Addr::new(126, 16, 64, 4).into());
    assert_eq!(section.rtcp(), Some(RtcpAttribute { port: 53020, address }));
    assert!(section.has_rtcp_mux());
    assert_eq!(section.zrtp_hash().map(|hash| (hash[0], hash[31])), Some((0xfe, 0xdf)));
    assert_eq!(description.direction_of(section), Direction::SendOnly);
}

#[test]
fn contradicting_directions_give_their_intersection() {
    let text = "v=0\no=- 1 1 IN IP4 192.0.2.1\nc=IN IP4 192.0.2.1\nm=audio 4000 RTP/AVP 0\n";
    let direction = |attributes: &str| {
        let description = parse(&[text, attributes].concat()).unwrap();
        description.direction_of(&description.media()[0])
    };
    for blanks in ["a=sendonly \n", "a=sendonly\t\n", "a=sendonly  \r\n"] {
        assert_eq!(direction(blanks), Direction::SendOnly, "{blanks:?}");
    }
    assert_eq!(direction("a=sendonly\na=recvonly\n"), Direction::Inactive);
    assert_eq!(direction("a=sendrecv\na=recvonly\n"), Direction::RecvOnly);
    assert_eq!(
        direction("a=sendonly:1\n"),
        Direction::SendRecv,
        "an attribute with a value is a different one"
    );
}

#[test]
fn known_defects_of_phones_are_accepted() {
    let text = "v=0 \no=John Doe the 3rd 1 2 IN IP4 pbx\nt=0  0 \ns=\nc=IN  IP4 192.0.2.1 \n\
        m=audio  4000 RTP/AVP  0  8 \na=rtpmap:0  PCMU/8000 \na=\nm=video 0 RTP/AVP\ny=0100000001\n\r\n\n";
    let description = parse(text).unwrap();
    assert_eq!(description.origin().username, b"John Doe the 3rd");
    assert_eq!(description.media()[0].formats().count(), 2);
    assert_eq!(description.media()[0].rtpmap(0).unwrap().clock_rate_hz, 8000);
    assert_eq!(description.media()[1].other_lines()[0].letter, b'y');
    let again = written(&description);
    assert_eq!(written(&parse(&again).unwrap()), again);
    // No s= and no t= at all.
    assert_eq!(parse("v=0\no=- 1 1 IN IP4 a\n").unwrap().time(), (0, 0));
}

#[test]
fn each_fault_has_the_number_of_its_line() {
    let start = "v=0\no=- 1 1 IN IP4 192.0.2.1\n";
    let with = |rest: &str| fault(&[start, rest].concat());
    assert_eq!(fault(""), (1, Fault::Start));
    assert_eq!(fault("v=1\no=- 1 1 IN IP4 a\n"), (1, Fault::Start));
    assert_eq!(fault("o=- 1 1 IN IP4 a\nv=0\n"), (1, Fault::Start));
    assert_eq!(fault("v=0\ns=-\no=- 1 1 IN IP4 a\n"), (1, Fault::Start));
    assert_eq!(fault("v=0\no=1 1 IN IP4 a\n"), (2, Fault::Origin));
    assert_eq!(fault("v=0\no=- x 1 IN IP4 a\n"), (2, Fault::Origin));
    assert_eq!(with("v=0\n"), (3, Fault::Start));
    assert_eq!(with("m=audio 0 RTP/AVP 0\nv=0\no=- 1 1 IN IP4 a\n"), (4, Fault::Start));
    assert_eq!(with("s=a\ns=b\n"), (4, Fault::Repeated));
    assert_eq!(with("c=IN IP4 192.0.2.1\nc=IN IP4 192.0.2.2\n"), (4, Fault::Repeated));
    assert_eq!(with("a=x\ra=sendonly\n"), (3, Fault::ControlCharacter));
    assert_eq!(with("a=x\0\n"), (3, Fault::ControlCharacter));
    assert_eq!(with("\ns=-\n"), (3, Fault::Line));
    assert_eq!(with("a = sendonly\n"), (3, Fault::Line));
    assert_eq!(with("A=sendonly\n"), (3, Fault::Line));
    assert_eq!(with("t=0\n"), (3, Fault::Time));
    assert_eq!(with("t=-1 0\n"), (3, Fault::Time));
    for bad in [
        "IN IP4",
        "IN IP4 999.1.1.1",
        "IN IP4 1.2.3.04",
        "IN IP4 ::1",
        "IN IP6 fe80::1%",
        "IN IP4 fe80::1%1",
        "IN IP4 a b",
    ] {
        assert_eq!(with(&alloc::format!("c={bad}\n")), (3, Fault::Connection), "{bad}");
    }
    for bad in ["audio", "audio 1", "audio 65536 RTP/AVP 0", "audio -1 RTP/AVP 0", "audio 1/x RTP/AVP 0"] {
        assert_eq!(with(&alloc::format!("m={bad}\n")), (3, Fault::Media), "{bad}");
    }
    assert_eq!(with("m=audio 1 RTP/AVP 0\n"), (3, Fault::NoConnection));
    assert_eq!(with("m=audio 0 RTP/AVP 0\nt=0 0\n"), (4, Fault::Misplaced));
}

#[test]
fn only_unicast_addresses_are_used() {
    let unicast = |value: &str| Connection::parse(value.as_bytes()).unwrap().unicast();
    assert!(unicast("IN IP4 192.0.2.1").is_some() && unicast("IN IP6 2001:db8::1").is_some());
    assert!(unicast("IN IP4 0.0.0.0").is_some_and(|ip| ip.is_unspecified()));
    assert_eq!(unicast("IN IP6 ::ffff:192.0.2.1"), unicast("IN IP4 192.0.2.1"));
    for nobody in [
        "IN IP4 224.2.1.1",
        "IN IP4 224.2.1.1/127/3",
        "IN IP4 255.255.255.255",
        "IN IP6 ff15::101/3",
        "IN IP6 ff02::1",
        "IN IP6 fe80::1%eth0",
        "IN IP4 host.example.com",
        "ATM NSAP 47.0091",
    ] {
        assert_eq!(unicast(nobody), None, "{nobody}");
    }
}

#[test]
fn every_limit_has_its_own_fault() {
    let limits = Limits { bytes_max: 2000, lines_max: 20, media_max: 2, attributes_max: 3, formats_max: 4 };
    let start = "v=0\no=- 1 1 IN IP4 192.0.2.1\n";
    let fault = |rest: String| {
        let text = [start, &rest].concat();
        SessionDescription::parse(text.as_bytes(), &limits).map_err(|malformed| malformed.fault)
    };
    let media = "m=audio 0 RTP/AVP 0\n";
    assert_eq!(fault("a".repeat(2000)), Err(Fault::TooManyBytes));
    assert!(fault("b=AS:1\n".repeat(18)).is_ok());
    assert_eq!(fault("b=AS:1\n".repeat(19)), Err(Fault::TooManyLines));
    assert!(fault(media.repeat(2)).is_ok());
    assert_eq!(fault(media.repeat(3)), Err(Fault::TooManyMedia));
    assert!(fault(["a=x\n".repeat(3).as_str(), media, "a=x\na=x\na=x\n"].concat()).is_ok());
    assert_eq!(fault("a=x\n".repeat(4)), Err(Fault::TooManyAttributes));
    assert_eq!(fault([media, "a=x\na=x\na=x\na=x\n"].concat()), Err(Fault::TooManyAttributes));
    assert!(fault("m=audio 0 RTP/AVP 0 1 2 3\n".into()).is_ok());
    assert_eq!(fault("m=audio 0 RTP/AVP 0 1 2 3 4\n".into()), Err(Fault::TooManyFormats));
}

#[test]
fn every_truncation_and_flipped_bit_is_handled() {
    for phone in PHONES.iter().chain(&[EXAMPLE]) {
        let bytes = phone.as_bytes();
        for end in 0..bytes.len() {
            holds(&bytes[..end]);
        }
        let mut flipped = bytes.to_vec();
        for bit in 0..bytes.len() * 8 {
            flipped[bit / 8] ^= 1 << (bit % 8);
            holds(&flipped);
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Asserts that the written description is parsed as the same.
fn holds(bytes: &[u8]) {
    if let Ok(description) = SessionDescription::parse(bytes, &Limits::default()) {
        let mut out = Vec::new();
        description.write_to(&mut out);
        let again = SessionDescription::parse(&out, &Limits::default()).unwrap();
        let mut twice = Vec::new();
        again.write_to(&mut twice);
        assert_eq!(out, twice);
    }
}
