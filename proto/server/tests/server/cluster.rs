//! Nodes that share registrations: links between them, nonces, keys.

use crate::challenge::{Login, answered, is_stale};
use crate::harness::{
    ALICE, BOB, CAROL, EDGE, Request, STRANGER, Sent, Wire, World, config, forwarded, invite, only, register,
    request, requests, statuses, tcp_flow,
};
use ringway_location::NodeName;
use ringway_sansio::{ConnectionId, Event, Flow, Instant, ListenerId, PeerNames, Transport};
use ringway_server::{ClusterSecret, Config, DigestPolicy, LinkedNode, Links, Listener, NoncePolicy};
use std::time::Duration;

/// Listener of links of the node under test, and those of two others.
const OWN: &str = "192.0.2.1:5070";
const OTHER: &str = "203.0.113.11:5070";
const THIRD: &str = "203.0.113.12:5070";
/// Numbers of listeners in these tests.
const PUBLIC_TLS: ListenerId = ListenerId(3);
const LINKS: ListenerId = ListenerId(4);
/// Connections of links: those that the other nodes opened, and those that this one opened to them.
const FROM_OTHER: u64 = 100;
const TO_OTHER: u64 = 200;

fn node(config: &mut Config, name: &str, secrets: (u8, Option<u8>)) {
    for address in ["192.0.2.1:5061", OWN] {
        let address = address.parse().unwrap();
        config.listeners.push(Listener { transport: Transport::Tls, bound: address, advertised: address });
    }
    config.auth.enabled = true;
    let secret = |byte: u8| ClusterSecret::new(&[byte; 32]);
    let named = |name: &str| NodeName::read(name.as_bytes()).unwrap();
    let nodes = [("other", OTHER), ("third", THIRD)];
    let nodes =
        nodes.map(|(name, address)| LinkedNode { name: named(name), address: address.parse().unwrap() });
    for node in &nodes {
        let neighbour = crate::neighbours::neighbour(&node.uri());
        config.neighbours.push(ringway_server::Neighbour { name: node.name.to_string(), ..neighbour });
    }
    config.links = Some(Links {
        node: named(name),
        listener: LINKS,
        secret: secret(secrets.0),
        accepted_secret: secrets.1.map(secret),
        nodes: nodes.into(),
    });
}

/// Node `name` of a cluster.
fn named(name: &str) -> World {
    World::with(|config| node(config, name, (1, None)))
}

/// Node with links to the others.
fn linked() -> World {
    let mut world = named("own");
    let probes = requests(world.due());
    assert_eq!(probes.iter().map(Sent::to).collect::<Vec<_>>(), [OTHER, THIRD]);
    for (probe, connection) in probes.iter().zip(TO_OTHER..) {
        assert_eq!((probe.flow.listener, probe.flow.transport), (LINKS, Transport::Tls));
        assert!(world.message(link(connection, &probe.to()), &probe.answer(200, &[])).is_empty());
    }
    world
}

fn link(connection: u64, from: &str) -> Flow {
    Flow { transport: Transport::Tls, listener: LINKS, ..tcp_flow(connection, from) }
}

fn over_tls(request: Request, from: &str) -> Request {
    request.via(&format!("SIP/2.0/TLS {from};rport;branch=z9hG4bK"))
}

/// Request of alice that the other node forwards for bob, by this Path.
fn by(path: &str, method: &str) -> Request {
    let request = request(method, "sip:bob@10.0.0.5")
        .line(&format!("Route: {path}"))
        .line(&format!("Record-Route: <sip:{OTHER};transport=tls;lr;rw=0>"))
        .line("Contact: <sip:alice@192.0.2.10>")
        .line("P-Asserted-Identity: <sip:alice@example.org>");
    over_tls(request.to("<sip:bob@example.org>"), OTHER)
}

/// Path of a phone with a connection to this node.
fn path_of(world: &World) -> String {
    String::from_utf8(world.server.link_path(&tcp_flow(5, BOB), world.now)).unwrap()
}

