//! linphonec, which registers with digest.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use ringway_test_support::eventually::retry;

use super::audio::write_tone;
use super::certificates::CA_FILE;
use super::server::{Server, Wanted};
use super::softphone::{Keys, Line, Softphone};
use super::{Scenario, Stage, Transport};
use crate::process::{PATIENCE, Process, free_port};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let register = |transport: Transport| {
        let name = format!("linphone/register/{}", transport.name());
        Scenario::new(name, move |stage: &Stage| {
            let server = Server::start(stage, Wanted::default(), &[])?;
            server.add_user("carol")?;
            let mut phone = Phone::start(stage, Line::at_server("carol", 440.0, server.port, transport))?;
            phone.registered()?;
            server.expect_registered(["carol"].into_iter(), true)
        })
    };
    Transport::ALL.map(register).into()
}

/// A linphonec that sends a tone and records received sound. It answers every call.
pub(crate) struct Phone {
    running: Process,
    recording: PathBuf,
    messages: PathBuf,
    uri: String,
    keys: Keys,
    /// Number of calls that should have ended.
    ended: usize,
}

impl Phone {
    /// Starts linphonec, which registers automatically if it has a server, with or without success.
    pub(crate) fn start(stage: &Stage, line: Line<'_>) -> Result<Self> {
        Self::start_with(stage, line, "")
    }

    /// The same with parameters of its Contact.
    pub(crate) fn start_with(stage: &Stage, line: Line<'_>, contact: &str) -> Result<Self> {
        Self::start_in(stage, line, contact, None)
    }

    /// Starts one that publishes its presence, and subscribes to that of `watched`.
    pub(crate) fn start_watching(stage: &Stage, line: Line<'_>, watched: &str) -> Result<Self> {
        Self::start_in(stage, line, "", Some(watched))
    }

    fn start_in(stage: &Stage, line: Line<'_>, contact: &str, watched: Option<&str>) -> Result<Self> {
        let Line { user, host, .. } = line;
        let home = stage.path(&format!("{user}-linphone"));
        // Without these folders it cannot open its database and does nothing.
        std::fs::create_dir_all(home.join(".local/share/linphone"))?;
        std::fs::create_dir_all(home.join(".config/linphone"))?;
        let (tone, recording) = (home.join("tone.wav"), home.join("heard.wav"));
        write_tone(&tone, line.tone_hz, line.seconds)?;
        let port = free_port()?;
        let none = "-1".to_owned();
        let (udp, tcp, tls) = match line.transport {
            Transport::Udp => (port.to_string(), none.clone(), none),
            Transport::Tcp => (none.clone(), port.to_string(), none),
            Transport::Tls => (none.clone(), none, port.to_string()),
        };
        let (encryption, suites) = match line.keys {
            Keys::None => ("none", ""),
            Keys::Sdes(suite) => ("srtp", suite),
            Keys::Zrtp => ("zrtp", ""),
            Keys::Dtls(_) => ("dtls", ""),
        };
        // Its TLS library compares host names with a certificate, but no addresses.
        let server_host = match line.transport {
            Transport::Tls => "localhost".to_owned(),
            Transport::Udp | Transport::Tcp => line.server_host.to_string(),
        };
        let mut words = vec![
            ("@SERVER_HOST@", server_host),
            ("@HOST@", host.to_string()),
            ("@PORT@", port.to_string()),
            ("@UDP@", udp),
            ("@TCP@", tcp),
            ("@TLS@", tls),
            ("@CA@", stage.path(CA_FILE).display().to_string()),
            ("@RTP@", free_port()?.to_string()),
            ("@USER@", user.to_owned()),
            ("@PASSWORD@", format!("secret-{user}")),
            ("@SERVER@", line.server.unwrap_or_default().to_string()),
            ("@TRANSPORT@", line.transport.name().to_owned()),
            ("@ENCRYPTION@", encryption.to_owned()),
            ("@MANDATORY@", u8::from(line.keys != Keys::None).to_string()),
            ("@SUITES@", suites.to_owned()),
            (
                "@CONTACT@",
                if contact.is_empty() { String::new() } else { format!("contact_parameters={contact}") },
            ),
            ("@PUBLISH@", u8::from(watched.is_some()).to_string()),
            ("@FRIEND@", watched.map(friend).unwrap_or_default()),
            ("@PROXY@", if line.server.is_some() { "0" } else { "-1" }.to_owned()),
        ];
        let registration = home.join("registration");
        stage.fill("linphone/registration", &words, &registration)?;
        let registration =
            if line.server.is_some() { std::fs::read_to_string(registration)? } else { String::new() };
        words.push(("@REGISTRATION@", registration));
        let rc = home.join("linphonerc");
        stage.fill("linphone/linphonerc", &words, &rc)?;
        let mut command = Command::new("linphonec");
        command.env("HOME", &home).arg("-a").arg("-b").arg("/dev/null").arg("-c").arg(&rc);
        let messages = stage.path(&format!("{user}.messages"));
        command.args(["-d", "6", "-l"]).arg(&messages);
        let mut running = Process::start(user, &mut command, &stage.folder)?;
        running.wait_for_output("linphonec>")?;
        // The key in its file alone does not disable IPv6 in its offers.
        running.type_line("ipv6 disable")?;
        running.type_line("soundcard use files")?;
        running.type_line(&format!("play {}", tone.display()))?;
        running.type_line(&format!("record {}", recording.display()))?;
        running.wait_for_output("Using wav files")?;
        Ok(Self { running, recording, messages, uri: line.uri(port), keys: line.keys, ended: 0 })
    }

