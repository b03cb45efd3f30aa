//! Reading whole messages: every mandatory check, every limit at its edge, every form of a header line.
//!
//! The torture messages of RFC 4475 and RFC 5118 are in `tests/`.

use super::*;
use crate::{Edit, EditSpace};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const REQUEST: &str = "OPTIONS sip:bob@example.com SIP/2.0
Via: SIP/2.0/UDP host.example.com;branch=z9hG4bKa
Max-Forwards: 70
From: <sip:alice@example.com>;tag=1
To: <sip:bob@example.com>
Call-ID: one@host.example.com
CSeq: 1 OPTIONS
Content-Length: 0

";

const RESPONSE: &str = "SIP/2.0 200 OK
Via: SIP/2.0/UDP host.example.com;branch=z9hG4bKa, SIP/2.0/TCP [::1]:5062;branch=z9hG4bKb
From: \"A. \\\"L.\\\" Ice\" <sip:alice@example.com>;tag=1
To: sip:bob@example.com;tag=2
Call-ID: one@host.example.com
CSeq: 1 INVITE
Contact: <sip:bob@192.0.2.1>
Content-Length: 5

v=0
";

fn crlf(text: &str) -> Vec<u8> {
    text.replace('\n', "\r\n").into_bytes()
}

/// `text` with the first `old` replaced, which must be there.
#[track_caller]
fn with(text: &str, old: &str, new: &str) -> Vec<u8> {
    assert!(text.contains(old), "{old:?} is not in the message");
    crlf(&text.replacen(old, new, 1))
}

#[track_caller]
fn accepted(bytes: &[u8]) -> Message<'_> {
    Message::parse(bytes, &Limits::default())
        .unwrap_or_else(|rejected| panic!("rejected: {}", rejected.reason))
}

#[track_caller]
fn reason(bytes: &[u8]) -> Reason {
    match Message::parse(bytes, &Limits::default()) {
        Ok(message) => panic!("accepted: {:?}", message.start()),
        Err(rejected) => rejected.reason,
    }
}

#[test]
fn both_samples_are_good() {
    let request = crlf(REQUEST);
    let message = accepted(&request);
    assert_eq!((message.method(), message.max_forwards()), (Method::Options, Some(70)));
    assert!(!message.is_response());
    let response = crlf(RESPONSE);
    let message = accepted(&response);
    assert_eq!(message.start(), &Start::Response { status: 200, reason: b"OK" });
    assert_eq!(message.method(), Method::Invite);
    assert_eq!(message.values(HeaderName::Via).count(), 2);
    assert_eq!(message.body(), b"v=0\r\n");
    assert!(message.is_response());
}

#[test]
fn each_mandatory_header_is_missed() {
    for (line, name) in [
        ("Via: SIP/2.0/UDP host.example.com;branch=z9hG4bKa\n", HeaderName::Via),
        ("From: <sip:alice@example.com>;tag=1\n", HeaderName::From),
        ("To: <sip:bob@example.com>\n", HeaderName::To),
        ("Call-ID: one@host.example.com\n", HeaderName::CallId),
        ("CSeq: 1 OPTIONS\n", HeaderName::CSeq),
    ] {
        assert_eq!(reason(&with(REQUEST, line, "")), Reason::Missing(name));
        assert_eq!(Reason::Missing(name).status(), 400);
    }
    for optional in ["Max-Forwards: 70\n", "Content-Length: 0\n"] {
        accepted(&with(REQUEST, optional, ""));
    }
}

