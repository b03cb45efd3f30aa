//! Tests of the four state machines against the figures, cell by cell.
//!
//! Tested: every event in every state over both kinds of transport, as tables that can be compared with RFC 3261 figures
//! 6 and 8 and RFC 6026 figures 5 and 7 (which replace those of RFC 3261). Not tested: intervals and messages; the
//! layer's tests do that.
//!
//! Format of a table: a row is an event, a column a state. A cell has the effects, in order, and `> State` if the state
//! changes; `.` is no effect. A row for one kind of transport ends in `/udp` or `/tcp`, one without is for both. A row
//! may have several events. Effects: `send`, `ack`, `up` (to the user), `timeout` and `error` (reported), `+A` (timer A
//! starts), `*A` (timer A starts again with its next interval), `-retransmission` and `-wait` (timers stop).

use ringway_transaction::state::{
    Class, ClientEvent, Effect, ServerEvent, Step, Timer, invite_client, invite_server, non_invite_client,
    non_invite_server,
};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// RFC 6026 figure 5, RFC 3261 §17.1.1.2. Timer D is zero over a reliable transport, so `Completed` is skipped there; its
/// cells are those of the figure nevertheless.
const INVITE_CLIENT: &str = "
           | Calling                                  | Proceeding                               | Completed          | Accepted       | Terminated
1xx        | -retransmission -wait up > Proceeding    | up                                       | .                  | .              | .
2xx        | -retransmission +M up > Accepted         | -retransmission +M up > Accepted         | .                  | up             | .
3xx-6xx/udp| -retransmission ack +D up > Completed    | -retransmission ack +D up > Completed    | ack                | .              | .
3xx-6xx/tcp| ack up > Terminated                      | ack up > Terminated                      | ack                | .              | .
A          | send *A                                  | .                                        | .                  | .              | .
B          | timeout > Terminated                     | .                                        | .                  | .              | .
D          | .                                        | .                                        | > Terminated       | .              | .
M          | .                                        | .                                        | .                  | > Terminated   | .
E F G H    | .                                        | .                                        | .                  | .              | .
I J K L    | .                                        | .                                        | .                  | .              | .
broken     | error > Terminated                       | .                                        | error > Terminated | .              | .
";

/// RFC 3261 figure 6, §17.1.2.2.
const NON_INVITE_CLIENT: &str = "
           | Trying                              | Proceeding                          | Completed    | Terminated
1xx        | up > Proceeding                     | up                                  | .            | .
2xx/udp    | -retransmission +K up > Completed   | -retransmission +K up > Completed   | .            | .
2xx/tcp    | up > Terminated                     | up > Terminated                     | .            | .
3xx-6xx/udp| -retransmission +K up > Completed   | -retransmission +K up > Completed   | .            | .
3xx-6xx/tcp| up > Terminated                     | up > Terminated                     | .            | .
E          | send *E                             | send *E                             | .            | .
F          | timeout > Terminated                | timeout > Terminated                | .            | .
K          | .                                   | .                                   | > Terminated | .
A B D G H  | .                                   | .                                   | .            | .
I J L M    | .                                   | .                                   | .            | .
broken     | error > Terminated                  | error > Terminated                  | .            | .
";

/// RFC 6026 figure 7, RFC 3261 §17.2.1. There is no row for transport errors: the layer sends the response to the fallback
/// address instead, and the state stays (RFC 6026 §7.1), so that a retransmitted INVITE does not become a second call.
const INVITE_SERVER: &str = "
           | Proceeding                | Completed                       | Confirmed    | Accepted     | Terminated
