//! `cargo xtask bench ordinary`: CPU time of the whole server at ordinary rates, where every message wakes a thread.
//!
//! Does: loads a bare blocking echo, Kamailio and Ringway in turn with the load generator at the same rate, Ringway also with
//! SIPp as a cross-check; measures the delay of answers at several rates, and prints the table or writes it into BENCHMARKS.md.
//!
//! Does not: saturate a server; those rows are `cargo xtask bench` without a name.
//!
//! Start reading at [`RowName::rows`]; the load is in [`load`].

mod delay;
mod load;
mod sipp;

use super::report::{Row, Verdict, add_compared_rows, add_notes};
use super::{Disturbance, environment, publish};
use anyhow::{Context, Result, bail};
use load::{Readings, Side};
use ringway_lab::machine;
use ringway_lab::server::Carrier;
use ringway_lab::subject::{Environment, Routing};
use std::path::Path;

/// Measures the CPU time of the whole server at ordinary rates, beside Kamailio and a bare echo, and with SIPp as load.
///
/// About six minutes, with `--quick` three. Fails when a measurement fails; a missed target is reported in the
/// table.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// Only this row; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<RowName>,
    /// Readings of each server; the table has their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Readings of one second instead of two
    #[arg(long)]
    quick: bool,
    /// Write the table into BENCHMARKS.md
    #[arg(long, conflicts_with_all = ["quick", "only"])]
    write: bool,
}

/// Row by its name on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum RowName {
    /// REGISTER over UDP, also with `memory:` instead of SQLite
    Register,
    /// REGISTER over an established TCP connection
    RegisterTcp,
    /// REGISTER with digest: 401 and retry
    RegisterDigest,
    /// Call through the stateless proxy
    CallStateless,
    /// Call through the stateful proxy
    CallStateful,
    /// The same over TCP
    CallTcp,
    /// Delay of answers at four rates
    Delay,
}

/// Number and length of the readings.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: u32,
    seconds: u32,
}

/// Runs the command.
///
/// # Errors
/// A measurement failed; a missed target is not an error.
pub(super) fn run(args: &Args, workspace: &Path) -> Result<()> {
    let (before, disturbance) = (machine::load_average(), Disturbance::start());
    eprintln!("{}; load average {before}", machine::description());
    let folder = tempfile::tempdir().context("make a folder for the run")?;
    let environment = environment(folder.path());
    let plan = Plan { rounds: args.rounds, seconds: if args.quick { 1 } else { 2 } };
    let chosen = if args.only.is_empty() { RowName::ALL.to_vec() } else { args.only.clone() };
    let rows: Vec<Row> = chosen.iter().flat_map(|name| name.rows(&environment, plan)).collect();
    let section = render(&rows, plan, [&before, &machine::load_average()], disturbance.percent());
    publish(workspace, HEADING, &section, args.write)?;
    match rows.iter().filter(|row| row.verdict == Verdict::Failed).count() {
        0 => Ok(()),
        failed => bail!("{failed} rows could not be measured; the list below the table says why"),
    }
}

impl RowName {
    const ALL: [Self; 7] = [
        Self::Register,
        Self::RegisterTcp,
        Self::RegisterDigest,
        Self::CallStateless,
        Self::CallStateful,
        Self::CallTcp,
        Self::Delay,
    ];

    /// Measures the row and that of the cross-check with SIPp; `register` has another one for the store.
    fn rows(self, environment: &Environment, plan: Plan) -> Vec<Row> {
        match self.point() {
            None => delay::rows(environment, plan),
            Some(point) => {
                let mut sides = vec![
                    Side::Echo,
                    Side::Kamailio,
                    Side::Ringway,
                    Side::RingwayInTicks,
                    Side::RingwayBySipp,
                ];
                sides.extend((self == Self::Register).then_some(Side::RingwayInMemory));
                rows(&point, &load::measure(environment, &point, &sides, plan))
            }
        }
    }

    /// The offered load; `None` for the delay.
    fn point(self) -> Option<Point> {
        let (what, traffic, rate) = match self {
            Self::Register => ("REGISTER refresh over UDP", Traffic::Register, 3000),
            Self::RegisterTcp => ("REGISTER refresh over one TCP connection", Traffic::Register, 2500),
            Self::RegisterDigest => {
                ("REGISTER refresh with digest MD5 (401 and retry)", Traffic::RegisterPair, 1500)
            }
            Self::CallStateless => ("stateless call over UDP", Traffic::Call, 700),
            Self::CallStateful => ("stateful call over UDP", Traffic::Call, 700),
            Self::CallTcp => ("stateful call over TCP", Traffic::Call, 600),
            Self::Delay => return None,
        };
        let carrier = match self {
            Self::RegisterTcp | Self::CallTcp => Carrier::Tcp,
            _ => Carrier::Udp,
        };
        let routing = if self == Self::CallStateless { Routing::Stateless } else { Routing::Stateful };
        Some(Point { what, traffic, rate, carrier, routing })
    }
}