fn from_other(world: &mut World, request: &Request) -> Vec<Sent> {
    world.message_of(link(FROM_OTHER, OTHER), &request.wire(), Some(&names("other.node.ringway.internal")))
}

fn names(domain: &str) -> PeerNames {
    PeerNames::new(vec![domain.into()], Vec::new(), Instant::from_secs(1_900_000_000)).unwrap()
}

// Requests over links

#[test]
fn a_request_of_a_node_goes_over_the_flow_of_its_token() {
    let mut world = linked();
    let path = path_of(&world);
    assert!(path.ends_with("@192.0.2.1:5070;transport=tls;lr>"), "{path}");
    let sent = forwarded(from_other(&mut world, &by(&path, "INVITE")));
    assert_eq!((sent.flow.connection, sent.uri().as_str()), (Some(ConnectionId(5)), "sip:bob@10.0.0.5"));
    assert!(sent.headers("Route").is_empty());
    assert_eq!(sent.headers("P-Asserted-Identity").len(), 1, "the other node checked it");
    let routes = sent.headers("Record-Route");
    assert!(routes[0].contains("sip:192.0.2.1:5060;transport=tcp;lr"), "{routes:?}");
    assert!(routes[1].contains("sip:192.0.2.1:5070;transport=tls;lr"), "{routes:?}");
    let answer = only(world.tcp(5, BOB, &sent.answer(200, &["Contact: <sip:bob@10.0.0.5>"])));
    assert_eq!((answer.status(), answer.flow.connection), (200, Some(ConnectionId(FROM_OTHER))));
    // Requests of both sides in the dialog. Bob's goes over this node's own link.
    let bye = request("BYE", "sip:alice@192.0.2.10").cseq(2).to(&answer.header("From")).tcp();
    let lines = routes.iter().map(|route| format!("Route: {route}")).collect();
    let bye = Request { from: answer.header("To"), lines, ..bye };
    let bye = forwarded(world.tcp(5, BOB, &bye));
    assert_eq!((bye.to().as_str(), bye.flow.connection), (OTHER, Some(ConnectionId(TO_OTHER))));
    assert_eq!((bye.flow.listener, bye.headers("Route").len()), (LINKS, 1));
    let info = over_tls(request("INFO", "sip:bob@10.0.0.5").cseq(3).to(&answer.header("To")), OTHER);
    let lines = routes[..2].iter().rev().map(|route| format!("Route: {route}")).collect();
    let info = forwarded(from_other(&mut world, &Request { lines, ..info }));
    assert_eq!(info.flow.connection, Some(ConnectionId(5)));
}

#[test]
fn a_node_gets_100_when_the_phone_sends_it_and_no_other_response_came_before() {
    let mut world = linked();
    let call = by(&path_of(&world), "INVITE");
    let sent = from_other(&mut world, &call.clone().call_id("rings"));
    assert!(statuses(&sent).is_empty(), "nothing is retransmitted over a link");
    let got = forwarded(sent);
    assert_eq!(statuses(&world.tcp(5, BOB, &got.answer(180, &[]))), [180]);
    assert!(world.tcp(5, BOB, &got.answer(100, &[])).is_empty());
    // Without a response the node would give up before this phone answers.
    let got = forwarded(from_other(&mut world, &call.clone().call_id("silent")));
    world.pass(Duration::from_secs(30));
    let trying = only(world.tcp(5, BOB, &got.answer(100, &[])));
    assert_eq!((trying.status(), trying.flow.connection), (100, Some(ConnectionId(FROM_OTHER))));
    assert_eq!((trying.headers("Via").len(), trying.header("To")), (1, call.to.clone()));
    assert!(world.tcp(5, BOB, &got.answer(100, &[])).is_empty(), "once");
    world.pass(Duration::from_secs(60));
    assert_eq!(statuses(&world.tcp(5, BOB, &got.answer(200, &["Contact: <sip:bob@10.0.0.5>"]))), [200]);
    // One that is longer than a reload permits is under way all the same.
    let long = call.clone().call_id("long").line(&format!("Subject: {}", "x".repeat(1_000)));
    let got = forwarded(from_other(&mut world, &long));
    let mut config = crate::harness::config();
    node(&mut config, "own", (1, None));
    let trying = got.answer(100, &[]);
    assert!(trying.len() < long.wire().len());
    config.message_limits.message_bytes_max = trying.len();
    world.server.reconfigure(std::sync::Arc::new(config));
    assert_eq!(statuses(&world.tcp(5, BOB, &trying)), [100]);
    let mut config = crate::harness::config();
    node(&mut config, "own", (1, None));
    world.server.reconfigure(std::sync::Arc::new(config));
    // 100 is of no use for other requests.
    let message = by(&path_of(&world), "MESSAGE").call_id("message");
    let got = forwarded(from_other(&mut world, &message));
    assert!(world.tcp(5, BOB, &got.answer(100, &[])).is_empty());
}

