//! Load: the generators of `ringway-load` on sockets and threads, in an open loop ([`Session::start`]) or in a closed
//! one ([`Session::start_window`]).
//!
//! Each thread plays callers and, for calls, callees, with sockets of its own. Results are in [`Statistics`], times in
//! histograms of microseconds.

mod bindings;
mod criterion;
mod datagrams;
#[cfg(test)]
mod health_tests;
pub mod in_memory;
mod layers;
mod locals;
mod log;
mod media;
mod plan;
mod sockets;
mod statistics;
mod streams;
mod target;
mod thread;
mod timeline;
#[cfg(test)]
mod tls_tests;
mod wire_counters;

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ringway_linux::sys::{Epoll, raise_open_files};
use ringway_load::{Arrivals, Config, Counters, Generator, Outcome};
pub use ringway_load::{
    ConnectionUse, CryptoSuite, Length, MediaUse, Scenario, Spacing, User, Users, UsersError,
};
pub use ringway_sansio::Transport;
use ringway_sansio::{IcmpError, Instant, Received, Seed};
pub use ringway_transaction::Timers;
use rustix::thread::set_current_timer_slack;

use crate::machine;
use bindings::Bindings;
pub use bindings::Stop;
pub use criterion::{Criteria, Criterion, CriterionError, percentile_name};
pub(crate) use locals::Locals;
pub use locals::{local_towards, resolve};
use log::Log;
pub use log::{LogLine, Taken};
pub use media::MediaStatistics;
use media::MediaThread;
pub use plan::{Called, Files, Flow, LoadTls, Plan};
use ringway_transaction::SlabKey;
pub use statistics::{Delay, Health, LAG_ATTEMPTS_MIN, Statistics};
use target::LastMessage;
use thread::{Player, play};
pub use timeline::Slot;
pub use wire_counters::WireCounters;

/// Waiting of a thread for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It sleeps until there are some.
    Asleep,
    /// It looks for them all the time.
    Spinning,
    /// It looks for them, and sleeps for a short time if there are none. They do not end the sleep.
    Napping,
    /// It looks for them, and sends what is due, once in this interval, as SIPp does in a millisecond.
    Ticking(Duration),
}

/// State of a run that its threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// No attempt is started any more.
    is_stopped: Arc<AtomicBool>,
    waiting: Waiting,
    last_message: LastMessage,
    statistics: Mutex<Statistics>,
    log: Log,
}

impl Shared {
    /// State of a run whose attempts are planned from `start` on, for `length`.
    fn new(start: Instant, length: Duration) -> Self {
        let statistics = Mutex::new(Statistics::new(start, length));
        Self {
            is_stopped: Arc::default(),
            waiting: Waiting::Asleep,
            last_message: LastMessage::new(start),
            statistics,
            log: Log::default(),
        }
    }
}

/// Sockets and registered users, for one load after another.
pub struct Session {
    plan: Plan,
    waiting: Waiting,
    companies: Vec<Company>,
}

/// Side of a session that makes a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The callers. Called users answer them.
    Callers,
    /// The called users, with the sockets, Call-IDs and CSeqs of their registration.
    Called,
}

/// Closed loop: a number of attempts is open at any time, each begun when another one ends.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Number of open attempts, of each thread.
    pub size: u32,
    /// Time during which attempts are begun.
    pub length: Duration,
    /// Maximum number of attempts, of each thread.
    pub attempts: u64,
}

/// Players of a thread, which one epoll watches. The first one is the caller, the second one the called users.
struct Company {
    /// Plan of the thread.
    plan: Plan,
    epoll: Arc<Epoll>,
    players: Vec<Player>,
    /// Generator that has registered the called users, while another one answers calls.
    registering: Option<Generator>,
    /// Side that makes the load.
    side: Side,
    /// Media of the players' calls, until its thread is started.
    media: Option<MediaThread>,
    /// Bindings that were made before the load.
    bindings: Vec<Bindings>,
}

/// Running load.
#[derive(Debug)]
pub struct Run {
    plan: Plan,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<Company>>>,
}

/// Registers users, if the flow needs it, and starts the load of `plan`. Follow it with [`Run::statistics`].
///
/// # Errors
/// As [`Session::open`] and [`Session::start`].
pub fn run(plan: &Plan) -> Result<Run> {
    Session::open(plan)?.start_planned()
}

impl Session {
    /// Opens sockets, and registers users if the flow of `plan` needs it.
    ///
    /// # Errors
    /// An address that is not permitted, sockets that cannot be opened, users that cannot be registered, a target that does not
    /// answer their registration.
    pub fn open(plan: &Plan) -> Result<Self> {
        Self::open_unless(plan, &Stop::default())?.context("the registration of users was stopped")
    }

