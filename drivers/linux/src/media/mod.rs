//! Media threads: a pair of UDP ports, and a thread that runs a [`PacedNode`] at them; its start,
//! commands, reports and stop.
//!
//! Start reading at [`MediaThread::start`], then `tick_loop.rs`, the loop of the thread.

mod ports;
mod tick_loop;

use crate::config::Clock;
use crate::sys::{self, EventFd};
pub use ports::{MediaPorts, PortRange, PortsError, RTCP_PORT, RTP_PORT};
use ringway_sansio::PacedNode;
use rtrb::{Consumer, Producer, RingBuffer};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;
use tick_loop::{Counters, Shared, TickLoop};
pub use tick_loop::{MediaCounts, Priority};

/// Settings of a media thread.
#[derive(Clone, Copy, Debug)]
pub struct MediaConfig {
    /// Requested real-time priority, 1 to 99; 0: normal scheduling.
    pub real_time: u8,
    /// Locks the process's memory, so that it is not paged out.
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
    /// Starts the thread; the first tick is one interval from now, and its time is that of `clock`. It requests real-time
    /// priority, else a larger share of the processor; [`MediaThread::priority`] returns the result.
    ///
    /// # Errors
    /// A thread or a file descriptor cannot be created.
    pub fn start(ports: MediaPorts, machine: M, clock: Clock, config: MediaConfig) -> io::Result<Self> {
        let (commands, from_program) = RingBuffer::new(COMMANDS_MAX);
        let (to_program, reports) = RingBuffer::new(REPORTS_MAX);
        let shared = Arc::new(Shared {
            counters: Counters::default(),
            wake: EventFd::new()?,
            ending: AtomicBool::new(false),
        });
        let mut tick_loop = TickLoop::new(ports, Arc::clone(&shared), clock, from_program, to_program)?;
        let (running, runs) = sync_channel(1);
        let body = {
            let shared = Arc::clone(&shared);
            move || {
                if config.lock_memory {
                    // Without it page faults can delay ticks, which the counters show.
                    let _ = sys::lock_memory();
                }
                shared.counters.set_priority(raise_priority(config.real_time));
                // `start` waits for this, so that the priority is set when it returns.
                let _ = running.send(());
                tick_loop.run(machine)
            }
        };
        let thread = std::thread::Builder::new().name("media".to_owned()).spawn(body)?;
        // It fails if the thread has panicked, which `stop` reports.
        let _ = runs.recv();
        Ok(Self { commands, reports, shared, thread: Some(thread) })
    }

    /// Queues a command for the machine. `Err`: the queue is full; the command is returned.
    pub fn command(&mut self, command: M::Command) -> Result<(), M::Command> {
        let pushed = self.commands.push(command);
        self.shared.wake.signal();
        pushed.map_err(|rtrb::PushError::Full(command)| command)
    }

    /// Next report of the machine, if there is one.
    pub fn poll(&mut self) -> Option<M::Report> {
        self.reports.pop().ok()
    }

    /// Scheduling of the thread.
    pub fn priority(&self) -> Priority {
        self.shared.counters.priority()
    }

    /// Current counters.
    pub fn counts(&self) -> MediaCounts {
        self.shared.counters.counts()
    }

    /// Handle to the counters that outlives the thread.
    pub fn counters(&self) -> MediaCountersReader {
        MediaCountersReader(Arc::clone(&self.shared))
    }

    /// Ends the thread after the queued commands and returns the machine; its last reports can still be polled. `None`: the
    /// thread panicked, or was stopped before.
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

/// Reads a media thread's counters from any thread, also after its end.
#[derive(Clone)]
pub struct MediaCountersReader(Arc<Shared>);

impl MediaCountersReader {
    /// Current counters.
    pub fn counts(&self) -> MediaCounts {
        self.0.counters.counts()
    }

    /// Scheduling of the thread.
    pub fn priority(&self) -> Priority {
        self.0.counters.priority()
    }
}

fn raise_priority(real_time: u8) -> Priority {
    // The default timer slack of a thread that is not real-time is 50 µs, to save power.
    let _ = sys::set_timer_slack(Duration::from_nanos(1));
    if real_time == 0 {
        return Priority::Normal;
    }
    if sys::set_real_time(real_time).is_ok() {
        return Priority::RealTime(real_time);
    }
    if sys::set_nice(NICE).is_ok() { Priority::Nice(NICE) } else { Priority::Normal }
}

/// Nice value that sound servers use.
const NICE: i8 = -11;

/// Maximum number of queued commands.
const COMMANDS_MAX: usize = 64;

/// Maximum number of unread reports.
const REPORTS_MAX: usize = 256;

#[cfg(test)]
mod tests;
