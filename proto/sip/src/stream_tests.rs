//! Cutting streams: any way of splitting the bytes gives the same messages, and what is ambiguous ends the stream.

use super::*;
use alloc::format;
use alloc::string::String;
use alloc::vec;

const MAX: usize = 4096;

fn crlf(text: &str) -> Vec<u8> {
    text.replace('\n', "\r\n").into_bytes()
}

fn message(lengths: &str, body: &str) -> Vec<u8> {
    let header = format!("MESSAGE sip:bob@example.com SIP/2.0\nCall-ID: a\n{lengths}To: <sip:b@c>\n\n");
    [&crlf(&header)[..], body.as_bytes()].concat()
}

fn with_length(body: &str) -> Vec<u8> {
    message(&format!("Content-Length: {}\n", body.len()), body)
}

type Cut = (Vec<Vec<u8>>, Option<StreamError>);

/// All messages of `bytes`, pushed in pieces of the lengths of `pieces` (the last again and again).
fn cut(bytes: &[u8], pieces: &[usize], max: usize) -> Cut {
    let mut framer = StreamFramer::new(max);
    let mut messages = Vec::new();
    let mut rest = bytes;
    let mut piece = 0;
    while !rest.is_empty() {
        let len = pieces[piece.min(pieces.len() - 1)].clamp(1, rest.len());
        piece += 1;
        framer.push(&rest[..len]);
        rest = &rest[len..];
        loop {
            match framer.next_message() {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(framer.next_message(), Err(error), "an ended stream stays ended");
                    return (messages, Some(error));
                }
            }
        }
    }
    (messages, None)
}

#[track_caller]
fn every_split_agrees(bytes: &[u8]) -> Cut {
    let whole = cut(bytes, &[bytes.len()], MAX);
    for len in 1..bytes.len() {
        assert_eq!(cut(bytes, &[len], MAX), whole, "pieces of {len}");
        assert_eq!(cut(bytes, &[len, bytes.len()], MAX), whole, "split at {len}");
        assert_eq!(cut(bytes, &[len, 1, bytes.len()], MAX), whole, "split at {len} and behind");
    }
    whole
}

#[test]
fn any_split_of_good_messages_gives_them_back() {
    let messages = [
        with_length(""),
        with_length("hello"),
        with_length("\r\n\r\nSIP/2.0 200 OK\r\n\r\n"),
        with_length("x"),
    ];
    let (cut, error) = every_split_agrees(&messages.concat());
    assert_eq!(error, None);
    assert_eq!(cut, messages);
}

#[test]
fn any_split_with_keep_alives_gives_the_same_messages() {
    let one = with_length("a\r\n");
    let bytes = [b"\r\n\r\n\r\n", &one[..], b"\r\n\r\n", &one, b"\r\n", &one, b"\r\n\r\n\r\n\r\n\r"].concat();
    let (cut, error) = every_split_agrees(&bytes);
    assert_eq!(error, None);
    assert_eq!(cut, [one.clone(), one.clone(), one]);
}

#[test]
fn any_split_of_a_stray_carriage_return_ends_alike() {
    let one = with_length("");
    for stray in [&b"\r"[..], b"\r\r\n", b"\n", b"\r\r\n\r\n", b"\n\r\n\r\n", b"\r\n\r", b" \r\n"] {
        let (messages, _) = every_split_agrees(&[&one, stray, &one].concat());
        assert_eq!(messages[0], one, "{stray:?}");
    }
}

/// Each kind of wrong Content-Length ends the stream (RFC 3261 §18.3, §20.14).
#[test]
fn eleven_bad_content_lengths_end_the_stream() {
    for lengths in [
        "",
        "Content-Length:\n",
        "Content-Length: -5\n",
        "Content-Length: +5\n",
        "Content-Length: 5 5\n",
        "Content-Length: 5, 5\n",
        "Content-Length: 0x5\n",
        "Content-Length: 4294967296\n",
        "Content-Length: 18446744073709551616\n",
        "Content-Length: 5\nContent-Length: 6\n",
        "Content-Length: 5\nl: 6\n",
        // And more of the same kinds.
        "l: 6\nContent-Length: 5\n",
        "Content-Length: five\n",
        "Content-Length: 5\nContent-Length: x\nContent-Length: 5\n",
        "Content-Length: x\nContent-Length: 5\n",
        "Content-Length: 4294967301\n",
        "Content-Length: 5\n 0\n",
        "Content-Length: 5.0\n",
        "Content-Length: 5;a=b\n",
        "Content-Length: \"5\"\n",
    ] {
        let bytes = [with_length("good"), message(lengths, "hello"), with_length("")].concat();
        let (messages, error) = every_split_agrees(&bytes);
        assert_eq!(error, Some(StreamError::ContentLength), "{lengths:?}");
        assert_eq!(messages, [with_length("good")], "{lengths:?}");
    }
}

