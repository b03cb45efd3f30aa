//! A running machine in a check.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::interop::Stage;
use crate::interop::server::await_sip;
use crate::machine::Machine;
use crate::process::{Process, free_port};

/// A machine with the address of its port 5060.
pub(super) struct Booted {
    pub(super) running: Process,
    pub(super) at: SocketAddrV4,
}

impl Booted {
    /// Starts a machine in the check's folder, and waits until it is ready.
    pub(super) fn serving(machine: &Machine, stage: &Stage, words: &str) -> Result<Self> {
        let booted = Self::start(machine, stage, words)?;
        booted.running.wait_for_output("ready ")?;
        Ok(booted)
    }

    /// Same without waiting.
    pub(super) fn start(machine: &Machine, stage: &Stage, words: &str) -> Result<Self> {
        let port = free_port()?;
        let running = machine.start(&stage.folder, port, words)?;
        Ok(Self { running, at: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port) })
    }

    /// Checks that the machine still runs and answers OPTIONS over UDP; `what` names the preceding action.
    pub(super) fn answers(&mut self, what: &str) -> Result<()> {
        if self.running.has_ended()? {
            bail!("the machine ended after {what}");
        }
        await_sip(*self.at.ip(), self.at.port()).with_context(|| format!("after {what}"))
    }

    /// Output on its serial port so far.
    pub(super) fn said(&self) -> String {
        self.running.output()
    }
}

/// OPTIONS for the machine itself, with further header lines; `number` distinguishes requests.
pub(super) fn options(transport: &str, number: u32, more: &str) -> String {
    format!(
        "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/{transport} 127.0.0.1:5062;rport;branch=z9hG4bK-test-{number}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:test@example.org>;tag=1\r\nTo: <sip:example.org>\r\nCall-ID: test-{number}\r\n\
         CSeq: 1 OPTIONS\r\n{more}Content-Length: 0\r\n\r\n"
    )
}

/// Time limit for a response.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(2);
