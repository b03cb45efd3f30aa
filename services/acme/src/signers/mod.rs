//! Certificates of who signs the identities of callers (RFC 8226): fetched by HTTPS on a thread of its own, checked, and cached.

mod cache;
mod certificate;
mod fetch;
#[cfg(test)]
mod tests;

use cache::{Asked, Cache};
use certificate::Authorities;
use fetch::Fetcher;
use ringway_sansio::{Event, NoSigner, SignerCertificate};
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Rules for the certificates of signers.
pub struct SignerRules {
    /// Authorities that have issued them.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Authorities that verify the servers that they are fetched from.
    pub servers: Vec<CertificateDer<'static>>,
    /// True for an address that is connected to.
    pub permits: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

/// Figures of the certificates of signers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignerStats {
    /// Certificates that were fetched and are accepted.
    pub fetched: u64,
    /// Fetches that failed, and certificates that are not accepted.
    pub failed: u64,
    /// Requests that were answered without a certificate because of a limit.
    pub refused: u64,
    /// Requests that the cache answered.
    pub cached: u64,
}

impl SignerStats {
    /// The sums of both.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            fetched: self.fetched + other.fetched,
            failed: self.failed + other.failed,
            refused: self.refused + other.refused,
            cached: self.cached + other.cached,
        }
    }
}

/// The thread, which ends when this value is dropped, and the cache.
pub struct Signers {
    urls: UnboundedSender<Box<str>>,
    shared: Arc<Shared>,
}

struct Shared {
    cache: Mutex<Cache>,
    answer: Box<dyn Fn(u16, Event) + Send + Sync>,
    stats: Counts,
}

#[derive(Default)]
struct Counts {
    fetched: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    cached: AtomicU64,
}

type Found = Result<Arc<SignerCertificate>, NoSigner>;

impl Signers {
    /// Starts the thread. `answer` gets the shard of a query and its [`Event::SignerFound`]; it is called on any thread, also from within
    /// [`Signers::ask`], and must not block.
    ///
    /// # Errors
    /// The thread cannot be started, or there is no authority.
    pub fn start(
        rules: SignerRules,
        answer: impl Fn(u16, Event) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let SignerRules { authorities, servers, permits } = rules;
        let authorities = Authorities::new(&authorities).map_err(io::Error::other)?;
        let fetcher = Fetcher::new(&servers, permits).map_err(io::Error::other)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(RESOLVERS_MAX)
            .build()?;
        let (urls, receiver) = unbounded_channel();
        let shared = Arc::new(Shared {
            cache: Mutex::new(Cache::new()),
            answer: Box::new(answer),
            stats: Counts::default(),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("signers".to_owned()).spawn(move || {
            runtime.block_on(run(receiver, &of_thread, &fetcher, &Arc::new(authorities)));
            // A lookup of a host name may take longer.
            runtime.shutdown_background();
        })?;
        Ok(Self { urls, shared })
    }

    /// Finds the certificate at a URL that the server permits. One that is cached is answered at once, as is a query above the limits.
    pub fn ask(&self, shard: u16, query: u64, url: Box<str>) {
        let asked = self.shared.cache().ask(Instant::now(), &url, (shard, query));
        let result = match asked {
            Asked::Waits => return,
            // The thread runs as long as this value exists; there are no more URLs than may be fetched at a time.
            Asked::Fetch => return drop(self.urls.send(url)),
            Asked::Found(result) => {
                self.shared.stats.cached.fetch_add(1, Ordering::Relaxed);
                result
            }
            Asked::Refused => {
                self.shared.stats.refused.fetch_add(1, Ordering::Relaxed);
                Err(NoSigner::Unreachable)
            }
        };
        (self.shared.answer)(shard, Event::SignerFound { query, result });
    }

    /// Figures since the start.
    pub fn stats(&self) -> SignerStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { fetched, failed, refused, cached } = &self.shared.stats;
        SignerStats { fetched: of(fetched), failed: of(failed), refused: of(refused), cached: of(cached) }
    }
}

impl Shared {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(
    mut urls: UnboundedReceiver<Box<str>>,
    shared: &Arc<Shared>,
    fetcher: &Fetcher,
    authorities: &Arc<Authorities>,
) {
    while let Some(url) = urls.recv().await {
        let (shared, fetcher, authorities) = (Arc::clone(shared), fetcher.clone(), Arc::clone(authorities));
        tokio::spawn(async move {
            let fetched = fetcher.fetch(&url).await;
            let (result, kept_for) = match fetched {
                Ok((body, kept_for)) => match authorities.accept(&body) {
                    Ok((certificate, valid_for)) => (Ok(Arc::new(certificate)), kept_for.min(valid_for)),
                    Err(why) => {
                        tracing::warn!(%url, %why, "the certificate of a signer is not accepted");
                        (Err(NoSigner::Unsupported), FAILURE_KEPT_FOR)
                    }
                },
                Err(why) => {
                    tracing::warn!(%url, %why, "the certificate of a signer cannot be fetched");
                    (Err(NoSigner::Unreachable), FAILURE_KEPT_FOR)
                }
            };
            let counter = if result.is_ok() { &shared.stats.fetched } else { &shared.stats.failed };
            counter.fetch_add(1, Ordering::Relaxed);
            let waiting = shared.cache().found(Instant::now(), &url, &result, kept_for);
            for (shard, query) in waiting {
                (shared.answer)(shard, Event::SignerFound { query, result: result.clone() });
            }
        });
    }
}

/// Time for which a failure is remembered.
const FAILURE_KEPT_FOR: Duration = Duration::from_secs(60);
/// Maximum number of lookups of host names at a time.
const RESOLVERS_MAX: usize = 8;
