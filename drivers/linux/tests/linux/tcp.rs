//! Streams of the driver. Tested: framing of any split, pipelining, keep-alives, framing errors, every limit with its
//! counter, events, dialling, reuse and failure to dial, sending to connections of another worker, the last response
//! before the end, bytes of a layer. Not tested: the limit of open files.

use crate::node::{PATIENCE, Talker, address, events, start};
use ringway_linux::{BoxedLayer, Config, Layers, MessageBytesMax, Resume, Runtime, StreamLimits};
use ringway_sansio::{ConnectionId, Event, Flow, Token};
use ringway_stream::{Decoded, Encoded, Layer, LayerError, Origin};
use ringway_test_support::eventually::wait_until;
use socket2::{Domain, Socket, Type};
use std::collections::HashSet;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Client that exchanges lines, with timeouts.
struct Client {
    lines: BufReader<TcpStream>,
}

impl Client {
    fn connect(to: SocketAddr) -> Self {
        Self::of(TcpStream::connect(to).unwrap())
    }

    fn connect_from(ip: [u8; 4], to: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        Self::of(socket.into())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { lines: BufReader::new(stream) }
    }

    fn write(&mut self, text: &str) {
        self.lines.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line in time");
        line
    }

    fn ask(&mut self, text: &str) -> String {
        self.write(text);
        self.read_line()
    }

    /// Number of its connection in the driver.
    fn id(&mut self) -> u64 {
        self.ask("0 who\n").trim().parse().unwrap()
    }

    /// Waits for the end of the connection.
    fn ends(&mut self) -> bool {
        match self.lines.read_to_end(&mut Vec::new()) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

fn tcp(workers: usize, config: Config) -> (Runtime<Talker>, SocketAddr) {
    let runtime = start(&["tcp:127.0.0.1:0"], workers, 4, config);
    let server = address(&runtime, 0);
    (runtime, server)
}

/// Clients of a server with two workers, at least `count` and as many more as are needed until each worker has one,
/// because the kernel distributes connections at random. Each client comes with the number of its connection.
fn of_both_workers(server: SocketAddr, count: usize) -> Vec<(u64, Client)> {
    let mut clients: Vec<(u64, Client)> = Vec::new();
    while clients.len() < count || clients.iter().all(|(id, _)| id >> 56 == clients[0].0 >> 56) {
        assert!(clients.len() < 100, "one worker has all connections");
        let mut client = Client::connect(server);
        clients.push((client.id(), client));
    }
    clients
}

/// Socket bound to a port of its own that does not listen.
fn bound() -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    socket
}

fn limits(streams: StreamLimits) -> Config {
    Config { streams, ..Config::default() }
}

#[test]
fn any_split_gives_the_same_messages() {
    let (runtime, server) = tcp(1, Config::default());
    let text = "1 echo first\n2 echo second\n3 echo third\n";
    for size in [1, 2, 7, 13, text.len()] {
        let mut client = Client::connect(server);
        for part in text.as_bytes().chunks(size) {
            client.lines.get_mut().write_all(part).unwrap();
        }
        assert_eq!(client.read_line() + &client.read_line() + &client.read_line(), text);
    }
    wait_until("the counts", || runtime.counts().stream_messages_in == 15);
}

#[test]
fn each_stream_has_the_limit_of_its_flow() {
    let limit = |long: [u8; 4]| -> MessageBytesMax {
        Arc::new(move |flow| if flow.remote.ip() == IpAddr::from(long) { 4000 } else { 100 })
    };
    let (one, other) = ([127, 0, 0, 2], [127, 0, 0, 3]);
    let config = Config { message_bytes_max: limit(one), ..Config::default() };
    let (runtime, server) = tcp(1, config);
    let opened = |from| {
        let mut client = Client::connect_from(from, server);
        client.id();
        client
    };
    let begin = |client: &mut Client| client.write(&format!("1 echo {}", "x".repeat(1000)));
    let ends = |mut client: Client| {
        begin(&mut client);
        client.ends()
    };
    let answers = |mut client: Client| {
        begin(&mut client);
        client.ask("\n").ends_with("x\n")
    };
    assert!(ends(opened(other)));
    let kept = opened(one);
    runtime.set_message_bytes_max(limit(other));
    assert!(ends(opened(one)) && answers(opened(other)));
    assert!(answers(kept), "an open stream keeps its limit");
    assert_eq!(runtime.counts().framing_errors, 2);
}

#[test]
fn pipelined_messages_are_answered_in_order() {
    let (_runtime, server) = tcp(2, Config::default());
    let mut client = Client::connect(server);
    let text: String = (0..3000).map(|number| format!("{number} echo\n")).collect();
    let mut writer = client.lines.get_ref().try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(text.as_bytes()).unwrap());
    for number in 0..3000 {
        assert_eq!(client.read_line(), format!("{number} echo\n"));
    }
    writing.join().unwrap();
}

