//! To send through the server to where the attacker itself cannot, or not at somebody else's cost.

use super::{ELSEWHERE, closed, eves, reached};
use crate::harness::{ALICE, BOB, CAROL, STRANGER, World, invite, register, requests};
use crate::login::proven;
use crate::row::{Door, Row, Seen, Thesis};
use ringway_sansio::Defence;
use ringway_server::{
    Destination, DestinationRule, DestinationRules, ForwardUri, Forwards, NumberChange, Route, RouteMatch,
    RouteTable, RouteTo, Trunk, WeightedTrunk,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "a stranger calls a foreign host through the server",
        door: Door::Udp,
        thesis: Thesis::TollFraud,
        defence: Defence::Relaying,
        attack: relays,
    },
    Row {
        name: "a user reaches a host behind the server",
        door: Door::Udp,
        thesis: Thesis::Other,
        defence: Defence::InnerHosts,
        attack: reaches_inside,
    },
    Row {
        name: "a user registers the address of a victim, and its calls are sent there",
        door: Door::Udp,
        thesis: Thesis::UdpFlood,
        defence: Defence::ContactSource,
        attack: aims_calls,
    },
    Row {
        name: "a request is sent to a broadcast address",
        door: Door::Udp,
        thesis: Thesis::UdpFlood,
        defence: Defence::Broadcast,
        attack: broadcasts,
    },
    Row {
        name: "a trunk calls a foreign host through the server",
        door: Door::Trunk,
        thesis: Thesis::TollFraud,
        defence: Defence::TrunkReach,
        attack: trunk_relays,
    },
    Row {
        name: "a name that the attacker registered leads to a host behind the server",
        door: Door::Dns,
        thesis: Thesis::Other,
        defence: Defence::InnerHosts,
        attack: reaches_inside_by_name,
    },
    Row {
        name: "a token is made that names the address of a victim",
        door: Door::Edge,
        thesis: Thesis::UdpFlood,
        defence: Defence::FlowToken,
        attack: forges_a_token,
    },
    Row {
        name: "a user calls a number that is denied",
        door: Door::Trunk,
        thesis: Thesis::TollFraud,
        defence: Defence::Destinations,
        attack: calls_a_denied_number,
    },
    Row {
        name: "a user calls a denied number behind a service code",
        door: Door::Trunk,
        thesis: Thesis::TollFraud,
        defence: Defence::ServiceCodes,
        attack: calls_behind_a_code,
    },
    Row {
        name: "strangers make forty calls at a time to a number at the cost of a user who forwards there",
        door: Door::Trunk,
        thesis: Thesis::TollFraud,
        defence: Defence::ForwardLimit,
        attack: calls_by_a_forward,
    },
    Row {
        name: "a Request-URI brings header fields with it",
        door: Door::Udp,
        thesis: Thesis::Malformed,
        defence: Defence::UriHeaders,
        attack: brings_fields,
    },
];

fn relays() -> Seen {
    let mut world = closed();
    let sent = world.udp(STRANGER, &eves(&format!("sip:x@{ELSEWHERE}")));
    Seen::new(&world, reached(&sent, ELSEWHERE))
}

fn reaches_inside() -> Seen {
    let mut world = closed();
    let sent = proven(&mut world, ALICE, &invite("sip:x@10.1.2.3:8080"), "alice");
    Seen::new(&world, reached(&sent, "10.1.2.3:8080"))
}

fn aims_calls() -> Seen {
    let mut world = World::closed();
    proven(&mut world, CAROL, &register("carol", &format!("<sip:x@{ELSEWHERE}>")), "carol");
    let sent = world.udp(STRANGER, &eves("sip:carol@example.org"));
    Seen::new(&world, reached(&sent, ELSEWHERE))
}

fn broadcasts() -> Seen {
    let mut world = closed();
    let sent = proven(&mut world, ALICE, &invite("sip:x@255.255.255.255"), "alice");
    Seen::new(&world, reached(&sent, "255.255.255.255:5060"))
}