/// Messages of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Traffic {
    /// REGISTER, 200.
    Register,
    /// REGISTER, 401, REGISTER, 200.
    RegisterPair,
    /// INVITE, 100 if stateful, 180, 200, ACK, BYE, 200.
    Call,
}

/// An offered load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) what: &'static str,
    pub(super) traffic: Traffic,
    /// Operations a second.
    pub(super) rate: u32,
    pub(super) carrier: Carrier,
    pub(super) routing: Routing,
}

/// Result of one load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Played {
    /// Successful operations.
    pub(super) successful: u64,
    pub(super) retransmissions: u64,
    /// Text for a load that was not made as planned.
    pub(super) slow: Option<String>,
}

/// Heading of the section.
const HEADING: &str = "## At ordinary rates\n";

/// Maximum share of Kamailio's CPU time, or multiple of the echo's.
const KAMAILIOS_MAX: f64 = 0.65;
const ECHOES_MAX: f64 = 1.3;

/// Maximum difference between SIPp and the generator as load: in the server's CPU time as a share, and in the share of
/// successful operations.
const SIPP_MAX: f64 = 0.1;
const SUCCESS_MAX: f64 = 0.0005;

/// Maximum multiple of the CPU time with `memory:`.
const MEMORIES_MAX: f64 = 1.1;

/// The rows of one load.
fn rows(point: &Point, readings: &[Readings]) -> Vec<Row> {
    let what = format!("{} at {}/s", point.what, point.rate);
    let target = format!("≤ {KAMAILIOS_MAX} × kamailio or ≤ {ECHOES_MAX} × echo");
    let of = |side: Side| readings.iter().find(|readings| readings.side == side).context("not measured");
    let us = |side: Side| -> Result<[f64; 3]> { of(side)?.us() };
    let mut rows = vec![
        compared(&what, &target, [us(Side::Echo), us(Side::Kamailio), us(Side::Ringway)])
            .unwrap_or_else(|error| Row::failed(&what, &target, &error)),
    ];
    if readings.iter().any(|readings| readings.side == Side::RingwayInMemory) {
        let what = format!("{what}: SQLite relaxed beside `memory:`");
        let target = format!("≤ {MEMORIES_MAX} ×");
        rows.push(
            stored(&what, &target, us(Side::Ringway), us(Side::RingwayInMemory))
                .unwrap_or_else(|error| Row::failed(&what, &target, &error)),
        );
    }
    let what_sipp = format!("generator in ticks of 1 ms and SIPp on the same server: {what}");
    let target = format!("CPU within {:.0} %, success equal", SIPP_MAX * 100.0);
    let row = of(Side::RingwayInTicks)
        .and_then(|ours| cross_checked(&what_sipp, &target, ours, of(Side::RingwayBySipp)?));
    rows.push(row.unwrap_or_else(|error| Row::failed(&what_sipp, &target, &error)));
    let faults = readings.iter().flat_map(|readings| {
        let name = readings.side.name();
        readings.faults().into_iter().map(move |fault| format!("{name}: {fault}"))
    });
    let faults: Vec<String> = faults.collect();
    if let Some(row) = rows.first_mut().filter(|row| row.note.is_empty() && !faults.is_empty()) {
        row.note = format!("{what}, readings that do not count: {}", faults.join("; "));
    }
    rows
}

fn compared(what: &str, target: &str, [echo, kamailio, ours]: [Result<[f64; 3]>; 3]) -> Result<Row> {
    let (echo, kamailio, ours) = (echo?, kamailio?, ours?);
    let (kamailios, echoes) = (ours[0] / kamailio[0], ours[0] / echo[0]);
    let met = kamailios <= KAMAILIOS_MAX || echoes <= ECHOES_MAX;
    let cell = format!("{}, {kamailios:.2} × kamailio, {echoes:.2} × echo", time_cell(ours));
    let row = Row::single(what, target, cell, met);
    Ok(Row { floor: time_cell(echo), kamailio: time_cell(kamailio), ..row })
}

fn stored(what: &str, target: &str, ours: Result<[f64; 3]>, memory: Result<[f64; 3]>) -> Result<Row> {
    let (ours, memory) = (ours?, memory?);
    let times = ours[0] / memory[0];
    let cell = format!("{} beside {}, {times:.2} ×", time_cell(ours), time_cell(memory));
    Ok(Row::single(what, target, cell, times <= MEMORIES_MAX))
}

