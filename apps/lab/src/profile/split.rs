//! Sums of the samples of a window: of a server by component and function.

use super::components::{Component, Table};
use super::elf;
use super::samples::Sample;
use crate::record::{ComponentTime, FunctionTime, Profile};
use std::collections::HashMap;
use std::path::Path;

/// Time in which samples count, on the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// First nanosecond.
    pub from_ns: u64,
    /// The one after the last.
    pub until_ns: u64,
}

/// Processes whose samples are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// Those of the server.
    pub server: Vec<u32>,
    /// The generator, if it is on this machine.
    pub generator: Option<u32>,
}

impl Processes {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = u32> {
        self.server.iter().copied().chain(self.generator)
    }
}

/// Sums of samples.
#[derive(Debug)]
pub struct Split {
    processes: Processes,
    table: Table,
    window: Window,
    functions: HashMap<Key, Function>,
    /// Files without a symbol table, or not.
    stripped: HashMap<String, bool>,
    /// Time of each component.
    components: [u64; Component::ALL.len()],
    /// Samples of the server, and their time.
    samples: u64,
    sampled_ns: u64,
    /// Time in which the generator's threads received for the server.
    receiving_ns: u64,
    /// Time in which the server's threads received for the generator.
    received_ns: u64,
    /// Lines that were neither a sample nor a frame.
    pub(super) unreadable: u64,
}

/// Function of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    thread: String,
    object: String,
    function: String,
}

#[derive(Clone, Debug)]
struct Function {
    component: Component,
    /// Name for people.
    name: String,
    ns: u64,
}

/// Facts about a profiled trial besides its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trial {
    /// Attempts that ended.
    pub attempts: u64,
    /// CPU time of the server in the window by schedstat, in nanoseconds.
    pub scheduled_ns: u64,
    /// CPU time of perf in the window, in nanoseconds.
    pub profiler_ns: u64,
}

impl Split {
    /// Sums nothing yet.
    pub fn new(processes: Processes, table: Table, window: Window) -> Self {
        Self {
            processes,
            table,
            window,
            functions: HashMap::new(),
            stripped: HashMap::new(),
            components: [0; Component::ALL.len()],
            samples: 0,
            sampled_ns: 0,
            receiving_ns: 0,
            received_ns: 0,
            unreadable: 0,
        }
    }

    /// Adds a sample, unless it is outside the window or of another process.
    pub fn add(&mut self, sample: &Sample) {
        if !(self.window.from_ns..self.window.until_ns).contains(&sample.time_ns) {
            return;
        }
        if Some(sample.pid) == self.processes.generator && sample.is_receiving {
            self.receiving_ns += sample.period_ns;
        }
        if !self.processes.server.contains(&sample.pid) {
            return;
        }
        self.samples += 1;
        self.sampled_ns = self.sampled_ns.saturating_add(sample.period_ns);
        if sample.is_receiving {
            self.received_ns += sample.period_ns;
        }
        let key = Key {
            thread: sample.thread.clone(),
            object: sample.object.clone(),
            function: sample.function.clone(),
        };
        let component = match self.functions.get_mut(&key) {
            Some(function) => {
                function.ns += sample.period_ns;
                function.component
            }
            None => {
                let name = format!("{:#}", rustc_demangle::demangle(&sample.function));
                let is_stripped = self.is_stripped(&sample.object);
                let component = self.table.component(sample, &name, is_stripped);
                if self.functions.len() < FUNCTIONS_MAX {
                    let name = if is_stripped { String::new() } else { name };
                    self.functions.insert(key, Function { component, name, ns: sample.period_ns });
                }
                component
            }
        };
        if let Some(sum) = self.components.get_mut(component as usize) {
            *sum += sample.period_ns;
        }
    }

    fn is_stripped(&mut self, object: &str) -> bool {
        if !object.starts_with('/') {
            return false;
        }
        if let Some(is_stripped) = self.stripped.get(object) {
            return *is_stripped;
        }
        let is_stripped = elf::has_symbols(Path::new(object)) == Some(false);
        if self.stripped.len() < OBJECTS_MAX {
            self.stripped.insert(object.to_owned(), is_stripped);
        }
        is_stripped
    }

