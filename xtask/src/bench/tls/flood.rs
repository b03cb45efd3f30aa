//! A flood of handshakes beside calls over UDP.

use super::super::report::Row;
use super::load::{Load, SECONDS};
use super::servers::{Handshake, Servers};
use anyhow::{Context, Result, anyhow, ensure};
use ringway_lab::load::{Delay, Flow, Plan, Session, Statistics, Transport};
use ringway_lab::server_delay::PacketCopies;
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

/// Median of the ratios, and its text with both medians.
fn compare(figures: &[[f64; 2]]) -> (f64, String) {
    let ratio = median(figures.iter().map(|[quiet, flooded]| flooded / quiet));
    let [quiet, flooded] = [0, 1].map(|index| median(figures.iter().map(|figures| figures[index])));
    (ratio, format!("{ratio:.2} × ({quiet:.0} µs, {flooded:.0} µs)"))
}

fn measure(servers: &Servers, rounds: u32) -> Result<Vec<Round>> {
    let calls = Load::ringway("UDP", Transport::Udp).plan(servers, Flow::Call, CALLS * SECONDS)?;
    let port = calls.target.port();
    let mut session = Some(Session::open(&calls)?);
    let mut figures = Vec::new();
    for round in 1..=rounds {
        let quiet = read(&mut session, port)?;
        let flood = flood(servers)?;
        thread::sleep(MARGIN);
        let flooded = read(&mut session, port)?;
        let statistics = flood.join().map_err(|_| anyhow!("the flood panicked"))??;
        let handshakes = statistics.successes() as f64 / (f64::from(SECONDS) + 2.0 * MARGIN.as_secs_f64());
        eprintln!(
            "  round {round}: p99 inside and seen {quiet:.0?} µs, {flooded:.0?} µs beside {handshakes:.0} handshakes/s"
        );
        let inside = quiet.0.zip(flooded.0).map(|(quiet, flooded)| [quiet, flooded]);
        figures.push(Round { inside, seen: [quiet.1, flooded.1], handshakes });
        thread::sleep(MARGIN);
    }
    Ok(figures)
}

/// 99th percentile of the delay of 180 in µs: inside the server at this UDP port, as the generator sees it.
fn read(session: &mut Option<Session>, port: u16) -> Result<(Option<f64>, f64)> {
    let length = Duration::from_secs(SECONDS.into());
    let copies = PacketCopies::of(port);
    let running = session.take().context("an earlier reading failed")?.start(CALLS.into(), length)?;
    let (statistics, again) = running.finish_session()?;
    *session = Some(again);
    let offered = u64::from(CALLS * SECONDS);
    let done = statistics.successes();
    ensure!(done * 100 >= offered * 99, "{done} of {offered} calls succeeded");
    let inside = match copies.and_then(|copies| copies.percentile(99.0, done * 99 / 100)) {
        Ok(delay) => Some(micros(delay)),
        Err(error) => {
            eprintln!("  no delay inside the server: {error:#}");
            None
        }
    };
    let seen = statistics.percentile(Delay::FirstResponse, 99.0).context("no call was answered")?;
    Ok((inside, micros(seen)))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
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
