//! Call-IDs of a traced user's messages.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The last Call-IDs.
#[derive(Debug, Default)]
pub(super) struct Calls {
    known: HashSet<Arc<[u8]>>,
    by_age: VecDeque<Arc<[u8]>>,
    /// Forgotten ones that the filter still has.
    forgotten: usize,
}

/// Filter before [`Calls`], without a lock: most messages are other users'.
///
/// Peers can choose a Call-ID that passes it; the set decides then.
#[derive(Debug)]
pub(super) struct CallFilter {
    is_used: AtomicBool,
    bits: [AtomicU64; WORDS],
}

impl Calls {
    pub(super) fn has(&self, call_id: &[u8]) -> bool {
        !self.known.is_empty() && self.known.contains(call_id)
    }

    /// Learns a Call-ID; the oldest is forgotten for it. One that is too long is not learned.
    pub(super) fn learn(&mut self, call_id: &[u8], filter: &CallFilter) {
        if call_id.len() > CALL_ID_BYTES_MAX || self.has(call_id) {
            return;
        }
        if self.by_age.len() >= CALLS_MAX
            && let Some(oldest) = self.by_age.pop_front()
        {
            self.known.remove(&oldest);
            self.forgotten += 1;
        }
        let call_id: Arc<[u8]> = call_id.into();
        self.by_age.push_back(Arc::clone(&call_id));
        self.known.insert(Arc::clone(&call_id));
        filter.add(&call_id);
        if self.forgotten >= FORGOTTEN_MAX {
            self.forgotten = 0;
            filter.fill(self.by_age.iter().map(|call_id| &**call_id));
        }
    }
}

impl CallFilter {
    pub(super) const fn new() -> Self {
        Self { is_used: AtomicBool::new(false), bits: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// True if it has any Call-ID.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// False if the Call-ID with this [`fingerprint`] was not learned.
    pub(super) fn may_have(&self, fingerprint: u64) -> bool {
        let (word, bit) = position(fingerprint);
        self.bits.get(word).is_some_and(|bits| bits.load(Ordering::Relaxed) & bit != 0)
    }

    fn add(&self, call_id: &[u8]) {
        let (word, bit) = position(fingerprint(call_id));
        if let Some(bits) = self.bits.get(word) {
            bits.fetch_or(bit, Ordering::Relaxed);
        }
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Forgets all but these.
    fn fill<'c>(&self, call_ids: impl Iterator<Item = &'c [u8]>) {
        let mut words = [0; WORDS];
        for call_id in call_ids {
            let (word, bit) = position(fingerprint(call_id));
            if let Some(bits) = words.get_mut(word) {
                *bits |= bit;
            }
        }
        self.bits.iter().zip(words).for_each(|(bits, word)| bits.store(word, Ordering::Relaxed));
    }
}

const fn position(fingerprint: u64) -> (usize, u64) {
    ((fingerprint >> 58) as usize % WORDS, 1 << (fingerprint >> 52 & 63))
}

/// Fast hash of a Call-ID.
pub(super) fn fingerprint(call_id: &[u8]) -> u64 {
    let (words, rest) = call_id.as_chunks::<8>();
    let mut last = [0; 8];
    last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    let mut hash = call_id.len() as u64;
    for word in words.iter().chain([&last]) {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(MULTIPLIER);
    }
    hash
}

const WORDS: usize = 64;
/// An odd number whose bits are mixed.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Maximum number of Call-IDs of a trace.
const CALLS_MAX: usize = 1024;
/// Forgotten Call-IDs after which the filter is filled again.
const FORGOTTEN_MAX: usize = CALLS_MAX / 4;
/// Maximum length of a Call-ID that is learned.
const CALL_ID_BYTES_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_has_each_call_that_the_set_has_and_few_others() {
        let (mut calls, filter) = (Calls::default(), CallFilter::new());
        let call_id = |number: usize| format!("call-{number:08}-0123456789abcdef").into_bytes();
        assert!(!filter.is_used() && !filter.may_have(fingerprint(b"")));
        for number in 0..5000 {
            calls.learn(&call_id(number), &filter);
            assert!(filter.may_have(fingerprint(&call_id(number))));
        }
        assert!(
            (5000 - CALLS_MAX..5000)
                .all(|n| calls.has(&call_id(n)) && filter.may_have(fingerprint(&call_id(n))))
        );
        assert!(!calls.has(&call_id(5000 - CALLS_MAX - 1)));
        let passed = (10_000..20_000).filter(|n| filter.may_have(fingerprint(&call_id(*n)))).count();
        assert!(passed < 4000, "{passed}");
        calls.learn(&[b'x'; CALL_ID_BYTES_MAX + 1], &filter);
        assert_eq!(calls.known.len(), CALLS_MAX);
    }
}
