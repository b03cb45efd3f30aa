//! Boot: its time from the start of QEMU to a DHCP lease; files on the TFTP server that are missing, with an error,
//! then valid; provoked faults, which the machine reports with their location before it resets.

use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::Booted;
use crate::interop::{Scenario, Stage};
use crate::machine::{Machine, Medium};
use crate::process::{Process, cpu_s, free_port};
use ringway_lab::statistics::median;

pub(super) fn checks() -> Vec<Scenario> {
    KINDS
        .into_iter()
        .map(|kind| {
            Scenario::new(format!("boot/{}", kind.name), move |stage: &Stage| kind.measure(stage)).alone()
        })
        .collect()
}

/// Boot medium with its time limit.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    medium: Medium,
    tries: u32,
    goal_s: f64,
}

impl Kind {
    /// Measures the boot time. Fails only if QEMU also needed twice the goal in CPU time, because the
    /// computer may be busy.
    fn measure(self, stage: &Stage) -> Result<()> {
        let Self { name, medium, tries, goal_s } = self;
        let mut command = Machine::new(medium).command(&stage.folder, free_port()?, "auth=off")?;
        let (mut times, mut least_s) = (Vec::new(), f64::INFINITY);
        for _ in 0..tries {
            let begun = Instant::now();
            let running = Process::start("machine", &mut command, &stage.folder)?;
            running.wait_for_output("by DHCP from")?;
            times.push(begun.elapsed().as_secs_f64());
            least_s = least_s.min(cpu_s(&running)?);
        }
        times.sort_by(f64::total_cmp);
        let (least, most) =
            (times.first().copied().unwrap_or_default(), times.last().copied().unwrap_or_default());
        let typical = median(times.iter().copied());
        super::note(
            format!("from QEMU's start to the lease of DHCP, {name}"),
            format!("≤ {goal_s} s"),
            format!("{typical:.2} s, median of {tries} ({least:.2} to {most:.2})"),
            typical <= goal_s,
        );
        if typical.min(least_s) > 2.0 * goal_s {
            bail!(
                "{typical:.2} s, and {least_s:.2} s of a processor, are more than twice the goal of {goal_s} s"
            );
        }
        Ok(())
    }
}

pub(super) fn file_checks() -> Vec<Scenario> {
    vec![Scenario::new("files/missing-wrong-right", missing_wrong_right)]
}

/// The machine reports each error and retries, and takes no user of an invalid list.
fn missing_wrong_right(stage: &Stage) -> Result<()> {
    let mut machine = Booted::start(&Machine::new(Medium::Kernel), stage, "users=users.csv auth=on")?;
    said(
        &mut machine,
        "a file that is missing",
        &["users.csv", "there is no such file", "trying again in 10 s"],
    )?;
    let list = stage.path("users.csv");
    std::fs::write(&list, "username,password\nalice,secret-alice\nbob\ncarol,secret-carol\n")?;
    said(&mut machine, "a row without a password", &["users.csv:3:", "nobody of this list is taken"])?;
    if machine.said().contains("ready ") {
        bail!("the machine serves with a wrong list");
    }
    std::fs::write(&list, "username,password\nalice,secret-alice\nbob,secret-bob\n")?;
    said(&mut machine, "the right list", &["users: 2 from"])?;
    machine.running.wait_for_output("ready ")?;
    machine.answers("all of it")
}

/// Waits for a line that contains all these words, with any spacing.
fn said(machine: &mut Booted, what: &str, words: &[&str]) -> Result<()> {
    let words: Vec<String> = words.iter().map(|words| words.replace(' ', "")).collect();
    let has_all = |line: &str| {
        let line = line.replace(' ', "");
        words.iter().all(|word| line.contains(word))
    };
    machine
        .running
        .wait_until(&words.join(" … "), |said| said.lines().any(has_all))
        .with_context(|| what.to_owned())
}

pub(super) fn fault_checks() -> Vec<Scenario> {
    let fault = |(name, exit, words): (&'static str, i32, &'static [&'static str])| {
        let body = move |stage: &Stage| stopped(stage, &format!("fault=stop provoke={name}"), exit, words);
        Scenario::new(format!("faults/{name}"), body)
    };
    let mut all: Vec<Scenario> = FAULTS.into_iter().map(fault).collect();
    all.push(Scenario::new("faults/reset", reset));
    let memory = |stage: &Stage| stopped(stage, "check=memory", 1, &["are as byte by byte"]);
    all.push(Scenario::new("memory-functions", memory));
    all
}

/// Checks that the machine prints these texts and ends QEMU with this exit status.
fn stopped(stage: &Stage, command_line: &str, exit: i32, words: &[&str]) -> Result<()> {
    let machine =
        Machine::new(Medium::Kernel).with_options(&["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]);
    let machine = Booted::start(&machine, stage, command_line)?;
    let status = machine.running.wait()?;
    let said = machine.said();
    for word in words {
        if !said.contains(word) {
            bail!("the machine does not say \"{word}\"");
        }
    }
    if status.code() != Some(exit) {
        bail!("QEMU ended with {status}, and {exit} was expected");
    }
    Ok(())
}

/// Checks that the machine resets after its last message; with `-no-reboot` QEMU then ends.
fn reset(stage: &Stage) -> Result<()> {
    let machine = Booted::start(&Machine::new(Medium::Kernel), stage, "provoke=null")?;
    machine.running.wait_for_output("The machine resets in 3 seconds.")?;
    let begun = Instant::now();
    let status = machine.running.wait()?;
    let waited_s = begun.elapsed().as_secs_f64();
    if !status.success() || waited_s < 2.0 {
        bail!("QEMU ended with {status} after {waited_s:.1} s");
    }
    Ok(())
}

const KINDS: [Kind; 3] = [
    Kind { name: "kernel", medium: Medium::Kernel, tries: 5, goal_s: 0.5 },
    Kind { name: "cd", medium: Medium::Cd, tries: 3, goal_s: 1.5 },
    Kind { name: "usb", medium: Medium::Usb, tries: 3, goal_s: 1.5 },
];
/// Arguments of `provoke` in the image, QEMU's exit status, and expected output.
const FAULTS: [(&str, i32, &[&str]); 9] = [
    ("panic", PANIC, &["panic at ", "src/check.rs:", ": provoked"]),
    ("null", EXCEPTION, &["exception 14 (page fault)", " at rip 0x", "a null pointer", "rax "]),
    ("nothing", EXCEPTION, &["address 0x700000000000 was to be read: there is no memory"]),
    ("text", EXCEPTION, &["was to be written: code is read-only"]),
    ("rodata", EXCEPTION, &["was to be written: constants are read-only"]),
    ("run-data", EXCEPTION, &["was to be run: data is not executable"]),
    ("stack", EXCEPTION, &["stack overflow: guard page"]),
    ("divide", EXCEPTION, &["exception 0 (divide error)", " at rip 0x"]),
    ("memory", PANIC, &["panic at ", "allocation"]),
];
/// `isa-debug-exit` returns `2 * code + 1` of the value that `fault.rs` of the image writes.
const PANIC: i32 = 2 * 0x20 + 1;
const EXCEPTION: i32 = 2 * 0x21 + 1;
