//! Tests with RFC 4475 §3.1.1 and §3.4: unusual valid messages. Each is processed, and forwarded unchanged.

use crate::harness::{BOB, CAROL, Sent, World, forwarded, only, statuses};
use ringway_sansio::Framer;
use ringway_server::{Listener, SipFramer};
use ringway_sip::{HeaderName, Limits, Message};

/// Source of the messages of RFC 4475.
pub(crate) const TESTER: &str = "203.0.113.9:5060";

/// Message of `testdata/rfc4475` by its file name.
#[macro_export]
macro_rules! torture {
    ($file:literal) => {
        &include_bytes!(concat!("../../../../testdata/rfc4475/", $file, ".dat"))[..]
    };
}

/// Server for the domain of the torture messages, without passwords.
pub(crate) fn world() -> World {
    World::with(|config| {
        config.domains = vec!["example.com".into()];
        config.datagram_bytes_max = 65_535;
    })
}

/// Checks that a forwarded request is unchanged: everything that a proxy must not change is equal, byte for byte and in
/// order, and the body too. A Content-Length is added if there was none.
#[track_caller]
pub(crate) fn is_the_same(came: &[u8], sent: &Sent) {
    let came = Message::parse(came, &Limits::default()).unwrap();
    let went = Message::parse(&sent.bytes, &Limits::default()).unwrap();
    let changed = ["Via", "v", "Max-Forwards", "Max-Breadth", "Record-Route", "Route"];
    let untouched = |message: &Message<'_>| -> Vec<(String, Vec<u8>)> {
        let fields = message
            .iter()
            .map(|field| (String::from_utf8_lossy(field.name).into_owned(), field.value.to_vec()));
        fields.filter(|(name, _)| !changed.iter().any(|one| one.eq_ignore_ascii_case(name))).collect()
    };
    let mut expected = untouched(&came);
    if !came.has(HeaderName::ContentLength) {
        expected.push(("Content-Length".into(), came.body().len().to_string().into_bytes()));
    }
    assert_eq!(untouched(&went), expected);
    assert_eq!(came.body(), went.body());
    let vias = |message: &Message<'_>| -> Vec<Vec<u8>> {
        message.values(HeaderName::Via).map(<[u8]>::to_vec).collect()
    };
    let (old, new) = (vias(&came), vias(&went));
    assert_eq!(new.len(), old.len() + 1);
    assert!(new[0].starts_with(b"SIP/2.0/UDP 192.0.2.1:5060;rport;spirals="));
    assert_eq!(new[2..], old[1..], "only the top Via is stamped");
    let hops = came.max_forwards().map_or(70, |hops| hops - 1);
    assert_eq!(went.max_forwards(), Some(hops));
}

/// Forwards a request to a user at bob's address, unchanged, and its response back.
#[track_caller]
fn is_forwarded_to(aor: &[u8], message: &[u8]) -> Sent {
    let mut world = world();
    world.server.set_permanent_contacts(aor, &[b"sip:bob@192.0.2.20"]);
    let request = forwarded(world.udp(TESTER, &message));
    assert_eq!((request.to().as_str(), request.uri().as_str()), (BOB, "sip:bob@192.0.2.20"));
    is_the_same(message, &request);
    let answer = only(world.udp(BOB, &request.answer(200, &[])));
    assert_eq!(answer.status(), 200);
    let (came, back) = (Message::parse(message, &Limits::default()).unwrap(), answer.bytes.clone());
    let back = Message::parse(&back, &Limits::default()).unwrap();
    assert_eq!(back.values(HeaderName::Via).count(), came.values(HeaderName::Via).count());
    assert_eq!((back.call_id(), back.cseq()), (came.call_id(), came.cseq()));
    world.still_answers();
    request
}

#[test]
fn wsinv_is_forwarded_along_its_route() {
    let mut world = world();
    let message = torture!("wsinv");
    let trying = only(world.udp(TESTER, &message));
    assert_eq!(trying.status(), 100);
    let request = only(world.resolve("services.example.com", Some("192.0.2.77")));
    assert_eq!(request.to(), "192.0.2.77:5060");
    assert_eq!(request.start(), "INVITE sip:vivekg@chair-dnrc.example.com;unknownparam SIP/2.0");
    is_the_same(message, &request);
    assert_eq!(request.header("Max-Forwards"), "67");
    assert!(
        request.text().contains("NewFangledHeader:   newfangled value\r\n continued newfangled value\r\n")
    );
    assert!(request.text().contains("UnknownHeaderWithUnusualValue: ;;,,;;,;\r\n"));
    world.still_answers();
}

