//! `cargo xtask bench relay`: CPU time of the server for a call whose media are relayed, beside one without a relay.
//!
//! Does: runs the same calls through servers without a relay, with rtpengine, and with an answerer of its protocol that costs
//! next to nothing, in turn with the floor: the same datagrams in an epoll loop; counts the instructions that a relay adds;
//! prints the differences or writes them into BENCHMARKS.md.
//!
//! Does not: measure rtpengine, or the media.

mod control;

use super::instructions::total_of;
use super::report::{Row, Verdict};
use super::{environment, publish};
use anyhow::{Context, Result, bail, ensure};
use control::{Floor, Relay};
use ringway_lab::load::{Flow, Length, Plan, Session, Users};
use ringway_lab::machine;
use ringway_lab::process::Process;
use ringway_lab::server::DOMAIN;
use ringway_lab::server::PASSWORD;
use ringway_lab::server::{Under, free_port};
use ringway_lab::statistics::median;
use ringway_lab::subject::Environment;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

/// Measures what a media relay adds to the CPU time of a call.
///
/// About two minutes. Needs rtpengine for one of the figures.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Calls a second
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=2000))]
    rate: u32,
    /// Three rounds of a second
    #[arg(long)]
    quick: bool,
    /// Write the table into BENCHMARKS.md
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

/// Server of a reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    WithoutRelay,
    Scripted,
    Rtpengine,
}

/// A server with its load.
struct Player {
    process: Process,
    session: Option<Session>,
    _relay: Option<Relay>,
}

/// Runs the command.
///
/// # Errors
/// A target was missed, or a measurement failed.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let load = machine::load_average();
    eprintln!("{}; load average {load}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path())?;
    let (rounds, seconds) = if args.quick { (3, 1) } else { (9, 3) };
    let sides = [Side::WithoutRelay, Side::Scripted, Side::Rtpengine];
    let mut players = sides.map(|side| Player::start(&environment, side, args.rate * seconds, Under::Itself));
    let mut floor = Floor::start(&environment)?;
    let (mut readings, mut of_floor) = ([const { Vec::new() }; 3], Vec::new());
    for round in 1..=rounds {
        for ((player, taken), side) in players.iter_mut().zip(&mut readings).zip(sides) {
            let Ok(player) = player else { continue };
            let us = player.reading(args.rate, seconds)?;
            eprintln!("  round {round} of {rounds}: {side:?} {us:.2} µs");
            taken.push(us);
        }
        let us = f64::from(AWAITED) * floor.reading(args.rate * AWAITED, seconds)?;
        eprintln!("  round {round} of {rounds}: floor {us:.2} µs");
        of_floor.push(us);
    }
    drop(floor);
    let mut rows: Vec<Row> = sides
        .into_iter()
        .zip(&readings)
        .zip(&players)
        .skip(1)
        .map(|((side, taken), player)| row(side, [&readings[0], taken], player.as_ref().err()))
        .collect();
    rows.push(compared(
        "floor: two requests and answers over UDP in an epoll loop, without SIP",
        format!("{:.1} µs", median(of_floor.into_iter())),
    ));
    let instructions = [Side::WithoutRelay, Side::Scripted].map(|side| instructions(&environment, side));
    rows.push(match instructions {
        [Ok(without), Ok(with)] => compared(
            "instructions of the server's own code",
            format!("{:.0} ({without:.0}, {with:.0})", with - without),
        ),
        [Err(error), _] | [_, Err(error)] => Row::failed("instructions", "", &error),
    });
    for row in &rows {
        let target =
            if row.target.is_empty() { String::new() } else { format!(" (must reach {})", row.target) };
        eprintln!("{}: {}{target}", row.what, row.ringway);
    }
    let text = render(&rows, args, [&load, &machine::load_average()], (rounds, seconds));
    publish(workspace, HEADING, &text, args.write)?;
    match rows.iter().filter(|row| !matches!(row.verdict, Verdict::Met | Verdict::Compared)).count() {
        0 => Ok(()),
        missed => bail!("{missed} of {} rows were missed or could not be measured", rows.len()),
    }
}

/// Row with the median of the differences within rounds.
fn row(side: Side, [without, with]: [&Vec<f64>; 2], failed: Option<&anyhow::Error>) -> Row {
    let what = match side {
        Side::WithoutRelay | Side::Scripted => "with an answerer that costs next to nothing",
        Side::Rtpengine => "with rtpengine",
    };
    let target = format!("≤ {US_MAX} µs");
    if let Some(error) = failed {
        return Row::failed(what, &target, error);
    }
    let added = median(without.iter().zip(with).map(|(without, with)| with - without));
    let [alone, relayed] = [without, with].map(|taken| median(taken.iter().copied()));
    Row::single(what, &target, format!("{added:.1} µs ({alone:.1}, {relayed:.1})"), added <= US_MAX)
}

fn compared(what: &str, figure: String) -> Row {
    let target = String::new();
    let verdict = Verdict::Compared;
    Row { target, verdict, ..Row::single(what, "", figure, true) }
}

