//! SIPp: scenario files with selected parts, a list of users, and one process for each role.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::{Stage, Transport};
use crate::process::{PATIENCE, Process, TCP, UDP, await_listener};

/// Parameters of a SIPp process.
pub(crate) struct Sipp<'a> {
    /// File name of the scenario without `.xml`, also used for the traces.
    pub(crate) scenario: &'a str,
    /// Name of this process in the traces.
    pub(crate) role: &'a str,
    /// Names of the parts marked `<!-- only NAME -->` that are kept.
    pub(crate) parts: &'a [&'a str],
    /// Words `@NAME@` in the file, and their values.
    pub(crate) words: &'a [(&'a str, String)],
    /// One row for each call: user, digest keyword, callee.
    pub(crate) users: &'a [User],
    /// Own port.
    pub(crate) port: u16,
    /// Port of the server, for a caller.
    pub(crate) server: Option<u16>,
    /// Transport of SIP.
    pub(crate) transport: Transport,
    /// Connections over TCP.
    pub(crate) connections: Connections,
    /// Host in Contact, if the server reaches this process at another address than its own.
    pub(crate) contact: Option<&'static str>,
    /// Load at a fixed rate, without a trace of the messages; without it, a test of one call for each user.
    pub(crate) load: Option<Load>,
}

/// Load at a fixed rate.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Calls a second.
    pub(crate) rate: u32,
    /// Number of calls; a callee answers until it is stopped.
    pub(crate) calls: usize,
}

/// Statistics of a SIPp process that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) successful: u64,
    pub(crate) failed: u64,
    pub(crate) retransmissions: u64,
    /// Calls a second from start to end.
    pub(crate) rate: f64,
}

/// Number of TCP connections of a SIPp process.
#[derive(Clone, Copy)]
pub(crate) enum Connections {
    One,
    OnePerCall,
}

/// A row of the list of users: name, password, callee.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) password: String,
    pub(crate) callee: String,
}

impl Sipp<'_> {
    /// Starts SIPp.
    pub(crate) fn start(&self, stage: &Stage) -> Result<Process> {
        let text = std::fs::read_to_string(stage.data.join(format!("sipp/{}.xml", self.scenario)))?;
        let file = stage.path(&format!("{}.xml", self.role));
        let text = filled(&text, self.parts, self.words)?;
        std::fs::write(&file, self.contact.map_or(text.clone(), |host| with_contact(&text, host)))?;
        let list = stage.path(&format!("{}.csv", self.role));
        std::fs::write(&list, rows(self.users)?)?;
        let mut command = Command::new("sipp");
        if let Some(server) = self.server {
            command.arg(format!("127.0.0.1:{server}"));
        }
        command.arg("-sf").arg(&file).arg("-inf").arg(&list);
        command.args(["-i", "127.0.0.1", "-p", &self.port.to_string(), "-nostdin"]);
        self.add_amount(&mut command, stage);
        match (self.transport, self.connections) {
            (Transport::Udp, _) => command.args(["-t", "u1"]),
            (Transport::Tcp, Connections::One) => command.args(["-t", "t1"]),
            (Transport::Tcp, Connections::OnePerCall) => command.args(["-t", "tn", "-max_socket", "500"]),
            (Transport::Tls, _) => bail!("Debian's SIPp has no TLS"),
        };
        let (all, one) = (ALL_CALLS.as_secs().to_string(), PATIENCE.as_millis().to_string());
        command.args(["-timeout", &all, "-timeout_error", "-recv_timeout", &one]);
        command.arg("-trace_err").arg("-error_file").arg(stage.path(&format!("{}-sipp.err", self.role)));
        let running = Process::start(self.role, &mut command, &stage.folder)?;
        if self.server.is_none() {
            let tables = if self.transport == Transport::Udp { UDP } else { TCP };
            await_listener(self.port, tables)?;
        }
        Ok(running)
    }

    /// Adds the number of calls, their rate, and the trace.
    fn add_amount(&self, command: &mut Command, stage: &Stage) {
        let Some(load) = self.load else {
            let calls = self.users.len().to_string();
            command.args(["-m", &calls, "-l", &calls, "-r", "100"]);
            command
                .arg("-trace_msg")
                .arg("-message_file")
                .arg(stage.path(&format!("{}.messages", self.role)));
            return;
        };
        let calls = load.calls.to_string();
        command.args(["-l", &calls, "-r", &load.rate.to_string()]);
        if self.server.is_some() {
            command.args(["-m", &calls]);
        }
        let file = self.statistics_file(stage);
        // Of an earlier run.
        let _ = std::fs::remove_file(&file);
        command.arg("-trace_stat").arg("-stf").arg(file);
    }

    /// Runs SIPp under load to its end, which does not depend on the success of calls.
    pub(crate) fn play(&self, stage: &Stage) -> Result<Statistics> {
        let running = self.start(stage)?;
        self.finish(stage, running)
    }

    /// Waits for the end of a run under load.
    pub(crate) fn finish(&self, stage: &Stage, running: Process) -> Result<Statistics> {
        running.wait_for(ALL_CALLS + PATIENCE)?;
        let file = self.statistics_file(stage);
        let text = std::fs::read_to_string(&file).with_context(|| format!("{}: no statistics", self.role))?;
        statistics(&text).with_context(|| format!("{} has no statistics", file.display()))
    }

    fn statistics_file(&self, stage: &Stage) -> PathBuf {
        stage.path(&format!("{}.statistics", self.role))
    }

    /// Runs SIPp to its end; fails unless every call succeeded.
    pub(crate) fn run(&self, stage: &Stage) -> Result<()> {
        succeeded(self.role, &mut self.start(stage)?)
    }
}

