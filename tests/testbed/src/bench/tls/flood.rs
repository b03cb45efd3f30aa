//! A flood of handshakes beside calls over UDP.

use super::super::calls::{Calls, compare};
use super::super::report::Row;
use super::load::{Load, SECONDS};
use super::servers::{Handshake, Servers};
use anyhow::{Context, Result, anyhow};
use ringway_lab::load::{Flow, Plan, Session, Statistics, Transport};
use ringway_lab::statistics::median;
use ringway_linux::sys;
use std::thread;
use std::time::Duration;

/// Calls over UDP a second.
const CALLS: u32 = 1_000;
/// Offered handshakes a second.
const HANDSHAKES: u32 = 2_000;
/// Time of the flood before and after the calls.
const MARGIN: Duration = Duration::from_millis(500);
/// Nice value of the thread that floods, so that the calls' thread runs first on their processor.
const NICE: i8 = 19;
/// Local addresses of the flood: ports of closed connections are not free at once.
const SOURCES: u8 = 8;

/// Largest ratio of the 99th percentile with and without the flood.
const TIMES_MAX: f64 = 2.0;

/// Figures of a round, without and with the flood.
struct Round {
    /// 99th percentile of the delay of 180 inside the server by the kernel's time stamps, in µs. `None`: without permission for
    /// them.
    inside: Option<[f64; 2]>,
    /// The same as the generator sees it, in µs.
    seen: [f64; 2],
    /// Successful handshakes a second.
    handshakes: f64,
}

/// Delay of calls over UDP, without and with a flood.
pub(super) fn row(servers: &Servers, rounds: u32) -> Row {
    let what =
        format!("call over UDP at {CALLS}/s beside {HANDSHAKES} full P-256 handshakes/s: delay of 180, p99");
    let target = format!("< {TIMES_MAX} × without the flood, inside the server");
    eprintln!("{what}");
    match measure(servers, rounds) {
        Err(error) => Row::failed(&what, &target, &error),
        Ok(rounds) => {
            let inside: Vec<[f64; 2]> = rounds.iter().filter_map(|round| round.inside).collect();
            let seen: Vec<[f64; 2]> = rounds.iter().map(|round| round.seen).collect();
            let rate = median(rounds.iter().map(|round| round.handshakes));
            let (ratio, text) = if inside.is_empty() { compare(&seen) } else { compare(&inside) };
            let cell = format!(
                "{text}; seen by the generator {}; {rate:.0} handshakes/s succeeded",
                compare(&seen).1
            );
            let note = if inside.is_empty() {
                "without permission for raw sockets the generator's figure counts"
            } else {
                "inside the server: from INVITE in to INVITE out and from 180 in to 180 out, by the kernel's time stamps. The \
                 generator shares its processor with the flood's clients, which need most of it for 2,000 handshakes/s, and its \
                 figure contains its own waiting for that processor"
            };
            Row { note: note.to_owned(), ..Row::single(&what, &target, cell, ratio < TIMES_MAX) }
        }
    }
}

fn measure(servers: &Servers, rounds: u32) -> Result<Vec<Round>> {
    let calls = Load::ringway("UDP", Transport::Udp).plan(servers, Flow::Call, CALLS * SECONDS)?;
    let mut calls = Calls::open(&calls, CALLS, SECONDS)?;
    let mut figures = Vec::new();
    for round in 1..=rounds {
        let quiet = calls.read()?;
        let flood = flood(servers)?;
        thread::sleep(MARGIN);
        let flooded = calls.read()?;
        let statistics = flood.join().map_err(|_| anyhow!("the flood panicked"))??;
        let handshakes = statistics.successes() as f64 / (f64::from(SECONDS) + 2.0 * MARGIN.as_secs_f64());
        eprintln!(
            "  round {round}: p99 inside and seen {quiet:.0?} µs, {flooded:.0?} µs beside {handshakes:.0} handshakes/s"
        );
        let inside = quiet.inside.zip(flooded.inside).map(|(quiet, flooded)| [quiet, flooded]);
        figures.push(Round { inside, seen: [quiet.seen, flooded.seen], handshakes });
        thread::sleep(MARGIN);
    }
    Ok(figures)
}

fn flood(servers: &Servers) -> Result<thread::JoinHandle<Result<Statistics>>> {
    let full = Handshake { is_resumed: false, ..Handshake::USUAL };
    let load = Load::ringway("flood", Transport::Tls).each().with(full);
    // Users of twice the time: a user has one REGISTER at a time.
    let plan = load.plan(servers, Flow::Register, HANDSHAKES * SECONDS * 2)?;
    let plan = Plan { sources: SOURCES, ..plan };
    let length = Duration::from_secs(SECONDS.into()) + 2 * MARGIN;
    thread::Builder::new()
        .name("flood".to_owned())
        .spawn(move || {
            sys::set_nice(NICE).context("lower the priority of the flood")?;
            Session::open(&plan)?.start(HANDSHAKES.into(), length)?.finish()
        })
        .context("start a thread")
}
