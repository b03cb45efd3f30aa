//! Calls over UDP through a server: its CPU time and instructions for a call, and their delay without and with something else
//! that the server does.

use super::instructions::total_of;
use anyhow::{Context, Result, ensure};
use ringway_lab::load::{Delay, Flow, Length, Plan, Session, Users};
use ringway_lab::process::Process;
use ringway_lab::server::{DOMAIN, PASSWORD, Under, free_port};
use ringway_lab::server_delay::PacketCopies;
use ringway_lab::statistics::median;
use ringway_lab::subject::Environment;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use std::{fs, thread};

/// A server with one worker and without digest, and its load.
pub(super) struct Player {
    process: Process,
    session: Option<Session>,
}

/// Calls at a fixed rate, in readings.
pub(super) struct Calls {
    port: u16,
    rate: u32,
    seconds: u32,
    session: Option<Session>,
}

/// 99th percentile of the delay of 180 in a reading, in µs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// From INVITE in to INVITE out and from 180 in to 180 out, by the kernel's time stamps. `None`: without permission for
    /// them.
    pub(super) inside: Option<f64>,
    /// As the generator sees it.
    pub(super) seen: f64,
}

impl Player {
    /// Starts the server with `section` in its configuration, and registers `users` users.
    pub(super) fn start(
        environment: &Environment,
        name: &str,
        section: &str,
        users: u32,
        under: Under<'_>,
    ) -> Result<Self> {
        let (sip, admin) = (free_port()?, free_port()?);
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, sip));
        let configuration = environment.folder.join(format!("{name}.toml"));
        let text = format!(
            "domains = [\"{DOMAIN}\"]\nlisten = [\"udp:{server}\"]\nworkers = 1\n[store]\nurl = \"memory:\"\n[auth]\n\
             enabled = false\n[limits]\nper_source_rate = 0\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[log]\n\
             level = \"warn\"\n{section}"
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
        Ok(Self { process, session: Some(Session::open(&plan)?) })
    }

    /// CPU time of the server for a call, in µs. What it uses in the time `finishing` after the last call counts too.
    pub(super) fn reading(&mut self, rate: u32, seconds: u32, finishing: Duration) -> Result<f64> {
        let session = self.session.take().context("an earlier reading failed")?;
        let before = self.process.cpu_ns()?;
        let running = session.start(rate.into(), Duration::from_secs(seconds.into()))?;
        let (statistics, again) = running.finish_session()?;
        self.session = Some(again);
        thread::sleep(finishing);
        let used = self.process.cpu_ns()?.saturating_sub(before);
        let (offered, done) = (u64::from(rate * seconds), statistics.successes());
        ensure!(done * 100 >= offered * 99, "{done} of {offered} calls succeeded");
        Ok(used as f64 / 1000.0 / offered as f64)
    }
}

/// Instructions of a server for a call, without those of the kernel. `start` starts it for a number of users, with what must be
/// kept until its end.
pub(super) fn instructions<T>(
    environment: &Environment,
    name: &str,
    finishing: Duration,
    start: impl Fn(u32, Under<'_>) -> Result<(Player, T)>,
) -> Result<f64> {
    let mut counts = [0; 2];
    for (calls, count) in [COUNTED_CALLS, 4 * COUNTED_CALLS].into_iter().zip(&mut counts) {
        let file = environment.folder.join(format!("callgrind.{name}.{calls}.out"));
        let (mut player, _kept) = start(4 * COUNTED_CALLS, Under::Callgrind(&file))?;
        player.reading(COUNTED_RATE, calls / COUNTED_RATE, finishing)?;
        player.process.stop()?;
        *count = total_of(&file)?;
    }
    Ok(counts[1].saturating_sub(counts[0]) as f64 / f64::from(3 * COUNTED_CALLS))
}

impl Calls {
    /// Registers the users of `plan`; readings of `seconds` seconds at `rate` calls a second follow.
    pub(super) fn open(plan: &Plan, rate: u32, seconds: u32) -> Result<Self> {
        Ok(Self { port: plan.target.port(), rate, seconds, session: Some(Session::open(plan)?) })
    }

    /// Takes a reading.
    ///
    /// # Errors
    /// Fewer than 99 % of the calls succeeded.
    pub(super) fn read(&mut self) -> Result<Reading> {
        let copies = PacketCopies::of(self.port);
        let session = self.session.take().context("an earlier reading failed")?;
        let running = session.start(self.rate.into(), Duration::from_secs(self.seconds.into()))?;
        let (statistics, again) = running.finish_session()?;
        self.session = Some(again);
        let offered = u64::from(self.rate * self.seconds);
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
        Ok(Reading { inside, seen: micros(seen) })
    }
}

/// Median of the ratios of the second to the first of each pair, and its text with both medians.
pub(super) fn compare(pairs: &[[f64; 2]]) -> (f64, String) {
    let ratio = median(pairs.iter().map(|[alone, beside]| beside / alone));
    let [alone, beside] = [0, 1].map(|index| median(pairs.iter().map(|pair| pair[index])));
    (ratio, format!("{ratio:.2} × ({alone:.0} µs, {beside:.0} µs)"))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Calls of the shorter run that counts instructions, and their number in a second.
const COUNTED_CALLS: u32 = 100;
const COUNTED_RATE: u32 = 50;
/// Time that a call rings, and that it lasts.
const PAUSE: Duration = Duration::from_millis(50);
