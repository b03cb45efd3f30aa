//! Regressions, each with the bytes that showed it. Every harness runs over these files too, in `corpus`.

use ringway_sip::{HeaderName, Limits, Message, Reason, StreamError, StreamFramer, Uri};

fn reason(bytes: &[u8]) -> Reason {
    match Message::parse(bytes, &Limits::default()) {
        Ok(message) => panic!("accepted: {:?}", message.start()),
        Err(rejected) => rejected.reason,
    }
}

/// A Via whose first branch has no value and whose second has one was read in two ways.
#[test]
fn bug_001_two_branches() {
    let bytes = include_bytes!("../../../../testdata/regress/bug-001.sip");
    assert_eq!(reason(bytes), Reason::Header(HeaderName::Via));
}

/// A URI with a parameter twice was not equal to itself in another spelling.
#[test]
fn bug_002_a_parameter_twice() {
    let text = include_str!("../../../../testdata/regress/bug-002.uri");
    let (one, two) = text.split_once('\n').unwrap();
    let (one, two) = (Uri::parse(one.as_bytes()).unwrap(), Uri::parse(two.as_bytes()).unwrap());
    assert!(one.equals(&two) && two.equals(&one));
}

/// A To whose tag has no value got a second tag in the response, and then had none.
#[test]
fn bug_003_a_tag_without_value() {
    let bytes = include_bytes!("../../../../testdata/regress/bug-003.sip");
    assert_eq!(reason(bytes), Reason::Header(HeaderName::To));
}

/// A carriage return before a message was skipped or ended the stream, depending on how the bytes were split.
#[test]
fn bug_004_a_stray_carriage_return() {
    let stream = &include_bytes!("../../../../testdata/regress/bug-004.stream")[2..];
    for len in 1..=stream.len() {
        let mut framer = StreamFramer::new(65_535);
        let mut ended = None;
        for piece in stream.chunks(len) {
            framer.push(piece);
            match framer.next_message() {
                Ok(None) => {}
                Ok(Some(message)) => panic!("pieces of {len}: {} bytes", message.len()),
                Err(error) => ended = Some(error),
            }
        }
        assert_eq!(ended, Some(StreamError::ContentLength), "pieces of {len}");
    }
}
