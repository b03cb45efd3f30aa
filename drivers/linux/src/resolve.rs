//! Resolution of host names, off the packet path.
//!
//! It uses the system's resolver (hosts file and DNS, as `getaddrinfo`) for A and AAAA records. The SRV and NAPTR
//! records of RFC 3263 are not looked up.

use crate::hosts::Hosts;
use ringway_sansio::HostAddress;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Resolves names on threads of its own. Dropping it ends them after their current lookup.
pub struct Resolver {
    shared: Arc<Shared>,
}

impl Resolver {
    /// Starts the threads. The names that have an address get a number in `hosts`. `usable` is true for addresses of a family that can be sent to. `answer` gets the query's
    /// number, its shard and the first usable address; `None` if there is none or the time limit has passed. It is
    /// called on any thread, also from within [`Resolver::ask`], and must not block.
    pub fn start(
        hosts: Arc<Hosts>,
        usable: impl Fn(&IpAddr) -> bool + Send + Sync + 'static,
        answer: impl Fn(u64, u16, Option<HostAddress>) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let system_lookup = move |host: &str| {
            (host, 0).to_socket_addrs().ok()?.map(|address| address.ip()).find(|address| usable(address))
        };
        Self::with_lookup(hosts, system_lookup, answer, ANSWER_MAX)
    }

    /// Starts with another lookup function than the system's, which may block, and another time limit.
    pub fn with_lookup(
        hosts: Arc<Hosts>,
        lookup: impl Fn(&str) -> Option<IpAddr> + Send + Sync + 'static,
        answer: impl Fn(u64, u16, Option<HostAddress>) + Send + Sync + 'static,
        answer_max: Duration,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            due: Condvar::new(),
            hosts,
            lookup: Box::new(lookup),
            answer: Box::new(answer),
            answer_max,
        });
        let resolver = Self { shared };
        for number in 0..LOOKUP_THREADS {
            let shared = Arc::clone(&resolver.shared);
            spawn(format!("resolve-{number}"), move || shared.run_lookups())?;
        }
        let shared = Arc::clone(&resolver.shared);
        spawn("resolve-time".to_owned(), move || shared.run_timeouts())?;
        Ok(resolver)
    }

    /// Resolves `host`. An IP address, and a name that was resolved recently, are answered at once. False: too many
    /// queries are pending, and there is no answer.
    pub fn ask(&self, shard: u16, query: u64, host: &str) -> bool {
        let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = literal.parse::<IpAddr>() {
            (self.shared.answer)(query, shard, Some(address.into()));
            return true;
        }
        if host.is_empty() || host.len() > HOST_BYTES_MAX {
            (self.shared.answer)(query, shard, None);
            return true;
        }
        let host = host.to_ascii_lowercase();
        let mut state = self.shared.lock();
        let now = Instant::now();
        if let Some(&(address, until)) = state.cache.get(&host)
            && until > now
        {
            drop(state);
            (self.shared.answer)(query, shard, self.shared.numbered(&host, address));
            return true;
        }
        if state.open.len() >= QUERIES_MAX || state.jobs.len() >= QUERIES_MAX {
            return false;
        }
        let number = state.next;
        state.next += 1;
        let due = now + self.shared.answer_max;
        state.open.insert(number, Query { number: query, shard, due, host: host.clone() });
        if let Some(others) = state.waiting.get_mut(&host) {
            others.push(number);
        } else {
            state.waiting.insert(host.clone(), vec![number]);
            state.jobs.push_back(host);
            self.shared.work.notify_one();
        }
        self.shared.due.notify_one();
        true
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.work.notify_all();
        self.shared.due.notify_all();
    }
}

type Lookup = dyn Fn(&str) -> Option<IpAddr> + Send + Sync;
type Answer = dyn Fn(u64, u16, Option<HostAddress>) + Send + Sync;

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    due: Condvar,
    hosts: Arc<Hosts>,
    lookup: Box<Lookup>,
    answer: Box<Answer>,
    answer_max: Duration,
}

#[derive(Default)]
struct State {
    /// Names whose lookup has not started.
    jobs: VecDeque<String>,
    /// Queries for each name whose lookup is pending or running.
    waiting: HashMap<String, Vec<u64>>,
    /// Unanswered queries by number: the first one was started first and times out first.
    open: BTreeMap<u64, Query>,
    next: u64,
    cache: HashMap<String, (Option<IpAddr>, Instant)>,
    ended: bool,
}

struct Query {
    number: u64,
    shard: u16,
    due: Instant,
    host: String,
}

impl State {
    fn remember(&mut self, host: String, address: Option<IpAddr>, now: Instant) {
        if self.cache.len() >= CACHE_MAX {
            self.cache.retain(|_, &mut (_, until)| until > now);
        }
        if self.cache.len() < CACHE_MAX {
            self.cache.insert(host, (address, now + CACHE_TIME));
        }
    }

    /// Takes the first query if its time limit has passed.
    fn take_expired(&mut self, now: Instant) -> Option<Query> {
        let entry = self.open.first_entry().filter(|entry| entry.get().due <= now)?;
        let (number, query) = entry.remove_entry();
        if let Some(waiting) = self.waiting.get_mut(&query.host) {
            waiting.retain(|&other| other != number);
        }
        Some(query)
    }
}

impl Shared {
    fn run_lookups(&self) {
        let mut state = self.lock();
        while !state.ended {
            let Some(host) = state.jobs.pop_front() else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if state.waiting.get(&host).is_none_or(Vec::is_empty) {
                state.waiting.remove(&host);
                continue;
            }
            drop(state);
            let address = (self.lookup)(&host);
            let numbered = self.numbered(&host, address);
            state = self.lock();
            let numbers = state.waiting.remove(&host).unwrap_or_default();
            state.remember(host, address, Instant::now());
            let answered: Vec<_> = numbers.iter().filter_map(|number| state.open.remove(number)).collect();
            drop(state);
            for query in answered {
                (self.answer)(query.number, query.shard, numbered);
            }
            state = self.lock();
        }
    }

