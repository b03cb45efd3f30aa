//! `ringway lab run`, `ringway lab list` and `ringway lab report`: campaigns of experiments, the operator's database for
//! those that read passwords from one, and one HTML file from the results.

use super::args::ReportArgs;
use super::args::{ListArgs, RunArgs};
use super::{note, summary};
use crate::failure::Failure;
use crate::output;
use ringway_lab::agent::{AgentAccess, AgentKey};
use ringway_lab::campaign::experiment::{self, Experiment};
use ringway_lab::campaign::list as campaigns;
use ringway_lab::campaign::target::{Site, Target, UserDatabase};
use ringway_lab::campaign::{Observer, Options, Totals, compare, noise, run as start};
use ringway_lab::record::{self, Record, Writer};
use ringway_lab::report;
use ringway_lab::server::{Database, Environment, find_program};
use ringway_linux::process::{Signal, watch};
use ringway_sql::connection::DatabaseUrl;
use ringway_sql::provisioning::{remove_tables, table_names};
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{IsTerminal, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Prints the experiments, the campaigns, and what the documents have besides.
pub(crate) fn list(args: &ListArgs) -> Result<(), Failure> {
    let all = experiment::built_in().map_err(|error| Failure::failed(format!("{error:#}")))?;
    for experiment in all {
        let Experiment { name, title, reproduces, .. } = &experiment;
        if args.json {
            let chart = experiment.kind.chart();
            let line = json!({ "name": name, "title": title, "reproduces": reproduces, "chart": chart });
            output::line(&line.to_string())?;
        } else {
            output::line(&format!("{name:<20} {title}\n{:<20} {reproduces}", ""))?;
        }
    }
    let campaigns = campaigns::built_in().map_err(|error| Failure::failed(format!("{error:#}")))?;
    for campaigns::Campaign { name, title, reproduces, experiments } in campaigns {
        if args.json {
            let line =
                json!({ "name": name, "title": title, "reproduces": reproduces, "experiments": experiments });
            output::line(&line.to_string())?;
        } else {
            let list = experiments.join(", ");
            output::line(&format!("{name:<20} {title}: {list}\n{:<20} {reproduces}", ""))?;
        }
    }
    for (title, reproduces) in campaigns::NOT_YET {
        if args.json {
            output::line(&json!({ "not_yet": true, "title": title, "reproduces": reproduces }).to_string())?;
        } else {
            output::line(&format!("{:<20} {title}\n{:<20} {reproduces}", "not yet", ""))?;
        }
    }
    Ok(())
}

/// Runs a campaign, and prints its summary.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let mut experiments = experiments(args)?;
    let targets: Result<Vec<Target>, _> =
        args.target.iter().map(|name| Target::parse(name, &args.allow_remote)).collect();
    let mut targets = targets.map_err(|error| Failure::usage(format!("--target: {error:#}")))?;
    if let (Some(target), None) = (targets.iter().find(|target| target.is_at_agent()), &args.agent_key) {
        let name = &target.name;
        return Err(Failure::usage(format!(
            "--target {name}: it is at an agent; give its key with --agent-key FILE"
        )));
    }
    let earlier = args.compare.as_deref().map(|folder| earlier(folder).map(|records| (folder, records)));
    let earlier = earlier.transpose()?;
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::failed(format!("cannot make a temporary folder: {error}")))?;
    let options = options(args)?;
    let mut site = site(args, folder.path())?;
    if !experiments.iter().any(|experiment| options.has_trials(experiment)) {
        return Err(Failure::usage(
            "--transport and --digest: no trial is left; `ringway lab run` without them runs all variants",
        ));
    }
    if experiments.iter().any(|experiment| options.reads_database(experiment)) {
        site.database = open(args, folder.path())?;
    }
    let missing: Vec<String> = targets
        .iter()
        .filter_map(|target| target.obstacle(&site))
        .chain(experiments.iter().filter_map(|experiment| options.obstacle(experiment, &site)))
        .collect();
    targets.retain(|target| target.obstacle(&site).is_none());
    experiments.retain(|experiment| options.obstacle(experiment, &site).is_none());
    for obstacle in &missing {
        note(obstacle);
    }
    if targets.is_empty() {
        return Err(Failure::failed("no target is left to measure"));
    }
    if experiments.is_empty() {
        return Err(Failure::failed("no experiment is left to measure"));
    }
    let out = args.out.clone().unwrap_or_else(default_out);
    let writer = Writer::create(&out).map_err(|error| Failure::usage(format!("--out: {error:#}")))?;
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    let mut screen = Screen {
        writer,
        signals,
        is_interrupted: false,
        is_json: args.json,
        records: Vec::new(),
        step: None,
        begun: Instant::now(),
    };
    let ended = start(&experiments, &targets, &site, &options, &mut screen);
    screen.end_line();
    let cleared = site.database.as_ref().map_or(Ok(()), UserDatabase::clear);
    let (totals, measurements) = ended.map_err(|error| Failure::failed(format!("{error:#}")))?;
    let against = earlier
        .as_ref()
        .map(|(folder, records)| compare::campaigns(&measurements, records, &folder.display().to_string()));
    let records = std::mem::take(&mut screen.records);
    for comparison in against.iter().flatten() {
        let recorded = screen.record(Record::Comparison(comparison.clone()));
        recorded.map_err(|error| Failure::failed(format!("{error:#}")))?;
    }
    if !args.json {
        output::line(&summary::text(&records, against.as_deref().unwrap_or_default(), args.quick))?;
        output::line(&format!("results: {}", screen.writer.path().display()))?;
    }
    cleared.map_err(|error| Failure::failed(format!("{error:#}")))?;
    judge(&totals, &missing)
}

