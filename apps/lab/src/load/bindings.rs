//! Bindings of the users that a load needs: made before it, removed after it.

use super::thread::{Player, play};
use super::{Shared, Statistics, now, seed};
use anyhow::{Result, anyhow, bail};
use ringway_linux::sys::Epoll;
use ringway_load::{Arrivals, Classic, Config, Generator, Spacing};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Request to end a registration of users early; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop(pub(super) Arc<AtomicBool>);

impl Stop {
    /// Ends the registration.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True if it was requested.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Users of a player that have bindings, or may have.
pub(super) struct Bindings {
    /// Index of the player.
    player: usize,
    config: Config,
    /// Number of users, from the first one on.
    count: u32,
}

impl Bindings {
    /// Number of users.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }
}

/// Registers the users of `config` once each, with the addresses of player `index`, whose generator remains. Notes in `bindings`
/// those that it began with. With a `window` as many register at a time, otherwise at a moderate rate; where the target refuses some because
/// of overload, all register again at half of it.
///
/// # Errors
/// A user could not be registered; the target does not answer.
pub(super) fn register(
    config: Config,
    window: Option<u32>,
    epoll: &Epoll,
    (index, player): (usize, &mut Player),
    stop: &Stop,
    bindings: &mut Vec<Bindings>,
) -> Result<()> {
    let count = config.users.count();
    let mut rate = REGISTER_RATE;
    let statistics = loop {
        let pace = window.map_or(Pace::Rate(rate), Pace::Window);
        let statistics = exchange(config.clone(), count, pace, epoll, player, stop)?;
        let is_overloaded = statistics.failures().any(|(outcome, failed)| outcome == "503" && failed > 0);
        if !is_overloaded || rate < REGISTER_RATE_MIN || stop.is_stopped() {
            break statistics;
        }
        std::thread::sleep(OVERLOAD_PAUSE);
        rate /= 2.0;
    };
    if let Some(loss) = statistics.target_loss() {
        bail!("{loss}; it was to register {count} users before the load");
    }
    if statistics.successes() > 0 {
        let started = u32::try_from(statistics.counters().started).unwrap_or(count);
        bindings.push(Bindings { player: index, config, count: started.min(count) });
    }
    if stop.is_stopped() {
        return Ok(());
    }
    let failed: u64 = statistics.failures().map(|(_, failed)| failed).sum();
    if failed > 0 {
        bail!(
            "{failed} of {count} users could not register ({}); check the domain, the users and the password, and whether \
             earlier runs left the users more contacts than the server permits",
            outcomes(&statistics)
        );
    }
    Ok(())
}

/// Removes bindings with a REGISTER with Expires 0 for each (RFC 3261 §10.2.2).
///
/// # Errors
/// Some were not removed; the target does not answer.
pub(super) fn remove(bindings: Bindings, epoll: &Epoll, players: &mut [Player]) -> Result<()> {
    let Bindings { player, config, count } = bindings;
    let player = players.get_mut(player).ok_or_else(|| anyhow!("a player is missing"))?;
    let config = Config { scenario: Arc::new(Classic::Logout.scenario()?), ..config };
    let statistics = exchange(config, count, Pace::Rate(REGISTER_RATE), epoll, player, &Stop::default())?;
    if let Some(loss) = statistics.target_loss() {
        bail!("the bindings of {count} users were not removed: {loss}");
    }
    let failed: u64 = statistics.failures().map(|(_, failed)| failed).sum();
    if failed > 0 {
        bail!("the bindings of {failed} of {count} users were not removed ({})", outcomes(&statistics));
    }
    Ok(())
}

/// Pace of registrations.
#[derive(Clone, Copy)]
enum Pace {
    /// So many a second.
    Rate(f64),
    /// So many at a time.
    Window(u32),
}

/// Plays one attempt of each of the first `count` users.
fn exchange(
    mut config: Config,
    count: u32,
    pace: Pace,
    epoll: &Epoll,
    player: &mut Player,
    stop: &Stop,
) -> Result<Statistics> {
    let start = now();
    let (arrivals, length) = match pace {
        Pace::Rate(rate) => {
            let length = Duration::from_secs_f64(f64::from(count) / rate);
            (Arrivals::new(rate, Spacing::Fixed, start, length), length)
        }
        Pace::Window(size) => {
            let arrivals = Arrivals::window(size.min(count), start, REGISTER_TIME_MAX);
            (arrivals.at_most(count.into()), REGISTER_TIME_MAX)
        }
    };
    config.arrivals = Some(arrivals);
    let target: SocketAddr = config.remote;
    player.generator = Some(Generator::new(config, &seed()?, start));
    player.restart_counters();
    let shared = Shared { is_stopped: Arc::clone(&stop.0), ..Shared::new(start, length) };
    play(std::slice::from_mut(player), epoll, target, &shared)?;
    Ok(shared.statistics.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn outcomes(statistics: &Statistics) -> String {
    let outcomes: Vec<String> =
        statistics.failures().map(|(outcome, failed)| format!("{outcome}: {failed}")).collect();
    outcomes.join(", ")
}

/// Registrations before and after the load, per second.
const REGISTER_RATE: f64 = 2_000.0;
/// Lowest rate at which a target that refuses some is tried again.
const REGISTER_RATE_MIN: f64 = 100.0;
/// Time between two tries: overload ends within it.
const OVERLOAD_PAUSE: Duration = Duration::from_millis(1500);
/// Longest time for registrations in a closed loop.
const REGISTER_TIME_MAX: Duration = Duration::from_secs(600);