#[test]
fn a_keep_alive_is_answered() {
    let (runtime, server) = tcp(1, Config::default());
    let mut client = Client::connect(server);
    assert_eq!(client.ask("?\n"), "!\n");
    assert_eq!(client.ask("?\n?\n"), "!\n");
    assert_eq!(client.read_line(), "!\n");
    assert_eq!(runtime.counts().keep_alives, 3);
}

#[test]
fn invalid_bytes_close_the_connection_and_every_shard_is_notified() {
    let (runtime, server) = tcp(2, Config::default());
    let mut client = Client::connect(server);
    let id = client.id();
    assert_eq!(client.ask("1 echo\n#\n2 echo\n"), "1 echo\n");
    assert!(client.ends(), "what follows the error is not looked at");
    for shard in 0..4 {
        wait_until("the event", || events(&runtime, shard) == [Event::Closed(ConnectionId(id))]);
    }
    assert_eq!(runtime.counts().framing_errors, 1);
    wait_until("it is gone", || runtime.counts().connections_open == 0);
}

#[test]
fn open_connections_are_listed() {
    let (runtime, server) = tcp(2, Config::default());
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = peer.local_addr().unwrap();
    let mut client = Client::connect(server);
    client.write(&format!("1 dial {to} 7 hello\n"));
    let mut dialled = Client::of(peer.accept().unwrap().0);
    assert_eq!(dialled.read_line(), "hello\n");
    let (accepted_id, dialled_id) = (client.id(), dialled.id());
    let mut listed = runtime.connections().page(None, 10);
    listed.sort_by_key(|connection| connection.id.0 == dialled_id);
    let of = |stream: &TcpStream| (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
    let seen: Vec<_> = listed.iter().map(|one| (one.id.0, (one.local, one.remote))).collect();
    let expected = [(accepted_id, of(client.lines.get_ref())), (dialled_id, of(dialled.lines.get_ref()))];
    assert_eq!(seen, expected);
    drop((client, dialled));
    wait_until("they are gone", || runtime.connections().page(None, 10).is_empty());
}

#[test]
fn connection_ids_are_never_reused() {
    let (runtime, server) = tcp(2, Config::default());
    let ids: HashSet<u64> = (0..100).map(|_| Client::connect(server).id()).collect();
    assert_eq!(ids.len(), 100);
    wait_until("all are gone", || runtime.counts().connections_open == 0);
}

#[test]
fn connection_ids_are_not_those_of_before_a_restart() {
    let ids = || {
        let (runtime, server) = tcp(1, Config::default());
        let open: Vec<_> = (0..3).map(|_| Client::connect(server)).collect();
        let ids: HashSet<u64> = open.into_iter().map(|mut client| client.id()).collect();
        wait_until("all are gone", || runtime.counts().connections_open == 0);
        ids
    };
    let earlier = ids();
    assert_eq!(earlier.len(), 3);
    assert!(earlier.is_disjoint(&ids()), "the numbers begin at random");
}

#[test]
fn the_last_response_is_sent_before_the_end() {
    let (_runtime, server) = tcp(1, Config::default());
    let mut client = Client::connect(server);
    client.write("1 echo last words\n");
    client.lines.get_ref().shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read_line(), "1 echo last words\n");
    assert!(client.ends());
}

#[test]
fn a_peer_that_has_ended_gets_pending_output() {
    let config = limits(StreamLimits { write_queue_bytes_max: 64 << 20, ..StreamLimits::default() });
    let (runtime, server) = tcp(1, config);
    let mut client = Client::connect(server);
    client.write("1 flood 2000 10000 7\n");
    wait_until("the kernel is full", || runtime.counts().unwritten_bytes > 0);
    client.lines.get_ref().shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    client.lines.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 2000 * 10_001);
    wait_until("it is gone", || runtime.counts().connections_open == 0);
    assert_eq!(runtime.counts().write_queue_closes, 0);
}

