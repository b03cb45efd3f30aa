//! Queries: their thread, number and time.

use crate::records::{Records, Servers};
use crate::silent::SilentNames;
use ringway_linux::Hosts;
use ringway_resolve::{Locator, Usable};
use ringway_sansio::{LocatedServer, LocatedServers, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The resolver could not be started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// Its thread could not be started.
    #[error("cannot start the thread of the DNS resolver: {0}")]
    Thread(#[from] std::io::Error),
    /// The settings of the resolver cannot be used.
    #[error("cannot use the settings of the DNS resolver: {0}")]
    Settings(String),
}

/// Finds the servers of host names on a thread of its own, which ends when the value is dropped.
pub struct Resolver {
    queries: UnboundedSender<Query>,
    shared: Arc<Shared>,
}

struct Query {
    number: u64,
    shard: u16,
    host: Box<str>,
    locator: Locator,
    since: Instant,
}

struct Shared {
    hosts: Arc<Hosts>,
    usable: Usable,
    answer: Box<dyn Fn(u64, u16, LocatedServers) + Send + Sync>,
    silent: SilentNames,
    /// Queries without an answer.
    open: AtomicUsize,
    answer_max: Duration,
}

impl Resolver {
    /// Starts the thread. Names that have a server get a number in `hosts`; servers that `usable` does not have are left
    /// out. `answer` gets the number of the query, its shard and the servers; it is called on any thread, also from within
    /// [`Resolver::ask`], and must not block.
    pub fn start(
        servers: &Servers,
        hosts: Arc<Hosts>,
        usable: Usable,
        answer: impl Fn(u64, u16, LocatedServers) + Send + Sync + 'static,
    ) -> Result<Self, NotStarted> {
        Self::with_time(servers, hosts, usable, answer, ANSWER_MAX)
    }

    fn with_time(
        servers: &Servers,
        hosts: Arc<Hosts>,
        usable: Usable,
        answer: impl Fn(u64, u16, LocatedServers) + Send + Sync + 'static,
        answer_max: Duration,
    ) -> Result<Self, NotStarted> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let records = {
            let _within = runtime.enter();
            Records::new(servers).map_err(|why| NotStarted::Settings(why.to_string()))?
        };
        let (queries, receiver) = unbounded_channel();
        let shared = Arc::new(Shared {
            hosts,
            usable,
            answer: Box::new(answer),
            silent: SilentNames::default(),
            open: AtomicUsize::new(0),
            answer_max,
        });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("dns".to_owned())
            .spawn(move || runtime.block_on(run(receiver, of_thread, records)))?;
        Ok(Self { queries, shared })
    }

    /// Finds the servers of `target`. An address, and a name whose last lookup was not answered, are answered at once.
    /// False: too many queries are pending, and there is no answer.
    pub fn ask(&self, shard: u16, query: u64, target: Target) -> bool {
        let now = Instant::now();
        let host = target.host.clone();
        let locator = Locator::new(target, self.shared.usable);
        if locator.question().is_none() || self.shared.silent.has(&host, now) {
            (self.shared.answer)(query, shard, locator.into_servers(Default::default()));
            return true;
        }
        if self.shared.open.fetch_add(1, Ordering::Relaxed) >= QUERIES_MAX {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.queries.send(Query { number: query, shard, host, locator, since: now }).is_ok()
    }
}

async fn run(mut queries: UnboundedReceiver<Query>, shared: Arc<Shared>, records: Records) {
    let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
    while let Some(query) = queries.recv().await {
        let (shared, records, lookups) = (Arc::clone(&shared), records.clone(), Arc::clone(&lookups));
        tokio::spawn(async move {
            let left = shared.answer_max.saturating_sub(query.since.elapsed());
            let mut began = None;
            let located = tokio::time::timeout(left, async {
                let _turn = lookups.acquire().await;
                began = Some(Instant::now());
                locate(&records, query.locator).await
            });
            let servers = match located.await {
                Ok(locator) => shared.numbered(&query.host, locator),
                Err(_) => {
                    // A name that waited for its turn behind those of others is not silent.
                    if began.is_some_and(|began| began.elapsed() >= shared.answer_max / 2) {
                        shared.silent.note(&query.host, Instant::now());
                    }
                    LocatedServers::NONE
                }
            };
            shared.open.fetch_sub(1, Ordering::Relaxed);
            (shared.answer)(query.number, query.shard, servers);
        });
    }
}

async fn locate(records: &Records, mut locator: Locator) -> Locator {
    while let Some(question) = locator.question() {
        records.answer(&mut locator, question).await;
    }
    locator
}

impl Shared {
    /// The servers, with the number of the host name. Names without a server get no number.
    fn numbered(&self, host: &str, locator: Locator) -> LocatedServers {
        let servers = locator.into_servers(Default::default());
        if servers.is_empty() {
            return servers;
        }
        let id = self.hosts.id_of(host);
        servers.iter().map(|server| LocatedServer::new(server.transport, server.address, id)).collect()
    }
}

/// Time limit of a query with all its lookups.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Maximum number of pending queries.
const QUERIES_MAX: usize = 1024;

/// Maximum number of queries that are looked up at a time; others wait for their turn.
const LOOKUPS_MAX: usize = 256;

#[cfg(test)]
#[path = "resolver_tests.rs"]
mod tests;
