//! Searches, their answers, and the cache of the records that a [`Search`] considers, limited in number and bytes.
//! Records from DNS servers and from the hosts file, by `hickory-resolver`.

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use ringway_resolve::{Locator, Naptr, NumberSearch, Question, Srv};
use ringway_sansio::TableSize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Answers by question.
///
/// The cache of `hickory-resolver` has whole messages and is limited in their number only: 64 KiB of records, which take
/// more than ten times that in memory, for each name that the owner of a zone invents.
#[derive(Default)]
pub(crate) struct Answers {
    kept: Mutex<KeptAnswers>,
}

/// Answers with records, and without: anyone can invent names that do not exist, and they must not displace others.
struct KeptAnswers {
    found: BoundedAnswers,
    empty: BoundedAnswers,
}

struct BoundedAnswers {
    kept: HashMap<Question, Kept>,
    bytes: usize,
    count_max: usize,
    bytes_max: usize,
}

struct Kept {
    answer: Arc<Answer>,
    until: Instant,
    bytes: usize,
}

impl Answers {
    /// Gives `search` the cached answers to its questions, up to the first that has none.
    pub(crate) fn pass_to(&self, search: &mut Search, now: Instant) {
        let kept = self.lock();
        while let Some(question) = search.question() {
            let Some(answer) = kept.find(&in_lower_case(question), now) else { return };
            search.take(&answer);
        }
    }

    /// Keeps an answer for `time`. Above the limits any others give way.
    pub(crate) fn keep(&self, question: Question, answer: Arc<Answer>, now: Instant, time: Duration) {
        self.lock().keep(question, answer, now, time);
    }

    /// Number of records, and bytes, of a cached answer with SRV records.
    #[cfg(test)]
    pub(crate) fn srv_kept(&self, name: &str) -> Option<(usize, usize)> {
        let kept = self.lock();
        let entry = kept.found.kept.get(&Question::Srv(name.into()))?;
        match &*entry.answer {
            Answer::Srv(texts) => Some((texts.len(), entry.bytes)),
            Answer::Naptr(_) | Answer::Addresses(_) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, KeptAnswers> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names are compared without regard to case.
fn in_lower_case(question: Question) -> Question {
    match question {
        Question::Naptr(name) => Question::Naptr(name.to_ascii_lowercase().into()),
        Question::Srv(name) => Question::Srv(name.to_ascii_lowercase().into()),
        Question::Addresses(name) => Question::Addresses(name.to_ascii_lowercase().into()),
    }
}

impl Default for KeptAnswers {
    fn default() -> Self {
        Self {
            found: BoundedAnswers::new(ANSWERS_MAX, ANSWERS_BYTES_MAX),
            empty: BoundedAnswers::new(EMPTY_ANSWERS_MAX, EMPTY_BYTES_MAX),
        }
    }
}

impl KeptAnswers {
    fn find(&self, question: &Question, now: Instant) -> Option<Arc<Answer>> {
        self.found.find(question, now).or_else(|| self.empty.find(question, now))
    }

    fn keep(&mut self, question: Question, answer: Arc<Answer>, now: Instant, time: Duration) {
        self.found.remove(&question);
        self.empty.remove(&question);
        let of_kind = if answer.is_empty() { &mut self.empty } else { &mut self.found };
        of_kind.keep(question, answer, now + time);
    }
}

impl BoundedAnswers {
    fn new(count_max: usize, bytes_max: usize) -> Self {
        Self { kept: HashMap::new(), bytes: 0, count_max, bytes_max }
    }

    fn find(&self, question: &Question, now: Instant) -> Option<Arc<Answer>> {
        self.kept.get(question).filter(|kept| kept.until > now).map(|kept| Arc::clone(&kept.answer))
    }

    fn keep(&mut self, question: Question, answer: Arc<Answer>, until: Instant) {
        let bytes = ENTRY_BYTES + name_of(&question).len() + answer.bytes_len();
        while self.kept.len() >= self.count_max || self.bytes + bytes > self.bytes_max {
            let Some(any) = self.kept.keys().next().cloned() else { return };
            self.remove(&any);
        }
        self.bytes += bytes;
        self.kept.insert(question, Kept { answer, until, bytes });
    }

    fn remove(&mut self, question: &Question) {
        if let Some(kept) = self.kept.remove(question) {
            self.bytes -= kept.bytes;
        }
    }
}

fn name_of(question: &Question) -> &str {
    match question {
        Question::Naptr(name) | Question::Srv(name) | Question::Addresses(name) => name,
    }
}

/// Maximum number of answers with records.
const ANSWERS_MAX: usize = 4096;

/// Maximum number of bytes of kept answers.
const ANSWERS_BYTES_MAX: usize = 16 << 20;

/// Maximum number of answers without records.
const EMPTY_ANSWERS_MAX: usize = 1024;

/// Maximum number of their bytes.
const EMPTY_BYTES_MAX: usize = 256 << 10;

/// Bytes of an entry without its name and its records.
const ENTRY_BYTES: usize = 160;

/// The most memory of kept answers.
pub const fn answers_size() -> TableSize {
    let entry = size_of::<(Question, Kept)>();
    TableSize::of_bytes(
        "answers of DNS",
        ANSWERS_MAX + EMPTY_ANSWERS_MAX,
        ANSWERS_BYTES_MAX + EMPTY_BYTES_MAX,
    )
    .with_map(ANSWERS_MAX, entry)
    .with_map(EMPTY_ANSWERS_MAX, entry)
}

/// Records that answer a question; none, if there are none or the lookup failed.
pub(crate) enum Answer {
    Naptr(Vec<NaptrText>),
    Srv(Vec<SrvText>),
    Addresses(Vec<IpAddr>),
}

impl Answer {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Naptr(texts) => texts.is_empty(),
            Self::Srv(texts) => texts.is_empty(),
            Self::Addresses(addresses) => addresses.is_empty(),
        }
    }

    /// Bytes of the records.
    fn bytes_len(&self) -> usize {
        match self {
            Self::Naptr(texts) => texts.iter().map(NaptrText::bytes_len).sum(),
            Self::Srv(texts) => texts.iter().map(SrvText::bytes_len).sum(),
            Self::Addresses(addresses) => size_of_val(addresses.as_slice()),
        }
    }
}

/// Search for servers, or for the URIs of a number.
pub(crate) enum Search {
    Servers(Locator),
    Uris(NumberSearch),
}

impl Search {
    /// The lookup that the search waits for; `None` at its end.
    pub(crate) fn question(&self) -> Option<Question> {
        match self {
            Self::Servers(locator) => locator.question(),
            Self::Uris(search) => search.question(),
        }
    }

