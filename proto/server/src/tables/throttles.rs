//! Servers that asked for fewer requests (RFC 7339, RFC 7415), and the choice of those that they get.

use alloc::collections::BTreeMap;
use core::net::SocketAddr;
use core::time::Duration;
use ringway_sansio::{Instant, TableSize};
use ringway_sip::{OverloadControl, Reduction};

/// Worth of a request to a server that asked for fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestPriority {
    /// It begins something.
    Usual,
    /// It is withheld only if all others are: in a dialog, or an emergency call.
    High,
}

/// Servers that asked for fewer requests, by address and port; those whose time has passed are removed.
#[derive(Debug, Default)]
pub(crate) struct Throttles {
    servers: BTreeMap<SocketAddr, Throttle>,
}

#[derive(Debug)]
struct Throttle {
    sequence: u64,
    /// End of the reduction; afterwards only the number counts, until [`Throttle::ends_at`].
    until: Instant,
    ends_at: Instant,
    reduction: Reduction,
    bucket: Bucket,
    mix: Mix,
}

impl Throttles {
    /// Maximum number of servers.
    pub(crate) const SERVERS_MAX: usize = 4_096;
    /// Maximum time for which a reduction is in effect without a further response.
    const VALIDITY_MAX: Duration = Duration::from_secs(60);
    /// Time for which the number of an ended reduction is kept, so that a late response does not begin it again.
    const SEQUENCE_KEPT: Duration = Duration::from_secs(10);

    /// Memory of the table.
    pub(crate) const fn size() -> TableSize {
        let entry = size_of::<(SocketAddr, Throttle)>();
        TableSize::of_tree("servers that ask for fewer requests", Self::SERVERS_MAX, entry)
    }

    /// Notes what a server asked for. False: there are too many servers, and it is not noted.
    pub(crate) fn note(&mut self, now: Instant, server: SocketAddr, control: &OverloadControl) -> bool {
        let known = self.servers.get(&server).filter(|known| known.ends_at > now);
        if known.is_some_and(|known| control.sequence <= known.sequence) {
            return true;
        }
        if known.is_none() && control.validity_ms == 0 {
            return true;
        }
        if known.is_none() && self.servers.len() >= Self::SERVERS_MAX {
            self.servers.retain(|_, throttle| throttle.ends_at > now);
            if self.servers.len() >= Self::SERVERS_MAX {
                return false;
            }
        }
        let until = now + Duration::from_millis(control.validity_ms).min(Self::VALIDITY_MAX);
        let throttle = self.servers.entry(server).or_insert_with(|| Throttle::new(now));
        if throttle.until <= now {
            // RFC 7415 §3.5.1: the bucket is empty when the control begins.
            throttle.bucket = Bucket::empty(now);
        }
        (throttle.sequence, throttle.until, throttle.reduction) =
            (control.sequence, until, control.reduction);
        throttle.ends_at = until + Self::SEQUENCE_KEPT;
        true
    }

    /// True if a server may get a request now. `draw` is random.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        server: SocketAddr,
        priority: RequestPriority,
        draw: u64,
    ) -> bool {
        let Some(throttle) = self.servers.get_mut(&server) else { return true };
        if throttle.ends_at <= now {
            self.servers.remove(&server);
            return true;
        }
        throttle.until <= now || throttle.admit(now, priority, draw)
    }

    /// True if no server asked for anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }
}

impl Throttle {
    fn new(now: Instant) -> Self {
        Self {
            sequence: 0,
            until: now,
            ends_at: now,
            reduction: Reduction::Loss(0),
            bucket: Bucket::empty(now),
            mix: Mix::default(),
        }
    }

    fn admit(&mut self, now: Instant, priority: RequestPriority, draw: u64) -> bool {
        self.mix.count(priority);
        match self.reduction {
            Reduction::Loss(percent) => draw % 1_000 >= self.mix.withheld_per_mille(percent, priority),
            Reduction::Rate(per_second) => self.bucket.admit(now, per_second, priority),
        }
    }
}

/// Requests of each priority (RFC 7339 §7.2), of which older ones count less.
#[derive(Debug)]
struct Mix {
    usual: u32,
    high: u32,
}

impl Default for Mix {
    /// The ratio of RFC 7339 §7.2, as if it had been found in few requests.
    fn default() -> Self {
        Self { usual: 8, high: 2 }
    }
}

impl Mix {
    /// Number of requests at which their counts are halved.
    const COUNTED_MAX: u32 = 1_024;

    fn count(&mut self, priority: RequestPriority) {
        match priority {
            RequestPriority::Usual => self.usual += 1,
            RequestPriority::High => self.high += 1,
        }
        if self.usual + self.high >= Self::COUNTED_MAX {
            (self.usual, self.high) = (self.usual.div_ceil(2), self.high / 2);
        }
    }

    /// Requests of a priority that are withheld so that all together are reduced by so many percent.
    fn withheld_per_mille(&self, percent: u8, priority: RequestPriority) -> u64 {
        let all = u64::from(self.usual + self.high);
        // In hundredths of requests.
        let (withheld, usual) = (u64::from(percent) * all, u64::from(self.usual) * 100);
        match priority {
            RequestPriority::Usual => (withheld * 1_000).checked_div(usual).unwrap_or(1_000).min(1_000),
            RequestPriority::High => {
                let rest = withheld.saturating_sub(usual) * 1_000;
                rest.checked_div(u64::from(self.high) * 100).unwrap_or(0).min(1_000)
            }
        }
    }
}

