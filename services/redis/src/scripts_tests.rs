//! The script joins updates exactly as `Registrations` does.

use super::Scripts;
use crate::LocationUrl;
use crate::connection::Connection;
use redis::{Cmd, Value, cmd};
use ringway_location::{
    EntryId, NodeName, Record, Registered, Registrations, Removal, TRACES_MAX, Update, UpdateId, UpdateWriter,
};
use ringway_test_support::programs::has;
use ringway_test_support::redis::RedisServer;
use std::sync::Arc;
use std::time::Duration;

/// xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

fn registered(random: &mut Random) -> Registered {
    // Large values: numbers of Lua have 53 bits.
    let calls = [1, u64::MAX, u64::MAX - 1, 1 << 53, (1 << 53) + 1];
    Registered {
        age_ms: [0, 1, 5, 200, 3_000, u32::MAX][random.below(6) as usize],
        call: calls[random.below(5) as usize],
        cseq: [0, 1, 2, 3, u32::MAX][random.below(5) as usize],
    }
}

/// An update of one of three nodes; `ids` different bindings.
fn update(random: &mut Random, ids: u64, number: u64) -> Vec<u8> {
    let node = NodeName::read([b"a".as_slice(), b"node-2", b"3"][random.below(3) as usize]).unwrap();
    let incarnation = [1, u64::MAX, u64::MAX - 1][random.below(3) as usize];
    let clear = [None, None, None, None, Some(0), Some(4), Some(5_000)][random.below(7) as usize];
    let mut out = Vec::new();
    let mut writer = UpdateWriter::new(&mut out, &node, incarnation, clear);
    let id = |random: &mut Random| EntryId([random.below(ids) as u8 * 2; 16]);
    let entries = if ids > 100 { 90 } else { 4 };
    for _ in 0..random.below(entries) {
        let expires = [0, 1, 10, 50, 60_000, 3_600_000][random.below(6) as usize];
        let (id, at, body) = (id(random), registered(random), random.below(100) as usize);
        writer.entry(id, at, expires, |out| out.resize(out.len() + body, body as u8));
    }
    let removals = if ids > 100 { 30 } else { 3 };
    for _ in 0..random.below(removals) {
        writer.removal(&Removal { id: id(random), registered: registered(random) });
    }
    writer.finish();
    Update::set_number(&mut out, [number, u64::MAX - number][random.below(2) as usize]);
    Update::set_waited(&mut out, [0, 0, 3, 40][random.below(4) as usize]);
    out
}

#[test]
fn the_script_joins_updates_exactly_as_the_reference_does() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let host = ("127.0.0.1".to_owned(), server.port());
    let url = LocationUrl::parse("redis://127.0.0.1").unwrap();
    let on_wait: crate::connection::socket::OnWait = Arc::new(|| {});
    let (mut client, _) = Connection::connect(&host, &url, &on_wait).unwrap();
    let scripts = Scripts::new();
    client.load(&scripts).unwrap();
    let mut random = Random(0x5EED);
    let (mut full, mut empty, mut traced, mut most) = (0, 0, 0, 0);
    let (mut heads, mut taken) = (0, 0);
    for sequence in 0..400_u64 {
        let (key, mut model) = (format!("rw:{{00}}:b:{sequence}"), Registrations::default());
        let ids = if sequence % 8 == 0 { 120 } else { 1 + random.below(6) };
        for number in 0..20 {
            let update = update(&mut random, ids, number);
            let keys = [key.as_str(), "rw:{00}:all", "rw:{00}:log"];
            let now: u64 = client.run(scripts.put.run(3).arg(&keys).arg(&key).arg(&update)).unwrap();
            let read = Update::read(&update).unwrap();
            model.apply(&read, now);
            let mut expected = Vec::new();
            let id = UpdateId { node: read.node, incarnation: read.incarnation, number: read.number };
            model.write_record(&id, now, &mut expected);
            let count = model.entries(now).count();
            (full, empty) = (full + usize::from(count == 64), empty + usize::from(count == 0));

            // The stream has the record, and so has the key if there is a binding.
            let last = client.run(cmd("XREVRANGE").arg(&["rw:{00}:log", "+", "-", "COUNT", "1"])).unwrap();
            let Value::Array(entries) = last else { panic!() };
            let Value::Array(entry) = &entries[0] else { panic!() };
            let Value::Array(fields) = &entry[1] else { panic!() };
            assert_eq!(fields[1], Value::BulkString(key.clone().into_bytes()));
            if expected.len() <= 2_048 {
                assert_eq!(
                    fields[3],
                    Value::BulkString(expected.clone()),
                    "sequence {sequence}, update {number}"
                );
            } else {
                let (_, rest) = Record::read_head(&expected).unwrap();
                let head = expected[..expected.len() - rest.len()].to_vec();
                assert_eq!(fields[3], Value::BulkString(head), "sequence {sequence}, update {number}");
                // Taken as it is: all bindings of the node are those of the update, and what it removed is not there.
                let mut of_node = read.entries().filter(|entry| !entry.body.is_empty());
                let has = |id| model.entries(now).any(|entry| entry.id == id && entry.node == read.node);
                let is_there = of_node.all(|entry| has(entry.id) || entry.expires_in_ms <= read.waited_ms);
                let is_taken = fields[2] == Value::BulkString(b"e".to_vec());
                (heads, taken) = (heads + 1, taken + usize::from(is_taken));
                assert!(is_there || !is_taken, "sequence {sequence}, update {number}");
            }
            let traces_len = Record::read(&expected).unwrap().traces_len();
            (traced, most) = (traced + usize::from(traces_len > 0), most.max(traces_len));
            let ends: Value = client.run(cmd("PEXPIRETIME").arg(&key)).unwrap();
            match model.ends_at_ms() {
                // The shortest ones may have ended.
                Some(end) if end > now + 1_000 => {
                    assert_eq!(client.run::<Vec<u8>>(&Cmd::get(&key)).unwrap(), expected);
                    assert_eq!(ends, Value::Int(end as i64));
                }
                Some(_) => {}
                None => assert_eq!(ends, Value::Int(-2)),
            }
            let score: Value = client.run(cmd("ZSCORE").arg("rw:{00}:all").arg(&key)).unwrap();
            match model.expires_at_ms() {
                Some(end) if end > now + 1_000 => {
                    assert_eq!(score, Value::BulkString(end.to_string().into_bytes()));
                }
                Some(_) => {}
                None => assert_eq!(score, Value::Nil, "a user with traces only"),
            }
            if random.below(40) == 0 {
                std::thread::sleep(Duration::from_millis(3));
            }
        }
    }
    assert!(full > 10 && empty > 10, "{full} {empty}");
    assert!(heads > 100 && taken > 0, "{heads} {taken}");
    assert!(traced > 1_000 && most == TRACES_MAX, "{traced} {most}");
}

