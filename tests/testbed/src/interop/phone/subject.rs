//! The phone under test: `ringway call` or `ringway answer`, or another phone instead.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::certificates::CA_FILE;
use super::super::softphone::{Keys, Line, Softphone};
use super::super::{Stage, Transport, baresip, linphone};
use crate::process::{Process, Signal, free_port};

/// Actions of the phone in its call. Ringway's phone gets them at its start.
pub(crate) struct Plan<'a> {
    pub(crate) line: Line<'a>,
    /// Digits to send.
    pub(crate) digits: &'static str,
    /// Times of the holds, from the answer on.
    pub(crate) holds: Vec<Duration>,
    /// Duration of each hold.
    pub(crate) hold: Duration,
    /// Time of the hang-up; `None` if the other side hangs up.
    pub(crate) ends: Option<Duration>,
}

/// The phone under test.
pub(crate) struct Subject<'a> {
    stage: &'a Stage,
    plan: Plan<'a>,
    phone: Phone,
    /// Number of its INVITEs that should have been answered so far.
    agreed: usize,
    /// Number of holds by the peer so far.
    held: usize,
}

enum Phone {
    Unused,
    Ringway(Process),
    StandIn(Box<dyn Softphone>),
}

impl<'a> Subject<'a> {
    pub(crate) const fn new(stage: &'a Stage, plan: Plan<'a>) -> Self {
        Self { stage, plan, phone: Phone::Unused, agreed: 0, held: 0 }
    }

    /// Starts a call.
    pub(crate) fn dial(&mut self, uri: &str) -> Result<()> {
        self.agreed += 1;
        self.phone = match self.stage.ringway.program() {
            Some(program) => {
                let mut command = Command::new(program);
                let from = self.plan.line.uri(self.plan.line.server.unwrap_or_default());
                command.args(["call", uri, "--from", &from, "--bind", &format!("{}:0", self.plan.line.host)]);
                Phone::Ringway(self.started(command)?)
            }
            None => {
                let mut phone = self.stand_in()?;
                phone.dial(uri)?;
                Phone::StandIn(phone)
            }
        };
        Ok(())
    }

    /// Starts accepting calls; returns its URI.
    pub(crate) fn wait_for_calls(&mut self) -> Result<String> {
        let line = self.plan.line;
        let (phone, uri) = match self.stage.ringway.program() {
            Some(program) => {
                let port = free_port()?;
                let aor = format!("sip:{}@{}", line.user, line.domain(port));
                let mut command = Command::new(program);
                command.args([
                    "answer",
                    "--as",
                    &aor,
                    "--count",
                    "1",
                    "--bind",
                    &format!("{}:{port}", line.host),
                ]);
                if line.server.is_some() {
                    command.arg("--register");
                }
                let running = self.started(command)?;
                running.wait_for_output("ready").context("the phone")?;
                (Phone::Ringway(running), line.uri(port))
            }
            None => {
                let phone = self.stand_in()?;
                let uri = phone.uri();
                (Phone::StandIn(phone), uri)
            }
        };
        self.phone = phone;
        Ok(uri)
    }

    pub(crate) fn established(&mut self) -> Result<()> {
        match &mut self.phone {
            Phone::Ringway(running) => running.wait_for_output("is connected").context("the phone"),
            Phone::StandIn(phone) => phone.established().context("the stand-in"),
            Phone::Unused => Ok(()),
        }
    }

    pub(crate) fn press(&mut self) -> Result<()> {
        let digits = self.plan.digits;
        self.stand_in_does(|phone| {
            for digit in digits.chars() {
                phone.press(digit)?;
                std::thread::sleep(Duration::from_millis(250));
            }
            Ok(())
        })
    }

    /// Holds the call, or waits until the phone has done so.
    pub(crate) fn hold(&mut self) -> Result<()> {
        self.stand_in_does(Softphone::hold)?;
        self.has_changed()
    }

