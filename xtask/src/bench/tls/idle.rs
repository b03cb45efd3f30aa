//! Idle connections: their memory, and the CPU time that they cost.

use super::super::report::Row;
use super::load::{Load, SECONDS};
use super::servers::{Servers, Which};
use anyhow::Result;
use ringway_lab::load::{ConnectionUse, Flow, Plan, Session, Transport};
use std::thread;
use std::time::Duration;

/// Idle connections beside calls.
pub(super) const BESIDE: u32 = 5_000;
/// Idle connections without anything else.
const ALONE: u32 = 10_000;
/// Time for which the CPU time of idle connections is measured.
const LOOK: Duration = Duration::from_secs(5);
/// Local addresses of the clients, each of which has ports for some thousand connections.
const SOURCES: u8 = 4;

/// Connections that stay open until they are dropped.
pub(super) struct Crowd {
    _session: Session,
}

impl Crowd {
    fn open(servers: &Servers, count: u32) -> Result<Self> {
        let load = Load::ringway("idle", Transport::Tls).at(Which::Crowded);
        let load = Load { connections: ConnectionUse::PerUser, ..load };
        let plan = Plan { sources: SOURCES, ..load.plan(servers, Flow::Update, count / SECONDS)? };
        Ok(Self { _session: Session::open(&plan)? })
    }
}

/// Memory of an idle connection. Call it while the server has no freed memory to use again.
pub(super) fn memory(servers: &Servers) -> (Row, Option<Crowd>) {
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
pub(super) fn alone(servers: &Servers, crowd: Option<Crowd>) -> Row {
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
