//! Queries: their thread, number and time.

use crate::answers::Answers;
use crate::records::{Records, Servers};
use crate::shares::{Share, Shares};
use crate::silent::SilentNames;
use ringway_linux::{Hosts, sys};
use ringway_resolve::{Locator, Usable};
use ringway_sansio::{LocatedServer, LocatedServers, Target};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    share: Share,
}

struct Shared {
    hosts: Arc<Hosts>,
    usable: Usable,
    answer: Box<dyn Fn(u64, u16, LocatedServers) + Send + Sync>,
    silent: SilentNames,
    answers: Arc<Answers>,
    shares: Arc<Shares>,
    /// Queries that were refused because of the limits of `shares`.
    refused: AtomicU64,
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
        let answers = Arc::<Answers>::default();
        let records = {
            let _within = runtime.enter();
            Records::new(servers, Arc::clone(&answers))
                .map_err(|why| NotStarted::Settings(why.to_string()))?
        };
        let (queries, receiver) = unbounded_channel();
        let shared = Arc::new(Shared {
            hosts,
            usable,
            answer: Box::new(answer),
            silent: SilentNames::default(),
            answers,
            shares: Arc::default(),
            refused: AtomicU64::new(0),
            answer_max,
        });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("dns".to_owned()).spawn(move || {
            // If it fails, lookups compete with the workers for the processors.
            let _ = sys::set_nice(NICE);
            runtime.block_on(run(receiver, of_thread, records));
        })?;
        Ok(Self { queries, shared })
    }

    /// Finds the servers of `target`. An address, a name whose records are cached, one whose last lookup was not answered,
    /// and a query above the limits are answered at once, the last two without servers.
    pub fn ask(&self, shard: u16, query: u64, target: Target) {
        let (now, shared) = (Instant::now(), &self.shared);
        let (host, source) = (target.host.clone(), target.source);
        let mut locator = Locator::new(target, shared.usable);
        shared.answers.pass_to(&mut locator, now);
        if locator.question().is_none() {
            return (shared.answer)(query, shard, shared.numbered(&host, locator));
        }
        let share = if shared.silent.has(&host, now) { None } else { shared.begin(source) };
        let Some(share) = share else { return (shared.answer)(query, shard, LocatedServers::NONE) };
        // The thread runs as long as this value exists.
        let _ = self.queries.send(Query { number: query, shard, host, locator, since: now, share });
    }

    /// Number of queries that were answered without servers because of the limits.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
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
                let _of_source = query.share.turns().acquire().await;
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
            drop(query.share);
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
    fn begin(&self, source: Option<IpAddr>) -> Option<Share> {
        let share = self.shares.begin(source);
        self.refused.fetch_add(u64::from(share.is_none()), Ordering::Relaxed);
        share
    }

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

/// Nice value of the thread: no message waits for the processor while a lookup is computed.
const NICE: i8 = 19;

/// Time limit of a query with all its lookups.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Maximum number of queries that are looked up at a time; others wait for their turn.
const LOOKUPS_MAX: usize = 256;

#[cfg(test)]
#[path = "resolver_tests.rs"]
mod tests;
