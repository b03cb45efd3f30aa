//! The journal after crashes, disk failures and damage.
//!
//! Tested: restart, kill, a tail cut at every byte, loss of power at every step of compaction, damage, a second server,
//! a full disk, a failed sync, a hung disk. Not tested: a real device whose syncs are ineffective.

use crate::fake_disk::{FakeDisk, Fault};
use ringway_journal::{Durability, Journal, JournalError, SnapshotSource, Writer, WriterEvent};
use ringway_test_support::eventually::wait_until;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type State = BTreeMap<Vec<u8>, Vec<u8>>;
type Table = Arc<Mutex<State>>;

fn recover(path: &Path) -> Result<State, JournalError> {
    let mut found = BTreeMap::new();
    Journal::recover(path, |key, value| store(&mut found, key, value))?;
    Ok(found)
}

fn store(table: &mut State, key: &[u8], value: &[u8]) {
    if value.is_empty() {
        table.remove(key);
    } else {
        table.insert(key.to_vec(), value.to_vec());
    }
}

fn source_of(table: &Table) -> SnapshotSource {
    let table = Arc::clone(table);
    Box::new(move |record| {
        for (key, value) in table.lock().unwrap().iter() {
            record(key, value);
        }
    })
}

fn start(journal: Journal, durability: Durability, table: &Table) -> Writer {
    Writer::start(journal, durability, source_of(table), Box::new(|_| {})).unwrap()
}

/// Changes the table and the journal under the table's lock, as a server does.
fn put(writer: &Writer, table: &Table, key: &str, value: &str) -> u64 {
    let mut table = table.lock().unwrap();
    store(&mut table, key.as_bytes(), value.as_bytes());
    writer.append(key.as_bytes(), value.as_bytes())
}

fn segment_with_records(folder: &Path, count: usize) -> std::path::PathBuf {
    let path = folder.join("r.bindings");
    let table = Table::default();
    let writer = start(Journal::recover(&path, |_, _| {}).unwrap(), Durability::Strict, &table);
    for n in 0..count {
        let number = put(&writer, &table, &format!("user{n}"), &format!("contact of {n}"));
        wait_until("it is durable", || writer.durable() >= number);
    }
    path
}

#[test]
fn appended_keys_survive_a_restart_and_removed_ones_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.bindings");
    let table = Table::default();
    let writer = start(Journal::recover(&path, |_, _| {}).unwrap(), Durability::Relaxed, &table);
    for n in 0..1000 {
        put(&writer, &table, &format!("user{n}"), "first");
        put(&writer, &table, &format!("user{n}"), "second");
    }
    put(&writer, &table, "user7", "");
    writer.stop();
    assert_eq!(recover(&path).unwrap(), *table.lock().unwrap());
    assert_eq!(table.lock().unwrap().len(), 999);
}

#[test]
fn relaxed_records_are_in_the_file_and_soon_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.bindings");
    let table = Table::default();
    let writer = start(Journal::recover(&path, |_, _| {}).unwrap(), Durability::Relaxed, &table);
    let begun = Instant::now();
    let number = put(&writer, &table, "alice", "here");
    wait_until("it is durable", || writer.durable() >= number);
    // Half a second, plus a reserve for a busy disk.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// Process that the next test kills.
