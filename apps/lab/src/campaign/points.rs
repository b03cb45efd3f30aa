//! Points of a variant: each rate on each target, in turn.

use super::experiment::{Experiment, Kind, Peak, Variant, digest_name};
use super::search::{Grid, Next, Search, Verdict};
use super::server::Server;
use super::trial::{Load, Outcome, offer};
use super::{Running, START_S, TRIAL_OVERHEAD_S, idle};
use crate::load::Plan;
use crate::record::{self, Measurement, Record};
use crate::saturation::Ballast;
use crate::statistics::{interleaved, turn};
use anyhow::{Result, anyhow, bail};
use std::time::Duration;

/// A variant of an experiment on all targets.
pub(super) struct Points<'r, 'a> {
    pub(super) running: &'r mut Running<'a>,
    pub(super) experiment: &'r Experiment,
    pub(super) variant: &'r Variant,
    /// An earlier variant offers the same load to a server that the campaign does not configure.
    pub(super) is_repeated: bool,
}

/// A target of a variant.
pub(super) struct Contestant {
    pub(super) name: String,
    pub(super) server: Server,
    /// Rates, and the multiples of the peak that they are.
    points: Vec<(f64, Option<f64>)>,
    pub(super) has_failed: bool,
    /// It has a warning about challenges that the variant does not name.
    is_warned: bool,
    /// Highest rate that a search found; 0 before.
    peak: f64,
}

/// Load and number of a trial.
#[derive(Clone, Copy)]
struct Position {
    rate: f64,
    multiple: Option<f64>,
    trial: u32,
}

impl Points<'_, '_> {
    /// Measures all points; records the results and failures.
    pub(super) fn run(mut self) -> Result<()> {
        if !self.fill_database()? {
            return Ok(());
        }
        let mut contestants = self.start()?;
        let _ballast = Ballast::start_share(self.experiment.ballast)?;
        match &self.experiment.kind {
            Kind::Rates(_) => {}
            Kind::Peak(peak) => self.search_all(&mut contestants, peak)?,
            Kind::Overload(peak, _) | Kind::Curve(peak, _) => self.search_all(&mut contestants, peak)?,
            Kind::Idle(count) => self.idle(&mut contestants, *count.of(self.running.options.is_quick))?,
        }
        let most = contestants.iter().map(|contestant| contestant.points.len()).max().unwrap_or(0);
        let repeat = self.running.options.repeat(self.experiment);
        for point in 0..most {
            let mut trials = vec![0; contestants.len()];
            for index in interleaved(contestants.len(), repeat) {
                let (Some(contestant), Some(trial)) = (contestants.get_mut(index), trials.get_mut(index))
                else {
                    continue;
                };
                let Some(&(rate, multiple)) = contestant.points.get(point) else { continue };
                *trial += 1;
                if !contestant.has_failed && !self.running.totals.interrupted {
                    self.point(contestant, Position { rate, multiple, trial: *trial })?;
                }
            }
        }
        self.pulse_all(&mut contestants)?;
        self.profile_all(&mut contestants)
    }

    /// Offers the pulse of the experiment to each contestant.
    fn pulse_all(&mut self, contestants: &mut [Contestant]) -> Result<()> {
        let Some(pulse) = self.experiment.pulse else { return Ok(()) };
        for contestant in contestants {
            if contestant.has_failed || self.running.totals.interrupted {
                continue;
            }
            self.running.wait_for_quiet();
            self.begin(&contestant.name, &format!("a pulse of {} × the peak", pulse.multiple));
            let after = (contestant.peak * pulse.then, Duration::from_secs_f64(pulse.then_seconds));
            let offered =
                self.offer(contestant, contestant.peak * pulse.multiple, pulse.seconds, Some(after));
            if let Some(outcome) = self.outcome(contestant, offered)? {
                self.running.observer.record(Record::Pulse(record::Pulse {
                    experiment: self.experiment.name.clone(),
                    variant: self.variant.name.clone(),
                    target: contestant.name.clone(),
                    peak: contestant.peak,
                    ..outcome.pulse(&pulse)
                }))?;
            }
            self.running.done += pulse.whole_seconds() + self.warm_up() + TRIAL_OVERHEAD_S;
        }
        Ok(())
    }

