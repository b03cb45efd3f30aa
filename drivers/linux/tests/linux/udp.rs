//! Datagrams of the driver. Tested: echo of many flows over several workers and shards, order within a flow under load,
//! both address families, packets that cannot be sent, batches larger than one call, timers. Not tested: loss because
//! of a full buffer.

use crate::node::{address, client, events, receive, start};
use ringway_linux::Config;
use ringway_sansio::{Event, Token};
use ringway_test_support::eventually::wait_until;
use std::time::{Duration, Instant};

#[test]
fn flows_get_their_own_answers_and_spread_over_the_workers() {
    let runtime = start(&["udp:127.0.0.1:0"], 2, 4, Config::default());
    let clients: Vec<_> = (0..60).map(|_| client(address(&runtime, 0))).collect();
    for round in 0..20 {
        for (number, socket) in clients.iter().enumerate() {
            socket.send(format!("{number} echo {round}").as_bytes()).unwrap();
        }
        for (number, socket) in clients.iter().enumerate() {
            assert_eq!(receive(socket), format!("{number} echo {round}"));
        }
    }
    wait_until("the counts", || runtime.counts().datagrams_out == 1200);
    let by_worker: Vec<_> = runtime.counters().by_worker().iter().map(|counts| counts.datagrams_in).collect();
    assert!(by_worker.iter().all(|&count| count > 0), "{by_worker:?}");
    assert_eq!(by_worker.iter().sum::<u64>(), 1200);
    for shard in 0..4 {
        let received = runtime.shards().with_shard(shard, |node| node.received.len());
        assert_eq!(received, Some(300), "messages go to the shard they name");
    }
}

