//! Sentinel, Cluster, TLS, users of an ACL, and strict mode.

use crate::common::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use ringway_redis::probe;
use ringway_test_support::programs::has;

/// Commands that a node needs.
const RULES: &str = ">s3cret ~rw:* -@all +info +evalsha +script|load +time +get +set +del +type +zadd +zrem +zscan \
                     +zrangebyscore +pttl +xadd +xtrim +xread +xinfo|stream +hset +hget +hdel +hgetall +hstrlen +wait";

#[test]
fn a_failover_by_sentinel_is_followed() {
    if !has("redis-server", "redis-server") || !has("redis-sentinel", "redis-sentinel") {
        return;
    }
    let mut master = RedisServer::start(&[]);
    let port = master.port().to_string();
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &port]);
    wait_for(|| master.run(&["INFO", "replication"]).contains("state=online"));
    let sentinel = RedisServer::start_sentinel(&master);
    wait_for(|| sentinel.run(&["SENTINEL", "REPLICAS", "mymaster"]).contains(&replica.port().to_string()));
    let url = format!("redis://127.0.0.1:1,{}/mymaster", sentinel.host());
    let (a, seen) = start_warm("a", &url);
    let (_b, seen_b) = start_warm("b", &url);
    assert_eq!(a.status().kind, Kind::Sentinel);
    a.append(b"sip:alice@x", &binding("a", 1, 1, "one"));
    wait_for(|| seen_b.bodies("sip:alice@x").is_some());
    master.kill();
    wait_for(|| seen.has(|event| matches!(event, Event::Down { .. })));
    a.append(b"sip:alice@x", &binding("a", 1, 2, "two"));
    wait_for(|| a.durable() == 2 && seen.has(|event| *event == Event::Rewrite));
    wait_for(|| seen_b.bodies("sip:alice@x").unwrap() == ["two"]);
    assert!(replica.run(&["INFO", "replication"]).contains("role:master"));
    assert!(!seen.has(|event| *event == Event::NodeGone(node("b"))));

    let (_c, seen) = start(settings("c", &format!("redis://{}/other", sentinel.host())));
    let is_named =
        |event: &Event| matches!(event, Event::Down { reason } if reason.contains("no master `other`"));
    wait_for(|| seen.has(is_named));
}

#[test]
fn a_cluster_shares_the_tags() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let mut servers = RedisServer::start_cluster();
    let url = format!("redis://{},{}", servers[1].host(), servers[2].host());
    let (a, _) = start_warm("a", &url);
    let (b, seen_b) = start_warm("b", &url);
    for number in 0..100 {
        a.append(format!("sip:{number}@x").as_bytes(), &binding("a", 1, 1, "body"));
    }
    wait_for(|| a.durable() == 100 && seen_b.0.lock().unwrap().records.len() == 100);
    assert_eq!((a.status().kind, a.status().masters), (Kind::Cluster, 3));
    for server in &servers {
        assert!(server.run(&["DBSIZE"]).parse::<u32>().unwrap() > 40);
    }
    let (_c, seen_c) = start_warm("c", &url);
    assert_eq!(seen_c.0.lock().unwrap().records.len(), 100);
    for number in 0..100 {
        assert!(b.look_up(number, format!("sip:{number}@x").as_bytes()));
    }
    wait_for(|| seen_b.0.lock().unwrap().located.len() == 100);

    // All slots of one master move to another one: MOVED, and nothing is lost.
    let (from, to) = (servers[0].run(&["CLUSTER", "MYID"]), servers[1].run(&["CLUSTER", "MYID"]));
    let (seed, slots) = (servers[0].host(), "5462");
    let moved = servers[0].run(&[
        "--cluster",
        "reshard",
        &seed,
        "--cluster-from",
        &from,
        "--cluster-to",
        &to,
        "--cluster-slots",
        slots,
        "--cluster-yes",
    ]);
    assert!(!moved.contains("ERR"), "{moved}");
    for number in 0..100 {
        a.append(format!("sip:{number}@x").as_bytes(), &binding("a", 1, 2, "moved"));
    }
    let is_moved = |number: u32| seen_b.bodies(&format!("sip:{number}@x")).unwrap() == ["moved"];
    wait_for(|| a.durable() >= 200 && (0..100).all(is_moved));

    // A server without slots may go.
    servers[0].kill();
    a.append(b"sip:last@x", &binding("a", 1, 1, "last"));
    wait_for(|| seen_b.bodies("sip:last@x").is_some());
}

