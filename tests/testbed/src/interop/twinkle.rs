//! twinkle-console, a phone without SRTP.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Stage;
use super::audio::SoundCard;
use super::softphone::{Keys, Line, Softphone};
use crate::process::{Process, free_port};

/// A twinkle that sends a tone and records received sound.
pub(crate) struct Phone {
    running: Process,
    card: SoundCard,
    uri: String,
    log: PathBuf,
    messages: PathBuf,
}

impl Phone {
    /// Starts twinkle, which registers automatically if it has a server, with or without success.
    pub(crate) fn start(stage: &Stage, line: Line<'_>) -> Result<Self> {
        if line.keys != Keys::None {
            bail!("twinkle has no SRTP");
        }
        let Line { user, host, .. } = line;
        let home = stage.path(&format!("{user}-twinkle"));
        let settings = home.join(".twinkle");
        std::fs::create_dir_all(&settings)?;
        let card = SoundCard::insert(&home, line.tone_hz, 1)?;
        let port = free_port()?;
        let server = line.server.map_or_else(String::new, |server| {
            format!(
                "registrar={host}:{server}\noutbound_proxy={host}:{server}\nall_requests_to_proxy=yes\n\
                 register_at_startup=yes\n"
            )
        });
        let words = [
            ("@PORT@", port.to_string()),
            ("@RTP@", free_port()?.to_string()),
            ("@USER@", user.to_owned()),
            ("@PASSWORD@", format!("secret-{user}")),
            ("@DOMAIN@", line.domain(port)),
            ("@SERVER@", server),
            ("@TRANSPORT@", line.transport.name().to_owned()),
        ];
        for (file, name) in [("twinkle.sys", "twinkle.sys"), ("user.cfg", &format!("{user}.cfg"))] {
            stage.fill(&format!("twinkle/{file}"), &words, &settings.join(name))?;
        }
        // Without this file it prompts for a first user.
        std::fs::write(settings.join("twinkle.cfg"), "")?;
        let mut command = Command::new("twinkle-console");
        command.env("HOME", &home).arg(format!("{user}.cfg"));
        let running = Process::start(user, &mut command, &stage.folder)?;
        running.wait_until("Twinkle>", has_prompt)?;
        let messages = stage.path(&format!("{user}.messages"));
        Ok(Self { running, card, uri: line.uri(port), log: settings.join("twinkle.log"), messages })
    }

    /// Waits until it is registered.
    pub(crate) fn registered(&mut self) -> Result<()> {
        self.running.wait_for_output("registration succeeded")
    }
}

impl Softphone for Phone {
    fn uri(&self) -> String {
        self.uri.clone()
    }

    fn dial(&mut self, uri: &str) -> Result<()> {
        self.running.type_line(&format!("call {uri}"))
    }

    fn answer(&mut self) -> Result<()> {
        self.running.wait_for_output("incoming call")?;
        self.running.type_line("answer")
    }

    fn established(&mut self) -> Result<()> {
        let log = self.log.clone();
        self.running.wait_until("RTP session started", |_| {
            std::fs::read_to_string(&log).is_ok_and(|log| log.contains("RTP session started"))
        })
    }

    fn hold(&mut self) -> Result<()> {
        self.running.type_line("hold")
    }

    fn resume(&mut self) -> Result<()> {
        self.running.type_line("retrieve")
    }

    fn press(&mut self, digit: char) -> Result<()> {
        self.running.type_line(&format!("dtmf {digit}"))
    }

    fn hang_up(&mut self) -> Result<()> {
        self.running.type_line("bye")
    }

    fn ended(&mut self) -> Result<()> {
        self.running.wait_until("call ended", |output| {
            output.contains("call ended") || output.contains("far end ended call")
        })
    }

    fn digits(&self) -> String {
        let output = self.running.output();
        output.split("DTMF detected: ").skip(1).filter_map(|rest| rest.chars().next()).collect()
    }

    fn trace(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned())
    }

    fn sas(&self) -> Option<String> {
        None
    }

    fn recording(&mut self) -> Result<PathBuf> {
        self.running.type_line("quit")?;
        self.running.wait()?;
        // Its log contains the messages; the copy is among the other traces.
        std::fs::copy(&self.log, &self.messages)?;
        self.card.take_out()
    }
}

/// True once twinkle reads commands. Two of its threads write at the same time, so other output may be
/// between the letters of the first prompt `Twinkle>`; nothing else writes `>` after the local address.
fn has_prompt(output: &str) -> bool {
    output.split_once("Local IP:").is_some_and(|(_, rest)| rest.contains('>'))
}

/// An address of this machine other than loopback, which twinkle does not use.
pub(crate) fn own_address() -> Result<Ipv4Addr> {
    let table = std::fs::read_to_string("/proc/net/fib_trie").context("/proc/net/fib_trie")?;
    let lines: Vec<&str> = table.lines().collect();
    let pairs = lines.iter().zip(lines.iter().skip(1));
    let own = pairs.filter(|(_, kind)| kind.contains("/32 host LOCAL"));
    let mut addresses =
        own.filter_map(|(address, _)| address.trim().strip_prefix("|-- ")?.parse::<Ipv4Addr>().ok());
    addresses
        .find(|address| !address.is_loopback())
        .context("this machine has no IPv4 address but loopback, which twinkle does not use")
}

#[cfg(test)]
mod tests {
    use super::has_prompt;

    #[test]
    fn the_prompt_is_found_between_other_output() {
        let start = "Users:\n* bob\n     <sip:bob@192.0.2.2:25244>\n\nLocal IP:       255.255.255.255\n\n";
        assert!(!has_prompt(start));
        assert!(has_prompt(&format!("{start}Twinkle> ")));
        assert!(has_prompt(&format!("{start}bob, registration failed: 403 Forbidden\nT\nwinkle> ")));
    }
}