/// Leaky bucket of RFC 7415 §3.5.2 with `TAU1` = 5 `T` and `TAU2` = 10 `T`.
#[derive(Debug)]
struct Bucket {
    /// `X`, at the time of the last request that was sent, `LCT`.
    filled: Duration,
    sent_at: Instant,
}

impl Bucket {
    const fn empty(now: Instant) -> Self {
        Self { filled: Duration::ZERO, sent_at: now }
    }

    fn admit(&mut self, now: Instant, per_second: u32, priority: RequestPriority) -> bool {
        let Some(interval) = Duration::from_secs(1).checked_div(per_second) else { return false };
        let filled = self.filled.saturating_sub(now.since(self.sent_at));
        let tolerance = match priority {
            RequestPriority::Usual => interval * 5,
            RequestPriority::High => interval * 10,
        };
        if filled > tolerance {
            return false;
        }
        (self.filled, self.sent_at) = (filled + interval, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_secs(100);

    fn server(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn control(reduction: Reduction, validity_ms: u64, sequence: u64) -> OverloadControl {
        OverloadControl { reduction, validity_ms, sequence }
    }

    /// Admitted requests of a thousand in a second, of which one in `high` has a high priority; of each priority.
    fn admitted(throttles: &mut Throttles, from: Instant, high: u64) -> [usize; 2] {
        let mut admitted = [0; 2];
        for number in 0..1_000 {
            let now = from + Duration::from_millis(number);
            let is_high = number % high == 0;
            let priority = if is_high { RequestPriority::High } else { RequestPriority::Usual };
            // Each thousand has each number once.
            let draw = number * 389 % 1_000;
            admitted[usize::from(is_high)] += usize::from(throttles.admit(now, server(5060), priority, draw));
        }
        admitted
    }

    #[test]
    fn a_loss_withholds_what_begins_something_first() {
        for (percent, least, most) in [
            (0, [800, 200], [800, 200]),
            (20, [580, 200], [620, 200]),
            (50, [280, 200], [320, 200]),
            (80, [0, 190], [10, 200]),
            (90, [0, 80], [0, 120]),
            (100, [0, 0], [0, 0]),
        ] {
            let mut throttles = Throttles::default();
            assert!(throttles.note(START, server(5060), &control(Reduction::Loss(percent), 2_000, 1)));
            let got = admitted(&mut throttles, START, 5);
            assert!(
                (0..2).all(|at| least[at] <= got[at] && got[at] <= most[at]),
                "{percent} %: {got:?}, {least:?} to {most:?}"
            );
        }
    }

    #[test]
    fn a_rate_is_not_exceeded() {
        for rate in [0, 1, 50, 150] {
            let mut throttles = Throttles::default();
            throttles.note(START, server(5060), &control(Reduction::Rate(rate), 2_000, 1));
            let [usual, high] = admitted(&mut throttles, START, 5);
            let sent = u32::try_from(usual + high).unwrap();
            assert!(sent >= rate.min(150) && sent <= rate + if rate == 0 { 0 } else { 11 }, "{rate}: {sent}");
        }
        // Of more than the rate those in dialogs are sent.
        let mut throttles = Throttles::default();
        throttles.note(START, server(5060), &control(Reduction::Rate(200), 2_000, 1));
        let [usual, high] = admitted(&mut throttles, START, 5);
        assert!(high == 200 && usual <= 11, "{usual}, {high}");
    }

    #[test]
    fn a_reduction_ends_with_its_time_or_when_the_server_says_so() {
        let mut throttles = Throttles::default();
        let at = |ms| START + Duration::from_millis(ms);
        let admits = |throttles: &mut Throttles, ms| {
            throttles.admit(at(ms), server(5060), RequestPriority::Usual, 500)
        };
        let all = |sequence| control(Reduction::Loss(100), 500, sequence);
        throttles.note(START, server(5060), &all(7));
        assert!(!admits(&mut throttles, 499) && admits(&mut throttles, 500));
        assert!(throttles.admit(START, server(5061), RequestPriority::Usual, 0), "of another port");
        // Neither the same nor an older number changes anything, also after its end.
        throttles.note(at(600), server(5060), &all(7));
        assert!(admits(&mut throttles, 601));
        throttles.note(at(700), server(5060), &all(8));
        assert!(!admits(&mut throttles, 701));
        throttles.note(at(702), server(5060), &control(Reduction::Loss(100), 0, 9));
        assert!(admits(&mut throttles, 703));
        throttles.note(at(704), server(5060), &all(8));
        assert!(admits(&mut throttles, 705), "it was late");
        // Later any number is a new one: the server was started again.
        throttles.note(at(20_000), server(5060), &all(1));
        assert!(!admits(&mut throttles, 20_001));
        assert!(admits(&mut throttles, 40_000) && throttles.is_empty());
    }

    #[test]
    fn the_number_of_servers_and_their_time_are_bounded() {
        let mut throttles = Throttles::default();
        let long = control(Reduction::Loss(100), u64::MAX, 1);
        for port in 0..4_096 {
            assert!(throttles.note(START, server(port), &long));
        }
        assert!(!throttles.note(START, server(5_000), &long));
        let later = START + Duration::from_secs(70);
        assert!(throttles.admit(later, server(1), RequestPriority::Usual, 0));
        for port in [5_000, 5_001] {
            assert!(throttles.note(later, server(port), &long));
        }
        assert_eq!(throttles.servers.len(), 2, "the others have ended");
    }
}
