//! Search for the highest rate that meets the criterion.
//!
//! Bisection on a grid of rates with equal ratios. A rate passes with `k` of `n` short trials; the highest one that passes must
//! pass a longer trial too, or the next lower one is confirmed instead.
//!
//! ```text
//!  Trial(middle) ──k passed──► lower half is known good ─┐
//!       ▲  └─────n - k + 1 failed──► upper half is known bad ─┤
//!       └───────────────── bounds differ ───────────────┤
//!  Confirm(highest good) ◄──────── bounds meet ──────────┘
//!       └──failed──► next lower rate, at most CONFIRMED_MAX times ──► Done
//! ```

use crate::record::PeakTrial;

/// Range and precision of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// Lowest rate.
    pub lowest: f64,
    /// Highest rate.
    pub highest: f64,
    /// Ratio of two neighbouring rates, above 1.
    pub step: f64,
    /// Trials that must pass.
    pub k: u32,
    /// Trials at a rate.
    pub n: u32,
}

/// State of a search. Ask [`Search::next`], do the trial, report it with [`Search::record`].
#[derive(Clone, Debug)]
pub struct Search {
    grid: Grid,
    /// Number of rates.
    count: usize,
    /// Rates below this index pass.
    good: usize,
    /// Rates from this index on do not.
    bad: usize,
    passed: u32,
    failed: u32,
    /// The last trial was invalid and is repeated.
    is_repeated: bool,
    confirmed: u32,
    state: State,
    /// Reason for which `bad` says nothing about the server.
    limit: Option<String>,
    trials: Vec<PeakTrial>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Searching,
    Confirming,
    Done { is_confirmed: bool },
}

/// Next trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// A short trial at this rate.
    Trial(f64),
    /// A long trial at this rate.
    Confirm(f64),
    /// The search has ended.
    Done,
}

/// Result of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The criterion was met.
    Passed,
    /// It was met, although the generator was late for this reason: no delay of a generator makes a server faster.
    PassedLate(String),
    /// It was missed for this reason.
    Failed(String),
    /// The trial says nothing about the server, for this reason.
    Invalid(String),
}

impl Search {
    /// Starts a search.
    pub fn new(grid: Grid) -> Self {
        let ratio = (grid.highest / grid.lowest).max(1.0).ln() / grid.step.max(STEP_MIN).ln();
        // A rounding error must not drop the highest rate.
        let count = (ratio + 1e-9).floor() as usize + 1;
        Self {
            grid,
            count,
            good: 0,
            bad: count,
            passed: 0,
            failed: 0,
            is_repeated: false,
            confirmed: 0,
            state: State::Searching,
            limit: None,
            trials: Vec::new(),
        }
    }

    /// Next trial.
    pub fn next(&self) -> Next {
        match self.state {
            State::Searching => Next::Trial(self.rate_at(self.middle())),
            State::Confirming => Next::Confirm(self.rate()),
            State::Done { .. } => Next::Done,
        }
    }

    /// Takes the result of the trial that [`Search::next`] named.
    pub fn record(&mut self, verdict: Verdict) {
        let rate = match self.next() {
            Next::Trial(rate) | Next::Confirm(rate) => rate,
            Next::Done => return,
        };
        let (passed, reason) = match &verdict {
            Verdict::Passed => (true, String::new()),
            Verdict::PassedLate(reason) => (true, reason.clone()),
            Verdict::Failed(reason) | Verdict::Invalid(reason) => (false, reason.clone()),
        };
        let is_invalid = matches!(verdict, Verdict::Invalid(_));
        self.trials.push(PeakTrial { rate, passed, invalid: is_invalid, reason });
        if is_invalid && !self.is_repeated {
            self.is_repeated = true;
            return;
        }
        self.is_repeated = false;
        let limit = if let Verdict::Invalid(reason) = verdict { Some(reason) } else { None };
        match self.state {
            State::Searching => self.searched(passed, limit),
            State::Confirming => self.confirm(passed, limit),
            State::Done { .. } => {}
        }
    }

    /// Highest rate that passes, so far; 0 if none does.
    pub fn rate(&self) -> f64 {
        self.good.checked_sub(1).map_or(0.0, |index| self.rate_at(index))
    }

    /// True if the confirming trial at [`Search::rate`] passed.
    pub fn is_confirmed(&self) -> bool {
        self.state == State::Done { is_confirmed: true }
    }

    /// Reason for which the server may be able to do more.
    pub fn limited_by(&self) -> Option<String> {
        let is_top = self.good == self.count && self.count > 0;
        self.limit.clone().or_else(|| is_top.then(|| "the highest rate of the search".to_owned()))
    }

    /// Trials so far.
    pub fn trials(&self) -> &[PeakTrial] {
        &self.trials
    }

    fn searched(&mut self, passed: bool, limit: Option<String>) {
        let is_limit = limit.is_some();
        self.passed += u32::from(passed);
        self.failed += u32::from(!passed);
        let middle = self.middle();
        if self.passed >= self.grid.k {
            self.good = middle + 1;
        } else if is_limit || self.failed + self.grid.k > self.grid.n {
            self.bad = middle;
            self.limit = limit;
        } else {
            return;
        }
        (self.passed, self.failed) = (0, 0);
        if self.good >= self.bad {
            self.state = match self.good {
                0 => State::Done { is_confirmed: false },
                _ => State::Confirming,
            };
        }
    }