request    | send                      | send                            | .            | .            | .
ack/udp    | .                         | -retransmission +I > Confirmed  | .            | up           | .
ack/tcp    | .                         | > Terminated                    | .            | up           | .
1xx        | send                      | .                               | .            | .            | .
2xx        | send +L > Accepted        | .                               | .            | send         | .
3xx-6xx/udp| send +G +H > Completed    | .                               | .            | .            | .
3xx-6xx/tcp| send +H > Completed       | .                               | .            | .            | .
G          | .                         | send *G                         | .            | .            | .
H          | .                         | timeout > Terminated            | .            | .            | .
I          | .                         | .                               | > Terminated | .            | .
L          | .                         | .                               | .            | > Terminated | .
A B D E F  | .                         | .                               | .            | .            | .
J K M      | .                         | .                               | .            | .            | .
";

/// RFC 3261 figure 8, §17.2.2; transport errors as above.
const NON_INVITE_SERVER: &str = "
           | Trying                | Proceeding            | Completed          | Terminated
request    | .                     | send                  | send               | .
ack        | .                     | .                     | .                  | .
1xx        | send > Proceeding     | send                  | .                  | .
2xx/udp    | send +J > Completed   | send +J > Completed   | .                  | .
2xx/tcp    | send > Terminated     | send > Terminated     | .                  | .
3xx-6xx/udp| send +J > Completed   | send +J > Completed   | .                  | .
3xx-6xx/tcp| send > Terminated     | send > Terminated     | .                  | .
J          | .                     | .                     | > Terminated       | .
A B D E F  | .                     | .                     | .                  | .
G H I K L M| .                     | .                     | .                  | .
";

#[test]
fn invite_client_is_figure_5() {
    use invite_client::{State, on};
    let states = [State::Calling, State::Proceeding, State::Completed, State::Accepted, State::Terminated];
    let mut events = events(ClientEvent::Response, ClientEvent::Timer);
    events.push(("broken", ClientEvent::TransportError));
    check(INVITE_CLIENT, &states, &events, on);
}

#[test]
fn non_invite_client_is_figure_6() {
    use non_invite_client::{State, on};
    let states = [State::Trying, State::Proceeding, State::Completed, State::Terminated];
    let mut events = events(ClientEvent::Response, ClientEvent::Timer);
    events.push(("broken", ClientEvent::TransportError));
    check(NON_INVITE_CLIENT, &states, &events, on);
}

#[test]
fn invite_server_is_figure_7() {
    use invite_server::{State, on};
    let states = [State::Proceeding, State::Completed, State::Confirmed, State::Accepted, State::Terminated];
    let events = server_events();
    check(INVITE_SERVER, &states, &events, on);
}

#[test]
fn non_invite_server_is_figure_8() {
    use non_invite_server::{State, on};
    let states = [State::Trying, State::Proceeding, State::Completed, State::Terminated];
    let events = server_events();
    check(NON_INVITE_SERVER, &states, &events, on);
}

#[test]
fn clients_start_by_sending_and_retransmit_over_datagrams_only() {
    let words = |effects: &[Effect]| effects.iter().copied().map(word).collect::<Vec<_>>().join(" ");
    let (udp, tcp) = (invite_client::start(false), invite_client::start(true));
    assert_eq!((udp.state, words(udp.effects)), (invite_client::State::Calling, "send +A +B".into()));
    assert_eq!((tcp.state, words(tcp.effects)), (invite_client::State::Calling, "send +B".into()));
    let (udp, tcp) = (non_invite_client::start(false), non_invite_client::start(true));
    assert_eq!((udp.state, words(udp.effects)), (non_invite_client::State::Trying, "send +E +F".into()));
    assert_eq!((tcp.state, words(tcp.effects)), (non_invite_client::State::Trying, "send +F".into()));
}

#[test]
fn a_status_code_has_the_class_of_its_hundreds() {
    for status in 100..700 {
        let expected = match status / 100 {
            1 => Class::Provisional,
            2 => Class::Success,
            _ => Class::Failure,
        };
        assert_eq!(Class::of(status), expected, "{status}");
    }
}

