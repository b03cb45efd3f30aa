//! `ringway lab load`: one load by hand.

use super::args::{LoadArgs, ScenarioArg};
use super::view;
use crate::failure::Failure;
use crate::output;
use ringway_lab::load::{
    Plan, Spacing, Statistics, Timers, User, Users, local_towards, resolve, run as start,
};
use ringway_lab::process;
use ringway_lab::times::SECONDS_MAX;
use ringway_linux::signals::{Signal, watch};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Offers the load, prints its progress and its result.
pub(crate) fn run(args: &LoadArgs) -> Result<(), Failure> {
    let plan = plan(args)?;
    plan.check().map_err(|error| Failure::usage(format!("{error:#}")))?;
    let server_cpu = || args.pid.map(process::cpu_ns_of).transpose();
    server_cpu().map_err(|error| Failure::usage(format!("--pid: {error:#}")))?;
    let signals = watch().map_err(|error| Failure::failed(format!("cannot take signals: {error}")))?;
    if let Some(users) = plan.registered_before().filter(|_| !args.json) {
        note(&format!("registering {} users before the load", users.count()));
    }
    let before = Instant::now();
    let load = start(&plan).map_err(|error| Failure::failed(format!("{error:#}")))?;
    let cpu_before = server_cpu().ok().flatten();
    let mut is_stopped = false;
    let mut seconds = 0;
    while !load.is_done() {
        let next = before + Duration::from_secs(seconds + 1);
        while Instant::now() < next && !load.is_done() {
            std::thread::sleep(LOOK_EVERY);
            if let Ok(Signal::Terminate) = signals.try_recv() {
                is_stopped = true;
                load.stop();
            }
        }
        seconds += 1;
        progress(args, seconds, &load.statistics())?;
    }
    let statistics = load.finish().map_err(|error| Failure::failed(format!("{error:#}")))?;
    let cpu_ns = match (cpu_before, server_cpu().ok().flatten()) {
        (Some(before), Some(after)) => Some(after.saturating_sub(before)),
        _ => None,
    };
    let failed: Vec<String> =
        args.fail_if.iter().filter(|limit| limit.is_met(&statistics)).map(ToString::to_string).collect();
    let result = view::Result {
        plan: &plan,
        statistics: &statistics,
        server_cpu_ns: cpu_ns,
        is_stopped,
        failed: &failed,
    };
    if args.json {
        output::line(&result.json())?;
    } else {
        end_progress();
        output::line(&result.lines().join("\n"))?;
    }
    if args.pid.is_some() && cpu_ns.is_none() {
        return Err(Failure::failed("the process of --pid ended during the run"));
    }
    let is_lost = statistics.target_loss().is_some();
    if failed.is_empty() && !is_lost { Ok(()) } else { Err(Failure::said()) }
}

fn progress(args: &LoadArgs, second: u64, statistics: &Statistics) -> Result<(), Failure> {
    if args.json {
        output::line(&view::second_json(second, statistics))?;
    } else {
        note(&view::second_line(second, args.seconds, statistics));
    }
    Ok(())
}

/// Writes a line of progress to standard error; on a terminal it replaces the last one.
fn note(text: &str) {
    let mut out = std::io::stderr();
    // Progress that cannot be written is not missed.
    let _ = match out.is_terminal() {
        true => write!(out, "\r\x1b[K{text}").and_then(|()| out.flush()),
        false => writeln!(out, "{text}"),
    };
}

fn end_progress() {
    if std::io::stderr().is_terminal() {
        let _ = writeln!(std::io::stderr());
    }
}

fn plan(args: &LoadArgs) -> Result<Plan, Failure> {
    let flow = args.scenario.flow();
    let (users, peers) = users(args)?;
    if !(args.seconds.is_finite() && args.seconds > 0.0 && args.seconds <= SECONDS_MAX) {
        return Err(Failure::usage(format!("--seconds: give a number above 0 and up to {SECONDS_MAX}")));
    }
    let target =
        resolve(&args.target, &args.allow_remote).map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Plan {
        target,
        is_direct: false,
        transport: args.transport.transport(),
        connections: args.connections.connections(),
        allowed_hosts: args.allow_remote.clone(),
        flow,
        rate: args.rate,
        spacing: if args.poisson { Spacing::Poisson } else { Spacing::Fixed },
        length: Duration::from_secs_f64(args.seconds),
        users,
        peers,
        domain: args.domain.clone(),
        local: args.local.unwrap_or_else(|| local_towards(target)),
        sources: args.sources,
        sockets: args.sockets,
        threads: args.threads,
        ring: args.ring,
        talk: args.talk,
        media: args.media.media_use(args.suite),
        timers: Timers { t1: args.t1, ..Timers::default() },
    })
}

/// Users, and the users that they call.
fn users(args: &LoadArgs) -> Result<(Users, Users), Failure> {
    let usage = |error: ringway_lab::load::UsersError| Failure::usage(format!("users: {error}"));
    let nobody = || Users::by_rule("nobody", 7, 0, 1_000_000, "").map_err(usage);
    let password = args.password_file.as_deref().map(password).transpose()?.unwrap_or_default();
    let rule = |first| Users::by_rule(&args.prefix, args.digits, first, args.users, &password).map_err(usage);
    let list = args.users_file.as_deref().map(list).transpose()?;
    let is_pair = matches!(
        args.scenario,
        ScenarioArg::Call | ScenarioArg::Redirect | ScenarioArg::Options | ScenarioArg::Message
    );
    Ok(match (list, args.scenario) {
        (Some(list), ScenarioArg::CallNotFound) => (Users::from_list(list).map_err(usage)?, nobody()?),
        (None, ScenarioArg::CallNotFound) => (rule(0)?, nobody()?),
        (Some(mut list), _) if is_pair => {
            let called = list.split_off(list.len() / 2);
            (Users::from_list(list).map_err(usage)?, Users::from_list(called).map_err(usage)?)
        }
        (None, _) if is_pair => (rule(0)?, rule(args.users)?),
        (Some(list), _) => {
            let users = Users::from_list(list).map_err(usage)?;
            (users.clone(), users)
        }
        (None, _) => (rule(0)?, rule(0)?),
    })
}

/// Password in the first line of a file.
pub(super) fn password(file: &Path) -> Result<String, Failure> {
    let text = read(file)?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(Failure::usage(format!("{}: the first line is to be the password", file.display()))),
    }
}

fn list(file: &Path) -> Result<Vec<User>, Failure> {
    let text = read(file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let user = |line: &str| {
        let (name, password) = line.split_once(',').unwrap_or((line, ""));
        User { name: name.trim().into(), password: password.into() }
    };
    Ok(lines.map(user).collect())
}

fn read(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{}: {error}; give a text file in UTF-8", file.display())))
}

/// Interval at which signals and the end are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);
