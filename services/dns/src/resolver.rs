//! Queries: their thread, number and time.

use crate::answers::{Answers, Search};
use crate::answers::{Records, Servers};
use crate::limits::{EmptyLookups, Share, Shares, SilentNames};
use ringway_linux::{Hosts, sys};
use ringway_resolve::{Locator, NumberSearch, Question, Usable};
use ringway_sansio::{Event, LocatedServer, LocatedServers, NumberTarget, Target};
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

/// Finds the servers of host names, and the URIs of numbers, on a thread of its own, which ends when the value is dropped.
pub struct Resolver {
    queries: UnboundedSender<Query>,
    shared: Arc<Shared>,
}

struct Query {
    number: u64,
    shard: u16,
    /// Name that is looked up: a host name, or that of a number in its first zone.
    name: Box<str>,
    source: Option<IpAddr>,
    search: Search,
    since: Instant,
    share: Share,
}

struct Shared {
    hosts: Arc<Hosts>,
    usable: Usable,
    answer: Box<dyn Fn(u16, Event) + Send + Sync>,
    silent: SilentNames,
    empty_hosts: EmptyLookups,
    /// Counted apart: most numbers have no records.
    empty_numbers: EmptyLookups,
    answers: Arc<Answers>,
    shares: Arc<Shares>,
    /// Queries that were refused because of the limits of `shares`.
    refused: AtomicU64,
    /// Queries that were refused because too many of their source had found nothing.
    refused_empty: AtomicU64,
    answer_max: Duration,
}

impl Resolver {
    /// Starts the thread. Names that have a server get a number in `hosts`; servers that `usable` does not have are left
    /// out. `answer` gets the shard of a query and its result, an [`Event::Resolved`] or [`Event::NumberResolved`]; it is called on
    /// any thread, also from within [`Resolver::ask`], and must not block.
    pub fn start(
        servers: &Servers,
        hosts: Arc<Hosts>,
        usable: Usable,
        answer: impl Fn(u16, Event) + Send + Sync + 'static,
    ) -> Result<Self, NotStarted> {
        let limits = Limits { answer_max: ANSWER_MAX, nice: NICE };
        Self::with_limits(servers, hosts, usable, answer, limits)
    }

    fn with_limits(
        servers: &Servers,
        hosts: Arc<Hosts>,
        usable: Usable,
        answer: impl Fn(u16, Event) + Send + Sync + 'static,
        limits: Limits,
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
            empty_hosts: EmptyLookups::default(),
            empty_numbers: EmptyLookups::default(),
            answers,
            shares: Arc::default(),
            refused: AtomicU64::new(0),
            refused_empty: AtomicU64::new(0),
            answer_max: limits.answer_max,
        });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("dns".to_owned()).spawn(move || {
            // If it fails, lookups compete with the workers for the processors.
            let _ = sys::set_nice(limits.nice);
            runtime.block_on(run(receiver, of_thread, records));
        })?;
        Ok(Self { queries, shared })
    }

    /// Finds the servers of `target`. An address, a name whose records are cached, one whose last lookup was not answered,
    /// and a query above the limits are answered at once, the last two without servers.
    pub fn ask(&self, shard: u16, query: u64, target: Target) {
        let (name, source) = (target.host.clone(), target.source);
        let search = Search::Servers(Locator::new(target, self.shared.usable));
        self.start_search((shard, query), (name, source), search);
    }

    /// Finds the URIs of a number; as [`Resolver::ask`].
    pub fn ask_number(&self, shard: u16, query: u64, target: NumberTarget) {
        let source = target.source;
        let search = NumberSearch::new(target);
        let name = match search.question() {
            Some(Question::Naptr(name) | Question::Srv(name) | Question::Addresses(name)) => name,
            None => Box::default(),
        };
        self.start_search((shard, query), (name, source), Search::Uris(search));
    }

    fn start_search(
        &self,
        (shard, query): (u16, u64),
        (name, source): (Box<str>, Option<IpAddr>),
        mut search: Search,
    ) {
        let (now, shared) = (Instant::now(), &self.shared);
        shared.answers.pass_to(&mut search, now);
        if search.question().is_none() {
            return shared.pass_on((shard, query), shared.found(&name, search));
        }
        let share = if shared.silent.has(&name, now) { None } else { shared.begin(&search, source, now) };
        let Some(share) = share else { return shared.pass_on((shard, query), Found::none(&search)) };
        // The thread runs as long as this value exists.
        let _ = self.queries.send(Query { number: query, shard, name, source, search, since: now, share });
    }

    /// Number of queries that were answered without a result because of the limits of open queries.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Number of queries that were answered without a result because too many others of their source had none.
    pub fn refused_empty(&self) -> u64 {
        self.shared.refused_empty.load(Ordering::Relaxed)
    }
}

