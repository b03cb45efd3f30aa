//! Front before nodes: choice and failover, what a node's response means, who may send through it; and a node behind a front.

use crate::challenge::{Login, answered, proven};
use crate::ends::nothing_is_left;
use crate::harness::{
    ALICE, BOB, Request, STRANGER, Sent, Wire, World, config, invite, only, query, register, request,
    requests, statuses, tcp_flow,
};
use crate::routes::trunk;
use ringway_sansio::ConnectionId;
use ringway_server::{Config, Trunk};
use std::collections::BTreeSet;
use std::time::Duration;

const PHONE: &str = "198.51.100.7:31337";
/// Address of the front of a node.
pub(crate) const FRONT: &str = "192.0.2.70:5060";

fn node(number: u8) -> String {
    format!("203.0.113.{number}:5060")
}

/// Front before so many nodes of example.net, without health checks.
fn front(nodes: u8) -> World {
    World::with(|config| set_nodes(config, nodes))
}

fn set_nodes(config: &mut Config, nodes: u8) {
    config.auth.enabled = true;
    config.edge_domains = vec!["example.net".into()];
    config.trunking.trunks = (1..=nodes).map(node_of).collect::<Vec<_>>().into();
}

fn node_of(number: u8) -> Trunk {
    let address = node(number);
    let networks = vec![format!("203.0.113.{number}").parse().unwrap()];
    Trunk { is_node: true, networks, ..trunk(&address, &address) }
}

fn daves(number: u32) -> Request {
    let mut request = register("dave", "<sip:dave@10.0.0.5>").call_id(&format!("{number}"));
    (request.uri, request.to) = ("sip:example.net".into(), "<sip:dave@example.net>".into());
    request.from("sip:dave@example.net")
}

fn call(user: &str, from: &str) -> Request {
    invite(&format!("sip:{user}@example.net")).from(from).call_id(user)
}

/// The request that leaves, with its node.
#[track_caller]
fn to_node(sent: Vec<Sent>) -> Sent {
    let sent = only(requests(sent).into_iter().filter(|sent| sent.method() != "ACK").collect());
    assert!(sent.to().starts_with("203.0.113."), "{}", sent.text());
    sent
}

#[test]
fn requests_of_and_for_a_user_have_one_node_and_keep_its_uri() {
    let mut world = front(8);
    let registered = to_node(world.udp(PHONE, &daves(1)));
    assert_eq!(registered.uri(), "sip:example.net");
    assert_eq!(registered.headers("Route"), [format!("<sip:{};lr>", registered.to())]);
    assert_eq!(registered.headers("Path").len(), 1);
    world.udp(&registered.to(), &registered.answer(200, &[]));
    // A stranger, whose domain is not the nodes', calls by the same node.
    let called = to_node(world.udp(STRANGER, &call("dave", "sip:eve@example.com")));
    assert_eq!((called.to(), called.uri().as_str()), (registered.to(), "sip:dave@example.net"));
    assert!(world.lookups.is_empty(), "no name is looked up");
    world.udp(&called.to(), &called.answer(486, &[]));
    let nodes: BTreeSet<_> = (0..100)
        .map(|number| {
            to_node(world.udp(STRANGER, &call(&format!("user{number}"), "sip:eve@example.net"))).to()
        })
        .collect();
    assert_eq!(nodes.len(), 8, "all nodes have users");
}

#[test]
fn a_503_leads_to_the_next_node_and_three_are_tried() {
    let mut world = front(8);
    let mut tried = BTreeSet::new();
    let mut sent = to_node(world.udp(PHONE, &daves(1)));
    for _ in 0..2 {
        assert!(tried.insert(sent.to()));
        sent = to_node(world.udp(&sent.to(), &sent.answer(503, &["Retry-After: 5"])));
    }
    assert!(tried.insert(sent.to()));
    assert_eq!(statuses(&world.udp(&sent.to(), &sent.answer(503, &[]))), [500]);
    assert_eq!(world.server.counters().trunk_failovers, 2);
    nothing_is_left(&mut world, "after three nodes");
}

