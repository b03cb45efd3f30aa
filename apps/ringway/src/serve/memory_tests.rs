//! All tables of a server, filled to their limits: names of the parts of the sum, and the resident memory of a process.

use super::{BOOKED, MemorySum};
use crate::config::Config;
use crate::log;
use crate::serve::host::table_limits;
use crate::serve::{records, trace};
use ringway_sansio::{Context, Flow, Instant, ListenerId, Node, Outbox, Received, Seed, Transport};
use ringway_server::{AuthConfig, Server};
use ringway_test_support::host::{HostLimits, TestHost};
use std::any::Any;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// A configuration with all parts. One worker; the other limits are the default ones.
const TEXT: &str = r#"
domains = ["example.org"]
listen = ["udp:127.0.0.1:0", "tls:127.0.0.1:0"]
workers = 1
[tls]
certificate = "cert.pem"
private_key = "key.pem"
[store]
url = "sqlite://x.db"
durability = "strict"
[limits]
memory_mb = 64
[records]
enabled = true
[location]
url = "redis://127.0.0.1:6379"
[cluster]
node = "a"
listen = "127.0.0.1:7000"
secret = "SECRET"
[media]
rtpengine = ["127.0.0.1:22222"]
[hep]
collector = "udp:127.0.0.1:9060"
"#;

/// Function that returns a full table.
type Fill = fn() -> Box<dyn Any>;

/// Parts of the program that are filled here.
const FILLED_TABLES: &[(&str, Fill)] = &[
    ("calls that are followed", || Box::new(records::filled_calls())),
    ("call records that wait", || Box::new(records::filled_records())),
    ("traces", || Box::new(trace::filled())),
    ("lines of the log", log::filled),
];

/// Parts whose crates have the test: it fills them there.
const FILLED_ELSEWHERE: &[&str] = &[
    "registrations that wait for the disk",
    "answers of DNS",
    "requests to media relays",
    "captured messages",
    "changes for the other nodes",
    // Of a process with connections: tests/ringway/connection_memory.rs.
    "connections",
];

fn config() -> Config {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef".repeat(4)).unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    Config::parse(&TEXT.replace("SECRET", secret.to_str().unwrap()), None).unwrap()
}

#[test]
fn each_part_of_the_sum_is_filled_by_a_test() {
    let sum = MemorySum::of(&config());
    let named: BTreeSet<_> = sum.parts.iter().map(|part| part.name).collect();
    let of_server = ringway_server::FILLED_TABLES.iter().flat_map(|table| table.names).copied();
    let of_driver = ringway_linux::FILLED_TABLES.iter().map(|table| table.name);
    let here = FILLED_TABLES.iter().map(|(name, _)| *name).chain([BOOKED]);
    let filled: BTreeSet<_> =
        of_server.chain(of_driver).chain(here).chain(FILLED_ELSEWHERE.iter().copied()).collect();
    assert_eq!(filled, named, "a part of the sum that no test fills, or the other way round");
    assert_eq!(named.len(), sum.parts.len(), "two parts have one name");
}

#[test]
fn the_memory_of_each_full_table_is_the_published_one_at_most() {
    let sum = MemorySum::of(&config());
    for (name, fill) in FILLED_TABLES {
        let mut kept = None;
        let taken = allocation_counter::measure(|| kept = Some(fill()));
        // The table itself has some bytes more: of a queue, of a lock.
        let (taken, size) = (taken.bytes_current as u64, size_of_part(&sum, name) + 4096);
        assert!((size / 6..=size).contains(&taken), "{name}: {taken} bytes of {size}");
    }
}

