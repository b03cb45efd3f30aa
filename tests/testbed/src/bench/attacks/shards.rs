//! Shards: small INVITEs, most of them to unknown users, while other users register and receive OPTIONS.

use super::super::report::Row;
use anyhow::{Result, anyhow, bail};
use ringway_lab::attack::flood::{Flood, request};
use ringway_lab::attack::message::{Draft, status};
use ringway_lab::attack::peer::{Peer, first_line};
use ringway_lab::attack::script::bind;
use ringway_lab::attack::target::{Target, aor};
use ringway_lab::server::DOMAIN;
use ringway_lab::statistics::median;
use ringway_lab::subject::Environment;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::thread;
use std::time::{Duration, Instant};

const VICTIM: u32 = 0;
/// First of the users that must be served.
const FIRST: u32 = 100;

pub(super) fn rows(environment: &Environment, flood_for: Duration) -> Result<Vec<Row>> {
    let silent = (0..10).map(|_| bind(Ipv4Addr::LOCALHOST)).collect::<Result<Vec<_>>>()?;
    let contacts: Vec<(u32, SocketAddrV4)> = silent.iter().map(|(_, address)| (VICTIM, *address)).collect();
    let target = Target::start(environment, &contacts)?;
    let templates = |source| {
        let unknown = request("INVITE", &format!("sip:x{{peer}}@{DOMAIN}"), source, 0);
        let known = request("INVITE", &aor(VICTIM), source, 0);
        vec![unknown.clone(), known, unknown]
    };
    let server = target.address;
    let mut flood = Flood::new(SOURCES, server, templates)?;
    let (traffic, served) = thread::scope(|scope| {
        let served = scope.spawn(|| serve_all(server, flood_for));
        let traffic = flood.run("shards", RATE, flood_for, || Ok(String::new()));
        let served = served.join().map_err(|_| anyhow!("the phones' thread failed"))?;
        Ok::<_, anyhow::Error>((traffic?, served?))
    })?;
    let stats = target.stats()?;
    let figures = ["not_found", "over_user_requests", "over_memory", "over_rate", "server_transactions"];
    let figures = stats.text(&figures);
    target.stop()?;
    let (times_ms, errors) = served;
    let what = format!(
        "{SOURCES} strangers, {RATE} small INVITEs a second each for {} s, two of three to users that do not exist: REGISTER \
         and OPTIONS of {USERS} other users",
        flood_for.as_secs()
    );
    let (answered, median_ms) = (times_ms.len(), median(times_ms.iter().copied()));
    let cell = format!("{answered} of {USERS}, both {median_ms:.1} ms (median)");
    let mut row = Row::single(&what, "all answered", cell, answered == USERS as usize);
    row.note = format!("shards: {} INVITEs, {} responses; {figures}", traffic.requests, traffic.responses);
    if let Some(error) = errors.first() {
        row.note = format!("{}; first error: {error:#}", row.note);
    }
    Ok(vec![row])
}

/// Registers each user and sends it OPTIONS; returns the durations in milliseconds, and the errors.
fn serve_all(server: SocketAddrV4, flood_for: Duration) -> Result<(Vec<f64>, Vec<anyhow::Error>)> {
    let mut phone = Peer::bind(Ipv4Addr::new(127, 0, 2, 2), server)?;
    let (mut times_ms, mut errors) = (Vec::new(), Vec::new());
    // Starts during the flood and ends before it.
    thread::sleep(flood_for / 4);
    for user in FIRST..FIRST + USERS {
        let begun = Instant::now();
        match serve_one(&mut phone, user) {
            Ok(()) => times_ms.push(begun.elapsed().as_secs_f64() * 1000.0),
            Err(error) => errors.push(error),
        }
        thread::sleep((flood_for / 2 / USERS).saturating_sub(begun.elapsed()));
    }
    Ok((times_ms, errors))
}

fn serve_one(phone: &mut Peer, user: u32) -> Result<()> {
    phone.register(user, &[format!("<sip:phone@{}>", phone.address)], "")?;
    let (uri, call_id) = (aor(user), phone.fresh("o"));
    let to = format!("<{uri}>");
    let options =
        Draft { method: "OPTIONS", uri: &uri, from: &uri, to: &to, call_id: &call_id, ..Draft::EMPTY };
    let (response, _) = phone.transact_as(user, &options)?;
    match status(&response) {
        Some(200) => Ok(()),
        _ => bail!("OPTIONS {uri}: {}", first_line(&response)),
    }
}

const SOURCES: u8 = 24;
const RATE: u32 = 195;
/// With 16 shards, all but 1 of 240 runs have a user in each.
const USERS: u32 = 128;
