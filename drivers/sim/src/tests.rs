//! Tests of the network with a small machine: it answers each `ping N` with `pong N`, and can send pings at an interval.
//!
//! Tested: rates of the faults, order, equal seeds, links, streams and their ends, slow readers, half-open connections,
//! limits, reports, wakes, crashes.

use super::*;
use ringway_sansio::{
    ConnectionId, Context, Deadline, DialledId, Event, Flow, Framer, FramingError, Instant, ListenerId,
    LocatedServers, Node, Received, Seed, Token, Transport,
};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn a_good_network_delivers_each_datagram_once_and_in_order() {
    let mut net = Net::new(1, Faults::default());
    net.ping_udp(500);
    let pongs = net.pongs();
    assert_eq!(pongs, (0..500).collect::<Vec<_>>());
    assert!(net.sim.trace().packets().all(|seen| matches!(seen.fate, Fate::Arrives(_))));
    assert_eq!(net.sim.trace().packets().len(), 1000);
}

#[test]
fn equal_seeds_give_equal_traces_and_others_do_not() {
    let faults = Faults {
        loss_per_mille: 200,
        duplicate_per_mille: 100,
        reorder_per_mille: 100,
        delay: ms(5)..ms(50),
    };
    let run = |seed| {
        let mut net = Net::new(seed, faults.clone());
        net.ping_udp(200);
        net.ping_tcp(50);
        net.sim.trace().to_string()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn faults_have_the_configured_rates() {
    let faults =
        Faults { loss_per_mille: 200, duplicate_per_mille: 100, reorder_per_mille: 50, delay: ms(5)..ms(10) };
    let mut net = Net::new(3, faults);
    net.ping_udp(5000);
    let seen: Vec<_> = net.sim.trace().packets().filter(|seen| seen.sender == "client").collect();
    let count = |of: fn(&Fate) -> bool| seen.iter().filter(|seen| of(&seen.fate)).count();
    let lost = count(|fate| matches!(fate, Fate::Lost));
    let duplicated = count(|fate| matches!(fate, Fate::Duplicated(_)));
    let arrived = count(|fate| matches!(fate, Fate::Arrives(_)));
    assert_eq!(lost + arrived, 5000);
    assert!((900..1100).contains(&lost), "{lost}");
    assert!((330..470).contains(&duplicated), "{duplicated} of {arrived}");
    let late = seen.iter().filter(|seen| match seen.fate {
        Fate::Arrives(at) | Fate::Duplicated(at) => at.since(seen.at) >= ms(25),
        Fate::Lost | Fate::NoListener | Fate::Closed => false,
    });
    let late = late.count();
    assert!((150..300).contains(&late), "{late}");
    let numbers = net.received_pings();
    let overtaken = numbers.windows(2).filter(|two| two[1] < two[0]).count();
    assert!(overtaken > 100, "{overtaken}");
}

#[test]
fn different_delays_alone_do_not_change_the_order() {
    let faults = Faults { delay: ms(1)..ms(300), ..Faults::default() };
    let mut net = Net::new(5, faults);
    net.ping_udp(500);
    assert_eq!(net.received_pings(), (0..500).collect::<Vec<_>>());
}

#[test]
fn a_link_may_have_faults_of_its_own_in_one_direction() {
    let mut net = Net::new(1, Faults::default());
    net.sim.set_link(net.server, net.client, Faults::cut());
    net.ping_udp(10);
    assert_eq!((net.received_pings().len(), net.pongs().len()), (10, 0));
    net.sim.set_link(net.server, net.client, Faults::default());
    net.ping_udp(10);
    assert_eq!(net.pongs().len(), 10);
}

#[test]
fn a_datagram_without_a_listener_is_traced_and_dropped() {
    let mut net = Net::new(1, Faults::default());
    net.ping(Flow::udp(ListenerId(0), address("10.9.9.9:1")), 1, Token(9));
    assert!(net.sim.run_until_idle(ms(10_000)));
    assert_eq!(net.sim.trace().packets().next().map(|seen| seen.fate), Some(Fate::NoListener));
    assert!(net.client_log.borrow().is_empty(), "as on a real network, the sender gets no report");
}

#[test]
fn a_stream_arrives_whole_and_in_order_with_any_faults() {
    let faults = Faults {
        loss_per_mille: 300,
        duplicate_per_mille: 300,
        reorder_per_mille: 300,
        delay: ms(1)..ms(100),
    };
    for seed in 0..20 {
        let mut net = Net::new(seed, faults.clone());
        net.ping_tcp(100);
        assert_eq!(net.pongs(), (0..100).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(net.sim.connections(net.client).len(), 1, "one connection is reused");
        assert_eq!(net.sim.connections(net.server).len(), 1);
    }
}

#[test]
fn a_closed_connection_is_reported_once_to_every_shard_of_both_ends() {
    let mut net = Net::new(1, Faults::default());
    net.ping_tcp(3);
    let (mine, theirs) = (net.sim.connections(net.client)[0], net.sim.connections(net.server)[0]);
    assert_ne!(mine, theirs);
    net.sim.close(mine);
    net.sim.run_for(ms(1000));
    let closed = |log: &Log, id: ConnectionId| {
        log.borrow().iter().filter(|entry| **entry == Entry::Event(Event::Closed(id))).count()
    };
    assert_eq!(closed(&net.client_log, mine), 1);
    assert_eq!(closed(&net.server_log, theirs), usize::from(SERVER_SHARDS));
    assert!(net.sim.connections(net.client).is_empty() && net.sim.connections(net.server).is_empty());
    let stale = Flow { connection: Some(mine), ..tcp_flow() };
    net.ping(stale, 7, Token(0x77));
    net.sim.run_for(ms(1000));
    assert_eq!(net.client_log.borrow().last(), Some(&Entry::Event(Event::Unreachable(Token(0x77)))));
    net.ping_tcp(1);
    assert_eq!(net.pongs(), [0, 1, 2, 0], "without a connection it is dialled anew");
}

#[test]
fn each_number_has_a_connection_which_alone_is_closed_after_its_last_message() {
    let mut net = Net::new(1, Faults::default());
    let numbered = |number| Flow { dialled: DialledId(number), ..tcp_flow() };
    for number in [0, 1, 2, 1] {
        net.ping(numbered(number), u32::from(number), Token::NONE);
        net.sim.run_for(ms(1000));
    }
    assert_eq!(net.sim.connections(net.server).len(), 3);
    net.sim.call(net.client, 0, |_: &mut Hosted<Pinger>, _, effects| {
        effects.out.disconnect(numbered(1));
        effects.out.send(numbered(1), Token::NONE, b"ping 9\n");
    });
    net.sim.run_for(ms(1000));
    assert_eq!((net.received_pings(), net.sim.connections(net.server).len()), (vec![0, 1, 2, 1, 9], 2));
}

#[test]
fn a_connection_without_a_listener_is_reported_if_there_is_a_token() {
    let mut net = Net::new(1, Faults::default());
    let nowhere = Flow::dial(ListenerId(1), address("10.9.9.9:1"));
    net.ping(nowhere, 1, Token(5));
    net.ping(nowhere, 1, Token::NONE);
    net.sim.run_for(ms(1000));
    net.sim.set_link(net.client, net.server, Faults::cut());
    net.ping(tcp_flow(), 1, Token(6));
    net.sim.run_for(ms(1000));
    let reported = [5, 6].map(|token| Entry::Event(Event::Unreachable(Token(token))));
    assert_eq!(*net.client_log.borrow(), reported);
}

#[test]
fn a_connection_that_ends_before_a_message_came_by_it_fails_what_was_sent() {
    let mut net = Net::new(1, Faults::default());
    net.send(tcp_flow(), Token(5), b"ping");
    net.sim.run_for(ms(1000));
    net.sim.close(net.sim.connections(net.client)[0]);
    net.sim.run_for(ms(1000));
    assert_eq!(net.client_log.borrow().last(), Some(&Entry::Event(Event::Unreachable(Token(5)))));

    let mut net = Net::new(1, Faults::default());
    net.send(tcp_flow(), Token(5), b"ping 1\n");
    net.sim.run_for(ms(1000));
    net.sim.close(net.sim.connections(net.client)[0]);
    net.sim.run_for(ms(1000));
    let is_unreachable = |entry: &Entry| matches!(entry, Entry::Event(Event::Unreachable(_)));
    assert!(!net.client_log.borrow().iter().any(is_unreachable), "the pong came by it");
}

#[test]
fn a_stream_that_cannot_be_cut_is_closed() {
    let mut net = Net::new(1, Faults::default());
    net.send(tcp_flow(), Token::NONE, b"ping 1\nBAD\nping 2\n");
    net.sim.run_for(ms(1000));
    assert_eq!(net.received_pings(), [1]);
    assert!(net.sim.connections(net.client).is_empty());
}

#[test]
fn a_keep_alive_is_answered() {
    let mut net = Net::new(1, Faults::default());
    net.send(tcp_flow(), Token::NONE, b"?\nping 1\n");
    net.sim.run_for(ms(1000));
    let sent: Vec<_> = net.sim.trace().packets().map(|seen| seen.bytes.clone()).collect();
    assert!(sent.contains(&b"!\n".to_vec()), "{}", net.sim.trace());
}

#[test]
fn a_peer_that_reads_late_gets_all_bytes() {
    let mut net = Net::new(1, Faults::default());
    net.ping_tcp(1);
    net.sim.set_reading(net.server, Reading::Paused);
    (0..9000).for_each(|number| net.ping(tcp_flow(), number, Token::NONE));
    net.sim.run_for(ms(20_000));
    assert_eq!(net.received_pings(), [0], "more bytes are queued than both sockets hold");
    net.sim.set_reading(net.server, Reading::AtOnce);
    net.sim.run_for(ms(20_000));
    let expected: Vec<_> = [0].into_iter().chain(0..9000).collect();
    assert_eq!((net.received_pings(), net.pongs()), (expected.clone(), expected));
}

#[test]
fn a_peer_that_never_reads_is_closed_at_the_write_stall() {
    let mut net = Net::new(1, Faults::default());
    net.ping_tcp(1);
    net.sim.set_reading(net.server, Reading::Paused);
    (0..9000).for_each(|number| net.ping(tcp_flow(), number, Token(1 + u64::from(number))));
    net.sim.run_for(ms(29_000));
    assert_eq!(net.sim.connections(net.client).len(), 1);
    net.sim.run_for(ms(2000));
    assert!(net.sim.connections(net.client).is_empty());
    let last = Entry::Event(Event::Unreachable(Token(9000)));
    assert!(net.client_log.borrow().contains(&last), "what was never written is reported");
}

#[test]
fn a_half_open_connection_ends_at_a_limit() {
    let mut net = Net::new(1, Faults::default());
    net.ping_tcp(1);
    net.sim.vanish(net.server);
    net.ping(tcp_flow(), 1, Token(7));
    net.sim.run_for(ms(7_400_000));
    assert_eq!(net.sim.connections(net.client).len(), 1, "the end of the peer is not reported");
    net.sim.run_for(ms(200_000));
    assert!(net.sim.connections(net.client).is_empty(), "the idle time is over");
}

#[test]
fn a_message_that_never_becomes_whole_ends_its_connection() {
    let mut net = Net::new(1, Faults::default());
    net.send(tcp_flow(), Token::NONE, b"pi");
    net.sim.run_for(ms(9000));
    assert_eq!(net.sim.connections(net.server).len(), 1);
    net.sim.run_for(ms(2000));
    assert_eq!((net.sim.connections(net.server).len(), net.sim.connections(net.client).len()), (0, 0));
}

#[test]
fn a_handshake_that_is_lost_ends_at_the_connect_limit() {
    let mut net = Net::new(1, Faults { delay: ms(20)..ms(30), ..Faults::default() });
    net.ping(tcp_flow(), 1, Token(5));
    net.sim.set_link(net.server, net.client, Faults::cut());
    net.sim.run_for(ms(3900));
    assert!(net.client_log.borrow().is_empty());
    net.sim.run_for(ms(200));
    assert_eq!(*net.client_log.borrow(), [Entry::Event(Event::Unreachable(Token(5)))]);
}

#[test]
fn a_packet_waits_no_longer_for_a_connection_that_others_wait_for() {
    let mut net = Net::new(1, Faults { delay: ms(400)..ms(500), ..Faults::default() });
    (1..=3).for_each(|number| net.ping(tcp_flow(), number, Token(u64::from(number))));
    net.sim.run_for(ms(100));
    net.give_up(tcp_flow(), Token(2));
    net.sim.run_for(ms(600));
    assert_eq!(*net.client_log.borrow(), [Entry::Event(Event::Unreachable(Token(2)))]);
    net.sim.run_for(ms(2000));
    assert_eq!(net.received_pings(), [1, 3]);
    net.give_up(tcp_flow(), Token(3));
    net.ping(tcp_flow(), 4, Token(4));
    net.sim.run_for(ms(2000));
    assert_eq!(net.received_pings(), [1, 3, 4], "an established connection stays");
}

#[test]
fn bytes_lost_on_a_cut_link_arrive_after_it_is_restored() {
    let mut net = Net::new(1, Faults::default());
    net.ping_tcp(2);
    net.sim.set_link(net.client, net.server, Faults::cut());
    (2..5).for_each(|number| net.ping(tcp_flow(), number, Token::NONE));
    net.sim.run_for(ms(5000));
    assert_eq!(net.received_pings(), [0, 1]);
    net.sim.set_link(net.client, net.server, Faults::default());
    net.ping(tcp_flow(), 5, Token::NONE);
    net.sim.run_for(ms(5000));
    assert_eq!(net.received_pings(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_removed_host_is_gone_and_its_address_free() {
    let mut net = Net::new(1, Faults::default());
    net.ping_tcp(1);
    net.ping(udp_flow(), 8, Token::NONE);
    assert!(net.sim.remove(net.server).is_some());
    net.sim.run_for(ms(1000));
    assert_eq!(net.received_pings(), [0], "packets in transit to it are lost");
    assert!(net.client_log.borrow().iter().any(|entry| matches!(entry, Entry::Event(Event::Closed(_)))));
    let log = Log::default();
    let again = Pinger::host(1, &log);
    net.server = net.sim.add("again", &[(Transport::Udp, address(SERVER))], again).unwrap();
    net.ping_udp(2);
    assert_eq!(log.borrow().len(), 2);
}

#[test]
fn an_address_has_one_host() {
    let mut net = Net::new(1, Faults::default());
    let second = Pinger::host(1, &Log::default());
    let taken = net.sim.add("second", &[(Transport::Udp, address(SERVER))], second);
    assert_eq!(taken, Err(AddressInUse(address(SERVER))));
}

#[test]
fn deadlines_are_kept_to_the_nanosecond_and_an_idle_network_stops() {
    let mut net = Net::new(1, Faults::default());
    let (every, client) = (Duration::from_nanos(333_333_333), net.client);
    net.sim.call(client, 0, |host: &mut Hosted<Pinger>, now, effects| {
        host.call(0, now, effects, |node, _| node.pace(now, every, 9, udp_flow()))
    });
    assert!(!net.sim.run_until_idle(ms(1000)), "it is still busy");
    assert!(net.sim.run_until_idle(ms(60_000)));
    let times: Vec<_> =
        net.sim.trace().packets().filter(|seen| seen.sender == "client").map(|seen| seen.at).collect();
    let expected: Vec<_> = (1..=9).map(|tick| BEGIN + every * tick).collect();
    assert_eq!(times, expected);
    assert!(net.sim.now() < BEGIN + ms(3100), "the clock does not pass the last event");
}

#[test]
fn a_machine_whose_deadline_never_moves_does_not_stop_the_clock() {
    let mut net = Net::new(1, Faults::default());
    let client = net.client;
    net.sim.call(client, 0, |host: &mut Hosted<Pinger>, now, effects| {
        host.call(0, now, effects, |node, _| node.stuck = Some(now))
    });
    net.sim.run_for(ms(100));
    assert_eq!(net.sim.now(), BEGIN + ms(100));
    let wakes = net.sim.node::<Hosted<Pinger>>(client).map(|host| host.shards()[0].wakes);
    assert_eq!(wakes, Some(100));
}

#[test]
fn actions_are_handled_and_their_results_come_later() {
    let mut net = Net::new(1, Faults::default());
    net.send(udp_flow(), Token::NONE, b"action 4");
    assert!(
        net.sim.run_until_holds(ms(1000), |sim| {
            sim.trace().packets().any(|seen| seen.bytes == b"granted 4")
        })
    );
    assert_eq!(net.sim.now().since(BEGIN).as_millis(), 501, "a delay of 1 ms and the lookup's 500");
    assert!(!net.sim.run_until_holds(ms(10), |_| false));
}

#[test]
fn a_node_can_be_inspected_as_its_own_type_only() {
    let net = Net::new(1, Faults::default());
    assert!(net.sim.node::<Hosted<Pinger>>(net.client).is_some());
    assert!(net.sim.node::<Hosted<Other>>(net.client).is_none());
}

#[test]
fn a_trace_reads_as_a_ladder() {
    let mut net = Net::new(1, Faults { delay: ms(2)..ms(2), ..Faults::default() });
    net.ping_udp(1);
    let text = net.sim.trace().to_string();
    let expected = "    0.000 s  client   10.0.0.2:1 -> 10.0.0.1:5 udp  ping 0  (0.002)\n    \
                    0.002 s  server   10.0.0.1:5 -> 10.0.0.2:1 udp  pong 0  (0.004)\n";
    assert_eq!(text, expected);
}

struct Net {
    sim: Sim,
    client: HostId,
    server: HostId,
    client_log: Log,
    server_log: Log,
}

impl Net {
    fn new(seed: u64, faults: Faults) -> Self {
        let mut sim = Sim::new(&Seed::from_number(seed), BEGIN);
        sim.set_faults(faults);
        let (client_log, server_log) = (Log::default(), Log::default());
        let both = |address: SocketAddr| [(Transport::Udp, address), (Transport::Tcp, address)];
        let server = Pinger::host(SERVER_SHARDS, &server_log);
        let server = sim.add("server", &both(address(SERVER)), server).unwrap();
        let client = Pinger::host(1, &client_log);
        let client = sim.add("client", &both(address("10.0.0.2:1")), client).unwrap();
        Self { sim, client, server, client_log, server_log }
    }

    fn ping_udp(&mut self, count: u32) {
        self.ping_all(udp_flow(), count);
    }

    fn ping_tcp(&mut self, count: u32) {
        self.ping_all(tcp_flow(), count);
    }

    fn ping_all(&mut self, flow: Flow, count: u32) {
        for number in 0..count {
            self.ping(flow, number, Token::NONE);
            self.sim.run_for(ms(10));
        }
        self.sim.run_for(ms(60_000));
    }

    fn ping(&mut self, flow: Flow, number: u32, token: Token) {
        let end = if flow.transport == Transport::Tcp { "\n" } else { "" };
        self.send(flow, token, format!("ping {number}{end}").as_bytes());
    }

    fn send(&mut self, flow: Flow, token: Token, bytes: &[u8]) {
        let sent = self.sim.call(self.client, 0, |_: &mut Hosted<Pinger>, _, effects| {
            effects.out.send(flow, token, bytes);
        });
        assert_eq!(sent, Some(()));
    }

    fn give_up(&mut self, flow: Flow, token: Token) {
        let called = self.sim.call(self.client, 0, |_: &mut Hosted<Pinger>, _, effects| {
            effects.out.give_up_dial(flow, token);
        });
        assert_eq!(called, Some(()));
    }

    /// Numbers of the pings that the server received.
    fn received_pings(&self) -> Vec<u32> {
        numbers(&self.server_log)
    }

    /// Numbers of the pongs that the client received.
    fn pongs(&self) -> Vec<u32> {
        numbers(&self.client_log)
    }
}

fn numbers(log: &Log) -> Vec<u32> {
    let entries = log.borrow();
    entries
        .iter()
        .filter_map(|entry| if let Entry::Number(number) = entry { Some(*number) } else { None })
        .collect()
}

#[derive(Debug, PartialEq)]
enum Entry {
    Number(u32),
    Event(Event),
}

type Log = Rc<RefCell<Vec<Entry>>>;

struct Pinger {
    log: Log,
    pace: Option<(Instant, Duration, u32, Flow)>,
    stuck: Option<Instant>,
    wakes: usize,
    asked: Option<Flow>,
}

impl Pinger {
    fn host(shards: u16, log: &Log) -> Box<dyn SimNode> {
        let shard = |_| Self { log: Rc::clone(log), pace: None, stuck: None, wakes: 0, asked: None };
        Box::new(Hosted::new((0..shards).map(shard).collect(), |_, query, effects| {
            effects.events.push((ms(500), Event::Resolved { query, servers: LocatedServers::NONE }));
        }))
    }

    fn pace(&mut self, now: Instant, every: Duration, count: u32, flow: Flow) {
        self.pace = Some((now + every, every, count, flow));
    }
}

impl Node for Pinger {
    type Action = u64;
    type Framer = Lines;

    fn shard_of(_: &ringway_sansio::ShardKey, bytes: &[u8], shards: u16) -> u16 {
        u16::from(bytes.last().copied().unwrap_or_default()) % shards
    }

    fn on_message(&mut self, cx: &mut Context<'_, u64>, received: Received<'_>) {
        let text = std::str::from_utf8(received.bytes).unwrap();
        let (word, number) = text.split_once(' ').unwrap();
        let number: u32 = number.parse().unwrap();
        match word {
            "ping" => {
                let end = if received.flow.connection.is_some() { "\n" } else { "" };
                cx.out.send(received.flow, Token::NONE, format!("pong {number}{end}").as_bytes());
            }
            "action" => {
                self.asked = Some(received.flow);
                cx.actions.push(number.into());
            }
            _ => {}
        }
        self.log.borrow_mut().push(Entry::Number(number));
    }

    fn on_event(&mut self, cx: &mut Context<'_, u64>, event: Event) {
        if let (Event::Resolved { query, .. }, Some(flow)) = (&event, self.asked) {
            cx.out.send(flow, Token::NONE, format!("granted {query}").as_bytes());
        }
        self.log.borrow_mut().push(Entry::Event(event));
    }

    fn on_timeout(&mut self, cx: &mut Context<'_, u64>) {
        self.wakes += 1;
        if let Some((at, every, left, flow)) = self.pace.filter(|pace| pace.0 <= cx.now) {
            cx.out.send(flow, Token::NONE, b"ping 0");
            self.pace = Some((at + every, every, left - 1, flow)).filter(|_| left > 1);
        }
    }

    fn next_deadline(&self) -> Option<Deadline> {
        let at = self.stuck.or(self.pace.map(|pace| pace.0))?;
        Some(Deadline { at, reason: "the next ping" })
    }
}

/// Framer with one message a line; `BAD` ends the stream; `?` is a keep-alive.
struct Lines {
    bytes: Vec<u8>,
    line: Vec<u8>,
    pongs: usize,
}

impl Framer for Lines {
    fn new(_: usize) -> Self {
        Self { bytes: Vec::new(), line: Vec::new(), pongs: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn next_frame(&mut self) -> Result<Option<&[u8]>, FramingError> {
        while let Some(at) = self.bytes.iter().position(|&byte| byte == b'\n') {
            self.line = self.bytes.drain(..=at).take(at).collect();
            match self.line.as_slice() {
                b"BAD" => return Err(FramingError("bad")),
                b"?" => self.pongs += 1,
                b"!" => {}
                _ => return Ok(Some(&self.line)),
            }
        }
        Ok(None)
    }

    fn pongs(&mut self) -> usize {
        std::mem::take(&mut self.pongs)
    }

    const PONG: &'static [u8] = b"!\n";

    fn is_partial(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Machine of another type than the hosts'.
struct Other;

impl Node for Other {
    type Action = ();
    type Framer = Lines;

    fn shard_of(_: &ringway_sansio::ShardKey, _: &[u8], _: u16) -> u16 {
        0
    }

    fn on_message(&mut self, _: &mut Context<'_, ()>, _: Received<'_>) {}

    fn on_event(&mut self, _: &mut Context<'_, ()>, _: Event) {}

    fn on_timeout(&mut self, _: &mut Context<'_, ()>) {}

    fn next_deadline(&self) -> Option<Deadline> {
        None
    }
}

fn udp_flow() -> Flow {
    Flow::udp(ListenerId(0), address(SERVER))
}

fn tcp_flow() -> Flow {
    Flow::dial(ListenerId(1), address(SERVER))
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

const SERVER: &str = "10.0.0.1:5";
const SERVER_SHARDS: u16 = 3;
const BEGIN: Instant = Instant::from_secs(1_700_000_000);
