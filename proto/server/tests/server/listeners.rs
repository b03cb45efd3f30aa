//! Listeners that a reload adds and takes out.

use crate::dialog::{from_callee, from_caller};
use crate::harness::{
    ALICE, BOB, Request, Sent, Wire, World, config, forwarded, invite, only, register, request, requests,
};
use ringway_sansio::{Flow, ListenerId, Transport};
use ringway_server::{Config, Listener};
use std::sync::Arc;

fn added(config: &mut Config, transport: Transport, address: &str) {
    let address = address.parse().unwrap();
    config.listeners.push(Listener { transport, bound: address, advertised: address });
}

/// Reload that replaces the UDP listener by one at port 5080.
fn moved() -> Config {
    let mut config = config();
    added(&mut config, Transport::Udp, "192.0.2.1:5080");
    config.removed_listeners = vec![ListenerId(0)];
    config
}

#[test]
fn a_call_that_began_over_a_removed_listener_ends_over_it() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let call = invite("sip:bob@example.org");
    let got = forwarded(world.udp(ALICE, &call));
    world.server.reconfigure(Arc::new(moved()));
    let ringing = only(world.udp(BOB, &got.answer(180, &[])));
    assert_eq!((ringing.status(), ringing.flow), (180, Flow::udp(ListenerId(0), ALICE.parse().unwrap())));
    let cancelled = world.udp(ALICE, &call.cancel());
    let cancel = requests(cancelled).remove(0);
    assert_eq!((cancel.method().as_str(), cancel.flow.listener), ("CANCEL", ListenerId(0)));
    assert!(cancel.header("Via").contains("192.0.2.1:5060"));
}

#[test]
fn new_requests_leave_by_the_new_listener() {
    let mut world = World::open();
    world.server.reconfigure(Arc::new(moved()));
    // To an address, from a connection of alice, which stays.
    let outward = invite("sip:x@198.51.100.7").tcp();
    let sent = forwarded(world.tcp(7, ALICE, &outward));
    let new = ListenerId(u8::try_from(config().listeners.len()).unwrap());
    assert_eq!(sent.flow, Flow::udp(new, "198.51.100.7:5060".parse().unwrap()));
    assert!(sent.headers("Via")[0].contains("192.0.2.1:5080"), "{}", sent.text());
    // A user who registers at the new port is called over it.
    let bob = Flow::udp(new, BOB.parse().unwrap());
    assert_eq!(only(world.message(bob, &register("bob", "<sip:bob@192.0.2.20>").wire())).status(), 200);
    let sent = forwarded(world.tcp(7, ALICE, &invite("sip:bob@example.org").tcp().call_id("two")));
    assert_eq!(sent.flow, bob);
}

#[test]
fn each_side_of_a_call_has_the_listener_of_its_network() {
    let networks =
        [("10.0.0.0/24", "10.0.0.5"), ("192.168.7.0/24", "192.168.7.5"), ("0.0.0.0/0", "10.0.0.5")];
    let mut world = World::with(|config| {
        config.listeners.clear();
        for transport in [Transport::Udp, Transport::Tcp] {
            added(config, transport, "10.0.0.5:5060");
            added(config, transport, "192.168.7.5:5060");
        }
        config.inner_networks = vec!["10.0.0.0/24".parse().unwrap(), "192.168.7.0/24".parse().unwrap()];
        config.listener_networks =
            networks.map(|(network, own)| (network.parse().unwrap(), own.parse().unwrap())).into();
    });
    let [alice, bob] = ["10.0.0.20:5060", "192.168.7.50:5060"];
    let at_bob = Flow::udp(ListenerId(1), bob.parse().unwrap());
    let register = register("bob", "<sip:bob@192.168.7.50>");
    assert_eq!(only(world.message(at_bob, &register.wire())).status(), 200);
    let call = request("INVITE", "sip:bob@example.org").line("Contact: <sip:alice@10.0.0.20>");
    let got = forwarded(world.udp(alice, &call));
    assert_eq!(got.flow, at_bob);
    assert!(got.headers("Via")[0].contains(" 192.168.7.5:5060;"), "{}", got.text());
    let routes = got.headers("Record-Route");
    assert_eq!(routes.len(), 2, "{routes:?}");
    assert!(
        routes[0].contains("sip:192.168.7.5:5060;") && routes[1].contains("sip:10.0.0.5:5060;"),
        "{routes:?}"
    );
    let answer = got.answer(200, &["Contact: <sip:bob@192.168.7.50>"]);
    let answer = only(world.message(at_bob, &answer));
    assert_eq!(answer.flow, Flow::udp(ListenerId(0), alice.parse().unwrap()));
    // Both sides reach the other one by the address that they have.
    let ack = Request { uri: "sip:bob@192.168.7.50".into(), ..from_caller("ACK", 1, &answer) };
    let ack = world.udp(alice, &ack);
    assert_eq!((only(ack).flow, answer.headers("Record-Route").len()), (at_bob, 2));
    let bye = Request { uri: "sip:alice@10.0.0.20".into(), ..from_callee("BYE", 9, &got, &answer) };
    let bye = world.message(at_bob, &bye.wire());
    assert_eq!(only(requests(bye)).flow, answer.flow);
    // To any other network it is the one of the default route; IPv6 has none.
    for (to, listener) in [("203.0.113.9", 0), ("10.0.0.9", 0), ("192.168.7.9", 1)] {
        let sent = forwarded(world.udp(alice, &invite(&format!("sip:x@{to}")).call_id(to)));
        assert_eq!(sent.flow.listener, ListenerId(listener), "{to}");
    }
}