    /// Gives the search the records that it asked for.
    fn take(&mut self, answer: &Answer) {
        match (self, answer) {
            (Self::Servers(locator), Answer::Naptr(texts)) => {
                locator.on_naptr(texts.iter().map(NaptrText::record));
            }
            (Self::Servers(locator), Answer::Srv(texts)) => locator.on_srv(texts.iter().map(SrvText::record)),
            (Self::Servers(locator), Answer::Addresses(addresses)) => {
                locator.on_addresses(addresses.iter().copied());
            }
            (Self::Uris(search), Answer::Naptr(texts)) => {
                search.on_naptr(texts.iter().map(NaptrText::record));
            }
            // It asks for NAPTR records only.
            (Self::Uris(_), Answer::Srv(_) | Answer::Addresses(_)) => {}
        }
    }
}

/// NAPTR record as text; a service or flag that is not UTF-8 is none of SIP.
pub(crate) struct NaptrText {
    order: u16,
    preference: u16,
    flags: String,
    service: String,
    regexp: String,
    replacement: String,
}

impl NaptrText {
    pub(crate) fn read(record: &Record) -> Option<Self> {
        let RData::NAPTR(naptr) = &record.data else { return None };
        Some(Self {
            order: naptr.order,
            preference: naptr.preference,
            flags: String::from_utf8(naptr.flags.to_vec()).ok()?,
            service: String::from_utf8(naptr.services.to_vec()).ok()?,
            // Without one a record still has its replacement.
            regexp: String::from_utf8(naptr.regexp.to_vec()).unwrap_or_default(),
            replacement: naptr.replacement.to_ascii(),
        })
    }

    fn bytes_len(&self) -> usize {
        let texts = [&self.flags, &self.service, &self.regexp, &self.replacement];
        size_of::<Self>() + texts.iter().map(|text| text.capacity()).sum::<usize>()
    }

    pub(crate) fn record(&self) -> Naptr<'_> {
        Naptr {
            order: self.order,
            preference: self.preference,
            flags: &self.flags,
            service: &self.service,
            regexp: &self.regexp,
            replacement: &self.replacement,
        }
    }
}

/// SRV record with its target as text.
pub(crate) struct SrvText {
    pub(crate) priority: u16,
    pub(crate) weight: u16,
    port: u16,
    target: String,
}

impl SrvText {
    pub(crate) fn read(record: &Record) -> Option<Self> {
        let RData::SRV(srv) = &record.data else { return None };
        let (priority, weight, port) = (srv.priority, srv.weight, srv.port);
        Some(Self { priority, weight, port, target: srv.target.to_ascii() })
    }

