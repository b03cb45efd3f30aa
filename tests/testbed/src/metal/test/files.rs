//! Files on the TFTP server: missing, with an error, then valid.

use anyhow::{Context, Result, bail};

use super::booted::Booted;
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};

pub(super) fn checks() -> Vec<Scenario> {
    vec![Scenario::new("files/missing-wrong-right", missing_wrong_right)]
}

/// The machine reports each error and retries, and takes no user of an invalid list.
fn missing_wrong_right(stage: &Stage) -> Result<()> {
    let mut machine = Booted::start(&Machine::new(Medium::Kernel), stage, "users=users.csv auth=on")?;
    said(
        &mut machine,
        "a file that is missing",
        &["users.csv", "there is no such file", "trying again in 10 s"],
    )?;
    let list = stage.path("users.csv");
    std::fs::write(&list, "username,password\nalice,secret-alice\nbob\ncarol,secret-carol\n")?;
    said(&mut machine, "a row without a password", &["users.csv:3:", "nobody of this list is taken"])?;
    if machine.said().contains("ready ") {
        bail!("the machine serves with a wrong list");
    }
    std::fs::write(&list, "username,password\nalice,secret-alice\nbob,secret-bob\n")?;
    said(&mut machine, "the right list", &["users: 2 from"])?;
    machine.running.wait_for_output("ready ")?;
    machine.answers("all of it")
}

/// Waits for a line that contains all these words, with any spacing.
fn said(machine: &mut Booted, what: &str, words: &[&str]) -> Result<()> {
    let words: Vec<String> = words.iter().map(|words| words.replace(' ', "")).collect();
    let has_all = |line: &str| {
        let line = line.replace(' ', "");
        words.iter().all(|word| line.contains(word))
    };
    machine
        .running
        .wait_until(&words.join(" … "), |said| said.lines().any(has_all))
        .with_context(|| what.to_owned())
}