#[test]
fn any_other_response_is_the_phones() {
    for status in [302, 401, 403, 404, 407, 408, 430, 480, 486, 500, 502, 504, 600] {
        for is_invite in [false, true] {
            let mut world = front(3);
            let request = if is_invite { call("dave", "sip:frank@example.net") } else { daves(1) };
            let sent = to_node(world.udp(PHONE, &request));
            let challenge = "Proxy-Authenticate: Digest realm=\"example.net\",nonce=\"1\"";
            let answers = world.udp(&sent.to(), &sent.answer(status, &[challenge]));
            match (status, is_invite) {
                // RFC 4320 §4.2.
                (408, false) => assert!(statuses(&answers).is_empty()),
                _ => assert_eq!(statuses(&answers), [status]),
            }
            let others = requests(answers).into_iter().filter(|sent| sent.method() != "ACK").count();
            assert_eq!((others, world.server.counters().trunk_auth_failures), (0, 0), "{status}");
            nothing_is_left(&mut world, &format!("after {status}"));
        }
    }
}

#[test]
fn a_silent_node_is_followed_after_its_time_and_tried_last() {
    let mut world = front(2);
    let first = to_node(world.udp(PHONE, &daves(1)));
    let second = to_node(
        world.pass(Duration::from_secs(4)).into_iter().filter(|sent| sent.to() != first.to()).collect(),
    );
    let answers = world.udp(&second.to(), &second.answer(200, &[]));
    assert_eq!(statuses(&answers), [200]);
    assert_eq!(to_node(world.udp(PHONE, &daves(2))).to(), second.to(), "the silent one is the last");
    world.pass(Duration::from_secs(61));
    assert_eq!(to_node(world.udp(PHONE, &daves(3))).to(), first.to());
}

#[test]
fn a_phone_that_does_not_answer_makes_no_node_silent() {
    for method in ["MESSAGE", "OPTIONS"] {
        let mut world = front(3);
        let asked =
            Request { to: "<sip:dave@example.net>".into(), ..request(method, "sip:dave@example.net") };
        let first = to_node(world.udp(PHONE, &asked.from("sip:frank@example.net")));
        for _ in 0..31 {
            let sent = world.pass(Duration::from_secs(1));
            assert!(sent.iter().all(|sent| sent.to() == first.to()), "{method}");
        }
        world.pass(Duration::from_secs(40));
        let call = call("dave", "sip:frank@example.net");
        assert_eq!(to_node(world.udp(PHONE, &call)).to(), first.to(), "{method}: it is the first one still");
    }
}

#[test]
fn the_response_after_a_silent_node_is_the_phones_at_once() {
    for (is_invite, status) in [(false, 401), (true, 407), (true, 486)] {
        let mut world = front(2);
        let request = if is_invite { call("dave", "sip:frank@example.net") } else { daves(1) };
        let first = to_node(world.udp(PHONE, &request));
        let sent = world.pass(Duration::from_secs(4));
        let second = to_node(sent.into_iter().filter(|sent| sent.to() != first.to()).collect());
        let answers = world.udp(&second.to(), &second.answer(status, &[]));
        assert_eq!(statuses(&answers), [status]);
        // The first one was only slow.
        let late = world.udp(&first.to(), &first.answer(if is_invite { 180 } else { 401 }, &[]));
        assert!(statuses(&late).is_empty());
        let cancels = requests(late).iter().filter(|sent| sent.method() == "CANCEL").count();
        assert_eq!(cancels, usize::from(is_invite));
        nothing_is_left(&mut world, &format!("after {status}"));
    }
}

#[test]
fn a_front_relays_to_its_nodes_only() {
    let mut world = front(2);
    for (number, (uri, from, route)) in [
        ("sip:x@example.com", "sip:eve@example.com", None),
        ("sip:x@example.com", "sip:eve@example.com", Some("sip:example.net")),
        ("sip:x@example.com", "sip:dave@example.net", None),
        ("sip:x@203.0.113.1", "sip:dave@example.net", None),
        ("sip:dave@example.net", "sip:dave@example.net", Some("sip:203.0.113.9")),
        ("sip:dave@sub.example.net", "sip:eve@example.com", None),
    ]
    .into_iter()
    .enumerate()
    {
        let mut request = invite(uri).from(from).call_id(&format!("{number}"));
        request.lines.extend(route.map(|route| format!("Route: <{route};lr>")));
        let sent = world.udp(STRANGER, &request);
        assert_eq!((requests(sent.clone()).len(), statuses(&sent)), (0, vec![403]), "{uri} {from} {route:?}");
        assert!(world.lookups.is_empty());
    }
}