fn trunk_relays() -> Seen {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        let networks = vec!["203.0.113.66".parse().unwrap()];
        config.trunking.trunks =
            vec![Trunk { networks, ..Trunk::at("carrier", "sip:203.0.113.66:5060") }].into();
    });
    let sent = world.udp(STRANGER, &eves(&format!("sip:x@{ELSEWHERE}")));
    Seen::new(&world, reached(&sent, ELSEWHERE))
}

fn brings_fields() -> Seen {
    let mut world = closed();
    let sent = world.udp(STRANGER, &eves("sip:bob@example.org?Route=%3Csip:198.51.100.7%3E"));
    Seen::new(&world, reached(&sent, BOB))
}

fn reaches_inside_by_name() -> Seen {
    let mut world = closed();
    proven(&mut world, ALICE, &invite("sip:x@inside.example.com"), "alice");
    let sent = world.resolve_to("inside.example.com", &["10.1.2.3:8080"]);
    Seen::new(&world, reached(&sent, "10.1.2.3:8080"))
}

fn forges_a_token() -> Seen {
    const PHONE: &str = "203.0.113.66:5060";
    const REGISTRAR: &str = "203.0.113.1:5060";
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        config.edge_domains = vec!["example.net".into()];
    });
    let mut request = register("eve", "<sip:eve@10.0.0.5>;+sip.instance=\"<urn:x>\";reg-id=1");
    (request.uri, request.to) = ("sip:example.net".into(), "<sip:eve@example.net>".into());
    let request =
        request.line("Supported: path, outbound").line("Route: <sip:192.0.2.1;lr>").from(super::EVE);
    world.udp(PHONE, &request);
    let sent = world.resolve_to("example.net", &[REGISTRAR]);
    let path = requests(sent).remove(0).header("Path");
    // Address of the attacker, and that of the victim.
    let forged = path.replace("cb007142", "c6336407");
    assert_ne!(path, forged, "the token has the address: {path}");
    let call = eves("sip:dave@10.0.0.5").to("<sip:dave@example.net>").line(&format!("Route: {forged}"));
    let sent = world.udp(STRANGER, &call);
    Seen::new(&world, reached(&sent, ELSEWHERE))
}

const CARRIER: &str = "198.51.100.1:5060";

/// Numbers go to a carrier, but for those of satellites.
fn with_carrier() -> World {
    let mut world = World::with(|config| {
        config.auth.enabled = true;
        let networks = vec!["198.51.100.1".parse().unwrap()];
        config.trunking.trunks = vec![Trunk {
            networks,
            international: vec!["00".into()],
            ..Trunk::at("carrier", &format!("sip:{CARRIER}"))
        }]
        .into();
        let to = || RouteTo::Trunks {
            trunks: [WeightedTrunk { trunk: 0, weight: 0 }].as_slice().into(),
            change: NumberChange::default(),
        };
        let route = |prefix: &str| Route { matches: RouteMatch::Prefix(prefix.into()), to: to() };
        config.trunking.routes = RouteTable::new(vec![route("+"), route("*")]).unwrap();
        let deny = |prefix: &str| Destination { prefix: prefix.into(), rule: DestinationRule::Deny };
        config.trunking.destinations = DestinationRules::new(vec![deny("+881")]).unwrap();
    });
    super::at_home(&mut world);
    world
}

fn calls_a_denied_number() -> Seen {
    let mut world = with_carrier();
    let sent = proven(&mut world, ALICE, &invite("sip:+8816123@example.org"), "alice");
    Seen::new(&world, reached(&sent, CARRIER))
}

fn calls_behind_a_code() -> Seen {
    let mut world = with_carrier();
    let sent = proven(&mut world, ALICE, &invite("sip:*31%23008816123@example.org"), "alice");
    Seen::new(&world, reached(&sent, CARRIER))
}

fn calls_by_a_forward() -> Seen {
    let mut world = with_carrier();
    let forwards = Forwards {
        always: Some(ForwardUri::new("sip:+441234567@example.org").unwrap()),
        ..Forwards::default()
    };
    world.server.set_forwards(b"bob@example.org", forwards);
    let mut calls = 0;
    for number in 0..40 {
        let sent = world.udp(STRANGER, &eves("sip:bob@example.org").call_id(&format!("{number}")));
        calls += usize::from(reached(&super::delivered(&mut world, sent), CARRIER));
    }
    Seen::new(&world, calls == 40)
}