#[test]
fn intmeth_is_404_where_nobody_has_that_name() {
    let mut world = world();
    let answer = only(world.udp(TESTER, &torture!("intmeth")));
    assert_eq!(answer.status(), 404);
    assert!(answer.header("Call-ID").starts_with("intmeth.word%ZK-!.*_+'@word`~)(><:"));
    assert!(answer.header("CSeq").ends_with(" !interesting-Method0123456789_*+`.%indeed'~"));
    world.still_answers();
}

#[test]
fn intmeth_is_forwarded_where_somebody_has() {
    let user = b"1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com";
    let user: Vec<u8> =
        user.iter().copied().take_while(|&byte| byte != b':').chain(*b"@example.com").collect();
    let request = is_forwarded_to(&user, torture!("intmeth"));
    assert_eq!(request.method(), "!interesting-Method0123456789_*+`.%indeed'~");
}

#[test]
fn esc01_unescapes_the_user_once() {
    let mut world = World::with(|config| config.domains = vec!["example.net".into()]);
    world.server.set_permanent_contacts(b"sips:user@example.com@example.net", &[b"sip:bob@192.0.2.20"]);
    let request = forwarded(world.udp(TESTER, &torture!("esc01")));
    is_the_same(torture!("esc01"), &request);
    assert_eq!(request.to(), BOB);
    world.still_answers();
}

#[test]
fn escnull_makes_two_bindings_of_a_user_that_is_not_cut_at_nul() {
    let mut world = world();
    let answer = only(world.udp(TESTER, &torture!("escnull")));
    assert_eq!(answer.status(), 200);
    let contacts = answer.headers("Contact");
    assert!(contacts[0].starts_with("<sip:%00@host5.example.com>"), "{contacts:?}");
    assert!(contacts[1].starts_with("<sip:%00%00@host5.example.com>"), "{contacts:?}");
    assert_eq!(contacts.len(), 2);
    let aors: Vec<_> = world.server.location().iter().map(|found| found.to_owned().aor).collect();
    assert_eq!(aors, [b"null-\0-null@example.com", b"null-\0-null@example.com"]);
    world.still_answers();
}

#[test]
fn esc02_is_no_register_and_is_forwarded() {
    let mut world = world();
    let message = torture!("esc02");
    assert!(world.udp(TESTER, &message).is_empty(), "100 to INVITE only, and the name is looked up first");
    let request = only(world.resolve("registrar.example.com", Some("192.0.2.77")));
    assert_eq!(request.start(), "RE%47IST%45R sip:registrar.example.com SIP/2.0");
    is_the_same(message, &request);
    assert_eq!(world.server.location().bindings_len(), 0);
    world.still_answers();
}

#[test]
fn lwsdisp_is_forwarded_and_answered() {
    let request = is_forwarded_to(b"user@example.com", torture!("lwsdisp"));
    assert_eq!(request.header("From"), "caller<sip:caller@example.com>;tag=323");
}

#[test]
fn longreq_is_forwarded_whole() {
    let request = is_forwarded_to(b"user@example.com", torture!("longreq"));
    assert_eq!(request.header("Max-Forwards"), "69", "{}", request.text());
}

#[test]
fn dblreq_registers_and_ignores_the_bytes_after_it() {
    let mut world = world();
    world.server.set_permanent_contacts(b"joe@example.com", &[b"sip:joe@192.0.2.40"]);
    let answer = only(world.udp(TESTER, &torture!("dblreq")));
    assert_eq!(answer.status(), 200);
    assert!(answer.header("Contact").starts_with("<sip:j.user@host.example.com>"));
    assert_eq!(world.server.counters().requests, 1);
    assert_eq!(world.server.counters().forwarded, 0);
    world.still_answers();
}