/// Two ports of one address: a firewall of a phone lets in what comes from the port that the phone sends to.
#[test]
fn a_phone_is_called_from_the_port_that_it_registered_at() {
    let second = ListenerId(u8::try_from(config().listeners.len()).unwrap());
    let [alice, bob] = [ALICE, BOB].map(|phone| Flow::udp(second, phone.parse().unwrap()));
    let from_second = |sent: &Sent| {
        assert_eq!(sent.flow.listener, second, "{}", sent.text());
        assert!(sent.headers("Via")[0].contains("192.0.2.1:5070"), "{}", sent.text());
    };
    for contact in ["<sip:bob@192.0.2.20:5060>", "<sip:bob@192.0.2.20>"] {
        let mut world = World::with(|config| added(config, Transport::Udp, "192.0.2.1:5070"));
        assert_eq!(only(world.message(bob, &register("bob", contact).wire())).status(), 200);
        let got = forwarded(world.message(alice, &invite("sip:bob@example.org").wire()));
        from_second(&got);
        let answer = only(world.message(bob, &got.answer(200, &[&format!("Contact: {contact}")])));
        assert_eq!(answer.flow, alice);
        for (cseq, method) in [(1, "ACK"), (2, "INFO"), (3, "INVITE"), (4, "BYE")] {
            let request = from_caller(method, cseq, &answer).line(&format!("Contact: <sip:alice@{ALICE}>"));
            from_second(&forwarded(world.message(alice, &request.wire())));
        }
        for (cseq, method) in [(7, "INFO"), (8, "INVITE"), (9, "BYE")] {
            let request = from_callee(method, cseq, &got, &answer).line(&format!("Contact: {contact}"));
            let sent = forwarded(world.message(bob, &request.wire()));
            from_second(&sent);
            assert_eq!(sent.flow, alice);
        }
        // Who moved to the first port is called from there.
        assert_eq!(only(world.udp(BOB, &register("bob", contact).cseq(2).wire())).status(), 200);
        let sent = forwarded(world.message(alice, &invite("sip:bob@example.org").call_id("two").wire()));
        assert_eq!(sent.flow.listener, ListenerId(0));
    }
}

/// A request that is too long for a datagram goes over a connection, as to any other address.
#[test]
fn a_long_request_for_a_phone_of_the_second_port_is_tried_over_tcp() {
    let second = ListenerId(u8::try_from(config().listeners.len()).unwrap());
    let mut world = World::with(|config| added(config, Transport::Udp, "192.0.2.1:5070"));
    let bob = Flow::udp(second, BOB.parse().unwrap());
    assert_eq!(only(world.message(bob, &register("bob", "<sip:bob@192.0.2.20:5060>").wire())).status(), 200);
    let long = format!("X-Long: {}", "x".repeat(1400));
    let sent = forwarded(world.udp(ALICE, &invite("sip:bob@example.org").line(&long)));
    assert_eq!((sent.flow.transport, sent.to().as_str()), (Transport::Tcp, BOB));
}

#[test]
fn the_address_of_a_removed_listener_is_still_ours_in_a_route() {
    let mut world = World::open();
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let call = invite("sip:bob@example.org").tcp();
    let got = forwarded(world.tcp(7, ALICE, &call));
    let answered = got.answer(200, &["Contact: <sip:bob@192.0.2.20>"]);
    let answered = only(world.udp(BOB, &answered));
    let mut config = config();
    added(&mut config, Transport::Tcp, "192.0.2.1:5080");
    config.removed_listeners = vec![ListenerId(1)];
    world.server.reconfigure(Arc::new(config));
    // The connection of the removed TCP listener is open, and its phone ends the call by the Route that it has.
    let routes = answered.headers("Record-Route");
    let bye = request("BYE", "sip:bob@192.0.2.20").tcp().to(&answered.header("To")).cseq(2);
    let bye = Request { lines: vec![format!("Route: {}", routes.join(", "))], ..bye };
    let sent = requests(world.tcp(7, ALICE, &bye));
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].method().as_str(), sent[0].to().as_str()), ("BYE", "192.0.2.20:5060"));
}
