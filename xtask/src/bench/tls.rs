//! `cargo xtask bench tls`: CPU time of Ringway's operations over TLS, beside TCP, UDP and Kamailio over TLS.
//!
//! Does: plays the same load over each transport in turn, on one server after another, at a fixed rate. Prints the table or
//! writes it into BENCHMARKS.md.
//!
//! Does not: measure OpenSSL's suites.
//!
//! Start reading at [`run`].

use super::report::{Row, Verdict};
use super::{Disturbance, environment, publish};
use anyhow::{Context, Result, bail, ensure};
use ringway_lab::digest::PASSWORD;
use ringway_lab::load::{ConnectionUse, Flow, Length, LoadTls, Plan, Session, Transport, Users};
use ringway_lab::machine;
use ringway_lab::process::Process;
use ringway_lab::server::{Environment, Under, free_port};
use ringway_lab::statistics::median;
use ringway_lab::template::DOMAIN;
use ringway_tls::{Observer, PeerCa, Role, TlsFiles};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Measures operations over TLS at fixed rates, beside TCP, UDP and Kamailio.
///
/// About two minutes. Fails when a measurement fails; a missed target is reported in the table.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Short run: one reading in place of five
    #[arg(long)]
    quick: bool,
    /// Write the table into BENCHMARKS.md
    #[arg(long, conflicts_with = "quick")]
    write: bool,
}

const HEADING: &str = "## TLS";
/// Length of a reading.
const SECONDS: u32 = 2;
/// Time after a reading in which the server's CPU time still counts.
const REST: Duration = Duration::from_millis(200);
/// Time that a call rings, and that it lasts.
const PAUSE: Duration = Duration::from_millis(50);
/// Number of idle connections whose memory is measured.
const IDLE: u32 = 2_000;
/// Longest start of Kamailio.
const START_MAX: Duration = Duration::from_secs(10);

/// A running server with its ports.
struct Server {
    process: Process,
    /// Of UDP and TCP.
    port: u16,
    tls: u16,
}

/// A load on one of the servers.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    is_kamailio: bool,
    transport: Transport,
    connections: ConnectionUse,
    is_resumed: bool,
}

impl Load {
    const fn ringway(name: &'static str, transport: Transport) -> Self {
        Self { name, is_kamailio: false, transport, connections: ConnectionUse::Shared, is_resumed: true }
    }

    const fn each(self) -> Self {
        Self { connections: ConnectionUse::PerAttempt, ..self }
    }
}

/// Everything that the rows need.
struct Stage<'e> {
    environment: &'e Environment,
    ringway: Server,
    kamailio: Result<Server>,
    rounds: u32,
}

/// Runs the command.
///
/// # Errors
/// A measurement failed; a missed target is not an error.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let (before, disturbance) = (machine::load_average(), Disturbance::start());
    eprintln!("{}; load average {before}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path())?;
    let certificates = ["cert", "init", "--domain", DOMAIN, "--address", "127.0.0.1", "--out", "."];
    let made = Command::new(&environment.ringway).args(certificates).current_dir(folder.path()).output()?;
    ensure!(made.status.success(), "cannot make certificates: {}", String::from_utf8_lossy(&made.stderr));
    let rounds = if args.quick { 1 } else { 5 };
    let ringway = start_ringway(&environment)?;
    let kamailio = start_kamailio(&environment);
    let mut stage = Stage { environment: &environment, ringway, kamailio, rounds };
    let rows = stage.rows();
    let [others, steal] = disturbance.percent();
    let section = render(&rows, rounds, [&before, &machine::load_average()], [others, steal]);
    publish(workspace, HEADING, &section, args.write)?;
    match rows.iter().filter(|row| row.verdict == Verdict::Failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} rows could not be measured; the list below the table says why"),
    }
}

