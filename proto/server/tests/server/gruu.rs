//! Globally routable URIs of one phone (RFC 5627).

use crate::harness::{ALICE, BOB, CAROL, Sent, World, forwarded, invite, only, register, requests, statuses};

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

#[test]
fn gruus_of_nobody_reach_nobody() {
    let mut world = two_phones();
    for (number, (uri, status)) in [
        ("sip:bob@example.org;gr=urn:uuid:sold", 480),
        ("sip:bob@example.org;gr=urn:uuid:des", 480),
        ("sip:bob@example.org;gr=URN:UUID:DESK", 480),
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
