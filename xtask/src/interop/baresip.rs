//! baresip: two phones register by digest and call each other, with sound both ways.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::audio::{Recording, write_tone};
use super::process::{Running, free_port};
use super::server::{Server, Wanted};
use super::{Scenario, Stage, Transport};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let call = |transport: Transport| {
        Scenario::new(format!("baresip/call/{}", transport.name()), move |stage: &Stage| {
            call(stage, transport)
        })
    };
    Transport::ALL.map(call).into()
}

fn call(stage: &Stage, transport: Transport) -> Result<()> {
    let server = Server::start(stage, Wanted::default(), &[])?;
    server.add_user("alice")?;
    server.add_user("bob")?;
    let mut alice = Phone::register(stage, "alice", 440.0, server.port, transport)?;
    let mut bob = Phone::register(stage, "bob", 1000.0, server.port, transport)?;
    server.expect_registered(["alice", "bob"].into_iter(), true)?;
    alice.command("dial", "sip:bob@example.org")?;
    alice.running.wait_for_output("Call established", Duration::from_secs(5))?;
    bob.running.wait_for_output("Call established", Duration::from_secs(5))?;
    std::thread::sleep(Duration::from_secs(3));
    alice.command("hangup", "")?;
    bob.running.wait_for_output("session closed", Duration::from_secs(5))?;
    alice.running.stop();
    bob.running.stop();
    alice.received()?.expect_tone(bob.tone_hz, 2.0).context("alice")?;
    bob.received()?.expect_tone(alice.tone_hz, 2.0).context("bob")
}

/// A registered baresip that sends a tone and records what it hears.
pub(crate) struct Phone {
    pub(crate) running: Running,
    control: u16,
    tone_hz: f64,
    recordings: PathBuf,
}

impl Phone {
    /// Starts baresip as `user`, whose password is `secret-USER`, and waits until it is registered.
    pub(crate) fn register(
        stage: &Stage,
        user: &str,
        tone_hz: f64,
        server: u16,
        transport: Transport,
    ) -> Result<Self> {
        let mut phone = Self::start(stage, user, tone_hz, server, transport)?;
        phone
            .running
            .wait_for_output("200 OK", Duration::from_secs(5))
            .context("baresip did not register")?;
        Ok(phone)
    }

    /// Starts baresip as `user`, which registers by itself, with or without success.
    pub(crate) fn start(
        stage: &Stage,
        user: &str,
        tone_hz: f64,
        server: u16,
        transport: Transport,
    ) -> Result<Self> {
        let home = stage.path(&format!("{user}-baresip"));
        let recordings = home.join("recordings");
        std::fs::create_dir_all(&recordings)?;
        let tone = home.join("tone.wav");
        write_tone(&tone, tone_hz, 20)?;
        let (control, rtp) = (free_port()?, free_port()?);
        let words = [
            ("@PORT@", free_port()?.to_string()),
            ("@CONTROL@", control.to_string()),
            ("@RTP_FIRST@", rtp.to_string()),
            ("@RTP_LAST@", (rtp + 20).to_string()),
            ("@TONE@", tone.display().to_string()),
            ("@RECORDINGS@", recordings.display().to_string()),
            ("@MODULES@", modules()?),
            ("@USER@", user.to_owned()),
            ("@PASSWORD@", format!("secret-{user}")),
            ("@SERVER@", server.to_string()),
            ("@TRANSPORT@", transport.name().to_owned()),
        ];
        for file in ["config", "accounts"] {
            let mut text = std::fs::read_to_string(stage.data.join("baresip").join(file))?;
            for (word, value) in &words {
                text = text.replace(word, value);
            }
            std::fs::write(home.join(file), text)?;
        }
        std::fs::write(home.join("contacts"), "")?;
        let mut command = Command::new("baresip");
        command.arg("-s").arg("-f").arg(&home);
        let running = Running::start(user, &mut command, &stage.folder)?;
        Ok(Self { running, control, tone_hz, recordings })
    }

    /// Gives baresip a command over its control port and waits for its answer; events in between are skipped.
    fn command(&self, name: &str, parameters: &str) -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.control)).context("no control port")?;
        stream.set_read_timeout(Some(Duration::from_secs(3)))?;
        let json = serde_json::json!({ "command": name, "params": parameters, "token": "xtask" }).to_string();
        write!(stream, "{}:{json},", json.len())?;
        let deadline = Instant::now() + Duration::from_secs(3);
        let mut answer = Vec::new();
        let mut piece = [0_u8; 4096];
        while Instant::now() < deadline {
            let read = stream.read(&mut piece)?;
            answer.extend_from_slice(piece.get(..read).unwrap_or_default());
            let text = String::from_utf8_lossy(&answer);
            if text.contains("\"response\":true") {
                return Ok(());
            }
            if read == 0 {
                break;
            }
        }
        bail!("baresip did not answer its command {name}: {}", String::from_utf8_lossy(&answer))
    }

    /// What was heard. baresip writes one file for each direction; `dec` is what came in.
    fn received(&self) -> Result<Recording> {
        let entries = std::fs::read_dir(&self.recordings)?;
        let received =
            entries.flatten().find(|entry| entry.file_name().to_string_lossy().ends_with("-dec.wav"));
        Recording::read(&received.context("baresip recorded nothing")?.path())
    }
}

/// Where the package puts baresip's modules.
fn modules() -> Result<String> {
    let places = ["/usr/lib/baresip/modules", "/usr/lib/x86_64-linux-gnu/baresip/modules"];
    let found = places.into_iter().find(|place| std::path::Path::new(place).join("g711.so").is_file());
    found.map(str::to_owned).context("baresip's modules are not installed: apt-get install baresip-core")
}