#[test]
fn dblreq_on_a_stream_is_two_messages() {
    let mut world = world();
    world.server.set_permanent_contacts(b"joe@example.com", &[b"sip:joe@192.0.2.40"]);
    let mut framer = SipFramer::new(65_535);
    framer.push(torture!("dblreq"));
    let first = framer.next_frame().unwrap().unwrap().to_vec();
    assert_eq!(only(world.tcp(1, TESTER, &first)).status(), 200);
    let second = framer.next_frame().unwrap().unwrap().to_vec();
    let sent = world.tcp(1, TESTER, &second);
    assert_eq!(statuses(&sent), [100]);
    assert_eq!(forwarded(sent).uri(), "sip:joe@192.0.2.40");
    assert!(framer.next_frame().is_err(), "the INVITE is longer than it says: the rest is no message");
    world.still_answers();
}

#[test]
fn semiuri_has_its_semicolon_in_the_user() {
    is_forwarded_to(b"user;par=u@example.net@example.com", torture!("semiuri"));
}

#[test]
fn transports_of_all_kinds_are_only_vias() {
    let request = is_forwarded_to(b"user@example.com", torture!("transports"));
    let vias = request.headers("Via");
    let names: Vec<_> = vias[1..].iter().map(|via| via[8..].split(' ').next().unwrap()).collect();
    assert_eq!(names, ["UDP", "SCTP", "TLS", "UNKNOWN", "TCP"]);
}

#[test]
fn mpart01_is_forwarded_with_every_byte_of_its_body() {
    // It is for a host on loopback.
    let mut world = World::with(|config| {
        let loopback = "127.0.0.1:5060".parse().unwrap();
        config.domains = vec!["example.com".into()];
        config.listeners.truncate(1);
        config.listeners[0] = Listener { bound: loopback, ..config.listeners[0] };
    });
    let message = torture!("mpart01");
    let request = only(world.udp(TESTER, &message));
    assert_eq!((request.method().as_str(), request.to().as_str()), ("MESSAGE", "127.0.0.1:5080"));
    is_the_same(message, &request);
    assert!(Message::parse(&request.bytes, &Limits::default()).unwrap().body().contains(&0));
    world.still_answers();
}

#[test]
fn unreason_is_a_response_that_passes() {
    passes_as_a_phrase(torture!("unreason"), "SIP/2.0 200 = 2**3 * 5**2 но сто девяносто девять - простое");
}

#[test]
fn noreason_is_a_response_that_passes() {
    passes_as_a_phrase(torture!("noreason"), "SIP/2.0 180 ");
}

/// Alone the response matches no request: it is parsed and dropped. As the response to a request of ours its status line
/// is forwarded.
#[track_caller]
fn passes_as_a_phrase(message: &[u8], line: &str) {
    let mut world = world();
    assert!(world.udp(TESTER, &message).is_empty());
    let counters = world.server.counters();
    assert_eq!((counters.responses, counters.stray, counters.rejected.iter().sum::<u64>()), (1, 1, 0));
    world.server.set_permanent_contacts(b"user@example.com", &[b"sip:bob@192.0.2.20"]);
    let invite = crate::harness::invite("sip:user@example.com").from("sip:a@example.com");
    let request = forwarded(world.udp(CAROL, &invite));
    let answer = String::from_utf8(request.answer(200, &[])).unwrap().replace("SIP/2.0 200 Because", line);
    assert_eq!(only(world.udp(BOB, &answer.into_bytes())).start(), line);
    world.still_answers();
}

// §3.4 Backward compatibility

#[test]
fn inv2543_of_an_old_client_is_forwarded_and_repeated_only_once() {
    let mut world = world();
    let message = torture!("inv2543");
    world.server.set_permanent_contacts(b"UserB@example.com", &[b"sip:bob@192.0.2.20"]);
    let sent = world.udp(TESTER, &message);
    assert_eq!(statuses(&sent), [100]);
    let request = forwarded(sent);
    is_the_same(message, &request);
    assert_eq!(request.header("Max-Forwards"), "70");
    assert_eq!(statuses(&world.udp(TESTER, &message)), [100], "the retransmission matches without a branch");
    assert_eq!(statuses(&world.udp(BOB, &request.answer(486, &[]))), [486]);
    world.still_answers();
}
