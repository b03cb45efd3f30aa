//! `cargo xtask interop --only lab/agent`: generator and server in two network namespaces, with `ringway lab agent` beside the server
//! (decision 0075).
//!
//! ```text
//!   generator 192.168.78.20 ── veth ── 192.168.78.10 agent, and the servers that it starts
//! ```

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ringway_lab::record::{self, Record};
use ringway_test_support::namespace::Namespace;
use ringway_test_support::process::run_to_end;

use super::{Scenario, Stage};
use crate::process::{PATIENCE, Process};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let all = [
        Scenario::new("lab/agent/measured", measured),
        Scenario::new("lab/agent/profiled", profiled),
        Scenario::new("lab/agent/cut-off", cut_off),
    ];
    // They measure times, and need the lab of the program.
    all.into_iter().map(|scenario| Scenario { reference: false, ..scenario }.alone()).collect()
}

/// Two machines, with an agent on that of the server.
struct Machines {
    agent: Process,
    stage: Stage,
    generator: Namespace,
    server: Namespace,
}

impl Machines {
    /// Makes them; `None`: this user may not.
    fn make(stage: &Stage) -> Result<Option<Self>> {
        let Some(server) = Namespace::with_bridge("server", SERVER)? else { return Ok(None) };
        let Some(generator) = Namespace::create("generator")? else { return Ok(None) };
        generator.join(&server, LINK, GENERATOR)?;
        let program = stage.ringway.program().context("the lab is a part of the program")?;
        let key = stage.path("agent.key");
        run_to_end(Command::new(program).args(["lab", "agent", "init", "--out"]).arg(&key), "")?;
        let there = stage.inside(&server);
        let mut command = there.command(program);
        command.args(["lab", "agent", "--key"]).arg(&key).args(["--listen", AGENT]);
        command.args(["--allow", "ringway", "--allow", "kamailio"]);
        let agent = Process::start("agent", &mut command, &stage.folder)?;
        agent.wait_for_output("ready tcp:")?;
        Ok(Some(Self { agent, stage: stage.clone(), generator, server }))
    }

    /// A campaign in the generator's namespace, with this experiment and these further words.
    fn campaign(&self, out: &str, experiment: &str, more: &[&str]) -> Result<Process> {
        let file = self.stage.path(&format!("{out}.toml"));
        std::fs::write(&file, experiment)?;
        let program = self.stage.ringway.program().context("the lab is a part of the program")?;
        let mut command = self.stage.inside(&self.generator).command(program);
        command.args(["lab", "run"]).arg(&file).args(["--quick", "--agent-key"]);
        command.arg(self.stage.path("agent.key")).args(more);
        Process::start(out, command.arg("--out").arg(self.stage.path(out)), &self.stage.folder)
    }

    fn records(&self, out: &str) -> Result<Vec<Record>> {
        record::read(&self.stage.path(out))
    }
}

/// Registrations and calls on Ringway and Kamailio, over UDP, TCP and TLS, with digest: all succeed, with the CPU time and memory of the server, and without
/// permission nothing is sent.
fn measured(stage: &Stage) -> Result<()> {
    let Some(machines) = Machines::make(stage)? else { return Ok(()) };
    let targets = ["ringway", "kamailio"].map(|name| format!("{name}@{AGENT}"));
    let [ringway, kamailio] = targets.each_ref().map(String::as_str);
    let refused = machines.campaign("refused", CALLS, &["--target", ringway])?;
    let status = refused.wait()?;
    let said = refused.output();
    ensure!(
        status.code() == Some(2) && said.contains(&format!("--allow-remote {SERVER}")),
        "{status}: {said}"
    );

    let allow = SERVER.to_string();
    let more = ["--target", ringway, "--target", kamailio, "--allow-remote", &allow];
    let mut measured = BTreeMap::new();
    for (out, experiment) in [("calls", CALLS), ("registrations", REGISTRATIONS)] {
        let lab = machines.campaign(out, experiment, &more)?;
        let status = lab.wait_for(LIMIT)?;
        ensure!(status.success(), "{status}: {}", lab.output());
        for record in machines.records(out)? {
            match record {
                Record::Failed(failed) => anyhow::bail!("{out}, {}: {}", failed.target, failed.error),
                Record::Target(target) => {
                    let listens = format!("{SERVER}:PORT");
                    ensure!(
                        target.settings.contains(&listens),
                        "{} is not at {listens}: {}",
                        target.target,
                        target.settings
                    );
                    ensure!(target.machine.contains("Linux"), "no machine of {}", target.target);
                }
                Record::Measurement(trial) => {
                    let of = format!("{out}, {}, {}", trial.variant, trial.target);
                    ensure!(trial.successes == trial.started, "{of}: {:?}", trial.failures);
                    ensure!(trial.challenges > 0, "{of}: no challenge");
                    ensure!(trial.tls.as_ref().is_none_or(|tls| tls.failed == 0), "{of}: {:?}", trial.tls);
                    ensure!(
                        trial.server_cpu_us.is_some_and(|us| us > 1.0),
                        "{of}: {:?}",
                        trial.server_cpu_us
                    );
                    ensure!(trial.server_memory_kb.is_some_and(|kb| kb > 1000), "{of}: no memory");
                    *measured.entry(trial.target).or_insert(0) += 1;
                }
                _ => {}
            }
        }
    }
    ensure!(
        measured.values().all(|count| *count >= 6) && measured.len() == 2,
        "only {measured:?} were measured"
    );
    machines.agent.stop();
    let said = machines.agent.output();
    ensure!(!said.contains("not served"), "{said}");
    Ok(())
}

