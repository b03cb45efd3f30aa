//! Health of a generator that is run in simulated time, so that no machine makes it slow.

use super::{Arrivals, Config, Delay, Generator, Spacing, Statistics, Timers, Users, WireCounters};
use ringway_load::Action;
use ringway_load::Classic;
use ringway_sansio::{Context, Flow, Instant, ListenerId, Node, Outbox, Received, Seed, Transport};
use ringway_sip::{HeaderName, Limits, Message, MessageWriter};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 5060);
const CALLER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 5070);

/// Statistics of 200 attempts in two seconds, whose server responds after `delay`, from a generator that runs each `tick`.
fn run(classic: Classic, tick: Duration, delay: Duration) -> Statistics {
    let start = Instant::from_secs(10);
    let config = Config {
        scenario: Arc::new(classic.scenario().unwrap()),
        users: Users::by_rule("a", 1, 0, 5, "").unwrap(),
        peers: Users::by_rule("b", 1, 0, 5, "").unwrap(),
        domain: "localhost".into(),
        remote: SERVER,
        transport: Transport::Udp,
        connections: Default::default(),
        is_outbound_proxy: false,
        media: CALLER,
        media_use: Default::default(),
        locals: vec![CALLER],
        arrivals: Some(Arrivals::new(100.0, Spacing::Fixed, start, Duration::from_secs(2))),
        timers: Timers::default(),
        attempts_max: Config::ATTEMPTS_MAX,
        honours_retry_after: false,
        silence_max: Config::SILENCE_MAX,
    };
    let mut generator = Generator::new(config, &Seed::from_number(7), start);
    let (mut out, mut actions, mut statistics) = (Outbox::new(), Vec::new(), Statistics::default());
    let mut responses: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut now = start;
    while !generator.is_done() {
        let mut cx = Context::new(now, &mut out, &mut actions);
        while let Some((_, bytes)) = responses.pop_front_if(|(at, _)| *at <= now) {
            generator.on_message(&mut cx, Received::new(Flow::udp(ListenerId(0), SERVER), &bytes));
        }
        generator.on_timeout(&mut cx);
        responses.extend(out.packets().map(|(_, request)| (now + delay, ok(request))));
        out.clear();
        for action in actions.drain(..) {
            match action {
                Action::Ended(report) => statistics.add(&report),
                Action::Release(_) | Action::Media(_) | Action::Log { .. } => {}
            }
        }
        now = now + tick;
        assert!(now < start + Duration::from_secs(60), "the attempts do not end");
    }
    let counters = std::iter::once((generator.counters(), WireCounters::default()));
    statistics.set_thread(std::thread::current().id(), counters, 0, 0, 0.0);
    statistics
}

fn ok(request: &[u8]) -> Vec<u8> {
    let request = Message::parse(request, &Limits::default()).unwrap();
    let mut bytes = Vec::new();
    let mut response = MessageWriter::answer(&mut bytes, &request, 200, "OK", CALLER, Some(b"tag"));
    response.header(HeaderName::ContentLength, b"0");
    response.finish().unwrap();
    bytes
}

#[test]
fn a_slow_server_is_not_blamed_on_the_generator() {
    let statistics = run(Classic::Options, Duration::from_micros(500), Duration::from_secs(3));
    assert_eq!((statistics.successes(), statistics.ended()), (200, 200));
    assert!(statistics.percentile(Delay::Response, 50.0).unwrap() >= Duration::from_secs(3));
    assert!(statistics.counters().retransmissions > 200, "{:?}", statistics.counters());
    assert_eq!(statistics.health().invalid_because(), None);
}

#[test]
fn a_starved_generator_is_blamed_and_its_delay_is_in_the_response_time() {
    let statistics = run(Classic::Options, Duration::from_millis(45), Duration::from_micros(200));
    assert_eq!((statistics.successes(), statistics.ended()), (200, 200));
    let reason = statistics.health().invalid_because().unwrap();
    assert!(reason.contains("late (99th percentile)"), "{reason}");
    let lag = statistics.percentile(Delay::Lag, 99.0).unwrap();
    assert!(lag > Duration::from_millis(30), "{lag:?}");
    assert!(
        statistics.percentile(Delay::Response, 99.0).unwrap()
            > statistics.percentile(Delay::Service, 99.0).unwrap()
    );
}

#[test]
fn registrations_that_find_no_free_user_are_failures_of_a_slow_server() {
    let statistics = run(Classic::Register, Duration::from_micros(500), Duration::from_millis(400));
    let busy = statistics.outcomes().get("user_busy").copied().unwrap_or(0);
    // Five users, each for 400 ms: at most 12.5 a second.
    assert!(busy > 100 && statistics.successes() > 10, "{:?}", statistics.outcomes());
    assert_eq!((statistics.ended(), statistics.health().dropped), (200, 0));
    assert_eq!(statistics.health().invalid_because(), None);
}