#[test]
fn each_single_header_stands_once() {
    for (line, name) in [
        ("From: <sip:alice@example.com>;tag=1\n", HeaderName::From),
        ("To: <sip:bob@example.com>\n", HeaderName::To),
        ("Call-ID: one@host.example.com\n", HeaderName::CallId),
        ("CSeq: 1 OPTIONS\n", HeaderName::CSeq),
        ("Max-Forwards: 70\n", HeaderName::MaxForwards),
    ] {
        assert_eq!(reason(&with(REQUEST, line, &line.repeat(2))), Reason::Repeated(name));
        let compact = line.replace("From:", "f :").replace("To:", "T:").replace("Call-ID:", "i:");
        assert_eq!(reason(&with(REQUEST, line, &format!("{line}{compact}"))), Reason::Repeated(name));
    }
    let via = "Via: SIP/2.0/UDP host.example.com;branch=z9hG4bKa\n";
    let bytes = with(REQUEST, via, &via.repeat(3));
    assert_eq!(accepted(&bytes).values(HeaderName::Via).count(), 3);
}

/// SIPp's own scenario of a callee appends a tag to the To of a re-INVITE, which has it.
#[test]
fn an_equal_parameter_twice_is_one() {
    for (old, new) in [
        ("<sip:alice@example.com>;tag=1", "<sip:alice@example.com>;tag=1;x;Tag=1"),
        (";branch=z9hG4bKa", ";branch=z9hG4bKa;branch=z9hG4bKa"),
    ] {
        let bytes = with(REQUEST, old, new);
        let message = accepted(&bytes);
        assert_eq!(message.from().tag(), Some(b"1".as_slice()), "{new}");
        assert_eq!(message.via().branch, Some(b"z9hG4bKa".as_slice()), "{new}");
    }
}

#[test]
fn each_mandatory_header_is_checked() {
    for (old, new, name) in [
        ("SIP/2.0/UDP host", "SIP/2.0 UDP host", HeaderName::Via),
        ("SIP/2.0/UDP host", "SIP/3.0/UDP host", HeaderName::Via),
        ("host.example.com;branch", "host.example.com:0x50;branch", HeaderName::Via),
        (";branch=z9hG4bKa", ";;branch=z9hG4bKa", HeaderName::Via),
        (";branch=z9hG4bKa", ";branch=\"z9", HeaderName::Via),
        ("Via: SIP", "Via: ,SIP", HeaderName::Via),
        (";branch=z9hG4bKa", ";branch", HeaderName::Via),
        (";branch=z9hG4bKa", ";branch=z9hG4bKa;Branch=z9hG4bKb", HeaderName::Via),
        ("<sip:alice@example.com>;tag=1", "<sip:alice@example.com>;tag=1;x;tag=2", HeaderName::From),
        ("<sip:bob@example.com>\n", "sip:bob@example.com;tag\n", HeaderName::To),
        ("<sip:alice@example.com>;tag=1", "<sip:alice@example.com>;tag=", HeaderName::From),
        ("<sip:alice@example.com>;tag=1", "<sip:alice@example.com>tag", HeaderName::From),
        ("<sip:alice@example.com>;tag=1", "", HeaderName::From),
        ("<sip:bob@example.com>\n", "<sip:bob@example.com\n", HeaderName::To),
        ("<sip:bob@example.com>\n", "bob\n", HeaderName::To),
        ("one@host.example.com", "", HeaderName::CallId),
        ("one@host.example.com", "one two", HeaderName::CallId),
        ("one@host.example.com", "one\x01", HeaderName::CallId),
        ("one@host.example.com", "one\n two", HeaderName::CallId),
        ("1 OPTIONS", "OPTIONS", HeaderName::CSeq),
        ("1 OPTIONS", "1", HeaderName::CSeq),
        ("1 OPTIONS", "1 OPT(IONS", HeaderName::CSeq),
        ("Max-Forwards: 70", "Max-Forwards:", HeaderName::MaxForwards),
        ("Max-Forwards: 70", "Max-Forwards: 7 0", HeaderName::MaxForwards),
        ("Max-Forwards: 70", "Max-Forwards: 70, 70", HeaderName::MaxForwards),
    ] {
        assert_eq!(reason(&with(REQUEST, old, new)), Reason::Header(name), "{new:?}");
    }
}

