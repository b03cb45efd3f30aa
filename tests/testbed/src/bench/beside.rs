//! Delay of calls over UDP without and with something else that the server does.

use anyhow::{Context, Result, ensure};
use ringway_lab::load::{Delay, Plan, Session};
use ringway_lab::server_delay::PacketCopies;
use ringway_lab::statistics::median;
use std::time::Duration;

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