fn cross_checked(what: &str, target: &str, ours: &Readings, sipp: &Readings) -> Result<Row> {
    let (us, sipp_us) = (ours.us()?, sipp.us()?);
    let times = sipp_us[0] / us[0];
    let [success, sipp_success] = [ours, sipp].map(Readings::success);
    let met =
        (1.0 - SIPP_MAX..=1.0 + SIPP_MAX).contains(&times) && (success - sipp_success).abs() <= SUCCESS_MAX;
    let cell = format!(
        "{}, with SIPp {}: {times:.2} ×; successful {:.1} %, with SIPp {:.1} %",
        time_cell(us),
        time_cell(sipp_us),
        success * 100.0,
        sipp_success * 100.0
    );
    Ok(Row::single(what, target, cell, met))
}

fn time_cell([us, low, high]: [f64; 3]) -> String {
    format!("{us:.2} µs ({low:.2}-{high:.2})")
}

/// Renders the section.
fn render(rows: &[Row], plan: Plan, load: [&str; 2], [others, steal]: [f64; 2]) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\n\
         Written by `cargo xtask {}`; every figure below was measured in that one run.\n\n\
         - CPU time of the whole server with all its threads and processes (`/proc/PID/task/*/schedstat`) for one operation, \
         from before the first message until {} s after the last (servers without a store on disk: 0.2 s). Medians of {} \
         readings of {} s (smallest and largest in brackets), all servers of a row in turn. A reading with more than 1 % of \
         failures or retransmissions does not count.\n\
         - Load: the generator of `ringway lab load`, open loop with equal intervals; server alone on one processor, the \
         generator on the other. Calls ring for 50 ms and last 50 ms. Cross-check: {}, with the same messages at the same rate on \
         a server of its own. Delays: the generator with exponential intervals for a second (100/s: for three), busy waiting, from \
         the planned time to the answer.\n\
         - **echo**: one thread for each socket with blocking recvfrom and sendto (TCP: read and write) that sends the same \
         number of messages, a REGISTER back as its 200; **kamailio**: {}; one worker, `-x tlsf`, location table in memory; \
         **ringway**: one worker, SQLite relaxed.\n\
         - machine: {}\n\
         - load average before: {}; after: {}; other programs used {others:.0} % of a processor, the hypervisor took \
         {steal:.2} %\n\n\
         | what | must reach | echo | kamailio | ringway | |\n|---|---|---|---|---|---|\n",
        command.join(" "),
        load::WRITING.as_secs_f64(),
        plan.rounds,
        plan.seconds,
        sipp_version(),
        machine::version_of("kamailio", &["-v"]).trim_start_matches("version: ").trim_end(),
        machine::description(),
        load[0],
        load[1],
    );
    add_compared_rows(&mut text, rows);
    add_notes(&mut text, rows);
    text
}

/// Name and version of SIPp, which prints an empty line first.
fn sipp_version() -> String {
    let output = std::process::Command::new("sipp").arg("-v").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().find(|line| line.contains("SIPp")).unwrap_or("SIPp: not installed");
    line.trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::Verdict;

    fn verdict(echo: f64, kamailio: f64, ours: f64) -> Verdict {
        let cell = |us: f64| Ok([us, us, us]);
        compared("REGISTER", "", [cell(echo), cell(kamailio), cell(ours)]).unwrap().verdict
    }

    #[test]
    fn one_of_both_limits_is_enough() {
        assert_eq!(verdict(7.0, 16.0, 10.4), Verdict::Met);
        assert_eq!(verdict(7.0, 9.0, 9.1), Verdict::Met);
        assert_eq!(verdict(7.0, 14.0, 9.2), Verdict::Missed);
    }

    #[test]
    fn sipp_may_cost_a_tenth_more_or_less() {
        let readings = |side, us, success| Readings::fixed(side, us, success);
        let verdict = |us, success| {
            let sipp = readings(Side::RingwayBySipp, us, success);
            cross_checked("", "", &readings(Side::Ringway, 10.0, 1.0), &sipp).unwrap().verdict
        };
        assert_eq!([verdict(10.9, 1.0), verdict(9.1, 1.0)], [Verdict::Met, Verdict::Met]);
        assert_eq!([verdict(11.1, 1.0), verdict(8.9, 1.0), verdict(10.0, 0.998)], [Verdict::Missed; 3]);
    }

    #[test]
    fn the_store_may_cost_a_tenth() {
        let row = |ours: f64| stored("", "", Ok([ours; 3]), Ok([10.0; 3])).unwrap().verdict;
        assert_eq!(row(11.0), Verdict::Met);
        assert_eq!(row(11.2), Verdict::Missed);
        assert!(stored("", "", Err(anyhow::anyhow!("no reading")), Ok([1.0; 3])).is_err());
    }
}
