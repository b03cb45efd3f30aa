//! Cache of answers: the records that a [`Locator`] considers, limited in number and bytes.

use crate::texts::{NaptrText, SrvText};
use ringway_resolve::{Locator, Question};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Records that answer a question; none, if there are none or the lookup failed.
pub(crate) enum Answer {
    Naptr(Vec<NaptrText>),
    Srv(Vec<SrvText>),
    Addresses(Vec<IpAddr>),
}

impl Answer {
    /// Gives the records to the search that asked for them.
    pub(crate) fn pass_to(&self, locator: &mut Locator) {
        match self {
            Self::Naptr(texts) => locator.on_naptr(texts.iter().map(NaptrText::record)),
            Self::Srv(texts) => locator.on_srv(texts.iter().map(SrvText::record)),
            Self::Addresses(addresses) => locator.on_addresses(addresses.iter().copied()),
        }
    }

    fn bytes_len(&self) -> usize {
        match self {
            Self::Naptr(texts) => texts.iter().map(NaptrText::bytes_len).sum(),
            Self::Srv(texts) => texts.iter().map(SrvText::bytes_len).sum(),
            Self::Addresses(addresses) => size_of_val(addresses.as_slice()),
        }
    }
}

/// Answers by question.
///
/// The cache of `hickory-resolver` has whole messages and is limited in their number only: 64 KiB of records, which take
/// more than ten times that in memory, for each name that the owner of a zone invents.
#[derive(Default)]
pub(crate) struct Answers {
    kept: Mutex<KeptAnswers>,
}

#[derive(Default)]
struct KeptAnswers {
    kept: HashMap<Question, Kept>,
    bytes: usize,
}

struct Kept {
    answer: Arc<Answer>,
    until: Instant,
    bytes: usize,
}

impl Answers {
    /// Gives `locator` the cached answers to its questions, up to the first that has none.
    pub(crate) fn pass_to(&self, locator: &mut Locator, now: Instant) {
        let kept = self.lock();
        while let Some(question) = locator.question() {
            let Some(answer) = kept.find(&in_lower_case(question), now) else { return };
            answer.pass_to(locator);
        }
    }

    /// Keeps an answer for `time`. Above the limits any others give way.
    pub(crate) fn keep(&self, question: Question, answer: Arc<Answer>, now: Instant, time: Duration) {
        self.lock().keep(question, answer, now, time);
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

impl KeptAnswers {
    fn find(&self, question: &Question, now: Instant) -> Option<Arc<Answer>> {
        self.kept.get(question).filter(|kept| kept.until > now).map(|kept| Arc::clone(&kept.answer))
    }

    fn keep(&mut self, question: Question, answer: Arc<Answer>, now: Instant, time: Duration) {
        self.remove(&question);
        let bytes = ENTRY_BYTES + name_of(&question).len() + answer.bytes_len();
        while self.kept.len() >= ANSWERS_MAX || self.bytes + bytes > BYTES_MAX {
            let Some(any) = self.kept.keys().next().cloned() else { return };
            self.remove(&any);
        }
        self.bytes += bytes;
        self.kept.insert(question, Kept { answer, until: now + time, bytes });
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

/// Maximum number of answers, also of those without records.
const ANSWERS_MAX: usize = 4096;

/// Maximum number of their bytes.
const BYTES_MAX: usize = 16 << 20;

/// Bytes of an entry without its name and its records.
const ENTRY_BYTES: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    fn srv(number: usize) -> Question {
        Question::Srv(format!("{number}.example").into())
    }

    #[test]
    fn answers_are_limited_in_number_and_bytes_and_end_in_time() {
        let (mut answers, now, time) = (KeptAnswers::default(), Instant::now(), Duration::from_secs(5));
        let none = Arc::new(Answer::Addresses(Vec::new()));
        for number in 0..2 * ANSWERS_MAX {
            answers.keep(srv(number), Arc::clone(&none), now, time);
            answers.keep(srv(number), Arc::clone(&none), now, time);
        }
        assert_eq!(answers.kept.len(), ANSWERS_MAX);
        let last = srv(2 * ANSWERS_MAX - 1);
        assert!(answers.find(&last, now).is_some() && answers.find(&last, now + time).is_none());
        let many = Arc::new(Answer::Addresses(vec![IpAddr::from([192, 0, 2, 1]); 10_000]));
        for number in 0..200 {
            answers.keep(srv(number), Arc::clone(&many), now, time);
            assert!(answers.bytes <= BYTES_MAX && answers.find(&srv(number), now).is_some());
        }
        let counted: usize = answers.kept.values().map(|kept| kept.bytes).sum();
        assert_eq!(answers.bytes, counted);
        answers.keep(srv(1), Arc::new(Answer::Addresses(vec![IpAddr::from([0; 16]); 1 << 20])), now, time);
        assert_eq!((answers.kept.len(), answers.bytes), (0, 0), "a single one is too large");
    }
}
