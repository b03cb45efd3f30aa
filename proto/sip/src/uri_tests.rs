//! URIs: forms, and the comparison examples of RFC 3261 §19.1.4.

use super::*;

fn uri(text: &str) -> Uri<'_> {
    Uri::parse(text.as_bytes()).unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn every_part_is_found() {
    let uri = uri("sips:alice;day=tuesday:pw@[2001:db8::10]:5070;transport=tcp;lr?subject=x&priority=urgent");
    assert_eq!(uri.scheme(), Scheme::Sips);
    assert_eq!(uri.user(), Some(&b"alice;day=tuesday"[..]));
    assert_eq!(uri.password(), Some(&b"pw"[..]));
    assert_eq!(uri.host().ip(), Some("2001:db8::10".parse().unwrap()));
    assert_eq!(uri.port(), Some(5070));
    assert_eq!(uri.params().value(b"transport"), Some(&b"tcp"[..]));
    assert!(uri.is_loose_router());
    assert_eq!(uri.headers(), b"subject=x&priority=urgent");
}

#[test]
fn other_schemes_are_distinguished_and_no_more() {
    assert_eq!(uri("tel:+1-972-555-2222").scheme(), Scheme::Tel);
    assert_eq!(uri("isbn:2983792873").scheme(), Scheme::Other);
    assert_eq!(uri("soap.beep://192.0.2.103:3002").scheme(), Scheme::Other);
    assert!(!uri("name:John_Smith").is_sip());
}

#[test]
fn what_is_no_uri() {
    for bad in [
        "",
        "sip",
        "sip:",
        "sip:@host",
        "sip:a b@host",
        "sip:a@",
        "sip:a@host:",
        "sip:a@host:65536",
        "sip:a@ho st",
        "1x:y",
        "sip:a%4@host",
        "sip:a@[::1",
        "sip:a@[nonsense]",
        "sip:a@host;;lr",
        "<sip:a@host>",
        "sip:a@b@host",
        "sip:a:p@b@host",
        "sip:a:p q@host",
        "sip:a:\"@host",
        "sip::p@host",
        "sip:host:5060x",
        "sip:host:-1",
        "sip:ho%73t",
        "sip:a@host;p=\"q\"",
        "sip:a@host?x=\u{e4}",
        "sip:a@host;\u{e4}",
        "sip:\u{e4}@host",
        "sip:a@host lr",
        "sip:a\0b@host",
        "tel:",
        "tel:1 2",
        "x:\"",
        ":host",
        "s!p:host",
    ] {
        assert_eq!(Uri::parse(bad.as_bytes()), Err(Malformed), "{bad}");
    }
}

#[test]
fn userinfo_ends_at_the_first_at_sign() {
    for (text, user, password, host, port) in [
        ("sip:host", None, None, "host", None),
        ("sip:host:5060", None, None, "host", Some(5060)),
        ("sip:host:0", None, None, "host", Some(0)),
        ("sip:a@host:65535", Some("a"), None, "host", Some(65535)),
        ("sip:a:@host", Some("a"), Some(""), "host", None),
        ("sip:a:b:c@host", Some("a"), Some("b:c"), "host", None),
        ("sip:host:5060;a=b@real", Some("host"), Some("5060;a=b"), "real", None),
        ("sip:a?b;c=d@host", Some("a?b;c=d"), None, "host", None),
        ("SIP:+1(2){3}|^`@h_st", Some("+1(2){3}|^`"), None, "h_st", None),
        ("sips:%40%3a@host", Some("%40%3a"), None, "host", None),
    ] {
        let uri = uri(text);
        let read = (uri.user(), uri.password(), uri.host().as_bytes(), uri.port());
        assert_eq!(
            read,
            (user.map(str::as_bytes), password.map(str::as_bytes), host.as_bytes(), port),
            "{text}"
        );
        assert_eq!(uri.as_bytes(), text.as_bytes());
    }
}

#[test]
fn the_user_is_unescaped_once() {
    let mut out = Vec::new();
    uri("sip:null-%00-%2541@example.com").unescaped_user_into(&mut out);
    assert_eq!(out, b"null-\0-%41");
}

#[test]
fn a_uri_has_an_end() {
    let long = |len: usize| alloc::format!("sip:{}@h;p?h", "a".repeat(len - 10));
    let largest = long(65_535);
    let read = uri(&largest);
    assert_eq!((read.host().as_bytes(), read.params().as_bytes()), (&b"h"[..], &b";p"[..]));
    assert_eq!(read.headers(), b"h");
    assert_eq!(read.as_bytes().len(), 65_535);
    assert_eq!(Uri::parse(long(65_546).as_bytes()), Err(Malformed));
    assert_eq!(Uri::parse(alloc::format!("tel:{}", "1".repeat(65_532)).as_bytes()), Err(Malformed));
}

#[test]
fn equal_by_rfc_3261_19_1_4() {
    for (one, two) in [
        ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
        ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;newparam=5"),
        (
            "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
            "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
        ),
        (
            "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
        ),
        ("sip:a@[2001:DB8::1]", "sip:a@[2001:db8:0::1]"),
    ] {
        assert!(uri(one).equals(&uri(two)) && uri(two).equals(&uri(one)), "{one} {two}");
    }
}

#[test]
fn different_by_rfc_3261_19_1_4() {
    for (one, two) in [
        ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
        ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
        ("sip:a@b", "sips:a@b"),
        ("sip:%00@host5.example.com", "sip:%00%00@host5.example.com"),
    ] {
        assert!(!uri(one).equals(&uri(two)) && !uri(two).equals(&uri(one)), "{one} {two}");
    }
}

/// Texts of random pieces that resemble addresses.
#[test]
fn ipv4_addresses_are_what_the_standard_library_takes_for_them() {
    const PIECES: [&str; 16] =
        ["0", "1", "9", "10", "99", "192", "255", "256", "299", "300", "00", "01", "1000", ".", "a", "-"];
    let mut state = 1_u64;
    let mut addresses = 0;
    for _ in 0..200_000 {
        let mut text = alloc::string::String::new();
        for place in 0..7 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Most have dots where they belong.
            let piece =
                if place % 2 == 1 && state >> 60 != 0 { "." } else { PIECES[(state >> 33) as usize % 16] };
            text.push_str(piece);
        }
        let address = ipv4(text.as_bytes());
        assert_eq!(address, text.parse().ok(), "{text}");
        addresses += usize::from(address.is_some());
    }
    assert!(addresses > 1000, "{addresses} were addresses");
}

#[test]
fn ports_end_at_their_edges() {
    for (text, port) in
        [("1", Some(1)), ("65535", Some(65535)), ("00000000000000005060", Some(5060)), ("0", Some(0))]
    {
        let uri = alloc::format!("sip:h:{text}");
        assert_eq!(Uri::parse(uri.as_bytes()).unwrap().port(), port, "{text}");
    }
    for text in ["", "65536", "99999999999999999999", "000000000000000005060", "+1", "-1", "1x"] {
        let uri = alloc::format!("sip:h:{text}");
        assert!(Uri::parse(uri.as_bytes()).is_err(), "{text}");
    }
}
