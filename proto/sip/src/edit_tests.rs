//! Edits: every operation alone and with others, and that reads see exactly what will be written.

use super::*;
use crate::{Limits, Message};
use alloc::format;
use alloc::string::String;

const REQUEST: &str = "INVITE sip:bob@example.com SIP/2.0
Via: SIP/2.0/UDP a;branch=z9hG4bKa;rport , SIP/2.0/TCP b;branch=z9hG4bKb
MAX-forwards :\t70
X-Odd  :  kept   as it   is\t
Route: <sip:r1;lr>,
 <sip:r2;lr>;x=\"a,b\" ,\t<sip:r3,c;lr>
v: SIP/2.0/UDP c;branch=z9hG4bKc
From: <sip:alice@example.com>;tag=1
X-Odd: folded
  twice
\tand with a tab
route: <sip:r4;lr>
To: <sip:bob@example.com>
Call-ID: one
CSeq: 7 INVITE
Proxy-Authorization: Digest username=\"u\", realm=\"ours\"
Proxy-Authorization: Digest username=\"u\", realm=\"theirs\"
Content-Length: 5

v=0
";

fn request() -> Vec<u8> {
    REQUEST.replace('\n', "\r\n").into_bytes()
}

/// Applies `edit` to `bytes` and gives back what is written.
fn edited_bytes(bytes: &[u8], edit: impl FnOnce(&mut Edit<'_, '_>)) -> Vec<u8> {
    let message = Message::parse(bytes, &Limits::default()).unwrap();
    let mut space = EditSpace::default();
    let mut change = Edit::new(&message, &mut space);
    edit(&mut change);
    let seen: Vec<Vec<Vec<u8>>> = NAMES.map(|name| change.values(name).map(<[u8]>::to_vec).collect()).into();
    let uri = change.request_uri().to_vec();
    let firsts: Vec<Option<Vec<u8>>> = NAMES.map(|name| change.first(name).map(<[u8]>::to_vec)).into();
    let mut out = b"kept".to_vec();
    assert_eq!(change.write_into(&mut out), Ok(()));
    assert!(out.starts_with(b"kept"));
    let out = out.split_off(4);
    reads_agree(&out, &seen, &firsts, &uri);
    out
}

/// What was seen before writing is what a reader of the written bytes sees.
fn reads_agree(out: &[u8], seen: &[Vec<Vec<u8>>], firsts: &[Option<Vec<u8>>], uri: &[u8]) {
    let fields = match Message::parse(out, &Limits::default()) {
        Ok(message) => crate::Fields::clone(&message),
        Err(rejected) => {
            assert!(
                !matches!(rejected.reason, crate::Reason::HeaderLine),
                "{}",
                String::from_utf8_lossy(out)
            );
            rejected.fields
        }
    };
    for ((name, values), first) in NAMES.into_iter().zip(seen).zip(firsts) {
        let written: Vec<_> = fields.values(name).collect();
        assert_eq!(written, *values, "{name:?} in\n{}", String::from_utf8_lossy(out));
        assert_eq!(written.first().copied(), first.as_deref());
    }
    assert_eq!(fields.start_line().split(|&byte| byte == b' ').nth(1), Some(uri));
}

const NAMES: [HeaderName; 8] = [
    HeaderName::Via,
    HeaderName::MaxForwards,
    HeaderName::Route,
    HeaderName::RecordRoute,
    HeaderName::From,
    HeaderName::ProxyAuthorization,
    HeaderName::Contact,
    HeaderName::ContentLength,
];

/// The edited sample with its line breaks as in this file.
fn edited(edit: impl FnOnce(&mut Edit<'_, '_>)) -> String {
    String::from_utf8(edited_bytes(&request(), edit)).unwrap().replace("\r\n", "\n")
}

/// The sample with `old` replaced, which must be there once.
#[track_caller]
fn expected(changes: &[(&str, &str)]) -> String {
    let mut text = String::from(REQUEST);
    for (old, new) in changes {
        assert_eq!(text.matches(old).count(), 1, "{old:?}");
        text = text.replace(old, new);
    }
    text
}

fn put(text: &'static str) -> impl FnOnce(&mut Vec<u8>) {
    move |out| out.extend_from_slice(text.as_bytes())
}

