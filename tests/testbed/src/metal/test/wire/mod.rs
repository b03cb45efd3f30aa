//! A network under control of the test: the machine's card is at one end of a cable, and at the other a host
//! that sends invalid frames.
//!
//! Does: truncated, forged and excess frames, ARP floods, DHCP servers that are silent or send invalid
//! answers, failing TFTP servers.
//!
//! Does not: what QEMU's own network can send too; other checks do that.

mod addresses;
mod cable;
mod fetching;
mod frames;
mod host;
mod strangers;
mod tftp;

use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};
use crate::process::{PATIENCE, Process};
use cable::Cable;
use host::{Host, TURN};

pub(super) fn checks() -> Vec<Scenario> {
    let mut all = fetching::checks();
    all.extend(addresses::checks());
    all.extend(strangers::checks());
    all
}

/// A machine on the cable.
struct CabledMachine {
    running: Process,
    host: Host,
}

impl CabledMachine {
    /// Starts a machine in the check's folder, in a network that `set` configures.
    fn start(machine: &Machine, stage: &Stage, words: &str, set: impl FnOnce(&mut Host)) -> Result<Self> {
        let mut host = Host::new(Cable::in_folder(&stage.folder)?);
        set(&mut host);
        let mut command = machine.command_in(host.cable.network(), &stage.folder, words)?;
        let settings = std::fs::read(stage.path(Machine::SETTINGS_FILE))?;
        host.tftp.server.files.insert(Machine::SETTINGS_FILE.to_owned(), settings);
        Ok(Self { running: Process::start("machine", &mut command, &stage.folder)?, host })
    }

    /// Serves the machine's network until the machine has printed this.
    fn until_said(&mut self, text: &str) -> Result<()> {
        self.until(text, |said| said.contains(text))
    }

    /// Same until its output satisfies `is_so`; `what` names the condition.
    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut next_look = Instant::now();
        loop {
            if Instant::now() >= next_look {
                let has_ended = self.running.has_ended()?;
                if is_so(&self.running.output()) {
                    return Ok(());
                }
                if has_ended {
                    bail!("the machine ended before it said \"{what}\"");
                }
                next_look = Instant::now() + TURN;
            }
            if Instant::now() > deadline {
                bail!("the machine did not say \"{what}\" within {} s", PATIENCE.as_secs());
            }
            self.host.turn(TURN)?;
        }
    }

    /// Checks that the machine still runs and answers OPTIONS of the host; `what` names the preceding action.
    fn answers(&mut self, what: &str) -> Result<()> {
        let outcome = self.host.announce(frames::HOST).and_then(|()| self.host.expect_answer(frames::HOST));
        if self.running.has_ended()? {
            bail!("the machine ended after {what}");
        }
        outcome.with_context(|| format!("after {what}"))
    }
}

/// A machine whose clock is several times faster than ours, so that long waits are short. Each of its
/// instructions takes 128 ns of its time.
fn with_fast_clock() -> Machine {
    Machine::new(Medium::Kernel).with_options(&["-icount", "shift=7,sleep=off"])
}
