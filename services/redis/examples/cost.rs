//! Measures the processor time of the two threads for an update, and the time of a read of all.
//!
//! `cargo run --release -p ringway-redis --example cost -- redis://127.0.0.1:6379 [UPDATES A SECOND] [SECONDS] [RECORDS]`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot go on has failed"
)]

use ringway_location::{EntryId, NodeName, Registered, UpdateWriter};
use ringway_redis::{Event, LocationStore, LocationUrl, NodeInfo, Settings, Sink};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Counter {
    records: AtomicU64,
    durable: AtomicU64,
    warm: AtomicU64,
}

impl Sink for Counter {
    fn on_record(&self, _: &[u8], _: &[u8], _: u64) {
        self.records.fetch_add(1, Ordering::Relaxed);
    }

    fn on_taken(&self, _: &[u8], _: u64) {
        self.records.fetch_add(1, Ordering::Relaxed);
    }

    fn on_walk(&self, _: u32) {}

    fn on_located(&self, _: u64) {}

    fn on_nodes(&self, _: &[NodeInfo]) {}

    fn on_durable(&self, number: u64) {
        self.durable.store(number, Ordering::Relaxed);
    }

    fn on_event(&self, event: Event) {
        println!("{event:?}");
        if matches!(event, Event::Warm { .. }) {
            self.warm.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn update(out: &mut Vec<u8>, node: &NodeName, cseq: u32) {
    out.clear();
    let mut writer = UpdateWriter::new(out, node, 7, None);
    let registered = Registered { age_ms: 0, call: 1, cseq };
    writer.entry(EntryId([1; 16]), registered, 3_600_000, |out| out.resize(out.len() + 250, b'x'));
    writer.finish();
}

/// Microseconds of processor time of a thread of this process.
fn thread_time(name: &str) -> u64 {
    for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
        let comm = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.starts_with(comm.trim()) {
            let stat = std::fs::read_to_string(task.path().join("schedstat")).unwrap();
            return stat.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000;
        }
    }
    0
}

fn start(name: &str, url: &str) -> (LocationStore, Arc<Counter>) {
    let sink = Arc::new(Counter::default());
    let settings = Settings {
        url: LocationUrl::parse(url).unwrap(),
        node: NodeName::read(name.as_bytes()).unwrap(),
        incarnation: 7,
        link: "127.0.0.1:5061".parse().unwrap(),
        link_version: 1,
        is_strict: false,
        holds_all: true,
        seed: 1,
    };
    let store = LocationStore::start(settings, sink.clone()).unwrap();
    while sink.warm.load(Ordering::Relaxed) == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    (store, sink)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().expect("a URL");
    let mut number = |default: u64| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (rate, seconds, records) = (number(2_000), number(10), number(0));
    let (store, sink) = start("a", &url);
    let (node, mut bytes) = (NodeName::read(b"a").unwrap(), Vec::new());
    for record in 0..records {
        while store.status().waiting > 100_000 {
            std::thread::sleep(Duration::from_millis(10));
        }
        update(&mut bytes, &node, 1);
        store.append(format!("sip:{record}@example.org").as_bytes(), &bytes);
    }
    while sink.durable.load(Ordering::Relaxed) < records {
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = (thread_time("location-writer"), thread_time("location-reader"));
    let (begin, written, seen) =
        (Instant::now(), store.status().written, sink.records.load(Ordering::Relaxed));
    let mut append_time = Duration::ZERO;
    let mut sent = 0;
    while begin.elapsed() < Duration::from_secs(seconds) {
        let due = (begin.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due {
            update(&mut bytes, &node, sent as u32);
            let aor = format!("sip:{}@example.org", sent % 500_000);
            let at = Instant::now();
            store.append(aor.as_bytes(), &bytes);
            append_time += at.elapsed();
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    while store.status().waiting > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let took = begin.elapsed();
    let status = store.status();
    let each = |time: u64| time as f64 / (status.written - written) as f64;
    println!(
        "{} written, {} records seen, in {took:?}",
        status.written - written,
        sink.records.load(Ordering::Relaxed) - seen
    );
    println!(
        "for an update: append {:.2} us, writer {:.2} us, reader {:.2} us",
        append_time.as_secs_f64() * 1e6 / sent as f64,
        each(thread_time("location-writer") - before.0),
        each(thread_time("location-reader") - before.1),
    );
    drop(store);
    let (_store, sink) = start("b", &url);
    let records = sink.records.load(Ordering::Relaxed).max(1);
    println!(
        "for each of {records} records of a read of all: reader {:.2} us",
        thread_time("location-reader") as f64 / records as f64
    );
}
