//! Tests of the rule that joins updates, and of the encodings.

use super::*;
use crate::{Removal, UpdateWriter};
use alloc::vec;

const PHONE: EntryId = EntryId([1; 16]);
const TABLET: EntryId = EntryId([2; 16]);
const NOW: u64 = 1_800_000_000_000;

fn node(name: &str) -> NodeName {
    NodeName::read(name.as_bytes()).unwrap()
}

fn at(age_ms: u32, call: u64, cseq: u32) -> Registered {
    Registered { age_ms, call, cseq }
}

fn update(
    name: &str,
    clear: Option<u32>,
    entries: &[(EntryId, Registered)],
    removals: &[Removal],
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = UpdateWriter::new(&mut out, &node(name), 1, clear);
    for (id, registered) in entries {
        writer.entry(*id, *registered, 60_000, |out| out.extend_from_slice(name.as_bytes()));
    }
    removals.iter().for_each(|removal| writer.removal(removal));
    writer.finish();
    Update::set_number(&mut out, 7);
    out
}

fn apply(state: &mut Registrations, update: &[u8], now_ms: u64) {
    state.apply(&Update::read(update).unwrap(), now_ms);
}

/// Identities and nodes, in order.
fn owners(state: &Registrations, now_ms: u64) -> Vec<(EntryId, NodeName)> {
    state.entries(now_ms).map(|entry| (entry.id, entry.node)).collect()
}

#[test]
fn a_node_replaces_its_own_bindings_and_leaves_those_of_others() {
    let mut state = Registrations::default();
    apply(&mut state, &update("a", None, &[(PHONE, at(0, 1, 1))], &[]), NOW);
    apply(&mut state, &update("b", None, &[(TABLET, at(0, 2, 1))], &[]), NOW);
    apply(&mut state, &update("a", None, &[], &[]), NOW + 1);
    assert_eq!(owners(&state, NOW + 1), [(TABLET, node("b"))]);
}

#[test]
fn a_phone_that_moves_belongs_to_the_node_of_its_latest_register() {
    let mut state = Registrations::default();
    apply(&mut state, &update("a", None, &[(PHONE, at(0, 1, 5))], &[]), NOW);
    apply(&mut state, &update("b", None, &[(PHONE, at(0, 1, 6))], &[]), NOW + 100);
    assert_eq!(owners(&state, NOW + 100), [(PHONE, node("b"))]);
    // The update of `a` was delayed: its CSeq is older.
    apply(&mut state, &update("a", None, &[(PHONE, at(5_000, 1, 5))], &[]), NOW + 200);
    assert_eq!(owners(&state, NOW + 200), [(PHONE, node("b"))]);
    // A phone that started again has another Call-ID: the later REGISTER counts, also against a delayed update.
    apply(&mut state, &update("c", None, &[(PHONE, at(0, 9, 1))], &[]), NOW + 300);
    apply(&mut state, &update("b", None, &[(PHONE, at(150, 1, 7))], &[]), NOW + 310);
    assert_eq!(owners(&state, NOW + 310), [(PHONE, node("c"))]);
}

#[test]
fn removals_and_contact_star_spare_what_is_newer() {
    let mut state = Registrations::default();
    let removal = |age_ms, call, cseq| Removal { id: PHONE, registered: at(age_ms, call, cseq) };
    apply(&mut state, &update("a", None, &[(PHONE, at(0, 1, 5))], &[]), NOW);
    apply(&mut state, &update("b", None, &[], &[removal(0, 1, 4)]), NOW + 10);
    assert_eq!(owners(&state, NOW + 10), [(PHONE, node("a"))], "an older CSeq");
    apply(&mut state, &update("b", None, &[], &[removal(100, 2, 1)]), NOW + 20);
    assert_eq!(owners(&state, NOW + 20), [(PHONE, node("a"))], "an earlier REGISTER");
    apply(&mut state, &update("b", Some(100), &[], &[]), NOW + 30);
    assert_eq!(owners(&state, NOW + 30), [(PHONE, node("a"))], "an earlier Contact *");
    apply(&mut state, &update("b", None, &[], &[removal(0, 1, 6)]), NOW + 40);
    assert_eq!(owners(&state, NOW + 40), []);
    apply(&mut state, &update("a", None, &[(PHONE, at(0, 1, 7)), (TABLET, at(0, 2, 1))], &[]), NOW + 50);
    apply(&mut state, &update("b", Some(0), &[], &[]), NOW + 60);
    assert!(state.is_empty());
}

#[test]
fn bindings_expire_by_the_clock_of_the_store() {
    let mut state = Registrations::default();
    let mut late = update("a", None, &[(PHONE, at(0, 1, 1))], &[]);
    Update::set_waited(&mut late, 59_000);
    apply(&mut state, &late, NOW);
    assert_eq!(state.expires_at_ms(), Some(NOW + 1_000));
    assert_eq!(owners(&state, NOW + 999).len(), 1);
    assert_eq!(owners(&state, NOW + 1_000), []);
    Update::set_waited(&mut late, 60_000);
    apply(&mut state, &late, NOW + 1);
    assert!(state.is_empty(), "it expired while it waited");
}

