//! Table of the generator's cost: a section of BENCHMARKS.md.

use super::{Amount, Kind, Reading};
use crate::bench::report::Verdict;
use ringway_lab::machine;
use ringway_lab::statistics::median;
use std::fmt::Write as _;

/// Heading of the section.
pub(super) const HEADING: &str = "## The load generator\n";

/// Maximum multiple of the bare loop's CPU time.
const BARES_MAX: f64 = 1.5;

/// A row of the table.
pub(super) struct Row {
    what: String,
    target: String,
    bare: String,
    sipp: String,
    generator: String,
    pub(super) verdict: Verdict,
}

impl Row {
    /// A row whose measurement failed.
    pub(super) fn failed(what: &str, error: &anyhow::Error) -> Self {
        let row = Self::single(what, "", format!("{error:#}"), false);
        Self { verdict: Verdict::Failed, ..row }
    }

    /// A row without comparison.
    pub(super) fn single(what: &str, target: &str, generator: String, met: bool) -> Self {
        Self {
            what: what.to_owned(),
            target: target.to_owned(),
            bare: String::new(),
            sipp: String::new(),
            generator,
            verdict: if met { Verdict::Met } else { Verdict::Missed },
        }
    }
}

impl Kind {
    /// Name in the table.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Register => "REGISTER",
            Self::Call => "call, both sides",
        }
    }
}

/// Row of the CPU times of bare loop, generator and SIPp.
pub(super) fn compared(kind: Kind, rate: u32, readings: &[Vec<Reading>; 3]) -> Row {
    let [bare, generator, sipp] = readings;
    let us = |readings: &[Reading]| median(readings.iter().filter(|one| one.counts()).map(Reading::us));
    let (bare_us, generator_us, sipp_us) = (us(bare), us(generator), us(sipp));
    let bares = generator_us / bare_us;
    let row = Row::single(
        &format!("CPU for a {} at {rate}/s", kind.words()),
        &format!("≤ {BARES_MAX} × bare"),
        format!("{}, {bares:.2} × bare", cell(generator)),
        bares <= BARES_MAX,
    );
    Row {
        bare: cell(bare),
        sipp: format!("{}, {:.1} × generator", cell(sipp), sipp_us / generator_us),
        ..row
    }
}

fn cell(readings: &[Reading]) -> String {
    let valid = || readings.iter().filter(|one| one.counts()).map(Reading::us);
    let (low, high) =
        valid().fold((f64::INFINITY, 0.0), |(low, high), us| (f64::min(low, us), f64::max(high, us)));
    format!("{:.2} µs ({low:.2}-{high:.2})", median(valid()))
}

/// Renders the section.
pub(super) fn render(
    rows: &[Row],
    amount: Amount,
    is_real_time: bool,
    load: &[String; 2],
    [others, steal]: [f64; 2],
) -> String {
    let priority = if is_real_time { "real-time priority" } else { "ordinary priority" };
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut text = format!(
        "{HEADING}\n\
         Written by `cargo xtask {}`; every figure below was measured in that one run.\n\n\
         - CPU time of the load's own thread (SIPp: of its processes, without start and end) for one attempt, all kernel work of its \
         system calls included. Medians of {} readings of {} s (smallest and largest in brackets), all three in turn. A reading \
         with more than 1 % of failures does not count.\n\
         - Peer: a process on the other processor that answers or relays without looking up anything. Equal intervals between \
         starts; calls ring for 50 ms and last 50 ms. Everything runs with {priority}.\n\
         - Bare loop and generator wait alike: each packet and each start wakes them, unless they are awake; at 3,000/s nearly all do. \
         SIPp wakes up once a millisecond, and starts up to a millisecond late.\n\
         - **bare**: a loop that sends copies of the generator's own packets at the same times with the same system calls, and \
         recognises a response by a letter and its length: no SIP, no state, no retransmission.\n\
         - machine: {}\n\
         - load average before: {}; after: {}; other programs used {others:.0} % of a processor, the hypervisor took \
         {steal:.2} %\n\n\
         | what | must reach | bare | SIPp | generator | |\n|---|---|---|---|---|---|\n",
        command.join(" "),
        amount.rounds,
        amount.seconds,
        machine::description(),
        load[0],
        load[1],
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.what, row.target, row.bare, row.sipp, row.generator, row.verdict
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_multiple_of_the_bare_loop_decides() {
        let reading =
            |us: f64, ended| Reading { cpu_ns: us * 1e5, attempts: 100, ended, lag_p99: Duration::ZERO };
        let of = |generator| {
            compared(Kind::Call, 700, &[vec![reading(10.0, 100)], generator, vec![reading(300.0, 100)]])
        };
        assert_eq!(of(vec![reading(15.0, 100), reading(90.0, 98), reading(15.0, 99)]).verdict, Verdict::Met);
        assert_eq!(of(vec![reading(15.1, 100)]).verdict, Verdict::Missed);
        assert_eq!(of(vec![reading(10.0, 98)]).verdict, Verdict::Missed);
        assert!(of(vec![reading(15.0, 100)]).sipp.ends_with("20.0 × generator"));
    }
}