#[test]
fn a_request_that_a_node_sends_back_is_a_loop() {
    let mut world = front(1);
    let sent = to_node(world.udp(STRANGER, &call("dave", "sip:eve@example.com")));
    let back = String::from_utf8(sent.bytes.clone()).unwrap();
    let via = format!("Via: SIP/2.0/UDP {};branch=z9hG4bKback\r\nVia: ", node(1));
    let back = back.replacen("Via: ", &via, 1).replace(&sent.header("Route"), "<sip:192.0.2.1;lr>");
    assert_eq!(statuses(&world.message(sent.flow, back.as_bytes())), [482]);
}

#[test]
fn sixty_four_nodes_cost_a_request_no_more_than_three() {
    let reserved = |nodes: u8| {
        let mut world = front(nodes);
        to_node(world.udp(STRANGER, &call("dave", "sip:eve@example.com")));
        world.memory.tables().reserved_bytes()
    };
    // The addresses of nodes differ in length.
    assert!(reserved(64).abs_diff(reserved(3)) < 16, "{} {}", reserved(64), reserved(3));
}

#[test]
fn both_sides_of_a_call_that_passed_twice_end_it() {
    for is_ended_by_callee in [true, false] {
        let mut world = front(1);
        // Its connection is all that leads to dave.
        let registered = to_node(world.tcp(5, PHONE, &daves(1).tcp()));
        world.udp(&registered.to(), &registered.answer(200, &[]));
        let call = call("dave", "sip:frank@example.net").line("Contact: <sip:frank@192.0.2.10:5060>");
        let first = to_node(world.udp(ALICE, &call));
        let mut back = call.clone().via(&format!("SIP/2.0/UDP {};rport;branch=z9hG4bK", node(1)));
        back.uri = "sip:dave@10.0.0.5".into();
        let back = back
            .line(&format!("Via: {}", first.headers("Via")[0]))
            .line(&format!("Route: {}", registered.header("Path")))
            .line(&format!("Record-Route: {}", first.header("Record-Route")));
        let second = only(requests(world.udp(&node(1), &back)));
        assert_eq!(second.flow.connection, Some(ConnectionId(5)));
        let mut routes = second.headers("Record-Route");
        assert!(routes.len() > 1, "{routes:?}");
        let callee = format!("{};tag=dave", call.to);
        let bye = match is_ended_by_callee {
            true => {
                Request { from: callee, to: call.from.clone(), ..request("BYE", "sip:frank@192.0.2.10:5060") }
            }
            false => {
                routes.reverse();
                Request { from: call.from.clone(), to: callee, ..request("BYE", "sip:dave@10.0.0.5") }
            }
        };
        let bye = routes
            .iter()
            .fold(bye.call_id("dave").cseq(9), |bye, route| bye.line(&format!("Route: {route}")));
        let other = bye.clone().cseq(10);
        let sent = match is_ended_by_callee {
            true => world.tcp(5, PHONE, &bye.tcp()),
            false => world.udp(ALICE, &bye),
        };
        let sent = only(requests(sent));
        match is_ended_by_callee {
            true => assert_eq!(sent.to(), ALICE),
            false => assert_eq!(sent.flow.connection, Some(ConnectionId(5))),
        }
        // Nobody else ends it.
        assert!(requests(world.udp(STRANGER, &other)).is_empty());
    }
}

/// Node behind [`FRONT`].
fn behind(change: impl FnOnce(&mut Config)) -> World {
    World::with(|config| {
        set_front(config);
        change(config);
    })
}

pub(crate) fn set_front(config: &mut Config) {
    config.auth.enabled = true;
    config.auth.fronts = vec!["192.0.2.70".parse().unwrap()];
}