/// Instructions of the server for a call, without those of the kernel.
fn instructions(environment: &Environment, side: Side) -> Result<f64> {
    let mut counts = [0; 2];
    for (calls, count) in [COUNTED_CALLS, 4 * COUNTED_CALLS].into_iter().zip(&mut counts) {
        let file = environment.folder.join(format!("callgrind.{side:?}.{calls}.out"));
        let mut player = Player::start(environment, side, 4 * COUNTED_CALLS, Under::Callgrind(&file))?;
        player.reading(COUNTED_RATE, calls / COUNTED_RATE)?;
        player.process.stop()?;
        *count = total_of(&file)?;
    }
    Ok(counts[1].saturating_sub(counts[0]) as f64 / f64::from(3 * COUNTED_CALLS))
}

fn render(rows: &[Row], args: &Args, load: [&str; 2], (rounds, seconds): (u32, u32)) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\
         Written by `cargo xtask {}`: what a media relay adds to the server's CPU time for a call, in brackets a call without \
         and with it.\n\n\
         - {} calls a second over UDP without digest, each with two SDPs and three requests to the relay; one worker, alone on \
         one processor; medians of {rounds} rounds of {seconds} s, all servers in turn.\n\
         - machine: {}\n\
         - load average before: {}; after: {}\n\n\
         | a call relayed | must reach | adds | |\n|---|---|---|---|\n",
        command.join(" "),
        args.rate,
        machine::description(),
        load[0],
        load[1],
    );
    for row in rows {
        let word = match row.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "**MISSED**",
            Verdict::Failed => "**FAILED**",
            Verdict::Compared => "compared",
        };
        let _ = writeln!(text, "| {} | {} | {} | {word} |", row.what, row.target, row.ringway);
    }
    for row in rows.iter().filter(|row| !row.note.is_empty()) {
        let _ = write!(text, "\n- {}\n", row.note);
    }
    text.push_str(
        "\nThe floor is measured in the same run. Instructions are those that callgrind counts, without the kernel's.\n",
    );
    text
}

impl Player {
    /// Starts the server and registers `users` users.
    fn start(environment: &Environment, side: Side, users: u32, under: Under<'_>) -> Result<Self> {
        let (relay, media) = match side {
            Side::WithoutRelay => (None, String::new()),
            Side::Scripted | Side::Rtpengine => {
                let control = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind the relay")?;
                let address = control.local_addr().context("address of the relay")?;
                let relay = match side {
                    Side::WithoutRelay | Side::Scripted => Relay::scripted(control)?,
                    Side::Rtpengine => {
                        drop(control);
                        Relay::rtpengine(&environment.folder, address)?
                    }
                };
                (Some(relay), format!("[media]\nrelay = \"always\"\nrtpengine = [\"{address}\"]\n"))
            }
        };
        let (sip, admin) = (free_port()?, free_port()?);
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, sip));
        let configuration = environment.folder.join(format!("{side:?}.toml"));
        let text = format!(
            "domains = [\"{DOMAIN}\"]\nlisten = [\"udp:{server}\"]\nworkers = 1\n[store]\nurl = \"memory:\"\n[auth]\n\
             enabled = false\n[limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[log]\n\
             level = \"warn\"\n{media}"
        );
        fs::write(&configuration, text).with_context(|| configuration.display().to_string())?;
        let process = environment.serve(&configuration, under)?;
        let plan = Plan {
            domain: DOMAIN.to_owned(),
            ring: Length::Fixed(PAUSE),
            talk: Length::Fixed(PAUSE),
            register_window: Some(32),
            ..Plan::new(
                server,
                Flow::Call,
                Users::by_rule("c", 7, 0, users, PASSWORD)?,
                Users::by_rule("c", 7, 1, users, PASSWORD)?,
            )
        };
        Ok(Self { process, session: Some(Session::open(&plan)?), _relay: relay })
    }

    /// CPU time of the server for a call, in µs.
    fn reading(&mut self, rate: u32, seconds: u32) -> Result<f64> {
        let session = self.session.take().context("an earlier reading failed")?;
        let before = self.process.cpu_ns()?;
        let running = session.start(rate.into(), Duration::from_secs(seconds.into()))?;
        let (statistics, again) = running.finish_session()?;
        self.session = Some(again);
        thread::sleep(FINISHING);
        let used = self.process.cpu_ns()?.saturating_sub(before);
        let (offered, done) = (u64::from(rate * seconds), statistics.successes());
        ensure!(done * 100 >= offered * 99, "{done} of {offered} calls succeeded");
        Ok(used as f64 / 1000.0 / offered as f64)
    }
}

const HEADING: &str = "## Media relay\n";
/// Requests of a call whose answers the server awaits: offer and answer.
const AWAITED: u32 = 2;
/// Calls of the shorter run that counts instructions, and their number in a second.
const COUNTED_CALLS: u32 = 100;
const COUNTED_RATE: u32 = 50;
/// Maximum CPU time that a relay adds to a call.
const US_MAX: f64 = 25.0;
/// Time that a call rings, and that it lasts.
const PAUSE: Duration = Duration::from_millis(50);
/// Time after the last call in which the server's CPU time still counts.
const FINISHING: Duration = Duration::from_millis(300);