    /// Adds the users of a variant that reads them from a database; false if they cannot be added, which is recorded.
    fn fill_database(&mut self) -> Result<bool> {
        let users = self.users_needed();
        if self.variant.reads_database() {
            self.begin("database", &format!("adding {users} users"));
        }
        let Err(error) = self.running.site.fill_database(self.variant, users) else { return Ok(true) };
        for target in self.running.targets {
            self.fail(&target.name, &error)?;
        }
        Ok(false)
    }

    /// Starts the servers; those that do not start have a record of failure.
    fn start(&mut self) -> Result<Vec<Contestant>> {
        let mut contestants = Vec::new();
        for target in self.running.targets {
            if self.running.totals.interrupted || self.running.observer.is_interrupted() {
                self.running.totals.interrupted = true;
                break;
            }
            if self.is_repeated && !target.is_program() {
                continue;
            }
            self.begin(&target.name, "starting");
            match target.start(self.running.site, self.variant, self.users_needed()) {
                Ok(server) => {
                    self.describe(&server)?;
                    let points = self.points();
                    let name = target.name.clone();
                    contestants.push(Contestant {
                        name,
                        server,
                        points,
                        has_failed: false,
                        is_warned: false,
                        peak: 0.0,
                    });
                }
                Err(error) => self.fail(&target.name, &error)?,
            }
            self.running.done += START_S;
        }
        Ok(contestants)
    }

    /// Users for all trials of a target.
    fn users_needed(&self) -> u32 {
        let options = self.running.options;
        let (seconds, repeat) = (options.seconds(self.experiment), options.repeat(self.experiment));
        let side = |rate: f64, seconds: f64| {
            let load = self.load(rate, seconds);
            // Callers and called users.
            u64::from(load.users(options.is_quick)) * 2
        };
        let searched = |peak: &Peak| SEARCH_TRIALS * side(peak.grid.highest, peak.trial_seconds);
        let users = match &self.experiment.kind {
            // Twice: an invalid trial is repeated.
            Kind::Rates(_) => {
                let rates = self.variant.rates.of(options.is_quick).iter();
                let measured: u64 =
                    rates.clone().map(|&rate| 2 * u64::from(repeat) * side(rate, seconds)).sum();
                let profiled = rates.map(|&rate| side(rate, self.profile_seconds())).max();
                measured + profiled.filter(|_| self.running.is_profiled).unwrap_or_default()
            }
            Kind::Peak(peak) => searched(peak),
            Kind::Overload(peak, multiples) | Kind::Curve(peak, multiples) => {
                let count = multiples.of(options.is_quick).len() as u64;
                searched(peak) + 2 * u64::from(repeat) * count * side(peak.grid.lowest, seconds)
            }
            Kind::Idle(_) => 1,
        };
        u32::try_from(users).unwrap_or(u32::MAX).clamp(4, USERS_MAX)
    }

    fn points(&self) -> Vec<(f64, Option<f64>)> {
        match &self.experiment.kind {
            Kind::Rates(_) => {
                let rates = self.variant.rates.of(self.running.options.is_quick);
                rates.iter().map(|&rate| (rate, None)).collect()
            }
            // The search finds them.
            Kind::Peak(_) | Kind::Overload(..) | Kind::Curve(..) | Kind::Idle(_) => Vec::new(),
        }
    }

    fn describe(&mut self, server: &Server) -> Result<()> {
        if self.running.known.contains(&server.record) {
            return Ok(());
        }
        self.running.known.push(server.record.clone());
        self.running.observer.record(Record::Target(server.record.clone()))
    }

