//! A node that is controlled by its messages, lines of the form `SHARD VERB ARGUMENTS`, and helpers to communicate with
//! it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use ringway_linux::{ActionSink, Bound, Config, Listen, Runtime};
use ringway_sansio::{
    ConnectionId, Context, Deadline, DialledId, Dialler, Event, Flow, Framer, FramingError, IcmpError,
    Instant, ListenerId, Node, Received, Seed, Shedding, Token,
};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::vec::Drain;

/// One shard of the node.
#[derive(Default)]
pub(crate) struct Talker {
    pub(crate) shard: u16,
    pub(crate) events: Vec<Event>,
    pub(crate) received: Vec<String>,
    /// ICMP errors: destination and quoted bytes.
    pub(crate) icmp: Vec<(SocketAddr, String)>,
    timers: Vec<(Instant, Flow)>,
}

impl Node for Talker {
    type Action = String;
    type Framer = Lines;

    fn shard_of(_: &ringway_sansio::ShardKey, bytes: &[u8], shards: u16) -> u16 {
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
        let number =
            digits.fold(0_u64, |sum, digit| sum.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
        (number % u64::from(shards)) as u16
    }

    fn on_message(&mut self, cx: &mut Context<'_, String>, received: Received<'_>) {
        let text = String::from_utf8_lossy(received.bytes).into_owned();
        let flow = received.flow;
        let mut words = text.trim_end().splitn(5, ' ').skip(1);
        let verb = words.next().unwrap_or_default();
        let mut argument = || words.next().unwrap_or_default();
        match verb {
            "echo" => cx.out.send(flow, Token::NONE, received.bytes),
            "who" => {
                let id = flow.connection.map_or(0, |id| id.0);
                cx.out.send(flow, Token::NONE, format!("{id}\n").as_bytes());
            }
            "from" => cx.out.send(flow, Token::NONE, format!("{}\n", flow.remote).as_bytes()),
            // Keeps the connection open.
            "keep" => {
                cx.out.keep(&flow, Instant::FAR);
                cx.out.send(flow, Token::NONE, received.bytes);
            }
            // dial ADDRESS TOKEN TEXT
            "dial" => {
                let to = Flow::dial(ListenerId(0), argument().parse().unwrap());
                let token = self.token(argument());
                cx.out.send(to, token, format!("{}\n", argument()).as_bytes());
            }
            // charged ADDRESS NUMBER TEXT, of the sender with this number
            "charged" => {
                let to = Flow::dial(ListenerId(0), argument().parse().unwrap());
                let (sender, token) = (argument().parse().unwrap(), self.token("7"));
                cx.out.send(to, token, format!("{}\n", argument()).as_bytes());
                cx.out.charge_last(Dialler(sender));
            }
            // numbered ADDRESS NUMBER TEXT
            "numbered" => {
                let to = Flow::dial(ListenerId(0), argument().parse().unwrap());
                let to = Flow { dialled: DialledId(argument().parse().unwrap()), ..to };
                cx.out.send(to, Token::NONE, format!("{}\n", argument()).as_bytes());
            }
            // disconnect ADDRESS NUMBER TEXT, which is the last message
            "disconnect" => {
                let to = Flow::dial(ListenerId(0), argument().parse().unwrap());
                let to = Flow { dialled: DialledId(argument().parse().unwrap()), ..to };
                cx.out.disconnect(to);
                cx.out.send(to, Token::NONE, format!("{}\n", argument()).as_bytes());
            }
            // give-up ADDRESS TOKEN
            "give-up" => {
                let to = Flow::dial(ListenerId(0), argument().parse().unwrap());
                cx.out.give_up_dial(to, self.token(argument()));
            }
            // to CONNECTION TOKEN TEXT
            "to" => {
                let connection = Some(ConnectionId(argument().parse().unwrap()));
                let token = self.token(argument());
                cx.out.send(Flow { connection, ..flow }, token, format!("{}\n", argument()).as_bytes());
            }
            // udp LISTENER ADDRESS TOKEN
            "udp" => {
                let to = Flow::udp(ListenerId(argument().parse().unwrap()), argument().parse().unwrap());
                let token = self.token(argument());
                cx.out.send(to, token, b"datagram");
                cx.out.send(flow, Token::NONE, b"after\n");
            }
            // closed ADDRESS
            "closed" => {
                let to = Flow::udp(flow.listener, argument().parse().unwrap());
                cx.out.send(to, Token::NONE, received.bytes);
                cx.out.send(flow, Token::NONE, b"after\n");
            }
            // flood COUNT BYTES TOKEN
            "flood" => {
                let count: usize = argument().parse().unwrap();
                let mut line = vec![b'x'; argument().parse().unwrap()];
                line.push(b'\n');
                let token = self.token(argument());
                (0..count).for_each(|_| cx.out.send(flow, token, &line));
            }
            // timer MILLISECONDS
            "timer" => {
                let after = Duration::from_millis(argument().parse().unwrap());
                self.timers.push((cx.now + after, flow));
            }
            "store" => {
                let what = argument().to_owned();
                let change = what.parse().unwrap_or(0);
                cx.actions.push(what);
                cx.out.send(flow, Token::NONE, b"stored\n");
                // A number names the change.
                cx.out.hold_last(change);
            }
            // shed MILLISECONDS: from now on, for so long
            "shed" => {
                let until = cx.now + Duration::from_millis(argument().parse().unwrap());
                let hosts = vec![b"example.org".to_vec()];
                let shedding = Shedding { until, hosts, ..Shedding::default() };
                received.waited.unwrap().queue.shed(shedding);
                cx.out.send(flow, Token::NONE, b"shed\n");
            }
            "panic" => panic!("as the message asks"),
            _ => {}
        }
        self.received.push(text);
    }

    fn on_event(&mut self, _: &mut Context<'_, String>, event: Event) {
        self.events.push(event);
    }

    fn shard_of_quoted(quoted: &[u8], shards: u16) -> Option<u16> {
        Some(Self::shard_of(&ringway_sansio::ShardKey::new(&Seed::from_number(0)), quoted, shards))
    }

    fn on_icmp_error(&mut self, _: &mut Context<'_, String>, error: IcmpError<'_>) {
        self.icmp.push((error.flow.remote, String::from_utf8_lossy(error.quoted).into_owned()));
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, String>) {
        self.timers.retain(|&(at, flow)| {
            if at <= cx.now {
                cx.out.send(flow, Token::NONE, b"fired\n");
            }
            at > cx.now
        });
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let at = self.timers.iter().map(|&(at, _)| at).min()?;
        Some(Deadline { at, reason: "requested by a message" })
    }
}

impl Talker {
    /// Token of this shard (see `shard_of_token`).
    fn token(&self, number: &str) -> Token {
        match number.parse().unwrap() {
            0 => Token::NONE,
            number => Token(u64::from(self.shard) << 48 | number),
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.timers.is_empty()
    }
}

/// Framer of lines. `?` is a keep-alive, `#` is a framing error.
pub(crate) struct Lines {
    bytes: Vec<u8>,
    taken: usize,
    max: usize,
    pongs: usize,
}

impl Framer for Lines {
    fn new(max_message_bytes: usize) -> Self {
        Self { bytes: Vec::new(), taken: 0, max: max_message_bytes, pongs: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        loop {
            let rest = &self.bytes[self.taken..];
            let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
                if rest.len() > self.max {
                    return Err(FramingError("too long"));
                }
                self.bytes.drain(..std::mem::take(&mut self.taken));
                self.bytes.shrink_to_fit();
                return Ok(None);
            };
            let start = self.taken;
            self.taken += end + 1;
            match self.bytes[start] {
                b'?' => self.pongs += 1,
                b'#' => return Err(FramingError("a line that begins with #")),
                _ => return Ok(Some(&self.bytes[start..=start + end])),
            }
        }
    }