fn start_ringway(environment: &Environment) -> Result<Server> {
    let (port, tls, admin) = (free_port()?, free_port()?, free_port()?);
    let path = environment.folder.join("tls.toml");
    let text = format!(
        "domains = [\"{DOMAIN}\"]\nworkers = 1\n\
         listen = [\"udp:127.0.0.1:{port}\", \"tcp:127.0.0.1:{port}\", \"tls:127.0.0.1:{tls}\"]\n\
         [store]\nurl = \"memory:\"\n[auth]\nenabled = false\n[limits]\nper_source_rate = 0\n\
         [tls]\ncertificate = \"cert.pem\"\nprivate_key = \"key.pem\"\n\
         [admin]\nlisten = \"127.0.0.1:{admin}\"\n[log]\nlevel = \"warn\"\n"
    );
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    Ok(Server { process: environment.serve(&path, Under::Itself)?, port, tls })
}

fn start_kamailio(environment: &Environment) -> Result<Server> {
    let program = environment.kamailio.as_ref().context("kamailio is not installed")?;
    let (port, tls) = (free_port()?, free_port()?);
    let path = environment.folder.join("kamailio-tls.cfg");
    let folder = environment.folder.display();
    let text = format!(
        "#!KAMAILIO\ndebug=-1\nlog_stderror=yes\nfork=yes\nchildren=1\ntcp_children=1\nauto_aliases=no\nenable_tls=yes\n\
         tcp_connection_lifetime=7200\nlisten=udp:127.0.0.1:{port}\nlisten=tls:127.0.0.1:{tls}\nalias=\"{DOMAIN}\"\n\
         loadmodule \"tls.so\"\nloadmodule \"tm.so\"\nloadmodule \"sl.so\"\nloadmodule \"rr.so\"\nloadmodule \"pv.so\"\n\
         loadmodule \"usrloc.so\"\nloadmodule \"registrar.so\"\nmodparam(\"usrloc\", \"db_mode\", 0)\n\
         modparam(\"tls\", \"certificate\", \"{folder}/cert.pem\")\nmodparam(\"tls\", \"private_key\", \"{folder}/key.pem\")\n\
         modparam(\"tls\", \"session_cache\", 1)\nmodparam(\"tls\", \"tls_method\", \"TLSv1.2+\")\n\
         request_route {{ if (method == \"REGISTER\") {{ save(\"location\"); }} else {{ sl_send_reply(\"404\", \"Not Found\"); }} }}\n"
    );
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    let mut command = Command::new(program);
    command.arg("-f").arg(&path).args(["-DD", "-E", "-x", "tlsf", "-m", "256", "-M", "16", "-w"]);
    command.arg(&environment.folder);
    let log = path.with_extension("log");
    let mut process = Process::start("kamailio", &mut command, &log)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, tls));
    let begun = std::time::Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        let is_gone = !process.fate().is_empty();
        ensure!(
            !is_gone && begun.elapsed() < START_MAX,
            "kamailio did not start (kamailio-tls-modules installed?)"
        );
        thread::sleep(Duration::from_millis(50));
    }
    Ok(Server { process, port, tls })
}

