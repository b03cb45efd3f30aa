//! Globally routable URIs of one phone (RFC 5627).

use crate::challenge::proven;
use crate::harness::{
    ALICE, BOB, CAROL, Request, Sent, World, forwarded, invite, only, register, request, requests, statuses,
};

fn world() -> World {
    World::with(|config| config.registrar.gruu = true)
}

fn registers(world: &mut World, from: &str, contact: &str) -> Sent {
    let request = register("bob", contact).line("Supported: gruu").call_id(contact);
    let answer = only(world.udp(from, &request));
    assert_eq!(answer.status(), 200, "{}", answer.text());
    answer
}

/// Server at which bob has two phones.
fn two_phones() -> World {
    let mut world = world();
    registers(&mut world, BOB, "<sip:bob@192.0.2.20>;+sip.instance=\"<urn:uuid:desk>\"");
    registers(&mut world, CAROL, "<sip:bob@192.0.2.30>;+sip.instance=\"<urn:uuid:mobile>\"");
    world
}

#[test]
fn a_phone_that_asks_gets_a_uri_of_its_own() {
    let mut world = world();
    let contact = "<sip:bob@192.0.2.20>;+sip.instance=\"<urn:uuid:desk>\";pub-gruu=\"sip:eve@example.net\"";
    let contact = registers(&mut world, BOB, contact).header("Contact");
    assert!(contact.contains(";pub-gruu=\"sip:bob@example.org;gr=urn:uuid:desk\""), "{contact}");
    assert!(!contact.contains("eve"), "a phone does not choose it: {contact}");
    // Nobody else asked for it.
    assert!(!world.bindings("bob")[0].contains("gruu"));
    let mut plain = World::open();
    assert!(!registers(&mut plain, BOB, &contact).header("Contact").contains("gruu"), "it is off");
}

#[test]
fn a_gruu_reaches_its_phone_only() {
    let mut world = two_phones();
    assert_eq!(requests(world.udp(ALICE, &invite("sip:bob@example.org"))).len(), 2);
    let call = invite("sip:bob@example.org;gr=urn:uuid:mobile").call_id("2");
    let call = forwarded(world.udp(ALICE, &call));
    assert_eq!((call.to().as_str(), call.uri().as_str()), (CAROL, "sip:bob@192.0.2.30"));
    let escaped = invite("sip:bob@example.org;gr=urn%3auuid:desk").call_id("3");
    assert_eq!(forwarded(world.udp(ALICE, &escaped)).to(), BOB);
}

/// RFC 8141 §3.1, RFC 9562 §4: a UUID compares without case, the names of other namespaces with it.
#[test]
fn a_uuid_in_other_capitals_is_the_same_phone() {
    let mut world = two_phones();
    registers(&mut world, "192.0.2.40:5060", "<sip:bob@192.0.2.40>;+sip.instance=\"<urn:esn:A1>\"");
    for (number, (uri, to)) in [
        ("sip:bob@example.org;gr=URN:UUID:DESK", Some(BOB)),
        ("sip:bob@example.org;gr=urn:uuid:Mobile", Some(CAROL)),
        ("sip:bob@example.org;gr=urn:uuid:mobile", Some(CAROL)),
        ("sip:bob@example.org;gr=URN:ESN:A1", Some("192.0.2.40:5060")),
        ("sip:bob@example.org;gr=urn:esn:a1", None),
        ("sip:bob@example.org;gr=urn", None),
    ]
    .into_iter()
    .enumerate()
    {
        let sent = world.udp(ALICE, &invite(uri).call_id(&format!("call-{number}")));
        let reached = requests(sent).first().map(Sent::to);
        assert_eq!(reached.as_deref(), to, "{uri}");
    }
    assert_eq!(world.server.counters().gruu_capitals, 3);
    let mut redirect = World::with(|config| {
        config.registrar.gruu = true;
        config.mode = ringway_server::Mode::Redirect;
    });
    registers(&mut redirect, BOB, "<sip:bob@192.0.2.20>;+sip.instance=\"<urn:uuid:desk>\"");
    assert_eq!(only(redirect.udp(ALICE, &invite("sip:bob@example.org;gr=urn:uuid:DESK"))).status(), 302);
    assert_eq!(redirect.server.counters().gruu_capitals, 1);
}