#[test]
fn a_user_of_an_acl_needs_few_commands() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let mut rule = vec!["ACL", "SETUSER", "ring", "on"];
    rule.extend(RULES.split_whitespace());
    assert_eq!(server.run(&rule), "OK");
    server.run(&["ACL", "SETUSER", "default", "off"]);
    let url = format!("redis://ring:s3cret@{}", server.host());
    let (a, seen) = start_warm("a", &url);
    a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
    wait_for(|| seen.bodies("sip:alice@x").is_some());

    let report = probe(&LocationUrl::parse(&url).unwrap()).unwrap();
    assert_eq!((report.kind, report.masters.len()), (Kind::Single, 1));
    let master = &report.masters[0];
    assert!(master.refused.is_empty() && master.version.starts_with("Redis 7."), "{report:?}");
    assert_eq!(master.memory_policy, "noeviction");
    assert_eq!(report.warnings(true).len(), 2, "no replica, no persistence");
    a.append(b"sip:bob@x", &binding("a", 1, 1, "body"));
    wait_for(|| seen.bodies("sip:bob@x").is_some());
    assert_eq!(seen.0.lock().unwrap().records.len(), 2, "a probe makes no record");

    let (b, seen) = start(settings("b", &format!("redis://ring@{}", server.host())));
    let is_refused = |event: &Event| matches!(event, Event::Down { reason } if reason.contains("NOAUTH"));
    wait_for(|| seen.has(is_refused));
    b.set_url(
        LocationUrl::parse(&format!("redis://ring@{}", server.host())).unwrap().with_password("s3cret"),
    );
    wait_for(|| !b.failed());
    let (_c, seen) = start(settings("c", &format!("redis://ring:wrong@{}", server.host())));
    wait_for(|| seen.has(|event| matches!(event, Event::Down { .. })));
    let text = format!("{:?}", seen.0.lock().unwrap().events);
    assert!(text.contains("WRONGPASS") && !text.contains("wrong@"), "{text}");
}

#[test]
fn tls_is_verified() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let (key, mut authority) = (KeyPair::generate().unwrap(), CertificateParams::default());
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "authority");
    let root = authority.self_signed(&key).unwrap();
    let issuer = Issuer::new(authority, key);
    let server_key = KeyPair::generate().unwrap();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&server_key, &issuer).unwrap();
    let server = RedisServer::start_tls(&certificate.pem(), &server_key.serialize_pem(), &root.pem());
    assert_eq!(server.run(&["PING"]), "PONG");
    let url = LocationUrl::parse(&format!("rediss://{}", server.host())).unwrap();
    let good = url.clone().with_authorities(vec![root.der().clone()]);
    let (a, seen) = start(Settings { url: good, ..settings("a", "redis://h") });
    wait_for(|| seen.has(|event| matches!(event, Event::Warm { .. })));
    a.append(b"sip:alice@x", &binding("a", 1, 1, &"x".repeat(50_000)));
    wait_for(|| !seen.0.lock().unwrap().taken.is_empty());
    let mut queries = 1..;
    wait_for(|| a.look_up(queries.next().unwrap(), b"sip:alice@x") && seen.bodies("sip:alice@x").is_some());
    assert!(!seen.has(|event| matches!(event, Event::Down { .. })));
    // A handshake takes longer than a step of a wait.
    std::thread::scope(|scope| {
        scope.spawn(|| server.pause(MOMENT));
        std::thread::sleep(MOMENT / 3);
        let url = url.clone().with_authorities(vec![root.der().clone()]);
        let (_b, seen) = start(Settings { url, ..settings("b", "redis://h") });
        wait_for(|| seen.has(|event| matches!(event, Event::Warm { .. })));
        assert!(!seen.has(|event| matches!(event, Event::Down { .. })));
    });

    let other_key = KeyPair::generate().unwrap();
    let other = CertificateParams::default().self_signed(&other_key).unwrap();
    for bad in [url.clone().with_authorities(vec![other.der().clone()]), url] {
        let (_b, seen) = start(Settings { url: bad, ..settings("b", "redis://h") });
        let is_certificate = |event: &Event| match event {
            Event::Down { reason } => reason.contains("certificate"),
            _ => false,
        };
        wait_for(|| seen.has(is_certificate));
    }
}