#[test]
fn without_changes_every_byte_is_kept() {
    assert_eq!(edited(|_| ()), REQUEST);
}

#[test]
fn the_request_uri_alone_changes() {
    assert_eq!(
        edited(|edit| edit.set_request_uri(b"sip:bob@192.0.2.1:5070;transport=tcp")),
        expected(&[("sip:bob@example.com SIP", "sip:bob@192.0.2.1:5070;transport=tcp SIP")])
    );
    assert_eq!(
        edited(|edit| {
            edit.set_request_uri(b"sip:x");
            edit.set_request_uri(b"sip:y");
        }),
        expected(&[("sip:bob@example.com SIP", "sip:y SIP")])
    );
}

#[test]
fn a_push_stands_before_the_first_of_its_name() {
    assert_eq!(
        edited(|edit| edit.push_first(HeaderName::Route, put("<sip:r0;lr>"))),
        expected(&[("Route: <sip:r1", "Route: <sip:r0;lr>\nRoute: <sip:r1")])
    );
}

#[test]
fn a_push_of_a_new_name_stands_before_all() {
    assert_eq!(
        edited(|edit| edit.push_first(HeaderName::RecordRoute, put("<sip:p;lr>"))),
        expected(&[("\nVia:", "\nRecord-Route: <sip:p;lr>\nVia:")])
    );
}

#[test]
fn later_pushes_stand_before_earlier_ones() {
    assert_eq!(
        edited(|edit| {
            edit.push_first(HeaderName::RecordRoute, put("<sip:p1;lr>"));
            edit.push_first(HeaderName::Via, put("SIP/2.0/UDP p"));
            edit.push_first(HeaderName::RecordRoute, put("<sip:p2;lr>"));
            edit.push_first(HeaderName::Via, put("SIP/2.0/UDP q"));
        }),
        expected(&[(
            "\nVia:",
            "\nVia: SIP/2.0/UDP q\nVia: SIP/2.0/UDP p\nRecord-Route: <sip:p2;lr>\nRecord-Route: <sip:p1;lr>\nVia:"
        )])
    );
}

#[test]
fn a_push_stands_before_what_is_left_of_its_name() {
    // The first Route line goes after a push before it: the next push still comes first.
    assert_eq!(
        edited(|edit| {
            edit.push_first(HeaderName::Route, put("<sip:a>"));
            edit.remove_lines(HeaderName::Route, |value| value.starts_with(b"<sip:r1"));
            edit.push_first(HeaderName::Route, put("<sip:b>"));
        }),
        expected(&[(
            "Route: <sip:r1;lr>,\n <sip:r2;lr>;x=\"a,b\" ,\t<sip:r3,c;lr>\n",
            "Route: <sip:b>\nRoute: <sip:a>\n"
        )])
    );
}

#[test]
fn a_push_to_the_end_stands_behind_all() {
    assert_eq!(
        edited(|edit| {
            edit.push_last(HeaderName::Contact, put("<sip:a>"));
            edit.push_last(HeaderName::Route, put("<sip:b>"));
        }),
        expected(&[("Content-Length: 5\n", "Content-Length: 5\nContact: <sip:a>\nRoute: <sip:b>\n")])
    );
}

#[test]
fn pops_take_one_member_at_a_time() {
    let via = "Via: SIP/2.0/UDP a;branch=z9hG4bKa;rport , SIP/2.0/TCP b;branch=z9hG4bKb\n";
    let pop = |times: usize| edited(|edit| (0..times).for_each(|_| edit.pop_first(HeaderName::Via)));
    assert_eq!(pop(1), expected(&[(via, "Via: SIP/2.0/TCP b;branch=z9hG4bKb\n")]));
    assert_eq!(pop(2), expected(&[(via, "")]));
    assert_eq!(pop(3), expected(&[(via, ""), ("v: SIP/2.0/UDP c;branch=z9hG4bKc\n", "")]));
    assert_eq!(pop(9), pop(3));
}

