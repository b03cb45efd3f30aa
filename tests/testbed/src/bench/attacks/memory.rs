//! Memory: large INVITEs to a user with ten silent contacts; and a leak: requests to a contact whose final responses
//! have only one Via, the server's.

use super::super::report::Row;
use anyhow::{Result, anyhow};
use ringway_lab::attack::flood::{Flood, request, wait};
use ringway_lab::attack::peer::Peer;
use ringway_lab::attack::script::{Contact, Script, T1, bind};
use ringway_lab::attack::target::{Target, aor};
use ringway_lab::statistics::median;
use ringway_lab::subject::Environment;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const VICTIM: u32 = 0;
const CALLEE: u32 = 1;
const CALLER: u32 = 2;

pub(super) fn rows(environment: &Environment, flood_for: Duration) -> Result<Vec<Row>> {
    let silent = (0..10).map(|_| bind(Ipv4Addr::LOCALHOST)).collect::<Result<Vec<_>>>()?;
    let callee = Contact::start(Ipv4Addr::new(127, 0, 2, 1), Script::Accept)?;
    let mut contacts: Vec<(u32, SocketAddrV4)> =
        silent.iter().map(|(_, address)| (VICTIM, *address)).collect();
    contacts.push((CALLEE, callee.address));
    let target = Target::start(environment, &contacts)?;
    let idle = target.resident_bytes()?;
    let is_over = AtomicBool::new(false);
    let (server, mut highest) = (target.address, idle);
    let templates = |source| vec![request("INVITE", &aor(VICTIM), source, BODY_BYTES)];
    let mut flood = Flood::new(SOURCES, server, templates)?;
    let (traffic, calls) = thread::scope(|scope| {
        let calls = scope.spawn(|| call_until(&is_over, server));
        let traffic = flood.run("memory", RATE, flood_for, || {
            highest = highest.max(target.resident_bytes()?);
            Ok(format!("; resident at most {}", megabytes(highest)))
        });
        is_over.store(true, Ordering::Relaxed);
        let calls = calls.join().map_err(|_| anyhow!("the caller's thread failed"))?;
        Ok::<_, anyhow::Error>((traffic?, calls?))
    })?;
    wait("memory: transactions end", SETTLED_AFTER, || {
        let kept = target.stats()?.text(&["reserved_bytes", "requests_forwarding", "server_transactions"]);
        Ok(format!("resident {}, {kept}", megabytes(target.resident_bytes()?)))
    })?;
    let left = target.resident_bytes()?;
    let stats = target.stats()?;
    let figures =
        stats.text(&["requests", "over_memory", "over_user_requests", "over_rate", "reserved_bytes"]);
    target.stop()?;

    let what =
        format!("{SOURCES} strangers, {RATE} INVITEs of 60 kB a second each for {} s", flood_for.as_secs());
    let mut peak = Row::single(
        &format!("{what}, to a user with 10 silent contacts: resident memory, highest"),
        "≤ 256 MB",
        format!("{} (idle {})", megabytes(highest), megabytes(idle)),
        highest <= RESIDENT_MAX,
    );
    peak.note = format!(
        "memory: {} INVITEs, {} not accepted by the kernel; {figures}",
        traffic.requests, traffic.unsent
    );
    let after = Row::single(
        &format!("resident memory {} s after that", SETTLED_AFTER.as_secs()),
        "≤ idle + 32 MB",
        format!("idle {:+.1} MB", (left as f64 - idle as f64) / 1e6),
        left <= idle + GROWTH_MAX,
    );
    Ok(vec![peak, calls, after])
}

/// Calls the callee alternately as a user with a password and as a stranger.
fn call_until(is_over: &AtomicBool, server: SocketAddrV4) -> Result<Row> {
    let mut user = Peer::bind(Ipv4Addr::new(127, 0, 2, 2), server)?;
    let mut stranger = Peer::bind(Ipv4Addr::new(127, 0, 2, 3), server)?;
    let (mut setups_ms, mut errors) = (Vec::new(), Vec::new());
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        for called in [user.call(Some(CALLER), CALLEE), stranger.call(None, CALLEE)] {
            match called {
                Ok(setup) => setups_ms.push(setup.as_secs_f64() * 1000.0),
                Err(error) => errors.push(error),
            }
        }
        thread::sleep(CALL_EVERY.saturating_sub(begun.elapsed()));
    }
    let (completed, all) = (setups_ms.len(), setups_ms.len() + errors.len());
    let mut row = Row::single(
        "calls meanwhile of a user and of another stranger to another user",
        "all complete",
        format!("{completed} of {all}, set-up {:.1} ms (median)", median(setups_ms.iter().copied())),
        errors.is_empty() && completed > 0,
    );
    row.note = errors.first().map(|error| format!("calls: {error:#}")).unwrap_or_default();
    Ok(row)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

pub(super) fn of_leak(environment: &Environment, flood_for: Duration) -> Result<Vec<Row>> {
    let contact = Contact::start(Ipv4Addr::new(127, 0, 2, 1), Script::OneVia)?;
    let contacts: Vec<_> = (0..USERS).map(|user| (user, contact.address)).collect();
    let target = Target::start(environment, &contacts)?;
    let templates = |source| {
        let both = |user| ["INVITE", "OPTIONS"].map(|method| request(method, &aor(user), source, 0));
        (0..USERS).flat_map(both).collect()
    };
    let mut flood = Flood::new(LEAK_SOURCES, target.address, templates)?;
    let traffic = flood.run("leak", LEAK_RATE, flood_for, || Ok(String::new()))?;
    wait("leak: transactions end", 64 * T1 + Duration::from_secs(2), || Ok(target.stats()?.text(&KEPT)))?;
    let stats = target.stats()?;
    let kept: Vec<f64> = KEPT.iter().map(|name| stats.figure(name)).collect::<Result<_>>()?;
    let answered = stats.figure("without_next_via")?;
    let what = format!(
        "{LEAK_SOURCES} strangers, {LEAK_RATE} requests a second each for {} s to {USERS} users whose contact answers with one Via: left \
         after 64·T1",
        flood_for.as_secs()
    );
    let mut row = Row::single(&what, "0 of each", stats.text(&KEPT), kept.iter().all(|kept| *kept == 0.0));
    row.note = format!("leak: {} requests, {answered} such responses", traffic.requests);
    // Without such responses the test proves nothing.
    let mut tried =
        Row::single("responses with one Via that reached it", "> 0", answered.to_string(), answered > 0.0);
    tried.note =
        stats.text(&["over_user_requests", "over_memory", "over_rate", "forwarded", "transactions_refused"]);
    target.stop()?;
    Ok(vec![row, tried])
}

const SOURCES: u8 = 20;
const RATE: u32 = 195;
/// 60 kB with the header.
const BODY_BYTES: usize = 59_500;
/// An INVITE without a response ends after 2 · 64·T1 (timers B and H); those of a short flood have ended by
/// then.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
const CALL_EVERY: Duration = Duration::from_millis(500);
const RESIDENT_MAX: u64 = 256_000_000;
const GROWTH_MAX: u64 = 32_000_000;
/// Gauges of the state of pending requests.
const KEPT: [&str; 4] =
    ["requests_forwarding", "server_transactions", "client_transactions", "reserved_bytes"];
/// Number of callees; each may have some hundred pending requests of strangers.
const USERS: u32 = 32;
const LEAK_SOURCES: u8 = 24;
const LEAK_RATE: u32 = 200;
