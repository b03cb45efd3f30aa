//! A network under control of the test: the machine's card is at one end of a cable, on which every datagram between
//! two Unix sockets is one Ethernet frame, and at the other a host that sends invalid frames.
//!
//! Does: truncated, forged and excess frames, ARP floods, DHCP servers that are silent or send invalid
//! answers, failing TFTP servers.
//!
//! Does not: what QEMU's own network can send too; other checks do that.
//!
//! No frame is lost silently: a card that accepts no more frames blocks the sender.

mod addresses;
mod frames;
mod host;
mod strangers;
mod tftp;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium, Network};
use crate::process::{PATIENCE, Process};
use host::{Host, TURN};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(super) fn checks() -> Vec<Scenario> {
    let mut all = tftp::checks();
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

/// Our end of the cable.
struct Cable {
    socket: UnixDatagram,
    card: PathBuf,
    other_end: PathBuf,
    /// Frames that arrived while others were sent.
    arrived: VecDeque<Vec<u8>>,
    room: Vec<u8>,
}

impl Cable {
    /// Creates our end in a check's folder, without a card.
    fn in_folder(folder: &Path) -> Result<Self> {
        let (card, other_end) = (folder.join("card"), folder.join("cable"));
        let socket = UnixDatagram::bind(&other_end)
            .with_context(|| format!("cannot make the socket {}", other_end.display()))?;
        socket.set_nonblocking(true)?;
        let room = vec![0; DATAGRAM_BYTES_MAX];
        Ok(Self { socket, card, other_end, arrived: VecDeque::new(), room })
    }

    /// Network configuration for QEMU.
    fn network(&self) -> Network {
        Network::Cable { card: self.card.clone(), other_end: self.other_end.clone() }
    }

    /// Sends a frame; waits while the card is busy.
    fn send(&mut self, frame: &[u8]) -> Result<()> {
        if frame.is_empty() {
            bail!("QEMU treats an empty datagram as the end of the cable");
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.socket.send_to(frame, &self.card) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("QEMU's end of the cable is gone"),
            }
            if Instant::now() > deadline {
                bail!("the machine's card took no frame for {} s", PATIENCE.as_secs());
            }
            // The machine may be blocked on its own frames.
            self.await_frame(BUSY_WAIT)?;
            while let Some(frame) = self.take()? {
                self.arrived.push_back(frame);
            }
        }
    }

    /// Next frame from the machine, if one arrives in this time.
    fn receive(&mut self, wait: Duration) -> Result<Option<Vec<u8>>> {
        if let Some(frame) = self.arrived.pop_front() {
            return Ok(Some(frame));
        }
        if let Some(frame) = self.take()? {
            return Ok(Some(frame));
        }
        self.await_frame(wait)?;
        self.take()
    }

    fn take(&mut self) -> Result<Option<Vec<u8>>> {
        match self.socket.recv(&mut self.room) {
            Ok(bytes) => Ok(Some(self.room.get(..bytes).unwrap_or_default().to_vec())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error).context("the cable cannot be read"),
        }
    }

    fn await_frame(&self, wait: Duration) -> Result<()> {
        let time = Timespec { tv_sec: wait.as_secs().try_into()?, tv_nsec: wait.subsec_nanos().into() };
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&time))?;
        Ok(())
    }
}

/// Time to wait for a card that accepts no frame.
const BUSY_WAIT: Duration = Duration::from_micros(200);

/// Longer than any frame of the machine.
const DATAGRAM_BYTES_MAX: usize = 65_536;