    fn bytes_len(&self) -> usize {
        size_of::<Self>() + self.target.capacity()
    }

    pub(crate) fn record(&self) -> Srv<'_> {
        Srv { priority: self.priority, weight: self.weight, port: self.port, target: &self.target }
    }
}

/// DNS servers that get the questions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Servers {
    /// Those of `/etc/resolv.conf`.
    #[default]
    OfSystem,
    /// Those at these addresses.
    At(Vec<SocketAddr>),
}

/// Source of records.
#[derive(Clone)]
pub(crate) struct Records {
    resolver: TokioResolver,
    answers: Arc<Answers>,
}

impl Records {
    /// Creates the source. Nothing is sent. Without a readable `/etc/resolv.conf` only the hosts file has names.
    pub(crate) fn new(servers: &Servers, answers: Arc<Answers>) -> Result<Self, NetError> {
        let provider = TokioRuntimeProvider::default();
        let mut builder = match servers {
            Servers::OfSystem => match TokioResolver::builder(provider.clone()) {
                Ok(builder) => builder,
                Err(_) => TokioResolver::builder_with_config(of_servers(&[]), provider),
            },
            Servers::At(list) => TokioResolver::builder_with_config(of_servers(list), provider),
        };
        limit(builder.options_mut());
        Ok(Self { resolver: builder.build()?, answers })
    }

    /// Answers one question of `search`, and those that the cache answers: without records if there are none, or the
    /// lookup fails.
    pub(crate) async fn answer(&self, search: &mut Search, question: Question) {
        search.take(&*self.look_up(in_lower_case(question)).await);
        self.answers.pass_to(search, Instant::now());
    }

    async fn look_up(&self, question: Question) -> Arc<Answer> {
        let (answer, time) = match &question {
            Question::Naptr(name) => {
                let found = self.resolver.lookup(rooted(name), RecordType::NAPTR).await;
                let texts = answers_of(&found).filter_map(NaptrText::read).take(Locator::NAPTR_MAX);
                (Answer::Naptr(texts.collect()), time_of(&found))
            }
            Question::Srv(name) => {
                let found = self.resolver.lookup(rooted(name), RecordType::SRV).await;
                let mut texts: Vec<_> = answers_of(&found).filter_map(SrvText::read).collect();
                texts.sort_by_key(|text| (text.priority, text.weight));
                texts.truncate(Locator::SRV_MAX);
                texts.shrink_to_fit();
                (Answer::Srv(texts), time_of(&found))
            }
            Question::Addresses(name) => {
                let found = self.resolver.lookup_ip(&**name).await.map(Lookup::from);
                let addresses = answers_of(&found).filter_map(|record| record.data.ip_addr());
                (Answer::Addresses(addresses.take(Locator::ADDRESSES_MAX).collect()), time_of(&found))
            }
        };
        let answer = Arc::new(answer);
        if let Some(time) = time {
            self.answers.keep(question, Arc::clone(&answer), Instant::now(), time);
        }
        answer
    }
}

/// Records of an answer, without those of a failed lookup.
fn answers_of(found: &Result<Lookup, NetError>) -> impl Iterator<Item = &Record> {
    found.as_ref().map_or(&[][..], |lookup| lookup.answers()).iter()
}

/// Time for which an answer, or the absence of records, counts; `None` for a lookup without an answer.
fn time_of(found: &Result<Lookup, NetError>) -> Option<Duration> {
    match found {
        Ok(lookup) => {
            let ttl = lookup.answers().iter().map(|record| Duration::from_secs(record.ttl.into())).min();
            Some(ttl.unwrap_or_default().clamp(TTL_MIN, TTL_MAX))
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
            let ttl = Duration::from_secs(none.negative_ttl.unwrap_or_default().into());
            Some(ttl.clamp(TTL_MIN, NEGATIVE_TTL_MAX))
        }
        // RFC 2308 §7.1: a name whose servers fail is not asked for again at once.
        Err(NetError::Dns(DnsError::ResponseCode(_))) => Some(TTL_MIN),
        Err(_) => None,
    }
}

/// The name of a domain is complete: the system's search list is for host names only.
fn rooted(name: &str) -> String {
    if name.ends_with('.') { name.to_owned() } else { [name, "."].concat() }
}

fn of_servers(list: &[SocketAddr]) -> ResolverConfig {
    let server = |address: &SocketAddr| {
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
            connection.port = address.port();
            connection
        });
        NameServerConfig::new(address.ip(), true, connections.into())
    };
    ResolverConfig::from_name_servers(list.iter().map(server).collect())
}

