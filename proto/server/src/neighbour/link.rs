//! State of one neighbour, of its connection if it has one: a machine without messages.
//!
//! ```text
//! waiting --due--> resolving --address--> probing --answer--> up --closed, no answer--> waiting (back-off)
//!    ^                 | no address          | no answer, not connected
//!    +-----------------+---------------------+
//! ```
//! A neighbour that answers 503 stays up for dialogs that run; its probes have the times of the back-off.

use super::schedule::Due;
use crate::Neighbour;
use crate::base::{Env, Request};
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{ConnectionId, Defence, Instant, PeerNames, Rng, Transport};
use ringway_sip::Uri;

/// State of a neighbour, reached over a connection or by datagrams. Only a [`Step::Begin`] dials, and the next one is a back-off later.
#[derive(Debug)]
pub(super) struct Link {
    state: State,
    /// Attempts that failed since the connection was last up for [`BACK_OFF_MAX`].
    failures: u32,
    /// Number of the current attempt or probe; results of earlier ones are ignored.
    attempt: u32,
    interval: Duration,
    /// True if the last answer refused new work.
    refuses: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting { at: Instant },
    Resolving { until: Instant },
    Probing { until: Instant },
    Up { connection: Option<ConnectionId>, since: Instant, check: Check },
}

/// Check of a neighbour that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// The next probe.
    At(Instant),
    /// A probe was sent, and is answered by then.
    Until(Instant),
}

/// Requested step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    None,
    /// Find the address and send a probe to it.
    Begin,
    /// Send a probe over the connection; `None`: as a datagram.
    Probe(Option<ConnectionId>),
    /// The lookup was not answered.
    Fail,
    /// The probe was not answered.
    Silent,
}

impl Link {
    /// A connection whose first attempt begins at `at`. Its attempts have the numbers after `attempt`, so that results of
    /// another one are not taken for its own.
    pub(super) const fn new(interval: Duration, at: Instant, attempt: u32) -> Self {
        Self { state: State::Waiting { at }, failures: 0, attempt, interval, refuses: false }
    }

