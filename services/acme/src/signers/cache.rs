//! Cache of certificates by their URLs, and the queries that wait for each.

use super::Found;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Certificates, and failures, by URL.
pub(super) struct Cache {
    entries: HashMap<Box<str>, Entry>,
    /// Bytes of the entries.
    bytes: usize,
    /// Fetches under way, by host.
    fetches: HashMap<Box<str>, usize>,
}

enum Entry {
    /// It is fetched for these queries: shard and number.
    Fetched(Vec<(u16, u64)>),
    Known {
        result: Found,
        until: Instant,
    },
}

/// Answer to a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Found(Found),
    /// It is fetched already.
    Waits,
    /// It is to be fetched.
    Fetch,
    /// A limit is reached.
    Refused,
}

impl Cache {
    pub(super) fn new() -> Self {
        Self { entries: HashMap::new(), bytes: 0, fetches: HashMap::new() }
    }

    /// Answers a query.
    pub(super) fn ask(&mut self, now: Instant, url: &str, query: (u16, u64)) -> Asked {
        match self.entries.get_mut(url) {
            Some(Entry::Known { result, until }) if *until > now => return Asked::Found(result.clone()),
            Some(Entry::Fetched(waiting)) if waiting.len() < WAITING_MAX => {
                waiting.push(query);
                return Asked::Waits;
            }
            Some(Entry::Fetched(_)) => return Asked::Refused,
            Some(Entry::Known { .. }) => self.remove(url),
            None => {}
        }
        let (under_way, host) = (self.fetches.values().sum::<usize>(), host_of(url));
        let of_host = self.fetches.get(host).copied().unwrap_or_default();
        if under_way >= FETCHES_MAX || of_host >= FETCHES_OF_HOST_MAX {
            return Asked::Refused;
        }
        *self.fetches.entry(host.into()).or_default() += 1;
        self.bytes += url.len();
        self.entries.insert(url.into(), Entry::Fetched(vec![query]));
        Asked::Fetch
    }

    /// Keeps what was fetched for this time; returns the queries that wait for it.
    pub(super) fn found(
        &mut self,
        now: Instant,
        url: &str,
        result: &Found,
        kept_for: Duration,
    ) -> Vec<(u16, u64)> {
        let host = host_of(url);
        if let Some(count) = self.fetches.get_mut(host) {
            *count -= 1;
            if *count == 0 {
                self.fetches.remove(host);
            }
        }
        let waiting = match self.entries.get_mut(url) {
            Some(Entry::Fetched(waiting)) => std::mem::take(waiting),
            Some(Entry::Known { .. }) | None => Vec::new(),
        };
        self.remove(url);
        let bytes = url.len() + bytes_of(result);
        while self.entries.len() >= ENTRIES_MAX || self.bytes + bytes > BYTES_MAX {
            if !self.evict(result.is_err()) {
                return waiting;
            }
        }
        self.bytes += bytes;
        self.entries.insert(url.into(), Entry::Known { result: result.clone(), until: now + kept_for });
        waiting
    }

    /// Removes the entry that ends first: a failure, or, unless only failures may go, a certificate. False: there is none.
    fn evict(&mut self, is_for_failure: bool) -> bool {
        let ends = self.entries.iter().filter_map(|(url, entry)| match entry {
            Entry::Known { result, until } if result.is_err() || !is_for_failure => {
                Some((result.is_ok(), *until, url))
            }
            Entry::Known { .. } | Entry::Fetched(_) => None,
        });
        let Some(url) = ends.min_by_key(|(is_ok, until, _)| (*is_ok, *until)).map(|(_, _, url)| url.clone())
        else {
            return false;
        };
        self.remove(&url);
        true
    }

    fn remove(&mut self, url: &str) {
        self.bytes -= match self.entries.remove(url) {
            Some(Entry::Known { result, .. }) => url.len() + bytes_of(&result),
            Some(Entry::Fetched(_)) => url.len(),
            None => 0,
        };
    }
}

fn bytes_of(result: &Found) -> usize {
    let numbers_bytes = |numbers: &ringway_sansio::SignerNumbers| size_of_val(numbers) + numbers.first.len();
    let certificate_bytes = result.as_ref().map_or(0, |certificate| {
        certificate.public_key.len() + certificate.numbers.iter().map(numbers_bytes).sum::<usize>()
    });
    ENTRY_BYTES + certificate_bytes
}

/// Host of an `https` URL, with its port.
fn host_of(url: &str) -> &str {
    url.strip_prefix("https://").unwrap_or(url).split(['/', '?']).next().unwrap_or_default()
}

