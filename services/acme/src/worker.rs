//! The thread that orders and renews, and the time of the next order: two thirds of a certificate's life, and a back-
//! off after failures.

use crate::answers::{AnswerCounts, Answers, SetChallenges};
use crate::certificate::{Validity, wall_s};
use crate::config::{AcmeConfig, AcmeError};
use crate::folder::{Folder, State};
use crate::http::RETRY_AFTER_MAX;
use crate::order::{Challenges, OrderContext, OrderError, waiting};
use crate::shared::{LOOK_INTERVAL, SharedItem, SharedOrders, read_proofs};
use rustls::pki_types::CertificateDer;
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
pub(crate) struct Shared {
    answers: Arc<Answers>,
    issued: AtomicU64,
    failed: AtomicU64,
    /// Seconds since 1970; 0: no certificate of the directory.
    not_after_s: AtomicU64,
}

impl Acme {
    /// Starts the thread, which orders a certificate unless the folder has one. The folder was [prepared](Folder::prepare).
    /// `authorities` verify the certificate of the directory. `others`: what servers of a cluster share.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        config: AcmeConfig,
        authorities: Vec<CertificateDer<'static>>,
        set_challenges: SetChallenges,
        others: Option<Arc<dyn SharedOrders>>,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let shared = Arc::new(Shared::default());
        let context = OrderContext {
            folder: Folder::new(&config.folder),
            config: Arc::new(config),
            authorities: Arc::new(authorities),
            answers: Arc::clone(&shared.answers),
            set_challenges,
            shared: others,
        };
        let (renew, commands) = channel(1);
        let worker = Worker::new(context, Arc::clone(&shared));
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

pub(crate) struct Worker {
    context: OrderContext,
    shared: Arc<Shared>,
    schedule: Schedule,
    started: Instant,
    random: u64,
    /// Text of the challenges of another server, and the answers to them.
    followed: Option<(Vec<u8>, Challenges)>,
    /// The store of the servers cannot be used.
    is_away: bool,
}

impl Worker {
    pub(crate) fn new(context: OrderContext, shared: Arc<Shared>) -> Self {
        Self {
            context,
            shared,
            schedule: Schedule::default(),
            started: Instant::now(),
            random: RandomState::new().hash_one(0),
            followed: None,
            is_away: false,
        }
    }