#[test]
fn numbers_at_their_edges() {
    for (old, good, bad, name) in [
        ("70", "0 00 255 000255", "256 -1 +1 0x1 1.0 300 4294967296", HeaderName::MaxForwards),
        (
            "1 OPTIONS",
            "0 2147483647 2147483648 4294967295 0009",
            "4294967296 -1 +1 18446744073709551616 0x1 1.0 36893488147419103232",
            HeaderName::CSeq,
        ),
    ] {
        let suffix = old.strip_prefix('1').unwrap_or_default();
        for number in good.split(' ') {
            accepted(&with(REQUEST, &format!(": {old}"), &format!(": {number}{suffix}")));
        }
        for number in bad.split(' ') {
            let bytes = with(REQUEST, &format!(": {old}"), &format!(": {number}{suffix}"));
            assert_eq!(reason(&bytes), Reason::Header(name), "{number}");
        }
    }
}

#[test]
fn the_method_in_cseq_is_the_requests() {
    assert_eq!(reason(&with(REQUEST, "1 OPTIONS", "1 INVITE")), Reason::CSeqMethod);
    assert_eq!(reason(&with(REQUEST, "1 OPTIONS", "1 options")), Reason::CSeqMethod);
    let other = REQUEST.replace("OPTIONS", "INVENTED");
    assert_eq!(accepted(&crlf(&other)).method(), Method::Other(b"INVENTED"));
}

#[test]
fn what_is_no_request_line() {
    for (line, expected) in [
        ("OPTIONS sip:bob@example.com", Reason::StartLine),
        ("OPTIONS", Reason::StartLine),
        ("", Reason::StartLine),
        (" OPTIONS sip:bob@example.com SIP/2.0", Reason::StartLine),
        ("OPTIONS sip:bob@example.com SIP/2.0 ", Reason::StartLine),
        ("OPT@IONS sip:bob@example.com SIP/2.0", Reason::StartLine),
        ("OPTIONS SIP/2.0", Reason::StartLine),
        ("OPTIONS\tsip:bob@example.com\tSIP/2.0", Reason::StartLine),
        ("OPTIONS sip:bob@example.com HTTP/1.1", Reason::StartLine),
        ("OPTIONS  SIP/2.0", Reason::RequestUri),
        ("OPTIONS  sip:bob@example.com SIP/2.0", Reason::RequestUri),
        ("OPTIONS bob SIP/2.0", Reason::RequestUri),
        ("OPTIONS sip:b\rob@example.com SIP/2.0", Reason::RequestUri),
        ("OPTIONS sip:b\0ob@example.com SIP/2.0", Reason::RequestUri),
        ("OPTIONS sip:bob@example.com SIP/3.0", Reason::Version),
        ("OPTIONS sip:bob@example.com SIP/2.00", Reason::Version),
        ("OPTIONS sip:bob@example.com sip/20", Reason::Version),
    ] {
        let bytes = with(REQUEST, "OPTIONS sip:bob@example.com SIP/2.0", line);
        assert_eq!(reason(&bytes), expected, "{line:?}");
    }
    accepted(&with(REQUEST, "com SIP/2.0", "com sip/2.0"));
}

