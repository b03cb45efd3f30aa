//! Closed loop: a window of operations, each restarted as soon as it is complete.
//!
//! One thread, batches both ways. What an operation is, a [`Scenario`] says; here are only the window, the repeats after a loss and the counting. An answer that a scenario does not expect ends the run:
//! a figure for something else than what the row says would be worse than none.

use crate::machine;
use crate::sys::Outbound;
use crate::wire::Wire;
use anyhow::{Context, Result, anyhow};
use rustix::thread::set_current_timer_slack;
use std::num::NonZero;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Sleep of the generator while no message is queued: a fraction of the time that any server needs for a
/// window, so that the server always has work.
const NAP: Duration = Duration::from_micros(40);

/// Time after which a message is retransmitted.
const REPEAT_AFTER: Duration = Duration::from_millis(200);

/// Time without a message after which the server counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(8);

/// Messages that a scenario sends.
pub struct Sending<'a>(&'a mut [Outbound]);

impl<'a> Sending<'a> {
    /// Sends through these queues, one for each phone socket.
    pub(crate) fn to(outbound: &'a mut [Outbound]) -> Self {
        Self(outbound)
    }

    /// Sends one message from a phone socket.
    pub fn send(&mut self, socket: usize, bytes: &[u8]) {
        if let Some(outbound) = self.0.get_mut(socket) {
            outbound.push(None, bytes);
        }
    }

    /// Sends one message that `write` appends.
    pub fn send_with(&mut self, socket: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(outbound) = self.0.get_mut(socket) {
            outbound.push_with(None, write);
        }
    }
}

/// Effect of one received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// A duplicate, or a message of an operation that is complete.
    Nothing,
    /// The operation of this slot is one step further.
    Step(usize),
    /// The operation of this slot is complete.
    Done(usize),
    /// Not part of a successful operation.
    Unexpected,
}

/// A kind of operation; the generator plays both its ends.
pub trait Scenario {
    /// Number of operations in progress at a time.
    fn window(&self) -> usize;