    /// One trial of a point; an invalid one is repeated once.
    fn point(&mut self, contestant: &mut Contestant, position: Position) -> Result<()> {
        let seconds = self.running.options.seconds(self.experiment);
        for attempt in 0..=REPEATED_MAX {
            let Some(measured) = self.trial(contestant, position, seconds)? else { return Ok(()) };
            let is_last = measured.valid || attempt == REPEATED_MAX;
            if measured.valid
                && measured.successes == 0
                && position.multiple.is_none_or(|multiple| multiple <= 1.0)
            {
                let failures: Vec<String> =
                    measured.failures.iter().map(|(name, count)| format!("{name}: {count}")).collect();
                contestant.has_failed = true;
                let password = measured.failures.contains_key("challenge");
                let remedy =
                    if password { "; the server asks for a password: give --password-file" } else { "" };
                let error = anyhow!("no attempt succeeded ({}){remedy}", failures.join(", "));
                self.fail(&contestant.name, &error)?;
            }
            if is_last {
                break;
            }
            let why = &measured.invalid_because;
            let note = format!("{}: {}/s is invalid ({why}); repeated", contestant.name, position.rate);
            self.running.observer.warn(&note);
        }
        self.running.done += seconds + self.warm_up() + TRIAL_OVERHEAD_S;
        Ok(())
    }

    pub(super) fn warm_up(&self) -> f64 {
        *self.experiment.warm_up.of(self.running.options.is_quick)
    }

    /// Time for attempts that have not ended with the load: calls that began at its end ring and talk after it.
    pub(super) fn drain(&self) -> Duration {
        let ring = self.variant.ring.unwrap_or(self.experiment.ring);
        self.running.options.drain() + ring.longest() + self.experiment.talk.longest()
    }

