//! Stories of what carriers want: they see nothing of the inside, numbers in their form, and signed identities.

use ringway_auth::stir::{Attestation, Claims, Passport, PassportKind};
use ringway_sansio::Transport;
use ringway_server::{
    CallerCheck, CertificateHost, Config, Dialing, NumberChange, NumberForm, Route, RouteMatch, RouteTable,
    RouteTo, StirConfig, Trunk, TrunkStir, WeightedTrunk,
};
use ringway_sim::{Faults, HostId};
use ringway_tests::{Behaviour, PhoneEvent, REALM, SIGNER_URL, Scheme, Story, World, signer};
use std::sync::Arc;
use std::time::Duration;

/// Addresses of the carrier and of alice, the first two phones of a story.
const CARRIER: &str = "10.0.1.1";
const ALICE: &str = "10.0.1.2";
const NUMBER: &str = "+441234";

/// A carrier for all numbers.
fn carrier(config: &mut Config, transport: Transport) {
    let networks = vec![CARRIER.parse().expect("an address")];
    let port = if transport == Transport::Tls { 5061 } else { 5060 };
    let uri = format!("sip:{CARRIER}:{port}{}", transport.uri_parameter());
    config.trunking.trunks.edit().push(Trunk { networks, ..Trunk::at("carrier", &uri) });
    let trunks = [WeightedTrunk { trunk: 0, weight: 0 }].as_slice().into();
    let to = RouteTo::Trunks { trunks, change: NumberChange::default() };
    let route = Route { matches: RouteMatch::Prefix("+".into()), to };
    config.trunking.routes = RouteTable::new(vec![route]).expect("a valid route");
}

fn hides(config: &mut Config) {
    config.trunking.trunks.edit()[0].hides_topology = true;
}

fn hidden_by_udp(config: &mut Config) {
    carrier(config, Transport::Udp);
    hides(config);
}

fn hidden_by_tcp(config: &mut Config) {
    World::with_tls(config);
    carrier(config, Transport::Tcp);
    hides(config);
}

fn hidden_by_tls(config: &mut Config) {
    World::with_tls(config);
    carrier(config, Transport::Tls);
    hides(config);
}

/// The phone of the carrier, which answers.
fn carrier_phone(world: &mut World, transport: Transport) -> HostId {
    let phone = world.phone_with("carrier", transport, None);
    world.phone_do(phone, |phone, _, _| phone.set_domain("carrier.example"));
    world.behave(phone, Behaviour::Answer { ring_ms: 100, answer_ms: 300 });
    phone
}

/// Headers of the messages that the carrier got.
fn seen_by_carrier(world: &World) -> Vec<String> {
    let packets = world.sim.trace().packets().filter(|seen| seen.to.ip().to_string() == CARRIER);
    let headers = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.split("\r\n\r\n").next().unwrap_or_default().to_owned()
    };
    packets.map(|seen| headers(&seen.bytes)).filter(|text| text.contains("Via: ")).collect()
}

/// Call-IDs of the messages that a phone sent.
fn call_ids(world: &World, host: HostId) -> Vec<String> {
    let own = world.address(host).ip();
    let packets = world.sim.trace().packets().filter(|seen| seen.from.ip() == own);
    let call_id = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.split("\r\nCall-ID: ").nth(1).and_then(|rest| rest.split("\r\n").next()).map(str::to_owned)
    };
    packets.filter_map(|seen| call_id(&seen.bytes)).collect()
}

/// Calls in both directions, each ended by either side: the carrier sees neither the phone's address nor its Call-IDs.
fn shows_nothing(world: &mut World, alice: HostId, carrier: HostId) {
    for (is_outgoing, by_alice) in [(true, true), (true, false), (false, true), (false, false)] {
        let (caller, number) = if is_outgoing { (alice, NUMBER) } else { (carrier, "alice") };
        world.call(caller, number);
        world.wait(8);
        assert_eq!(world.calls_up(&[alice, carrier]), [1, 1], "outgoing: {is_outgoing}");
        world.hang_up(if by_alice { alice } else { carrier });
        world.wait(8);
        assert_eq!(
            world.calls_up(&[alice, carrier]),
            [0, 0],
            "outgoing: {is_outgoing}, by alice: {by_alice}"
        );
    }
    let seen = seen_by_carrier(world);
    assert!(seen.len() >= 14, "{}", seen.len());
    let own: Vec<String> = call_ids(world, alice).into_iter().filter(|id| id.contains(ALICE)).collect();
    assert!(!own.is_empty());
    for message in seen {
        assert!(!message.contains(ALICE), "{message}");
        assert!(!own.iter().any(|id| message.contains(id)), "{message}");
    }
}