#[test]
#[ignore = "run by the test below"]
fn appends_until_it_is_killed() {
    let Some(path) = std::env::var_os("JOURNAL_TO_APPEND_TO") else { return };
    let journal = Journal::recover(Path::new(&path), |_, _| {}).unwrap().compact_from(5_000);
    let table = Table::default();
    let writer = start(journal, Durability::Strict, &table);
    for n in 0u64.. {
        put(&writer, &table, &format!("user{}", n % 50), &n.to_string());
        println!("durable {}", writer.durable());
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_reported() {
    for round in 1..=5u64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.bindings");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "files::appends_until_it_is_killed", "--ignored", "--nocapture"])
            .env("JOURNAL_TO_APPEND_TO", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reported = 0;
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while reported < round * 400 {
            let line = lines.next().unwrap().unwrap();
            reported = line.strip_prefix("durable ").map_or(reported, |number| number.parse().unwrap());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let values = recover(&path).unwrap().into_values();
        let newest = values.map(|value| String::from_utf8(value).unwrap().parse::<u64>().unwrap()).max();
        assert!(newest.unwrap() + 1 >= reported, "reported {reported}, found {newest:?}");
    }
}

#[test]
fn strict_numbers_are_reported_in_order_and_only_when_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.bindings");
    let disk = FakeDisk::new();
    let journal = Journal::recover_on(Arc::new(disk.clone()), &path, |_, _| {}).unwrap();
    let reported = Arc::new(AtomicU64::new(0));
    let last = Arc::clone(&reported);
    let synced = disk.clone();
    let on_event = move |event: WriterEvent<'_>| {
        let WriterEvent::Durable(number) = event else { panic!("{event:?}") };
        assert!(number > last.swap(number, Ordering::SeqCst));
        assert_eq!(synced.unsynced_bytes(), 0, "number {number} was reported too early");
    };
    let writer = Writer::start(journal, Durability::Strict, Box::new(|_| {}), Box::new(on_event)).unwrap();
    for n in 0..200u32 {
        let number = writer.append(&n.to_le_bytes(), b"value");
        assert_eq!(number, u64::from(n) + 1);
    }
    wait_until("all are reported", || reported.load(Ordering::SeqCst) == 200);
    assert_eq!(writer.durable(), 200);
    assert!(disk.syncs() < 150, "a sync for each record: {}", disk.syncs());
}

#[test]
fn a_tail_truncated_at_any_byte_is_cut_off_and_the_rest_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = segment_with_records(folder.path(), 3);
    let segment = folder.path().join("r.bindings.1");
    let whole = fs::read(&segment).unwrap();
    // Without the final `synced` records a crash could have left any shorter file.
    for length in 0..whole.len() {
        fs::write(&segment, &whole[..length]).unwrap();
        let mut keys = Vec::new();
        let journal = Journal::recover(&path, |key, _| keys.push(key.to_vec())).unwrap();
        let expected: Vec<_> = (0..keys.len()).map(|n| format!("user{n}").into_bytes()).collect();
        assert_eq!(keys, expected, "cut at {length}");
        // Writing continues after the last intact record.
        let writer = start(journal, Durability::Strict, &Table::default());
        writer.append(b"later", b"x");
        writer.stop();
        let found = recover(&path).unwrap();
        assert_eq!(found.len(), keys.len() + 1, "cut at {length}");
        assert!(found.contains_key(&b"later"[..]));
    }
}

#[test]
fn zeros_after_the_last_record_are_a_torn_tail() {
    let folder = tempfile::tempdir().unwrap();
    let path = segment_with_records(folder.path(), 5);
    let segment = folder.path().join("r.bindings.1");
    let mut bytes = fs::read(&segment).unwrap();
    bytes.extend_from_slice(&[0; 4096]);
    fs::write(&segment, &bytes).unwrap();
    let mut count = 0;
    let journal = Journal::recover(&path, |_, _| count += 1).unwrap();
    assert_eq!((count, journal.recovery().torn_bytes), (5, 4096));
}

#[test]
fn a_second_server_is_refused_while_the_first_lives() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.bindings");
    let first = Journal::recover(&path, |_, _| {}).unwrap();
    let error = Journal::recover(&path, |_, _| {}).err().unwrap();
    assert!(matches!(error, JournalError::InUse { .. }), "{error}");
    drop(first);
    assert!(Journal::recover(&path, |_, _| {}).is_ok());
}

