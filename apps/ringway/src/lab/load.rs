//! `ringway lab load`: one load by hand; `ringway lab scenario`: scenario files of SIPp.

use super::args::{CalledArg, LoadArgs, ScenarioArgs};
use super::view::{self, Snapshot};
use super::{note, sum, users};
use crate::failure::Failure;
use crate::output;
use clap::ValueEnum;
use ringway_lab::load::{
    Files, Length, LoadTls, Plan, Run, Session, Spacing, Statistics, Stop, Taken, Timers, local_towards,
    resolve,
};
use ringway_lab::sipp_xml::{
    self, CredentialColumns, FILE_BYTES_MAX, InputLists, Recordings, ScenarioFile, Style,
};
use ringway_lab::times::SECONDS_MAX;
use ringway_lab::{process, text_file};
use ringway_linux::process::{Signal, watch};
use ringway_tls::{Observer, PeerCa, Role, TlsFiles};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// Offers the load, prints its progress and its result.
pub(crate) fn run(args: &LoadArgs) -> Result<(), Failure> {
    let plan = plan(args)?;
    plan.check().map_err(|error| Failure::usage(format!("{error:#}")))?;
    let server_cpu = || args.pid.map(process::cpu_ns_of).transpose();
    server_cpu().map_err(|error| Failure::usage(format!("--pid: {error:#}")))?;
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    let mut progress = Progress::new(args.json);
    let mut log = ScenarioLog::open(args.log_file.as_deref())?;
    if let Some(users) = plan.registered_before() {
        progress.say(&format!("registering {} users before the load", users.count()));
    }
    let session = open_unless_interrupted(&plan, &signals)?;
    let session = match (session, args.start_at) {
        (Some(session), Some(at)) => wait_until(at, session, &signals, &progress)?,
        (session, _) => session,
    };
    let cpu_before = server_cpu().ok().flatten();
    let mut started_at = None;
    let (statistics, interrupted_at, session) = match session {
        Some(session) => {
            started_at = Some(sum::seconds_of(SystemTime::now()));
            let load = session.start(plan.rate, plan.length).map_err(failed)?;
            let (statistics, interrupted_at, session) =
                attend(load, &plan, &signals, &mut progress, &mut log)?;
            (statistics, interrupted_at, Some(session))
        }
        None => (Statistics::default(), Some(Duration::ZERO), None),
    };
    progress.end();
    log.end();
    let cpu_ns = match (cpu_before, server_cpu().ok().flatten()) {
        (Some(before), Some(after)) => Some(after.saturating_sub(before)),
        _ => None,
    };
    let failed_conditions: Vec<String> =
        args.fail_if.iter().filter(|limit| limit.is_met(&statistics)).map(ToString::to_string).collect();
    let result = view::Result {
        plan: &plan,
        statistics: &statistics,
        server_cpu_ns: cpu_ns,
        started_at,
        interrupted_at,
        failed: &failed_conditions,
    };
    output::line(&if args.json { result.json() } else { result.lines().join("\n") })?;
    if let Some(session) = session.filter(|_| statistics.target_loss().is_none()) {
        remove_bindings(session, &signals)?;
    }
    if interrupted_at.is_some() {
        return Err(Failure::interrupted());
    }
    if args.pid.is_some() && cpu_ns.is_none() {
        return Err(Failure::failed("the process of --pid ended during the run"));
    }
    let is_lost = statistics.target_loss().is_some();
    let is_valid = statistics.health().invalid_because().is_none();
    if failed_conditions.is_empty() && !is_lost && is_valid && !result.is_fruitless() {
        Ok(())
    } else {
        Err(Failure::said())
    }
}

/// Opens the load's sockets and registers users. `None`: a signal came first.
fn open_unless_interrupted(plan: &Plan, signals: &Receiver<Signal>) -> Result<Option<Session>, Failure> {
    let (plan, stop) = (plan.clone(), Stop::default());
    let stopped = stop.clone();
    let opening = thread::spawn(move || Session::open_unless(&plan, &stopped));
    let opened = attend_thread(opening, signals, &mut || stop.stop())?;
    match opened.map_err(failed)? {
        Some(session) if stop.is_stopped() => remove_bindings(session, signals).map(|()| None),
        opened => Ok(opened),
    }
}