    /// Waits until linphonec reports that it is registered.
    pub(crate) fn registered(&mut self) -> Result<()> {
        // It reports that only on request.
        retry(PATIENCE, || {
            self.running.type_line("status register")?;
            std::thread::sleep(ASK_EVERY);
            ensure!(self.running.output().contains("registered, identity="), "linphonec did not register");
            Ok(())
        })
    }
}

impl Phone {
    /// Sends a text to a user.
    pub(crate) fn says(&mut self, user: &str, text: &str) -> Result<()> {
        self.running.type_line(&format!("chat sip:{user}@example.org \"{text}\""))
    }

    /// Waits until it shows a text of a user.
    pub(crate) fn reads(&mut self, user: &str, text: &str) -> Result<()> {
        self.running.wait_until(&format!("{user} says {text}"), |output| {
            let shown = |line: &str| line.contains("Message received from") && line.contains(text);
            output.lines().any(|line| shown(line) && line.contains(&format!("sip:{user}@")))
        })
    }

    /// Waits until it shows that a user has this status.
    pub(crate) fn sees(&mut self, user: &str, status: &str) -> Result<()> {
        self.running.wait_until(&format!("{user} is {status}"), |output| {
            output
                .lines()
                .any(|line| line.contains(&format!("sip:{user}@")) && line.contains(&format!(" is {status}")))
        })
    }
}

/// Entry of its contact list.
fn friend(user: &str) -> String {
    format!("[friend_0]\nurl=\"{user}\" <sip:{user}@example.org>\npol=accept\nsubscribe=1\n")
}

impl Softphone for Phone {
    fn uri(&self) -> String {
        self.uri.clone()
    }

    fn dial(&mut self, uri: &str) -> Result<()> {
        self.running.type_line(&format!("call {uri}"))
    }

    fn answer(&mut self) -> Result<()> {
        Ok(())
    }

    fn established(&mut self) -> Result<()> {
        self.running.wait_for_output("Media streams established")?;
        match self.keys {
            // It prints nothing about these.
            Keys::None | Keys::Sdes(_) | Keys::Dtls(_) => Ok(()),
            Keys::Zrtp => self.running.wait_for_output("auth token is"),
        }
    }

    fn hold(&mut self) -> Result<()> {
        self.running.type_line("pause")
    }

    fn resume(&mut self) -> Result<()> {
        self.running.type_line("resume")
    }

    fn press(&mut self, digit: char) -> Result<()> {
        self.running.type_line(&digit.to_string())
    }

    fn hang_up(&mut self) -> Result<()> {
        self.running.type_line("terminate")
    }

    fn ended(&mut self) -> Result<()> {
        self.ended += 1;
        let calls = self.ended;
        self.running.wait_until(" ended (", |output| output.matches(" ended (").count() >= calls)
    }

    fn digits(&self) -> String {
        let output = self.running.output();
        output.split("Receiving tone ").skip(1).filter_map(|rest| rest.chars().next()).collect()
    }

    fn trace(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(&self.messages)?).into_owned())
    }

    fn sas(&self) -> Option<String> {
        let output = self.running.output();
        let (_, rest) = output.rsplit_once("auth token is ")?;
        rest.split(['.', '\n']).next().map(str::to_owned)
    }

    fn recording(&mut self) -> Result<PathBuf> {
        self.running.type_line("quit")?;
        self.running.wait()?;
        Ok(self.recording.clone())
    }
}

const ASK_EVERY: Duration = Duration::from_millis(100);