/// Waits for the end of a SIPp process; fails unless every call succeeded.
pub(crate) fn succeeded(role: &str, sipp: &mut Process) -> Result<()> {
    let status = sipp.wait_for(ALL_CALLS + PATIENCE)?;
    if !status.success() {
        bail!("{role}: SIPp counted failed calls ({status})");
    }
    Ok(())
}

/// The last line of a statistics file; its first line has the names of the columns.
fn statistics(text: &str) -> Option<Statistics> {
    let (names, last) = (text.lines().next()?, text.lines().next_back()?);
    let column = |name: &str| {
        let at = names.split(';').position(|column| column == name)?;
        last.split(';').nth(at)?.trim().parse::<f64>().ok()
    };
    Some(Statistics {
        successful: column("SuccessfulCall(C)")? as u64,
        failed: column("FailedCall(C)")? as u64,
        retransmissions: column("Retransmissions(C)")? as u64,
        rate: column("CallRate(C)")?,
    })
}

/// List of users for `-inf`.
pub(crate) fn rows(users: &[User]) -> Result<String> {
    let mut rows = String::from("SEQUENTIAL\n");
    for User { name, password, callee } in users {
        writeln!(rows, "{name};[authentication username={name} password={password}];{callee}")?;
    }
    Ok(rows)
}

/// The scenario with its words filled in, and without the unselected parts.
fn filled(text: &str, parts: &[&str], words: &[(&str, String)]) -> Result<String> {
    let mut kept = String::new();
    let mut skipping = false;
    for line in text.lines() {
        let marker = line.trim().strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        match marker.map(|marker| (marker, marker.strip_prefix("only "))) {
            Some((_, Some(part))) => skipping = !parts.contains(&part),
            Some(("end", None)) => skipping = false,
            Some((_, None)) | None if !skipping => {
                kept.push_str(line);
                kept.push('\n');
            }
            Some((_, None)) | None => {}
        }
    }
    for (name, value) in words {
        kept = kept.replace(&format!("@{name}@"), value);
    }
    if let Some(unfilled) =
        kept.split('@').find(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase()))
    {
        bail!("nothing is said about @{unfilled}@");
    }
    Ok(kept)
}

/// The scenario with this host in each Contact.
fn with_contact(text: &str, host: &str) -> String {
    let line = |line: &str| match line.starts_with("Contact:") {
        true => line.replace("[local_ip]", host),
        false => line.to_owned(),
    };
    text.lines().map(|one| line(one) + "\n").collect()
}

/// Time limit for all calls of a process.
const ALL_CALLS: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wanted_parts_stay_and_words_are_filled_in() {
        let text =
            "a\n  <!-- only digest -->\nb\n  <!-- end -->\n<!-- only open -->\nc\n<!-- end -->\nd @CODE@\n";
        let words = [("CODE", "404".to_owned())];
        assert_eq!(filled(text, &["digest"], &words).unwrap(), "a\nb\nd 404\n");
        assert_eq!(filled(text, &["open"], &words).unwrap(), "a\nc\nd 404\n");
        assert!(filled(text, &[], &[]).is_err());
    }

    #[test]
    fn the_last_line_of_the_statistics_counts() {
        let text =
            "SuccessfulCall(C);FailedCall(C);CallRate(C);Retransmissions(C);\n1;0;9;0;\n6000;2;2998.5;7;\n";
        let expected = Statistics { successful: 6000, failed: 2, retransmissions: 7, rate: 2998.5 };
        assert_eq!(statistics(text), Some(expected));
        assert_eq!(statistics("SuccessfulCall(C);\n"), None);
    }

    #[test]
    fn only_contact_names_another_host() {
        let text = "Via: SIP/2.0/TCP [local_ip]\nContact: <sip:a@[local_ip]:[local_port]>\n";
        let named = with_contact(text, "192.0.2.1");
        assert_eq!(named, "Via: SIP/2.0/TCP [local_ip]\nContact: <sip:a@192.0.2.1:[local_port]>\n");
    }
}