/// Waits for the time of `--start-at`. `None`: a signal came first.
fn wait_until(
    at: SystemTime,
    session: Session,
    signals: &Receiver<Signal>,
    progress: &Progress,
) -> Result<Option<Session>, Failure> {
    let now = SystemTime::now();
    let Ok(left) = at.duration_since(now) else {
        let late = now.duration_since(at).unwrap_or_default().as_secs_f64();
        remove_bindings(session, signals)?;
        let why =
            format!("--start-at: the time was {late:.1} s ago when the users were ready; give a later one");
        return Err(Failure::failed(why));
    };
    progress.say(&format!("waiting {:.1} s for the start", left.as_secs_f64()));
    loop {
        if is_interrupted(signals) {
            return remove_bindings(session, signals).map(|()| None);
        }
        match at.duration_since(SystemTime::now()) {
            Ok(left) if left > Duration::ZERO => thread::sleep(left.min(LOOK_EVERY)),
            Ok(_) | Err(_) => return Ok(Some(session)),
        }
    }
}

/// Removes the bindings that the load needed. Those that remain are named.
fn remove_bindings(mut session: Session, signals: &Receiver<Signal>) -> Result<(), Failure> {
    let count = session.bindings();
    if count > NOTED_FROM {
        note(&format!("removing the bindings of {count} users; a second signal ends it"));
    }
    let removing = thread::spawn(move || session.remove_bindings());
    if let Err(error) = attend_thread(removing, signals, &mut || {})? {
        note(&format!("{error:#}"));
    }
    Ok(())
}

/// Waits for a thread. The first signal calls `stop`, the second one ends the run.
fn attend_thread<T>(
    thread: JoinHandle<T>,
    signals: &Receiver<Signal>,
    stop: &mut dyn FnMut(),
) -> Result<T, Failure> {
    let mut is_stopped = false;
    while !thread.is_finished() {
        if is_interrupted(signals) {
            if is_stopped {
                return Err(Failure::interrupted());
            }
            is_stopped = true;
            stop();
        }
        thread::sleep(LOOK_EVERY);
    }
    thread.join().map_err(|_| Failure::failed("a thread of the load generator panicked"))
}

fn failed(error: anyhow::Error) -> Failure {
    Failure::failed(format!("{error:#}"))
}

/// Shows the progress to the end. Also returns the time after which a signal ended the run.
fn attend(
    load: Run,
    plan: &Plan,
    signals: &Receiver<Signal>,
    progress: &mut Progress,
    log: &mut ScenarioLog,
) -> Result<(Statistics, Option<Duration>, Session), Failure> {
    let begun = Instant::now();
    let mut interrupted_at = None;
    let mut next = progress.interval();
    while !load.is_done() {
        let elapsed = begun.elapsed();
        if is_interrupted(signals) {
            if interrupted_at.is_some() {
                return Err(Failure::interrupted());
            }
            interrupted_at = Some(elapsed.min(plan.length));
            load.stop();
            progress.note_interruption();
        }
        if elapsed >= next {
            let mut statistics = load.statistics();
            if let Some(length) = interrupted_at {
                statistics.interrupt(length);
            }
            progress.show(&Snapshot { plan, statistics: &statistics, elapsed, interrupted_at })?;
            next += progress.interval();
        }
        log.write(load.take_log())?;
        thread::sleep(LOOK_EVERY);
    }
    log.write(load.take_log())?;
    let (mut statistics, session) = load.finish_session().map_err(failed)?;
    if let Some(length) = interrupted_at {
        statistics.interrupt(length);
    }
    let last = Snapshot { plan, statistics: &statistics, elapsed: begun.elapsed(), interrupted_at };
    progress.show(&last)?;
    Ok((statistics, interrupted_at, session))
}

fn is_interrupted(signals: &Receiver<Signal>) -> bool {
    signals.try_recv() == Ok(Signal::Terminate)
}

fn plan(args: &LoadArgs) -> Result<Plan, Failure> {
    let flow = args.scenario.flow();
    let lists = users::lists(args)?;
    let files = files(args, &lists)?;
    let columns = files.as_ref().and_then(|(_, columns)| *columns);
    let files = files.map(|(files, _)| files);
    let (users, peers) = users::users(args, files.as_ref(), &lists, columns)?;
    if !(args.seconds.is_finite() && args.seconds > 0.0 && args.seconds <= SECONDS_MAX) {
        return Err(Failure::usage(format!("--seconds: give a number above 0 and up to {SECONDS_MAX}")));
    }
    let target =
        resolve(&args.target, &args.allow_remote).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Plan {
        transport: args.transport.transport(),
        tls: tls(args)?,
        connections: args.connections.connections(),
        called: args.called.map(CalledArg::called).unwrap_or_default(),
        is_outbound_proxy: args.outbound_proxy,
        honours_retry_after: args.oc,
        allowed_hosts: args.allow_remote.clone(),
        files,
        rate: args.rate,
        spacing: if args.poisson { Spacing::Poisson } else { Spacing::Fixed },
        length: Duration::from_secs_f64(args.seconds),
        domain: args.domain.clone(),
        local: args.local.unwrap_or_else(|| local_towards(target)),
        sources: args.sources,
        sockets: args.sockets,
        threads: args.threads,
        ring: args.ring,
        talk: args.talk,
        media: args.media.media_use(args.suite),
        timers: Timers { t1: args.t1, ..Timers::default() },
        ..Plan::new(target, flow, users, peers)
    })
}