#[test]
fn odd_but_clear_content_lengths_do_not() {
    for lengths in [
        "Content-Length: 5\nContent-Length: 5\n",
        "Content-Length: 5\nl: 5\n",
        "l:5\n",
        "CONTENT-LENGTH \t:\t005 \n",
        "Content-Length:\n 5\n \n",
        "Content-Length: 5\nContent-Length: 05\n",
    ] {
        let bytes = [message(lengths, "hello"), with_length("")].concat();
        let (messages, error) = every_split_agrees(&bytes);
        assert_eq!((messages.len(), error), (2, None), "{lengths:?}");
        assert_eq!(messages[0], message(lengths, "hello"));
    }
}

#[test]
fn a_content_length_that_is_not_read_does_not_count() {
    // A fold of another header, and a name that only looks alike.
    for lengths in ["X: y\n Content-Length: 9\n", "Content-Length-: 9\n", "X-l: 9\n"] {
        let bytes = message(&format!("{lengths}Content-Length: 5\n"), "hello");
        let (messages, error) = every_split_agrees(&bytes);
        assert_eq!((messages, error), (vec![bytes], None));
    }
}

#[test]
fn header_lines_that_cannot_be_read_end_the_stream() {
    for line in [
        "nonsense\n",
        " fold of nothing\n",
        "Content-Length\n : 5\n",
        "Content-Length: 5\rX: y\n",
        "X: y\rContent-Length: 5\n",
        ": 5\n",
        "Content Length: 5\n",
    ] {
        let text = format!("MESSAGE sip:bob@example.com SIP/2.0\n{line}Content-Length: 5\n\nhello");
        let (messages, error) = every_split_agrees(&crlf(&text));
        assert_eq!((messages.len(), error), (0, Some(StreamError::HeaderLine)), "{line:?}");
    }
    // A line that ends with a bare LF could end the header for one reader and not for another.
    let text = b"MESSAGE sip:bob@example.com SIP/2.0\r\nContent-Length: 5\n\nContent-Length: 0\r\n\r\n";
    assert_eq!(every_split_agrees(text).1, Some(StreamError::HeaderLine));
    let text = b"MESSAGE sip:bob@example.com SIP/2.0\r\nX: y\nContent-Length: 0\r\n\r\n";
    assert_eq!(every_split_agrees(text).1, Some(StreamError::HeaderLine));
}

#[test]
fn the_size_limit_is_on_the_whole_message() {
    let bytes = with_length("hello");
    assert_eq!(cut(&bytes, &[bytes.len()], bytes.len()), (vec![bytes.clone()], None));
    for pieces in [&[bytes.len()][..], &[1], &[7, 1000]] {
        let (messages, error) = cut(&bytes, pieces, bytes.len() - 1);
        assert_eq!((messages.len(), error), (0, Some(StreamError::TooLarge)));
    }
    // A length that is only declared is refused before the bytes come, and nothing is allocated for it.
    let mut framer = StreamFramer::new(MAX);
    framer.push(&message("Content-Length: 4294967295\n", ""));
    assert_eq!(framer.next_message(), Err(StreamError::TooLarge));
    assert!(framer.bytes.capacity() < MAX);
}

#[test]
fn a_header_without_end_is_cut_off_at_the_limit() {
    let endless = String::from("X: yyyyyyyyyyyyyyyy\n").repeat(MAX / 16);
    let bytes = crlf(&format!("MESSAGE sip:bob@example.com SIP/2.0\n{endless}"));
    for pieces in [&[bytes.len()][..], &[1], &[1000]] {
        assert_eq!(cut(&bytes, pieces, MAX), (vec![], Some(StreamError::TooLarge)));
    }
    let one_line = vec![b'x'; MAX + 1];
    assert_eq!(cut(&one_line, &[100], MAX), (vec![], Some(StreamError::TooLarge)));
    assert_eq!(cut(&one_line[..MAX], &[100], MAX), (vec![], None));
}

