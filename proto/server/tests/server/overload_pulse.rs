//! Tests of the overload control: callers, and the server behind a queue on virtual time.

use crate::challenge::{Login, answered};
use crate::harness::{BOB, Request, Sent, Wire, World, invite, only, register, request, statuses};
use crate::overload::{BOB_ADDRESS, MAX, TARGET};
use ringway_sansio::{Instant, Shedding};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time of the processor for a message.
const WORK: Duration = Duration::from_micros(1000);
/// Datagrams that wait at most, as in a socket.
const WAITING_MAX: usize = 2_000;
/// Messages of a call that this server receives: INVITE, ACK, INVITE, 200, ACK, BYE, 200.
const MESSAGES: f64 = 7.0;

/// Callers that begin calls at a steady rate, a callee that answers at once, and the server behind a queue.
struct Load {
    world: World,
    waiting: VecDeque<(Instant, String, Vec<u8>)>,
    /// Calls whose caller sends its INVITE again, by Call-ID: the next time, the interval, the request.
    pending: BTreeMap<String, (Instant, Duration, Request)>,
    /// Hang-ups that are due.
    hang_ups: VecDeque<(Instant, String, Request)>,
    begun: BTreeMap<String, Instant>,
    finished: Vec<(Instant, Duration)>,
    /// Times at which calls were refused.
    refused: Vec<Instant>,
    byes_lost: usize,
    free_at: Instant,
    costs: Costs,
    /// True if the driver has a filter; its present work, and the number of its drops.
    has_filter: bool,
    filter: Option<Shedding>,
    filtered: usize,
    /// Address of one who begins ten times what the server can do.
    flood: Option<String>,
}

/// Time of the processor for what is not handled.
#[derive(Clone, Copy)]
struct Costs {
    refused: Duration,
    /// The ACK of a request that was refused.
    acknowledged: Duration,
    dropped: Duration,
}

/// Refusing costs little beside handling.
const CHEAP: Costs = Costs {
    refused: Duration::from_micros(50),
    acknowledged: Duration::from_micros(50),
    dropped: Duration::from_micros(50),
};

/// Measured over UDP: receiving and sending cost as much as all else.
const OVER_SOCKETS: Costs = Costs {
    refused: Duration::from_micros(650),
    acknowledged: Duration::from_micros(200),
    dropped: Duration::from_micros(150),
};

impl Load {
    fn new(is_controlled: bool, costs: Costs) -> Self {
        let mut world = World::with(|config| {
            config.auth.enabled = true;
            config.overload.enabled = is_controlled;
            (config.overload.target_delay, config.overload.max_delay) = (TARGET, MAX);
        });
        let request = register("bob", "<sip:bob@192.0.2.20>");
        let challenge = only(world.udp(BOB, &request));
        let sent = world.udp(BOB, &answered(&request.cseq(2), &Login::to(&challenge, "bob")));
        assert_eq!(statuses(&sent), [200]);
        let free_at = world.now;
        Self {
            world,
            waiting: VecDeque::new(),
            pending: BTreeMap::new(),
            hang_ups: VecDeque::new(),
            begun: BTreeMap::new(),
            finished: Vec::new(),
            refused: Vec::new(),
            byes_lost: 0,
            free_at,
            costs,
            has_filter: false,
            filter: None,
            filtered: 0,
            flood: None,
        }
    }

    /// Offers calls for a time, at a multiple of what the server can do.
    fn run(&mut self, multiple: f64, time: Duration) {
        let (start, gap) = (self.world.now, WORK.mul_f64(MESSAGES / multiple));
        let mut next = start;
        let mut number = 0;
        while self.world.now < start + time {
            while next <= self.world.now {
                let source = format!("198.18.{}.{}:5060", number / 250 % 250, 1 + number % 250);
                let id = format!("{}-{number}", start.as_millis());
                let call = invite("sip:bob@example.org")
                    .from("sip:alice@example.org")
                    .via(&format!("SIP/2.0/UDP {source};branch=z9hG4bK"))
                    .call_id(&id);
                self.begun.insert(id.clone(), next);
                self.pending.insert(id, (next + T1, T1, call.clone()));
                self.put(next, &source, &call);
                if let Some(flooder) = self.flood.clone() {
                    for part in 0..12 {
                        let call = call.clone().call_id(&format!("flood-{number}-{part}"));
                        self.put(next, &flooder, &call.from("sip:nobody@example.com"));
                    }
                }
                (next, number) = (next + gap, number + 1);
            }
            self.step(next);
        }
    }

    /// Handles the next message, or lets time pass until `next`.
    fn step(&mut self, next: Instant) {
        let sent = self.world.pass(Duration::ZERO);
        self.deliver(sent);
        self.retransmit();
        let Some((arrived, from, bytes)) = self.waiting.pop_front() else {
            let until = (self.world.now + Duration::from_millis(1)).min(next);
            let sent = self.world.pass(until.since(self.world.now));
            return self.deliver(sent);
        };
        let sent = self.world.late(&from, &bytes, self.world.now.since(arrived));
        if let (true, Some(shedding)) = (self.has_filter, self.world.take_shedding()) {
            self.filter = Some(shedding);
        }
        self.free_at = self.world.now + self.cost_of(&bytes, &sent);
        let more = self.world.pass(self.free_at.since(self.world.now));
        self.deliver(sent);
        self.deliver(more);
    }