#[test]
fn a_token_of_nodes_is_for_nodes() {
    for edge_domains in [vec![], vec!["example.net".into()]] {
        let mut world = World::with(|config| {
            node(config, "own", (1, None));
            config.edge_domains = edge_domains;
        });
        let path = path_of(&world);
        for (number, from) in [ALICE, EDGE, STRANGER, OTHER].into_iter().enumerate() {
            let request = by(&path, "INVITE").call_id(&format!("udp {number}"));
            let plain = request.clone().via(&format!("SIP/2.0/UDP {from};rport;branch=z9hG4bK"));
            assert_eq!(statuses(&world.udp(from, &plain)), [403], "{from} by UDP");
            let flow = Flow { listener: PUBLIC_TLS, ..link(7, from) };
            let request = request.call_id(&format!("tls {number}"));
            assert_eq!(statuses(&world.message(flow, &request.wire())), [403], "{from} by TLS");
        }
        // The phone has not got it, and may not use it either.
        let own = by(&path, "INVITE").call_id("own").tcp();
        assert_eq!(statuses(&world.tcp(5, BOB, &own)), [403]);
    }
}

#[test]
fn a_forged_token_of_a_node_is_refused() {
    let mut world = linked();
    let path = path_of(&world);
    for index in "<sip:".len()..path.find('@').unwrap() {
        let mut forged = path.clone().into_bytes();
        forged[index] = if forged[index] == b'1' { b'2' } else { b'1' };
        let request = by(&String::from_utf8(forged).unwrap(), "INVITE").call_id(&format!("{index}"));
        let sent = from_other(&mut world, &request);
        assert_eq!((requests(sent.clone()).len(), statuses(&sent)), (0, vec![403]), "byte {index} of {path}");
    }
    let of_other = path_of(&named("other"));
    assert_eq!(statuses(&from_other(&mut world, &by(&of_other, "INVITE"))), [403], "another node's");
}

#[test]
fn a_flow_that_is_gone_gets_430() {
    let mut world = linked();
    let earlier = world.server.link_path(&tcp_flow(5, BOB), world.now - Duration::from_secs(1));
    let earlier = by(&String::from_utf8(earlier).unwrap(), "INVITE").call_id("earlier");
    assert_eq!(statuses(&from_other(&mut world, &earlier)), [430], "from before a restart");
    let path = path_of(&world);
    let sent = forwarded(from_other(&mut world, &by(&path, "INVITE")));
    let refused = world.event(Event::Unreachable(sent.token));
    assert_eq!(statuses(&refused), [430]);
    let late = by(&path, "MESSAGE").call_id("late");
    world.pass(Duration::from_secs(86_401));
    assert_eq!(statuses(&from_other(&mut world, &late)), [430]);
}

