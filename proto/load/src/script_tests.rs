//! Attempts with actions and jumps, on virtual time.

use crate::{
    Action, Arrivals, Check, Comparison, Config, Generator, Jump, Length, MediaEvent, MediaPlay,
    MediaRefusal, Operand, Operator, Outcome, Pattern, Place, Receive, Received, Recording, Scenario,
    ScenarioError, Script, ScriptAction, Search, Send, Spacing, Step, Template, Text, Users, Variable,
};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use ringway_sansio::{Context, Flow, Instant, ListenerId, Node, Outbox, Received as Packet, Seed, Transport};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const START: Instant = Instant::from_secs(100);
const COUNT: Variable = Variable(0);
const TRUTH: Variable = Variable(1);
const FOUND: Variable = Variable(2);

/// Finds the digits after `Expires: `.
#[derive(Debug)]
struct Expires;

impl Pattern for Expires {
    fn find(&self, text: &[u8], groups: &mut [Option<Range<usize>>]) -> bool {
        let Some(start) = memchr::memmem::find(text, b"Expires: ").map(|at| at + 9) else { return false };
        let end = start + text[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        groups[0] = Some(start..end);
        true
    }
}

fn send(extra: &str) -> Step {
    let text = [
        "OPTIONS sip:x SIP/2.0\nVia: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]\nFrom: <sip:[user]@x>;tag=1\n\
         To: <sip:x>\nCall-ID: [call_id]\nCSeq: [cseq] OPTIONS\n",
        extra,
    ]
    .concat();
    Step::Send(Send { template: Template::parse(&text).unwrap() })
}

fn response(status: u16, is_optional: bool) -> Step {
    Step::Receive(Receive { message: Received::Response(status), is_optional, is_challenge: false })
}

fn search(check: Check) -> ScriptAction {
    ScriptAction::Search(Search {
        pattern: Arc::new(Expires),
        place: Place::Message,
        check,
        groups: vec![FOUND],
    })
}

fn actions(actions: Vec<ScriptAction>) -> Script {
    Script { actions, ..Script::default() }
}

fn jump(to: usize, test: Option<Variable>) -> Script {
    Script { next: Some(Jump { to, test, random_ppm: Jump::ALWAYS_PPM }), ..Script::default() }
}

struct Played {
    outcomes: Vec<Outcome>,
    requests: Vec<String>,
    logs: Vec<(u64, bool, String)>,
    media: Vec<(Instant, MediaEvent)>,
}

/// Plays 4 attempts against a peer that answers each request with `answer`, a status line and header fields.
fn play(scenario: Scenario, users: Users, answer: &str) -> Played {
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let config = Config {
        scenario: Arc::new(scenario),
        peers: users.clone(),
        users,
        domain: "localhost".into(),
        remote: address(5060),
        transport: Transport::Udp,
        connections: Default::default(),
        is_outbound_proxy: false,
        locals: vec![address(1000)],
        media: address(4000),
        media_use: Default::default(),
        arrivals: Some(Arrivals::new(10.0, Spacing::Fixed, START, Duration::from_millis(400))),
        timers: Default::default(),
        attempts_max: 100,
        honours_retry_after: false,
        silence_max: Config::SILENCE_MAX,
    };
    let mut generator = Generator::new(config, &Seed::from_number(1), START);
    let (mut out, mut found) = (Outbox::new(), Vec::new());
    let mut played =
        Played { outcomes: Vec::new(), requests: Vec::new(), logs: Vec::new(), media: Vec::new() };
    let mut now = START;
    while let Some(deadline) =
        generator.next_deadline().filter(|deadline| deadline.at < START + Duration::from_secs(60))
    {
        now = now.max(deadline.at);
        generator.on_timeout(&mut Context::new(now, &mut out, &mut found));
        while !out.is_empty() {
            let sent: Vec<String> =
                out.packets().map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned()).collect();
            out.clear();
            for request in sent {
                let headers = request.split_once("\r\n").unwrap().1.to_owned();
                let bytes = [answer, "\r\n", &headers].concat();
                let flow = Flow::udp(ListenerId(0), address(5060));
                let packet = Packet::new(flow, bytes.as_bytes());
                generator.on_message(&mut Context::new(now, &mut out, &mut found), packet);
                played.requests.push(request);
            }
        }
        for action in found.drain(..) {
            match action {
                Action::Ended(report) => played.outcomes.push(report.outcome),
                Action::Log { attempt, is_warning, text } => {
                    played.logs.push((attempt, is_warning, String::from_utf8(text).unwrap()));
                }
                Action::Media(event) => played.media.push((now, event)),
                Action::Release(_) => {}
            }
        }
    }
    played
}