#[test]
fn last_pops_take_one_member_at_a_time() {
    let route = "Route: <sip:r1;lr>,\n <sip:r2;lr>;x=\"a,b\" ,\t<sip:r3,c;lr>\n";
    let last = "route: <sip:r4;lr>\n";
    let pop = |times: usize| edited(|edit| (0..times).for_each(|_| edit.pop_last(HeaderName::Route)));
    assert_eq!(pop(1), expected(&[(last, "")]));
    assert_eq!(pop(2), expected(&[(last, ""), (route, "Route: <sip:r1;lr>,\n <sip:r2;lr>;x=\"a,b\"\n")]));
    assert_eq!(pop(3), expected(&[(last, ""), (route, "Route: <sip:r1;lr>\n")]));
    assert_eq!(pop(4), expected(&[(last, ""), (route, "")]));
    assert_eq!(pop(9), pop(4));
}

#[test]
fn pops_from_both_ends_of_one_line_meet() {
    let route = "Route: <sip:r1;lr>,\n <sip:r2;lr>;x=\"a,b\" ,\t<sip:r3,c;lr>\n";
    assert_eq!(
        edited(|edit| {
            edit.pop_last(HeaderName::Route);
            edit.pop_first(HeaderName::Route);
            edit.pop_last(HeaderName::Route);
        }),
        expected(&[("route: <sip:r4;lr>\n", ""), (route, "Route: <sip:r2;lr>;x=\"a,b\"\n")])
    );
}

#[test]
fn pops_see_pushes() {
    assert_eq!(
        edited(|edit| {
            edit.push_first(HeaderName::Via, put("SIP/2.0/UDP p"));
            edit.pop_first(HeaderName::Via);
            edit.push_last(HeaderName::Route, put("<sip:z>"));
            edit.pop_last(HeaderName::Route);
        }),
        REQUEST
    );
    // What was pushed to the end is not the first, and what was pushed to the front is not the last.
    let text = edited(|edit| {
        edit.push_last(HeaderName::Route, put("<sip:z>"));
        edit.push_first(HeaderName::Route, put("<sip:y>"));
        for _ in 0..4 {
            edit.pop_first(HeaderName::Route);
        }
    });
    assert!(text.contains("\nroute: <sip:r4;lr>\n") && text.contains("\nRoute: <sip:z>\n"), "{text}");
    assert!(!text.contains("r3") && !text.contains("sip:y"), "{text}");
    // A pushed list is taken apart as well.
    let text = edited(|edit| {
        edit.push_first(HeaderName::RecordRoute, put("<sip:a>, <sip:b> , <sip:c>"));
        edit.pop_first(HeaderName::RecordRoute);
        edit.pop_last(HeaderName::RecordRoute);
    });
    assert_eq!(text, expected(&[("\nVia:", "\nRecord-Route: <sip:b>\nVia:")]));
}

#[test]
fn set_keeps_the_name_as_it_was_spelled() {
    assert_eq!(
        edited(|edit| edit.set_number(HeaderName::MaxForwards, 69)),
        expected(&[("MAX-forwards :\t70", "MAX-forwards: 69")])
    );
    assert_eq!(
        edited(|edit| edit.set(HeaderName::Route, put("<sip:only>"))),
        expected(&[(
            "Route: <sip:r1;lr>,\n <sip:r2;lr>;x=\"a,b\" ,\t<sip:r3,c;lr>\n",
            "Route: <sip:only>\n"
        )])
    );
}

#[test]
fn set_twice_is_set_once() {
    let once = expected(&[("\nVia:", "\nContact: <sip:b>\nVia:")]);
    assert_eq!(
        edited(|edit| {
            edit.set(HeaderName::Contact, put("<sip:a>"));
            edit.set(HeaderName::Contact, put("<sip:b>"));
        }),
        once
    );
    assert_eq!(
        edited(|edit| {
            edit.set_number(HeaderName::MaxForwards, 1);
            edit.set_number(HeaderName::MaxForwards, 2);
        }),
        expected(&[("MAX-forwards :\t70", "MAX-forwards: 2")])
    );
}

#[test]
fn set_after_removal_adds_a_line() {
    assert_eq!(
        edited(|edit| {
            edit.remove_lines(HeaderName::MaxForwards, |_| true);
            edit.set_number(HeaderName::MaxForwards, 5);
        }),
        expected(&[("MAX-forwards :\t70\n", ""), ("\nVia:", "\nMax-Forwards: 5\nVia:")])
    );
}

