//! `cargo xtask interop`: Ringway with other implementations.
//!
//! Each scenario has its own folder with the server's configuration, database and log and the message traces
//! of all peers. `--reference` runs the scenarios with other programs instead of Ringway: Kamailio for the
//! server, baresip or linphonec for the phone. A failure then is an error of the scenario.

mod acme;
mod agent;
pub(crate) mod audio;
mod baresip;
mod browser;
pub(crate) mod calls;
pub(crate) mod certificates;
pub(crate) mod cluster;
mod crash;
pub(crate) mod database;
mod digest;
mod dns;
mod flows;
mod forwarding;
mod hep;
mod lab;
mod linphone;
mod nat;
mod operator;
mod pages;
mod phone;
mod presence;
mod provisioning;
mod relay;
pub(crate) mod server;
pub(crate) mod sipp;
mod softphone;
mod srtp;
mod stir;
mod tls;
mod trunk;
mod twinkle;

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ringway_test_support::namespace::{self, Namespace};
use ringway_test_support::process::Site;
use xtask::workspace::{Form, built_server, root, target_dir};

use crate::machine::Machine;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Part of Ringway under test [default: all]
    #[arg(value_enum)]
    group: Option<Group>,
    /// Only scenarios whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Print the names of the scenarios and run none
    #[arg(long)]
    list: bool,
    /// Keep the folders of all scenarios, not only of those that failed
    #[arg(long)]
    keep: bool,
    /// Run with other programs instead of Ringway, to test the scenarios themselves
    #[arg(long)]
    reference: bool,
    /// Test this program instead of building Ringway from this workspace
    #[arg(long, value_name = "PROGRAM", conflicts_with = "reference")]
    server: Option<PathBuf>,
    /// Test Ringway as users have it, with optimization
    #[arg(long, conflicts_with = "server")]
    release: bool,
    /// Length of the long call in minutes
    #[arg(long, value_name = "M", default_value_t = 0.4)]
    minutes: f64,
    /// Number of scenarios that run at a time; some run alone
    #[arg(long, value_name = "N", default_value_t = 5)]
    jobs: usize,
    /// Also scenarios that have a short form
    #[arg(long)]
    whole: bool,
}

/// Part of Ringway under test.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Group {
    /// `ringway serve`
    Server,
    /// `ringway call` and `ringway answer`
    Phone,
    /// Both over TLS
    Tls,
    /// Both with phones in a browser
    Browser,
    /// Several servers that share their registrations
    Cluster,
}

/// A test with real peers.
pub(crate) struct Scenario {
    name: String,
    /// Also runs with other programs instead of Ringway.
    reference: bool,
    /// Runs only if requested by name.
    on_request: bool,
    /// Runs only while no other does: it measures times, or needs what exists once on a machine.
    is_alone: bool,
    /// A short form of it runs instead, unless it is requested by name or all are (`--whole`).
    is_long: bool,
    body: Box<Body>,
}

/// Function that runs a scenario on its stage.
type Body = dyn Fn(&Stage) -> Result<()> + Send + Sync;

