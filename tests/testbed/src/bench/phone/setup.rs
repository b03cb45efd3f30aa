//! Row "call set-up": time from the first INVITE to the answer, through the server, with digest and SDES. `ringway
//! call` and `ringway answer` as processes: one side of a call each, pinned to a processor.

use super::super::report::Verdict;
use super::PhoneRow;
use crate::process;
use anyhow::{Context, Result, ensure};
use ringway_lab::machine;
use ringway_lab::machine::{GENERATOR_CPU, SERVER_CPU};
use ringway_lab::process::Process;
use ringway_lab::statistics::median;
use ringway_test_support::process::run_to_end;
use serde_json::Value;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const WHAT: &str = "call set-up through the server on loopback, digest, SDES: INVITE to 200";
const SETUP_MS: f64 = 5.0;

/// Measures `calls` calls.
pub(super) fn row(ringway: &Path, folder: &Path, calls: u32) -> PhoneRow {
    eprintln!("{WHAT}");
    let target = format!("≤ {SETUP_MS} ms more than the signalling's own round trips");
    match measure(ringway, folder, calls) {
        Ok(mut times) => {
            times.sort_by(f64::total_cmp);
            let middle = median(times.iter().copied());
            let (least, most) = (times.first().copied(), times.last().copied());
            let ringway =
                format!("{middle:.2} ms [{:.2}-{:.2}]", least.unwrap_or_default(), most.unwrap_or_default());
            eprintln!("  {ringway}");
            let verdict = if middle <= SETUP_MS { Verdict::Met } else { Verdict::Missed };
            let note = format!(
                "call set-up: median, least and most of {calls} calls; all round trips (INVITE, 407, INVITE, 180, 200) are \
                 in it, and the callee's opening of ports and of a media thread"
            );
            PhoneRow {
                what: WHAT.to_owned(),
                target,
                beside: String::new(),
                ringway,
                verdict,
                notes: vec![note],
            }
        }
        Err(error) => PhoneRow::failed(WHAT, &target, &error),
    }
}

fn measure(ringway: &Path, folder: &Path, calls: u32) -> Result<Vec<f64>> {
    let (configuration, port) = write_configuration(folder)?;
    for user in ["alice", "bob"] {
        add_user(ringway, &configuration, user)?;
    }
    let mut serve = Command::new(ringway);
    serve.arg("serve").arg("--config").arg(&configuration);
    let mut server = Process::start("ringway", &mut serve, &folder.join("setup.log"))?;
    server.ready()?;
    let address = format!("127.0.0.1:{port}");
    let count = calls.to_string();
    let common = ["--server", &address, "--password-stdin", "--json", "--srtp", "sdes", "--transport", "udp"];
    let mut answer = vec!["answer", "--as", "sip:bob@example.org", "--register", "--count", &count];
    answer.extend(common);
    let bob = Handset::start(ringway, &answer, PASSWORD, SERVER_CPU)?;
    bob.line("ready ")?;
    let mut call =
        vec!["call", "sip:bob@example.org", "--from", "sip:alice@example.org", "--duration", "0.1"];
    call.extend(common);
    let mut times = Vec::new();
    for _ in 0..calls {
        let alice = Handset::start(ringway, &call, PASSWORD, GENERATOR_CPU)?;
        let results = alice.results(PATIENCE)?;
        times.push(number(results.first().context("no result")?, &["setup_ms"])?);
    }
    bob.results(PATIENCE)?;
    server.stop()?;
    Ok(times)
}

fn write_configuration(folder: &Path) -> Result<(std::path::PathBuf, u16)> {
    // Free for UDP and TCP now; no other process is expected to take it in the meantime.
    let socket = UdpSocket::bind("127.0.0.1:0").context("a free port")?;
    let port = socket.local_addr()?.port();
    let admin = TcpListener::bind("127.0.0.1:0").context("a free port")?.local_addr()?.port();
    let text = format!(
        "domains = [\"example.org\"]\nlisten = [\"udp:127.0.0.1:{port}\"]\nworkers = 1\n[store]\nurl = \
         \"sqlite://{}\"\n[admin]\nlisten = \"127.0.0.1:{admin}\"\n[log]\nlevel = \"warn\"\n",
        folder.join("setup.db").display()
    );
    let path = folder.join("setup.toml");
    std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok((path, port))
}

fn add_user(ringway: &Path, configuration: &Path, user: &str) -> Result<()> {
    let mut command = Command::new(ringway);
    command.args(["user", "add", user, "--password-stdin", "--danger-weak", "--config"]).arg(configuration);
    run_to_end(&mut command, PASSWORD).map(drop)
}

/// One side of a call.
pub(super) struct Handset(process::Process);

impl Handset {
    /// Starts `ringway` with these arguments on this processor; `password` is written to its standard input.
    pub(super) fn start(ringway: &Path, arguments: &[&str], password: &str, cpu: usize) -> Result<Self> {
        // The threads that read its output stay here.
        machine::pin_to(machine::GENERATOR_CPU)?;
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string()]).arg(ringway).args(arguments);
        let mut process = process::Process::start_with_pipes("ringway", &mut command)?;
        // A command without a password does not read it.
        let _ = process.type_line(password);
        process.close_input();
        Ok(Self(process))
    }

    /// First line of its output that contains `part`.
    pub(super) fn line(&self, part: &str) -> Result<String> {
        self.0.wait_for_line(PATIENCE, part, |line| line.contains(part))
    }

    /// CPU time of its threads in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Result<u64> {
        machine::process_cpu_ns(self.0.id())
    }

    /// Waits for its end and parses the printed results, one object for each call.
    ///
    /// # Errors
    /// It does not end within `patience`, or fails.
    pub(super) fn results(self, patience: Duration) -> Result<Vec<Value>> {
        let status = self.0.wait_for(patience)?;
        ensure!(status.success(), "ringway ended with {status}: {}", self.0.output().trim());
        let text = String::from_utf8_lossy(&self.0.out()).into_owned();
        text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    }
}

/// Number in a result, by its path.
pub(super) fn number(result: &Value, path: &[&str]) -> Result<f64> {
    let found = path.iter().fold(result, |value, field| &value[*field]);
    found.as_f64().with_context(|| format!("{} in {result}", path.join(".")))
}

const PASSWORD: &str = "builder";

/// Maximum duration of a short call.
const PATIENCE: Duration = Duration::from_secs(20);