    fn confirm(&mut self, passed: bool, limit: Option<String>) {
        self.confirmed += 1;
        if passed {
            self.state = State::Done { is_confirmed: true };
            return;
        }
        self.good = self.good.saturating_sub(1);
        self.limit = limit;
        if self.good == 0 || self.confirmed >= CONFIRMED_MAX {
            self.state = State::Done { is_confirmed: false };
        }
    }

    const fn middle(&self) -> usize {
        self.good + (self.bad - self.good) / 2
    }

    fn rate_at(&self, index: usize) -> f64 {
        self.grid.lowest * self.grid.step.max(STEP_MIN).powi(i32::try_from(index).unwrap_or(i32::MAX))
    }
}

/// Smallest ratio of neighbouring rates.
const STEP_MIN: f64 = 1.001;
/// Most confirming trials.
const CONFIRMED_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use ringway_sansio::{Rng, Seed};

    const GRID: Grid = Grid { lowest: 100.0, highest: 100_000.0, step: 1.1, k: 2, n: 3 };

    /// Searches to the end; returns the search and the number of trials.
    fn ended(grid: Grid, mut judge: impl FnMut(f64) -> Verdict) -> Search {
        let mut search = Search::new(grid);
        for _ in 0..1000 {
            match search.next() {
                Next::Trial(rate) | Next::Confirm(rate) => search.record(judge(rate)),
                Next::Done => return search,
            }
        }
        panic!("the search does not end: {search:?}");
    }

    fn limit(most: f64) -> impl FnMut(f64) -> Verdict {
        move |rate| if rate <= most { Verdict::Passed } else { Verdict::Failed("p99".into()) }
    }

    #[test]
    fn the_peak_is_found_within_a_step_and_confirmed() {
        for most in [100.0, 137.0, 4_000.0, 90_000.0] {
            let search = ended(GRID, limit(most));
            assert!(search.rate() <= most && search.rate() * 1.1 > most, "{most}: {}", search.rate());
            assert!(search.is_confirmed());
            assert_eq!(search.limited_by(), None);
            assert!(search.trials().len() <= 18, "{}", search.trials().len());
        }
    }

    #[test]
    fn a_server_that_does_nothing_or_everything_is_named_so() {
        let none = ended(GRID, |_| Verdict::Failed("success".into()));
        assert_eq!((none.rate(), none.is_confirmed()), (0.0, false));
        let all = ended(GRID, |_| Verdict::Passed);
        assert!(all.rate() > 100_000.0 / 1.1 && all.rate() <= 100_000.0 * 1.001);
        assert!(all.limited_by().unwrap().contains("highest rate"));
    }

    #[test]
    fn a_generator_at_its_limit_gives_a_lower_bound() {
        let mut asked = 0;
        let search = ended(GRID, |rate| {
            asked += u32::from(rate > 5_000.0);
            if rate > 5_000.0 { Verdict::Invalid("lag".into()) } else { Verdict::Passed }
        });
        assert!(search.rate() > 4_500.0 && search.is_confirmed());
        assert_eq!(search.limited_by().as_deref(), Some("lag"));
        assert_eq!(asked % 2, 0, "each invalid trial is repeated once");
        let invalid = search.trials().iter().filter(|trial| trial.invalid);
        assert!(invalid.clone().all(|trial| trial.reason == "lag" && !trial.passed && trial.rate > 5_000.0));
        assert_eq!(invalid.count(), search.trials().iter().filter(|trial| !trial.passed).count());
        // One disturbed trial changes nothing.
        let mut is_first = true;
        let search = ended(GRID, |rate| match std::mem::take(&mut is_first) {
            true => Verdict::Invalid("lag".into()),
            false => limit(4_000.0)(rate),
        });
        assert!(search.rate() > 3_600.0 && search.limited_by().is_none());
    }

    #[test]
    fn what_passes_in_spite_of_a_late_generator_has_passed() {
        let search = ended(GRID, |rate| match limit(4_000.0)(rate) {
            Verdict::Passed => Verdict::PassedLate("lag".into()),
            verdict => verdict,
        });
        assert!(search.rate() > 3_600.0 && search.is_confirmed());
        assert_eq!(search.limited_by(), None);
        let late = search.trials().iter().filter(|trial| trial.reason == "lag");
        assert!(late.clone().count() > 0 && late.clone().all(|trial| trial.passed && !trial.invalid));
    }

    #[test]
    fn noise_moves_the_peak_by_little_and_the_search_ends() {
        let mut near = 0;
        for seed in 0..200 {
            let mut rng = Rng::new(&Seed::from_number(seed));
            let search = ended(GRID, |rate| {
                let is_good = if rng.below(20) == 0 { rate > 4_000.0 } else { rate <= 4_000.0 };
                if is_good { Verdict::Passed } else { Verdict::Failed("noise".into()) }
            });
            near += u32::from((3_000.0..4_900.0).contains(&search.rate()));
        }
        assert!(near >= 180, "{near}");
    }

    #[test]
    fn a_rate_that_fails_its_long_trial_is_lowered() {
        let mut search = Search::new(Grid { k: 1, n: 1, ..GRID });
        let mut confirms = 0;
        loop {
            match search.next() {
                Next::Trial(rate) => search.record(limit(4_000.0)(rate)),
                Next::Confirm(rate) => {
                    confirms += 1;
                    search.record(limit(3_700.0)(rate));
                }
                Next::Done => break,
            }
        }
        assert!(confirms > 1 && search.is_confirmed() && search.rate() <= 3_700.0, "{search:?}");
    }
}
