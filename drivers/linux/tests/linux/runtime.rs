//! The runtime without its sockets. Tested: packets held for the store, sleeping workers, events and calls of other
//! threads, errors at start, stopping with and without grace, a node that panics.

use crate::node;
use crate::node::{Ledger, Talker, address, client, events, receive, start, start_with};
use ringway_linux::{Bound, Config, MarkedPackets, NoActions, Runtime, StartError};
use ringway_sansio::{Event, Flow, ListenerId, LocatedServers, Token};
use ringway_test_support::eventually::wait_until;
use ringway_test_support::programs::run_alone;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[test]
fn with_strict_durability_only_confirming_responses_are_held() {
    let sink = Arc::new(Ledger::default());
    let config = Config { marked_packets: MarkedPackets::HoldUntilStored, ..Config::default() };
    let runtime = start_with(&["udp:127.0.0.1:0"], 2, 4, config, Arc::clone(&sink));
    let (patient, other) = (client(address(&runtime, 0)), client(address(&runtime, 0)));
    patient.send(b"2 store alice").unwrap();
    wait_until("the action", || *sink.entries.lock().unwrap() == [(2, "alice".to_owned())]);
    other.send(b"0 echo").unwrap();
    assert_eq!(receive(&other), "0 echo");
    wait_until("the packet is held", || runtime.counts().held == 1);
    patient.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(patient.recv(&mut [0; 64]).is_err(), "nothing is stored yet");

    patient.set_read_timeout(Some(node::PATIENCE)).unwrap();
    sink.stored.store(1, Ordering::SeqCst);
    runtime.inboxes().wake();
    assert_eq!(receive(&patient), "stored\n");
    wait_until("nothing is held", || runtime.counts().held == 0);
}

#[test]
fn what_confirms_a_refused_change_becomes_its_refusal() {
    let sink = Arc::new(Ledger::default());
    let config = Config { marked_packets: MarkedPackets::HoldUntilStored, ..Config::default() };
    let runtime = start_with(&["udp:127.0.0.1:0"], 1, 1, config, Arc::clone(&sink));
    let (one, other) = (client(address(&runtime, 0)), client(address(&runtime, 0)));
    one.send(b"0 store 7").unwrap();
    wait_until("the packet is held", || runtime.counts().held == 1);
    other.send(b"0 store 8").unwrap();
    wait_until("both packets are held", || runtime.counts().held == 2);
    sink.refused.store(7, Ordering::SeqCst);
    sink.stored.store(2, Ordering::SeqCst);
    runtime.inboxes().wake();
    assert_eq!((receive(&one), receive(&other)), ("not stored\n".into(), "stored\n".into()));
    // Its retransmission, when nothing more is to be stored.
    sink.stored.store(9, Ordering::SeqCst);
    one.send(b"0 store 7").unwrap();
    assert_eq!(receive(&one), "not stored\n");
}

#[test]
fn waking_the_inboxes_releases_held_packets_at_once() {
    let sink = Arc::new(Ledger::default());
    let config = Config { marked_packets: MarkedPackets::HoldUntilStored, ..Config::default() };
    let runtime = start_with(&["udp:127.0.0.1:0"], 1, 1, config, Arc::clone(&sink));
    let socket = client(address(&runtime, 0));
    // Without a wake-up a worker checks held packets every 250 ms. The median is used, because a thread may not have been
    // scheduled.
    let mut waits: Vec<_> = (1..=9)
        .map(|number| {
            socket.send(b"0 store alice").unwrap();
            wait_until("the packet is held", || runtime.counts().held == 1);
            sink.stored.store(number, Ordering::SeqCst);
            let woken = Instant::now();
            runtime.inboxes().wake();
            assert_eq!(receive(&socket), "stored\n");
            wait_until("nothing is held", || runtime.counts().held == 0);
            woken.elapsed()
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[4] < Duration::from_millis(60), "{waits:?}");
}

/// Times that the threads of this process whose names begin with `prefix` went to sleep.
fn sleeps_of(prefix: &str) -> u64 {
    let mut sleeps = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if field("Name:").is_some_and(|name| name.starts_with(prefix)) {
            sleeps += field("voluntary_ctxt_switches:").map_or(0, |number| number.parse::<u64>().unwrap());
        }
    }
    sleeps
}

