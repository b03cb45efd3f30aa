//! `cargo xtask bench tls`: CPU time of Ringway's operations over TLS, beside TCP, UDP and Kamailio over TLS.
//!
//! Does: plays the same load over each transport in turn, on one server after another, at a fixed rate; measures handshakes in
//! memory, idle connections, and a flood of handshakes. Prints the table or writes it into BENCHMARKS.md.
//!
//! Does not: measure OpenSSL's suites (`tls_engines.rs`).
//!
//! Start reading at [`run`].

mod flood;
mod idle;
mod load;
mod servers;

use super::report::{Row, Verdict};
use super::{Disturbance, publish};
use anyhow::{Context, Result, bail};
use load::{Load, Operation, SECONDS, measure};
use ringway_lab::handshake_cost;
use ringway_lab::load::{Flow, Transport};
use ringway_lab::machine;
use ringway_tls::TlsVersion;
use servers::{Handshake, Servers, Which};
use std::path::Path;

/// Measures operations over TLS at fixed rates, beside TCP, UDP and Kamailio.
///
/// About eight minutes. Fails when a measurement fails; a missed target is reported in the table.
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
/// Connections of a measurement in memory.
const IN_MEMORY: usize = 300;
/// Largest cost of a new connection beyond TCP with the same flights and the handshake in memory, in µs.
const BEYOND_US: f64 = 60.0;

const REFRESH: Operation = Operation { flow: Flow::Update, rate: 2500, has_registration: false };
const CHAIN: Operation = Operation { flow: Flow::Call, rate: 500, has_registration: false };
const LOCAL: Operation = Operation { flow: Flow::Call, rate: 50, has_registration: true };

const UDP: Load = Load::ringway("UDP", Transport::Udp);
const TCP: Load = Load::ringway("TCP", Transport::Tcp);
const TLS: Load = Load::ringway("TLS", Transport::Tls);
const V1_2: Handshake = Handshake { version: Some(TlsVersion::V1_2), ..Handshake::USUAL };
const RSA: Handshake = Handshake { is_rsa: true, ..V1_2 };
const MUTUAL: Handshake = Handshake { is_mutual: true, ..V1_2 };

/// Kinds of new connections: name, handshake, rate, round trips of the handshake before the request.
const NEW: [(&str, Handshake, u32, u8); 4] = [
    ("TLS 1.3 with P-256, full", Handshake { is_resumed: false, ..Handshake::USUAL }, 200, 1),
    ("TLS 1.2 with RSA-2048, full", Handshake { is_resumed: false, ..RSA }, 40, 2),
    ("TLS 1.2, resumed", V1_2, 200, 1),
    ("TLS 1.3, resumed", Handshake::USUAL, 200, 1),
];

/// Runs the command.
///
/// # Errors
/// A measurement failed; a missed target is not an error.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let (before, disturbance) = (machine::load_average(), Disturbance::start());
    eprintln!("{}; load average {before}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let rounds = if args.quick { 1 } else { 5 };
    let rows = Bench { servers: Servers::start(folder.path())?, rounds }.rows();
    let [others, steal] = disturbance.percent();
    let section = render(&rows, rounds, [&before, &machine::load_average()], [others, steal]);
    publish(workspace, HEADING, &section, args.write)?;
    match rows.iter().filter(|row| row.verdict == Verdict::Failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} rows could not be measured; the list below the table says why"),
    }
}

/// Everything that the rows need.
struct Bench {
    servers: Servers,
    rounds: u32,
}

impl Bench {
    fn rows(&self) -> Vec<Row> {
        // First, while the server has no freed memory to use again.
        let (memory, crowd) = idle::memory(&self.servers);
        let mut rows = vec![memory, self.crowded()];
        rows.push(idle::alone(&self.servers, crowd));
        rows.extend([self.refresh(), self.websocket()]);
        rows.extend(NEW.map(|kind| self.new_connection(kind)));
        rows.extend([self.chain(), self.local_rsa(), self.local_mutual()]);
        rows.push(flood::row(&self.servers, self.rounds));
        rows
    }

    /// Measures the loads in turn; `judge` gets their medians.
    fn row(
        &self,
        what: &str,
        target: &str,
        operation: Operation,
        loads: &[Load],
        judge: impl FnOnce(&[f64]) -> (String, bool),
    ) -> Row {
        eprintln!("{what}");
        match measure(&self.servers, operation, loads, self.rounds) {
            Err(error) => Row::failed(what, target, &error),
            Ok(readings) => {
                let (verdict, met) = judge(&readings.us);
                let row = Row::single(what, target, format!("{}: {verdict}", readings.cells.join(", ")), met);
                Row { note: readings.notes.join("; "), ..row }
            }
        }
    }