impl Scenario {
    pub(crate) fn new(
        name: impl Into<String>,
        body: impl Fn(&Stage) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            reference: true,
            on_request: false,
            is_alone: false,
            is_long: false,
            body: Box::new(body),
        }
    }

    /// The scenario with the machine as the server, named `NAME` and its own name.
    pub(crate) fn on(self, name: &str, machine: &Machine) -> Self {
        let (machine, body) = (machine.clone(), self.body);
        let on_machine = move |stage: &Stage| {
            let mut stage = stage.clone();
            stage.ringway = Ringway::Machine(machine.clone());
            body(&stage)
        };
        Self { name: format!("{name}/{}", self.name), body: Box::new(on_machine), ..self }
    }

    /// Marks the scenario as one that must not run beside others.
    pub(crate) fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// Marks the scenario as one with a short form.
    pub(crate) fn long(self) -> Self {
        Self { is_long: true, ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Variant of Ringway under test.
#[derive(Clone)]
pub(crate) enum Ringway {
    Program(PathBuf),
    /// Without an operating system, in an emulated PC.
    Machine(Machine),
    /// Other programs instead of Ringway.
    Others,
}

impl Ringway {
    /// The program, if that is under test.
    pub(crate) fn program(&self) -> Option<&Path> {
        match self {
            Self::Program(program) => Some(program),
            Self::Machine(_) | Self::Others => None,
        }
    }

    /// Address of this computer as seen by the server, if a phone's Contact must have it.
    ///
    /// For an emulated PC a phone with 127.0.0.1 as its contact is behind NAT. Over UDP it is reached at its
    /// source address; over TCP only as long as its connection lasts, and SIPp's connection ends with its
    /// REGISTERs.
    fn contact_for(&self, transport: Transport) -> Option<&'static str> {
        match (self, transport) {
            (Self::Machine(_), Transport::Tcp) => Some(Machine::HOST),
            (Self::Machine(_), Transport::Udp | Transport::Tls) | (Self::Program(_) | Self::Others, _) => {
                None
            }
        }
    }
}

/// Environment of a scenario: its folder, and the variant of Ringway.
#[derive(Clone)]
pub(crate) struct Stage {
    /// Own folder, empty at the start.
    pub(crate) folder: PathBuf,
    /// Committed data of the scenarios.
    data: PathBuf,
    /// Folder for files that are kept also after success.
    evidence: PathBuf,
    pub(crate) ringway: Ringway,
    /// Network namespace of the programs; `None`: that of this one.
    namespace: Option<Arc<str>>,
}

impl Stage {
    /// A stage in `folder` for peers of a server that another command has started.
    pub(crate) fn outside(folder: PathBuf) -> Self {
        let (data, evidence) = (root().join("tests/interop"), evidence());
        Self { folder, data, evidence, ringway: Ringway::Others, namespace: None }
    }

    /// A path inside the scenario's folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A stage for a part of the scenario, in a subfolder.
    pub(crate) fn within(&self, name: &str) -> Result<Self> {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder)?;
        Ok(Self { folder, ..self.clone() })
    }

    /// The stage for programs in a network namespace.
    pub(crate) fn inside(&self, namespace: &Namespace) -> Self {
        Self { namespace: Some(namespace.name().into()), ..self.clone() }
    }

    /// Command for a program of the stage.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        namespace::command(self.namespace.as_deref(), program)
    }

    /// Its folder and network namespace.
    pub(crate) fn site(&self) -> Site {
        Site { folder: self.folder.clone(), namespace: self.namespace.clone() }
    }

    /// Copies the committed file `from` and replaces each word (`@NAME@`) by its value.
    fn fill(&self, from: &str, words: &[(&str, String)], to: &Path) -> Result<()> {
        let file = self.data.join(from);
        let mut text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for (word, value) in words {
            text = text.replace(word, value);
        }
        std::fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
    }

    /// Keeps a copy of a file.
    fn keep(&self, file: &Path, name: &str) -> Result<()> {
        std::fs::create_dir_all(&self.evidence)?;
        std::fs::copy(file, self.evidence.join(name))
            .with_context(|| format!("cannot keep {}", file.display()))?;
        Ok(())
    }

    /// Keeps a text.
    fn keep_text(&self, text: &str, name: &str) -> Result<()> {
        std::fs::create_dir_all(&self.evidence)?;
        Ok(std::fs::write(self.evidence.join(name), format!("{text}\n"))?)
    }
}

/// Transport of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
    Tls,
}