    /// Record of the profile; the caller fills in experiment, target and rate.
    pub fn profile(&self, trial: &Trial) -> Profile {
        let attempts = (trial.attempts as f64).max(1.0);
        let us = |ns: u64| ns as f64 / 1e3 / attempts;
        let share = |ns: u64| ns as f64 / (self.sampled_ns as f64).max(1.0);
        let components = Component::ALL.iter().zip(self.components);
        let components = components.map(|((_, key, title), ns)| ComponentTime {
            component: (*key).to_owned(),
            title: (*title).to_owned(),
            share: share(ns),
            us: us(ns),
        });
        // Threads with the same function are one row.
        let mut functions: HashMap<(Component, &str, &str), u64> = HashMap::new();
        for (key, function) in &self.functions {
            let object = key.object.rsplit('/').next().unwrap_or_default();
            *functions.entry((function.component, object, &function.name)).or_default() += function.ns;
        }
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_by(|(a, a_ns), (b, b_ns)| b_ns.cmp(a_ns).then(a.cmp(b)));
        let functions =
            functions.into_iter().take(SHOWN_MAX).map(|((component, object, name), ns)| FunctionTime {
                component: component.key().to_owned(),
                object: object.chars().take(NAME_CHARS_MAX).collect(),
                function: name.chars().take(NAME_CHARS_MAX).collect(),
                share: share(ns),
                us: us(ns),
            });
        let agreement = self.sampled_ns as f64 / (trial.scheduled_ns as f64).max(1.0);
        let disagreement = self.disagreement(agreement);
        let window_ns = self.window.until_ns.saturating_sub(self.window.from_ns) as f64;
        Profile {
            seconds: window_ns / 1e9,
            attempts: trial.attempts,
            samples: self.samples,
            sampled_ms: self.sampled_ns as f64 / 1e6,
            scheduled_ms: trial.scheduled_ns as f64 / 1e6,
            agreement,
            agrees: disagreement.is_empty(),
            disagreement,
            server_cpu_us: us(trial.scheduled_ns),
            components: components.collect(),
            functions: functions.collect(),
            receiving_us: us(self.receiving_ns),
            received_us: us(self.received_ns),
            profiler_share: trial.profiler_ns as f64 / window_ns.max(1.0),
            remarks: self.remarks(),
            ..Profile::default()
        }
    }

    /// Reason for which the samples do not agree with the scheduler's time; empty if they do.
    fn disagreement(&self, agreement: f64) -> String {
        let percent = (agreement - 1.0) * 100.0;
        if self.samples < SAMPLES_MIN {
            return format!(
                "{} samples are too few to tell; at least {SAMPLES_MIN} are needed",
                self.samples
            );
        }
        match percent.abs() <= DIFFERENCE_PERCENT_MAX {
            true => String::new(),
            false => format!("the samples are {percent:+.1} % of the scheduler's time away from it"),
        }
    }

    fn remarks(&self) -> Vec<String> {
        let stripped = self.stripped.iter().filter(|(_, is_stripped)| **is_stripped);
        let mut stripped: Vec<&str> =
            stripped.map(|(object, _)| object.rsplit('/').next().unwrap_or_default()).collect();
        stripped.sort_unstable();
        stripped.truncate(STRIPPED_MAX);
        let stripped = (!stripped.is_empty())
            .then(|| format!("no symbol table, so not split by function: {}", stripped.join(", ")));
        let unreadable = (self.unreadable > 0)
            .then(|| format!("{} lines of perf script were not understood", self.unreadable));
        let many = (self.functions.len() == FUNCTIONS_MAX)
            .then(|| format!("more than {FUNCTIONS_MAX} functions; the rest is only in the components"));
        stripped.into_iter().chain(unreadable).chain(many).collect()
    }
}

