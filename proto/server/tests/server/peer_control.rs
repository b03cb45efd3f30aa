//! Tests of overload control between servers (RFC 7339, RFC 7415): the parameters in Via, requests that are withheld, and two servers of
//! which one has too much to do.

use crate::harness::{
    ALICE, BOB, Request, STRANGER, Sent, Wire, World, invite, only, request, requests, statuses, udp_flow,
};
use crate::overload::{fill, overloaded_with, under_overload};
use crate::routes::{CARRIER_A, CARRIER_B, carriers, only_first, prefix, trunk};
use ringway_sansio::{Instant, Transport};
use ringway_server::{Config, Listener, Route, RouteTable, RouteTo};
use std::collections::VecDeque;
use std::time::Duration;

/// Parameters of a client with the loss-based scheme, and of one with both.
const SUPPORT: &str = ";oc;oc-algo=\"loss\"";
const BOTH: &str = ";oc;oc-algo=\"loss,rate\"";

fn controlled(config: &mut Config) {
    carriers(config);
    under_overload(config);
    config.trunking.trunks.edit()[1].takes_rate = true;
}

fn call(id: &str) -> Request {
    invite("sip:+441234@example.org").call_id(id)
}

/// Top Via of a message.
fn via(sent: &Sent) -> String {
    sent.headers("Via").remove(0)
}

/// Response to a request of ours with these values of `oc`.
fn answer(sent: &Sent, status: u16, control: &str) -> Vec<u8> {
    let text = String::from_utf8(sent.answer(status, &[])).unwrap();
    let support = if text.contains(BOTH) { BOTH } else { SUPPORT };
    assert_eq!(text.matches(support).count(), 1, "{text}");
    text.replace(support, control).into_bytes()
}

/// The request of a call, which must be at this address.
#[track_caller]
fn at(world: &mut World, id: &str, address: &str) -> Sent {
    let sent = only(requests(world.udp(ALICE, &call(id))));
    assert_eq!(sent.to(), address);
    sent
}

#[test]
fn requests_to_servers_say_that_the_control_is_supported_and_others_do_not() {
    let mut world = World::with(controlled);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let to_trunk = at(&mut world, "to a trunk", CARRIER_A);
    assert!(via(&to_trunk).ends_with(SUPPORT), "{}", via(&to_trunk));
    let again = world.pass(Duration::from_millis(600));
    assert!(again.iter().any(|sent| sent.bytes == to_trunk.bytes), "a retransmission is the same");
    let to_bob = world.udp(ALICE, &invite("sip:bob@example.org").call_id("to a phone"));
    assert!(!via(&only(requests(to_bob))).contains(";oc"));
    let mut off = World::with(|config| {
        carriers(config);
        config.overload.enabled = false;
    });
    assert!(!via(&at(&mut off, "off", CARRIER_A)).contains(";oc"));
}

#[test]
fn a_server_that_supports_it_gets_the_parameters_in_each_response() {
    let mut world = World::with(controlled);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let incoming = |id: &str| {
        let call = invite("sip:bob@example.org").from("sip:+4940999@carrier.example").call_id(id);
        let via = format!("SIP/2.0/UDP carrier.example{BOTH};branch=z9hG4bK{}", id.replace(' ', "-"));
        Request { via, ..call }
    };
    let sent = world.udp(CARRIER_A, &incoming("from a trunk"));
    let (trying, forwarded) = (&sent[0], requests(sent.clone()).remove(0));
    // One in between may not say anything in the name of this server.
    let ringing = String::from_utf8(forwarded.answer(180, &[])).unwrap();
    let ringing = only(world.udp(BOB, &ringing.replace(BOTH, ";oc=99;oc-algo=\"loss\"").into_bytes()));
    for response in [trying, &ringing] {
        let via = via(response);
        assert!(via.contains(";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq="), "{via}");
        assert_eq!(via.matches("oc=").count(), 1, "{via}");
    }
    let stranger = world.udp(STRANGER, &incoming("from a stranger"));
    assert!(via(&stranger[0]).contains(BOTH), "{}", via(&stranger[0]));
}