    fn cost_of(&self, bytes: &[u8], sent: &[Sent]) -> Duration {
        match sent {
            [first, ..] if first.text().contains("503 Overload") => self.costs.refused,
            [] if bytes.starts_with(b"INVITE") => self.costs.dropped,
            [] if bytes.starts_with(b"ACK") => self.costs.acknowledged,
            _ => WORK,
        }
    }

    fn put(&mut self, at: Instant, from: &str, message: &impl Wire) {
        let bytes = message.wire();
        let source = from.parse().unwrap();
        let is_kept = |of: &Shedding| self.world.now >= of.until || of.keeps(source, &bytes);
        if !self.filter.as_ref().is_none_or(is_kept) {
            self.filtered += 1;
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((at, from.to_owned(), bytes));
        }
    }

    fn retransmit(&mut self) {
        let now = self.world.now;
        let mut again = Vec::new();
        self.pending.retain(|_, (at, interval, request)| {
            if *at <= now {
                *interval *= 2;
                *at = now + *interval;
                again.push(request.clone());
            }
            *interval < T1 * 64
        });
        while self.hang_ups.front().is_some_and(|(at, ..)| *at <= now) {
            if let Some((_, from, bye)) = self.hang_ups.pop_front() {
                self.put(now, &from, &bye);
            }
        }
        for request in again {
            let from = source_of(&request);
            self.put(now, &from, &request);
        }
    }

    /// Messages of the phones in response to what they got.
    fn deliver(&mut self, sent: Vec<Sent>) {
        let now = self.world.now;
        for sent in sent {
            if sent.to() == BOB_ADDRESS {
                if matches!(sent.method().as_str(), "INVITE" | "BYE") {
                    let answer = sent.answer(200, &["Contact: <sip:bob@192.0.2.20>"]);
                    self.put(now, BOB_ADDRESS, &answer);
                }
                continue;
            }
            let (id, from) = (sent.header("Call-ID"), sent.to());
            match (sent.status(), sent.header("CSeq").ends_with("INVITE")) {
                (407, true) => {
                    let Some((_, _, request)) = self.pending.remove(&id) else { continue };
                    self.put(now, &from, &request.ack_of(&sent));
                    let request = answered(&request.cseq(2), &Login::to(&sent, "alice"));
                    self.put(now, &from, &request);
                    self.pending.insert(id, (now + T1, T1, request));
                }
                (200, true) => {
                    let Some((_, _, invite)) = self.pending.remove(&id) else { continue };
                    let in_dialog = |method, cseq| {
                        let mut request = request(method, "sip:bob@192.0.2.20").cseq(cseq).call_id(&id);
                        (request.from, request.via) = (sent.header("From"), invite.via.clone());
                        request
                            .to(&sent.header("To"))
                            .line(&format!("Route: {}", sent.header("Record-Route")))
                    };
                    self.put(now, &from, &in_dialog("ACK", 2));
                    self.hang_ups.push_back((now + HOLD, from, in_dialog("BYE", 3)));
                }
                (200, false) => {
                    if let Some(begun) = self.begun.remove(&id) {
                        self.finished.push((begun, now.since(begun)));
                    }
                }
                (503, true) => {
                    assert_ne!(sent.header("Retry-After"), "", "{}", sent.text());
                    if let Some((_, _, request)) = self.pending.remove(&id) {
                        self.put(now, &from, &request.ack_of(&sent));
                        self.refused.push(now);
                    }
                }
                (200..=699, false) => self.byes_lost += 1,
                _ => {}
            }
        }
    }

    /// Calls that were completed in the time since `from`, in parts of what the server can do.
    fn completed(&self, from: Instant) -> f64 {
        let most = self.world.now.since(from).as_secs_f64() / WORK.as_secs_f64() / MESSAGES;
        self.finished.iter().filter(|(begun, time)| *begun + *time >= from).count() as f64 / most
    }

    /// Completed calls of those begun in the time since `from`, in parts of what the server can do, and the 99th percentile of their time
    /// without the conversation.
    fn goodput(&self, from: Instant) -> (f64, Duration) {
        let mut times: Vec<_> =
            self.finished.iter().filter(|(at, _)| *at >= from).map(|(_, time)| *time).collect();
        times.sort_unstable();
        let most = self.world.now.since(from).as_secs_f64() / WORK.as_secs_f64() / MESSAGES;
        let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
        (times.len() as f64 / most, p99.saturating_sub(HOLD))
    }
}

fn source_of(request: &Request) -> String {
    request.via.trim_start_matches("SIP/2.0/UDP ").split(';').next().unwrap_or_default().to_owned()
}

