//! Campaigns: experiments on servers, one after another.
//!
//! Does: reads experiments ([`experiment`]), starts the servers of a variant ([`target`]), offers the load of each point to them in
//! turn, searches for peaks ([`search`]), compares ([`compare`]), and hands every result over at once as a
//! [`Record`].
//!
//! Does not: write files or print; that is the [`Observer`].
//!
//! Start reading at [`run`].

pub mod compare;
pub mod experiment;
mod idle;
pub mod list;
pub mod noise;
mod points;
mod profiled;
mod pulse;
mod quiet;
pub mod search;
pub mod server;
pub mod target;
mod tls_keys;
mod trial;

use crate::load::{self, Criterion, Flow, Plan, Users};
use crate::machine;
use crate::record::{self, Campaign, End, Failed, Measurement, NOT_AVAILABLE, Record};
use crate::server::{Algorithm, Carrier};
use crate::statistics::interleaving;
use anyhow::{Context, Result};
use experiment::{Experiment, Kind, Variant, carrier_name, digest_name};
use points::Points;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use target::{Site, Target};

/// Conditions of a campaign.
#[derive(Clone, Debug)]
pub struct Options {
    /// One short trial of each point.
    pub is_quick: bool,
    /// Seconds of a trial in place of the experiments' own.
    pub seconds: Option<f64>,
    /// Trials of each point in place of the experiments' own.
    pub repeat: Option<u32>,
    /// Only variants with this transport.
    pub carrier: Option<Carrier>,
    /// Only variants with this algorithm, or without any.
    pub digest: Option<Option<Algorithm>>,
    /// Number of local addresses.
    pub sources: u8,
    /// Longest time, of the whole campaign, to wait until other programs leave the machine.
    pub patience: Duration,
    /// A further trial of each variant and target for the components of the server's CPU time.
    pub is_profiled: bool,
    /// Hosts besides loopback that packets may go to.
    pub allowed_hosts: Vec<IpAddr>,
    /// Conditions that are counted in [`Totals::conditions`].
    pub fail_if: Vec<Criterion>,
    /// Start of the campaign, RFC 3339.
    pub started: String,
    /// Command line.
    pub command: String,
    /// Further options of the command line, as a shell takes them, for the command of each experiment.
    pub further: String,
    /// Version of the program.
    pub version: String,
}

/// Receiver of a campaign's results.
pub trait Observer {
    /// Takes a record.
    ///
    /// # Errors
    /// It cannot be written, which ends the campaign.
    fn record(&mut self, record: Record) -> Result<()>;

    /// Shows the step that begins, and the share of the campaign that is done (0 to 1).
    fn step(&mut self, what: &str, done: f64, seconds_left: f64);

    /// Called each second of a trial.
    fn tick(&mut self);

    /// Shows a warning.
    fn warn(&mut self, text: &str);

    /// True if the campaign is to end now.
    fn is_interrupted(&mut self) -> bool;
}

/// End of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// It was ended by the observer.
    pub interrupted: bool,
    /// Number of [`Record::Failed`].
    pub failed: usize,
    /// Conditions of [`Options::fail_if`] that held, with their trial.
    pub conditions: Vec<String>,
}

/// State of a running campaign.
struct Running<'a> {
    options: &'a Options,
    site: &'a Site,
    targets: &'a [Target],
    observer: &'a mut dyn Observer,
    begun: Instant,
    /// Expected seconds of all steps, and of those that are done.
    expected: f64,
    done: f64,
    /// Configurations that have a record.
    known: Vec<record::Target>,
    measurements: Vec<Measurement>,
    /// Peaks of the current experiment.
    peaks: Vec<record::Peak>,
    totals: Totals,
    is_warned: bool,
    /// Time that was spent waiting for a quiet machine.
    waited: Duration,
    /// Trials are profiled: it is wanted, and perf can sample.
    is_profiled: bool,
}

