//! A flood of handshakes beside calls over UDP.

use super::super::report::Row;
use super::load::{Load, SECONDS};
use super::servers::{Handshake, Servers};
use anyhow::{Context, Result, anyhow, ensure};
use ringway_lab::load::{Delay, Flow, Plan, Session, Statistics, Transport};
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

/// Delay of calls over UDP, without and with a flood.
pub(super) fn row(servers: &Servers, rounds: u32) -> Row {
    let what =
        format!("call over UDP at {CALLS}/s beside {HANDSHAKES} full P-256 handshakes/s: delay of 180, p99");
    let target = format!("< {TIMES_MAX} × without the flood");
    eprintln!("{what}");
    match measure(servers, rounds) {
        Err(error) => Row::failed(&what, &target, &error),
        Ok(figures) => {
            let of = |index: usize| median(figures.iter().map(|figures| figures[index]));
            let (idle, flooded, rate) = (of(0), of(1), of(2));
            let ratio = median(figures.iter().map(|figures| figures[1] / figures[0]));
            let cell =
                format!("{ratio:.2} × ({idle:.0} µs, {flooded:.0} µs); {rate:.0} handshakes/s succeeded");
            let note = "the flood's clients and the calls' generator share a processor, which gives the generator precedence; \
                        clients of 2,000 handshakes/s need most of it";
            Row { note: note.to_owned(), ..Row::single(&what, &target, cell, ratio < TIMES_MAX) }
        }
    }
}

/// For each round: delays in µs without and with the flood, successful handshakes a second.
fn measure(servers: &Servers, rounds: u32) -> Result<Vec<[f64; 3]>> {
    let calls = Load::ringway("UDP", Transport::Udp).plan(servers, Flow::Call, CALLS)?;
    let mut session = Some(Session::open(&calls)?);
    let mut figures = Vec::new();
    for round in 1..=rounds {
        let quiet = read(&mut session)?;
        let flood = flood(servers)?;
        thread::sleep(MARGIN);
        let flooded = read(&mut session)?;
        let statistics = flood.join().map_err(|_| anyhow!("the flood panicked"))??;
        let rate = statistics.successes() as f64 / (f64::from(SECONDS) + 2.0 * MARGIN.as_secs_f64());
        eprintln!("  round {round}: p99 {quiet:.0} µs, {flooded:.0} µs beside {rate:.0} handshakes/s");
        figures.push([quiet, flooded, rate]);
        thread::sleep(MARGIN);
    }
    Ok(figures)
}

/// 99th percentile of the delay of 180, in µs.
fn read(session: &mut Option<Session>) -> Result<f64> {
    let length = Duration::from_secs(SECONDS.into());
    let running = session.take().context("an earlier reading failed")?.start(CALLS.into(), length)?;
    let (statistics, again) = running.finish_session()?;
    *session = Some(again);
    let offered = u64::from(CALLS * SECONDS);
    let done = statistics.successes();
    ensure!(done * 100 >= offered * 99, "{done} of {offered} calls succeeded");
    let delay = statistics.percentile(Delay::FirstResponse, 99.0).context("no call was answered")?;
    Ok(delay.as_secs_f64() * 1e6)
}

fn flood(servers: &Servers) -> Result<thread::JoinHandle<Result<Statistics>>> {
    let full = Handshake { is_resumed: false, ..Handshake::USUAL };
    let load = Load::ringway("flood", Transport::Tls).each().with(full);
    // Users of twice the time: a user has one REGISTER at a time.
    let plan = load.plan(servers, Flow::Register, HANDSHAKES * 2)?;
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
