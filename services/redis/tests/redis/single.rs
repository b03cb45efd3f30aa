//! One server: records, nodes, lookups and faults.

use crate::common::*;
use ringway_test_support::programs::has;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn url(server: &RedisServer) -> String {
    format!("redis://{}", server.host())
}

#[test]
fn nodes_see_the_registrations_of_each_other() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen_a) = start_warm("a", &url(&server));
    assert_eq!(a.append(b"sip:early@x", &binding("a", 1, 1, "early")), 1);
    wait_for(|| a.durable() == 1);
    let (b, seen_b) = start_warm("b", &url(&server));
    assert_eq!(seen_b.bodies("sip:early@x").unwrap(), ["early"], "read before it was warm");
    a.append(b"sip:alice@x", &binding("a", 1, 1, "at a"));
    b.append(b"sip:alice@x", &binding("b", 2, 1, "at b"));
    for seen in [&seen_a, &seen_b] {
        wait_for(|| seen.bodies("sip:alice@x").is_some_and(|bodies| bodies == ["at a", "at b"]));
    }
    // The phone moves.
    b.append(b"sip:alice@x", &binding("b", 1, 2, "moved"));
    for seen in [&seen_a, &seen_b] {
        wait_for(|| seen.bodies("sip:alice@x").unwrap() == ["moved"]);
    }
    b.append(b"sip:alice@x", &nothing("b", None));
    wait_for(|| seen_a.bodies("sip:alice@x").unwrap().is_empty());
    assert_eq!(seen_a.0.lock().unwrap().durable, a.durable());
    let status = a.status();
    assert_eq!((status.kind, status.written, status.waiting, status.refused), (Kind::Single, 2, 0, 0));
    assert!(status.is_warm && status.connected_for.is_some() && status.last_error.is_none(), "{status:?}");
    assert!(seen_a.0.lock().unwrap().now_ms > 1_600_000_000_000);
    assert_eq!(server.run(&["EXISTS", "rw:{00}:b:sip:alice@x"]), "0");
}

#[test]
fn a_node_that_does_not_hold_all_reads_what_is_looked_up() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, _) = start_warm("a", &url(&server));
    a.append(b"sip:early@x", &binding("a", 1, 1, "early"));
    wait_for(|| a.durable() == 1);
    let (b, seen) = start(Settings { holds_all: false, ..settings("b", &url(&server)) });
    wait_for(|| b.status().is_warm && b.status().connected_for.is_some());
    wait_for(|| b.look_up(1, b"sip:early@x"));
    wait_for(|| seen.is_located(1) && seen.bodies("sip:early@x").is_some());
    // The stream is followed all the same, and nothing is read after a loss.
    server.run(&["FLUSHALL"]);
    wait_for(|| seen.has(|event| matches!(event, Event::Behind { .. })));
    a.append(b"sip:late@x", &binding("a", 1, 1, "late"));
    wait_for(|| seen.bodies("sip:late@x").is_some());
    let status = b.status();
    assert!((1..=2).contains(&status.read) && status.is_warm, "{status:?}");
    assert!(!seen.has(|event| matches!(event, Event::Warm { .. })));
}

#[test]
fn nodes_come_drain_and_go() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    let (b, _) = start_warm("b", &url(&server));
    wait_for(|| seen.state("b") == Some(NodeState::Up));
    assert!(seen.has(|event| *event == Event::NodeUp(node("b"))));
    b.set_draining(true);
    wait_for(|| seen.state("b") == Some(NodeState::Draining));
    assert_eq!(a.status().nodes, 1);
    b.stop();
    wait_for(|| seen.state("b") == Some(NodeState::Gone));
    assert!(seen.has(|event| *event == Event::NodeGone(node("b"))));
}

#[test]
fn the_name_of_a_node_that_runs_is_taken() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    // The clock of the second one's machine may be behind.
    for incarnation in [8, 6] {
        let (first, seen) = start_warm("b", &url(&server));
        let (second, seen_by_second) = start(Settings { incarnation, ..settings("b", &url(&server)) });
        wait_for(|| seen_by_second.has(|event| *event == Event::NameTaken { incarnation: 7 }));
        assert!(second.is_name_taken() && !second.has_name() && !second.status().is_warm);
        assert!(first.has_name() && !seen.has(|event| matches!(event, Event::NameTaken { .. })));
        first.stop();
        wait_for(|| seen_by_second.has(|event| *event == Event::NameFree) && second.has_name());
        wait_for(|| second.status().is_warm);
        second.stop();
    }
}