#[test]
fn a_node_reaches_nothing_else() {
    let mut world = World::with(|config| {
        crate::routes::carriers(config);
        node(config, "own", (1, None));
    });
    let mut answers = |request: Request| {
        let sent = from_other(&mut world, &over_tls(request, OTHER));
        assert!(requests(sent.clone()).is_empty());
        statuses(&sent)
    };
    for (number, uri) in
        ["sip:bob@example.org", "sip:+441234@example.org", "sip:x@203.0.113.99", "sip:x@example.com"]
            .iter()
            .enumerate()
    {
        for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "PUBLISH", "BYE", "REFER"] {
            let request = request(method, uri).call_id(&format!("{number}"));
            assert_eq!(answers(request), [403], "{method} {uri}");
        }
        assert!(answers(request("ACK", uri).call_id("ack")).is_empty());
    }
    for contact in ["<sip:bob@192.0.2.20>", "*"] {
        let request = register("bob", contact).line("Expires: 0").call_id(contact);
        assert_eq!(answers(request.clone()), [403]);
        let routed = request.line(&format!("Route: <sip:{OWN};transport=tls;lr>")).call_id("routed");
        assert_eq!(answers(routed), [403]);
    }
    assert_eq!(answers(request("OPTIONS", &format!("sip:{OWN};transport=tls"))), [200], "its probe");
    assert_eq!(world.server.location().bindings_len(), 0);
}

#[test]
fn the_listener_of_links_is_for_nodes() {
    // TLS refuses these. After a change of the secret, an open connection may have no names any more.
    let (user, other) = (names("node.ringway.internal"), names("trunk.example.net"));
    for peer in [None, Some(&user), Some(&other)] {
        let mut world = World::with(|config| {
            node(config, "own", (1, None));
            config.auth.certificates.users = true;
            config.auth.certificates.trusted = vec!["trunk.example.net".into()];
        });
        let by_token = by(&path_of(&world), "INVITE");
        for request in
            [by_token, over_tls(invite("sip:bob@example.org").call_id("plain"), OTHER), registration(1)]
        {
            let sent = world.message_of(link(FROM_OTHER, OTHER), &request.wire(), peer);
            assert_eq!((requests(sent.clone()).len(), statuses(&sent)), (0, vec![403]));
        }
    }
}

#[test]
fn a_link_over_which_the_other_node_takes_nothing_is_down_and_dialled_again() {
    let mut world = linked();
    world.disconnected.clear();
    world.now = world.now + Duration::from_secs(3600);
    let probes = requests(world.due());
    let probe = probes.iter().find(|probe| probe.to() == OTHER).unwrap();
    assert_eq!(probe.flow.connection, Some(ConnectionId(TO_OTHER)));
    world.message(link(TO_OTHER, OTHER), &probe.answer(403, &[]));
    assert_eq!(world.disconnected, [Flow { connection: None, ..probe.flow }], "the one that it dialled");
    world.now = world.now + Duration::from_secs(10);
    let sent = requests(world.due());
    let is_dialled = |sent: &&Sent| sent.to() == OTHER && sent.flow.connection.is_none();
    assert_eq!(sent.iter().filter(is_dialled).count(), 1);
}

#[test]
fn a_certificate_of_a_node_is_that_of_no_user_and_no_neighbour() {
    let mut world = named("own");
    let peer = names("other.node.ringway.internal");
    let flow = Flow { listener: PUBLIC_TLS, ..link(7, STRANGER) };
    let mut answers = |request: Request| {
        statuses(&world.message_of(flow, &over_tls(request, STRANGER).wire(), Some(&peer)))
    };
    assert_eq!(answers(registration(1)), [401]);
    assert_eq!(answers(invite("sip:bob@example.org").call_id("user")), [407]);
    assert_eq!(answers(invite("sip:x@example.com").from("sip:eve@example.com").call_id("relay")), [403]);
}

#[test]
fn a_request_of_a_node_is_not_one_of_a_single_phone() {
    let mut limited = config();
    node(&mut limited, "own", (1, None));
    let mut world = World::at(limited, 1);
    let path = path_of(&world);
    for number in 0..50 {
        let message = by(&path, "MESSAGE").call_id(&format!("{number}"));
        assert_eq!(requests(from_other(&mut world, &message)).len(), 1, "{number}");
    }
}

