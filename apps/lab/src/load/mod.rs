//! Open-loop load: the generators of `ringway-load` on sockets and threads.
//!
//! Each thread plays callers and, for calls, callees, with sockets of its own. Results are in [`Statistics`], times in
//! histograms of microseconds.

mod criterion;
mod histogram;
mod media;
mod plan;
mod player;
mod statistics;

pub use criterion::{Criterion, CriterionError};
pub use media::MediaStatistics;
pub use plan::{Flow, Plan};
pub use statistics::{Delay, Health, Statistics};

use crate::machine;
use anyhow::{Context, Result, anyhow, bail};
use player::{Player, play};
use ringway_load::{Action, Arrivals, Classic, Config, Counters, Generator, Outcome};
pub use ringway_load::{CryptoSuite, Length, MediaUse, Spacing, User, Users, UsersError};
use ringway_sansio::{Instant, Seed};
pub use ringway_transaction::Timers;
use rustix::thread::set_current_timer_slack;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// State of a run that its threads share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// No attempt is started any more.
    is_stopped: AtomicBool,
    statistics: Mutex<Statistics>,
}

/// Running load.
#[derive(Debug)]
pub struct Run {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<()>>>,
}

/// Registers the called users, if there are any, and starts the load of `plan`. Follow it with [`Run::statistics`].
///
/// # Errors
/// An address that is not permitted, sockets that cannot be opened, called users that cannot be registered.
pub fn run(plan: &Plan) -> Result<Run> {
    plan.check()?;
    let shared = Arc::new(Shared::default());
    let mark = mark()?;
    let (mut players, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..plan.threads {
        let mut callers = Player::open(plan)?;
        let mut together = Vec::new();
        if plan.flow.has_callees() {
            let mut callees = Player::open(plan)?;
            register(plan, &mut callees)?;
            if plan.media != MediaUse::None {
                let (sides, thread) = media::start(plan, mark, &shared)?;
                let [caller, callee] = sides;
                callees.media = Some(callee);
                callers.media = Some(caller);
                threads.push(thread);
            }
            callees.generator = Some(generator(plan, &callees, plan.flow.callee(plan), None)?);
            together.push(callees);
        }
        together.insert(0, callers);
        players.push(together);
    }
    let start = now() + START_DELAY;
    for (thread, mut together) in (0..).zip(players) {
        let arrivals = Arrivals::new(plan.rate / f64::from(plan.threads), plan.spacing, start, plan.length);
        if let Some(caller) = together.first_mut() {
            caller.generator = Some(generator(plan, caller, plan.flow.caller(plan), Some(arrivals))?);
        }
        let shared = Arc::clone(&shared);
        let allowed = plan.allowed_hosts.clone();
        let body = move || play(&mut together, &shared, &allowed);
        threads.push(thread::Builder::new().name(format!("load {thread}")).spawn(body)?);
    }
    Ok(Run { shared, threads })
}

impl Run {
    /// Results so far.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True if all attempts have ended.
    pub fn is_done(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Starts no further attempts, and ends the open ones as stopped.
    pub fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Waits for the threads and returns the results.
    ///
    /// # Errors
    /// A thread failed, for example on its sockets.
    pub fn finish(self) -> Result<Statistics> {
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a thread of the load generator panicked"))??;
        }
        Ok(self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Registers the called users with the addresses of `callees`.
fn register(plan: &Plan, callees: &mut Player) -> Result<()> {
    let length = Duration::from_secs_f64(f64::from(plan.peers.count()) / REGISTER_RATE);
    let arrivals = Arrivals::new(REGISTER_RATE, Default::default(), now(), length);
    let mut config = config(plan, callees, Classic::Register, Some(arrivals))?;
    config.users = plan.peers.clone();
    callees.generator = Some(Generator::new(config, &seed()?, now()));
    let shared = Shared::default();
    play(std::slice::from_mut(callees), &shared, &plan.allowed_hosts)?;
    let statistics = shared.statistics.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((outcome, count)) = statistics.failures().next() {
        bail!(
            "{count} of {} called users could not register: {outcome}; check the domain, the users and the password",
            plan.peers.count()
        );
    }
    Ok(())
}

fn generator(
    plan: &Plan,
    player: &Player,
    classic: Classic,
    arrivals: Option<Arrivals>,
) -> Result<Generator> {
    Ok(Generator::new(config(plan, player, classic, arrivals)?, &seed()?, now()))
}

fn config(plan: &Plan, player: &Player, classic: Classic, arrivals: Option<Arrivals>) -> Result<Config> {
    let locals = player.locals()?;
    Ok(Config {
        scenario: Arc::new(classic.scenario_with(plan.media)?),
        users: plan.users.clone(),
        peers: plan.peers.clone(),
        domain: plan.domain.clone(),
        remote: plan.target.into(),
        transport: ringway_sansio::Transport::Udp,
        connections: Default::default(),
        media: match &player.media {
            Some(side) => side.address,
            None => *locals.first().context("a player has a socket")?,
        },
        media_use: plan.media,
        locals,
        arrivals,
        timers: plan.timers,
        attempts_max: Config::ATTEMPTS_MAX,
        silence_max: Config::SILENCE_MAX,
    })
}

/// Random number by which the media threads of a run recognize each other's packets.
fn mark() -> Result<u64> {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(seed()?.bytes().split_at(8).0);
    Ok(u64::from_be_bytes(bytes))
}

/// Random seed, so that no two generators have equal Call-IDs.
fn seed() -> Result<Seed> {
    let mut bytes = [0; 32];
    if getrandom::fill(&mut bytes).is_err() {
        bail!("the system has no random numbers");
    }
    Ok(Seed::from_bytes(bytes))
}

/// Current time of the generators: monotonic, from an arbitrary start.
pub(crate) fn now() -> Instant {
    Instant::from_nanos(machine::clock_ns(rustix::time::ClockId::Monotonic))
}

/// Exact timers for this thread.
pub(crate) fn exact_timers() -> Result<()> {
    set_current_timer_slack(NonZero::new(1)).context("ask for exact timers")
}

/// Attempts of the called users' registration, per second.
const REGISTER_RATE: f64 = 2_000.0;
/// Time between the start of the threads and the first planned attempt.
const START_DELAY: Duration = Duration::from_millis(20);
