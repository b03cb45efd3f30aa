//! `cargo xtask bench relay`: CPU time of the server for a call whose media are relayed, beside one without a relay.
//!
//! Does: runs the same calls through servers without a relay, with rtpengine, and with an answerer of its protocol that costs
//! next to nothing, in turn; prints the differences or writes them into BENCHMARKS.md.
//!
//! Does not: measure rtpengine, or the media.

use super::report::{Row, Verdict};
use super::{environment, publish};
use anyhow::{Context, Result, anyhow, bail, ensure};
use ringway_lab::digest::PASSWORD;
use ringway_lab::load::{Flow, Length, Plan, Session, Users};
use ringway_lab::machine;
use ringway_lab::process::Process;
use ringway_lab::server::{Under, free_port};
use ringway_lab::statistics::median;
use ringway_lab::subject::Environment;
use ringway_lab::template::DOMAIN;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

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

/// Media relay of a server, which ends with this value.
enum Relay {
    Scripted { is_over: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
    Rtpengine(Child),
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
    let mut players = sides.map(|side| Player::start(&environment, side, args.rate * seconds));
    let mut readings = [const { Vec::new() }; 3];
    for round in 1..=rounds {
        for ((player, taken), side) in players.iter_mut().zip(&mut readings).zip(sides) {
            let Ok(player) = player else { continue };
            let us = player.reading(args.rate, seconds)?;
            eprintln!("  round {round} of {rounds}: {side:?} {us:.2} µs");
            taken.push(us);
        }
    }
    let rows: Vec<Row> = sides
        .into_iter()
        .zip(&readings)
        .zip(&players)
        .skip(1)
        .map(|((side, taken), player)| row(side, [&readings[0], taken], player.as_ref().err()))
        .collect();
    for row in &rows {
        eprintln!("{}: {} (must reach {})", row.what, row.ringway, row.target);
    }
    let text = render(&rows, args, [&load, &machine::load_average()], (rounds, seconds));
    publish(workspace, HEADING, &text, args.write)?;
    match rows.iter().filter(|row| row.verdict != Verdict::Met).count() {
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
    text
}

impl Player {
    /// Starts the server and registers `users` users.
    fn start(environment: &Environment, side: Side, users: u32) -> Result<Self> {
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
        let process = environment.serve(&configuration, Under::Itself)?;
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

impl Relay {
    /// Answers each command at once, an offer or answer with its own SDP.
    fn scripted(control: UdpSocket) -> Result<Self> {
        control.set_read_timeout(Some(Duration::from_millis(100))).context("time limit of the relay")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut buffer = [0; 16_384];
            while !flag.load(Ordering::Relaxed) {
                let Ok((length, from)) = control.recv_from(&mut buffer) else { continue };
                if let Some(answer) = answer(buffer.get(..length).unwrap_or_default()) {
                    // The command of a lost answer is sent again.
                    let _ = control.send_to(&answer, from);
                }
            }
        });
        Ok(Self::Scripted { is_over, thread: Some(thread) })
    }

    fn rtpengine(folder: &Path, control: SocketAddr) -> Result<Self> {
        // That of the system has other ports.
        let config = folder.join("rtpengine.conf");
        fs::write(&config, "[rtpengine]\n").context("write the configuration of rtpengine")?;
        let child = Command::new("rtpengine")
            .arg(format!("--config-file={}", config.display()))
            .args(["--foreground", "--log-stderr", "--log-level=3", "--table=-1", "--interface=127.0.0.1"])
            .args([format!("--listen-ng={control}"), "--port-min=30000".into(), "--port-max=32000".into()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start rtpengine")?;
        let relay = Self::Rtpengine(child);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a socket")?;
        socket.set_read_timeout(Some(Duration::from_millis(100))).context("time limit of a socket")?;
        let end = Instant::now() + START_TIME;
        while Instant::now() < end {
            // Until it listens, both may fail.
            let _ = socket.send_to(b"0 d7:command4:pinge", control);
            if socket.recv(&mut [0; 100]).is_ok() {
                return Ok(relay);
            }
        }
        Err(anyhow!("rtpengine does not answer"))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        match self {
            Self::Scripted { is_over, thread } => {
                is_over.store(true, Ordering::Relaxed);
                // An error of the thread has failed the readings.
                drop(thread.take().map(JoinHandle::join));
            }
            Self::Rtpengine(child) => {
                // Both fail only if it has ended already.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Answer to a command; `None` for one without a cookie.
fn answer(command: &[u8]) -> Option<Vec<u8>> {
    let cookie = command.get(..17)?;
    let sdp = command.windows(KEY.len()).position(|window| window == KEY).and_then(|at| {
        let rest = command.get(at + KEY.len()..)?;
        let digits = rest.iter().position(|byte| *byte == b':')?;
        let length: usize = std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()?;
        rest.get(..digits + 1 + length)
    });
    let sdp = sdp.map(|sdp| [KEY, sdp].concat()).unwrap_or_default();
    Some([cookie, b"d", &sdp, b"6:result2:oke"].concat())
}

const HEADING: &str = "## Media relay\n";
/// Key of the SDP in a command.
const KEY: &[u8] = b"3:sdp";
/// Maximum CPU time that a relay adds to a call.
const US_MAX: f64 = 25.0;
/// Time that a call rings, and that it lasts.
const PAUSE: Duration = Duration::from_millis(50);
/// Time after the last call in which the server's CPU time still counts.
const FINISHING: Duration = Duration::from_millis(300);
const START_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_answered_with_their_sdp() {
        let offer = b"0123456789abcdef d7:command5:offer3:sdp3:v=07:replacel6:originee";
        assert_eq!(answer(offer).unwrap(), b"0123456789abcdef d3:sdp3:v=06:result2:oke");
        assert_eq!(
            answer(b"0123456789abcdef d7:command4:pinge").unwrap(),
            b"0123456789abcdef d6:result2:oke"
        );
        assert_eq!(answer(b"short"), None);
    }
}