#[test]
fn what_is_no_status_line() {
    for (line, expected) in [
        ("SIP/2.0 99 Low", Reason::StartLine),
        ("SIP/2.0 099 Low", Reason::StartLine),
        ("SIP/2.0 700 High", Reason::StartLine),
        ("SIP/2.0 2000 Long", Reason::StartLine),
        ("SIP/2.0 20 Short", Reason::StartLine),
        ("SIP/2.0 2x0 Letter", Reason::StartLine),
        ("SIP/2.0 +20 Sign", Reason::StartLine),
        ("SIP/2.0  200 OK", Reason::StartLine),
        ("SIP/2.0\t200 OK", Reason::Version),
        ("SIP/2.0", Reason::StartLine),
        ("SIP/2.0 ", Reason::StartLine),
        ("SIP/2.0 200\rOK", Reason::StartLine),
        ("SIP/2.0 200 O\rK", Reason::StartLine),
        ("SIP/2.0 200 O\0K", Reason::StartLine),
        ("SIP/1.0 200 OK", Reason::Version),
        ("SIP/4294967298.0 200 OK", Reason::Version),
    ] {
        let bytes = with(RESPONSE, "SIP/2.0 200 OK", line);
        assert_eq!(reason(&bytes), expected, "{line:?}");
        let rejected = Message::parse(&bytes, &Limits::default()).unwrap_err();
        assert!(rejected.fields.is_response(), "never answered: {line:?}");
    }
    for (line, status, phrase) in [
        ("SIP/2.0 100 ", 100, ""),
        ("SIP/2.0 100", 100, ""),
        ("SIP/2.0 699  two  spaces ", 699, " two  spaces "),
        ("sip/2.0 404 nicht da \u{fc}", 404, "nicht da \u{fc}"),
    ] {
        let bytes = with(RESPONSE, "SIP/2.0 200 OK", line);
        assert_eq!(accepted(&bytes).start(), &Start::Response { status, reason: phrase.as_bytes() });
    }
}

#[test]
fn the_version_is_reported_before_anything_else() {
    let bytes = crlf("INVITE sip:bob@example.com SIP/3.0\nnonsense\n\n");
    assert_eq!((reason(&bytes), reason(&bytes).status()), (Reason::Version, 505));
}

#[test]
fn forms_of_a_header_line() {
    let call_id = "Call-ID: one@host.example.com";
    for good in [
        "Call-ID:one@host.example.com",
        "CALL-id \t :\t one@host.example.com \t",
        "i:one@host.example.com",
        "I : one@host.example.com",
        "Call-ID:\n one@host.example.com",
        "Call-ID:\n \n\t \n one@host.example.com\n \n  ",
    ] {
        let bytes = with(REQUEST, call_id, good);
        assert_eq!(accepted(&bytes).call_id(), b"one@host.example.com", "{good:?}");
    }
    for bad in [
        "Call-ID one@host.example.com",
        " Call-ID: one@host.example.com\n ",
        "Call-ID\n : one@host.example.com",
        "Call ID: one@host.example.com",
        ": one@host.example.com",
        "Call\x01ID: one@host.example.com",
        "Call-ID: one@host.example.com\rX: y",
        "Call-ID: one@host.example.com\r",
        "Caf\u{e9}: one\nCall-ID: one@host.example.com",
    ] {
        let bytes = with(REQUEST, call_id, bad);
        let expected = match bad.starts_with(' ') {
            // A fold of the line before it: To has gained nonsense, and no Call-ID is left.
            true => Reason::Header(HeaderName::To),
            false => Reason::HeaderLine,
        };
        assert_eq!(reason(&bytes), expected, "{bad:?}");
    }
}

#[test]
fn a_fold_before_the_first_header_belongs_to_nothing() {
    let bytes = with(REQUEST, "SIP/2.0\nVia", "SIP/2.0\n X: y\nVia");
    assert_eq!(reason(&bytes), Reason::HeaderLine);
}

#[test]
fn bare_line_breaks_are_refused_everywhere_in_the_header() {
    let good = crlf(REQUEST);
    let crlfs: Vec<_> = memchr::memchr_iter(b'\n', &good).collect();
    for at in crlfs {
        let mut bare_lf = good.clone();
        bare_lf.remove(at - 1);
        assert!(Message::parse(&bare_lf, &Limits::default()).is_err(), "without the CR at {at}");
        let mut bare_cr = good.clone();
        bare_cr.remove(at);
        assert!(Message::parse(&bare_cr, &Limits::default()).is_err(), "without the LF at {at}");
    }
}

#[test]
fn a_line_that_is_none_does_not_hide_the_others() {
    let bytes = with(REQUEST, "Max-Forwards: 70", "nonsense\nMax-Forwards: 70");
    let rejected = Message::parse(&bytes, &Limits::default()).unwrap_err();
    assert_eq!(rejected.reason, Reason::HeaderLine);
    assert_eq!(rejected.fields.iter().count(), 7);
    assert_eq!(rejected.fields.first(HeaderName::CSeq), Some(&b"1 OPTIONS"[..]));
}

