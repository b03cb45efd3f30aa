//! Phones of a relayed call: `ringway call` and `ringway answer`.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::super::audio::Recording;
use super::super::{Stage, Transport};
use crate::process::{Process, Signal};

/// `ringway call` or `ringway answer` with a tone.
pub(super) struct Talker {
    running: Process,
    recording: PathBuf,
}

/// Network settings of a phone.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) user: &'static str,
    pub(super) host: Ipv4Addr,
    pub(super) server: (Ipv4Addr, u16),
    pub(super) transport: Transport,
    pub(super) tone_hz: f64,
}

impl Talker {
    /// Registers and answers one call.
    pub(super) fn answer(stage: &Stage, access: Access, more: &[&str]) -> Result<Self> {
        let aor = uri(access.user);
        let arguments = ["answer", "--as", &aor, "--register", "--count", "1"];
        let phone = Self::start(stage, access, &[&arguments[..], more].concat())?;
        phone.running.wait_for_output("ready")?;
        Ok(phone)
    }

    /// Calls a user.
    pub(super) fn call(stage: &Stage, access: Access, user: &str, more: &[&str]) -> Result<Self> {
        let arguments = ["call", &uri(user), "--from", &uri(access.user)];
        Self::start(stage, access, &[&arguments[..], more].concat())
    }

    /// Waits until the call is answered.
    pub(super) fn connected(&mut self) -> Result<()> {
        self.running.wait_for_output("is connected")
    }

    /// Waits until it has printed this text so many times.
    pub(super) fn says(&mut self, text: &str, times: usize) -> Result<()> {
        self.running.wait_until(text, |output| output.matches(text).count() >= times)
    }

    pub(super) fn hang_up(&mut self) {
        self.running.signal(Signal::TERM);
    }

    /// Waits for the end of the call; fails unless it was answered. Returns the number of received packets.
    pub(super) fn ended(&mut self) -> Result<u64> {
        self.running.succeeds()?;
        let printed = self.running.printed_json()?;
        ensure!(printed["result"] == "answered", "{printed}");
        printed
            .pointer("/received/packets")
            .and_then(serde_json::Value::as_u64)
            .context("no packets in the JSON")
    }

    /// Waits for the end of a call without any sound, which has failed for its phone.
    pub(super) fn ended_in_silence(&mut self) -> Result<()> {
        self.running.wait()?;
        let printed = self.running.printed_json()?;
        let is_silent = printed["reason"].as_str().is_some_and(|reason| reason.starts_with("no sound"));
        let packets = printed.pointer("/received/packets").and_then(serde_json::Value::as_u64);
        ensure!(printed["result"] == "failed" && is_silent && packets == Some(0), "{printed}");
        Ok(())
    }

    /// Status with which its call failed.
    pub(super) fn refused(&mut self) -> Result<u64> {
        self.running.wait()?;
        self.running.printed_json()?["status"].as_u64().context("no status in the JSON")
    }

    /// Sound that it received.
    pub(super) fn received(&self) -> Result<Recording> {
        Recording::read(&self.recording)
    }

    /// Fails unless it heard `hz` for `seconds`.
    pub(super) fn expect_received(&self, hz: f64, seconds: f64) -> Result<()> {
        self.received()?.expect_tone(hz, seconds)
    }

    fn start(stage: &Stage, access: Access, arguments: &[&str]) -> Result<Self> {
        let Access { user, host, server: (server, port), transport, tone_hz } = access;
        let program = stage.ringway.program().context("only Ringway's program can run this scenario")?;
        let recording = stage.path(&format!("heard-by-{user}.wav"));
        let mut command = stage.command(program);
        command.args(arguments).args(["--server", &format!("{server}:{port}")]);
        command.args(["--transport", transport.name(), "--bind", &format!("{host}:0"), "--password-stdin"]);
        command.args(["--play", &format!("tone:{tone_hz}"), "--json", "--trace", "--record"]).arg(&recording);
        let mut running = Process::start(user, &mut command, &stage.folder)?;
        running.type_line(&format!("secret-{user}"))?;
        running.close_input();
        Ok(Self { running, recording })
    }
}

/// Accounts of users, each with the password that the phones have.
pub(super) fn accounts(users: &[&str]) -> Vec<(String, String)> {
    users.iter().map(|user| ((*user).to_owned(), format!("secret-{user}"))).collect()
}

pub(super) fn uri(user: &str) -> String {
    format!("sip:{user}@example.org")
}