/// Certificates for TLS.
fn tls(args: &LoadArgs) -> Result<Option<LoadTls>, Failure> {
    if !args.transport.transport().is_secure() {
        return Ok(None);
    }
    let defaults = TlsFiles::default();
    let files = TlsFiles {
        certificate: args.certificate.clone().zip(args.private_key.clone()),
        peer_ca: args.ca.clone().map_or(PeerCa::System, PeerCa::File),
        session_timeout: defaults.session_timeout.filter(|_| !args.no_resumption),
        offer: args.tls.offer()?,
        ..defaults
    };
    let loaded = LoadTls::load(&files, args.server_name.clone(), Arc::new(FirstFailure::default()));
    loaded.map(Some).map_err(|error| Failure::usage(format!("{error:#}")))
}

/// Reports the first failed handshake; the others are counted.
#[derive(Default)]
struct FirstFailure(AtomicBool);

impl Observer for FirstFailure {
    fn failed(&self, remote: SocketAddr, _role: Role, reason: &str) {
        if !self.0.swap(true, Ordering::Relaxed) {
            eprintln!("ringway: TLS with {remote} failed: {reason}");
        }
    }
}

/// Number of bindings whose removal takes a second or more.
const NOTED_FROM: u32 = 2_000;
/// Interval at which signals and the end are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Writes a built-in scenario to standard output.
pub(super) fn run_scenario(args: &ScenarioArgs) -> Result<(), Failure> {
    let value = args.scenario.to_possible_value();
    let name = value.as_ref().map_or("", |value| value.get_name());
    let flow = args.scenario.flow();
    let classic = match args.callee {
        false => flow.caller(args.talk),
        true => flow
            .callee(args.ring)
            .ok_or_else(|| Failure::usage(format!("nobody is called in {name}; leave out --callee")))?,
    };
    let scenario = classic.scenario().map_err(|error| Failure::failed(error.to_string()))?;
    let style = Style { name, domain: &args.domain, is_challenged: args.digest };
    Ok(output::line(sipp_xml::write(&scenario, style).trim_end())?)
}

/// Scenarios of `--scenario-file` and `--callee-file`, and the columns of the credentials that the callers' one names.
fn files(args: &LoadArgs, lists: &InputLists) -> Result<Option<(Files, Option<CredentialColumns>)>, Failure> {
    let Some(file) = &args.scenario_file else { return Ok(None) };
    let ScenarioFile { scenario: caller, credentials } = read(file, args.talk, lists)?;
    let callee = args.callee_file.as_deref().map(|file| read(file, args.ring, lists)).transpose()?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files = Files::new(name, caller, callee.map(|file| file.scenario));
    files.map(|files| Some((files, credentials))).map_err(|error| {
        Failure::usage(format!("{error}; --scenario-file is of the caller, --callee-file of the called user"))
    })
}

fn read(file: &Path, pause: Length, lists: &InputLists) -> Result<ScenarioFile, Failure> {
    let text = text_file::read_xml(file, FILE_BYTES_MAX)
        .map_err(|error| Failure::usage(format!("{error:#}; give a scenario file of SIPp")))?;
    let mut recordings = Recordings::of(file);
    let read = sipp_xml::read_with(&text, pause, lists, &mut recordings)
        .map_err(|error| Failure::usage(format!("{}:{}: {}", file.display(), error.line, error.reason)))?;
    for note in recordings.notes() {
        eprintln!("ringway: {note}");
    }
    Ok(read)
}

/// Output of the lines of `<log>` and `<warning>`.
struct ScenarioLog {
    file: Option<(PathBuf, File)>,
    lines: u64,
    left_out: u64,
}

