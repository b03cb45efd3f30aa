//! Tests with RFC 4475 §3.1.2: invalid messages. Each gets the status code of the RFC, or is dropped where the RFC says
//! so.

use crate::harness::{BOB, World, forwarded, only};
use crate::torture;
use crate::torture_valid::{TESTER, is_the_same, world};
use ringway_sansio::{Framer, FramingError};
use ringway_server::SipFramer;

/// Asserts that the message gets `status` and is not forwarded, and that the server still works.
#[track_caller]
fn is_refused(message: &[u8], status: u16) {
    let mut world = occupied();
    let answer = only(world.udp(TESTER, &message));
    assert_eq!(answer.status(), status, "{}", answer.text());
    assert!(answer.flow.remote.ip().to_string() == "203.0.113.9", "to where it came from: {}", answer.to());
    assert_eq!(world.server.counters().forwarded, 0);
    assert_eq!(world.server.location().bindings_len(), 1, "nothing was registered");
    assert_eq!(world.server.transactions_len(), (0, 0), "nothing is kept of it");
    world.still_answers();
}

/// Asserts that the message only increases a counter.
#[track_caller]
fn is_dropped(message: &[u8]) {
    let mut world = occupied();
    assert!(world.udp(TESTER, &message).is_empty());
    assert_eq!(world.server.transactions_len(), (0, 0));
    world.still_answers();
}

/// Server at which the user of most messages is registered: a message that is not refused would be forwarded.
fn occupied() -> World {
    let mut world = world();
    world.server.set_permanent_contacts(b"user@example.com", &[b"sip:bob@192.0.2.20"]);
    world
}

/// Number of frames in these bytes on a stream, and the end of framing.
fn framed(bytes: &[u8]) -> (usize, Result<bool, FramingError>) {
    let mut framer = SipFramer::new(65_535);
    framer.push(bytes);
    let mut frames = 0;
    loop {
        match framer.next_frame() {
            Ok(Some(_)) => frames += 1,
            Ok(None) => return (frames, Ok(framer.is_partial())),
            Err(error) => return (frames, Err(error)),
        }
    }
}

#[test]
fn badinv01_with_stray_separators_is_400() {
    is_refused(torture!("badinv01"), 400);
}

#[test]
fn clerr_with_a_body_too_short_is_400() {
    is_refused(torture!("clerr"), 400);
}

#[test]
fn clerr_on_a_stream_waits_for_the_rest() {
    assert_eq!(framed(torture!("clerr")), (0, Ok(true)), "partial: the driver closes it after a timeout");
}

#[test]
fn ncl_with_a_negative_length_is_400() {
    is_refused(torture!("ncl"), 400);
}

#[test]
fn ncl_on_a_stream_closes_it() {
    let (frames, end) = framed(torture!("ncl"));
    assert!(frames == 0 && end.is_err());
}

#[test]
fn scalar02_with_numbers_too_large_is_400() {
    is_refused(torture!("scalar02"), 400);
}

#[test]
fn scalarlg_is_a_response_that_is_dropped() {
    is_dropped(torture!("scalarlg"));
}

#[test]
fn quotbal_with_an_open_quote_is_400() {
    is_refused(torture!("quotbal"), 400);
}

#[test]
fn ltgtruri_with_brackets_around_its_uri_is_400() {
    is_refused(torture!("ltgtruri"), 400);
}

#[test]
fn lwsruri_with_white_space_in_its_uri_is_400() {
    is_refused(torture!("lwsruri"), 400);
}

#[test]
fn lwsstart_with_too_many_spaces_is_400() {
    is_refused(torture!("lwsstart"), 400);
}

#[test]
fn trws_with_spaces_behind_its_first_line_is_400() {
    is_refused(torture!("trws"), 400);
}

#[test]
fn escruri_with_headers_in_its_uri_is_400() {
    let mut world = occupied();
    let answer = only(world.udp(TESTER, &torture!("escruri")));
    assert_eq!(answer.status(), 400);
    assert!(answer.headers("Route").is_empty());
    assert_eq!(world.server.counters().forwarded, 0);
    world.still_answers();
}

#[test]
fn baddate_is_forwarded_because_the_date_is_not_read() {
    let mut world = occupied();
    let request = forwarded(world.udp(TESTER, &torture!("baddate")));
    assert_eq!(request.to(), BOB);
    is_the_same(torture!("baddate"), &request);
    assert_eq!(request.header("Date"), "Fri, 01 Jan 2010 16:00:00 EST");
    world.still_answers();
}

#[test]
fn regbadct_with_headers_in_a_bare_contact_is_400() {
    is_refused(torture!("regbadct"), 400);
}

#[test]
fn badaspec_with_spaces_in_an_address_is_400() {
    is_refused(torture!("badaspec"), 400);
}

#[test]
fn baddn_with_a_display_name_that_needs_quotes_is_400() {
    is_refused(torture!("baddn"), 400);
    // In the archive its header is incomplete, which would be another reason.
    is_refused(&[torture!("baddn"), b"\r\n"].concat(), 400);
}

#[test]
fn badvers_of_sip_7_is_505() {
    is_refused(torture!("badvers"), 505);
}

#[test]
fn mismatch01_with_two_methods_is_400() {
    is_refused(torture!("mismatch01"), 400);
}

#[test]
fn mismatch02_with_an_unknown_method_is_400() {
    is_refused(torture!("mismatch02"), 400);
}

#[test]
fn bigcode_is_a_response_that_is_dropped() {
    is_dropped(torture!("bigcode"));
}

#[test]
fn test_dat_of_the_archive_is_dropped() {
    is_dropped(torture!("test"));
}

/// On a stream each message is exactly one frame, except for those with an invalid Content-Length.
#[test]
fn every_message_on_a_stream_is_framed_or_closes_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rfc4475");
    let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "dat"));
    assert_eq!(files.len(), 50);
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let (frames, end) = framed(&bytes);
        match name {
            // Incomplete, by its length or because the header has no end: the driver closes the connection after a
            // timeout.
            "clerr" | "baddn" => assert_eq!((frames, end), (0, Ok(true)), "{name}"),
            // Negative, duplicated or missing Content-Length, which RFC 3261 §20.14 allows for datagrams only; and no
            // header at all.
            "ncl" | "mcl01" | "inv2543" | "test" => assert!(frames == 0 && end.is_err(), "{name}"),
            // The second message is longer than its Content-Length: the rest is not a message.
            "dblreq" => assert!(frames == 2 && end.is_err()),
            _ => assert_eq!((frames, end), (1, Ok(false)), "{name}"),
        }
        is_survived_on_a_stream(&bytes);
    }
}

fn is_survived_on_a_stream(bytes: &[u8]) {
    let mut world = world();
    let mut framer = SipFramer::new(65_535);
    framer.push(bytes);
    while let Ok(Some(frame)) = framer.next_frame() {
        let frame = frame.to_vec();
        for sent in world.tcp(7, TESTER, &frame).iter().filter(|sent| sent.status() != 0) {
            assert!(sent.flow.connection.is_some(), "answers go back by the connection");
        }
    }
    world.still_answers();
}