    /// Answers queries whose time limit has passed with `None`. The lookup itself cannot be cancelled; its result is
    /// cached for later queries.
    fn run_timeouts(&self) {
        let mut state = self.lock();
        while !state.ended {
            let now = Instant::now();
            if let Some(late) = state.take_expired(now) {
                drop(state);
                (self.answer)(late.number, late.shard, None);
                state = self.lock();
                continue;
            }
            state = match state.open.first_key_value().map(|(_, first)| first.due) {
                Some(due) => {
                    self.due.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.due.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn numbered(&self, host: &str, address: Option<IpAddr>) -> Option<HostAddress> {
        address.map(|ip| HostAddress { ip, host: self.hosts.id_of(host) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name).spawn(body).map(drop)
}

/// Time limit of a query.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Lifetime of a cached result, positive or negative.
const CACHE_TIME: Duration = Duration::from_secs(30);

/// Maximum number of cached names.
const CACHE_MAX: usize = 4096;

/// Maximum number of pending queries.
const QUERIES_MAX: usize = 1024;

/// Number of concurrent lookups: the system's resolver blocks, for seconds if a server does not answer.
const LOOKUP_THREADS: usize = 4;

/// Maximum length of a name (RFC 1035 §2.3.4, with a final dot).
const HOST_BYTES_MAX: usize = 254;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    type Answered = (u64, u16, Option<IpAddr>);

    fn resolver(
        answer_max: Duration,
        lookup: impl Fn(&str) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> (Resolver, Receiver<Answered>) {
        let (to, from) = channel();
        let answer = move |query, shard, address: Option<HostAddress>| {
            let _ = to.send((query, shard, address.map(|it| it.ip)));
        };
        (Resolver::with_lookup(Arc::default(), lookup, answer, answer_max).unwrap(), from)
    }

    fn next(answers: &Receiver<Answered>) -> Answered {
        answers.recv_timeout(Duration::from_secs(5)).unwrap()
    }

    fn address_of_this_machine() -> IpAddr {
        "127.0.0.1".parse().unwrap()
    }

    fn address() -> IpAddr {
        "192.0.2.7".parse().unwrap()
    }

    #[test]
    fn a_name_is_looked_up_once_and_then_cached() {
        let lookups = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&lookups);
        let (resolver, answers) = resolver(Duration::from_secs(5), move |host| {
            count.fetch_add(1, Ordering::SeqCst);
            (host == "pbx.example").then(address)
        });
        assert!(resolver.ask(3, 1, "pbx.example"));
        assert_eq!(next(&answers), (1, 3, Some(address())));
        assert!(resolver.ask(4, 2, "PBX.example"));
        assert_eq!(next(&answers), (2, 4, Some(address())));
        assert!(resolver.ask(5, 3, "no.example"));
        assert_eq!(next(&answers), (3, 5, None));
        assert_eq!(lookups.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn an_address_needs_no_lookup() {
        let (resolver, answers) = resolver(Duration::from_secs(5), |_| None);
        for host in ["192.0.2.7", "[2001:db8::1]", "2001:db8::1"] {
            assert!(resolver.ask(0, 1, host));
            assert!(next(&answers).2.is_some(), "{host}");
        }
        assert!(resolver.ask(0, 2, &"x".repeat(300)));
        assert_eq!(next(&answers), (2, 0, None));
    }

    #[test]
    fn a_blocked_lookup_times_out_and_does_not_delay_others() {
        let silent = Arc::new(AtomicBool::new(true));
        let still_silent = Arc::clone(&silent);
        let (resolver, answers) = resolver(Duration::from_millis(200), move |host| {
            while host == "silent.example" && still_silent.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Some(address())
        });
        assert!(resolver.ask(0, 1, "silent.example") && resolver.ask(0, 2, "silent.example"));
        assert!(resolver.ask(0, 3, "quick.example"));
        assert_eq!(next(&answers), (3, 0, Some(address())));
        assert_eq!((next(&answers), next(&answers)), ((1, 0, None), (2, 0, None)));
        silent.store(false, Ordering::SeqCst);
        assert!(resolver.ask(0, 4, "silent.example"));
        assert_eq!(
            next(&answers),
            (4, 0, Some(address())),
            "the late answer is cached, and 1 and 2 get no second answer"
        );
    }

    #[test]
    fn queries_are_limited() {
        let (resolver, _answers) = resolver(Duration::from_secs(60), |_| {
            std::thread::sleep(Duration::from_secs(3));
            None
        });
        let taken =
            (0..2 * QUERIES_MAX as u64).filter(|&n| resolver.ask(0, n, &format!("{n}.example"))).count();
        assert_eq!(taken, QUERIES_MAX);
    }

    #[test]
    fn the_system_resolves_localhost() {
        let (to, answers) = channel();
        let answer = move |query, shard, address: Option<HostAddress>| {
            let _ = to.send((query, shard, address.map(|it| (it.ip, it.host))));
        };
        let hosts = Arc::new(Hosts::default());
        let resolver = Resolver::start(Arc::clone(&hosts), IpAddr::is_ipv4, answer).unwrap();
        assert!(resolver.ask(1, 9, "localhost"));
        let (query, shard, address) = answers.recv_timeout(Duration::from_secs(5)).unwrap();
        let (ip, host) = address.unwrap();
        assert_eq!((query, shard, ip), (9, 1, address_of_this_machine()));
        assert_eq!(hosts.name_of(host).as_deref(), Some("localhost"));
    }
}