#[test]
fn a_node_that_was_killed_has_its_name_again_at_once() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    // Heartbeats that end: a killed process removes none.
    let (first, _) = start(settings("b", &url(&server)));
    wait_for(|| seen.state("b") == Some(NodeState::Up));
    let left = server.run(&["HGET", "rw:{00}:nodes", "b"]);
    first.stop();
    let (words, _) = left.rsplit_once(' ').unwrap();
    let now = server.run(&["EVAL", "return redis.call('TIME')[1]", "0"]) + "999";
    server.run(&["HSET", "rw:{00}:nodes", "b", &format!("{words} {now}")]);
    let begun = Instant::now();
    let (again, seen_again) = start(Settings { incarnation: 8, ..settings("b", &url(&server)) });
    wait_for(|| seen.0.lock().unwrap().nodes.iter().any(|node| node.incarnation == 8));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(!again.is_name_taken() && !seen_again.has(|event| matches!(event, Event::NameTaken { .. })));
    drop(a);
}

#[test]
fn a_store_that_takes_no_writes_makes_no_node_gone() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    let (_b, seen_b) = start_warm("b", &url(&server));
    wait_for(|| seen.state("b") == Some(NodeState::Up) && seen_b.state("a") == Some(NodeState::Up));
    // Times arrive without a change, too.
    let first = seen.last_seen("b");
    wait_for(|| seen.last_seen("b") > first);
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    wait_for(|| a.failed());
    std::thread::sleep(Duration::from_secs(8));
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_for(|| !a.failed());
    let is_gone = |event: &Event| matches!(event, Event::NodeGone(_));
    assert!(!seen.has(is_gone) && !seen_b.has(is_gone));
    assert_eq!(seen.state("b"), Some(NodeState::Up));
}

#[test]
fn heartbeats_of_the_future_are_removed() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (_a, seen) = start_warm("a", &url(&server));
    let (_b, _) = start_warm("b", &url(&server));
    wait_for(|| seen.state("b") == Some(NodeState::Up));
    let recent = server.run(&["HGET", "rw:{00}:nodes", "b"]);
    let recent = recent.rsplit(' ').next().unwrap().to_owned();
    for number in 0..70 {
        for (name, time) in [("f", "4611686018427387904"), ("g", recent.as_str())] {
            let text = format!("1 1 5 127.0.0.1:45199 up {time}");
            server.run(&["HSET", "rw:{00}:nodes", &format!("{name}{number}"), &text]);
        }
    }
    wait_for(|| server.run(&["HEXISTS", "rw:{00}:nodes", "f69"]) == "0");
    wait_for(|| seen.0.lock().unwrap().nodes.len() == 63);
    let nodes = seen.0.lock().unwrap().nodes.clone();
    assert!(!nodes.iter().any(|node| node.name.as_str().starts_with('f')));
    assert_eq!(seen.state("b"), Some(NodeState::Up));
    assert!(!seen.has(|event| *event == Event::NodeGone(node("b"))));
}

#[test]
fn lookups_are_answered_or_end_in_time() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
    wait_for(|| seen.bodies("sip:alice@x").is_some());
    seen.0.lock().unwrap().records.clear();
    assert!(a.look_up(1, b"sip:alice@x") && a.look_up(2, b"sip:nobody@x"));
    wait_for(|| seen.is_located(1) && seen.is_located(2));
    assert_eq!(seen.bodies("sip:alice@x").unwrap(), ["body"]);
    let number = |seen: &Memory| {
        Record::read(&seen.0.lock().unwrap().records[b"sip:alice@x".as_slice()]).unwrap().number
    };
    assert_eq!(number(&seen), 1, "it answers the update, if the stream was not read so far");
    let (b, seen_b) = start_warm("b", &url(&server));
    assert!(b.look_up(1, b"sip:alice@x"));
    wait_for(|| seen_b.is_located(1));
    assert_eq!(number(&seen_b), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| server.pause(MOMENT * 2));
        std::thread::sleep(MOMENT / 3);
        let begun = (0..1_000).filter(|query| a.look_up(1_000 + query, b"sip:alice@x")).count();
        assert!(begun <= 256);
        wait_for(|| seen.0.lock().unwrap().located.len() == 2 + begun);
    });
    a.look_up(3, b"sip:alice@x");
    wait_for(|| seen.is_located(3));
    assert!(a.status().lookups_failed > 700);
}