#[test]
fn gruus_of_nobody_reach_nobody() {
    let mut world = two_phones();
    for (number, (uri, status)) in [
        ("sip:bob@example.org;gr=urn:uuid:sold", 480),
        ("sip:bob@example.org;gr=urn:uuid:des", 480),
        ("sip:bob@example.org;gr=URN:UUID:DES", 480),
        ("sip:bob@example.org;gr=%zz", 480),
        ("sip:bob@example.org;gr", 480),
        ("sip:carol@example.org;gr=urn:uuid:desk", 480),
        ("sip:ghost@example.org;gr=urn:uuid:desk", 404),
    ]
    .into_iter()
    .enumerate()
    {
        let sent = world.udp(ALICE, &invite(uri).call_id(&format!("{number}")));
        assert_eq!((requests(sent.clone()).len(), statuses(&sent)), (0, vec![status]), "{uri}");
    }
}

/// Temporary GRUU in the response to a REGISTER.
fn temporary(answer: &Sent) -> String {
    let contact = answer.header("Contact");
    contact.split("temp-gruu=\"").nth(1).unwrap().split('"').next().unwrap().into()
}

/// Calls `uri` in two passes: to the server itself, and to the phone.
fn call_twice(world: &mut World, uri: &str, call_id: &str) -> Sent {
    let to_itself = forwarded(world.udp(ALICE, &invite(uri).call_id(call_id)));
    assert_eq!(to_itself.to(), "192.0.2.1:5060", "another shard may have its user");
    forwarded(world.udp("192.0.2.1:5060", &to_itself.bytes))
}