    async fn run(mut self, mut commands: Receiver<Renew>) {
        if !matches!(self.context.folder.state(), State::Issued(..)) {
            tracing::warn!(
                "[tls.acme] there is no certificate yet: until the first order succeeds, TLS listeners have a self-signed one, which \
                 phones refuse"
            );
        }
        loop {
            self.follow().await;
            let mut wait = self.wait();
            if wait.is_zero() && !self.may_order().await {
                wait = LOOK_INTERVAL;
            }
            if !wait.is_zero() {
                // The clock may be set meanwhile.
                let tick = if self.context.shared.is_some() { LOOK_INTERVAL } else { TICK };
                let command = timeout(wait.min(tick), commands.recv()).await;
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
            self.end_challenges().await;
            match ordered {
                Ok(Ok(Ok(validity))) => {
                    self.succeeded(validity);
                    self.follow().await;
                    self.end_right().await;
                }
                Ok(Ok(Err(failure))) => self.failed(&failure),
                Ok(Err(_)) => self.failed(&own("the order was not done within ten minutes")),
                Err(_) => {
                    self.failed(&own("the order ended by a panic, which is a defect; please report it"))
                }
            }
        }
    }

    /// Time until the next order.
    fn wait(&self) -> Duration {
        self.schedule.wait(self.started.elapsed(), wall_s(), self.validity(), self.random)
    }

    /// Validity of the certificate in the folder, if it is one for these domains.
    fn validity(&self) -> Option<Validity> {
        let state = self.context.folder.state();
        if let State::Issued(validity, _) = &state {
            self.shared.not_after_s.store(validity.not_after_s, Ordering::Relaxed);
        }
        state.issued_for(&self.context.config.domains)
    }

    /// True if no other server orders, and this one still has to.
    pub(crate) async fn may_order(&mut self) -> bool {
        let Some(shared) = self.context.shared.clone() else { return true };
        let begun = waiting(&shared, |shared| shared.begin()).await;
        let has_right = self.noted(begun).unwrap_or_default();
        if has_right {
            // Another one may have ended just now.
            self.follow().await;
            if !self.wait().is_zero() {
                self.end_right().await;
                return false;
            }
            self.followed = None;
        }
        has_right
    }

    /// Lets other servers order. After a failure they do so when the right ends by its time.
    pub(crate) async fn end_right(&mut self) {
        if let Some(shared) = self.context.shared.clone() {
            let ended = waiting(&shared, |shared| shared.end()).await;
            self.noted(ended);
        }
    }

    /// Ends the answers of other servers.
    async fn end_challenges(&mut self) {
        if let Some(shared) = self.context.shared.clone() {
            let ended = waiting(&shared, |shared| shared.write(SharedItem::Challenges, b"")).await;
            self.noted(ended);
        }
    }

    /// Takes over what other servers share, and shares a newer certificate of its own.
    pub(crate) async fn follow(&mut self) {
        if let Some(shared) = self.context.shared.clone() {
            let followed = self.follow_in(&shared).await;
            self.noted(followed);
        }
    }

    async fn follow_in(&mut self, shared: &Arc<dyn SharedOrders>) -> Result<(), AcmeError> {
        let file = waiting(shared, |shared| shared.read(SharedItem::Certificate)).await?;
        let domains = &self.context.config.domains;
        let is_valid = |of: &Validity| (of.not_before_s..of.not_after_s).contains(&(wall_s() + CLOCK_SKEW_S));
        let (own, theirs) = (self.validity(), State::of(&file).issued_for(domains).filter(is_valid));
        let end = |of: Option<Validity>| of.map_or(0, |validity| validity.not_after_s);
        if end(theirs) > end(own) {
            self.context.folder.set_certificate(&file)?;
            tracing::info!("[tls.acme] the certificate that another node ordered is used");
        } else if end(own) > end(theirs)
            && let Some(file) = self.context.folder.certificate_file()?
        {
            waiting(shared, move |shared| shared.write(SharedItem::Certificate, &file)).await?;
        }
        let text = waiting(shared, |shared| shared.read(SharedItem::Challenges)).await?;
        if self.followed.as_ref().map(|(text, _)| text.as_slice()).unwrap_or_default() == text {
            return Ok(());
        }
        self.followed = None;
        if !text.is_empty() {
            let mut challenges = Challenges::start(&self.context).await?;
            for proof in read_proofs(&text) {
                if self.context.config.domains.contains(&proof.domain) {
                    challenges.put(&proof)?;
                }
            }
            self.followed = Some((text, challenges));
        }
        Ok(())
    }

    /// The result of what needs the other servers; a failure is reported until it ends.
    fn noted<T>(&mut self, result: Result<T, AcmeError>) -> Option<T> {
        match result {
            Ok(value) => {
                self.is_away = false;
                Some(value)
            }
            Err(why) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    let reason = why.as_str();
                    tracing::warn!(
                        reason,
                        "[tls.acme] nothing is shared with other nodes, and nothing is ordered"
                    );
                }
                None
            }
        }
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

/// Plan of orders. `now` is the time since any fixed instant by a clock that is never set; `wall_s` are seconds since 1970.
#[derive(Debug, Default)]
struct Schedule {
    /// Orders that failed since the last success.
    failures: u32,
    /// Time before which no order is tried.
    not_before: Option<Duration>,
    /// The administrator wants an order at once.
    is_forced: bool,
}

impl Schedule {
    /// Time until the next order. `random` spreads renewals of many servers; it is the same for one certificate. `None` as `validity`:
    /// there is no certificate of the directory.
    fn wait(&self, now: Duration, wall_s: u64, validity: Option<Validity>, random: u64) -> Duration {
        if self.is_forced {
            return Duration::ZERO;
        }
        let renewal = validity.map_or(0, |validity| renewal_s(validity, random).saturating_sub(wall_s));
        let pause = self.not_before.map_or(Duration::ZERO, |at| at.saturating_sub(now));
        Duration::from_secs(renewal).max(pause)
    }

    /// Orders at once, whatever failed before.
    fn force(&mut self) {
        self.is_forced = true;
    }

    /// Notes a success. The next order is not at once, whatever validity the certificate claims.
    fn succeeded(&mut self, now: Duration) {
        *self = Self { not_before: Some(now + SUCCESS_PAUSE), ..Self::default() };
    }

