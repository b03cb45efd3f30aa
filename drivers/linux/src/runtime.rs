//! Runtime: worker threads for bound listeners and shards, from start to stop.

use crate::config::{AcceptanceRule, Config, MessageBytesMax};
use crate::counters::{Counters, Counts, TurnCounts};
use crate::inbox::{DatagramClient, Inboxes};
use crate::listeners::{self, Attached, BindError, Bound, Listen, Watched};
use crate::shard::{ActionSink, Shards};
use crate::shared::connections::Connections;
use crate::shared::{Common, Phase};
use crate::sys;
use crate::worker::{Parts, Worker};
use ringway_sansio::{Event, ListenerId, Node};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nodes that run on worker threads. Dropping it ends the threads at once.
pub struct Runtime<N: Node> {
    common: Arc<Common>,
    shards: Shards<N>,
    counters: Vec<Arc<Counters>>,
    listeners: Vec<Listen>,
    threads: Vec<JoinHandle<()>>,
}

impl<N: Node + Send + 'static> Runtime<N> {
    /// Starts the workers. `nodes` are the shards in order; their actions go to `sink`.
    ///
    /// It raises the process's limit of open files as far as permitted. Connections leave a reserve of file descriptors
    /// for everything else, such as the admin API: see [`Runtime::connections_max`].
    ///
    /// # Errors
    /// The number of nodes is 0 or above 65,535; a thread or a file descriptor cannot be created.
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
        let Bound { listeners, sockets, inboxes, dscp } = bound;
        let common = Arc::new(Common::new(&config, files_for_connections(), inboxes.clone(), dscp));
        let shards = Shards::new(nodes, config.shard_key, inboxes);
        let mut runtime = Self { common, shards, counters: Vec::new(), listeners, threads: Vec::new() };
        for (index, sockets) in sockets.into_iter().enumerate() {
            runtime.spawn(index, sockets, Arc::clone(&sink)).map_err(StartError::Machine)?;
        }
        Ok(runtime)
    }

    /// Stops the runtime: refuses connections, continues with messages and timers until every node is `idle` and
    /// everything is written, for at most `grace`; then ends the threads. True if no work was pending.
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
    /// Listeners of the start in the order of the configuration, with their actual ports.
    pub fn listeners(&self) -> &[Listen] {
        &self.listeners
    }

    /// Shards of the runtime, for any thread.
    pub fn shards(&self) -> Shards<N> {
        self.shards.clone()
    }

    /// Inboxes of the workers, for any thread.
    pub fn inboxes(&self) -> Inboxes {
        self.common.inboxes.clone()
    }

    /// Queues an event, such as the result of a DNS lookup, for the node of `shard`. False: the inbox is full, and the
    /// event is dropped.
    pub fn deliver_event(&self, shard: u16, event: Event) -> bool {
        self.common.inboxes.deliver(shard, event)
    }

    /// Sum of the counters of all workers.
    pub fn counts(&self) -> Counts {
        self.counters().counts()
    }

    /// Maximum number of open connections: as configured, or lower if the limit of open files requires it.
    pub fn connections_max(&self) -> usize {
        self.common.max_connections()
    }

    /// Binds new listeners with the given numbers and gives them to the workers, which do not read from them before
    /// [`Runtime::open`]. A number may be that of a closed listener.
    ///
    /// # Errors
    /// A listener could not be bound, or a number is too high. Nothing is changed then.
    pub fn attach(&self, listeners: &[(ListenerId, Listen)]) -> Result<Attached, BindError> {
        Attached::bind(listeners, self.common.inboxes.clone(), self.common.dscp)
    }

    /// Makes the workers read from new listeners.
    pub fn open(&self, attached: Attached) {
        attached.open();
    }

    /// Closes a listener, after what has arrived at it was handled. Its stream connections stay, its associations end;
    /// packets for a closed listener of datagrams are reported as unreachable.
    pub fn close(&self, listener: ListenerId) {
        listeners::close(&self.common.inboxes, listener);
    }

    /// Makes the workers serve a UDP client until the returned value is dropped.
    ///
    /// # Errors
    /// A worker cannot add the socket to its epoll. Nothing is changed then.
    pub fn watch(&self, client: Arc<dyn DatagramClient>) -> io::Result<Watched> {
        Watched::begin(client, self.common.inboxes.clone())
    }

    /// Changes the maximum number of open connections, as far as the limit of open files permits. Open connections beyond
    /// it remain.
    pub fn set_max_connections(&self, max: usize) {
        self.common.set_max_connections(max);
    }

    /// Changes the maximum length of a message on new streams.
    pub fn set_message_bytes_max(&self, max: MessageBytesMax) {
        self.common.set_message_bytes_max(max);
    }

    /// Changes the rule for new connections; `None`: all are direct.
    pub fn set_acceptance(&self, rule: Option<AcceptanceRule>) {
        self.common.set_acceptance(rule);
    }

    /// Changes the maximum number of accepted connections of one source; 0: no limit. Open connections beyond it
    /// remain.
    pub fn set_max_connections_per_source(&self, max: usize) {
        self.common.sources.set_max(max);
    }

    /// List of the open connections.
    pub fn connections(&self) -> Connections {
        self.common.connections.clone()
    }

    /// Handle to the counters, independent of borrows of the runtime.
    pub fn counters(&self) -> CountersReader {
        CountersReader { counters: self.counters.clone() }
    }

    /// True if a worker has failed: a node panicked, or epoll returned an error. Data received by its sockets is lost;
    /// the program should be restarted.
    pub fn has_failed(&self) -> bool {
        self.common.failed.load(Ordering::Relaxed)
    }

    fn end_threads(&mut self) {
        self.common.enter(Phase::Ending);
        for thread in self.threads.drain(..) {
            // A panic was printed, and the worker is marked as failed.
            let _ = thread.join();
        }
        self.shards.end_calls();
    }
}

