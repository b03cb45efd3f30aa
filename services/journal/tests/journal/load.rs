//! Times of a million records. Ignored by default: `cargo test --release -p ringway-journal --test journal load:: -- --ignored
//! --nocapture --test-threads 1`.

use ringway_journal::{Durability, Journal, Writer};
use std::fs;
use std::time::{Duration, Instant};

const USERS: u32 = 1_000_000;
const VALUE_BYTES: usize = 250;

/// CPU time of the whole process, from the kernel's ticks of 10 ms.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn key(n: u32) -> String {
    format!("subscriber{n:07}@example.org")
}

/// CPU time of the live threads whose name begins with `name`.
fn cpu_of(name: &str) -> Duration {
    let mut ticks = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        let (start, rest) = stat.rsplit_once(')').unwrap();
        if start.split_once('(').unwrap().1 == name {
            let fields: Vec<_> = rest.split_whitespace().collect();
            ticks += fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        }
    }
    Duration::from_millis(ticks * 10)
}

fn us_each(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / f64::from(USERS)
}

/// As in a server with 250,000 registrations/s: batches of 32 with pauses.
#[test]
#[ignore = "a measurement"]
fn a_million_records_are_written_and_read_back() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = folder.path().join("r.bindings");
    let keys: Vec<_> = (0..USERS).map(key).collect();
    let value = [7; VALUE_BYTES];
    let writer = Writer::start(
        Journal::recover(&path, |_, _| {}).unwrap().compact_from(u64::MAX),
        Durability::Relaxed,
        Box::new(|_| {}),
        Box::new(|_| {}),
    )
    .unwrap();
    let begun = Instant::now();
    let mut appending = Duration::ZERO;
    for (n, chunk) in keys.chunks(32).enumerate() {
        let started = Instant::now();
        for key in chunk {
            writer.append(key.as_bytes(), &value);
        }
        appending += started.elapsed();
        while begun.elapsed() < Duration::from_micros(4) * 32 * n as u32 {
            std::thread::yield_now();
        }
    }
    // The rest is written and synced at the end of a tick.
    std::thread::sleep(Duration::from_millis(600));
    println!(
        "append {:.3} us, journal thread {:.3} us a record; {:?}",
        us_each(appending),
        us_each(cpu_of("journal")),
        writer.stats()
    );
    drop(writer);
    let (begun, used) = (Instant::now(), cpu());
    let mut bytes = 0;
    let journal = Journal::recover(&path, |key, value| bytes += key.len() + value.len()).unwrap();
    println!("recover: {:?}, cpu {:?}, {:?}", begun.elapsed(), cpu() - used, journal.recovery());
    assert!(begun.elapsed() < Duration::from_secs(3));
}
