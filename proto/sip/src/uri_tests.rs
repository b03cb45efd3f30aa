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
fn other_schemes_are_told_apart_and_no_more() {
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
    ] {
        assert_eq!(Uri::parse(bad.as_bytes()), Err(Malformed), "{bad}");
    }
}

#[test]
fn the_user_is_unescaped_once() {
    let mut out = Vec::new();
    uri("sip:null-%00-%2541@example.com").unescaped_user_into(&mut out);
    assert_eq!(out, b"null-\0-%41");
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
