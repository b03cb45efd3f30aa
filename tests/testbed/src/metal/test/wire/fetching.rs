//! The list of users over a bad link, and from servers that fail.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use ringway_test_support::tftp::{Answer, TftpServer};

use super::host::Host;
use super::tftp::TftpLink;
use super::{CabledMachine, with_fast_clock};
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};

pub(super) fn checks() -> Vec<Scenario> {
    vec![Scenario::new("wire/tftp-errors", errors), Scenario::new("wire/tftp", bad_link)]
}

/// Loses the first request, duplicates and delays blocks or sends them only at the second request, and adds blocks of strangers: the list must be complete.
fn bad_link(stage: &Stage) -> Result<()> {
    let set = |host: &mut Host| {
        host.tftp = TftpLink::to(server());
        host.tftp.is_bad = true;
        host.tftp.lost = LOST.to_vec();
        host.tftp.server.first_answers = [Answer::Silence].into();
    };
    let mut machine = CabledMachine::start(&Machine::new(Medium::Kernel), stage, WORDS, set)?;
    machine.until_said("ready ")?;
    machine.answers("a list over a bad link")?;
    expect_users(&machine, 2)?;
    let tftp = &machine.host.tftp;
    let (repeated, printed) = (tftp.server.resent, tftp.strangers_answered);
    if !tftp.lost.is_empty() || repeated == 0 || printed == 0 {
        bail!(
            "{repeated} blocks were asked for again, strangers were told {printed} times: that was no bad link"
        );
    }
    Ok(())
}

/// Errors, forgetting and silence in the middle: each time the machine says why, tries again later,
/// and has nobody; then it has all.
fn errors(stage: &Stage) -> Result<()> {
    let set = |host: &mut Host| {
        host.tftp = TftpLink::to(server());
        host.tftp.server.first_answers = FAILURES.iter().map(|(answer, _)| *answer).collect();
    };
    let mut machine = CabledMachine::start(&with_fast_clock(), stage, WORDS, set)?;
    for (number, (_, words)) in (1..).zip(FAILURES) {
        machine.until(words, |said| {
            let mut lines = said.lines().filter(|line| line.contains("trying again in 10 s"));
            lines.nth(number - 1).is_some_and(|line| line.contains(words))
        })?;
        let said = machine.running.output();
        if said.contains("users: ") || said.contains("ready ") {
            bail!("the machine took users of a list that is not whole");
        }
    }
    machine.until_said("ready ")?;
    machine.answers("a TFTP server that failed")?;
    expect_users(&machine, u32::try_from(FAILURES.len())? + 1)
}

/// All users are there, and the list was asked for at least so often.
fn expect_users(machine: &CabledMachine, requests_min: u32) -> Result<()> {
    let (said, requests) = (machine.running.output(), machine.host.tftp.server.requests);
    if !said.contains(&format!("users: {USERS} from tftp://10.77.0.1/{LIST}")) {
        bail!("the machine does not say that it has {USERS} users");
    }
    if said.matches("users: ").count() != 1 || requests < requests_min {
        bail!("the list was taken more than once, or asked for {requests} times only");
    }
    Ok(())
}

fn server() -> TftpServer {
    let mut list = String::from("username,password\n");
    for user in 0..USERS {
        // It cannot fail.
        let _ = writeln!(list, "user{user:04},secret-{user:04}");
    }
    TftpServer::new(LIST, list.into_bytes())
}

/// Failures of a server, and the machine's messages about them.
const FAILURES: [(Answer, &str); 4] = [
    (Answer::Error(1, "File not found"), "there is no such file"),
    (Answer::Error(2, "Access violation"), "Access violation"),
    (Answer::ForgetsAfter(9), "does not have this transfer any more"),
    (Answer::FallsSilentAfter(9), "stopped sending after"),
];

const USERS: u32 = 1000;
const LIST: &str = "users.csv";
const WORDS: &str = "users=users.csv auth=on";

/// The answer to the options, a block in the middle, and one near the end.
const LOST: [u16; 3] = [0, 7, 40];
