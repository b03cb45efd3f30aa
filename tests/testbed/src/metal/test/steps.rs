//! Instructions of each step of a REGISTER with digest in the server of the image (`measure=steps`).
//!
//! With `-icount shift=0,sleep=off` the clock of the timing points counts instructions. Two machines that start apart, each
//! with random keys of its own, must agree in every step.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::{Booted, note};
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};
use ringway_lab::load::Transport;
use ringway_lab::registering::Registering;

pub(super) fn checks() -> Vec<Scenario> {
    vec![Scenario::new("steps", twice)]
}

/// Instructions by step, of a mean message.
type Steps = BTreeMap<String, f64>;

fn twice(stage: &Stage) -> Result<()> {
    Registering::write_users(&stage.path("users.csv"), USERS)?;
    let (first, second) = (one(stage)?, one(stage)?);
    let names: Vec<&str> = first.keys().map(String::as_str).collect();
    ensure!(names == NAMES, "the steps are {names:?}");
    let mut worst: f64 = 0.0;
    for (name, count) in &first {
        let other = second.get(name).copied().with_context(|| format!("the second machine has no {name}"))?;
        ensure!(*count > 0.0, "{name} took no instruction");
        let percent = 100.0 * (count - other).abs() / count;
        note(
            format!("instructions of the step `{name}` of a REGISTER, of both messages with digest"),
            format!("two machines within {PERCENT_MAX} %"),
            format!("{:.0}, {percent:.2} % apart", 2.0 * count),
            percent <= PERCENT_MAX,
        );
        worst = worst.max(percent);
    }
    ensure!(worst <= PERCENT_MAX, "a step of two machines differs by {worst:.2} %: {first:?} and {second:?}");
    let sum: f64 = first.iter().filter(|(name, _)| *name != ALL).map(|(_, count)| count).sum();
    let all = first.get(ALL).copied().unwrap_or_default();
    ensure!((sum - all).abs() < NAMES.len() as f64, "the steps add up to {sum:.0} of {all:.0}");
    Ok(())
}

/// Steps of REGISTERs that refresh a binding: those of the lines after the first thousands, which create it.
fn one(stage: &Stage) -> Result<Steps> {
    let machine = Machine::new(Medium::Kernel).with_options(&["-icount", "shift=0,sleep=off"]);
    let words = "users=users.csv algorithms=MD5 auth=on measure=steps";
    let machine = Booted::serving(&machine, stage, words)?;
    let mut phones = Registering::over((Transport::Udp, None), machine.at.port(), USERS)?;
    phones.run(u64::from(USERS) * ROUNDS, 1, true)?;
    let wanted = usize::try_from(ROUNDS)? * 2 - 1;
    machine.running.wait_until("steps: ", |said| lines(said).len() >= wanted)?;
    let lines = lines(&machine.said());
    let of_refreshes = lines.get(FIRST_LINES..).unwrap_or_default();
    let messages: f64 = of_refreshes.iter().map(|(messages, _)| messages).sum();
    ensure!(messages > 0.0, "the image printed no steps of refreshes");
    let mut steps = Steps::new();
    for (of_line, counts) in of_refreshes {
        for (name, count) in counts {
            *steps.entry(name.clone()).or_default() += count * of_line / messages;
        }
    }
    Ok(steps)
}

/// Lines of REGISTERs: their number of messages, and the steps.
fn lines(said: &str) -> Vec<(f64, Steps)> {
    let read = |line: &str| {
        let (messages, steps) = line.split_once("steps: ")?.1.split_once(" REGISTER: ")?;
        let steps = steps.trim_end().strip_suffix(" cycles")?.split(", ");
        let step = |text: &str| {
            let (name, count) = text.rsplit_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        Some((messages.parse().ok()?, steps.map(step).collect::<Option<Steps>>()?))
    };
    said.lines().filter_map(read).collect()
}

const USERS: u32 = 1000;
/// REGISTERs of each user.
const ROUNDS: u64 = 4;
/// Lines of the messages that create the bindings.
const FIRST_LINES: usize = 3;
const PERCENT_MAX: f64 = 1.0;
/// Name of the whole.
const ALL: &str = "all";
/// Steps in the order of the alphabet.
const NAMES: [&str; 7] = ["add user", ALL, "authenticate", "find user", "format", "parse", "rest"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let said = "x\r\n00:07 steps: 1002 REGISTER: parse 5, find user 60, all 65 cycles\r\nsteps: 9 ACK: parse 1, all 1 cycles\n";
        let read = lines(said);
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].0, read[0].1["find user"], read[0].1["all"]), (1002.0, 60.0, 65.0));
    }
}
