//! A generator that keeps a window of attempts open, on virtual time.

use crate::{Action, Arrivals, Classic, Config, Generator, Outcome, Report, Spacing, Users};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::{Context, Flow, Instant, ListenerId, Node, Outbox, Received, Seed, Transport};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const START: Instant = Instant::from_secs(100);
const USERS: u32 = 10;

/// Generator of REGISTERs and a server that takes a fixed time for each, one after another.
struct Play {
    now: Instant,
    generator: Generator,
    out: Outbox,
    actions: Vec<Action>,
    /// Responses with their times.
    responses: VecDeque<(Instant, String)>,
    service: Duration,
    /// Users in the order of their REGISTERs.
    users: Vec<String>,
    reports: Vec<Report>,
    open_max: usize,
    /// The server answers 503 with a Retry-After of so many seconds.
    retry_after_s: Option<u64>,
}

impl Play {
    fn new(arrivals: Arrivals, service: Duration) -> Self {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let users = Users::by_rule("u", 2, 0, USERS, "").unwrap();
        let config = Config {
            scenario: Arc::new(Classic::Register.scenario().unwrap()),
            users: users.clone(),
            peers: users,
            domain: "localhost".into(),
            remote: address(5060),
            transport: Transport::Udp,
            connections: Default::default(),
            is_outbound_proxy: false,
            locals: vec![address(1000)],
            media: address(1000),
            media_use: Default::default(),
            arrivals: Some(arrivals),
            timers: Default::default(),
            attempts_max: 100,
            honours_retry_after: true,
            silence_max: Config::SILENCE_MAX,
        };
        Self {
            now: START,
            generator: Generator::new(config, &Seed::from_number(1), START),
            out: Outbox::new(),
            actions: Vec::new(),
            responses: VecDeque::new(),
            service,
            users: Vec::new(),
            reports: Vec::new(),
            open_max: 0,
            retry_after_s: None,
        }
    }

    fn run(&mut self, run: impl FnOnce(&mut Generator, &mut Context<'_, Action>)) {
        run(&mut self.generator, &mut Context::new(self.now, &mut self.out, &mut self.actions));
        for (_, bytes) in self.out.packets() {
            let request = String::from_utf8(bytes.to_vec()).unwrap();
            self.users
                .push(request.split("From: <sip:").nth(1).unwrap().split('@').next().unwrap().to_owned());
            let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
            let kept = request.lines().filter(|line| kept.iter().any(|name| line.starts_with(name)));
            let kept = kept.collect::<Vec<_>>().join("\r\n");
            let free = self.responses.back().map_or(self.now, |(at, _)| *at).max(self.now);
            let status = match self.retry_after_s {
                None => "200 OK".to_owned(),
                Some(seconds) => format!("503 Overload\r\nRetry-After: {seconds} (busy)"),
            };
            let response = format!("SIP/2.0 {status}\r\n{kept}\r\nContent-Length: 0\r\n\r\n");
            self.responses.push_back((free + self.service, response));
        }
        self.out.clear();
        self.reports.extend(self.actions.drain(..).filter_map(|action| match action {
            Action::Ended(report) => Some(report),
            Action::Release(_) | Action::Media(_) | Action::Log { .. } => None,
        }));
        self.open_max = self.open_max.max(self.generator.open());
    }

    /// Runs until nothing is planned or open.
    fn play_out(mut self) -> Self {
        while !self.generator.is_done() {
            let due = self.generator.next_deadline().map(|deadline| deadline.at);
            let response = self.responses.front().map(|(at, _)| *at);
            self.now = [due, response].into_iter().flatten().min().unwrap().max(self.now);
            if due.is_some_and(|at| at <= self.now) {
                self.run(|generator, cx| generator.on_timeout(cx));
            } else if let Some((_, response)) = self.responses.pop_front() {
                let flow = Flow::udp(ListenerId(0), SocketAddr::from(([127, 0, 0, 1], 5060)));
                let received = Received::new(flow, response.as_bytes());
                self.run(|generator, cx| generator.on_message(cx, received));
            }
        }
        self
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_window_stays_full_and_its_attempts_are_never_late() {
    let play = Play::new(Arrivals::window(4, START, ms(1000)), ms(10)).play_out();
    assert_eq!(play.open_max, 4);
    // One every 10 ms, and the rest of the window after the end.
    assert_eq!(play.reports.len(), 100 + 3);
    let is_good = |report: &Report| report.outcome == Outcome::Success && report.lag() == Duration::ZERO;
    assert!(play.reports.iter().all(is_good), "{:?}", play.reports);
    assert_eq!(play.generator.counters().retransmissions, 0);
    // A slower server gets less: a closed loop.
    let slow = Play::new(Arrivals::window(4, START, ms(1000)), ms(100)).play_out();
    assert_eq!(slow.reports.len(), 10 + 3);
}

#[test]
fn a_number_of_attempts_is_made_by_all_users_in_turn() {
    let arrivals = Arrivals::window(3, START, Duration::from_secs(1000)).at_most(25);
    let mut play = Play::new(arrivals, ms(1)).play_out();
    let user = |number: u32| format!("u{:02}", number % USERS);
    assert_eq!(play.users, (0..25).map(user).collect::<Vec<_>>());
    // Another load goes on with the next user.
    let more = Arrivals::window(3, play.now, Duration::from_secs(1000)).at_most(5);
    play.generator.continue_with(&Classic::Register.scenario().unwrap(), more);
    let play = play.play_out();
    assert_eq!(play.users[25..], (25..30).map(user).collect::<Vec<_>>());
    assert_eq!(play.reports.len(), 30);
}

#[test]
fn a_user_who_was_asked_to_wait_sends_nothing_meanwhile() {
    // Each user has an attempt every second, from the user of the first on.
    let arrivals = Arrivals::new(f64::from(USERS), Spacing::Fixed, START, ms(6500));
    let mut play = Play::new(arrivals, ms(1));
    play.retry_after_s = Some(2);
    let play = play.play_out();
    let of = |outcome| play.reports.iter().filter(|report| report.outcome == outcome).count();
    assert_eq!((of(Outcome::Status(503)), of(Outcome::Withheld)), (25, 40));
    assert_eq!(play.users.len(), 25, "the rest sent nothing");
}

#[test]
fn a_stopped_window_begins_nothing_more() {
    let mut play = Play::new(Arrivals::window(4, START, Duration::from_secs(1000)), ms(10));
    play.run(|generator, cx| generator.on_timeout(cx));
    play.generator.stop();
    let play = play.play_out();
    assert_eq!((play.reports.len(), play.open_max), (4, 4));
}