/// Makes a fixed sequence of changes with compaction on a disk that loses power at some step; returns the table after
/// each number, and the last durable number.
fn run_until_power_loss(path: &Path, disk: &FakeDisk) -> (Vec<State>, u64, bool) {
    let mut states = vec![BTreeMap::new()];
    let Ok(journal) = Journal::recover_on(Arc::new(disk.clone()), path, |_, _| {}) else {
        return (states, 0, true);
    };
    let table = Table::default();
    let writer = start(journal.compact_from(1500), Durability::Strict, &table);
    for n in 0..60 {
        let value = if n % 7 == 6 { String::new() } else { format!("{n}-{}", "x".repeat(60)) };
        let number = put(&writer, &table, &format!("user{}", n % 9), &value);
        states.push(table.lock().unwrap().clone());
        let end = Instant::now() + Duration::from_secs(5);
        while writer.durable() < number && !disk.is_dead() && Instant::now() < end {
            std::thread::yield_now();
        }
        if disk.is_dead() {
            break;
        }
    }
    if !disk.is_dead() {
        wait_until("a snapshot is there", || writer.stats().snapshots > 0 || disk.is_dead());
    }
    let durable = writer.durable();
    let is_dead = disk.is_dead();
    disk.die();
    drop(writer);
    (states, durable, is_dead)
}

#[test]
fn power_loss_at_every_step_keeps_what_was_durable() {
    let mut steps = 0;
    loop {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.bindings");
        let disk = FakeDisk::new();
        disk.die_after(steps);
        let (states, durable, was_cut) = run_until_power_loss(&path, &disk);
        disk.lose_power(steps);
        let found = recover(&path).unwrap_or_else(|error| panic!("after step {steps}: {error}"));
        let acceptable = states.get(durable as usize..).unwrap_or_default();
        assert!(
            acceptable.contains(&found),
            "after step {steps}: durable {durable} of {}, but found {found:?}",
            states.len() - 1
        );
        if !was_cut {
            break;
        }
        steps += 1;
    }
    assert!(steps > 60, "the run had only {steps} steps");
}

#[test]
fn after_a_full_disk_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.bindings");
    let disk = FakeDisk::new();
    let table = Table::default();
    let journal = Journal::recover_on(Arc::new(disk.clone()), &path, |_, _| {}).unwrap();
    let writer = start(journal, Durability::Strict, &table);
    let before = put(&writer, &table, "alice", "before");
    wait_until("it is durable", || writer.durable() == before);
    disk.fail(Fault::Full);
    let during = put(&writer, &table, "bob", "during");
    wait_until("the failure shows", || writer.failed());
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(writer.durable(), before, "a promise was made that the disk does not keep");
    disk.mend();
    wait_until("it is durable", || writer.durable() == during);
    wait_until("it has recovered", || !writer.failed());
    assert_eq!(writer.stats().snapshots, 0, "a full disk alone needs no snapshot");
    let after = put(&writer, &table, "carol", "after");
    wait_until("writing continues", || writer.durable() == after);
    drop(writer);
    assert_eq!(recover(&path).unwrap(), *table.lock().unwrap());
}

#[test]
fn after_a_failed_sync_a_snapshot_repairs_the_loss() {
    for fault in [Fault::Sync, Fault::Write] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.bindings");
        let disk = FakeDisk::new();
        let table = Table::default();
        let journal = Journal::recover_on(Arc::new(disk.clone()), &path, |_, _| {}).unwrap();
        let writer = start(journal, Durability::Strict, &table);
        put(&writer, &table, "alice", "before");
        wait_until("it is durable", || writer.durable() == 1);
        disk.fail(fault);
        put(&writer, &table, "bob", "during");
        wait_until("the failure shows", || writer.failed());
        assert_eq!(writer.durable(), 1);
        disk.mend();
        wait_until("a snapshot is there", || writer.stats().snapshots == 1);
        wait_until("all is durable", || writer.durable() == 2 && !writer.failed());
        put(&writer, &table, "bob", "after");
        wait_until("writing continues", || writer.durable() == 3);
        disk.die();
        drop(writer);
        disk.lose_power(1);
        assert_eq!(recover(&path).unwrap(), *table.lock().unwrap(), "{fault:?}");
    }
}