#[test]
fn content_length_in_a_datagram() {
    for (value, expected) in [
        ("0", Some("")),
        ("3", Some("abc")),
        ("003", Some("abc")),
        ("6", Some("abcdef")),
        ("7", None),
        ("-1", None),
        ("+3", None),
        ("3 3", None),
        ("3, 3", None),
        ("0x3", None),
        ("three", None),
        ("", None),
        ("4294967296", None),
        ("4294967299", None),
        ("18446744073709551619", None),
        ("3\nContent-Length: 3", Some("abc")),
        ("3\nl: 3", Some("abc")),
        ("3\nl: 4", None),
        ("3\nContent-Length: 03", Some("abc")),
        ("3\nContent-Length: ", None),
        ("3\nContent-Length: x", None),
    ] {
        let mut bytes = with(REQUEST, "Content-Length: 0", &format!("Content-Length: {value}"));
        bytes.extend_from_slice(b"abcdef");
        match expected {
            Some(body) => {
                assert_eq!(accepted(&bytes).body(), body.as_bytes(), "{value:?}");
                assert!(accepted(&bytes).as_bytes().ends_with(body.as_bytes()));
            }
            None => assert_eq!(reason(&bytes), Reason::ContentLength, "{value:?}"),
        }
    }
    let mut bytes = with(REQUEST, "Content-Length: 0\n", "");
    bytes.extend_from_slice(b"abcdef");
    assert_eq!(accepted(&bytes).body(), b"abcdef", "without one: all that follows");
}

/// The client of a response with one waits for its status.
#[test]
fn a_control_character_ends_a_reason_phrase() {
    for control in (1..=31).chain([127]).filter(|control| !b"\t\r\n".contains(control)) {
        let line = ["SIP/2.0 603 Go ", core::str::from_utf8(&[control]).unwrap(), "[31maway"].concat();
        let bytes = with(RESPONSE, "SIP/2.0 200 OK", &line);
        let message = accepted(&bytes);
        assert_eq!(message.start(), &Start::Response { status: 603, reason: b"Go " }, "{control}");
    }
}

#[test]
fn control_characters_in_values_are_refused() {
    for control in (0..=31).chain([127]).filter(|control| !b"\t\r\n".contains(control)) {
        for (line, name) in [
            ("Subject: a_b", HeaderName::Subject),
            ("Subject: _", HeaderName::Subject),
            ("X-Unknown: \"\\_\"", HeaderName::Other),
            ("Subject: folded\n _ twice", HeaderName::Subject),
            ("Subject:\t\"quoted \\_\"", HeaderName::Subject),
            ("Contact: \"a\\_\" <sip:a>;x=_", HeaderName::Contact),
            ("Contact: \"a_\" <sip:a>", HeaderName::Contact),
            ("Contact: \"a\\\\_\" <sip:a>", HeaderName::Contact),
        ] {
            let mut bytes = with(REQUEST, "Content-Length: 0", &format!("{line}\nContent-Length: 0"));
            bytes.iter_mut().filter(|byte| **byte == b'_').for_each(|byte| *byte = control);
            assert_eq!(reason(&bytes), Reason::Header(name), "{control} in {line}");
        }
        // RFC 3261 §25.1: a quoted-pair.
        let mut bytes = with(REQUEST, "Content-Length: 0", "m: \"a\\_\" <sip:a>\nContent-Length: 0");
        bytes.iter_mut().filter(|byte| **byte == b'_').for_each(|byte| *byte = control);
        accepted(&bytes);
    }
    for line in ["Subject: a\tb", "Subject: a\n\tb", "Subject: \u{e4}\u{20ac}", "X: \u{80}\u{9f}"] {
        accepted(&with(REQUEST, "Content-Length: 0", &format!("{line}\nContent-Length: 0")));
    }
    // On a stream the connection goes on.
    let mut framer = crate::StreamFramer::new(65_535);
    let bytes = with(REQUEST, "Content-Length: 0", "Subject: \u{1b}\nContent-Length: 0");
    framer.push(&bytes);
    assert_eq!(framer.next_message(), Ok(Some(&bytes[..])));
}