#[test]
fn a_carrier_sees_nothing_of_the_inside_also_in_a_bad_network() {
    let faults = Faults {
        loss_per_mille: 100,
        duplicate_per_mille: 100,
        reorder_per_mille: 100,
        delay: Duration::from_millis(1)..Duration::from_millis(60),
    };
    Story::new("hidden topology").faults(faults).configure(hidden_by_udp).run(|world| {
        let carrier = carrier_phone(world, Transport::Udp);
        let alice = world.registered("alice");
        shows_nothing(world, alice, carrier);
    });
}

/// The phone uses TLS, the carrier TCP.
#[test]
fn a_carrier_sees_nothing_of_the_inside_over_connections() {
    Story::new("hidden topology, connections").configure(hidden_by_tcp).run(|world| {
        let carrier = carrier_phone(world, Transport::Tcp);
        let alice = world.tls_phone("alice", Scheme::Sip);
        world.register(alice);
        shows_nothing(world, alice, carrier);
        reached_only_by(world, Transport::Tcp);
    });
}

/// The carrier uses TLS, the phone UDP.
#[test]
fn a_carrier_sees_nothing_of_the_inside_over_tls() {
    Story::new("hidden topology, TLS").configure(hidden_by_tls).run(|world| {
        let carrier = carrier_phone(world, Transport::Tls);
        world.certify(carrier, &[CARRIER]);
        let alice = world.registered("alice");
        shows_nothing(world, alice, carrier);
        reached_only_by(world, Transport::Tls);
    });
}

/// All messages to the carrier went over this transport.
fn reached_only_by(world: &World, transport: Transport) {
    let mut to_carrier = world.sim.trace().packets().filter(|seen| seen.to.ip().to_string() == CARRIER);
    assert!(to_carrier.all(|seen| seen.transport == transport));
}

/// Users dial as they are used to, see numbers as they dial them, and call back.
#[test]
fn users_dial_and_see_national_numbers() {
    let national = |config: &mut Config| {
        carrier(config, Transport::Udp);
        let form =
            || NumberForm::National { country: "44".into(), prefix: "0".into(), international: "00".into() };
        config.trunking.dialing = vec![Dialing { domain: None, called: form(), callers: form() }];
    };
    Story::new("national numbers").configure(national).run(|world| {
        let carrier = carrier_phone(world, Transport::Udp);
        let alice = world.registered("alice");
        for (dialled, called) in [("0201234", "+44201234"), ("004930123", "+4930123"), (NUMBER, NUMBER)] {
            world.call(alice, dialled);
            world.wait(2);
            assert_eq!(world.calls_up(&[alice, carrier]), [1, 1], "{dialled}");
            world.hang_up(alice);
            world.wait(2);
            let start = format!("INVITE sip:{called}@{CARRIER}");
            assert!(seen_by_carrier(world).iter().any(|seen| seen.starts_with(&start)), "{dialled}");
        }
        // A call from a number of the country, which alice sees in the form that it dials.
        let invite = |world: &mut World, from: &str| {
            let identity = format!("P-Asserted-Identity: <sip:{from}@carrier.example>\r\n");
            world.phone_do(carrier, |phone, now, effects| {
                let lines = format!("Contact: <sip:carrier@{CARRIER}:5060>\r\n{identity}");
                phone.request_outside(now, "INVITE", &format!("sip:alice@{REALM}"), &lines, effects);
            });
            world.wait(2);
            world.hang_up(carrier);
            world.wait(2);
        };
        for (from, shown) in [("+44207999", "0207999"), ("+4930555", "004930555")] {
            invite(world, from);
            let packets = world.sim.trace().packets();
            let to_alice = packets.filter(|seen| seen.to.ip().to_string() == ALICE);
            let line = format!("P-Asserted-Identity: <sip:{shown}@");
            let is_shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&line);
            assert!(to_alice.into_iter().any(|seen| is_shown(&seen.bytes)), "{shown}");
        }
    });
}