/// The server is sampled where it runs. Where perf cannot sample there is a row that says so.
fn profiled(stage: &Stage) -> Result<()> {
    let Some(machines) = Machines::make(stage)? else { return Ok(()) };
    let (target, allow) = (format!("ringway@{AGENT}"), SERVER.to_string());
    let experiment = "scenario = \"update\"\nrates = [2000]\nusers = 200\nquick_seconds = 0.3\n";
    let lab = machines.campaign(
        "results",
        experiment,
        &["--target", &target, "--allow-remote", &allow, "--profile"],
    )?;
    let status = lab.wait_for(LIMIT)?;
    ensure!(status.success(), "{status}: {}", lab.output());
    let records = machines.records("results")?;
    let profile = records.iter().find_map(|record| match record {
        Record::Profile(profile) => Some(profile),
        _ => None,
    });
    let Some(profile) = profile else {
        let is_said = records.iter().any(
            |record| matches!(record, Record::Failed(failed) if failed.error.starts_with("not available: ") && failed.error.contains("perf")),
        );
        ensure!(is_said, "neither a profile nor a reason: {}", lab.output());
        return Ok(());
    };
    let sum: f64 = profile.components.iter().map(|one| one.share).sum();
    let core = profile.components.iter().find(|one| one.component == "core").map_or(0.0, |one| one.share);
    ensure!((sum - 1.0).abs() < 1e-6 && core > 0.0, "{:?}", profile.components);
    ensure!(profile.samples > 100 && profile.agreement > 0.3, "{profile:?}");
    Ok(())
}

/// The link between both machines is cut in the middle of a trial: the rows of the target at the agent fail, and the campaign goes on with the
/// one beside the generator.
fn cut_off(stage: &Stage) -> Result<()> {
    let Some(machines) = Machines::make(stage)? else { return Ok(()) };
    let (target, allow) = (format!("ringway@{AGENT}"), SERVER.to_string());
    let experiment =
        "scenario = \"update\"\nrates = [40, 50]\nquick_rates = [40, 50]\nusers = 20\nquick_seconds = 3\n";
    let more = ["--target", &target, "--target", "ringway", "--allow-remote", &allow];
    let lab = machines.campaign("results", experiment, &more)?;
    lab.wait_for_output(&format!("{target}: 40/s"))?;
    machines.server.ip(&format!("link set port{} down", GENERATOR.octets()[3]))?;
    let status = lab.wait_for(LIMIT)?;
    ensure!(status.code() == Some(1), "{status}: {}", lab.output());
    let (mut failed, mut measured) = (Vec::new(), Vec::new());
    for record in machines.records("results")? {
        match record {
            Record::Failed(failure) => failed.push((failure.target, failure.error)),
            Record::Measurement(trial) => measured.push((trial.target, trial.rate)),
            _ => {}
        }
    }
    let is_named = |error: &str| error.contains(AGENT) && error.contains("went away");
    ensure!(failed.len() == 1 && failed[0].0 == target && is_named(&failed[0].1), "{failed:?}");
    let here: Vec<f64> =
        measured.iter().filter(|(name, _)| name == "ringway").map(|(_, rate)| *rate).collect();
    ensure!(here.contains(&40.0) && here.contains(&50.0), "{measured:?}");
    ensure!(here.len() == measured.len(), "{measured:?}");
    // The agent notices too, and its server ends.
    let is_over = || {
        let pid = machines.agent.id().as_raw_nonzero().to_string();
        run_to_end(Command::new("pgrep").args(["-P", &pid]), "").is_err()
    };
    ringway_test_support::eventually::retry(PATIENCE, || {
        is_over().then_some(()).context("the server still runs")
    })?;
    Ok(())
}

const SERVER: Ipv4Addr = Ipv4Addr::new(192, 168, 78, 10);
const GENERATOR: Ipv4Addr = Ipv4Addr::new(192, 168, 78, 20);
/// Address of the agent.
const AGENT: &str = "192.168.78.10:8061";
/// Interface of the generator.
const LINK: &str = "lan";

const CALLS: &str = "scenario = \"call\"
transports = [\"udp\", \"tcp\", \"tls\"]
digests = [\"MD5\"]
rates = [20]
users = 20
quick_seconds = 0.5
";

const REGISTRATIONS: &str = "scenario = \"register\"
transports = [\"udp\", \"tcp\", \"tls\"]
digests = [\"MD5\"]
rates = [50]
quick_seconds = 0.5
";

/// Maximum time of a campaign, with every trial repeated.
const LIMIT: Duration = Duration::from_secs(300);