    pub(super) fn load(&self, rate: f64, seconds: f64) -> Load<'_> {
        let (experiment, variant) = (self.experiment, self.variant);
        Load { experiment, variant, rate, seconds, warm_up: self.warm_up() }
    }

    /// Offers a load and records its measurement; `None` if the contestant failed or the campaign was interrupted.
    fn trial(
        &mut self,
        contestant: &mut Contestant,
        position: Position,
        seconds: f64,
    ) -> Result<Option<Measurement>> {
        self.running.wait_for_quiet();
        self.begin(&contestant.name, &format!("{}/s", position.rate.round()));
        let offered = self.offer(contestant, position.rate, seconds, None);
        let checked = offered.and_then(|outcome| self.check_challenges(contestant, outcome));
        let Some(outcome) = self.outcome(contestant, checked)? else { return Ok(None) };
        let measured = Measurement {
            target: contestant.name.clone(),
            trial: position.trial,
            multiple: position.multiple,
            ..self.load(position.rate, seconds).measurement(&outcome)
        };
        self.running.warn_once(outcome.warning());
        if measured.valid {
            let conditions = self.running.options.fail_if.iter();
            let met = conditions.filter(|condition| condition.is_met(&outcome.statistics));
            let of = format!("{}, {}, {}/s", measured.experiment, contestant.name, position.rate);
            self.running.totals.conditions.extend(met.map(|condition| format!("{condition} ({of})")));
        }
        self.running.observer.record(Record::Measurement(Box::new(measured.clone())))?;
        self.running.measurements.push(measured.clone());
        Ok(Some(measured))
    }

    /// Offers a load, and another one `after` it. `None`: the observer has interrupted it.
    pub(super) fn offer(
        &mut self,
        contestant: &mut Contestant,
        rate: f64,
        seconds: f64,
        after: Option<(f64, Duration)>,
    ) -> Result<Option<Outcome>> {
        let (options, drain, warm_up) = (self.running.options, self.drain(), self.warm_up());
        let plan = self.load(rate, seconds).plan(&mut contestant.server, options)?;
        let plan = Plan { after, ..plan };
        offer(&plan, warm_up, Some(&mut contestant.server), drain, self.running.observer)
    }

    /// Outcome of what was offered; `None`, and noted, if the contestant failed or the campaign was interrupted.
    pub(super) fn outcome(
        &mut self,
        contestant: &mut Contestant,
        offered: Result<Option<Outcome>>,
    ) -> Result<Option<Outcome>> {
        match offered {
            Ok(Some(outcome)) => return Ok(Some(outcome)),
            Ok(None) => self.running.totals.interrupted = true,
            Err(error) => {
                contestant.has_failed = true;
                let error = contestant.server.cause(error);
                self.fail(&contestant.name, &error)?;
            }
        }
        Ok(None)
    }

    /// Checks that a running server, which has its own configuration, challenges as the variant has it. One that challenges although
    /// the variant has no digest is measured with a warning. Checks that a server that reads passwords from a database has done so.
    ///
    /// # Errors
    /// It does not challenge in a variant with digest, or did not read the passwords.
    fn check_challenges(
        &mut self,
        contestant: &mut Contestant,
        outcome: Option<Outcome>,
    ) -> Result<Option<Outcome>> {
        let Some(outcome) = outcome else { return Ok(None) };
        let successes = outcome.statistics.successes();
        if let Some(lookups) = outcome.lookups.filter(|lookups| *lookups < successes) {
            bail!(
                "the server read {lookups} passwords from the database for {successes} successful attempts, so these are no results \
                 with a lookup for each request"
            );
        }
        if contestant.server.is_started() {
            return Ok(Some(outcome));
        }
        let challenges = outcome.statistics.counters().challenges;
        match self.variant.digest {
            Some(_) if challenges == 0 && successes > 0 => bail!(
                "the server challenged no request, so these are no results with {}; switch its authentication on, or \
                 give --digest none",
                digest_name(self.variant.digest)
            ),
            None if challenges > 0 && !contestant.is_warned => {
                contestant.is_warned = true;
                self.running.observer.warn(&format!(
                    "{}: the server challenges requests, and the variant `{}` is without digest: its results contain the \
                     challenges",
                    contestant.name, self.variant.name
                ));
            }
            Some(_) | None => {}
        }
        Ok(Some(outcome))
    }

    /// Searches for the peak of each contestant, and sets the points of an overload. The contestants take turns trial by trial, so
    /// that a machine that slows down affects all alike.
    fn search_all(&mut self, contestants: &mut [Contestant], peak: &Peak) -> Result<()> {
        let is_quick = self.running.options.is_quick;
        let (grid, seconds) = search_of(peak, self.experiment, is_quick);
        let mut searches = vec![Search::new(grid); contestants.len()];
        let mut is_open = vec![true; contestants.len()];
        for round in 0.. {
            if !is_open.contains(&true) {
                break;
            }
            for index in turn(contestants.len(), round) {
                let (Some(contestant), Some(search), Some(is_open)) =
                    (contestants.get_mut(index), searches.get_mut(index), is_open.get_mut(index))
                else {
                    continue;
                };
                *is_open = *is_open && self.search(contestant, search, seconds)?;
                if *is_open && search.next() == Next::Done {
                    *is_open = false;
                    self.running.done += expected_search(peak, self.experiment, is_quick);
                    self.end_search(contestant, search, &grid)?;
                }
            }
        }
        Ok(())
    }

    /// Makes the next trial of a search; false if there is none, the contestant failed, or the campaign was interrupted.
    fn search(
        &mut self,
        contestant: &mut Contestant,
        search: &mut Search,
        seconds: [f64; 2],
    ) -> Result<bool> {
        let (rate, seconds) = match search.next() {
            Next::Trial(rate) => (rate, seconds[0]),
            Next::Confirm(rate) => (rate, seconds[1]),
            Next::Done => return Ok(false),
        };
        if self.running.totals.interrupted {
            return Ok(false);
        }
        let trial = u32::try_from(search.trials().len()).unwrap_or(u32::MAX).saturating_add(1);
        let position = Position { rate, multiple: None, trial };
        let Some(measured) = self.trial(contestant, position, seconds)? else { return Ok(false) };
        search.record(if measured.met_late {
            Verdict::PassedLate(measured.invalid_because)
        } else if !measured.valid {
            Verdict::Invalid(measured.invalid_because)
        } else if measured.criterion_met == Some(true) {
            Verdict::Passed
        } else {
            Verdict::Failed(measured.criterion_missed)
        });
        Ok(true)
    }

    /// Records the peak that a search found, and sets the points of an overload.
    fn end_search(&mut self, contestant: &mut Contestant, search: &Search, grid: &Grid) -> Result<()> {
        let rate = search.rate();
        let of_search = self.running.measurements.iter().filter(|trial| {
            let is_variant = trial.experiment == self.experiment.name && trial.variant == self.variant.name;
            (trial.valid || trial.met_late) && is_variant && trial.target == contestant.name
        });
        let highest_achieved = of_search.map(|trial| trial.achieved).fold(0.0, f64::max);
        let peak = record::Peak {
            experiment: self.experiment.name.clone(),
            variant: self.variant.name.clone(),
            target: contestant.name.clone(),
            rate,
            highest_achieved,
            criterion: self.experiment.criteria.to_string(),
            k: grid.k,
            n: grid.n,
            confirmed: search.is_confirmed(),
            limited_by: search.limited_by().unwrap_or_default(),
            trials: search.trials().to_vec(),
        };
        self.running.peaks.push(peak.clone());
        self.running.observer.record(Record::Peak(peak))?;
        if rate == 0.0 {
            contestant.has_failed = true;
            let error = match search.limited_by() {
                Some(limit) => anyhow!("no trial from {}/s on is valid: {limit}", grid.lowest),
                None => anyhow!("no rate from {}/s on meets the criterion", grid.lowest),
            };
            return self.fail(&contestant.name, &error);
        }
        contestant.peak = rate;
        if let Kind::Overload(_, multiples) | Kind::Curve(_, multiples) = &self.experiment.kind {
            let multiples = multiples.of(self.running.options.is_quick);
            contestant.points = multiples.iter().map(|&multiple| (rate * multiple, Some(multiple))).collect();
        }
        Ok(())
    }

    fn idle(&mut self, contestants: &mut [Contestant], count: u32) -> Result<()> {
        let seconds = self.running.options.seconds(self.experiment);
        for contestant in contestants {
            if self.running.totals.interrupted {
                return Ok(());
            }
            self.begin(&contestant.name, &format!("{count} idle connections"));
            let time = Duration::from_secs_f64(seconds);
            match idle::measure(&mut contestant.server, count, time, self.running.observer) {
                Ok(Some(measured)) => {
                    let measured = Measurement {
                        experiment: self.experiment.name.clone(),
                        variant: self.variant.name.clone(),
                        target: contestant.name.clone(),
                        trial: 1,
                        ..measured
                    };
                    self.running.observer.record(Record::Measurement(Box::new(measured.clone())))?;
                    self.running.measurements.push(measured);
                }
                Ok(None) => self.running.totals.interrupted = true,
                Err(error) => self.fail(&contestant.name, &error)?,
            }
            self.running.done += seconds + 5.0;
        }
        Ok(())
    }

    pub(super) fn begin(&mut self, target: &str, what: &str) {
        let text = format!("{} ({}), {target}: {what}", self.experiment.name, self.variant.name);
        self.running.begin(&text);
    }

    pub(super) fn fail(&mut self, target: &str, error: &anyhow::Error) -> Result<()> {
        self.running.fail(&self.experiment.name, &self.variant.name, target, error)
    }
}