/// Runs experiments on targets. A target that fails ends the experiment's variant for this target only.
///
/// # Errors
/// The observer cannot take a record; the machine has one processor.
pub fn run(
    experiments: &[Experiment],
    targets: &[Target],
    site: &Site,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<(Totals, Vec<Measurement>)> {
    machine::pin_to(machine::GENERATOR_CPU)?;
    let begun = Instant::now();
    let mut running = Running {
        options,
        site,
        targets,
        observer,
        begun,
        expected: 0.0,
        done: 0.0,
        known: Vec::new(),
        measurements: Vec::new(),
        peaks: Vec::new(),
        totals: Totals::default(),
        is_warned: false,
        waited: Duration::ZERO,
        is_profiled: false,
    };
    running.expected = experiments.iter().map(|experiment| running.expected_of(experiment)).sum();
    running.open()?;
    running.prepare_profiles()?;
    running.baseline(experiments)?;
    for experiment in experiments {
        if running.totals.interrupted {
            break;
        }
        running.experiment(experiment)?;
    }
    let (interrupted, seconds) = (running.totals.interrupted, begun.elapsed().as_secs_f64());
    let waited = running.waited.as_secs_f64();
    running.observer.record(Record::End(End { interrupted, seconds, waited }))?;
    Ok((running.totals, running.measurements))
}

impl Options {
    fn seconds(&self, experiment: &Experiment) -> f64 {
        self.seconds.unwrap_or(*experiment.seconds.of(self.is_quick))
    }

    fn repeat(&self, experiment: &Experiment) -> u32 {
        self.repeat.unwrap_or(if self.is_quick { 1 } else { experiment.repeat })
    }

    /// Time for attempts that have not ended with the load.
    const fn drain(&self) -> Duration {
        if self.is_quick { DRAIN_QUICK } else { DRAIN }
    }

    /// True if an experiment has a variant with the wanted transport and digest.
    pub fn has_trials(&self, experiment: &Experiment) -> bool {
        !self.variants(experiment).is_empty()
    }

    /// Reason why an experiment cannot be done, and the remedy.
    pub fn obstacle(&self, experiment: &Experiment, site: &Site) -> Option<String> {
        let is_missing = self.reads_database(experiment) && site.database.is_none();
        is_missing.then(|| {
            format!(
                "{} is skipped: it reads passwords from a database; give an empty one with --database postgres://USER@HOST/NAME (or \
                 mysql://…) and --database-password-file FILE",
                experiment.source
            )
        })
    }

    /// True if a wanted variant of an experiment reads passwords from a database.
    pub fn reads_database(&self, experiment: &Experiment) -> bool {
        self.variants(experiment).iter().any(|variant| variant.reads_database())
    }

    /// Variants that are wanted.
    fn variants<'e>(&self, experiment: &'e Experiment) -> Vec<&'e Variant> {
        let is_wanted = |variant: &&Variant| {
            self.carrier.is_none_or(|carrier| carrier == variant.carrier)
                && self.digest.is_none_or(|digest| digest == variant.digest)
        };
        experiment.variants.iter().filter(is_wanted).collect()
    }
}