#[test]
fn limits_at_their_edges() {
    let message = |extra: usize| with(REQUEST, "Content-Length: 0\n", &"X: y\n".repeat(extra));
    accepted(&message(128 - 6));
    assert_eq!(reason(&message(129 - 6)), Reason::TooManyHeaders);
    let limits = Limits { headers_max: 6, ..Limits::default() };
    assert!(Message::parse(&message(0), &limits).is_ok());
    let rejected =
        |bytes: &[u8], limits: &Limits| Message::parse(bytes, limits).map(|_| ()).map_err(|r| r.reason);
    assert_eq!(rejected(&message(1), &limits), Err(Reason::TooManyHeaders));
    // What is configured cannot lift the ceiling.
    let limits = Limits { headers_max: 1000, message_bytes_max: usize::MAX, ..Limits::default() };
    assert_eq!(rejected(&message(123 + Limits::HEADERS_ADDED_MAX), &limits), Err(Reason::TooManyHeaders));

    let bytes = crlf(REQUEST);
    let limits = Limits { message_bytes_max: bytes.len(), ..Limits::default() };
    assert_eq!(rejected(&bytes, &limits), Ok(()));
    let limits = Limits { message_bytes_max: bytes.len() - 1, ..Limits::default() };
    assert_eq!(rejected(&bytes, &limits), Err(Reason::MessageTooLarge));
    let limits = Limits { message_bytes_max: 0, ..Limits::default() };
    assert_eq!(rejected(&bytes, &limits), Err(Reason::MessageTooLarge));

    let limits = Limits { request_uri_bytes_max: "sip:bob@example.com".len(), ..Limits::default() };
    assert_eq!(rejected(&bytes, &limits), Ok(()));
    let longer = with(REQUEST, "bob@example.com SIP", "bobo@example.com SIP");
    assert_eq!(rejected(&longer, &limits), Err(Reason::RequestUriTooLong));
    assert_eq!(Reason::RequestUriTooLong.status(), 414);
}

#[test]
fn the_largest_message_is_read_to_its_end() {
    let mut bytes = with(REQUEST, "Content-Length: 0\n", "");
    let last = b"X: y\r\n\r\n";
    bytes.truncate(bytes.len() - 2);
    bytes.extend_from_slice(b"Long: ");
    bytes.resize(Limits::MESSAGE_BYTES_CEILING - last.len() - 2, b'x');
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(last);
    assert_eq!(bytes.len(), 65_535);
    assert_eq!(accepted(&bytes).named(b"X"), Some(&b"y"[..]));
    bytes.push(b'z');
    let rejected = Message::parse(&bytes, &Limits::default()).unwrap_err();
    assert_eq!((rejected.reason, rejected.reason.status()), (Reason::MessageTooLarge, 513));
    assert_eq!(rejected.fields.first(HeaderName::CSeq), Some(&b"1 OPTIONS"[..]), "it can be answered");
}

#[test]
fn unknown_names_are_found_by_their_spelling() {
    let bytes = with(REQUEST, "Content-Length: 0", "X-One: 1\nx-two: 2\nX-ONE: 3\nContent-Length: 0");
    let message = accepted(&bytes);
    assert_eq!(message.named(b"x-one"), Some(&b"1"[..]));
    assert_eq!(message.named(b"X-Two"), Some(&b"2"[..]));
    assert_eq!(message.named(b"X-Three"), None);
    let names: Vec<_> = message.iter().map(|field| field.name).collect();
    assert_eq!(names[6..], [&b"X-One"[..], b"x-two", b"X-ONE", b"Content-Length"]);
}