#[test]
fn a_trunk_that_asks_for_fewer_gets_fewer() {
    let mut world = World::with(controlled);
    let first = at(&mut world, "first", CARRIER_A);
    world.udp(CARRIER_A, &answer(&first, 486, ";oc=100;oc-algo=\"loss\";oc-validity=1000;oc-seq=5.1"));
    let second = at(&mut world, "second", CARRIER_B);
    assert!(via(&first).contains(SUPPORT) && via(&second).contains(BOTH), "{} {}", via(&first), via(&second));
    assert_eq!(world.server.counters().requests_withheld, 1);
    // The rate of RFC 7415: at none in a second there is no trunk left.
    world.udp(CARRIER_B, &answer(&second, 486, ";oc=0;oc-algo=\"rate\";oc-validity=1000;oc-seq=1.1"));
    let sent = world.udp(ALICE, &call("third"));
    assert_eq!(statuses(&sent), [100, 503]);
    assert!(sent[1].headers("Retry-After").is_empty() && sent[1].text().contains("Next Server Overloaded"));
    world.pass(Duration::from_millis(1_001));
    let fourth = at(&mut world, "fourth", CARRIER_A);
    // It ends the control itself, and what is late does not begin it again.
    world.udp(CARRIER_A, &answer(&fourth, 180, ";oc=100;oc-algo=\"loss\";oc-seq=6.1"));
    at(&mut world, "fifth", CARRIER_B);
    world.udp(CARRIER_A, &answer(&fourth, 183, ";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=7.1"));
    world.udp(CARRIER_A, &answer(&fourth, 183, ";oc=100;oc-algo=\"loss\";oc-seq=6.9"));
    at(&mut world, "sixth", CARRIER_A);
}

#[test]
fn only_servers_of_the_configuration_ask_for_anything() {
    let mut world = World::with(controlled);
    world.register("bob", BOB, "<sip:bob@192.0.2.20>");
    let call = |id: &str| invite("sip:bob@example.org").call_id(id);
    let forwarded = only(requests(world.udp(ALICE, &call("1"))));
    let busy = String::from_utf8(forwarded.answer(486, &[])).unwrap();
    let branch = via(&forwarded);
    let busy =
        busy.replacen(&branch, &format!("{branch};oc=100;oc-algo=\"loss\";oc-validity=9999;oc-seq=1.1"), 1);
    assert!(busy.contains("oc=100"));
    world.udp(BOB, &busy.into_bytes());
    assert_eq!(requests(world.udp(ALICE, &call("2"))).len(), 1);
}

#[test]
fn work_that_was_begun_and_emergencies_are_withheld_last() {
    let mut world = World::with(|config| {
        crate::emergency::rescue(config);
        config.auth.enabled = false;
        under_overload(config);
    });
    let first = at(&mut world, "first", CARRIER_A);
    let sent =
        world.udp(CARRIER_A, &answer(&first, 200, ";oc=60;oc-algo=\"loss\";oc-validity=60000;oc-seq=5.1"));
    let accepted = only(sent);
    let mut to_a = 0;
    for number in 0..40 {
        let sent = requests(world.udp(ALICE, &call(&format!("call {number}"))));
        to_a += sent.iter().filter(|sent| sent.to() == CARRIER_A).count();
    }
    assert!((1..=24).contains(&to_a), "{to_a} of 40");
    let mut bye = request("BYE", "sip:+441234@198.51.100.1:5060").cseq(7).call_id("first");
    bye.from = accepted.header("From");
    let bye = bye.to(&accepted.header("To")).line(&format!("Route: {}", accepted.header("Record-Route")));
    assert!(world.udp(ALICE, &bye).iter().any(|sent| sent.to() == CARRIER_A && sent.method() == "BYE"));
}