#[test]
fn a_temporary_gruu_reaches_its_phone_and_does_not_say_whose_it_is() {
    let mut world = two_phones();
    let register = |cseq: u32, call_id: &str| {
        let contact = "<sip:bob@192.0.2.20>;+sip.instance=\"<urn:uuid:desk>\"";
        register("bob", contact).line("Supported: gruu").call_id(call_id).cseq(cseq)
    };
    let mut refresh = |cseq, call_id| {
        let answer = only(world.udp(BOB, &register(cseq, call_id)));
        let line = answer.headers("Contact").into_iter().find(|line| line.contains("desk")).unwrap();
        line.split("temp-gruu=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let (first, second) = (refresh(7, "one"), refresh(8, "one"));
    assert_ne!(first, second, "each REGISTER gets another one");
    for gruu in [&first, &second] {
        assert!(gruu.starts_with("sip:tgruu.") && gruu.ends_with("@example.org;gr"), "{gruu}");
        assert!(!gruu.contains("bob") && !gruu.contains("desk"));
        let call = call_twice(&mut world, gruu, gruu);
        assert_eq!((call.to().as_str(), call.uri().as_str()), (BOB, "sip:bob@192.0.2.20"));
    }
    // It ends with the Call-ID of its registration (RFC 5627 §5.4).
    let answer = only(world.udp(BOB, &register(1, "two")));
    assert_eq!(answer.status(), 200);
    let to_itself = forwarded(world.udp(ALICE, &invite(&first).call_id("late")));
    assert_eq!(only(world.udp("192.0.2.1:5060", &to_itself.bytes)).status(), 480);
}

#[test]
fn forged_temporary_gruus_do_not_exist() {
    let mut world = world();
    let contact = "<sip:bob@192.0.2.20>;+sip.instance=\"<urn:uuid:desk>\"";
    let gruu = temporary(&registers(&mut world, BOB, contact));
    let end = gruu.find('@').unwrap();
    for index in "sip:tgruu.".len()..end {
        let mut forged = gruu.clone().into_bytes();
        forged[index] = if forged[index] == b'1' { b'2' } else { b'1' };
        let forged = String::from_utf8(forged).unwrap();
        let sent = world.udp(ALICE, &invite(&forged).call_id(&format!("{index}")));
        assert_eq!(statuses(&sent), [404], "byte {index} of {gruu}");
    }
    for (number, token) in ["", "0", "00", &"0".repeat(44), &"0".repeat(2000), "zz"].iter().enumerate() {
        let uri = format!("sip:tgruu.{token}@example.org;gr");
        let sent = world.udp(ALICE, &invite(&uri).call_id(&format!("bad {number}")));
        assert!(matches!(statuses(&sent)[..], [404 | 414]), "{uri}");
    }
    // Parameters of the server's own URIs mean nothing in requests of others.
    for param in ["rwg=0", "rwg=ffffffffffffffff", "rwg=x", "rwc=00000000", "rwc=x;rwd", "rwd"] {
        let uri = format!("sip:bob@example.org;{param}");
        let sent = world.udp(ALICE, &invite(&uri).call_id(param));
        assert_eq!(forwarded(sent).to(), BOB, "{uri}");
    }
}

/// Request in the dialog of `answer`, towards the GRUU `uri`, by these Record-Routes.
fn in_dialog(uri: &str, from: String, to: String, routes: Vec<String>) -> Request {
    let lines = routes.iter().map(|route| format!("Route: {route}")).collect();
    Request { from, lines, ..request("BYE", uri).cseq(2).to(&to) }
}

#[test]
fn requests_inside_a_call_reach_phones_whose_contacts_are_gruus() {
    for (alices, bobs) in [(ALICE, BOB), ("127.0.0.1:5070", "127.0.0.1:5080")] {
        let mut world = World::with(|config| {
            config.registrar.gruu = true;
            config.auth.enabled = true;
            let loopback = bobs.starts_with("127.").then(|| "127.0.0.1:5060".parse().unwrap());
            if let Some(loopback) = loopback {
                config.listeners[0].bound = loopback;
                config.listeners[0].advertised = loopback;
            }
        });
        for (user, at) in [("alice", alices), ("bob", bobs)] {
            let contact = format!("<sip:{user}@{at}>;+sip.instance=\"<urn:uuid:{user}>\"");
            let request = register(user, &contact).line("Supported: gruu").call_id(user);
            assert_eq!(only(proven(&mut world, at, &request, user)).status(), 200);
        }
        let gruu = |user: &str| format!("sip:{user}@example.org;gr=urn:uuid:{user}");
        let mut call = invite(&gruu("bob"));
        call.lines = vec![format!("Contact: <{}>", gruu("alice"))];
        let got = forwarded(proven(&mut world, alices, &call, "alice"));
        assert_eq!(got.to(), bobs);
        let answer = only(world.udp(bobs, &got.answer(200, &[&format!("Contact: <{}>", gruu("bob"))])));
        let (from, to) = (answer.header("From"), answer.header("To"));
        let mut routes = answer.headers("Record-Route");
        routes.reverse();
        let bye = in_dialog(&gruu("bob"), from.clone(), to.clone(), routes);
        let to_itself = forwarded(world.udp(alices, &bye));
        let sent = forwarded(world.udp(&to_itself.to(), &to_itself.bytes));
        let contact = |user: &str, at: &str| format!("sip:{user}@{at}");
        assert_eq!((sent.to().as_str(), sent.uri()), (bobs, contact("bob", bobs)), "the caller ends it");
        let bye =
            in_dialog(&gruu("alice"), to, from, got.headers("Record-Route")).call_id(&call.call_id).cseq(3);
        let to_itself = forwarded(world.udp(bobs, &bye));
        let sent = forwarded(world.udp(&to_itself.to(), &to_itself.bytes));
        assert_eq!(
            (sent.to().as_str(), sent.uri()),
            (alices, contact("alice", alices)),
            "the callee ends it"
        );
    }
}

#[test]
fn an_instance_that_is_no_urn_gets_no_gruu() {
    let mut world = world();
    for instance in ["<urn:a;b>", "<urn:a b>", "<>", "<urn:\\\">"] {
        let contact = format!("<sip:bob@192.0.2.20>;+sip.instance=\"{instance}\"");
        let request = register("bob", &contact).line("Supported: gruu").call_id(instance);
        let answer = only(world.udp(BOB, &request));
        assert!(!answer.text().contains("pub-gruu"), "{}", answer.text());
    }
}