#[test]
fn a_peer_that_has_ended_and_does_not_read_times_out() {
    let config = limits(StreamLimits {
        write_queue_bytes_max: 64 << 20,
        linger: Duration::from_millis(300),
        ..StreamLimits::default()
    });
    let (runtime, server) = tcp(1, config);
    let mut client = Client::connect(server);
    client.write("1 flood 2000 10000 7\n");
    wait_until("the kernel is full", || runtime.counts().unwritten_bytes > 0);
    client.lines.get_ref().shutdown(Shutdown::Write).unwrap();
    wait_until("it is closed", || runtime.counts().write_queue_closes == 1);
}

#[test]
fn more_connections_than_allowed_are_closed_at_once() {
    let (runtime, server) = tcp(2, Config { max_connections: 3, ..Config::default() });
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(server)).collect();
    assert!(clients.iter_mut().all(|client| client.id() != 0));
    assert!(Client::connect(server).ends());
    assert_eq!(runtime.counts().connections_refused, 1);
    clients.pop();
    wait_until("one is gone", || runtime.counts().connections_open == 2);
    assert_ne!(Client::connect(server).id(), 0);
}

#[test]
fn an_unused_connection_of_the_fullest_source_gives_way() {
    let config = Config { max_connections: 5, max_connections_per_source: 4, ..Config::default() };
    let (runtime, server) = tcp(1, config);
    let from = |last: u8| Client::connect_from([127, 0, 0, last], server);
    let mut of_one: Vec<_> = (0..4).map(|_| from(2)).collect();
    let ids: Vec<_> = of_one.iter_mut().map(Client::id).collect();
    // The oldest one has a registration.
    assert_eq!(of_one[0].ask("0 keep\n"), "0 keep\n");
    let mut other = from(3);
    other.id();
    let mut late = from(4);
    assert!(!ids.contains(&late.id()));
    assert!(of_one[1].ends());
    assert_eq!(
        (of_one[0].id(), of_one[2].id(), other.ask("0 echo x\n")),
        (ids[0], ids[2], "0 echo x\n".into())
    );
    assert_eq!(runtime.counts().crowded_closes, 1);
    // One of the fullest source itself is refused.
    assert!(from(2).ends());
    assert_eq!((runtime.counts().crowded_closes, runtime.counts().connections_refused), (1, 1));
}

#[test]
fn the_next_fullest_source_gives_way_if_all_of_the_fullest_are_in_use() {
    let config = Config { max_connections: 7, max_connections_per_source: 4, ..Config::default() };
    let (runtime, server) = tcp(1, config);
    let from = |last: u8| Client::connect_from([127, 0, 0, last], server);
    let mut in_use: Vec<_> = (0..4).map(|_| from(2)).collect();
    for client in &mut in_use {
        assert_eq!(client.ask("0 keep\n"), "0 keep\n");
    }
    let mut of_next: Vec<_> = (0..2).map(|_| from(3)).collect();
    assert!(of_next.iter_mut().all(|client| client.id() != 0));
    let mut single = from(4);
    assert_ne!(single.id(), 0);
    let mut late = from(5);
    assert_ne!(late.id(), 0);
    assert!(of_next[0].ends(), "the oldest one of the next fullest");
    // Every other source has one connection now, or all of them in use.
    assert!(from(3).ends(), "none with an unused connection is fuller than its own source");
    assert_eq!(
        (of_next[1].ask("0 echo x\n"), single.ask("0 echo x\n")),
        ("0 echo x\n".into(), "0 echo x\n".into())
    );
    assert_eq!((runtime.counts().crowded_closes, runtime.counts().connections_refused), (1, 1));
}