#[test]
fn a_front_gets_refusals_without_a_pause_and_its_probe_is_answered() {
    let front = "198.51.100.77:5060";
    let mut world = overloaded_with(|config| config.auth.fronts = vec!["198.51.100.77".parse().unwrap()]);
    let late = Duration::from_millis(300);
    let call = |id: &str| {
        let via = format!("SIP/2.0/UDP 198.51.100.77{SUPPORT};branch=z9hG4bK{}", id.replace(' ', "-"));
        Request { via, ..invite("sip:bob@example.org").call_id(id) }
    };
    // It waited so long that nothing is sent to a phone.
    let refused = only(world.late(front, &call("refused"), late));
    assert_eq!(refused.status(), 503);
    assert!(refused.headers("Retry-After").is_empty());
    let probe = request("OPTIONS", "sip:192.0.2.1:5060").from("sip:192.0.2.1").call_id("probe");
    assert_eq!(statuses(&world.late(front, &probe, late)), [200]);
    // From now on it is to send fewer.
    world.pass(Duration::from_millis(250));
    fill(&mut world, udp_flow(BOB), |_| {});
    let asked = only(world.late(front, &call("asked"), late));
    let via = via(&asked);
    assert!(via.contains(";oc=50;oc-algo=\"loss\";oc-validity=1000;oc-seq="), "{via}");
    // The response says when it is over.
    world.pass(Duration::from_secs(3));
    let sent = world.udp(front, &call("over"));
    assert!(via_of(&sent).contains(";oc=0;oc-algo=\"loss\";oc-validity=0;"), "{}", via_of(&sent));
}

fn via_of(sent: &[Sent]) -> String {
    via(&sent[0])
}

fn from_source(source: &str, id: &str) -> Request {
    call(id).via(&format!("SIP/2.0/UDP {source};branch=z9hG4bK"))
}

/// A server that takes calls, and one behind a queue that they are for: 4 ms for a message, a twentieth for a refusal.
struct Pair {
    front: World,
    back: World,
    waiting: VecDeque<(Instant, String, Vec<u8>)>,
    /// Time that the second one worked ahead.
    debt: Duration,
    /// INVITEs to the second one, retransmissions included.
    sent: usize,
    completed: usize,
}

const FRONT: &str = "192.0.2.1:5060";
const WORK: Duration = Duration::from_millis(4);
const REFUSAL: Duration = Duration::from_micros(200);
/// Messages of a call at the second server that take so long: INVITE and 486. The ACK goes no further.
const MESSAGES: f64 = 2.0;

impl Pair {
    fn new(is_controlled: bool) -> Self {
        let front = World::with(|config| {
            carriers(config);
            only_first(config);
            under_overload(config);
            config.overload.enabled = is_controlled;
        });
        let mut back = World::with(|config| {
            let address = CARRIER_A.parse().unwrap();
            config.listeners =
                vec![Listener { transport: Transport::Udp, bound: address, advertised: address }];
            config.trunking.trunks = vec![trunk("front", FRONT)].into();
            let route = Route { matches: prefix("+"), to: RouteTo::User("bob".into()) };
            config.trunking.routes = RouteTable::new(vec![route]).unwrap();
            under_overload(config);
        });
        back.register("bob", BOB, "<sip:bob@192.0.2.20>");
        let (waiting, debt) = (VecDeque::new(), Duration::ZERO);
        Self { front, back, waiting, debt, sent: 0, completed: 0 }
    }