    pub(super) const fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { at } | State::Resolving { until: at } | State::Probing { until: at } => Some(at),
            State::Up { check: Check::At(at) | Check::Until(at), .. } => Some(at),
        }
    }

    /// Its next time, and what is due then.
    pub(super) const fn next(&self) -> Due {
        match self.state {
            State::Waiting { at } | State::Up { check: Check::At(at), .. } => Due::Probe(at),
            State::Resolving { until: at }
            | State::Probing { until: at }
            | State::Up { check: Check::Until(at), .. } => Due::End(at),
        }
    }

    /// Number for the result of the current attempt or probe.
    pub(super) const fn attempt(&self) -> u32 {
        self.attempt
    }

    pub(super) const fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Makes the next probe due at once.
    pub(super) const fn check(&mut self) {
        if let State::Up { check: Check::At(at), .. } = &mut self.state {
            *at = Instant::from_secs(0);
        }
    }

    /// Makes the next attempt due at once, if one is waited for: the neighbour may have come back.
    pub(super) const fn retry(&mut self) {
        if let State::Waiting { at } = &mut self.state {
            *at = Instant::from_secs(0);
            self.failures = 0;
        }
    }

    /// Performs what is due.
    pub(super) fn on_time(&mut self, now: Instant) -> Step {
        if self.due().is_none_or(|at| at > now) {
            return Step::None;
        }
        self.attempt = self.attempt.wrapping_add(1);
        match &mut self.state {
            State::Waiting { .. } => {
                self.state = State::Resolving { until: now + LOOKUP_MAX };
                Step::Begin
            }
            State::Resolving { .. } => Step::Fail,
            State::Up { connection, check, .. } => match *check {
                Check::At(_) => {
                    *check = Check::Until(now + self.interval.clamp(ANSWER_MIN, ANSWER_MAX));
                    Step::Probe(*connection)
                }
                Check::Until(_) => Step::Silent,
            },
            State::Probing { .. } => Step::Silent,
        }
    }

    /// Notes that the probe of a [`Step::Begin`] was sent. False if this attempt is over.
    pub(super) fn on_sent(&mut self, now: Instant, attempt: u32) -> bool {
        let is_awaited = attempt == self.attempt && matches!(self.state, State::Resolving { .. });
        if is_awaited {
            self.state = State::Probing { until: now + self.interval.clamp(ANSWER_MIN, ANSWER_MAX) };
        }
        is_awaited
    }

    /// Notes the answer to a probe, over a connection or as a datagram. True if the neighbour came up, or refused new work before.
    pub(super) fn on_answer(&mut self, now: Instant, attempt: u32, connection: Option<ConnectionId>) -> bool {
        if attempt != self.attempt {
            return false;
        }
        let next = Check::At(now + self.interval);
        let refused = core::mem::take(&mut self.refuses);
        match &mut self.state {
            State::Probing { .. } => {
                self.state = State::Up { connection, since: now, check: next };
                true
            }
            State::Up { connection: open, check, .. } if *open == connection => {
                *check = next;
                refused
            }
            State::Up { .. } | State::Waiting { .. } | State::Resolving { .. } => false,
        }
    }

    /// Notes an answer to a probe that refuses new work: the next probe is a back-off later, or after the pause that the answer asks
    /// for, if that is longer. False if this attempt is over.
    pub(super) fn on_refusal(
        &mut self,
        now: Instant,
        attempt: u32,
        connection: Option<ConnectionId>,
        pause: Duration,
        rng: &mut Rng,
    ) -> bool {
        let is_awaited = match self.state {
            State::Probing { .. } => true,
            State::Up { connection: open, .. } => open == connection,
            State::Waiting { .. } | State::Resolving { .. } => false,
        };
        if attempt != self.attempt || !is_awaited {
            return false;
        }
        let check = Check::At(now + self.back_off(now, rng).max(pause));
        self.state = State::Up { connection, since: now, check };
        self.refuses = true;
        true
    }

    /// Notes that an attempt or a probe failed. True if it was the current one: a back-off begins.
    pub(super) fn on_failure(&mut self, now: Instant, attempt: u32, rng: &mut Rng) -> bool {
        let is_pending = match self.state {
            State::Resolving { .. } | State::Probing { .. } => true,
            State::Up { check, .. } => matches!(check, Check::Until(_)),
            State::Waiting { .. } => false,
        };
        if attempt != self.attempt || !is_pending {
            return false;
        }
        self.wait(now, rng);
        true
    }

    /// Notes that a connection is closed. True if it was this one: a back-off begins.
    pub(super) fn on_closed(&mut self, now: Instant, closed: ConnectionId, rng: &mut Rng) -> bool {
        let is_this = matches!(self.state, State::Up { connection, .. } if connection == Some(closed));
        if is_this {
            self.wait(now, rng);
        }
        is_this
    }

    fn wait(&mut self, now: Instant, rng: &mut Rng) {
        let back_off = self.back_off(now, rng);
        self.attempt = self.attempt.wrapping_add(1);
        self.refuses = false;
        self.state = State::Waiting { at: now + back_off };
    }

    /// RFC 5626 §4.5: the time doubles with each failure, and half of it is random. It is not longer than the time between the
    /// checks of a neighbour that is up.
    fn back_off(&mut self, now: Instant, rng: &mut Rng) -> Duration {
        if let State::Up { since, .. } = self.state
            && now.since(since) >= BACK_OFF_MAX
        {
            self.failures = 0;
        }
        let longest = self
            .interval
            .clamp(BACK_OFF_MIN, BACK_OFF_MAX)
            .min(BACK_OFF_MIN * 2_u32.saturating_pow(self.failures.min(16)));
        self.failures = self.failures.saturating_add(1);
        let half = longest / 2;
        half + Duration::from_millis(rng.below(half.as_millis() as u64 + 1))
    }
}

/// Maximum time of the first wait after a failure, and of all.
pub(super) const BACK_OFF_MIN: Duration = Duration::from_secs(2);
pub(super) const BACK_OFF_MAX: Duration = Duration::from_secs(60);
/// Time for an answer: that between the checks, within these limits. After the longer one the transaction ends (RFC 3261
/// §17.1.2.2, timer F).
const ANSWER_MIN: Duration = Duration::from_secs(4);
const ANSWER_MAX: Duration = Duration::from_secs(32);
/// Maximum duration of a lookup.
const LOOKUP_MAX: Duration = Duration::from_secs(10);

