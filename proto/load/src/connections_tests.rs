//! A generator over a stream transport: numbers of connections, their ends, and users that go on.

use crate::{
    Action, Arrivals, Classic, Config, ConnectionUse, Generator, Length, Outcome, Report, Spacing, Users,
};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use ringway_sansio::{ConnectionId, Context, Event, Flow, Instant, Node, Outbox, Received, Seed, Transport};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const START: Instant = Instant::from_secs(100);

/// Generator with its buffers.
struct Play {
    generator: Generator,
    out: Outbox,
    actions: Vec<Action>,
}

impl Play {
    /// Four users at two local addresses; eight attempts at once.
    fn new(classic: Classic, connections: ConnectionUse) -> Self {
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let users = Users::by_rule("u", 2, 0, 4, "secret").unwrap();
        let config = Config {
            scenario: Arc::new(classic.scenario().unwrap()),
            users: users.clone(),
            peers: users,
            domain: "localhost".into(),
            remote: local(5060),
            transport: Transport::Tcp,
            connections,
            is_outbound_proxy: false,
            locals: vec![local(1000), local(2000)],
            media: local(1000),
            media_use: Default::default(),
            arrivals: Some(arrivals(8)),
            timers: Default::default(),
            attempts_max: 100,
            honours_retry_after: false,
            silence_max: Config::SILENCE_MAX,
        };
        let generator = Generator::new(config, &Seed::from_number(1), START);
        Self { generator, out: Outbox::new(), actions: Vec::new() }
    }