#[test]
fn the_messages_of_a_flow_keep_their_order_under_load() {
    const MESSAGES: usize = 4000;
    const WINDOW: usize = 50;
    let runtime = start(&["udp:127.0.0.1:0"], 2, 8, Config::default());
    let server = address(&runtime, 0);
    let threads: Vec<_> = (0..6)
        .map(|_| {
            std::thread::spawn(move || {
                let socket = client(server);
                for number in 0..MESSAGES + WINDOW {
                    if number < MESSAGES {
                        // Each message belongs to another shard, so that only the driver keeps them in order.
                        socket.send(format!("{number} echo").as_bytes()).unwrap();
                    }
                    if number >= WINDOW {
                        assert_eq!(receive(&socket), format!("{} echo", number - WINDOW));
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn both_families_listen_at_the_same_time() {
    let runtime = start(&["udp:127.0.0.1:0", "udp:[::1]:0"], 2, 2, Config::default());
    for listener in [0, 1] {
        let socket = client(address(&runtime, listener));
        socket.send(b"1 echo").unwrap();
        assert_eq!(receive(&socket), "1 echo");
    }
}

#[test]
fn a_failed_packet_is_reported_to_its_shard_and_stops_no_other() {
    let runtime = start(&["udp:127.0.0.1:0"], 2, 4, Config::default());
    let socket = client(address(&runtime, 0));
    // Broadcast is not permitted, an IPv4 socket cannot send to IPv6, and listener 9 does not exist.
    for (number, target) in ["0 255.255.255.255:9", "0 [::1]:9", "9 127.0.0.1:9"].iter().enumerate() {
        socket.send(format!("3 udp {target} {}", number + 1).as_bytes()).unwrap();
        assert_eq!(receive(&socket), "after\n");
        wait_until("the report", || events(&runtime, 3).len() > number);
    }
    let reported: Vec<_> = (1..=3).map(|number| Event::Unreachable(Token(3 << 48 | number))).collect();
    assert_eq!(events(&runtime, 3), reported);
    assert!((0..3).all(|shard| events(&runtime, shard).is_empty()), "no other shard gets a report");
    assert_eq!((runtime.counts().send_errors, runtime.counts().unreachable), (3, 3));
}

#[test]
fn an_icmp_error_is_reported_to_the_shard_of_its_packet_and_stops_no_other() {
    for listen in ["udp:127.0.0.1:0", "udp:[::1]:0"] {
        let runtime = start(&[listen], 2, 4, Config::default());
        let closed = closed_port(address(&runtime, 0));
        let clients: Vec<_> = (0..8).map(|_| client(address(&runtime, 0))).collect();
        let begun = Instant::now();
        let text = format!("3 closed {closed}");
        for _ in 0..20 {
            for socket in &clients {
                socket.send(text.as_bytes()).unwrap();
                socket.send(b"1 echo").unwrap();
            }
            for socket in &clients {
                let mut both = [receive(socket), receive(socket)];
                both.sort();
                assert_eq!(both, ["1 echo", "after\n"], "a packet to another address was lost");
            }
        }
        let seen = |shard| runtime.shards().with_shard(shard, |node| node.icmp.clone()).unwrap();
        wait_until("the errors", || !seen(3).is_empty());
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert!(seen(3).iter().all(|error| *error == (closed, text.clone())));
        assert!([0, 1, 2].into_iter().all(|shard| seen(shard).is_empty()));
        let counts = runtime.counts();
        assert_eq!((counts.send_errors, counts.unreachable, counts.receive_errors), (0, 0, 0));
        assert!(counts.icmp_errors > 0 && events(&runtime, 3).is_empty());
    }
}

/// Port of `address` that nobody has.
fn closed_port(mut address: std::net::SocketAddr) -> std::net::SocketAddr {
    address.set_port(0);
    std::net::UdpSocket::bind(address).unwrap().local_addr().unwrap()
}

#[test]
fn more_packets_than_one_call_takes_are_all_sent() {
    let runtime = start(&["udp:127.0.0.1:0"], 1, 1, Config::default());
    let socket = client(address(&runtime, 0));
    socket.send(b"0 flood 200 100 0").unwrap();
    assert!((0..200).all(|_| receive(&socket).len() == 101));
}

#[test]
fn timers_fire_in_time_on_any_worker() {
    let runtime = start(&["udp:127.0.0.1:0"], 2, 4, Config::default());
    let clients: Vec<_> = (0..8).map(|_| client(address(&runtime, 0))).collect();
    for round in 0..2 {
        // In the second round the workers sleep when the timer is set.
        std::thread::sleep(Duration::from_millis(50 * round));
        for (number, socket) in clients.iter().enumerate() {
            let armed = Instant::now();
            socket.send(format!("{number} timer 40").as_bytes()).unwrap();
            assert_eq!(receive(socket), "fired\n");
            let late = armed.elapsed();
            assert!(late >= Duration::from_millis(40), "{late:?}");
            assert!(late < Duration::from_secs(4), "{late:?}");
        }
    }
}

#[test]
fn the_kernel_drops_what_a_shard_wants_dropped_until_its_time_is_over() {
    let runtime = start(&["udp:127.0.0.1:0"], 1, 1, Config::default());
    let socket = client(address(&runtime, 0));
    let invite = format!("INVITE sip:bob@example.org SIP/2.0\r\n{:200}", "Via: x");
    let has_invite = || {
        let of_node = runtime.shards().with_shard(0, |node| node.received.contains(&invite));
        of_node.unwrap_or_default()
    };
    let ask = |text: &str, answer: &str| {
        socket.send(text.as_bytes()).unwrap();
        assert_eq!(receive(&socket), answer);
    };
    ask("0 shed 3600000", "shed\n");
    // The filter is set before the next batch is read.
    ask("0 echo", "0 echo");
    socket.send(invite.as_bytes()).unwrap();
    ask("0 echo", "0 echo");
    assert!(!has_invite());
    ask("0 shed 0", "shed\n");
    wait_until("the end of the filter", || {
        socket.send(invite.as_bytes()).unwrap();
        has_invite()
    });
    assert_eq!(runtime.counts().filters_set, 2);
}