/// Runs in a process of its own: the threads of other tests have the same names.
#[test]
#[ignore = "run by the test below"]
fn idle_workers_sleep() {
    let runtime = start(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"], 2, 16, Config::default());
    let socket = client(address(&runtime, 0));
    for shard in 0..16 {
        socket.send(format!("{shard} echo").as_bytes()).unwrap();
        assert_eq!(receive(&socket), format!("{shard} echo"));
    }
    std::thread::sleep(Duration::from_millis(300));
    let before = sleeps_of("worker-");
    std::thread::sleep(Duration::from_secs(2));
    let sleeps = sleeps_of("worker-") - before;
    assert!(before > 0 && sleeps <= 2, "two idle workers went to sleep {sleeps} times");
    socket.send(b"1 timer 100").unwrap();
    assert_eq!(receive(&socket), "fired\n");
}

#[test]
fn idle_workers_do_not_wake_up() {
    run_alone("runtime::idle_workers_sleep");
}

#[test]
fn with_relaxed_durability_nothing_is_held() {
    let runtime = start(&["udp:127.0.0.1:0"], 1, 1, Config::default());
    let socket = client(address(&runtime, 0));
    socket.send(b"0 store alice").unwrap();
    assert_eq!(receive(&socket), "stored\n");
}

#[test]
fn actions_of_a_node_are_executed_in_order_on_any_worker() {
    let sink = Arc::new(Ledger::default());
    let runtime = start_with(&["udp:127.0.0.1:0"], 2, 2, Config::default(), Arc::clone(&sink));
    let server = address(&runtime, 0);
    let threads: Vec<_> = (0..6)
        .map(|number| {
            std::thread::spawn(move || {
                let socket = client(server);
                for turn in 0..300 {
                    socket.send(format!("1 store {number}.{turn}").as_bytes()).unwrap();
                    assert_eq!(receive(&socket), "stored\n");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let received = runtime.shards().with_shard(1, |node| node.received.clone()).unwrap();
    let entries = sink.entries.lock().unwrap();
    assert_eq!(entries.len(), 1800);
    assert!(entries.iter().zip(&received).all(|((shard, entry), text)| *shard == 1 && text.ends_with(entry)));
}

#[test]
fn events_of_other_threads_reach_their_shard() {
    let runtime = start(&["udp:127.0.0.1:0"], 2, 5, Config::default());
    let inboxes = runtime.inboxes();
    for shard in 0..5 {
        let event = Event::Resolved { query: u64::from(shard), servers: LocatedServers::NONE };
        assert!(inboxes.deliver(shard, event.clone()));
        wait_until("the event", || events(&runtime, shard) == [event.clone()]);
    }
}

#[test]
fn invalid_numbers_of_shards_are_refused() {
    let bound = Bound::bind(&["udp:127.0.0.1:0".parse().unwrap()], 1).unwrap();
    let result = Runtime::<Talker>::start(bound, Config::default(), Vec::new(), Arc::new(NoActions));
    assert!(matches!(result.err(), Some(StartError::Shards(0))));
}

/// Maximum duration of a stop: much longer than the pending work takes.
const GRACE: Duration = Duration::from_secs(10);

#[test]
fn stopping_waits_for_pending_work_and_refuses_connections() {
    let runtime = start(&["udp:127.0.0.1:0", "tcp:127.0.0.1:0"], 2, 2, Config::default());
    let (datagrams, streams) = (address(&runtime, 0), address(&runtime, 1));
    let listeners = runtime.listeners().to_vec();
    let socket = client(datagrams);
    socket.send(b"1 timer 300").unwrap();
    socket.send(b"1 echo").unwrap();
    assert_eq!(receive(&socket), "1 echo");
    let start = Instant::now();
    let stopping = std::thread::spawn(move || runtime.stop(GRACE, Talker::is_idle));
    wait_until("connections are refused", || TcpStream::connect(streams).is_err());
    socket.send(b"0 echo still").unwrap();
    assert_eq!(receive(&socket), "0 echo still");
    assert_eq!(receive(&socket), "fired\n");
    assert!(stopping.join().unwrap(), "nothing was left undone");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(250) && took < GRACE, "{took:?}");
    wait_until("the addresses are free again", || Bound::bind(&listeners, 1).is_ok());
}

#[test]
fn the_grace_period_ends() {
    let runtime = start(&["udp:127.0.0.1:0"], 1, 1, Config::default());
    let socket = client(address(&runtime, 0));
    socket.send(b"0 timer 60000").unwrap();
    wait_until("the timer is armed", || runtime.shards().with_shard(0, |node| !node.is_idle()) == Some(true));
    let start = Instant::now();
    assert!(!runtime.stop(Duration::from_millis(100), Talker::is_idle));
    assert!(start.elapsed() < Duration::from_secs(30), "it did not wait for the timer");
}

#[test]
fn a_call_of_another_thread_sends_packets_and_requests_actions() {
    let sink = Arc::new(Ledger::default());
    let runtime = start_with(&["udp:127.0.0.1:0"], 2, 4, Config::default(), Arc::clone(&sink));
    let socket = client(address(&runtime, 0));
    let (shards, to) = (runtime.shards(), socket.local_addr().unwrap());
    for shard in 0..4_u16 {
        let said = shards.call(shard, move |node, cx| {
            assert!(cx.now > ringway_sansio::Instant::default());
            cx.out.send(Flow::udp(ListenerId(0), to), Token::NONE, format!("from {shard}").as_bytes());
            cx.actions.push(format!("action of {shard}"));
            node.shard
        });
        assert_eq!(said, Some(shard));
        assert_eq!(receive(&socket), format!("from {shard}"));
    }
    wait_until("the actions", || sink.entries.lock().unwrap().len() == 4);
    assert_eq!(shards.call(4, |_, _| ()), None, "there is no such shard");
    drop(runtime);
    assert_eq!(shards.call(0, |_, _| ()), None, "the runtime has ended");
}

#[test]
fn a_panic_of_a_node_is_reported() {
    let runtime = start(&["udp:127.0.0.1:0"], 1, 1, Config::default());
    assert!(!runtime.has_failed());
    client(address(&runtime, 0)).send(b"0 panic").unwrap();
    wait_until("the failure", || runtime.has_failed());
}
