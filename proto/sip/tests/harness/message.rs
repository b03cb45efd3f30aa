//! A message: whatever is accepted can be read in every part, is forwarded as it came, and can be answered.

use ringway_sip::{
    Contact, Contacts, Edit, EditSpace, Fields, HeaderName, Limits, Message, MessageWriter, NameAddr, Reason,
    Rejected, Uri, Via, digest, peek_header, peek_last_header,
};

/// Reads `data` as a datagram.
pub(crate) fn run(data: &[u8]) {
    let strict = Limits { message_bytes_max: 1000, headers_max: 9, request_uri_bytes_max: 40 };
    if let Err(rejected) = Message::parse(data, &strict) {
        has_a_reason(&rejected);
    }
    match Message::parse(data, &Limits::default()) {
        Ok(message) => {
            assert!(data.starts_with(message.as_bytes()), "no more than what came");
            reads(&message);
            reads_again_the_same(&message);
            is_forwarded_whole(&message);
            can_be_answered(&message);
        }
        Err(rejected) => {
            has_a_reason(&rejected);
            reads(&rejected.fields);
        }
    }
}

fn has_a_reason(rejected: &Rejected<'_>) {
    assert!((400..600).contains(&rejected.reason.status()));
    assert!(rejected.reason.index() < Reason::COUNT);
}

fn reads(fields: &Fields<'_>) {
    for field in fields.iter() {
        assert!(
            !field.name.is_empty()
                && HeaderName::from_bytes(field.name) as usize <= HeaderName::Other as usize
        );
        assert!(fields.named(field.name).is_some());
        let name = HeaderName::from_bytes(field.name);
        assert!(fields.has(name) && fields.lines_of(name).any(|value| value == field.value));
    }
    for name in [HeaderName::Via, HeaderName::Route, HeaderName::Contact, HeaderName::Authorization] {
        assert_eq!(fields.first(name), fields.lines_of(name).next());
        for value in fields.values(name) {
            if let Ok(via) = Via::parse(value) {
                let _ =
                    (via.rport(), via.received(), via.wants_rport(), via.has_unique_branch(), via.host.ip());
                assert_eq!(via.branch, via.params.value(b"branch"));
            }
            if let Ok(address) = NameAddr::parse(value) {
                assert!(address.tag() == address.params.value(b"tag"));
                assert_eq!(Uri::parse(address.uri.as_bytes()), Ok(address.uri), "read alone it is the same");
            }
            let _ = (Contact::parse(value), digest::Credentials::parse(value));
        }
    }
    let _ = Contacts::of(fields);
}

/// Forwarded as it came; a Content-Length is added where there was none.
fn is_forwarded_whole(message: &Message<'_>) {
    let mut out = Vec::new();
    let mut space = EditSpace::default();
    assert!(Edit::new(message, &mut space).write_into(&mut out).is_ok());
    if message.has(HeaderName::ContentLength) {
        assert_eq!(out, message.as_bytes(), "forwarded as it came");
        return;
    }
    let line = format!("Content-Length: {}\r\n", message.body().len());
    let header = message.as_bytes().len() - message.body().len() - 2;
    let (before, after) = message.as_bytes().split_at(header);
    assert_eq!(out, [before, line.as_bytes(), after].concat(), "with a Content-Length");
}

fn reads_again_the_same(message: &Message<'_>) {
    let again = match Message::parse(message.as_bytes(), &Limits::default()) {
        Ok(again) => again,
        Err(rejected) => panic!("accepted with more behind it, rejected without: {}", rejected.reason),
    };
    assert_eq!(again.start(), message.start());
    assert_eq!(
        (again.call_id(), again.cseq(), again.body()),
        (message.call_id(), message.cseq(), message.body())
    );
    let vias: Vec<_> = message.values(HeaderName::Via).collect();
    assert_eq!(
        vias.first().map(|first| Via::parse(first)),
        Some(Ok(*message.via())),
        "read with the rest of its line"
    );
    assert_eq!(message.has_one_via(), vias.len() == 1);
    for name in [HeaderName::Via, HeaderName::To, HeaderName::CallId, HeaderName::CSeq, HeaderName::Route] {
        assert_eq!(
            peek_header(message.as_bytes(), name),
            message.first(name),
            "the peek sees the same {name:?}"
        );
        assert_eq!(peek_last_header(message.as_bytes(), name), message.values(name).last());
    }
}

fn can_be_answered(message: &Message<'_>) {
    if message.iter().count() >= Limits::HEADERS_CEILING || message.as_bytes().len() > 60_000 {
        return;
    }
    let source = ([192, 0, 2, 1], 5060).into();
    let mut out = Vec::new();
    assert!(
        MessageWriter::response(&mut out, message, 200, "OK", Some(source), Some(b"new")).finish().is_ok()
    );
    let mut answer = Vec::new();
    assert!(MessageWriter::answer(&mut answer, message, 200, "OK", source, Some(b"new")).finish().is_ok());
    if message.lines_of(HeaderName::Timestamp).count() < 2 {
        assert_eq!(answer, out, "the short way writes the same");
    }
    let response = match Message::parse(&out, &Limits::default()) {
        Ok(response) => response,
        Err(rejected) => panic!("the response is bad: {}", rejected.reason),
    };
    assert!(response.is_response());
    assert_eq!((response.call_id(), response.cseq()), (message.call_id(), message.cseq()));
    assert_eq!(response.from(), message.from());
    assert_eq!(
        response.to().tag(),
        message.to().tag().or(Some(b"new")),
        "a tag of its own, or the one there was"
    );
    assert_eq!(response.to().uri, message.to().uri);
    let (ours, theirs) = (response.via(), message.via());
    assert_eq!((ours.transport, ours.host, ours.port), (theirs.transport, theirs.host, theirs.port));
    assert_eq!(ours.branch, theirs.branch);
    assert_eq!(response.values(HeaderName::Via).count(), message.values(HeaderName::Via).count());
}