impl Running<'_> {
    /// Record of the campaign, after a look at the machine's other work.
    fn open(&mut self) -> Result<()> {
        self.observer.step("looking at the machine", 0.0, self.expected);
        let (machine, noise, stalls) = noise::machine(NOISE_WAIT);
        self.warn_once(noise.warning());
        if let Some(warning) = stalls.warning() {
            self.observer.warn(&warning);
        }
        let options = self.options;
        self.observer.record(Record::Campaign(Campaign {
            format: record::FORMAT,
            started: options.started.clone(),
            command: options.command.clone(),
            version: options.version.clone(),
            quick: options.is_quick,
            interleaving: interleaving(
                self.targets.len(),
                if options.is_quick { 1 } else { options.repeat.unwrap_or(2) },
            ),
            machine,
        }))
    }

    /// Generator against generator at the highest planned rates: single requests, and calls.
    fn baseline(&mut self, experiments: &[Experiment]) -> Result<()> {
        let highest = |is_call: bool| {
            let rates = experiments.iter().flat_map(|experiment| {
                let variants = self.options.variants(experiment).into_iter();
                let wanted = variants.filter(move |variant| is_dialog(variant.flow) == is_call);
                wanted.flat_map(|variant| match variant.rates.of(self.options.is_quick).as_slice() {
                    // A search finds its rates.
                    [] => vec![BASELINE_RATE],
                    rates => rates.to_vec(),
                })
            });
            rates.fold(0.0, f64::max)
        };
        for (flow, title, rate) in
            [(Flow::Options, "OPTIONS, udp", highest(false)), (Flow::Call, "call, udp", highest(true))]
        {
            if rate == 0.0 || self.totals.interrupted {
                continue;
            }
            self.begin(&format!("generator against generator: {title} at {rate}/s"));
            let seconds = if self.options.is_quick { 1.0 } else { 5.0 };
            let plan = direct(flow, rate, seconds)?;
            match trial::offer(&plan, 0.0, None, self.options.drain(), self.observer) {
                Ok(Some(outcome)) => {
                    let measured = trial::measurement(&outcome, rate, seconds, &Default::default());
                    let (experiment, variant) = ("baseline".to_owned(), title.to_owned());
                    let measured = Measurement { experiment, variant, trial: 1, ..measured };
                    if !measured.valid {
                        let why = &measured.invalid_because;
                        self.observer.warn(&format!(
                            "the generator alone does not reach {rate}/s ({why}); higher rates will be invalid"
                        ));
                    }
                    self.observer.record(Record::Baseline(Box::new(measured)))?;
                }
                Ok(None) => self.totals.interrupted = true,
                Err(error) => self.fail("baseline", title, "", &error)?,
            }
        }
        Ok(())
    }

    fn experiment(&mut self, experiment: &Experiment) -> Result<()> {
        let variants = self.options.variants(experiment);
        self.observer.record(Record::Experiment(self.describe(experiment, &variants)))?;
        for missing in &experiment.not_available {
            let error = "not available: the lab does not have it yet".to_owned();
            let (experiment, variant) = (experiment.name.clone(), missing.clone());
            self.observer.record(Record::Failed(Failed {
                experiment,
                variant,
                target: String::new(),
                error,
            }))?;
        }
        if variants.is_empty() {
            self.observer.warn(&format!("{}: no variant has this transport and digest", experiment.name));
        }
        for (index, variant) in variants.iter().enumerate() {
            if self.totals.interrupted {
                return Ok(());
            }
            let before = self.measurements.len();
            let is_repeated = variants.iter().take(index).any(|other| is_same_offer(other, variant));
            Points { running: self, experiment, variant, is_repeated }.run()?;
            let order: Vec<String> = self.targets.iter().map(|target| target.name.clone()).collect();
            for comparison in compare::targets(self.measurements.get(before..).unwrap_or_default(), &order) {
                self.observer.record(Record::Comparison(comparison))?;
            }
        }
        let measurements = self.measurements.iter().filter(|trial| trial.experiment == experiment.name);
        for comparison in compare::factors(&variants, measurements) {
            self.observer.record(Record::Comparison(comparison))?;
        }
        for comparison in compare::peaks(&std::mem::take(&mut self.peaks), &variants) {
            self.observer.record(Record::Comparison(comparison))?;
        }
        Ok(())
    }

    fn describe(&self, experiment: &Experiment, variants: &[&Variant]) -> record::Experiment {
        let list = |name: fn(&Variant) -> &'static str| {
            let mut names: Vec<&str> = variants.iter().map(|variant| name(variant)).collect();
            names.dedup();
            names.sort_unstable();
            names.dedup();
            names.join(", ")
        };
        let targets =
            self.targets.iter().map(|target| format!(" --target {}", target.name)).collect::<String>();
        let options = self.options;
        let mut command = format!("ringway lab run {}{targets}", experiment.source);
        command.extend(options.is_quick.then_some(" --quick"));
        command.extend(options.seconds.map(|seconds| format!(" --seconds {seconds}")));
        command.extend(options.repeat.map(|repeat| format!(" --repeat {repeat}")));
        command.extend(options.carrier.map(|carrier| format!(" --transport {}", carrier_name(carrier))));
        command.extend(options.digest.map(|digest| format!(" --digest {}", digest_name(digest))));
        command.push_str(if options.is_profiled { " --profile" } else { "" });
        command.push_str(&options.further);
        record::Experiment {
            experiment: experiment.name.clone(),
            title: experiment.title.clone(),
            reproduces: experiment.reproduces.clone(),
            chart: experiment.kind.chart(),
            scenario: list(|variant| variant.flow.name()),
            transport: list(|variant| carrier_name(variant.carrier)),
            digest: list(|variant| digest_name(variant.digest)),
            criterion: experiment.criteria.to_string(),
            command,
        }
    }

    /// Expected seconds of an experiment.
    fn expected_of(&self, experiment: &Experiment) -> f64 {
        let options = self.options;
        let (variants, targets) = (options.variants(experiment), self.targets.len() as f64);
        let trials = f64::from(options.repeat(experiment));
        let warm_up = *experiment.warm_up.of(options.is_quick);
        let each = options.seconds(experiment) + warm_up + TRIAL_OVERHEAD_S;
        let profile = self.options.profile_seconds(experiment);
        let of = |variant: &Variant| match &experiment.kind {
            Kind::Rates(_) => variant.rates.of(options.is_quick).len() as f64 * trials * each + profile,
            Kind::Peak(peak) => points::expected_search(peak, experiment, options.is_quick) + profile,
            Kind::Overload(peak, multiples) | Kind::Curve(peak, multiples) => {
                points::expected_search(peak, experiment, options.is_quick)
                    + multiples.of(options.is_quick).len() as f64 * trials * each
                    + experiment.pulse.map_or(0.0, |pulse| pulse.whole_seconds())
                    + profile
            }
            Kind::Idle(_) => options.seconds(experiment) + 5.0,
        };
        variants.iter().map(|variant| targets * (of(variant) + START_S)).sum()
    }

    /// Shows a step.
    fn begin(&mut self, what: &str) {
        let left = (self.expected - self.done).max(0.0);
        let done = (self.done / self.expected.max(1.0)).min(1.0);
        // The experience of this campaign corrects the expectation.
        let pace = if self.done > 5.0 { self.begun.elapsed().as_secs_f64() / self.done } else { 1.0 };
        self.observer.step(what, done, left * pace);
    }

    fn fail(&mut self, experiment: &str, variant: &str, target: &str, error: &anyhow::Error) -> Result<()> {
        let error = format!("{error:#}").replace(['\n', '\r'], " ");
        // A row that this build or target cannot have is no failure, but it is a row.
        self.totals.failed += usize::from(!error.starts_with(NOT_AVAILABLE));
        self.observer.warn(&format!("{experiment} ({variant}), {target}: {error}"));
        self.observer.record(Record::Failed(Failed {
            experiment: experiment.to_owned(),
            variant: variant.to_owned(),
            target: target.to_owned(),
            error,
        }))
    }

    fn warn_once(&mut self, warning: Option<String>) {
        if let Some(warning) = warning.filter(|_| !self.is_warned) {
            self.is_warned = true;
            self.observer.warn(&warning);
        }
    }
}

