//! Tests of trunks that register (RFC 3261 §10.2, decision 0057), and of calls to the contact that they registered.

use crate::ends::nothing_is_left;
use crate::harness::{ALICE, BOB, Request, STRANGER, Sent, World, invite, only, request, requests, statuses};
use crate::routes::{prefix, trunk};
use crate::trunk_identity::passed;
use ringway_server::{Config, NumberForm, Route, RouteTable, RouteTo, Strangers, Trunk, TrunkLogin};
use std::time::Duration;

pub(crate) const CARRIER: &str = "198.51.100.1:5060";
const CHALLENGE: &str = "WWW-Authenticate: Digest realm=\"carrier.example\", nonce=\"n1\", qop=\"auth\"";

pub(crate) fn registering(config: &mut Config) {
    let login = TrunkLogin { username: "acct".into(), password: "secret".into(), realm: None };
    config.trunking.trunks = vec![Trunk {
        registers: true,
        login: Some(login),
        networks: Vec::new(),
        ..trunk("carrier", CARRIER)
    }]
    .into();
    let route = Route { matches: prefix("+4930123"), to: RouteTo::User("bob".into()) };
    config.trunking.routes = RouteTable::new(vec![route]).unwrap();
}

/// The first REGISTER of a server, within a second of its start.
pub(crate) fn first(world: &mut World) -> Sent {
    requests(world.pass(Duration::from_secs(1))).remove(0)
}

/// 200 with the contact of a REGISTER, for so many seconds.
pub(crate) fn granted(register: &Sent, seconds: u32) -> Vec<u8> {
    register.answer(200, &[&format!("Contact: {};expires={seconds}", register.header("Contact"))])
}

/// The next request, after as many seconds as it takes.
pub(crate) fn next(world: &mut World) -> Sent {
    let mut passed = core::iter::repeat_with(|| requests(world.pass(Duration::from_secs(1))));
    passed.find_map(|sent| sent.into_iter().next()).unwrap()
}

/// Requests that are sent in a time, and the time of the first one in seconds.
pub(crate) fn within(world: &mut World, seconds: u32) -> (Vec<Sent>, u32) {
    let mut sent = Vec::new();
    let mut at = 0;
    for second in 1..=seconds {
        let now = requests(world.pass(Duration::from_secs(1)));
        if sent.is_empty() && !now.is_empty() {
            at = second;
        }
        // Retransmissions are the same request.
        for request in now {
            if sent.iter().all(|other: &Sent| other.bytes != request.bytes) {
                sent.push(request);
            }
        }
    }
    (sent, at)
}

#[test]
fn a_trunk_registers_with_its_password_and_refreshes_in_time() {
    let mut world = World::with(registering);
    let register = first(&mut world);
    assert_eq!(register.start(), "REGISTER sip:198.51.100.1:5060 SIP/2.0");
    assert_eq!(register.header("To"), "<sip:acct@198.51.100.1>");
    assert!(register.header("From").starts_with("<sip:acct@198.51.100.1>;tag="));
    let contact = register.header("Contact");
    assert!(contact.starts_with("<sip:acct@192.0.2.1:5060;line="), "{contact}");
    assert_eq!(register.header("Expires"), "3600");
    let again = only(requests(world.udp(CARRIER, &register.answer(401, &[CHALLENGE]))));
    assert!(again.header("Authorization").contains("username=\"acct\""), "{}", again.text());
    assert_eq!(again.header("Call-ID"), register.header("Call-ID"));
    assert_eq!(
        (register.header("CSeq").as_str(), again.header("CSeq").as_str()),
        ("1 REGISTER", "2 REGISTER")
    );
    assert!(world.udp(CARRIER, &granted(&again, 600)).is_empty());
    assert_eq!(world.server.counters().trunk_registrations, 1);
    let (refreshes, at) = within(&mut world, 541);
    assert!((300..=541).contains(&at), "{at}");
    let refresh = &refreshes[0];
    assert_eq!((refresh.header("Contact"), refresh.header("CSeq")), (contact, "3 REGISTER".to_owned()));
    assert!(refresh.header("Authorization").contains("nc=00000002"), "the nonce is used again");
    assert!(world.udp(CARRIER, &granted(refresh, 600)).is_empty());
    nothing_is_left(&mut world, "registrations");
}