/// The resident memory of a process with all these tables, full at the same time.
#[test]
fn the_resident_memory_of_all_full_tables_is_115_percent_of_the_sum_at_most() {
    if std::env::var_os(CHILD).is_some() {
        return fill_all();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let name = std::thread::current().name().unwrap().to_owned();
    child.args(["--exact", &name, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line =
        text.lines().find_map(|line| line.split_once("filled: ")).unwrap_or_else(|| panic!("{output:?}")).1;
    println!("{line}");
    let figures: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [resident, sum] = figures[..] else { panic!("{line}") };
    assert!(resident * 100 <= sum * 115, "{line}");
    assert!(resident * 4 >= sum, "the tables are not full: {line}");
}

/// Fills all tables, and prints the resident memory of them and the sum of their parts.
fn fill_all() {
    let mut config = config();
    config.server.trunking.trunks.edit().extend(ringway_server::filled_trunks(1000));
    let sum = MemorySum::of(&config);
    let limits = table_limits(&config);
    let before = resident_bytes();
    let mut kept = Vec::<Box<dyn Any>>::new();
    let mut bytes = 0;
    let mut note = |name: &str, table: Box<dyn Any>| {
        kept.push(table);
        bytes += size_of_part(&sum, name);
    };
    for table in ringway_server::FILLED_TABLES {
        let full = (table.fill)(&limits, &config.server);
        let (first, rest) = table.names.split_first().unwrap();
        note(first, full);
        rest.iter().for_each(|name| note(name, Box::new(())));
    }
    for table in ringway_linux::FILLED_TABLES {
        note(table.name, (table.fill)().unwrap());
    }
    for (name, fill) in FILLED_TABLES {
        note(name, fill());
    }
    note(BOOKED, requests_under_way());
    println!("filled: {} bytes resident of {bytes}", resident_bytes() - before);
}

/// A server with as many calls that nobody answers as its memory permits.
fn requests_under_way() -> Box<dyn Any> {
    let (seed, now) = (Seed::from_number(1), Instant::from_secs(1_800_000_000));
    let nonce_lifetime = Duration::from_secs(300);
    let limits = HostLimits {
        nonce_lifetime,
        nonces_max: 1000,
        proofs_max: 1000,
        per_second: 0,
        record_bytes_max: 1 << 20,
    };
    let host = Arc::new(TestHost::new(limits, &seed, now));
    let mut config = config().server;
    config.auth = AuthConfig { enabled: false, ..AuthConfig::for_realm("example.org") };
    let at = "192.0.2.1:5060".parse().unwrap();
    config.listeners =
        vec![ringway_server::Listener { transport: Transport::Udp, bound: at, advertised: at }];
    let mut server = Server::new(Arc::new(config), Arc::clone(&host) as _, host.tables(), 0, seed, now);
    let (mut out, mut actions) = (Outbox::new(), Vec::new());
    let (mut refused, mut number) = (0, 0_u32);
    while refused < 2000 {
        let used = host.tables().reserved_bytes();
        let user = number / 100;
        server.set_permanent_contacts(format!("user{user}@example.org").as_bytes(), &[b"sip:x@192.0.2.9"]);
        let text = format!(
            "INVITE sip:user{user}@example.org SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
             From: <sip:a@h>;tag=1\r\nTo: <sip:user{user}@example.org>\r\nCall-ID: {number}\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:a@h>\r\nContent-Length: 0\r\n\r\n"
        );
        let source = format!("203.0.{}.{}:5060", 113 + number / 250 % 16, number % 250 + 1).parse().unwrap();
        let mut cx = Context { now, out: &mut out, actions: &mut actions };
        let flow = Flow::udp(ListenerId(0), source);
        server.on_message(&mut cx, Received::new(flow, text.as_bytes()));
        out.clear();
        actions.clear();
        number += 1;
        refused += usize::from(host.tables().reserved_bytes() <= used);
    }
    let used = host.tables().reserved_bytes();
    assert!(used > (64 << 20) / 2, "{used} bytes of {number} calls");
    Box::new((server, host))
}

fn size_of_part(sum: &MemorySum, name: &str) -> u64 {
    sum.parts.iter().find(|part| part.name == name).unwrap_or_else(|| panic!("no part {name}")).bytes
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Variable of the environment of the process that is measured.
const CHILD: &str = "RINGWAY_TEST_FILLS_TABLES";
