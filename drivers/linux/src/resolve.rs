//! Host names to addresses, off the packet path.
//!
//! It asks the system (hosts file and DNS, as `getaddrinfo` does): A and AAAA only. The SRV and NAPTR records of
//! RFC 3263 are not looked up.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Looks names up on threads of its own. Dropping it ends them once the system has answered.
pub struct Resolver {
    shared: Arc<Shared>,
}

impl Resolver {
    /// Starts. `usable` says whether an address is of a family that can be sent to; `answer` gets the query's number,
    /// its shard and the first usable address, `None` if there is none or the time ran out. `answer` is called on any
    /// thread, also from within [`Resolver::ask`], and must not wait.
    pub fn start(
        usable: impl Fn(&IpAddr) -> bool + Send + Sync + 'static,
        answer: impl Fn(u64, u16, Option<IpAddr>) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let ask_system = move |host: &str| {
            (host, 0).to_socket_addrs().ok()?.map(|address| address.ip()).find(|address| usable(address))
        };
        Self::with_lookup(ask_system, answer, ANSWER_MAX)
    }

    /// Starts with another way to look names up than the system's, which may wait, and another limit of time.
    pub fn with_lookup(
        lookup: impl Fn(&str) -> Option<IpAddr> + Send + Sync + 'static,
        answer: impl Fn(u64, u16, Option<IpAddr>) + Send + Sync + 'static,
        answer_max: Duration,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            work: Condvar::new(),
            due: Condvar::new(),
            lookup: Box::new(lookup),
            answer: Box::new(answer),
            answer_max,
        });
        let resolver = Self { shared };
        for number in 0..LOOKUP_THREADS {
            let shared = Arc::clone(&resolver.shared);
            spawn(format!("resolve-{number}"), move || shared.look_up())?;
        }
        let shared = Arc::clone(&resolver.shared);
        spawn("resolve-time".to_owned(), move || shared.watch_time())?;
        Ok(resolver)
    }

    /// Asks for `host`. An address written as a host name, or a name asked for a moment ago, is answered at once.
    /// False: too many questions wait, and there will be no answer to this one.
    pub fn ask(&self, shard: u16, query: u64, host: &str) -> bool {
        let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = literal.parse() {
            (self.shared.answer)(query, shard, Some(address));
            return true;
        }
        if host.is_empty() || host.len() > HOST_BYTES_MAX {
            (self.shared.answer)(query, shard, None);
            return true;
        }
        let host = host.to_ascii_lowercase();
        let mut state = self.shared.lock();
        let now = Instant::now();
        if let Some(&(address, until)) = state.known.get(&host)
            && until > now
        {
            drop(state);
            (self.shared.answer)(query, shard, address);
            return true;
        }
        if state.open.len() >= QUESTIONS_MAX || state.jobs.len() >= QUESTIONS_MAX {
            return false;
        }
        let number = state.asked;
        state.asked += 1;
        let due = now + self.shared.answer_max;
        state.open.insert(number, Question { query, shard, due, host: host.clone() });
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
type Answer = dyn Fn(u64, u16, Option<IpAddr>) + Send + Sync;

struct Shared {
    state: Mutex<State>,
    work: Condvar,
    due: Condvar,
    lookup: Box<Lookup>,
    answer: Box<Answer>,
    answer_max: Duration,
}

#[derive(Default)]
struct State {
    /// Names no thread has taken yet.
    jobs: VecDeque<String>,
    /// The questions that wait for each name that is being looked up or will be.
    waiting: HashMap<String, Vec<u64>>,
    /// What is not answered yet, by number: the first was asked first and its time runs out first.
    open: BTreeMap<u64, Question>,
    asked: u64,
    known: HashMap<String, (Option<IpAddr>, Instant)>,
    ended: bool,
}

struct Question {
    query: u64,
    shard: u16,
    due: Instant,
    host: String,
}

impl State {
    fn remember(&mut self, host: String, address: Option<IpAddr>, now: Instant) {
        if self.known.len() >= KNOWN_MAX {
            self.known.retain(|_, &mut (_, until)| until > now);
        }
        if self.known.len() < KNOWN_MAX {
            self.known.insert(host, (address, now + KNOWN_FOR));
        }
    }

    /// The first question if its time has run out.
    fn take_late(&mut self, now: Instant) -> Option<Question> {
        let entry = self.open.first_entry().filter(|entry| entry.get().due <= now)?;
        let (number, question) = entry.remove_entry();
        if let Some(waiting) = self.waiting.get_mut(&question.host) {
            waiting.retain(|&other| other != number);
        }
        Some(question)
    }
}

impl Shared {
    fn look_up(&self) {
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
            state = self.lock();
            let numbers = state.waiting.remove(&host).unwrap_or_default();
            state.remember(host, address, Instant::now());
            let answered: Vec<_> = numbers.iter().filter_map(|number| state.open.remove(number)).collect();
            drop(state);
            for question in answered {
                (self.answer)(question.query, question.shard, address);
            }
            state = self.lock();
        }
    }

    /// Answers with nothing what waited too long. The look-up itself cannot be called back; who asks for the same
    /// name later finds its answer known.
    fn watch_time(&self) {
        let mut state = self.lock();
        while !state.ended {
            let now = Instant::now();
            if let Some(late) = state.take_late(now) {
                drop(state);
                (self.answer)(late.query, late.shard, None);
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name).spawn(body).map(drop)
}

/// How long a question waits for its answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long an answer, also that there is none, is given again without asking.
const KNOWN_FOR: Duration = Duration::from_secs(30);

/// Names whose answers are kept.
const KNOWN_MAX: usize = 4096;

/// Questions that wait.
const QUESTIONS_MAX: usize = 1024;

/// Names looked up at the same time: the system's way waits, seconds if a server is silent.
const LOOKUP_THREADS: usize = 4;

/// The longest a name can be (RFC 1035 §2.3.4, with a final dot).
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
        let answer = move |query, shard, address| {
            let _ = to.send((query, shard, address));
        };
        (Resolver::with_lookup(lookup, answer, answer_max).unwrap(), from)
    }

    fn next(answers: &Receiver<Answered>) -> Answered {
        answers.recv_timeout(Duration::from_secs(5)).unwrap()
    }

    fn address() -> IpAddr {
        "192.0.2.7".parse().unwrap()
    }

    #[test]
    fn a_name_is_looked_up_once_and_then_known_for_a_while() {
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
    fn an_address_needs_no_look_up() {
        let (resolver, answers) = resolver(Duration::from_secs(5), |_| None);
        for host in ["192.0.2.7", "[2001:db8::1]", "2001:db8::1"] {
            assert!(resolver.ask(0, 1, host));
            assert!(next(&answers).2.is_some(), "{host}");
        }
        assert!(resolver.ask(0, 2, &"x".repeat(300)));
        assert_eq!(next(&answers), (2, 0, None));
    }

    #[test]
    fn silence_is_answered_in_time_and_others_are_served_meanwhile() {
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
            "the late answer is known, and 1 and 2 hear no more"
        );
    }

    #[test]
    fn questions_are_bounded() {
        let (resolver, _answers) = resolver(Duration::from_secs(60), |_| {
            std::thread::sleep(Duration::from_secs(3));
            None
        });
        let taken =
            (0..2 * QUESTIONS_MAX as u64).filter(|&n| resolver.ask(0, n, &format!("{n}.example"))).count();
        assert_eq!(taken, QUESTIONS_MAX);
    }

    #[test]
    fn the_system_knows_localhost() {
        let (to, answers) = channel();
        let answer = move |query, shard, address| {
            let _ = to.send((query, shard, address));
        };
        let resolver = Resolver::start(IpAddr::is_ipv4, answer).unwrap();
        assert!(resolver.ask(1, 9, "localhost"));
        assert_eq!(next(&answers), (9, 1, Some("127.0.0.1".parse().unwrap())));
    }
}