#[test]
fn the_only_contact_is_ours_also_if_the_carrier_rewrote_it() {
    for (lines, is_registered) in [
        (&["Contact: <sip:acct@198.51.100.1:6000>;expires=60"][..], true),
        (&["Expires: 60"], true),
        (&[], false),
        (&["Contact: <sip:a@198.51.100.1>;expires=60", "Contact: <sip:b@198.51.100.2>;expires=60"], false),
        (&["Contact: <sip:acct@198.51.100.1>;expires=0"], false),
    ] {
        let mut world = World::with(registering);
        let register = first(&mut world);
        assert!(requests(world.udp(CARRIER, &register.answer(200, lines))).is_empty());
        assert_eq!(world.server.counters().trunk_registrations, u64::from(is_registered), "{lines:?}");
    }
}

/// A carrier that rewrites contacts lists those of earlier registrations with the token, too.
#[test]
fn of_several_contacts_with_the_token_the_shortest_time_counts() {
    let mut world = World::with(registering);
    let register = first(&mut world);
    let contact = register.header("Contact");
    let at = |host: &str| contact.replace("192.0.2.1:5060", host);
    let lines = [
        format!("Contact: {};expires=3600", at("203.0.113.1:6000")),
        format!("Contact: {};expires=12", at("203.0.113.1:6001")),
        format!("Contact: {};expires=0", at("203.0.113.1:6002")),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert!(requests(world.udp(CARRIER, &register.answer(200, &lines))).is_empty());
    assert_eq!(world.server.counters().trunk_registrations, 1);
    assert_eq!(within(&mut world, 12).0.len(), 1, "it is refreshed before its end");
    // One that names the contact as it was sent grants its time.
    let mut world = World::with(registering);
    let register = first(&mut world);
    let lines = [
        format!("Contact: {contact};expires=600"),
        format!("Contact: {};expires=12", at("203.0.113.1:6001")),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let removal = only(requests(world.udp(CARRIER, &register.answer(200, &lines))));
    world.udp(CARRIER, &removal.answer(200, &[&format!("Contact: {contact};expires=600")]));
    assert_eq!(within(&mut world, 250).0.len(), 0);
}

#[test]
fn a_lost_registration_is_reported_once_and_its_return_again() {
    let mut world = World::with(registering);
    let mut register = first(&mut world);
    for status in [200, 500, 500, 200] {
        let answer = if status == 200 { granted(&register, 60) } else { register.answer(status, &[]) };
        world.udp(CARRIER, &answer);
        register = next(&mut world);
    }
    let events = world.memory.events.lock().unwrap();
    let of_carrier: Vec<_> = events.iter().filter(|event| event.contains("registered")).collect();
    assert_eq!(of_carrier, ["carrier registered", "carrier not registered: 500", "carrier registered"]);
}

#[test]
fn a_carrier_that_challenges_for_ever_gets_three_requests_and_a_pause() {
    let mut world = World::with(registering);
    let mut register = first(&mut world);
    for count in 1..=3 {
        let sent = requests(world.udp(CARRIER, &register.answer(401, &[CHALLENGE])));
        assert_eq!(sent.len(), usize::from(count < 3), "{count}");
        if let Some(next) = sent.into_iter().next() {
            register = next;
        }
    }
    assert_eq!(world.server.counters().trunk_registration_failures, 1);
    assert_eq!(within(&mut world, 299).0.len(), 0);
    assert_eq!(within(&mut world, 3).0.len(), 1);
}

#[test]
fn failures_are_tried_again_after_longer_and_longer_pauses() {
    let mut world = World::with(registering);
    let mut register = first(&mut world);
    let mut pauses = Vec::new();
    for _ in 0..10 {
        assert!(requests(world.udp(CARRIER, &register.answer(500, &[]))).is_empty());
        let from = world.now;
        register = next(&mut world);
        pauses.push(world.now.as_secs() - from.as_secs());
    }
    assert!(pauses[0] <= 3 && pauses[4] >= 15 && pauses[9] >= 150, "{pauses:?}");
    // Without any response likewise.
    let (sent, _) = within(&mut world, 340);
    assert!(sent.iter().any(|next| next.header("CSeq") != register.header("CSeq")), "after timer F");
}

#[test]
fn refusals_redirections_and_short_times_are_no_flood() {
    for (status, lines, least) in [
        (403, &[][..], 300),
        (404, &[], 300),
        (302, &["Contact: <sip:elsewhere.example>"], 1),
        (503, &["Retry-After: 120"], 120),
        (503, &["Retry-After: 999999"], 3600),
        (200, &[], 1),
    ] {
        let mut world = World::with(registering);
        let register = first(&mut world);
        let sent = requests(world.udp(CARRIER, &register.answer(status, lines)));
        assert!(sent.is_empty(), "{status}: {}", sent[0].text());
        let (sent, at) = within(&mut world, least + 5);
        assert!(at >= least, "{status} {lines:?}: {at}");
        assert!(sent.iter().all(|sent| sent.to() == CARRIER), "{status}");
    }
    let mut world = World::with(registering);
    let register = first(&mut world);
    assert!(requests(world.udp(CARRIER, &granted(&register, 1))).is_empty());
    let (sent, at) = within(&mut world, 12);
    assert!(sent.len() == 1 && at >= 10, "{at}");
    // 423 raises the time, once.
    let mut world = World::with(registering);
    let register = first(&mut world);
    let raised = only(requests(world.udp(CARRIER, &register.answer(423, &["Min-Expires: 7200"]))));
    assert_eq!(raised.header("Expires"), "7200");
    let sent = world.udp(CARRIER, &raised.answer(423, &["Min-Expires: 4000000000"]));
    assert!(requests(sent).is_empty());
}

/// INVITE of the carrier for the contact of a REGISTER.
pub(crate) fn incoming(register: &Sent, to: &str, id: &str) -> Request {
    let contact = register.header("Contact");
    let uri = contact.trim_matches(['<', '>']);
    invite(uri).from("sip:+4940999@carrier.example").to(to).call_id(id)
}

#[test]
fn a_call_to_the_contact_reaches_the_user_of_the_called_number() {
    let mut world = World::with(|config| {
        registering(config);
        config.auth.enabled = true;
        config.auth.strangers = Strangers::None;
    });
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let register = first(&mut world);
    world.udp(CARRIER, &granted(&register, 600));
    let reaches_bob = |world: &mut World, request: &Request| {
        let sent = world.udp("198.51.100.9:5060", request);
        // The number belongs to another user: the request passes this server once more.
        let mut all = requests(sent);
        while let Some(own) = all.iter().find(|sent| sent.to() == "192.0.2.1:5060").cloned() {
            all = requests(world.udp("192.0.2.1:5060", &own.bytes.clone()));
        }
        all.iter().any(|sent| sent.method() == "INVITE" && sent.to() == BOB)
    };
    let call = incoming(&register, "<sip:+49301234@carrier.example;user=phone>", "one");
    assert!(reaches_bob(&mut world, &call));
    // P-Called-Party-ID counts before To.
    let other = incoming(&register, "<sip:acct@carrier.example>", "two");
    let other = other.line("P-Called-Party-ID: <sip:+49301235@carrier.example>");
    assert!(reaches_bob(&mut world, &other));
    assert_eq!(world.server.counters().trunk_line_calls, 2);
    // A number that leads to nobody here, and one that would leave by a trunk.
    let nowhere = incoming(&register, "<sip:+44123@carrier.example>", "three");
    assert!(!reaches_bob(&mut world, &nowhere));
}

/// 1,000 trunks of a server that starts, each with a challenge: as soon as they may, and never more than 50 requests in a second.
#[test]
fn a_thousand_trunks_register_within_a_minute() {
    const STEP: Duration = Duration::from_millis(5);
    let mut world = World::with(|config| {
        registering(config);
        let carrier = config.trunking.trunks[0].clone();
        config.trunking.trunks = (0..1000)
            .map(|number| Trunk {
                name: format!("t{number}"),
                uri: format!("sip:203.0.113.{}:{}", number % 250, 5060 + number / 250),
                ..carrier.clone()
            })
            .collect::<Vec<_>>()
            .into();
    });
    let begin = world.now;
    let (mut times, mut answers) = (Vec::new(), Vec::<(String, Vec<u8>)>::new());
    while world.server.counters().trunk_registrations < 1000 {
        assert!(world.now.since(begin) < Duration::from_secs(60), "{} requests", times.len());
        let mut sent = requests(world.pass(STEP));
        for (to, answer) in core::mem::take(&mut answers) {
            sent.extend(requests(world.udp(&to, &answer)));
        }
        for register in sent {
            times.push(world.now);
            let is_challenged = register.headers("Authorization").is_empty();
            let answer =
                if is_challenged { register.answer(401, &[CHALLENGE]) } else { granted(&register, 3600) };
            answers.push((register.to(), answer));
        }
    }
    assert_eq!(times.len(), 2000);
    let in_second = |from: &_| times.iter().filter(|at| *at >= from && at.since(*from).as_secs() < 1).count();
    assert!(times.iter().all(|from| in_second(from) <= 50));
    assert!(world.server.counters().trunk_registrations_delayed > 900);
}

#[test]
fn a_token_that_is_guessed_permits_nothing() {
    let mut world = World::with(|config| {
        registering(config);
        config.auth.enabled = true;
        config.auth.strangers = Strangers::None;
    });
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let register = first(&mut world);
    let contact = register.header("Contact");
    let line = contact.split("line=").nth(1).unwrap().trim_matches('>').to_owned();
    let wrong = contact.replace(&line, "0123456789abcdef");
    let uri = wrong.trim_matches(['<', '>']).to_owned();
    let call = invite(&uri).to("<sip:+49301234@carrier.example>").from("sip:eve@example.net");
    assert_eq!(statuses(&world.udp(STRANGER, &call)), [407]);
    // With the token a stranger calls users, and nobody else.
    let away = incoming(&register, "<sip:x@198.51.100.77>", "away");
    let sent = world.udp(STRANGER, &away);
    assert!(requests(sent).iter().all(|sent| sent.to() != "198.51.100.77:5060"));
    let refer =
        request("REFER", contact.trim_matches(['<', '>'])).from("sip:eve@example.net").call_id("refer");
    assert_eq!(statuses(&world.udp(STRANGER, &refer)), [407]);
    assert_eq!(statuses(&world.udp(ALICE, &request("OPTIONS", "sip:example.org").call_id("o"))), [200]);
}

#[test]
fn the_contact_answers_whether_it_works() {
    let mut world = World::with(|config| {
        registering(config);
        config.auth.enabled = true;
        config.auth.strangers = Strangers::None;
    });
    let register = first(&mut world);
    world.udp(CARRIER, &granted(&register, 600));
    let contact = register.header("Contact");
    let options = request("OPTIONS", contact.trim_matches(['<', '>'])).from("sip:acct@carrier.example");
    assert_eq!(statuses(&world.udp(CARRIER, &options.call_id("alive"))), [200]);
    assert_eq!(world.server.counters().trunk_line_calls, 0);
}

#[test]
fn a_call_to_the_contact_has_the_callers_number_in_its_one_form() {
    let mut world = World::with(|config| {
        registering(config);
        let [country, prefix, international] = ["49", "0", "00"].map(Into::into);
        config.trunking.trunks.edit()[0].numbers_in = NumberForm::National { country, prefix, international };
    });
    world.server.set_permanent_contacts(b"bob@example.org", &[b"sip:bob@192.0.2.20"]);
    let register = first(&mut world);
    world.udp(CARRIER, &granted(&register, 600));
    let call = incoming(&register, "<sip:030123401@carrier.example>", "one");
    let call = call.from("sip:0221765432@carrier.example");
    let rings = only(requests(passed(&mut world, "198.51.100.9:5060", &call)));
    assert_eq!(rings.to(), BOB);
    assert!(rings.header("From").starts_with("<sip:+49221765432@carrier.example>;tag="), "{}", rings.text());
    let answer = rings.answer_tagged(200, "bobs", &["Contact: <sip:bob@192.0.2.20>"]);
    let answer = only(passed(&mut world, BOB, &answer));
    assert!(answer.header("From").starts_with("<sip:0221765432@carrier.example>;tag="), "{}", answer.text());
    // A request of bob in the dialog names whom his phone shows, and the carrier gets its own.
    let mut bye = request("BYE", rings.header("Contact").trim_matches(['<', '>']));
    bye.via = format!("SIP/2.0/UDP {BOB};rport;branch=z9hG4bKbye");
    bye.from = answer.header("To");
    let bye = bye.to(&rings.header("From")).call_id("one").cseq(2);
    let routes = rings.headers("Record-Route").join(", ");
    let bye = bye.line(&format!("Route: {routes}"));
    let bye = only(requests(passed(&mut world, BOB, &bye)));
    assert!(bye.header("To").starts_with("<sip:0221765432@carrier.example>"), "{}", bye.text());
}

#[test]
fn a_reload_keeps_the_registration_of_a_trunk_that_stays_and_ends_others() {
    let mut world = World::with(registering);
    let register = first(&mut world);
    world.udp(CARRIER, &granted(&register, 600));
    let mut config = crate::harness::config();
    registering(&mut config);
    config.recurse = true;
    world.server.reconfigure(std::sync::Arc::new(config.clone()));
    assert!(requests(world.pass(Duration::from_secs(2))).is_empty(), "the registration stays");
    config.trunking.trunks.edit()[0].registers = false;
    world.server.reconfigure(std::sync::Arc::new(config));
    assert_eq!(within(&mut world, 700).0.len(), 0, "nobody refreshes it");
}

/// Two registrations, the second one under way, and a reload without the first: its answer is still its own, and so is its silence.
#[test]
fn a_reload_in_the_middle_of_an_attempt_loses_no_registration() {
    for answers in [true, false] {
        let mut world = World::with(|config| {
            registering(config);
            let second = Trunk {
                name: "second".into(),
                uri: "sip:198.51.100.2:5060".into(),
                ..config.trunking.trunks.edit()[0].clone()
            };
            config.trunking.trunks.edit().push(second);
        });
        let registers = within(&mut world, 1).0;
        let second = registers.into_iter().find(|sent| sent.to() == "198.51.100.2:5060").unwrap();
        let mut config = crate::harness::config();
        registering(&mut config);
        config.trunking.trunks.edit()[0].name = "second".into();
        config.trunking.trunks.edit()[0].uri = "sip:198.51.100.2:5060".into();
        world.server.reconfigure(std::sync::Arc::new(config));
        if answers {
            assert!(world.udp("198.51.100.2:5060", &granted(&second, 600)).is_empty());
            assert_eq!(world.server.counters().trunk_registrations, 1);
        } else {
            let (again, _) = within(&mut world, 60);
            assert!(again.iter().any(|sent| sent.to() == "198.51.100.2:5060"), "it is tried again");
        }
    }
}

/// Servers of a carrier's name by their SRV records, in this order.
const SERVERS: [&str; 2] = ["198.51.100.41:5060", "198.51.100.42:5060"];

/// Carrier with two servers, each of which answers a REGISTER or is silent. Returns the seconds of registrations and the servers of all
/// requests; a retransmission is none.
fn registered_at(
    world: &mut World,
    seconds: u64,
    answers: impl Fn(&str, &Sent) -> Option<Vec<u8>>,
) -> (Vec<u64>, Vec<String>) {
    let (mut granted, mut tried, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for second in 0..seconds {
        let mut sent = world.pass(Duration::from_secs(1));
        while !world.lookups.is_empty() {
            sent.extend(world.resolve_to("carrier.example", &SERVERS));
        }
        for register in requests(sent).into_iter().filter(|sent| sent.method() == "REGISTER") {
            if register.bytes == last {
                continue;
            }
            let to = register.to();
            if let Some(answer) = answers(&to, &register) {
                let before = world.server.counters().trunk_registrations;
                world.udp(&to, &answer);
                granted.extend((world.server.counters().trunk_registrations > before).then_some(second));
            }
            last.clone_from(&register.bytes);
            tried.push(to);
        }
    }
    (granted, tried)
}

fn with_two_servers(config: &mut Config) {
    registering(config);
    config.trunking.trunks.edit()[0].uri = "sip:carrier.example".into();
}

#[test]
fn a_registration_stays_at_the_server_that_granted_it() {
    let mut world = World::with(with_two_servers);
    let (at, tried) =
        registered_at(&mut world, 1200, |to, register| (to == SERVERS[1]).then(|| granted(register, 60)));
    assert!(at[0] <= 40, "after the timeout of the first server: {at:?}");
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] < 60), "the binding expires: {at:?}");
    assert_eq!(tried.iter().filter(|to| *to == SERVERS[0]).count(), 1, "{tried:?}");
}

