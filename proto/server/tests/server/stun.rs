//! STUN at the port of SIP (RFC 5626 §8), and what strangers can do with it.

use crate::harness::{ALICE, STRANGER, Sent, World, only};
use ringway_sansio::{ConnectionId, Event, Flow, ListenerId};
use ringway_stun::{Class, METHOD_BINDING, Message, MessageWriter, TransactionId};

fn stun(class: Class) -> Vec<u8> {
    MessageWriter::new(class, METHOD_BINDING, TransactionId([7; 12])).finish()
}

fn counts(world: &World) -> (u64, u64) {
    let counters = world.server.counters();
    (counters.stun_answered, counters.stun_dropped)
}

#[test]
fn a_phone_learns_its_address() {
    let mut world = World::closed();
    for (listener, source) in [(0, "198.51.100.7:31337"), (2, "[2001:db8::7]:5060")] {
        let flow = Flow::udp(ListenerId(listener), source.parse().unwrap());
        let sent = only(world.message(flow, &stun(Class::Request)));
        assert_eq!(sent.flow, flow, "back over the flow that it came by");
        assert_eq!(Message::parse(&sent.bytes).unwrap().xor_mapped_address(), Some(source.parse().unwrap()));
    }
    assert_eq!((counts(&world), world.server.counters().requests), ((2, 0), 0));
    world.still_answers();
}

#[test]
fn nothing_but_a_request_is_answered() {
    let mut world = World::closed();
    let request = stun(Class::Request);
    for bytes in
        [&stun(Class::Success), &stun(Class::Error), &stun(Class::Indication), &request[..19].to_vec()]
    {
        assert!(world.udp(STRANGER, bytes).is_empty());
    }
    // The server's own response, sent to it: two servers do not answer each other for ever.
    let response = only(world.udp("192.0.2.1:5060", &request));
    assert!(world.udp("192.0.2.1:5060", &response.bytes).is_empty());
    assert_eq!(counts(&world), (1, 5));
}

#[test]
fn a_stream_has_its_own_keep_alive() {
    let mut world = World::closed();
    let sent = world.tcp(5, STRANGER, &stun(Class::Request));
    assert!(sent.iter().all(|sent| sent.status() == 400), "{sent:?}");
    world.event(Event::Closed(ConnectionId(5)));
    assert_eq!(counts(&world), (0, 0));
}

#[test]
fn forged_sources_get_nothing_that_harms_them() {
    let mut world = World::closed();
    for nobody in ["255.255.255.255:5060", "224.0.1.75:5060", "0.0.0.0:5060", "192.0.2.77:0"] {
        assert!(world.udp(nobody, &stun(Class::Request)).is_empty(), "{nobody}");
    }
    let request = stun(Class::Request);
    let bytes: usize = world.udp("203.0.113.7:5060", &request).iter().map(|sent| sent.bytes.len()).sum();
    assert!(bytes <= request.len() + 12);
    let large = (0..300)
        .fold(MessageWriter::new(Class::Request, METHOD_BINDING, TransactionId([7; 12])), |all, kind| {
            all.attribute(0x4000 + kind, b"")
        });
    let large = large.finish();
    assert!(only(world.udp(STRANGER, &large)).bytes.len() <= large.len());
}

#[test]
fn a_flood_from_one_source_is_limited_and_leaves_nothing() {
    let mut world = World::limited(10);
    let sent: Vec<Sent> = (0..10_000).flat_map(|_| world.udp(STRANGER, &stun(Class::Request))).collect();
    assert!((1..=40).contains(&sent.len()), "{}", sent.len());
    assert_eq!(world.server.counters().over_rate, 10_000 - sent.len() as u64);
    assert!(world.server.is_idle());
    assert_eq!(world.udp(ALICE, &stun(Class::Request)).len(), 1, "another source is not affected");
}