// Connections that a neighbour opened, for requests to it (RFC 5923).
//
// A request of the neighbour with `;alias` in its topmost Via offers its connection. The offer counts only if the
// connection is TLS, its verified certificate is the neighbour's, and its source and the sent-by port are the address at
// which the neighbour would be dialled (RFC 5923 §8.2): a request over it reaches nobody else than over a connection of
// our own. The link takes an offer instead of dialling, and the certificate is checked again with each answer.

impl Env<'_> {
    /// Notes the offer of a request, if it is one.
    pub(crate) fn note_alias(&mut self, request: &Request<'_, '_>) {
        let (flow, via, now) = (request.flow, request.message.via(), self.cx.now);
        let Some(peer) = request.peer.filter(|_| flow.transport == Transport::Tls) else { return };
        let is_tls = Transport::from_token(via.transport) == Some(Transport::Tls);
        if !is_tls || flow.connection.is_none() || !via.params.has(b"alias") {
            return;
        }
        let port = via.port.unwrap_or(Transport::Tls.default_port());
        let advertised = SocketAddr::new(flow.remote.ip(), port);
        for (index, neighbour) in self.config.servers() {
            if neighbour.is_identified(Some(peer), now) && self.tables.neighbour_connection(index).is_none() {
                self.tables.change_neighbours((), |table| table.offer(index, advertised, flow));
            }
        }
    }
}