#[test]
fn an_update_is_answered_though_a_lookup_read_a_newer_one_of_another_node() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    let (b, _) = start_warm("b", &url(&server));
    let count = seen.0.lock().unwrap().count;
    // The reader of `a` waits with an entry, while its update, one of `b` and a lookup follow.
    let gate = seen.1.lock().unwrap();
    b.append(b"sip:gate@x", &binding("b", 1, 1, "gate"));
    wait_for(|| seen.0.lock().unwrap().count > count);
    a.append(b"sip:alice@x", &binding("a", 1, 1, "at a"));
    wait_for(|| a.durable() == 1);
    b.append(b"sip:alice@x", &binding("b", 2, 1, "at b"));
    wait_for(|| b.durable() == 2);
    assert!(a.look_up(1, b"sip:alice@x"));
    drop(gate);
    let answer = (b"sip:alice@x".to_vec(), node("a"), 1);
    wait_for(|| seen.0.lock().unwrap().answers.contains(&answer));
    wait_for(|| seen.bodies("sip:alice@x").is_some_and(|bodies| bodies == ["at a", "at b"]));
}

#[test]
fn the_stream_has_the_heads_of_long_records() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    let (b, seen_b) = start_warm("b", &url(&server));
    let long = "x".repeat(15_000);
    for cseq in 1..=20 {
        a.append(b"sip:alice@x", &binding("a", 1, cseq, &long));
        wait_for(|| a.durable() == u64::from(cseq));
    }
    wait_for(|| seen_b.bodies("sip:alice@x").is_some_and(|bodies| bodies == [long.as_str()]));
    wait_for(|| seen.0.lock().unwrap().taken.contains(&(b"sip:alice@x".to_vec(), 20)));
    assert!(seen.bodies("sip:alice@x").is_none(), "a node does not read what it wrote");
    // One that holds whom it serves gets the bindings of the others so.
    let (c, seen_c) = start(Settings { holds_all: false, ..settings("c", &url(&server)) });
    wait_for(|| c.status().is_warm && c.status().connected_for.is_some());
    c.append(b"sip:alice@x", &binding("c", 2, 1, "at c"));
    wait_for(|| seen_c.bodies("sip:alice@x").is_some_and(|bodies| bodies == ["at c", long.as_str()]));
    c.append(b"sip:alice@x", &nothing("c", None));
    wait_for(|| seen_c.bodies("sip:alice@x").is_some_and(|bodies| bodies == [long.as_str()]));
    // One that was not taken as it is.
    b.append(b"sip:alice@x", &binding("b", 1, 5, "older"));
    wait_for(|| seen_b.0.lock().unwrap().answers.contains(&(b"sip:alice@x".to_vec(), node("b"), 1)));
    assert_eq!(seen_b.bodies("sip:alice@x").unwrap(), [long.as_str()]);
    // And one that made the record short.
    a.append(b"sip:alice@x", &nothing("a", None));
    wait_for(|| seen_b.bodies("sip:alice@x").unwrap().is_empty());
    let bytes: u64 = (0..64)
        .filter_map(|tag| {
            server.run(&["MEMORY", "USAGE", &format!("rw:{{{tag:02}}}:log")]).parse::<u64>().ok()
        })
        .sum();
    assert!(bytes < 20_000, "{bytes} bytes of the streams");
}

