//! The thread that orders and renews.

use crate::answers::{AnswerCounts, Answers, SetChallenges};
use crate::certificate::{Validity, wall_s};
use crate::config::{AcmeConfig, AcmeError};
use crate::folder::{Folder, State};
use crate::order::{OrderContext, OrderError};
use crate::schedule::Schedule;
use rustls::pki_types::CertificateDer;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

/// The thread; it ends when this value is dropped.
#[derive(Debug)]
pub struct Acme {
    /// `None` while it is dropped.
    renew: Option<Sender<Renew>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// Figures of the orders.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AcmeStats {
    /// Certificates that were issued.
    pub issued: u64,
    /// Orders that failed.
    pub failed: u64,
    /// Days until the directory's certificate expires; negative after that, 0 without one.
    pub days_left: f64,
    /// Figures of HTTP-01.
    pub http: AnswerCounts,
}

/// Command to order at once.
#[derive(Clone, Copy, Debug)]
struct Renew;

#[derive(Debug, Default)]
struct Shared {
    answers: Arc<Answers>,
    issued: AtomicU64,
    failed: AtomicU64,
    /// Seconds since 1970; 0: no certificate of the directory.
    not_after_s: AtomicU64,
}

impl Acme {
    /// Starts the thread, which orders a certificate unless the folder has one. The folder was [prepared](Folder::prepare).
    /// `authorities` verify the certificate of the directory.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        config: AcmeConfig,
        authorities: Vec<CertificateDer<'static>>,
        set_challenges: SetChallenges,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let shared = Arc::new(Shared::default());
        let context = OrderContext {
            folder: Folder::new(&config.folder),
            config: Arc::new(config),
            authorities: Arc::new(authorities),
            answers: Arc::clone(&shared.answers),
            set_challenges,
        };
        let (renew, commands) = channel(1);
        let worker = Worker {
            context,
            shared: Arc::clone(&shared),
            schedule: Schedule::default(),
            started: Instant::now(),
            random: RandomState::new().hash_one(0),
        };
        let thread = std::thread::Builder::new().name("acme".into()).spawn(move || {
            runtime.block_on(worker.run(commands));
            // A lookup of a name may take long.
            runtime.shutdown_background();
        })?;
        Ok(Self { renew: Some(renew), thread: Some(thread), shared })
    }

    /// Orders at once, whatever failed before.
    pub fn renew(&self) {
        // A full queue has the same command already.
        let _ = self.renew.as_ref().map(|renew| renew.try_send(Renew));
    }

    /// Figures.
    pub fn stats(&self) -> AcmeStats {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let left_s = match value(&self.shared.not_after_s) {
            0 => 0.0,
            not_after_s => not_after_s as f64 - wall_s() as f64,
        };
        AcmeStats {
            issued: value(&self.shared.issued),
            failed: value(&self.shared.failed),
            days_left: left_s / DAY_S,
            http: self.shared.answers.counts(),
        }
    }
}

impl Drop for Acme {
    fn drop(&mut self) {
        drop(self.renew.take());
        if let Some(thread) = self.thread.take() {
            // An order that is under way is given up.
            let _ = thread.join();
        }
    }
}

struct Worker {
    context: OrderContext,
    shared: Arc<Shared>,
    schedule: Schedule,
    started: Instant,
    random: u64,
}

impl Worker {
    async fn run(mut self, mut commands: Receiver<Renew>) {
        if !matches!(self.context.folder.state(), State::Issued(..)) {
            tracing::warn!(
                "[tls.acme] there is no certificate yet: until the first order succeeds, TLS listeners have a self-signed one, which \
                 phones refuse"
            );
        }
        loop {
            let validity = self.validity();
            let wait = self.schedule.wait(self.started.elapsed(), wall_s(), validity, self.random);
            if !wait.is_zero() {
                // The clock may be set meanwhile.
                let command = timeout(wait.min(TICK), commands.recv()).await;
                match command {
                    Ok(Some(Renew)) => self.schedule.force(),
                    Ok(None) => return,
                    Err(_) => {}
                }
                continue;
            }
            let config = &self.context.config;
            tracing::info!(
                "[tls.acme] ordering a certificate for {} from {}",
                config.domains.join(", "),
                config.directory
            );
            let mut order = tokio::spawn(timeout(ORDER_TIME_MAX, self.context.clone().order()));
            let ordered = loop {
                tokio::select! {
                    ordered = &mut order => break ordered,
                    command = commands.recv() => if command.is_none() {
                        order.abort();
                        // Its end takes its challenges back.
                        let _ = order.await;
                        return;
                    }
                }
            };
            let own = |why: &str| OrderError { why: AcmeError::new(why), retry_after: None };
            match ordered {
                Ok(Ok(Ok(validity))) => self.succeeded(validity),
                Ok(Ok(Err(failure))) => self.failed(&failure),
                Ok(Err(_)) => self.failed(&own("the order was not done within ten minutes")),
                Err(_) => {
                    self.failed(&own("the order ended by a panic, which is a defect; please report it"))
                }
            }
        }
    }

    /// Validity of the certificate in the folder, if it is one for these domains.
    fn validity(&self) -> Option<Validity> {
        let state = self.context.folder.state();
        let State::Issued(validity, names) = state else { return None };
        self.shared.not_after_s.store(validity.not_after_s, Ordering::Relaxed);
        let (have, want): (BTreeSet<_>, BTreeSet<_>) =
            (names.iter().collect(), self.context.config.domains.iter().collect());
        (have == want).then_some(validity)
    }

    fn succeeded(&mut self, validity: Validity) {
        self.schedule.succeeded(self.started.elapsed());
        self.shared.issued.fetch_add(1, Ordering::Relaxed);
        let wait = self.schedule.wait(self.started.elapsed(), wall_s(), Some(validity), self.random);
        tracing::info!(
            "[tls.acme] certificate issued, valid for {}, to be renewed in {}",
            span(validity.not_after_s.saturating_sub(wall_s())),
            span(wait.as_secs())
        );
    }

    fn failed(&mut self, failure: &OrderError) {
        self.shared.failed.fetch_add(1, Ordering::Relaxed);
        let pause = self.schedule.failed(self.started.elapsed(), failure.retry_after, self.random);
        let (is_urgent, present) = match self.context.folder.state() {
            State::Issued(validity, _) => match validity.not_after_s.saturating_sub(wall_s()) {
                0 => (true, "the certificate HAS EXPIRED, phones refuse it".to_owned()),
                left_s => {
                    let life_s = validity.not_after_s.saturating_sub(validity.not_before_s);
                    (left_s < life_s / 6, format!("the present one stays, for {} more", span(left_s)))
                }
            },
            State::Placeholder(_) | State::Missing => {
                (false, "the self-signed one stays, which phones refuse".to_owned())
            }
        };
        // As a field: it has text of the directory, which is escaped so.
        let (reason, next) = (failure.why.as_str(), span(pause.as_secs()));
        if is_urgent {
            tracing::error!(reason, "[tls.acme] no new certificate: {present}; next order in {next}");
        } else {
            tracing::warn!(reason, "[tls.acme] no new certificate: {present}; next order in {next}");
        }
    }
}

/// A time in its largest unit.
fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

const DAY_S: f64 = 86_400.0;
/// Longest time between two looks at the clock.
const TICK: Duration = Duration::from_secs(600);
/// Time of an order.
const ORDER_TIME_MAX: Duration = Duration::from_secs(600);