/// Largest difference between samples and schedstat.
pub const DIFFERENCE_PERCENT_MAX: f64 = 5.0;
/// Samples that a judgement of the difference needs; 3 % is their standard error.
const SAMPLES_MIN: u64 = 1000;
/// Functions and files that are listed.
const FUNCTIONS_MAX: usize = 20_000;
const OBJECTS_MAX: usize = 1000;
/// Functions of a record.
const SHOWN_MAX: usize = 40;
/// Longest name in a record.
const NAME_CHARS_MAX: usize = 160;
/// Files without a symbol table that are named.
const STRIPPED_MAX: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::samples::Samples;

    const RECORDED: &[u8] = include_bytes!("../../../../testdata/lab/perf-script.txt");

    fn split(window: Window) -> Split {
        let processes = Processes { server: vec![4711], generator: Some(4800) };
        let mut split = Split::new(processes, Table::ringway().unwrap(), window);
        let mut samples = Samples::new(RECORDED);
        while let Some(sample) = samples.next_sample().unwrap() {
            split.add(&sample);
        }
        split
    }

    #[test]
    fn samples_of_the_window_and_the_server_are_summed() {
        let split = split(Window { from_ns: 400_198_588_841, until_ns: 400_199_588_856 });
        let trial = Trial { attempts: 2, scheduled_ns: 600_009, profiler_ns: 10_000 };
        let profile = split.profile(&trial);
        assert_eq!((profile.samples, profile.attempts), (3, 2));
        let us = |key: &str| profile.components.iter().find(|one| one.component == key).unwrap().us;
        assert!((us("core") - 100.0015).abs() < 1e-9 && (us("kernel") - 100.0015).abs() < 1e-9);
        assert!((us("rest") - 100.0015).abs() < 1e-9 && us("location") == 0.0);
        let sum: f64 = profile.components.iter().map(|one| one.share).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        assert!((profile.receiving_us - 100.0015).abs() < 1e-9 && profile.received_us == 0.0);
        let parsing = profile.functions.iter().find(|one| one.component == "core").unwrap();
        assert_eq!(parsing.function, "ringway_sip::message::Message::parse");
        assert!((profile.agreement - 1.0).abs() < 1e-9 && !profile.agrees);
        assert!(profile.disagreement.starts_with("3 samples are too few"));
        assert_eq!(split_samples(Window { from_ns: 400_198_588_842, until_ns: 400_198_788_845 }), 1);
    }

    fn split_samples(window: Window) -> u64 {
        split(window).samples
    }

    #[test]
    fn a_difference_of_more_than_five_percent_is_named() {
        let mut split = split(Window { from_ns: 0, until_ns: u64::MAX });
        let sample = Sample { pid: 4711, time_ns: 1, period_ns: 1000, ..Sample::default() };
        (0..2000).for_each(|_| split.add(&sample));
        let agrees = |scheduled_ns: u64| {
            let profile = split.profile(&Trial { attempts: 1, scheduled_ns, profiler_ns: 0 });
            (profile.agrees, profile.disagreement)
        };
        let sampled = split.sampled_ns;
        assert_eq!(agrees(sampled), (true, String::new()));
        assert!(agrees(sampled * 100 / 104).0 && agrees(sampled * 100 / 96).0);
        let (is_near, why) = agrees(sampled * 100 / 94);
        assert!(!is_near && why.contains("-6.0 %"), "{why}");
        assert!(!agrees(0).0);
    }

    #[test]
    fn functions_are_limited_and_still_in_the_components() {
        let mut split = split(Window { from_ns: 0, until_ns: u64::MAX });
        for number in 0..FUNCTIONS_MAX + 10 {
            let function = format!("f{number}");
            split.add(&Sample { pid: 4711, time_ns: 1, period_ns: 1, function, ..Sample::default() });
        }
        assert_eq!(split.functions.len(), FUNCTIONS_MAX);
        let profile = split.profile(&Trial::default());
        assert_eq!(profile.functions.len(), SHOWN_MAX);
        assert!(profile.remarks.iter().any(|remark| remark.contains("more than 20000 functions")));
        assert_eq!(split.components.iter().sum::<u64>(), split.sampled_ns);
    }
}
