//! The torture messages of RFC 4475, each as a test of its own: what is accepted is read right to the last value, what is
//! rejected is rejected for the right reason.
//!
//! Tested: parsing, typed values, and that a forwarded message is the received one. Not tested: what a server answers
//! (that needs a server) and how a stream with these messages is cut.

use ringway_sip::{
    CSeq, Contact, Contacts, Edit, EditSpace, Fields, HeaderName, Limits, Message, Method, NameAddr, Reason,
    Scheme, Start, Uri, Via,
};

/// A message of `testdata/rfc4475` by its file name.
macro_rules! torture {
    ($file:literal) => {
        include_bytes!(concat!("../../../../testdata/rfc4475/", $file))
    };
}

/// Parses what must be accepted, and checks that it is forwarded as it came.
#[track_caller]
fn accepted(bytes: &[u8]) -> Message<'_> {
    match Message::parse(bytes, &Limits::default()) {
        Ok(message) => {
            let mut out = Vec::new();
            assert_eq!(Edit::new(&message, &mut EditSpace::default()).write_into(&mut out), Ok(()));
            if message.has(HeaderName::ContentLength) {
                assert_eq!(out, message.as_bytes(), "forwarded byte for byte");
            }
            message
        }
        Err(rejected) => panic!("rejected: {}", rejected.reason),
    }
}

/// Parses what must be rejected: why, and what could be read.
#[track_caller]
fn rejected(bytes: &[u8]) -> (Reason, Fields<'_>) {
    match Message::parse(bytes, &Limits::default()) {
        Ok(message) => panic!("accepted: {:?}", message.start()),
        Err(rejected) => (rejected.reason, rejected.fields),
    }
}

fn request_uri<'a>(message: &Message<'a>) -> Uri<'a> {
    match message.start() {
        Start::Request { uri, .. } => *uri,
        Start::Response { status, .. } => panic!("a response: {status}"),
    }
}

fn response<'a>(message: &Message<'a>) -> (u16, &'a [u8]) {
    match message.start() {
        Start::Response { status, reason } => (*status, reason),
        Start::Request { method, .. } => panic!("a request: {method:?}"),
    }
}

fn vias<'a>(fields: &Fields<'a>) -> Vec<Via<'a>> {
    fields.values(HeaderName::Via).map(|value| Via::parse(value).unwrap()).collect()
}

fn contacts<'a>(fields: &Fields<'a>) -> Vec<Contact<'a>> {
    fields.values(HeaderName::Contact).map(|value| Contact::parse(value).unwrap()).collect()
}

fn unescaped_user(uri: &Uri<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    uri.unescaped_user_into(&mut out);
    out
}

fn cseq<'a>(number: u32, method: Method<'a>) -> CSeq<'a> {
    CSeq { number, method }
}

/// A rejected message can still be answered along its Via.
#[track_caller]
fn can_be_answered(fields: &Fields<'_>) {
    assert!(fields.has(HeaderName::Via) && !fields.is_response());
}

// §3.1.1 Valid messages