impl Transport {
    /// Those that every peer has.
    const ALL: [Self; 2] = [Self::Udp, Self::Tcp];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let scenarios = chosen(args);
    if scenarios.is_empty() {
        bail!("no scenario has that name; `cargo xtask interop --list` prints them");
    }
    if args.list {
        for scenario in &scenarios {
            println!("{}", scenario.name);
        }
        return Ok(());
    }
    let ringway = match &args.server {
        _ if args.reference || scenarios.iter().all(|scenario| scenario.on_request) => Ringway::Others,
        Some(program) => Ringway::Program(
            program.canonicalize().with_context(|| format!("no program {}", program.display()))?,
        ),
        None => Ringway::Program(built_server(if args.release { Form::Release } else { Form::Debug })?),
    };
    let outcome = play("interop", &scenarios, ringway, args.jobs, args.keep);
    if evidence().is_dir() {
        println!("what the phones heard is in {}", evidence().display());
    }
    outcome
}

/// Runs scenarios, first those that run alone, then the others `jobs` at a time, and prints the result of
/// each; `what` is their common name. `keeps` all folders, not only of those that failed. If at most
/// [`SECOND_TRIES`] scenarios failed, they run a second time.
pub(crate) fn play(
    what: &str,
    scenarios: &[Scenario],
    ringway: Ringway,
    jobs: usize,
    keeps: bool,
) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix(&format!("ringway-{what}-")).tempdir()?;
    let started = Instant::now();
    let runner = Runner { keeps, ringway, scratch: scratch.path(), failed: Mutex::new(Vec::new()) };
    let (alone, mut beside): (Vec<_>, Vec<_>) = scenarios.iter().partition(|scenario| scenario.is_alone);
    // The longest begin first, so that the last one does not run alone. Otherwise the order stays.
    beside.sort_by_key(|scenario| !LONGEST.iter().any(|start| scenario.name.starts_with(start)));
    runner.run(&alone, 1);
    runner.run(&beside, jobs);
    let tried_again = runner.try_again(scenarios);
    let failed = runner.failed.into_inner().unwrap_or_default();
    if keeps || tried_again > 0 {
        println!("traces are kept in {}", scratch.keep().display());
    }
    let passed = scenarios.len() - failed.len();
    let second = tried_again.saturating_sub(failed.len());
    println!(
        "{what}: {passed} passed ({second} at the second try), {} failed in {:.0} s",
        failed.len(),
        started.elapsed().as_secs_f64()
    );
    if !failed.is_empty() {
        bail!("{what} failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Beginnings of the names of scenarios that take longer than twenty seconds.
const LONGEST: [&str; 8] = [
    "browser/",
    "cluster/rotated",
    "cluster/partition",
    "cluster/front/",
    "lab/run-",
    "phone/long-call",
    "relay/convert/",
    "tls/openssl/dialled",
];

/// Maximum number of failed scenarios that run a second time. The peers have race conditions of their own; a
/// fault of Ringway in every run, or in many scenarios, still fails.
const SECOND_TRIES: usize = 2;

/// Runs scenarios and prints their results.
struct Runner<'a> {
    keeps: bool,
    ringway: Ringway,
    scratch: &'a Path,
    /// Names of the failed scenarios; its lock also serialises the output.
    failed: Mutex<Vec<String>>,
}

impl Runner<'_> {
    /// Runs `jobs` at a time, in their order.
    fn run(&self, scenarios: &[&Scenario], jobs: usize) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.run_one(scenario, "");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(work);
            }
        });
    }

    /// Runs the failed ones of `scenarios` once more, one by one, if they are few. Returns their number.
    fn try_again(&self, scenarios: &[Scenario]) -> usize {
        let Ok(mut failed) = self.failed.lock() else { return 0 };
        let count = failed.len();
        if count > SECOND_TRIES {
            return count;
        }
        let names = std::mem::take(&mut *failed);
        drop(failed);
        for scenario in scenarios.iter().filter(|scenario| names.contains(&scenario.name)) {
            println!("a second try of {}", scenario.name);
            self.run_one(scenario, "-second");
        }
        count
    }

    /// Runs one scenario in a folder with its name and `suffix`.
    fn run_one(&self, scenario: &Scenario, suffix: &str) {
        let name = scenario.name.replace('/', "-") + suffix;
        let folder = self.scratch.join(&name);
        let stage = Stage {
            data: root().join("tests/interop"),
            evidence: evidence().join(&name),
            ringway: self.ringway.clone(),
            folder,
            namespace: None,
        };
        // Removes files of an earlier run.
        let _ = std::fs::remove_dir_all(&stage.evidence);
        let begun = Instant::now();
        let outcome =
            std::fs::create_dir_all(&stage.folder).map_err(Into::into).and_then(|()| (scenario.body)(&stage));
        let Ok(mut failed) = self.failed.lock() else { return };
        println!("{} {:6.1} s  {}", mark(outcome.is_ok()), begun.elapsed().as_secs_f64(), scenario.name);
        if let Err(error) = outcome {
            println!("{}", indented(&format!("{error:#}")));
            print_traces(&stage.folder);
            failed.push(scenario.name.clone());
        } else if !self.keeps {
            // The parent folder is removed at the end.
            let _ = std::fs::remove_dir_all(&stage.folder);
        }
    }
}