fn experiments(args: &RunArgs) -> Result<Vec<Experiment>, Failure> {
    let mut found = Vec::new();
    let mut errors = Vec::new();
    for name in &args.experiments {
        match campaigns::find(name) {
            // An experiment of two campaigns is done once.
            Ok(list) => {
                for experiment in list {
                    if found.iter().all(|one: &Experiment| one.source != experiment.source) {
                        found.push(experiment);
                    }
                }
            }
            Err(error) => errors.extend(format!("{error:#}").lines().map(str::to_owned)),
        }
    }
    if errors.is_empty() { Ok(found) } else { Err(Failure::configuration(errors)) }
}

/// Records to compare with; refuses those of another machine before anything is measured.
fn earlier(folder: &Path) -> Result<Vec<Record>, Failure> {
    let (machine, ..) = noise::machine(Duration::ZERO);
    let name = folder.display().to_string();
    let records = record::read(folder)
        .and_then(|records| compare::same_machine(&machine.id, &records, &name).map(|()| records));
    records.map_err(|error| Failure::usage(format!("--compare: {error:#}")))
}

fn site(args: &RunArgs, folder: &Path) -> Result<Site, Failure> {
    let ringway = std::env::current_exe()
        .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
    let password = args.password_file.as_deref().map(super::users::password).transpose()?.unwrap_or_default();
    let environment = Environment {
        ringway,
        kamailio: find_program("kamailio"),
        opensips: find_program("opensips"),
        floor_command: Environment::no_floor,
        folder: folder.to_path_buf(),
    };
    let agents = args.agent_key.as_deref().map(|file| AgentKey::read(file).and_then(AgentAccess::new));
    let agents = agents.transpose().map_err(|error| Failure::usage(format!("--agent-key: {error:#}")))?;
    let (domain, sources) = (args.domain.clone(), args.sources);
    Ok(Site { environment, domain, password, database: None, sources, agents })
}