impl Stage<'_> {
    fn rows(&mut self) -> Vec<Row> {
        let (udp, tcp) = (Load::ringway("UDP", Transport::Udp), Load::ringway("TCP", Transport::Tcp));
        let tls = Load::ringway("TLS", Transport::Tls);
        let full = Load { name: "full handshake", is_resumed: false, ..tls };
        let kamailio = Load { name: "kamailio over TLS", is_kamailio: true, ..tls };
        let register = "REGISTER refresh at 2500/s over an established connection, TLS beside TCP";
        let new = "new connection and REGISTER at 200/s, TLS 1.3 with P-256: full, resumed, beside TCP";
        let call = "stateful call at 500/s, one connection of each side, TLS beside UDP";
        let local = "stateful call at 150/s, a connection of the caller for each call: resumed beside full handshakes";
        vec![
            // First, while the server has no freed memory to use again.
            self.idle(),
            self.row(
                register,
                "≤ 1.25 × TCP and ≤ 0.6 × Kamailio",
                (Flow::Update, 2500),
                &[tcp, tls, kamailio],
                |us| {
                    let kamailio = us.get(2).copied();
                    let times = us[1] / us[0];
                    let beside =
                        kamailio.map_or_else(String::new, |it| format!(", {:.2} × kamailio", us[1] / it));
                    (
                        format!("{times:.2} ×{beside}"),
                        times <= 1.25 && kamailio.is_some_and(|it| us[1] <= 0.6 * it),
                    )
                },
            ),
            self.row(new, "recorded", (Flow::Update, 200), &[tcp.each(), full.each(), tls.each()], |us| {
                (format!("+{:.0} µs and +{:.0} µs", us[1] - us[0], us[2] - us[0]), true)
            }),
            self.row(call, "≤ 2.0 ×", (Flow::Call, 500), &[udp, tls], |us| {
                (format!("{:.2} ×", us[1] / us[0]), us[1] <= 2.0 * us[0])
            }),
            self.row(
                local,
                "≤ 0.35 × (TLS 1.2 with RSA-2048; shown)",
                (Flow::Call, 150),
                &[full.each(), tls.each()],
                |us| (format!("{:.2} ×", us[1] / us[0]), us[1] <= 0.35 * us[0]),
            ),
        ]
    }

    /// Measures the loads in turn; `judge` gets their medians.
    fn row(
        &mut self,
        what: &str,
        target: &str,
        (flow, rate): (Flow, u32),
        loads: &[Load],
        judge: impl FnOnce(&[f64]) -> (String, bool),
    ) -> Row {
        eprintln!("{what}");
        match self.measure(flow, rate, loads) {
            Err(error) => Row::failed(what, target, &error),
            Ok((medians, cells, notes)) => {
                let (verdict, met) = judge(&medians);
                let row = Row::single(what, target, format!("{}: {verdict}", cells.join(", ")), met);
                Row { note: notes.join("; "), ..row }
            }
        }
    }

    fn measure(
        &mut self,
        flow: Flow,
        rate: u32,
        loads: &[Load],
    ) -> Result<(Vec<f64>, Vec<String>, Vec<String>)> {
        let mut notes = Vec::new();
        let mut contestants = Vec::new();
        for &load in loads {
            match self.plan(load, flow, rate).and_then(|plan| Session::open(&plan)) {
                Ok(session) => contestants.push((load, Some(session), Vec::new())),
                Err(error) if load.is_kamailio => notes.push(format!("{}: {error:#}", load.name)),
                Err(error) => return Err(error.context(load.name)),
            }
        }
        for round in 1..=self.rounds {
            for (load, session, taken) in &mut contestants {
                let server = self.server(*load)?;
                let before = server.process.cpu_ns()?;
                let length = Duration::from_secs(SECONDS.into());
                let running =
                    session.take().context("an earlier reading failed")?.start(rate.into(), length)?;
                let (statistics, again) = running.finish_session()?;
                *session = Some(again);
                thread::sleep(REST);
                let used = self.server(*load)?.process.cpu_ns()?.saturating_sub(before);
                let (done, offered) = (statistics.successes(), u64::from(rate * SECONDS));
                let us = used as f64 / 1000.0 / done.max(1) as f64;
                let wire = statistics.wire();
                let fault = match statistics.health().bottleneck() {
                    _ if done * 100 < offered * 99 => Some(format!("{done} of {offered} successful")),
                    _ if load.is_resumed && wire.tls_full > offered / 50 => {
                        Some("sessions were not resumed".to_owned())
                    }
                    bottleneck => bottleneck,
                };
                eprintln!(
                    "  round {round}: {} {us:.1} µs {}",
                    load.name,
                    fault.as_deref().unwrap_or_default()
                );
                match fault {
                    None => taken.push(us),
                    Some(fault) => notes.push(format!("{}: {fault}", load.name)),
                }
            }
        }
        let (mut medians, mut cells) = (Vec::new(), Vec::new());
        for (load, _, taken) in &contestants {
            ensure!(!taken.is_empty(), "{}: no valid reading: {}", load.name, notes.join("; "));
            let us = median(taken.iter().copied());
            medians.push(us);
            cells.push(format!("{} {us:.1} µs", load.name));
        }
        Ok((medians, cells, notes))
    }

    fn server(&self, load: Load) -> Result<&Server> {
        match (load.is_kamailio, &self.kamailio) {
            (false, _) => Ok(&self.ringway),
            (true, Ok(server)) => Ok(server),
            (true, Err(error)) => bail!("{error:#}"),
        }
    }

    fn plan(&self, load: Load, flow: Flow, rate: u32) -> Result<Plan> {
        let server = self.server(load)?;
        let port = if load.transport.is_secure() { server.tls } else { server.port };
        let users = rate * SECONDS;
        let callers = Users::by_rule("u", 7, 0, users, PASSWORD)?;
        let peers = Users::by_rule("u", 7, 1, users, PASSWORD)?;
        let tls = load.transport.is_secure().then(|| self.tls(load.is_resumed)).transpose()?;
        Ok(Plan {
            transport: load.transport,
            tls,
            connections: load.connections,
            domain: DOMAIN.to_owned(),
            ring: Length::Fixed(PAUSE),
            talk: Length::Fixed(PAUSE),
            ..Plan::new(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), flow, callers, peers)
        })
    }

    fn tls(&self, is_resumed: bool) -> Result<LoadTls> {
        let defaults = TlsFiles::default();
        let files = TlsFiles {
            peer_ca: PeerCa::File(self.environment.folder.join("ca.pem")),
            session_timeout: defaults.session_timeout.filter(|_| is_resumed),
            ..defaults
        };
        LoadTls::load(&files, None, Arc::new(Silent))
    }

    /// Memory of an idle connection.
    fn idle(&mut self) -> Row {
        let (what, target) =
            (format!("memory for an idle TLS connection with a registration, at {IDLE}"), "≤ 20 kB");
        let measure = || -> Result<f64> {
            let load = Load { connections: ConnectionUse::PerUser, ..Load::ringway("idle", Transport::Tls) };
            let before = self.ringway.process.resident_bytes()?;
            let plan = self.plan(load, Flow::Update, IDLE / SECONDS)?;
            let session = Session::open(&plan)?;
            thread::sleep(Duration::from_secs(1));
            let after = self.ringway.process.resident_bytes()?;
            drop(session);
            Ok(after.saturating_sub(before) as f64 / f64::from(IDLE))
        };
        match measure() {
            Ok(bytes) => Row::single(&what, target, format!("{:.1} kB", bytes / 1000.0), bytes <= 20_000.0),
            Err(error) => Row::failed(&what, target, &error),
        }
    }
}