#[test]
fn only_unwanted_lines_are_removed() {
    let ours = "Proxy-Authorization: Digest username=\"u\", realm=\"ours\"\n";
    assert_eq!(
        edited(|edit| edit.remove_lines(HeaderName::ProxyAuthorization, |value| value.ends_with(b"\"ours\""))),
        expected(&[(ours, "")])
    );
    assert_eq!(edited(|edit| edit.remove_lines(HeaderName::ProxyAuthorization, |_| false)), REQUEST);
    assert_eq!(edited(|edit| edit.remove_lines(HeaderName::Contact, |_| true)), REQUEST);
    // It is asked about what the lines say now.
    assert_eq!(
        edited(|edit| {
            edit.set_number(HeaderName::MaxForwards, 5);
            edit.remove_lines(HeaderName::MaxForwards, |value| value == b"70");
            edit.push_last(HeaderName::Contact, put("<sip:a>"));
            edit.remove_lines(HeaderName::Contact, |value| value == b"<sip:a>");
        }),
        expected(&[("MAX-forwards :\t70", "MAX-forwards: 5")])
    );
}

fn stamped(via: &str, source: &str) -> String {
    let bytes = request();
    let text = String::from_utf8(bytes).unwrap();
    let old = "Via: SIP/2.0/UDP a;branch=z9hG4bKa;rport , SIP/2.0/TCP b;branch=z9hG4bKb\r\n";
    let bytes = text.replace(old, &format!("Via: {via}\r\n")).into_bytes();
    let out = edited_bytes(&bytes, |edit| edit.stamp_via(source.parse().unwrap()));
    let text = String::from_utf8(out).unwrap();
    let from = text.find("Via: ").unwrap() + 5;
    text[from..].split("\r\nMAX").next().unwrap().into()
}

#[test]
fn a_via_is_stamped() {
    for (via, source, expected) in [
        ("SIP/2.0/UDP a;branch=x;rport", "192.0.2.1:9", "SIP/2.0/UDP a;branch=x;rport=9;received=192.0.2.1"),
        ("SIP/2.0/UDP a;branch=x", "192.0.2.1:9", "SIP/2.0/UDP a;branch=x;received=192.0.2.1"),
        ("SIP/2.0/UDP 192.0.2.1;branch=x", "192.0.2.1:9", "SIP/2.0/UDP 192.0.2.1;branch=x"),
        (
            "SIP/2.0/UDP a;received=10.0.0.1;branch=x;rport=5",
            "192.0.2.1:9",
            "SIP/2.0/UDP a;branch=x;received=192.0.2.1",
        ),
        (
            "SIP/2.0/UDP [2001:db8::1]:5062;rport;branch=x",
            "[2001:db8::2]:65535",
            "SIP/2.0/UDP [2001:db8::1]:5062;rport=65535;branch=x;received=2001:db8::2",
        ),
        (
            "SIP/2.0/UDP [2001:DB8:0::1];branch=x",
            "[2001:db8::1]:5060",
            "SIP/2.0/UDP [2001:DB8:0::1];branch=x",
        ),
        (
            "SIP / 2.0 /\r\n UDP a\r\n ;branch = x\r\n ; rport",
            "192.0.2.1:9",
            "SIP / 2.0 /\r\n UDP a\r\n ;branch = x\r\n ; rport=9;received=192.0.2.1",
        ),
        (
            "SIP/2.0/UDP a;rport,SIP/2.0/UDP b;rport",
            "192.0.2.1:9",
            "SIP/2.0/UDP a;rport=9;received=192.0.2.1,SIP/2.0/UDP b;rport",
        ),
        // Odd but allowed: what came goes out.
        (
            "SIP/2.0/UDP a;x=\"\r\n y\";rport",
            "192.0.2.1:9",
            "SIP/2.0/UDP a;x=\"\r\n y\";rport=9;received=192.0.2.1",
        ),
    ] {
        assert_eq!(stamped(via, source), expected);
    }
}