/// A record with one binding of another node.
fn record(name: &str, expires_at_ms: u64, registered_at_ms: u64) -> Vec<u8> {
    let mut value = vec![name.len() as u8];
    value.extend_from_slice(name.as_bytes());
    for number in [1, expires_at_ms, registered_at_ms, 77] {
        value.extend_from_slice(&number.to_le_bytes());
    }
    value.extend_from_slice(&[1, 0, 0, 0, 1, 0, b'x']);
    let (mut out, by) = (Vec::new(), NodeName::read(b"x").unwrap());
    let update = UpdateId { node: by, incarnation: 1, number: 1 };
    Record::write(&update, [(EntryId([9; 16]), value.as_slice())].into_iter(), &mut out);
    out
}

#[test]
fn a_damaged_record_blocks_no_update() {
    if !has("redis-server", "redis-server") {
        return;
    }
    let server = RedisServer::start(&[]);
    let host = ("127.0.0.1".to_owned(), server.port());
    let url = LocationUrl::parse("redis://127.0.0.1").unwrap();
    let on_wait: crate::connection::socket::OnWait = Arc::new(|| {});
    let (mut client, _) = Connection::connect(&host, &url, &on_wait).unwrap();
    let scripts = Scripts::new();
    client.load(&scripts).unwrap();
    let mut update = Vec::new();
    let mut writer = UpdateWriter::new(&mut update, &NodeName::read(b"a").unwrap(), 1, None);
    writer.entry(EntryId([1; 16]), Registered { age_ms: 0, call: 5, cseq: 1 }, 60_000, |out| out.push(b'x'));
    writer.finish();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let later = [&[2], &record("x", now + 60_000, now)[1..]].concat();
    let (far, lasts) = (i64::MAX as u64, "60000");
    let cases = [
        ("a sound one", record("x", now + 600_000, now), None, Some(2)),
        ("no end", record("x", far, now), None, Some(1)),
        ("more than 64 bits of a signed number", record("x", u64::MAX, now), None, Some(1)),
        ("registered later than now", record("x", now + 600_000, now + 600_000), None, Some(1)),
        ("not the name of a node", record("X\n", now + 600_000, now), None, Some(1)),
        ("a later version without an end", later.clone(), None, Some(1)),
        ("a later version that ends too late", later.clone(), Some("9000000000000"), Some(1)),
        ("a later version", later, Some(lasts), None),
    ];
    for (case, value, ends, expected) in cases {
        client.run::<()>(cmd("SET").arg("rw:{00}:b:u").arg(&value)).unwrap();
        if let Some(ends) = ends {
            client.run::<()>(cmd("PEXPIRE").arg("rw:{00}:b:u").arg(ends)).unwrap();
        }
        let keys = ["rw:{00}:b:u", "rw:{00}:all", "rw:{00}:log"];
        let put: Result<Value, _> = client.run(scripts.put.run(3).arg(&keys).arg("u").arg(&update));
        assert_eq!(put.is_ok(), expected.is_some(), "{case}: {put:?}");
        if let Some(expected) = expected {
            let joined: Vec<u8> = client.run(&Cmd::get(keys[0])).unwrap();
            let joined = Record::read(&joined).unwrap();
            assert_eq!(joined.entries().count(), expected, "{case}");
            assert!(
                matches!(client.run(cmd("PTTL").arg(keys[0])).unwrap(), Value::Int(1..=600_000)),
                "{case}"
            );
        }
    }
}
