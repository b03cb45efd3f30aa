//! Addresses that the server shows to some peers in place of its own (decision 0056).

use crate::dialog::{from_caller, with_bob};
use crate::harness::{ALICE, BOB, World, forwarded, invite, only, request, requests};
use ringway_sansio::Transport;
use ringway_server::{Advertised, AdvertisedHost, Config};

/// Alice's address outside.
const OUTSIDE: &str = "203.0.113.7:5060";

fn advertise(config: &mut Config, host: AdvertisedHost, port: Option<u16>, networks: &[&str]) {
    let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
    config.advertised.push(Advertised { listener: None, host, port, networks });
}

fn router() -> AdvertisedHost {
    AdvertisedHost::Address("198.51.100.9".parse().unwrap())
}

/// Peers in 203.0.113.0/24 get `host`.
fn world(host: AdvertisedHost, port: Option<u16>) -> World {
    with_bob(World::with(|config| advertise(config, host, port, &["203.0.113.0/24"])))
}

#[test]
fn a_call_between_outside_and_inside_has_an_address_for_each_side() {
    let mut world = world(router(), None);
    let got = forwarded(world.udp(OUTSIDE, &invite("sip:bob@example.org")));
    let routes = got.headers("Record-Route");
    assert_eq!(routes.len(), 2, "{}", got.text());
    assert!(routes[0].starts_with("<sip:192.0.2.1:5060;lr;"), "{routes:?}");
    assert!(routes[1].starts_with("<sip:198.51.100.9:5060;lr;"), "{routes:?}");
    assert!(got.headers("Via")[0].starts_with("SIP/2.0/UDP 192.0.2.1:5060;"), "{}", got.text());
    let answer = only(world.udp(BOB, &got.answer(200, &["Contact: <sip:bob@192.0.2.20>"])));
    // The routes of the caller begin with the address outside, and both are taken out.
    let mut bye = from_caller("BYE", 2, &answer);
    bye.via = format!("SIP/2.0/UDP {OUTSIDE};rport;branch=z9hG4bK");
    assert!(bye.lines[0].starts_with("Route: <sip:198.51.100.9:5060;lr;"), "{:?}", bye.lines);
    let sent = forwarded(world.udp(OUTSIDE, &bye));
    assert_eq!((sent.to().as_str(), sent.headers("Route").len()), (BOB, 0));
}

#[test]
fn requests_that_leave_to_the_outside_show_the_address_outside() {
    let mut world = world(router(), Some(5070));
    let got = forwarded(world.udp(ALICE, &invite("sip:x@203.0.113.9").tcp()));
    assert!(got.headers("Via")[0].contains(" 198.51.100.9:5070;"), "{}", got.text());
    let routes = got.headers("Record-Route");
    assert!(routes[0].starts_with("<sip:198.51.100.9:5070;lr;"), "{routes:?}");
    assert!(routes[1].starts_with("<sip:192.0.2.1:5060"), "{routes:?}");
    // Its responses come back by the branch.
    assert_eq!(only(world.udp("203.0.113.9:5060", &got.answer(180, &[]))).status(), 180);
}

#[test]
fn a_name_is_ours_with_its_port_and_without_one() {
    let mut world = world(AdvertisedHost::Name("sip.example.net".into()), None);
    let got = forwarded(world.udp(OUTSIDE, &invite("sip:bob@example.org")));
    assert!(got.headers("Record-Route")[1].starts_with("<sip:sip.example.net:5060;lr;"), "{}", got.text());
    for host in ["SIP.example.net", "sip.example.net:5060", "sip.example.net.", "sip.example.net:5060;lr"] {
        let got = forwarded(world.udp(ALICE, &invite(&format!("sip:bob@{host}")).call_id(host)));
        assert_eq!(got.to(), BOB, "{host}");
    }
    let mut routed = invite("sip:bob@example.org").call_id("routed");
    routed.lines.push("Route: <sip:sip.example.net;lr>".to_owned());
    assert_eq!(forwarded(world.udp(ALICE, &routed)).headers("Route").len(), 0);
    // Another port is another server.
    let other = world.udp(ALICE, &invite("sip:bob@sip.example.net:5999").call_id("other"));
    assert!(other.iter().all(|sent| !sent.text().contains("@192.0.2.20")), "no call of bob");
}