    fn refresh(&self) -> Row {
        let kamailio = Load { name: "kamailio over TLS", ..TLS }.at(Which::Kamailio);
        let what = "REGISTER refresh at 2500/s over an established connection, TLS beside TCP";
        let target = "≤ 1.25 × TCP and ≤ 0.6 × Kamailio";
        self.row(what, target, REFRESH, &[TCP, TLS, kamailio], |us| {
            let kamailio = us.get(2).copied();
            let times = us[1] / us[0];
            let beside = kamailio.map_or_else(String::new, |it| format!(", {:.2} × kamailio", us[1] / it));
            (format!("{times:.2} ×{beside}"), times <= 1.25 && kamailio.is_some_and(|it| us[1] <= 0.6 * it))
        })
    }

    fn websocket(&self) -> Row {
        let ws = Load::ringway("WebSocket", Transport::Ws);
        let what = "REGISTER refresh at 2500/s over an established connection, WebSocket beside TCP";
        self.row(what, "≤ 1.15 × TCP", REFRESH, &[TCP, ws], |us| {
            (format!("{:.2} ×", us[1] / us[0]), us[1] <= 1.15 * us[0])
        })
    }

    /// A new connection, beside TCP with the same flights and the handshake in memory.
    fn new_connection(&self, (name, handshake, rate, round_trips): (&str, Handshake, u32, u8)) -> Row {
        let what = format!("new connection and REGISTER at {rate}/s, {name}");
        let target = format!("≤ TCP with the same flights + handshake in memory + {BEYOND_US} µs");
        let in_memory = || -> Result<f64> {
            let files = &self.servers.files;
            let server = files.server(Handshake { is_resumed: true, ..handshake })?;
            handshake_cost::called_us(&server, &files.client(handshake)?, handshake.name(), IN_MEMORY)
        };
        let memory = match in_memory() {
            Ok(us) => us,
            Err(error) => return Row::failed(&what, &target, &error),
        };
        let flights = Load { name: "TCP with the flights", round_trips, ..TCP }.each();
        let operation = Operation { flow: Flow::Update, rate, has_registration: false };
        self.row(&what, &target, operation, &[flights, TLS.each().with(handshake)], |us| {
            let beyond = us[1] - us[0] - memory;
            (format!("in memory {memory:.1} µs: {beyond:+.0} µs"), beyond <= BEYOND_US)
        })
    }

    fn chain(&self) -> Row {
        let what = "stateful call at 500/s, one connection of each side, TLS beside UDP";
        self.row(what, "≤ 2.0 ×", CHAIN, &[UDP, TLS], |us| {
            (format!("{:.2} ×", us[1] / us[0]), us[1] <= 2.0 * us[0])
        })
    }

    fn crowded(&self) -> Row {
        let what = format!("stateful call over TLS at 500/s beside {} idle TLS connections", idle::BESIDE);
        let crowded = Load { name: "beside idle ones", ..TLS }.at(Which::Crowded);
        self.row(&what, "< 2 % change", CHAIN, &[TLS, crowded], |us| {
            let percent = (us[1] / us[0] - 1.0) * 100.0;
            (format!("{percent:+.1} %"), percent < 2.0)
        })
    }

    fn local_rsa(&self) -> Row {
        let what = "local proxy: registration of the called user and call at 50/s, each over its own connection, TLS 1.2 with \
                    RSA-2048: resumed beside full";
        let resumed = Load { name: "resumed", ..TLS }.each().with(RSA);
        let full = Load { name: "full", ..resumed }.with(Handshake { is_resumed: false, ..RSA });
        self.row(what, "≤ 0.35 ×", LOCAL, &[full, resumed], |us| {
            (format!("{:.2} ×", us[1] / us[0]), us[1] <= 0.35 * us[0])
        })
    }

    fn local_mutual(&self) -> Row {
        let what = "the same, mutual TLS 1.2 with P-256: resumed beside full and beside UDP";
        let resumed = Load { name: "resumed", ..TLS }.each().at(Which::Mutual).with(MUTUAL);
        let full = Load { name: "full", ..resumed }.with(Handshake { is_resumed: false, ..MUTUAL });
        self.row(what, "≤ 0.35 × full and ≤ 6 × UDP", LOCAL, &[UDP, full, resumed], |us| {
            let (of_full, of_udp) = (us[2] / us[1], us[2] / us[0]);
            (format!("{of_full:.2} × full, {of_udp:.1} × UDP"), of_full <= 0.35 && of_udp <= 6.0)
        })
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
         - **TCP with the flights**: before its first request a connection makes as many round trips as the handshake, by keep-alives \
         of RFC 5626; **in memory**: the called side of a connection with a request and a response, without sockets, in this run.\n\
         - **local proxy**: many connections in, many out (the IPTComm paper's name; the 2012 thesis has other names). The \
         registration opens the called user's connection, the call that of the caller; both are in the figure, over UDP as well.\n\
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
