//! Profiled trials: a further trial of each variant and target, which is no result but tells where the server's CPU time goes.

use super::experiment::{Experiment, Kind};
use super::noise::Noise;
use super::points::{Contestant, Points};
use super::target::Target;
use super::{Options, Running, TRIAL_OVERHEAD_S};
use crate::profile::Sampler;
use crate::profile::split::Trial;
use crate::record::{Measurement, Peak, Profile, Record};
use crate::statistics::median;
use anyhow::{Error, Result};
use std::time::Duration;

impl Options {
    /// Expected seconds of a profiled trial.
    pub(super) fn profile_seconds(&self, experiment: &Experiment) -> f64 {
        match self.is_profiled {
            true => self.seconds(experiment).max(SECONDS_MIN) + READING_S + TRIAL_OVERHEAD_S,
            false => 0.0,
        }
    }
}

impl Running<'_> {
    /// Finds out whether perf can sample, if profiles are wanted. What is missing is a row of the results.
    pub(super) fn prepare_profiles(&mut self) -> Result<()> {
        if !self.options.is_profiled {
            return Ok(());
        }
        // Each agent has a perf of its own, or a row that says why not.
        if self.targets.iter().any(Target::is_at_agent) {
            self.is_profiled = true;
            return Ok(());
        }
        let obstacle = Sampler::obstacle(&self.site.environment.folder);
        self.is_profiled = obstacle.is_none();
        match obstacle {
            Some(obstacle) => {
                self.fail("", "components", "", &Error::msg(format!("not available: {obstacle}")))
            }
            None => Ok(()),
        }
    }
}

impl Points<'_, '_> {
    /// Length of a profiled trial: enough samples even in a quick campaign.
    pub(super) fn profile_seconds(&self) -> f64 {
        self.running.options.seconds(self.experiment).max(SECONDS_MIN)
    }

    /// Profiles all contestants: at three quarters of the peak, if one was searched, or else all at the same rate.
    pub(super) fn profile_all(&mut self, contestants: &mut [Contestant]) -> Result<()> {
        if !self.running.is_profiled || matches!(self.experiment.kind, Kind::Idle(_)) {
            return Ok(());
        }
        let common = self.common_rate(contestants);
        for contestant in contestants {
            if contestant.has_failed || self.running.totals.interrupted {
                continue;
            }
            let peak = self.peak_of(&contestant.name);
            let own = peak.as_ref().map(|peak| (peak.rate * PEAK_SHARE).round().max(1.0));
            if let Some(rate) = own.or(common) {
                self.profile(contestant, rate, peak.as_ref())?;
            }
        }
        Ok(())
    }

    /// Highest rate that all contestants served, or else the lowest one. A machine that is not quiet makes trials invalid, but the rate is
    /// chosen, not judged.
    fn common_rate(&self, contestants: &[Contestant]) -> Option<f64> {
        let rates = self.variant.rates.of(self.running.options.is_quick);
        let is_served = |name: &str, rate: f64| {
            self.running.measurements.iter().any(|trial| {
                let is_own = trial.experiment == self.experiment.name && trial.variant == self.variant.name;
                let is_point = trial.target == name && trial.rate.total_cmp(&rate).is_eq();
                let is_served = match trial.criterion_met {
                    Some(is_met) => is_met,
                    None => trial.achieved >= ACHIEVED_MIN * rate,
                };
                is_own && is_point && is_served
            })
        };
        let left = || contestants.iter().filter(|contestant| !contestant.has_failed);
        let served = rates.iter().copied().filter(|rate| left().all(|one| is_served(&one.name, *rate)));
        served.reduce(f64::max).or_else(|| rates.iter().copied().reduce(f64::min))
    }

    /// Peak of a target that the search of this variant found.
    fn peak_of(&self, target: &str) -> Option<Peak> {
        let is_own = |peak: &&Peak| peak.variant == self.variant.name && peak.target == target;
        self.running.peaks.iter().find(is_own).filter(|peak| peak.rate > 0.0).cloned()
    }

    /// One profiled trial. A profile that fails is recorded, and the campaign goes on.
    fn profile(&mut self, contestant: &mut Contestant, rate: f64, peak: Option<&Peak>) -> Result<()> {
        self.running.wait_for_quiet();
        self.begin(&contestant.name, &format!("profile at {rate}/s"));
        self.running.done += self.running.options.profile_seconds(self.experiment);
        let folder = &self.running.site.environment.folder;
        if let Err(error) = contestant.server.start_sampler(folder, tick(rate)) {
            return self.no_profile(&contestant.name, &error);
        }
        let offered = self.offer(contestant, rate, self.profile_seconds(), None);
        let Some(outcome) = self.outcome(contestant, offered)? else {
            contestant.server.drop_sampler();
            return Ok(());
        };
        let measured = self.load(rate, self.profile_seconds()).measurement(&outcome);
        let scheduled_ns = outcome.server_ns().unwrap_or_default();
        let profiler_ns = outcome.profiler_ns;
        let trial = Trial { attempts: outcome.statistics.ended(), scheduled_ns, profiler_ns };
        match contestant.server.profile(&trial) {
            Ok(profile) => {
                let profile = self.named(profile, &contestant.name, &measured, peak);
                self.running.observer.record(Record::Profile(Box::new(profile)))
            }
            Err(error) => self.no_profile(&contestant.name, &error),
        }
    }

