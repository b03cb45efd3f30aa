//! RFC 6116 by hand: names of numbers, order of the records, zones, services, and records that strangers write.

use super::*;
use alloc::vec;

fn search(digits: &str, zones: &[&str]) -> NumberSearch {
    let zones = zones.iter().map(|&zone| zone.into()).collect();
    NumberSearch::new(NumberTarget { digits: digits.into(), zones, source: None })
}

fn record<'r>(order: u16, preference: u16, service: &'r str, regexp: &'r str) -> Naptr<'r> {
    Naptr { order, preference, flags: "u", service, regexp, replacement: "." }
}

fn uris<'r>(records: impl IntoIterator<Item = Naptr<'r>>) -> Vec<Box<str>> {
    let mut search = search("441632960083", &["e164.arpa"]);
    search.on_naptr(records);
    assert_eq!(search.question(), None);
    search.into_uris().into_vec()
}

#[test]
fn a_number_is_asked_by_its_reversed_digits() {
    let search = search("441632960083", &["e164.arpa"]);
    let name = "3.8.0.0.6.9.2.3.6.1.4.4.e164.arpa";
    assert_eq!(search.question(), Some(Question::Naptr(name.into())));
}

#[test]
fn records_count_by_order_and_preference() {
    let records = [
        record(20, 1, "E2U+sip", "!^.*$!sip:later@example.com!"),
        record(10, 30, "E2U+sip", "!^.*$!sip:second@example.com!"),
        record(5, 1, "E2U+email:mailto", "!^.*$!mailto:a@example.com!"),
        record(10, 20, "E2U+sip", "!^.*$!sip:first@example.com!"),
    ];
    let expected: [Box<str>; 2] = ["sip:first@example.com".into(), "sip:second@example.com".into()];
    assert_eq!(uris(records), expected);
}

#[test]
fn sip_services_are_taken() {
    for (service, is_taken) in [
        ("E2U+sip", true),
        ("e2u+SIP", true),
        ("E2U+voice:tel+sip", true),
        ("E2U+sip:presence", true),
        ("sip+E2U", true),
        ("E2U+h323", false),
        ("E2U+sipx", false),
        ("E2U", false),
        ("E2U+", false),
        ("sip", false),
        ("SIP+D2U", false),
        ("tel+E2U+sip", false),
        ("", false),
    ] {
        let found = uris([record(1, 1, service, "!^.*$!sip:a@example.com!")]);
        assert_eq!(!found.is_empty(), is_taken, "{service}");
    }
}

#[test]
fn records_that_lead_elsewhere_are_refused() {
    let regexp = "!^.*$!sip:a@example.com!";
    for flags in ["", "s", "a", "p", "uu"] {
        let next = Naptr { flags, replacement: "1.e164.arpa", ..record(1, 1, "E2U+sip", regexp) };
        assert!(uris([next]).is_empty(), "{flags:?}");
    }
    for uri in ["tel:+1", "http://a", "sip", "mailto:sip:a@b", "sip:a b@c", "sip:a@b\r\nX: y", "sip:ä@b"] {
        let regexp = ["!^.*$!", uri, "!"].concat();
        assert!(uris([record(1, 1, "E2U+sip", &regexp)]).is_empty(), "{uri}");
    }
}

#[test]
fn zones_are_asked_in_their_order_until_one_has_a_uri() {
    let mut search = search("4416", &["private.example", "e164.arpa", "unused.example"]);
    assert_eq!(search.question(), Some(Question::Naptr("6.1.4.4.private.example".into())));
    search.on_naptr([record(1, 1, "E2U+sip", "!^.*$!mailto:a@example.com!")]);
    assert_eq!(search.question(), Some(Question::Naptr("6.1.4.4.e164.arpa".into())));
    search.on_naptr([record(1, 1, "E2U+sip", "!^.*$!sip:a@example.com!")]);
    assert_eq!(search.question(), None);
    search.on_naptr([record(1, 1, "E2U+sip", "!^.*$!sip:late@example.com!")]);
    assert_eq!(*search.into_uris(), [Box::from("sip:a@example.com")]);
}

#[test]
fn there_are_limits() {
    let many = (0..10_000).map(|number| record(1, number, "E2U+sip", "!^.*$!sip:a@example.com!"));
    assert_eq!(uris(many).len(), NumberSearch::URIS_MAX);
    for digits in ["", "1234567890123456", "12a", "+12", "1.2", "*98"] {
        assert_eq!(search(digits, &["e164.arpa"]).question(), None, "{digits}");
    }
    let mut endless = search("44", &["a.example"; 9]);
    let mut asked = 0;
    while endless.question().is_some() {
        endless.on_naptr([]);
        asked += 1;
    }
    assert_eq!(asked, NumberTarget::ZONES_MAX);
    let long = vec!["x"; 120].join(".");
    assert_eq!(search("123456789012345", &[&long]).question(), None);
}