struct Silent;

impl Observer for Silent {
    fn failed(&self, remote: SocketAddr, _role: Role, reason: &str) {
        eprintln!("  TLS with {remote} failed: {reason}");
    }
}

fn render(rows: &[Row], rounds: u32, load: [&str; 2], [others, steal]: [f64; 2]) -> String {
    let mut text = format!(
        "{HEADING}\n\
         Written by `cargo xtask bench tls --write`; every figure below was measured in that one run.\n\n\
         - CPU time of the whole server with all its threads for one operation, at fixed rates; medians of {rounds} readings of \
         {SECONDS} s, all loads of a row in turn. Load: the generator of `ringway lab load`, open loop; server on one processor, \
         generator on the other. Calls ring for 50 ms and last 50 ms. A reading in which sessions were not resumed does not count where \
         they should be.\n\
         - **ringway**: one worker, `memory:`, rustls with aws-lc-rs, P-256; **kamailio**: {}, one worker, `-x tlsf`, OpenSSL.\n\
         - machine: {}\n\
         - load average before: {}; after: {}; other programs used {others:.0} % of a processor, the hypervisor took {steal:.2} %\n\n\
         | what | must reach | result | |\n|---|---|---|---|\n",
        machine::version_of("kamailio", &["-v"]).trim_start_matches("version: ").trim_end(),
        machine::description(),
        load[0],
        load[1],
    );
    for row in rows {
        text.push_str(&format!("| {} | {} | {} | {} |\n", row.what, row.target, row.ringway, row.verdict));
    }
    let notes: Vec<&Row> = rows.iter().filter(|row| !row.note.is_empty()).collect();
    if !notes.is_empty() {
        text.push('\n');
        notes.iter().for_each(|row| text.push_str(&format!("- {}: {}\n", row.what, row.note)));
    }
    text
}