#[test]
fn updates_before_the_stream_is_followed_are_appended_again() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let mut server = RedisServer::start(&[]);
    server.kill();
    let (a, seen) = start(settings("a", &url(&server)));
    a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
    server.start_again().unwrap();
    wait_for(|| seen.has(|event| *event == Event::Unanswered));
    let (_b, seen) = start_warm("b", &url(&server));
    assert!(!seen.has(|event| *event == Event::Unanswered), "it has no updates");
}

#[test]
fn what_waited_during_an_outage_is_written_after_it() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let mut server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    a.append(b"sip:old@x", &binding("a", 1, 1, "old"));
    wait_for(|| a.durable() == 1);
    server.kill();
    wait_for(|| a.failed() && seen.has(|event| matches!(event, Event::Down { .. })));
    assert!(!a.look_up(1, b"sip:old@x"));
    for number in 0..500_u32 {
        let aor = format!("sip:{}@x", number % 100);
        a.append(aor.as_bytes(), &binding("a", 1, number, &number.to_string()));
    }
    assert_eq!((a.durable(), a.status().waiting, a.status().replaced), (1, 100, 400));
    server.start_again().unwrap();
    wait_for(|| a.durable() == 501 && !a.failed());
    wait_for(|| seen.bodies("sip:99@x").is_some_and(|bodies| bodies == ["499"]));
    wait_for(|| seen.has(|event| *event == Event::Rewrite));
    assert_eq!(seen.count(|event| matches!(event, Event::Down { .. })), 1);
    wait_for(|| seen.count(|event| matches!(event, Event::Up { .. })) == 2);
    wait_for(|| seen.count(|event| matches!(event, Event::Warm { .. })) == 2);
}

#[test]
fn a_paused_store_is_connected_again() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    let (_b, seen_b) = start_warm("b", &url(&server));
    wait_for(|| seen.state("b") == Some(NodeState::Up));
    std::thread::scope(|scope| {
        let paused = scope.spawn(|| server.pause(Duration::from_secs(5)));
        a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
        wait_for(|| seen.has(|event| matches!(event, Event::Down { .. })));
        assert!(a.failed());
        paused.join().unwrap();
    });
    wait_for(|| a.durable() == 1 && !a.failed());
    wait_for(|| seen_b.bodies("sip:alice@x").is_some());
    assert!(!seen.has(|event| *event == Event::Rewrite), "nothing was lost");
    assert!(!seen.has(|event| *event == Event::NodeGone(node("b"))));
}

#[test]
fn connections_that_are_killed_and_scripts_that_are_flushed_come_back() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    for round in 1..4 {
        server.run(&["SCRIPT", "FLUSH"]);
        server.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        a.append(b"sip:alice@x", &binding("a", 1, round, &round.to_string()));
        wait_for(|| seen.bodies("sip:alice@x").is_some_and(|bodies| bodies == [round.to_string()]));
    }
    server.run(&["SCRIPT", "FLUSH"]);
    a.append(b"sip:alice@x", &binding("a", 1, 4, "4"));
    wait_for(|| seen.bodies("sip:alice@x").unwrap() == ["4"]);
    wait_for(|| a.status().connected_for.is_some() && a.durable() == 4);
    assert!(!seen.has(|event| *event == Event::Rewrite));
}

#[test]
fn lost_data_is_found_and_written_again() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    let (_b, seen_b) = start_warm("b", &url(&server));
    a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
    wait_for(|| seen_b.bodies("sip:alice@x").is_some());
    seen.forget();
    server.run(&["FLUSHALL"]);
    wait_for(|| seen.has(|event| *event == Event::Rewrite) && seen_b.has(|event| *event == Event::Rewrite));
    wait_for(|| seen.has(|event| matches!(event, Event::Warm { .. })));
    seen_b.0.lock().unwrap().records.clear();
    a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
    wait_for(|| seen_b.bodies("sip:alice@x").is_some());
    std::thread::sleep(MOMENT * 5);
    assert_eq!(seen.count(|event| *event == Event::Rewrite), 1, "reported once");
    wait_for(|| seen.has(|event| matches!(event, Event::Walked { is_loss: true, .. })));
    assert!(!seen.has(|event| matches!(event, Event::Walked { is_loss: false, .. })));
}

