//! The whole: worker threads over bound listeners and shards, from start to stop.

use crate::action::ActionSink;
use crate::config::Config;
use crate::counters::{Counters, Counts};
use crate::inbox::Inboxes;
use crate::listen::{Bound, Listen};
use crate::listing::Connections;
use crate::shard::Shards;
use crate::shared::{Common, Phase};
use crate::sys;
use crate::worker::{Parts, Worker};
use ringway_sansio::{Event, Node};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nodes running on worker threads. Dropping it ends the threads without grace.
pub struct Runtime<N: Node> {
    common: Arc<Common>,
    shards: Shards<N>,
    counters: Vec<Arc<Counters>>,
    listeners: Vec<Listen>,
    threads: Vec<JoinHandle<()>>,
}

impl<N: Node + Send + 'static> Runtime<N> {
    /// Starts the workers. `nodes` are the shards, in order; what they wish done goes to `sink`.
    ///
    /// It raises the process's limit of open files as far as the system lets it. Connections take no more of them than leaves
    /// a reserve for everything else, the admin API among it: [`Runtime::connections_max`].
    pub fn start(
        bound: Bound,
        config: Config,
        nodes: Vec<N>,
        sink: Arc<dyn ActionSink<N::Action>>,
    ) -> Result<Self, StartError>
    where
        N::Action: 'static,
    {
        if nodes.is_empty() || nodes.len() > usize::from(u16::MAX) {
            return Err(StartError::Shards(nodes.len()));
        }
        let config =
            Config { max_connections: config.max_connections.min(files_for_connections()), ..config };
        let Bound { listeners, sockets, inboxes } = bound;
        let common = Arc::new(Common::new(&config, inboxes.clone()));
        let shards = Shards::new(nodes, config.shard_key, inboxes);
        let mut runtime = Self { common, shards, counters: Vec::new(), listeners, threads: Vec::new() };
        for (index, sockets) in sockets.into_iter().enumerate() {
            runtime.spawn(index, sockets, Arc::clone(&sink)).map_err(StartError::Machine)?;
        }
        Ok(runtime)
    }

    /// Ends: takes no more connections, goes on with messages and timers until every node is `idle` and all is
    /// written, at most for `grace`; then ends the threads. True if nothing was left undone.
    pub fn stop(mut self, grace: Duration, mut idle: impl FnMut(&N) -> bool) -> bool {
        let end = Instant::now() + grace;
        self.common.enter(Phase::Draining);
        let done = loop {
            let counts = self.counts();
            let all_idle = (0..self.shards.len())
                .all(|shard| self.shards.with_shard(shard as u16, |node| idle(node)).unwrap_or(true));
            if all_idle && counts.held == 0 && counts.unwritten_bytes == 0 {
                break true;
            }
            if Instant::now() >= end {
                break false;
            }
            std::thread::sleep(STOP_POLL);
        };
        self.end_threads();
        done
    }
}

impl<N: Node> Runtime<N> {
    /// The listeners in the order they were configured, with the ports they have.
    pub fn listeners(&self) -> &[Listen] {
        &self.listeners
    }

    /// Access to the nodes, for any thread.
    pub fn shards(&self) -> Shards<N> {
        self.shards.clone()
    }

    /// The way to the workers, for any thread.
    pub fn inboxes(&self) -> Inboxes {
        self.common.inboxes.clone()
    }

    /// Hands an event, such as the answer to a look-up, to the node of `shard`. False: too many wait, it is dropped.
    pub fn deliver_event(&self, shard: u16, event: Event) -> bool {
        self.common.inboxes.deliver(shard, event)
    }

    /// The counts of all workers together.
    pub fn counts(&self) -> Counts {
        self.tally().counts()
    }

    /// Connections that may be open at a time: as configured, or fewer where the limit of open files is too low for that.
    pub fn connections_max(&self) -> usize {
        self.common.max_connections
    }