#[test]
fn wsinv() {
    let message = accepted(torture!("wsinv.dat"));
    assert_eq!(message.method(), Method::Invite);
    let uri = request_uri(&message);
    assert_eq!(uri.as_bytes(), b"sip:vivekg@chair-dnrc.example.com;unknownparam");
    assert_eq!((uri.user(), uri.host().as_bytes()), (Some(&b"vivekg"[..]), &b"chair-dnrc.example.com"[..]));
    assert!(uri.params().has(b"unknownparam"));
    assert_eq!(message.to().uri.as_bytes(), b"sip:vivekg@chair-dnrc.example.com");
    assert_eq!(message.to().tag(), Some(&b"1918181833n"[..]));
    assert_eq!(message.from().display_name, br#""J Rosenberg \\\"""#);
    assert_eq!(message.from().uri.as_bytes(), b"sip:jdrosen@example.com");
    assert_eq!(message.from().tag(), Some(&b"98asjd8"[..]));
    assert_eq!(message.max_forwards(), Some(68));
    assert_eq!(message.call_id(), b"wsinv.ndaksdj@192.0.2.1");
    assert_eq!(message.cseq(), cseq(9, Method::Invite));
    let vias = vias(&message);
    let read: Vec<_> =
        vias.iter().map(|via| (via.transport, via.host.as_bytes(), via.branch.unwrap())).collect();
    assert_eq!(
        read,
        [
            (&b"UDP"[..], &b"192.0.2.2"[..], &b"390skdjuw"[..]),
            (b"TCP", b"spindle.example.com", b"z9hG4bK9ikj8"),
            (b"UDP", b"192.168.255.111", b"z9hG4bK30239"),
        ]
    );
    assert_eq!(*message.via(), vias[0]);
    assert_eq!(message.lines_of(HeaderName::Via).count(), 2);
    assert_eq!(message.first(HeaderName::Subject), Some(&b""[..]));
    assert_eq!(
        message.named(b"newfangledheader"),
        Some(&b"newfangled value\r\n continued newfangled value"[..])
    );
    assert_eq!(message.named(b"UnknownHeaderWithUnusualValue"), Some(&b";;,,;;,;"[..]));
    let route = NameAddr::parse(message.values(HeaderName::Route).next().unwrap()).unwrap();
    assert!(route.uri.is_loose_router());
    assert_eq!(route.uri.params().value(b"unknownwith"), Some(&b"value"[..]));
    assert!(route.uri.params().has(b"unknown-no-value"));
    let contacts = contacts(&message);
    assert_eq!(contacts.len(), 1);
    assert_eq!(contacts[0].address.display_name, br#""Quoted string \"\"""#);
    assert_eq!(contacts[0].address.uri.as_bytes(), b"sip:jdrosen@example.com");
    assert_eq!(contacts[0].address.params.value(b"newparam"), Some(&b"newvalue"[..]));
    assert!(contacts[0].address.params.has(b"secondparam"));
    assert_eq!(contacts[0].q, Some(330));
    assert_eq!(message.body().len(), 150);
    assert!(message.body().starts_with(b"v=0\r\n") && message.body().ends_with(b"a=rtpmap:31 LPC\r\n"));
}

#[test]
fn intmeth() {
    let message = accepted(torture!("intmeth.dat"));
    let method = Method::Other(b"!interesting-Method0123456789_*+`.%indeed'~");
    assert_eq!(message.method(), method);
    assert_eq!(message.cseq(), cseq(139_122_385, method));
    let uri = request_uri(&message);
    assert_eq!(uri.user(), Some(&b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"[..]));
    assert_eq!(uri.password(), Some(&b"&it+has=1,weird!*pas$wo~d_too.(doesn't-it)"[..]));
    assert_eq!(uri.host().as_bytes(), b"example.com");
    assert_eq!(message.via().branch, Some(&b"z9hG4bK-.!%66*_+`'~"[..]));
    assert!(message.via().has_unique_branch());
    assert_eq!(message.to().display_name, b"\"BEL:\\\x07 NUL:\\\0 DEL:\\\x7f\"");
    assert_eq!(message.to().uri.user(), Some(&b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*"[..]));
    assert_eq!(message.from().display_name, b"token1~` token2'+_ token3*%!.-");
    assert_eq!(message.from().tag(), Some(&b"_token~1'+`*%!-."[..]));
    let param = message.from().params.find(b"fromParam''~+*_!.-%").unwrap();
    assert_eq!(param.value, Some("\"работающий\"".as_bytes()));
    assert_eq!(message.call_id(), br#"intmeth.word%ZK-!.*_+'@word`~)(><:\/"][?}{"#);
    assert_eq!(message.max_forwards(), Some(255));
    assert_eq!(message.named(b"extensionHeader-!.%*+_`'~"), Some("\u{feff}大停電".as_bytes()));
}

#[test]
fn esc01() {
    let message = accepted(torture!("esc01.dat"));
    let uri = request_uri(&message);
    assert_eq!(uri.scheme(), Scheme::Sip);
    assert_eq!(unescaped_user(&uri), b"sips:user@example.com");
    assert_eq!(uri.host().as_bytes(), b"example.net");
    let to = message.to().uri;
    assert_eq!(unescaped_user(&to), b"user");
    assert!(to.equals(&Uri::parse(b"sip:user@example.com").unwrap()));
    assert_eq!(unescaped_user(&message.from().uri), b"I have spaces");
    assert_eq!(message.call_id(), b"esc01.239409asdfakjkn23onasd0-3234");
    assert_eq!(message.cseq(), cseq(234_234, Method::Invite));
    let contact = contacts(&message)[0].address.uri;
    let as_meant = Uri::parse(b"sip:caller@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31").unwrap();
    assert!(contact.equals(&as_meant));
    // Unescaped once: `%25%34%31` is `%41`, which is not `A`.
    let unescaped_twice = Uri::parse(b"sip:caller@host5.example.net;%6C%72;n%61me=valueA").unwrap();
    assert!(!contact.equals(&unescaped_twice));
    assert_eq!(message.body().len(), 150);
}

#[test]
fn escnull() {
    let message = accepted(torture!("escnull.dat"));
    assert_eq!(message.method(), Method::Register);
    assert_eq!(unescaped_user(&message.to().uri), b"null-\0-null");
    assert_eq!(unescaped_user(&message.from().uri), b"null-\0-null");
    assert_eq!(Contacts::of(&message), Ok(Contacts::List(2)));
    let contacts = contacts(&message);
    assert_eq!(unescaped_user(&contacts[0].address.uri), b"\0");
    assert_eq!(unescaped_user(&contacts[1].address.uri), b"\0\0");
    assert!(!contacts[0].address.uri.equals(&contacts[1].address.uri));
    assert_eq!(message.body(), b"");
}

#[test]
fn esc02() {
    let message = accepted(torture!("esc02.dat"));
    assert_eq!(message.method(), Method::Other(b"RE%47IST%45R"));
    assert_eq!(message.cseq(), cseq(29_344, Method::Other(b"RE%47IST%45R")));
    assert_eq!(message.to().display_name, b"\"%Z%45\"");
    assert_eq!(message.via().branch, Some(&b"z9hG4bK209%fzsnel234"[..]));
    let uris: Vec<_> = contacts(&message).iter().map(|contact| contact.address.uri.as_bytes()).collect();
    assert_eq!(uris, [b"sip:alias1@host1.example.com", b"sip:alias3@host3.example.com"]);
    assert_eq!(message.named(b"C%6Fntact"), Some(&b"<sip:alias2@host2.example.com>"[..]));
}

#[test]
fn lwsdisp() {
    let message = accepted(torture!("lwsdisp.dat"));
    assert_eq!(message.method(), Method::Options);
    assert_eq!(message.from().display_name, b"caller");
    assert_eq!(message.from().uri.as_bytes(), b"sip:caller@example.com");
    assert_eq!(message.from().tag(), Some(&b"323"[..]));
}

#[test]
fn longreq() {
    let message = accepted(torture!("longreq.dat"));
    assert_eq!(message.values(HeaderName::Via).count(), 34);
    assert_eq!(message.via().host.as_bytes(), b"sip33.example.com");
    let last = vias(&message)[33];
    assert_eq!((last.host.as_bytes(), last.received()), (&b"host.example.com"[..], Some(&b"192.0.2.5"[..])));
    let branch = last.branch.unwrap();
    assert!(
        branch.starts_with(b"verylonglong") && branch.ends_with(b"longbranchvalue") && branch.len() > 200
    );
    assert_eq!(message.to().uri.port(), Some(6000));
    let to_params = message.to().uri.params();
    assert_eq!(to_params.iter().count(), 3);
    assert!(to_params.value(b"unknownparam1").unwrap().starts_with(b"verylonglong"));
    assert!(message.from().tag().unwrap().starts_with(b"12982982982982982982982"));
    assert!(message.from().tag().unwrap().ends_with(b"982424") && message.from().tag().unwrap().len() > 100);
    assert!(
        message.call_id().starts_with(b"longreq.onereally") && message.call_id().ends_with(b"longcallid")
    );
    assert_eq!(message.cseq(), cseq(3_882_340, Method::Invite));
    assert_eq!(contacts(&message).len(), 1);
    assert_eq!(message.body().len(), 150);
}

#[test]
fn dblreq() {
    let bytes = torture!("dblreq.dat");
    let message = accepted(bytes);
    assert_eq!(message.method(), Method::Register);
    assert_eq!(message.max_forwards(), Some(8));
    assert_eq!(message.via().branch, Some(&b"z9hG4bKkdjuw23492"[..]));
    assert_eq!(message.body(), b"");
    assert!(message.as_bytes().len() < bytes.len(), "the second request is no part of the first");
    assert!(memchr::memmem::find(message.as_bytes(), b"INVITE").is_none());
}

#[test]
fn semiuri() {
    let message = accepted(torture!("semiuri.dat"));
    let uri = request_uri(&message);
    assert_eq!(unescaped_user(&uri), b"user;par=u@example.net");
    assert_eq!(uri.host().as_bytes(), b"example.com");
    assert_eq!(uri.params().iter().count(), 0);
    assert_eq!(message.values(HeaderName::Accept).count(), 6);
}

#[test]
fn transports() {
    let message = accepted(torture!("transports.dat"));
    let read: Vec<_> = vias(&message).iter().map(|via| via.transport).collect();
    assert_eq!(read, [&b"UDP"[..], b"SCTP", b"TLS", b"UNKNOWN", b"TCP"]);
}

#[test]
fn mpart01() {
    let message = accepted(torture!("mpart01.dat"));
    assert_eq!(message.method(), Method::Message);
    assert!(message.via().wants_rport());
    assert_eq!(message.body().len(), 553);
    assert!(message.body().contains(&0));
    assert!(message.body().ends_with(b"--7a9cbec02ceef655--\r\n"));
    assert!(message.first(HeaderName::Identity).is_some());
}

#[test]
fn unreason() {
    let message = accepted(torture!("unreason.dat"));
    let (status, reason) = response(&message);
    assert_eq!(status, 200);
    let phrase = core::str::from_utf8(reason).unwrap();
    assert!(phrase.starts_with("= 2**3 * 5**2 но сто девяносто девять - простое"), "{phrase}");
    assert_eq!(message.cseq(), cseq(35, Method::Invite));
    assert_eq!(message.body().len(), 154);
}

#[test]
fn noreason() {
    let message = accepted(torture!("noreason.dat"));
    assert_eq!(response(&message), (100, &b""[..]));
    assert_eq!(message.to().tag(), Some(&b"902jndnke3"[..]));
}

// §3.1.2 Invalid messages

#[test]
fn badinv01() {
    let (reason, fields) = rejected(torture!("badinv01.dat"));
    assert_eq!((reason, reason.status()), (Reason::Header(HeaderName::Via), 400));
    can_be_answered(&fields);
    let contact = fields.first(HeaderName::Contact).unwrap();
    assert!(Contact::parse(contact).is_err(), "the Contact alone would be refused as well");
}

#[test]
fn clerr() {
    let (reason, fields) = rejected(torture!("clerr.dat"));
    assert_eq!((reason, reason.status()), (Reason::ContentLength, 400));
    can_be_answered(&fields);
    assert_eq!(fields.body(), b"");
}

#[test]
fn ncl() {
    let (reason, fields) = rejected(torture!("ncl.dat"));
    assert_eq!((reason, reason.status()), (Reason::ContentLength, 400));
    can_be_answered(&fields);
    assert_eq!(fields.body(), b"");
}

#[test]
fn scalar02() {
    let bytes = torture!("scalar02.dat");
    let (reason, fields) = rejected(bytes);
    assert_eq!((reason, reason.status()), (Reason::Header(HeaderName::CSeq), 400));
    can_be_answered(&fields);
    // With only the expiry out of range it counts as the default (RFC 4475 §3.1.2.4).
    let expires = contacts(&fields)[0].expires;
    assert_eq!(expires, Some(3600));
    assert_eq!(fields.first(HeaderName::Expires).and_then(ringway_sip::grammar::delta_seconds), None);
    // With a good CSeq the error is the Max-Forwards.
    let text = String::from_utf8(bytes.to_vec()).unwrap().replace("36893488147419103232", "1");
    assert_eq!(rejected(text.as_bytes()).0, Reason::Header(HeaderName::MaxForwards));
}

#[test]
fn scalarlg() {
    let (reason, fields) = rejected(torture!("scalarlg.dat"));
    assert_eq!(reason, Reason::Header(HeaderName::CSeq));
    assert!(fields.is_response(), "so it is dropped and never answered");
    assert_eq!(fields.first(HeaderName::RetryAfter).and_then(ringway_sip::grammar::delta_seconds), None);
}

#[test]
fn quotbal() {
    let (reason, fields) = rejected(torture!("quotbal.dat"));
    assert_eq!((reason, reason.status()), (Reason::Header(HeaderName::To), 400));
    can_be_answered(&fields);
}

#[test]
fn ltgtruri() {
    let (reason, fields) = rejected(torture!("ltgtruri.dat"));
    assert_eq!((reason, reason.status()), (Reason::RequestUri, 400));
    can_be_answered(&fields);
}

#[test]
fn lwsruri() {
    let (reason, fields) = rejected(torture!("lwsruri.dat"));
    assert_eq!((reason, reason.status()), (Reason::RequestUri, 400));
    can_be_answered(&fields);
}

#[test]
fn lwsstart() {
    let (reason, fields) = rejected(torture!("lwsstart.dat"));
    assert_eq!((reason, reason.status()), (Reason::RequestUri, 400));
    can_be_answered(&fields);
}

#[test]
fn trws() {
    let (reason, fields) = rejected(torture!("trws.dat"));
    assert_eq!((reason, reason.status()), (Reason::StartLine, 400));
    can_be_answered(&fields);
}

#[test]
fn escruri() {
    let message = accepted(torture!("escruri.dat"));
    // The parser separates the URI headers, so that the router can reject or remove them.
    assert_eq!(request_uri(&message).headers(), b"Route=%3Csip:example.com%3E");
    assert!(!message.has(HeaderName::Route));
}

#[test]
fn baddate() {
    let message = accepted(torture!("baddate.dat"));
    assert_eq!(message.first(HeaderName::Date), Some(&b"Fri, 01 Jan 2010 16:00:00 EST"[..]));
    assert_eq!(message.body().len(), 150);
}

#[test]
fn regbadct() {
    let message = accepted(torture!("regbadct.dat"));
    assert_eq!(message.method(), Method::Register);
    assert!(message.values(HeaderName::Contact).any(|value| Contact::parse(value).is_err()));
}

#[test]
fn badaspec() {
    let (reason, fields) = rejected(torture!("badaspec.dat"));
    assert_eq!((reason, reason.status()), (Reason::Header(HeaderName::To), 400));
    assert!(NameAddr::parse(fields.first(HeaderName::From).unwrap()).is_ok());
    can_be_answered(&fields);
}

#[test]
fn baddn() {
    let bytes = torture!("baddn.dat");
    let (reason, fields) = rejected(bytes);
    assert_eq!(reason.status(), 400);
    can_be_answered(&fields);
    // The file lacks the empty line; with it, the display name is what is wrong.
    let whole = [&bytes[..], b"\r\n"].concat();
    assert_eq!(rejected(&whole).0, Reason::Header(HeaderName::From));
}

#[test]
fn badvers() {
    let (reason, fields) = rejected(torture!("badvers.dat"));
    assert_eq!((reason, reason.status()), (Reason::Version, 505));
    can_be_answered(&fields);
}

#[test]
fn mismatch01() {
    let (reason, fields) = rejected(torture!("mismatch01.dat"));
    assert_eq!((reason, reason.status()), (Reason::CSeqMethod, 400));
    can_be_answered(&fields);
}

#[test]
fn mismatch02() {
    let (reason, fields) = rejected(torture!("mismatch02.dat"));
    assert_eq!((reason, reason.status()), (Reason::CSeqMethod, 400));
    can_be_answered(&fields);
}

#[test]
fn bigcode() {
    let (reason, fields) = rejected(torture!("bigcode.dat"));
    assert_eq!(reason, Reason::StartLine);
    assert!(fields.is_response(), "so it is dropped and never answered");
}

// §3.2 to §3.4 Transaction, application and backward-compatibility semantics

#[test]
fn badbranch() {
    let message = accepted(torture!("badbranch.dat"));
    assert_eq!(message.via().branch, Some(&b"z9hG4bK"[..]));
    assert!(!message.via().has_unique_branch(), "nothing to match a transaction by");
}

#[test]
fn insuf() {
    let (reason, fields) = rejected(torture!("insuf.dat"));
    assert_eq!((reason, reason.status()), (Reason::Missing(HeaderName::From), 400));
    can_be_answered(&fields);
    for name in [HeaderName::From, HeaderName::To, HeaderName::CallId] {
        assert!(!fields.has(name));
    }
}

#[test]
fn unkscm() {
    let message = accepted(torture!("unkscm.dat"));
    let uri = request_uri(&message);
    assert_eq!((uri.scheme(), uri.is_sip()), (Scheme::Other, false));
    assert_eq!(uri.as_bytes(), b"nobodyKnowsThisScheme:totallyopaquecontent");
}

#[test]
fn novelsc() {
    let message = accepted(torture!("novelsc.dat"));
    let uri = request_uri(&message);
    assert_eq!((uri.scheme(), uri.as_bytes()), (Scheme::Other, &b"soap.beep://192.0.2.103:3002"[..]));
}

#[test]
fn unksm2() {
    let message = accepted(torture!("unksm2.dat"));
    assert_eq!(message.method(), Method::Register);
    assert_eq!(message.to().uri.scheme(), Scheme::Other);
    assert_eq!(message.from().uri.as_bytes(), b"http://www.example.com");
    assert_eq!(contacts(&message)[0].address.uri.scheme(), Scheme::Other);
}

#[test]
fn bext01() {
    let message = accepted(torture!("bext01.dat"));
    let required: Vec<_> = message.values(HeaderName::Require).collect();
    assert_eq!(required, [&b"nothingSupportsThis"[..], b"nothingSupportsThisEither"]);
    let proxy_required: Vec<_> = message.values(HeaderName::ProxyRequire).collect();
    assert_eq!(proxy_required, [&b"noProxiesSupportThis"[..], b"norDoAnyProxiesSupportThis"]);
}

#[test]
fn invut() {
    let message = accepted(torture!("invut.dat"));
    assert_eq!(message.first(HeaderName::ContentType), Some(&b"application/unknownformat"[..]));
    assert_eq!(message.body(), b"<audio>\r\n <pcmu port=\"443\"/>\r\n</audio>\r\n");
}

#[test]
fn regaut01() {
    let message = accepted(torture!("regaut01.dat"));
    let value = message.first(HeaderName::Authorization).unwrap();
    assert_eq!(ringway_sip::digest::Credentials::parse(value), Ok(None));
}

#[test]
fn multi01() {
    let (reason, fields) = rejected(torture!("multi01.dat"));
    assert_eq!((reason, reason.status()), (Reason::Repeated(HeaderName::CSeq), 400));
    can_be_answered(&fields);
    for name in
        [HeaderName::CSeq, HeaderName::CallId, HeaderName::From, HeaderName::To, HeaderName::MaxForwards]
    {
        assert_eq!(fields.lines_of(name).count(), 2, "{name:?}");
    }
}

#[test]
fn mcl01() {
    let (reason, fields) = rejected(torture!("mcl01.dat"));
    assert_eq!((reason, reason.status()), (Reason::ContentLength, 400));
    can_be_answered(&fields);
}

#[test]
fn bcast() {
    let message = accepted(torture!("bcast.dat"));
    assert_eq!(response(&message), (200, &b"OK"[..]));
    let vias = vias(&message);
    assert_eq!(vias.len(), 2);
    assert_eq!(vias[1].host.ip(), Some(std::net::Ipv4Addr::BROADCAST.into()), "the sender must refuse it");
}

#[test]
fn zeromf() {
    let message = accepted(torture!("zeromf.dat"));
    assert_eq!(message.max_forwards(), Some(0));
}

#[test]
fn cparam01() {
    let message = accepted(torture!("cparam01.dat"));
    let contact = contacts(&message)[0];
    assert_eq!(contact.address.uri.as_bytes(), b"sip:+19725552222@gw1.example.net");
    assert!(
        contact.address.params.has(b"unknownparam") && !contact.address.uri.params().has(b"unknownparam")
    );
}

#[test]
fn cparam02() {
    let message = accepted(torture!("cparam02.dat"));
    let contact = contacts(&message)[0];
    assert_eq!(contact.address.uri.as_bytes(), b"sip:+19725552222@gw1.example.net;unknownparam");
    assert!(
        !contact.address.params.has(b"unknownparam") && contact.address.uri.params().has(b"unknownparam")
    );
}

#[test]
fn regescrt() {
    let message = accepted(torture!("regescrt.dat"));
    let contact = contacts(&message)[0];
    assert_eq!(contact.address.uri.headers(), b"Route=%3Csip:sip.example.com%3E");
    assert!(!message.has(HeaderName::Route));
}

#[test]
fn sdp01() {
    let message = accepted(torture!("sdp01.dat"));
    assert_eq!(message.first(HeaderName::Accept), Some(&b"text/nobodyKnowsThis"[..]));
    assert_eq!(message.body().len(), 150);
}

#[test]
fn inv2543() {
    let message = accepted(torture!("inv2543.dat"));
    assert_eq!((message.via().branch, message.via().has_unique_branch()), (None, false));
    assert_eq!((message.from().tag(), message.max_forwards()), (None, None));
    assert_eq!(message.from().uri.params().value(b"user"), Some(&b"phone"[..]));
    // Without brackets the parameter is the header's.
    assert_eq!(message.to().params.value(b"user"), Some(&b"phone"[..]));
    let record_route = NameAddr::parse(message.first(HeaderName::RecordRoute).unwrap()).unwrap();
    assert_eq!(record_route.uri.params().value(b"maddr"), Some(&b"ss1.example.com"[..]));
    assert!(message.body().ends_with(b"m=audio 49217 RTP/AVP 0\r\n"), "without Content-Length: all the rest");
}

/// Not in the RFC's text but in its archive.
#[test]
fn test() {
    let (reason, fields) = rejected(torture!("test.dat"));
    assert_eq!(reason.status(), 400);
    assert!(!fields.has(HeaderName::Via) && !fields.has(HeaderName::CSeq));
    assert_eq!(fields.named(b"Xyzzy-3"), Some(&b"INVITE"[..]));
}

#[test]
fn every_message_of_the_table_has_its_test() {
    let table = include_str!("../../../../testdata/rfc4475/expected.tsv");
    let source = include_str!("rfc4475.rs");
    let mut count = 0;
    for row in table.lines().skip(1) {
        let columns: Vec<_> = row.split('\t').collect();
        let (file, parse) = (columns[0], columns[3]);
        let name = file.strip_suffix(".dat").unwrap();
        let test =
            source.split(&format!("#[test]\nfn {name}() {{\n")).nth(1).unwrap_or_else(|| panic!("{name}"));
        let body = test.split("\n}\n").next().unwrap();
        assert!(body.contains(&format!("torture!(\"{file}\")")), "{name} tests another message");
        match parse {
            "MUST_ACCEPT" => assert!(body.contains("accepted("), "{name}"),
            // A response that is dropped for what its Via says is well-formed.
            "REJECT" => assert!(body.contains("rejected("), "{name}"),
            "REJECT_OR_LENIENT" | "ACCEPT_OR_400" | "DISCARD" => {}
            other => panic!("{name}: {other}"),
        }
        count += 1;
    }
    assert_eq!(count, 50, "the 49 messages of the RFC and the one its archive adds");
}
