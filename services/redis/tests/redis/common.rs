//! A sink that remembers, and updates.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test uses a part")]

pub use ringway_location::{EntryId, NodeName, Record, Registered, Removal, Update, UpdateWriter};
pub use ringway_redis::{Event, Kind, LocationStore, LocationUrl, NodeInfo, NodeState, Settings, Sink};
use ringway_test_support::eventually::{holds, wait_until};
pub use ringway_test_support::redis::RedisServer;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
pub struct Seen {
    pub records: HashMap<Vec<u8>, Vec<u8>>,
    pub count: usize,
    pub now_ms: u64,
    pub located: Vec<u64>,
    pub nodes: Vec<NodeInfo>,
    pub durable: u64,
    pub events: Vec<Event>,
    pub walk: u32,
    pub taken: Vec<(Vec<u8>, u64)>,
    /// Users, nodes and numbers of all records.
    pub answers: Vec<(Vec<u8>, NodeName, u64)>,
}

/// Calls that were seen, and a gate: while it is locked, the reader waits with a record.
#[derive(Default)]
pub struct Memory(pub Mutex<Seen>, pub Mutex<()>);

impl Sink for Memory {
    fn on_record(&self, aor: &[u8], record: &[u8], store_now_ms: u64) {
        self.0.lock().unwrap().count += 1;
        drop(self.1.lock().unwrap());
        let mut seen = self.0.lock().unwrap();
        seen.records.insert(aor.to_vec(), record.to_vec());
        let read = Record::read(record).unwrap();
        seen.answers.push((aor.to_vec(), read.by, read.number));
        seen.now_ms = store_now_ms;
    }

    fn on_taken(&self, aor: &[u8], number: u64) {
        self.0.lock().unwrap().taken.push((aor.to_vec(), number));
    }

    fn on_walk(&self, walk: u32) {
        self.0.lock().unwrap().walk = walk;
    }

    fn on_located(&self, query: u64) {
        self.0.lock().unwrap().located.push(query);
    }

    fn on_nodes(&self, nodes: &[NodeInfo]) {
        self.0.lock().unwrap().nodes = nodes.to_vec();
    }

    fn on_durable(&self, number: u64) {
        self.0.lock().unwrap().durable = number;
    }

    fn on_event(&self, event: Event) {
        self.0.lock().unwrap().events.push(event);
    }
}

impl Memory {
    pub fn has(&self, is: impl Fn(&Event) -> bool) -> bool {
        self.count(is) > 0
    }

    pub fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.0.lock().unwrap().events.iter().filter(|event| is(event)).count()
    }

    pub fn forget(&self) {
        self.0.lock().unwrap().events.clear();
    }

    /// Bodies of the bindings of a user, in order.
    pub fn bodies(&self, aor: &str) -> Option<Vec<String>> {
        let seen = self.0.lock().unwrap();
        let record = Record::read(seen.records.get(aor.as_bytes())?).unwrap();
        let mut bodies: Vec<_> =
            record.entries().map(|entry| String::from_utf8_lossy(entry.body).into_owned()).collect();
        bodies.sort();
        Some(bodies)
    }

    pub fn state(&self, node: &str) -> Option<NodeState> {
        let seen = self.0.lock().unwrap();
        seen.nodes.iter().find(|info| info.name.as_str() == node).map(|info| info.state)
    }

    /// Time of the last heartbeat of a node.
    pub fn last_seen(&self, node: &str) -> Option<u64> {
        let seen = self.0.lock().unwrap();
        seen.nodes.iter().find(|info| info.name.as_str() == node).map(|info| info.last_seen_ms)
    }

    pub fn is_located(&self, query: u64) -> bool {
        self.0.lock().unwrap().located.contains(&query)
    }
}

pub fn node(name: &str) -> NodeName {
    NodeName::read(name.as_bytes()).unwrap()
}

pub fn settings(name: &str, url: &str) -> Settings {
    Settings {
        url: LocationUrl::parse(url).unwrap(),
        node: node(name),
        incarnation: 7,
        link: "192.0.2.1:5061".parse().unwrap(),
        link_version: 1,
        is_strict: false,
        holds_all: true,
        seed: name.len() as u64,
    }
}

pub fn start(settings: Settings) -> (LocationStore, Arc<Memory>) {
    let sink = Arc::new(Memory::default());
    (LocationStore::start(settings, sink.clone()).unwrap(), sink)
}

/// Starts a node and waits until it has read all.
pub fn start_warm(name: &str, url: &str) -> (LocationStore, Arc<Memory>) {
    let (store, sink) = start(settings(name, url));
    let is_warm = || sink.has(|event| matches!(event, Event::Warm { .. })) && !store.failed();
    assert!(holds(WARM_WITHIN, is_warm), "{:?} {:?}", store.status(), sink.0.lock().unwrap().events);
    (store, sink)
}

/// Waits until something is true.
#[track_caller]
pub fn wait_for(is_true: impl FnMut() -> bool) {
    wait_until("it is true", is_true);
}

pub fn id(number: u8) -> EntryId {
    EntryId([number; 16])
}

/// An update with one binding for ten minutes.
pub fn binding(name: &str, number: u8, cseq: u32, body: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = UpdateWriter::new(&mut out, &node(name), 7, None);
    let registered = Registered { age_ms: 0, call: 1, cseq };
    writer.entry(id(number), registered, 600_000, |out| out.extend_from_slice(body.as_bytes()));
    writer.finish();
    out
}

/// An update without bindings.
pub fn nothing(name: &str, removed: Option<(u8, u32)>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = UpdateWriter::new(&mut out, &node(name), 7, None);
    if let Some((number, cseq)) = removed {
        writer.removal(&Removal { id: id(number), registered: Registered { age_ms: 0, call: 1, cseq } });
    }
    writer.finish();
    out
}

pub const MOMENT: Duration = Duration::from_millis(300);

const WARM_WITHIN: Duration = Duration::from_secs(20);
