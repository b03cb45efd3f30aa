//! Listeners that come and go while the runtime runs. Tested: nothing is read before it is opened, connections outlive their
//! listener, an address can be bound again at once, a taken port changes nothing, no request is lost by changes under load.

use crate::node::{PATIENCE, Talker, address, client, receive, start};
use ringway_linux::{BindError, Config, Listen, Runtime};
use ringway_sansio::ListenerId;
use ringway_test_support::eventually::wait_until;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn listen(text: &str) -> Listen {
    text.parse().unwrap()
}

fn echo(stream: &mut TcpStream, text: &str) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(format!("{text}\n").as_bytes()).unwrap();
    let mut answer = vec![0; text.len() + 1];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer, format!("{text}\n").as_bytes());
}

/// Adds one listener and opens it; returns its address.
fn add(runtime: &Runtime<Talker>, id: u8, text: &str) -> SocketAddr {
    let attached = runtime.attach(&[(ListenerId(id), listen(text))]).unwrap();
    let address = attached.listeners()[0].1.address;
    runtime.open(attached);
    address
}

#[test]
fn a_new_listener_is_read_after_it_was_opened() {
    let runtime = start(&["udp:127.0.0.1:0"], 2, 4, Config::default());
    let attached = runtime
        .attach(&[
            (ListenerId(1), listen("udp:127.0.0.1:0")),
            // Numbers of closed listeners may be between.
            (ListenerId(7), listen("tcp:127.0.0.1:0")),
        ])
        .unwrap();
    let (udp, tcp) = (attached.listeners()[0].1.address, attached.listeners()[1].1.address);
    let socket = client(udp);
    socket.send(b"0 echo early").unwrap();
    let mut stream = TcpStream::connect(tcp).unwrap();
    stream.write_all(b"1 echo\n").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(runtime.counts().datagrams_in + runtime.counts().connections_accepted, 0);

    runtime.open(attached);
    assert_eq!(receive(&socket), "0 echo early");
    let mut answer = [0; 7];
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"1 echo\n");
    // The new listener sends by its own socket.
    let receiver = client(udp);
    socket.send(format!("2 udp 1 {} 0", receiver.local_addr().unwrap()).as_bytes()).unwrap();
    assert_eq!(receive(&socket), "after\n");
    assert_eq!(receive(&receiver), "datagram");
}

#[test]
fn a_closed_listener_leaves_its_connections_and_frees_its_address() {
    let runtime = start(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"], 2, 4, Config::default());
    let (udp, tcp) = (address(&runtime, 0), address(&runtime, 1));
    let mut stream = TcpStream::connect(tcp).unwrap();
    echo(&mut stream, "3 echo before");
    runtime.close(ListenerId(1));
    runtime.close(ListenerId(0));
    echo(&mut stream, "3 echo after");
    assert!(TcpStream::connect(tcp).is_err());
    // Datagrams of a closed listener are reported, those for it refused.
    stream.write_all(b"2 udp 0 127.0.0.1:9 77\n").unwrap();
    let mut after = [0; 6];
    stream.read_exact(&mut after).unwrap();
    assert_eq!(&after, b"after\n");
    wait_until("the report", || {
        let events = runtime.shards().with_shard(2, |node| node.events.len());
        events == Some(1)
    });
    for round in 0..3 {
        assert_eq!(add(&runtime, 0, &format!("udp:{udp}")), udp);
        assert_eq!(add(&runtime, 1, &format!("tcp:{tcp}")), tcp);
        let socket = client(udp);
        socket.send(format!("1 echo {round}").as_bytes()).unwrap();
        assert_eq!(receive(&socket), format!("1 echo {round}"));
        echo(&mut TcpStream::connect(tcp).unwrap(), "1 echo again");
        runtime.close(ListenerId(0));
        runtime.close(ListenerId(1));
    }
    echo(&mut stream, "3 echo at last");
}

#[test]
fn a_taken_port_changes_nothing() {
    let runtime = start(&["udp:127.0.0.1:0"], 2, 2, Config::default());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let wanted = [
        (ListenerId(1), listen(&format!("udp:{free}"))),
        (ListenerId(2), listen(&format!("tcp:{}", taken.local_addr().unwrap()))),
    ];
    let error = runtime.attach(&wanted).err().unwrap();
    assert!(matches!(&error, BindError::Listener { listener, .. } if *listener == wanted[1].1), "{error}");
    UdpSocket::bind(free).expect("the first listener was closed again");
    let many = runtime.attach(&[(ListenerId(255), listen("udp:127.0.0.1:0"))]).err().unwrap();
    assert!(matches!(many, BindError::TooMany), "{many}");
    let socket = client(address(&runtime, 0));
    socket.send(b"0 echo").unwrap();
    assert_eq!(receive(&socket), "0 echo");
}

#[test]
fn no_answer_is_lost_while_other_listeners_come_and_go() {
    let runtime = start(&["udp:127.0.0.1:0"], 2, 4, Config::default());
    let server = address(&runtime, 0);
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (stops, answers) = (Arc::clone(&stop), Arc::clone(&answered));
    let load = std::thread::spawn(move || {
        let socket = client(server);
        for number in 0.. {
            if stops.load(Ordering::Relaxed) {
                break;
            }
            socket.send(format!("{number} echo").as_bytes()).unwrap();
            assert_eq!(receive(&socket), format!("{number} echo"));
            answers.store(number, Ordering::Relaxed);
        }
    });
    let mut rounds = 0;
    while rounds < 20 || (answered.load(Ordering::Relaxed) < 20 && !load.is_finished()) {
        rounds += 1;
        let tcp = add(&runtime, 1, "tcp:127.0.0.1:0");
        let udp = add(&runtime, 2, "udp:127.0.0.1:0");
        echo(&mut TcpStream::connect(tcp).unwrap(), "1 echo");
        let socket = client(udp);
        socket.send(b"0 echo").unwrap();
        // What has arrived before is answered.
        runtime.close(ListenerId(2));
        assert_eq!(receive(&socket), "0 echo");
        runtime.close(ListenerId(1));
    }
    stop.store(true, Ordering::Relaxed);
    load.join().unwrap();
}

#[test]
fn a_listener_that_is_not_opened_handles_nothing() {
    let runtime = start(&["udp:127.0.0.1:0"], 1, 1, Config::default());
    let wanted = [(ListenerId(1), listen("udp:127.0.0.1:0")), (ListenerId(2), listen("tcp:127.0.0.1:0"))];
    let attached = runtime.attach(&wanted).unwrap();
    let [udp, tcp] = [0, 1].map(|index| attached.listeners()[index].1.address);
    let datagrams = client(udp);
    datagrams.send(b"0 echo").unwrap();
    let mut stream = TcpStream::connect(tcp).unwrap();
    stream.write_all(b"0 echo\n").unwrap();
    drop(attached);
    let mut answer = [0];
    assert!(!matches!(stream.read(&mut answer), Ok(1..)), "the connection ends without an answer");
    datagrams.set_nonblocking(true).unwrap();
    // An answer would have been sent before the socket was closed.
    assert!(datagrams.recv(&mut answer).is_err());
    let socket = client(address(&runtime, 0));
    socket.send(b"0 echo").unwrap();
    assert_eq!(receive(&socket), "0 echo");
}