    /// As [`Session::open`]. `None`: it was stopped, and the bindings that it had made are removed.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub fn open_unless(plan: &Plan, stop: &Stop) -> Result<Option<Self>> {
        plan.check()?;
        raise_open_files().context("raise the limit of open files")?;
        let mark = mark()?;
        let mut session = Self { plan: plan.clone(), waiting: Waiting::Asleep, companies: Vec::new() };
        for index in 0..plan.threads {
            let (company, registered) = Company::open(plan.of_thread(index)?, mark, stop)?;
            session.companies.push(company);
            if registered.is_err() || stop.is_stopped() {
                let removed = session.remove_bindings();
                return registered.and(removed).map(|()| None);
            }
        }
        if plan.registered_before().is_some() {
            let closing = if plan.called == Called::Dialled { CLOSING } else { Duration::ZERO };
            std::thread::sleep(plan.settle.max(closing));
        }
        if stop.is_stopped() {
            return session.remove_bindings().map(|()| None);
        }
        Ok(Some(session))
    }

    /// Number of bindings that were made before the load and are not removed yet.
    pub fn bindings(&self) -> u32 {
        self.companies.iter().flat_map(|company| &company.bindings).map(Bindings::count).sum()
    }

    /// Removes the bindings that were made before the load, so that a running server does not keep them.
    ///
    /// # Errors
    /// The number of bindings that were not removed, with the reasons.
    pub fn remove_bindings(&mut self) -> Result<()> {
        let mut result = Ok(());
        for company in &mut self.companies {
            for bindings in company.bindings.drain(..) {
                let removed = bindings::remove(bindings, &company.epoll, &mut company.players);
                result = result.and(removed);
            }
        }
        result
    }

    /// Lets the threads wait busily, so that no delay contains their waking up. Each then uses a whole processor, of which
    /// [`Health`] says that the result is invalid.
    #[must_use]
    pub fn spinning(self) -> Self {
        Self { waiting: Waiting::Spinning, ..self }
    }

    /// Lets the threads nap when there is nothing to receive. Waking a generator that sleeps on its sockets would be charged to
    /// the server, and more often to a slow one than to a fast one.
    #[must_use]
    pub fn napping(self) -> Self {
        Self { waiting: Waiting::Napping, ..self }
    }

    /// Its threads look at their sockets and their clock once in `tick`: packets in both directions wait for it.
    pub fn ticking(self, tick: Duration) -> Self {
        Self { waiting: Waiting::Ticking(tick), ..self }
    }

    /// Starts a load of `rate` attempts a second for `length`, otherwise as planned.
    ///
    /// # Errors
    /// Impossible numbers, no threads.
    pub fn start(self, rate: f64, length: Duration) -> Result<Run> {
        let plan = Plan { rate, length, after: None, ..self.plan };
        Self { plan, ..self }.start_planned()
    }

    /// The same session with the rate and times of another plan.
    #[must_use]
    pub fn planning(self, plan: &Plan) -> Self {
        let (rate, length, after) = (plan.rate, plan.length, plan.after);
        Self { plan: Plan { rate, length, after, ..self.plan }, ..self }
    }

    /// Starts the load as planned, with that after it.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn start_planned(self) -> Result<Run> {
        self.plan.check()?;
        let Plan { rate, length, spacing, threads, after, .. } = self.plan;
        let threads = f64::from(threads);
        let whole = self.plan.whole_length();
        self.start_side(Side::Callers, None, whole, |start, index| {
            // The threads take turns.
            let first = start + Duration::from_secs_f64(f64::from(index) / rate).min(length);
            let arrivals = Arrivals::new(rate / threads, spacing, first, length);
            match after {
                Some((rate, length)) => arrivals.then(rate / threads, length),
                None => arrivals,
            }
        })
    }

    /// Starts a closed loop of `side` with a scenario.
    ///
    /// # Errors
    /// More open attempts than users, a scenario or a side that does not call, no threads.
    pub fn start_window(self, side: Side, scenario: &Arc<Scenario>, window: Window) -> Result<Run> {
        let Window { size, length, attempts } = window;
        let users = if side == Side::Callers { &self.plan.users } else { &self.plan.peers };
        ensure!(size <= users.count() / self.plan.threads, "{size} open attempts need as many users");
        ensure!(scenario.is_caller(), "the scenario of a load begins with a sent message");
        self.start_side(side, Some(scenario), length, |start, _| {
            Arrivals::window(size, start, length).at_most(attempts)
        })
    }

    fn start_side(
        self,
        side: Side,
        scenario: Option<&Arc<Scenario>>,
        length: Duration,
        arrivals: impl Fn(Instant, u32) -> Arrivals,
    ) -> Result<Run> {
        let plan = self.plan;
        let start = now() + START_DELAY;
        let shared = Arc::new(Shared { waiting: self.waiting, ..Shared::new(start, length) });
        let mut threads = Vec::new();
        for (index, mut company) in (0_u32..).zip(self.companies) {
            company.start(side, scenario, arrivals(start, index))?;
            if plan.has_media() && company.media.is_none() {
                bail!("a session makes one load with media; open another");
            }
            let shared = Arc::clone(&shared);
            let body = move || company.play(index, &shared);
            threads.push(std::thread::Builder::new().name(format!("load {index}")).spawn(body)?);
        }
        Ok(Run { plan, shared, threads })
    }
}

