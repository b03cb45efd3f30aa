//! Edits: what the edit says it will send is what a reader of the sent bytes reads, and nothing else has changed.

use ringway_sip::{Edit, EditSpace, Fields, HeaderName, Limits, Message, Reason, StreamFramer};

/// The input is a list of changes, each an operation, a name and a text with its length, then a zero, then a message.
pub(crate) fn run(data: &[u8]) {
    let (changes, message) = split(data);
    let Ok(message) = Message::parse(message, &Limits::default()) else { return };
    let mut space = EditSpace::default();
    let mut edit = Edit::new(&message, &mut space);
    let mut must_be_refused = false;
    for change in &changes {
        must_be_refused |= apply(&mut edit, change, message.is_response());
    }
    let seen: Vec<Vec<Vec<u8>>> =
        NAMES.iter().map(|&name| edit.values(name).map(<[u8]>::to_vec).collect()).collect();
    let request_uri = edit.request_uri().to_vec();
    let mut out = b"kept".to_vec();
    let written = edit.write_into(&mut out);
    assert_eq!(written.is_err(), must_be_refused);
    if must_be_refused {
        assert_eq!(out, b"kept");
        return;
    }
    is_one_message_of_a_stream(&out[4..]);
    sent_as_seen(&out[4..], &message, &seen, &request_uri, &changes);
}

struct Change<'a> {
    operation: u8,
    name: HeaderName,
    text: &'a [u8],
}

fn split(mut data: &[u8]) -> (Vec<Change<'_>>, &[u8]) {
    let mut changes = Vec::new();
    while let [operation, name, len, rest @ ..] = data
        && *operation != 0
        && changes.len() < CHANGES_MAX
    {
        let len = usize::from(*len).min(rest.len());
        let (text, after) = rest.split_at(len);
        changes.push(Change { operation: *operation, name: NAMES[usize::from(*name) % NAMES.len()], text });
        data = after;
    }
    (changes, data.strip_prefix(&[0]).unwrap_or(data))
}

/// Applies a change; true when writing has to be refused for it.
fn apply(edit: &mut Edit<'_, '_>, change: &Change<'_>, is_response: bool) -> bool {
    let Change { operation, name, text } = *change;
    let write = |out: &mut Vec<u8>| out.extend_from_slice(text);
    match operation % 8 {
        0 => edit.push_first(name, write),
        1 => edit.push_last(name, write),
        2 => edit.set(name, write),
        3 => {
            edit.pop_first(name);
            return false;
        }
        4 => {
            edit.pop_last(name);
            return false;
        }
        5 => {
            edit.remove_lines(name, |value| value.len() % 2 == text.len() % 2);
            return false;
        }
        6 => {
            edit.stamp_via(([192, 0, 2, 1], u16::from(operation)).into());
            return false;
        }
        _ => {
            edit.set_request_uri(text);
            return is_response || text.is_empty() || text.iter().any(|&byte| byte <= b' ' || byte == 127);
        }
    }
    breaks_out(text)
}

/// True for NUL and for a line break that is no fold.
fn breaks_out(text: &[u8]) -> bool {
    let mut folded = text.to_vec();
    while let Some(at) = folded.windows(3).position(|three| matches!(three, b"\r\n " | b"\r\n\t")) {
        folded.drain(at..at + 2);
    }
    folded.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// RFC 3261 §18.3: on a stream the written bytes are exactly one message, whatever follows them.
fn is_one_message_of_a_stream(out: &[u8]) {
    let mut framer = StreamFramer::new(usize::MAX);
    framer.push(out);
    framer.push(b"BYE sip:next SIP/2.0\r\n");
    match framer.next_message() {
        Ok(cut) => assert_eq!(cut, Some(out)),
        Err(error) => panic!("{}", error.as_str()),
    }
}

fn sent_as_seen(
    out: &[u8],
    message: &Message<'_>,
    seen: &[Vec<Vec<u8>>],
    request_uri: &[u8],
    changes: &[Change<'_>],
) {
    let limits = Limits { request_uri_bytes_max: usize::MAX, ..Limits::default() };
    let fields = match Message::parse(out, &limits) {
        Ok(sent) => {
            assert_eq!(sent.body(), message.body());
            Fields::clone(&sent)
        }
        Err(rejected) if matches!(rejected.reason, Reason::TooManyHeaders | Reason::MessageTooLarge) => {
            return;
        }
        Err(rejected) => {
            let reason = rejected.reason;
            assert!(!matches!(reason, Reason::HeaderLine | Reason::ContentLength), "{reason}");
            rejected.fields
        }
    };
    for (&name, values) in NAMES.iter().zip(seen) {
        let written: Vec<_> = fields.values(name).collect();
        assert_eq!(written, *values, "{name:?} as it was seen");
        if changes.iter().all(|change| change.name != name && change.operation % 8 != 6) {
            assert_eq!(written, message.values(name).collect::<Vec<_>>(), "{name:?} as it came");
        }
    }
    let unknown = |fields: &Fields<'_>| -> Vec<(Vec<u8>, Vec<u8>)> {
        let others = fields.iter().filter(|field| !NAMES.contains(&HeaderName::from_bytes(field.name)));
        others.map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
    };
    assert_eq!(unknown(&fields), unknown(message), "lines that no change was about");
    if !message.is_response() {
        let line = &out[..out.iter().position(|&byte| byte == b'\r').unwrap_or_default()];
        assert_eq!(line.split(|&byte| byte == b' ').nth(1), Some(request_uri));
    }
}

const CHANGES_MAX: usize = 24;

const NAMES: [HeaderName; 8] = [
    HeaderName::Via,
    HeaderName::Route,
    HeaderName::RecordRoute,
    HeaderName::MaxForwards,
    HeaderName::Contact,
    HeaderName::Authorization,
    HeaderName::From,
    HeaderName::Subject,
];