fn users() -> Users {
    Users::by_rule("u", 2, 0, 4, "").unwrap()
}

#[test]
fn a_loop_sends_as_often_as_its_counter_says() {
    let steps = vec![Step::Nop, send("Subject: [$0]\n"), response(200, false)];
    let test = ScriptAction::Test(TRUTH, COUNT, Comparison::Less, Operand::Number(4.0));
    let add = ScriptAction::Calculate(COUNT, Operator::Add, Operand::Number(1.0));
    let scripts = vec![
        actions(vec![ScriptAction::Number(COUNT, 1.0)]),
        actions(vec![]),
        Script { actions: vec![add, test], ..jump(1, Some(TRUTH)) },
    ];
    let scenario = Scenario::scripted(steps, scripts).unwrap();
    assert!(scenario.is_caller());
    let played = play(scenario, users(), "SIP/2.0 200 OK");
    assert_eq!(played.outcomes, [Outcome::Success; 4]);
    let subjects = |value: &str| played.requests.iter().filter(|request| request.contains(value)).count();
    assert_eq!(
        (played.requests.len(), subjects("Subject: 1.000000"), subjects("Subject: 3.000000")),
        (12, 4, 4)
    );
}

#[test]
fn a_found_text_is_in_the_next_message_and_in_the_log() {
    let steps = vec![send(""), response(200, false), send("Subject: [$2] [$1]\n"), response(200, false)];
    let log = ScriptAction::Log(Text::parse("[user]: [$2] at [media_port+2], [last_CSeq:]").unwrap());
    let warning = ScriptAction::Warning(Text::parse("x").unwrap());
    let scripts = vec![Script::default(), actions(vec![search(Check::Match), log, warning])];
    let scenario = Scenario::scripted(steps, scripts).unwrap();
    let played = play(scenario, users(), "SIP/2.0 200 OK\r\nExpires: 77");
    assert_eq!(played.outcomes, [Outcome::Success; 4]);
    assert!(played.requests[1].contains("\r\nSubject: 77 \r\n"), "{}", played.requests[1]);
    assert_eq!(played.logs[0], (1, false, "u00: 77 at 4002, CSeq: 1 OPTIONS".into()));
    assert_eq!((played.logs.len(), played.logs[1].1, played.logs[1].2.as_str()), (8, true, "x"));
}

#[test]
fn a_search_that_must_match_ends_the_attempt_without_a_match() {
    for (check, outcome) in [
        (Check::Match, Outcome::NoMatch),
        (Check::NoMatch, Outcome::Success),
        (Check::None, Outcome::Success),
    ] {
        let scripts = vec![Script::default(), actions(vec![search(check)])];
        let scenario = Scenario::scripted(vec![send(""), response(200, false)], scripts).unwrap();
        assert_eq!(play(scenario, users(), "SIP/2.0 200 OK").outcomes, [outcome; 4]);
    }
}

#[test]
fn an_optional_response_branches_and_a_condition_passes_a_step_over() {
    let steps =
        vec![send(""), response(404, true), response(200, false), send("Subject: never\n"), Step::Nop];
    let mut scripts = vec![Script::default(), jump(4, None), Script::default(), Script::default()];
    scripts[3].condition = Some((TRUTH, true));
    let logged = ScriptAction::Log(Text::parse("end").unwrap());
    scripts.push(actions(vec![logged]));
    for answer in ["SIP/2.0 404 Not Found", "SIP/2.0 200 OK"] {
        let scenario = Scenario::scripted(steps.clone(), scripts.clone()).unwrap();
        let played = play(scenario, users(), answer);
        assert_eq!((played.outcomes, played.logs.len()), (vec![Outcome::Success; 4], 4), "{answer}");
        assert_eq!(played.requests.len(), 4);
    }
}

#[test]
fn a_random_jump_is_done_as_often_as_it_says() {
    let steps = vec![send(""), response(200, false), Step::Nop, Step::Nop];
    let logged = ScriptAction::Log(Text::parse("passed").unwrap());
    for (random_ppm, passed) in [(0, 4), (Jump::ALWAYS_PPM, 0)] {
        let next = Some(Jump { to: 3, test: None, random_ppm });
        let scripts =
            vec![Script::default(), Script { next, ..Script::default() }, actions(vec![logged.clone()])];
        let played = play(Scenario::scripted(steps.clone(), scripts).unwrap(), users(), "SIP/2.0 200 OK");
        assert_eq!((played.outcomes, played.logs.len()), (vec![Outcome::Success; 4], passed));
    }
}