/// Result of a search.
enum Found {
    Servers(LocatedServers),
    Uris(Box<[Box<str>]>),
}

impl Found {
    /// The result that `search` has if it is given up.
    fn none(search: &Search) -> Self {
        match search {
            Search::Servers(_) => Self::Servers(LocatedServers::NONE),
            Search::Uris(_) => Self::Uris(Box::default()),
        }
    }
}

async fn run(mut queries: UnboundedReceiver<Query>, shared: Arc<Shared>, records: Records) {
    let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
    while let Some(query) = queries.recv().await {
        let (shared, records, lookups) = (Arc::clone(&shared), records.clone(), Arc::clone(&lookups));
        tokio::spawn(async move {
            let left = shared.answer_max.saturating_sub(query.since.elapsed());
            let none = Found::none(&query.search);
            let mut began = None;
            let searched = tokio::time::timeout(left, async {
                let _of_source = query.share.turns().acquire().await;
                // Those of trunks and neighbours do not wait for others.
                let _turn = match query.source {
                    Some(_) => Some(lookups.acquire().await),
                    None => None,
                };
                began = Some(Instant::now());
                search_through(&records, query.search).await
            });
            let found = match searched.await {
                Ok(search) => {
                    let found = shared.found(&query.name, search);
                    shared.note_if_empty(&found, query.source);
                    found
                }
                Err(_) => {
                    // A name that waited for its turn behind those of others is not silent.
                    if began.is_some_and(|began| began.elapsed() >= shared.answer_max / 2) {
                        shared.silent.note(&query.name, Instant::now());
                        shared.note_if_empty(&none, query.source);
                    }
                    none
                }
            };
            drop(query.share);
            shared.pass_on((query.shard, query.number), found);
        });
    }
}

async fn search_through(records: &Records, mut search: Search) -> Search {
    while let Some(question) = search.question() {
        records.answer(&mut search, question).await;
    }
    search
}

impl Shared {
    fn begin(&self, search: &Search, source: Option<IpAddr>, now: Instant) -> Option<Share> {
        let empty = match search {
            Search::Servers(_) => &self.empty_hosts,
            Search::Uris(_) => &self.empty_numbers,
        };
        if empty.are_too_many(source, now) {
            self.refused_empty.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let share = self.shares.begin(source);
        self.refused.fetch_add(u64::from(share.is_none()), Ordering::Relaxed);
        share
    }

    /// Counts a search that found nothing for its source.
    fn note_if_empty(&self, found: &Found, source: Option<IpAddr>) {
        match found {
            Found::Servers(servers) if servers.is_empty() => self.empty_hosts.note(source, Instant::now()),
            Found::Uris(uris) if uris.is_empty() => self.empty_numbers.note(source, Instant::now()),
            Found::Servers(_) | Found::Uris(_) => {}
        }
    }

    /// Result of a search that has ended; servers have the number of their host name.
    fn found(&self, name: &str, search: Search) -> Found {
        match search {
            Search::Servers(locator) => Found::Servers(self.numbered(name, locator)),
            Search::Uris(search) => Found::Uris(search.into_uris()),
        }
    }

    fn pass_on(&self, (shard, query): (u16, u64), found: Found) {
        let event = match found {
            Found::Servers(servers) => Event::Resolved { query, servers },
            Found::Uris(uris) => Event::NumberResolved { query, uris },
        };
        (self.answer)(shard, event);
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

/// Limits of a resolver: the time of a query, and the priority of the thread.
#[derive(Clone, Copy)]
struct Limits {
    /// Time limit of a query with all its lookups.
    answer_max: Duration,
    /// Nice value of the thread.
    nice: i8,
}

/// Nice value of the thread: no message waits for the processor while a lookup is computed.
const NICE: i8 = 19;

/// Time limit of a query with all its lookups.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Maximum number of queries of sources that are looked up at a time; others wait for their turn.
const LOOKUPS_MAX: usize = 192;

#[cfg(test)]
#[path = "resolver_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "large_answer_tests.rs"]
mod large_answer_tests;