    /// Offers calls at a multiple of what the second server can do. Returns the part of them that it got, and the calls that were
    /// completed, in parts of what it can do.
    fn run(&mut self, multiple: f64, time: Duration) -> (f64, f64) {
        (self.sent, self.completed) = (0, 0);
        let steps = (time.as_millis() / WORK.as_millis()) as u32;
        let per_step = multiple / MESSAGES;
        let mut offered = 0;
        for step in 0..steps {
            while f64::from(offered) < f64::from(step) * per_step {
                let id = format!("{}-{offered}", self.front.now.as_millis());
                // The requests of one source may not fill the memory.
                let from = format!("198.18.{}.{}:5060", offered / 250 % 250, 1 + offered % 250);
                let sent = self.front.udp(&from, &from_source(&from, &id));
                self.take_of_front(sent);
                offered += 1;
            }
            self.step();
        }
        let most = time.as_secs_f64() / WORK.as_secs_f64() / MESSAGES;
        (self.sent as f64 / f64::from(offered), self.completed as f64 / most)
    }

    fn step(&mut self) {
        while self.debt < WORK {
            let Some((arrived, from, bytes)) = self.waiting.pop_front() else { break };
            let sent = self.back.late(&from, &bytes, self.back.now.since(arrived));
            let is_refusal = sent.iter().all(|sent| sent.text().contains("503 Overload"));
            self.debt += if is_refusal { REFUSAL } else { WORK };
            self.take_of_back(sent);
        }
        self.debt = self.debt.saturating_sub(WORK);
        let sent = self.back.pass(WORK);
        self.take_of_back(sent);
        let sent = self.front.pass(WORK);
        self.take_of_front(sent);
    }

    fn put(&mut self, from: &str, bytes: Vec<u8>) {
        if self.waiting.len() < 1_000 {
            self.waiting.push_back((self.back.now, from.to_owned(), bytes));
        }
    }

    fn take_of_front(&mut self, sent: Vec<Sent>) {
        for sent in sent {
            if sent.to() == CARRIER_A {
                self.sent += usize::from(sent.method() == "INVITE");
                self.put(FRONT, sent.bytes);
            } else if sent.status() >= 300 {
                self.completed += usize::from(sent.status() == 486);
                let ack = from_source(&sent.to(), &sent.header("Call-ID")).ack_of(&sent).wire();
                let more = self.front.udp(&sent.to(), &ack);
                self.take_of_front(more);
            }
        }
    }

    fn take_of_back(&mut self, sent: Vec<Sent>) {
        for sent in sent {
            match sent.to().as_str() {
                BOB if sent.method() == "INVITE" => self.put(BOB, sent.answer(486, &[])),
                // To itself, for the user that the number has.
                CARRIER_A => {
                    let more = self.back.udp(CARRIER_A, &sent.bytes);
                    self.take_of_back(more);
                }
                FRONT => {
                    let more = self.front.udp(CARRIER_A, &sent.bytes);
                    self.take_of_front(more);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn of_two_servers_the_first_withholds_what_the_second_cannot_do() {
    let mut pair = Pair::new(true);
    let (got, done) = pair.run(0.8, Duration::from_secs(1));
    assert!(got > 0.99 && done > 0.75, "below the peak: {got:.2}, {done:.2}");
    assert_eq!(pair.front.server.counters().requests_withheld, 0);
    pair.run(5.0, Duration::from_secs(2));
    let (got, done) = pair.run(5.0, Duration::from_secs(2));
    let (refused, full) =
        (pair.back.server.counters().overload_refused, pair.back.server.counters().over_memory);
    assert_eq!(full, 0, "memory is not what limits it");
    assert!(
        got < 0.6 && done > 0.75,
        "at five times the peak: {got:.2}, {done:.2}, {refused} refused, {} waiting",
        pair.waiting.len()
    );
    assert!(pair.front.server.counters().requests_withheld > 300);
    pair.run(0.8, Duration::from_secs(2));
    let (got, done) = pair.run(0.8, Duration::from_secs(2));
    assert!(got > 0.97 && done > 0.75, "afterwards: {got:.2}, {done:.2}");
    // A first server that does not know the control sends all.
    let mut pair = Pair::new(false);
    let (got, _) = pair.run(5.0, Duration::from_secs(2));
    assert!(got > 0.95, "without: {got:.2}");
}