    /// Notes a failure, and returns the pause until the next order. `retry_after`: the pause that the directory
    /// requests.
    fn failed(&mut self, now: Duration, retry_after: Option<Duration>, random: u64) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.is_forced = false;
        let pause = back_off(self.failures, random).max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
        self.not_before = Some(now + pause);
        pause
    }
}

/// Time at which a certificate is renewed, in seconds since 1970: two thirds of its life, less up to a sixtieth of it.
fn renewal_s(validity: Validity, random: u64) -> u64 {
    let life_s = validity.not_after_s.saturating_sub(validity.not_before_s);
    let spread_s = random % (life_s / SPREAD_PART + 1);
    validity.not_before_s.saturating_add(life_s / 3 * 2).saturating_sub(spread_s)
}

/// Pause after this number of failures in a row: one minute, then twice the last one, up to six hours, and up to an eighth more.
fn back_off(failures: u32, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(DOUBLINGS_MAX);
    let pause_s = (BACK_OFF_S << doublings).min(BACK_OFF_MAX_S);
    Duration::from_secs(pause_s + random % (pause_s / 8 + 1))
}

const DAY_S: f64 = 86_400.0;
/// Time by which the clocks of servers may differ.
const CLOCK_SKEW_S: u64 = 300;
/// Longest time between two looks at the clock.
const TICK: Duration = Duration::from_secs(600);
/// Time of an order.
const ORDER_TIME_MAX: Duration = Duration::from_secs(600);
/// Least time between a success and the next order.
const SUCCESS_PAUSE: Duration = Duration::from_secs(600);
const SPREAD_PART: u64 = 60;
const BACK_OFF_S: u64 = 60;
const BACK_OFF_MAX_S: u64 = 6 * 3600;
/// Doublings after which the pause is the longest one in any case.
const DOUBLINGS_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = 86_400;
    const START_S: u64 = 1_800_000_000;
    const NINETY_DAYS: Validity = Validity { not_before_s: START_S, not_after_s: START_S + 90 * DAY_S };

    fn seconds(of: u64) -> Duration {
        Duration::from_secs(of)
    }

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_life_or_up_to_a_sixtieth_earlier() {
        let schedule = Schedule::default();
        let wait = |wall_s, random| schedule.wait(Duration::ZERO, wall_s, Some(NINETY_DAYS), random);
        assert_eq!(wait(START_S, 0), seconds(60 * DAY_S));
        for random in [1, 77_777, u64::MAX / 3, u64::MAX] {
            let waited = wait(START_S, random).as_secs();
            assert!((60 * DAY_S - 90 * DAY_S / 60..=60 * DAY_S).contains(&waited), "{random}: {waited}");
        }
        assert_eq!(wait(START_S + 59 * DAY_S, 0), seconds(DAY_S));
        for late in [60 * DAY_S, 90 * DAY_S, 1000 * DAY_S] {
            assert_eq!(wait(START_S + late, 0), Duration::ZERO);
        }
        let six_days = Validity { not_before_s: START_S, not_after_s: START_S + 6 * DAY_S };
        assert_eq!(schedule.wait(Duration::ZERO, START_S, Some(six_days), 0), seconds(4 * DAY_S));
        let backwards = Validity { not_before_s: START_S, not_after_s: 0 };
        assert_eq!(schedule.wait(Duration::ZERO, START_S, Some(backwards), 7), Duration::ZERO);
    }

    #[test]
    fn pauses_double_from_a_minute_to_six_hours_and_end_with_a_success() {
        let mut schedule = Schedule::default();
        let mut now = Duration::ZERO;
        assert_eq!(schedule.wait(now, START_S, None, 0), Duration::ZERO, "without a certificate at once");
        for minutes in [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360] {
            assert_eq!(schedule.failed(now, None, 0), seconds(minutes * 60));
            assert_eq!(schedule.wait(now, START_S, None, 0), seconds(minutes * 60));
            now += seconds(minutes * 60);
            assert_eq!(schedule.wait(now, START_S, None, 0), Duration::ZERO);
        }
        for random in [0, 5, u64::MAX] {
            let pause = back_off(u32::MAX, random).as_secs();
            assert!((BACK_OFF_MAX_S..=BACK_OFF_MAX_S * 9 / 8).contains(&pause));
        }
        schedule.succeeded(now);
        assert_eq!(
            schedule.wait(now, START_S, None, 0),
            SUCCESS_PAUSE,
            "also with a certificate that ends soon"
        );
        assert_eq!(schedule.failed(now, None, 0), seconds(60));
    }

    #[test]
    fn a_pause_that_the_directory_wants_counts_within_a_day() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.failed(Duration::ZERO, Some(seconds(3600)), 0), seconds(3600));
        assert_eq!(schedule.failed(Duration::ZERO, Some(seconds(1)), 0), seconds(120), "the longer one");
        assert_eq!(schedule.failed(Duration::ZERO, Some(seconds(u64::MAX)), 0), RETRY_AFTER_MAX);
    }

    #[test]
    fn the_administrator_does_not_wait_and_a_clock_that_is_set_does_not_stop_the_retries() {
        let mut schedule = Schedule::default();
        schedule.failed(Duration::ZERO, Some(seconds(3600)), 0);
        assert_eq!(schedule.wait(seconds(3600), 0, None, 0), Duration::ZERO, "1970");
        schedule.force();
        assert_eq!(schedule.wait(Duration::ZERO, START_S, Some(NINETY_DAYS), 0), Duration::ZERO);
        schedule.failed(Duration::ZERO, None, 0);
        assert_eq!(schedule.wait(Duration::ZERO, START_S, None, 0), seconds(120), "once only");
    }
}