#[test]
fn bindings_of_an_earlier_process_of_a_node_stay_until_they_expire() {
    let mut state = Registrations::default();
    apply(&mut state, &update("a", None, &[(PHONE, at(0, 1, 1))], &[]), NOW);
    let mut restarted = Vec::new();
    let mut writer = UpdateWriter::new(&mut restarted, &node("a"), 2, None);
    writer.entry(TABLET, at(0, 3, 1), 60_000, |out| out.push(b'a'));
    writer.finish();
    apply(&mut state, &restarted, NOW + 10);
    assert_eq!(owners(&state, NOW + 10).len(), 2);
}

#[test]
fn an_address_of_record_has_a_bounded_number_of_bindings() {
    let mut state = Registrations::default();
    let many: Vec<_> = (0..200_u8).map(|number| (EntryId([number; 16]), at(0, 1, 1))).collect();
    apply(&mut state, &update("a", None, &many, &[]), NOW);
    assert_eq!(owners(&state, NOW).len(), ENTRIES_MAX);
}

#[test]
fn bindings_that_no_update_makes_end_with_the_next_one() {
    for (lasts_ms, ahead_ms, is_kept) in [
        (LASTS_MAX_MS, AHEAD_MAX_MS, true),
        (LASTS_MAX_MS + 1, 0, false),
        (i64::MAX as u64 - NOW, 0, false),
        (1, AHEAD_MAX_MS + 1, false),
    ] {
        let mut state = Registrations::default();
        apply(&mut state, &update("a", None, &[(PHONE, at(0, 1, 1))], &[]), NOW);
        let entry = &mut state.entries[0];
        (entry.expires_at_ms, entry.registered_at_ms) = (NOW + lasts_ms, NOW + ahead_ms);
        apply(&mut state, &update("b", None, &[], &[]), NOW);
        assert_eq!(owners(&state, NOW).len(), usize::from(is_kept), "{lasts_ms} {ahead_ms}");
    }
}

#[test]
fn an_update_that_replaces_another_keeps_its_removals() {
    let removal = |id| Removal { id, registered: at(10, 1, 5) };
    let older = update("a", Some(40), &[], &[removal(PHONE), removal(TABLET)]);
    let mut newer = update("a", None, &[(TABLET, at(0, 1, 6))], &[]);
    Update::merge_removals(&mut newer, &older, 500).unwrap();
    let read = Update::read(&newer).unwrap();
    assert_eq!((read.number, read.clear_age_ms), (7, Some(540)));
    let removed: Vec<_> = read.removals().collect();
    assert_eq!(removed, vec![Removal { id: PHONE, registered: at(510, 1, 5) }]);
}

#[test]
fn damaged_bytes_are_refused() {
    let removal = Removal { id: PHONE, registered: at(0, 1, 1) };
    let bytes = update("node", None, &[(PHONE, at(0, 1, 1)), (TABLET, at(0, 1, 1))], &[removal]);
    for len in 0..bytes.len() {
        assert!(Update::read(&bytes[..len]).is_err(), "{len} bytes");
    }
    let mut state = Registrations::default();
    apply(&mut state, &bytes, NOW);
    let mut record = Vec::new();
    state.write_record(&UpdateId { node: node("node"), incarnation: 1, number: 7 }, NOW, &mut record);
    let read = Record::read(&record).unwrap();
    assert_eq!((read.number, read.entries().count()), (7, 2));
    assert!(read.entries().eq(state.entries(NOW)));
    let read = read.entries().count();
    Record::set_number(&mut record, 0);
    assert_eq!(Record::read(&record).map(|record| (record.number, record.entries().count())), Ok((0, read)));
    for len in 0..record.len() {
        assert!(Record::read(&record[..len]).is_err(), "{len} bytes");
    }
    let mut answer = Vec::new();
    Record::write_as(&record, &UpdateId { node: node("a"), incarnation: 5, number: 9 }, &mut answer);
    let answer = Record::read(&answer).unwrap();
    assert_eq!((answer.by, answer.incarnation, answer.number), (node("a"), 5, 9));
    assert!(answer.entries().eq(state.entries(NOW)));
}

/// An update of a node that waited this long.
fn waited(mut update: Vec<u8>, waited_ms: u32) -> Vec<u8> {
    Update::set_waited(&mut update, waited_ms);
    update
}

fn traces_len(state: &Registrations, now_ms: u64) -> usize {
    let mut record = Vec::new();
    state.write_record(&UpdateId { node: node("a"), incarnation: 1, number: 7 }, now_ms, &mut record);
    Record::read(&record).unwrap().traces_len()
}

