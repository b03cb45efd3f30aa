use super::*;
use ringway_location::{EntryId, NodeName, Registered, Removal, UpdateWriter};
use std::time::Duration;

const AT: Registered = Registered { age_ms: 0, call: 1, cseq: 1 };

fn update(entry: Option<u8>, removed: Option<u8>, body: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = UpdateWriter::new(&mut out, &NodeName::read(b"a").unwrap(), 1, None);
    if let Some(id) = entry {
        writer.entry(EntryId([id; 16]), AT, 60_000, |out| out.resize(out.len() + body, b'x'));
    }
    if let Some(id) = removed {
        writer.removal(&Removal { id: EntryId([id; 16]), registered: AT });
    }
    writer.finish();
    out
}

fn taken(pending: &mut Pending) -> Vec<Slot> {
    let mut batch = Vec::new();
    pending.take(usize::MAX, &mut batch, &mut Vec::new());
    batch
}

#[test]
fn the_newest_update_replaces_one_that_waits_and_keeps_its_removals_and_turn() {
    let (mut pending, now) = (Pending::default(), Instant::now());
    pending.append(hashed(b"a"), &update(None, Some(9), 0), now);
    pending.append(hashed(b"b"), &update(Some(1), None, 1), now);
    let later = now + Duration::from_secs(2);
    assert_eq!(pending.append(hashed(b"a"), &update(Some(2), None, 1), later).number, 3);
    assert_eq!((pending.len(), pending.settled(), pending.counts.replaced), (2, 0, 1));
    let batch = taken(&mut pending);
    assert_eq!(batch.iter().map(|slot| slot.aor.as_slice()).collect::<Vec<_>>(), [b"a", b"b"]);
    let read = Update::read(&batch[0].update).unwrap();
    assert_eq!((read.number, read.entries().count()), (3, 1));
    assert_eq!(read.removals().map(|removal| removal.registered.age_ms).collect::<Vec<_>>(), [2_000]);
    assert_eq!((pending.bytes, pending.settled()), (0, 3));
}

#[test]
fn the_oldest_refresh_is_dropped_before_a_removal() {
    let (mut pending, now) = (Pending::default(), Instant::now());
    pending.append(hashed(b"removal"), &update(None, Some(1), 0), now);
    pending.append(hashed(b"refresh"), &update(Some(1), None, 60_000), now);
    for number in 0..1_200_u32 {
        pending.append(hashed(&number.to_le_bytes()), &update(Some(1), None, 60_000), now);
    }
    assert!(pending.bytes <= WAITING_BYTES_MAX && pending.counts.dropped > 50);
    assert!(pending.has_loss);
    let batch = taken(&mut pending);
    assert_eq!(batch[0].aor, b"removal");
    assert!(batch.iter().all(|slot| slot.aor != b"refresh"));
    for number in 0..=RECORDS_MAX as u32 {
        pending.append(hashed(&number.to_le_bytes()), &update(Some(1), None, 0), now);
    }
    assert_eq!(pending.len(), RECORDS_MAX);
}

#[test]
fn invalid_updates_are_refused_and_buffers_are_used_again() {
    let (mut pending, now) = (Pending::default(), Instant::now());
    pending.append(hashed(b"a"), b"no update", now);
    pending.append(hashed(&[b'a'; AOR_BYTES_MAX + 1]), &update(Some(1), None, 0), now);
    pending.append(hashed(b"a"), &update(Some(1), None, BYTES_MAX - 1), now);
    assert_eq!((pending.len(), pending.counts.refused, pending.settled()), (0, 3, 3));
    let (mut batch, mut pool) = (Vec::new(), Vec::new());
    for round in 0..100 {
        for aor in 0..10_u8 {
            pending.append(hashed(&[aor]), &update(Some(aor), None, 100), now);
        }
        pending.take(10, &mut batch, &mut pool);
        assert!(batch.len() == 10 && batch.iter().all(|slot| !slot.is_done), "round {round}");
        batch.iter_mut().for_each(|slot| slot.is_done = true);
        pool.append(&mut batch);
    }
    assert!(pending.slots.len() <= 20);
}

#[test]
fn answers_that_wait_hear_of_updates_that_are_never_written() {
    let (mut pending, now) = (Pending::new(true), Instant::now());
    for _ in 0..2 {
        pending.append(hashed(b"a"), &update(Some(1), None, 1), now);
        pending.append(hashed(b"b"), &update(Some(1), None, 1), now);
    }
    pending.append(hashed(b"c"), b"no update", now);
    let batch = taken(&mut pending);
    assert_eq!(batch.iter().map(|slot| slot.numbers.clone()).collect::<Vec<_>>(), [[1, 3], [2, 4]]);
    assert!(pending.refused.contains(5));
    for number in 0..=RECORDS_MAX as u32 {
        pending.append(hashed(&number.to_le_bytes()), &update(Some(1), None, 0), now);
    }
    assert!(pending.refused.contains(6) && !pending.refused.contains(7), "the oldest was dropped");
}

#[test]
fn the_last_ones_are_remembered() {
    let mut refused = Refused::default();
    refused.add(&[3, 3, 5]);
    assert!(refused.contains(3) && !refused.contains(4) && refused.contains(5));
    let many: Vec<u64> = (10..10 + REFUSED_MAX as u64 - 1).collect();
    refused.add(&many);
    assert!(!refused.contains(3) && refused.contains(5) && refused.order.len() == REFUSED_MAX);
}

#[test]
fn the_memory_of_full_tables_is_the_published_one_at_most() {
    let (mut pending, now) = (Pending::default(), Instant::now());
    let taken = allocation_counter::measure(|| {
        // Long updates, then many short ones in their buffers.
        for number in 0..1_200_u32 {
            pending.append(hashed(&number.to_le_bytes()), &update(Some(1), None, 60_000), now);
        }
        for number in 1_200..2 * RECORDS_MAX as u32 {
            pending.append(hashed(&number.to_le_bytes()), &update(Some(1), None, 200), now);
        }
    });
    assert!(pending.len() > RECORDS_MAX / 2, "{}", pending.len());
    let taken = taken.bytes_current as usize;
    assert!((MEMORY_BYTES_MAX / 5..=MEMORY_BYTES_MAX).contains(&taken), "{taken} of {MEMORY_BYTES_MAX}");
}