#[test]
fn a_loss_is_not_forgotten_if_the_store_takes_no_writes_at_first() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let mut server = RedisServer::start(&["--min-replicas-to-write", "1"]);
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    let (a, seen) = start_warm("a", &url(&server));
    a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
    wait_for(|| a.durable() == 1);
    // A master that was promoted has the marks, may lack the last updates, and has no replica yet.
    server.run(&["SAVE"]);
    server.kill();
    wait_for(|| a.failed());
    seen.forget();
    server.start_again().unwrap();
    wait_for(|| a.status().last_error.is_some_and(|error| error.contains("NOREPLICAS")));
    server.run(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    wait_for(|| seen.has(|event| *event == Event::Rewrite));
}

#[test]
fn others_see_that_a_node_writes_its_registrations_again() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let (a, _seen_a) = start_warm("a", &url(&server));
    let (_b, seen_b) = start_warm("b", &url(&server));
    let writes_again = || {
        let seen = seen_b.0.lock().unwrap();
        seen.nodes.iter().find(|node| node.name.as_str() == "a").map(|node| node.writes_again)
    };
    wait_for(|| writes_again() == Some(false));
    server.run(&["FLUSHALL"]);
    wait_for(|| writes_again() == Some(true));
    a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
    std::thread::sleep(MOMENT * 5);
    assert_eq!(writes_again(), Some(true), "more follow");
    a.set_appending_again(false);
    wait_for(|| writes_again() == Some(false) && seen_b.bodies("sip:alice@x").is_some());
}

#[test]
fn a_trimmed_stream_is_made_up_for_by_reading_all() {
    if !has("redis-server", "redis-server") {
        return;
    }
    all_is_read_after(&["XTRIM {log} MAXLEN 0", "XADD {log} * x y"]);
}

#[test]
fn a_stream_that_lost_all_entries_is_made_up_for_by_reading_all() {
    if !has("redis-server", "redis-server") {
        return;
    }
    all_is_read_after(&["XADD {log} * x y", "XTRIM {log} MAXLEN 0"]);
}

fn all_is_read_after(commands: &[&str]) {
    let server = RedisServer::start(&[]);
    let (a, seen) = start_warm("a", &url(&server));
    let (b, seen_b) = start_warm("b", &url(&server));
    a.append(b"sip:alice@x", &binding("a", 1, 1, "one"));
    wait_for(|| seen_b.bodies("sip:alice@x").is_some());
    b.stop();
    a.append(b"sip:alice@x", &binding("a", 1, 2, "two"));
    wait_for(|| a.durable() == 2);
    let tag = (0..64)
        .find(|tag| server.run(&["EXISTS", &format!("rw:{{{tag:02}}}:b:sip:alice@x")]) == "1")
        .unwrap();
    let log = format!("rw:{{{tag:02}}}:log");
    assert_eq!(server.run(&["XLEN", &log]), "2");
    // While `a` has no connection. What waits for the paused server is done before a new connection is.
    seen.0.lock().unwrap().records.clear();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| server.pause(Duration::from_secs(4)));
        wait_for(|| seen.has(|event| matches!(event, Event::Down { .. })));
        for command in commands {
            stream.write_all(format!("{}\r\n", command.replace("{log}", &log)).as_bytes()).unwrap();
        }
    });
    wait_for(|| seen.has(|event| matches!(event, Event::Behind { tags: 1 })));
    wait_for(|| seen.bodies("sip:alice@x").is_some_and(|bodies| bodies == ["two"]));
    wait_for(|| seen.count(|event| matches!(event, Event::Warm { .. })) == 2);
    // Bindings of this tag that its records did not confirm are dropped then, and no others.
    let walk = seen.0.lock().unwrap().walk;
    let is_walked = |event: &Event| match event {
        Event::Walked { walks, .. } => (0..64).all(|other| (walks[other] == walk) == (other == tag)),
        _ => false,
    };
    wait_for(|| seen.has(is_walked));
}

