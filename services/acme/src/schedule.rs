//! The time of the next order: two thirds of a certificate's life, and a back-off after failures. No clock, no I/O.

use crate::certificate::Validity;
use std::time::Duration;

/// Plan of orders. `now` is the time since any fixed instant by a clock that is never set; `wall_s` are seconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
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
    pub(crate) fn wait(
        &self,
        now: Duration,
        wall_s: u64,
        validity: Option<Validity>,
        random: u64,
    ) -> Duration {
        if self.is_forced {
            return Duration::ZERO;
        }
        let renewal = validity.map_or(0, |validity| renewal_s(validity, random).saturating_sub(wall_s));
        let pause = self.not_before.map_or(Duration::ZERO, |at| at.saturating_sub(now));
        Duration::from_secs(renewal).max(pause)
    }

    /// Orders at once, whatever failed before.
    pub(crate) fn force(&mut self) {
        self.is_forced = true;
    }

    /// Notes a success. The next order is not at once, whatever validity the certificate claims.
    pub(crate) fn succeeded(&mut self, now: Duration) {
        *self = Self { not_before: Some(now + SUCCESS_PAUSE), ..Self::default() };
    }

    /// Notes a failure, and returns the pause until the next order. `retry_after`: the pause that the directory
    /// requests.
    pub(crate) fn failed(&mut self, now: Duration, retry_after: Option<Duration>, random: u64) -> Duration {
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

/// Least time between a success and the next order.
const SUCCESS_PAUSE: Duration = Duration::from_secs(600);
const SPREAD_PART: u64 = 60;
const BACK_OFF_S: u64 = 60;
const BACK_OFF_MAX_S: u64 = 6 * 3600;
/// Doublings after which the pause is the longest one in any case.
const DOUBLINGS_MAX: u32 = 16;
/// Longest pause that a directory can impose.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

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