#[test]
fn hanging_dials_of_a_sender_leave_room_for_others() {
    let (runtime, server) = tcp(1, Config::default());
    // A listener whose queue is full accepts nothing: connections to it hang. Each address of loopback is another destination.
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    full.bind(&"0.0.0.0:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    full.listen(0).unwrap();
    let port = full.local_addr().unwrap().as_socket().unwrap().port();
    let _queued = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut client = Client::connect(server);
    for number in 0..100 {
        client.write(&format!("0 charged 127.0.1.{number}:{port} 5 x\n"));
    }
    client.write(&format!("0 charged 127.0.2.1:{port} 6 x\n"));
    client.write(&format!("0 dial 127.0.2.2:{port} 8 x\n"));
    wait_until("the dials", || runtime.counts().connections_dialled >= 66);
    let counts = runtime.counts();
    assert_eq!((counts.connections_dialled, counts.dials_refused), (66, 36), "64 of sender 5");
}

#[test]
fn one_source_cannot_take_all_connections() {
    let (runtime, server) = tcp(2, Config { max_connections_per_source: 3, ..Config::default() });
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(server)).collect();
    assert!(clients.iter_mut().all(|client| client.id() != 0));
    assert!(Client::connect(server).ends());
    assert_ne!(Client::connect_from([127, 0, 0, 2], server).id(), 0, "another source");
    assert_eq!(runtime.counts().connections_over_source, 1);
    clients.pop();
    wait_until("one is gone", || runtime.counts().connections_open == 2);
    assert_ne!(Client::connect(server).id(), 0);
}

#[test]
fn keep_alives_alone_do_not_keep_a_connection_open() {
    let unused = Duration::from_millis(1500);
    let (runtime, server) = tcp(2, limits(StreamLimits { unused, ..StreamLimits::default() }));
    let mut used = Client::connect(server);
    let mut idle = Client::connect(server);
    assert_eq!(used.ask("1 keep\n"), "1 keep\n");
    assert_eq!(idle.ask("1 echo\n"), "1 echo\n");
    let mut writer = idle.lines.get_ref().try_clone().unwrap();
    std::thread::spawn(move || {
        for _ in 0..50 {
            if writer.write_all(b"?\n").is_err() {
                return;
            }
            std::thread::sleep(unused / 10);
        }
    });
    assert!(idle.ends());
    assert_eq!(runtime.counts().unused_closes, 1);
    std::thread::sleep(unused);
    assert_eq!(used.ask("1 echo\n"), "1 echo\n", "it is kept");
}

