//! Reading allocates nothing, whatever is read; forwarding allocates nothing once its buffers have grown.

use ringway_sip::{
    Contact, Contacts, Edit, EditSpace, HeaderName, Limits, Message, NameAddr, StreamFramer, Uri, Via, digest,
};

const REGISTER: &str = "REGISTER sip:example.org SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:30000;branch=z9hG4bKn0123456789ab;rport
Max-Forwards: 70
From: \"A, B\" <sip:u0000001@example.org>;tag=r0000001
To: <sip:u0000001@example.org>
Call-ID: reg-u0000001-3f1c94ab@127.0.0.1
CSeq: 1000001 REGISTER
Contact: <sip:u0000001@127.0.0.1:30000>;q=0.5, <sip:u%30@[2001:db8::1]>;expires=60
Authorization: Digest username=\"u\", realm=\"r\", nonce=\"n\", uri=\"sip:example.org\", response=\"0\"
Expires: 3600
Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, NOTIFY, REFER, UPDATE, PRACK
Content-Length: 0

";

const INVITE: &str = "INVITE sip:u0000002@example.org SIP/2.0
Via: SIP/2.0/UDP 127.0.0.1:30000;branch=z9hG4bKi0123456789ab;rport
Max-Forwards: 70
Route: <sip:p1.example.org;lr>, <sip:p2.example.org;lr>
From: <sip:u0000001@example.org>;tag=a0123456789ab
To: <sip:u0000002@example.org>
Call-ID: 0123456789ab@127.0.0.1
CSeq: 1000001 INVITE
Contact: <sip:u0000001@127.0.0.1:30000>
X-Unknown: folded
 value
Content-Type: application/sdp
Content-Length: 5

v=0
";

/// Number of allocations of `work`.
fn allocations(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).count_total
}

fn read(bytes: &[u8]) {
    let message = Message::parse(bytes, &Limits::default()).unwrap();
    let tags = (message.from().tag(), message.to().tag());
    assert!(tags.0.is_some() && message.via().wants_rport());
    for via in message.values(HeaderName::Via) {
        Via::parse(via).unwrap();
    }
    for route in message.values(HeaderName::Route) {
        assert!(NameAddr::parse(route).unwrap().uri.is_loose_router());
    }
    for contact in message.values(HeaderName::Contact) {
        let uri = Contact::parse(contact).unwrap().address.uri;
        assert!(uri.equals(&Uri::parse(uri.as_bytes()).unwrap()) && uri.host().ip().is_some());
    }
    assert!(matches!(Contacts::of(&message), Ok(Contacts::List(_))));
    for value in message.lines_of(HeaderName::Authorization) {
        assert!(digest::Credentials::parse(value).unwrap().is_some());
    }
    assert!(message.named(b"X-Unknown").is_some() || message.has(HeaderName::Expires));
}

#[test]
fn reading_allocates_nothing() {
    for text in [REGISTER, INVITE] {
        let bytes = text.replace('\n', "\r\n").into_bytes();
        assert_eq!(allocations(|| read(&bytes)), 0);
    }
}

#[test]
fn rejecting_allocates_nothing() {
    for text in [REGISTER, INVITE] {
        let bytes = text.replace('\n', "\r\n").into_bytes();
        let count = allocations(|| {
            for len in 0..bytes.len() - 5 {
                assert!(Message::parse(&bytes[..len], &Limits::default()).is_err());
            }
        });
        assert_eq!(count, 0);
    }
}

#[test]
fn forwarding_allocates_nothing_the_second_time() {
    let bytes = INVITE.replace('\n', "\r\n").into_bytes();
    let mut space = EditSpace::default();
    let mut out = Vec::new();
    let mut forward = || {
        out.clear();
        let message = Message::parse(&bytes, &Limits::default()).unwrap();
        let mut edit = Edit::new(&message, &mut space);
        edit.set_request_uri(b"sip:u0000002@192.0.2.1:5060");
        edit.stamp_via("192.0.2.2:5060".parse().unwrap());
        edit.push_first(HeaderName::Via, |out| out.extend_from_slice(b"SIP/2.0/UDP p;branch=z9hG4bK1"));
        edit.push_first(HeaderName::RecordRoute, |out| out.extend_from_slice(b"<sip:p;lr>"));
        edit.pop_first(HeaderName::Route);
        edit.set_number(HeaderName::MaxForwards, 69);
        edit.write_into(&mut out).unwrap();
    };
    assert!(allocations(&mut forward) > 0, "the counter counts");
    assert_eq!(allocations(&mut forward), 0);
}

#[test]
fn a_stream_that_is_kept_up_with_allocates_nothing() {
    let bytes = INVITE.replace('\n', "\r\n").into_bytes();
    let mut framer = StreamFramer::new(65_535);
    let mut feed = || {
        for piece in bytes.chunks(100) {
            framer.push(piece);
            if let Some(message) = framer.next_message().unwrap() {
                assert_eq!(message, bytes);
            }
        }
    };
    assert!(allocations(&mut feed) > 0);
    assert_eq!(allocations(&mut feed), 0);
}
