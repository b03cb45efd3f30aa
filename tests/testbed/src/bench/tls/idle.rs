//! Idle connections: their memory, and the CPU time that they cost.

use super::super::report::Row;
use super::load::{Contestant, Load};
use super::rows::{CHAIN, TLS, compared};
use super::saturated;
use super::servers::{Servers, Which};
use anyhow::{Context, Result};
use ringway_lab::load::{ConnectionUse, Flow, Plan, Session, Transport};
use ringway_lab::statistics::median;
use std::thread;
use std::time::Duration;

/// Idle connections beside calls.
const BESIDE: u32 = 5_000;
/// Idle connections without anything else.
const ALONE: u32 = 10_000;
/// Time for which the CPU time of idle connections is measured.
const LOOK: Duration = Duration::from_secs(5);
/// Local addresses of the clients, each of which has ports for some thousand connections.
const SOURCES: u8 = 4;

/// Connections that stay open until they are dropped.
struct Crowd {
    _session: Session,
}

impl Crowd {
    fn open(servers: &Servers, count: u32) -> Result<Self> {
        let load = Load::ringway("idle", Transport::Tls).at(Which::Crowded);
        let load = Load { connections: ConnectionUse::PerUser, ..load };
        let plan = Plan { sources: SOURCES, ..load.plan(servers, Flow::Update, count)? };
        Ok(Self { _session: Session::open(&plan)? })
    }
}

/// All rows. Call it while the server has no freed memory to use again.
pub(super) fn rows(servers: &Servers, rounds: u32) -> Vec<Row> {
    let (memory, mut crowd) = memory(servers);
    let [saturated, ordinary] = beside(servers, &mut crowd, rounds);
    vec![memory, saturated, ordinary, alone(servers, crowd)]
}

/// CPU time of calls over TLS, saturated and at a rate: readings of one server with, without and again with idle connections.
fn beside(servers: &Servers, crowd: &mut Option<Crowd>, rounds: u32) -> [Row; 2] {
    let whats = [
        format!("stateful call over TLS, saturated, without and beside {BESIDE} idle TLS connections"),
        format!("the same at {}/s", CHAIN.rate),
    ];
    let target = "< 2 % change";
    whats.iter().for_each(|what| eprintln!("{what}"));
    match changes(servers, crowd, rounds) {
        Err(error) => whats.map(|what| Row::failed(&what, target, &error)),
        Ok(changes) => {
            let [saturated, ordinary] = changes.map(|[with, without]| {
                let percent = (with / without - 1.0) * 100.0;
                (
                    format!("TLS {without:.1} µs, beside idle ones {with:.1} µs: {percent:+.1} %"),
                    percent < 2.0,
                )
            });
            let elsewhere = "see the saturated row: readings at a rate scatter by more than 2 %";
            [
                Row::single(&whats[0], target, saturated.0, saturated.1),
                compared(Row::single(&whats[1], elsewhere, ordinary.0, ordinary.1)),
            ]
        }
    }
}

/// Medians with and without idle connections in µs, of a saturated server and at a rate.
fn changes(servers: &Servers, crowd: &mut Option<Crowd>, rounds: u32) -> Result<[[f64; 2]; 2]> {
    let load = TLS.at(Which::Crowded);
    let mut saturated = saturated::Contestant::open(servers, CHAIN.flow, load)?;
    let mut ordinary = Contestant::open(servers, CHAIN, load)?;
    // By measurement, with and without idle connections.
    let mut taken = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for is_crowded in [true, false, true] {
        if is_crowded && crowd.is_none() {
            *crowd = Some(Crowd::open(servers, BESIDE)?);
        } else if !is_crowded {
            *crowd = None;
        }
        thread::sleep(Duration::from_secs(1));
        let rounds = if is_crowded { rounds.div_ceil(2) } else { rounds };
        for _ in 0..rounds {
            for (index, read) in [saturated.read(servers)?, ordinary.read(servers)?].into_iter().enumerate() {
                let (us, fault) = read;
                eprintln!("  crowded: {is_crowded}, {us:.1} µs {}", fault.as_deref().unwrap_or_default());
                if fault.is_none() {
                    taken[index][usize::from(!is_crowded)].push(us);
                }
            }
        }
    }
    let valid = taken.iter().flatten().all(|taken| !taken.is_empty());
    valid.then_some(()).context("no reading counts")?;
    Ok(taken.map(|of| of.map(|taken| median(taken.into_iter()))))
}

/// Memory of an idle connection.
fn memory(servers: &Servers) -> (Row, Option<Crowd>) {
    let what = format!("memory for an idle TLS connection with a registration, at {BESIDE}");
    let target = "≤ 20 kB";
    let measure = || -> Result<(f64, Crowd)> {
        let process = &servers.get(Which::Crowded)?.process;
        let before = process.resident_bytes()?;
        let crowd = Crowd::open(servers, BESIDE)?;
        thread::sleep(Duration::from_secs(1));
        let bytes = process.resident_bytes()?.saturating_sub(before);
        Ok((bytes as f64 / f64::from(BESIDE), crowd))
    };
    eprintln!("{what}");
    match measure() {
        Ok((bytes, crowd)) => {
            let cell = format!("{:.1} kB", bytes / 1000.0);
            (Row::single(&what, target, cell, bytes <= 20_000.0), Some(crowd))
        }
        Err(error) => (Row::failed(&what, target, &error), None),
    }
}

/// CPU time of idle connections, of which some are open already.
fn alone(servers: &Servers, crowd: Option<Crowd>) -> Row {
    let (what, target) = (format!("{ALONE} idle TLS connections alone"), "< 1 % of a core");
    let measure = || -> Result<f64> {
        let more = if crowd.is_some() { ALONE - BESIDE } else { ALONE };
        let others = Crowd::open(servers, more)?;
        thread::sleep(Duration::from_secs(1));
        let process = &servers.get(Which::Crowded)?.process;
        let before = process.cpu_ns()?;
        thread::sleep(LOOK);
        let used = process.cpu_ns()?.saturating_sub(before);
        drop(others);
        Ok(used as f64 / LOOK.as_nanos() as f64 * 100.0)
    };
    eprintln!("{what}");
    match measure() {
        Ok(percent) => Row::single(&what, target, format!("{percent:.2} %"), percent < 1.0),
        Err(error) => Row::failed(&what, target, &error),
    }
}
