//! The media thread from outside: start it, ask it, hear from it, stop it.

use super::beat::{Beat, Shared};
use super::counts::{Counters, MediaCounts, Priority};
use super::ports::MediaPorts;
use crate::clock::Clock;
use crate::sys::{self, EventFd};
use ringway_sansio::PacedNode;
use rtrb::{Consumer, Producer, RingBuffer};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// How a media thread is to run.
#[derive(Clone, Copy, Debug)]
pub struct MediaConfig {
    /// The real-time priority to ask for, 1-99; 0: ask for none, nor for a larger share.
    pub real_time: u8,
    /// Keep the process's memory from being paged out.
    pub lock_memory: bool,
}

impl Default for MediaConfig {
    fn default() -> Self {
        Self { real_time: 20, lock_memory: true }
    }
}

/// A [`PacedNode`] running at a pair of ports. Dropping it ends the thread.
pub struct MediaThread<M: PacedNode> {
    commands: Producer<M::Command>,
    reports: Consumer<M::Report>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<M>>,
}

impl<M> MediaThread<M>
where
    M: PacedNode + Send + 'static,
    M::Command: Send,
    M::Report: Send,
{
    /// Starts the thread; the first beat is one beat from now. Its time is `clock`'s. It asks for real-time priority,
    /// else for a larger share, and takes what it gets: see [`MediaThread::priority`].
    pub fn start(ports: MediaPorts, machine: M, clock: Clock, config: MediaConfig) -> io::Result<Self> {
        let (commands, from_program) = RingBuffer::new(COMMANDS_MAX);
        let (to_program, reports) = RingBuffer::new(REPORTS_MAX);
        let shared = Arc::new(Shared {
            counters: Counters::default(),
            wake: EventFd::new()?,
            ending: AtomicBool::new(false),
        });
        let mut beat = Beat::new(ports, Arc::clone(&shared), clock, from_program, to_program)?;
        let (running, runs) = sync_channel(1);
        let body = {
            let shared = Arc::clone(&shared);
            move || {
                if config.lock_memory {
                    // Without it a page may have to be fetched now and then, which the late beats show.
                    let _ = sys::lock_memory();
                }
                shared.counters.set_priority(raise_priority(config.real_time));
                // Who started us waits, so that it is there.
                let _ = running.send(());
                beat.run(machine)
            }
        };
        let thread = std::thread::Builder::new().name("media".to_owned()).spawn(body)?;
        // It fails when the thread has panicked, which `stop` will say.
        let _ = runs.recv();
        Ok(Self { commands, reports, shared, thread: Some(thread) })
    }

    /// Has the machine do something, soon. Given back: too many commands wait.
    pub fn command(&mut self, command: M::Command) -> Result<(), M::Command> {
        let pushed = self.commands.push(command);
        self.shared.wake.signal();
        pushed.map_err(|rtrb::PushError::Full(command)| command)
    }

    /// The next report, if there is one.
    pub fn poll(&mut self) -> Option<M::Report> {
        self.reports.pop().ok()
    }

    /// How the system lets it run.
    pub fn priority(&self) -> Priority {
        self.shared.counters.priority()
    }

    /// What was counted so far.
    pub fn counts(&self) -> MediaCounts {
        self.shared.counters.counts()
    }

    /// A handle to the counts that outlives the thread.
    pub fn tally(&self) -> MediaTally {
        MediaTally(Arc::clone(&self.shared))
    }

    /// Ends the thread, after the commands that were given, and gives the machine back; its last reports can still be
    /// polled. `None`: it has panicked, or was stopped before.
    pub fn stop(&mut self) -> Option<M> {
        self.end()
    }
}

impl<M: PacedNode> MediaThread<M> {
    fn end(&mut self) -> Option<M> {
        self.shared.ending.store(true, Ordering::Release);
        self.shared.wake.signal();
        self.thread.take()?.join().ok()
    }
}

impl<M: PacedNode> Drop for MediaThread<M> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads a media thread's counts from any thread, also when it has ended.
#[derive(Clone)]
pub struct MediaTally(Arc<Shared>);

impl MediaTally {
    /// What was counted so far.
    pub fn counts(&self) -> MediaCounts {
        self.0.counters.counts()
    }

    /// How the system lets the thread run.
    pub fn priority(&self) -> Priority {
        self.0.counters.priority()
    }
}

fn raise_priority(real_time: u8) -> Priority {
    // Timers of a thread that is not real-time would be up to 50 µs late for the sake of saving power.
    let _ = sys::set_timer_slack(Duration::from_nanos(1));
    if real_time == 0 {
        return Priority::Normal;
    }
    if sys::set_real_time(real_time).is_ok() {
        return Priority::RealTime(real_time);
    }
    if sys::set_nice(NICE).is_ok() { Priority::Nice(NICE) } else { Priority::Normal }
}

/// What sound servers ask for.
const NICE: i8 = -11;

/// Commands that wait.
const COMMANDS_MAX: usize = 64;

/// Reports that wait to be fetched.
const REPORTS_MAX: usize = 256;