    fn pongs(&mut self) -> usize {
        std::mem::take(&mut self.pongs)
    }

    const PONG: &'static [u8] = b"!\n";

    fn is_partial(&self) -> bool {
        self.taken < self.bytes.len()
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Sink whose storage is controlled by the test.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) asked: AtomicU64,
    pub(crate) stored: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) entries: std::sync::Mutex<Vec<(u16, String)>>,
}

impl ActionSink<String> for Ledger {
    fn act(&self, _worker: usize, shard: u16, actions: Drain<'_, String>) -> u64 {
        self.entries.lock().unwrap().extend(actions.map(|action| (shard, action)));
        self.asked.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn stored_through(&self) -> u64 {
        self.stored.load(Ordering::SeqCst)
    }

    fn refuses(&self, change: u64) -> bool {
        self.refused.load(Ordering::SeqCst) == change
    }

    fn refusal(&self, packet: &[u8]) -> Vec<u8> {
        [b"not ", packet].concat()
    }
}

/// Starts a runtime with `shards` nodes on listeners of 127.0.0.1 and `workers` threads.
pub(crate) fn start(listeners: &[&str], workers: usize, shards: u16, config: Config) -> Runtime<Talker> {
    start_with(listeners, workers, shards, config, Arc::new(Ledger::default()))
}

pub(crate) fn start_with(
    listeners: &[&str],
    workers: usize,
    shards: u16,
    config: Config,
    sink: Arc<Ledger>,
) -> Runtime<Talker> {
    let listeners: Vec<Listen> = listeners.iter().map(|text| text.parse().unwrap()).collect();
    let bound = Bound::bind(&listeners, workers).unwrap();
    let nodes = (0..shards).map(|shard| Talker { shard, ..Talker::default() }).collect();
    Runtime::start(bound, config, nodes, sink).unwrap()
}

pub(crate) fn address(runtime: &Runtime<Talker>, listener: usize) -> SocketAddr {
    runtime.listeners()[listener].address
}

/// Datagram client with timeouts.
pub(crate) fn client(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

pub(crate) fn receive(socket: &UdpSocket) -> String {
    let mut room = [0; 2048];
    let count = socket.recv(&mut room).expect("an answer in time");
    String::from_utf8_lossy(&room[..count]).into_owned()
}

/// All events of a shard.
pub(crate) fn events(runtime: &Runtime<Talker>, shard: u16) -> Vec<Event> {
    runtime.shards().with_shard(shard, |node| node.events.clone()).unwrap()
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
