//! Dead DNS: calls to names whose DNS server never answers, beside calls between users of the server.

use super::super::calls::{Calls, Reading, compare};
use super::super::report::Row;
use anyhow::{Context, Result, anyhow};
use ringway_lab::attack::flood::{Flood, request};
use ringway_lab::attack::peer::STRANGER;
use ringway_lab::load::{Flow, Length, Plan, Users};
use ringway_lab::server::DOMAIN;
use ringway_lab::server::PASSWORD;
use ringway_lab::server::{Under, free_port};
use ringway_lab::statistics::median;
use ringway_lab::subject::Environment;
use ringway_linux::sys;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;
use std::{fs, thread};

/// Delay of the calls before and during `dead_for` of calls to names that cannot be looked up.
pub(super) fn rows(environment: &Environment, dead_for: Duration) -> Result<Vec<Row>> {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind the silent DNS server")?;
    let dns = silent.local_addr().context("address of the silent DNS server")?;
    let (sip, admin) = (free_port()?, free_port()?);
    let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, sip);
    let configuration = environment.folder.join("dead-dns.toml");
    let text = format!(
        "domains = [\"{DOMAIN}\"]\nlisten = [\"udp:{server}\"]\nworkers = 1\n[store]\nurl = \"memory:\"\n[auth]\n\
         enabled = false\n[dns]\nservers = [\"{dns}\"]\n[limits]\nper_source_rate = 0\n[admin]\n\
         listen = \"127.0.0.1:{admin}\"\n[log]\nlevel = \"warn\"\n"
    );
    fs::write(&configuration, text).with_context(|| configuration.display().to_string())?;
    let mut process = environment.serve(&configuration, Under::Itself)?;

    let users = CALLS * READING_S;
    let callers = Users::by_rule("c", 7, 0, users, PASSWORD)?;
    let peers = Users::by_rule("c", 7, 1, users, PASSWORD)?;
    let plan = Plan {
        domain: DOMAIN.to_owned(),
        ring: Length::Fixed(PAUSE),
        talk: Length::Fixed(PAUSE),
        register_window: Some(32),
        ..Plan::new(server.into(), Flow::Call, callers, peers)
    };
    let mut calls = Calls::open(&plan, CALLS, READING_S)?;
    let readings = (dead_for.as_secs() / u64::from(READING_S)).max(1);
    let mut take = || (0..readings).map(|_| calls.read()).collect::<Result<Vec<_>>>();
    let (mut pairs, mut dead_calls) = (Vec::new(), 0);
    for round in 0..ROUNDS {
        let mut pair = [0.0; 2];
        // In turn, so that a drift of the machine is not a difference.
        let order = if round % 2 == 0 { [ALONE, BESIDE] } else { [BESIDE, ALONE] };
        for which in order {
            if which == ALONE {
                pair[which] = middle(&take()?);
                continue;
            }
            pair[which] = thread::scope(|scope| {
                let dead = scope.spawn(|| call_dead_names(server, dead_for));
                let readings = take();
                dead_calls += dead.join().map_err(|_| anyhow!("the thread of the dead names failed"))??;
                readings.map(|readings| middle(&readings))
            })?;
            // The lookups that are left.
            thread::sleep(LOOKUP_MAX);
        }
        eprintln!("  p99 alone and beside: {pair:.0?} µs");
        pairs.push(pair);
    }
    let stats = environment.command(&configuration, &["show", "stats", "--json"])?;
    let stats: serde_json::Value =
        serde_json::from_slice(&stats).context("ringway show stats printed no JSON")?;
    process.stop()?;

    let (ratio, cell) = compare(&pairs);
    let what = format!(
        "calls between users at {CALLS}/s beside {SOURCES} × {RATE} calls a second for {} s to names whose DNS server is \
         silent: delay of 180, p99",
        dead_for.as_secs()
    );
    let mut row = Row::single(&what, "≤ 1.10 × without them", cell, ratio <= 1.10);
    row.note = format!(
        "dead-dns: inside the server by the kernel's time stamps, medians of {ROUNDS} rounds of {readings} readings of {READING_S} s; \
         {dead_calls} calls to silent names; lookups refused: {}",
        stats.get("lookups_refused").unwrap_or(&serde_json::Value::Null)
    );
    Ok(vec![row])
}

/// Sends INVITEs to names that all differ; returns their number.
fn call_dead_names(server: SocketAddrV4, dead_for: Duration) -> Result<u64> {
    sys::set_nice(NICE).context("lower the priority of the flood")?;
    let caller = format!("sip:caller@{DOMAIN}");
    let templates =
        |source| vec![request("INVITE", "sip:x@n{serial}.test", source, 0).replace(STRANGER, &caller)];
    let mut flood = Flood::new(SOURCES, server, templates)?;
    Ok(flood.run("dead-dns", RATE, dead_for, || Ok(String::new()))?.requests)
}

/// Median of the figures inside the server; as the generator sees them without permission for raw sockets.
fn middle(readings: &[Reading]) -> f64 {
    median(readings.iter().map(|reading| reading.inside.unwrap_or(reading.seen)))
}

/// Calls between users a second.
const CALLS: u32 = 1_000;
/// Rounds of readings without and with calls to silent names.
const ROUNDS: u32 = 5;
/// Length of a reading.
const READING_S: u32 = 2;
/// Readings of a round.
const ALONE: usize = 0;
const BESIDE: usize = 1;
/// Maximum time of a lookup.
const LOOKUP_MAX: Duration = Duration::from_secs(6);
/// Time that a call rings, and that it lasts.
const PAUSE: Duration = Duration::from_millis(50);
/// Sources of calls to silent names, and calls a second of each.
const SOURCES: u8 = 4;
const RATE: u32 = 25;
/// Nice value of the thread that calls silent names, so that the generator's thread runs first on their processor.
const NICE: i8 = 19;
