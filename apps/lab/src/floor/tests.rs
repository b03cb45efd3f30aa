//! The floors with the benchmark's operations in a closed loop.

use super::*;
use crate::load::{Files, Flow, Plan, Session, Side, Transport, Users, Window};
use crate::operation::{Operation, called};
use crate::registering::Registering;
use std::thread;
use std::time::Duration;

/// Registered phones of 20 users.
fn session(target: SocketAddr, transport: Transport) -> Session {
    let users = || Users::by_rule("u", 7, 0, 20, "secret").unwrap();
    let caller = Operation::Call.scenario().unwrap().as_ref().clone();
    let files = Files::new("test".to_owned(), caller, Some(called().unwrap())).unwrap();
    let files = files.with_registration(Operation::Refresh.scenario().unwrap());
    let plan = Plan {
        transport,
        sockets: if transport == Transport::Tcp { 4 } else { 1 },
        files: Some(files),
        is_outbound_proxy: true,
        domain: "example.org".to_owned(),
        register_window: Some(8),
        ..Plan::new(target, Flow::Call, users(), users())
    };
    Session::open(&plan).unwrap().napping()
}

/// Runs `count` operations, which all succeed.
fn play(session: Session, operation: Operation, count: u64) -> Session {
    let side = if operation.is_register() { Side::Called } else { Side::Callers };
    let window = Window { size: 8, length: Duration::from_secs(60), attempts: count };
    let run = session.start_window(side, &operation.scenario().unwrap(), window).unwrap();
    let (statistics, session) = run.finish_session().unwrap();
    assert_eq!((statistics.successes(), statistics.ended()), (count, count), "{:?}", statistics.outcomes());
    session
}

fn at_socket(mut receive: impl FnMut(&[u8], SocketAddrV4, &mut Outbound) + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let target = socket.local_addr().unwrap();
    thread::spawn(move || answer_datagrams(&socket, &mut receive));
    target
}

#[test]
fn registrations_and_unknown_users_are_answered() {
    let session = session(at_socket(answer), Transport::Udp);
    let session = play(session, Operation::Refresh, 50);
    let session = play(session, Operation::NotFound, 30);
    play(session, Operation::Refresh, 30);
}

#[test]
fn calls_and_registrations_of_the_called_users_share_a_session() {
    for is_stateful in [true, false] {
        let mut relay = Relay::new(is_stateful);
        let target = at_socket(move |bytes, sender, out| relay.receive(bytes, sender, out));
        let session = play(session(target, Transport::Udp), Operation::Call, 30);
        let session = play(session, Operation::Refresh, 50);
        play(session, Operation::Call, 30);
    }
}

#[test]
fn registrations_over_tcp_are_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    thread::spawn(move || answer_streams(&listener));
    play(session(target, Transport::Tcp), Operation::Refresh, 100);
}

#[test]
fn a_window_has_at_most_as_many_attempts_as_there_are_users() {
    let session = session(at_socket(answer), Transport::Udp);
    let window = Window { size: 21, length: Duration::from_secs(1), attempts: 50 };
    let scenario = Operation::Refresh.scenario().unwrap();
    let error = session.start_window(Side::Called, &scenario, window).unwrap_err();
    assert!(error.to_string().contains("21 open attempts need as many users"), "{error}");
}

#[test]
fn a_challenge_that_does_not_come_is_an_error() {
    let session = session(at_socket(answer), Transport::Udp);
    let window = Window { size: 4, length: Duration::from_secs(60), attempts: 10 };
    let scenario = Operation::RefreshChallenged.scenario().unwrap();
    let (statistics, _) =
        session.start_window(Side::Called, &scenario, window).unwrap().finish_session().unwrap();
    assert_eq!(statistics.failures().collect::<Vec<_>>(), [("200", 10)]);
}

#[test]
fn phones_without_calls_register_again_and_again() {
    let port = at_socket(answer).port();
    let mut phones = Registering::at(port, 20).unwrap();
    phones.run(50, 4, false).unwrap();
    phones.run(20, 1, false).unwrap();
    let error = phones.run(20, 4, true).unwrap_err().to_string();
    assert!(error.starts_with("0 of 20 REGISTERs succeeded"), "{error}");
}