fn options(args: &RunArgs) -> Result<Options, Failure> {
    if args.seconds.is_some_and(|seconds| !(0.1..=3600.0).contains(&seconds)) {
        return Err(Failure::usage("--seconds: give 0.1 to 3600"));
    }
    let words = std::env::args().skip(1).map(|word| summary::quoted(&word)).collect::<Vec<_>>();
    Ok(Options {
        is_quick: args.quick,
        seconds: args.seconds,
        repeat: args.repeat,
        carrier: args.transport.map(|carrier| carrier.carrier()),
        digest: args.digest.map(|digest| digest.algorithm()),
        sources: args.sources,
        patience: args.patience,
        is_profiled: args.profile,
        allowed_hosts: args.allow_remote.clone(),
        fail_if: args.fail_if.clone(),
        started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        command: format!("ringway {}", words.join(" ")),
        further: further(args),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Options that change what is measured or judged, and that the library does not write itself.
fn further(args: &RunArgs) -> String {
    let mut words = Vec::new();
    let mut add = |option: &str, value: String| words.push(format!(" {option} {}", summary::quoted(&value)));
    if args.sources != 1 {
        add("--sources", args.sources.to_string());
    }
    if !args.patience.is_zero() {
        add("--patience", format!("{}s", args.patience.as_secs_f64()));
    }
    if args.domain != RunArgs::DOMAIN {
        add("--domain", args.domain.clone());
    }
    args.password_file.iter().for_each(|file| add("--password-file", file.display().to_string()));
    args.database.iter().for_each(|url| add("--database", url.clone()));
    let password_file = args.database_password_file.iter();
    password_file.for_each(|file| add("--database-password-file", file.display().to_string()));
    args.agent_key.iter().for_each(|file| add("--agent-key", file.display().to_string()));
    args.allow_remote.iter().for_each(|host| add("--allow-remote", host.to_string()));
    args.fail_if.iter().for_each(|condition| add("--fail-if", condition.to_string()));
    args.compare.iter().for_each(|folder| add("--compare", folder.display().to_string()));
    words.concat()
}

fn default_out() -> PathBuf {
    Path::new("results").join(jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string())
}

/// Exit status of a campaign; the reasons were printed when they occurred, but for the conditions.
fn judge(totals: &Totals, missing: &[String]) -> Result<(), Failure> {
    for condition in &totals.conditions {
        note(&format!("FAILED: {condition}"));
    }
    if totals.interrupted {
        note("interrupted; the results so far are kept");
    }
    let is_done = !totals.interrupted && totals.failed == 0;
    if is_done && totals.conditions.is_empty() && missing.is_empty() { Ok(()) } else { Err(Failure::said()) }
}

/// Receiver of the results: the file, and a line of progress on standard error.
struct Screen {
    writer: Writer,
    signals: Receiver<Signal>,
    is_interrupted: bool,
    is_json: bool,
    records: Vec<Record>,
    /// Step that is shown, its share and the seconds that were left at its start.
    step: Option<(String, f64, f64)>,
    begun: Instant,
}

impl Observer for Screen {
    fn record(&mut self, record: Record) -> anyhow::Result<()> {
        self.writer.write(&record)?;
        if self.is_json {
            output::line(&serde_json::to_string(&record)?)?;
        }
        self.records.push(record);
        Ok(())
    }

    fn step(&mut self, what: &str, done: f64, seconds_left: f64) {
        self.step = Some((what.to_owned(), done, seconds_left));
        self.begun = Instant::now();
        self.show();
    }

    fn tick(&mut self) {
        if std::io::stderr().is_terminal() {
            self.show();
        }
    }

    fn warn(&mut self, text: &str) {
        self.end_line();
        note(text);
    }

    fn is_interrupted(&mut self) -> bool {
        if let Ok(Signal::Terminate) = self.signals.try_recv() {
            self.is_interrupted = true;
        }
        self.is_interrupted
    }
}

impl Screen {
    /// Shows the step; on a terminal in place of the last one.
    fn show(&self) {
        let Some((what, done, left)) = &self.step else { return };
        let left = (left - self.begun.elapsed().as_secs_f64()).max(0.0);
        let text = format!("[{:3.0} %, {} left] {what}", done * 100.0, summary::duration(left));
        let mut out = std::io::stderr();
        // Progress that cannot be written is not missed.
        let _ = match out.is_terminal() {
            true => write!(out, "\r\x1b[K{text}").and_then(|()| out.flush()),
            false => writeln!(out, "{text}"),
        };
    }

    fn end_line(&self) {
        if std::io::stderr().is_terminal() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Reads the results and writes the report.
pub(crate) fn write_report(args: &ReportArgs) -> Result<(), Failure> {
    let out = out(args)?;
    let mut records = Vec::new();
    for results in &args.results {
        let more = record::read(results).map_err(|error| Failure::usage(format!("{error:#}")))?;
        records.extend(more);
    }
    let (records, notes) = record::without_duplicates(records);
    for text in notes {
        note(&text);
    }
    let html = report::html(&records).map_err(|error| Failure::usage(format!("{error:#}")))?;
    fs::write(&out, &html)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", out.display())))?;
    if let Some(folder) = &args.pictures {
        write_pictures(folder, &records)?;
    }
    output::line(&format!("{}: {} records, {} kB", out.display(), records.len(), html.len().div_ceil(1000)))?;
    Ok(())
}

/// Writes the charts into a folder.
fn write_pictures(folder: &Path, records: &[record::Record]) -> Result<(), Failure> {
    let failed = |path: &Path, error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for picture in report::pictures(records).map_err(|error| Failure::usage(format!("{error:#}")))? {
        let path = folder.join(picture.name).with_extension("svg");
        fs::write(&path, picture.svg).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// File that is written: never one of the results.
fn out(args: &ReportArgs) -> Result<PathBuf, Failure> {
    let default = || {
        let first = args.results.first().map_or(Path::new("."), PathBuf::as_path);
        let folder = if first.is_dir() { Some(first) } else { first.parent() };
        folder.unwrap_or(Path::new(".")).join(REPORT)
    };
    let out = args.out.clone().unwrap_or_else(default);
    let same = |path: &Path| matches!((path.canonicalize(), out.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if args.results.iter().any(|results| same(results) || same(&results.join(record::FILE))) {
        return Err(Failure::usage(format!(
            "--out {}: these are the results; name another file",
            out.display()
        )));
    }
    Ok(out)
}

/// Name of the report in the folder of the results.
const REPORT: &str = "report.html";

/// The database of `--database`, which must be empty: its tables are removed after each use. The password is copied into `folder`.
pub(super) fn open(args: &RunArgs, folder: &Path) -> Result<Option<UserDatabase>, Failure> {
    let Some(text) = &args.database else { return Ok(None) };
    let refused = |why: &dyn std::fmt::Display| Failure::usage(format!("--database: {why}"));
    let mut url = DatabaseUrl::parse(text).map_err(|error| refused(&error))?;
    if url.has_password() {
        let why = "the URL is written into the results; give its password with --database-password-file";
        return Err(refused(&why));
    }
    let shown = url.shown();
    let mut password_file = None;
    if let Some(file) = &args.database_password_file {
        let password = super::users::password(file)?;
        let copied = copy(&password, folder);
        password_file = Some(
            copied.map_err(|error| Failure::failed(format!("cannot copy {}: {error}", file.display())))?,
        );
        url = url.with_password(&password);
    }
    // As the server, which has its defaults.
    if !url.is_loopback() {
        url = url.with_tls(ringway_tls::authorities("ca", None).map_err(|error| refused(&error))?);
    }
    let names = table_names(&url).map_err(|error| Failure::failed(format!("--database {shown}: {error}")))?;
    if !names.is_empty() {
        let why = format!(
            "{shown} is not empty, it has {}; the lab removes all users that it finds in its database: make an empty one",
            names.join(", ")
        );
        return Err(refused(&why));
    }
    let database = Database { url: shown, password_file };
    Ok(Some(UserDatabase::new(database, Box::new(move || Ok(remove_tables(&url)?)))))
}

/// Writes a password as the server wants it: in a file that others cannot read.
fn copy(password: &str, folder: &Path) -> std::io::Result<PathBuf> {
    let path = folder.join("database-password");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    writeln!(file, "{password}")?;
    Ok(path)
}