#[test]
fn a_loss_counts_as_durable_only_with_its_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.bindings");
    let disk = FakeDisk::new();
    let journal = Journal::recover_on(Arc::new(disk.clone()), &path, |_, _| {}).unwrap();
    let (open, gate) = channel::<()>();
    let (walking, begun) = channel();
    let source: SnapshotSource = Box::new(move |record| {
        walking.send(()).unwrap();
        gate.recv().unwrap();
        record(b"alice", b"here");
    });
    let writer = Writer::start(journal, Durability::Strict, source, Box::new(|_| {})).unwrap();
    disk.fail(Fault::Sync);
    writer.append(b"alice", b"here");
    wait_until("the failure shows", || writer.failed());
    disk.mend();
    begun.recv().unwrap();
    let later = writer.append(b"bob", b"here");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!((writer.durable(), writer.failed()), (0, true), "durable before the snapshot was written");
    open.send(()).unwrap();
    wait_until("it is durable", || writer.durable() == later && !writer.failed());
}

#[test]
fn a_slow_disk_fills_a_limited_buffer_and_a_snapshot_restores_dropped_records() {
    for fault in [None, Some(Fault::Full), Some(Fault::Write)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.bindings");
        let disk = FakeDisk::new();
        let table = Table::default();
        let journal = Journal::recover_on(Arc::new(disk.clone()), &path, |_, _| {}).unwrap();
        let writer =
            Writer::start_with(journal, Durability::Relaxed, 10_000, source_of(&table), Box::new(|_| {}))
                .unwrap();
        match fault {
            None => disk.hang(),
            Some(fault) => disk.fail(fault),
        }
        for round in 0..5 {
            for n in 0..1000 {
                put(&writer, &table, &format!("user{n}"), &format!("{round} {}", "x".repeat(50)));
                if n % 100 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        assert!(writer.stats().dropped > 1000, "{:?}", writer.stats());
        assert!(writer.stats().waiting_bytes <= 10_100, "{:?}", writer.stats());
        disk.mend();
        wait_until("a snapshot is there", || writer.stats().snapshots >= 1);
        wait_until("all is durable", || writer.durable() == 5000 && !writer.failed());
        disk.die();
        drop(writer);
        disk.lose_power(3);
        assert_eq!(recover(&path).unwrap(), *table.lock().unwrap(), "{fault:?}");
    }
}

#[test]
fn a_full_disk_does_not_block_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.bindings");
    let disk = FakeDisk::new();
    let table = Table::default();
    let journal = Journal::recover_on(Arc::new(disk.clone()), &path, |_, _| {}).unwrap();
    let writer = start(journal, Durability::Relaxed, &table);
    disk.fail(Fault::Full);
    put(&writer, &table, "alice", "x");
    let begun = Instant::now();
    writer.stop();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn too_long_records_are_counted_and_others_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.bindings");
    let writer = start(Journal::recover(&path, |_, _| {}).unwrap(), Durability::Strict, &Table::default());
    writer.append(&[b'k'; 5000], b"v");
    let number = writer.append(b"k", b"v");
    wait_until("it is durable", || writer.durable() >= number);
    assert_eq!(writer.stats().refused, 1);
    writer.stop();
    assert_eq!(recover(&path).unwrap().len(), 1);
}

#[test]
fn a_caller_that_panics_in_a_record_appends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.bindings");
    let writer = start(Journal::recover(&path, |_, _| {}).unwrap(), Durability::Strict, &Table::default());
    let panicking = std::panic::AssertUnwindSafe(|| {
        writer.append_with(b"bad", |buffer| {
            buffer.extend_from_slice(b"half");
            panic!("on purpose");
        })
    });
    assert!(std::panic::catch_unwind(panicking).is_err());
    writer.append(b"good", b"v");
    writer.stop();
    let found = recover(&path).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), [b"good"]);
}

#[test]
fn a_memory_writer_stores_nothing_and_is_always_durable() {
    let writer = Writer::memory();
    assert_eq!(writer.append(b"k", b"v"), 0);
    assert_eq!((writer.durable(), writer.failed(), writer.stats().appended), (0, false, 0));
}
