//! Tests of the location table against a list of bindings for each user.

use super::*;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::time::Duration;
use ringway_sansio::Rng;

/// Binding in the model.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    contact: String,
    call_id: String,
    cseq: u32,
    expires: Instant,
    connection: Option<ConnectionId>,
    kind: Kind,
}

type Model = BTreeMap<String, Vec<Known>>;

fn flow(connection: Option<u64>) -> Flow {
    let remote = core::net::SocketAddr::from(([192, 0, 2, 1], 5060));
    let transport = if connection.is_some() { Transport::Tcp } else { Transport::Udp };
    Flow { connection: connection.map(ConnectionId), ..Flow::new(transport, ListenerId(0), remote) }
}

/// Executes one REGISTER with one contact in table and model.
fn register(
    table: &mut LocationTable,
    model: &mut Model,
    user: &str,
    known: &Known,
    removes: bool,
    now: Instant,
) {
    let aor = Aor::new(user.as_bytes(), b"d");
    let text =
        Text { uri: known.contact.as_bytes(), params: b"", path: b"", call_id: known.call_id.as_bytes() };
    let expires = (!removes).then_some(known.expires);
    let contact = Uri::parse(known.contact.as_bytes()).unwrap();
    let change = Change { contact, text, q: 1000, expires, kind: known.kind, flow_key: None };
    let proof = Authenticated::danger_without_authentication(&aor);
    let flow = Flow { connection: known.connection, ..flow(known.connection.map(|one| one.0)) };
    let saved = table.save(&proof, &[change], known.cseq, flow, now, ROOM);

    let bindings = model.entry(user.into()).or_default();
    bindings.retain(|binding| binding.expires > now);
    let index = bindings.iter().position(|binding| binding.contact == known.contact);
    let same_phone = index.and_then(|index| bindings.get(index)).filter(|old| old.call_id == known.call_id);
    let expected = match (same_phone, index) {
        (Some(old), _) if old.cseq > known.cseq => Err(SaveError::OutOfOrder),
        (Some(old), _) if old.cseq == known.cseq => Ok(false),
        (_, None) if !removes && bindings.len() >= CONTACTS_MAX => Err(SaveError::TooMany),
        (_, None) if removes => Ok(!bindings.is_empty()),
        _ => Ok(true),
    };
    assert_eq!(saved.map(|saved| saved.changed), expected);
    if expected != Ok(true) {
        return;
    }
    match (index, removes) {
        (Some(index), true) => {
            bindings.remove(index);
        }
        (Some(index), false) => bindings[index] = known.clone(),
        (None, false) => bindings.push(known.clone()),
        (None, true) => {}
    }
}

/// Compares all queries of the table with the model.
fn agree(table: &LocationTable, model: &Model, now: Instant, seed: u64) {
    let mut count = 0;
    for (user, bindings) in model {
        let live: Vec<_> = bindings.iter().filter(|binding| binding.expires > now).collect();
        let aor = format!("{user}@d");
        let found: Vec<_> = table.lookup(aor.as_bytes(), now).collect();
        let contacts = |of: &[&Binding]| of.iter().map(|one| one.uri().to_vec()).collect::<Vec<_>>();
        assert_eq!(
            contacts(&found),
            live.iter().map(|one| one.contact.as_bytes().to_vec()).collect::<Vec<_>>(),
            "seed {seed}"
        );
        for (binding, known) in found.iter().zip(&live) {
            assert_eq!((binding.cseq, binding.expires), (known.cseq, known.expires), "seed {seed}");
            assert_eq!(
                (binding.flow.connection, binding.kind),
                (known.connection, known.kind),
                "seed {seed}"
            );
        }
        count += live.len();
    }
    assert!(table.bindings_len() >= count, "seed {seed}");
    assert_eq!(table.iter().count(), table.bindings_len(), "seed {seed}");
    let mut paged = 0;
    let mut next = Some(0);
    while let Some(from) = next {
        next = table.bindings_from(from, 3, |_| paged += 1);
    }
    assert_eq!(paged, table.bindings_len(), "seed {seed}");
}