#[test]
fn lists_are_taken_apart_over_several_lines() {
    let bytes = with(
        REQUEST,
        "Content-Length: 0",
        "Contact: <sip:a@b>;x=\"1,2\" , \"c, d\" <sip:e,f@g>\nm: <sip:h@i>\nContent-Length: 0",
    );
    let message = accepted(&bytes);
    let values: Vec<_> = message.values(HeaderName::Contact).collect();
    assert_eq!(values, [&b"<sip:a@b>;x=\"1,2\""[..], b"\"c, d\" <sip:e,f@g>", b"<sip:h@i>"]);
    assert_eq!(message.lines_of(HeaderName::Contact).count(), 2);
}

/// Everything that can be asked of a message, so that a test notices a panic or an endless loop in any of it.
fn read_everything(bytes: &[u8]) {
    let fields = match Message::parse(bytes, &Limits::default()) {
        Ok(message) => {
            let _ =
                (message.from().tag(), message.to().tag(), message.via().received(), message.via().rport());
            let mut out = Vec::new();
            assert!(Edit::new(&message, &mut EditSpace::default()).write_into(&mut out).is_ok());
            if message.has(HeaderName::ContentLength) {
                assert_eq!(out, message.as_bytes());
            }
            Fields::clone(&message)
        }
        Err(rejected) => {
            assert!((400..600).contains(&rejected.reason.status()));
            assert!(rejected.reason.index() < Reason::COUNT);
            assert!(!rejected.reason.to_string().is_empty());
            rejected.fields
        }
    };
    for name in [HeaderName::Via, HeaderName::Contact, HeaderName::Route, HeaderName::Other] {
        for value in fields.values(name) {
            let _ = (Via::parse(value), crate::Contact::parse(value), Uri::parse(value));
        }
    }
    let _ = crate::Contacts::of(&fields);
}

fn samples() -> Vec<Vec<u8>> {
    let long =
        with(REQUEST, "Max-Forwards: 70", "Max-Forwards: 70\nContact: *\nX:\n y\nRoute: <sip:a;lr>, <sip:b>");
    Vec::from([crlf(REQUEST), crlf(RESPONSE), long])
}

#[test]
fn a_message_may_end_anywhere() {
    for sample in samples() {
        for len in 0..sample.len() {
            let cut = &sample[..len];
            read_everything(cut);
            assert!(Message::parse(cut, &Limits::default()).is_err(), "a part is no message: {len}");
        }
    }
}

#[test]
fn any_byte_may_be_any_other() {
    for sample in samples() {
        for at in 0..sample.len() {
            let mut flipped = sample.clone();
            for byte in
                [0, b'\r', b'\n', b' ', b'"', b'<', b'>', b';', b',', b':', b'%', b'@', b'\\', 127, 255]
            {
                flipped[at] = byte;
                read_everything(&flipped);
            }
            for bit in 0..8 {
                flipped[at] = sample[at] ^ (1 << bit);
                read_everything(&flipped);
            }
        }
    }
}

#[test]
fn reasons_are_reported_in_words_and_counted_apart() {
    let mut seen = Vec::new();
    let name = HeaderName::CSeq;
    for reason in [
        Reason::StartLine,
        Reason::Version,
        Reason::HeaderLine,
        Reason::Missing(name),
        Reason::Repeated(name),
        Reason::Header(name),
        Reason::RequestUri,
        Reason::CSeqMethod,
        Reason::ContentLength,
        Reason::MessageTooLarge,
        Reason::TooManyHeaders,
        Reason::RequestUriTooLong,
    ] {
        let text: String = reason.to_string();
        assert!(text.starts_with(reason.phrase()));
        assert!(!seen.contains(&reason.index()), "{text}");
        seen.push(reason.index());
    }
    assert_eq!(seen.len(), Reason::COUNT);
    assert_eq!(Reason::Missing(name).to_string(), "Missing Mandatory Header (CSeq)");
}