    /// Sets another limit for the accepted connections of one source; 0: none. Connections beyond it stay.
    pub fn set_max_connections_per_source(&self, max: usize) {
        self.common.sources.set_max(max);
    }

    /// The connections that are open.
    pub fn connections(&self) -> Connections {
        self.common.connections.clone()
    }

    /// A handle to the counts that outlives borrows of the runtime.
    pub fn tally(&self) -> Tally {
        Tally { counters: self.counters.clone() }
    }

    /// True when a worker has ended by itself: a node panicked, or the system took epoll away. What its sockets take
    /// in is lost; the program should end and be started again.
    pub fn has_failed(&self) -> bool {
        self.common.failed.load(Ordering::Relaxed)
    }

    fn end_threads(&mut self) {
        self.common.enter(Phase::Ending);
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so and is counted as failed.
            let _ = thread.join();
        }
        self.shards.end_calls();
    }
}

impl<N: Node + Send + 'static> Runtime<N> {
    fn spawn(
        &mut self,
        index: usize,
        sockets: Vec<crate::listen::ListenSocket>,
        sink: Arc<dyn ActionSink<N::Action>>,
    ) -> io::Result<()>
    where
        N::Action: 'static,
    {
        let counters = Arc::new(Counters::default());
        self.counters.push(Arc::clone(&counters));
        let common = Arc::clone(&self.common);
        let parts = Parts::new(index, Arc::clone(&common), counters, self.shards.clone(), sink, sockets)?;
        let body = move || {
            let mut guard = FailureGuard { common, failed: true };
            // Receive buffers hold pointers and stay on their thread, so the worker is made here.
            guard.failed = Worker::new(parts).run().is_err();
        };
        self.threads.push(std::thread::Builder::new().name(format!("worker-{index}")).spawn(body)?);
        Ok(())
    }
}

impl<N: Node> Drop for Runtime<N> {
    fn drop(&mut self) {
        self.end_threads();
    }
}

/// Why a runtime does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No shard, or more than their numbers can name.
    #[error("{0} shards are not possible: give 1 to 65535")]
    Shards(usize),
    /// The system gives no thread or no descriptor.
    #[error("cannot start the workers: {0}; raise the limits of open files and threads (ulimit -n, -u)")]
    Machine(io::Error),
}

/// Reads a runtime's counts from any thread, also when it has ended.
#[derive(Clone)]
pub struct Tally {
    counters: Vec<Arc<Counters>>,
}

impl Tally {
    /// The counts of all workers together.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for counters in &self.counters {
            counters.add_to(&mut sum);
        }
        sum
    }

    /// The counts of each worker.
    pub fn by_worker(&self) -> Vec<Counts> {
        let one = |counters: &Arc<Counters>| {
            let mut counts = Counts::default();
            counters.add_to(&mut counts);
            counts
        };
        self.counters.iter().map(one).collect()
    }
}

/// Notes the end of a worker that was not asked for, also by a panic.
struct FailureGuard {
    common: Arc<Common>,
    failed: bool,
}

impl Drop for FailureGuard {
    fn drop(&mut self) {
        if self.failed {
            self.common.failed.store(true, Ordering::Relaxed);
        }
    }
}

/// How many files connections may take: what the system allows, less what is open already and a reserve.
fn files_for_connections() -> usize {
    let allowed =
        sys::raise_open_files().map_or(FILES_ASSUMED, |files| usize::try_from(files).unwrap_or(usize::MAX));
    // Without /proc everything that is open is taken from the reserve.
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let reserve = FILES_RESERVED.min(allowed / 4);
    allowed.saturating_sub(open).saturating_sub(reserve).max(1)
}

/// Files that connections leave to others: the workers' epolls and the accepting of each, the store and its snapshots, the
/// clients of the admin API.
const FILES_RESERVED: usize = 512;

/// The limit where the system does not say it.
const FILES_ASSUMED: usize = 1024;

const STOP_POLL: Duration = Duration::from_millis(5);