#[test]
fn it_agrees_with_a_list_over_many_random_histories() {
    for seed in 0..40 {
        let mut rng = Rng::new(&Seed::from_number(seed));
        let mut now = Instant::from_secs(1_800_000_000);
        let mut table = LocationTable::new(&Seed::from_number(seed), now);
        let mut model = Model::new();
        for _ in 0..1000 {
            let user = format!("u{}", rng.below(6));
            let connection = rng.random_bool(400).then(|| ConnectionId(1 + rng.below(4)));
            let known = Known {
                contact: format!("sip:c@192.0.2.{}", rng.below(6)),
                call_id: format!("{}", rng.below(2)),
                cseq: rng.below(50) as u32,
                expires: now + Duration::from_secs(1 + rng.below(600)),
                connection,
                kind: if connection.is_some() && rng.random_bool(500) {
                    Kind::FlowOnly
                } else {
                    Kind::Dialable
                },
            };
            match rng.below(20) {
                0..12 => register(&mut table, &mut model, &user, &known, false, now),
                12..15 => register(&mut table, &mut model, &user, &known, true, now),
                15 => {
                    table.forget(format!("{user}@d").as_bytes());
                    model.remove(&user);
                }
                16 => close(&mut table, &mut model, ConnectionId(1 + rng.below(4))),
                17 => restart(&mut table, &mut model, now, seed),
                _ => {
                    now = now + Duration::from_secs(rng.below(200));
                    table.expire(now, |_, _| {}, |table, aor| assert!(table.lookup(aor, now).count() < 10));
                    model.values_mut().for_each(|all| all.retain(|binding| binding.expires > now));
                    assert_eq!(
                        table.bindings_len(),
                        model.values().map(Vec::len).sum::<usize>(),
                        "seed {seed}"
                    );
                }
            }
            agree(&table, &model, now, seed);
        }
        table.expire(now + Duration::from_secs(601), |_, _| {}, |_, _| {});
        assert_eq!((table.users_len(), table.bindings_len(), table.next_due()), (0, 0, None), "seed {seed}");
        assert!(table.by_connection.is_empty() && table.by_name.is_empty(), "seed {seed}: no entry is left");
    }
}

fn close(table: &mut LocationTable, model: &mut Model, connection: ConnectionId) {
    table.on_closed(connection, |_, _| {}, |_, _, _| {});
    for bindings in model.values_mut() {
        bindings.retain(|known| known.connection != Some(connection) || known.kind == Kind::Dialable);
        for known in bindings.iter_mut().filter(|known| known.connection == Some(connection)) {
            known.connection = None;
        }
    }
    assert!(!table.by_connection.contains_key(&connection));
}

/// Stores all bindings and restores them into an empty table.
fn restart(table: &mut LocationTable, model: &mut Model, now: Instant, seed: u64) {
    let mut records = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        next = table.records_from(from, 4, |aor, record| records.push((aor.to_vec(), record.to_vec())));
    }
    *table = LocationTable::new(&Seed::from_number(seed), now);
    for (aor, record) in &records {
        table.restore(aor, record, now, Instant::FAR, 1).unwrap();
        let mut again = Vec::new();
        table.write_record(table.key_of(aor), &mut again);
        assert!(again.len() <= record.len(), "seed {seed}");
    }
    for bindings in model.values_mut() {
        bindings.retain(|known| known.expires > now);
        bindings.retain(|known| known.kind == Kind::Dialable);
        bindings.iter_mut().for_each(|known| known.connection = None);
    }
    model.retain(|_, bindings| !bindings.is_empty());
}

#[test]
fn permanent_contacts_are_kept_next_to_registered_ones() {
    let now = Instant::from_secs(1_800_000_000);
    let mut table = LocationTable::new(&Seed::from_number(1), now);
    let mut model = Model::new();
    let known = Known {
        contact: "sip:a@h".into(),
        call_id: "1".into(),
        cseq: 1,
        expires: now + Duration::from_secs(60),
        connection: None,
        kind: Kind::Dialable,
    };
    table.set_permanent(b"u@d", &[b"sip:a@h", b"no URI", b"sip:b@h;transport=tcp"]);
    assert_eq!(table.bindings_len(), 2);
    let aor = Aor::new(b"u", b"d");
    let proof = Authenticated::danger_without_authentication(&aor);
    assert_eq!(table.clear(&proof, b"1", 9, now, ROOM), Ok(false));
    register(&mut table, &mut model, "u", &known, false, now);
    assert_eq!(table.lookup(b"u@d", now).count(), 3, "the same contact may be both");
    let mut record = Vec::new();
    table.write_record(table.key_of(b"u@d"), &mut record);
    table.set_permanent(b"u@d", &[]);
    assert_eq!(table.lookup(b"u@d", now).count(), 1);
    assert_eq!(table.clear(&proof, b"1", 1, now, ROOM), Err(SaveError::OutOfOrder));
    assert_eq!(table.clear(&proof, b"1", 2, now, ROOM), Ok(true));
    table.restore(b"u@d", &record, now, Instant::FAR, 1).unwrap();
    assert_eq!(table.lookup(b"u@d", now).count(), 1, "they are not in the record");
}

const CONTACTS_MAX: usize = 4;

const ROOM: Room = Room { contacts: CONTACTS_MAX, record_bytes: Ok(usize::MAX) };
