//! Memory of stream connections. Tested: the limit of incomplete messages and of unread output of all connections, the
//! limit of one source, and that all memory is released. Not tested: the kernel's buffers.

use crate::node::{PATIENCE, Talker, address, start};
use ringway_linux::{Config, Runtime, StreamLimits};
use ringway_sansio::MemoryBound;
use ringway_test_support::eventually::wait_until;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Server with two workers that closes no connection because of its write queue or its deadlines.
fn server(
    memory: Option<&Arc<MemoryBound>>,
    max_connections_per_source: usize,
) -> (Runtime<Talker>, SocketAddr) {
    let streams = StreamLimits {
        message: Duration::from_secs(600),
        write_stall: Duration::from_secs(600),
        write_queue_bytes_max: 1 << 30,
        ..StreamLimits::default()
    };
    let config = Config { streams, max_connections_per_source, memory: memory.cloned(), ..Config::default() };
    let runtime = start(&["tcp:127.0.0.1:0"], 2, 4, config);
    let server = address(&runtime, 0);
    (runtime, server)
}

/// Connection from 127.0.0.`host` with a small receive buffer.
fn connect(host: u8, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, host], 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn answers(mut stream: &TcpStream) -> bool {
    let mut answer = [0; 7];
    stream.write_all(b"1 echo\n").is_ok() && stream.read_exact(&mut answer).is_ok() && &answer == b"1 echo\n"
}

/// Makes the server write to connections that never read, half a mebibyte at a time, until it has closed one.
fn flood(clients: &mut [TcpStream], is_closed: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_closed() {
        assert!(Instant::now() < end, "no connection was closed");
        for client in &mut *clients {
            // An error means that this connection was closed.
            let _ = client.write_all(b"1 flood 50 10000 7\n");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn unread_output_of_all_connections_is_limited_and_released() {
    let memory = Arc::new(MemoryBound::new(16 << 20));
    let (runtime, server) = server(Some(&memory), 0);
    let mut clients: Vec<_> = (1..=8).map(|host| connect(host, server)).collect();
    flood(&mut clients, || runtime.counts().stream_memory_closes > 0);
    assert!(memory.used() <= memory.max());
    wait_until("little more waits than is accounted", || {
        runtime.counts().unwritten_bytes as usize <= memory.max()
    });
    drop(clients);
    wait_until("all have ended", || runtime.counts().connections_open == 0 && memory.used() == 0);
    assert!(answers(&connect(1, server)), "there is room again");
    assert_eq!((runtime.counts().write_queue_closes, runtime.counts().stream_source_closes), (0, 0));
}

#[test]
fn incomplete_messages_of_all_connections_are_limited_and_released() {
    let memory = Arc::new(MemoryBound::new(1 << 20));
    let (runtime, server) = server(Some(&memory), 0);
    let begun = [b'1'; 60_000];
    let mut clients: Vec<_> = (0..40).map(|host| connect(1 + host % 20, server)).collect();
    for client in &mut clients {
        let _ = client.write_all(&begun);
    }
    let kept = memory.max() / begun.len();
    wait_until("who grows beyond it is closed", || {
        let counts = runtime.counts();
        let closed = counts.stream_memory_closes;
        counts.connections_accepted == 40
            && counts.connections_open <= kept as u64
            && closed + counts.connections_open == 40
    });
    assert!(memory.used() <= memory.max());
    drop(clients);
    wait_until("all have ended", || runtime.counts().connections_open == 0 && memory.used() == 0);
}

#[test]
fn a_source_is_limited_to_eight_mebibytes() {
    let (runtime, server) = server(None, 100);
    let honest = connect(2, server);
    assert!(answers(&honest));
    let mut clients: Vec<_> = (0..8).map(|_| connect(1, server)).collect();
    flood(&mut clients, || runtime.counts().stream_source_closes > 0);
    wait_until("little more waits", || runtime.counts().unwritten_bytes <= 8 << 20);
    assert!(answers(&honest) && answers(&connect(2, server)));
    drop(clients);
    wait_until("they have ended", || runtime.counts().unwritten_bytes == 0);
    assert!(answers(&connect(1, server)));
}

#[test]
fn a_source_without_a_limit_on_connections_holds_more() {
    let (runtime, server) = server(None, 0);
    let mut clients: Vec<_> = (0..8).map(|_| connect(1, server)).collect();
    for client in &mut clients {
        client.write_all(b"1 flood 1000 10000 7\n").unwrap();
    }
    wait_until("more than eight mebibytes wait", || runtime.counts().unwritten_bytes > 16 << 20);
    assert_eq!((runtime.counts().stream_source_closes, runtime.counts().connections_open), (0, 8));
}

#[test]
fn an_idle_connection_releases_its_buffers() {
    let memory = Arc::new(MemoryBound::new(64 << 20));
    let (runtime, server) = server(Some(&memory), 0);
    let mut client = connect(1, server);
    client.write_all(&[b"1 echo ", &[b'x'; 50_000][..]].concat()).unwrap();
    wait_until("the begun message is accounted", || memory.used() >= 50_000);
    client.write_all(b"\n1 flood 1000 10000 7\n").unwrap();
    wait_until("unread output is accounted", || memory.used() >= 1 << 20);
    let mut room = vec![0; 1 << 20];
    let mut left = 50_008 + 1000 * 10_001;
    while left > 0 {
        left -= client.read(&mut room).expect("more bytes");
    }
    wait_until("its room is given back", || memory.used() <= 16 << 10);
    assert!(answers(&client));
    assert_eq!(runtime.counts().connections_open, 1);
}

#[test]
fn a_stopped_runtime_releases_the_memory_of_open_connections() {
    let memory = Arc::new(MemoryBound::new(1 << 20));
    let (runtime, server) = server(Some(&memory), 0);
    let mut client = connect(1, server);
    client.write_all(&[b'1'; 10_000]).unwrap();
    wait_until("it is accounted", || memory.used() >= 10_000);
    drop(runtime);
    assert_eq!(memory.used(), 0);
}
