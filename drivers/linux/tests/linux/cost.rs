//! Cost of the driver in comparison with a bare echo of datagrams, in CPU time of the echoing thread. Ignored by
//! default, because it takes seconds and needs an idle machine:
//! `cargo test --release -p ringway-linux --test linux cost:: -- --ignored --nocapture --test-threads 1`.

use ringway_linux::sys::{ReceiveBatch, SendBatch, Wait, set_buffers};
use ringway_linux::{Bound, Config, NoActions, Runtime};
use ringway_sansio::{Context, Deadline, Event, Framer, FramingError, Node, Received, Token};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Node that echoes datagrams.
struct Echo;

impl Node for Echo {
    type Action = ();
    type Framer = Blocks;

    fn shard_of(_: &ringway_sansio::ShardKey, bytes: &[u8], shards: u16) -> u16 {
        u16::from(bytes.first().copied().unwrap_or(0)) % shards
    }

    fn on_message(&mut self, cx: &mut Context<'_, ()>, received: Received<'_>) {
        cx.out.send(received.flow, Token::NONE, received.bytes);
    }

    fn on_event(&mut self, _: &mut Context<'_, ()>, _event: Event) {}

    fn on_timeout(&mut self, _: &mut Context<'_, ()>) {}

    fn next_deadline(&self) -> Option<Deadline> {
        None
    }
}

/// Messages of 500 bytes.
struct Blocks {
    bytes: Vec<u8>,
    taken: usize,
}

impl Framer for Blocks {
    fn new(_max_message_bytes: usize) -> Self {
        Self { bytes: Vec::new(), taken: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        let frame = self.bytes.get(self.taken..self.taken + MESSAGE_BYTES);
        self.taken += frame.map_or(0, <[u8]>::len);
        Ok(frame)
    }

    fn pongs(&mut self) -> usize {
        0
    }

    const PONG: &'static [u8] = b"";

    fn is_partial(&self) -> bool {
        self.taken < self.bytes.len()
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

const MESSAGE_BYTES: usize = 500;

#[test]
#[ignore = "takes seconds and a quiet machine"]
fn an_echo_through_the_driver_costs_little_more_than_a_bare_one() {
    let floor = UdpSocket::bind("127.0.0.1:0").unwrap();
    set_buffers(floor.as_fd(), 8 << 20);
    let floor_address = floor.local_addr().unwrap();
    std::thread::Builder::new().name("floor".into()).spawn(move || bare_echo(&floor)).unwrap();

    let bound = Bound::bind(&["udp:127.0.0.1:0".parse().unwrap()], 1).unwrap();
    let address = bound.addresses()[0].address;
    let nodes = (0..8).map(|_| Echo).collect();
    let runtime = Runtime::start(bound, Config::default(), nodes, Arc::new(NoActions)).unwrap();

    let mut ratios = Vec::new();
    for _ in 0..5 {
        let floor = cost_of("floor", floor_address);
        let ours = cost_of("worker-0", address);
        println!("floor {floor:.3} us, driver {ours:.3} us, {:.2} x", ours / floor);
        ratios.push(ours / floor);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median {:.2} x; {} datagrams in", ratios[2], runtime.counts().datagrams_in);
    assert!(ratios[2] < 1.25, "{ratios:?}");
}

#[test]
#[ignore = "takes seconds and a quiet machine"]
fn an_echo_over_many_streams_is_cheap() {
    const CONNECTIONS: usize = 200;
    const ROUNDS: usize = 500;
    let bound = Bound::bind(&["tcp:127.0.0.1:0".parse().unwrap()], 1).unwrap();
    let address = bound.addresses()[0].address;
    let nodes = (0..8).map(|_| Echo).collect();
    let runtime = Runtime::start(bound, Config::default(), nodes, Arc::new(NoActions)).unwrap();
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let payload = [1; MESSAGE_BYTES];
    let mut room = [0; MESSAGE_BYTES];
    let before = cpu_nanos("worker-0");
    for _ in 0..ROUNDS {
        clients.iter_mut().for_each(|client| client.write_all(&payload).unwrap());
        clients.iter_mut().for_each(|client| client.read_exact(&mut room).unwrap());
    }
    let cost = (cpu_nanos("worker-0") - before) as f64 / (CONNECTIONS * ROUNDS) as f64 / 1000.0;
    println!("{cost:.2} us for a message in and out; {} in", runtime.counts().stream_messages_in);
    assert!(cost < 9.0, "{cost}");
}

fn bare_echo(socket: &UdpSocket) {
    let (mut receive, mut send) = (ReceiveBatch::new(32), SendBatch::new(32));
    loop {
        let count = receive.receive(socket.as_fd(), Wait::ForOne).unwrap();
        let mut sending = send.begin();
        for (from, bytes) in (0..count).filter_map(|index| receive.datagram(index)) {
            sending.push(from, bytes, 0);
        }
        while sending.left() > 0 {
            // The socket's buffer is full: try again.
            let _ = sending.send(socket.as_fd());
        }
    }
}

/// CPU time in microseconds per datagram of a thread that echoes to four clients with a full window.
fn cost_of(thread: &str, address: SocketAddr) -> f64 {
    const CLIENTS: usize = 4;
    const WINDOW: usize = 512;
    const DATAGRAMS: usize = 100_000;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            set_buffers(socket.as_fd(), 8 << 20);
            socket.connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            socket
        })
        .collect();
    let payload: Vec<u8> = (0..MESSAGE_BYTES).map(|n| n as u8).collect();
    let before = cpu_nanos(thread);
    let mut echoed = 0;
    for client in &clients {
        (0..WINDOW).for_each(|_| assert_eq!(client.send(&payload).unwrap(), payload.len()));
    }
    let (mut receive, mut send) = (ReceiveBatch::new(32), SendBatch::new(32));
    while echoed < DATAGRAMS {
        for client in &clients {
            let Ok(count) = receive.receive(client.as_fd(), Wait::Never) else { continue };
            echoed += count;
            let mut sending = send.begin();
            (0..count).for_each(|_| assert!(sending.push(address, &payload, 0)));
            while sending.left() > 0 {
                let _ = sending.send(client.as_fd());
            }
        }
    }
    (cpu_nanos(thread) - before) as f64 / echoed as f64 / 1000.0
}

/// CPU time of a thread of this process in nanoseconds.
fn cpu_nanos(name: &str) -> u64 {
    // A thread gets its name some time after its creation.
    std::iter::repeat_with(|| find_thread(name)).take(1_000_000).flatten().next().expect("the thread runs")
}

fn find_thread(name: &str) -> Option<u64> {
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim() == name {
            let schedstat = read("schedstat");
            return schedstat.split(' ').next()?.parse().ok();
        }
    }
    None
}