/// Compares a machine with its table: each cell must have the machine's effects, and no cell may be missing or
/// duplicated.
fn check<S, E>(table: &str, states: &[S], events: &[(&str, E)], on: impl Fn(S, E, bool) -> Step<S>)
where
    S: Copy + Debug + PartialEq,
    E: Copy + Debug,
{
    let cells = read(table);
    let mut used = 0;
    for &state in states {
        for &(name, event) in events {
            for reliable in [false, true] {
                let key = (name.to_string(), format!("{state:?}"), reliable);
                let expected = cells.get(&key).unwrap_or_else(|| panic!("the table has no cell {key:?}"));
                let step = on(state, event, reliable);
                let mut done: Vec<String> = step.effects.iter().copied().map(word).collect();
                if step.state != state {
                    done.push(format!("> {:?}", step.state));
                }
                assert_eq!(&done.join(" "), expected, "{state:?}, {name}, reliable: {reliable}");
                used += 1;
            }
        }
    }
    assert_eq!(used, cells.len(), "the table has cells for states or events that do not exist");
}

/// (event, state, reliable) of each cell, and its effects.
fn read(table: &str) -> BTreeMap<(String, String, bool), String> {
    let mut lines = table.lines().filter(|line| !line.trim().is_empty());
    let header = lines.next().expect("a table has a header");
    let states: Vec<&str> = header.split('|').skip(1).map(str::trim).collect();
    let mut cells = BTreeMap::new();
    for line in lines {
        let mut columns = line.split('|').map(str::trim);
        let names = columns.next().expect("split gives one at least");
        let (names, transports) = match names.split_once('/') {
            Some((names, "udp")) => (names, &[false][..]),
            Some((names, "tcp")) => (names, &[true][..]),
            Some((_, other)) => panic!("no transport: {other}"),
            None => (names, &[false, true][..]),
        };
        let columns: Vec<&str> = columns.collect();
        assert_eq!(columns.len(), states.len(), "cells in {line}");
        for name in names.split_whitespace() {
            for (state, cell) in states.iter().zip(&columns) {
                for &reliable in transports {
                    let cell = if *cell == "." { "" } else { cell };
                    let key = (name.to_string(), (*state).to_string(), reliable);
                    assert!(cells.insert(key, cell.to_string()).is_none(), "{name}, {state} twice");
                }
            }
        }
    }
    cells
}

fn server_events() -> Vec<(&'static str, ServerEvent)> {
    let mut events = events(ServerEvent::Respond, ServerEvent::Timer);
    events.extend([("request", ServerEvent::Request), ("ack", ServerEvent::Ack)]);
    events
}

/// Events of all machines, with their names in the tables.
fn events<E>(class: fn(Class) -> E, timer: fn(Timer) -> E) -> Vec<(&'static str, E)> {
    let classes = [("1xx", Class::Provisional), ("2xx", Class::Success), ("3xx-6xx", Class::Failure)];
    let mut events: Vec<(&'static str, E)> = classes.map(|(name, of)| (name, class(of))).into();
    events.extend(TIMERS.map(|(name, of)| (name, timer(of))));
    events
}

fn word(effect: Effect) -> String {
    match effect {
        Effect::Send => "send".into(),
        Effect::SendAck => "ack".into(),
        Effect::PassUp => "up".into(),
        Effect::ReportTimeout => "timeout".into(),
        Effect::ReportTransportError => "error".into(),
        Effect::Start(timer) => format!("+{timer:?}"),
        Effect::Repeat(timer) => format!("*{timer:?}"),
        Effect::StopRetransmitting => "-retransmission".into(),
        Effect::StopWaiting => "-wait".into(),
    }
}

const TIMERS: [(&str, Timer); 12] = [
    ("A", Timer::A),
    ("B", Timer::B),
    ("D", Timer::D),
    ("E", Timer::E),
    ("F", Timer::F),
    ("G", Timer::G),
    ("H", Timer::H),
    ("I", Timer::I),
    ("J", Timer::J),
    ("K", Timer::K),
    ("L", Timer::L),
    ("M", Timer::M),
];