const ORIGIN_ID: &str = "123e4567-e89b-12d3-a456-426655440000";
/// Number of alice at the carrier.
const OWN_NUMBER: &str = "+4930123402";

/// A carrier that gets signed calls, and whose calls need a valid identity.
fn signing(config: &mut Config) {
    carrier(config, Transport::Udp);
    let trunk = &mut config.trunking.trunks.edit()[0];
    trunk.stir = TrunkStir { signs: true, check: CallerCheck::Require };
    trunk.callers = vec![("alice".into(), OWN_NUMBER.into())];
    config.stir = StirConfig {
        signer: Some(Arc::new(signer("https://cert.example.org/own.pem"))),
        origin_id: ORIGIN_ID.into(),
        hosts: vec![CertificateHost::parse("*.carrier.example").expect("a host")],
        ..StirConfig::default()
    };
}

/// Each retransmission has the same signature, and an honest call comes in; a call with another's identity never does, whatever is lost.
#[test]
fn calls_are_signed_and_those_of_the_carrier_verified_in_a_bad_network() {
    let faults = Faults {
        loss_per_mille: 150,
        duplicate_per_mille: 100,
        reorder_per_mille: 100,
        delay: Duration::from_millis(1)..Duration::from_millis(60),
    };
    Story::new("signed identities").faults(faults).configure(signing).run(|world| {
        let carrier = carrier_phone(world, Transport::Udp);
        let alice = world.registered("alice");
        let bob = world.registered("+4930123401");
        world.call(alice, NUMBER);
        world.wait(8);
        assert_eq!(world.calls_up(&[alice, carrier]), [1, 1]);
        world.hang_up(alice);
        world.wait(40);
        let identities: Vec<String> =
            seen_by_carrier(world).iter().filter_map(|seen| line_of(seen, "Identity")).collect();
        let first = identities.first().expect("the call is signed").clone();
        assert!(identities.iter().all(|identity| *identity == first));
        let passport = Passport::parse(first.as_bytes()).expect("a PASSporT");
        assert!(passport.is_signed_by(&signer("").public_key()));
        let claims = &passport.claims;
        assert_eq!((&*claims.origin, claims.attestation), ("4930123402", Some(Attestation::Full)));
        let begin = world.sim.now();
        for (origin, url, is_valid) in [
            ("12155550121", SIGNER_URL, true),
            ("12155550122", SIGNER_URL, false),
            ("12155550121", "https://cert.carrier.example/gone.pem", false),
            ("12155550121", "https://evil.example/a.pem", false),
        ] {
            let before = world.count(bob, &PhoneEvent::Called);
            let claims = Claims {
                origin: origin.into(),
                destinations: vec!["4930123401".into()],
                made_s: world.sim.now().as_secs(),
                attestation: Some(Attestation::Full),
                origin_id: ORIGIN_ID.into(),
                diverted: Box::default(),
            };
            let identity = signer(url).identity(PassportKind::Shaken, &claims);
            let lines = format!(
                "Contact: <sip:carrier@{CARRIER}:5060>\r\nP-Asserted-Identity: <sip:+12155550121@carrier.example>\r\nIdentity: {}\r\n",
                String::from_utf8_lossy(&identity)
            );
            world.phone_do(carrier, |phone, now, effects| {
                phone.request_outside(now, "INVITE", &format!("sip:+4930123401@{REALM}"), &lines, effects);
            });
            world.wait(12);
            let called = world.count(bob, &PhoneEvent::Called) - before;
            assert_eq!(called > 0, is_valid, "{origin}, {url}");
            world.hang_up(carrier);
            world.wait(40);
        }
        let verified = "verstat=TN-Validation-Passed";
        let to_bob = world.sim.trace().packets().filter(|seen| seen.to == world.address(bob) && seen.at >= begin);
        let invites = to_bob.map(|seen| String::from_utf8_lossy(&seen.bytes).into_owned());
        assert!(invites.filter(|text| text.starts_with("INVITE ")).all(|text| text.contains(verified)));
    });
}

/// Value of a header field.
fn line_of(message: &str, name: &str) -> Option<String> {
    message.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
}
