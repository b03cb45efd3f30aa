//! DHCP servers that are silent, refuse, or send invalid answers.

use std::net::Ipv4Addr;

use anyhow::{Result, bail};

use super::frames::EVERYBODY;
use super::host::Host;
use super::{CabledMachine, with_fast_clock};
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};
use ringway_test_support::dhcp::Answer;

pub(super) fn checks() -> Vec<Scenario> {
    vec![Scenario::new("wire/dhcp-silence", silence), Scenario::new("wire/dhcp-nak", refusals)]
}

/// Checks a silent server: the machine reports it, continues with DISCOVERs, and serves after an answer.
fn silence(stage: &Stage) -> Result<()> {
    let deaf = |host: &mut Host| {
        host.dhcp.deaf_for = DEAF_FOR;
        host.dhcp.first_answers = [Answer::NoLease].into();
    };
    let mut machine = CabledMachine::start(&with_fast_clock(), stage, "auth=off", deaf)?;
    machine.until_said("network: asking for an address by DHCP")?;
    machine.until_said("network: nobody answers DHCP yet")?;
    if machine.running.output().contains(LEASED) {
        bail!("the machine has an address without a lease");
    }
    machine.until_said("ready ")?;
    let asked = machine.host.dhcp.discovers();
    if asked <= DEAF_FOR {
        bail!("the machine asked {asked} times, and {DEAF_FOR} were not answered");
    }
    machine.answers("a DHCP server that was silent")
}

/// A NAK, then all invalid answers, then a lease whose renewal is refused: in the end the machine has its
/// assigned address and serves.
fn refusals(stage: &Stage) -> Result<()> {
    let invalid = |host: &mut Host| {
        host.dhcp.nonsense = NONSENSE;
        host.dhcp.first_answers = ANSWERS.into();
    };
    let mut machine = CabledMachine::start(&Machine::new(Medium::Kernel), stage, "auth=off", invalid)?;
    machine.until_said("ready ")?;
    machine.answers("invalid answers of a DHCP server")?;
    machine.until_said("the lease is gone; asking for another address")?;
    let leases = |said: &str| said.matches("ready ").count();
    let before = leases(&machine.running.output());
    machine.until("ready once more", |said| leases(said) > before)?;
    machine.answers("a lease that was not renewed")?;
    expect_bound(&mut machine)?;
    let (left, said) = (machine.host.dhcp.first_answers.len(), machine.running.output());
    if left > 0 {
        bail!("the machine took an answer too early: {left} of {} were left", ANSWERS.len());
    }
    let wrong = said.lines().find(|line| line.contains(LEASED) && !line.contains("network: 10.77.0.2/16 "));
    if let Some(line) = wrong {
        bail!("the machine took an address that is not valid for a host: {line}");
    }
    Ok(())
}

/// Checks that the machine keeps its address after unsolicited answers.
fn expect_bound(machine: &mut CabledMachine) -> Result<()> {
    let asked = machine.host.dhcp.discovers();
    for answer in machine.host.dhcp.stray_answers() {
        machine.host.send_by_dhcp(&answer)?;
    }
    machine.answers("an unsolicited NAK")?;
    if machine.host.dhcp.discovers() > asked {
        bail!("the machine lost its address after an unsolicited answer");
    }
    Ok(())
}

/// Answers to REQUESTs, one each. Only the last but one is a usable lease, and it is not renewed.
const ANSWERS: [Answer; 11] = [
    Answer::Nak,
    Answer::Mask(Ipv4Addr::UNSPECIFIED),
    Answer::Mask(Ipv4Addr::BROADCAST),
    Answer::Address(Ipv4Addr::LOCALHOST),
    Answer::Address(EVERYBODY),
    Answer::Lease(0),
    Answer::Nak,
    Answer::Nak,
    Answer::Nak,
    Answer::Lease(2),
    Answer::Nak,
];

/// Number of invalid datagrams before each answer.
const NONSENSE: u32 = 4;

const LEASED: &str = " by DHCP from ";

/// Number of DISCOVERs without an answer, one per second.
const DEAF_FOR: u32 = 8;