#[test]
fn slow_and_silent_peers_are_closed_without_effect_on_others() {
    let message = Duration::from_millis(500);
    let first_message = Duration::from_millis(2000);
    let (runtime, server) =
        tcp(1, limits(StreamLimits { message, first_message, ..StreamLimits::default() }));
    let mut slow = Client::connect(server);
    let mut silent = Client::connect(server);
    let mut honest = Client::connect(server);
    assert_eq!(honest.ask("1 echo\n"), "1 echo\n");
    let start = Instant::now();
    let mut writer = slow.lines.get_ref().try_clone().unwrap();
    std::thread::spawn(move || {
        // A byte now and then does not extend the deadline.
        while writer.write_all(b"1").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(slow.ends());
    assert!(start.elapsed() >= Duration::from_millis(450) && start.elapsed() < first_message);
    assert!(silent.ends());
    assert!(start.elapsed() < 2 * first_message);
    assert_eq!(honest.ask("1 echo\n"), "1 echo\n", "who has spoken may be silent for longer");
    assert_eq!(runtime.counts().slow_closes, 2);
}

#[test]
fn idle_connections_are_closed() {
    let idle = Duration::from_millis(1200);
    let (runtime, server) = tcp(1, limits(StreamLimits { idle, ..StreamLimits::default() }));
    let mut client = Client::connect(server);
    for _ in 0..4 {
        std::thread::sleep(idle / 3);
        assert_eq!(client.ask("1 echo\n"), "1 echo\n", "speaking keeps it open");
    }
    assert!(client.ends());
    assert_eq!(runtime.counts().idle_closes, 1);
}

#[test]
fn a_peer_that_does_not_read_is_closed_at_the_queue_limit() {
    let write_queue_bytes_max = 100_000;
    let (runtime, server) = tcp(1, limits(StreamLimits { write_queue_bytes_max, ..StreamLimits::default() }));
    let mut client = Client::connect(server);
    let id = client.id();
    for _ in 0..20 {
        // More than the kernel's buffers hold.
        if client.lines.get_mut().write_all(b"1 flood 100 10000 7\n").is_err() {
            break;
        }
    }
    wait_until("it is closed", || runtime.counts().write_queue_closes == 1);
    wait_until("its shard gets reports of unsent messages", || {
        let events = events(&runtime, 1);
        events.contains(&Event::Closed(ConnectionId(id)))
            && events.contains(&Event::Unreachable(Token(1 << 48 | 7)))
    });
    wait_until("its bytes are forgotten", || runtime.counts().unwritten_bytes == 0);
}

#[test]
fn a_peer_that_reads_slowly_gets_everything() {
    let config = limits(StreamLimits { write_queue_bytes_max: 64 << 20, ..StreamLimits::default() });
    let (runtime, server) = tcp(1, config);
    let mut client = Client::connect(server);
    client.write("1 flood 2000 10000 7\n");
    wait_until("the kernel is full", || runtime.counts().unwritten_bytes > 0);
    let mut room = vec![0; 1 << 20];
    let mut left = 2000 * 10_001;
    while left > 0 {
        left -= client.lines.read(&mut room).expect("more bytes");
    }
    assert_eq!(client.ask("1 echo\n"), "1 echo\n");
    wait_until("nothing waits", || runtime.counts().unwritten_bytes == 0);
    assert!(events(&runtime, 1).is_empty());
}

#[test]
fn a_peer_that_stops_reading_times_out() {
    let config = limits(StreamLimits {
        write_queue_bytes_max: 64 << 20,
        write_stall: Duration::from_millis(300),
        ..StreamLimits::default()
    });
    let (runtime, server) = tcp(1, config);
    let mut client = Client::connect(server);
    client.write("1 flood 2000 10000 7\n");
    wait_until("it is closed", || runtime.counts().write_queue_closes == 1);
}

#[test]
fn a_dialled_connection_is_reused_and_dialled_again_after_its_end() {
    let (runtime, server) = tcp(2, Config::default());
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = peer.local_addr().unwrap();
    let mut clients: Vec<_> = (0..6).map(|_| Client::connect(server)).collect();
    // The clients are spread over the workers; the dialled connection is the same for all.
    for client in &mut clients {
        client.write(&format!("1 dial {to} 7 hello\n"));
    }
    let mut accepted = Client::of(peer.accept().unwrap().0);
    assert!((0..6).all(|_| accepted.read_line() == "hello\n"));
    assert_eq!(runtime.counts().connections_dialled, 1);
    let id = accepted.id();
    assert_eq!(accepted.ask("2 echo back\n"), "2 echo back\n", "the dialled peer may ask too");

    drop(accepted);
    wait_until("the end", || events(&runtime, 1).contains(&Event::Closed(ConnectionId(id))));
    clients[0].write(&format!("1 dial {to} 7 again\n"));
    let mut accepted = Client::of(peer.accept().unwrap().0);
    assert_eq!(accepted.read_line(), "again\n");
    assert_ne!(accepted.id(), id);
    assert_eq!(runtime.counts().connections_dialled, 2);
    assert!(events(&runtime, 1).iter().all(|event| !matches!(event, Event::Unreachable(_))));
}

#[test]
fn each_number_has_a_connection_which_alone_is_closed_after_its_last_message() {
    let (runtime, server) = tcp(2, Config::default());
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = peer.local_addr().unwrap();
    let mut clients = of_both_workers(server, 2);
    let mut dialled = Vec::new();
    for number in 0..4 {
        // The first message dials, whichever worker sends it; the second uses the same connection.
        clients[0].1.write(&format!("1 numbered {to} {number} first-{number}\n"));
        let mut connection = Client::of(peer.accept().unwrap().0);
        assert_eq!(connection.read_line(), format!("first-{number}\n"));
        clients[1].1.write(&format!("1 numbered {to} {number} second-{number}\n"));
        assert_eq!(connection.read_line(), format!("second-{number}\n"));
        dialled.push(connection);
    }
    assert_eq!(runtime.counts().connections_dialled, 4);
    for (number, (_, client)) in (1..).zip(clients.iter_mut().take(2)) {
        client.write(&format!("1 disconnect {to} {number} last\n"));
        assert_eq!(dialled[number].read_line(), "last\n");
        assert!(dialled[number].ends());
    }
    for number in [0, 3] {
        clients[0].1.write(&format!("1 numbered {to} {number} still\n"));
        assert_eq!(dialled[number].read_line(), "still\n");
    }
    assert_eq!(runtime.counts().connections_dialled, 4);
}

#[test]
fn a_message_is_reported_if_its_connection_ends_without_input() {
    let (runtime, server) = tcp(1, Config::default());
    let peer = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = peer.local_addr().unwrap();
    let mut client = Client::connect(server);
    client.write(&format!("1 dial {to} 7 hello\n"));
    let mut accepted = Client::of(peer.accept().unwrap().0);
    assert_eq!(accepted.read_line(), "hello\n");
    drop(accepted);
    wait_until("the report", || events(&runtime, 1).contains(&Event::Unreachable(Token(1 << 48 | 7))));
}

#[test]
fn an_accepted_connection_is_not_used_for_its_address() {
    let (runtime, server) = tcp(1, Config::default());
    let mut accepted = Client::connect(server);
    let peer = accepted.lines.get_ref().local_addr().unwrap();
    let id = accepted.id();
    let mut client = Client::connect(server);
    client.write(&format!("1 dial {peer} 7 for a listener at this address\n"));
    wait_until("the dial fails", || events(&runtime, 1).contains(&Event::Unreachable(Token(1 << 48 | 7))));
    client.write(&format!("1 to {id} 8 for the connection\n"));
    assert_eq!(accepted.read_line(), "for the connection\n");
}

#[test]
fn a_connection_from_a_reused_address_gets_no_earlier_messages() {
    let (runtime, server) = tcp(1, Config::default());
    let (id, address, socket) = loop {
        let mut old = Client::connect(server);
        let (id, address) = (old.id(), old.lines.get_ref().local_addr().unwrap());
        // Closed by a reset, so that its address is free at once.
        socket2::SockRef::from(old.lines.get_ref()).set_linger(Some(Duration::ZERO)).unwrap();
        drop(old);
        wait_until("the end", || events(&runtime, 1).contains(&Event::Closed(ConnectionId(id))));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        // Another program may have got the address.
        if socket.bind(&address.into()).is_ok() {
            break (id, address, socket);
        }
    };
    socket.connect(&server.into()).unwrap();
    let mut stranger = Client::of(socket.into());
    assert_ne!(stranger.id(), id);
    let mut client = Client::connect(server);
    client.write(&format!("1 to {id} 7 for the connection\n1 dial {address} 8 for the address\n1 echo\n"));
    assert_eq!(client.read_line(), "1 echo\n");
    wait_until("both come back", || {
        let events = events(&runtime, 1);
        [7, 8].iter().all(|number| events.contains(&Event::Unreachable(Token(1 << 48 | number))))
    });
    assert_eq!(stranger.ask("1 echo alone\n"), "1 echo alone\n");
}

#[test]
fn a_failed_dial_is_reported_to_the_requesting_shard() {
    let connect = Duration::from_millis(300);
    let (runtime, server) = tcp(2, limits(StreamLimits { connect, ..StreamLimits::default() }));
    let mut client = Client::connect(server);
    // Bound, so that no other program gets the port, and not listening.
    let deaf = bound();
    let closed = deaf.local_addr().unwrap().as_socket().unwrap();
    client.write(&format!("2 dial {closed} 5 hello\n2 dial {closed} 0 hello\n"));
    wait_until("the refusal", || events(&runtime, 2) == [Event::Unreachable(Token(2 << 48 | 5))]);

    // A listener whose queue is full does not answer.
    let full = bound();
    full.listen(0).unwrap();
    let silent = full.local_addr().unwrap().as_socket().unwrap();
    let _queued = TcpStream::connect(silent).unwrap();
    let start = Instant::now();
    client.write(&format!("3 dial {silent} 6 hello\n"));
    wait_until("the time-out", || events(&runtime, 3) == [Event::Unreachable(Token(3 << 48 | 6))]);
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
    assert!(events(&runtime, 0).is_empty() && events(&runtime, 1).is_empty());
}

#[test]
fn a_dial_is_given_up_and_an_established_connection_is_not() {
    // Its own time limit is 4 s.
    let (runtime, server) = tcp(2, Config::default());
    let mut client = Client::connect(server);
    let full = bound();
    full.listen(0).unwrap();
    let silent = full.local_addr().unwrap().as_socket().unwrap();
    let _queued = TcpStream::connect(silent).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap();
    client.write(&format!("1 dial {silent} 6 hello\n2 dial {open} 7 hello\n3 dial {silent} 5 hello\n"));
    let (established, _) = listener.accept().unwrap();
    let mut established = Client::of(established);
    assert_eq!(established.read_line(), "hello\n");
    // The others wait on.
    client.write(&format!("1 give-up {silent} 6\n2 give-up {open} 7\n"));
    wait_until("the report", || events(&runtime, 1) == [Event::Unreachable(Token(1 << 48 | 6))]);
    let failures = || runtime.counters().by_worker().iter().map(|counts| counts.dial_failures).sum::<u64>();
    assert!(events(&runtime, 3).is_empty() && failures() == 0);
    client.write(&format!("3 give-up {silent} 5\n"));
    wait_until("the report", || events(&runtime, 3) == [Event::Unreachable(Token(3 << 48 | 5))]);
    assert_eq!(failures(), 1);
    client.write(&format!("2 dial {open} 8 again\n"));
    assert_eq!(established.read_line(), "again\n", "the same connection");
    assert!(events(&runtime, 2).is_empty());
}

#[test]
fn any_worker_reaches_any_connection() {
    let (runtime, server) = tcp(2, Config::default());
    let mut clients = of_both_workers(server, 12);
    let ids: Vec<_> = clients.iter().map(|(id, _)| *id).collect();
    for (from, (_, client)) in clients.iter_mut().enumerate() {
        for (to, id) in ids.iter().enumerate() {
            client.write(&format!("{to} to {id} 9 from{from}\n"));
        }
    }
    for (_, client) in &mut clients {
        let received: HashSet<_> = ids.iter().map(|_| client.read_line()).collect();
        assert_eq!(received.len(), ids.len(), "one of each");
    }
    assert!((0..4).all(|shard| events(&runtime, shard).is_empty()));
}

#[test]
fn messages_to_another_workers_connection_stay_in_order() {
    let (_runtime, server) = tcp(2, Config::default());
    let mut clients = of_both_workers(server, 2);
    let (target, mut receiver) = clients.remove(0);
    let (_, sender) = clients.iter_mut().find(|(id, _)| id >> 56 != target >> 56).unwrap();
    let text: String = (0..2000).map(|number| format!("1 to {target} 0 {number}\n")).collect();
    sender.write(&text);
    for number in 0..2000 {
        assert_eq!(receiver.read_line(), format!("{number}\n"));
    }
}

#[test]
fn a_closed_connection_is_unreachable() {
    let (runtime, server) = tcp(2, Config::default());
    let mut gone = Client::connect(server);
    let id = gone.id();
    drop(gone);
    wait_until("the end", || events(&runtime, 0).contains(&Event::Closed(ConnectionId(id))));
    let mut client = Client::connect(server);
    client.write(&format!("1 to {id} 3 hello\n1 to {} 4 hello\n", u64::MAX));
    wait_until("the reports", || {
        let events = events(&runtime, 1);
        events.contains(&Event::Unreachable(Token(1 << 48 | 3)))
            && events.contains(&Event::Unreachable(Token(1 << 48 | 4)))
    });
}

/// Layer that sends bytes of its own for all that it receives.
struct Chatty;

impl Layer for Chatty {
    fn decode(
        &mut self,
        bytes: &[u8],
        decoded: &mut dyn FnMut(Decoded<'_>),
        wire: &mut Vec<u8>,
    ) -> Result<(), LayerError> {
        wire.extend_from_slice(b"own ");
        decoded(Decoded::Bytes(bytes));
        Ok(())
    }

    fn encode(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<Encoded, LayerError> {
        Ok(Encoded::Unchanged)
    }

    fn is_handshaking(&self) -> bool {
        false
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

impl Layers for Chatty {
    fn layer(&self, _: Origin, _: &Flow, _: Resume) -> Option<BoxedLayer> {
        Some(Box::new(Chatty))
    }
}

#[test]
fn bytes_of_the_layer_are_written_with_the_response() {
    let (_runtime, server) = tcp(1, Config { layers: Arc::new(Chatty), ..Config::default() });
    let mut client = Client::connect(server);
    client.write("0 echo\n");
    let mut room = [0; 100];
    let count = client.lines.get_mut().read(&mut room).unwrap();
    assert_eq!(room[..count], *b"own 0 echo\n", "in one write");
    client.write("0 silent\n");
    let count = client.lines.get_mut().read(&mut room).unwrap();
    assert_eq!(room[..count], *b"own ", "without a response");
    client.write("0 ");
    let count = client.lines.get_mut().read(&mut room).unwrap();
    assert_eq!(room[..count], *b"own ", "without a message");
}