    /// Resumes the call, or waits until the phone has done so.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.stand_in_does(Softphone::resume)?;
        self.has_changed()
    }

    /// Waits until the phone has noticed that the peer holds the call.
    pub(crate) fn is_held(&mut self) -> Result<()> {
        self.held += 1;
        self.says("holds the call", self.held)
    }

    /// Waits until the phone has noticed that the peer has resumed the call.
    pub(crate) fn is_resumed(&mut self) -> Result<()> {
        self.says("is back", self.held)
    }

    /// Hangs up, or leaves that to the phone.
    pub(crate) fn hang_up(&mut self) -> Result<()> {
        if let (Phone::Ringway(running), None) = (&mut self.phone, self.plan.ends) {
            running.signal(Signal::TERM);
        }
        self.stand_in_does(Softphone::hang_up)
    }

    pub(crate) fn ended(&mut self) -> Result<()> {
        match &mut self.phone {
            Phone::Ringway(running) => running.succeeds().map(|_| ()),
            Phone::StandIn(phone) => phone.ended(),
            Phone::Unused => Ok(()),
        }
    }

    /// WAV file of the received sound.
    pub(crate) fn recording(&mut self) -> Result<PathBuf> {
        match &mut self.phone {
            Phone::StandIn(phone) => phone.recording(),
            Phone::Ringway(_) | Phone::Unused => Ok(self.own_recording()),
        }
    }

    /// Compares the phone's result with the call: `sas` is the peer's string, `digit` the one it sent, and
    /// `faults` the maximum values of counters.
    pub(crate) fn check(
        &self,
        stage: &Stage,
        sas: Option<&str>,
        digit: char,
        faults: &[(&str, u32)],
    ) -> Result<()> {
        let running = match &self.phone {
            Phone::Ringway(running) => running,
            Phone::StandIn(phone) => {
                if phone.sas().as_deref() != sas {
                    bail!("one side says {:?} to compare, the other {sas:?}", phone.sas());
                }
                return Ok(());
            }
            Phone::Unused => return Ok(()),
        };
        let printed = running.printed_json()?;
        stage.keep_text(&printed.to_string(), "phone.json")?;
        let expect = |at: &str, expected: Value| match printed.pointer(at) {
            Some(found) if *found == expected => Ok(()),
            found => bail!("the phone's JSON has {found:?} at {at}, not {expected}"),
        };
        expect("/result", "answered".into())?;
        expect("/status", 200.into())?;
        match self.plan.line.keys {
            Keys::None => expect("/security/method", "none".into())?,
            Keys::Sdes(suite) => {
                expect("/security/method", "sdes".into())?;
                expect("/security/suite", suite.into())?;
                expect("/security/tag_bits", tag_bits(suite).into())?;
                let uses_tls = self.plan.line.transport == Transport::Tls;
                expect("/security/keys_protected", uses_tls.into())?;
            }
            Keys::Dtls(suite) => {
                expect("/security/method", "dtls".into())?;
                expect("/security/suite", suite.into())?;
                expect("/security/fingerprints_protected", false.into())?;
            }
            Keys::Zrtp => {
                expect("/security/method", "zrtp".into())?;
                expect("/security/sas", sas.context("the peer says nothing to compare")?.into())?;
            }
        }
        for (fault, most) in faults {
            match printed.pointer(&format!("/received/{fault}")).and_then(Value::as_u64) {
                Some(count) if count <= u64::from(*most) => {}
                count => {
                    bail!(
                        "the phone's JSON has {count:?} for {fault}, at most {most} are the peer's: {printed}"
                    )
                }
            }
        }
        expect("/received/dtmf", digit.to_string().into())?;
        for figure in ["/setup_ms", "/duration_s", "/sent/packets", "/received/packets", "/received/mos"] {
            if printed.pointer(figure).and_then(Value::as_f64).is_none_or(|figure| figure <= 0.0) {
                bail!("the phone's JSON has no figure at {figure}: {printed}");
            }
        }
        Ok(())
    }

    fn started(&self, mut command: Command) -> Result<Process> {
        let Plan { line, digits, holds, hold, ends } = &self.plan;
        command.args(["--transport", line.transport.name(), "--play", &format!("tone:{}", line.tone_hz)]);
        command.arg("--record").arg(self.own_recording());
        let port = free_port()?;
        command.args(["--rtp-ports", &format!("{port}-{}", port + 1)]);
        command.args(["--dtmf", digits, "--json", "--trace"]);
        match line.keys {
            // The default must not disturb such a peer; without a server the option is given.
            Keys::None if line.server.is_some() => &mut command,
            Keys::None => command.args(["--srtp", "none"]),
            Keys::Sdes(suite) => command.args(["--srtp", "sdes", "--suite", suite]),
            Keys::Zrtp => command.args(["--srtp", "zrtp"]),
            Keys::Dtls(suite) => command.args(["--srtp", "dtls", "--suite", suite]),
        };
        if line.transport == Transport::Tls {
            command.args(["--ca", CA_FILE]);
        }
        if let Some(server) = line.server {
            command.args(["--server", &format!("{}:{server}", line.server_host), "--password-stdin"]);
        }
        if !holds.is_empty() {
            let times: Vec<String> = holds.iter().map(|at| at.as_secs_f64().to_string()).collect();
            command.args(["--hold-at", &times.join(","), "--hold-s", &hold.as_secs_f64().to_string()]);
        }
        if let Some(ends) = ends {
            command.args(["--duration", &ends.as_secs_f64().to_string()]);
        }
        let mut running = Process::start(line.user, &mut command, &self.stage.folder)?;
        if line.server.is_some() {
            running.type_line(&format!("secret-{}", line.user))?;
        }
        running.close_input();
        Ok(running)
    }

    /// Waits until one more re-INVITE of the phone was answered with 200.
    fn has_changed(&mut self) -> Result<()> {
        self.agreed += 1;
        let wanted = self.agreed;
        let Phone::Ringway(running) = &mut self.phone else { return Ok(()) };
        // By sequence numbers, because a message may be retransmitted on a busy machine.
        let agreed = |line: &str| {
            let (answer, rest) = line.strip_prefix("<- ")?.split_once(" [")?;
            let (cseq, _) = rest.split_once(" INVITE,")?;
            answer.contains(" SIP/2.0 200 ").then(|| cseq.to_owned())
        };
        let has = |output: &str| output.lines().filter_map(agreed).collect::<BTreeSet<_>>().len() >= wanted;
        running.wait_until(&format!("{wanted} times 200 to its INVITEs"), has).context("the phone")
    }

    /// Waits until Ringway's phone has printed a text this many times.
    fn says(&mut self, text: &str, times: usize) -> Result<()> {
        let Phone::Ringway(running) = &mut self.phone else { return Ok(()) };
        running.wait_until(text, |output| output.matches(text).count() >= times).context("the phone")
    }

    fn own_recording(&self) -> PathBuf {
        self.stage.path("heard-by-phone.wav")
    }

    /// Another phone that supports this call.
    fn stand_in(&self) -> Result<Box<dyn Softphone>> {
        let line = self.plan.line;
        Ok(match line.keys {
            Keys::None | Keys::Sdes("AES_CM_128_HMAC_SHA1_80") | Keys::Dtls(_) => {
                let mut phone = baresip::Phone::start(self.stage, line)?;
                line.server.map_or(Ok(()), |_| phone.registered())?;
                Box::new(phone)
            }
            Keys::Sdes(_) | Keys::Zrtp => {
                let mut phone = linphone::Phone::start(self.stage, line)?;
                line.server.map_or(Ok(()), |_| phone.registered())?;
                Box::new(phone)
            }
        })
    }

    /// Ringway's phone got its actions at its start.
    fn stand_in_does(
        &mut self,
        what: impl FnOnce(&mut (dyn Softphone + 'static)) -> Result<()>,
    ) -> Result<()> {
        match &mut self.phone {
            Phone::StandIn(phone) => what(phone.as_mut()).context("the stand-in"),
            Phone::Ringway(_) | Phone::Unused => Ok(()),
        }
    }
}

fn tag_bits(suite: &str) -> u32 {
    match suite.rsplit('_').next() {
        Some("32") => 32,
        Some("GCM") => 128,
        _ => 80,
    }
}
