//! The script joins updates exactly as `Registrations` does.

use super::Scripts;
use crate::LocationUrl;
use crate::connection::Connection;
use crate::reply::Value;
use ringway_location::{EntryId, NodeName, Registered, Registrations, Removal, Update, UpdateWriter};
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
    for _ in 0..random.below(3) {
        writer.removal(&Removal { id: id(random), registered: registered(random) });
    }
    writer.finish();
    Update::set_number(&mut out, [number, u64::MAX - number][random.below(2) as usize]);
    Update::set_waited(&mut out, [0, 0, 3, 40][random.below(4) as usize]);
    out
}

#[test]
fn the_script_joins_updates_exactly_as_the_reference_does() {
    let server = RedisServer::start(&[]);
    let host = ("127.0.0.1".to_owned(), server.port());
    let url = LocationUrl::parse("redis://127.0.0.1").unwrap();
    let on_wait: crate::socket::OnWait = Arc::new(|| {});
    let (mut client, _) = Connection::connect(&host, &url, &on_wait).unwrap();
    let scripts = Scripts::new();
    client.load(&scripts).unwrap();
    let mut random = Random(0x5EED);
    let (mut full, mut empty) = (0, 0);
    for sequence in 0..400_u64 {
        let (key, mut model) = (format!("rw:{{00}}:b:{sequence}"), Registrations::default());
        let ids = if sequence % 8 == 0 { 120 } else { 1 + random.below(6) };
        for number in 0..20 {
            let update = update(&mut random, ids, number);
            let command: [&[u8]; 8] = [
                b"EVALSHA",
                scripts.put.name.as_bytes(),
                b"3",
                key.as_bytes(),
                b"rw:{00}:all",
                b"rw:{00}:log",
                key.as_bytes(),
                &update,
            ];
            let Value::Int(now) = client.run(&command).unwrap() else { panic!() };
            let now = now as u64;
            let read = Update::read(&update).unwrap();
            model.apply(&read, now);
            let mut expected = Vec::new();
            model.write_record((&read.node, read.incarnation, read.number), now, &mut expected);
            let count = model.entries(now).count();
            (full, empty) = (full + usize::from(count == 64), empty + usize::from(count == 0));

            // The stream has the record, and so has the key if there is a binding.
            let last = client.run(&[b"XREVRANGE", b"rw:{00}:log", b"+", b"-", b"COUNT", b"1"]).unwrap();
            let Value::Array(entries) = last else { panic!() };
            let Value::Array(entry) = &entries[0] else { panic!() };
            let Value::Array(fields) = &entry[1] else { panic!() };
            assert_eq!(fields[1], Value::Bytes(key.clone().into_bytes()));
            assert_eq!(fields[3], Value::Bytes(expected.clone()), "sequence {sequence}, update {number}");
            let ends = client.run(&[b"PEXPIRETIME", key.as_bytes()]).unwrap();
            match model.expires_at_ms() {
                // The shortest ones may have ended.
                Some(end) if end > now + 1_000 => {
                    assert_eq!(client.run(&[b"GET", key.as_bytes()]).unwrap(), Value::Bytes(expected));
                    assert_eq!(ends, Value::Int(end as i64));
                    let score = client.run(&[b"ZSCORE", b"rw:{00}:all", key.as_bytes()]).unwrap();
                    assert_eq!(score, Value::Bytes(end.to_string().into_bytes()));
                }
                Some(_) => {}
                None => assert_eq!(ends, Value::Int(-2)),
            }
            if random.below(40) == 0 {
                std::thread::sleep(Duration::from_millis(3));
            }
        }
    }
    assert!(full > 10 && empty > 10, "{full} {empty}");
}