const T1: Duration = Duration::from_millis(500);
/// Duration of a conversation.
const HOLD: Duration = Duration::from_millis(50);

/// Goodput at a multiple of the peak, then at 0.8 of it; and the 99th percentile of the first.
fn pulse(is_controlled: bool, costs: Costs, multiple: f64) -> (f64, Duration, f64) {
    let mut load = Load::new(is_controlled, costs);
    load.run(0.8, Duration::from_secs(1));
    assert!(load.refused.is_empty(), "nothing is refused below the peak");
    load.run(multiple, Duration::from_secs(1));
    let from = load.world.now;
    load.run(multiple, Duration::from_secs(5));
    let (during, p99) = load.goodput(from);
    load.run(0.8, Duration::from_secs(1));
    let from = load.world.now;
    load.run(0.8, Duration::from_secs(3));
    let after = load.goodput(from).0 / 0.8;
    assert!(!is_controlled || load.byes_lost == 0, "each BYE of an answered call is answered");
    (during, p99, after)
}

#[test]
fn calls_complete_while_ten_times_the_peak_is_offered() {
    for (multiple, least) in [(2.0, 0.85), (5.0, 0.75), (10.0, 0.6)] {
        let (during, p99, after) = pulse(true, CHEAP, multiple);
        assert!(during >= least, "{multiple} times the peak: {during:.2}");
        assert!(p99 < TARGET * 40, "{multiple} times the peak: {p99:?}");
        // Those who got no answer send their INVITEs again.
        assert!(after > 0.97 || multiple > 5.0, "after {multiple} times the peak: {after:.2}");
    }
}

#[test]
fn a_server_that_cannot_refuse_all_goes_on_admitting() {
    for (multiple, least) in [(2.0, 0.85), (5.0, 0.4)] {
        let (during, _, after) = pulse(true, OVER_SOCKETS, multiple);
        assert!(during >= least, "{multiple} times the peak: {during:.2}");
        assert!(after > 0.97, "after {multiple} times the peak: {after:.2}");
    }
    // Here refusing all takes more than there is.
    assert!(pulse(true, OVER_SOCKETS, 10.0).0 > 0.05);
}

/// A filter of the kernel drops for nothing. Callers whose INVITEs it drops send them again, so the peak lasts longer than the load.
#[test]
fn with_a_filter_as_many_calls_complete_as_at_the_peak() {
    for (multiple, least) in [(2.0, 0.9), (5.0, 0.9), (10.0, 0.85)] {
        let mut load = Load { has_filter: true, ..Load::new(true, OVER_SOCKETS) };
        load.run(0.8, Duration::from_secs(1));
        load.run(multiple, Duration::from_secs(1));
        let from = load.world.now;
        load.run(multiple, Duration::from_secs(4));
        let during = load.completed(from);
        let from = load.world.now;
        load.run(0.8, Duration::from_secs(4));
        let after = load.completed(from);
        assert!(during >= least && after >= 0.8, "{multiple} times the peak: {during:.2}, then {after:.2}");
        assert!(load.filtered > 1_000 && load.byes_lost == 0, "{} {}", load.filtered, load.byes_lost);
        let filter = Shedding { kept: 0, kept_of_many: 0, ..load.filter.clone().unwrap() };
        let keeps = |uri: &str| {
            filter.keeps("198.18.0.1:5060".parse().unwrap(), &invite(uri).line(&"X: 1".repeat(40)).wire())
        };
        assert!(!keeps("sip:bob@example.org"));
        assert!(keeps("sip:bob@example.org;gr=urn:uuid:1") && keeps("sip:bob@192.0.2.20"), "in a dialog");
        // The last of those callers gave up 32 s after the load.
        load.run(0.8, Duration::from_secs(29));
        let from = load.world.now;
        load.run(0.8, Duration::from_secs(2));
        let at_last = load.goodput(from).0 / 0.8;
        assert!(at_last > 0.97, "after {multiple} times the peak: {at_last:.2}");
    }
}

#[test]
fn without_the_control_most_calls_fail() {
    let (during, _, after) = pulse(false, CHEAP, 5.0);
    assert!(during < 0.4 && after < 0.9, "{during:.2}, {after:.2}");
}

/// The flood calls one user, so that all of it or nothing is dropped, and cannot push out the others.
#[test]
fn the_filter_drops_a_flood_of_one_source_and_no_calls_of_others() {
    let mut load = Load { has_filter: true, ..Load::new(true, OVER_SOCKETS) };
    load.run(0.8, Duration::from_secs(1));
    load.flood = Some("203.0.113.9:5060".to_owned());
    load.run(0.8, Duration::from_secs(1));
    let from = load.world.now;
    load.run(0.8, Duration::from_secs(5));
    let good = load.goodput(from).0 / 0.8;
    assert!(good > 0.95 && load.filtered > 1_000, "{good:.3}, {} filtered", load.filtered);
}