#[test]
fn the_stamp_is_on_the_received_via_in_any_order() {
    let stamp: fn(&mut Edit<'_, '_>) = |edit| edit.stamp_via("192.0.2.1:9".parse().unwrap());
    let push: fn(&mut Edit<'_, '_>) = |edit| edit.push_first(HeaderName::Via, put("SIP/2.0/UDP me"));
    let expected = expected(&[(
        "Via: SIP/2.0/UDP a;branch=z9hG4bKa;rport , ",
        "Via: SIP/2.0/UDP me\nVia: SIP/2.0/UDP a;branch=z9hG4bKa;rport=9;received=192.0.2.1, ",
    )]);
    for order in [&[stamp, push][..], &[push, stamp], &[stamp, push, stamp]] {
        assert_eq!(edited(|edit| order.iter().for_each(|change| change(edit))), expected);
    }
}

#[test]
fn line_breaks_are_refused() {
    let bytes = request();
    let message = Message::parse(&bytes, &Limits::default()).unwrap();
    let mut space = EditSpace::default();
    let mut out = b"kept".to_vec();
    for text in
        ["a\r\nInjected: 1", "a\nb", "a\rb", "a\0b", "a\r\n", "\r\n\r\n", "a\r\n\r\n b", "a\n b", "\r"]
    {
        let write = |out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes());
        let changes: [&dyn Fn(&mut Edit<'_, '_>); 6] = [
            &|edit| edit.push_first(HeaderName::Route, write),
            &|edit| edit.push_last(HeaderName::Route, write),
            &|edit| edit.set(HeaderName::Route, write),
            &|edit| edit.set(HeaderName::Contact, write),
            &|edit| edit.set_request_uri(text.as_bytes()),
            // Refused for good, even when it is taken away again.
            &|edit| {
                edit.push_first(HeaderName::Route, write);
                edit.pop_first(HeaderName::Route);
            },
        ];
        for change in changes {
            let mut edit = Edit::new(&message, &mut space);
            change(&mut edit);
            assert_eq!(edit.write_into(&mut out), Err(UnsafeText), "{text:?}");
            assert_eq!(out, b"kept");
        }
    }
    for uri in ["", "a b", "a\tb", "a\x7f"] {
        let mut edit = Edit::new(&message, &mut space);
        edit.set_request_uri(uri.as_bytes());
        assert_eq!(edit.write_into(&mut out), Err(UnsafeText), "{uri:?}");
    }
    let mut edit = Edit::new(&message, &mut space);
    edit.push_first(HeaderName::Other, put("x"));
    assert_eq!(edit.write_into(&mut out), Err(UnsafeText), "a name without spelling");
    // What is refused in one edit is forgotten in the next; folds may pass.
    let mut edit = Edit::new(&message, &mut space);
    edit.push_first(HeaderName::Route, put("<sip:a>,\r\n <sip:b>"));
    assert_eq!(edit.values(HeaderName::Route).count(), 6);
    assert_eq!(edit.write_into(&mut out), Ok(()));
}

#[test]
fn a_response_has_no_request_uri() {
    let bytes = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a\r\nVia: SIP/2.0/UDP b\r\nFrom: <sip:a>;tag=1\r\n\
                 To: <sip:b>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n\r\n";
    let message = Message::parse(bytes.as_bytes(), &Limits::default()).unwrap();
    let mut space = EditSpace::default();
    let mut edit = Edit::new(&message, &mut space);
    assert_eq!(edit.request_uri(), b"");
    edit.pop_first(HeaderName::Via);
    let mut out = Vec::new();
    assert_eq!(edit.write_into(&mut out), Ok(()));
    let expected = bytes.replace("Via: SIP/2.0/UDP a\r\n", "");
    assert_eq!(out, expected.replace("1 INVITE\r\n", "1 INVITE\r\nContent-Length: 0\r\n").into_bytes());
    let mut edit = Edit::new(&message, &mut space);
    edit.set_request_uri(b"sip:x");
    assert_eq!(edit.write_into(&mut out), Err(UnsafeText));
}

#[test]
fn a_datagram_without_content_length_gets_one() {
    let bytes = REQUEST.replace("Content-Length: 5\n", "").replace('\n', "\r\n").into_bytes();
    let message = Message::parse(&bytes, &Limits::default()).unwrap();
    let mut space = EditSpace::default();
    let mut edit = Edit::new(&message, &mut space);
    edit.push_last(HeaderName::Subject, put("s"));
    let mut out = Vec::new();
    assert_eq!(edit.write_into(&mut out), Ok(()));
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("\r\nSubject: s\r\nContent-Length: 5\r\n\r\nv=0\r\n"), "{text}");
}

