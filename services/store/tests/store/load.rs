//! Times at a million users. Ignored by default: `cargo test --release -p ringway-store --test store load:: -- --ignored
//! --nocapture --test-threads 1`.

use ringway_store::{Directory, Store, StoreUrl};
use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

const USERS: u32 = 1_000_000;

#[test]
#[ignore = "a measurement"]
fn a_million_subscribers_are_imported_and_loaded() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let csv = folder.path().join("users.csv");
    let mut file = std::io::BufWriter::new(fs::File::create(&csv).unwrap());
    writeln!(file, "username,password").unwrap();
    for n in 0..USERS {
        writeln!(file, "subscriber{n:07},secret{n}").unwrap();
    }
    drop(file);
    let url = StoreUrl::Sqlite(folder.path().join("r.db"));
    let store = Store::open(&url).unwrap();
    let begun = Instant::now();
    store.import(&csv, "example.org", |_| "example.org", |_| {}).unwrap();
    println!("import: {:?}", begun.elapsed());
    drop(store);
    let begun = Instant::now();
    let store = Store::open(&url).unwrap();
    let directory = Directory::new([9; 16]);
    let loaded = store
        .load(
            |row| {
                assert!(directory.insert(row.name, row.domain, row.hashes()));
            },
            |_, _, _| {},
        )
        .unwrap();
    println!("load: {:?}, {loaded:?}, {} bytes a user", begun.elapsed(), directory.bytes() / USERS as usize);
    assert!(begun.elapsed() < Duration::from_secs(3));
    let names: Vec<_> =
        (0..USERS).map(|n| format!("subscriber{:07}", n.wrapping_mul(2_654_435_761) % USERS)).collect();
    let begun = Instant::now();
    assert!(names.iter().all(|name| directory.find(name, "example.org").is_some()));
    println!("find: {:.0} ns", begun.elapsed().as_secs_f64() * 1e9 / f64::from(USERS));
}
