//! Loop of a thread, and the sides of the load that it plays: generators with their sockets.

use super::datagrams::Batches;
use super::media::MediaSide;
use super::plan::Plan;
use super::sockets::Sockets;
use super::target::TargetWatch;
use super::{Input, Place, Shared, Waiting, exact_timers, now, read_token};
use crate::machine;
use anyhow::{Context as _, Result};
use ringway_linux::sys::{Epoll, Ready, ReadyList};
use ringway_load::{Action, Counters, Generator, Report};
use ringway_sansio::{Context, Instant, Node, Outbox};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// State of a thread's loop.
struct Thread<'a> {
    shared: &'a Shared,
    watch: TargetWatch,
    buffers: Buffers,
    /// Number of the player whose reports count.
    caller: u8,
    /// Reports of the callers since the last transfer to [`Shared`].
    reports: Vec<Report>,
    /// Time of the next transfer to [`Shared`], even of few reports.
    next_transfer: Instant,
    /// CPU time of the thread at the start.
    cpu_start: u64,
    load: Busiest,
}

/// Runs the players, which `epoll` watches, until the first one has no attempt left, or the run is stopped. The first one is
/// the caller, whose reports count.
pub(crate) fn play(players: &mut [Player], epoll: &Epoll, target: SocketAddr, shared: &Shared) -> Result<()> {
    exact_timers()?;
    let buffers = Buffers { batches: Batches::new(), out: Outbox::new(), actions: Vec::new() };
    let caller = players.first().map_or(0, |player| player.number);
    let start = now();
    let mut thread = Thread {
        shared,
        watch: TargetWatch::new(target),
        buffers,
        caller,
        reports: Vec::new(),
        next_transfer: start,
        cpu_start: machine::thread_cpu_ns(),
        load: Busiest { start, cpu_ns: machine::thread_cpu_ns(), share: 0.0 },
    };
    let mut ready = ReadyList::new(READY_MAX);
    let mut drained_at = None;
    loop {
        let now = now();
        thread.turn(players, &ready, now)?;
        thread.look_at_target(players, now);
        let is_done = players.first().is_none_or(Player::is_done);
        thread.transfer(players, now, is_done);
        if is_done {
            // Late responses get their ACK.
            let until = *drained_at.get_or_insert(now + DRAIN);
            if now >= until || players.len() == 1 {
                return Ok(());
            }
        }
        match shared.waiting {
            Waiting::Napping if ready.is_empty() => std::thread::sleep(NAP),
            Waiting::Ticking(tick) => std::thread::sleep((now + tick).since(super::now())),
            Waiting::Napping | Waiting::Asleep | Waiting::Spinning => {}
        }
        let next = players.iter().filter_map(Player::next_due).min();
        let wait_max = if shared.waiting == Waiting::Asleep { WAIT_MAX } else { Duration::ZERO };
        let left = next.map_or(wait_max, |at| at.since(super::now())).min(wait_max);
        epoll.wait_exact(&mut ready, left).context("wait for packets")?;
    }
}

/// Largest share of a processor that the thread used in a second; the waiting for late responses does not dilute it.
struct Busiest {
    /// Start of the second.
    start: Instant,
    /// CPU time of the thread then.
    cpu_ns: u64,
    share: f64,
}

impl Busiest {
    /// Takes the share of a second that has ended; of a shorter run that of all of it.
    fn look(&mut self, cpu_ns: u64, now: Instant, is_done: bool) {
        let wall = now.since(self.start);
        let is_over = wall >= SHARE_WINDOW;
        if is_over || (is_done && self.share == 0.0) {
            let share = (cpu_ns - self.cpu_ns) as f64 / (wall.as_nanos() as f64).max(1.0);
            self.share = self.share.max(share);
            (self.start, self.cpu_ns) = (now, cpu_ns);
        }
    }
}