impl Run {
    /// Results so far.
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lines of the scenario's log since the last call.
    pub fn take_log(&self) -> Taken {
        self.shared.log.take()
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
        Ok(self.finish_session()?.0)
    }

    /// Waits for the threads and returns the results, and the session for another load.
    ///
    /// # Errors
    /// As [`Run::finish`].
    pub fn finish_session(self) -> Result<(Statistics, Session)> {
        // All threads end before an error of one of them is returned.
        let panicked = |_| Err(anyhow!("a thread of the load generator panicked"));
        let companies: Vec<Result<Company>> =
            self.threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect();
        let companies = companies.into_iter().collect::<Result<Vec<_>>>()?;
        let statistics = self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok((statistics, Session { plan: self.plan, waiting: self.shared.waiting, companies }))
    }
}

impl Company {
    /// Opens the sockets, and registers users with them. Media of all threads have the same `mark`. Also returns the result of
    /// the registration.
    fn open(mut plan: Plan, mark: u64, stop: &Stop) -> Result<(Self, Result<()>)> {
        let epoll = Arc::new(Epoll::new().context("create an epoll")?);
        let (mut bindings, mut registered) = (Vec::new(), Ok(()));
        let open =
            |scenario| Player::open(&plan.of_called(), &epoll, 1, now()).map(|player| (scenario, player));
        let callee = plan.callee()?.map(open).transpose()?;
        if plan.is_direct
            && let Some((_, callee)) = &callee
        {
            plan.target = *callee.locals()?.first().context("a player has a socket")?;
        }
        let mut caller = Player::open(&plan, &epoll, 0, now())?;
        let (mut media, mut registering, mut called_media) = (None, None, None);
        if plan.has_media() {
            let ([callers, called], thread) = MediaThread::open(&plan, mark)?;
            (media, caller.media, called_media) = (Some(thread), Some(callers), Some(called));
        }
        let mut players = vec![caller];
        if let Some((scenario, mut callee)) = callee {
            callee.media = called_media.take();
            let config = callee_config(&plan, &callee)?;
            if !plan.is_direct {
                let player = (players.len(), &mut callee);
                let window = plan.register_window;
                registered = bindings::register(config.clone(), window, &epoll, player, stop, &mut bindings);
            }
            let answering = Generator::new(Config { scenario, ..config }, &seed()?, now());
            registering = callee.generator.replace(answering);
            players.push(callee);
        }
        if plan.has_bindings()
            && let Some(caller) = players.first_mut()
        {
            let config = caller_config(&plan, caller)?;
            let window = plan.register_window;
            registered = bindings::register(config, window, &epoll, (0, caller), stop, &mut bindings);
        }
        Ok((Self { plan, epoll, players, registering, side: Side::Callers, media, bindings }, registered))
    }

    /// Plans the attempts of a side, of the scenario of the plan if there is no other one.
    fn start(&mut self, side: Side, scenario: Option<&Arc<Scenario>>, arrivals: Arrivals) -> Result<()> {
        self.side = side;
        if side == Side::Called {
            self.swap_called();
        }
        let Self { plan, players, .. } = self;
        let scenario = scenario.map_or_else(|| plan.caller(), |scenario| Ok(Arc::clone(scenario)))?;
        if side == Side::Called {
            let called = players.get_mut(1).and_then(|called| called.generator.as_mut());
            called.context("the called users have not registered")?.continue_with(&scenario, arrivals);
        } else if let Some(caller) = players.first_mut() {
            match &mut caller.generator {
                // It has registered the users, or made an earlier load.
                Some(generator) => generator.continue_with(&scenario, arrivals),
                None => {
                    let mut config = caller_config(plan, caller)?;
                    (config.scenario, config.arrivals) = (scenario, Some(arrivals));
                    caller.generator = Some(Generator::new(config, &seed()?, now()));
                }
            }
        }
        players.iter_mut().for_each(Player::restart_counters);
        Ok(())
    }

    /// Exchanges the generator that answers for the called users with the one that has registered them.
    fn swap_called(&mut self) {
        if let Some(called) = self.players.get_mut(1) {
            std::mem::swap(&mut called.generator, &mut self.registering);
        }
    }

