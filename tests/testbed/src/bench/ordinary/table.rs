//! Table of the ordinary rates: a section of BENCHMARKS.md.

use super::Plan;
use super::load::{Readings, Side};
use super::point::Point;
use crate::bench::report::Row;
use anyhow::{Context, Result};
use ringway_lab::machine;
use std::fmt::Write as _;

/// Heading of the section.
pub(super) const HEADING: &str = "## At ordinary rates\n";

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
pub(super) fn rows(point: &Point, readings: &[Readings]) -> Vec<Row> {
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
pub(super) fn render(rows: &[Row], plan: Plan, load: [&str; 2], [others, steal]: [f64; 2]) -> String {
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
        super::load::WRITING.as_secs_f64(),
        plan.rounds,
        plan.seconds,
        sipp_version(),
        machine::version_of("kamailio", &["-v"]).trim_start_matches("version: ").trim_end(),
        machine::description(),
        load[0],
        load[1],
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.what, row.target, row.floor, row.kamailio, row.ringway, row.verdict
        );
    }
    let notes: Vec<&Row> = rows.iter().filter(|row| !row.note.is_empty()).collect();
    if !notes.is_empty() {
        text.push('\n');
        for row in notes {
            let _ = writeln!(text, "- {}", row.note);
        }
    }
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
