//! Searches, their answers, and the cache of the records that a [`Search`] considers, limited in number and bytes.

use hickory_resolver::proto::rr::{RData, Record};
use ringway_resolve::{Locator, Naptr, NumberSearch, Question, Srv};
use std::collections::HashMap;
use std::net::IpAddr;
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
pub(crate) fn in_lower_case(question: Question) -> Question {
    match question {
        Question::Naptr(name) => Question::Naptr(name.to_ascii_lowercase().into()),
        Question::Srv(name) => Question::Srv(name.to_ascii_lowercase().into()),
        Question::Addresses(name) => Question::Addresses(name.to_ascii_lowercase().into()),
    }
}

impl Default for KeptAnswers {
    fn default() -> Self {
        Self {
            found: BoundedAnswers::new(ANSWERS_MAX, BYTES_MAX),
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

/// Maximum number of their bytes.
const BYTES_MAX: usize = 16 << 20;

/// Maximum number of answers without records.
const EMPTY_ANSWERS_MAX: usize = 1024;

/// Maximum number of their bytes.
const EMPTY_BYTES_MAX: usize = 256 << 10;

/// Bytes of an entry without its name and its records.
const ENTRY_BYTES: usize = 160;

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
    pub(crate) fn take(&mut self, answer: &Answer) {
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
            assert!(answers.found.bytes <= BYTES_MAX && answers.find(&srv(number), now).is_some());
        }
        let counted: usize = answers.found.kept.values().map(|kept| kept.bytes).sum();
        assert_eq!(answers.found.bytes, counted);
        answers.keep(srv(1), Arc::new(Answer::Addresses(vec![IpAddr::from([0; 16]); 1 << 20])), now, time);
        assert_eq!((answers.found.kept.len(), answers.found.bytes), (0, 0), "a single one is too large");
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