#[test]
fn an_advertised_address_is_this_server_in_a_uri_and_not_as_a_source() {
    let mut world = world(router(), None);
    // A binding at it would be this server: it is looked up here, and never sent to over the router.
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@198.51.100.9")));
    assert_eq!(got.to(), BOB);
    // A host behind the same router is a stranger as any other.
    let mut asked = World::with(|config| {
        config.auth.enabled = true;
        advertise(config, router(), None, &["203.0.113.0/24"]);
    });
    let stranger = request("MESSAGE", "sip:bob@example.org");
    assert_eq!(only(asked.udp("198.51.100.9:5060", &stranger)).status(), 407);
}

#[test]
fn without_networks_peers_with_public_addresses_get_it() {
    let mut world = with_bob(World::with(|config| advertise(config, router(), None, &[])));
    let inside = forwarded(world.udp("10.0.0.7:5060", &invite("sip:bob@example.org")));
    let routes = inside.headers("Record-Route");
    assert!(
        routes[0].starts_with("<sip:198.51.100.9:5060;") && routes[1].starts_with("<sip:192.0.2.1:5060;"),
        "{routes:?}"
    );
    let outside = forwarded(world.udp(OUTSIDE, &invite("sip:bob@example.org").call_id("outside")));
    assert_eq!(outside.headers("Record-Route").len(), 1, "both sides are outside");
}

#[test]
fn a_peer_of_the_other_family_gets_the_own_address() {
    let mut world = with_bob(World::with(|config| advertise(config, router(), None, &[])));
    let got = forwarded(world.udp("[2a00::7]:5060", &invite("sip:bob@example.org")));
    let routes = got.headers("Record-Route");
    assert!(routes.last().unwrap().starts_with("<sip:192.0.2.1:5060;"), "{routes:?}");
}

#[test]
fn a_peer_that_is_known_by_its_connection_alone_is_outside() {
    let mut world = with_bob(World::with(|config| advertise(config, router(), None, &[])));
    let got = forwarded(world.tcp(7, "0.0.0.0:0", &invite("sip:bob@example.org").tcp()));
    let routes = got.headers("Record-Route");
    assert!(routes.last().unwrap().starts_with("<sip:198.51.100.9:5060;transport=tcp;"), "{routes:?}");
}

#[test]
fn an_entry_of_one_listener_is_for_that_alone() {
    let mut world = with_bob(World::with(|config| {
        let listener = Some((Transport::Tcp, "192.0.2.1:5060".parse().unwrap()));
        config.advertised.push(Advertised { listener, host: router(), port: None, networks: Vec::new() });
    }));
    let got = forwarded(world.udp(ALICE, &invite("sip:bob@example.org")));
    assert!(got.headers("Record-Route")[0].starts_with("<sip:192.0.2.1:5060;"));
    let got = forwarded(world.tcp(7, ALICE, &invite("sip:bob@example.org").tcp().call_id("tcp")));
    assert!(
        got.headers("Record-Route")[1].starts_with("<sip:198.51.100.9:5060;transport=tcp;"),
        "{}",
        got.text()
    );
}

#[test]
fn a_phone_whose_contact_is_the_advertised_address_makes_no_loop() {
    let mut world = World::with(|config| advertise(config, router(), None, &[]));
    world.register("bob", ALICE, "<sip:bob@198.51.100.9>");
    let got = world.udp(ALICE, &invite("sip:bob@example.org"));
    let left = requests(got).into_iter().filter(|sent| sent.to() == "198.51.100.9:5060").count();
    assert_eq!(left, 0, "nothing is sent over the router");
}