impl Thread<'_> {
    /// Lets each player receive, run what is due, and send all packets together.
    fn turn(&mut self, players: &mut [Player], ready: &ReadyList, now: Instant) -> Result<()> {
        let is_stopped = self.shared.is_stopped.load(Ordering::Relaxed);
        for player in players {
            let mut player_now = now;
            let mut has_received = false;
            for ready in (0..ready.len()).filter_map(|index| ready.at(index)) {
                let (number, place) = read_token(ready.token);
                if number != player.number {
                    continue;
                }
                let (messages, is_last) = player.receive(place, ready, now, &mut self.buffers)?;
                has_received |= messages > 0;
                if is_last {
                    self.send(player, now);
                    player.sockets.finish(place);
                }
                // The messages took some time, by which the starts that are due are late.
                player_now = super::now();
            }
            if has_received {
                self.shared.last_message.note(now);
                self.watch.received();
            }
            player.run(player_now, is_stopped && player.number == self.caller, &mut self.buffers);
            self.send(player, player_now);
        }
        Ok(())
    }

    /// Sends the packets of a player and does its actions.
    fn send(&mut self, player: &mut Player, now: Instant) {
        let Buffers { batches, out, actions } = &mut self.buffers;
        self.watch.sending(out, now);
        player.sockets.send(out, batches, now);
        for action in actions.drain(..) {
            match action {
                Action::Ended(report) if player.number == self.caller => self.reports.push(report),
                Action::Ended(_) => {}
                Action::Release(connection) => player.sockets.release(connection, now),
                Action::Media(event) => {
                    if let Some(media) = &player.media {
                        media.report(event);
                    }
                }
                Action::Log { attempt, is_warning, text } => self.shared.log.add(attempt, is_warning, &text),
            }
        }
    }

    /// Ends the run if the target does not answer.
    fn look_at_target(&mut self, players: &[Player], now: Instant) {
        let refused = players.iter().map(|player| player.sockets.counters().refused).sum();
        self.watch.refusals(refused, now);
        self.watch.foreign(players.iter().map(Player::foreign).sum());
        let failure = players.iter().find_map(|player| player.sockets.tls_failure());
        if let Some(loss) = self.watch.loss(&self.shared.last_message, failure, now)
            && !self.shared.is_stopped.swap(true, Ordering::Relaxed)
        {
            self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner).set_target_loss(loss);
        }
    }

    /// Adds reports and counters to the shared statistics.
    fn transfer(&mut self, players: &[Player], now: Instant, is_done: bool) {
        if self.reports.len() < REPORTS_MIN && !is_done && now < self.next_transfer {
            return;
        }
        self.next_transfer = now + TRANSFER_EVERY;
        let cpu_ns = machine::thread_cpu_ns();
        self.load.look(cpu_ns, now, is_done);
        let cpu_ns = cpu_ns - self.cpu_start;
        let mut statistics = self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        self.reports.drain(..).for_each(|report| statistics.add(&report));
        let open = players.first().map_or(0, Player::open_attempts);
        let counters = players.iter().map(|player| (player.counters(), player.sockets.counters()));
        statistics.set_thread(std::thread::current().id(), counters, open, cpu_ns, self.load.share);
    }
}

/// Generator with its sockets.
pub(crate) struct Player {
    /// Number among the players of a thread.
    pub(crate) number: u8,
    pub(crate) generator: Option<Generator>,
    pub(crate) sockets: Sockets,
    /// Media of its calls.
    pub(crate) media: Option<MediaSide>,
    /// Counters of the generator at the start of the load.
    earlier: Counters,
}

/// Buffers of a thread for calls into its generators.
pub(crate) struct Buffers {
    pub(crate) batches: Batches,
    pub(crate) out: Outbox,
    pub(crate) actions: Vec<Action>,
}

impl Player {
    /// Opens the sockets of one side, watched by `epoll`.
    pub(crate) fn open(plan: &Plan, epoll: &Arc<Epoll>, number: u8, now: Instant) -> Result<Self> {
        let allowed = plan.allowed_hosts.as_slice().into();
        let watched = (epoll, number);
        let sockets = Sockets::open(plan, allowed, watched, now)?;
        Ok(Self { number, generator: None, sockets, media: None, earlier: Counters::default() })
    }