impl ScenarioLog {
    fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let open = |path: &Path| match File::create(path) {
            Ok(file) => Ok((path.to_owned(), file)),
            Err(error) => Err(Failure::usage(format!("--log-file {}: {error}", path.display()))),
        };
        Ok(Self { file: path.map(open).transpose()?, lines: 0, left_out: 0 })
    }

    fn write(&mut self, taken: Taken) -> Result<(), Failure> {
        self.left_out += taken.left_out;
        for line in taken.lines {
            let lines_max = if self.file.is_some() { FILE_LINES_MAX } else { ERROR_LINES_MAX };
            if self.lines == lines_max {
                self.left_out += 1;
                continue;
            }
            self.lines += 1;
            let kind = if line.is_warning { "warning" } else { "log" };
            let text = format!("{kind}: attempt {}: {}", line.attempt, line.text.escape_debug());
            match &mut self.file {
                Some((path, file)) => writeln!(file, "{text}")
                    .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?,
                None => eprintln!("{text}"),
            }
        }
        Ok(())
    }

    /// Says how many lines were left out.
    fn end(&self) {
        if self.left_out > 0 {
            note(&format!("{} more lines of the scenario's log were left out", self.left_out));
        }
    }
}

/// Maximum number of lines in `--log-file`.
const FILE_LINES_MAX: u64 = 1_000_000;
/// Maximum number of lines on standard error.
const ERROR_LINES_MAX: u64 = 100;

/// Output of the progress.
enum Progress {
    /// Records on standard output; the number of the last one.
    Json(u64),
    /// Lines on standard error; the number of the last one.
    Lines(u64),
    /// View on the terminal of standard error.
    Screen(Screen),
}

impl Progress {
    fn new(is_json: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|kind| kind == "dumb");
        match is_json {
            true => Self::Json(0),
            false if io::stderr().is_terminal() && !is_dumb => Self::Screen(Screen::default()),
            false => Self::Lines(0),
        }
    }

    /// Time between two calls of [`Progress::show`].
    const fn interval(&self) -> Duration {
        match self {
            Self::Json(_) | Self::Lines(_) => Duration::from_secs(1),
            Self::Screen(_) => REDRAW_EVERY,
        }
    }

    /// Writes a line.
    fn say(&self, text: &str) {
        match self {
            Self::Json(_) => {}
            // Progress that cannot be written is not missed.
            Self::Lines(_) | Self::Screen(_) => drop(writeln!(io::stderr(), "{text}")),
        }
    }

    /// Shows the state.
    fn show(&mut self, snapshot: &Snapshot<'_>) -> Result<(), Failure> {
        match self {
            Self::Json(second) => {
                *second += 1;
                output::line(&view::second_json(*second, snapshot.statistics))?;
            }
            Self::Lines(second) => {
                *second += 1;
                let line = view::second_line(*second, snapshot.plan.length, snapshot.statistics);
                drop(writeln!(io::stderr(), "{line}"));
            }
            Self::Screen(screen) => screen.show(snapshot),
        }
        Ok(())
    }

    /// Writes that open attempts are being ended; the view has it in its progress line.
    fn note_interruption(&self) {
        if let Self::Lines(_) = self {
            self.say("interrupted: ending open attempts; a second signal ends at once, without a result");
        }
    }

    /// Removes the view.
    fn end(&mut self) {
        if let Self::Screen(screen) = self {
            screen.draw(&[]);
        }
    }
}

/// View on a terminal.
#[derive(Default)]
struct Screen {
    /// Number of lines of the last drawing.
    drawn: usize,
    /// Samples of the last second.
    samples: VecDeque<view::Sample>,
}

impl Screen {
    fn show(&mut self, snapshot: &Snapshot<'_>) {
        let now = view::Sample::of(snapshot);
        let before = self.samples.front().copied().unwrap_or_default();
        self.samples.push_back(now);
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.draw(&view::screen(snapshot, &before));
    }

    /// Draws lines over the last ones, cut to the size of the terminal so that none is wrapped or scrolled away.
    fn draw(&mut self, lines: &[String]) {
        let (columns, rows) = crossterm::terminal::size().unwrap_or((80, 24));
        let shown = lines.iter().take(usize::from(rows.saturating_sub(1)));
        let mut out = String::new();
        if self.drawn > 0 {
            out.push_str(&format!("\x1b[{}A", self.drawn));
        }
        self.drawn = shown.len();
        for line in shown {
            out.extend(line.chars().take(usize::from(columns.saturating_sub(1))));
            out.push_str("\x1b[K\n");
        }
        out.push_str("\x1b[J");
        let mut err = io::stderr().lock();
        // Progress that cannot be written is not missed.
        let _ = err.write_all(out.as_bytes()).and_then(|()| err.flush());
    }
}

/// Time between two drawings.
const REDRAW_EVERY: Duration = Duration::from_millis(500);
/// Number of samples in a second.
const SAMPLES_MAX: usize = 2;