#[test]
fn the_content_length_cannot_be_changed() {
    let bytes = request();
    let message = Message::parse(&bytes, &Limits::default()).unwrap();
    let changes: [fn(&mut Edit<'_, '_>); 5] = [
        |edit| edit.set_number(HeaderName::ContentLength, 4),
        |edit| edit.push_first(HeaderName::ContentLength, put("4")),
        |edit| edit.push_last(HeaderName::ContentLength, put("4")),
        |edit| edit.pop_first(HeaderName::ContentLength),
        |edit| edit.remove_lines(HeaderName::ContentLength, |_| true),
    ];
    for change in changes {
        let mut space = EditSpace::default();
        let mut edit = Edit::new(&message, &mut space);
        change(&mut edit);
        assert_eq!(edit.write_into(&mut Vec::new()), Err(UnsafeText));
    }
}

#[test]
fn writing_twice_writes_the_same() {
    let bytes = request();
    let message = Message::parse(&bytes, &Limits::default()).unwrap();
    let mut space = EditSpace::default();
    let mut edit = Edit::new(&message, &mut space);
    edit.push_first(HeaderName::Via, put("SIP/2.0/UDP p"));
    edit.pop_last(HeaderName::Route);
    let (mut one, mut two) = (Vec::new(), Vec::new());
    assert_eq!((edit.write_into(&mut one), edit.write_into(&mut two)), (Ok(()), Ok(())));
    assert_eq!(one, two);
    edit.push_first(HeaderName::Via, put("SIP/2.0/UDP q"));
    two.clear();
    assert_eq!(edit.write_into(&mut two), Ok(()));
    assert_ne!(one, two);
}

#[test]
fn an_edit_of_unknown_lines_leaves_them_byte_for_byte() {
    let text = edited(|edit| {
        edit.pop_first(HeaderName::Via);
        edit.push_first(HeaderName::Via, put("SIP/2.0/UDP p"));
        edit.set_number(HeaderName::MaxForwards, 69);
        edit.remove_lines(HeaderName::ProxyAuthorization, |_| true);
        edit.set_request_uri(b"sip:elsewhere");
    });
    assert!(text.contains("\nX-Odd  :  kept   as it   is\t\n"));
    assert!(text.contains("\nX-Odd: folded\n  twice\n\tand with a tab\n"));
    assert!(text.ends_with("\nContent-Length: 5\n\nv=0\n"));
}

/// Random changes, from a seed: after each sequence what was seen is what a reader of the written bytes sees, and the
/// lines that no change was about are still there, byte for byte.
#[test]
fn any_changes_in_any_order_are_seen_as_they_are_written() {
    const SEEDS: u64 = 3000;
    for seed in 0..SEEDS {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 33) as usize % below
        };
        let steps = next(12);
        let out = edited_bytes(&request(), |edit| {
            for _ in 0..steps {
                let name = NAMES[next(NAMES.len() - 1)];
                let texts =
                    ["<sip:new>", "<sip:one>, <sip:two>;x=\",\"", "5", "SIP/2.0/UDP z, SIP/2.0/TCP y;a"];
                let text = texts[next(texts.len())];
                match next(8) {
                    0 | 1 => edit.push_first(name, put(text)),
                    2 => edit.push_last(name, put(text)),
                    3 => edit.pop_first(name),
                    4 => edit.pop_last(name),
                    5 => edit.set(name, put(text)),
                    6 => {
                        let odd = next(2) == 0;
                        edit.remove_lines(name, |value| (value.len() % 2 == 1) == odd);
                    }
                    _ => edit.stamp_via("192.0.2.1:9".parse().unwrap()),
                }
            }
        });
        for kept in ["X-Odd  :  kept   as it   is\t\r\n", "X-Odd: folded\r\n  twice\r\n\tand with a tab\r\n"]
        {
            assert!(memchr::memmem::find(&out, kept.as_bytes()).is_some(), "seed {seed}");
        }
        assert!(out.ends_with(b"\r\n\r\nv=0\r\n"), "seed {seed}");
    }
}