/// RFC 3263 §4.3: a server that fails, whichever way, is followed by the next one; its pause is its own.
#[test]
fn the_pause_of_a_server_does_not_delay_the_others() {
    for (status, lines) in [
        (503, &["Retry-After: 40"][..]),
        (503, &["Retry-After: 3600"]),
        (503, &["Retry-After: 1"]),
        (503, &[]),
        (500, &[]),
        (408, &[]),
    ] {
        let mut world = World::with(with_two_servers);
        let (at, tried) = registered_at(&mut world, 300, |to, register| match to == SERVERS[1] {
            true => Some(granted(register, 60)),
            false => Some(register.answer(status, lines)),
        });
        assert!(at[0] <= 4, "{status} {lines:?}: {at:?} {tried:?}");
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] < 60), "{status} {lines:?}: {at:?}");
    }
}

#[test]
fn a_pause_of_all_servers_is_kept() {
    let mut world = World::with(with_two_servers);
    let refused = |_: &str, register: &Sent| Some(register.answer(503, &["Retry-After: 120"]));
    let (_, tried) = registered_at(&mut world, 115, refused);
    assert_eq!(tried, SERVERS, "each once");
    let (_, tried) = registered_at(&mut world, 20, refused);
    assert_eq!(tried[0], SERVERS[0], "the pause that ends first");
}