#[test]
fn no_request_crosses_two_links() {
    let mut world = linked();
    // A loop of tokens: made by a node that takes the link of a third one for the flow of a phone.
    for (number, flow) in [link(TO_OTHER + 1, THIRD), link(FROM_OTHER + 1, THIRD), link(FROM_OTHER, OTHER)]
        .into_iter()
        .enumerate()
    {
        let path = String::from_utf8(world.server.link_path(&flow, world.now)).unwrap();
        for method in ["INVITE", "MESSAGE", "BYE"] {
            let request = by(&path, method).call_id(&format!("{number}"));
            let sent = from_other(&mut world, &request);
            assert!(requests(sent.clone()).is_empty(), "{method}");
            assert_eq!(*statuses(&sent).last().unwrap(), 430, "{method}");
        }
        let path = format!("{path}, <sip:x@{THIRD};transport=tls;lr>");
        assert!(requests(from_other(&mut world, &by(&path, "ACK"))).is_empty());
    }
    // A Route behind our token does not change where the request goes.
    let path = format!("{}, <sip:x@{THIRD};transport=tls;lr>", path_of(&world));
    let sent = forwarded(from_other(&mut world, &by(&path, "MESSAGE").call_id("further")));
    assert_eq!(sent.flow.connection, Some(ConnectionId(5)));
}

#[test]
fn nobody_chooses_a_link_as_next_hop() {
    let mut world = linked();
    let route = format!("Route: <sip:x@{OTHER};transport=tls;lr>");
    for (from, user) in [(EDGE, "alice"), (EDGE, "eve")] {
        let request = invite("sip:carol@example.com").line(&route).from(&format!("sip:{user}@example.org"));
        let sent = world.udp(from, &request.call_id(user));
        assert!(requests(sent.clone()).is_empty());
        assert_eq!(*statuses(&sent).last().unwrap(), 403, "{user}");
    }
    let target = invite(&format!("sip:x@{OTHER};transport=tls")).call_id("target");
    let sent = world.udp(EDGE, &target);
    assert_eq!((requests(sent.clone()).len(), *statuses(&sent).last().unwrap()), (0, 403));
    // A lookup does not help.
    let named = invite("sip:x@node.example.com:5070;transport=tls").call_id("named");
    assert!(requests(world.udp(EDGE, &named)).is_empty());
    let sent = world.resolve("node.example.com", Some("203.0.113.11"));
    assert_eq!((requests(sent.clone()).len(), *statuses(&sent).last().unwrap()), (0, 403));
}

/// Registers bob with a flow of the other node; a trusted proxy may give any Path.
fn register_bob_at_other(world: &mut World) {
    let path = format!("Path: <sip:TOKEN@{OTHER};transport=tls;lr>");
    let registers = register("bob", "<sip:bob@10.0.0.5>").line(&path).line("Supported: path");
    let challenge = only(world.udp(EDGE, &registers));
    assert_eq!(only(world.udp(EDGE, &answered(&registers, &Login::to(&challenge, "bob")))).status(), 200);
}

#[test]
fn a_binding_at_another_node_is_reached_over_its_link() {
    let mut world = linked();
    register_bob_at_other(&mut world);
    let sent = forwarded(world.udp(EDGE, &invite("sip:bob@example.org").call_id("call")));
    assert_eq!((sent.flow.connection, sent.flow.listener), (Some(ConnectionId(TO_OTHER)), LINKS));
    assert_eq!(sent.header("Route"), format!("<sip:TOKEN@{OTHER};transport=tls;lr>"));
    assert!(sent.headers("Record-Route")[0].contains("sip:192.0.2.1:5070;transport=tls;lr"));
    assert!(sent.headers("Via")[0].starts_with("SIP/2.0/TLS 192.0.2.1:5070"));
    let answers = world.message(link(TO_OTHER, OTHER), &sent.answer(200, &["Contact: <sip:bob@10.0.0.5>"]));
    assert_eq!((statuses(&answers), answers[0].to().as_str()), (vec![200], EDGE));
    // Its link is down: nothing waits, and nothing is dialled for it.
    world.event(Event::Closed(ConnectionId(TO_OTHER)));
    let sent = world.udp(EDGE, &invite("sip:bob@example.org").call_id("down"));
    assert_eq!((requests(sent.clone()).len(), *statuses(&sent).last().unwrap()), (0, 480));
}