    /// Addresses of the sockets.
    pub(crate) fn locals(&self) -> Result<Vec<SocketAddr>> {
        self.sockets.locals()
    }

    /// Counts from here on.
    pub(crate) fn restart_counters(&mut self) {
        self.earlier = self.generator.as_ref().map(Generator::counters).unwrap_or_default();
        self.sockets.restart_counters();
    }

    /// Counters of the generator since the start of the load.
    pub(crate) fn counters(&self) -> Counters {
        let now = self.generator.as_ref().map(Generator::counters).unwrap_or_default();
        let earlier = self.earlier;
        Counters {
            started: now.started - earlier.started,
            dropped: now.dropped - earlier.dropped,
            requests: now.requests - earlier.requests,
            challenges: now.challenges - earlier.challenges,
            retransmissions: now.retransmissions - earlier.retransmissions,
            malformed: now.malformed - earlier.malformed,
            stray: now.stray - earlier.stray,
        }
    }

    /// Number of received messages that are not SIP.
    pub(crate) fn foreign(&self) -> u64 {
        self.sockets.counters().broken + self.counters().malformed
    }

    /// Number of open attempts.
    fn open_attempts(&self) -> usize {
        self.generator.as_ref().map_or(0, Generator::open)
    }

    /// True if no attempt is open or planned.
    pub(crate) fn is_done(&self) -> bool {
        self.generator.as_ref().is_none_or(Generator::is_done)
    }

    /// Handles a ready descriptor. Returns the number of received SIP messages. The caller sends `buffers.out` and then calls
    /// [`Sockets::finish`] if the second value is true.
    pub(crate) fn receive(
        &mut self,
        place: Place,
        ready: Ready,
        now: Instant,
        buffers: &mut Buffers,
    ) -> Result<(u64, bool)> {
        let Self { generator: Some(generator), sockets, .. } = self else { return Ok((0, false)) };
        let Buffers { batches, out, actions } = buffers;
        let malformed = generator.counters().malformed;
        let mut messages = 0;
        let is_last = sockets.receive(place, ready, now, batches, &mut |input| {
            let mut cx = Context::new(now, out, actions);
            match input {
                Input::Message(received) => {
                    messages += 1;
                    generator.on_message(&mut cx, received);
                }
                Input::Icmp(error) => generator.on_icmp_error(&mut cx, error),
            }
        })?;
        let malformed = generator.counters().malformed - malformed;
        Ok((messages - malformed.min(messages), is_last))
    }

    /// Passes events of the sockets to the generator and runs its due timers.
    pub(crate) fn run(&mut self, now: Instant, is_stopped: bool, buffers: &mut Buffers) {
        let Self { generator: Some(generator), sockets, .. } = self else { return };
        let mut cx = Context::new(now, &mut buffers.out, &mut buffers.actions);
        if is_stopped {
            generator.abort(&mut cx);
        }
        while let Some(event) = sockets.take_event() {
            generator.on_event(&mut cx, event);
        }
        if generator.next_deadline().is_some_and(|deadline| deadline.at <= now) {
            generator.on_timeout(&mut cx);
        }
        sockets.expire(now);
    }

    /// Time of the next [`Player::run`].
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let timers = self.generator.as_ref().and_then(|generator| generator.next_deadline());
        [timers.map(|deadline| deadline.at), self.sockets.next_due()].into_iter().flatten().min()
    }
}

/// Sleep of a generator in a closed loop that received nothing: a fraction of the time that any server needs for a window.
const NAP: Duration = Duration::from_micros(40);
/// Longest sleep, so that a stop is noticed.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Time for late responses after the last attempt.
const DRAIN: Duration = Duration::from_millis(200);
/// Time over which the use of the processor is measured.
const SHARE_WINDOW: Duration = Duration::from_secs(1);
/// Number of reports that are transferred at once.
const REPORTS_MIN: usize = 256;
/// Longest time between two transfers while packets or timers are due.
const TRANSFER_EVERY: Duration = Duration::from_millis(100);
/// Maximum number of ready descriptors that are handled together.
const READY_MAX: usize = 512;