    fn no_profile(&mut self, target: &str, error: &Error) -> Result<()> {
        let text = format!("{error:#}");
        let text = text.strip_prefix("not available: ").unwrap_or(&text);
        let error = Error::msg(text.to_owned()).context("not available: no profile");
        self.fail(target, &error)
    }

    /// Fills in what a split does not have.
    fn named(&self, profile: Profile, target: &str, measured: &Measurement, peak: Option<&Peak>) -> Profile {
        let trials = self.running.measurements.iter().filter(|trial| {
            let is_own = trial.experiment == measured.experiment && trial.variant == measured.variant;
            is_own && trial.valid && trial.target == target && trial.rate == measured.rate
        });
        let unprofiled: Vec<f64> = trials.filter_map(|trial| trial.server_cpu_us).collect();
        // Attempts of a tick start late by design, so the trial's own verdict is not asked.
        let is_served = measured.achieved >= ACHIEVED_MIN * measured.rate;
        let is_usable = profile.server_cpu_us > 0.0 && invalid_because(measured).is_empty() && is_served;
        Profile {
            experiment: measured.experiment.clone(),
            variant: measured.variant.clone(),
            target: target.to_owned(),
            rate: measured.rate,
            invalid_because: invalid_because(measured),
            unprofiled_cpu_us: (!unprofiled.is_empty()).then(|| median(unprofiled.iter().copied())),
            extrapolated_peak: peak.filter(|_| is_usable).map(|_| 1e6 / profile.server_cpu_us),
            measured_peak: peak.map(|peak| peak.rate),
            peak_limited_by: peak.map(|peak| peak.limited_by.clone()).unwrap_or_default(),
            ..profile
        }
    }
}

/// Reason for which a profiled trial says more about the generator or its machine than about the server; empty without one.
fn invalid_because(measured: &Measurement) -> String {
    let generator = &measured.generator;
    if generator.dropped > 0 {
        return format!("{} attempts were not started", generator.dropped);
    }
    if generator.cpu_share > GENERATOR_MAX {
        return format!("the generator used {:.0} % of a processor", generator.cpu_share * 100.0);
    }
    let noise = Noise { others: measured.others_share, steal: measured.steal };
    noise.disturbance().map_or_else(String::new, |disturbance| format!("not quiet: {disturbance}"))
}

/// Interval at which the generator looks at its clock and its sockets. The scheduler charges the time that a wake-up from another
/// processor takes to the thread that is woken, so that a server which is woken for each message would have used more than its samples
/// show. In ticks it is woken once for many messages, as a busy one is.
fn tick(rate: f64) -> Duration {
    Duration::from_secs_f64((TICK_ATTEMPTS / rate.max(1.0)).clamp(TICK_S.0, TICK_S.1))
}

/// Attempts of a tick, which a server's default receive buffer holds.
const TICK_ATTEMPTS: f64 = 40.0;
/// Shortest and longest tick.
const TICK_S: (f64, f64) = (0.001, 0.004);
/// Share of the offered rate that a server must achieve for an extrapolation.
const ACHIEVED_MIN: f64 = 0.99;
/// Largest share of a processor that a thread of the generator may use.
const GENERATOR_MAX: f64 = 0.8;
/// Least seconds of a profiled trial.
const SECONDS_MIN: f64 = 5.0;
/// Expected seconds to start perf and to read its samples.
const READING_S: f64 = 3.0;
/// Share of the peak at which a server is profiled: below it, and busy enough for the costs of a busy server.
const PEAK_SHARE: f64 = 0.75;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Generator;

    #[test]
    fn ticks_hold_what_a_receive_buffer_does() {
        for (rate, milliseconds) in [(10.0, 4.0), (10_000.0, 4.0), (20_000.0, 2.0), (1e6, 1.0), (0.0, 4.0)] {
            assert!((tick(rate).as_secs_f64() * 1e3 - milliseconds).abs() < 1e-6, "{rate}");
        }
    }

    #[test]
    fn a_profile_names_the_fault_of_the_generator_or_the_machine() {
        let measured = |dropped, cpu_share, others_share| Measurement {
            generator: Generator { dropped, cpu_share, ..Generator::default() },
            others_share,
            invalid_because: "attempts started late".into(),
            ..Measurement::default()
        };
        assert_eq!(invalid_because(&measured(0, 0.5, 0.0)), "");
        assert_eq!(invalid_because(&measured(3, 0.5, 0.0)), "3 attempts were not started");
        assert_eq!(invalid_because(&measured(0, 0.9, 0.0)), "the generator used 90 % of a processor");
        assert!(invalid_because(&measured(0, 0.5, 1.2)).starts_with("not quiet: other programs used 120 %"));
    }
}