fn chosen(args: &Args) -> Vec<Scenario> {
    let mut all = Vec::new();
    let has = |group| args.group.is_none_or(|chosen| chosen == group);
    if has(Group::Server) {
        all.extend(calls::scenarios());
        all.extend(trunk::next_hop_scenarios());
        all.extend(lab::run_scenarios());
        all.extend(agent::scenarios());
        all.extend(baresip::scenarios());
        all.extend(linphone::scenarios());
        all.extend(calls::restart_scenarios());
        all.extend(digest::form_scenarios());
        all.extend(digest::scenarios());
        all.extend(dns::scenarios());
        all.extend(provisioning::migrated_scenarios());
        all.extend(provisioning::scenarios());
        all.extend(trunk::scenarios());
        all.extend(stir::scenarios());
        all.extend(flows::scenarios());
        all.extend(relay::scenarios());
        all.extend(acme::scenarios());
        all.extend(operator::scenarios());
        all.extend(crash::scenarios());
        all.extend(pages::scenarios());
        all.extend(forwarding::scenarios());
        all.extend(hep::scenarios());
        all.extend(presence::scenarios());
        all.extend(lab::scenarios());
    }
    if has(Group::Phone) {
        all.extend(srtp::scenarios());
        all.extend(phone::scenarios(Duration::from_secs_f64(args.minutes * 60.0)));
    }
    if has(Group::Tls) {
        all.extend(tls::scenarios());
    }
    if has(Group::Browser) {
        all.extend(browser::scenarios());
    }
    if has(Group::Cluster) {
        all.extend(cluster::scenarios());
    }
    all.retain(|scenario| match &args.only {
        Some(only) => scenario.name.contains(only.as_str()),
        None => !scenario.on_request && (args.whole || !scenario.is_long),
    });
    all.retain(|scenario| scenario.reference || !args.reference);
    all
}

/// Folder of the recordings.
fn evidence() -> PathBuf {
    target_dir().join("interop")
}

fn mark(passed: bool) -> &'static str {
    match (passed, std::io::stdout().is_terminal()) {
        (true, true) => "\x1b[32mok    \x1b[0m",
        (true, false) => "ok    ",
        (false, true) => "\x1b[31mFAILED\x1b[0m",
        (false, false) => "FAILED",
    }
}

/// Prints the ends of all files of a failed scenario: messages and error output of the peers.
fn print_traces(folder: &Path) {
    const LINES: usize = 40;
    const WIDTH: usize = 300;
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let is_trace =
            file.extension().is_some_and(|kind| kind == "err" || kind == "messages" || kind == "out");
        let Ok(bytes) = std::fs::read(&file) else { continue };
        if !is_trace || bytes.is_empty() {
            continue;
        }
        let text = String::from_utf8_lossy(&bytes).replace(['\r', '\x1b'], "");
        let lines: Vec<String> = text.lines().map(|line| line.chars().take(WIDTH).collect()).collect();
        let shown = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n");
        println!("    -- end of {}", file.display());
        println!("{}", indented(&shown));
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