impl Neighbour {
    /// True for a certificate of this neighbour's `certificate` domain and, if its URI has a host name, of that name too
    /// (RFC 5922 §7.4, RFC 5923 §8.2).
    pub(crate) fn is_identified(&self, peer: Option<&PeerNames>, now: Instant) -> bool {
        let (Some(peer), Some(domain)) = (peer, &self.certificate) else { return false };
        let is_host = |uri: Uri<'_>| {
            let host = core::str::from_utf8(uri.host().as_bytes());
            uri.host().ip().is_some() || host.is_ok_and(|host| peer.is_domain(host, now))
        };
        let is_its = peer.is_domain(domain, now) || !Defence::NeighbourName.is_on();
        is_its && Uri::parse(self.uri.as_bytes()).is_ok_and(is_host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::Seed;

    const CONNECTION: ConnectionId = ConnectionId(7);

    fn start() -> (Link, Rng, Instant) {
        let now = Instant::from_secs(1000);
        (Link::new(Duration::from_secs(30), now, 0), Rng::new(&Seed::from_number(1)), now)
    }

    /// Performs the next due step.
    fn next(link: &mut Link, now: &mut Instant) -> Step {
        *now = link.due().unwrap();
        link.on_time(*now)
    }

    #[test]
    fn it_comes_up_is_probed_and_goes_down() {
        let (mut link, mut rng, mut now) = start();
        assert_eq!(link.on_time(now), Step::Begin);
        assert!(link.on_sent(now, link.attempt()) && link.due() == Some(now + Duration::from_secs(30)));
        assert!(link.on_answer(now, link.attempt(), Some(CONNECTION)) && link.is_up());
        for _ in 0..3 {
            let before = now;
            assert_eq!(next(&mut link, &mut now), Step::Probe(Some(CONNECTION)));
            assert_eq!(now.since(before), Duration::from_secs(30));
            assert!(!link.on_answer(now, link.attempt(), Some(CONNECTION)), "it is up already");
        }
        assert!(!link.on_closed(now, ConnectionId(8), &mut rng), "another connection");
        assert!(link.on_closed(now, CONNECTION, &mut rng) && !link.is_up());
        assert!(!link.on_failure(now, link.attempt(), &mut rng), "it is down already");
    }

    #[test]
    fn a_retry_ends_the_wait_and_nothing_else() {
        let (mut link, mut rng, now) = start();
        for _ in 0..5 {
            link.on_time(now + BACK_OFF_MAX);
            link.on_failure(now + BACK_OFF_MAX, link.attempt(), &mut rng);
        }
        link.retry();
        assert_eq!(link.on_time(now), Step::Begin);
        link.retry();
        assert_eq!(link.on_time(now), Step::None, "an attempt is under way");
        link.on_failure(now, link.attempt(), &mut rng);
        assert!(link.due().unwrap() <= now + BACK_OFF_MIN, "the back-off begins anew");
    }

    #[test]
    fn the_back_off_doubles_to_its_maximum_with_a_random_half() {
        let (_, mut rng, mut now) = start();
        let mut link = Link::new(BACK_OFF_MAX, now, 0);
        let mut longest = BACK_OFF_MIN;
        for _ in 0..12 {
            assert_eq!(next(&mut link, &mut now), Step::Begin);
            link.on_sent(now, link.attempt());
            assert!(link.on_failure(now, link.attempt(), &mut rng));
            let wait = link.due().unwrap().since(now);
            assert!(wait >= longest / 2 && wait <= longest, "{wait:?} of {longest:?}");
            longest = (longest * 2).min(BACK_OFF_MAX);
        }
    }

    #[test]
    fn a_probe_without_an_answer_and_the_back_off_take_no_longer_than_the_interval() {
        for (interval, answer, back_off) in [(1, 4, 2), (5, 5, 5), (30, 30, 30), (600, 32, 60)] {
            let (_, mut rng, mut now) = start();
            let mut link = Link::new(Duration::from_secs(interval), now, 0);
            for _ in 0..12 {
                assert_eq!(next(&mut link, &mut now), Step::Begin);
                link.on_sent(now, link.attempt());
                let sent = now;
                assert_eq!(next(&mut link, &mut now), Step::Silent);
                assert_eq!(now.since(sent), Duration::from_secs(answer));
                assert!(!link.on_answer(now, link.attempt().wrapping_sub(1), None), "it is too late");
                assert!(link.on_failure(now, link.attempt(), &mut rng));
                assert!(link.due().unwrap().since(now) <= Duration::from_secs(back_off));
            }
            next(&mut link, &mut now);
            link.on_sent(now, link.attempt());
            assert!(link.on_answer(now, link.attempt(), None));
            assert_eq!(next(&mut link, &mut now), Step::Probe(None));
            assert_eq!(next(&mut link, &mut now), Step::Silent);
            assert!(link.on_failure(now, link.attempt(), &mut rng) && !link.is_up());
        }
    }

    #[test]
    fn a_neighbour_that_answers_and_closes_at_once_is_not_dialled_more_often() {
        let (_, mut rng, mut now) = start();
        let mut link = Link::new(BACK_OFF_MAX, now, 0);
        let began = now;
        let mut attempts = 0;
        while now.since(began) < Duration::from_secs(3600) {
            assert_eq!(next(&mut link, &mut now), Step::Begin);
            attempts += 1;
            link.on_sent(now, link.attempt());
            link.on_answer(now, link.attempt(), Some(ConnectionId(attempts)));
            link.on_closed(now, ConnectionId(attempts), &mut rng);
        }
        assert!((60..=126).contains(&attempts), "{attempts} in an hour");
        // After a time that is long enough the back-off begins again.
        next(&mut link, &mut now);
        link.on_sent(now, link.attempt());
        link.on_answer(now, link.attempt(), Some(CONNECTION));
        now = now + BACK_OFF_MAX;
        link.on_closed(now, CONNECTION, &mut rng);
        assert!(link.due().unwrap().since(now) <= BACK_OFF_MIN);
    }

    #[test]
    fn results_of_earlier_attempts_change_nothing() {
        let (mut link, mut rng, mut now) = start();
        link.on_time(now);
        let first = link.attempt();
        link.on_sent(now, first);
        link.on_failure(now, first, &mut rng);
        assert_eq!(next(&mut link, &mut now), Step::Begin);
        assert!(!link.on_sent(now, first) && !link.on_answer(now, first, Some(CONNECTION)));
        assert!(!link.on_failure(now, first, &mut rng));
        assert_eq!(next(&mut link, &mut now), Step::Fail, "a lookup without a result ends");
    }
}