#[test]
fn a_refused_update_is_reported_with_its_user() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    for tag in 0..64 {
        let key = format!("rw:{{{tag:02}}}:b:sip:alice@x");
        server.run(&["SET", &key, "\u{2} of a later server", "EX", "600"]);
    }
    let (a, seen) = start_warm("a", &url(&server));
    a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
    let is_named = |event: &Event| match event {
        Event::Refused { reason } => {
            reason.starts_with("sip:alice@x: ") && reason.contains("version of the record")
        }
        _ => false,
    };
    wait_for(|| seen.has(is_named));
    assert_eq!(a.status().refused, 1);
}

#[test]
fn whatever_is_in_the_store_the_node_goes_on() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let long = "x".repeat(100_000);
    for tag in 0..8 {
        let key = |end: &str| format!("rw:{{{tag:02}}}:{end}");
        server.run(&["SET", &key("all"), "no set"]);
        server.run(&["ZADD", &key("all"), "9e15", &long, "9e15", "sip:list@x", "9e15", "sip:bad@x"]);
        server.run(&["LPUSH", &key("b:sip:list@x"), "no string"]);
        server.run(&["SET", &key("b:sip:bad@x"), "no record"]);
        server.run(&["SET", &key("b:sip:long@x"), &long]);
        server.run(&["SET", &key("log"), "no stream"]);
        server.run(&["LPUSH", &key("epoch"), "no mark"]);
    }
    for tag in 8..64 {
        let key = |end: &str| format!("rw:{{{tag:02}}}:{end}");
        server.run(&["ZADD", &key("all"), "9e15", &long, "9e15", "sip:list@x", "9e15", "sip:bad@x"]);
        server.run(&["LPUSH", &key("b:sip:list@x"), "no string"]);
        server.run(&["SET", &key("b:sip:bad@x"), "no record"]);
    }
    server.run(&["HSET", "rw:{00}:nodes", &long, "x", "b", "x", "c", &long, "d", "1 2 3 4"]);
    let (a, seen) = start_warm("a", &url(&server));
    assert!(a.status().damaged >= 56 * 3, "{:?}", a.status());
    for number in 0..64 {
        let aor = format!("sip:{number}@x");
        a.append(aor.as_bytes(), &binding("a", 1, 1, &aor));
    }
    wait_for(|| a.durable() == 64 && a.status().waiting == 0);
    let refused = a.status().refused;
    wait_for(|| seen.0.lock().unwrap().records.len() as u64 + refused == 64);
    for tag in 0..64 {
        let log = format!("rw:{{{tag:02}}}:log");
        server.run(&["XADD", &log, "*", "a", "sip:bad@x", "r", &long]);
        server.run(&["XADD", &log, "*", &long, "x"]);
    }
    let before = a.status().damaged;
    wait_for(|| a.status().damaged >= before.max(64 * 2));
    a.append(b"sip:63@x", &binding("a", 1, 2, "again"));
    wait_for(|| {
        seen.bodies("sip:63@x").is_some_and(|bodies| bodies == ["again"]) || a.status().refused > refused
    });
}

#[test]
fn values_are_written_read_and_end() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let mut server = RedisServer::start(&[]);
    let values = ringway_redis::SharedValues::new(LocationUrl::parse(&url(&server)).unwrap());
    let (life, soon) = (Duration::from_secs(60), Duration::from_millis(50));
    assert_eq!(values.get("one"), Ok(None));
    assert_eq!(values.set("one", &[0, 0xff, b'\r', b'\n'], life), Ok(()));
    assert_eq!(values.get("one"), Ok(Some(vec![0, 0xff, b'\r', b'\n'])));
    assert_eq!(
        (values.set_new("right", b"a", soon), values.set_new("right", b"b", soon)),
        (Ok(true), Ok(false))
    );
    wait_for(|| values.set_new("right", b"b", life) == Ok(true));
    assert_eq!(values.remove("right"), Ok(()));
    assert_eq!(values.get("right"), Ok(None));
    values.set("long", &vec![1; ringway_redis::SharedValues::BYTES_MAX + 1], life).unwrap();
    assert_eq!(values.get("long"), Ok(None));
    // An error ends the connection, and the next call makes another one.
    server.kill();
    assert!(values.get("one").is_err());
    server.start_again().unwrap();
    wait_for(|| values.set("one", b"1", life).is_ok());
    assert_eq!(values.get("one"), Ok(Some(b"1".to_vec())));
}
