//! A stream: however the bytes are split, the same messages come out, and each is what the parser reads in it.

use ringway_sip::{Limits, Message, Reason, StreamError, StreamFramer};

/// The first two bytes say how the others are split.
pub(crate) fn run(data: &[u8]) {
    let [first, second, stream @ ..] = data else { return };
    let whole = cut(stream, &mut core::iter::repeat(usize::MAX));
    if stream.len() < 2000 {
        assert_eq!(cut(stream, &mut core::iter::repeat(1)), whole, "byte by byte");
    }
    let mut state = u32::from(*first) << 8 | u32::from(*second);
    let largest = 1 + usize::from(*second);
    let mut lengths = core::iter::from_fn(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some(1 + (state >> 16) as usize % largest)
    });
    assert_eq!(cut(stream, &mut lengths), whole, "in pieces of up to {largest}");
    for bytes in &whole.messages {
        reads_as_one(bytes);
    }
}

#[derive(Debug, PartialEq)]
struct Cut {
    messages: Vec<Vec<u8>>,
    error: Option<StreamError>,
    pongs: usize,
    is_partial: bool,
}

fn cut(mut rest: &[u8], lengths: &mut dyn Iterator<Item = usize>) -> Cut {
    let mut framer = StreamFramer::new(MESSAGE_BYTES_MAX);
    let mut messages = Vec::new();
    let mut error = None;
    while !rest.is_empty() && error.is_none() {
        let len = lengths.next().unwrap_or(1).min(rest.len());
        framer.push(&rest[..len]);
        rest = &rest[len..];
        loop {
            match framer.next_message() {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break,
                Err(found) => {
                    error = Some(found);
                    break;
                }
            }
        }
    }
    // Behind an error nothing is read any more, so what is left over depends on the pieces.
    let is_partial = error.is_none() && framer.is_partial();
    Cut { messages, error, pongs: framer.take_pongs(), is_partial }
}

/// Two readers of the same bytes must not disagree on where a message ends.
fn reads_as_one(bytes: &[u8]) {
    assert!(bytes.len() <= MESSAGE_BYTES_MAX);
    match Message::parse(bytes, &Limits::default()) {
        Ok(message) => assert_eq!(message.as_bytes(), bytes),
        Err(rejected) => assert!(
            !matches!(rejected.reason, Reason::ContentLength | Reason::HeaderLine | Reason::MessageTooLarge),
            "cut, but then {}",
            rejected.reason
        ),
    }
}

const MESSAGE_BYTES_MAX: usize = 4096;
