//! DHCP servers that are silent, refuse, or lie.

use std::net::Ipv4Addr;

use anyhow::{Result, bail};

use super::super::super::machine::{Machine, Medium};
use super::frames::EVERYBODY;
use super::host::Host;
use super::{Wired, in_a_hurry};
use crate::interop::{Scenario, Stage};
use ringway_test_support::dhcp::Answer;

pub(super) fn checks() -> Vec<Scenario> {
    vec![
        Scenario::new("wire/dhcp-silence", silence).beside_others(),
        Scenario::new("wire/dhcp-nak", refusals).beside_others(),
    ]
}

/// Nobody answers for a while: the machine says so, goes on asking, and serves when it is heard.
fn silence(stage: &Stage) -> Result<()> {
    let deaf = |host: &mut Host| {
        host.dhcp.deaf_for = DEAF_FOR;
        host.dhcp.first_answers = [Answer::NoLease].into();
    };
    let mut machine = Wired::start(&in_a_hurry(), stage, "auth=off", deaf)?;
    machine.until_said("network: asking for an address by DHCP")?;
    machine.until_said("network: nobody answers DHCP yet")?;
    if machine.running.output().contains(LEASED) {
        bail!("the machine has an address that nobody gave it");
    }
    machine.until_said("ready ")?;
    let asked = machine.host.dhcp.discovers();
    if asked <= DEAF_FOR {
        bail!("the machine asked {asked} times, and {DEAF_FOR} were not answered");
    }
    machine.answers("a DHCP server that was silent")
}

/// A NAK, then everything that a server can say wrong, then an address that is taken back when it is to be renewed: in the end
/// the machine has the address that it was given, and serves.
fn refusals(stage: &Stage) -> Result<()> {
    let liar = |host: &mut Host| {
        host.dhcp.nonsense = NONSENSE;
        host.dhcp.first_answers = ANSWERS.into();
    };
    let mut machine = Wired::start(&Machine::new(Medium::Kernel), stage, "auth=off", liar)?;
    machine.until_said("ready ")?;
    machine.answers("a DHCP server that lies")?;
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
        bail!("the machine took an address that no machine can have: {line}");
    }
    Ok(())
}

/// Whoever has an address does not lose it by answers that it did not ask for.
fn expect_bound(machine: &mut Wired) -> Result<()> {
    let asked = machine.host.dhcp.discovers();
    for answer in machine.host.dhcp.stray_answers() {
        machine.host.send_by_dhcp(&answer)?;
    }
    machine.answers("a NAK that nobody asked for")?;
    if machine.host.dhcp.discovers() > asked {
        bail!("the machine lost its address by an answer that it did not ask for");
    }
    Ok(())
}

/// What the REQUESTs get, one each. Only the last but one is a lease that can be used, and it is not renewed.
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

/// Answers to DISCOVERs and REQUESTs that come behind much that is none.
const NONSENSE: u32 = 4;

const LEASED: &str = " by DHCP from ";

/// DISCOVERs that get no answer, one a second.
const DEAF_FOR: u32 = 8;