/// A user's forward leads to a phone of another node, which ends the call.
#[test]
fn a_call_of_two_passes_is_ended_by_a_phone_of_another_node() {
    let mut world = linked();
    register_bob_at_other(&mut world);
    world.server.set_forwards(b"carol@example.org", crate::forwards::always("sip:bob@example.org"));
    let sent = world.udp(EDGE, &invite("sip:carol@example.org").call_id("call"));
    let got = forwarded(crate::forwards::settle(&mut world, sent));
    assert_eq!((got.flow.listener, got.headers("Record-Route").len()), (LINKS, 3));
    let answer = world.message(link(TO_OTHER, OTHER), &got.answer(200, &["Contact: <sip:bob@10.0.0.5>"]));
    let answer = only(crate::forwards::settle(&mut world, answer));
    assert_eq!((answer.status(), answer.to().as_str()), (200, EDGE));
    let mut bye = request("BYE", "sip:alice@192.0.2.10").cseq(2);
    (bye.from, bye.to) = (answer.header("To"), answer.header("From"));
    bye.lines = got.headers("Record-Route").iter().map(|route| format!("Route: {route}")).collect();
    let sent = from_other(&mut world, &over_tls(bye, OTHER));
    assert_eq!(forwarded(sent).to(), ALICE);
}

// Keys

#[test]
fn a_mark_is_valid_at_the_node_that_wrote_it() {
    let (mut own, mut other) = (linked(), named("other"));
    let sent = forwarded(own.tcp(5, EDGE, &invite("sip:x@203.0.113.99").from("sip:alice@example.org").tcp()));
    let answer = only(own.udp("203.0.113.99:5060", &sent.answer(200, &["Contact: <sip:x@203.0.113.99>"])));
    let lines: Vec<_> = sent.headers("Record-Route").iter().map(|route| format!("Route: {route}")).collect();
    let bye = |from: &str, to: &str, uri: &str| Request {
        from: from.into(),
        to: to.into(),
        lines: lines.clone(),
        ..request("BYE", uri).cseq(2)
    };
    let (caller, callee) = (answer.header("From"), answer.header("To"));
    // At another node both sides are treated as without it: a user needs the password, others are refused.
    for (world, is_own) in [(&mut other, false), (&mut linked(), true)] {
        let of_callee = world.udp("203.0.113.99:5060", &bye(&callee, &caller, "sip:alice@192.0.2.10"));
        let of_caller = world.udp(ALICE, &bye(&caller, &callee, "sip:x@203.0.113.99"));
        match is_own {
            true => assert_eq!(requests(of_callee).len(), 1),
            false => assert_eq!((statuses(&of_callee), statuses(&of_caller)), (vec![403], vec![407])),
        }
    }
}

#[test]
fn a_temporary_gruu_is_valid_at_every_node_and_while_the_secret_changes() {
    let gruu_node = |name, secrets| {
        World::with(|config| {
            node(config, name, secrets);
            config.auth.enabled = false;
            config.registrar.gruu = true;
        })
    };
    let registers = || {
        let contact = "<sip:bob@192.0.2.20>;+sip.instance=\"<urn:uuid:desk>\"";
        register("bob", contact).line("Supported: gruu").call_id("registers")
    };
    let mut own = gruu_node("own", (1, None));
    let contact = only(own.udp(BOB, &registers())).header("Contact");
    let gruu = contact.split("temp-gruu=\"").nth(1).unwrap().split('"').next().unwrap();
    for (name, secrets, is_valid) in [
        ("own", (1, None), true),
        ("other", (1, None), true),
        ("other", (2, Some(1)), true),
        ("own", (2, None), false),
    ] {
        let mut world = gruu_node(name, secrets);
        only(world.udp(BOB, &registers()));
        let to_itself = requests(world.udp(ALICE, &invite(gruu)));
        assert_eq!(to_itself.len(), usize::from(is_valid), "{name} {secrets:?}");
        for sent in to_itself {
            let call = forwarded(world.udp("192.0.2.1:5060", &sent.bytes));
            assert_eq!(call.to(), BOB, "{name} {secrets:?}");
        }
    }
}