#[test]
fn a_loop_without_a_wait_is_refused_or_ends_the_attempt() {
    let steps = vec![send(""), response(200, false), Step::Nop, Step::Nop];
    let endless = vec![Script::default(), Script::default(), Script::default(), jump(2, None)];
    let error = Scenario::scripted(steps.clone(), endless).unwrap_err();
    assert_eq!(error, ScenarioError::Endless(3));
    // Depends on a variable: seen only when an attempt runs.
    let tested = vec![
        Script::default(),
        Script::default(),
        actions(vec![ScriptAction::Number(COUNT, 1.0)]),
        jump(2, Some(COUNT)),
    ];
    let scenario = Scenario::scripted(steps.clone(), tested).unwrap();
    assert_eq!(play(scenario, users(), "SIP/2.0 200 OK").outcomes, [Outcome::EndlessLoop; 4]);
    // A pause of no length is one of a millisecond.
    let steps = [steps, vec![Step::Pause(Length::Fixed(Duration::ZERO))]].concat();
    let add = ScriptAction::Calculate(COUNT, Operator::Add, Operand::Number(1.0));
    let test = ScriptAction::Test(TRUTH, COUNT, Comparison::Less, Operand::Number(1500.0));
    let mut waiting = vec![Script::default(); 5];
    waiting[2].actions = vec![add, test];
    waiting[4] = jump(2, Some(TRUTH));
    let scenario = Scenario::scripted(steps, waiting).unwrap();
    assert_eq!(play(scenario, users(), "SIP/2.0 200 OK").outcomes, [Outcome::Success; 4]);
}

#[test]
fn a_text_that_grows_without_end_ends_the_attempt() {
    let double = || ScriptAction::Text(FOUND, Text::parse("[$2][$2]x").unwrap());
    let scripts = vec![actions((0..30).map(|_| double()).collect())];
    let scenario = Scenario::scripted(vec![send(""), response(200, false)], scripts).unwrap();
    assert_eq!(play(scenario, users(), "SIP/2.0 200 OK").outcomes, [Outcome::TooLong; 4]);
}

#[test]
fn scripts_beyond_the_limits_are_refused() {
    let steps = || vec![send(""), response(200, false)];
    let error = |script| Scenario::scripted(steps(), vec![Script::default(), script]).unwrap_err();
    let number = |index| ScriptAction::Number(Variable(index), 1.0);
    assert_eq!(error(jump(3, None)), ScenarioError::Jump(2));
    assert_eq!(error(actions(vec![number(Scenario::VARIABLES_MAX)])), ScenarioError::TooManyActions(2));
    assert_eq!(error(actions(vec![number(0); Scenario::ACTIONS_MAX + 1])), ScenarioError::TooManyActions(2));
    let last = actions(vec![number(Scenario::VARIABLES_MAX - 1); Scenario::ACTIONS_MAX]);
    assert!(Scenario::scripted(steps(), vec![last, jump(2, None)]).is_ok());
}

#[test]
fn attempts_take_the_lines_of_their_lists() {
    use crate::{FieldList, FieldOrder};
    let list = |order| {
        FieldList::new("a;1\nb;2\nc;3\nd;4".into(), vec![(0, 3), (4, 7), (8, 11), (12, 15)], order, None)
            .unwrap()
    };
    let scenario = || {
        Scenario::new(vec![send("Subject: [field 0 1] [field 1 0] [field 1 1]\n"), response(200, false)])
            .unwrap()
    };
    let subjects = |users| {
        let played = play(scenario(), users, "SIP/2.0 200 OK");
        let subject = |request: &String| {
            request.split("Subject: ").nth(1).unwrap().split('\r').next().unwrap().to_owned()
        };
        played.requests.iter().map(subject).collect::<Vec<_>>()
    };
    let lists = |order| vec![list(FieldOrder::Sequential), list(order)];
    assert_eq!(subjects(users().with_lists(lists(FieldOrder::User))), ["1 a 1", "2 b 2", "3 c 3", "4 d 4"]);
    let drawn = subjects(users().with_lists(lists(FieldOrder::Random)));
    let is_one_line = |subject: &String| ["a 1", "b 2", "c 3", "d 4"].contains(&&subject[2..]);
    assert!(drawn.iter().all(is_one_line), "{drawn:?}");
    // The part of a thread has the lines of its users.
    let part = users().with_lists(lists(FieldOrder::User)).part(1, 2).unwrap();
    assert_eq!(subjects(part)[..2], ["3 c 3", "4 d 4"]);
}