#[test]
fn a_removal_keeps_out_what_was_registered_before_it_and_arrives_later() {
    let removal = Removal { id: PHONE, registered: at(0, 1, 6) };
    let removed = [update("a", None, &[], &[removal]), update("a", Some(0), &[], &[])];
    for removed in removed {
        let mut state = Registrations::default();
        apply(&mut state, &removed, NOW);
        assert_eq!((state.is_empty(), state.expires_at_ms(), traces_len(&state, NOW)), (true, None, 1));
        // The REGISTER at `b` came 10 s before; its update waited for the store.
        let late = |cseq| waited(update("b", None, &[(PHONE, at(0, 1, cseq))], &[]), 10_000);
        apply(&mut state, &late(5), NOW + 50);
        assert_eq!(owners(&state, NOW + 50), []);
        apply(&mut state, &waited(update("c", None, &[(PHONE, at(0, 3, 99))], &[]), 10_000), NOW + 60);
        assert_eq!(owners(&state, NOW + 60), [], "another Call-ID");
        apply(&mut state, &update("c", None, &[(PHONE, at(0, 1, 7))], &[]), NOW + 70);
        assert_eq!(owners(&state, NOW + 70), [(PHONE, node("c"))], "it registers again");
        apply(&mut state, &waited(update("b", None, &[(PHONE, at(0, 1, 5))], &[]), 10_000), NOW + 80);
        assert_eq!(owners(&state, NOW + 80), [(PHONE, node("c"))]);
    }
}

#[test]
fn a_trace_ends_with_the_binding_that_was_removed_or_after_a_quarter_of_an_hour() {
    let removal = |id| Removal { id, registered: at(0, 1, 6) };
    let mut state = Registrations::default();
    apply(&mut state, &update("a", None, &[], &[removal(PHONE)]), NOW);
    assert_eq!(state.ends_at_ms(), Some(NOW + TRACE_LASTS_MS));
    apply(&mut state, &update("b", None, &[], &[]), NOW + TRACE_LASTS_MS);
    assert_eq!((state.ends_at_ms(), traces_len(&state, NOW + TRACE_LASTS_MS)), (None, 0));
    let mut long = Vec::new();
    let mut writer = UpdateWriter::new(&mut long, &node("b"), 1, None);
    writer.entry(TABLET, at(0, 1, 5), 7_200_000, |out| out.push(b'b'));
    writer.finish();
    apply(&mut state, &long, NOW);
    apply(&mut state, &update("a", None, &[], &[removal(TABLET)]), NOW + 1);
    assert_eq!((state.is_empty(), state.ends_at_ms()), (true, Some(NOW + 7_200_000)));
}

#[test]
fn a_trace_does_not_keep_out_its_own_node_or_a_phone_that_counts_anew() {
    let removal = Removal { id: PHONE, registered: at(0, 1, 6) };
    for (name, age_ms, cseq, is_taken) in
        [("a", 9_000, 1, true), ("b", 0, 6, true), ("b", 0, 5, false), ("b", 9_000, 7, true)]
    {
        let mut state = Registrations::default();
        apply(&mut state, &update("a", None, &[], &[removal]), NOW);
        apply(&mut state, &update(name, None, &[(PHONE, at(age_ms, 1, cseq))], &[]), NOW + 4_000);
        assert_eq!(owners(&state, NOW + 4_000).len(), usize::from(is_taken), "{name} {age_ms} {cseq}");
        assert_eq!(traces_len(&state, NOW + 4_000), usize::from(!is_taken));
    }
    let mut state = Registrations::default();
    apply(&mut state, &update("a", None, &[], &[removal]), NOW);
    apply(&mut state, &update("b", None, &[(PHONE, at(0, 1, 1))], &[]), NOW + ANEW_MS + 1);
    assert_eq!(owners(&state, NOW + 6_000).len(), 1);
}

#[test]
fn traces_are_bounded_and_are_no_bindings() {
    let many: Vec<_> =
        (0..40_u8).map(|number| Removal { id: EntryId([number; 16]), registered: at(0, 1, 1) }).collect();
    let all: Vec<_> = (100..180_u8).map(|number| (EntryId([number; 16]), at(0, 1, 1))).collect();
    let mut state = Registrations::default();
    apply(&mut state, &update("a", None, &all, &many), NOW);
    apply(&mut state, &update("b", None, &[], &many), NOW + 10);
    assert_eq!((owners(&state, NOW + 10).len(), traces_len(&state, NOW + 10)), (ENTRIES_MAX, TRACES_MAX));
    let late = |number| waited(update("c", None, &[(EntryId([number; 16]), at(0, 1, 0))], &[]), 99);
    apply(&mut state, &update("a", Some(0), &[], &[]), NOW + 20);
    state.traces.retain(|trace| trace.id != EntryId::ALL);
    apply(&mut state, &late(39), NOW + 30);
    assert!(state.is_empty(), "the newest one");
    apply(&mut state, &late(0), NOW + 30);
    assert_eq!(owners(&state, NOW + 30).len(), 1, "the oldest one is forgotten");
    let empty = {
        let mut out = Vec::new();
        let mut writer = UpdateWriter::new(&mut out, &node("a"), 1, None);
        writer.entry(PHONE, at(0, 1, 1), 60_000, |_| {});
        writer.finish();
        out
    };
    apply(&mut state, &empty, NOW + 40);
    assert_eq!(owners(&state, NOW + 40).len(), 1, "an entry without a body is none");
}