// Nonces

fn registration(number: u32) -> Request {
    register("bob", "<sip:bob@192.0.2.20>").call_id("phone").cseq(number)
}

#[test]
fn a_challenge_of_one_node_is_answered_at_another() {
    for (secrets, status) in [((1, None), 200), ((2, Some(1)), 200), ((2, None), 401)] {
        let (mut own, mut other) = (named("own"), World::with(|config| node(config, "other", secrets)));
        let login = Login::to(&only(own.udp(BOB, &registration(1))), "bob");
        let answer = only(other.udp(BOB, &answered(&registration(1), &login)));
        assert_eq!(answer.status(), status, "{secrets:?}");
        assert!(status == 200 || is_stale(&answer));
    }
}

#[test]
fn counts_of_a_nonce_are_at_its_node() {
    let (mut own, mut other) = (named("own"), named("other"));
    let mut login = Login::to(&only(own.udp(BOB, &registration(1))), "bob");
    let captured = answered(&registration(1), &login);
    assert_eq!(only(own.udp(BOB, &captured)).status(), 200);
    login.nc += 1;
    let second = answered(&registration(3), &login);
    assert!(is_stale(&only(other.udp(BOB, &second))), "elsewhere only the first count is good");
    assert_eq!(only(own.udp(BOB, &second)).status(), 200);
    // The rest of a replay: the first request with a nonce, from its source, once at each other node while the nonce is fresh.
    let replay = |cseq: u32| Request { call_id: "replayed".into(), ..captured.clone() }.cseq(cseq);
    assert_eq!(only(other.udp(BOB, &replay(9))).status(), 200);
    assert!(is_stale(&only(other.udp(BOB, &replay(10)))), "once");
    assert_eq!(only(other.udp(CAROL, &captured)).status(), 401, "not from another source");
    let mut third = named("third");
    third.pass(Duration::from_secs(301));
    assert!(is_stale(&only(third.udp(BOB, &captured))), "nor after its life");
}

#[test]
fn a_nonce_for_one_use_is_good_at_its_node_only() {
    let once = |name: &str| {
        World::with(|config| {
            node(config, name, (1, None));
            config.auth.digest = DigestPolicy { nonces: NoncePolicy::Once, ..config.auth.digest };
        })
    };
    let (mut own, mut other) = (once("own"), once("other"));
    let login = Login::to(&only(own.udp(BOB, &registration(1))), "bob");
    let captured = answered(&registration(1), &login);
    assert!(is_stale(&only(other.udp(BOB, &captured))));
    assert_eq!(only(own.udp(BOB, &captured)).status(), 200);
}

#[test]
fn a_phone_whose_requests_go_to_two_nodes_in_turn_works() {
    let (mut own, mut other) = (named("own"), named("other"));
    let mut login: Option<Login> = None;
    for number in 0..20 {
        let world = if number % 2 == 0 { &mut own } else { &mut other };
        world.now = world.now + Duration::from_secs(10);
        let request = registration(2 * number + 1);
        let mut sent = match &mut login {
            None => only(world.udp(BOB, &request)),
            Some(login) => {
                login.nc += 1;
                only(world.udp(BOB, &answered(&request, login)))
            }
        };
        if sent.status() == 401 {
            let next = login.insert(Login::to(&sent, "bob"));
            sent = only(world.udp(BOB, &answered(&registration(2 * number + 2), next)));
        }
        assert_eq!(sent.status(), 200, "{number}");
    }
}