/// Request of a call; the peer answers with the body of the INVITE.
fn request(line: &str, body: &str) -> Step {
    let method = line.split(' ').next().unwrap();
    let text = [
        line,
        " sip:x SIP/2.0\nVia: SIP/2.0/UDP [local_ip]:[local_port];branch=[branch]\nFrom: <sip:[user]@x>;tag=1\n\
         To: <sip:x>;tag=2\nCall-ID: [call_id]\nCSeq: [cseq] ",
        method,
        "\nContact: <sip:u@127.0.0.1:5060>\nContent-Length: [len]\n\n",
        body,
    ]
    .concat();
    Step::Send(Send { template: Template::parse(&text).unwrap() })
}

/// Attempts that play a recording in the given steps, without streams of their own.
fn play_recording(sdp: &str, plays: &[usize]) -> Vec<(Instant, MediaEvent)> {
    let mut recording = Recording::default();
    recording.push(Duration::ZERO, 0, b"x").unwrap();
    let recording = Arc::new(recording);
    let steps = vec![
        request("INVITE", sdp),
        response(100, true),
        response(200, false),
        request("ACK", ""),
        Step::Nop,
        Step::Pause(Length::Fixed(Duration::from_secs(1))),
        request("BYE", ""),
        response(200, false),
    ];
    let of_step = |step| match plays.contains(&step) {
        true => actions(vec![ScriptAction::Play(Arc::clone(&recording))]),
        false => Script::default(),
    };
    let scripts = (0..steps.len()).map(of_step).collect();
    let scenario = Scenario::scripted(steps, scripts).unwrap();
    assert!(scenario.plays() != plays.is_empty());
    let played = play(scenario, users(), "SIP/2.0 200 OK");
    assert_eq!(played.outcomes, [Outcome::Success; 4]);
    played.media
}

#[test]
fn a_recording_is_played_to_the_address_of_the_answer_until_the_end_of_the_call() {
    let sdp = "v=0\no=- 1 1 IN IP4 127.0.0.1\ns=-\nc=IN IP4 127.0.0.7\nt=0 0\nm=audio 4400 RTP/AVP 18\n";
    // In the 2xx, and after the ACK; the codec is that of the file.
    for step in [2, 4] {
        let media = play_recording(sdp, &[step]);
        assert_eq!(media.len(), 8, "{media:?}");
        let (MediaEvent::Play(play), ended) = (&media[0].1, &media[1]) else { panic!("{media:?}") };
        let MediaPlay { call, remote, recording } = &**play;
        assert_eq!((*call, *remote, recording.len()), (1, ([127, 0, 0, 7], 4400).into(), 1));
        assert!(media.contains(&(media[0].0 + Duration::from_secs(1), MediaEvent::Ended(1))), "{ended:?}");
    }
    // Without a step that plays there are no media.
    assert!(play_recording(sdp, &[]).is_empty());
    // After the end nothing is played.
    let plays = |media: &[(Instant, MediaEvent)]| {
        media.iter().filter(|(_, event)| matches!(event, MediaEvent::Play(_))).count()
    };
    assert_eq!(plays(&play_recording(sdp, &[4, 7])), 4);
}

#[test]
fn a_recording_without_an_address_of_the_peer_is_refused_with_its_reason() {
    let refusals = |sdp: &str, step: usize| {
        let media = play_recording(sdp, &[step]);
        assert!(!media.iter().any(|(_, event)| matches!(event, MediaEvent::Play(_))), "{media:?}");
        media[0].1.clone()
    };
    let early = MediaEvent::Refused(MediaRefusal::Early);
    assert_eq!(refusals("v=0\n", 0), early);
    assert_eq!(refusals("", 4), MediaEvent::Refused(MediaRefusal::Malformed));
    let no_audio = "v=0\no=- 1 1 IN IP4 127.0.0.1\ns=-\nc=IN IP4 127.0.0.7\nt=0 0\nm=audio 0 RTP/AVP 0\n";
    assert_eq!(refusals(no_audio, 4), MediaEvent::Refused(MediaRefusal::NoAudio));
}