    fn run(&mut self, run: impl FnOnce(&mut Generator, &mut Context<'_, Action>)) {
        run(&mut self.generator, &mut Context::new(START, &mut self.out, &mut self.actions));
    }

    /// Runs what is due.
    fn turn(&mut self) {
        assert!(self.generator.next_deadline().is_some_and(|deadline| deadline.at <= START));
        self.run(|generator, cx| generator.on_timeout(cx));
    }

    /// Takes the sent messages with their connections.
    fn sent(&mut self) -> Vec<(u64, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let packets = self.out.packets().map(|(packet, bytes)| (packet.flow.connection, text(bytes)));
        let sent = packets.map(|(id, text)| (id.unwrap().0, text)).collect();
        self.out.clear();
        sent
    }

    fn numbers(&mut self) -> Vec<u64> {
        self.sent().into_iter().map(|(number, _)| number).collect()
    }

    /// Answers a request on its connection.
    fn answer(&mut self, request: &(u64, String), line: &str) {
        let headers = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
        let kept = request.1.lines().filter(|line| headers.iter().any(|name| line.starts_with(name)));
        let kept: Vec<String> = kept.map(|line| line.replace("To: ", "To: \"x\" ")).collect();
        let dialog = "Contact: <sip:peer@127.0.0.1:9>\r\nRecord-Route: <sip:127.0.0.1:5060;transport=tcp;lr>";
        let kept = kept.join("\r\n");
        let response = format!("SIP/2.0 {line}\r\n{kept}\r\n{dialog}\r\nContent-Length: 0\r\n\r\n");
        let remote = SocketAddr::from(([127, 0, 0, 1], 5060));
        let flow =
            Flow { connection: Some(ConnectionId(request.0)), ..Flow::dial(Default::default(), remote) };
        let received = Received::new(flow, response.as_bytes());
        self.run(|generator, cx| generator.on_message(cx, received));
    }

    fn close(&mut self, number: u64) {
        self.run(|generator, cx| generator.on_event(cx, Event::Closed(ConnectionId(number))));
    }

    fn reports(&mut self) -> Vec<Report> {
        let report = |action: &Action| match action {
            Action::Ended(report) => Some(*report),
            Action::Release(_) | Action::Media(_) | Action::Log { .. } => None,
        };
        self.actions.iter().filter_map(report).collect()
    }

    fn released(&self) -> Vec<u64> {
        let number = |action: &Action| match action {
            Action::Release(id) => Some(id.0),
            Action::Ended(_) | Action::Media(_) | Action::Log { .. } => None,
        };
        self.actions.iter().filter_map(number).collect()
    }
}

/// `count` attempts in the first microsecond.
fn arrivals(count: u32) -> Arrivals {
    let length = Duration::from_nanos(u64::from(count) * 100);
    Arrivals::new(f64::from(count) / length.as_secs_f64(), Spacing::Fixed, at_once(), length)
}

/// Start of arrivals that are all due at [`START`].
fn at_once() -> Instant {
    Instant::from_nanos(START.as_nanos() - 1_000_000)
}

#[test]
fn connections_are_numbered_by_address_user_or_attempt() {
    for (connections, wanted) in [
        (ConnectionUse::Shared, [0, 1, 0, 1, 0, 1, 0, 1]),
        (ConnectionUse::PerUser, [0, 1, 2, 3, 0, 1, 2, 3]),
        (ConnectionUse::PerAttempt, [0, 1, 2, 3, 4, 5, 6, 7]),
    ] {
        let mut play = Play::new(Classic::Options, connections);
        play.turn();
        assert_eq!(play.numbers(), wanted, "{connections:?}");
    }
}

#[test]
fn a_closed_connection_ends_the_attempts_that_wait_on_it_and_no_others() {
    let mut play = Play::new(Classic::Options, ConnectionUse::PerUser);
    play.turn();
    assert_eq!(play.sent().len(), 8);
    play.close(1);
    play.close(3);
    play.close(99);
    assert!(play.reports().is_empty(), "one pass ends all");
    play.turn();
    let outcomes: Vec<Outcome> = play.reports().iter().map(|report| report.outcome).collect();
    assert_eq!(outcomes, [Outcome::Unreachable; 4]);
    assert_eq!((play.generator.open(), play.generator.transactions_len()), (4, (0, 4)));
    assert!(play.released().is_empty());
}

#[test]
fn a_call_survives_a_closed_connection_while_nothing_is_pending() {
    let talk = Length::Fixed(Duration::from_secs(60));
    let mut play = Play::new(Classic::Call { talk }, ConnectionUse::PerUser);
    play.turn();
    let invites = play.sent();
    play.answer(&invites[0], "200 OK");
    let acks = play.sent();
    assert!(acks.len() == 1 && acks[0].1.starts_with("ACK "), "{acks:?}");
    play.close(0);
    play.turn();
    // The other call of user 0 waits for its response; this one opens the connection again for its BYE.
    assert_eq!(play.reports().len(), 1);
    assert_eq!(play.generator.open(), 7);
}

#[test]
fn the_connection_of_an_ended_attempt_is_released() {
    let mut play = Play::new(Classic::Options, ConnectionUse::PerAttempt);
    play.turn();
    let sent = play.sent();
    play.answer(&sent[5], "200 OK");
    play.answer(&sent[2], "404 Not Found");
    assert_eq!(play.released(), [5, 2]);
    play.run(Generator::abort);
    assert_eq!(play.released().len(), 8);
}

#[test]
fn users_go_on_with_their_call_ids_and_sequence_numbers() {
    let mut play = Play::new(Classic::Register, ConnectionUse::Shared);
    play.turn();
    let first = play.sent();
    // A user sends no REGISTER while another one is pending.
    let busy = play.reports().iter().filter(|report| report.outcome == Outcome::UserBusy).count();
    assert_eq!((first.len(), busy, play.generator.counters().dropped), (4, 4, 0));
    first.iter().for_each(|request| play.answer(request, "200 OK"));
    assert!(play.generator.is_done());
    play.run(|generator, _| {
        generator.continue_with(&Classic::Logout.scenario().unwrap(), arrivals(4));
    });
    play.turn();
    let second = play.sent();
    let line = |request: &(u64, String), name: &str| -> String {
        request.1.lines().find(|line| line.starts_with(name)).unwrap().to_owned()
    };
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(line(first, "Call-ID:"), line(second, "Call-ID:"));
        assert_eq!(
            (line(first, "CSeq:"), line(second, "CSeq:")),
            ("CSeq: 1 REGISTER".into(), "CSeq: 2 REGISTER".into())
        );
        assert_eq!(
            (line(first, "Expires:"), line(second, "Expires:")),
            ("Expires: 3600".into(), "Expires: 0".into())
        );
    }
    assert_eq!(second.len(), 4);
}