/// True if an attempt sets up a dialog.
const fn is_dialog(flow: Flow) -> bool {
    match flow {
        Flow::Call | Flow::CallNotFound | Flow::CallUnavailable | Flow::Redirect => true,
        Flow::Register
        | Flow::Update
        | Flow::Logout
        | Flow::Unauthenticated
        | Flow::WrongPassword
        | Flow::Options
        | Flow::Message
        | Flow::Subscribe
        | Flow::Publish => false,
    }
}

/// True if a running server, which has its own configuration, gets the same load in both variants.
fn is_same_offer(a: &Variant, b: &Variant) -> bool {
    let offer = |of: &Variant| {
        (of.flow, of.carrier, of.connections, of.called, of.tls.clone(), of.media, of.rates.clone())
    };
    offer(a) == offer(b)
}

/// Plan of a load without a server.
fn direct(flow: Flow, rate: f64, seconds: f64) -> Result<Plan> {
    let users = |first| Users::by_rule("u", 7, first, 100, "").context("users of the baseline");
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Ok(Plan {
        is_direct: true,
        rate,
        length: Duration::from_secs_f64(seconds),
        talk: load::Length::Fixed(Duration::from_millis(100)),
        ..Plan::new(SocketAddr::new(loopback, 0), flow, users(0)?, users(100)?)
    })
}

/// Rate of the baseline if the experiments have none.
const BASELINE_RATE: f64 = 500.0;
/// Time for attempts that have not ended with the load.
const DRAIN: Duration = Duration::from_secs(4);
/// The same in a quick campaign.
const DRAIN_QUICK: Duration = Duration::from_secs(2);
/// Time for a look at the machine's other work.
const NOISE_WAIT: Duration = Duration::from_millis(500);
/// Expected seconds of a trial besides its load.
const TRIAL_OVERHEAD_S: f64 = 1.2;
/// Expected seconds to start a server.
const START_S: f64 = 0.7;