#[test]
fn pings_are_two_line_breaks_between_messages() {
    let mut framer = StreamFramer::new(MAX);
    let mut pongs = |bytes: &[u8]| {
        framer.push(bytes);
        while framer.next_message().unwrap().is_some() {}
        (framer.take_pongs(), framer.is_partial())
    };
    assert_eq!(pongs(b""), (0, false));
    assert_eq!(pongs(b"\r\n"), (0, false));
    assert_eq!(pongs(b"\r\n"), (1, false), "a ping in two pieces");
    assert_eq!(pongs(b"\r\n\r\n\r\n\r\n"), (2, false));
    assert_eq!(pongs(b"\r"), (0, false));
    assert_eq!(pongs(b"\n\r"), (0, false));
    assert_eq!(pongs(b"\n"), (1, false));
    assert_eq!(pongs(b"\r\n"), (0, false));
    assert_eq!(pongs(&with_length("")), (0, false));
    assert_eq!(pongs(b"\r\n"), (0, false), "half a ping does not outlive a message");
    assert_eq!(pongs(b"\r\n"), (1, false));
    assert_eq!(pongs(&with_length("body\r\n\r\n")), (0, false), "a body is no ping");
    assert_eq!(pongs(b"MESS"), (0, true));
    assert_eq!(pongs(b"AGE sip:bob@example.com SIP/2.0\r\nl: 4\r\n\r\n\r\n\r"), (0, true));
    assert_eq!(pongs(b"\n\r\n"), (0, false));
    assert_eq!(pongs(b"\r\n"), (1, false));
    // A flood of pings gets a bounded number of pongs.
    assert_eq!(pongs(&b"\r\n".repeat(1000)), (PONGS_MAX, false));
}

#[test]
fn memory_follows_what_is_held() {
    let mut framer = StreamFramer::new(65_535);
    let large = with_length(&"x".repeat(60_000));
    for _ in 0..3 {
        framer.push(&large);
        assert_eq!(framer.next_message(), Ok(Some(&large[..])));
    }
    assert_eq!(framer.next_message(), Ok(None));
    assert!(framer.held_bytes() <= KEEP_BYTES_MAX, "{}", framer.held_bytes());
    framer.push(&[&large[..], b"INVITE"].concat());
    assert_eq!(framer.next_message(), Ok(Some(&large[..])));
    assert_eq!(framer.next_message(), Ok(None));
    assert!(framer.is_partial());
    assert!(framer.held_bytes() <= KEEP_BYTES_MAX, "{}", framer.held_bytes());
    framer.push(&large[..50_000]);
    assert_eq!(framer.next_message(), Ok(None));
    assert!(framer.held_bytes() >= 50_000);
}

#[test]
fn errors_are_reported_in_words() {
    for error in [StreamError::HeaderLine, StreamError::ContentLength, StreamError::TooLarge] {
        assert!(!error.as_str().is_empty());
    }
}

/// Messages with the boundaries of `parts`, each pushed in pieces of `size` bytes.
fn bounded(parts: &[&[u8]], size: usize) -> (Cut, usize) {
    let mut framer = StreamFramer::new(MAX);
    let mut messages = Vec::new();
    for part in parts {
        framer.message_start();
        for piece in part.chunks(size) {
            framer.push(piece);
            while let Ok(Some(message)) = framer.next_message() {
                messages.push(message.to_vec());
            }
        }
        framer.message_end();
        loop {
            match framer.next_message() {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(framer.next_message(), Err(error), "an ended stream stays ended");
                    return ((messages, Some(error)), framer.take_pongs());
                }
            }
        }
        assert!(!framer.is_partial());
    }
    ((messages, None), framer.take_pongs())
}

/// RFC 7118 §5, §6.
#[test]
fn boundaries_of_the_transport_replace_content_length() {
    let (without, with) = (message("", ""), with_length("hello"));
    let wrong = message("Content-Length: 500\n", "hello");
    let padded = [b"\r\n\r\n", &without[..]].concat();
    let parts = [&without[..], b"\r\n\r\n", &with, b"", &wrong, b"\r\n", b"\r\n\r\n\r\n\r\n", &padded, b"x"];
    for size in 1..60 {
        let ((messages, error), pongs) = bounded(&parts, size);
        let expected = [&without[..], &with, &wrong, &without, b"x"];
        assert_eq!((messages, error, pongs), (expected.map(<[u8]>::to_vec).to_vec(), None, 3));
    }
}

#[test]
fn several_bounded_messages_are_kept_until_they_are_taken() {
    let mut framer = StreamFramer::new(MAX);
    for number in 0..5 {
        framer.message_start();
        framer.push(&message(&format!("X: {number}\n"), ""));
        framer.message_end();
        if number == 2 {
            assert_eq!(framer.next_message(), Ok(Some(&message("X: 0\n", "")[..])));
        }
    }
    framer.message_start();
    framer.push(b"partial");
    for number in 1..5 {
        assert_eq!(framer.next_message(), Ok(Some(&message(&format!("X: {number}\n"), "")[..])));
    }
    assert_eq!(framer.next_message(), Ok(None));
    assert!(framer.is_partial());
}

#[test]
fn a_bounded_message_over_the_limit_ends_the_stream() {
    let (fits, large) = (vec![b'x'; MAX], vec![b'x'; MAX + 1]);
    for size in [1, 1000, MAX + 1] {
        assert_eq!(bounded(&[&fits, &fits], size).0, (vec![fits.clone(), fits.clone()], None));
        assert_eq!(bounded(&[&fits, &large], size).0, (vec![fits.clone()], Some(StreamError::TooLarge)));
    }
}