    /// Plays until the caller has no attempt left.
    fn play(mut self, index: u32, shared: &Arc<Shared>) -> Result<Self> {
        let Self { plan, epoll, players, media, side, .. } = &mut self;
        let media = media.take().map(|media| media.start(index, shared)).transpose()?;
        let playing = if *side == Side::Called { players.get_mut(1..) } else { Some(players.as_mut_slice()) };
        let played = play(playing.unwrap_or_default(), epoll, plan.target, shared);
        // The thread of the media ends when nothing is left that reports calls to it.
        players.iter_mut().for_each(|player| player.media = None);
        if let Some(thread) = media {
            thread.join().map_err(|_| anyhow!("a media thread of the load generator panicked"))??;
        }
        if self.side == Side::Called {
            self.swap_called();
        }
        played.map(|()| self)
    }
}

/// Configuration of a caller that registers its users; without attempts.
fn caller_config(plan: &Plan, player: &Player) -> Result<Config> {
    let locals = player.locals()?;
    Ok(Config {
        scenario: plan.registration()?,
        users: plan.users.clone(),
        peers: plan.peers.clone(),
        domain: plan.domain.clone(),
        remote: plan.target,
        transport: plan.transport,
        connections: plan.connections,
        is_outbound_proxy: plan.is_outbound_proxy,
        media: match &player.media {
            Some(side) => side.address,
            None => *locals.first().context("a player has a socket")?,
        },
        media_use: plan.media,
        locals,
        arrivals: None,
        timers: plan.timers,
        attempts_max: Config::ATTEMPTS_MAX,
        honours_retry_after: plan.honours_retry_after,
        silence_max: Config::SILENCE_MAX,
    })
}

/// Configuration of a callee that registers the called users.
fn callee_config(plan: &Plan, player: &Player) -> Result<Config> {
    let connections = match (plan.called, plan.connections) {
        (Called::Shared, _) | (Called::Usual, ConnectionUse::Shared) => ConnectionUse::Shared,
        (Called::PerUser, _) | (Called::Usual, _) => ConnectionUse::PerUser,
        // The connection ends with the registration.
        (Called::Dialled, _) => ConnectionUse::PerAttempt,
    };
    // The BYE comes after the caller's talk time.
    let silence_max = Config::SILENCE_MAX.saturating_add(plan.talk.longest());
    let remote = plan.peer_target.unwrap_or(plan.target);
    Ok(Config { users: plan.peers.clone(), remote, connections, silence_max, ..caller_config(plan, player)? })
}

/// Random number by which the media threads of a run recognize each other's packets.
fn mark() -> Result<u64> {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(seed()?.bytes().split_at(8).0);
    Ok(u64::from_be_bytes(bytes))
}

/// Random seed, so that no two generators have equal Call-IDs.
pub(crate) fn seed() -> Result<Seed> {
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
fn exact_timers() -> Result<()> {
    set_current_timer_slack(NonZero::new(1)).context("ask for exact timers")
}

/// Descriptor of a player that epoll watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Datagram socket or listening socket.
    Socket(usize),
    /// Connection.
    Connection(SlabKey),
}

/// Token of a descriptor of the player with number `player`.
pub(crate) fn token(player: u8, place: Place) -> u64 {
    let low = match place {
        Place::Socket(index) => index as u64 & u64::from(u32::MAX),
        Place::Connection(key) => {
            CONNECTION | u64::from(key.generation & 0xffff) << 32 | u64::from(key.index)
        }
    };
    u64::from(player) << PLAYER_SHIFT | low
}

/// Number of the player and descriptor of a token.
pub(crate) fn read_token(token: u64) -> (u8, Place) {
    let index = token as u32;
    let place = match token & CONNECTION {
        0 => Place::Socket(index as usize),
        _ => Place::Connection(SlabKey { index, generation: (token >> 32) as u32 & 0xffff }),
    };
    ((token >> PLAYER_SHIFT) as u8, place)
}

const PLAYER_SHIFT: u32 = 56;
const CONNECTION: u64 = 1 << 55;

/// Input of a generator from its sockets.
pub(crate) enum Input<'a> {
    /// Message of a peer.
    Message(Received<'a>),
    /// ICMP error for a datagram of the generator.
    Icmp(IcmpError<'a>),
}

/// Time between the start of the threads and the first planned attempt.
const START_DELAY: Duration = Duration::from_millis(20);
/// Time within which a server notices that the connections of registrations are closed.
const CLOSING: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back() {
        let key = SlabKey { index: u32::MAX, generation: 0xffff };
        for (player, place) in [(0, Place::Socket(255)), (1, Place::Connection(key)), (255, Place::Socket(0))]
        {
            assert_eq!(read_token(token(player, place)), (player, place));
        }
    }
}
