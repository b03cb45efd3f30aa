//! `ringway lab run` with Kamailio as a target.

use super::process::Running;
use super::{Scenario, Stage};
use anyhow::{Context, Result, bail};
use ringway_lab::record::{self, Record};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut scenario = Scenario::new("lab/run-kamailio", run_kamailio);
    // It needs the lab of the program.
    scenario.reference = false;
    vec![scenario]
}

/// Every flow, with and without digest, on Ringway and on Kamailio with both allocators: all attempts succeed.
fn run_kamailio(stage: &Stage) -> Result<()> {
    let program = stage.ringway.program().context("the lab is a command of the program")?;
    let mut command = Command::new(program);
    command.args(["lab", "run", "register", "update", "logout", "call", "call-not-found", "redirect"]);
    command.args(["--target", "ringway", "--target", "kamailio", "--target", "kamailio-default"]);
    command.args(["--quick", "--seconds", "0.3", "--out"]).arg(stage.path("results"));
    let status = Running::start("lab", &mut command, &stage.folder)?.wait_for(LIMIT)?;
    let records = record::read(&stage.path("results"))?;
    let mut measured = BTreeSet::new();
    for record in &records {
        match record {
            Record::Failed(failed) => {
                bail!("{} ({}), {}: {}", failed.experiment, failed.variant, failed.target, failed.error)
            }
            // A busy machine delays attempts; none may fail.
            Record::Measurement(trial) => {
                if trial.successes != trial.started {
                    let of = format!("{} ({}), {}", trial.experiment, trial.variant, trial.target);
                    bail!("{of}: {} of {} succeeded, {:?}", trial.successes, trial.started, trial.failures);
                }
                measured.insert((&trial.experiment, &trial.variant, &trial.target));
            }
            _ => {}
        }
    }
    if !status.success() || measured.len() != EXPERIMENTS * VARIANTS * TARGETS {
        bail!("{status}; {} of {} were measured", measured.len(), EXPERIMENTS * VARIANTS * TARGETS);
    }
    Ok(())
}

const EXPERIMENTS: usize = 6;
/// UDP and TCP, without digest and with MD5.
const VARIANTS: usize = 4;
const TARGETS: usize = 3;
/// Maximum time of the campaign, with every trial repeated.
const LIMIT: Duration = Duration::from_secs(600);