/// Grid of a search, and the seconds of its trials and of the one that confirms.
fn search_of(peak: &Peak, experiment: &Experiment, is_quick: bool) -> (Grid, [f64; 2]) {
    let (grid, seconds) = (peak.grid, [peak.trial_seconds, peak.confirm_seconds]);
    if !is_quick {
        return (grid, seconds);
    }
    let grid = Grid { k: 1, n: 1, step: grid.step.max(QUICK_STEP), ..grid };
    (grid, seconds.map(|seconds| seconds.min(*experiment.seconds.of(true))))
}

/// Expected seconds of a search.
pub(super) fn expected_search(peak: &Peak, experiment: &Experiment, is_quick: bool) -> f64 {
    let (grid, [trial_seconds, confirm_seconds]) = search_of(peak, experiment, is_quick);
    let steps = ((grid.highest / grid.lowest).ln() / grid.step.ln()).max(1.0).log2().ceil();
    let trials = steps * f64::from(grid.k);
    let besides = experiment.warm_up.of(is_quick) + TRIAL_OVERHEAD_S;
    trials * (trial_seconds + besides) + confirm_seconds + besides
}

/// Repeats of an invalid trial.
const REPEATED_MAX: u32 = 1;
/// Most users that are made for a target.
const USERS_MAX: u32 = 400_000;
/// Trials of a search for which there are users.
const SEARCH_TRIALS: u64 = 40;
/// Ratio of the rates in a quick search.
const QUICK_STEP: f64 = 1.25;