/// Maximum number of entries.
const ENTRIES_MAX: usize = 1000;
/// Maximum number of their bytes.
const BYTES_MAX: usize = 4 << 20;
/// Bytes of an entry besides its URL and its certificate.
const ENTRY_BYTES: usize = 200;
/// Maximum number of fetches at a time, and of those from one host.
const FETCHES_MAX: usize = 64;
const FETCHES_OF_HOST_MAX: usize = 8;
/// Maximum number of queries that wait for one certificate.
const WAITING_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{NoSigner, SignerCertificate, SignerNumbers};
    use std::sync::Arc;

    const HOUR: Duration = Duration::from_secs(3600);

    fn certificate(numbers: usize) -> Found {
        let numbers = (0..numbers).map(|number| SignerNumbers { first: number.to_string().into(), count: 1 });
        Ok(Arc::new(SignerCertificate { public_key: Box::new([4; 65]), numbers: numbers.collect() }))
    }

    #[test]
    fn what_was_fetched_is_kept_for_its_time_and_fetched_once() {
        let (mut cache, now, url) = (Cache::new(), Instant::now(), "https://a.example/c");
        assert_eq!(cache.ask(now, url, (1, 1)), Asked::Fetch);
        assert_eq!(cache.ask(now, url, (2, 2)), Asked::Waits);
        assert_eq!(cache.found(now, url, &certificate(0), HOUR), [(1, 1), (2, 2)]);
        assert_eq!(cache.ask(now + HOUR / 2, url, (1, 3)), Asked::Found(certificate(0)));
        assert_eq!(cache.ask(now + HOUR, url, (1, 4)), Asked::Fetch);
        let failed = Err(NoSigner::Unreachable);
        assert_eq!(cache.found(now + HOUR, url, &failed, HOUR), [(1, 4)]);
        assert_eq!(cache.ask(now + HOUR, url, (1, 5)), Asked::Found(failed));
        assert!(cache.fetches.is_empty());
        for number in 0..WAITING_MAX {
            cache.ask(now, "https://b.example/", (1, number as u64));
        }
        assert_eq!(cache.ask(now, "https://b.example/", (1, 1)), Asked::Refused);
    }

    #[test]
    fn fetches_are_limited_for_each_host_and_for_all() {
        let (mut cache, now) = (Cache::new(), Instant::now());
        for number in 0..FETCHES_OF_HOST_MAX {
            assert_eq!(cache.ask(now, &format!("https://a.example/{number}"), (1, 1)), Asked::Fetch);
        }
        assert_eq!(cache.ask(now, "https://a.example/other", (1, 1)), Asked::Refused);
        for number in FETCHES_OF_HOST_MAX..FETCHES_MAX {
            assert_eq!(cache.ask(now, &format!("https://h{number}.example/"), (1, 1)), Asked::Fetch);
        }
        assert_eq!(cache.ask(now, "https://b.example/", (1, 1)), Asked::Refused);
        cache.found(now, "https://a.example/0", &certificate(0), HOUR);
        assert_eq!(cache.ask(now, "https://b.example/", (1, 1)), Asked::Fetch);
    }

    /// Failures, which a caller can cause with any URL of a permitted host, take no room from certificates.
    #[test]
    fn the_cache_is_bounded_and_failures_go_first() {
        let (mut cache, now) = (Cache::new(), Instant::now());
        let mut keep = |url: &str, result: &Found, kept_for| {
            cache.ask(now, url, (1, 1));
            cache.found(now, url, result, kept_for);
            (cache.entries.len(), cache.bytes)
        };
        keep("https://good.example/", &certificate(1), HOUR / 60);
        for number in 0..2 * ENTRIES_MAX {
            let (entries, _) =
                keep(&format!("https://h{number}.example/"), &Err(NoSigner::Unreachable), HOUR);
            assert!(entries <= ENTRIES_MAX);
        }
        for number in 0..ENTRIES_MAX {
            let (entries, bytes) = keep(&format!("https://g{number}.example/"), &certificate(1000), HOUR);
            assert!(entries <= ENTRIES_MAX && bytes <= BYTES_MAX);
        }
        assert!(cache.entries.values().all(|entry| matches!(entry, Entry::Known { result: Ok(_), .. })));
        let urls: Vec<Box<str>> = cache.entries.keys().cloned().collect();
        urls.iter().for_each(|url| cache.remove(url));
        assert_eq!(cache.bytes, 0);
    }
}