    /// Starts the next operation in `slot`.
    fn begin(&mut self, slot: usize, out: &mut Sending<'_>);

    /// Handles a message that arrived on a phone socket.
    fn on_message(&mut self, socket: usize, bytes: &[u8], out: &mut Sending<'_>) -> Progress;

    /// Retransmits the last message of the operation in `slot`.
    fn repeat(&mut self, slot: usize, out: &mut Sending<'_>);
}

/// Length of a run.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// Number of operations.
    Operations(u64),
    /// Duration, after a warm-up that is not counted.
    Time {
        /// Warm-up before the measured part.
        run_up: Duration,
        /// Length of the measured part.
        measured: Duration,
    },
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Operations completed in the measured part.
    pub operations: u64,
    /// Length of the measured part.
    pub wall: Duration,
    /// Growth of the server's CPU counter in it, in nanoseconds.
    pub server_ns: u64,
    /// CPU time of this thread in it, in nanoseconds.
    pub generator_ns: u64,
    /// Number of retransmissions.
    pub repeated: u64,
    /// Operations completed in total, including those before and after the measured part.
    pub completed: u64,
}

/// Runs `scenario` for `extent`; `server_ns` reads the server's CPU counter.
///
/// # Errors
/// An unexpected message, or a server that ended or is silent.
pub fn drive<W: Wire, S: Scenario>(
    wire: &mut W,
    scenario: &mut S,
    extent: Extent,
    server_ns: &mut dyn FnMut() -> Result<u64>,
) -> Result<Outcome> {
    // Discards what arrived since the last run.
    while wire.receive(&mut |_, _, _| Ok(()))? > 0 {}
    set_current_timer_slack(NonZero::new(1)).context("ask for timers that are exact")?;
    let mut run = Run::new(scenario.window(), extent);
    for slot in 0..scenario.window() {
        run.begin(scenario, slot, wire.outbound());
    }
    if let Extent::Operations(_) = extent {
        run.start_measuring(server_ns)?;
    }
    wire.flush()?;
    while !run.is_over() {
        let came =
            wire.receive(&mut |socket, bytes, outbound| run.on_message(scenario, socket, bytes, outbound))?;
        if came == 0 {
            sleep(NAP);
        }
        run.now = Instant::now();
        run.repeat_lost(scenario, wire.outbound())?;
        wire.flush()?;
        run.measure(server_ns)?;
    }
    Ok(Outcome { completed: run.done, ..run.outcome })
}

/// The state of one run.
struct Run {
    extent: Extent,
    started: Instant,
    now: Instant,
    /// Time of the last message of each slot; `None` for an idle slot.
    moved: Vec<Option<Instant>>,
    under_way: usize,
    begun: u64,
    done: u64,
    repeated: u64,
    heard: Instant,
    scanned: Instant,
    baseline: Option<Baseline>,
    outcome: Outcome,
    /// Time from which on no operation is started.
    closing: Option<Instant>,
}

/// The counters at the start of the measured part.
struct Baseline {
    at: Instant,
    done: u64,
    repeated: u64,
    server_ns: u64,
    generator_ns: u64,
}

impl Run {
    fn new(window: usize, extent: Extent) -> Self {
        let now = Instant::now();
        Self {
            extent,
            started: now,
            now,
            moved: vec![None; window],
            under_way: 0,
            begun: 0,
            done: 0,
            repeated: 0,
            heard: now,
            scanned: now,
            baseline: None,
            outcome: Outcome::default(),
            closing: None,
        }
    }

    /// True if all operations have ended or timed out.
    fn is_over(&self) -> bool {
        match self.closing {
            Some(at) => self.under_way == 0 || self.now.duration_since(at) > Duration::from_secs(2),
            None => false,
        }
    }

    fn begin<S: Scenario>(&mut self, scenario: &mut S, slot: usize, outbound: &mut [Outbound]) {
        if self.closing.is_some() || matches!(self.extent, Extent::Operations(most) if self.begun >= most) {
            return;
        }
        self.begun += 1;
        self.under_way += 1;
        scenario.begin(slot, &mut Sending::to(outbound));
        self.touch(slot, Some(self.now));
    }

    fn on_message<S: Scenario>(
        &mut self,
        scenario: &mut S,
        socket: usize,
        bytes: &[u8],
        outbound: &mut [Outbound],
    ) -> Result<()> {
        self.heard = self.now;
        match scenario.on_message(socket, bytes, &mut Sending::to(outbound)) {
            Progress::Nothing => {}
            Progress::Step(slot) => self.touch(slot, Some(self.now)),
            Progress::Done(slot) => {
                self.done += 1;
                self.under_way -= 1;
                self.touch(slot, None);
                self.begin(scenario, slot, outbound);
            }
            Progress::Unexpected => {
                let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
                return Err(anyhow!(
                    "the server sent what this operation does not expect: {}",
                    String::from_utf8_lossy(line)
                ));
            }
        }
        Ok(())
    }

    fn touch(&mut self, slot: usize, when: Option<Instant>) {
        if let Some(moved) = self.moved.get_mut(slot) {
            *moved = when;
        }
    }

    /// Retransmits lost messages; checked twenty times per second.
    fn repeat_lost<S: Scenario>(&mut self, scenario: &mut S, outbound: &mut [Outbound]) -> Result<()> {
        if self.now.duration_since(self.scanned) < Duration::from_millis(50) {
            return Ok(());
        }
        self.scanned = self.now;
        if self.now.duration_since(self.heard) > SILENCE_MAX {
            return Err(anyhow!(
                "the server answered nothing for {} s, with {} operations under way and {} done",
                SILENCE_MAX.as_secs(),
                self.under_way,
                self.done
            ));
        }
        for slot in 0..self.moved.len() {
            let Some(Some(moved)) = self.moved.get(slot).copied() else { continue };
            if self.now.duration_since(moved) >= REPEAT_AFTER {
                self.repeated += 1;
                scenario.repeat(slot, &mut Sending::to(outbound));
                self.touch(slot, Some(self.now));
            }
        }
        Ok(())
    }

    fn start_measuring(&mut self, server_ns: &mut dyn FnMut() -> Result<u64>) -> Result<()> {
        self.baseline = Some(Baseline {
            at: self.now,
            done: self.done,
            repeated: self.repeated,
            server_ns: server_ns()?,
            generator_ns: machine::thread_cpu_ns(),
        });
        Ok(())
    }

    /// Starts measuring after the run-up and ends the run after the measured part.
    fn measure(&mut self, server_ns: &mut dyn FnMut() -> Result<u64>) -> Result<()> {
        if self.closing.is_some() {
            return Ok(());
        }
        let at_end = match (self.extent, &self.baseline) {
            (Extent::Time { run_up, .. }, None) => {
                if self.now.duration_since(self.started) >= run_up {
                    self.start_measuring(server_ns)?;
                }
                false
            }
            (Extent::Time { measured, .. }, Some(baseline)) => {
                self.now.duration_since(baseline.at) >= measured
            }
            (Extent::Operations(most), _) => self.done >= most,
        };
        if let (true, Some(baseline)) = (at_end, &self.baseline) {
            self.closing = Some(self.now);
            self.outcome = Outcome {
                operations: self.done - baseline.done,
                wall: self.now.duration_since(baseline.at),
                server_ns: server_ns()?.saturating_sub(baseline.server_ns),
                generator_ns: machine::thread_cpu_ns().saturating_sub(baseline.generator_ns),
                repeated: self.repeated - baseline.repeated,
                completed: 0,
            };
        }
        Ok(())
    }
}