fn limit(options: &mut ResolverOpts) {
    options.timeout = ATTEMPT_TIME;
    options.attempts = 2;
    options.cache_size = 0;
    options.max_active_requests = ACTIVE_MAX;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Always;
}

/// Time limit of one try at one DNS server.
const ATTEMPT_TIME: Duration = Duration::from_millis(1500);

/// A record is not asked for more often.
const TTL_MIN: Duration = Duration::from_secs(5);

/// Maximum time for which a record is cached.
const TTL_MAX: Duration = Duration::from_secs(3600);

/// Maximum time for which the absence of records is cached.
const NEGATIVE_TTL_MAX: Duration = Duration::from_secs(30);

/// Maximum number of questions on one connection to a DNS server.
const ACTIVE_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn srv(number: usize) -> Question {
        Question::Srv(format!("{number}.example").into())
    }

    #[test]
    fn answers_are_limited_in_number_and_bytes_and_end_in_time() {
        let (mut answers, now, time) = (KeptAnswers::default(), Instant::now(), Duration::from_secs(5));
        let one = Arc::new(Answer::Addresses(vec![IpAddr::from([192, 0, 2, 1])]));
        for number in 0..2 * ANSWERS_MAX {
            answers.keep(srv(number), Arc::clone(&one), now, time);
            answers.keep(srv(number), Arc::clone(&one), now, time);
        }
        assert_eq!(answers.found.kept.len(), ANSWERS_MAX);
        let last = srv(2 * ANSWERS_MAX - 1);
        assert!(answers.find(&last, now).is_some() && answers.find(&last, now + time).is_none());
        let many = Arc::new(Answer::Addresses(vec![IpAddr::from([192, 0, 2, 1]); 10_000]));
        for number in 0..200 {
            answers.keep(srv(number), Arc::clone(&many), now, time);
            assert!(answers.found.bytes <= ANSWERS_BYTES_MAX && answers.find(&srv(number), now).is_some());
        }
        let counted: usize = answers.found.kept.values().map(|kept| kept.bytes).sum();
        assert_eq!(answers.found.bytes, counted);
        answers.keep(srv(1), Arc::new(Answer::Addresses(vec![IpAddr::from([0; 16]); 1 << 20])), now, time);
        assert_eq!((answers.found.kept.len(), answers.found.bytes), (0, 0), "a single one is too large");
    }

    #[test]
    fn the_memory_of_full_tables_is_the_published_one_at_most() {
        for (of_found, names) in [(1, 20), (170, 20), (1, 200)] {
            let (mut answers, now, time) = (KeptAnswers::default(), Instant::now(), Duration::from_secs(5));
            let long = "x".repeat(names);
            let taken = allocation_counter::measure(|| {
                for number in 0..3 * ANSWERS_MAX {
                    let found = Answer::Addresses(vec![IpAddr::from([192, 0, 2, 1]); of_found]);
                    answers.keep(srv(number), Arc::new(found), now, time);
                    let question = Question::Naptr(format!("{number}.{long}").into());
                    answers.keep(question, Arc::new(Answer::Addresses(Vec::new())), now, time);
                }
            });
            let (taken, size) = (taken.bytes_current as u64, answers_size().bytes);
            assert!((1..=size).contains(&taken), "{taken} of {size}");
        }
    }

    #[test]
    fn names_that_do_not_exist_take_no_place_of_others() {
        let (mut answers, now, time) = (KeptAnswers::default(), Instant::now(), Duration::from_secs(5));
        let one = Arc::new(Answer::Addresses(vec![IpAddr::from([192, 0, 2, 1])]));
        let none = Arc::new(Answer::Addresses(Vec::new()));
        for number in 0..ANSWERS_MAX {
            answers.keep(srv(number), Arc::clone(&one), now, time);
        }
        let long = "x".repeat(200);
        for number in ANSWERS_MAX..20 * ANSWERS_MAX {
            let question = Question::Naptr(format!("{number}.{long}").into());
            answers.keep(question.clone(), Arc::clone(&none), now, time);
            assert!(answers.find(&question, now).is_some());
            assert!(answers.empty.bytes <= EMPTY_BYTES_MAX && answers.empty.kept.len() <= EMPTY_ANSWERS_MAX);
        }
        assert!((0..ANSWERS_MAX).all(|number| answers.find(&srv(number), now).is_some()));
        answers.keep(srv(7), none, now, time);
        assert!(
            answers.find(&srv(7), now).is_some_and(|answer| answer.is_empty()),
            "it does not exist any more"
        );
        assert_eq!(answers.found.kept.len(), ANSWERS_MAX - 1);
    }
}