impl<N: Node + Send + 'static> Runtime<N> {
    fn spawn(
        &mut self,
        index: usize,
        sockets: Vec<crate::inbox::ListenSocket>,
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
            // Receive buffers contain pointers and stay on their thread, so the worker is created there.
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

/// Error of [`Runtime::start`].
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No shard, or too many.
    #[error("{0} shards are not possible: give 1 to 65535")]
    Shards(usize),
    /// A thread or a file descriptor cannot be created.
    #[error("cannot start the workers: {0}; raise the limits of open files and threads (ulimit -n, -u)")]
    Machine(io::Error),
}

/// Reads the counters of a runtime from any thread, also after its end.
#[derive(Clone)]
pub struct CountersReader {
    counters: Vec<Arc<Counters>>,
}

impl CountersReader {
    /// Sum of the counters of all workers.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for counters in &self.counters {
            counters.add_to(&mut sum);
        }
        sum
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.counters.len()
    }

    /// Histogram of the turns of all workers.
    pub fn turns(&self) -> TurnCounts {
        let mut sum = TurnCounts::default();
        for counters in &self.counters {
            counters.turns.add_to(&mut sum);
        }
        sum
    }

    /// Counters of each worker.
    pub fn by_worker(&self) -> Vec<Counts> {
        let one = |counters: &Arc<Counters>| {
            let mut counts = Counts::default();
            counters.add_to(&mut counts);
            counts
        };
        self.counters.iter().map(one).collect()
    }
}

/// Marks the runtime as failed if a worker ends unexpectedly, also by a panic.
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

/// Number of file descriptors for connections: the limit minus the open ones and a reserve.
fn files_for_connections() -> usize {
    let allowed =
        sys::raise_open_files().map_or(FILES_ASSUMED, |files| usize::try_from(files).unwrap_or(usize::MAX));
    // Without /proc the open files are part of the reserve.
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let reserve = FILES_RESERVED.min(allowed / 4);
    allowed.saturating_sub(open).saturating_sub(reserve).max(1)
}

/// File descriptors that connections leave to others: the workers' epolls and pending accepts, the store and its
/// snapshots, clients of the admin API.
const FILES_RESERVED: usize = 512;

/// Assumed limit if the system does not report it.
const FILES_ASSUMED: usize = 1024;

const STOP_POLL: Duration = Duration::from_millis(5);