/// The request as the front passes it on for a phone at this address.
pub(crate) fn passed_on(request: Request, client: &str) -> Request {
    request
        .via("SIP/2.0/UDP 192.0.2.70:5060;rport;branch=z9hG4bK")
        .line(&format!("Via: SIP/2.0/UDP 10.0.0.5;received={client};branch=z9hG4bKphone"))
}

#[test]
fn a_node_believes_nobody_because_of_the_front() {
    let mut world = behind(|config| {
        crate::routes::carriers(config);
        // A mistake of an operator.
        config.auth.trusted.push("192.0.2.0/24".parse().unwrap());
    });
    for (number, uri) in
        ["sip:+441234@example.org", "sip:bob@example.org", "sip:x@other.example"].iter().enumerate()
    {
        let call =
            invite(uri).call_id(&format!("{number}")).line("P-Asserted-Identity: <sip:alice@example.org>");
        let sent = world.udp(FRONT, &passed_on(call, "198.51.100.7"));
        assert_eq!(statuses(&sent), [407], "{uri}");
    }
    assert_eq!(statuses(&world.udp(FRONT, &passed_on(query("alice"), "198.51.100.7"))), [401]);
}

#[test]
fn a_phone_behind_the_front_registers_without_support_for_path_and_is_reached_by_it() {
    let mut world = behind(|_| {});
    let request = passed_on(register("bob", "<sip:bob@10.0.0.5>"), "198.51.100.7")
        .line("Path: <sip:token@192.0.2.70:5060;lr>");
    assert_eq!(only(proven(&mut world, FRONT, &request, "bob")).status(), 200);
    let call = only(requests(proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice")));
    assert_eq!((call.to().as_str(), call.uri().as_str()), (FRONT, "sip:bob@10.0.0.5"));
    // Without a front's address the same is refused.
    let sent = world.udp(BOB, &request.clone().call_id("direct"));
    assert!(statuses(&sent) == [401] || statuses(&sent) == [420]);
    assert_eq!(only(proven_or_refused(&mut world, &request.call_id("other"))).status(), 420);
}

#[test]
fn the_path_of_a_front_names_no_other_host() {
    let mut world = behind(|_| {});
    let request = passed_on(register("bob", "<sip:bob@10.0.0.5>"), "198.51.100.7")
        .line("Path: <sip:token@198.51.100.99:5060;lr>");
    assert_eq!(only(proven(&mut world, FRONT, &request, "bob")).status(), 200);
    let call = only(requests(proven(&mut world, ALICE, &invite("sip:bob@example.org"), "alice")));
    assert_eq!(call.to(), FRONT);
}

#[test]
fn the_called_phone_gets_no_credentials_for_the_nodes() {
    let mut world = front(1);
    let registered = to_node(world.udp(PHONE, &daves(1)));
    world.udp(&registered.to(), &registered.answer(200, &[]));
    let credentials = |realm: &str| {
        format!(
            "Digest username=\"frank\",realm=\"{realm}\",nonce=\"1\",uri=\"sip:dave@example.net\",response=\"{:032}\"",
            1
        )
    };
    let call = invite("sip:dave@10.0.0.5")
        .from("sip:frank@example.net")
        .line(&format!("Route: {}", registered.header("Path")))
        .line(&format!("Proxy-Authorization: {}", credentials("the nodes")))
        .line(&format!("Authorization: {}", credentials("example.net")))
        .line(&format!("Authorization: {}", credentials("dave's phone")));
    let sent = only(requests(world.udp(&node(1), &call)));
    assert_eq!(sent.to(), PHONE);
    assert!(sent.headers("Proxy-Authorization").is_empty());
    assert_eq!(sent.headers("Authorization"), [credentials("dave's phone")]);
}

/// Last response to a REGISTER of bob from his own address.
fn proven_or_refused(world: &mut World, request: &Request) -> Vec<Sent> {
    let challenge = only(world.udp(BOB, request));
    match challenge.status() {
        401 => world.udp(BOB, &answered(request, &Login::to(&challenge, "bob"))),
        _ => vec![challenge],
    }
}

#[test]
fn wrong_passwords_behind_the_front_slow_their_sender_only() {
    let mut world = behind(|_| {});
    let mut guess = |client: &str, user: &str, password: &str, number: u32| {
        let request = passed_on(query(user), client).call_id(&format!("{client}{user}{number}"));
        let challenge = only(world.udp(FRONT, &request));
        assert_eq!(challenge.status(), 401);
        let login = Login { password: password.into(), ..Login::to(&challenge, user) };
        only(world.udp(FRONT, &answered(&request, &login))).status()
    };
    let slowed = (0..100).filter(|number| guess("198.51.100.66", "alice", "a word", *number) == 503).count();
    assert!(slowed > 70, "{slowed} of 100");
    assert_eq!(guess("198.51.100.7", "bob", "bob's password", 0), 200);
    assert_eq!(guess("198.51.100.66", "carol", "carol's password", 0), 503, "the guesser's own address");
}

#[test]
fn a_nonce_is_good_for_the_phone_that_got_it() {
    let mut world = behind(|_| {});
    let request = passed_on(query("alice"), "198.51.100.7");
    let challenge = only(world.udp(FRONT, &request));
    let stolen = answered(&passed_on(query("alice"), "198.51.100.66"), &Login::to(&challenge, "alice"));
    assert_eq!(statuses(&world.udp(FRONT, &stolen)), [401]);
    assert_eq!(statuses(&world.udp(FRONT, &answered(&request, &Login::to(&challenge, "alice")))), [200]);
}

#[test]
fn the_rate_of_one_source_holds_for_no_front_and_no_node() {
    let of_front: fn(&mut Config) = |config| set_nodes(config, 1);
    let of_node: fn(&mut Config) = set_front;
    for (change, source) in [(of_front, node(1)), (of_node, FRONT.to_owned())] {
        let mut config = config();
        change(&mut config);
        let mut world = World::at(config, 5);
        let options =
            |id: &str, number: u32| request("OPTIONS", "sip:192.0.2.1").call_id(&format!("{id}{number}"));
        for number in 0..20 {
            let sent = world.udp(&source, &options("peer", number));
            assert_eq!(statuses(&sent), [200], "{number} of {source}");
        }
        let admitted =
            (0..20).filter(|number| !world.udp(STRANGER, &options("stranger", *number)).is_empty());
        assert!(admitted.count() < 20, "a stranger has a rate");
    }
}

#[test]
fn a_request_that_grew_at_the_front_is_handled_and_a_longer_one_is_answered() {
    const MAX: usize = 1300;
    let set_limit: fn(&mut Config) = |config| config.message_limits.message_bytes_max = MAX;
    let padded = |request: Request, bytes: usize| {
        let request = request.call_id(&format!("{bytes}"));
        let rest = bytes - request.wire().len() - "X-Padding: \r\n".len();
        request.line(&format!("X-Padding: {}", "x".repeat(rest)))
    };
    let mut world = behind(set_limit);
    for (bytes, status) in [(MAX, 401), (MAX + 1, 401), (MAX + 4096, 401), (MAX + 4097, 513)] {
        let sent = world.udp(FRONT, &padded(passed_on(query("alice"), "198.51.100.7"), bytes));
        assert_eq!(statuses(&sent), [status], "{bytes} bytes");
    }
    for (bytes, status) in [(MAX, 401), (MAX + 1, 513)] {
        assert_eq!(statuses(&world.udp(STRANGER, &padded(query("alice"), bytes))), [status], "{bytes} bytes");
    }
    // The stored request is read again for the response to a phone that does not answer.
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20".as_slice()]);
    let call = invite("sip:bob@example.org").from("sip:eve@example.com");
    let call = padded(passed_on(call, "198.51.100.7"), MAX + 2000);
    assert_eq!(requests(world.udp(FRONT, &call)).len(), 1);
    assert!(statuses(&world.pass(Duration::from_secs(40))).contains(&408));
    let (mut of_node, mut of_front) = (config(), config());
    set_front(&mut of_node);
    set_nodes(&mut of_front, 1);
    for (mut config, peer) in [(of_node, FRONT.to_owned()), (of_front, node(1))] {
        set_limit(&mut config);
        assert_eq!(
            config.stream_bytes_max(&tcp_flow(5, &peer)),
            65_535,
            "a message ends no stream of others"
        );
        assert_eq!(config.stream_bytes_max(&tcp_flow(5, STRANGER)), MAX);
    }
}