#[test]
fn strict_mode_waits_for_a_replica() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let master = RedisServer::start(&[]);
    let url = format!("redis://{}", master.host());
    let (a, seen) = start(Settings { is_strict: true, ..settings("a", &url) });
    wait_for(|| seen.has(|event| matches!(event, Event::Warm { .. })) && !a.failed());
    a.append(b"sip:alice@x", &binding("a", 1, 1, "one"));
    wait_for(|| a.failed() && seen.has(|event| *event == Event::NoReplica));
    assert_eq!(a.durable(), 0);
    let mut replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    wait_for(|| a.durable() == 1 && !a.failed());
    a.append(b"sip:alice@x", &binding("a", 1, 2, "two"));
    wait_for(|| a.durable() == 2);
    replica.kill();
    a.append(b"sip:alice@x", &binding("a", 1, 3, "three"));
    wait_for(|| a.failed());
    assert_eq!(a.durable(), 2);
}

#[test]
fn in_strict_mode_a_refused_update_is_distinguished_from_those_behind_it() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let master = RedisServer::start(&[]);
    let _replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    wait_for(|| master.run(&["INFO", "replication"]).contains("state=online"));
    for tag in 0..64 {
        let key = format!("rw:{{{tag:02}}}:b:sip:alice@x");
        master.run(&["SET", &key, "\u{2} of a later server", "EX", "600"]);
    }
    let url = format!("redis://{}", master.host());
    let (a, seen) = start(Settings { is_strict: true, ..settings("a", &url) });
    wait_for(|| !a.failed());
    let first = a.append(b"sip:alice@x", &binding("a", 1, 1, "body"));
    let second = a.append(b"sip:bob@x", &binding("a", 1, 1, "body"));
    wait_for(|| a.durable() == second);
    wait_for(|| seen.has(|event| matches!(event, Event::Refused { .. })));
    assert_eq!([first, second].map(|number| a.refuses(number)), [true, false]);
    // While the store takes no writes, what waits is refused too, and no more than that.
    master.run(&["CONFIG", "SET", "maxmemory", "1"]);
    wait_for(|| a.failed());
    let third = a.append(b"sip:bob@x", &binding("a", 1, 2, "body"));
    assert_eq!([second, third].map(|number| a.refuses(number)), [false, true]);
    master.run(&["CONFIG", "SET", "maxmemory", "0"]);
    wait_for(|| a.durable() == third);
    assert!(!a.refuses(third));
}

#[test]
fn a_replica_is_not_written_to() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let master = RedisServer::start(&[]);
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    master.run(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    master.run(&["ACL", "SETUSER", "ring", "on", "nopass", "~rw:*", "+@all", "-zscan", "-xread"]);
    let report = probe(&LocationUrl::parse(&format!("redis://ring:x@{}", master.host())).unwrap()).unwrap();
    assert_eq!(report.masters[0].refused.len(), 2, "{report:?}");
    assert_eq!(report.warnings(false).len(), 2 + usize::from(report.masters[0].replicas == 0));
    let (_a, seen) = start(settings("a", &format!("redis://{}", replica.host())));
    let is_named = |event: &Event| matches!(event, Event::Down { reason } if reason.contains("is a replica"));
    wait_for(|| seen.has(is_named));
    let (a, _) = start(settings("a", &format!("redis://{},{}", replica.host(), master.host())));
    wait_for(|| !a.failed());
}
